"""The resolved settings: what a `Workspace` is built from."""

from __future__ import annotations

import json
import os
import tomllib
from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from planck_nb.agent.approval import Rule
from planck_nb.agent.approval.gate import DEADLINE
from planck_nb.agent.context.compactor import RATIO
from planck_nb.agent.limits import Limits
from planck_nb.ai.cassettes import DEFAULT_MODE, Mode
from planck_nb.ai.retries.retry import FIRST_RETRY_SECONDS, RETRY_SECONDS
from planck_nb.base.errors import ConfigError, did_you_mean
from planck_nb.base.secrets import is_generated_key, is_secret_variable
from planck_nb.config.env_file import parse_env_file
from planck_nb.config.settings import DEFAULT_SIDECAR_WAIT, FIX_ATTEMPTS, RULES, SETTINGS, Setting, SidecarWait
from planck_nb.config.settings_files import (
    SETTINGS_FILE,
    SettingsFile,
    WrittenSettings,
    home_folder,
    read_settings,
    settings_files,
    settings_item,
    user_folder,
)
from planck_nb.config.trust import FolderTrust, Trusted, TrustItem, is_consent, read_item
from planck_nb.teams.spawning import MAX_WORKERS
from planck_nb.tools.sandbox import DEFAULT_SANDBOX, SandboxMode

if TYPE_CHECKING:
    from planck_nb.ai.model_lookup.user_models import UserModels
    from planck_nb.ai.models import Model

MODELS_FILES = (".planck/models.json", ".planck/models.toml")
"""Where one's own models are described unless `models_file` names another file; the first one that exists is read."""

DEFAULT = "default"
"""The source of a value that is not set anywhere."""

CALL = "call"
"""The source of a value that a program gave."""

_RESTRICTING = ("deny", "ask")
"""Settings of a project that are added to the user's own, because a project must not remove any of those."""


