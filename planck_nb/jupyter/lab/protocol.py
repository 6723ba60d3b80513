"""The messages between a kernel and the pages with the JupyterLab extension.

`labextension/generate_types.py` generates the TypeScript types from these classes. On the comm `planck.lab` either
side speaks first; on `planck.ask` the page asks, and the kernel answers, also while a cell blocks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.live.approval_display import ApprovalDisplay

PROTOCOL = 1
"""The version for messages and change sets."""

TALK = "planck.lab"
ASK = "planck.ask"
HELLO = "planck.hello"
"""Comm targets; the last one exists while the package is loaded."""

CellType: TypeAlias = Literal["code", "markdown", "raw"]
ChangeKind: TypeAlias = Literal["insert", "change", "move", "delete"]
HelpAction: TypeAlias = Literal["fix", "improve", "document", "test"]
ItemKind: TypeAlias = Literal["prompt", "prose", "thinking", "call", "cut", "note"]
ChangeState: TypeAlias = Literal["open", "accepted", "edited", "refused", "outdated", "taken back"]


@dataclass(frozen=True, slots=True)
class CellChange:
    """A proposed change to one cell.

    Args:
        id: Its name in its set.
        kind: What happens to the cell.
        cell: The cell's id, also for a new one.
        cell_type: A new cell's type.
        before: The original source; None for a new cell.
        source: The new source; None for an unchanged one.
        after: The id before the new place, None for the beginning or the old place.
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
        title: The beginning for its heading.
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
        """Return whether a decision is missing."""
        return any(change.state == "open" for change in self.changes)


@dataclass(frozen=True, slots=True)
class Hello:
    """A page opens `planck.lab` with this.

    Args:
        client: What identifies the page in its requests.
        path: The notebook's path on the server.
        version: The extension's version.
        protocol: Its version for the messages.
        scripts: The extension's address, if the page's policy refuses scripts from kernels.
    """

    client: str
    path: str = ""
    version: str = ""
    protocol: int = 0
    scripts: str = ""


@dataclass(frozen=True, slots=True)
class Welcome:
    """The kernel's answer to `Hello`.

    Args:
        version: The package's version.
        model: The model for help with cells; may be unknown.
        protocol: The messages' version.
        problem: Which side to update if the versions differ.
        concurrent: Whether the kernel answers questions while a cell blocks it.
    """

    version: str
    model: str = ""
    protocol: int = PROTOCOL
    problem: str = ""
    concurrent: bool = True
    type: Literal["welcome"] = "welcome"


@dataclass(frozen=True, slots=True)
class VerbWords:
    """A verb for completion.

    Args:
        about: Its summary.
        is_cell: Whether cells may begin with it.
        takes_agent: Whether an agent's name follows.
        options: Its options, each with a description.
    """

    about: str
    is_cell: bool
    takes_agent: bool
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Verbs:
    """The verbs by name, and the options for prompts with their descriptions."""

    verbs: Mapping[str, VerbWords]
    options: Mapping[str, str]
    type: Literal["verbs"] = "verbs"


@dataclass(frozen=True, slots=True)
class Names:
    """Agents and variables after the last cell, each with a description."""

    agents: Mapping[str, str]
    variables: Mapping[str, str]
    type: Literal["names"] = "names"


@dataclass(frozen=True, slots=True)
class Sets:
    """All sets to review or to take back on the page."""

    sets: tuple[ChangeSet, ...]
    type: Literal["sets"] = "sets"


@dataclass(frozen=True, slots=True)
class CellsWanted:
    """A request for the cells; the answer is `Cells`.

    Args:
        request: Its name.
        outputs_of: The id of the one cell whose outputs are wanted; empty for none.
    """

    request: str
    outputs_of: str = ""
    type: Literal["cells wanted"] = "cells wanted"


@dataclass(frozen=True, slots=True)
class RunWanted:
    """A request to run a cell; the answer is `Started`."""

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
        output: Its outputs as bounded text, if they were wanted.
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
    """The notebook's cells in their order, and whether it is writable."""

    request: str
    cells: tuple[PageCell, ...]
    writable: bool = True
    type: Literal["cells"] = "cells"


