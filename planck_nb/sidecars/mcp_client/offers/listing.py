"""A server's lists, page by page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from mcp import MCPError
from mcp_types import CONNECTION_CLOSED

from planck_nb.base.text import one_line
from planck_nb.sidecars.mcp_client.transports.repaired_results import LEFT_OUT

_MAX_ITEMS = 10_000
_MAX_IDLE_PAGES = 3
"""Pages without a new item after which a list has ended."""

_REASON_CHARACTERS = 200


@dataclass(slots=True)
class Listing:
    """A whole list.

    Args:
        items: Its items, without repetitions.
        left_out: Names of unusable items, with reasons as sentence ends.
        remark: A sentence about its end, empty for an ordinary one.
    """

    items: list[Any] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    remark: str = ""


async def list_all(fetch: Callable[[str | None], Awaitable[Any]], kind: str, key: str) -> Listing:
    """Fetch a whole list.

    A list ends where the server says so, and where its cursor stands still. Some servers
    [give an empty cursor at the end](https://github.com/modelcontextprotocol/java-sdk/issues/575), with which others
    continue, so one more page is fetched.

    Args:
        fetch: Fetches the page at a cursor.
        kind: The list's field in a page, such as "tools".
        key: The field which identifies an item.

    Raises:
        MCPError: If the first page cannot be fetched, or the connection is lost.
    """
    listing = Listing()
    names: set[str] = set()
    cursor: str | None = None
    earlier_cursors: set[str | None] = set()
    idle_pages = 0
    while cursor not in earlier_cursors:
        try:
            page = await fetch(cursor)
        except (MCPError, ValueError) as error:
            if cursor is None or (isinstance(error, MCPError) and error.code == CONNECTION_CLOSED):
                raise
            if cursor:
                reason = one_line(str(error), _REASON_CHARACTERS)
                listing.remark = f"Its list of {kind} ended early, because the next page failed: {reason}"
            return listing
        before = len(names)
        _add(listing, page, kind, key, names, is_first=cursor is None)
        idle_pages = 0 if len(names) > before else idle_pages + 1
        earlier_cursors.add(cursor)
        cursor = page.next_cursor
        if cursor is None:
            return listing
        if idle_pages >= _MAX_IDLE_PAGES:
            break
        if len(names) >= _MAX_ITEMS:
            listing.remark = f"It lists more than {_MAX_ITEMS:,} {kind}; the first ones are used."
            return listing
    if cursor:
        listing.remark = f"Its list of {kind} did not end by itself; what had come by then is used."
    return listing


def _add(listing: Listing, page: Any, kind: str, key: str, names: set[str], *, is_first: bool) -> None:  # noqa: ANN401 - a page of mcp_types
    for item in getattr(page, kind):
        name = str(getattr(item, key))
        if name not in names:
            names.add(name)
            listing.items.append(item)
        elif is_first:  # later pages may repeat earlier ones
            listing.left_out.append((name, "there is another one of this name"))
    left_out = [(name, reason) for name, reason in (page.meta or {}).get(LEFT_OUT, ())]
    listing.left_out += [item for item in left_out if is_first or item not in listing.left_out]
