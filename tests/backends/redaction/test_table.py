"""Examples of what is a secret and what is not. Every value here is made up."""

from __future__ import annotations

from backends.redaction import redact
from fakes.each import each

MASKED = [
    # documented assignments, JSON members, flags and headers
    ("OPENAI_API_KEY=plainword", "OPENAI_API_KEY=***"),
    ("export MY_TOKEN = abc123de", "export MY_TOKEN = ***"),
    ("DB_PASSWORD=hunter2 and more", "DB_PASSWORD=*** and more"),
    ("CLIENT_SECRET: 9f8e7d6c5b4a39281706f5e4", "CLIENT_SECRET: 9f8e7d…f5e4"),
    ("passwd=p&q;r!s", "passwd=***"),
    ("password: hunter2", "password: ***"),
    ("my password: swordfish.", "my password: ***."),
    ("wachtwoord: hunter2", "wachtwoord: ***"),
    ("mot de passe : hunter2", "mot de passe : ***"),
    ("hasło=hunter2", "hasło=***"),
    ("mot de passe oublié ? Cliquez ici.", "mot de passe oublié ? Cliquez ici."),
    ("password:\nhunter22", "password:\n***"),
    ("password=ab'cd\"ef and on", "password=*** and on"),
    ("(password: hunter2)", "(password: ***)"),
    ("password: $ecret1x", "password: ***"),
    ("password: open(sesame4", "password: ***"),
    ("secret: hunter2", "secret: ***"),
    ("API key: abc123def", "API key: ***"),
    ("token=swordfish", "token=***"),
    ('{"apiKey": "abc", "x": 1}', '{"apiKey": "***", "x": 1}'),
    ('{"token":"abc","secret" : "d e f"}', '{"token":"***","secret" : "***"}'),
    ('"refreshToken": "abc", "accessToken": "def"', '"refreshToken": "***", "accessToken": "***"'),
    (r'{\"passwd\": \"abc123\"}', r'{\"passwd\": \"***\"}'),
    ("run --api-key abc12345 --verbose", "run --api-key *** --verbose"),
    ("run --password 'two words'", "run --password '***'"),
    ("run --db-password swordfish", "run --db-password ***"),
    ("--token=abc", "--token=***"),
    ("Authorization: Bearer abc", "Authorization: Bearer ***"),
    ('"Authorization": "Basic dXNlcjpwYXNz"', '"Authorization": "Basic ***"'),
    ("Bearer abcdefghijklmnopqrstuv", "Bearer abcdef…stuv"),
    # names as values: only what is plainly code is left, see below
    ('api_key="correct_horse", api_key: correct_horse', 'api_key="***", api_key: ***'),
    ("api_key = correct_horse", "api_key = ***"),
    ("access_token = MySecretThing", "access_token = ***"),
    ("deployKey=correct_horse", "deployKey=***"),
    ("password: summer_password", "password: ***"),
    ('token = "MySecretThing"', 'token = "***"'),
    ("  - token: MySecretThing", "  - token: ***"),
    ("server:\n  bot_token: MySecretThing\nport: 1", "server:\n  bot_token: ***\nport: 1"),
    # documented prefixes
    ("sk-abcd1234", "***"),
    ("see sk-proj-abcdefghijklmnop.", "see sk-pro…mnop."),
    ("ghp_abcdefghijklmnopqrst", "ghp_ab…qrst"),
    ("github_pat_abcdefghijklmnopqrst", "github…qrst"),
    ("xoxb-1234567890", "***"),
    ("xapp-1234567890", "***"),
    ("gsk_1234567890", "***"),
    ("AIzaSyA1234567890abcdefgh", "AIzaSy…efgh"),
    ("pplx-1234567890", "***"),
    ("npm_1234567890", "***"),
    ("123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5P", "123456…0K5P"),
    # clouds and services
    ("AKIAIOSFODNN7EXAMPLE", "AKIAIO…MPLE"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
     "aws_secret_access_key = wJalrX…EKEY"),
    ("ya29.a0AfH6SMBx1234567890", "ya29.a…7890"),
    ("AccountKey=abcd==;EndpointSuffix=core", "AccountKey=***;EndpointSuffix=core"),
    ("https://x.blob/c?sv=1&sig=abcdefghij%2Fklmnop&se=2",
     "https://x.blob/c?sv=1&sig=abcdef…mnop&se=2"),
    ("https://hooks.slack.com/services/T000/B000/XXXXXXXXXXXX",
     "https://hooks.slack.com/services/T000/B…XXXX"),
    ("glpat-abcdefghij1234567890", "glpat-…7890"),
    ("hf_abcdefghijklmnopqrstuv", "hf_abc…stuv"),
    ("sk_live_abcdefghij1234", "sk_liv…1234"),
    ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl", "eyJhbG…dXJl"),
    # connection strings
    ("postgres://app:p4ss@db:5432/notes", "postgres://app:***@db:5432/notes"),
    ("mysql+pymysql://app:a@b:c@db/x", "mysql+pymysql://app:***@db/x"),
    ("redis://:swordfish@cache:6379/0", "redis://:***@cache:6379/0"),
    ("mongodb+srv://u:secretsecretsecret@c.example.net/?w=1",
     "mongodb+srv://u:secret…cret@c.example.net/?w=1"),
    ("Server=db;User Id=app;Password=p4ss;Encrypt=true",
     "Server=db;User Id=app;Password=***;Encrypt=true"),
    ("https://x.test/?token=abc123def456gh&page=1", "https://x.test/?token=***&page=1"),
    # other languages
    ("密码：abc123", "密码：***"),
    ("пароль: qwerty12", "пароль: ***"),
    # key blocks
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----\nend",
     "-----BEGIN RSA PRIVATE KEY-----\n…redacted…\n-----END RSA PRIVATE KEY-----\nend"),
    ("a -----BEGIN OPENSSH PRIVATE KEY----- b3Blb -----END OPENSSH PRIVATE KEY----- z",
     "a -----BEGIN OPENSSH PRIVATE KEY----- …redacted… -----END OPENSSH PRIVATE KEY----- z"),
    ("-----BEGIN PRIVATE KEY-----\nhalf of it", "-----BEGIN PRIVATE KEY-----\n…redacted…"),
    ("-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----",
     "-----BEGIN PGP PRIVATE KEY BLOCK-----\n…redacted…\n-----END PGP PRIVATE KEY BLOCK-----"),
]  # fmt: skip

