"""What differs between the supported versions of IPython and ipykernel."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any


def idle_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop in which IPython runs async cells, for where none is running."""
    try:
        from IPython.core.async_helpers import get_asyncio_loop  # noqa: PLC0415 - not before IPython 8
    except ImportError:
        from IPython.core.async_helpers import _asyncio_runner  # noqa: PLC0415

        loop: asyncio.AbstractEventLoop = _asyncio_runner.loop
    else:
        loop = get_asyncio_loop()
    return loop


def ipykernel_version(kernel: object) -> str:
    """Return the ipykernel version behind a kernel, empty for others.

    ipykernel is always installed, but xeus-python and JupyterLite have their own kernels. Metakernel's is derived from
    ipykernel's.

    Args:
        kernel: The shell's `kernel`; None in a terminal.
    """
    modules = (kind.__module__ for kind in type(kernel).__mro__)
    return version("ipykernel") if any(name.partition(".")[0] == "ipykernel" for name in modules) else ""


def running_request(kernel: Any) -> dict[str, Any]:  # noqa: ANN401 - kernels have no types
    """Return the running cell's request, empty if unknown.

    Args:
        kernel: The shell's `kernel`.
    """
    get_parent = getattr(kernel, "get_parent", None)
    if get_parent is None:
        return {}
    request = get_parent("shell") if ipykernel_version(kernel) else get_parent()
    return request if isinstance(request, dict) else {}


_SUBSHELL_REQUESTS = ("create_subshell_request", "delete_subshell_request", "list_subshell_request")


class CellStatus:
    """Keeps the kernel's reports about a cell right while it handles other messages.

    ipykernel 7.4 handles a message of a widget while a cell awaits. Afterwards it makes current again the request that
    was current when the message arrived. If another cell began meanwhile, its end is then reported as the end of the
    cell before, and a frontend waits for it forever. So the cell's own request is restored before its end is reported.

    A subshell reports idle after each of its messages, and JupyterLab takes that for the state of the whole kernel: its
    indicator says idle while the cell goes on. So busy is reported again, also after a subshell was created or deleted,
    as JupyterLab does for each widget.

    Args:
        kernel: The kernel of the shell, an `ipykernel.kernelbase.Kernel`.
    """

    def __init__(self, kernel: Any) -> None:  # noqa: ANN401 - ipykernel has no types
        self._kernel = kernel
        self._before, self._after = kernel.pre_handler_hook, kernel.post_handler_hook
        handlers = getattr(kernel, "control_handlers", {})
        self._handlers = {name: handlers[name] for name in _SUBSHELL_REQUESTS if name in handlers}
        self._thread = threading.get_ident()
        self._handled: tuple[Any, Any] | None = None  # stays None in the cell that loads the extension
        self._runs = True  # the cell that loads the extension
        self._reports = threading.Lock()

    def install(self) -> None:
        """Use the hooks that ipykernel calls before and after it handles a request."""
        self._kernel.pre_handler_hook = self._begin
        self._kernel.post_handler_hook = self._end
        for name, handler in self._handlers.items():
            self._kernel.control_handlers[name] = partial(self._then_busy, handler)

    def remove(self) -> None:
        """Undo `install`, unless somebody has replaced the hooks since."""
        if self._kernel.pre_handler_hook == self._begin and self._kernel.post_handler_hook == self._end:
            self._kernel.pre_handler_hook, self._kernel.post_handler_hook = self._before, self._after
            self._kernel.control_handlers.update(self._handlers)

    def _begin(self) -> None:
        if threading.get_ident() == self._thread:
            self._handled = self._current()
            self._runs = True
        self._before()

    def _end(self) -> None:
        if threading.get_ident() != self._thread:  # a subshell, which reports idle before its loop turns
            asyncio.get_running_loop().call_soon(self._report_busy)
        else:
            with self._reports:  # the idle state which ends the cell is the last
                self._runs = False
            if self._handled is not None and self._handled[1] is not self._current()[1]:
                self._kernel.set_parent(*self._handled, channel="shell")
        self._after()

    async def _then_busy(self, handler: Callable[..., Any], *request: object) -> None:
        """Handle a control request, which reports idle before its loop turns."""
        result = handler(*request)
        if inspect.isawaitable(result):
            await result
        asyncio.get_running_loop().call_soon(self._report_busy)

    def _report_busy(self) -> None:
        with self._reports:
            if self._runs:
                parent = None if self._handled is None else self._handled[1]
                topic = f"kernel.{self._kernel.ident}.status".encode()
                state = {"execution_state": "busy"}
                self._kernel.session.send(self._kernel.iopub_socket, "status", state, parent=parent, ident=topic)

    def _current(self) -> tuple[Any, Any]:
        """The sender's identity and the message of the request that is current."""
        identity = self._kernel._parent_ident["shell"]  # noqa: SLF001 - `set_parent` takes it, and no method returns it
        return identity, self._kernel.get_parent("shell")
