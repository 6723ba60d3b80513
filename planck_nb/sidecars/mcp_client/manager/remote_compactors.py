"""Compactors in a sidecar, with the built-in compactor as fallback."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from planck_nb.agent.context.compactor import (
    KEEP_RECENT,
    RATIO,
    Compact,
    Compactor,
    ContextUsage,
    checked,
    with_name,
)
from planck_nb.ai.messages import Message, encode_message
from planck_nb.ai.models import Model
from planck_nb.base.errors import CompactionError, PlanckError
from planck_nb.base.json_types import JsonObject
from planck_nb.sidecars.conventions import ACTION_COMPACT, ACTION_SKIP, MAX_TIMEOUT_MS

CallCompactor = Callable[[str, JsonObject], Awaitable[Any]]
"""A call by compactor name, which returns an `mcp_types.CallToolResult`."""


def sidecar_compactor(
    name: str,
    call: CallCompactor,
    *,
    on_failure: Callable[[str], None],
    model: Model | str | None = None,
    ratio: float = RATIO,
    keep_recent: int = KEEP_RECENT,
) -> Compactor:
    """Make a compactor which calls a sidecar's compactor.

    After each failure a model summarises instead.

    Args:
        name: The compactor's name, under which it is stored in a session.
        call: Calls it, on its current sidecar.
        on_failure: Called with a sentence when the built-in compactor is used instead.
        model: The model for the fallback's summary; None for the agent's own.
        ratio: The fraction of the context window above which the conversation is compacted, by either.
        keep_recent: Approximate number of messages which the built-in compactor keeps.

    Returns:
        The compactor.
    """
    return Compactor.build(
        model,
        ratio=ratio,
        keep_recent=keep_recent,
        first=remote_compactor(name, call, on_failure=on_failure),
        timeout=MAX_TIMEOUT_MS / 1_000,  # the call has its own limit, which the sidecar declares
    )


def remote_compactor(name: str, call: CallCompactor, *, on_failure: Callable[[str], None]) -> Compactor:
    """Make a compactor without fallback, such as for a stored one."""
    return with_name(_Remote(name, call, on_failure), name)


class _Remote(Compactor):
    """A compactor which sends messages with ids, and gets ids back.

    A sidecar can thereby summarise and choose, but never change a message.
    """

    def __init__(self, name: str, call: CallCompactor, on_failure: Callable[[str], None]) -> None:
        self._name = name
        self._call = call
        self._on_failure = on_failure

    async def compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        try:
            return await self._compact(messages, context_usage)
        except PlanckError as error:
            self._on_failure(f"The compactor {self._name} failed, so the built-in one is used: {error}")
            raise

    async def _compact(self, messages: Sequence[Message], context_usage: ContextUsage) -> Compact | None:
        arguments: JsonObject = {
            "messages": [{"id": number, **encode_message(message)} for number, message in enumerate(messages, 1)],
            "model": {"reference": str(context_usage.model), "context_window": context_usage.window},
        }
        reply = _content(await self._call(self._name, arguments))
        action = reply.get("action")
        if action == ACTION_SKIP:
            return None
        if action != ACTION_COMPACT:
            raise CompactionError(f'its "action" is {action!r}, and must be "compact" or "skip".')
        summary, ids = reply.get("summary"), reply.get("keep_ids")
        if not isinstance(summary, str):
            raise CompactionError('its "summary" is not a text.')
        if not isinstance(ids, list) or any(isinstance(item, bool) or not isinstance(item, int) for item in ids):
            raise CompactionError('its "keep_ids" is not a list of ids.')
        if unknown := [item for item in ids if not 1 <= item <= len(messages)]:
            raise CompactionError(f'its "keep_ids" has {unknown[0]}, which is the id of no message.')
        return checked(Compact(summary, tuple(messages[item - 1] for item in ids)), messages)


def _content(result: Any) -> dict[str, Any]:  # noqa: ANN401 - an mcp_types.CallToolResult
    """Return the compactor's object, from structured content or text."""
    text = "\n".join(item.text for item in result.content if item.type == "text")
    if result.is_error:
        raise CompactionError(text or "it did not say why.")
    content = result.structured_content
    if content is None:
        try:
            content = json.loads(text)
        except ValueError:
            content = None
    if not isinstance(content, dict):
        raise CompactionError("it did not return an object.")
    return content
