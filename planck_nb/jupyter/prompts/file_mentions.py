"""`@path` in prompts: files whose text or picture the agent gets.

As with `@name`, quotations, code and addresses do not count. A mention which looks like a missing file is refused,
because the answer would be worthless without it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from planck_nb.agent.approval.secret_files import is_secret_path
from planck_nb.base.errors import UsageError
from planck_nb.base.markdown import FORMATTED_CHARACTERS, fenced, typed_text
from planck_nb.base.secrets import redact
from planck_nb.base.text import counted
from planck_nb.jupyter.file_names import looks_like_file, path_prefix
from planck_nb.jupyter.prompts.mentions import typed_parts
from planck_nb.jupyter.prompts.prompt_images import SUFFIXES
from planck_nb.jupyter.similar_words import nearest

MAX_FILES = 20
"""Files in one prompt."""

_BEFORE = r"(?<![\w@.+%/\\-])@"
_PATH = re.compile(rf"{_BEFORE}([^\s@\"'`<>|*?()\[\]{{}},;:]+)")
_QUOTED_PATH = re.compile(rf"{_BEFORE}(?:\"([^\"\n]+)\"|'([^'\n]+)')")
_NOTEBOOK_CHARACTERS = 50_000
_OUTPUT_CHARACTERS = 2_000
_LANGUAGES = {".py": "python", ".ipynb": "python", ".json": "json", ".md": "markdown", ".sql": "sql", ".csv": "csv"}


@dataclass(frozen=True, slots=True)
class MentionedFiles:
    """Files in a prompt.

    Args:
        prompt: The prompt without these mentions, for the search for other ones.
        texts: The texts, each with its name.
        images: Pictures.
        notice: A sentence with the names; empty without text files.
    """

    prompt: str
    texts: tuple[str, ...] = ()
    images: tuple[Path, ...] = ()
    notice: str = ""


def mentioned_files(
    prompt: str, root: Path, namespace: Mapping[str, object], read: Callable[[Path], str]
) -> MentionedFiles:
    """Read the files which a prompt mentions as `@path` or `@"path with blanks"`.

    A variable's name means the variable, unless the mention has a suffix or folder.

    Args:
        prompt: The prompt as it was typed.
        root: The folder for relative paths.
        namespace: The notebook's variables.
        read: Returns a file's text, cut as an agent's tool cuts it; empty for a binary file.

    Returns:
        The files.

    Raises:
        UsageError: A mention looks like a missing file, or a file cannot be sent.
    """
    paths: dict[str, Path] = {}
    for run in dict.fromkeys(_runs(prompt)):
        mention = next((text for text in _candidates(run) if (root / _expanded(text)).exists()), "")
        if not mention:
            _refuse_missing(run, root, namespace)
        elif not (mention.isidentifier() and mention in namespace):
            paths[mention] = root / _expanded(mention)
    if len(paths) > MAX_FILES:
        raise UsageError(f"The prompt mentions {len(paths):,} files, more than {MAX_FILES}; mention fewer.")
    texts: list[str] = []
    sizes: list[str] = []
    images: list[Path] = []
    for mention, path in paths.items():
        _require_file(mention, path)
        if path.suffix.lower() in SUFFIXES:
            folder = Path.cwd()  # what is shown of the path is saved in the notebook
            images.append(path.relative_to(folder) if path.is_relative_to(folder) else path)
            continue
        text = _text(mention, path, read)
        texts.append(f"`{mention}` is this file:\n\n{fenced(text, _LANGUAGES.get(path.suffix.lower(), 'text'))}")
        sizes.append(f"{mention} ({counted(len(text.splitlines()), 'line')})")
    for mention in sorted(paths, key=len, reverse=True):
        for form in (f'@"{mention}"', f"@'{mention}'", f"@{mention}"):
            prompt = prompt.replace(form, " ")
    return MentionedFiles(prompt, tuple(texts), tuple(images), f"With: {', '.join(sizes)}" if sizes else "")


def _runs(prompt: str) -> Iterator[str]:
    """Yield the texts after `@` which may be paths."""
    if "@" not in prompt:
        return
    for paragraph in typed_text(prompt[:FORMATTED_CHARACTERS].replace("\\@", "  ")):
        for double, single in _QUOTED_PATH.findall(paragraph):
            yield double or single
    for part in typed_parts(prompt):
        yield from _PATH.findall(part)


def _candidates(run: str) -> Iterator[str]:
    """Yield possible paths, without a sentence's end and letters after it."""
    yield run
    path = run.rstrip(".!…")
    yield path
    if prefix := path_prefix(path):
        yield prefix


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _refuse_missing(run: str, root: Path, namespace: Mapping[str, object]) -> None:
    """Raise `UsageError` if a text looks like a file."""
    text = next((text for text in (*list(_candidates(run))[1:], run) if looks_like_file(text)), "")
    if not text:
        return
    path = root / _expanded(text)
    names = [other.name for other in _siblings(path) if other.is_file()]
    near = next((name for name in names if Path(name).stem == path.stem), "") or nearest(path.name, names)
    variable = text.partition(".")[0]
    if near:
        hint = f" Did you mean @{text.removesuffix(path.name)}{near}?"
    elif variable in namespace:
        hint = f" Did you mean the variable @{variable}?"
    else:
        hint = ""
    raise UsageError(f"There is no file {text}.{hint} Nothing was sent; write \\@{text} if it is no file.")


def _siblings(path: Path) -> list[Path]:
    try:
        return sorted(path.parent.iterdir())
    except OSError:
        return []


def _require_file(mention: str, path: Path) -> None:
    """Raise `UsageError` for a folder, and for secrets."""
    if path.is_dir():
        example = next((other.name for other in _siblings(path / "_") if other.is_file()), "FILE")
        raise UsageError(
            f"{mention} is a folder; mention a file in it, such as @{mention.rstrip('/')}/{example}. Nothing was sent."
        )
    if is_secret_path(path.resolve()) or is_secret_path(path):
        raise UsageError(
            f"{mention} looks like a file of secrets. Nothing was sent; write what the agent needs into the prompt."
        )


def _text(mention: str, path: Path, read: Callable[[Path], str]) -> str:
    """Return a file's text without secrets, or raise `UsageError`."""
    text = _cells(path) if path.suffix.lower() == ".ipynb" else ""
    text = text or read(path)
    if not text.strip():
        problem = "is empty" if not path.stat().st_size else "is no text"
        raise UsageError(
            f"The file {mention} {problem}. Nothing was sent; load it into a variable, and mention that to show data."
        )
    return redact(text, formats=True)


def _cells(path: Path) -> str:
    """Return a notebook's cells with short outputs, empty for another file."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        pieces = [piece for number, cell in enumerate(cells, 1) for piece in _cell(number, cell)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ""
    text = "\n".join(pieces)
    if len(text) <= _NOTEBOOK_CHARACTERS:
        return text
    return f"{text[:_NOTEBOOK_CHARACTERS]}\n[… the notebook is cut here …]"


def _cell(number: int, cell: Mapping[str, object]) -> Iterator[str]:
    yield f"# %% cell {number} [{cell['cell_type']}]"
    yield _joined(cell.get("source", ""))
    outputs = cell.get("outputs", ())
    for output in outputs if isinstance(outputs, list) else ():
        data = output.get("data", {})
        text = output.get("text") or data.get("text/markdown") or data.get("text/plain") or output.get("evalue") or ""
        if content := _joined(text).strip():
            yield f"# output\n{content[:_OUTPUT_CHARACTERS]}"
    yield ""


def _joined(text: object) -> str:
    return "".join(map(str, text)) if isinstance(text, list) else str(text)
