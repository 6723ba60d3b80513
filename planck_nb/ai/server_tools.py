"""Tools that a model's server runs, such as a web search, by names that are the same for all providers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from planck_nb.base.errors import ModelError, did_you_mean

SERVER_TOOLS: Mapping[str, str] = {
    "web_search": "search the web, on the model's server",
    "web_fetch": "read pages of the web, on the model's server",
    "code_execution": "run Python in a container of the model's server",
}
"""The names of server tools, the same for every provider that has them, and what they do."""

ALIASES = {"google_search": "web_search", "url_context": "web_fetch", "code_interpreter": "code_execution"}
"""Names that vendors use."""


@dataclass(frozen=True, slots=True)
class ServerTool:
    """A tool that the model's server runs, such as a web search.

    Args:
        name: "web_search", "web_fetch" or "code_execution", or the name that a vendor uses for one of them.
        settings: The vendor's own fields, such as `{"max_uses": 3}`.

    Raises:
        ModelError: There is no such tool.

    Example:
        >>> ServerTool("google_search").name
        'web_search'
    """

    name: str
    settings: Mapping[str, object] = field(default_factory=dict[str, object])

    def __post_init__(self) -> None:
        name = ALIASES.get(self.name, self.name)
        if name not in SERVER_TOOLS:
            raise ModelError(
                f"There is no server tool {self.name!r}. {did_you_mean(str(self.name), SERVER_TOOLS)} Others can be "
                'named in Options(extra={"tools": [...]}), as their vendor describes them.'
            )
        object.__setattr__(self, "name", name)

    def __str__(self) -> str:
        """The name, with the settings if there are any: the form that a session stores."""
        return f"{self.name}{json.dumps(dict(self.settings), default=str)}" if self.settings else self.name

    @classmethod
    def parse(cls, text: str) -> ServerTool | None:
        """Read what `str` returns, or only a name.

        Args:
            text: The text.

        Returns:
            The tool; None if the text does not name one.
        """
        name, brace, settings = text.partition("{")
        if ALIASES.get(name, name) not in SERVER_TOOLS:
            return None
        try:
            return cls(name, json.loads(brace + settings) if brace else {})
        except ValueError:
            return None
