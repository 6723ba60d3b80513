"""What the user chose for a session still holds when it is resumed."""

from __future__ import annotations

from pathlib import Path

import pytest

from planck_nb import Config, Workspace
from planck_nb.agent.approval import Rule
from planck_nb.ai import get_model
from planck_nb.workspace.session_settings import SessionSettings


def place(folder: Path) -> Workspace:
    return Workspace(Config.load(environment={"PLANCK_NB_ALLOW": "bash:ls"}, directory=folder))


async def test_rules_and_addresses_come_back_with_the_session(tmp_path: Path) -> None:
    async with place(tmp_path) as first:
        first.add_agent("ann", model=get_model("openai:own", base_url="http://127.0.0.1:9/v1"))
        first.add_agent("bob", model=get_model("demo"))
        first.approvals.remember(Rule.parse("deny", "write:a, b/**"))
        await first.save_session_settings()
        last = first.session._last_id
        await first.save_session_settings()
        assert first.session._last_id == last  # nothing changed, nothing written
        session_id = first.session.id
    async with place(tmp_path) as second:
        await second.resume(session_id)
        assert second.agent("ann").model.base_url == "http://127.0.0.1:9/v1"
        assert second.agent("bob").model == get_model("demo")
        assert [str(rule) for rule in second.approvals.policy.rules if rule.action == "deny"] == ["write:a, b/**"]
        last = second.session._last_id
        await second.save_session_settings()
        assert second.session._last_id == last
        await second.fork("copy")
        assert second.agent("ann").model.base_url == "http://127.0.0.1:9/v1"


@pytest.mark.slow
@pytest.mark.parametrize("key", ["the same", "another"])
async def test_what_agents_may_read_stays_limited(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    async with place(tmp_path) as first:
        ann = first.add_agent("ann", model=get_model("demo")).id
        first.readable_names[ann] = {"orders", "prices"}
        await first.save_session_settings()
        session_id = first.session.id
    if key == "another":  # of another person, whose settings are not restored
        monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("other")))
    async with place(tmp_path) as second:
        await second.resume(session_id)
        assert second.readable_names == {ann: {"orders", "prices"}}
        await second.fork("copy")
        assert second.readable_names == {second.agent("ann").id: {"orders", "prices"}}


async def test_before_there_is_a_session_nothing_is_kept(tmp_path: Path) -> None:
    async with place(tmp_path) as workspace:
        workspace.approvals.remember(Rule.parse("deny", "write"))
        await workspace.save_session_settings()
        assert not (tmp_path / ".planck").exists()


@pytest.mark.parametrize(
    "stored",
    [
        None,
        3,
        [],
        {"rules": 3, "readable": 3},
        {"rules": [["permit", "x"], ["allow"], 3, ["allow", 3]], "readable": []},
        {"rules": ()},
        {"readable": ["a"]},
    ],
)
def test_what_cannot_be_read_is_left_out(stored: object) -> None:
    assert SessionSettings.of_stored(stored) == SessionSettings()


def test_what_is_written_is_read() -> None:
    session_settings = SessionSettings(
        (Rule.parse("ask", "bash:git *"), Rule.parse("allow", "*@write")), {"1": ("x",)}, {"cost": None}
    )
    assert SessionSettings.of_stored(session_settings.stored()) == session_settings
