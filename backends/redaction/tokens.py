"""Secrets that show by their own form, wherever they stand: vendors' prefixes, URLs, headers.

Owns the table of forms. Each pattern is linear: no repetition is followed by what it could also eat.
"""

from __future__ import annotations

import re
from typing import Final

from backends.redaction.mask import is_mask_at, is_masked, mask

_FORMS: Final = (
    # documented
    r"sk-[A-Za-z0-9_-]{8,}",
    r"ghp_[A-Za-z0-9]{20,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"xox[baprs]-[A-Za-z0-9-]{10,}",
    r"xapp-[A-Za-z0-9-]{10,}",
    r"gsk_[A-Za-z0-9_-]{10,}",
    r"AIza[A-Za-z0-9_-]{20,}",
    r"pplx-[A-Za-z0-9_-]{10,}",
    r"npm_[A-Za-z0-9]{10,}",
    r"\d{6,}:[A-Za-z0-9_-]{20,}",  # Telegram
    # clouds
    r"A(?:KIA|SIA|ROA|IDA)[A-Z0-9]{16}(?![A-Z0-9])",  # Amazon
    r"ya29\.[A-Za-z0-9_-]{20,}",  # Google
    r"GOCSPX-[A-Za-z0-9_-]{20,}",
    r"LTAI[A-Za-z0-9]{12,}",  # Alibaba
    r"AKID[A-Za-z0-9]{13,}",  # Tencent
    r"do[opr]_v1_[a-f0-9]{40,}",  # DigitalOcean
    r"dapi[a-f0-9]{32,}",  # Databricks
    r"hvs\.[A-Za-z0-9_-]{20,}",  # Vault
    r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_-]{40,}",  # Terraform
    # services
    r"gh[ousr]_[A-Za-z0-9]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"hf_[A-Za-z0-9]{20,}",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}",  # Stripe
    r"whsec_[A-Za-z0-9+/=]{16,}",
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32,}",  # Shopify
    r"pypi-[A-Za-z0-9_-]{40,}",
    r"lin_api_[A-Za-z0-9]{20,}",
    r"ntn_[A-Za-z0-9]{20,}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # JSON Web Token
)
_TOKEN: Final = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(_FORMS)})")
_BEHIND: Final = (
    re.compile(
        r"(?P<lead>\bAuthorization\b[\"']?\s{0,8}[:=]\s{0,8}[\"']?(?:Bearer|Basic|Token)\s{1,8})"
        r"(?P<secret>[A-Za-z0-9._~+/=-]+)",
        re.IGNORECASE,
    ),
    re.compile(r"(?P<lead>\bBearer\s{1,8})(?P<secret>[A-Za-z0-9._~+/-]{18,}={0,2})", re.IGNORECASE),
    re.compile(  # scheme://user:password@host
        r"(?P<lead>\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s:/@?#\"'<>]{0,128}:)"
        r"(?P<secret>[^\s/?#\"'<>]{1,256})(?=@[\w.\[-])"
    ),
    re.compile(r"(?P<lead>\bhooks\.slack\.com/services/)(?P<secret>[A-Za-z0-9/_-]{20,})"),
    re.compile(r"(?P<lead>[?&;]sig=)(?P<secret>[A-Za-z0-9%+/=_-]{16,})"),  # Azure
)


def redact_tokens(text: str) -> str:
    """Masks everything that has one of the forms."""
    text = _TOKEN.sub(lambda match: mask(match[0]), text)
    for pattern in _BEHIND:
        text = pattern.sub(_mask_secret, text)
    return text


def _mask_secret(match: re.Match[str]) -> str:
    secret = match["secret"]
    if is_masked(secret) or is_mask_at(match.string, match.start("secret")):
        return match[0]
    if secret.startswith(("$", "{", "%7B")):
        return match[0]
    return match["lead"] + mask(secret)
