"""A complete listing for a decision about trust."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from planck_nb.base.line_diff import diff_lines
from planck_nb.base.markdown import MONO, RULE, TEXT_BOX
from planck_nb.base.visible import visible
from planck_nb.rendering.plain_output import for_terminal
from planck_nb.workspace.folder_files import TrustedFile

_DIFF_STYLES = {
    "-": "background-color:rgba(211,47,47,0.12)",
    "+": "background-color:rgba(56,142,60,0.14)",
}
_MUTED = "opacity:0.7"


class TrustListing:
    """Complete descriptions or changes for a decision about trust.

    Args:
        files: The files.
        folder: The folder in which their paths are shown.
        empty: Shown if there are none.
    """

    def __init__(self, files: Sequence[TrustedFile], folder: Path, *, empty: str = "") -> None:
        self._files = files
        self._folder = folder
        self._empty = empty

    def __repr__(self) -> str:
        return for_terminal("\n\n".join(map(self._text, self._files)) or self._empty)

    def _repr_html_(self) -> str:
        if not self._files:
            return f"<p>{escape(self._empty)}</p>"
        edge = f"margin:8px 0;padding:0 0 8px 0;border-bottom:{RULE}"
        *first, last = map(self._html, self._files)
        return "".join(f'<div style="{edge}">{html}</div>' for html in first) + f"<div>{last}</div>"

    def _text(self, file: TrustedFile) -> str:
        lines = [f"{file.item.title}: {trust_status(file)}", f"  file: {trusted_path(file, self._folder)}"]
        lines += [f"  {sign} {line}" if sign else f"  {line}" for sign, line in trust_lines(file)]
        return "\n".join(lines)

    def _html(self, file: TrustedFile) -> str:
        head = (
            f'<p style="margin:0;font-size:13px;line-height:24px;text-align:left"><b>{escape(file.item.title)}</b> '
            f'<span style="{_MUTED}">{escape(trust_status(file))}, </span><span style="{MONO};font-size:12px;'
            f'overflow-wrap:anywhere">{escape(trusted_path(file, self._folder))}</span></p>'
        )
        lines = "".join(
            f'<div style="{_DIFF_STYLES.get(sign, "")}">{escape(f"{sign} {line}" if sign else line) or "&nbsp;"}</div>'
            for sign, line in trust_lines(file)
        )
        return f'{head}<div style="{TEXT_BOX}">{lines}</div>'


def trusted_path(file: TrustedFile, folder: Path) -> str:
    """Return a file's path on one line.

    Args:
        file: The file.
        folder: Paths in it are relative.
    """
    path = file.item.path
    path = path.relative_to(folder) if path.is_relative_to(folder) else path
    return visible(str(path), lookalikes=True).replace("\n", "⟨U+000A⟩")


def trust_status(file: TrustedFile) -> str:
    """Return whether a file is trusted, in a few words.

    Args:
        file: The file.
    """
    if file.status == "changed" and file.before is not None and file.before.time:
        return f"changed since you trusted it on {time.strftime('%Y-%m-%d', time.localtime(file.before.time))}"
    return {"new": "not trusted", "always": "trusted, like everything here"}.get(file.status, file.status)


def trust_lines(file: TrustedFile) -> Iterator[tuple[str, str]]:
    """Yield all lines about a file; signs mark what has changed.

    Args:
        file: The file.
    """
    now = file.item.text.split("\n")
    before = file.before.text if file.status == "changed" and file.before is not None else ""
    if not before:
        yield from (("", line) for line in now)
        return
    if before == file.item.text:
        yield "", "Its content has changed where this description is the same."
    yield from diff_lines(before.split("\n"), now)
