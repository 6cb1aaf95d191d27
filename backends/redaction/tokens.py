"""Tokens that are known by their shape: the prefixes and lengths that vendors document. Pure.

A run of characters that may be a token is looked for first, and the shapes only in runs: prose has hardly any.
"""

from __future__ import annotations

import re
from typing import Final

from backends.redaction.masks import mask

_FORMS: Final = (
    # models and what belongs to them
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
    # where code is kept and built
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
    r"AVNS_[A-Za-z0-9_-]{18,}",  # Aiven
    r"AQVN[A-Za-z0-9_-]{34,}",  # Yandex
    r"y0_[A-Za-z0-9_-]{50,}",  # Yandex
    # what is watched
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
    r"\d{6,}:[A-Za-z0-9_-]{20,}",  # Telegram
    r"[MNO][A-Za-z0-9_-]{23,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,40}",  # Discord
    r"SK[a-f0-9]{32}",  # Twilio
    r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
    r"key-[a-f0-9]{32}",  # Mailgun
    r"[a-f0-9]{32}-us\d{1,2}",  # Mailchimp
    r"re_[A-Za-z0-9]{6,12}_[A-Za-z0-9]{20,28}",  # Resend
    r"x(?:keysib|smtpsib)-[a-f0-9]{64}-[A-Za-z0-9]{16}",  # Brevo
    r"mlsn\.[a-f0-9]{64}",  # MailerSend
    # shops and money
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}",  # Stripe
    r"whsec_[A-Za-z0-9+/=]{16,}",
    r"shp(?:at|ca|pa|ss|ua)_[a-fA-F0-9]{32,}",  # Shopify
    r"EAAA[A-Za-z0-9_-]{56,}",  # Square
    r"sq0[a-z]{3}-[A-Za-z0-9_-]{20,}",  # Square
    r"access-(?:sandbox|development|production)-[a-f0-9-]{36}",  # Plaid
    r"EZ[AT]K[A-Za-z0-9]{54}",  # EasyPost
    r"duffel_(?:live|test)_[A-Za-z0-9_=-]{43}",
    r"shippo_(?:live|test)_[a-fA-F0-9]{40}",
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
    # keys of their own
    r"tskey-[a-z]{3,12}-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}",  # Tailscale
    r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,}",  # Doppler
    r"ops_eyJ[A-Za-z0-9+/=_-]{100,}",  # 1Password
    r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",  # 1Password
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # JSON Web Token
)
_MIXED_FORMS: Final = (
    # Prefixes that words have, too: the rest has digits, small and capital letters.
    r"(?:pa|al)-[A-Za-z0-9_-]{40,64}",  # Voyage
    r"fw_[A-Za-z0-9]{22,32}",  # Fireworks
    r"a[ks]-[A-Za-z0-9]{22}",  # Modal
    r"BSA[A-Za-z0-9_-]{24,32}",  # Brave
    r"cio[A-Za-z0-9]{32}",  # crates.io
)
_CHARACTERS: Final = r"A-Za-z0-9_.:~+/=%\-"
_LEAST: Final = 11
_RUN: Final = re.compile(rf"[{_CHARACTERS}]{{{_LEAST},}}")
_TOKEN: Final = re.compile(
    rf"(?<![A-Za-z0-9_])(?:{'|'.join(_FORMS)}"
    rf"|(?P<mixed>(?<![+=])(?:{'|'.join(_MIXED_FORMS)})(?![A-Za-z0-9+/=])))"
)
_MIXED: Final = re.compile(r"(?=.*\d)(?=.*[a-z].*[a-z])(?=.*[A-Z].*[A-Z])")


def redact_shapes(text: str) -> str:
    """Masks everything that has one of the shapes."""
    return _RUN.sub(_in_run, text)


def _in_run(run: re.Match[str]) -> str:
    return _TOKEN.sub(_masked, run[0])


def _masked(match: re.Match[str]) -> str:
    token = match[0]
    if match["mixed"] is not None and not _MIXED.match(token[3:]):
        return token
    return mask(token)
