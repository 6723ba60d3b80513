"""Events are published with the payload of their class; mypy says so before anything runs."""

from __future__ import annotations

import pytest

from planck_nb.agent import events as ev
from planck_nb.agent.message_log import MemoryLog
from planck_nb.agent.recorder import EventRecorder
from planck_nb.agent.state import AgentState


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