_Arguments: TypeAlias = tuple[Mapping[str, str] | None, Path | None, Path | None, bool | None, Mapping[str, object]]
"""Environment, directory, home, trust and settings, as `Config.load` was called with them."""


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
        default_model: The model of agents that are created without one, as "provider:model".
        fallbacks: Models to use if that one cannot answer, in order.
        limits: Bounds of a turn and of a session.
        rules: Approval rules, in addition to the built-in ones.
        approval_deadline: Seconds in which a call has to be approved.
        max_workers: An orchestrator may spawn workers until its team has this many.
        compact_ratio: How full a context window may be before it is compacted, above 0 and at most 1.
        retry_seconds: For how many seconds a request that continues a turn is retried if the server fails.
        first_retry_seconds: The same for the first request of a turn.
        skills_dirs: Folders of skills.
        tools_dirs: Folders of tools that a TOOL.json describes.
        teams_dirs: Folders of team templates. Of two with the same alias, the first one is used.
        sidecar_sampling: Names of sidecars that may ask for replies of models; each such reply needs approval.
        sidecar_observers: Sidecars whose observers get all agents' events, by name.
        sidecar_roots: Names of sidecars that are told the folder of the project.
        sidecar_wait: Which sidecars a prompt waits for while they start: "all", or the "named" ones.
        fix_attempts: How many corrections of a cell are proposed, each after the one before has failed.
        sandbox: Whether commands run in a sandbox: "auto" if one works on this system, "off" never, "required" always.
        demo_pace: Seconds between two words of the demo model; None is 0, and a natural pace in a notebook.
        cassette: File that model traffic is recorded to or replayed from.
        cassette_mode: What the cassette is used for.
        models_file: The file that describes the user's own models, None if there is none.
        models: The user's own models.
        env_file: A file of environment variables; none is read unless it is named here.
        env_variables: What `env_file` contains. Variables of the process take precedence.
        sources: Where values come from, by the name of the setting; "default" for those that are not in it.
        warnings: A sentence about everything that was left out because it cannot be used.
        home: The user's home folder, None for that of the process.
        folder_trust: What the user trusts in the folder `root`.
        trust_items: The files of the folder that `Config.load` found and that need trust, used or not.
        loaded_with: The arguments of `Config.load`, None if the configuration was made in another way.
    """

    sessions_dir: Path
    root: Path = field(default_factory=Path.cwd)
    default_model: str | None = None
    fallbacks: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    rules: tuple[Rule, ...] = ()
    approval_deadline: float = DEADLINE
    compact_ratio: float = RATIO
    max_workers: int = MAX_WORKERS
    skills_dirs: tuple[Path, ...] = ()
    tools_dirs: tuple[Path, ...] = ()
    demo_pace: float | None = None
    cassette: Path | None = None
    cassette_mode: Mode = DEFAULT_MODE
    models_file: Path | None = None
    models: tuple[Model, ...] = ()
    warnings: tuple[str, ...] = ()
    env_file: Path | None = None
    env_variables: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    sources: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    sandbox: SandboxMode = DEFAULT_SANDBOX
    retry_seconds: float = RETRY_SECONDS
    first_retry_seconds: float = FIRST_RETRY_SECONDS
    home: Path | None = field(default=None, repr=False, compare=False)
    folder_trust: FolderTrust | None = field(default=None, repr=False, compare=False)
    trust_items: tuple[TrustItem, ...] = field(default=(), repr=False, compare=False)
    loaded_with: _Arguments | None = field(default=None, repr=False, compare=False)
    teams_dirs: tuple[Path, ...] = ()
    sidecar_sampling: tuple[str, ...] = ()
    sidecar_observers: tuple[str, ...] = ()
    sidecar_roots: tuple[str, ...] = ()
    sidecar_wait: SidecarWait = DEFAULT_SIDECAR_WAIT
    fix_attempts: int = FIX_ATTEMPTS

    @classmethod
    def load(
        cls,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        home: Path | None = None,
        trust: bool | None = None,
        **given: object,
    ) -> Config:
        """Resolve all settings.

        Files of the folder that can run code or redirect requests are used only if the user trusts them: a
        `.planck/config.toml` with such settings, a models file, a file of variables. `trust_items` lists them, used or
        not. A file that an argument or an environment variable names needs no trust, nor does any in `~/.planck`.

        A value comes from the first of these that has one: the arguments, the environment, the variables of
        `env_file`, `.planck/config.toml` in `directory`, `.planck/config.toml` in `home`, the defaults.

        Example:
            >>> Config.load(environment={}, limits="rounds=5").limits.rounds
            5

        Args:
            environment: The environment variables, by default those of the process.
            directory: The folder of the project, in which relative paths start; by default the working directory.
            home: The user's home folder, by default that of the process.
            trust: Whether everything in the folder is trusted; by default, whether PLANCK_NB_TRUST is set to 1.
            **given: Settings by name, each as text or as the field of `Config` holds it; None means not given.

        Returns:
            The resolved settings.

        Raises:
            ConfigError: A value cannot be used, an argument is not a setting, or a settings file is not valid TOML.
        """
        names = [setting.field for setting in SETTINGS]
        if unknown := sorted(set(given) - set(names)):
            raise ConfigError(f"There is no setting {unknown[0]}. {did_you_mean(unknown[0], names)}")
        return cls._load((environment, directory, home, trust, given), {})

    @classmethod
    def _load(cls, loaded_with: _Arguments, trusted: Mapping[str, Trusted]) -> Config:
        environment, directory, home, trust, given = loaded_with
        names = [setting.field for setting in SETTINGS]
        directory = Path.cwd() if directory is None else directory
        environment = os.environ if environment is None else environment
        always = (is_consent(environment) or is_consent(os.environ)) if trust is None else trust
        trusted_files = _TrustedFiles(
            directory, FolderTrust(directory, user_folder(home), always=always, given=trusted)
        )
        files = [(file, trusted_files.settings(file)) for file in settings_files(directory, home or home_folder())]
        written = _Sources(given, environment, {}, files, directory)
        env_file, source = written.value("env_file")
        variables, warnings = _env_variables(env_file, trusted_files.content("variables", env_file, source))
        written = written._replace(env_variables=variables, env_file=env_file)

        found = {name: written.value(name) for name in names}
        values: dict[str, Any] = {name: value for name, (value, _) in found.items() if value is not None}
        sources = {name: source for name, (_, source) in found.items()}
        values["models_file"] = file = _models_file(values.get("models_file"), directory)
        own = _user_models(file, trusted_files.content("models", file, sources["models_file"]))
        trusted_files.check_link(values["sessions_dir"], sources["sessions_dir"])
        for name in _RESTRICTING:
            if (joined := written.joined(name)) is not None:
                values[name] = joined
        rules = tuple(rule for name in RULES for rule in values.pop(name, ()))
        warnings += trusted_files.warnings
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
            folder_trust=trusted_files.trust,
            trust_items=tuple(trusted_files.items),
            loaded_with=loaded_with,
        )

    def reload(self, *, trust: bool | None = None) -> Config:
        """Resolve all settings again, as `load` did.

        Args:
            trust: Whether everything in the folder is trusted; None for what `load` was called with.

        Returns:
            The settings as they are now; this configuration if `load` did not make it.

        Raises:
            ConfigError: A value cannot be used.
        """
        if self.loaded_with is None:
            return self
        environment, directory, home, before, given = self.loaded_with
        trusted = self.folder_trust.given if self.folder_trust is not None else {}
        return Config._load((environment, directory, home, before if trust is None else trust, given), trusted)

    def needs_trust(self, name: str, path: Path) -> bool:
        """Return whether what is in a file or folder needs trust.

        Args:
            name: The setting that names the path.
            path: The path.

        Returns:
            False if a program or the user has named it, or it is in the user's own folder.
        """
        source = self.sources.get(name, CALL)
        trust = self.folder_trust
        return trust is not None and _is_of_the_folder(path, source, self.root) and not trust.is_own(path)

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
        """Return the variables of the process, always current, then those of `env_file`."""
        return ChainMap(os.environ, dict(self.env_variables)) if self.env_variables else os.environ

    def _value(self, setting: Setting) -> object:
        if setting.field in RULES:
            return tuple(rule for rule in self.rules if rule.action == setting.field)
        return getattr(self, setting.field)


class _Sources(NamedTuple):
    """Everything that a setting may come from."""

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
            return read, CALL
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

    def joined(self, name: str) -> Any:  # noqa: ANN401 - as above
        """The values of a list from all settings files, if the project's sets it, else None. Raises `ConfigError`."""
        if self.value(name)[1] != self.files[0][0].label or len(self.files) == 1:
            return None
        setting = _BY_NAME[name]
        found: dict[object, None] = {}
        for file, settings in self.files:
            if (written := settings.values.get(name)) is not None:
                values = setting.value_of(written, self.directory, f"{file.path}: {name}")
                found |= dict.fromkeys(cast("tuple[object, ...]", values))
        return tuple(found)


