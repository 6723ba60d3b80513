"""What counts as a secret."""

from __future__ import annotations

import base64
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.secret_forms import FORMS, OTHERS, SECRET, VARIABLES, has_secret

from planck_nb.base.errors import ConfigError, ToolError
from planck_nb.base.secrets import (
    Redactor,
    find_secret,
    is_secret_name,
    is_secret_variable,
    known_secrets,
    looks_like_key,
    redact,
    redact_data,
    unfinished_secret,
)
from planck_nb.tools.process import child_environment

AWS_SECRET = VARIABLES["AWS_SECRET_ACCESS_KEY"].replace("EXAMPLEKEY", "a1b2C3d4e5")
"""It has 40 characters and no format."""


@pytest.mark.parametrize(
    "name",
    "OPENAI_API_KEY openai_apikey KEY STRIPE_KEY GITHUB_TOKEN TOKEN_FILE MY_SECRET_VALUE DB_PASSWORD PASSWD SMTP_PASS "
    "MYSQL_PWD GITHUB_PAT REGISTRY_AUTH SESSION_COOKIE GOOGLE_CREDENTIALS SSH_PASSPHRASE x_api_key "
    "SSHPASS DOCKER_AUTH_CONFIG MY_CREDS TF_VAR_PW APP_FERNET GIT_CONFIG_PARAMETERS".split(),
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)
    assert is_secret_variable(name, "x")


@pytest.mark.parametrize(
    "name",
    "PWD PATH session_tokens max_tokens MONKEY KEYBOARD SSH_AUTH_SOCK AUTHOR tokenizer led_pin GIT_CONFIG_COUNT "
    "GIT_CONFIG_VALUE_0 config_parameters".split(),
)
def test_names_of_other_settings(name: str) -> None:
    assert not is_secret_name(name)


def test_variables_of_others_are_judged_more_strictly() -> None:
    assert is_secret_variable("API_TOKENS", "x")
    assert is_secret_variable("DATABASE_URL", "postgres://me:hidden@host/db")
    assert not is_secret_variable("DOCS_URL", "https://host:80/me@x?time=10:30")


def test_values_that_are_too_common_to_search_for_are_not_known_secrets() -> None:
    environment = {"A_KEY": "k3y-of-the-house", "B_KEY": "none", "DB_PASSWORD": "postgres", "HOME": "/home/somebody"}
    assert known_secrets(environment) == {"k3y-of-the-house": "the value of A_KEY"}
    assert find_secret("it is k3y-of-the-house.", known_secrets(environment)) == "the value of A_KEY"
    assert find_secret("the postgres password", known_secrets(environment)) is None


@pytest.mark.parametrize("name", VARIABLES)
def test_variables_that_are_secrets(name: str) -> None:
    value = VARIABLES[name]
    assert is_secret_variable(name, value)
    assert child_environment({name: value}) == {}
    found = find_secret(f"it is {value}, I think", known_secrets({name: value}))
    assert found is not None
    assert value not in found
    assert value not in redact(f"it is {value}, I think", known_secrets({name: value}))


@pytest.mark.parametrize("name", OTHERS)
def test_variables_that_are_not_secrets(name: str) -> None:
    value = OTHERS[name]
    assert not is_secret_variable(name, value)
    assert child_environment({name: value}) == {name: value}
    assert not known_secrets({name: value})


def test_a_password_in_an_address_is_a_secret_of_its_own() -> None:
    known = known_secrets({"DATABASE_URL": VARIABLES["DATABASE_URL"]})
    assert find_secret("the password is hid/den-word", known) == "the value of DATABASE_URL"
    assert redact("the password is hid%2Fden-word", known) == "the password is [the value of DATABASE_URL]"


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_found_and_replaced_in_every_form(form: str) -> None:
    known = {SECRET: "the value of A_KEY"}
    assert has_secret(FORMS[form])
    assert find_secret(FORMS[form], known) == "the value of A_KEY"
    cleaned = redact(FORMS[form], known)
    assert "[the value of A_KEY]" in cleaned
    assert not has_secret(cleaned)


