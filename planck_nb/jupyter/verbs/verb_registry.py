"""All verbs by name, and `%planck help` about them.

Other packages add verbs by entry points of the group `planck_nb.verbs`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points

from planck_nb.base.errors import UsageError
from planck_nb.jupyter.keys import PLACES
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.options import OPTIONS
from planck_nb.jupyter.parsing.parameters import TEXT, Extent, Kind, Parameter
from planck_nb.jupyter.similar_words import nearest
from planck_nb.jupyter.verbs.declaration import Text, Verb, columns, verb

GROUP = "planck_nb.verbs"

OWN = (EntryPoint("serve", "planck_nb.serve_verb:serve", GROUP),)
"""Verbs of planck_nb that need what this layer must not import; they are loaded like those of other packages."""

PROMPT = "prompt"
"""The page about prompts, which are no verb."""

KEYS = "keys"
"""The page with the keys."""

VIEWING = ("list", "show", "get", "view")
"""Words beside a verb which only shows something."""

TASKS = (
    ("ask something", "%planck why is the sky blue?"),
    ("show data, a file or a figure", "%planck what is odd in @orders and @sales.csv?"),
    ("let it work in this kernel", "%planck --tools kernel plot @orders by city"),
    ("correct the cell that failed", "%planck fix"),
    ("decide about a call, take back a change", "%planck approve    %planck undo"),
    ("stop or steer it while it works", "%planck stop    %planck steer use euros instead"),
    ("choose the model, see the cost", "%planck model anthropic:claude-sonnet-4-6    %planck cost"),
    ("continue earlier work, use several agents", "%planck search pumps    %planck resume    %planck team new helpers"),
)
"""Tasks, each with lines to type."""

_FORMS = (
    ("%planck PROMPT", "prompt the agent"),
    ("%planck AGENT --option … PROMPT", "prompt another agent, with options"),
    ("%%planck [AGENT] [OPTIONS]", "the same, with the prompt on the lines below"),
    ("x = %planck PROMPT", "keep the answer"),
)
_WIDTH = max(len(form) for form, _ in _FORMS)
_NEXT = (
    ("%planck help VERB or SUBJECT", "explain a verb, or the verbs of a subject, as in `%planck help teams`"),
    (f"%planck help {PROMPT}", "explain agent names, the options of a prompt, and what a prompt can include"),
    (f"%planck help {KEYS} or all", "list the keys in the browser, or all verbs"),
)
_NEAREST = 3
_CLOSE = 0.7
_STEM = 5
_CARRIED = (
    ("%planck what is odd in @orders?", "show a table with its types and missing values"),
    ("%planck what does @fig show?", "show a figure or an image, if the model accepts images"),
    ("%planck summarise @report.md", "send a text file, a picture or a notebook"),
    ("%planck --image photo.png what is this?", "send an image from a file"),
    ("x = %planck --output Invoice read @letter", "get an instance of a class: `x.output`"),
    ("%planck --expand compare {first} and {second}", "insert values into the text"),
    ("%planck add the prices with @add", "let the agent call a function of the notebook"),
    ("%planck analyst --new --model demo hello", "prompt another agent, with options"),
    ("%planck -- help me with this text", "send a prompt that begins like a verb"),
)
_NAMES = """\
AGENT names an agent with a conversation of its own; it is created if it does not exist. On one line the first word is a
name if options follow it, or if an agent of that name exists and more text follows; otherwise it belongs to the prompt.
A prompt without a name goes to the default agent, planck; `%planck use NAME` chooses another one. A new name that is
nearly that of an agent or a verb needs `--agent NAME`. A verb counts if what follows can be its arguments: `list the
columns` is a prompt. One word is not sent, unless the agent has asked something. `%planck -- PROMPT` sends any text.
Names with spaces are written in quotes. In a prompt, @name gives the agent a function of the notebook as a tool, shows
a value, or sends an image, and @path sends a file."""


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
    def synonyms(self) -> Mapping[str, str]:
        """The verbs for other words, perhaps with arguments."""
        found = {word: each.name for each in self._verbs.values() for word in each.synonyms}
        shortcuts = (
            (word, f"{each.name} {rest}") for each in self._verbs.values() for word, rest in each.shortcuts.items()
        )
        return {**found, **dict(shortcuts)}

    def named(self, word: str) -> tuple[Verb, str] | None:
        """Find the verb which a word means.

        Args:
            word: A verb's name, a synonym or a shortcut.

        Returns:
            The verb, and the arguments for which a shortcut stands. None for another word.
        """
        name, _, inserted = self.synonyms[word].partition(" ") if word in self.synonyms else (word, "", "")
        verb = self.get(name)
        return None if verb is None else (verb, inserted)

    def readings(self, line: str) -> Iterator[tuple[Verb, str, str]]:
        """Yield the verbs which the beginning of a line may mean.

        Args:
            line: The text after `%planck`.

        Yields:
            A verb, the arguments for which a shortcut stands, and the typed ones.
        """
        first, second, rest = (*line.split(None, 2), "", "", "")[:3]
        if first in VIEWING and (found := self.named(second)) and found[0].shows:
            yield *found, rest
        if second and (found := self.named(f"{first} {second}")):
            yield *found, rest
        if found := self.named(first):
            yield *found, line.strip()[len(first) :].strip()
            if found[0].shows and second in {*VIEWING, "all"} and not rest:
                yield *found, ""

    @cached_property
    def _entry_points(self) -> dict[str, EntryPoint]:
        return {point.name: point for point in (*entry_points(group=GROUP), *OWN)}


def _load(point: EntryPoint) -> Verb:
    """The verb of the entry point, or one that says why there is none."""
    try:
        loaded = point.load()
        if not isinstance(loaded, Verb):
            return _broken(point, f"{point.value} is not a verb")
        if point.name not in {loaded.name, *loaded.synonyms}:
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


def help_verb(verbs: VerbRegistry) -> Verb:
    """Make the verb that explains `verbs`, as they are when it is used."""

    def suggest(_notebook: Notebook) -> dict[str, str]:
        described = {each.name: each.summary for each in verbs.values()}
        pages = {PROMPT: "how to write prompts", KEYS: "the keys in the browser"}
        return described | pages | dict.fromkeys(_by_subject(verbs.values()), "subject")

    def fits(notebook: Notebook, text: str) -> bool:
        is_word = " " not in text and text.isascii()  # a sentence in Chinese has no blanks
        return is_word or bool(nearest(text.lower(), map(str.lower, suggest(notebook))))

    @verb(
        "help",
        "Help",
        "show what can be done, or explain a verb, a subject or an option",
        Parameter(
            "about",
            Kind("TOPIC", suggest=suggest, extent=Extent.NAME, fits=fits),
            f"a verb, subject or option, `{PROMPT}`: how to write prompts, `{KEYS}`, or `all`: all verbs",
            optional=True,
        ),
        example="help export",
    )
    async def explain(_notebook: Notebook, about: str | None) -> Text:
        return Text(subjects(verbs.values()) if about is None else topic(about, verbs))

    return explain


def topic(about: str, verbs: VerbRegistry) -> str:
    """Return the page about a topic.

    Args:
        about: A verb or another word for it, a subject, an option, or the name of a page.
        verbs: All verbs.

    Raises:
        UsageError: The topic is unknown; the message names the nearest ones.
    """
    lower = about.lower()
    if lower in _PAGES:
        return _PAGES[lower](verbs.values())
    if about in verbs:
        return verbs[about].help
    name = _subject(about, verbs.values())
    if name.lower() != lower and (found := verbs.named(lower)):
        return found[0].help
    if name:
        return subject(name, verbs.values())
    option = next((each for each in OPTIONS if lower.lstrip("-") in {each.name, *each.synonyms}), None)
    if option is not None:
        return "\n".join(
            [*columns([(option.usage, option.help)]), "", f"`%planck help {PROMPT}` explains all options."]
        )
    near = " or ".join(f"`%planck help {name}`" for name in _nearest_topics(lower, verbs))
    hint = near and f"Nearest is {near}. "
    raise UsageError(f"There is no topic {about}. {hint}`%planck help` lists what can be done.")


def _nearest_topics(word: str, verbs: VerbRegistry) -> list[str]:
    """Return topics with similar names, then verbs with the word in help."""
    topics = {name.lower(): name for name in (*verbs, *verbs.synonyms, PROMPT, KEYS, *_by_subject(verbs.values()))}
    similar = [topics[name] for name in get_close_matches(word, topics, n=_NEAREST, cutoff=_CLOSE)]
    names = [found[0].name if (found := verbs.named(name)) else name for name in similar]
    stem = re.compile(rf"\b{re.escape(word[:_STEM])}", re.IGNORECASE)
    names += [name for name, each in verbs.items() if stem.search(each.help)]
    return list(dict.fromkeys(names))[:_NEAREST]


def _by_subject(verbs: Iterable[Verb]) -> dict[str, list[Verb]]:
    found: dict[str, list[Verb]] = {}
    for each in verbs:
        found.setdefault(each.subject, []).append(each)
    return found


def _subject(written: str, verbs: Iterable[Verb]) -> str:
    """The subject that was written: all of its name, the beginning, or one of its words; empty if there is none."""
    names = list(_by_subject(verbs))
    lower = written.lower()
    whole = [name for name in names if name.lower() == lower]
    begins = [name for name in names if name.lower().startswith(lower)]
    words = [name for name in names if lower in name.lower().split() or f"{lower}s" in name.lower().split()]
    return next(iter((*whole, *begins, *words)), "")


def subjects(verbs: Iterable[Verb]) -> str:
    """Return the short page: tasks and subjects."""
    width = max(len(task) for task, _ in TASKS)
    tasks = columns(TASKS, width)
    listed: list[tuple[str, str]] = []
    for name, group in _by_subject(verbs).items():
        listed.append((name, " ".join(each.name for each in group)))
    width = max(len(name) for name, _ in listed)
    return "\n\n".join("\n".join(block) for block in (
        tasks, columns(listed, width), columns(_NEXT, _WIDTH)
    ))  # fmt: skip


def subject(name: str, verbs: Iterable[Verb]) -> str:
    """The page about a subject: its verbs, and an example of each."""
    group = _by_subject(verbs)[name]
    lines = [f"{name}:"]
    for each in group:
        lines += [*columns([(each.name, each.summary)], max(len(one.name) for one in group)), *_example(each)]
    return "\n".join([*lines, "", f"`%planck help {group[0].name}` explains a verb with all its options."])


def _example(described: Verb) -> list[str]:
    return [f"      %planck {described.example}"] if described.example else []


def overview(verbs: Iterable[Verb]) -> str:
    """The page that lists the verbs by their subjects."""
    blocks = [columns((*_FORMS, *_NEXT), _WIDTH)]
    for name, group in _by_subject(verbs).items():
        blocks.append([f"{name}:", *columns([(each.name, each.summary) for each in group], _WIDTH)])
    return "\n\n".join("\n".join(block) for block in blocks)


def prompts(_verbs: Iterable[Verb] = ()) -> str:
    """The page about agents' names and options in front of a prompt."""
    options = [(each.usage, each.help) for each in OPTIONS]
    width = max(len(example) for example, _ in _CARRIED)
    return "\n".join([*columns(_FORMS, _WIDTH), "", _NAMES, "", *columns(options), "", "Examples:",
                      *columns(_CARRIED, width)])  # fmt: skip


def keys(_verbs: Iterable[Verb] = ()) -> str:
    """The page with the keys, by the focused place."""
    width = max(len(key.shown) for place in PLACES for key in place.keys)
    blocks = [
        "\n".join([f"{place.where}:", *columns([(key.shown, key.does) for key in place.keys], width)])
        for place in PLACES
    ]
    return "\n\n".join([*blocks, "On a Mac, Cmd is as good as Ctrl."])


_PAGES: Mapping[str, Callable[[Iterable[Verb]], str]] = {
    **dict.fromkeys((PROMPT, "prompts"), prompts),
    **dict.fromkeys((KEYS, "key", "shortcuts", "keyboard"), keys),
    "all": overview,
}
