"""Validated commands from the browser.

A message can only call one of the `Actions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Protocol, TypeAlias, cast

from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.base.visible import literal


class Actions(Protocol):
    """User actions in a run's live view.

    Each method returns immediately and may raise a `PlanckError` for the view.
    """

    def stop(self, agent_id: str | None = None) -> None:
        """End the run, or only one agent's turn; the text stays."""
        ...

    def steer(self, text: str, agent_id: str | None = None) -> None:
        """Send an agent a message to read before its next step."""
        ...

    def queue(self, text: str) -> None:
        """Queue a prompt until the running turn is over."""
        ...

    def edit_queued(self, prompt_id: str, text: str, agent_id: str | None = None) -> None:
        """Replace the text in an agent's queued prompt."""
        ...

    def remove_queued(self, prompt_id: str, agent_id: str | None = None) -> None:
        """Remove a prompt from an agent's queue."""
        ...

    def decide(
        self,
        call_id: str,
        *,
        allow: bool,
        args: JsonObject | None,
        remember: bool,
        reason: str,
        agent_id: str | None = None,
        scope: str | None = None,
    ) -> None:
        """Decide whether a call may run.

        Args:
            call_id: The call.
            allow: Whether it may run.
            args: Arguments to run it with; None keeps the model's own.
            remember: Whether calls like this one are decided the same way from now on.
            reason: Why the call is denied, for the model.
            agent_id: The calling agent; None for the run's only agent.
            scope: Agents under the remembered decision; None for this agent only.
        """
        ...


BrowserCommand: TypeAlias = Callable[[Actions], None]
"""A validated command, which calls one action."""

ArgumentsOf: TypeAlias = Callable[[str | None, str], JsonObject]
"""Arguments by the agent's id, None for any, and a pending call's."""


def read_command(message: object, arguments_of: ArgumentsOf) -> BrowserCommand | None:  # noqa: PLR0911 - one case per command
    """Validate a message from the browser.

    Args:
        message: Any message from the browser.
        arguments_of: Returns the arguments for a call under approval. The browser sends only the edited ones; the
            others stay as they are.

    Returns:
        The command, None for other messages.
    """
    if not isinstance(message, dict) or not isinstance(agent_of_command(message), str | None):
        return None
    agent = {} if (agent_id := agent_of_command(message)) is None else {"agent_id": str(agent_id)}
    match message:
        case {"type": "stop"}:
            return lambda actions: actions.stop(**agent)
        case {"type": "steer", "text": str(text)} if text.strip():
            return lambda actions: actions.steer(encodable(text), **agent)
        case {"type": "queue", "text": str(text)} if text.strip():
            return lambda actions: actions.queue(encodable(text))
        case {"type": "edit", "id": str(prompt_id), "text": str(text)} if text.strip():
            return lambda actions: actions.edit_queued(prompt_id, encodable(text), **agent)
        case {"type": "unqueue", "id": str(prompt_id)}:
            return lambda actions: actions.remove_queued(prompt_id, **agent)
        case {"type": "decide"}:
            return _read_decision(cast("JsonObject", message), arguments_of)
        case _:
            return None


def _read_decision(fields: JsonObject, arguments_of: ArgumentsOf) -> BrowserCommand | None:
    match {"agent_id": None, "scope": None, **fields}:
        case {
            "id": str(call_id),
            "allow": bool(allow),
            "args": None | dict() as args,
            "remember": bool(remember),
            "reason": str(reason),
            "agent_id": None | str() as agent_id,
            "scope": None | str() as scope,
        }:
            changes = {**arguments_of(agent_id, call_id), **as_edited(args)} if args else None
            return lambda actions: actions.decide(
                call_id,
                allow=allow,
                args=changes,
                remember=remember,
                reason=encodable(reason),
                agent_id=agent_id,
                scope=scope,
            )
        case _:
            return None


def as_edited(args: JsonObject) -> JsonObject:
    """Return edited arguments with original characters and without lone surrogates.

    Args:
        args: The arguments from the browser.
    """
    clean: JsonObject = json.loads(encodable(json.dumps(_literal(args), ensure_ascii=False)))
    return clean


def _literal(value: object) -> object:
    match value:
        case str():
            return literal(value)
        case dict():
            return {literal(str(name)): _literal(item) for name, item in value.items()}
        case list():
            return [_literal(item) for item in value]
        case _:
            return value


def agent_of_command(message: object) -> object:
    """Return the agent id in a command, None for the whole run.

    An invalid message may contain anything.
    """
    return message.get("agent_id") if isinstance(message, dict) else None


def text_of_command(message: object) -> str:
    """Return the user's text in a message, or an empty one.

    A failed command returns it to the browser.
    """
    match message:
        case {"type": "steer" | "queue", "text": str(text)}:
            return encodable(text)
        case _:
            return ""
