"""The messages between a kernel and the pages with the JupyterLab extension.

`labextension/generate_types.py` generates the TypeScript types from these classes. On the comm `planck.lab` either
side speaks first; on `planck.ask` the page asks, and the kernel answers at once, also while a cell blocks it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from planck_nb.base.json_types import JsonObject

PROTOCOL = 1
"""The version of the messages, and of change sets."""

TALK = "planck.lab"
ASK = "planck.ask"
HELLO = "planck.hello"
"""The targets of the comms; the last one exists in every kernel that has the package loaded."""

CellType: TypeAlias = Literal["code", "markdown", "raw"]
ChangeKind: TypeAlias = Literal["insert", "change", "move", "delete"]
HelpAction: TypeAlias = Literal["fix", "improve", "document", "test"]
ChangeState: TypeAlias = Literal["open", "accepted", "edited", "refused", "outdated", "taken back"]


@dataclass(frozen=True, slots=True)
class CellChange:
    """A proposed change to one cell.

    Args:
        id: Its name in its set.
        kind: What happens to the cell.
        cell: The cell's id; of a new cell, the one that it gets.
        cell_type: The type of a new cell.
        before: The source that the change was made from; None for a new cell.
        source: The new source; None if it stays.
        after: The id of the cell before the new place, None for the beginning or if the cell stays where it is.
        why: The agent's reason.
        state: What was decided.
        reason: Why it was refused, or what was in the way.
    """

    id: str
    kind: ChangeKind
    cell: str
    cell_type: CellType = "code"
    before: str | None = None
    source: str | None = None
    after: str | None = None
    why: str = ""
    state: ChangeState = "open"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Changes which are reviewed together.

    Args:
        id: Its name.
        agent: The agent's name.
        agent_id: The agent's id.
        path: The notebook's path.
        created: When it was proposed, in seconds since the epoch.
        changes: The changes, each of the notebook after those before it.
        run: Whether the changed cell runs when the change is accepted.
        title: What the set is about, if it is more than a proposal.
        decided: When the last decision was made, None before.
        decided_by: The page on which it was made.
        format: The version of this format.
    """

    id: str
    agent: str
    agent_id: str
    path: str
    created: float
    changes: tuple[CellChange, ...]
    run: bool = False
    title: str = ""
    decided: float | None = None
    decided_by: str = ""
    format: int = PROTOCOL

    @property
    def is_open(self) -> bool:
        """Whether a decision is missing."""
        return any(change.state == "open" for change in self.changes)


@dataclass(frozen=True, slots=True)
class Hello:
    """A page opens `planck.lab` with this.

    Args:
        client: What identifies the page in its requests.
        path: The notebook's path on the server.
        version: The extension's version.
        protocol: The version of the messages that it speaks.
    """

    client: str
    path: str = ""
    version: str = ""
    protocol: int = 0


@dataclass(frozen=True, slots=True)
class Welcome:
    """The kernel's answer to `Hello`.

    Args:
        version: The package's version.
        model: The model that is asked for help with cells, as far as it is known.
        protocol: The version of the messages.
        problem: Which side to update if the versions differ.
    """

    version: str
    model: str = ""
    protocol: int = PROTOCOL
    problem: str = ""
    type: Literal["welcome"] = "welcome"


@dataclass(frozen=True, slots=True)
class Sets:
    """All sets that the page reviews or can take back."""

    sets: tuple[ChangeSet, ...]
    type: Literal["sets"] = "sets"


@dataclass(frozen=True, slots=True)
class CellsWanted:
    """The page answers with its cells, in a `Cells`."""

    request: str
    type: Literal["cells wanted"] = "cells wanted"


@dataclass(frozen=True, slots=True)
class RunWanted:
    """The page runs a cell if its source is still this, and answers with a `Started`."""

    request: str
    cell: str
    source: str
    type: Literal["run wanted"] = "run wanted"


@dataclass(frozen=True, slots=True)
class PageCell:
    """A cell as a page has it.

    Args:
        id: Its id.
        cell_type: Its type.
        source: Its text.
        count: Its execution count.
        output: Its outputs as bounded text.
        is_stale: Whether it was edited since it ran.
        editable: Whether its text may be changed.
        deletable: Whether it may be deleted.
    """

    id: str
    cell_type: CellType
    source: str
    count: int | None = None
    output: str = ""
    is_stale: bool = False
    editable: bool = True
    deletable: bool = True


@dataclass(frozen=True, slots=True)
class Cells:
    """The cells of the notebook in their order, and whether it can be changed at all."""

    request: str
    cells: tuple[PageCell, ...]
    writable: bool = True
    type: Literal["cells"] = "cells"


@dataclass(frozen=True, slots=True)
class Started:
    """Whether a cell was started; `problem` says why not."""

    request: str
    problem: str = ""
    type: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person has decided about one change; `source` is the text as edited."""

    change: str
    state: ChangeState
    reason: str = ""
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions about changes of a set, after the accepted ones were applied.

    Args:
        set: The set.
        decisions: The decisions.
        inverse: The operations that take back what was applied, as `proposals.ts` has them.
    """

    set: str
    decisions: tuple[Decision, ...]
    inverse: tuple[JsonObject, ...] = ()
    type: Literal["decided"] = "decided"


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The page has taken back what was applied of a set."""

    set: str
    type: Literal["taken back"] = "taken back"


@dataclass(frozen=True, slots=True)
class Focused:
    """A person looks at the page; `path` is the notebook's, which may have changed."""

    path: str
    type: Literal["focused"] = "focused"


@dataclass(frozen=True, slots=True)
class HelpWanted:
    """A person wants an agent to look at a cell.

    Args:
        action: What to do with it.
        cell: The cell.
        words: What the person says about it.
    """

    action: HelpAction
    cell: str
    words: str = ""
    type: Literal["help wanted"] = "help wanted"


@dataclass(frozen=True, slots=True)
class HelpStopped:
    """A person wants no more help with a cell."""

    cell: str
    type: Literal["help stopped"] = "help stopped"


@dataclass(frozen=True, slots=True)
class HelpStatus:
    """How far an agent is with a cell.

    Args:
        cell: The cell.
        text: A few words, or the sentence about an end.
        state: Whether the agent works, or how it ended; empty to show nothing.
    """

    cell: str
    text: str
    state: Literal["working", "done", "failed", ""]
    type: Literal["help status"] = "help status"


@dataclass(frozen=True, slots=True)
class Claim:
    """The page wants to decide about changes, so that no other page does."""

    request: str
    set: str
    changes: tuple[str, ...]
    type: Literal["claim"] = "claim"


@dataclass(frozen=True, slots=True)
class InverseWanted:
    """The page wants the operations that take a set back."""

    request: str
    set: str
    type: Literal["inverse wanted"] = "inverse wanted"


@dataclass(frozen=True, slots=True)
class Answer:
    """The kernel's answer to a `Claim` or `InverseWanted`.

    Args:
        request: The request.
        ok: Whether the page may go on.
        problem: Why not.
        inverse: What takes the set back.
    """

    request: str
    ok: bool
    problem: str = ""
    inverse: tuple[JsonObject, ...] = field(default_factory=tuple[dict[str, Any], ...])
    type: Literal["answer"] = "answer"


FromKernel: TypeAlias = Welcome | Sets | CellsWanted | RunWanted | HelpStatus
FromPage: TypeAlias = Cells | Started | Decided | TakenBack | Focused | HelpWanted | HelpStopped
Question: TypeAlias = Claim | InverseWanted
