"""Signatures for session rows which give agents power.

On resume, only rows with the user's signature have any. Such rows are an agent's start and changes (its tools, its
model's address, its grants), remembered approvals, and settings with rules. A signature covers the row's content, its
id, its agent and the session's id: a row is not authentic after it was edited, moved within the session or copied from
another one.
"""

from __future__ import annotations

import hashlib
import hmac
import json

from planck_nb.agent.events import AgentEvent
from planck_nb.base.json_types import JsonObject

SIGNATURE = "signature"
"""The key of the signature in the data of a row. Rows of imported sessions have none that is valid."""

_PURPOSE = "planck_nb session row 1"


class Signer:
    """Signs and verifies rows with a key of the user.

    Args:
        key: Secret bytes, which are kept outside of the folder with the sessions.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __repr__(self) -> str:
        return "<Signer>"

    def signed(self, data: JsonObject, *, session_id: str, row_id: int, owner: str) -> JsonObject:
        """Return the data of a row with its signature.

        Args:
            data: JSON values.
            session_id: The session that the row is in.
            row_id: The id of the row.
            owner: The id of the agent for an event, the name of the key for metadata.

        Returns:
            The data with one more key.
        """
        return {**data, SIGNATURE: self._digest(data, session_id, row_id, owner)}

    def verifies(self, data: JsonObject, *, session_id: str, row_id: int, owner: str) -> bool:
        """Verify the signature of a row.

        Args:
            data: The data of the row, with or without a signature.
            session_id: The session that the row is in.
            row_id: The id of the row.
            owner: The id of the agent for an event, the name of the key for metadata.

        Returns:
            Whether the data has the signature that `signed` gives it.
        """
        signature = data.get(SIGNATURE)
        if not isinstance(signature, str) or not signature.isascii():
            return False
        try:
            expected = self._digest(without_signature(data), session_id, row_id, owner)
        except (ValueError, RecursionError):
            return False
        return hmac.compare_digest(signature, expected)

    def _digest(self, data: JsonObject, session_id: str, row_id: int, owner: str) -> str:
        # Journal lines have a question mark for each lone surrogate, and so does what is signed.
        content = json.dumps(
            [_PURPOSE, session_id, row_id, owner, data], sort_keys=True, ensure_ascii=False, separators=(",", ":")
        )
        return hmac.new(self._key, content.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def without_signature(data: JsonObject) -> JsonObject:
    """The data of a row without its signature."""
    return {name: value for name, value in data.items() if name != SIGNATURE}


def gives_power(event: AgentEvent) -> bool:
    """Whether an event is signed: it has tools, addresses or grants, or a rule that is remembered."""
    if event.type == "approval_decision":
        return event.allowed and event.by == "user" and bool(event.rule)
    return event.type in {"agent_started", "agent_changed"}
