"""Secrets in the additional request fields of an agent are never stored, and a resume says what to set again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planck_nb import Config, Workspace, ai
from planck_nb.agent.events import AgentChanged, AgentStarted
from planck_nb.ai import Options
from planck_nb.ai.model_lookup.model_source import model_source
from planck_nb.ai.model_lookup.stored_options import LEFT_OUT, stored_options

KEY = "tvly-abcdefgh-12345678"
OPENAI = "sk-proj-abcdefghijklmnopqrstuvwxyz123456"

SECRET: dict[str, Any] = {
    "search_api_key": KEY,
    "note": f"use {OPENAI} for it",
    "mcp_servers": [{"type": "url", "url": "https://a.test", "authorization_token": KEY}],
    "web": {"options": {"headers": {"X-Api-Key": KEY}}},
    "proxy": f"https://ada:{KEY}@proxy.test",
    "label": KEY,  # the value of an environment variable
    "keys": (KEY, KEY),
    "values": {OPENAI: 1},
}


def load(tmp_path: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=tmp_path, home=tmp_path / "home"))


def files_with_secrets(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [path for path in files if any(secret.encode() in path.read_bytes() for secret in (KEY, OPENAI))]


@pytest.mark.slow
async def test_no_file_has_the_secrets_and_a_resume_names_the_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", KEY)
    extra = {"service_tier": "flex", "prompt_cache_key": "a-long-cache-key", **SECRET}
    async with load(tmp_path) as place:
        ann = place.add_agent("ann", model=place.model("demo"), options=Options(temperature=0.5, extra=extra))
        ann.options = Options(temperature=0.7, extra=extra)
        started = [event for event in ann.events.since(0) if isinstance(event, AgentStarted | AgentChanged)]
        assert KEY not in repr(started)
        assert OPENAI not in repr(started)
        await place.session.flush()
        assert ann.options.extra == extra, "the agent itself goes on with it"
        assert await place.fork("copy") == [], "and so does its copy in this process"
        assert place.agent("ann").options.extra == extra
    assert files_with_secrets(tmp_path) == []
    async with load(tmp_path) as place:
        (problem,) = await place.resume("copy")
        assert problem == (
            f"ann continues without {', '.join(SECRET)}, as request fields with secrets are never stored; "
            "set the options of ann again in Python, with `extra`."
        )
        kept = {"service_tier": "flex", "prompt_cache_key": "a-long-cache-key"}
        assert place.agent("ann").options.extra == kept
        assert place.agent("ann").options.temperature in {0.5, 0.7}


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"service_tier": "priority", "seed": 7, "store": False},
        {"metadata": {"user_id": "ada", "purpose": "token counting"}},
        {"max_tool_calls": 3, "prompt_cache_key": "orders-of-june-2026", "token_count": 12345678},
        {"mcp_servers": [{"type": "url", "url": "https://a.test/mcp", "name": "a"}]},
    ],
)
def test_other_fields_are_stored_as_before(extra: dict[str, Any]) -> None:
    options = Options(temperature=0.1, stop=("a",), extra=extra)
    assert stored_options(options) == options.named()
    assert Options.from_named(json.loads(json.dumps(stored_options(options)))).extra == extra


def test_names_of_what_was_left_out_are_no_options() -> None:
    stored = stored_options(Options(top_p=0.5, extra={"api_key": KEY, "seed": 1}))
    assert stored == {"top_p": 0.5, "extra": {"seed": 1}, LEFT_OUT: ["api_key"]}
    assert Options.from_named(stored) == Options(top_p=0.5, extra={"seed": 1})


def test_secrets_in_lists_of_a_models_own_options_are_not_stored_either() -> None:
    servers = [{"url": "https://a.test", "authorization_token": KEY}]
    model = replace(ai.get_model("openai", "gpt-5"), options=Options(extra={"mcp_servers": servers}))
    assert KEY not in json.dumps(model_source(model))
