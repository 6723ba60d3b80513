"""The table of settings: the name of each, its variable, and how its written value is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from planck_nb.agent.approval import Action, Rule
from planck_nb.agent.limits import WHOLE_LIMITS, Limits
from planck_nb.ai.cassettes import MODES
from planck_nb.base.errors import ConfigError, PlanckError
from planck_nb.tools.sandbox import MODES as SANDBOX_MODES

SidecarWait: TypeAlias = Literal["all", "named"]
SIDECAR_WAITS: tuple[SidecarWait, ...] = get_args(SidecarWait)
DEFAULT_SIDECAR_WAIT: SidecarWait = "all"
FIX_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Args:
        field: Its name in `Config.load`, in the settings files and, except for the approval rules, in `Config`.
        variable: The environment variable that sets it.
        help: What it means, in a few words.
        read: Converts what was written to the value: text from a variable, or a TOML value (text, a number, a list, a
            table). The second argument is the directory that relative paths start in. Raises `ValueError` with what is
            accepted, as the end of a sentence that begins with "it".
        default: The value, written as in a variable, if it is not set anywhere; None for the default in `Config`.
        separator: What separates the items in a variable, for settings that are lists.
    """

    field: str
    variable: str
    help: str
    read: Callable[[object, Path], object]
    default: str | None = None
    separator: str = ""

    def value_of(self, written: object, directory: Path, name: str) -> object:
        """Return the value that was written for the setting.

        Args:
            written: Text as in the environment variable, or a value from TOML.
            directory: Where relative paths start.
            name: What to call the setting in an error: a variable, or a file and a key.

        Raises:
            ConfigError: The value cannot be used.
        """
        try:
            return self.read(written, directory)
        except PlanckError as error:
            raise ConfigError(f"{name} is {written!r}: {error}") from None
        except ValueError as error:
            raise ConfigError(f"{name} is {written!r}; it {error}.") from None

    def toml_value(self, value: object) -> object:
        """Return a value in the type that suits TOML: text for a list as a list, text for a number as a number."""
        if isinstance(value, str) and self.separator:
            return _items(value, self.separator)
        if isinstance(value, str) and self.read in (_seconds, _ratio):
            number = float(value)
            return int(number) if number.is_integer() else number
        return value


def read_limits(text: str, limits: Limits | None = None) -> Limits:
    """Return limits with some of them changed.

    Example:
        >>> read_limits("rounds=100, cost=none").rounds
        100

    Args:
        text: Pairs such as "rounds=100, cost=none", separated by commas or blanks.
        limits: The limits to change, by default the default ones.

    Raises:
        ValueError: The text has a name that is not a limit, or a value that is not a positive number or "none".
    """
    known = {item.name for item in fields(Limits)}
    changed: dict[str, float | int | None] = {}
    for word in text.replace(",", " ").split():
        name, equals, value = word.partition("=")
        if name not in known or not equals:
            raise ValueError(f"takes NAME=NUMBER for {', '.join(sorted(known))}, with `none` for no limit")
        if value.lower() == "none":
            changed[name] = None
            continue
        whole = name in WHOLE_LIMITS
        least = "of 0 or more" if name == "unknown_price" else "above 0"
        accepted = f"{'a whole number' if whole else 'a number'} {least} for {name}, or none"
        number = _number(value, accepted)
        if not 0 <= number < inf or (not number and name != "unknown_price") or (whole and not number.is_integer()):
            raise ValueError(f"must be {accepted}")
        changed[name] = int(number) if whole else number
    return replace(limits or Limits(), **changed)  # type: ignore[arg-type]  # each is a number or None


def _text(written: object, _directory: Path) -> str:
    if not isinstance(written, str) or not written.strip():
        raise ValueError("must be text")
    return written


def _path(written: object, directory: Path) -> Path:
    try:
        return directory / Path(_text(written, directory)).expanduser()
    except RuntimeError:  # "~name" of a user who does not exist
        raise ValueError("must be a path in a folder that exists") from None


def _paths(written: object, directory: Path) -> tuple[Path, ...]:
    return tuple(_path(item, directory) for item in _items(written, os.pathsep))


def _one_of(choices: Sequence[str]) -> Callable[[object, Path], str]:
    """Return a reader for a choice."""

    def read(written: object, _directory: Path) -> str:
        if written not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return str(written)

    return read


def _words(written: object, _directory: Path) -> tuple[str, ...]:
    return tuple(_items(written, ","))


def _items(written: object, separator: str) -> list[str]:
    if isinstance(written, str):
        written = written.split(separator)
    if not isinstance(written, list) or not all(isinstance(item, str) for item in written):
        raise ValueError("must be a list of strings")
    return [item.strip() for item in written if item.strip()]


def _rules(action: Action) -> Callable[[object, Path], tuple[Rule, ...]]:
    def read(written: object, directory: Path) -> tuple[Rule, ...]:
        return tuple(Rule.parse(action, word) for word in _words(written, directory))

    return read


def _limits(written: object, _directory: Path) -> Limits:
    if isinstance(written, Mapping):
        written = " ".join(f"{name}={number}" for name, number in written.items())
    if not isinstance(written, str):
        raise ValueError("must be a table such as {rounds = 100, cost = 'none'}, or text such as 'rounds=100'")  # noqa: TRY004
    return read_limits(written)


def _seconds(written: object, _directory: Path) -> float:
    return max(0.0, _number(written, "a number of seconds"))