@dataclass(frozen=True, slots=True)
class Started:
    """A cell's start; `problem` says why it failed."""

    request: str
    problem: str = ""
    type: Literal["started"] = "started"


@dataclass(frozen=True, slots=True)
class Decision:
    """A person's decision about one change; `source` is the edited text."""

    change: str
    state: ChangeState
    reason: str = ""
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions about changes of a set, after the accepted ones were applied.

    Args:
        request: Its name.
        set: The set.
        decisions: The decisions.
        inverse: The operations to take the applied changes back, as in `proposals.ts`.
    """

    request: str
    set: str
    decisions: tuple[Decision, ...]
    inverse: tuple[JsonObject, ...] = ()
    type: Literal["decided"] = "decided"


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The page has taken back what was applied of a set."""

    request: str
    set: str
    type: Literal["taken back"] = "taken back"


@dataclass(frozen=True, slots=True)
class Focused:
    """A person looks at the page; `path` may be new."""

    path: str
    type: Literal["focused"] = "focused"


@dataclass(frozen=True, slots=True)
class HelpWanted:
    """A person asks for help with a cell.

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
    """A person ends the help with a cell."""

    cell: str
    type: Literal["help stopped"] = "help stopped"


@dataclass(frozen=True, slots=True)
class NotRun:
    """A cell's run never began, as after an interrupt."""

    cell: str
    type: Literal["not run"] = "not run"


@dataclass(frozen=True, slots=True)
class HelpStatus:
    """An agent's progress with a cell.

    Args:
        cell: The cell.
        text: A few words, or the sentence about an end.
        state: Work, a good or bad end; empty for an invisible one.
    """

    cell: str
    text: str
    state: Literal["working", "done", "failed", ""]
    type: Literal["help status"] = "help status"


@dataclass(frozen=True, slots=True)
class Claim:
    """A page's claim to decide about changes alone."""

    request: str
    set: str
    changes: tuple[str, ...]
    type: Literal["claim"] = "claim"


@dataclass(frozen=True, slots=True)
class InverseWanted:
    """A request for the operations to take a set back."""

    request: str
    set: str
    type: Literal["inverse wanted"] = "inverse wanted"


@dataclass(frozen=True, slots=True)
class SettingEntry:
    """A project setting.

    Args:
        name: Its name.
        value: Its text as in a variable, without secrets.
        source: Where the value comes from: a file, a variable, "call" or "default".
        about: What it means.
    """

    name: str
    value: str
    source: str
    about: str


@dataclass(frozen=True, slots=True)
class SettingsWanted:
    """A request for the project settings."""

    request: str
    type: Literal["settings wanted"] = "settings wanted"


@dataclass(frozen=True, slots=True)
class SaveSettings:
    """A request to write settings.

    Args:
        request: The request.
        scope: The file: the project's or the user's.
        values: Texts by name; an empty one removes the setting.
    """

    request: str
    scope: Literal["project", "user"]
    values: Mapping[str, str]
    type: Literal["save settings"] = "save settings"


@dataclass(frozen=True, slots=True)
class Answer:
    """The kernel's answer to a question, or the receipt for a decision.

    Args:
        request: The request.
        ok: Whether the page may go on.
        problem: Why not.
        inverse: What takes the set back.
        settings: The project settings, if they were wanted or written.
    """

    request: str
    ok: bool
    problem: str = ""
    inverse: tuple[JsonObject, ...] = field(default_factory=tuple[dict[str, Any], ...])
    settings: tuple[SettingEntry, ...] = ()
    type: Literal["answer"] = "answer"


# The side panel


