"""History and agents for other programs: `planck-nb`, an MCP server.

Names are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planck_nb.serve.kernel_socket import KernelSocket, open_kernel_socket, start_kernel_socket

__all__ = ["KernelSocket", "open_kernel_socket", "start_kernel_socket"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in __all__:
        return getattr(import_module("planck_nb.serve.kernel_socket"), name)
    raise AttributeError(f"module 'planck_nb.serve' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
