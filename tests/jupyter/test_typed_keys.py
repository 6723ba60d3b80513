"""Keys that are typed as a prompt or a command are refused without being quoted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from planck_nb import Config, Workspace
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.interpretation import VerbLine, interpret
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.options import Prompt

BODY = "0451abcdefGHIJ" * 5
KEYS = {
    "anthropic": "sk-ant-" + BODY,
    "openai": "sk-" + BODY,
    "openai project": "sk-proj-" + BODY,
    "stripe": "sk_live_" + BODY[:20],
    "google": "AIza" + BODY[:35],
    "github": "ghp_" + BODY[:36],
    "github fine": "github_pat_" + BODY[:30],
    "gitlab": "glpat-" + BODY[:20],
    "hugging face": "hf_" + BODY[:34],
    "groq": "gsk_" + BODY[:44],
    "xai": "xai-" + BODY[:44],
    "npm": "npm_" + BODY[:36],
    "pypi": "pypi-" + BODY[:60],
    "sendgrid": "SG." + BODY[:20] + "." + BODY[:20],
    "slack": "xoxb-" + BODY[:20],
    "webhook": "https://hooks.slack.com/services/" + BODY[:30],
    "aws": "AKIA" + "0451ABCDEFGHIJKL",
    "bearer": "Bearer " + BODY[:30],
    "jwt": "eyJ" + BODY[:20] + ".eyJ" + BODY[:20] + "." + BODY[:20],
    "google token": "ya29." + BODY[:40],
    "client secret": "GOCSPX-" + BODY[:28],
    "nvidia": "nvapi-" + BODY[:60],
    "replicate": "r8_" + BODY[:37],
    "perplexity": "pplx-" + BODY[:40],
    "digitalocean": "dop_v1_" + "0451abcdef" * 6,
    "vault": "hvs." + BODY[:30],
    "atlassian": "ATATT" + BODY[:60],
    "databricks": "dapi" + "0451abcdef" * 3 + "04",
    "named": "aws_secret_access_key = " + BODY[:40],
    "named in shell": "X_API_KEY=" + BODY[:24],
    "private": "-----BEGIN RSA PRIVATE KEY-----\n" + BODY,
}
LINES = (
    "{}",
    "set key {}",
    "config anthropic_api_key={}",
    "config default_model {}",
    "login {}",
    "ann my key is {}, use it",
    "--system {} hello",
    'policy allow "{}"',
    "run the tests -- with {}",
    "--agent ann run -- {}",
    "steer ann {} -- go on",
)


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[Notebook]:
    async with Workspace(Config(tmp_path, root=tmp_path)) as workspace:
        workspace.add_agent("ann", model=workspace.model("demo"))
        yield Notebook(Controller(workspace), {})


def refused(line: str, cell: str | None, notebook: Notebook) -> str:
    with pytest.raises(UsageError) as raised:
        interpret(line, cell, notebook)
    return str(raised.value)


@pytest.mark.parametrize("name", KEYS)
async def test_a_key_is_refused_wherever_it_is_typed(name: str, notebook: Notebook) -> None:
    key = KEYS[name]
    for line in LINES:
        if "\n" in key:
            continue
        said = refused(line.format(key), None, notebook)
        assert "Nothing was sent" in said
        assert "0451" not in said
        assert "\n" not in said
    for header in ("", "ann", "ann --quiet", "history", "usage"):
        said = refused(header, f"Here it is:\n{key}\nUse it.", notebook)
        assert "environment variables" in said
        assert "0451" not in said


@pytest.mark.parametrize("line", ["set key {}", "set api_key {}", "login {}", "set mistral token {}"])
async def test_a_key_without_a_known_beginning_is_refused_in_a_command(line: str, notebook: Notebook) -> None:
    for key in ("Tz7kQ2mW9xLp4RvN8sYb3HcJ6dFg1AeU", "8f3a9c2e7b1d4f6a8e0c5b9d2f7a1c3e"):
        assert key not in refused(line.format(key), None, notebook)


async def test_somebody_who_insists_can_send_it(notebook: Notebook) -> None:
    key = KEYS["openai"]
    assert interpret(f"-- {key}", None, notebook) == Prompt({}, key)
    assert interpret(f"ann -- {key}", None, notebook) == Prompt({"agent": "ann"}, key)
    assert interpret("--", f"{key}\n", notebook) == Prompt({}, f"{key}\n")
    assert interpret("ann --", f"{key}\n", notebook) == Prompt({"agent": "ann"}, f"{key}\n")


ORDINARY = (
    "What does sk-ant-... look like?",
    "Explain the header Authorization: Bearer <token>.",
    "My sk-learn model; ask-me-anything-about-this-very-long-word",
    "hash a3f5c9d2e1b4a3f5c9d2e1b4a3f5c9d2e1b4a3f5",
    "https://example.org/services/T0001/B0001",
    "task-force-of-the-twenty-first-century",
)


@pytest.mark.parametrize("text", ORDINARY)
async def test_ordinary_texts_are_sent(text: str, notebook: Notebook) -> None:
    assert isinstance(interpret("", text, notebook), Prompt)
    assert isinstance(interpret(f"ann {text}", None, notebook), Prompt)


async def test_a_query_may_look_for_keys_that_leaked(notebook: Notebook) -> None:
    query = f"select * from messages where text like '%{KEYS['github']}%'"
    assert isinstance(interpret("sql", query, notebook), VerbLine)
