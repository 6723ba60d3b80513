"""`resource_changed`: tells clients about new content in a subscribed resource."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def resource_changed(uri: str) -> None:
    """Tell subscribed clients about a resource's new content.

    This may be called from any thread or process.

    Args:
        uri: The resource's address.

    Example:
        >>> resource_changed("notes://today")
    """
    for listener in tuple(_listeners):
        listener(uri)


def add_listener(listener: Callable[[str], None]) -> Callable[[], None]:
    """Call a function with the address of each changed resource.

    Args:
        listener: The function; called in the reporting thread.

    Returns:
        A function which ends this.
    """
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)
