"""All verbs by name. Other packages add verbs by entry points of the group `planck_nb.verbs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points

from planck_nb.base.errors import UsageError
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.parameters import TEXT, Parameter
from planck_nb.jupyter.verbs.declaration import Verb, verb
from planck_nb.jupyter.verbs.help_verb import help_verb

GROUP = "planck_nb.verbs"

OWN = (EntryPoint("serve", "planck_nb.serve_verb:serve", GROUP),)
"""Verbs of planck_nb that need what this layer must not import; they are loaded like those of other packages."""


class VerbRegistry(Mapping[str, Verb]):
    """Verbs by name.

    Other packages are looked at when a name is asked for that is not built in, and imported when a verb of theirs is
    used or described. A verb of planck_nb cannot be replaced.

    Args:
        built_in: The verbs of planck_nb, in the order of help, except `help` itself.
    """

    def __init__(self, built_in: tuple[Verb, ...]) -> None:
        self._verbs = {each.name: each for each in (*built_in, help_verb(self))}
        self._loaded: dict[str, Verb] = {}

    def __getitem__(self, name: str) -> Verb:
        """The verb of this name; a package that cannot be imported has one that says so."""
        if name in self._verbs:
            return self._verbs[name]
        if name in self._loaded:
            return self._loaded[name]
        self._loaded[name] = loaded = _load(self._entry_points[name])
        return loaded

    def __contains__(self, name: object) -> bool:
        return name in self._verbs or name in self._entry_points

    def __iter__(self) -> Iterator[str]:
        return iter({**self._verbs, **self._entry_points})

    def __len__(self) -> int:
        return len({**self._verbs, **self._entry_points})

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in (*entry_points(group=GROUP), *OWN)}


def _load(point: EntryPoint) -> Verb:
    """The verb of the entry point, or one that says why there is none."""
    try:
        loaded = point.load()
        if not isinstance(loaded, Verb):
            return _broken(point, f"{point.value} is not a verb")
        if loaded.name != point.name:
            return _broken(point, f"{point.value} is the verb {loaded.name}")
    except Exception as error:  # noqa: BLE001 - another package's code
        return _broken(point, f"{type(error).__name__}: {error}")
    return loaded


def _broken(point: EntryPoint, reason: str) -> Verb:
    package = point.dist.name if point.dist else point.module
    sentence = f"The verb {point.name} of the package {package} cannot be loaded ({' '.join(reason.split())})."

    @verb(point.name, "Cannot be loaded", sentence, Parameter("_text", TEXT, "anything", optional=True))
    async def explain(_notebook: Notebook, _text: str | None) -> None:
        raise UsageError(sentence)

    return explain
