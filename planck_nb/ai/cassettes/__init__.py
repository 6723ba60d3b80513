"""Cassettes: recorded answers of models, played back without them; see `Cassette`."""

from __future__ import annotations

from planck_nb.ai.cassettes.cassette import DEFAULT_MODE, MODES, Cassette, Mode

__all__ = ["DEFAULT_MODE", "MODES", "Cassette", "Mode"]
