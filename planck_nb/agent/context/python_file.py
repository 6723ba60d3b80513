"""Runs a Python file that a user points to."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from planck_nb.base.errors import ConfigError


def run_python_file(path: Path) -> ModuleType:
    """Run the file, each time anew.

    Args:
        path: A Python file.

    Returns:
        The module with what the file defines.

    Raises:
        ConfigError: If there is no such file, it is not a Python file, or it fails.
    """
    if not path.is_file():
        raise ConfigError(f"There is no file {path}; check the path.")
    name = f"planck_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # `dataclass` looks up the module of its class there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ConfigError(f"{path} could not be run ({type(error).__name__}: {error}); fix it first.") from error
    return module
