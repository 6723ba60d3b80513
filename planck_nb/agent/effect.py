"""What a tool call affects: declared by the tool, read by the approval policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

EffectKind: TypeAlias = Literal["read", "write", "execute", "network"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that a tool call reads, changes, runs or connects to.

    Args:
        kind: "read" or "write" for files, "execute" for commands, "network" for connections.
        target: An absolute path for read and write, the command for execute, an address for network. Empty if the
            tool can say no more than the kind.
        cwd: For a command, the absolute path of the folder in which it runs; empty for the tool's working directory.

    Example:
        >>> Effect("write", "/project/notes.md").kind
        'write'
    """

    kind: EffectKind
    target: str = ""
    cwd: str = ""
