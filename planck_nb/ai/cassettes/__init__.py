"""Cassettes: recorded answers of models, played back without them; see `Cassette`."""

from __future__ import annotations

from planck_nb.ai.cassettes.cassette import MODES, Cassette, Mode

__all__ = ["MODES", "Cassette", "Mode"]