@dataclass(frozen=True, slots=True)
class OverviewWanted:
    """A request for what the side panel shows.

    Args:
        request: The request.
        stored: The `stored` in the last overview, 0 before; what the page has already is left out.
    """

    request: str
    stored: int = 0
    type: Literal["overview wanted"] = "overview wanted"


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """An agent in the side panel.

    Args:
        name: Its name in prompts.
        team: Its team's name; may be empty.
        status: What it does.
        waits_for: What it waits for; may be empty.
        model: Its model.
        cost: US dollars so far, None for an unknown price.
    """

    name: str
    team: str
    status: Literal["idle", "streaming", "executing_tools"]
    waits_for: str
    model: str
    cost: float | None


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """A call that waits for approval.

    Args:
        agent: The agent's id.
        agent_name: Its name.
        role: Its role in its team; may be empty.
        id: The call's id.
        name: The tool.
        deadline: When it is denied, in seconds since the epoch.
        display: What it would do.
    """

    agent: str
    agent_name: str
    role: Literal["", "orchestrator", "worker"]
    id: str
    name: str
    deadline: float
    display: ApprovalDisplay


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session in the notebook's folder.

    Args:
        id: Its id.
        name: Its name.
        messages: How many it has.
        cost: US dollars, None for an unknown price.
        used: When it was last used, in seconds since the epoch.
    """

    id: str
    name: str
    messages: int
    cost: float | None
    used: float


@dataclass(frozen=True, slots=True)
class TrustEntry:
    """A file, or an entry in one, which waits for trust.

    Args:
        key: A digest for the file and for its lines.
        title: Its kind and name.
        path: The file.
        status: Whether it is new or changed.
        lines: A sign and a text each; signs mark changes.
    """

    key: str
    title: str
    path: str
    status: str
    lines: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Stored:
    """Sessions, usage, and files that wait for trust.

    Args:
        sessions: The sessions, the last used first.
        cost: US dollars today, None for unknown prices alone.
        unpriced: Whether some prices today are unknown.
        tokens: The tokens today.
        problem: Why the history cannot be read; may be empty.
        untrusted: What waits for trust.
    """

    sessions: tuple[StoredSession, ...] = ()
    cost: float | None = None
    unpriced: bool = False
    tokens: int = 0
    problem: str = ""
    untrusted: tuple[TrustEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class Overview:
    """The kernel's answer to `OverviewWanted`, from its last copy.

    Args:
        request: The request.
        age: The copy's age in seconds.
        now: The kernel's time, in seconds since the epoch.
        running: Whether a cell was running then.
        default: The agent or team for prompts without a name.
        session: The notebook's session, empty before the first prompt.
        agents: All agents.
        teams: The names of running teams.
        waiting: The calls that wait for approval.
        stored: A number for the state of `history`, 0 before it was read.
        history: Sessions and usage; None if the page has them.
    """

    request: str
    age: float
    now: float
    running: bool = False
    default: str = ""
    session: str = ""
    agents: tuple[AgentEntry, ...] = ()
    teams: tuple[str, ...] = ()
    waiting: tuple[WaitingCall, ...] = ()
    stored: int = 0
    history: Stored | None = None
    type: Literal["overview"] = "overview"


@dataclass(frozen=True, slots=True)
class Approve:
    """A person's decision about a waiting call.

    Args:
        agent_id: The agent's id.
        id: The call's id.
        allow: Whether it may run.
        args: Edited arguments; None for none.
        remember: Whether calls like it are allowed, too.
        scope: The agents of a remembered decision.
        reason: Why it is denied, for the agent.
    """

    agent_id: str
    id: str
    allow: bool
    args: JsonObject | None = None
    remember: bool = False
    scope: Literal["agent", "role", "all", "prompt"] | None = None
    reason: str = ""
    type: Literal["approve"] = "approve"


@dataclass(frozen=True, slots=True)
class AnswerProposed:
    """An answer's code, to be reviewed as a cell's new text.

    Args:
        agent: The answering agent's name.
        cell: The cell's id.
        cell_type: Its type.
        before: Its text with the prompt.
        source: The code.
    """

    agent: str
    cell: str
    cell_type: CellType
    before: str
    source: str
    type: Literal["answer proposed"] = "answer proposed"


@dataclass(frozen=True, slots=True)
class NotApproved:
    """The obstacle to a decision; empty without one."""

    problem: str
    type: Literal["not approved"] = "not approved"


@dataclass(frozen=True, slots=True)
class Trust:
    """A person's trust in entries as shown, by their keys."""

    keys: tuple[str, ...]
    type: Literal["trust"] = "trust"


