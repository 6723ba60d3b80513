"""Agent and session identifiers."""

from __future__ import annotations

import secrets
from hashlib import sha256

_ADJECTIVES = (
    "amber ample brave brief bright brisk calm clear clever cosmic crisp daring deep eager early fair fine fleet fond "
    "fresh gentle glad golden grand green happy hardy honest humble ideal jolly keen kind lively lucid lucky mellow "
    "merry mild modest neat nimble noble patient plain polite proud quick quiet rapid ready royal rustic serene sharp "
    "shiny silent silver simple smart smooth snug solid spry steady still sunny swift tidy true vivid warm wise witty"
).split()
_NOUNS = (
    "acorn arch atlas badger basin beacon birch bridge brook canyon cedar cliff cloud comet coral cove crane creek "
    "delta dune eagle ember falcon fern field finch fjord forest fox garden glacier grove harbor hawk heron hill "
    "island jasper juniper kestrel lagoon lake lark lily lynx maple marsh meadow mesa moon moss nebula oak orchid "
    "otter owl pebble pine planet pond prairie quartz raven reef ridge river robin sage shore sparrow spring star "
    "stone stream summit thicket tide trail tulip valley wave willow wren"
).split()


def new_id() -> str:
    """Return sixteen random hexadecimal characters for an agent, team or session."""
    return secrets.token_hex(8)


def readable_name() -> str:
    """Return a random `<adjective>-<noun>` name for a session."""
    return f"{secrets.choice(_ADJECTIVES)}-{secrets.choice(_NOUNS)}"


def is_readable_name(text: str) -> bool:
    """Return whether `readable_name` may have made this text.

    Args:
        text: The text.
    """
    adjective, _, noun = text.partition("-")
    return adjective in _ADJECTIVES and noun in _NOUNS


class NewId(str):
    """New agent id without stored events: its log need not be read."""

    __slots__ = ()


def derived_id(*parts: str | int) -> str:
    """Return the same id for the same parts.

    It has the format of `new_id`.
    """
    return sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]
