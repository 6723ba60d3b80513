"""Every event of an agent, to import as a namespace: `from planck_nb import events`.

    >>> from planck_nb import Agent, events, run_sync
    >>> async def show(agent: Agent) -> None:
    ...     async for event in agent.prompt("hello"):
    ...         match event:
    ...             case events.TextDelta():
    ...                 print(event.text, end="")
    ...             case events.ToolStart():
    ...                 print(f"{event.name}({event.args})")
    ...     print()
    >>> run_sync(show(Agent(model="demo")))
    I am the demo model...

`AgentEvent` is the union of all of them; `event.type` is the tag of an event's class, such as "text_delta".
"""

from __future__ import annotations

from typing import get_args

from planck_nb.agent.events import *  # noqa: F403 - an event is declared once, there
from planck_nb.agent.events import AgentEvent, EventBase, decode_event, encode_event

__all__ = [  # noqa: PLE0604 - computed, so that a new event is public without another edit
    "AgentEvent",
    "EventBase",
    "decode_event",
    "encode_event",
    *sorted(event.__name__ for event in get_args(AgentEvent)),
]


def __dir__() -> list[str]:
    return __all__
