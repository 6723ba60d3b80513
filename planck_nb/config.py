"""Settings: what a `Workspace` is built from."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from math import inf, isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from planck_nb.agent.approval import Action, Rule
from planck_nb.agent.limits import Limits
from planck_nb.ai.cassettes import MODES, Mode
from planck_nb.base.errors import ConfigError, PlanckError, did_you_mean

if TYPE_CHECKING:
    from planck_nb.ai.models import Model
    from planck_nb.ai.user_models import UserModels

MODELS_FILES = (".planck/models.json", ".planck/models.toml")
"""Where one's own models are described unless `models_file` names another file; the first there is read."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, resolved; `SETTINGS` has a line on each.

    `root` is the working directory of the agents. `demo_pace` is None where nobody set it: then at once, but at a
    natural pace in a notebook. `models` are the user's own, as `models_file` describes them, which is None where there
    is no such file; `warnings` are a sentence about each setting that was left out because it cannot be used.
    """

    sessions_dir: Path
    root: Path = field(default_factory=Path.cwd)
    default_model: str | None = None
    fallbacks: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    rules: tuple[Rule, ...] = ()
    approval_deadline: float = 300.0
    compact_ratio: float = 0.8
    skills_dirs: tuple[Path, ...] = ()
    tools_dirs: tuple[Path, ...] = ()
    demo_pace: float | None = None
    cassette: Path | None = None
    cassette_mode: Mode = "auto"
    models_file: Path | None = None
    models: tuple[Model, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def load(
        cls,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        **given: object,
    ) -> Config:
        """Settings from the arguments, else the environment, else the defaults.

        An argument is the name of a setting, its value as the field holds it or as text, as in the environment; None
        is the same as none given. Relative paths start in `directory`, by default the working directory. Raises
        `ConfigError` for a value that cannot be used, and for a name that is no setting.
        """
        environment = os.environ if environment is None else environment
        directory = Path.cwd() if directory is None else directory
        if unknown := sorted(set(given) - {setting.field for setting in SETTINGS}):
            names = [setting.field for setting in SETTINGS]
            raise ConfigError(f"There is no setting {unknown[0]}. {did_you_mean(unknown[0], names)}")
        values: dict[str, Any] = {"root": directory}
        for setting in SETTINGS:
            value = given.get(setting.field)
            written = environment.get(setting.variable) or setting.default if value is None else value
            if isinstance(written, (str, Path)):
                written = setting.value_of(str(written), directory)
            if written is not None:
                values[setting.field] = written
        values["models_file"] = file = _models_file(values.get("models_file"), directory)
        own = _user_models(file)
        rules = tuple(rule for name in RULES for rule in values.pop(name, ()))
        return cls(**values, rules=rules, models=own.models, warnings=own.warnings)


def _paths(text: str, directory: Path) -> tuple[Path, ...]:
    return tuple(_path(item, directory) for item in text.split(os.pathsep) if item)


def _path(text: str, directory: Path) -> Path:
    return directory / Path(text).expanduser()


def _mode(text: str, _directory: Path) -> Mode:
    if text not in MODES:
        raise ValueError(f"must be one of {', '.join(MODES)}")
    return cast("Mode", text)


def _words(text: str, _directory: Path) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _rules(action: Action) -> Callable[[str, Path], tuple[Rule, ...]]:
    def read(text: str, directory: Path) -> tuple[Rule, ...]:
        return tuple(Rule.parse(action, word) for word in _words(text, directory))

    return read


def _seconds(text: str, _directory: Path) -> float:
    return max(0.0, _number(text, "a number of seconds"))


def _ratio(text: str, _directory: Path) -> float:
    ratio = _number(text, "a number above 0 and at most 1")
    if not 0 < ratio <= 1:
        raise ValueError("must be a number above 0 and at most 1")
    return ratio


def _number(text: str, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = inf
    if not isfinite(number):
        raise ValueError(f"must be {what}")
    return number


def read_limits(text: str, limits: Limits | None = None) -> Limits:
    """The limits with those changed that `text` names: "rounds=100, cost=none". Raises ValueError."""
    known = {item.name for item in fields(Limits)}
    changed: dict[str, float | int | None] = {}
    for word in text.replace(",", " ").split():
        name, equals, value = word.partition("=")
        if name not in known or not equals:
            raise ValueError(f"takes NAME=NUMBER for {', '.join(sorted(known))}, with `none` for no limit")
        if value.lower() == "none":
            changed[name] = None
            continue
        whole = name not in {"cost", "seconds", "session_cost"}
        wanted = f"{'a whole number' if whole else 'a number'} above 0 for {name}, or none"
        number = _number(value, wanted)
        if not 0 < number < inf or (whole and not number.is_integer()):
            raise ValueError(f"must be {wanted}")
        changed[name] = int(number) if whole else number
    return replace(limits or Limits(), **changed)  # type: ignore[arg-type]  # each is a number or None


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting: its field in `Config`, its variable, how its text is read, and a line of help."""

    field: str
    variable: str
    help: str
    read: Callable[[str, Path], object] = lambda text, _directory: text
    default: str | None = None

    def value_of(self, text: str, directory: Path) -> object:
        """What the text says. Raises `ConfigError`."""
        try:
            return self.read(text, directory)
        except PlanckError as error:
            raise ConfigError(f"{self.variable} is {text!r}: {error}") from None
        except ValueError as error:
            raise ConfigError(f"{self.variable} is {text!r}; it {error}.") from None


