"""Verbs about the files of sessions: out, in, away, smaller."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from planck_nb.base.aio import run_in_thread
from planck_nb.base.errors import SessionError, SessionLockedError, UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.options import Option, Words, parse_words
from planck_nb.jupyter.verbs.verb import Notebook, Text, Verb, takes_nothing
from planck_nb.sessions import (
    SessionInfo,
    compact_store,
    delete_session,
    export_session,
    find_session,
    import_session,
    open_in,
)
from planck_nb.sessions.directory import session_files
from planck_nb.sessions.export import Format

FORMATS: dict[str, Format] = {".jsonl": "jsonl", ".md": "markdown", ".html": "html", ".ipynb": "ipynb"}
"""What the end of a file's name says about what goes into it."""

EXPORT = (Option("overwrite", None, None, "replace the file if it is there"),)
IMPORT = (Option("name", None, "NAME", "what the session is called from now on"),)
DELETE = (Option("yes", "y", None, "do it"),)
_THOUSAND = 1000


async def _export(controller: Controller, argument: str, _notebook: Notebook) -> Text:
    parsed = parse_words(argument, EXPORT, of="%planck export")
    usage = f"Write `%planck export FILE`, or `%planck export SESSION FILE`, with a file that ends in {_endings()}."
    if len(parsed.words) not in {1, 2}:
        raise UsageError(usage)
    file = _path(parsed.words[-1])
    form = FORMATS.get(file.suffix.lower())
    if form is None:
        raise UsageError(usage)
    session = _named(controller, parsed.words[0]) if len(parsed.words) > 1 else _current(controller)
    missing = ""
    if session.id == controller.workspace.session_id:
        try:
            await controller.workspace.session.flush()
        except SessionError as error:  # on a full disk it should still be possible to take out what there is
            missing = f" What is not on disk yet is missing: {error}"
    text = await run_in_thread(partial(export_session, session, form))
    await run_in_thread(partial(_write, file, text, overwrite="overwrite" in parsed.options))
    return Text(f"{session.name} is in {file} ({_size(file.stat().st_size)}).{missing}")


async def _import(controller: Controller, argument: str, _notebook: Notebook) -> Text:
    parsed = parse_words(argument, IMPORT, of="%planck import")
    file = _path(_only(parsed, "Write `%planck import FILE`, with a .jsonl file that `%planck export` wrote."))
    directory = controller.workspace.sessions_dir
    session = await run_in_thread(partial(import_session, directory, file, name=parsed.options.get("name")))
    return Text(f"{file} is session {session.name} now, with the id {session.id}.")


async def _delete(controller: Controller, argument: str, _notebook: Notebook) -> Text:
    parsed = parse_words(argument, DELETE, of="%planck delete")
    word = _only(parsed, "Write `%planck delete SESSION`; `%planck sessions` lists them.")
    session = _named(controller, word)
    if session.id == controller.workspace.session_id:
        raise SessionLockedError(
            f"{session.name} is the session of this notebook, which cannot be deleted while it is open."
        )
    if owner := open_in(session):
        raise SessionLockedError(f"{session.name} is open in {owner}; close it there before you delete it.")
    files = session_files(session)
    size = _size(sum(file.stat().st_size for file in files))
    if "yes" not in parsed.options:
        rows = await controller.workspace.query_async(
            f"SELECT messages, agents, created FROM sessions WHERE session_id = '{session.id}'"  # noqa: S608 - hex
        )
        held = f"{_number(rows.messages[0], 'message')} of {_number(rows.agents[0], 'agent')}"
        return Text(
            f"{session.name} has {held}, begun {rows.created[0]:%Y-%m-%d %H:%M} UTC, and takes {size}. "
            f"Nothing was deleted yet: `%planck delete {word} --yes` deletes it for good."
        )
    await run_in_thread(partial(delete_session, session, confirm=session.name))
    return Text(f"{session.name} is deleted, which freed {size}.")


async def _compact_store(controller: Controller, argument: str, _notebook: Notebook) -> Text:
    takes_nothing("compact-store", argument)
    workspace = controller.workspace
    freed = await run_in_thread(partial(compact_store, workspace.sessions_dir))
    in_use = [session.name for session in workspace.sessions() if open_in(session)]
    said = f"Freed {_size(freed)}." if freed > 0 else "There was nothing to free."
    left = f" {', '.join(in_use)} {'is' if len(in_use) == 1 else 'are'} open and stayed as before." if in_use else ""
    return Text(said + left)


def _path(word: str) -> Path:
    try:
        return Path(word).expanduser()
    except RuntimeError:
        raise UsageError(f"There is no home folder for {word}; write the whole path.") from None


def _only(parsed: Words, usage: str) -> str:
    if len(parsed.words) != 1 or not parsed.words[0]:
        raise UsageError(usage)
    return parsed.words[0]


def _current(controller: Controller) -> SessionInfo:
    if controller.workspace.session_id is None:
        raise UsageError("This notebook has no session yet; name one that `%planck sessions` lists.")
    return controller.workspace.session.info


def _named(controller: Controller, word: str) -> SessionInfo:
    """The session with this id or name. Raises `SessionError` where none or several have it."""
    workspace = controller.workspace
    found = find_session(workspace.sessions_dir, word)
    same = [session.id for session in workspace.sessions() if session.name == word]
    if found.id != word and len(same) > 1:
        raise SessionError(f"{len(same)} sessions are called {word}; give the id of one: {', '.join(same)}.")
    return found


def _write(file: Path, text: str, *, overwrite: bool) -> None:
    """Write the whole file or nothing. Raises `SessionError` where it is there already or cannot be."""
    part = file.with_name(f".{file.name}.part")
    try:
        if file.exists() and not overwrite:
            raise SessionError(f"{file} is there already; add --overwrite to replace it.")
        part.write_text(text, encoding="utf-8", errors="replace", newline="\n")
        part.replace(file)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise SessionError(f"{file} cannot be written ({error.strerror}).") from error


def _endings() -> str:
    *first, last = FORMATS
    return f"{', '.join(first)} or {last}"


def _number(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _size(size: float) -> str:
    """A number of bytes for people."""
    for unit in ("bytes", "kB", "MB"):
        if abs(size) < _THOUSAND:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= _THOUSAND
    return f"{size:.1f} GB"


VERBS = {
    "export": Verb(
        "export [session] FILE", "write a session to a file, as its name ends: .jsonl .md .html .ipynb", _export, EXPORT
    ),
    "import": Verb("import FILE", "make a session from an exported .jsonl file", _import, IMPORT),
    "delete": Verb("delete SESSION", "delete a session for good, once you say --yes", _delete, DELETE),
    "compact-store": Verb("compact-store", "make the files of sessions smaller; nothing is lost", _compact_store),
}
