"""A served sidecar's current offers, with code from changed source files."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Mapping
from types import ModuleType

from planck_nb.base.errors import ConfigError, PlanckError
from planck_nb.base.text import one_line
from planck_nb.base.threads import run_in_thread
from planck_nb.sidecars.author.entry_point import entry_point_reference
from planck_nb.sidecars.author.offer import Offer, offer_of
from planck_nb.sidecars.author.sources import Sources, Stamp, changed_sentence
from planck_nb.sidecars.conventions import FIXED_SOURCES


class LiveOffer:
    """A loader for a sidecar, repeated after changes in its source files.

    All its modules are imported again together, so they fit one another; running calls go on with their original code.

    Args:
        reference: The entry as "module:name" or "module"; None for this environment's first entry point.
        digests: The sources' digests in the parent sidecar; None in the sidecar itself.

    Raises:
        ConfigError: If the sidecar is unknown, or cannot be loaded.
    """

    def __init__(self, reference: str | None = None, digests: Mapping[str, str] | None = None) -> None:
        name = reference or entry_point_reference()
        if name is None:
            raise ConfigError(
                "no sidecar entry module found: name one, `python -m planck_nb.sidecars MODULE:NAME`, or install a "
                "package with an entry point of the group planck_nb.sidecars."
            )
        self.reference = name
        self._module, _, self._attribute = name.partition(":")
        start, _, folder = os.environ.get(FIXED_SOURCES, "").partition(":")
        start_time = int(start) if start.isdecimal() else 0
        self._sources = Sources(self._module, fixed_folder=folder, start=start_time, digests=digests)
        self._lock = asyncio.Lock()
        self._failure = ""
        self.reloads = 0
        """Number of reloads."""
        self._entry: object = None
        self.offer = self._offer(lambda: self._found(self._sources.load))
        self._stamps = self._sources.stamps()

    def digests(self) -> Mapping[str, str]:
        """Return the loaded sources' digests, by file."""
        return self._sources.digests

    async def current(self) -> Offer:
        """Return the sidecar's current offers.

        Raises:
            ConfigError: If a source file has changed, and must not be loaded again or cannot be.
        """
        if self._sources.stamps() == self._stamps:  # the usual case, without the lock
            return self._answer()
        async with self._lock:
            stamps = self._sources.stamps()
            if stamps != self._stamps:
                if files := self._sources.changed():
                    raise ConfigError(changed_sentence(files))
                await self._reload(stamps)
            return self._answer()

    def renewed(self) -> Offer:
        """Ask the entry for its offers again, because `tools()` may have changed.

        Raises:
            ConfigError: If it does not return tools any more.
        """
        self.offer = self._offer(lambda: self._entry)
        return self.offer

    async def _reload(self, stamps: dict[str, Stamp]) -> None:
        try:
            self.offer = await run_in_thread(lambda: self._offer(lambda: self._found(self._sources.load_again)))
            self._failure = ""
        except PlanckError as error:
            self._failure = str(error)
        self.reloads += 1
        # A file which changed during loading differs from its stamp here, and is loaded once more.
        self._stamps = {**self._sources.stamps(), **stamps}

    def _answer(self) -> Offer:
        if self._failure:
            raise ConfigError(self._failure)
        return self.offer

    def _found(self, load: Callable[[], ModuleType]) -> object:
        entry: object = load()
        for name in filter(None, self._attribute.split(".")):
            entry = getattr(entry, name)
        return entry() if inspect.isclass(entry) else entry

    def _offer(self, find: Callable[[], object]) -> Offer:
        try:
            entry = find()
            offer = offer_of(entry)
        except PlanckError:
            raise
        except (Exception, SystemExit) as error:
            raise ConfigError(
                f"The sidecar {self.reference} cannot be loaded: {type(error).__name__}: "
                f"{one_line(str(error)).rstrip('.')}{_place(error)}; correct it and call again."
            ) from error
        self._entry = entry
        return offer


def _place(error: BaseException) -> str:
    """Return the place in the sidecar's code where an error was raised."""
    if isinstance(error, SyntaxError) or error.__traceback__ is None:
        return ""  # its text contains the place
    frames = [frame for frame in inspect.getinnerframes(error.__traceback__) if "importlib" not in frame.filename]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
