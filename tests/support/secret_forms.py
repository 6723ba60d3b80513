"""A secret in the forms in which it may appear in a text, and names of variables that hold secrets and others."""

from __future__ import annotations

import base64
import html
import json
from urllib.parse import quote, quote_plus

SECRET = 'k3y/of+the"house\\2024=ü'

VARIABLES = {
    "PGPASSWORD": "hunter2-hunter2",
    "GITHUB_PAT": "pat-0123456789",
    "DATABASE_URL": "postgres://me:hid%2Fden-word@host:5432/db",
    "REDIS_URL": "redis://:r3dis-pass-word@host",
    "SENTRY_DSN": "https://0123456789abcdef@o1.ingest.example/2",
    "OPENAI_API_KEY": "sk-0123456789",
    "openai_api_key": "lower-0123456789",
    "KEY": "plain-key-0123",
    "AUTH": "auth-0123456789",
    "BASIC_AUTH": "me:basic-auth-0123",
    "NPM_CONFIG__AUTH": "npm-auth-0123",
    "HTTP_AUTHORIZATION": "authorization-0123",
    "MYSQL_PWD": "mysql-pwd-0123",
    "DBPASS": "db-pass-0123",
    "SMTP_PASS": "smtp-pass-0123",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "AWS_ACCESS_KEY_ID": "access-key-id-0123",
    "API_TOKENS": "tokens-0123456789",
    "apiKey": "camel-0123456789",
    "X-Api-Key": "header-0123456789",
    "SIGNING_KEYS": "keys-0123456789",
    "AZURE_CONNECTION_STRING": "Endpoint=sb://x;AccountKey=azure-0123456789",
    "ENDPOINT": "Server=x;Password=settings-0123",
    "CALLBACK": "https://host/hook?token=callback-0123",
    "NOTE": "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "SSL_PASSPHRASE": "passphrase-0123",
    "SESSION_COOKIE": "cookie-0123456789",
    "GOOGLE_CREDENTIALS": "credentials-0123",
    "ID_JWT": "jwt-0123456789",
    "SHORT_TOKEN": "h4nter7",
}
"""Variables that are secrets, by their names or by their values."""

OTHERS = {
    "PWD": "/home/me",
    "OLDPWD": "/home/me",
    "KEYBOARD": "layout-of-a-keyboard",
    "AUTHOR": "somebody-or-other",
    "MONKEY": "monkey-business-1",
    "TOKENIZERS_PARALLELISM": "false",
    "SSH_AUTH_SOCK": "/tmp/ssh-x/agent.1",
    "GIT_ASKPASS": "/usr/bin/askpass-1",
    "SSH_ASKPASS": "/usr/bin/askpass-1",
    "XAUTHORITY": "/home/me/.Xauthority",
    "COMPASS": "north-north-east",
    "KEYRING_BACKEND": "file-of-the-user",
    "DOCS_URL": "https://host:80/me@x?time=10:30",
    "HOME": "/home/me",
    "LANG": "en_GB.UTF-8",
    "PATTERN": "a-pattern-of-text",
    "DISPATCH": "a-dispatch-1",
    "HTTPS_PROXY": "http://proxy.example:3128",
}
"""Variables that commands need, whose names resemble those of secrets."""


def _base64(before: str, *, url: bool = False) -> str:
    encode = base64.urlsafe_b64encode if url else base64.b64encode
    return encode(f"{before}{SECRET}".encode()).decode()


_JSON = json.dumps(SECRET)

FORMS = {
    "as it is": SECRET,
    "in a sentence": f"The key is {SECRET}.",
    "in quotes": f"'{SECRET}'",
    "in a word": f"abc{SECRET}def",
    "after an equals sign": f"export KEY={SECRET}",
    "in a header": f"Authorization: Bearer {SECRET}",
    "in a query": f"https://host/?key={SECRET}&x=1",
    "URL-encoded": quote(SECRET, safe=""),
    "URL-encoded with slashes": quote(SECRET),
    "URL-encoded as a form": quote_plus(SECRET),
    "URL-encoded in lower case": quote(SECRET, safe="")
    .replace("%2F", "%2f")
    .replace("%2B", "%2b")
    .replace("%3D", "%3d")
    .replace("%5C", "%5c")
    .replace("%C3%BC", "%c3%bc"),
    "JSON": _JSON,
    "JSON with letters": json.dumps(SECRET, ensure_ascii=False),
    "JSON in JSON": json.dumps(_JSON),
    "nested JSON": json.dumps({"a": [{"b": SECRET}]}),
    "nested JSON as text": json.dumps({"a": json.dumps({"b": SECRET})}),
    "a name in JSON": json.dumps({SECRET: 1}),
    "HTML": html.escape(SECRET),
    "HTML without quotes": html.escape(SECRET, quote=False),
    "base64": _base64(""),
    "base64 after one byte": _base64("u"),
    "base64 after two bytes": _base64("u:"),
    "base64 after a user": _base64("user:"),
    "base64 for URLs": _base64("", url=True),
    "base64 for URLs after a byte": _base64("x", url=True),
    "hexadecimal": SECRET.encode().hex(),
    "upper-case hexadecimal": SECRET.encode().hex().upper(),
    "on the last line": f"one\ntwo\n{SECRET}",
    "twice": f"{SECRET} {SECRET}",
    "among colours": f"\x1b[31m{SECRET}\x1b[0m",
    "after 20,000 characters": "x " * 10_000 + SECRET,
}
"""Texts that contain the secret."""

TRACES = (
    SECRET,
    _JSON[1:-1],
    json.dumps(_JSON)[3:-3],
    json.dumps(SECRET, ensure_ascii=False)[1:-1],
    quote(SECRET, safe=""),
    quote(SECRET),
    quote(SECRET, safe="").lower(),
    html.escape(SECRET),
    html.escape(SECRET, quote=False),
    SECRET.encode().hex(),
    SECRET.encode().hex().upper(),
    _base64("")[:-4],
    _base64("", url=True)[:-4],
    _base64("u")[4:-4],
    _base64("u:")[4:-4],
)
"""What must not be in a text without the secret."""


def has_secret(text: str) -> bool:
    return any(trace in text for trace in TRACES)
