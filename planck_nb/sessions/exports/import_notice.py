"""What an imported session does not give its agents until the user trusts it, as a sentence.

A signature is valid only in its own session, so no row of an import that gives power is authentic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.tools.reserved_names import KERNEL_NAMES, is_reserved

_SHOWN = 200
"""Characters of the names of tools that are shown."""


def import_notice(name: str, records: Iterable[JsonObject]) -> str:
    """Return a sentence about what waits for trust in an imported session; empty if nothing does.

    Args:
        name: The name of the session.
        records: Its rows that no rewind hides.
    """
    records = list(records)
    agents, settings = _agents(records), _settings(records)
    rules = {_text(pair[1]) for stored in settings for pair in _pairs(stored.get("rules")) if pair[0] == "allow"}
    rules |= {_text(data.get("rule")) for data in _of_type(records, "approval_decision") if _is_remembered(data)}
    addresses = {_text(_table(agent.get("model_source")).get("base_url")) for agent in agents}
    tools = {tool for agent in agents for tool in _list(agent.get("tools")) if isinstance(tool, str)}
    named = sorted(tool for tool in tools if tool in KERNEL_NAMES or not is_reserved(tool))
    others = one_line(", ".join(named), _SHOWN)
    waiting = [
        _counted(len(rules - {""}), "approval rule", "approval rules"),
        _counted(len(addresses - {""}), "address of a model", "addresses of models"),
        f"the tools {visible(others, lookalikes=True)} (unless your folder has them)" if others else "",
        "the grants of its agents" if any(any(_table(agent.get("grants")).values()) for agent in agents) else "",
        "additional request fields" if any(_table(agent.get("options")).get("extra") for agent in agents) else "",
    ]
    *first, last = [part for part in waiting if part] or [""]
    if not last:
        return ""
    joined = f"{', '.join(first)} and {last}" if first else last
    return (
        f"Session {name} continues without {joined} until you trust it: "
        f"look at it, then `%planck resume {name} --trust` restores everything."
    )


def _settings(records: Iterable[JsonObject]) -> list[JsonObject]:
    """The settings that were stored last, and those that a resume without trust has set aside."""
    metadata: JsonObject = {}
    for record in records:
        if record["kind"] == "metadata":
            metadata |= _table(record.get("data"))
    return [_table(metadata.get("choices")), _table(_table(metadata.get("waiting")).get("settings"))]


def _agents(records: Iterable[JsonObject]) -> list[JsonObject]:
    """The newest description of each agent that was not removed, and what a resume without trust has set aside."""
    agents: dict[str, JsonObject] = {}
    waiting: JsonObject = {}
    for record in records:
        data = _table(record.get("data"))
        if record["kind"] == "metadata":
            waiting = _table(data.get("waiting", waiting))
        elif record.get("type") in ("agent_started", "agent_changed"):  # a tuple, as it may be a list
            agent_id = str(record.get("agent_id"))
            agents[agent_id] = {**agents.get(agent_id, {}), **data}
    kept = {agent_id: agent for agent_id, agent in agents.items() if not agent.get("removed")}
    set_aside = _table(waiting.get("agents"))
    return [*kept.values(), *(_table(data) for agent_id, data in set_aside.items() if agent_id in kept)]


def _of_type(records: Iterable[JsonObject], kind: str) -> Iterator[JsonObject]:
    return (_table(record.get("data")) for record in records if record.get("type") == kind)


def _is_remembered(decision: JsonObject) -> bool:
    return decision.get("allowed") is True and decision.get("by") == "user"


def _counted(number: int, one: str, several: str) -> str:
    return "" if not number else f"{number} {one if number == 1 else several}"


def _pairs(value: object) -> list[list[Any]]:
    return [pair for pair in _list(value) if isinstance(pair, list) and len(pair) == 2]  # noqa: PLR2004 - a pair


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _table(value: object) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
