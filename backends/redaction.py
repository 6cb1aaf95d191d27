"""Redaction of secrets in text before it is stored, in four passes: blocks of private keys, typical contexts (headers,
URLs, options of commands, files of credentials), the shapes of tokens that vendors document, and assignments to names
of secrets. Prose stays as it was written. Pure.

Each pattern of a context is tried only in texts that contain one of its words, and each is linear.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, NamedTuple

REDACTION_VERSION: Final = 2
"""Increases whenever the same text is masked differently, so that what was stored is made anew."""


def redact(text: str) -> str:
    """Returns the text with secrets masked.

    What is masked already stays as it is, so redacting twice is redacting once. Linear in the length.
    """
    return redact_assignments(redact_shapes(redact_contexts(redact_private_keys(text))))


SHORT: Final = "***"
_LEAST_SHOWN: Final = 18
_HEAD: Final = 6
_TAIL: Final = 4
_MASKED: Final = re.compile(rf"[*]+|.{{{_HEAD}}}….{{{_TAIL}}}", re.DOTALL)
MARKER: Final = "…redacted…"
"""Replaces a block of several lines."""


def mask(secret: str) -> str:
    """Masks a secret as documented: below 18 characters nothing is left, else the first six and the last four."""
    if len(secret) < _LEAST_SHOWN:
        return SHORT
    return f"{secret[:_HEAD]}…{secret[-_TAIL:]}"


def is_masked(text: str) -> bool:
    return _MASKED.fullmatch(text) is not None


def is_mask_at(text: str, start: int) -> bool:
    """Returns whether the mask of a long secret begins here; its ellipsis is in no pattern of a secret."""
    return text[start + _HEAD : start + _HEAD + 1] == "…"


# --- Private keys ---------------------------------------------------------------------------------

_BEGIN: Final = re.compile(r"-----BEGIN (?P<name>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----")


def redact_private_keys(text: str) -> str:
    parts = []
    done = 0
    while begin := _BEGIN.search(text, done):
        closing = f"-----END {begin['name']}-----"
        end = text.find(closing, begin.end())
        body = text[begin.end() : end if end >= 0 else len(text)]
        separator = "\n" if "\n" in body else " "
        parts += [text[done : begin.end()], separator, MARKER]
        if end < 0:
            return "".join(parts)
        parts += [separator, closing]
        done = end + len(closing)
    return "".join((*parts, text[done:]))


# --- Contexts -------------------------------------------------------------------------------------

_SCHEMES: Final = (
    "Bearer|Basic|Token|ApiKey|Api-Key|Api-Token|Key|SSWS|GenieKey|Splunk|OAuth|Digest|Negotiate"
    "|Klaviyo-API-Key|DeepL-Auth-Key|AccessKey|Client-ID|Discogs|PVEAPIToken=[^\\s=]{1,80}=|Bot|JWT|MAC"
)
_VALUE: Final = r"(?P<quote>[\"']?)(?P<secret>[^\s\"'`]{3,4096})"
_QUOTE: Final = r"\\{0,7}[\"'`]?"
"""A quote, which in JSON within JSON is preceded by backslashes."""
_COMMAND: Final = r"[^\n|;&]{0,400}?\s"
"""From the name of a command to one of its options."""


class _Context(NamedTuple):
    words: tuple[str, ...]
    """One of them is in each text that matches the pattern; in lower case."""
    pattern: re.Pattern[str]
    """Its group `secret` is masked."""
    is_secret: Callable[[str], bool]


def _is_opaque(value: str) -> bool:
    """Returns whether letters and digits are mixed, unlike in words and numbers."""
    return (
        any(map(str.isdigit, value))
        and any(map(str.isalpha, value))
        and re.fullmatch(r"[\w.~+/=%:|!$*-]+", value) is not None
    )


def _is_strange(value: str) -> bool:
    """Returns whether a last field is probably a password: nobody would write such a value otherwise."""
    return not value.isdigit() and (not value.isalpha() or len(value) > 7)


def _has_run(value: str) -> bool:
    """Returns whether a run mixes letters and digits, unlike a word, name or date, and is not a call in a program."""
    return "(" not in value and any(len(run) >= 7 for run in _MIXED_RUN.findall(value))


def _is_base64_key(value: str) -> bool:
    return bool(re.search(r"\d", value) and re.search("[a-z]", value) and re.search("[A-Z]", value))


def _context(
    words: tuple[str, ...],
    pattern: str,
    is_secret: Callable[[str], bool] = lambda _: True,
    *,
    flags: int = re.IGNORECASE,
) -> _Context:
    return _Context(words, re.compile(pattern, flags), is_secret)


_CONTEXTS: Final = (
    _context(
        ("authorization",),
        rf"\b(?:Proxy-)?Authorization\b{_QUOTE}\s{{0,8}}[:=,]\s{{0,8}}f?{_QUOTE}(?:{_SCHEMES})\s{{0,8}}"
        r"(?:username=\"[^\"]*\",.{0,200}?response=\"|(?:[a-z_]{2,12}=\"?))?"
        r"(?P<secret>[A-Za-z0-9._~+/=:-]+)",
        lambda value: value.lower() not in _SCHEMES.lower().split("|"),
    ),
    _context(
        ("authorization",),
        rf"\bAuthorization\b{_QUOTE}\s{{0,8}}:\s{{0,8}}{_QUOTE}(?P<secret>[A-Za-z0-9._~+/=-]{{16,}})",
        _is_opaque,
    ),
    _context(
        ("signature=", "credential="),
        r"(?:\bX-(?:Amz|Goog)-(?:Signature|Security-Token|Credential)|[?&;]Signature)"
        r"=(?P<secret>[A-Za-z0-9%/+=._-]{16,})",
    ),
    _context(("bearer",), r"\bBearer\s{1,8}(?P<secret>[A-Za-z0-9._~+/-]{18,}={0,2})"),
    _context(  # scheme://user:password@host
        ("://",),
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@?#\"'<>]{0,128}:"
        r"(?P<secret>[^\s/?#\"'<>]{1,256})(?=@[\w.\[-])",
    ),
    _context(  # the same without percent-encoding; not a port
        ("://",),
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@?#\"'<>\[]{1,128}:(?!\d{1,5}[/?#])"
        r"(?P<secret>[^\s\"'<>@]{1,256})(?=@[\w.\[-])",
    ),
    _context(  # scheme://token@host
        ("://",),
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://(?P<secret>[^\s:/@?#\"'<>]{16,256})(?=@[\w.\[-])",
        _is_opaque,
    ),
    _context(
        ("hooks.slack.com",),
        r"\bhooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9/_-]{20,})",
    ),
    _context(
        ("/api/webhooks/",),
        r"\bdiscord(?:app)?\.com/api/webhooks/\d{5,24}/(?P<secret>[A-Za-z0-9_-]{20,})",
    ),
    _context(
        ("webhook.office.com", "logic.azure.com"),
        r"\bwebhook\.office\.com/webhookb2/(?P<secret>[A-Za-z0-9@/-]{30,})",
    ),
    _context(("sig=",), r"[?&;]sig=(?P<secret>[A-Za-z0-9%+/=_-]{16,})"),  # Azure
    _context(
        ("login",),
        r"\b(?:machine\s{1,8}\S{1,255}|default)\s{1,8}login\s{1,8}\S{1,255}\s{1,8}"
        r"(?:account\s{1,8}\S{1,255}\s{1,8})?password\s{1,8}(?P<secret>\S+)",
    ),
    _context(  # .pgpass
        (":",),
        r"(?<!\S)(?:localhost|\*|[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}):(?:\*|[1-9]\d{3,4})"
        r":[\w*.-]{1,64}:[\w*.-]{1,64}:(?P<secret>[^\s:]{4,128})(?!\S)",
        _is_strange,
    ),
    _context(
        ("curl", "http", "wget"),
        rf"\b(?:curl|https?|xh)\b{_COMMAND}(?:-[a-z]{{0,8}}u|--user|--proxy-user|-U|-a|--auth)[ =]?"
        r"[\"']?[^\s:\"'/]{1,128}:(?P<secret>[^\s\"'/][^\s\"']*)",
    ),
    _context(
        ("mysql", "mariadb"),
        rf"\b(?:mysql|mysqldump|mysqladmin|mysqlimport|mariadb(?:-\w+)?)\b{_COMMAND}-p{_VALUE}",
        flags=0,
    ),
    _context(("7z",), rf"\b7z[a-z]{{0,2}}\b{_COMMAND}-p{_VALUE}", flags=0),
    _context(("sshpass",), rf"\bsshpass\b[^\n|;&]{{0,80}}?\s-p\s{{0,4}}{_VALUE}", flags=0),
    _context(
        ("login",),
        r"\b(?:docker|podman|nerdctl|buildah|skopeo|helm(?:\s+registry)?|az|oc|nomad|cf|heroku|crane)"
        rf"\s{{1,4}}(?:registry\s{{1,4}})?login\b{_COMMAND}-p\s{{0,4}}=?{_VALUE}",
        flags=0,
    ),
    _context(("--creds",), r"--creds[ =][\"']?[^\s:\"']{1,128}:(?P<secret>[^\s\"']+)"),
    _context(("redis-cli",), rf"\bredis-cli\b{_COMMAND}(?:-a|--pass)\s{{1,4}}{_VALUE}", flags=0),
    _context(("ldap",), rf"\bldap\w{{2,12}}\b{_COMMAND}-w\s{{0,4}}{_VALUE}", flags=0),
    _context(
        ("htpasswd",),
        rf"\bhtpasswd\s{{1,4}}-\w{{0,6}}b\w{{0,6}}\s{{1,4}}\S{{1,255}}\s{{1,4}}\S{{1,255}}\s{{1,4}}{_VALUE}",
        flags=0,
    ),
    _context(
        ("smb", "rpcclient", "mount.cifs"),
        rf"\b(?:smbclient|smbget|rpcclient|mount\.cifs)\b{_COMMAND}"
        rf"-U\s{{0,4}}[\"']?[^\s%\"']{{1,128}}%(?P<secret>[^\s\"']+)",
        flags=0,
    ),
    _context(("pass:",), r"-(?:passin|passout|pass|k)\s{1,4}pass:(?P<secret>[^\s\"']+)"),
    _context(
        ("sudo",),
        r"\becho\s{1,4}(?:-n\s{1,4})?(?P<quote>[\"']?)(?P<secret>[^\s\"'|]{4,128})(?P=quote)"
        r"\s{0,4}\|\s{0,4}sudo\s{1,4}-S\b",
    ),
    _context(
        ("net use",),
        r"\bnet\s{1,4}use\b[^\n]{0,200}?/user:\S{1,128}\s{1,4}(?P<secret>[^\s/]\S{3,127})",
    ),
    _context(
        ("_pass", "psk"),
        r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]{1,30}_){1,6}PASS\b"
        r"[\"']?\s{0,4}[=:]\s{0,4}[\"']?(?P<secret>[^\s\"'`;,$({<]{4,256})",
    ),
    _context(("psk",), r"(?<![\w-])psk=(?P<quote>[\"']?)(?P<secret>[^\s\"']{8,64})(?P=quote)"),
    _context(
        ("auth",),
        r"(?<![A-Za-z0-9])_?auth[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>[A-Za-z0-9+/]{12,}={0,2})(?![\w.(\[])",
        lambda value: (
            _is_base64_key(value) or value.endswith("=") or sum(map(str.isupper, value)) > 5
        ),
    ),
    _context(
        ("pass",),
        r"(?<![\w-])[\"']?pass[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>[^\s\"'&]{6,256})",
        _has_run,
    ),
    _context(
        ("kty",), r"[\"'][dk][\"']\s{0,4}:\s{0,4}[\"'](?P<secret>[A-Za-z0-9_-]{40,})", flags=0
    ),
    _context(("identified",), r"\bIDENTIFIED\s{1,4}BY\s{1,4}'(?P<secret>[^\n']{4,256})'"),
    _context(  # other ways to give a name its value
        ("key", "token", "secret", "pass"),
        r"(?:passw(?:or)?d|passphrase|secret|token|(?:api|secret|access|private|auth)[ _-]?key)"
        rf"(?:\*\*)?{_QUOTE}(?:"
        r"\s{1,8}\|\s{1,8}"  # a row of a table
        r"|\s{0,4}(?:,|\]\s{0,4}=)\s{0,8}(?=[\"'])"  # arguments of a call, environ["API_KEY"] = "..."
        r"|>\s{0,8}"  # <password>...</password>
        rf"|,?\s{{1,40}}{_QUOTE}value{_QUOTE}\s{{0,4}}[:=]\s{{0,4}}"  # name: ..., value: ...
        r"|:\s{0,4}(?:[|>][+-]?\s{0,4})?\n\s{1,40}"  # YAML
        r"|\s{1,4}(?:is\s{1,4})?"  # ENV API_TOKEN ..., setx, npm config set
        rf"){_QUOTE}(?P<secret>[^\s\"'`|<>,;\\]{{6,4096}})",
        _has_run,
    ),
    _context(  # Rails
        ("secret_key_base",),
        r"\bsecret_key_base[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<secret>[A-Za-z0-9]{30,})",
    ),
    _context(
        ("client-key-data",),
        r"\bclient-key-data[\"']?\s{0,4}:\s{0,4}[\"']?(?P<secret>[A-Za-z0-9+/=]{16,})",
    ),
    _context(
        ("privatekey", "presharedkey"),
        r"\b(?:PrivateKey|PresharedKey)\s{0,4}=\s{0,4}(?P<secret>[A-Za-z0-9+/]{42,43}=)",
    ),
    _context(
        ("define",),
        r"\bdefine\(\s{0,4}[\"']\w{0,40}(?:KEY|SALT|PASSWORD|SECRET)[\"']\s{0,4},"
        r"\s{0,4}(?P<quote>[\"'])(?P<secret>[^\n\"']{4,200})(?P=quote)",
    ),
    _context(
        ("secret=",),
        r"\botpauth://[^\s\"'<>]{1,300}?[?&]secret=(?P<secret>[A-Z2-7]{16,})",
    ),
)
_PUTTY: Final = re.compile(
    r"(?P<lead>\bPrivate-Lines:\s{1,4}\d{1,4}\s{1,4})"
    r"(?:[A-Za-z0-9+/=]{64}\s{1,4}){0,400}[A-Za-z0-9+/=]{8,64}(?=\s|\Z)"
)
_COOKIES: Final = re.compile(
    r"(?:\b(?:Set-)?Cookie\b[\"']?\s{0,8}[:=]|(?<!\S)--cookie[ =]|\bcurl\b[^\n|;&]{0,400}?\s-b\s)[^\n]*",
    re.IGNORECASE,
)
_COOKIE: Final = re.compile(r"=(?P<secret>[A-Za-z0-9._~+/%!*|:-]{8,}={0,2})")
_AMAZON_ID: Final = re.compile(r"(?<![A-Z0-9])A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9])")
_AMAZON_SECRET: Final = re.compile(r"(?<![A-Za-z0-9/+=])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_NEARBY: Final = 200


def redact_contexts(text: str) -> str:
    """Masks secrets by what surrounds them. To be called before tokens are masked by their shape."""
    lower = text.lower()
    if "akia" in lower or "asia" in lower:
        text = _without_amazon_secrets(text)
    if "private-lines" in lower:
        text = _PUTTY.sub(lambda match: f"{match['lead']}{MARKER}", text)
    if "cookie" in lower or "curl" in lower:
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
    """Masks secrets near an access key id of Amazon, which shows which of many such strings is a secret."""
    places = [
        (max(0, one.start() - _NEARBY), one.end() + _NEARBY) for one in _AMAZON_ID.finditer(text)
    ]
    if not places:
        return text

    def near(match: re.Match[str]) -> str:
        is_near = any(begin <= match.start() <= end for begin, end in places)
        return mask(match[0]) if is_near and _is_base64_key(match[0]) else match[0]

    return _AMAZON_SECRET.sub(near, text)


# --- Shapes ---------------------------------------------------------------------------------------

_HEADER: Final = r"eyJ(?:[A-Za-z0-9_]|-(?!eyJ)){8,}"
"""The header of a JSON Web Token; it ends where another one may begin, so that no place is looked at twice."""
_FORMS: Final = (
    # models and related services
    r"sk-[A-Za-z0-9_-]{8,}",  # OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse and many more
    r"pk-lf-[a-f0-9-]{36}",  # Langfuse
    r"gsk_[A-Za-z0-9_-]{10,}",  # Groq
    r"AIza[A-Za-z0-9_-]{20,}",  # Google
    r"pplx-[A-Za-z0-9_-]{10,}",
    r"xai-[A-Za-z0-9_-]{20,}",
    r"nvapi-[A-Za-z0-9_-]{20,}",
    r"r8_[A-Za-z0-9]{30,}",  # Replicate
    r"tvly-[A-Za-z0-9_-]{20,}",
    r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}",  # LangSmith
    r"csk-[a-z0-9]{40,}",  # Cerebras
    r"jina_[A-Za-z0-9_-]{40,}",
    r"pcsk_[A-Za-z0-9_]{40,}",  # Pinecone
    r"rpa_[A-Z0-9]{30,}[a-z0-9]*",  # RunPod
    r"tgp_v1_[A-Za-z0-9_-]{30,}",  # Together
    r"esecret_[A-Za-z0-9]{20,}",  # Anyscale
    r"fc-[a-f0-9]{32}",  # Firecrawl
    r"hf_[A-Za-z0-9]{20,}",
    r"api_org_[A-Za-z0-9]{30,}",  # Hugging Face
    r"sk_[a-f0-9]{40,}",  # ElevenLabs
    r"AQ\.Ab[A-Za-z0-9_-]{40,}",  # Google
    r"wandb_v1_[A-Za-z0-9_]{40,}",
    r"KGAT_[a-f0-9]{32}",  # Kaggle
    r"e2b_[a-f0-9]{40}",
    r"ctx7sk-[a-f0-9-]{36}",
    # code hosting and builds
    r"gh[opusr]_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[A-Za-z0-9_.-]{16,}",
    r"GR1348941[A-Za-z0-9_-]{20,}",  # GitLab
    r"ATBB[A-Za-z0-9]{24,}",  # Bitbucket
    r"AT(?:ATT|CTT)3[A-Za-z0-9_=-]{60,}",  # Atlassian
    r"ATTA[a-f0-9]{60,}",  # Trello
    r"npm_[A-Za-z0-9]{10,}",
    r"pypi-[A-Za-z0-9_-]{40,}",
    r"oy2[a-z0-9]{43}",  # NuGet
    r"rubygems_[a-f0-9]{48}",
    r"CLOJARS_[A-Za-z0-9]{60}",
    r"dckr_[op]at_[A-Za-z0-9_-]{20,}",
    r"AKCp[A-Za-z0-9]{60,}",  # JFrog
    r"cmVmdGtu[A-Za-z0-9]{40,}",  # JFrog
    r"CCIPAT_[A-Za-z0-9]{20,}_[a-f0-9]{40}",  # CircleCI
    r"bkua_[a-f0-9]{40}",  # Buildkite
    r"sq[upa]_[a-f0-9]{40}",  # Sonar
    r"pul-[a-f0-9]{40}",  # Pulumi
    r"pnu_[A-Za-z0-9]{36}",  # Prefect
    r"API-[A-Z0-9]{25,32}",  # Octopus
    # clouds
    r"A(?:KIA|SIA|ROA|IDA)[A-Z0-9]{16}(?![A-Z0-9])",  # Amazon
    r"ABSK[A-Za-z0-9+/]{80,}={0,2}",  # Amazon Bedrock
    r"ya29\.[A-Za-z0-9_-]{20,}",  # Google
    r"1//0[A-Za-z0-9_-]{40,}",  # Google
    r"GOCSPX-[A-Za-z0-9_-]{20,}",
    r"[A-Za-z0-9]{52}JQQJ9[9D][A-Za-z0-9]{20,30}",  # Azure
    r"[A-Za-z0-9_~.]{3}\dQ~[A-Za-z0-9_~.-]{31,34}",  # Microsoft Entra
    r"LTAI[A-Za-z0-9]{12,}",  # Alibaba
    r"AKID[A-Za-z0-9]{13,}",  # Tencent
    r"do[opr]_v1_[a-f0-9]{40,}",  # DigitalOcean
    r"dapi[a-f0-9]{32,}",  # Databricks
    r"hv[sbr]\.[A-Za-z0-9_-]{20,}",  # Vault
    r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}",  # Terraform
    r"v1\.0-[a-f0-9]{24}-[a-f0-9]{100,}",  # Cloudflare
    r"HRKU-[A-Za-z0-9_-]{30,}",  # Heroku
    r"fm[12][ar]?_[A-Za-z0-9+/=_-]{60,}",  # Fly
    r"fo1_[A-Za-z0-9_-]{40,}",  # Fly
    r"rnd_[A-Za-z0-9]{28,}",  # Render
    r"nf[pcou]_[A-Za-z0-9]{36}",  # Netlify
    r"sbp_[a-f0-9]{40}",  # Supabase
    r"sb_secret_[A-Za-z0-9_-]{20,}",  # Supabase
    r"pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,}",
    r"napi_[a-z0-9]{50,}",  # Neon
    r"vc[aikpr]_[A-Za-z0-9]{40,}",  # Vercel
    r"mdb_sa_sk_[A-Za-z0-9_-]{40,}",  # MongoDB
    r"AVNS_[A-Za-z0-9_-]{18,}",  # Aiven
    r"AQVN[A-Za-z0-9_-]{34,}",  # Yandex
    r"y0_[A-Za-z0-9_-]{50,}",  # Yandex
    # monitoring
    r"glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}",  # Grafana
    r"glc_[A-Za-z0-9+/]{32,}={0,3}",  # Grafana
    r"eyJrIjoi[A-Za-z0-9]{60,}={0,2}",  # Grafana
    r"sntry[su]_[A-Za-z0-9+/=_-]{40,}",
    r"NR(?:AK|II|JS|RA|IQ|SP)-[A-Za-z0-9_-]{20,}",  # New Relic
    r"[a-f0-9]{36}NRAL",  # New Relic
    r"dt0c01\.[A-Z0-9]{24}\.[A-Z0-9]{64}",  # Dynatrace
    r"hc[abx]{1,2}[il]k_[a-z0-9]{50,}",  # Honeycomb
    r"ph[cxs]_[A-Za-z0-9]{40,}",  # PostHog
    r"sgp_[A-Za-z0-9_]{40,}",  # Segment, Sourcegraph
    # messages and mail
    r"xox[abeoprs](?:\.xox[bp])?-[A-Za-z0-9-]{10,}",
    r"xapp-[A-Za-z0-9-]{10,}",
    r"(?<!::)(?<!-\d:)(?:bot)?\d{6,}:[A-Za-z0-9_-]{20,}",  # Telegram; not an account in an Amazon ARN
    r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",  # Discord
    r"SK[a-f0-9]{32}",  # Twilio
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
    r"key-[a-f0-9]{32}",  # Mailgun
    r"[a-f0-9]{32}-us\d{1,2}",  # Mailchimp
    r"re_[A-Za-z0-9]{6,12}_[A-Za-z0-9]{20,28}",  # Resend
    r"x(?:keysib|smtpsib)-[a-f0-9]{64}-[A-Za-z0-9]{16}",  # Brevo
    r"mlsn\.[a-f0-9]{64}",  # MailerSend
    # shops and payments
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}",  # Stripe
    r"whsec_[A-Za-z0-9+/=]{16,}",
    r"shp(?:at|ca|pa|ss|ua)_[a-fA-F0-9]{32,}",  # Shopify
    r"EAAA[A-Za-z0-9_-]{56,}",  # Square
    r"sq0[a-z]{3}-[A-Za-z0-9_-]{20,}",  # Square
    r"access-(?:sandbox|development|production)-[a-f0-9-]{36}",  # Plaid
    r"EZ[AT]K[A-Za-z0-9]{54}",  # EasyPost
    r"duffel_(?:live|test)_[A-Za-z0-9_=-]{43}",
    r"shippo_(?:live|test)_[a-fA-F0-9]{40}",
    r"polar_[a-z]{2,4}_[A-Za-z0-9]{30,}",
    r"pdl_[a-z]{4}_apikey_[A-Za-z0-9_]{40,}",  # Paddle
    r"FLWSECK(?:_TEST)?-[A-Za-z0-9-]{12,}",  # Flutterwave
    # other services
    r"secret_[A-Za-z0-9]{43}",  # Notion
    r"ntn_[A-Za-z0-9]{20,}",
    r"lin_(?:api|oauth)_[A-Za-z0-9]{20,}",
    r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",  # Airtable
    r"pat-(?:na|eu|ap)\d-[a-f0-9-]{36}",  # HubSpot
    r"pat\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}",  # Harness
    r"fig[dour]{1,2}_[A-Za-z0-9_-]{30,}",  # Figma
    r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}",  # Postman
    r"sl\.(?:u\.)?[A-Za-z0-9_-]{60,}",  # Dropbox
    r"CFPAT-[A-Za-z0-9_-]{40,}",  # Contentful
    r"tfp_[A-Za-z0-9_.=-]{40,}",  # Typeform
    r"[sp]k\.eyJ[A-Za-z0-9_-]{40,}\.[A-Za-z0-9_-]{20,}",  # Mapbox
    r"fio-u-[A-Za-z0-9_=-]{60,}",  # Frame.io
    r"rdme_[a-z0-9]{60,}",
    r"(?:sdk|mob|api)-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}",  # LaunchDarkly
    r"tk-us-[A-Za-z0-9_-]{48}",  # Scalingo
    r"EAA[A-Z][A-Za-z0-9]{90,}",  # Meta
    r"A{22}[A-Za-z0-9%]{60,}",  # X
    # keys and stores of secrets
    r"tskey-[a-z]{3,12}-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}",  # Tailscale
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}",  # Doppler
    r"ops_eyJ[A-Za-z0-9+/=_-]{100,}",  # 1Password
    r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",  # 1Password
    r"[t-z]prv[A-Za-z0-9]{90,}",  # BIP 32
    r"nsec1[a-z0-9]{58}",  # Nostr
    r"LS0tLS1CRUdJTiB(?:QUklW|SU0EgUFJJ|FQyBQ|PUEVO|FTkNS)[A-Za-z0-9+/=]{40,}",  # -----BEGIN ... PRIVATE KEY
    r"v[1-4]\.local\.[A-Za-z0-9_-]{40,}",  # PASETO
    rf"{_HEADER}\.[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]{{10,}}){{3}}",  # JSON Web Encryption
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    rf"{_HEADER}\.eyJ[A-Za-z0-9_-]{{8,}}(?:\.[A-Za-z0-9_-]*)?",  # JSON Web Token
)
_MIXED_FORMS: Final = (
    # Prefixes that words have, too: the rest contains digits, lower-case and upper-case letters.
    r"(?:pa|al)-[A-Za-z0-9_-]{40,64}",  # Voyage
    r"fw_[A-Za-z0-9]{22,32}",  # Fireworks
    r"a[ks]-[A-Za-z0-9]{22}",  # Modal
    r"BSA[A-Za-z0-9_-]{24,32}",  # Brave
    r"cio[A-Za-z0-9]{32}",  # crates.io
)
_CHARACTERS: Final = r"A-Za-z0-9_.:~+/=%\-"
_LEAST: Final = 11
_RUN: Final = re.compile(
    rf"(?P<lead>(?<=\\)(?:[nrt]|u00[0-9a-f]{{2}})|(?<=\x1b\[)[0-9;]{{1,12}}m)?(?P<run>[{_CHARACTERS}]{{{_LEAST},}})"
)
"""A run, after an escaped line break of JSON or a colour code, which is not part of it."""
_TOKEN: Final = re.compile(
    rf"(?:(?<![A-Za-z0-9_])|(?<=%[0-9A-Fa-f]{{2}}))(?:{'|'.join(_FORMS)}"
    rf"|(?P<mixed>(?<![+=])(?:{'|'.join(_MIXED_FORMS)})(?![A-Za-z0-9+/=])))"
)
_MIXED: Final = re.compile(r"(?=.*\d)(?=.*[a-z].*[a-z])(?=.*[A-Z].*[A-Z])")


def redact_shapes(text: str) -> str:
    """Masks everything that has one of the shapes."""
    return _RUN.sub(lambda run: (run["lead"] or "") + _TOKEN.sub(_masked_shape, run["run"]), text)


def _masked_shape(match: re.Match[str]) -> str:
    token = match[0]
    if match["mixed"] is not None and not _MIXED.match(token[3:]):
        return token
    return mask(token)


# --- Assignments ----------------------------------------------------------------------------------

_PLACEHOLDER: Final = re.compile(
    r"[x.*_-]+|\$\{[^}]*\}|(?-i:\$[A-Z_][A-Z0-9_]*)|\$?\([^)]*\)|<[\w-]*>?|\{.*\}|%\w+%?"
    r"|\[[^\]]*\]|none|null|nil|true|false|undefined|yes|no|unknown|required|optional|string|str"
    r"|value|text|bytes|int|any|changed?|here|below|above|env(?:ironment)?|redacted|example"
    r"|(?:your|my)[-_][\w-]*|change[-_]?me|[a-z]{2,6}[-_]",
    re.IGNORECASE | re.DOTALL,
)
_CODE: Final = re.compile(
    r"[{\[(]|(?:self|os|process|config|settings|env)\.[A-Za-z_]"
    r"|(?:[A-Za-z_]{1,40}\.){0,4}[A-Za-z_]{2,40}(?:\[|\((?:[\"'rfb]?[\"']|.*\)|\Z))"
    r"|(?:[A-Za-z_]\w{0,40}\.){1,4}[A-Za-z_]\w{1,40}\(.*[\])]"
)
"""A literal, an attribute, an index or a call."""
_NAME: Final = re.compile(
    r"_{0,2}[A-Z]?[a-z]{1,15}(?:[_.]{1,2}[A-Z]?[a-z]{1,15}|[A-Z][a-z]{2,15}){1,5}(?:\(.*)?"
)
"""An identifier of a program: several words without digits, joined by underscores, dots or capitals."""
_IDENTIFIER: Final = re.compile(r"(?:[A-Za-z_]{1,40}\.){0,4}([A-Za-z_]{1,80})(?:\(.*)?")
_SEPARATORS: Final = re.compile(r"[_.-]")
_SET: Final = frozenset({" = ", " := "})
_ATTRIBUTE: Final = re.compile(r"[a-z_]+(?:\.[a-z_]+)+")
_PLAIN: Final = re.compile(r"[^\W\d_]+(?:[-'’][^\W\d_]+)*")
_MIXED_RUN: Final = re.compile(r"(?=[A-Za-z]*\d)(?=\d*[A-Za-z])[A-Za-z0-9]+")
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_OPAQUE: Final = re.compile(r"[A-Za-z0-9_+/=~-]+")
_LEAST_DIGITS: Final = 4
_WORDS: Final = (
    *"key token secret password passwd passphrase passcode pwd credential credentials".split(),
    *"пароль 密码 密碼 パスワード 비밀번호 contraseña senha passwort kennwort".split(),
    *("wachtwoord", "hasło", "lösenord", "mot de passe"),
)
_PASSWORDS: Final = frozenset(_WORDS) - {"key", "token", "secret", "credential", "credentials"}
_QUOTED: Final = r"(?P<quote>\\{0,7}[\"'`])(?P<quoted>[^\n]{1,4096}?)(?<!\\)(?P=quote)"
# No possessive quantifier of several characters: before Python 3.11.5 it keeps part of a failed round.
_BARE: Final = (
    r"(?P<bare>[^\s\"'`&;\\](?:[^\s\"'`&;\\]|[&;](?![\w ]{1,40}=)|\\(?![\"'n])"
    r"|[\"'`](?=[^\s,;:)\]}\"'`\\]))*)"
)
_ASSIGNMENT: Final = re.compile(
    rf"(?P<word>{'|'.join(sorted(_WORDS, key=len, reverse=True))})"
    r"(?P<sign>\\{0,7}[\"'`]?(?:\*\*)?\s{0,8}(?:=>|:=|=(?!=)|:|：|＝)(?:\*\*(?=\s))?\s{0,8})"
    rf"(?:{_QUOTED}|{_BARE})",
    re.IGNORECASE,
)
_FLAG: Final = re.compile(
    r"(?P<sign>(?<![\w-])--?(?:[a-z0-9]{1,20}-){0,4}"
    r"(?:api-?key|key|token|secret|password|passwd|passphrase)\s{1,8})"
    rf"(?:{_QUOTED}|(?P<bare>[^\s\"'`-][^\s\"'`]*+))",
    re.IGNORECASE,
)
_HINT: Final = re.compile(rf"(?:{'|'.join(_WORDS)})[\\\"'`*]{{0,8}}[\s=:：＝]")
"""For lower-case text; a case-insensitive search takes twenty times as long."""
_NAME_BEFORE: Final = re.compile(r"[A-Za-z0-9_.-]{0,40}\Z")
_KEY_OF: Final = re.compile(
    r"(?:api|secret|access|auth|private|account|encryption|signing|service|license|ssh|master|shared)"
    r"[ _.-]?\Z",
    re.IGNORECASE,
)
_HARMLESS_KEY: Final = re.compile(
    r"(?:primary|foreign|public|sort|partition|cache|unique|row|group|lookup|session|hot|config|routing|event|json)"
    r"[ _.-]?\Z",
    re.IGNORECASE,
)
_QUOTES: Final = "\\\"'`"
_LOOK_BACK: Final = 40
_STOPS: Final = ",.;:!?"
_BRACKETS: Final = {")": "(", "]": "[", "}": "{", ">": "<"}


class Trust(Enum):
    """The degree to which the name before a value indicates a secret."""

    ASSIGNED = auto()
    """`DB_PASSWORD=`: whatever follows immediately, except a placeholder, is the secret."""
    PASSWORD = auto()
    """`password`: even a plain word after it is one, if the clause ends with it."""
    NAMED = auto()
    """`OPENAI_API_KEY`, `clientSecret`: a name that people give to nothing else."""
    LIKELY = auto()
    """`token`, `secret` alone: also everyday words."""
    VAGUE = auto()
    """`key` alone: mostly an everyday word."""


_LEAST_RUN: Final = {Trust.LIKELY: 7, Trust.VAGUE: 10}


def is_secret(value: str, trust: Trust, *, quoted: bool, ends_clause: bool) -> bool:
    """Returns whether the value is to be masked. `ends_clause`: no further word follows it."""
    if not any(map(str.isalnum, value)) or is_masked(value) or _PLACEHOLDER.fullmatch(value):
        return False
    if not quoted and (_CODE.match(value) or _is_count(value)):
        return False
    if trust in _LEAST_RUN:
        return _looks_opaque(value, _LEAST_RUN[trust])
    if quoted or trust is Trust.ASSIGNED:
        return True
    if trust is Trust.NAMED and _ATTRIBUTE.fullmatch(value):
        return False
    if _PLAIN.fullmatch(value):
        return value.isascii() and ends_clause and trust is Trust.PASSWORD
    return True


def _is_count(value: str) -> bool:
    return value.isdigit() and len(value) < _LEAST_DIGITS


def _looks_opaque(value: str, least: int) -> bool:
    """Returns whether letters and digits are mixed in one long run: no word, name, date or path looks like that."""
    if not _OPAQUE.fullmatch(value):
        return False
    longest = max((len(run) for run in _MIXED_RUN.findall(value)), default=0)
    return longest >= least or _UUID.fullmatch(value) is not None


def redact_assignments(text: str) -> str:
    """Masks values that follow the name of a secret."""
    if not _HINT.search(text.lower()):
        return text
    text = _ASSIGNMENT.sub(_assigned, text)
    return _FLAG.sub(_given_to_flag, text)


def _assigned(match: re.Match[str]) -> str:
    trust = _trust(match)
    if trust is None or _is_named_alike(match):
        return match[0]
    if _NAME.fullmatch(match["quoted"] or _without_stops(match["bare"])):
        if _is_code(match):
            return match[0]
        if trust in {Trust.NAMED, Trust.LIKELY} and _is_configured(match):
            trust = Trust.ASSIGNED
    return _masked(match, trust)


def _is_named_alike(match: re.Match[str]) -> bool:
    """Returns whether a program passes on something of the same name: `api_key=api_key`, `new_token = token`,
    `client_secret: SessionClientSecret`. Of a bare `password` only the same word counts: not `password:
    summer_password`.
    """
    value = _IDENTIFIER.fullmatch(_without_stops(match["bare"] or ""))
    if value is None:
        return False
    prefix = _prefix(_before(match)).rpartition(".")[2]
    word = match["word"].lower()
    name, own = (_SEPARATORS.sub("", one).lower() for one in (prefix + word, value[1]))
    is_longer = prefix != "" or (word not in _PASSWORDS and "_" in value[1])
    return (own.endswith(word) and name.endswith(own)) or (is_longer and own.endswith(name))


def _is_code(match: re.Match[str]) -> bool:
    """Returns whether a program assigns an identifier to a key or token: `last_token = call_start`,
    `key=make_key(a`.
    """
    if match["quoted"] is not None or match["word"] not in {"key", "Key", "token", "Token"}:
        return False
    before = _before(match)
    return "(" in match["bare"] or (match["sign"] in _SET and not _KEY_OF.search(before))


def _is_configured(match: re.Match[str]) -> bool:
    """Returns whether a value is quoted, or its assignment is all of the line: `token: MySecretThing`."""
    text = match.string
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()].lstrip("\t *-")
    return match["quoted"] is not None or (
        _NAME_BEFORE.fullmatch(line) is not None
        and text[match.end() : match.end() + 1] in {"", "\n"}
    )


def _given_to_flag(match: re.Match[str]) -> str:
    is_password = "pass" in match["sign"].lower()
    return _masked(match, Trust.PASSWORD if is_password else Trust.NAMED)


def _masked(match: re.Match[str], trust: Trust) -> str:
    whole, begin = match[0], match.start()
    group = "quoted" if match["quoted"] is not None else "bare"
    if _is_done(match[group]):
        return whole
    value = match[group] if group == "quoted" else _without_stops(match[group])
    start = match.start(group) - begin
    end = start + len(value)
    following = match.string[begin + end : begin + end + 1]
    ends = following in {"", "\n", *_STOPS, *_BRACKETS}
    if not is_secret(value, trust, quoted=group == "quoted", ends_clause=ends):
        return whole
    return whole[:start] + mask(value) + whole[end:]


def _without_stops(value: str) -> str:
    """Returns the value without punctuation that ends a sentence, and without brackets that were opened before it."""
    while value and (
        value[-1] in _STOPS
        or value.count(value[-1]) > value.count(_BRACKETS.get(value[-1], value[-1]))
    ):
        value = value[:-1]
    return value


def _is_done(value: str) -> bool:
    """Returns whether this is a mask, perhaps followed by punctuation that ended a clause. Brackets may be hidden in
    the mask.
    """
    while value and not is_masked(value) and (value[-1] in _STOPS or value[-1] in _BRACKETS):
        value = value[:-1]
    return is_masked(value)


def _trust(match: re.Match[str]) -> Trust | None:
    """Returns how surely the name alone indicates a secret; None if it is not the name of one."""
    word, sign, before = match["word"], match["sign"], _before(match)
    prefix = _prefix(before)
    is_key = word.lower() == "key"
    if is_key and (_HARMLESS_KEY.search(before) or not _ends_as_word(prefix, word)):
        return None
    is_password = word.lower() in _PASSWORDS
    is_named = bool(prefix or _KEY_OF.search(before)) or sign[0] in _QUOTES
    if sign == "=" and (not is_key or is_named or word.isupper()):
        return Trust.ASSIGNED
    if is_password:
        return Trust.PASSWORD
    if is_named:
        return Trust.NAMED
    return Trust.VAGUE if is_key else Trust.LIKELY


def _before(match: re.Match[str]) -> str:
    return match.string[max(0, match.start() - _LOOK_BACK) : match.start()]


def _prefix(before: str) -> str:
    """Returns what precedes the word in the name: `open_router_` of `open_router_key`."""
    joined = _NAME_BEFORE.search(before)
    return joined[0] if joined else ""


def _ends_as_word(prefix: str, word: str) -> bool:
    """Returns whether `key` is a word of its own in a name: not so in `monkey`."""
    if not prefix or prefix[-1] in "_.-" or prefix[-1].isdigit():
        return True
    humps = word[0].isupper() and prefix[-1].islower()
    return humps or _KEY_OF.search(prefix) is not None
