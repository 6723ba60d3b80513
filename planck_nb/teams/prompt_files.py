"""Reads the prompts of members from files in the folder of their template, and from nowhere else."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath, PureWindowsPath

from planck_nb.base.ownership import FOREIGN_HINT, foreign_reason
from planck_nb.base.visible import is_hidden
from planck_nb.teams.json_text import decode
from planck_nb.teams.problems import named
from planck_nb.tools.no_links import open_file

MAX_BYTES = 1_048_576
"""Bytes that a template or the prompt of a member may have."""

MAX_TOTAL_BYTES = 8 * MAX_BYTES
"""Bytes that all prompts of a template may have together."""

_SUFFIXES = (".md", ".txt")


def is_prompt_file(text: str) -> bool:
    """Return whether a `system_prompt` names a file: it ends in .md or .txt, has one line and no spaces around it."""
    return text.lower().endswith(_SUFFIXES) and text == text.strip() and not any(map(_is_invisible, text))


def prompt_text(content: bytes) -> str:
    """Return the prompt that a file contains, trimmed. Raises ValueError with the end of a sentence."""
    text = decode(content)
    if "\0" in text:
        raise ValueError("it is not text: it contains NUL characters")
    return text.replace("\r\n", "\n").strip()


class PromptFiles:
    """Reads the prompt files of one template, each of them once.

    Args:
        folder: The folder of the template. Nothing outside of it is read, whatever a path or a link names.
        foreign: Whether to read files that another user owns or can write.
    """

    def __init__(self, folder: Path, *, foreign: bool = True) -> None:
        self._folder = folder
        self._foreign = foreign
        self._left = MAX_TOTAL_BYTES
        self.contents: dict[str, bytes] = {}
        """What was read, by the path relative to the folder."""

    def read(self, written: str) -> str:
        """Return the trimmed text of a file.

        Args:
            written: The path as the template has it, relative to its folder.

        Raises:
            ValueError: The file is not used; the message begins with "could not read".
        """
        try:
            return prompt_text(self._content(written))
        except (OSError, ValueError, RuntimeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise ValueError(f"could not read system_prompt file {named(written)}: {reason}") from error

    def _content(self, written: str) -> bytes:
        name = self._relative(written)
        if name in self.contents:
            return self.contents[name]
        folder = self._folder.resolve()
        real = (self._folder / name).resolve(strict=True)
        if not real.is_relative_to(folder):
            raise ValueError("it leads out of the template's folder; copy it into that folder")
        reason = "" if self._foreign else foreign_reason(self._folder / name)
        if reason:
            raise ValueError(f"{reason}; {FOREIGN_HINT}".rstrip("."))
        with open_file(real) as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ValueError(f"it has more than {MAX_BYTES:,} bytes")
        self._left -= len(content)
        if self._left < 0:
            raise ValueError(f"the prompts of this template have more than {MAX_TOTAL_BYTES:,} bytes together")
        self.contents[name] = content
        return content

    @staticmethod
    def _relative(written: str) -> str:
        """The path relative to the folder, normalised. Raises ValueError if it leads elsewhere."""
        if PurePosixPath(written).is_absolute() or PureWindowsPath(written).anchor:
            raise ValueError("it is an absolute path; write a path relative to the template")
        name = Path(os.path.normpath(written))
        if name.parts[:1] == (os.pardir,):
            raise ValueError("it leads out of the template's folder; copy it into that folder")
        return name.as_posix()


def _is_invisible(char: str) -> bool:
    return char in "\n\t" or is_hidden(char)
