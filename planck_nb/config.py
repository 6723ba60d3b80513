"""Settings: what a `Workspace` is built from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from planck_nb.base.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, resolved.

    `sessions_dir` is where sessions are kept. `default_model` is "provider:model", None to look for one.
    `demo_pace` is the seconds between two words
    of the demo model, None where nobody set it (then at once, but at a natural pace in a notebook).
    """

    sessions_dir: Path
    default_model: str | None = None
    demo_pace: float | None = None

    @classmethod
    def load(
        cls,
        *,
        environment: Mapping[str, str] | None = None,
        directory: Path | None = None,
        sessions_dir: Path | str | None = None,
        default_model: str | None = None,
        demo_pace: float | None = None,
    ) -> Config:
        """Settings from the arguments, else the environment, else the defaults.

        The variables are `PLANCK_NB_SESSIONS_DIR` (default `.planck/sessions` in `directory`, by default the working
        directory), `PLANCK_NB_MODEL` and `PLANCK_NB_DEMO_PACE`. Raises `ConfigError` for a value that cannot be used.
        """
        environment = os.environ if environment is None else environment
        directory = Path.cwd() if directory is None else directory
        folder = sessions_dir or environment.get("PLANCK_NB_SESSIONS_DIR") or ".planck/sessions"
        written = environment.get("PLANCK_NB_DEMO_PACE")
        return cls(
            sessions_dir=directory / Path(folder).expanduser(),
            default_model=default_model or environment.get("PLANCK_NB_MODEL") or None,
            demo_pace=_seconds(written) if demo_pace is None else demo_pace,
        )


def _seconds(written: str | None) -> float | None:
    try:
        return max(0.0, float(written)) if written else None
    except ValueError:
        raise ConfigError(f"PLANCK_NB_DEMO_PACE is {written!r}; it must be a number of seconds.") from None
