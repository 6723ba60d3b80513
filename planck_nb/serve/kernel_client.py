"""A client for a running kernel's socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from planck_nb.base.errors import AgentError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.serve.runtime_folder import KernelAddress, open_kernels
from planck_nb.serve.wire import MAX_LINE_BYTES, encode_line, read_line

_CONNECT_TIMEOUT = 10.0


class KernelClient:
    """A client for a folder's kernel, found at each call.

    The kernel may be started and restarted in between.

    Args:
        runtime: The folder with the sockets.
        folder: The project; only kernels at work in it are used, unless one is chosen.
        sessions_dir: The sessions directory; kernels which store there are used, too.
        chosen: The kernel's process id, or its socket's path; empty for the folder's newest.
    """

    def __init__(self, runtime: Path, folder: Path, sessions_dir: Path, chosen: str = "") -> None:
        self._runtime = runtime
        self._folder = folder
        self._sessions_dir = sessions_dir
        self._chosen = chosen

    def address(self) -> KernelAddress:
        """Find the kernel.

        Raises:
            UsageError: No kernel is running, or not the chosen one.
            ConfigError: Another user can change the folder with the sockets.
        """
        runtime = Path(self._chosen).parent if os.sep in self._chosen else self._runtime
        kernels = open_kernels(runtime)
        if self._chosen:
            for kernel in kernels:
                if self._chosen == str(kernel.pid) or Path(self._chosen) == kernel.socket:
                    return kernel
            raise UsageError(f"No kernel {self._chosen} has an open socket; run `%planck serve` in its notebook.")
        places = {os.path.realpath(self._folder), os.path.realpath(self._sessions_dir)}
        for kernel in kernels:
            if places & {os.path.realpath(kernel.folder), os.path.realpath(kernel.sessions_dir)}:
                return kernel
        rest = ", ".join(f"{kernel.pid} in {kernel.folder}" for kernel in kernels[:10])
        hint = f" Kernels of other folders, for `--kernel`: {rest}." if rest else ""
        raise UsageError(f"No kernel of {self._folder} has an open socket; run `%planck serve` in its notebook.{hint}")

    async def call(
        self, method: str, params: JsonObject, progress: Callable[[str], Awaitable[None]] | None = None
    ) -> JsonObject:
        """Call the kernel; cancelling this cancels the call there.

        Args:
            method: The call's name.
            params: Its parameters.
            progress: Awaited with each sentence about the call's progress.

        Returns:
            The result.

        Raises:
            UsageError: The kernel is missing.
            AgentError: The call failed, with the kernel's sentence; or the connection was lost.
        """
        address, reader, writer = await self._connect()
        try:
            with suppress(ConnectionError):  # what the kernel has answered can still be read
                writer.write(encode_line({"token": address.token, "method": method, "params": params}))
                await writer.drain()
            while True:
                answer = await read_line(reader)
                if isinstance(text := answer.get("progress"), str):
                    if progress is not None:
                        await progress(text)
                elif isinstance(error := answer.get("error"), dict):
                    raise AgentError(str(error.get("message")))
                elif isinstance(result := answer.get("result"), dict):
                    return result
                else:
                    raise AgentError("The kernel's answer cannot be read; use the same version of planck_nb there.")
        finally:
            writer.close()

    async def _connect(self) -> tuple[KernelAddress, asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the kernel, and remove sockets from killed kernels."""
        dead_address: KernelAddress | None = None
        while True:
            address = self.address()
            if address == dead_address:
                raise UsageError(
                    f"The kernel {address.pid} has ended, but {address.socket} cannot be removed; delete it."
                )
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT):
                    reader, writer = await asyncio.open_unix_connection(str(address.socket), limit=MAX_LINE_BYTES)
            except (ConnectionRefusedError, FileNotFoundError):  # its process id belongs to another process now
                address.remove()
                dead_address = address
            except (OSError, TimeoutError):
                raise UsageError(
                    f"The kernel {address.pid} does not answer; run `%planck serve` in its notebook again."
                ) from None
            else:
                return address, reader, writer
