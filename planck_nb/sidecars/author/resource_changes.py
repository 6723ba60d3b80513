"""`resource_changed`: tells clients that a resource that they have subscribed to has new content."""

from __future__ import annotations

from collections.abc import Callable

_listeners: list[Callable[[str], None]] = []


def resource_changed(uri: str) -> None:
    """Tell the clients that have subscribed to a resource that its content has changed; from any thread or process.

    Args:
        uri: The address of the resource.

    Example:
        >>> resource_changed("notes://today")
    """
    for listener in tuple(_listeners):
        listener(uri)


def add_listener(listener: Callable[[str], None]) -> Callable[[], None]:
    """Call a function with the address of each resource that changes.

    Args:
        listener: The function; called in the thread that reports the change.

    Returns:
        A function that ends this.
    """
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)
