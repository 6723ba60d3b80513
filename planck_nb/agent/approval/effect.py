"""What a call of a tool touches: said by the tool, read by whoever decides whether it may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

EffectKind: TypeAlias = Literal["read", "write", "execute", "network"]


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that a call touches.

    `target` is an absolute path for read and write, the command for execute, an address for network; empty where the
    tool cannot say more than the kind.
    """

    kind: EffectKind
    target: str = ""
