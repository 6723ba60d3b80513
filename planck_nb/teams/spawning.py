"""Spawning workers: what an orchestrator may give them, and what it is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from planck_nb.agent.agent import Agent
from planck_nb.agent.calling.functions import ToolLike, by_name
from planck_nb.agent.calling.tool import Tool, ToolContext
from planck_nb.agent.identity import Grants
from planck_nb.agent.team_members import TeamMembers
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.server_address import shown_url
from planck_nb.base.errors import PlanckError, ToolError, did_you_mean
from planck_nb.base.json_types import JsonObject
from planck_nb.teams.granted_skills import GrantedSkills
from planck_nb.teams.roles import INTER_AGENT_TOOLS
from planck_nb.teams.start_options import MemberPromptParts, SkillSource, skill_tools
from planck_nb.teams.team_host import TeamHost, TeammateHost, new_member_id

MAX_WORKERS = 20
"""An orchestrator may spawn workers until its team has this many."""

WORKER_TOOLS = INTER_AGENT_TOOLS - {"spawn_agent", "destroy_agent", "interrupt_agent", "list_models"}
"""The names of the tools that every worker has, former names included."""

_MAX_CHARACTERS = 200


class Spawner:
    """Spawns the workers of orchestrators.

    Args:
        tools: The tools that a worker may be given.
        skills: The names of the skills that it may be given.
        models: The models that it may be given, in addition to the orchestrator's own and its `available_models`.
        skill_pool: Where the skills come from.
        host: Makes the workers.
        max_workers: How many workers there may be.
        worker_tools: Makes the tools that every worker has.
    """

    def __init__(
        self,
        tools: Iterable[ToolLike],
        skills: Iterable[str],
        models: Sequence[Model],
        *,
        skill_pool: SkillSource | None,
        host: TeamHost | None,
        max_workers: int,
        worker_tools: Callable[[], list[Tool]],
    ) -> None:
        self._tools = {name: each for name, each in by_name(tools).items() if name not in INTER_AGENT_TOOLS}
        self._skills = tuple(dict.fromkeys(skills))
        self._models = tuple(models)
        self._pool = skill_pool
        self._max_workers = max_workers
        self._worker_tools = worker_tools
        self.host: TeamHost = host or TeammateHost()

    @property
    def description(self) -> str:
        """The description of the tool, for models."""
        tools = ", ".join(self._tools) or "none"
        skills = ", ".join(self._skills) or "none"
        return (
            "Start a new worker in your team and get its id. It has the tools ask_agent, delegate_task, send_response "
            f"and list_team, and those that you give it. Tools that you can give: {tools}. Skills that you can give: "
            f"{skills}."
        )

    @cached_property
    def parameters(self) -> JsonObject:
        """The JSON Schema of the arguments."""

        def text(description: str) -> JsonObject:
            return {"type": "string", "description": description}

        names: JsonObject = {"type": "array", "items": {"type": "string"}}
        return {
            "type": "object",
            "properties": {
                "type": text("What kind of agent it is, such as builder or reviewer."),
                "name": text("Its name; by default its type."),
                "description": text("What it is for, in a sentence."),
                "system_prompt": text("Its instructions; by default yours."),
                "provider": text("The provider of its model, as list_models shows it; by default your own model."),
                "model_id": text("The id of its model, as list_models shows it."),
                "base_url": text("The address of its model's server, if list_models shows several."),
                "tools": {**names, "description": "The names of tools to give it."},
                "skills": {**names, "description": "The names of skills to give it."},
            },
            "required": ["type"],
        }

    async def spawn(self, team: TeamMembers[Agent], caller: Agent, args: JsonObject, _context: ToolContext) -> str:
        """Spawn a worker.

        Returns:
            Its id, and below it what it was not given and why.

        Raises:
            ToolError: It cannot be spawned; the sentence says why.
        """
        if caller.role != "orchestrator":
            raise ToolError("Only the orchestrator of a team spawns agents; ask it to.")
        workers = len(team) - 1
        if workers >= self._max_workers:
            raise ToolError(
                f"The team has {workers} workers, and no more than {self._max_workers} are allowed. Give the work to "
                "one of them, or destroy one that is not needed any more."
            )
        agent_type = _line(args, "type")
        if not agent_type:
            raise ToolError("Say in `type` what kind of agent it is, such as builder.")
        model = self._model(caller, args)
        tools, notes = self._granted(args, "tools", self._tools)
        skills, missing = self._granted(args, "skills", self._skills)
        name, renamed = _free_name(team, _line(args, "name") or agent_type)
        pool = GrantedSkills(self._pool, skills) if self._pool is not None and skills else None
        prompt = args.get("system_prompt")
        options: dict[str, Any] = {
            "id": new_member_id(self.host, team, team.seed, name),
            "name": name,
            "type": agent_type,
            "description": _line(args, "description"),
            "system_prompt": prompt if isinstance(prompt, str) and prompt.strip() else caller.system_prompt,
            "model": model,
            "options": caller.options if model == caller.model else None,
            "tools": [
                *self._worker_tools(),
                *(self._tools[each] for each in tools),
                *skill_tools(pool),
            ],
            "team_id": team.team_id,
            "role": "worker",
            "parent_id": caller.id,
            "grants": Grants(),
            "prompt_parts": MemberPromptParts(pool, tuple(skills), self.host.prompt_parts),
            "skills": tuple(skills),
        }
        try:
            worker = self.host.create(options, caller)
        except PlanckError as error:
            raise ToolError(f"The worker could not be started: {error}") from error
        told = [*renamed, *notes, *missing]
        return "\n\n".join([worker.id, *([" ".join(told)] if told else [])])

    async def list_models(
        self, _team: TeamMembers[Agent], caller: Agent, _args: JsonObject, _context: ToolContext
    ) -> str:
        """The models that a worker may be given, as JSON."""
        return json.dumps([_described(model, caller) for model in self._choices(caller)], ensure_ascii=False)

    def _choices(self, caller: Agent) -> list[Model]:
        found: dict[tuple[str, str, str | None], Model] = {}
        for model in (caller.model, *caller.available_models, *self._models):
            found.setdefault((model.provider, model.alias or model.id, model.base_url), model)
        return list(found.values())

    def _model(self, caller: Agent, args: JsonObject) -> Model:
        """The model named in the arguments, which the caller must be allowed to give; by default the caller's own."""
        provider, model_id, base_url = (_line(args, key) for key in ("provider", "model_id", "base_url"))
        if not (provider or model_id or base_url):
            return caller.model
        choices = self._choices(caller)
        if not provider and ":" in model_id and not any(model_id in {each.id, each.alias} for each in choices):
            provider, _, model_id = model_id.partition(":")
        found = [
            model
            for model in choices
            if (not provider or model.provider == provider)
            and (not model_id or model_id in {model.id, model.alias, str(model)})
            and (not base_url or base_url in {model.base_url, _address(model)})
        ]
        if not found:
            wanted = ":".join(filter(None, [provider, model_id])) + (f" at {base_url}" if base_url else "")
            near = did_you_mean(model_id or provider, [name for each in choices for name in (each.id, str(each))])
            raise ToolError(
                f"The model {wanted[:_MAX_CHARACTERS]} is not one that you may give. {near} Call list_models, and "
                "pass `provider` and `model_id` as it shows them.".replace("  ", " ")
            )
        return found[0]

    def _granted(self, args: JsonObject, key: str, pool: Iterable[str]) -> tuple[list[str], list[str]]:
        """The names that may be given, and a sentence about each other one."""
        value = args.get(key)
        wanted = [value] if isinstance(value, str) else value if isinstance(value, list) else []
        names = dict.fromkeys(name.strip() for name in wanted if isinstance(name, str) and name.strip())
        known = list(pool)
        given = [name for name in names if name in known]
        kind = key.rstrip("s")
        notes = [
            f"The {kind} {name[:_MAX_CHARACTERS]} was not given, because you may not give it. "
            f"{did_you_mean(name, known)}".rstrip()
            for name in names
            if name not in known and name not in WORKER_TOOLS
        ]
        return given, notes


def _line(args: JsonObject, key: str) -> str:
    value = args.get(key)
    return " ".join(value.split())[:_MAX_CHARACTERS] if isinstance(value, str) else ""


def _free_name(team: TeamMembers[Agent], wanted: str) -> tuple[str, list[str]]:
    """The name if no member has it, else one with a number; and a sentence about that."""
    taken = {agent.name for agent in team}
    name, number = wanted, 2
    while name in taken:
        name, number = f"{wanted}-{number}", number + 1
    return name, [] if name == wanted else [f"Its name is {name}, because {wanted} is taken."]


def _described(model: Model, caller: Agent) -> JsonObject:
    return {
        "provider": model.provider,
        "id": model.alias or model.id,
        "name": model.name,
        "context_window": model.context_window,
        "base_url": _address(model),
        "current": model == caller.model,
    }


def _address(model: Model) -> str | None:
    """The address of the model's server, without a password."""
    if model.base_url is None:
        return None
    try:
        return shown_url(base_url_of(model) or model.base_url)
    except PlanckError:
        return shown_url(model.base_url)
