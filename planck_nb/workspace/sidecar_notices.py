"""What the user should know about what happens to sidecars: a sentence each, kept until it is shown."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from planck_nb.base.text import counted, one_line
from planck_nb.base.visible import visible
from planck_nb.sidecars.mcp_client.link.status import SidecarEvent
from planck_nb.sidecars.mcp_client.offers.definitions import LeftOut

MAX_NOTICES = 20
"""How many sentences are kept until they are shown; further ones are only counted."""

MAX_LINES = 40
"""Lines of the progress of a start that are shown."""

_CHARACTERS = 1_000
_NAME_CHARACTERS = 64
_TOOLS = 500
_NAMES = 12
"""Names in one sentence."""

Show = Callable[[str], None]
"""Shows a line."""


class SidecarNotices:
    """Turns the events of sidecars into sentences."""

    def __init__(self) -> None:
        self._pending: list[tuple[str, str]] = []
        """Names of sidecars, and sentences."""
        self._left_out = 0
        self._lost: set[str] = set()
        self._show: Show | None = None
        self._shown = 0

    def add(self, event: SidecarEvent, tools: Mapping[str, str], left_out: Sequence[LeftOut]) -> None:
        """Note an event.

        Args:
            event: The event.
            tools: The names of the sidecar's tools, with its own names for them.
            left_out: What it lists and cannot be used.
        """
        if self._show is not None and (line := self._progress(event)):
            self._shown += 1
            if self._shown <= MAX_LINES:
                self._show(line)
            elif self._shown == MAX_LINES + 1:
                self._show(f"Further lines are in `%planck sidecar logs {event.sidecar}`.")
        if sentence := self._sentence(event, tools, left_out):
            # The first tools are trusted with their sidecar, so all are named.
            text = visible(sentence)
            self._keep(event.sidecar, text if event.kind == "connected" else one_line(text, _CHARACTERS))

    def tells_of(self, name: str) -> bool:
        """Return whether a sentence about a sidecar was not shown yet."""
        return any(sidecar == name for sidecar, _ in self._pending)

    def take(self) -> list[str]:
        """Return the sentences that were not shown yet, and forget them."""
        taken, self._pending = [sentence for _, sentence in self._pending], []
        if self._left_out:
            taken.append(f"{self._left_out:,} more messages about sidecars are left out; see `%planck sidecar`.")
        self._left_out = 0
        return taken

    @contextmanager
    def showing(self, show: Show, names: Collection[str] = ()) -> Iterator[None]:
        """Show the progress of starts as it happens, within the context.

        Args:
            show: Shows a line.
            names: The sidecars whose states are shown at the end, so that they are not reported again; all if empty.
        """
        before = self._show
        self._show, self._shown = show, 0
        try:
            yield
        finally:
            self._show = before
            self._pending = [each for each in self._pending if names and each[0] not in names]
            if not names:
                self._left_out = 0

    def _keep(self, name: str, sentence: str) -> None:
        if (name, sentence) in self._pending:
            return
        if len(self._pending) >= MAX_NOTICES:
            self._left_out += 1
        else:
            self._pending.append((name, sentence))

    def _sentence(self, event: SidecarEvent, tools: Mapping[str, str], left_out: Sequence[LeftOut]) -> str:
        name, again = event.sidecar, event.sidecar in self._lost
        match event.kind:
            case "building":
                logs = f"`%planck sidecar logs {name}` shows how far it is"
                sentence = f"The sidecar {name} is being built, and its tools come when it is ready; {logs}."
            case "connected":
                self._lost.discard(name)
                sentence = f"The sidecar {name} is connected{' again' if again else ''}, with {listed_tools(tools)}."
                sentence = " ".join(filter(None, (sentence, event.text, left_out_sentence(left_out))))
            case "exited" | "disconnected":
                self._lost.add(name)
                sentence = f"The sidecar {name} was lost ({event.text}); it is started again."
            case "failed" | "compactor_failed":
                sentence = event.text
            case _:
                sentence = ""
        return sentence

    @staticmethod
    def _progress(event: SidecarEvent) -> str:
        match event.kind:
            case "building":
                return f"{event.sidecar}: its environment is being built."
            case "progress":
                return f"{event.sidecar}: {one_line(visible(event.text), _CHARACTERS)}"
            case _:
                return ""


def waiting_sentence(names: Sequence[str]) -> str:
    """Return a sentence about a prompt's wait."""
    return f"Waiting for the {'sidecar' if len(names) == 1 else 'sidecars'} {_listed(names)}."


def missing_tools(starting: Sequence[str], failed: Sequence[str]) -> list[str]:
    """Return sentences for a prompt about missing tools.

    Args:
        starting: Sidecars whose start goes on.
        failed: Sidecars which could not be started.
    """
    sentences = []
    for names, state in ((starting, "still starting"), (failed, "not running; see `%planck sidecar`")):
        if names:
            verb = "is" if len(names) == 1 else "are"
            sentences.append(f"This prompt goes without the tools of {_listed(names)}, which {verb} {state}.")
    return sentences


def listed_tools(names: Mapping[str, str]) -> str:
    """Return the number and the names of tools, with different original names."""
    count = counted(len(names), "tool")
    labels = [name if name == own else f"{name} for {one_line(own, _NAME_CHARACTERS)}" for name, own in names.items()]
    return f"{count} ({_listed(labels, _TOOLS, 2 * _NAME_CHARACTERS)})" if names else count


def left_out_sentence(left_out: Sequence[LeftOut]) -> str:
    """Return a sentence about unusable items, empty without any."""
    if not left_out:
        return ""
    parts = [f"{one_line(item.name, _NAME_CHARACTERS)} ({one_line(item.reason)})" for item in left_out[:_NAMES]]
    more = f" and {len(left_out) - _NAMES:,} more" if len(left_out) > _NAMES else ""
    return f"Left out: {', '.join(parts)}{more}."


def untrusted_sidecar(name: str) -> str:
    """Return a sentence about a sidecar which must not be started."""
    return (
        f"The sidecar {name} runs what a file of this folder names and is not trusted as it is now; look at it with "
        "`%planck trust --list`, then run `%planck trust`."
    )


def untrusted_notice(names: Sequence[str]) -> str:
    """Return a sentence on how to trust these sidecars; empty if there are none."""
    if not names:
        return ""
    one = len(names) == 1
    return (
        f"The {'sidecar' if one else 'sidecars'} {_listed(names)} of this folder {'is' if one else 'are'} not started, "
        f"because {'it is' if one else 'they are'} not trusted; look with `%planck trust --list`, then run "
        "`%planck trust`."
    )


def _listed(names: Sequence[str], limit: int = _NAMES, characters: int = _NAME_CHARACTERS) -> str:
    first = ", ".join(visible(one_line(name, characters)) for name in names[:limit])
    return f"{first} and {len(names) - limit:,} more" if len(names) > limit else first