def _count(written: object, _directory: Path) -> int:
    number = _number(written, "a whole number of 0 or more")
    if number < 0 or number != int(number):
        raise ValueError("must be a whole number of 0 or more")
    return int(number)


def _ratio(written: object, _directory: Path) -> float:
    accepted = "a number above 0 and at most 1"
    ratio = _number(written, accepted)
    if not 0 < ratio <= 1:
        raise ValueError(f"must be {accepted}")
    return ratio


def _number(written: object, accepted: str) -> float:
    try:
        number = inf if isinstance(written, bool) or not isinstance(written, (str, int, float)) else float(written)
    except (ValueError, OverflowError):
        number = inf
    if not isfinite(number):
        raise ValueError(f"must be {accepted}")
    return number


def _folders(name: str) -> str:
    return f".planck/{name}{os.pathsep}~/.planck/{name}"


SETTINGS = (
    Setting("sessions_dir", "PLANCK_NB_SESSIONS_DIR", "where sessions are kept", _path, ".planck/sessions"),
    Setting("default_model", "PLANCK_NB_MODEL", "the model of agents created without one, as provider:model", _text),
    Setting(
        "fallbacks",
        "PLANCK_NB_FALLBACKS",
        "models to use if that one cannot answer, in order",
        _words,
        separator=",",
    ),
    Setting(
        "limits",
        "PLANCK_NB_LIMITS",
        "bounds of a turn (rounds, tokens, cost in dollars, seconds) and a session: rounds=100,cost=none",
        _limits,
    ),
    Setting(
        "allow",
        "PLANCK_NB_ALLOW",
        "calls that need no approval: read, write, bash:git status",
        _rules("allow"),
        separator=",",
    ),
    Setting("ask", "PLANCK_NB_ASK", "calls that need approval", _rules("ask"), separator=","),
    Setting("deny", "PLANCK_NB_DENY", "calls that are never run", _rules("deny"), separator=","),
    Setting("approval_deadline", "PLANCK_NB_APPROVAL_DEADLINE", "how many seconds a call waits for approval", _seconds),
    Setting("compact_ratio", "PLANCK_NB_COMPACT_RATIO", "how full the context window may get before a summary", _ratio),
    Setting(
        "max_workers",
        "PLANCK_NB_MAX_WORKERS",
        "an orchestrator may spawn workers until its team has this many",
        _count,
    ),
    Setting(
        "retry_seconds",
        "PLANCK_NB_RETRY_SECONDS",
        "for how many seconds a failed request that continues a turn is retried; 0 for never",
        _seconds,
    ),
    Setting(
        "first_retry_seconds",
        "PLANCK_NB_FIRST_RETRY_SECONDS",
        "the same for the first request of a turn",
        _seconds,
    ),
    Setting(
        "skills_dirs",
        "PLANCK_NB_SKILLS_DIRS",
        "folders of skills",
        _paths,
        _folders("skills"),
        os.pathsep,
    ),
    Setting(
        "tools_dirs",
        "PLANCK_NB_TOOLS_DIRS",
        "folders of tools that a TOOL.json describes",
        _paths,
        _folders("tools"),
        os.pathsep,
    ),
    Setting(
        "teams_dirs",
        "PLANCK_NB_TEAMS_DIRS",
        "folders of team templates",
        _paths,
        _folders("teams"),
        os.pathsep,
    ),
    Setting(
        "sidecar_sampling",
        "PLANCK_NB_SIDECAR_SAMPLING",
        "names of sidecars that may ask for replies of models, each of which needs approval",
        _words,
        separator=",",
    ),
    Setting(
        "sidecar_observers",
        "PLANCK_NB_SIDECAR_OBSERVERS",
        "names of sidecars whose observers get all agents' events: prompts, files and results",
        _words,
        separator=",",
    ),
    Setting(
        "sidecar_roots",
        "PLANCK_NB_SIDECAR_ROOTS",
        "names of sidecars that are told the folder of the project",
        _words,
        separator=",",
    ),
    Setting(
        "sidecar_wait",
        "PLANCK_NB_SIDECAR_WAIT",
        "sidecars that a prompt waits for while they start: all, or named, which are those that it names",
        _one_of(SIDECAR_WAITS),
    ),
    Setting(
        "fix_attempts",
        "PLANCK_NB_FIX_ATTEMPTS",
        "how many corrections of a cell are proposed, each after the one before has failed",
        _count,
    ),
    Setting("sandbox", "PLANCK_NB_SANDBOX", "run commands in a sandbox: auto, off or required", _one_of(SANDBOX_MODES)),
    Setting("demo_pace", "PLANCK_NB_DEMO_PACE", "seconds between two words of the demo model", _seconds),
    Setting("cassette", "PLANCK_NB_CASSETTE", "file that model traffic is recorded to or replayed from", _path),
    Setting("cassette_mode", "PLANCK_NB_CASSETTE_MODE", "off, record, replay or auto", _one_of(MODES)),
    Setting("models_file", "PLANCK_NB_MODELS_FILE", "file that describes your own models", _path),
    Setting("env_file", "PLANCK_NB_ENV_FILE", "file of variables such as API keys, read as if they were set", _path),
)
"""All settings: one table for variables, files and help."""

RULES = ("deny", "allow", "ask")
"""The settings that make up `Config.rules`, in the order in which the policy gets them."""
