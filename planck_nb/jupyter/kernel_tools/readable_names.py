"""Which variables an agent may list and inspect."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, MutableMapping

from planck_nb.agent.agent import Agent
from planck_nb.base.secrets import is_secret_name
from planck_nb.jupyter.kernel_tools.kernel_tool_names import ALL_NAMES


def reader_id(agent: Agent) -> str:
    """Return the id under which the agent may read variables: that of its team, if it has one."""
    return agent.team_id or agent.id


def is_private(name: str) -> bool:
    """Return whether no agent may read variables of this name: that of a secret, or one that begins with `_`."""
    return name.startswith("_") or is_secret_name(name)


class ReadableNames:
    """The names that each agent or team may read: all, unless `--with` has limited them. Never those of secrets.

    Args:
        limits: Returns the limits of the session that is open, by the id of the agent or team.
    """

    def __init__(self, limits: Callable[[], MutableMapping[str, set[str]]]) -> None:
        self._find_limits = limits

    @property
    def _limits(self) -> MutableMapping[str, set[str]]:
        return self._find_limits()

    def share(self, reader: str, names: Collection[str]) -> None:
        """Limit an agent or a team to these names from now on; `*` ends the limit.

        Args:
            reader: The id of the agent or team.
            names: The names.
        """
        if ALL_NAMES in names:
            self._limits.pop(reader, None)
        else:
            self._limits[reader] = set(names)

    def add(self, reader: str, names: Iterable[str]) -> None:
        """Let an agent or a team read these names, too: it was given them, or has made them.

        Args:
            reader: The id of the agent or team.
            names: The names.
        """
        if reader in self._limits:
            self._limits[reader].update(names)

    def may_read(self, reader: str, name: str) -> bool:
        """Return whether an agent or a team may read the variable of this name."""
        if is_private(name):
            return False
        limit = self._limits.get(reader)
        return limit is None or name in limit
