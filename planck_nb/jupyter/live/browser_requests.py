"""Requests of the browser about a run that is over. Each is answered to the page that sent it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Protocol

from planck_nb.base.errors import PlanckError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.jupyter.display.formatting import bounded

FORGOTTEN = "The kernel has no more of this run than the cell shows; `%planck rewind` lists the prompts to go back to."
_ID_CHARACTERS = 100
_REASON_CHARACTERS = 2_000


@dataclass(frozen=True, slots=True)
class RewindResult:
    """The outcome of going back to before a prompt.

    Args:
        prompt: The text of the prompt.
        in_cell: Whether the cell of the view contains it.
        notice: What has happened, in words.
        undo: Whether it can be undone.
    """

    prompt: str
    in_cell: bool
    notice: str
    undo: bool


class RunRequests(Protocol):
    """What a user can request in the view of a run that is over. Each may raise a `PlanckError`."""

    def markdown(self) -> str:
        """Return the whole transcript as Markdown."""
        ...

    async def rewind(self) -> RewindResult:
        """Rewind the conversation to before the prompt of the run."""
        ...

    async def undo_rewind(self) -> str:
        """Undo `rewind`. Returns what has happened, as a sentence."""
        ...


async def reply_to(request_id: str, name: str, requests: RunRequests | None) -> JsonObject:
    """Do what the browser requests.

    Args:
        request_id: The id by which the page that sent the request knows it.
        name: What it requests; anything.
        requests: Does it; None if the kernel has forgotten the run.

    Returns:
        The message to send: what was requested, or the reason why that is impossible under the key `error`.
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
            rewound = await requests.rewind()
            return {**asdict(rewound), "prompt": encodable(rewound.prompt)}
        case "undo_rewind":
            return {"notice": await requests.undo_rewind()}
        case _:
            raise UsageError("This version of planck_nb does not know this action; reload the page.")
