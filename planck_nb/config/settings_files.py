"""The settings files: `.planck/config.toml` of a project, and of the user for all projects."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from planck_nb.base.atomic import write_atomically
from planck_nb.base.errors import ConfigError, did_you_mean
from planck_nb.base.reading import read_bounded
from planck_nb.base.secrets import find_secret, is_secret_name
from planck_nb.config.settings import SETTINGS, Setting
from planck_nb.config.trust import MAX_BYTES, FolderTrust, TrustItem

SETTINGS_FILE = Path(".planck/config.toml")

_HARMLESS = {
    *("default_model", "fallbacks", "approval_deadline", "compact_ratio", "retry_seconds", "first_retry_seconds"),
    *("demo_pace", "deny", "ask"),
}
"""Settings that a project may have without trust. A model can be chosen among providers that the user has keys for."""

Scope: TypeAlias = Literal["project", "user"]


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A TOML file with settings; `label` is a short name for display, such as "~/.planck/config.toml"."""

    path: Path
    label: str


@dataclass(frozen=True, slots=True)
class WrittenSettings:
    """The contents of a settings file: values by the setting's name, and a sentence about each key that is not used."""

    values: Mapping[str, object]
    warnings: tuple[str, ...] = ()

    @property
    def harmless(self) -> Mapping[str, object]:
        """The values that neither run nor redirect anything."""
        return {name: value for name, value in self.values.items() if name in _HARMLESS}


def settings_files(directory: Path, home: Path | None) -> tuple[SettingsFile, ...]:
    """The files that may hold settings, the one with the highest precedence first.

    This is the only place that decides which files are read. In the home folder itself, the file counts as the user's.
    """
    project = SettingsFile(directory / SETTINGS_FILE, SETTINGS_FILE.as_posix())
    if home is None:
        return (project,)
    user = SettingsFile(home / SETTINGS_FILE, f"~/{SETTINGS_FILE.as_posix()}")
    return (user,) if user.path == project.path else (project, user)


def read_settings(file: SettingsFile) -> tuple[bytes, WrittenSettings]:
    """Read a settings file and what it sets; one that does not exist is empty.

    Raises:
        ConfigError: The file cannot be read, or is not TOML.
    """
    try:
        content, _ = read_bounded(file.path, MAX_BYTES)
        text = content.decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return b"", WrittenSettings({})
    except OSError as error:
        raise ConfigError(f"{file.path} cannot be read: {error.strerror or error}.") from error
    except ValueError as error:
        raise ConfigError(f"{file.path} cannot be read: {error}.") from error
    return content, _select(_parsed(text, file.path), file.path)


def settings_item(
    file: SettingsFile, content: bytes, settings: WrittenSettings, trust: FolderTrust
) -> TrustItem | None:
    """Return what has to be trusted for all settings of a file to be used, None if nothing has to be."""
    powerful = {name: value for name, value in settings.values.items() if name not in settings.harmless}
    if not powerful or file.label != SETTINGS_FILE.as_posix() or trust.is_own(file.path):
        return None
    details = [(name, _toml_text(value)) for name, value in settings.values.items()]
    return TrustItem.of("settings", file.path, content, details)


def _toml_text(value: object) -> str:
    """Return a value as a settings file may have it: lists with an item on each line."""
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def write_setting(
    scope: Scope, key: str, value: object, *, directory: Path | None = None, home: Path | None = None
) -> Path:
    """Write a setting into a settings file; comments and everything else in it stay as they are.

    It applies to every later `Config.load`, unless an environment variable takes precedence. If a project's file was
    trusted before, or needed no trust, it is also trusted with its new content.

    Args:
        scope: "project" for `.planck/config.toml` in `directory`, "user" for the one in `home`.
        key: The name of the setting, such as "default_model".
        value: Text as in the environment variable, or a number, list or table as in TOML; None removes the setting.
        directory: The folder of the project, by default the working directory.
        home: The user's home folder, by default that of the process.

    Returns:
        The path of the file.

    Raises:
        ConfigError: There is no such setting or scope, the value cannot be used, or the file cannot be read or written.
            The file is then unchanged.
    """
    import tomlkit  # noqa: PLC0415 - needed only for writing
    from tomlkit.exceptions import TOMLKitError  # noqa: PLC0415

    folder = _folder_of(scope, directory, home)
    path = (folder / SETTINGS_FILE).resolve()  # a link to a file elsewhere stays a link
    value = str(value) if isinstance(value, Path) else value
    setting = _setting(key, value)
    if value is not None:
        setting.value_of(value, folder, key)
    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8")) if path.exists() else tomlkit.document()
        if value is None:
            document.pop(key, None)
        else:
            document[key] = setting.toml_value(value)
        text = tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError, OSError) as error:
        raise ConfigError(f"{key} was not written to {path}: {error}.") from error
    if value is not None:
        setting.value_of(_parsed(text, path).get(key), folder, key)
    trust = FolderTrust(folder, user_folder(home))
    file = SettingsFile(folder / SETTINGS_FILE, SETTINGS_FILE.as_posix())
    before = settings_item(file, *read_settings(file), trust) if scope == "project" else None
    accepted = before is None or trust.accepts(before)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise ConfigError(f"{key} was not written to {path}: {error}.") from error
    if scope == "project" and accepted:
        item = settings_item(file, text.encode(), _select(_parsed(text, path), path), trust)
        trust.add([item] if item is not None else [])
    return path


def home_folder() -> Path | None:
    """Return the home folder of the process's user, None if it has none."""
    try:
        return Path.home()
    except RuntimeError:  # HOME is not set, and the system does not know the user
        return None


def user_folder(home: Path | None = None) -> Path | None:
    """Return the user's own folder for planck_nb, in `home` or else the process's home; None if there is none."""
    folder = home or home_folder()
    return None if folder is None else folder / SETTINGS_FILE.parent


def _folder_of(scope: str, directory: Path | None, home: Path | None) -> Path:
    match scope:
        case "project":
            return Path.cwd() if directory is None else directory
        case "user":
            if folder := home or home_folder():
                return folder
            raise ConfigError("There is no home folder; set HOME, or write to 'project'.")
    raise ConfigError(f"There is no scope {scope!r}; write to 'project' or 'user'.")


def _setting(key: str, value: object) -> Setting:
    if secret := _secret(key, value):
        raise ConfigError(secret)
    known = {setting.field: setting for setting in SETTINGS}
    if key not in known:
        raise ConfigError(f"There is no setting {key}. {did_you_mean(key, known)}")
    return known[key]


def _parsed(text: str, path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from error


def _select(table: Mapping[str, object], path: Path) -> WrittenSettings:
    names = [setting.field for setting in SETTINGS]
    values: dict[str, object] = {}
    warnings: list[str] = []
    for key, value in table.items():
        if secret := _secret(key, value):
            warnings.append(f"{path}: {secret}")
        elif key in names:
            values[key] = value
        else:
            warnings.append(f"{path} has {key!r}, which is not a setting. {did_you_mean(key, names)}")
    return WrittenSettings(values, tuple(warnings))


def _secret(key: str, value: object) -> str | None:
    """A sentence if the setting is a secret, without its value; else None."""
    if not is_secret_name(key) and not find_secret(str(value), {}):
        return None
    return f"{key} was not used: settings files hold no secrets; set API keys as environment variables or in env_file."