KEPT = [
    "the key: is under the mat",
    "The key: patience.",
    "The secret: love, and time",
    "the password: is under the mat",
    "The password is on the note.",
    "password: Don't tell anybody",
    "passwords: none of them were kept",
    "monkey=banana",
    "Turkey: a country; donkey: an animal",
    "The keyword: boiler2026plan",
    "key takeaways: three of them",
    "Key: A828E60F",
    "key=value",
    "a sort key: name1234567x",
    "primary key: id, foreign_key=user_id",
    "key: memory/2026-02-08.md",
    "token: the smallest unit of text",
    "max_tokens=4096, tokens: 1536",
    "use --token to pass it, or --password on the command line",
    "secret_key: str",
    "password = os.environ['DB_PASSWORD']",
    "password=getpass()",
    'find_key(sources(remote_key=Secret("name"), token=make_token(3)))',
    'remote = {"apiKey": server.key, "token": {"type": "x"}}',
    "by_token: dict[str, int] = {}; assert request.key == key",
    'config_key="openai"',
    "PASSWORD=${DB_PASSWORD} TOKEN=$TOKEN API_KEY=<your key>",
    "api_key: null, password: required",
    'password = ""',
    "密码：是什么",
    "see http://localhost:8080/path@x and git@github.com:org/repo.git",
    "task-abcdefgh12 and risk-averse people",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----",
    "at 12:30:45 on 2026-02-08, commit a828e60, step-12 of server-move-2026",
    "bearer of good news",
    "last_token = call_start",
    "RegEnumKey = winreg.EnumKey",
    "lastKey := nextKey, sort_key=make_sort_key(name, 1)",
    'Client(api_key=api_key, credentials=self.credentials); {"Idempotency-Key": idempotency_key}',
    "client_secret: SessionClientSecret, explicit_api_key=api_key, token=first_page_token",
    "signing_key = base64.b64decode(raw[6:])",
    "def check(token: AccessToken, count: int)",
    "arn:aws:ec2:us-west-2:123456789012:transit-gateway-multicast-domain/tgw-0c",
    "arn:aws:iam::123456789012:permissions-boundary-of-everybody",
    "",
]  # fmt: skip


@each(("text", "masked"), MASKED)
def test_secrets_are_masked(text, masked):
    assert redact(text) == masked


@each("text", KEPT)
def test_prose_code_and_names_stay_as_they_are(text):
    assert redact(text) == text


@each("text", [text for text, _ in MASKED])
def test_a_secret_is_masked_in_the_middle_of_a_message_too(text):
    secret_free = redact(f"He wrote:\n{text}\n\nand then left.")
    assert secret_free.startswith("He wrote:\n")
    if not text.startswith("-----BEGIN PRIVATE"):
        assert secret_free.endswith("\n\nand then left.")
        assert redact(text) in secret_free
