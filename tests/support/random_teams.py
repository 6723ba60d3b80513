"""Random programs for the agents of a team: what each of them answers and calls, for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from planck_nb.testing import Call, Reply

NAMES = ("lead", "ann", "ben", "cem")

names = st.sampled_from(NAMES)
actions = st.one_of(
    st.tuples(st.just("ask_agent"), names),
    st.tuples(st.just("ask_agent"), names),
    st.tuples(st.just("delegate_task"), names),
    st.tuples(st.just("delegate_task"), names),
    st.tuples(st.just("delegate_task"), names),
    st.tuples(st.just("send_response"), names),
    st.tuples(st.just("pause"), names),
    st.tuples(st.just("pause"), names),
    st.tuples(st.just("spawn_agent"), names),
    st.tuples(st.just("interrupt_agent"), names),
    st.tuples(st.just("destroy_agent"), names),
)
replies = st.lists(
    st.one_of(
        st.just(None), st.just("error"), st.lists(actions, min_size=1, max_size=3), st.lists(actions, max_size=1)
    ),
    max_size=6,
)
scripts = st.fixed_dictionaries(dict.fromkeys(NAMES, replies))


def scripted(name: str, script: list[Any]) -> list[Reply | str]:
    """The replies of an agent: each text and each task names the agent and is different from all others."""
    made: list[Reply | str] = []
    for number, entry in enumerate(script):
        if entry is None:
            made.append(f"{name}#{number}")
        elif entry == "error":
            made.append(Reply(f"{name}#{number}", error="broken"))
        else:
            calls = [_call(name, f"{number}.{index}", *action) for index, action in enumerate(entry)]
            made.append(Reply(text=f"{name}#{number}", calls=calls))
    return [*made, *(f"{name}#{number}" for number in range(len(script), 300))]


def _call(name: str, number: str, tool: str, other: str) -> Call:
    marks = {"question": f"{name}?{number}", "task": f"{name}?{number}", "response": f"{name}!{number}"}
    args: dict[str, Any] = {"agent_id": other, "type": "spawned", **marks}
    return Call(tool, args)