RULES = ("deny", "allow", "ask")

SETTINGS = (
    Setting("sessions_dir", "PLANCK_NB_SESSIONS_DIR", "where sessions are kept", _path, ".planck/sessions"),
    Setting("default_model", "PLANCK_NB_MODEL", "the model of agents that name none, as provider:model"),
    Setting("fallbacks", "PLANCK_NB_FALLBACKS", "models to ask when that one cannot answer, in order", _words),
    Setting(
        "limits",
        "PLANCK_NB_LIMITS",
        "bounds of a turn (rounds, tokens, cost in dollars, seconds) and a session: rounds=100,cost=none",
        lambda text, _directory: read_limits(text),
    ),
    Setting("allow", "PLANCK_NB_ALLOW", "calls that need no approval: read, write, bash:git status", _rules("allow")),
    Setting("ask", "PLANCK_NB_ASK", "calls that need approval", _rules("ask")),
    Setting("deny", "PLANCK_NB_DENY", "calls that are never run", _rules("deny")),
    Setting("approval_deadline", "PLANCK_NB_APPROVAL_DEADLINE", "seconds to approve a call in", _seconds),
    Setting("compact_ratio", "PLANCK_NB_COMPACT_RATIO", "how full the window may be before it is compacted", _ratio),
    Setting(
        "skills_dirs",
        "PLANCK_NB_SKILLS_DIRS",
        "folders of skills",
        _paths,
        f".planck/skills{os.pathsep}~/.planck/skills",
    ),
    Setting(
        "tools_dirs",
        "PLANCK_NB_TOOLS_DIRS",
        "folders of tools that a TOOL.json describes",
        _paths,
        f".planck/tools{os.pathsep}~/.planck/tools",
    ),
    Setting("demo_pace", "PLANCK_NB_DEMO_PACE", "seconds between two words of the demo model", _seconds),
    Setting("cassette", "PLANCK_NB_CASSETTE", "file that model traffic is recorded to or replayed from", _path),
    Setting("cassette_mode", "PLANCK_NB_CASSETTE_MODE", "off, record, replay or auto", _mode),
    Setting("models_file", "PLANCK_NB_MODELS_FILE", "file that describes models of one's own", _path),
)
"""All settings that have a variable, one table for reading and for help."""


def _models_file(named: Path | None, directory: Path) -> Path | None:
    """The file that was named, else the first that is there."""
    return named or next((path for name in MODELS_FILES if (path := directory / name).is_file()), None)


def _user_models(path: Path | None) -> UserModels:
    from planck_nb.ai.user_models import UserModels, read_models  # noqa: PLC0415 - loads the wire formats

    if path is None:
        return UserModels()
    if not path.is_file():
        return UserModels(warnings=(f"PLANCK_NB_MODELS_FILE is {str(path)!r}, but there is no such file.",))
    try:
        text = path.read_text(encoding="utf-8")
        data: object = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        return UserModels(warnings=(f"{path} was not used: {error}.",))
    return read_models(data, str(path))