@pytest.mark.parametrize(
    "text",
    [
        "sk_live_0123456789abcdefghij",
        "npm_0123456789abcdefghijABCDEFGHIJ012345",
        "SG.0123456789abcdef-_.0123456789abcdef",
        "https://hooks.slack.com/services/T0123/B0123/0123456789abcdef",
        "xai-" + "a1" * 30,
        "postgres://me:a-r3al-one@host/db",
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
        "ya29.a0AfH6SMBx3-0123456789abcdef",
        f"AKIAIOSFODNN7EXAMPLE,{AWS_SECRET}",
        f"aws configure\nAKIAIOSFODNN7EXAMPLE\n{AWS_SECRET}",
        f'{{"id": "ASIAIOSFODNN7EXAMPLE", "value": "{AWS_SECRET}"}}',
        "aB3" * 17 + "x" + "JQQJ99" + "BA" + "Cd4f" * 4 + "A" + "abcd123",
        "aB3/" * 19 + "+ASt" + "abcd1" + "A==",
        "abc8Q~" + "aB3-" * 8 + "xy",
        "AGE-SECRET-KEY-1" + "QPZRY9X8GF2T" * 4 + "VDW0S3JN54",
    ],
)
def test_formats_of_keys_are_replaced_in_exports(text: str) -> None:
    assert find_secret(f"before {text} after", {}) is not None
    cleaned = redact(f"before {text} after", {}, formats=True)
    assert AWS_SECRET not in cleaned
    assert cleaned.startswith("before ")
    assert cleaned.endswith(" after")
    assert text not in cleaned
    assert "MIIE" not in cleaned
    assert "a-r3al-one" not in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE is the id; the commit is da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "AKIAIOSFODNN7EXAMPLE " + "word " * 60 + AWS_SECRET,
        "0123456789abcdef0123456789abcdef d41d8cd98f00b204e9800998ecf8427e",
        "sha256-" + base64.b64encode(bytes(range(32))).decode(),
        base64.b64encode(bytes(range(256)) * 4).decode(),
        "https://x.invalid/a/8Q~b abc8Q~short",
        "aB3" * 40,
    ],
)
def test_what_has_no_format_of_a_secret_stays(text: str) -> None:
    assert redact(text, {}, formats=True).replace("[an AWS key]", "AKIAIOSFODNN7EXAMPLE") == text


@pytest.mark.parametrize(("value", "secret"), [("a1B2c3D4e5F6a7B8", True), ("enabled", False), ("true", False)])
def test_an_ambiguous_name_is_a_secret_beside_a_generated_key(value: str, *, secret: bool) -> None:
    for name in ("SIGNING", "WEBHOOK_SIGNATURE", "app_hmac"):
        assert is_secret_variable(name, value) is secret


def test_looking_for_formats_is_linear() -> None:
    def seconds(count: int) -> float:
        text = "AKIAIOSFODNN7EXAMPLE aB3/+x" * count
        before = time.thread_time()
        redact(text, {}, formats=True)
        return time.thread_time() - before

    assert any(seconds(8_000) < max(0.2, 9 * seconds(2_000)) for _ in range(3))


@pytest.mark.parametrize("text", ["postgres://user:password@host/db", "http://$USER:$PASSWORD@host", "a://b:<pw>@c"])
def test_addresses_in_documentation_have_no_password(text: str) -> None:
    assert find_secret(text, {}) is None
    assert redact(text, {}, formats=True) == text


def test_the_beginning_of_a_secret_at_the_end_of_a_text() -> None:
    assert unfinished_secret("it is k3y-of-", {"k3y-of-the-house": ""}) == 7
    assert unfinished_secret("it is k3y-of-the-house", {"k3y-of-the-house": ""}) == 0
    assert unfinished_secret("", {"k3y-of-the-house": ""}) == 0


