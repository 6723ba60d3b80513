"""What counts as a secret."""

from __future__ import annotations

import pytest

from planck_nb.base.secrets import find_secret, is_secret_name, is_secret_variable, known_secrets


@pytest.mark.parametrize(
    "name",
    "OPENAI_API_KEY openai_apikey KEY STRIPE_KEY GITHUB_TOKEN TOKEN_FILE MY_SECRET_VALUE DB_PASSWORD PASSWD SMTP_PASS "
    "MYSQL_PWD GITHUB_PAT REGISTRY_AUTH SESSION_COOKIE GOOGLE_CREDENTIALS SSH_PASSPHRASE x_api_key".split(),
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret_name(name)
    assert is_secret_variable(name, "x")


@pytest.mark.parametrize(
    "name", "PWD PATH session_tokens max_tokens MONKEY KEYBOARD SSH_AUTH_SOCK AUTHOR tokenizer".split()
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
