"""The resolved settings: what a `Workspace` is built from."""

from __future__ import annotations

import json
import os
import tomllib
from collections import ChainMap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from planck_nb.agent.approval import Rule
from planck_nb.agent.limits import Limits
from planck_nb.ai.cassettes import Mode
from planck_nb.base.errors import ConfigError, did_you_mean
from planck_nb.config.env_file import parse_env_file
from planck_nb.config.settings import RULES, SETTINGS, Setting
from planck_nb.config.settings_files import (
    SettingsFile,
    WrittenSettings,
    home_folder,
    read_settings,
    settings_files,
    user_folder,
)
from planck_nb.tools.sandbox import SandboxMode

if TYPE_CHECKING:
    from planck_nb.ai.models import Model
    from planck_nb.ai.user_models import UserModels

MODELS_FILES = (".planck/models.json", ".planck/models.toml")
"""Where one's own models are described unless `models_file` names another file; the first one that exists is read."""

DEFAULT = "default"


class SettingValue(NamedTuple):
    """A setting with its value and where that comes from.

    `source` is "call", "environment PLANCK_NB_…", ".planck/config.toml", "~/.planck/config.toml" or "default". The
    value of `allow`, `ask` and `deny` is a tuple of `Rule`.
    """

    setting: Setting
    value: object
    source: str


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, resolved; `SETTINGS` has a line on each.

    Args:
        sessions_dir: Where sessions are kept.
        root: The working directory of the agents.
        default_model: The model of agents that name none, as "provider:model".
        fallbacks: Models to ask when that one cannot answer, in order.
        limits: Bounds of a turn and of a session.
        rules: Approval rules, in addition to the built-in ones.
        approval_deadline: Seconds in which a call has to be approved.
        compact_ratio: How full a context window may be before it is compacted, above 0 and at most 1.
        skills_dirs: Folders of skills.
        tools_dirs: Folders of tools that a TOOL.json describes.
        sandbox: Whether commands run in a sandbox: "auto" if one works on this system, "off" never, "required" always.
        demo_pace: Seconds between two words of the demo model; None is 0, and a natural pace in a notebook.
        cassette: File that model traffic is recorded to or replayed from.
        cassette_mode: What the cassette is used for.
        models_file: The file that describes the user's own models, None if there is none.
        models: The user's own models.
        env_file: A file of environment variables; none is read unless it is named here.
        env_variables: What `env_file` contains. Variables of the process go before these.
        sources: Where values come from, by the name of the setting; "default" for those that are not in it.
        warnings: A sentence about everything that was left out because it cannot be used.
        home: The user's home folder, None for that of the process.
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
    env_file: Path | None = None
    env_variables: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    sandbox: SandboxMode = "auto"
    home: Path | None = field(default=None, repr=False, compare=False)

    @classmethod
    def load(
        cls,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        home: Path | None = None,
        **given: object,
    ) -> Config:
        """Resolve all settings.

        A value comes from the first of these that has one: the arguments, the environment, the variables of
        `env_file`, `.planck/config.toml` in `directory`, `.planck/config.toml` in `home`, the defaults.

        Example:
            >>> Config.load(environment={}, limits="rounds=5").limits.rounds
            5

        Args:
            environment: The environment variables, by default those of the process.
            directory: The folder of the project, in which relative paths start; by default the working directory.
            home: The user's home folder, by default that of the process.
            **given: Settings by name, each as text or as the field of `Config` holds it; None is the same as not given.

        Returns:
            The resolved settings.

        Raises:
            ConfigError: A value cannot be used, an argument is not a setting, or a settings file is not valid TOML.
        """
        names = [setting.field for setting in SETTINGS]
        if unknown := sorted(set(given) - set(names)):
            raise ConfigError(f"There is no setting {unknown[0]}. {did_you_mean(unknown[0], names)}")
        directory = Path.cwd() if directory is None else directory
        files = [(file, read_settings(file)) for file in settings_files(directory, home or home_folder())]
        written = _Written(given, os.environ if environment is None else environment, {}, files, directory)
        env_file, _ = written.value("env_file")
        variables, warnings = _env_variables(env_file)
        written = written._replace(env_variables=variables, env_file=env_file)

        found = {name: written.value(name) for name in names}
        values: dict[str, Any] = {name: value for name, (value, _) in found.items() if value is not None}
        sources = {name: source for name, (_, source) in found.items()}
        values["models_file"] = file = _models_file(values.get("models_file"), directory)
        own = _user_models(file)
        rules = tuple(rule for name in RULES for rule in values.pop(name, ()))
        warnings += [warning for _, settings in files for warning in settings.warnings]
        return cls(
            **values,
            root=directory,
            rules=rules,
            models=own.models,
            warnings=(*warnings, *own.warnings),
            env_variables=variables,
            sources=sources,
            home=home,
        )

    def settings(self) -> tuple[SettingValue, ...]:
        """Return every setting with its value and where that comes from, in the order of `SETTINGS`."""
        return tuple(
            SettingValue(setting, self._value(setting), self.sources.get(setting.field, DEFAULT))
            for setting in SETTINGS
        )

    @property
    def user_folder(self) -> Path | None:
        """The user's own folder for planck_nb, which no project can write; None if the user has no home folder."""
        return user_folder(self.home)

    def environment(self) -> Mapping[str, str]:
        """Return the variables of the process, always current, and behind them those of `env_file`."""
        return ChainMap(os.environ, dict(self.env_variables)) if self.env_variables else os.environ

    def _value(self, setting: Setting) -> object:
        if setting.field in RULES:
            return tuple(rule for rule in self.rules if rule.action == setting.field)
        return getattr(self, setting.field)


