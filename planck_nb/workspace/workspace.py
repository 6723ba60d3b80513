"""A workspace: one session, its agents, and the store they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from planck_nb.agent.agent import Agent
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.tool import Tool
from planck_nb.ai.cassettes import Cassette
from planck_nb.ai.catalogue import get_model
from planck_nb.ai.client import Client
from planck_nb.ai.context import Options
from planck_nb.ai.models import Model
from planck_nb.base.errors import AgentError, did_you_mean
from planck_nb.base.eventlog import EventLog, Subscription
from planck_nb.config import Config
from planck_nb.sessions import Session, SessionInfo, list_sessions, query, query_async
from planck_nb.workspace.default_model import choose_model, paced

if TYPE_CHECKING:
    import pandas as pd

REPLAY = 10_000
"""Events of the session that are kept for subscribers that come late."""


class Workspace:
    """Agents that share a session. Builds what it needs on first use and closes it all with `close()`.

    `client` is who asks the models, by default one of the workspace's own, which has the cassette that the
    configuration names.
    """

    def __init__(self, config: Config | None = None, *, client: Client | None = None) -> None:
        self.config = config or Config.load()
        self.agents: dict[str, Agent] = {}
        """The agents by name, in the order they were made."""
        self._owns_client = client is None
        self._client = client or Client(cassette=_cassette(self.config))
        self._events: EventLog[AgentEvent] = EventLog(limit=REPLAY)
        self._session: Session | None = None
        self._model: Model | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def sessions_dir(self) -> Path:
        """Where sessions are kept."""
        return self.config.sessions_dir

    @property
    def session(self) -> Session:
        """The session that the agents write to; made when it is first asked for."""
        if self._session is None:
            self._session = Session.create(self.sessions_dir)
        return self._session

    @property
    def session_id(self) -> str | None:
        """The id of the session, None as long as nobody asked for one."""
        return self._session.id if self._session else None

    def model(self, reference: str, *, base_url: str | None = None) -> Model:
        """The model of this name, as the configuration wants it. Raises `ModelError` for an unknown one."""
        return paced(get_model(reference, base_url=base_url, own=self.config.models), self.config)

    @property
    def cassette(self) -> Cassette | None:
        """What model traffic is recorded to or replayed from, None when models are simply asked."""
        return self._client.cassette

    @cassette.setter
    def cassette(self, cassette: Cassette | None) -> None:
        self._client.cassette = cassette

    async def default_model(self) -> tuple[Model, str]:
        """The model for agents that name none, and a line to show when it is first used; see `choose_model`.

        Without a configured one a replay has the model that was recorded.
        """
        notice = ""
        if self._model is None and not self.config.default_model and (recorded := self._recorded_model()) is not None:
            self._model = get_model(recorded, own=self.config.models)
        if self._model is None:
            self._model, notice = await choose_model(self.config)
        return self._model, notice

    def set_default_model(self, model: Model) -> None:
        """Use this model for agents that name none from now on."""
        self._model = model

    def add_agent(
        self,
        name: str,
        *,
        model: Model,
        system_prompt: str = "",
        tools: Iterable[Tool | Callable[..., object]] = (),
        options: Options | None = None,
    ) -> Agent:
        """Make an agent whose messages are stored in the session. Raises `AgentError` where the name is taken."""
        if name in self.agents:
            raise AgentError(f"An agent named {name} exists already; choose another name.")
        agent = Agent(
            model=model,
            system_prompt=system_prompt,
            tools=tools,
            name=name,
            session=self.session,
            options=options,
            client=self._client,
            observers=(self._events,),
        )
        self.agents[name] = agent
        return agent

    def agent(self, name: str) -> Agent:
        """The agent of this name. Raises `AgentError` where there is none."""
        try:
            return self.agents[name]
        except KeyError:
            raise AgentError(f"No agent is named {name}. {did_you_mean(name, self.agents)}".rstrip()) from None

    async def remove_agent(self, name: str) -> None:
        """Stop the agent and forget its name; what it said stays in the session."""
        agent = self.agent(name)
        del self.agents[name]
        await agent.stop()

    def subscribe(
        self, *, session_id: str | None = None, agent_id: str | None = None, since: int | None = None
    ) -> Subscription[AgentEvent]:
        """Events of the whole session (the default), or of the agent with this id.

        `since=0` begins with the oldest event still kept. Raises `AgentError` for an agent or a session that is not
        of this workspace.
        """
        if agent_id is not None:
            for agent in self.agents.values():
                if agent.id == agent_id:
                    return agent.subscribe(since=since)
            raise AgentError(f"No agent of this workspace has the id {agent_id}.")
        if session_id is not None and session_id != self.session.id:
            raise AgentError(f"Session {session_id} is not open in this workspace.")
        return self._events.subscribe(since)

    def sessions(self) -> list[SessionInfo]:
        """All sessions in the directory, newest first."""
        return list_sessions(self.sessions_dir)

    def query(self, sql: str, *, frames: Mapping[str, object] | None = None, limit: int | None = None) -> pd.DataFrame:
        """Ask the stored history with SQL; see `planck_nb.sessions.query`.

        In the query `getvariable('session')` is the id of this workspace's session, null before its first agent.
        """
        return query(self.sessions_dir, sql, frames=frames, limit=limit, session=self.session_id)

    async def query_async(
        self, sql: str, *, frames: Mapping[str, object] | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Like `query`, while the event loop goes on; cancelling ends the query."""
        return await query_async(self.sessions_dir, sql, frames=frames, limit=limit, session=self.session_id)

    def _recorded_model(self) -> str | None:
        cassette = self.cassette
        return cassette.recorded_model if cassette is not None and cassette.mode in {"replay", "auto"} else None

    async def close(self) -> None:
        """Stop all agents and close the session. What was acknowledged is on disk already."""
        for name in list(self.agents):
            await self.remove_agent(name)
        self._events.close()
        if self._owns_client:
            await self._client.aclose()
        if self._session is not None:
            self._session.close()
            self._session = None


def _cassette(config: Config) -> Cassette | None:
    return None if config.cassette is None else Cassette(config.cassette, config.cassette_mode)