class _TrustedFiles:
    """Reads the files of a folder, and leaves out those that need trust and do not have it."""

    def __init__(self, directory: Path, trust: FolderTrust) -> None:
        self._directory = directory
        self.trust = trust
        self.items: list[TrustItem] = []
        self.warnings: list[str] = []

    def settings(self, file: SettingsFile) -> WrittenSettings:
        """The settings of a file, without those that need trust and do not have it. Raises `ConfigError`."""
        content, settings = read_settings(file)
        item = settings_item(file, content, settings, self.trust)
        if item is None or self._accepted(item):
            return settings
        for name, value in settings.values.items():
            _BY_NAME[name].value_of(value, self._directory, f"{file.path}: {name}")
        return WrittenSettings(settings.harmless, settings.warnings)

    def content(self, kind: str, path: Path | None, source: str) -> bytes | None:
        """The content of a models file or a file of variables, None if there is none or it is held back."""
        if path is None:
            return None
        name = "env_file" if kind == "variables" else "models_file"
        if kind == "models" and not path.is_file():
            return None
        try:
            content = read_item(path, name)
        except ConfigError as error:
            if kind == "variables":
                raise
            self.warnings.append(str(error))
            return None
        if not _is_of_the_folder(path, source, self._directory) or self.trust.is_own(path):
            return content
        details = _described_models(path, content) if kind == "models" else _described_variables(content)
        return content if self._accepted(TrustItem.of(kind, path, content, details)) else None

    def check_link(self, sessions_dir: Path, source: str) -> None:
        """Note that a sessions folder needs trust, if a link in the project leads it somewhere else."""
        real = Path(os.path.realpath(sessions_dir))
        inside = real.is_relative_to(os.path.realpath(self._directory))
        if source == DEFAULT and not inside and not self.trust.is_own(sessions_dir):
            details = [("sessions are kept in", str(real))]
            self._accepted(TrustItem.of("link", sessions_dir, str(real).encode("utf-8", "replace"), details))

    def _accepted(self, item: TrustItem) -> bool:
        self.items.append(item)
        return self.trust.accepts(item)


