"""Verbs that show what agents are told and given, and what they changed on disk."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from planck_nb.agent.agent import Agent
from planck_nb.agent.approval import ACTIONS
from planck_nb.agent.context.tokens import estimate, estimate_request, estimate_text
from planck_nb.agent.limits import Limits
from planck_nb.ai.portable_history import prepare
from planck_nb.ai.request import Context
from planck_nb.base.aio import run_in_thread
from planck_nb.base.errors import ToolError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.config import Config, Scope, read_limits, write_setting
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.verbs.verb import Notebook, Text, Verb, table, takes_nothing
from planck_nb.tools.archive import Change
from planck_nb.tools.changes import Changes

if TYPE_CHECKING:
    import pandas as pd

_LONG_DATA = 2_000
"""Characters without white space from which on a text is taken for encoded data."""


async def _show(controller: Controller, argument: str, _notebook: Notebook) -> Text:
    what, _, name = argument.partition(" ")
    if what != "request":
        raise UsageError("Write `%planck show request [AGENT]`: what the next request sends.")
    return Text(await describe_request(await controller.agent_to_show(name.strip())))


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
    if len(value) < _LONG_DATA or any(map(str.isspace, value)):
        return value
    return f"{value[:40]}… ({len(value):,} characters)"


async def _skills(controller: Controller, argument: str, _notebook: Notebook) -> object:
    takes_nothing("skills", argument)
    toolbox = controller.workspace.toolbox
    found = toolbox.skills()
    skipped = [f"{item.path}: {item.reason}" for item in toolbox.skipped()]
    if not found:
        where = ", ".join(map(str, controller.workspace.config.skills_dirs)) or "nowhere"
        return Text("\n".join([f"No skills. They are looked for in {where}: <name>/SKILL.md.", *skipped]))
    rows = [{"skill": skill.name, "description": skill.description, "path": skill.path} for skill in found.values()]
    shown = table(rows, ["skill", "description", "path"])
    return shown if not skipped else Text("\n".join([shown.to_string(index=False), "", "Not used:", *skipped]))


async def _changes(controller: Controller, argument: str, _notebook: Notebook) -> pd.DataFrame:
    takes_nothing("changes", argument)
    names = {agent.id: agent.name for agent in controller.workspace.agents.values()}
    rows = [
        {
            "change": change.number,
            "path": change.path,
            "tool": change.tool,
            "agent": names.get(change.agent_id, change.agent_id),
            "added": change.added,
            "removed": change.removed,
            "time": datetime.fromtimestamp(change.time, UTC).replace(tzinfo=None),
        }
        for change in controller.workspace.changes
    ]
    return table(rows, ["change", "path", "tool", "agent", "added", "removed", "time"])


async def _undo(controller: Controller, argument: str, _notebook: Notebook) -> Text:
    if argument and argument != "all" and not argument.isdecimal():
        raise UsageError("Write `%planck undo`, `undo all`, or `undo NUMBER` from `%planck changes`.")
    changes = controller.workspace.changes

    def undo() -> list[str]:
        if not len(changes):
            return ["There is nothing to undo: no change of this session is left."]
        if argument == "all":
            return [_undo_if_possible(changes, change) for change in reversed(list(changes))]
        return [_undone(changes.undo(int(argument) if argument else None))]

    return Text("\n".join(await run_in_thread(undo)))


def _undo_if_possible(changes: Changes, change: Change) -> str:
    try:
        return _undone(changes.undo(change))
    except ToolError as error:
        return str(error)


def _undone(change: Change) -> str:
    if change.before is None:
        return f"{change.path} is gone again; the {change.tool} had made it."
    return f"{change.path} is as it was before the {change.tool}."


async def _config(controller: Controller, argument: str, _notebook: Notebook) -> pd.DataFrame | Text:
    workspace = controller.workspace
    verb, _, rest = argument.partition(" ")
    if verb == "set":
        return Text(await run_in_thread(lambda: _set(workspace.config, rest)))
    if argument:
        try:
            workspace.set_limits(read_limits(argument, workspace.limits))
        except ValueError as error:
            raise UsageError(f"`%planck config {argument}`: it {error}.") from None
    now, before = workspace.approvals.policy.rules, workspace.policy().rules
    rows = []
    for setting, configured, source in workspace.config.settings():
        value, unchanged = configured, True
        if setting.field == "limits":
            value = workspace.limits
            unchanged = value == configured
        elif setting.field in ACTIONS:
            value = [rule for rule in now if rule.action == setting.field]
            unchanged = value == [rule for rule in before if rule.action == setting.field]
        columns = {"source": source if unchanged else "this session", "variable": setting.variable}
        if isinstance(value, Limits):
            rows += [
                {"setting": name, "value": "none" if number is None else f"{number:,}", **columns}
                for name, number in value.as_dict().items()
            ]
        else:
            rows.append({"setting": setting.field, "value": _written(value), **columns})
    return table(rows, ["setting", "value", "source", "variable"])


def _set(config: Config, argument: str) -> str:
    """Write a setting into a file, and describe what was done."""
    scope: Scope = "project"
    if argument.startswith("--user "):
        scope, argument = "user", argument.removeprefix("--user ")
    key, _, value = argument.strip().partition(" ")
    if not key or not value.strip():
        raise UsageError("Write `%planck config set NAME VALUE`, or `set --user NAME VALUE` for all projects.")
    path = write_setting(scope, key, None if value.strip() == "none" else value.strip(), directory=config.root)
    source = config.sources.get(key, "")
    if source.startswith("environment"):
        return f"{key} is written to {path}, but the {source} goes before it."
    return f"{key} is written to {path}; new kernels use it."


def _written(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


VERBS = {
    "show": Verb("show request [agent]", "print exactly what the next request sends, with its tokens", _show),
    "skills": Verb("skills", "list the skills that agents can load", _skills),
    "changes": Verb("changes", "list the files that tools changed in this session", _changes),
    "undo": Verb("undo [NUMBER | all]", "take back what a tool did to a file, by default the newest change", _undo),
    "config": Verb("config [NAME=NUMBER … | set …]", "show settings, change limits, write one to a file", _config),
}
