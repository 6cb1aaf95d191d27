"""Secrets that only their surroundings tell: headers, addresses, options of commands, files of credentials. Pure.

Each pattern is tried only in texts that have one of its words, and each is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from backends.redaction.patterns import MARKER, is_mask_at, is_masked, mask

_SCHEMES: Final = (
    "Bearer|Basic|Token|ApiKey|Api-Key|Api-Token|Key|SSWS|GenieKey|Splunk|OAuth|Digest|Negotiate"
    "|Klaviyo-API-Key|DeepL-Auth-Key|Discogs|PVEAPIToken=[^\\s=]{1,80}=|Bot|JWT|MAC"
)
_VALUE: Final = r"(?P<quote>[\"']?)(?P<secret>[^\s\"'`]{3,4096})"
_COMMAND: Final = r"[^\n|;&]{0,400}?\s"
"""From the name of a command to one of its options."""


class _Context(NamedTuple):
    words: tuple[str, ...]
    """One of them is in each text that has the pattern; in small letters."""
    pattern: re.Pattern[str]
    """The group `secret` is masked."""
    is_secret: Callable[[str], bool] = lambda _: True


def _is_opaque(value: str) -> bool:
    """Letters and digits mixed, as in no word and no number."""
    return (
        any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and re.fullmatch(r"[\w.~+/=%:|!$*-]+", value) is not None
    )


def _is_strange(value: str) -> bool:
    """What nobody would write as a last field that is no password."""
    return not value.isdigit() and (not value.isalpha() or len(value) > 7)


def _is_base64_key(value: str) -> bool:
    return bool(re.search(r"\d", value) and re.search("[a-z]", value) and re.search("[A-Z]", value))


def _compiled(pattern: str, flags: int = re.IGNORECASE) -> re.Pattern[str]:
    return re.compile(pattern, flags)


_CONTEXTS: Final = (
    _Context(
        ("authorization",),
        _compiled(
            rf"\b(?:Proxy-)?Authorization\b[\"']?\s{{0,8}}[:=]\s{{0,8}}[\"']?(?:{_SCHEMES})\s{{0,8}}"
            r"(?:username=\"[^\"]*\",.{0,200}?response=\"|(?:[a-z_]{2,12}=\"?))?"
            r"(?P<secret>[A-Za-z0-9._~+/=:-]+)"
        ),
        lambda value: value.lower() not in _SCHEMES.lower().split("|"),
    ),
    _Context(
        ("authorization",),
        _compiled(
            r"\bAuthorization\b[\"']?\s{0,8}:\s{0,8}[\"']?(?P<secret>[A-Za-z0-9._~+/=-]{16,})"
        ),
        _is_opaque,
    ),
    _Context(
        ("signature=", "credential="),
        _compiled(
            r"\bX-Amz-(?:Signature|Security-Token|Credential)=(?P<secret>[A-Za-z0-9%/+=._-]{16,})"
        ),
    ),
    _Context(("bearer",), _compiled(r"\bBearer\s{1,8}(?P<secret>[A-Za-z0-9._~+/-]{18,}={0,2})")),
    _Context(  # scheme://user:password@host
        ("://",),
        _compiled(
            r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@?#\"'<>]{0,128}:"
            r"(?P<secret>[^\s/?#\"'<>]{1,256})(?=@[\w.\[-])"
        ),
    ),
    _Context(  # scheme://token@host
        ("://",),
        _compiled(
            r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<secret>[^\s:/@?#\"'<>]{16,256})(?=@[\w.\[-])"
        ),
        _is_opaque,
    ),
    _Context(
        ("hooks.slack.com",),
        _compiled(
            r"\bhooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_-]{20,})"
        ),
    ),
    _Context(
        ("/api/webhooks/",),
        _compiled(r"\bdiscord(?:app)?\.com/api/webhooks/\d{5,24}/(?P<secret>[A-Za-z0-9_-]{20,})"),
    ),
    _Context(
        ("webhook.office.com", "logic.azure.com"),
        _compiled(r"\bwebhook\.office\.com/webhookb2/(?P<secret>[A-Za-z0-9@/-]{30,})"),
    ),
    _Context(("sig=",), _compiled(r"[?&;]sig=(?P<secret>[A-Za-z0-9%+/=_-]{16,})")),  # Azure
    _Context(
        ("login",),
        _compiled(
            r"\b(?:machine\s{1,8}\S{1,255}|default)\s{1,8}login\s{1,8}\S{1,255}\s{1,8}"
            r"(?:account\s{1,8}\S{1,255}\s{1,8})?password\s{1,8}(?P<secret>\S+)"
        ),
    ),
    _Context(  # .pgpass
        (":",),
        _compiled(
            r"(?<!\S)(?:localhost|\*|[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}):(?:\*|[1-9]\d{3,4})"
            r":[\w*.-]{1,64}:[\w*.-]{1,64}:(?P<secret>[^\s:]{4,128})(?!\S)"
        ),
        _is_strange,
    ),
    _Context(
        ("curl", "http", "wget"),
        _compiled(
            rf"\b(?:curl|https?|xh)\b{_COMMAND}(?:-[a-z]{{0,8}}u|--user|--proxy-user|-U|-a|--auth)[ =]?"
            r"[\"']?[^\s:\"'/]{1,128}:(?P<secret>[^\s\"'/][^\s\"']*)"
        ),
    ),
    _Context(
        ("mysql", "mariadb"),
        _compiled(
            rf"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb(?:-\w+)?)\b{_COMMAND}-p{_VALUE}",
            0,
        ),
    ),
    _Context(("sshpass",), _compiled(rf"\bsshpass\b[^\n|;&]{{0,80}}?\s-p\s{{0,4}}{_VALUE}", 0)),
    _Context(
        ("login",),
        _compiled(
            r"\b(?:docker|podman|nerdctl|buildah|skopeo|helm(?:\s+registry)?|az|oc|nomad|cf|heroku|crane)"
            rf"\s{{1,4}}(?:registry\s{{1,4}})?login\b{_COMMAND}-p\s{{0,4}}=?{_VALUE}",
            0,
        ),
    ),
    _Context(("--creds",), _compiled(r"--creds[ =][\"']?[^\s:\"']{1,128}:(?P<secret>[^\s\"']+)")),
    _Context(
        ("redis-cli",), _compiled(rf"\bredis-cli\b{_COMMAND}(?:-a|--pass)\s{{1,4}}{_VALUE}", 0)
    ),
    _Context(("ldap",), _compiled(rf"\bldap\w{{2,12}}\b{_COMMAND}-w\s{{0,4}}{_VALUE}", 0)),
    _Context(
        ("htpasswd",),
        _compiled(
            rf"\bhtpasswd\s{{1,4}}-\w{{0,6}}b\w{{0,6}}\s{{1,4}}\S{{1,255}}\s{{1,4}}\S{{1,255}}\s{{1,4}}{_VALUE}",
            0,
        ),
    ),
    _Context(
        ("smb", "rpcclient", "mount.cifs"),
        _compiled(
            rf"\b(?:smbclient|smbget|rpcclient|mount\.cifs)\b{_COMMAND}-U\s{{0,4}}[\"']?[^\s%\"']{{1,128}}%(?P<secret>[^\s\"']+)",
            0,
        ),
    ),
    _Context(("pass:",), _compiled(r"-(?:passin|passout|pass|k)\s{1,4}pass:(?P<secret>[^\s\"']+)")),
    _Context(
        ("sudo",),
        _compiled(
            r"\becho\s{1,4}(?:-n\s{1,4})?(?P<quote>[\"']?)(?P<secret>[^\s\"'|]{4,128})(?P=quote)\s{0,4}\|\s{0,4}sudo\s{1,4}-S\b"
        ),
    ),
    _Context(
        ("net use",),
        _compiled(
            r"\bnet\s{1,4}use\b[^\n]{0,200}?/user:\S{1,128}\s{1,4}(?P<secret>[^\s/]\S{3,127})"
        ),
    ),
    _Context(
        ("_pass", "psk"),
        _compiled(
            r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,30}_){1,6}PASS\b[\"']?\s{0,4}[=:]\s{0,4}[\"']?(?P<secret>[^\s\"'`;,$({<]{4,256})"
        ),
    ),
    _Context(
        ("psk",), _compiled(r"(?<![\w-])psk=(?P<quote>[\"']?)(?P<secret>[^\s\"']{8,64})(?P=quote)")
    ),
    _Context(
        ("auth",),
        _compiled(
            r"(?<![A-Za-z0-9])_?auth[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>[A-Za-z0-9+/]{12,}={0,2})(?![\w.(\[])"
        ),
        lambda value: _is_base64_key(value) or value.endswith("="),
    ),
    _Context(  # Rails
        ("secret_key_base",),
        _compiled(r"\bsecret_key_base[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>[A-Za-z0-9]{30,})"),
    ),
    _Context(
        ("client-key-data",),
        _compiled(r"\bclient-key-data[\"']?\s{0,4}:\s{0,4}[\"']?(?P<secret>[A-Za-z0-9+/=]{16,})"),
    ),
    _Context(
        ("privatekey", "presharedkey"),
        _compiled(r"\b(?:PrivateKey|PresharedKey)\s{0,4}=\s{0,4}(?P<secret>[A-Za-z0-9+/]{42,43}=)"),
    ),
    _Context(
        ("define",),
        _compiled(
            r"\bdefine\(\s{0,4}[\"']\w{0,40}(?:KEY|SALT|PASSWORD|SECRET)[\"']\s{0,4},\s{0,4}(?P<quote>[\"'])(?P<secret>[^\n\"']{4,200})(?P=quote)"
        ),
    ),
    _Context(
        ("secret=",),
        _compiled(r"\botpauth://[^\s\"'<>]{1,300}?[?&]secret=(?P<secret>[A-Z2-7]{16,})"),
    ),
)
_PUTTY: Final = re.compile(
    r"(?P<lead>\bPrivate-Lines:\s{1,4}\d{1,4}\s{1,4})"
    r"(?:[A-Za-z0-9+/=]{64}\s{1,4}){0,400}[A-Za-z0-9+/=]{8,64}(?=\s|\Z)"
)
_COOKIES: Final = re.compile(
    r"(?:\b(?:Set-)?Cookie\b[\"']?\s{0,8}:|(?<!\S)--cookie[ =])[^\n]*", re.IGNORECASE
)
_COOKIE: Final = re.compile(r"=(?P<secret>[A-Za-z0-9._~+/%!*|:-]{8,}={0,2})")
_AMAZON_ID: Final = re.compile(r"(?<![A-Z0-9])A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9])")
_AMAZON_SECRET: Final = re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_NEARBY: Final = 200


def redact_contexts(text: str) -> str:
    """Masks what stands where secrets stand. To be called before tokens are masked by their shape."""
    lower = text.lower()
    if "akia" in lower or "asia" in lower:
        text = _without_amazon_secrets(text)
    if "private-lines" in lower:
        text = _PUTTY.sub(lambda match: f"{match['lead']}{MARKER}", text)
    if "cookie" in lower:
        text = _COOKIES.sub(lambda line: _COOKIE.sub(_masked_cookie, line[0]), text)
    for context in _CONTEXTS:
        if any(word in lower for word in context.words):
            text = context.pattern.sub(_replacing(context), text)
    return text


def _replacing(context: _Context) -> Callable[[re.Match[str]], str]:
    def replace(match: re.Match[str]) -> str:
        secret = match["secret"]
        if (
            is_masked(secret)
            or is_mask_at(match.string, match.start("secret"))
            or secret.startswith(("$", "{", "%7B", "<", "%("))
            or not context.is_secret(secret)
        ):
            return match[0]
        begin, end = match.start("secret") - match.start(), match.end("secret") - match.start()
        return match[0][:begin] + mask(secret) + match[0][end:]

    return replace


def _masked_cookie(match: re.Match[str]) -> str:
    return f"={mask(match['secret'])}" if _is_opaque(match["secret"]) else match[0]


def _without_amazon_secrets(text: str) -> str:
    """The secret stands within some words of its id, which says which of many such strings is one."""
    places = [
        (max(0, one.start() - _NEARBY), one.end() + _NEARBY) for one in _AMAZON_ID.finditer(text)
    ]
    if not places:
        return text

    def near(match: re.Match[str]) -> str:
        is_near = any(begin <= match.start() <= end for begin, end in places)
        return mask(match[0]) if is_near and _is_base64_key(match[0]) else match[0]

    return _AMAZON_SECRET.sub(near, text)
