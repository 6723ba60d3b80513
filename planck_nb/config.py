"""Settings: what a `Workspace` is built from."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from planck_nb.ai.cassettes import MODES, Mode
from planck_nb.base.errors import ConfigError

if TYPE_CHECKING:
    from planck_nb.ai.models import Model
    from planck_nb.ai.own_models import OwnModels

MODELS_FILES = (".planck/models.json", ".planck/models.toml")
"""Where one's own models are described unless `PLANCK_NB_MODELS_FILE` names another file; the first there is read."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, resolved.

    `sessions_dir` is where sessions are kept. `default_model` is "provider:model", None to look for one.
    `demo_pace` is the seconds between two words
    of the demo model, None where nobody set it (then at once, but at a natural pace in a notebook). `models` are the
    user's own, `warnings` a sentence about each setting that was left out because it cannot be used. `cassette` is the
    file that model traffic is recorded to or replayed from, as `cassette_mode` says (off, record, replay or auto).
    """

    sessions_dir: Path
    default_model: str | None = None
    demo_pace: float | None = None
    models: tuple[Model, ...] = ()
    warnings: tuple[str, ...] = ()
    cassette: Path | None = None
    cassette_mode: Mode = "auto"

    @classmethod
    def load(
        cls,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        sessions_dir: Path | str | None = None,
        default_model: str | None = None,
        demo_pace: float | None = None,
        cassette: Path | str | None = None,
        cassette_mode: str | None = None,
    ) -> Config:
        """Settings from the arguments, else the environment, else the defaults.

        The variables are `PLANCK_NB_SESSIONS_DIR` (default `.planck/sessions` in `directory`, by default the working
        directory), `PLANCK_NB_MODEL`, `PLANCK_NB_DEMO_PACE` and `PLANCK_NB_MODELS_FILE` (default one of
        `MODELS_FILES` in `directory`), and `PLANCK_NB_CASSETTE`, a file in `directory`, with `PLANCK_NB_CASSETTE_MODE`
        (default "auto"). Raises `ConfigError` for a value that cannot be used.
        """
        environment = os.environ if environment is None else environment
        directory = Path.cwd() if directory is None else directory
        folder = sessions_dir or environment.get("PLANCK_NB_SESSIONS_DIR") or ".planck/sessions"
        written = environment.get("PLANCK_NB_DEMO_PACE")
        tape = cassette or environment.get("PLANCK_NB_CASSETTE")
        own = _own_models(environment.get("PLANCK_NB_MODELS_FILE"), directory)
        return cls(
            sessions_dir=directory / Path(folder).expanduser(),
            default_model=default_model or environment.get("PLANCK_NB_MODEL") or None,
            demo_pace=_seconds(written) if demo_pace is None else demo_pace,
            models=own.models,
            warnings=own.warnings,
            cassette=directory / Path(tape).expanduser() if tape else None,
            cassette_mode=_mode(cassette_mode or environment.get("PLANCK_NB_CASSETTE_MODE") or "auto"),
        )


def _mode(written: str) -> Mode:
    if written not in MODES:
        raise ConfigError(f"The cassette mode is {written!r}; it must be one of {', '.join(MODES)}.")
    return cast("Mode", written)


def _seconds(written: str | None) -> float | None:
    try:
        return max(0.0, float(written)) if written else None
    except ValueError:
        raise ConfigError(f"PLANCK_NB_DEMO_PACE is {written!r}; it must be a number of seconds.") from None


def _own_models(named: str | None, directory: Path) -> OwnModels:
    from planck_nb.ai.own_models import OwnModels, read_models  # noqa: PLC0415 - loads the wire formats

    names = (named,) if named else MODELS_FILES
    path = next((path for name in names if (path := directory / Path(name).expanduser()).is_file()), None)
    if path is None:
        missing = f"PLANCK_NB_MODELS_FILE is {named!r}, but there is no such file."
        return OwnModels(warnings=(missing,) if named else ())
    try:
        text = path.read_text(encoding="utf-8")
        data: object = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError) as error:
        return OwnModels(warnings=(f"{path} was not used: {error}.",))
    return read_models(data, str(path))
