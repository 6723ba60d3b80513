"""The recorded events that Python and TypeScript fold alike; and what is missing when an event is new."""

from __future__ import annotations

from typing import Any

import pytest
from fixtures.events import record

from planck_nb.agent import events as ev
from planck_nb.agent import state
from planck_nb.agent.message_log import MemoryLog
from planck_nb.agent.recorder import EventRecorder
from planck_nb.agent.state import AgentState

TYPES = [kind.__dataclass_fields__["type"].default for kind in record.KINDS]
STALE = f"The recording is out of date: run `{record.COMMAND}` and commit what it writes."


def golden() -> list[ev.AgentEvent]:
    return [ev.decode_event(line) for line in record.read(record.EVENTS)]


@pytest.mark.parametrize(
    "kind", [value for value in vars(ev).values() if ev.EventBase in getattr(value, "__bases__", ())]
)
def test_every_event_is_in_the_union(kind: Any) -> None:
    assert kind in record.KINDS, f"Add {kind.__name__} to the union AgentEvent in agent/events.py."


@pytest.mark.parametrize("kind", TYPES)
def test_every_event_is_folded_or_ignored_explicitly(kind: str) -> None:
    assert kind in state._FOLDS, f"Add {kind} to _FOLDS in agent/state.py; with _unchanged if it changes no state."


def test_the_recording_has_every_event_and_every_field() -> None:
    lines = record.read(record.EVENTS)
    assert {line["type"] for line in lines} == set(TYPES), STALE
    assert [ev.encode_event(ev.decode_event(line)) for line in lines] == lines, STALE


async def test_a_new_recording_has_the_same_events() -> None:
    """Also shows that the recording does not depend on time or chance."""
    assert [event.type for event in await record.record()] == [event.type for event in golden()], STALE


def test_python_folds_the_recording_to_the_recorded_states() -> None:
    assert record.states(golden()) == record.read(record.STATES), STALE


# Events are published with the payload of their class; mypy says so before anything runs.


def recorder() -> EventRecorder:
    return EventRecorder("a1", None, MemoryLog(), AgentState(), ())


def test_a_wrong_payload_does_not_type_check() -> None:
    # mypy reports an ignore that nothing needs, so each of these lines fails the types check once it is accepted.
    with pytest.raises(TypeError):
        recorder().emit(ev.TurnStart, 0)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        recorder().emit(ev.Aborted, "x", "y")  # type: ignore[call-arg, arg-type]
    recorder().emit(ev.TextDelta, 1)  # type: ignore[arg-type]
    recorder().emit_to((), ev.Unqueued, None)  # type: ignore[arg-type]


def test_events_are_numbered_without_gaps_and_a_turn_start_belongs_to_its_turn() -> None:
    one = recorder()
    one.emit(ev.TurnStart, 0, "demo:small")
    one.emit(ev.TextDelta, "Hi")
    one.emit(ev.Aborted)
    assert [(event.seq, event.turn) for event in one.events.since(0)] == [(0, 0), (1, 0), (2, 0)]