class _Written(NamedTuple):
    """All that may hold a setting."""

    given: Mapping[str, object]
    environment: Mapping[str, str]
    env_variables: Mapping[str, str]
    files: list[tuple[SettingsFile, WrittenSettings]]
    directory: Path
    env_file: Path | None = None

    def value(self, name: str) -> tuple[Any, str]:
        """The value of a setting, None if it has none, and where it comes from. Raises `ConfigError`."""
        setting = _BY_NAME[name]
        if (given := self.given.get(name)) is not None:
            read = setting.value_of(str(given), self.directory, name) if isinstance(given, (str, Path)) else given
            return read, "call"
        variable = setting.variable
        if text := self.environment.get(variable):
            return setting.value_of(text, self.directory, variable), f"environment {variable}"
        if text := self.env_variables.get(variable):
            return setting.value_of(text, self.directory, f"{variable} in {self.env_file}"), f"{variable} in env_file"
        for file, settings in self.files:
            if (value := settings.values.get(name)) is not None:
                return setting.value_of(value, self.directory, f"{file.path}: {name}"), file.label
        if setting.default is None:
            return None, DEFAULT
        return setting.value_of(setting.default, self.directory, name), DEFAULT


_BY_NAME = {setting.field: setting for setting in SETTINGS}


def _env_variables(path: Path | None) -> tuple[dict[str, str], list[str]]:
    """The variables of the file, and a sentence for lines that hold none; they may be secret and are not quoted."""
    if path is None:
        return {}, []
    try:
        variables, unread = parse_env_file(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"env_file cannot be read: {error}.") from error
    lines = ", ".join(map(str, unread))
    return variables, [f"{path} was read without line {lines}: write NAME=value."] if unread else []


def _models_file(named: Path | None, directory: Path) -> Path | None:
    """The file that was named, else the first of the usual ones that exists."""
    return named or next((path for name in MODELS_FILES if (path := directory / name).is_file()), None)


def _user_models(path: Path | None) -> UserModels:
    from planck_nb.ai.user_models import UserModels, read_models  # noqa: PLC0415 - loads the wire formats

    if path is None:
        return UserModels()
    if not path.is_file():
        return UserModels(warnings=(f"models_file is {str(path)!r}, but there is no such file.",))
    try:
        text = path.read_text(encoding="utf-8")
        data: object = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        return UserModels(warnings=(f"{path} was not used: {error}.",))
    return read_models(data, str(path))
