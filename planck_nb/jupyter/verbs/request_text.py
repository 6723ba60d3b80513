"""The next request of an agent as text."""

from __future__ import annotations

import math
from dataclasses import replace

from planck_nb.agent.agent import Agent
from planck_nb.agent.tokens import estimate, estimate_request, estimate_text
from planck_nb.ai.message_history.portable_history import prepare
from planck_nb.ai.request import Context
from planck_nb.base.json_types import JsonObject

_MIN_DATA_LENGTH = 2_000
"""A text with this many characters without white space is taken for encoded data."""


async def describe_request(agent: Agent) -> str:
    """Describe the agent's next request: the estimated tokens of its parts, and then exactly what is sent."""
    context, preview = agent.request(), await agent.preview()
    messages = prepare(context.messages, agent.model)
    window = f" of {agent.model.context_window:,}" if agent.model.context_window else ""
    total = estimate_request(replace(context, messages=messages))
    lines = [f"{agent.model}, about {total:,} tokens{window}"]
    if context.system:
        lines.append(_estimated("system", estimate_text(context.system)))
    lines += [_estimated(f"tool {tool.name}", estimate_request(Context(tools=[tool]))) for tool in context.tools]
    lines += [_estimated(message.type, estimate(message)) for message in messages]
    lines += ["", f"{preview.method} {preview.url}" if preview.url else f"{agent.model} needs no server; it receives:"]
    lines += [f"{name}: {value}" for name, value in preview.headers.items()]
    lines += [*(["", *preview.warnings] if preview.warnings else []), "", _as_yaml(preview.body)]
    return "\n".join(lines)


def _estimated(title: str, tokens: int) -> str:
    return f"── {title} · about {tokens:,} tokens"


def _as_yaml(body: JsonObject) -> str:
    """JSON data as YAML, in which texts of several lines are readable."""
    import yaml  # noqa: PLC0415 - needed for this verb only

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the base class's
            return True

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        shown = _without_data(value)
        return dumper.represent_scalar("tag:yaml.org,2002:str", shown, style="|" if "\n" in shown else None)

    Dumper.add_representer(str, text)
    written = yaml.dump(body, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=math.inf)
    return str(written).rstrip("\n")


def _without_data(value: str) -> str:
    """The text; of encoded data, such as an image, its beginning and length."""
    if len(value) < _MIN_DATA_LENGTH or any(map(str.isspace, value)):
        return value
    return f"{value[:40]}… ({len(value):,} characters)"