@dataclass(frozen=True, slots=True)
class TrustSettled:
    """The answer to `Trust`.

    Args:
        problem: The obstacle; empty without one.
    """

    problem: str
    type: Literal["trust settled"] = "trust settled"


@dataclass(frozen=True, slots=True)
class Activity:
    """The agents' activity for the status bar and notifications.

    Args:
        working: How many agents work.
        waiting: How many calls wait for approval.
        cost: US dollars for all agents since the kernel's start, None for unknown prices alone.
    """

    working: int
    waiting: int
    cost: float | None = None
    type: Literal["activity"] = "activity"


# Messages from stored sessions


@dataclass(frozen=True, slots=True)
class SearchWanted:
    """A request for messages with some words, in all sessions."""

    request: str
    words: str
    type: Literal["search wanted"] = "search wanted"


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message with the words.

    Args:
        session: The session's id.
        session_name: Its name.
        id: The message's id.
        agent: The agent's name.
        role: The message's role.
        time: Its time, in seconds since the epoch.
        excerpt: The text around the first word.
    """

    session: str
    session_name: str
    id: int
    agent: str
    role: str
    time: float
    excerpt: str


@dataclass(frozen=True, slots=True)
class SearchHits:
    """The answer to `SearchWanted`.

    Args:
        request: The request.
        terms: The words and phrases, in lower case.
        hits: The messages, best matches first.
        problem: The obstacle; empty without one.
    """

    request: str
    terms: tuple[str, ...] = ()
    hits: tuple[SearchHit, ...] = ()
    problem: str = ""
    type: Literal["search hits"] = "search hits"


@dataclass(frozen=True, slots=True)
class TranscriptWanted:
    """A request for a page from a session's transcript.

    Args:
        request: The request.
        session: The session's id.
        before: The message after the page; 0 for the last page.
        after: The message before the page; it replaces `before` unless it is 0.
    """

    request: str
    session: str
    before: int = 0
    after: int = 0
    type: Literal["transcript wanted"] = "transcript wanted"


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A part of a transcript.

    Args:
        kind: Its kind.
        message: Its message's id.
        agent: The agent's name.
        time: Its time, in seconds since the epoch.
        text: The text, or a call's result, bounded.
        name: The called tool, a prompt's sender, or a note's title; empty for a person's prompt.
        key: The argument which identifies a call.
        state: A call's state.
        arguments: A call's other arguments, as name and text.
        seconds: A call's duration.
        edited: A person changed the arguments.
    """

    kind: ItemKind
    message: int
    agent: str
    time: float
    text: str
    name: str = ""
    key: str = ""
    state: Literal["done", "bad", "deny", "stop"] = "done"
    arguments: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0
    edited: bool = False


@dataclass(frozen=True, slots=True)
class TranscriptPage:
    """The answer to `TranscriptWanted`.

    Args:
        request: The request.
        items: The transcript's parts, oldest first.
        older: The `before` for the page before this one; 0 if this is the first.
        newer: The `after` for the page after this one; 0 if this is the last.
        problem: The obstacle; empty without one.
    """

    request: str
    items: tuple[StoredItem, ...] = ()
    older: int = 0
    newer: int = 0
    problem: str = ""
    type: Literal["transcript page"] = "transcript page"


# Verification


@dataclass(frozen=True, slots=True)
class CheckWanted:
    """A person wants to verify an accepted set; the answer is `CheckOffer`."""

    set: str
    type: Literal["check wanted"] = "check wanted"


