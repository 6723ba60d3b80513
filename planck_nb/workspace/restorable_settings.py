"""What a stored session may give its agents.

That is everything if its user wrote the session, and only the text if someone else did. A session may come from
another person or another machine. Its conversation is restored in any case. Tools of the notebook
and of packages, addresses, grants, additional request fields and remembered rules are restored if the rows that hold
them are authentic, or if the user trusts the session. Tools of the workspace are restored in any case, because the
policy decides on each of their calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from planck_nb.agent.approval import Rule
from planck_nb.agent.identity import Grants
from planck_nb.agent.limits import Limits, restored_limits
from planck_nb.ai.model_lookup.stored_options import LEFT_OUT
from planck_nb.ai.server_address import shown_url
from planck_nb.base.json_types import JsonObject
from planck_nb.base.visible import noun_with_names, series
from planck_nb.sessions import AgentRecord, Session, SessionMembers
from planck_nb.sessions.journal.stored_values import texts_in
from planck_nb.sessions.members import sources_in
from planck_nb.workspace.session_settings import KEY, SessionSettings, read_rules
from planck_nb.workspace.stored_agents import WAITS

WAITING = "waiting"
"""The key of the session's metadata for what a plain resume has left out."""


@dataclass(frozen=True, slots=True)
class RestorableSettings:
    """Settings to restore from a session.

    Args:
        members: The agents of the session and the remembered rules, without what waits for trust.
        settings: The rules of the session.
        signed_settings: The settings as far as they are authentic, to know whether they have to be written.
        left_out: What was left out, in a few words for each kind.
        others_limits: New agents' limits from unsigned settings, by name.
        waiting: What was left out, as JSON data: to be stored under the key `WAITING`, because the agents that are
            started again are stored without it, and the user may trust the session later.
    """

    members: SessionMembers
    settings: SessionSettings
    signed_settings: SessionSettings
    left_out: tuple[str, ...] = ()
    others_limits: JsonObject = field(default_factory=dict[str, Any])
    waiting: JsonObject = field(default_factory=dict[str, Any])

    def limits(self, usual: Limits) -> Limits:
        """Return new agents' limits. Unsigned settings can only lower the usual ones."""
        signed_limits = restored_limits(self.settings.limits, usual, trusted=True)
        return restored_limits(self.others_limits, signed_limits, trusted=False)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules of the session. Those that allow something leave out agents not signed by this user."""
        members = self.members.members
        rules = (*self.settings.rules, *read_rules(("allow", rule.text) for rule in self.members.rules))
        own = tuple(member.identity.id for member in members if member.authentic)
        return rules if len(own) == len(members) else tuple(_not_for_others(rules, own))


def read_restorable_settings(
    session: Session, members: SessionMembers, *, trusted: bool, is_workspace_tool: Callable[[str], bool]
) -> RestorableSettings:
    """Decide what of a session is restored.

    Args:
        session: The session.
        members: Its agents and rules, as they are stored.
        trusted: Whether the user has asked to restore it as if they had written it.
        is_workspace_tool: Whether a tool of this name is one of the workspace: built in, or of a TOOL.json file.
    """
    metadata = session.get_metadata()
    stored = SessionSettings.of_stored(metadata.get(KEY))
    waiting = _LeftOut.of(metadata.get(WAITING))
    signed = SessionSettings.of_stored(session.get_signed_metadata(KEY))
    if trusted:
        everything = replace(
            members,
            members=tuple(replace(waiting.added_to(member), authentic=True) for member in members.members),
            rules=tuple(replace(rule, authentic=True) for rule in members.rules),
        )
        return RestorableSettings(everything, waiting.settings_with(stored), signed)
    denied = (rule for rule in stored.rules if rule.action == "deny")
    readable = {**stored.readable, **signed.readable}  # a limit grants nothing, so it needs no signature
    settings = replace(signed, rules=tuple(dict.fromkeys((*signed.rules, *denied))), readable=readable)
    kept = replace(
        members,
        members=tuple(_without_grants(member, is_workspace_tool) for member in members.members),
        rules=tuple(rule for rule in members.rules if rule.authentic),
    )
    rules = [str(rule) for rule in stored.rules if rule not in settings.rules]
    # Under another key, an earlier resume has stored the agents without what already waits.
    complete = replace(
        members,
        members=tuple(member if member.authentic else waiting.added_to(member) for member in members.members),
    )
    left_out = _left_out(complete, kept, rules)
    kept_for_later = waiting.with_session(complete, metadata.get(KEY)).data if left_out else {}
    return RestorableSettings(kept, settings, signed, tuple(left_out), stored.limits, kept_for_later)


@dataclass(frozen=True, slots=True)
class _LeftOut:
    """What a plain resume has left out of a session, until the user trusts it.

    Args:
        data: As it is stored: the settings, and by agent id the tools, grants, options and source of the model.
    """

    data: JsonObject

    @classmethod
    def of(cls, stored: object) -> _LeftOut:
        return cls(stored if isinstance(stored, dict) else {})

    def with_session(self, members: SessionMembers, settings: object) -> _LeftOut:
        """Add what these members have that is not authentic, and the stored settings."""
        if "settings" in self.data:
            settings = self.settings_with(SessionSettings.of_stored(settings)).stored()
        agents = {
            member.identity.id: {
                "tools": list(member.tools),
                "grants": asdict(member.grants),
                "grant_sources": list(member.grant_sources),
                "options": member.options,
                "model_source": member.model_source,
            }
            for member in members.members
            if not member.authentic
        }
        return _LeftOut({"settings": settings, "agents": {**self._agents, **agents}})

    def settings_with(self, stored: SessionSettings) -> SessionSettings:
        waiting = SessionSettings.of_stored(self.data.get("settings"))
        return replace(stored, rules=tuple(dict.fromkeys((*stored.rules, *waiting.rules))))

    def added_to(self, member: AgentRecord) -> AgentRecord:
        found = self._agents.get(member.identity.id)
        if not isinstance(found, dict):
            return member
        grants, sources = member.grants, member.grant_sources
        if grants == Grants() and isinstance(waiting := found.get("grants"), dict):
            grants = Grants(*(texts_in(waiting.get(name)) for name in _GRANTS))
            sources = sources_in(found.get("grant_sources"), len(grants.models))
        options, source = found.get("options"), found.get("model_source")
        known = None if WAITS in member.model_source else member.model_source
        return replace(
            member,
            tools=tuple(dict.fromkeys((*member.tools, *texts_in(found.get("tools"))))),
            grants=grants,
            grant_sources=sources,
            options={**options, **member.options} if isinstance(options, dict) else member.options,
            model_source=source if known is None and isinstance(source, dict) else member.model_source,
        )

    @property
    def _agents(self) -> JsonObject:
        agents = self.data.get("agents")
        return agents if isinstance(agents, dict) else {}


_GRANTS = ("tools", "skills", "models")


def left_out_sentence(session: str, left_out: Iterable[str], reason: str = "") -> str:
    """What to tell the user about what was left out.

    Args:
        session: The name of the session.
        left_out: What was left out.
        reason: A sentence about the user's key if it cannot be used.
    """
    said = (
        f"Session {session} was not written by you on this machine, so it continues without {series(left_out)}. "
        f"Give the agents what they need with --tools and --model, or everything with `%planck resume {session} "
        "--trust`."
    )
    return f"{said} {reason}".rstrip()


def _without_grants(member: AgentRecord, is_workspace_tool: Callable[[str], bool]) -> AgentRecord:
    if member.authentic:
        return member
    return replace(
        member,
        tools=tuple(name for name in member.tools if is_workspace_tool(name)),
        grants=Grants(),
        grant_sources=(),
        # Additional fields can name servers that the provider calls.
        options={name: value for name, value in member.options.items() if name not in {"extra", LEFT_OUT}},
    )


def _not_for_others(rules: Iterable[Rule], own: Sequence[str]) -> Iterable[Rule]:
    for rule in rules:
        if rule.action != "allow":
            yield rule
        elif ids := tuple(agent_id for agent_id in rule.agent_ids or own if agent_id in own):
            yield replace(rule, agent_ids=ids)


def _left_out(stored: SessionMembers, kept: SessionMembers, rules: Sequence[str]) -> list[str]:
    """Name everything left out, in full."""
    pairs = [(a, b) for a, b in zip(stored.members, kept.members, strict=True) if not a.removed]
    tools = sorted({name for before, after in pairs for name in before.tools if name not in after.tools})
    urls = {str(before.model_source.get("base_url") or "") for before, _ in pairs if not before.authentic}
    remembered = [rule.text for rule in stored.rules if rule not in kept.rules]
    grants = {
        name
        for before, after in pairs
        if before.grants != after.grants
        for name in (*before.grants.tools, *before.grants.skills, *before.grants.models)
    }
    fields = {
        name for before, after in pairs for name in before.options if before.options[name] != after.options.get(name)
    }
    found = {
        "remembered approval rule": [f"`{rule}`" for rule in dict.fromkeys((*rules, *remembered))],
        "tool": tools,
        "model server": sorted(shown_url(url) for url in urls - {""}),
        "grant": sorted(grants),
        "request field": sorted(fields),
    }
    return [noun_with_names(noun, names) for noun, names in found.items() if names]
