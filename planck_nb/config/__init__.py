"""Settings: their names, the files and variables that they are read from, and the resolved `Config`."""

from planck_nb.config.config import MODELS_FILES, Config, SettingValue
from planck_nb.config.settings import SETTINGS, Setting, read_limits
from planck_nb.config.settings_files import Scope, write_setting
from planck_nb.config.trust import FolderTrust, Trusted, TrustItem, is_consent
from planck_nb.config.user_key import user_key

__all__ = [
    "MODELS_FILES",
    "SETTINGS",
    "Config",
    "FolderTrust",
    "Scope",
    "Setting",
    "SettingValue",
    "TrustItem",
    "Trusted",
    "is_consent",
    "read_limits",
    "user_key",
    "write_setting",
]
