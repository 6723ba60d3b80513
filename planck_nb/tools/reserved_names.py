"""Names that only built-in tools may have, so that no other tool can ask for approval under one of them."""

from __future__ import annotations

RESERVED_NAMES = frozenset(
    "read write edit bash files builtin load_skill list_skills ask_agent delegate_task send_response list_team "
    "spawn_agent destroy_agent interrupt_agent list_models call_agent send_agent respond_agent".split()
)
"""The names of built-in tools, of groups of them, and of the tools by which agents work together."""

KERNEL_NAMES = frozenset(
    {
        *("kernel", "run_python", "list_variables", "inspect_variable", "last_error"),
        *("notebook", "list_cells", "read_cell", "propose", "run_cell"),
    }
)
"""The names of the tools for the kernel of a notebook, and of their group."""


def is_reserved(name: str) -> bool:
    """Return whether tools from files and packages must not have this name; case does not matter."""
    return name.lower().replace("-", "_") in RESERVED_NAMES | KERNEL_NAMES
