"""File names in typed text."""

from __future__ import annotations

import re

_SUFFIXES = (
    "arrow avro bib cfg conf cpp cs css csv db docx duckdb env feather fits gif go gz h5 hdf5 html ini ipynb java jpeg "
    "jpg js json jsonl kt log md nc npy npz ods odt parquet pdf php pickle pkl png pptx py pyi qmd rb rmd rs rst scala "
    "sh sql sqlite svg swift tar tex toml ts tsv tsx txt webp xls xlsx xml yaml yml zip zst"
).split()
"""Usual endings in data work and programming."""

_FILE = re.compile(
    r"(?:~|\.{1,2})?(?:[/\\][^/\\\n]+)+"
    rf"|(?:[^/\\\n]+[/\\])*[^/\\\n]*[^/\\\s.]\.(?:{'|'.join(_SUFFIXES)})",
    re.IGNORECASE,
)

_PREFIX = re.compile(rf".*[^/\\\s.]\.(?:{'|'.join(_SUFFIXES)})(?![A-Za-z0-9_])", re.IGNORECASE)


def looks_like_file(text: str) -> bool:
    """Return whether a text looks like a path, by folder or suffix.

    Args:
        text: The text.

    Example:
        >>> texts = ["sales.csv", "./notes", "~/x", "/etc/hosts", "~", "e.g.", "1.5", "pandas.DataFrame", "a/b"]
        >>> [text for text in texts if looks_like_file(text)]
        ['sales.csv', './notes', '~/x', '/etc/hosts']
    """
    return _FILE.fullmatch(text) is not None


def path_prefix(text: str) -> str:
    """Return the path at a text's beginning, up to a usual suffix.

    Args:
        text: The text.

    Returns:
        The path; may be empty.

    Example:
        >>> path_prefix("sales.csv的列"), path_prefix("data/a.b.json"), path_prefix("df.columns")
        ('sales.csv', 'data/a.b.json', '')
    """
    match = _PREFIX.match(text)
    return match[0] if match else ""
