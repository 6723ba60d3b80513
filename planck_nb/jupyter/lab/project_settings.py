"""Project settings for the form in side panels."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from planck_nb.agent.limits import Limits
from planck_nb.base.errors import ConfigError, PlanckError
from planck_nb.base.secrets import find_secret, process_secrets, without_generated_keys
from planck_nb.config import Scope, Setting, write_setting
from planck_nb.jupyter.lab.protocol import SettingEntry
from planck_nb.jupyter.verbs.setting_verbs import require_models
from planck_nb.workspace import Workspace


def setting_entries(workspace: Workspace) -> tuple[SettingEntry, ...]:
    """Return all settings as a new kernel would have them.

    Args:
        workspace: The notebook's workspace.
    """
    config = workspace.config
    with suppress(ConfigError):  # then what this kernel uses is shown
        config = config.reload()
    return tuple(
        SettingEntry(setting.field, _safe(setting_text(setting, value)), source, setting.help)
        for setting, value, source in config.settings()
    )


def save_settings(workspace: Workspace, scope: Scope, values: Mapping[str, str]) -> str:
    """Write settings into a file, up to the first refused one.

    Args:
        workspace: The notebook's workspace.
        scope: The file: the project's or the user's.
        values: Texts by name; an empty one removes the setting.

    Returns:
        The obstacle; empty without one.
    """
    for name, text in values.items():
        value = text.strip()
        if find_secret(value, process_secrets()):  # before a sentence about an unknown model shows it
            return f"{name} was not written: settings files hold no secrets; set keys as environment variables."
        try:
            require_models(workspace, name, value)
            write_setting(scope, name, value or None, directory=workspace.config.root)
        except PlanckError as error:
            return str(error)
    return ""


def setting_text(setting: Setting, value: object) -> str:
    """Return a value as its variable would have it.

    Args:
        setting: The setting.
        value: Its value; None is empty.
    """
    if isinstance(value, Limits):
        return ",".join(f"{name}={'none' if number is None else number}" for name, number in value.as_dict().items())
    if isinstance(value, (tuple, list)):
        return (setting.separator or ",").join(map(str, value))
    return "" if value is None else str(value)


def _safe(text: str) -> str:
    return "(hidden)" if find_secret(text, process_secrets()) else without_generated_keys(text)