def _is_of_the_folder(path: Path, source: str, directory: Path) -> bool:
    """Whether the project names a path or contains it; not if a program or an environment variable names it."""
    if source == CALL or source.startswith("environment "):
        return False
    return source == SETTINGS_FILE.as_posix() or path.is_relative_to(directory)


def _described_models(path: Path, content: bytes) -> Iterator[tuple[str, str]]:
    """Describe the models as they will be used: servers, keys and defaults."""
    from planck_nb.ai.model_lookup.user_models import describe_model  # noqa: PLC0415 - as below

    found = _user_models(path, content)
    for model in found.models:
        yield f"model {model.alias}", describe_model(model)
    yield "left out", "\n".join(found.warnings)


def _described_variables(content: bytes) -> Iterator[tuple[str, str]]:
    """Describe the variables, without generated keys."""
    variables, _ = parse_env_file(content.decode("utf-8-sig", "replace"))
    for name, value in variables.items():
        is_key = not name.startswith("PLANCK_NB_") and is_secret_variable(name, value) and is_generated_key(value)
        yield name, "a key in this file" if is_key else value or "(empty)"


_BY_NAME = {setting.field: setting for setting in SETTINGS}


def _env_variables(path: Path | None, content: bytes | None) -> tuple[dict[str, str], list[str]]:
    """The variables of the file, and a sentence about lines without one, which are not quoted: they may be secret."""
    if path is None or content is None:
        return {}, []
    try:
        variables, unread = parse_env_file(content.decode("utf-8-sig"))
    except ValueError as error:
        raise ConfigError(f"env_file cannot be read: {error}.") from error
    lines = ", ".join(map(str, unread))
    return variables, [f"{path} was read without line {lines}: write NAME=value."] if unread else []


def _models_file(named: Path | None, directory: Path) -> Path | None:
    """The file that was named, or else the first of the usual ones that exists."""
    return named or next((path for name in MODELS_FILES if (path := directory / name).is_file()), None)


def _user_models(path: Path | None, content: bytes | None) -> UserModels:
    from planck_nb.ai.model_lookup.user_models import UserModels, read_models  # noqa: PLC0415 - loads the wire formats

    if path is None:
        return UserModels()
    if not path.is_file():
        return UserModels(warnings=(f"models_file is {str(path)!r}, but there is no such file.",))
    if content is None:
        return UserModels()
    try:
        text = content.decode("utf-8")
        data: object = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        return UserModels(warnings=(f"{path} was not used: {error}.",))
    return read_models(data, str(path))
