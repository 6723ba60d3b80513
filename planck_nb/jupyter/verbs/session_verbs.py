"""Verbs about stored sessions and their files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from planck_nb.base.errors import SessionError, SessionLockedError, UsageError
from planck_nb.base.text import counted
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.file_names import looks_like_file
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import SESSION
from planck_nb.jupyter.parsing.parameters import FILE, INTEGER, WORD, Option, Parameter, choice
from planck_nb.jupyter.verbs.declaration import Text, readable, verb
from planck_nb.sessions import (
    SessionInfo,
    compact_store,
    delete_session,
    estimate_compaction,
    export_format,
    find_session,
    import_session,
    last_used_first,
    open_in,
    session_files,
    write_export,
)

if TYPE_CHECKING:
    import pandas as pd

SUBJECT = "Sessions"

_ACTIONS = {
    "list": "list the sessions",
    "compact": "compress the files of sessions which are not open, without any loss",
}
_THOUSAND = 1000
_NAMED = 10
_DAY = 86_400
_MEGABYTE = 1_000_000


@verb(
    "sessions",
    SUBJECT,
    "list the stored sessions, and where they are open; or compress their files",
    Parameter("action", choice(**_ACTIONS), "what to do, by default list", optional=True),
    example="sessions compact",
    synonyms=("session",),
    shortcuts={"compact-store": "compact"},
    shows=True,
)
async def sessions(notebook: Notebook, action: str | None) -> object:
    """Return a table of the sessions, or compress their files."""
    return await _compacted(notebook) if action == "compact" else await _listed(notebook)


async def _listed(notebook: Notebook) -> pd.DataFrame:
    workspace = notebook.workspace
    found = await workspace.query_async(
        "SELECT session_name AS session, agents, messages, "
        "coalesce(input_tokens, 0) + coalesce(output_tokens, 0) AS tokens, cost_usd, created, last, session_id "
        "FROM sessions ORDER BY greatest(created, last) DESC, session_id"
    )
    owners = await run_in_thread(partial(_owners, workspace.sessions()))
    if workspace.session_id is not None:
        owners[workspace.session_id] = "this notebook"
    found["open_in"] = [owners.get(session_id, "") for session_id in found["session_id"]]
    damage = await run_in_thread(partial(_damage, workspace.sessions()))
    if damage:
        found["damage"] = [damage.get(session_id, "") for session_id in found["session_id"]]
    return readable(found, empty="There are no sessions in this folder yet.")


def _owners(stored: Sequence[SessionInfo]) -> dict[str, str]:
    """Where the open ones of these sessions are open, by their ids."""
    return {session.id: owner for session in stored if (owner := open_in(session)) is not None}


def _damage(stored: Sequence[SessionInfo]) -> dict[str, str]:
    """A sentence for each of these sessions that is known to be damaged, by their ids.

    Checking all of them now would read every journal; queries check those that were written lately.
    """
    return {session.id: damage for session in stored if (damage := session.known_damage)}


def _may_export(notebook: Notebook, words: Sequence[str]) -> bool:
    """Recognise a file, perhaps after a session, or a session whose file is missing."""
    *session, last = words
    is_session = SESSION.fits is not None and SESSION.fits(notebook, session[0] if session else last)
    is_export = last.lower().endswith((".jsonl", ".md", ".html", ".ipynb"))  # `export_format` knows no others
    return is_export or (looks_like_file(last) and (is_session or not session)) or (is_session and not session)


@verb(
    "export",
    SUBJECT,
    "write a session to a file, whose extension decides the format",
    Parameter("session", SESSION, "the session, by default this notebook's", optional=True),
    Parameter("file", FILE, "a file name that ends in .jsonl, .md, .html or .ipynb"),
    Option("overwrite", None, None, "replace the file if it exists"),
    example="export calm-fox 'my analysis.html'",
    synonyms=("save",),
    fits=_may_export,
)
async def export(notebook: Notebook, session: str | None, file: Path, overwrite: bool) -> Text:
    """Write the file and say how large it is."""
    export_format(file)  # before the session is looked up
    exported = _named(notebook, session) if session else _current(notebook)
    missing = ""
    if exported.id == notebook.workspace.session_id:
        try:
            await notebook.workspace.session.flush()
        except SessionError as error:  # on a full disk it should still be possible to export what is there
            missing = f" Rows that are not on disk yet are missing: {error}"
    size = await run_in_thread(partial(write_export, exported, file, overwrite=overwrite))
    return Text(f"{exported.name} was exported to {file} ({_size(size)}).{missing}")


@verb(
    "import",
    SUBJECT,
    "create a session from an exported .jsonl file",
    Parameter("file", FILE, "a file that `%planck export` wrote"),
    Option("name", None, WORD, "the name of the new session"),
    example="import 'my analysis.jsonl' --name back",
)
async def import_(notebook: Notebook, file: Path, name: str | None) -> Text:
    """Create the session and say its name."""
    directory = notebook.workspace.sessions_dir
    session = await run_in_thread(partial(import_session, directory, file, name=name))
    return Text(f"Imported {file} as session {session.name}, with the id {session.id}. {session.notice}".rstrip())


@verb(
    "delete",
    SUBJECT,
    "delete a session for good, or those that have not been used lately",
    Parameter("session", SESSION, "the name or the id of the session", optional=True),
    Option("older-than", None, INTEGER, "all sessions without a message for this many days, 1 or more, instead of one"),
    Option("keep-mb", None, INTEGER, "the sessions used longest ago, until the rest take this many MB, 1 or more"),
    Option("yes", "y", None, "delete them, instead of showing what would be deleted"),
    example="delete calm-fox --yes",
)
async def delete(
    notebook: Notebook, session: str | None, older_than: int | None, keep_mb: int | None, yes: bool
) -> Text:
    """Delete the session or the old ones, or say what that would delete."""
    if sum(given is not None for given in (session, older_than, keep_mb)) != 1:
        raise UsageError(
            "Name one session that `%planck sessions` lists, or give --older-than with a number of days or --keep-mb"
            " with a size."
        )
    if older_than is not None:
        return await _delete_old(notebook, older_than, yes=yes)
    if keep_mb is not None:
        return await _delete_beyond(notebook, keep_mb, yes=yes)
    return await _delete_one(notebook, session or "", yes=yes)


async def _delete_one(notebook: Notebook, session: str, *, yes: bool) -> Text:
    """Delete a session, or say what that would delete."""
    found = _named(notebook, session)
    if found.id == notebook.workspace.session_id:
        raise SessionLockedError(
            f"{found.name} is the session of this notebook, which cannot be deleted while it is open."
        )
    if owner := open_in(found):
        raise SessionLockedError(f"{found.name} is open in {owner}; close it there before you delete it.")
    size = _size(_bytes(found))
    if not yes:
        rows = await notebook.workspace.query_async(
            f"SELECT messages, agents, created FROM sessions WHERE session_id = '{found.id}'"  # noqa: S608 - hex
        )
        held = f"{counted(rows.messages[0], 'message')} of {counted(rows.agents[0], 'agent')}"
        return Text(
            f"{found.name} has {held}, was created {rows.created[0]:%Y-%m-%d %H:%M} UTC, and takes {size}. "
            f"Nothing was deleted yet: `%planck delete {session} --yes` deletes it for good."
        )
    await run_in_thread(partial(delete_session, found, confirm=found.name))
    return Text(f"Deleted {found.name}, which freed {size}.")


async def _delete_old(notebook: Notebook, days: int, *, yes: bool) -> Text:
    """Delete the sessions without a message for so many days, except those that are open."""
    workspace = notebook.workspace
    rows = await workspace.query_async(
        f"SELECT session_id FROM sessions WHERE epoch(now()::TIMESTAMP - greatest(created, last)) > {days * _DAY}"  # noqa: S608 - a number
    )
    old = set(rows["session_id"]) - {workspace.session_id}
    chosen = [session for session in workspace.sessions() if session.id in old and open_in(session) is None]
    if not chosen:
        return Text(f"Every session that is not open has been used in the last {counted(days, 'day')}.")
    sizes = await run_in_thread(lambda: {session: _bytes(session) for session in chosen})
    return await _delete_several(
        sizes, f"without a message for {counted(days, 'day')}", f"--older-than {days}", yes=yes
    )


async def _delete_beyond(notebook: Notebook, megabytes: int, *, yes: bool) -> Text:
    """Delete the sessions used longest ago until the rest take so many megabytes, except those that are open."""
    workspace = notebook.workspace

    def choose() -> tuple[int, dict[SessionInfo, int]]:
        newest = list(last_used_first(workspace.sessions()))
        opened = {session for session in newest if session.id == workspace.session_id or open_in(session)}
        kept, chosen = sum(map(_bytes, opened)), dict[SessionInfo, int]()
        for session in newest:
            size = 0 if session in opened else _bytes(session)
            if session not in opened and (chosen or kept + size > megabytes * _MEGABYTE):
                chosen[session] = size
            else:
                kept += size
        return kept, chosen

    kept, sizes = await run_in_thread(choose)
    if not sizes:
        return Text(f"The sessions take {_size(kept)}, no more than {megabytes} MB, so there is nothing to delete.")
    what = f"used longest ago, beyond {megabytes} MB"
    return await _delete_several(sizes, what, f"--keep-mb {megabytes}", yes=yes)


async def _delete_several(sizes: Mapping[SessionInfo, int], described: str, option: str, *, yes: bool) -> Text:
    """Delete sessions, by their sizes, or say what that would delete."""
    if not yes:
        return Text(
            f"{_described(sizes, described)}. They take {_size(sum(sizes.values()))}. "
            f"Nothing was deleted yet: `%planck delete {option} --yes` deletes them for good."
        )
    deleted, kept = list[SessionInfo](), list[str]()
    for session in sizes:
        try:
            await run_in_thread(partial(delete_session, session, confirm=session.name))
            deleted.append(session)
        except SessionError as error:
            kept.append(str(error))
    freed = sum(sizes[session] for session in deleted)
    done = (
        f"Deleted {_described(deleted, described)}. This freed {_size(freed)}." if deleted else "Nothing was deleted."
    )
    return Text(" ".join([done, *kept]))


def _described(sessions: Collection[SessionInfo], which: str) -> str:
    """How many sessions these are, which ones, and the first names."""
    names = ", ".join(session.name for session in list(sessions)[:_NAMED])
    more = f" and {len(sessions) - _NAMED} more" if len(sessions) > _NAMED else ""
    return f"{counted(len(sessions), 'session')} {which}: {names}{more}"


def _bytes(session: SessionInfo) -> int:
    """What the files of a session take; 0 for one that another kernel removes in this moment."""
    total = 0
    for file in session_files(session):
        with suppress(FileNotFoundError):
            total += file.stat().st_size
    return total


async def _compacted(notebook: Notebook) -> Text:
    """Say about how much compacting the files frees, do it, and say how much it has freed."""
    workspace = notebook.workspace
    expected = await run_in_thread(partial(estimate_compaction, workspace.sessions_dir))
    if expected > 0:
        _print(f"This frees about {_size(expected)}.")
    freed = await run_in_thread(partial(compact_store, workspace.sessions_dir))
    in_use = [session.name for session in workspace.sessions() if open_in(session)]
    said = f"Freed {_size(freed)}." if freed > 0 else "There was nothing to free."
    left = f" {', '.join(in_use)} {'is' if len(in_use) == 1 else 'are'} open and stayed as before." if in_use else ""
    return Text(said + left)


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a line in the cell's output


def _current(notebook: Notebook) -> SessionInfo:
    if notebook.workspace.session_id is None:
        raise UsageError("This notebook has no session yet; name one that `%planck sessions` lists.")
    return notebook.workspace.session.info


def _named(notebook: Notebook, word: str) -> SessionInfo:
    """The session with this id or name. Raises `SessionError` where none or several have it."""
    workspace = notebook.workspace
    found = find_session(workspace.sessions_dir, word)
    same = [session.id for session in workspace.sessions() if session.name == word]
    if found.id != word and len(same) > 1:
        raise SessionError(f"{len(same)} sessions are called {word}; give the id of one: {', '.join(same)}.")
    return found


def _size(size: float) -> str:
    """A number of bytes for display."""
    for unit in ("bytes", "kB", "MB"):
        if abs(size) < _THOUSAND:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= _THOUSAND
    return f"{size:.1f} GB"