def test_the_longest_secret_is_replaced_first() -> None:
    known = {"client-id-1": "the id", "client-id-1.and-a-secret": "the key", "x9y8z7": "a word", "x9y8z7-more": "more"}
    for each in (known, dict(reversed(known.items()))):
        assert redact("client-id-1.and-a-secret, client-id-1", each) == "[the key], [the id]"
        assert redact("x9y8z7-more x9y8z7", each) == "[more] [a word]"


def test_columns_keep_their_names_and_nothing_else_is_left() -> None:
    known = {"agent_id-1": "the value of A", "agent_id": "the value of B", "w0rd12": "a word"}
    text = 'a "quoted" agent_id-1\n'
    rows: list[dict[str, Any]] = [
        {"agent_id": "a", "data": {"agent_id": [text, 1]}},
        {"agent_id": "w0rd12"},
        {"agent_id": "xw0rd12"},
    ]
    assert [Redactor(known).redacted(row) for row in rows] == [
        {"agent_id": "a", "data": {"[the value of B]": ['a "quoted" [the value of A]\n', 1]}},
        {"agent_id": "[a word]"},
        {"agent_id": "xw0rd12"},
    ]


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_replaced_in_every_form(form: str) -> None:
    row = Redactor({SECRET: "the value of A_KEY"}).redacted({"data": {"text": FORMS[form]}})
    assert not has_secret(json.dumps(row, ensure_ascii=False))
    assert row == {"data": redact_data({"text": FORMS[form]}, {SECRET: "the value of A_KEY"})}


@pytest.mark.parametrize("text", ["sk-" + "a1" * 20, "postgres://me:a-r3al-one@host/db", "x\nsk-" + "a1" * 20])
def test_formats_of_keys_are_replaced_in_rows(text: str) -> None:
    row = Redactor({}).redacted({"data": [text]})
    assert text not in json.dumps(row)
    assert row == {"data": [redact(text, {}, formats=True)]}


def test_replacing_in_many_rows_costs_little_more_than_writing_them() -> None:
    known = {f'secret-number-{number}-w&th "q': "a key" for number in range(10)}
    row = {
        "id": 1,
        "kind": "message",
        "data": {"type": "user", "parts": [{"type": "text", "text": "hello there " * 8}]},
    }
    rows, redactor = [row] * 1_000, Redactor(known)

    def seconds(function: Callable[[], object]) -> float:
        before = time.thread_time()
        function()
        return time.thread_time() - before

    tracer = sys.gettrace()
    sys.settrace(None)  # else it is measured, too
    try:
        ours = min(seconds(lambda: [redactor.redacted(row) for row in rows]) for _ in range(5))
        floor = min(seconds(lambda: [json.dumps(row, ensure_ascii=False) for row in rows]) for _ in range(5))
    finally:
        sys.settrace(tracer)
    print(f"{ours * 1e6 / len(rows):.1f} us a row, {ours / floor:.1f} of what its JSON costs")
    assert ours < 20 * floor


@pytest.mark.parametrize("key", ["lm-studio", "sk-no-key-required", "not-needed", "token-abc123", "EMPTY", "sk-1234"])
def test_words_in_place_of_keys_are_not_keys(key: str) -> None:
    assert not looks_like_key(key)


@pytest.mark.parametrize("key", ["sk-" + "a" * 20, "0123456789abcdef", "AbCdEfGhIjKlMn0pQ"])
def test_generated_keys_are_keys(key: str) -> None:
    assert looks_like_key(key)


def test_a_key_is_left_out_of_the_message_of_any_error() -> None:
    key = "ghp_" + "0451abcdefGHIJ" * 3
    for error in (ConfigError(f"default_model cannot be {key[:40]!r}."), ToolError(f"{key[:40]} is unknown")):
        assert "0451" not in str(error)
        assert "[a GitHub token]" in str(error)
    assert ToolError("a", 3).args == ("a", 3)
