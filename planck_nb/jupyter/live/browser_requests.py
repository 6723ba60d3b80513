"""Requests from the browser about a finished run, answered to their page."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

from planck_nb.base.errors import PlanckError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.rendering.formatting import bounded

FORGOTTEN = "The kernel has no more of this run than the cell shows; `%planck rewind` lists the prompts to go back to."
_ID_CHARACTERS = 100
_REASON_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class RewindResult:
    """The result after going back to before a prompt.

    Args:
        prompt: The prompt's text.
        in_cell: Whether the view's cell contains it.
        notice: The outcome, in words.
        undo: Whether it can be undone.
    """

    prompt: str
    in_cell: bool
    notice: str
    undo: bool


class RunRequests(Protocol):
    """User requests in a finished run's view, which may raise a `PlanckError`."""

    def markdown(self) -> str:
        """Return the whole transcript as Markdown."""
        ...

    async def rewind(self) -> RewindResult:
        """Rewind the conversation to before the run's prompt."""
        ...

    async def undo_rewind(self) -> str:
        """Undo `rewind`, and return the outcome as a sentence."""
        ...


async def reply_to(request_id: str, name: str, requests: RunRequests | None) -> JsonObject:
    """Fulfil a request from the browser.

    Args:
        request_id: The requesting page's id for it.
        name: The request's name; anything.
        requests: Fulfils it; None if the kernel has forgotten the run.

    Returns:
        The message to send: the result, or the reason for a failure under the key `error`.
    """
    message: JsonObject = {"type": "reply", "id": request_id[:_ID_CHARACTERS]}
    try:
        return message | await _result(name, requests)
    except PlanckError as error:
        return message | {"error": bounded(str(error), _REASON_CHARACTERS)}


async def _result(name: str, requests: RunRequests | None) -> JsonObject:
    if requests is None:
        raise UsageError(FORGOTTEN)
    match name:
        case "markdown":
            return {"text": encodable(requests.markdown())}
        case "rewind":
            result = await requests.rewind()
            return {**asdict(result), "prompt": encodable(result.prompt)}
        case "undo_rewind":
            return {"notice": await requests.undo_rewind()}
        case _:
            raise UsageError("This version of planck_nb does not know this action; reload the page.")
