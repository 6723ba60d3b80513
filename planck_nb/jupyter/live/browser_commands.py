"""What a browser asks for, checked: nothing that it sends can do more than the actions of a run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol, TypeAlias

from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable


class Actions(Protocol):
    """What the live view of a run can ask for. Each returns at once and may raise a `PlanckError`, which is shown."""

    def stop(self) -> None:
        """End the run; what was said so far is kept."""
        ...

    def steer(self, text: str) -> None:
        """Say something that the agent reads before its next step."""
        ...

    def queue(self, text: str) -> None:
        """Say something that the agent takes up when the running turn is over."""
        ...

    def edit_queued(self, prompt_id: str, text: str) -> None:
        """Put another text in the place of a prompt that waits."""
        ...

    def remove_queued(self, prompt_id: str) -> None:
        """Take back a prompt that waits."""
        ...

    def decide(self, call_id: str, *, allow: bool, args: JsonObject | None, remember: bool, reason: str) -> None:
        """Decide whether a call may run; `args` replace its arguments, None leaves them as they are.

        `remember` has calls like this one decided the same way from now on. `reason` is told to the model when the
        call is denied.
        """
        ...


BrowserCommand: TypeAlias = Callable[[Actions], None]
"""Has it done."""


def read_command(message: object, asked: Callable[[str], JsonObject]) -> BrowserCommand | None:  # noqa: PLR0911 - one case per kind
    """What the message asks for, None where it makes no sense.

    `asked` gives the arguments of the call with an id that waits for approval. A browser sends those that somebody
    edited; the others stay as they are.
    """
    match message:
        case {"type": "stop"}:
            return lambda actions: actions.stop()
        case {"type": "steer", "text": str(text)} if text.strip():
            return lambda actions: actions.steer(encodable(text))
        case {"type": "queue", "text": str(text)} if text.strip():
            return lambda actions: actions.queue(encodable(text))
        case {"type": "edit", "id": str(name), "text": str(text)} if text.strip():
            return lambda actions: actions.edit_queued(name, encodable(text))
        case {"type": "unqueue", "id": str(name)}:
            return lambda actions: actions.remove_queued(name)
        case {
            "type": "decide",
            "id": str(name),
            "allow": bool(allow),
            "args": None | dict() as args,
            "remember": bool(remember),
            "reason": str(reason),
        }:
            edited = {**asked(name), **_encodable(args)} if args else None
            return lambda actions: actions.decide(
                name, allow=allow, args=edited, remember=remember, reason=encodable(reason)
            )
        case _:
            return None


def _encodable(args: JsonObject) -> JsonObject:
    clean: JsonObject = json.loads(encodable(json.dumps(args, ensure_ascii=False)))
    return clean


def text_of_command(message: object) -> str:
    """The text that somebody wrote into the message, so that it can be given back when it could not be done."""
    match message:
        case {"type": "steer" | "queue", "text": str(text)}:
            return encodable(text)
        case _:
            return ""
