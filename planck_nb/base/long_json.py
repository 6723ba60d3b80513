"""Writes long JSON in short steps.

Other threads can run in between; one long call would block them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

_STEP = 500_000
"""Characters in a string to write at once."""


def in_pieces(value: object, levels: int, write: Callable[[object], bytes]) -> Iterator[bytes]:
    """Yield a value's JSON in pieces, to be joined.

    Args:
        value: A JSON value.
        levels: Depth to which objects and arrays are taken apart; anything deeper is written at once.
        write: Writes a single value.
    """
    if levels and isinstance(value, dict) and value and all(isinstance(name, str) for name in value):
        before = b"{"
        for name, item in value.items():
            yield before + write(name) + b":"
            yield from in_pieces(item, levels - 1, write)
            before = b","
        yield b"}"
    elif levels and isinstance(value, list) and value:
        before = b"["
        for item in value:
            yield before
            yield from in_pieces(item, levels - 1, write)
            before = b","
        yield b"]"
    elif isinstance(value, str) and len(value) > _STEP:
        yield b'"'
        for place in range(0, len(value), _STEP):
            yield write(value[place : place + _STEP])[1:-1]
        yield b'"'
    else:
        yield write(value)
