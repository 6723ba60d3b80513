"""Keeps jsonschema from importing a parser that takes seconds to import."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

_PARSER = "rfc3987_syntax"


@contextmanager
def without_iri_parser() -> Iterator[None]:
    """Import jsonschema in this block without JupyterLab's slow IRI parser.

    This has no effect after an earlier import. Otherwise only `"format": "iri"` is not validated, and validators ignore
    formats by default.
    """
    if "jsonschema" in sys.modules or _PARSER in sys.modules:
        yield
        return
    sys.modules[_PARSER] = None  # type: ignore[assignment]  # makes the import raise ModuleNotFoundError
    try:
        yield
    finally:
        sys.modules.pop(_PARSER, None)
