"""Kinds of secrets, made up with a seed when the tests run, and text that contains none."""

from __future__ import annotations

import ast
import base64
import hashlib
import random
import string
import sys
import sysconfig
import time
import uuid
from itertools import islice
from pathlib import Path

from backends.redaction import redact
from fakes.each import each

LOWER, UPPER, DIGITS = string.ascii_lowercase, string.ascii_uppercase, string.digits
LETTERS = LOWER + UPPER + DIGITS
URL_SAFE, HEX = LETTERS + "-_", "0123456789abcdef"


class Maker:
    """Random parts of secrets; those with letters have digits, lower-case and upper-case ones."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def of(self, alphabet, length):
        sure = [set(part) & set(alphabet) for part in (LOWER, UPPER, DIGITS)]
        while True:
            made = "".join(self.random.choices(alphabet, k=length))
            if (
                made[0] in LETTERS
                and made[-1] in LETTERS
                and all(not part or part & set(made) for part in sure)
            ):
                return made

    def an(self, length):
        return self.of(LETTERS, length)

    def url(self, length):
        return self.of(URL_SAFE, length)

    def hex(self, length):
        return self.of(HEX, length)

    def up(self, length):
        return self.of(UPPER + DIGITS, length)

    def low(self, length):
        return self.of(LOWER + DIGITS, length)

    def digits(self, length):
        return self.of("123456789", length)

    def base64(self, length):
        return base64.b64encode(self.random.randbytes(length)).decode()

    def uuid(self):
        return str(uuid.UUID(bytes=self.random.randbytes(16), version=4))

    def password(self):
        return self.of(LETTERS + "!%*-", 14)


# Each: the text around the secret, `{}` for it, and how it is made.
SHAPES = {
    "OpenAI": lambda m: f"sk-{m.an(48)}",
    "OpenAI project": lambda m: f"sk-proj-{m.url(120)}",
    "OpenAI service account": lambda m: f"sk-svcacct-{m.url(80)}",
    "Anthropic": lambda m: f"sk-ant-api03-{m.url(93)}AA",
    "Anthropic OAuth": lambda m: f"sk-ant-oat01-{m.url(93)}AA",
    "OpenRouter": lambda m: f"sk-or-v1-{m.hex(64)}",
    "DeepSeek": lambda m: f"sk-{m.hex(32)}",
    "Langfuse": lambda m: f"sk-lf-{m.uuid()}",
    "Voyage": lambda m: f"pa-{m.url(43)}",
    "Voyage of Atlas": lambda m: f"al-{m.url(43)}",
    "xAI": lambda m: f"xai-{m.an(80)}",
    "NVIDIA": lambda m: f"nvapi-{m.url(64)}",
    "Replicate": lambda m: f"r8_{m.an(37)}",
    "Tavily": lambda m: f"tvly-{m.an(32)}",
    "Tavily development": lambda m: f"tvly-dev-{m.an(32)}",
    "LangSmith": lambda m: f"lsv2_pt_{m.hex(32)}_{m.hex(10)}",
    "LangSmith service": lambda m: f"lsv2_sk_{m.hex(32)}_{m.hex(10)}",
    "Cerebras": lambda m: f"csk-{m.low(48)}",
    "Fireworks": lambda m: f"fw_{m.an(24)}",
    "Groq": lambda m: f"gsk_{m.an(52)}",
    "Perplexity": lambda m: f"pplx-{m.an(48)}",
    "Hugging Face": lambda m: f"hf_{m.an(34)}",
    "Hugging Face organisation": lambda m: f"api_org_{m.an(34)}",
    "Google": lambda m: f"AIza{m.url(35)}",
    "Together": lambda m: f"tgp_v1_{m.url(43)}",
    "Jina": lambda m: f"jina_{m.an(60)}",
    "Firecrawl": lambda m: f"fc-{m.hex(32)}",
    "Brave": lambda m: f"BSA{m.url(28)}",
    "ElevenLabs": lambda m: f"sk_{m.hex(48)}",
    "Pinecone": lambda m: f"pcsk_{m.an(6)}_{m.an(63)}",
    "RunPod": lambda m: f"rpa_{m.up(42)}",
    "Modal": lambda m: f"as-{m.an(22)}",
    "Anyscale": lambda m: f"esecret_{m.low(26)}",
    "GitHub": lambda m: f"ghp_{m.an(36)}",
    "GitHub OAuth": lambda m: f"gho_{m.an(36)}",
    "GitHub fine-grained": lambda m: f"github_pat_{m.an(22)}_{m.an(59)}",
    "GitLab": lambda m: f"glpat-{m.url(20)}",
    "GitLab deploy": lambda m: f"gldt-{m.url(20)}",
    "GitLab runner": lambda m: f"glrt-{m.url(20)}",
    "GitLab job": lambda m: f"glcbt-64_{m.url(20)}",
    "GitLab trigger": lambda m: f"glptt-{m.hex(40)}",
    "GitLab feed": lambda m: f"glft-{m.url(20)}",
    "GitLab mail": lambda m: f"glimt-{m.low(25)}",
    "GitLab agent": lambda m: f"glagent-{m.url(50)}",
    "GitLab OAuth": lambda m: f"gloas-{m.hex(64)}",
    "GitLab registration": lambda m: f"GR1348941{m.url(20)}",
    "Bitbucket": lambda m: f"ATBB{m.an(32)}",
    "Atlassian": lambda m: f"ATATT3xFfGF0{m.url(171)}={m.hex(8).upper()}",
    "Trello": lambda m: f"ATTA{m.hex(64)}",
    "npm": lambda m: f"npm_{m.an(36)}",
    "PyPI": lambda m: f"pypi-AgEIcHlwaS5vcmc{m.url(120)}",
    "NuGet": lambda m: f"oy2{m.low(43)}",
    "RubyGems": lambda m: f"rubygems_{m.hex(48)}",
    "crates.io": lambda m: f"cio{m.an(32)}",
    "Clojars": lambda m: f"CLOJARS_{m.low(60)}",
    "Docker": lambda m: f"dckr_pat_{m.url(27)}",
    "Docker organisation": lambda m: f"dckr_oat_{m.url(32)}",
    "JFrog": lambda m: f"AKCp{m.an(69)}",
    "CircleCI": lambda m: f"CCIPAT_{m.an(22)}_{m.hex(40)}",
    "Buildkite": lambda m: f"bkua_{m.hex(40)}",
    "Sonar": lambda m: f"squ_{m.hex(40)}",
    "Pulumi": lambda m: f"pul-{m.hex(40)}",
    "Prefect": lambda m: f"pnu_{m.an(36)}",
    "Amazon id": lambda m: f"AKIA{m.of(UPPER + '234567', 16)}",
    "Amazon Bedrock": lambda m: f"ABSK{m.base64(93)}",
    "Google OAuth": lambda m: f"ya29.{m.url(140)}",
    "Google client": lambda m: f"GOCSPX-{m.url(28)}",
    "Google refresh": lambda m: f"1//0{m.url(96)}",
    "Microsoft Entra": lambda m: f"{m.an(3)}8Q~{m.url(34)}",
    "Alibaba": lambda m: f"LTAI{m.an(20)}",
    "Tencent": lambda m: f"AKID{m.an(32)}",
    "DigitalOcean": lambda m: f"dop_v1_{m.hex(64)}",
    "Databricks": lambda m: f"dapi{m.hex(32)}",
    "Vault": lambda m: f"hvs.{m.url(92)}",
    "Vault batch": lambda m: f"hvb.{m.url(140)}",
    "Terraform": lambda m: f"{m.an(14)}.atlasv1.{m.url(67)}",
    "Cloudflare origin": lambda m: f"v1.0-{m.hex(24)}-{m.hex(146)}",
    "Heroku": lambda m: f"HRKU-{m.url(60)}",
    "Fly": lambda m: f"fm2_{m.base64(120)}",
    "Render": lambda m: f"rnd_{m.an(32)}",
    "Netlify": lambda m: f"nfp_{m.an(36)}",
    "Supabase": lambda m: f"sbp_{m.hex(40)}",
    "Supabase secret": lambda m: f"sb_secret_{m.url(31)}",
    "PlanetScale": lambda m: f"pscale_tkn_{m.url(43)}",
    "PlanetScale password": lambda m: f"pscale_pw_{m.url(43)}",
    "Neon": lambda m: f"napi_{m.low(64)}",
    "Aiven": lambda m: f"AVNS_{m.url(19)}",
    "Grafana": lambda m: f"glsa_{m.an(32)}_{m.hex(8)}",
    "Grafana cloud": lambda m: f"glc_{m.base64(80)}",
    "Sentry": lambda m: f"sntrys_eyJ{m.an(120)}_{m.an(43)}",
    "Sentry user": lambda m: f"sntryu_{m.hex(64)}",
    "New Relic": lambda m: f"NRAK-{m.up(27)}",
    "New Relic licence": lambda m: f"{m.hex(36)}NRAL",
    "Dynatrace": lambda m: f"dt0c01.{m.up(24)}.{m.up(64)}",
    "PostHog": lambda m: f"phx_{m.an(43)}",
    "Slack bot": lambda m: f"xoxb-{m.digits(12)}-{m.digits(12)}-{m.an(24)}",
    "Slack refresh": lambda m: f"xoxe-1-{m.an(146)}",
    "Slack rotated": lambda m: f"xoxe.xoxp-1-{m.an(160)}",
    "Slack app": lambda m: f"xapp-1-A{m.up(10)}-{m.digits(13)}-{m.hex(64)}",
    "Telegram": lambda m: f"{m.digits(10)}:AA{m.url(33)}",
    "Discord": lambda m: f"M{m.an(23)}.{m.url(6)}.{m.url(38)}",
    "Twilio": lambda m: f"SK{m.hex(32)}",
    "SendGrid": lambda m: f"SG.{m.url(22)}.{m.url(43)}",
    "Mailgun": lambda m: f"key-{m.hex(32)}",
    "Mailchimp": lambda m: f"{m.hex(32)}-us12",
    "Resend": lambda m: f"re_{m.an(8)}_{m.an(24)}",
    "Brevo": lambda m: f"xkeysib-{m.hex(64)}-{m.an(16)}",
    "Stripe": lambda m: f"sk_live_{m.an(24)}",
    "Stripe restricted": lambda m: f"rk_live_{m.an(99)}",
    "Stripe webhook": lambda m: f"whsec_{m.an(32)}",
    "Shopify": lambda m: f"shpat_{m.hex(32)}",
    "Square": lambda m: f"EAAA{m.url(60)}",
    "Square OAuth": lambda m: f"sq0csp-{m.url(43)}",
    "Plaid": lambda m: f"access-production-{m.uuid()}",
    "EasyPost": lambda m: f"EZAK{m.an(54)}",
    "Duffel": lambda m: f"duffel_live_{m.url(43)}",
    "Shippo": lambda m: f"shippo_live_{m.hex(40)}",
    "Notion": lambda m: f"ntn_{m.an(46)}",
    "Notion of before": lambda m: f"secret_{m.an(43)}",
    "Linear": lambda m: f"lin_api_{m.an(40)}",
    "Airtable": lambda m: f"pat{m.an(14)}.{m.hex(64)}",
    "HubSpot": lambda m: f"pat-na1-{m.uuid()}",
    "Figma": lambda m: f"figd_{m.url(40)}",
    "Postman": lambda m: f"PMAK-{m.hex(24)}-{m.hex(34)}",
    "Dropbox": lambda m: f"sl.{m.url(135)}",
    "Contentful": lambda m: f"CFPAT-{m.url(43)}",
    "Typeform": lambda m: f"tfp_{m.an(44)}_{m.an(14)}",
    "Mapbox": lambda m: f"sk.eyJ{m.an(80)}.{m.an(22)}",
    "ReadMe": lambda m: f"rdme_{m.low(70)}",
    "LaunchDarkly": lambda m: f"sdk-{m.uuid()}",
    "Tailscale": lambda m: f"tskey-auth-{m.an(11)}CNTRL-{m.an(32)}",
    "Doppler": lambda m: f"dp.pt.{m.an(43)}",
    "Doppler service": lambda m: f"dp.st.prd.{m.an(43)}",
    "1Password": lambda m: f"ops_eyJ{m.an(300)}",
    "1Password key": lambda m: "A3-" + "-".join(m.up(n) for n in (6, 11, 5, 5, 5)),
    "age": lambda m: f"AGE-SECRET-KEY-1{m.of('QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L', 58)}",
    "Google, of 2026": lambda m: f"AQ.Ab8RN6{m.url(46)}",
    "Weights & Biases": lambda m: f"wandb_v1_{m.an(77)}",
    "Kaggle": lambda m: f"KGAT_{m.hex(32)}",
    "E2B": lambda m: f"e2b_{m.hex(40)}",
    "Context7": lambda m: f"ctx7sk-{m.uuid()}",
    "Vercel": lambda m: f"vcp_{m.an(56)}",
    "MongoDB Atlas": lambda m: f"mdb_sa_sk_{m.url(40)}",
    "Polar": lambda m: f"polar_oat_{m.an(43)}",
    "Paddle": lambda m: f"pdl_live_apikey_{m.low(26)}_{m.an(22)}_{m.an(3)}",
    "Azure": lambda m: f"{m.an(52)}JQQJ99{m.an(26)}",
    "Telegram in an address": lambda m: f"bot{m.digits(10)}:AA{m.url(33)}",
    "BIP 32": lambda m: f"xprv9s21ZrQH143K{m.an(95)}",
    "Nostr": lambda m: f"nsec1{m.low(58)}",
    "PASETO": lambda m: f"v4.local.{m.url(120)}",
    "JSON Web Encryption": lambda m: f"eyJhbGciOiJkaXIifQ..{m.url(16)}.{m.url(60)}.{m.url(22)}",
    "private key in base64": lambda m: f"LS0tLS1CRUdJTiBQUklWQVRFIEtFWS0tLS0tCk{m.an(300)}",
    "JSON Web Token": lambda m: f"eyJhbGciOiJIUzI1NiJ9.eyJ{m.url(60)}.{m.url(43)}",
}  # fmt: skip
SURROUNDED = {
    ".netrc": ("machine api.host.test login anna password {} ", lambda m: m.password()),
    ".pgpass": ("db.host.test:5432:notes:anna:{}", lambda m: m.password()),
    "curl -u": ("curl -sS -u anna:{} https://host.test/x", lambda m: m.password()),
    "curl --user": ("curl --user 'anna:{}' https://host.test", lambda m: m.password()),
    "HTTPie": ("http -a anna:{} GET host.test", lambda m: m.password()),
    "mysql -p": ("mysql -u root -p{} notes", lambda m: m.password()),
    "mysqldump -p": ("mysqldump --all -h db -p'{}' notes", lambda m: m.password()),
    "7z -p": ("7z x -p{} notes.7z", lambda m: m.password()),
    "sshpass -p": ("sshpass -p {} ssh anna@host", lambda m: m.password()),
    "docker login -p": ("docker login -u anna -p {} registry.test", lambda m: m.password()),
    "podman login -p": ("podman login registry.test -u anna -p {}", lambda m: m.password()),
    "skopeo --creds": ("skopeo copy --creds anna:{} a b", lambda m: m.password()),
    "redis-cli -a": ("redis-cli -h cache -a {} ping", lambda m: m.password()),
    "ldapsearch -w": ("ldapsearch -x -D cn=admin -w {} uid=a", lambda m: m.password()),
    "htpasswd -b": ("htpasswd -b file anna {}", lambda m: m.password()),
    "smbclient -U": ("smbclient //nas/notes -U anna%{}", lambda m: m.password()),
    "openssl pass": ("openssl rsa -in k -passin pass:{} -out o", lambda m: m.password()),
    "sudo -S": ("echo {} | sudo -S apt update", lambda m: m.an(12)),
    "net use": ("net use Z: \\\\nas\\n /user:anna {}", lambda m: m.password()),
    "PGPASSWORD": ("PGPASSWORD={} psql -h db", lambda m: m.password()),
    "gpg --passphrase": ("gpg --batch --passphrase {} -d x", lambda m: m.password()),
    "SMTP_PASS": ("SMTP_PASS={}", lambda m: m.password()),
    "ansible_ssh_pass": ("host ansible_ssh_pass={} x=1", lambda m: m.an(12)),
    "Wi-Fi": ('network={{ ssid="home" psk="{}" }}', lambda m: m.an(14)),
    "Docker's auth": ('"auths": {{"r.test": {{"auth": "{}"}}}}', lambda m: m.base64(21)),
    "kubeconfig": ("client-key-data: {}", lambda m: m.base64(900)),
    "kubeconfig token": ("    token: {}", lambda m: m.an(40)),
    ".npmrc _auth": ("//r.test/:_auth={}", lambda m: m.base64(22)),
    ".npmrc _authToken": ("//r.test/:_authToken={}", lambda m: m.uuid()),
    "Kubernetes secret": ("data:\n  password: {}", lambda m: m.base64(16)),
    "helm set": ("helm install x --set auth.password={}", lambda m: m.an(14)),
    "token@host": ("git clone https://{}@git.host.test/a.git", lambda m: m.an(40)),
    "user:token@host": ("https://oauth2:{}@git.host.test/a.git", lambda m: m.an(26)),
    "PostgreSQL": ("postgresql://app:{}@db.test:5432/x", lambda m: m.an(16)),
    "AMQP": ("amqps://app:{}@mq.test/v", lambda m: m.an(16)),
    "JDBC": ("jdbc:sqlserver://db;user=app;password={};x=1", lambda m: m.an(16)),
    "Azure storage": ("AccountName=a;AccountKey={};EndpointSuffix=x", lambda m: m.base64(64)),
    "Azure SAS": ("https://a.test/c?sv=2026&sig={}&se=1", lambda m: m.an(43)),
    "Slack webhook": ("https://hooks.slack.com/services/{}", lambda m: f"T{m.up(8)}/B{m.up(10)}/{m.an(24)}"),
    "Discord webhook": ("https://discord.com/api/webhooks/123456789012345678/{}", lambda m: m.url(68)),
    "Teams webhook": (
        "https://x.webhook.office.com/webhookb2/{}", lambda m: f"{m.uuid()}@{m.uuid()}/IncomingWebhook/{m.hex(32)}"
    ),
    "ApiKey": ("Authorization: ApiKey {}", lambda m: m.base64(45)),
    "SSWS": ("Authorization: SSWS 00{}", lambda m: m.url(40)),
    "GenieKey": ("Authorization: GenieKey {}", lambda m: m.uuid()),
    "Splunk": ("Authorization: Splunk {}", lambda m: m.uuid()),
    "Authorization": ("Authorization: {}", lambda m: m.hex(40)),
    "Proxy-Authorization": ("Proxy-Authorization: Basic {}", lambda m: m.base64(18)),
    "X-Api-Key": ("X-Api-Key: {}", lambda m: m.an(40)),
    "X-Auth-Token": ("X-Auth-Token: {}", lambda m: m.hex(32)),
    "Cookie": ("Cookie: theme=dark; session={}; lang=en", lambda m: m.url(43)),
    "curl -b": ("curl -s -b 'session={}' https://host.test", lambda m: m.url(43)),
    "document.cookie": ("document.cookie = 'sid={}'", lambda m: m.an(32)),
    "Set-Cookie": ("Set-Cookie: sid={}; Path=/; HttpOnly", lambda m: f"s%3A{m.an(32)}"),
    "Amazon secret": ("AKIAIOSFODNN7EXAMPLE\n{}\n", lambda m: m.of(LETTERS + "/+", 40)),
    "Amazon credentials": ("aws_secret_access_key = {}", lambda m: m.of(LETTERS + "/+", 40)),
    "Mistral": ("MISTRAL_API_KEY={}", lambda m: m.an(32)),
    "Cohere": ('cohere_api_key = "{}"', lambda m: m.an(40)),
    "Datadog": ("DD_API_KEY: {}", lambda m: m.hex(32)),
    "Django": ("SECRET_KEY = 'django-insecure-{}'", lambda m: m.an(50)),
    "Laravel": ("APP_KEY=base64:{}", lambda m: m.base64(32)),
    "Rails": ("secret_key_base: {}", lambda m: m.hex(128)),
    "WordPress": ("define( 'AUTH_KEY', '{}' );", lambda m: m.of(LETTERS + "#$%&*", 64)),
    "WireGuard": ("[Interface]\nPrivateKey = {}", lambda m: m.base64(32)),
    "one-time password": ("otpauth://totp/a:b?secret={}&issuer=a", lambda m: m.of(UPPER + "234567", 32)),
    "bold name": ("**Password:** {}", lambda m: m.password()),
    "bold name, sign behind": ("- **API key**: `{}`", lambda m: m.an(32)),
    "row of a table": ("| Password | `{}` |", lambda m: m.an(14)),
    "XML": ("<server><password>{}</password></server>", lambda m: m.an(14)),
    "attributes of XML": ('<add key="ApiKey" value="{}"/>', lambda m: m.an(32)),
    "environment of a container": ("- name: DB_PASSWORD\n  value: {}", lambda m: m.an(14)),
    "name and value in JSON": ('{{"name": "API_TOKEN", "value": "{}"}}', lambda m: m.an(32)),
    "block of YAML": ("api_key: >-\n  {}", lambda m: m.an(32)),
    "item of a dictionary": ('os.environ["API_KEY"] = "{}"', lambda m: m.an(32)),
    "arguments of a call": ('request.header("x-api-key", "{}")', lambda m: m.an(32)),
    "fish": ("set -gx DATADOG_API_KEY {}", lambda m: m.hex(32)),
    "setx": ('setx MISTRAL_API_KEY "{}"', lambda m: m.an(32)),
    "Dockerfile": ("ENV API_TOKEN {}", lambda m: m.an(32)),
    "npm config": ("npm config set //r.test/:_authToken {}", lambda m: m.uuid()),
    "said": ("The password is `{}`.", lambda m: m.an(14)),
    "SQL": ("CREATE USER anna WITH PASSWORD '{}';", lambda m: m.an(14)),
    "SQL of MySQL": ("CREATE USER 'a'@'%' IDENTIFIED BY '{}';", lambda m: m.password()),
    "mailer": ('auth: {{ user: "anna", pass: "{}" }}', lambda m: m.an(14)),
    "slash in an address": ("postgres://anna:a/{}#1@db.test/x", lambda m: m.an(14)),
    "signed for Google": ("https://h.test/o?X-Goog-Signature={}", lambda m: m.hex(256)),
    "JSON Web Key": ('{{"kty":"EC","d":"{}"}}', lambda m: m.url(43)),
    "quotation mark in JSON": ('{{"password": "a\\"{}"}}', lambda m: m.an(14)),
    "JSON in JSON": (r'"{{\"Authorization\": \"Basic {}\"}}"', lambda m: m.base64(21)),
    "JSON four times": (r'\\\\\\\"password\\\\\\\": \\\\\\\"{}\\\\\\\"', lambda m: m.an(14)),
    "behind a line break in JSON": (r'"log\nghp_{}\n"', lambda m: m.an(36)),
    "behind a character in JSON": (r'"x\u003dglpat-{}"', lambda m: m.an(20)),
    "behind a colour": ("\x1b[1;32mghp_{}\x1b[0m", lambda m: m.an(36)),
    "behind a percent sign": ("https://h.test/?u=x%0Aghp_{}", lambda m: m.an(36)),
    "PuTTY": ("PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 1\n{}\nPrivate-MAC: 0f", lambda m: m.base64(36)),
    "OpenSSH": ("-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----", lambda m: m.base64(300)),
    "service account": (
        '"private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n"', lambda m: m.base64(300)
    ),
    "PGP": (
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{}\n-----END PGP PRIVATE KEY BLOCK-----", lambda m: m.base64(300)
    ),
}  # fmt: skip
CARRIERS = (
    "the key is {} as of today",
    "{}",
    "use `{}`, then",
    '"value": "{}",',
    "https://host.test/{}?x=1",
    "Key:{}.",
)
KINDS = {name: ("", make) for name, make in SHAPES.items()} | SURROUNDED
LEAST_SHOWN = 11
"""A mask shows the first six characters and the last four."""


def survives(secret, text):
    """Returns whether more of the secret is there than its mask shows."""
    return any(
        secret[start : start + LEAST_SHOWN] in text
        for start in range(max(1, len(secret) - LEAST_SHOWN + 1))
    )


def cases(seed):
    """Yields for each kind its name, a text with a secret, and that secret."""
    maker = Maker(seed)
    for number, (name, (around, make)) in enumerate(KINDS.items()):
        secret = make(maker)
        text = (around or CARRIERS[(number + seed) % len(CARRIERS)]).format(secret)
        yield name, f"before\n{text}\nafter", secret


@each("seed", range(12))
def test_of_more_than_two_hundred_kinds_nearly_all_are_masked(seed):
    assert len(KINDS) >= 200
    left = [name for name, text, secret in cases(seed) if survives(secret, redact(text))]
    assert len(left) <= len(KINDS) * 11 // 141, left
    assert left == []


def test_what_was_masked_stays_as_it_is():
    for _, text, _ in cases(1):
        once = redact(text)
        assert redact(once) == once


def ordinary_lines():
    """Yields code, its documentation and prose of this machine; hashes, ids and dates are made here."""
    library = Path(sysconfig.get_path("stdlib"))
    for file in sorted(library.glob("[a-e]*.py"))[:20] + sorted(library.glob("email/*.py")):
        text = file.read_text(encoding="utf-8", errors="replace")
        yield from text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
                yield from (ast.get_docstring(node) or "").splitlines()
    root = Path(__file__).parents[3]
    for file in sorted(root.glob("docs/*.md")):
        if file.name != "security.md":  # contains examples of masked secrets
            yield from file.read_text(encoding="utf-8").splitlines()
    maker = Maker(7)
    for number in range(4_000):
        data = str(number).encode()
        yield f"commit {hashlib.sha1(data, usedforsecurity=False).hexdigest()}"
        yield f"sha256:{hashlib.sha256(data).hexdigest()}  file-{number}.tar.gz"
        yield f'"integrity": "sha512-{base64.b64encode(hashlib.sha512(data).digest()).decode()}"'
        yield f"id {maker.uuid()} at 2026-02-08T10:30:{number % 60:02d}.123456+00:00 took {number} ms"
        yield f"[{number}] src/module_{number}/some-file-name_{number}.py:{number}:12: warning W{number}"


def test_ordinary_lines_are_hardly_ever_masked():
    lines = [line for line in ordinary_lines() if line.strip()]
    assert len(lines) >= 30_000
    masked = [line for line in lines if redact(line) != line]
    assert len(masked) <= len(lines) // 10_000, masked[:20]


@each(
    "piece",
    ["Authorization: ", "Cookie: a=", "curl -u a:", "pass", "token,", "key\n", "secret | ", "://a:", "**", "\\",
     "\x1b[1", "mysql -p ", "machine a login b ", "a.b:1234:c:d:", "pa-aA1", "https://aA1", "Private-Lines: 1 ",
     "echo a", "auth: ", "AKIAABCDEFGHIJKLMNOP ", "xoxb-", "eyJ.eyJ", "eyJ-",
     "net use ", "aA1/", "docker login ", "1234567:", "_PASS", "a_", "M" * 24 + ".", "define('KEY',"],
)  # fmt: skip
def test_the_time_grows_with_the_length_only(piece):
    def cost(length):
        text = piece * (length // len(piece))
        begin = time.process_time()
        redact(text)
        return time.process_time() - begin

    cost(1_000)  # compiles the patterns
    least = min(cost(300_000) for _ in range(3))  # one may meet a collection of garbage
    assert least < 60 * max(cost(30_000), 0.005)


def test_the_patterns_need_no_more_than_a_second_for_a_megabyte_of_a_conversation():
    """The second is of processor time, and has room for a slow machine: usually it is some tenths."""
    text = "\n".join(islice(ordinary_lines(), 25_000))[:1_000_000]
    redact("x")
    begin = time.process_time()
    redact(text)
    assert time.process_time() - begin < 5.0
    assert sys.getsizeof(text) >= 900_000