@dataclass(frozen=True, slots=True)
class CheckOffer:
    """A check's effects, for a person's consent.

    Args:
        set: The set.
        folder: The notebook's folder.
        files: How many files are copied.
        size: Their bytes.
        copied: Whether they are copied; the folder may be too large.
        python: The interpreter.
        problem: Why there can be no check now.
    """

    set: str
    folder: str = ""
    files: int = 0
    size: int = 0
    copied: bool = True
    python: str = ""
    problem: str = ""
    type: Literal["check offer"] = "check offer"


@dataclass(frozen=True, slots=True)
class CheckedCell:
    """A code cell to check.

    Args:
        id: Its id.
        number: Its place in the notebook, from 1.
        source: Its text.
        outputs: Its outputs as in a file; None if there is nothing to compare with.
    """

    id: str
    number: int
    source: str
    outputs: tuple[JsonObject, ...] | None = None


@dataclass(frozen=True, slots=True)
class CheckStarted:
    """A person has agreed to a check.

    Args:
        set: The set.
        cells: The code cells in their order.
        total: How many cells the notebook has.
        copied: Whether the person was told that files are copied.
    """

    set: str
    cells: tuple[CheckedCell, ...]
    total: int
    copied: bool
    type: Literal["check started"] = "check started"


@dataclass(frozen=True, slots=True)
class CheckProgress:
    """A check's progress; the page answers with `CheckSeen`.

    Args:
        set: The set.
        number: The running cell's place; 0 while files are copied and the kernel starts.
        total: How many cells the notebook has.
        seconds: The running cell's time.
    """

    set: str
    number: int
    total: int
    seconds: int = 0
    type: Literal["check progress"] = "check progress"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check's end.

    Args:
        set: The set.
        state: All as before, another output, or an earlier end.
        text: The sentence for a person.
        cell: The id for the cell in question; may be empty.
        before: Its outputs in the notebook, as compared.
        after: Its outputs in the check.
    """

    set: str
    state: Literal["same", "different", "ended"]
    text: str
    cell: str = ""
    before: str = ""
    after: str = ""
    type: Literal["check result"] = "check result"


@dataclass(frozen=True, slots=True)
class CheckSeen:
    """The page is there and follows the check."""

    request: str
    set: str
    type: Literal["check seen"] = "check seen"


@dataclass(frozen=True, slots=True)
class CheckStopped:
    """A person stops a check."""

    request: str
    set: str
    type: Literal["check stopped"] = "check stopped"


@dataclass(frozen=True, slots=True)
class CellText:
    """A cell's id and text."""

    id: str
    source: str


@dataclass(frozen=True, slots=True)
class ChangedCells:
    """Accepted changes, for the cells which became stale; the answer is `StaleCells`.

    Args:
        request: The request.
        cells: The code cells in their order, afterwards.
        before: The changed cells with their texts before.
    """

    request: str
    cells: tuple[CellText, ...]
    before: tuple[CellText, ...]
    type: Literal["changed cells"] = "changed cells"


@dataclass(frozen=True, slots=True)
class StaleCells:
    """Names which became stale, by the cells which use them."""

    request: str
    cells: Mapping[str, tuple[str, ...]]
    type: Literal["stale cells"] = "stale cells"


FromKernel: TypeAlias = (
    Welcome
    | Verbs
    | Names
    | Sets
    | CellsWanted
    | RunWanted
    | HelpStatus
    | NotApproved
    | TrustSettled
    | Activity
    | CheckOffer
    | CheckProgress
    | CheckResult
    | StaleCells
)
FromPage: TypeAlias = (
    Cells
    | Started
    | NotRun
    | Focused
    | HelpWanted
    | HelpStopped
    | AnswerProposed
    | Approve
    | Trust
    | CheckWanted
    | CheckStarted
    | ChangedCells
)
Question: TypeAlias = (
    Claim
    | Decided
    | InverseWanted
    | OverviewWanted
    | SaveSettings
    | SearchWanted
    | SettingsWanted
    | TakenBack
    | TranscriptWanted
    | CheckSeen
    | CheckStopped
)
