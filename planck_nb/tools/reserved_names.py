"""Names that only built-in tools have, so that nothing else can ask for approval under the name of one of them."""

from __future__ import annotations

RESERVED_NAMES = frozenset(
    "read write edit bash files builtin load_skill list_skills ask_agent delegate_task send_response list_team "
    "spawn_agent destroy_agent interrupt_agent list_models call_agent send_agent respond_agent".split()
)
"""The names of built-in tools, of groups of them, and of the tools by which agents work together."""

KERNEL_NAMES = frozenset({"kernel", "run_python", "list_variables", "inspect_variable", "last_error"})
"""The names of the tools for the kernel of a notebook, and of their group."""


def is_reserved(name: str) -> bool:
    """Return whether a tool of a file or a package must not have this name, in whatever case."""
    return name.lower().replace("-", "_") in RESERVED_NAMES | KERNEL_NAMES
