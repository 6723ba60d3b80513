"""`%planck serve`: lets `planck-nb mcp` reach this kernel.

It connects the notebook with `serve`, which must not import one another, and so is above both.
"""

from __future__ import annotations

import shlex
from weakref import WeakKeyDictionary

from planck_nb.jupyter.verbs import Notebook, Parameter, Text, choice, verb
from planck_nb.serve.kernel_socket import KernelSocket, start_kernel_socket
from planck_nb.workspace import Workspace

_ACTIONS = {
    "on": "open the socket, and show the command for an MCP client",
    "off": "close the socket, which stops what its clients have begun",
    "status": "say whether it is open",
}

_sockets: WeakKeyDictionary[Workspace, KernelSocket] = WeakKeyDictionary()
"""The open socket of each workspace."""


@verb(
    "serve",
    "Other programs",
    "let the same user's MCP clients list, prompt and watch the agents of this kernel",
    Parameter("action", choice(**_ACTIONS), "what to do, by default on", optional=True),
    example="serve off",
)
async def serve(notebook: Notebook, action: str | None) -> Text:
    """Open or close the socket of the kernel, or say whether it is open."""
    workspace = notebook.workspace
    opened = _sockets.get(workspace)
    if opened is not None and not opened.is_open:
        opened = None
    match action:
        case None | "on":
            if opened is None:
                opened = _sockets[workspace] = start_kernel_socket(workspace)
                notebook.controller.on_close(opened.aclose)
        case "off":
            if opened is not None:
                await opened.aclose()
                del _sockets[workspace]
            return Text("No other program can reach this kernel.")
    if opened is None:
        return Text("No other program can reach this kernel; `%planck serve` lets MCP clients of the same user do so.")
    return Text(
        "Programs of the same user can list, prompt and watch the agents of this kernel, and calls need the same "
        "approval as any other. Have an MCP client run this command, which needs the extra `mcp`:\n\n"
        f"    planck-nb mcp --folder {shlex.quote(str(workspace.config.root.absolute()))} --kernel {opened.process}\n\n"
        f"The socket is {opened.path}; `%planck serve off` closes it."
    )
