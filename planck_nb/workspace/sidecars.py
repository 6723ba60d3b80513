"""The sidecars of a workspace: found in files, started if they are trusted, and offered to its agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeAlias
from weakref import WeakKeyDictionary

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import is_stopped
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.events import AgentEvent
from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import TrustError, UsageError
from planck_nb.base.event_log import EventLog, Subscription
from planck_nb.base.secrets import redact
from planck_nb.config import TrustItem
from planck_nb.config.named_files import remove_bytecode
from planck_nb.sidecars.mcp_client.link.status import SidecarEvent, SidecarStatus
from planck_nb.sidecars.mcp_client.oauth.sign_in import sign_in
from planck_nb.workspace.sidecar_files import (
    FoundSidecar,
    find_sidecars,
    read_sidecar_file,
    tools_item,
)
from planck_nb.workspace.sidecar_notices import SidecarNotices, missing_tools, untrusted_notice, untrusted_sidecar
from planck_nb.workspace.sidecar_offers import SidecarOffers, described_offers
from planck_nb.workspace.sidecar_sampling import SidecarSampling
from planck_nb.workspace.trusted_config import TrustedConfig

if TYPE_CHECKING:
    from planck_nb.agent.context.compactor import Compactor
    from planck_nb.sidecars.mcp_client.link.authorization import Authorize
    from planck_nb.sidecars.mcp_client.link.link import SidecarLink
    from planck_nb.sidecars.mcp_client.link.questions import Ask, Question, QuestionAnswer
    from planck_nb.sidecars.mcp_client.manager import Sidecars
    from planck_nb.sidecars.mcp_client.offers.definitions import LeftOut, ToolDefinition
    from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

_PROBLEMS = 5
"""Sentences about sidecars that cannot be used, in one notice."""

SIGN_IN_FOLDER = "sign-in"
"""The folder in the user's own folder with the tokens of servers that require a sign-in."""

NPX_SHELL = "npx-shell"
"""The file in the user's own folder with the shell for npx."""


class SidecarWaitView(Protocol):
    """A person's view during a wait for sidecars."""

    def update(self, names: Sequence[str]) -> None:
        """Show the remaining sidecars."""
        ...

    async def left(self) -> None:
        """Return when the person wants to go on without them."""
        ...


ShowWait: TypeAlias = Callable[[Sequence[str]], AbstractContextManager[SidecarWaitView | None]]
"""Shows a wait while the context is open; None for a wait without a way out."""


class WorkspaceSidecars:
    """The sidecars of a workspace.

    Args:
        config: The configuration, and what the user trusts.
        events: The events of all agents, which observers get.
        taken: Returns the names of other tools, which tools of sidecars must not have.
        session_id: Returns the id of the open session, empty if there is none.
        find_agent: Finds the agent with an id, or raises `AgentError`.
    """

    def __init__(
        self,
        config: TrustedConfig,
        events: EventLog[AgentEvent],
        *,
        taken: Callable[[], Collection[str]],
        session_id: Callable[[], str],
        find_agent: Callable[[str], Agent],
    ) -> None:
        self._config = config
        self._events = events
        self._taken = taken
        self._session_id = session_id
        self.ask: Ask | None = None
        """Shows a question of a sidecar to a person and returns the answer; None declines all questions."""
        self._sampling = SidecarSampling(self._ask, find_agent)
        self.offers = SidecarOffers(self.connected)
        """The resources and prompts of the sidecars."""
        self.progress = SidecarNotices()
        """What happened to sidecars and was not shown yet."""
        self._sidecars: Sidecars | None = None
        self._named: list[Path] = []
        self._added: dict[str, FoundSidecar] = {}
        """Sidecars as they were started, by name."""
        self._offered_tools: dict[str, TrustItem] = {}
        """Sidecars' latest tools by name, trusted or not."""
        self._followers: WeakKeyDictionary[Agent, dict[str, Tool]] = WeakKeyDictionary()
        """Agents that get the tools of all sidecars, with those that they were given."""
        self._name_owners: Mapping[str, tuple[str, str]] = {}
        """The stored session's owners, by name."""
        self._observing: asyncio.Task[None] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._names: tuple[str, ...] = ()
        """Sidecars from the first prompt's start."""
        self._left_behind: set[str] = set()
        """Sidecars without which the person went on."""
        self._changed = asyncio.Event()
        """Set after each event of a sidecar."""
        config.add_source(self.trust_items)

    # Finding and trusting them.

    def found(self) -> tuple[list[FoundSidecar], list[str]]:
        """Find the sidecars that files describe, and a sentence for each that cannot be used."""
        return find_sidecars(self._config.config, self._named)

    def trust_items(self) -> list[TrustItem]:
        """Return the project's sidecars, and the tools of started ones."""
        return [*(each.item for each in self.found()[0] if each.item is not None), *self._offered_tools.values()]

    def add_file(self, path: Path) -> tuple[list[str], list[str]]:
        """Use the sidecars of a file of another MCP client, without starting them.

        Args:
            path: The file, relative to the folder of the project.

        Returns:
            The names of the sidecars, and a sentence for each that cannot be used.

        Raises:
            ConfigError: The file cannot be read, or describes no sidecar that can be used.
        """
        file = self._config.config.root / path.expanduser()
        report = read_sidecar_file(file, self._config.config)
        if file not in self._named:
            self._named.insert(0, file)
        names = {spec.name for spec in report.specs}
        sidecars = (sidecar for sidecar in self.found()[0] if sidecar.is_own and sidecar.spec.name in names)
        self._config.folder_trust.add([sidecar.item for sidecar in sidecars if sidecar.item])  # as it is now
        return [spec.name for spec in report.specs], list(report.problems)

    def known_names(self) -> list[str]:
        """Return the names of all sidecars that files describe, whether trusted or not."""
        running = [] if self._sidecars is None else self._sidecars.names()
        return list(dict.fromkeys([*running, *(each.spec.name for each in self.found()[0])]))

    def notices(self) -> list[str]:
        """Return a sentence about sidecars that are not trusted, and one about each that cannot be used."""
        found, problems = self.found()
        untrusted = [each.spec.name for each in found if not self._is_trusted(each)]
        return [untrusted_notice(untrusted), *problems[:_PROBLEMS]]

    def rows(self) -> list[dict[str, object]]:
        """Describe all sidecars, started or not: name, state, transport, number of tools, source and a remark."""
        known = {} if self._sidecars is None else {status.name: status for status in self._sidecars.status()}
        rows = []
        for each in self.found()[0]:
            status = known.pop(each.spec.name, None) or SidecarStatus(each.spec.name, transport=each.spec.transport)
            trusted = each.item is None or self._config.folder_trust.accepts(each.item)
            remark = status.reason if trusted else "not trusted; look at it, then run `%planck trust`"
            rows.append(self._row(status, each.spec, remark))
        rows += [self._row(status, None, status.reason) for status in known.values()]
        return rows

    # Starting and stopping them.

    @property
    def manager(self) -> Sidecars:
        """All sidecars that were started, or are to be."""
        if self._sidecars is None:
            from planck_nb.sidecars.mcp_client.manager import Sidecars  # noqa: PLC0415 - with the first sidecar

            config = self._config.config
            self._sidecars = Sidecars(
                cwd=config.root,
                environment=config.environment(),
                ask=self._ask,
                sample=self._sampling.reply,
                refusal=self._refusal,
                accept=self._accept,
                on_event=self._on_event,
                on_tools=self._offer,
                add_tools=self._add_tools,
                taken=self._taken,
                session_id=self._session_id,
                auth=self._sign_in,
            )
            self._sidecars.restore_name_owners(self._name_owners)
        return self._sidecars

    async def start(self, names: Sequence[str] = ()) -> list[SidecarStatus]:
        """Start sidecars, and return when each of them is connected or has failed.

        Args:
            names: Which ones; by default all that the user trusts.

        Returns:
            Their states.

        Raises:
            TrustError: One that is named is not trusted.
            UsageError: There is no sidecar of such a name.
        """
        chosen = [self._trusted(name) for name in names] or list(filter(self._is_trusted, self.found()[0]))
        manager = self.manager
        for each in chosen:
            await self._add(each)
        return await manager.start([each.spec.name for each in chosen])

    async def connected(self, name: str) -> SidecarLink:
        """Return the link to a sidecar, which is started if it does not run.

        Args:
            name: The sidecar.

        Returns:
            The link, connected.

        Raises:
            SidecarError: It cannot be started.
            TrustError: It is not trusted.
            UsageError: There is no sidecar of this name.
        """
        if self._sidecars is None or name not in self._sidecars.names():
            await self.start([name])
        link = self.manager.link(name)
        await link.start()
        return link

    async def start_configured(self, wanted: Collection[str] | None = None, show: ShowWait | None = None) -> list[str]:
        """Start all trusted sidecars once, and wait for starting ones.

        Each start is waited for once: until it has ended, within its own time limit, or the person goes on without it.

        Args:
            wanted: The names of sidecars to wait for, None for all.
            show: Shows the wait to a person.

        Returns:
            Sentences about sidecars with missing tools.
        """
        if self._starting is None and (sidecars := list(filter(self._is_trusted, self.found()[0]))):
            self._names = tuple(sidecar.spec.name for sidecar in sidecars)
            self._starting = spawn(self._start_all(), name="planck-sidecars-start")
        if names := self._awaited(wanted):
            with nullcontext() if show is None else show(names) as view:
                await self._settle(wanted, view)
        failures: list[str] = []
        if self._sidecars is not None:
            self._sidecars.settle_names()
            failures = [status.name for status in self._sidecars.status() if status.state == "failed"]
        return missing_tools(self._being_started(), [name for name in failures if not self.progress.tells_of(name)])

    async def _settle(self, wanted: Collection[str] | None, view: SidecarWaitView | None) -> None:
        """Wait for starts, or for the person to go on without them."""
        leaving = asyncio.ensure_future(asyncio.Event().wait() if view is None else view.left())
        try:
            while names := self._awaited(wanted):
                if view is not None:
                    view.update(names)
                self._changed.clear()
                change = asyncio.create_task(self._changed.wait())
                ends = [change, leaving, *([self._starting] if self._starting is not None else ())]
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                change.cancel()
                if leaving.done():
                    self._left_behind.update(names)
        finally:
            leaving.cancel()

    def _awaited(self, wanted: Collection[str] | None) -> list[str]:
        """Return the sidecars for which a prompt waits."""
        names = [name for name in self._being_started() if name not in self._left_behind]
        return names if wanted is None else [name for name in names if name in wanted]

    def _being_started(self) -> list[str]:
        """Return the sidecars whose first start goes on, in order."""
        if self._starting is None or self._starting.done():
            return []
        states = {} if self._sidecars is None else {status.name: status.state for status in self._sidecars.status()}
        return [name for name in self._names if states.get(name) not in ("connected", "failed")]

    async def stop(self, names: Sequence[str] = ()) -> None:
        """Stop sidecars and everything that they started; all by default. One that does not run stays as it is.

        Raises:
            UsageError: There is no sidecar of such a name.
        """
        running = [] if self._sidecars is None else self._sidecars.names()
        for name in names:
            if name not in running:
                self._described(name)
        if self._sidecars is not None:
            await self._sidecars.stop([name for name in running if not names or name in names])

    def logs(self, name: str, count: int) -> list[str]:
        """Return the newest lines that a sidecar wrote, none if it was not started.

        Args:
            name: The sidecar.
            count: How many lines at most.

        Raises:
            UsageError: There is no sidecar of this name.
        """
        if self._sidecars is None or name not in self._sidecars.names():
            self._described(name)
            return []
        return self._sidecars.logs(name, count)

    async def aclose(self) -> None:
        """Stop all sidecars for good."""
        tasks = [task for task in (self._starting, self._observing) if task is not None]
        self._starting = self._observing = None
        await cancel_and_wait(*tasks)
        await self.offers.aclose()
        if self._sidecars is not None:
            await self._sidecars.aclose()
            self._sidecars = None

    def name_owners(self) -> Mapping[str, tuple[str, str]]:
        """Return the session's names for tools and sidecars, with their owners."""
        return self._name_owners if self._sidecars is None else self._sidecars.name_owners()

    def restore_name_owners(self, owners: Mapping[str, tuple[str, str]]) -> None:
        """Keep a stored session's names for their owners."""
        self._name_owners = owners
        if self._sidecars is not None:
            self._sidecars.restore_name_owners(owners)

    # What they offer.

    def tools(self) -> Mapping[str, Tool]:
        """The tools of all connected sidecars by name."""
        return {} if self._sidecars is None else {tool.name: tool for tool in self._sidecars.all_tools()}

    def tool_names(self, name: str) -> dict[str, str]:
        """Return a sidecar's tools by name, with its own name for each."""
        if self._sidecars is None or name not in self._sidecars.names():
            return {}
        names = [tool.name for tool in self._sidecars.tools_of(name)]
        return {tool: owner[1] for tool in names if (owner := self._sidecars.owner(tool)) is not None}

    def left_out(self, name: str) -> list[LeftOut]:
        """Return the unusable items in a sidecar's lists."""
        return [] if self._sidecars is None or name not in self._sidecars.names() else self._sidecars.left_out(name)

    async def described(self, name: str) -> list[dict[str, str]]:
        """Describe what a sidecar offers: tools, compactors and observers, prompts and resources.

        Args:
            name: The sidecar, which must be connected.

        Returns:
            For each its kind, its name or address, how it runs if the sidecar says so, its description, and a remark
            if it is renamed or left out.

        Raises:
            UsageError: There is no sidecar of this name, or it is not connected.
        """
        state = "idle"
        if self._sidecars is not None and name in self._sidecars.names():
            state = self._sidecars.link(name).status().state
        else:
            self._described(name)
        if self._sidecars is None or state != "connected":
            raise UsageError(
                f"The sidecar {name} is {state}, so what it offers is not known; start it with "
                f"`%planck sidecar start {name}`."
            )
        link = self._sidecars.link(name)
        offers = await self.offers.current(name)
        names = {original: tool for tool, original in self.tool_names(name).items() if original != tool}
        rows = described_offers(link.definitions(), offers, names, self.left_out(name))
        return [{key: redact(text, link.spec.secrets()) for key, text in row.items()} for row in rows]

    def groups(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the tools of each sidecar."""
        if self._sidecars is None:
            return {}
        names = self._sidecars.names()
        return {name: tuple(tool.name for tool in self._sidecars.tools_of(name)) for name in names}

    def compactors(self) -> list[str]:
        """The names of the compactors of connected sidecars."""
        return [] if self._sidecars is None else list(self._sidecars.compactors())

    def compactor(self, name: str) -> Compactor | None:
        """The compactor of this name of a connected sidecar, with the built-in one to fall back on; else None."""
        if self._sidecars is None or name not in self._sidecars.compactors():
            return None
        return self._sidecars.compactor(name, ratio=self._config.config.compact_ratio)

    def follow(self, agent: Agent) -> None:
        """Give an agent the tools of all sidecars, and from now on add and remove them as they come and go."""
        self._followers.setdefault(agent, {})
        self._offer_to(agent, self._offered())

    # Private.

    def _on_event(self, event: SidecarEvent) -> None:
        if event.kind in ("connected", "tools_changed"):
            self.offers.refresh(self.manager.link(event.sidecar))
        self._observe()
        self._changed.set()
        self.progress.add(event, self.tool_names(event.sidecar), self.left_out(event.sidecar))

    def _row(self, status: SidecarStatus, spec: SidecarSpec | None, remark: str) -> dict[str, object]:
        is_connected = status.state == "connected"
        if is_connected and (left_out := self.left_out(status.name)):
            remark = f"{len(left_out)} left out; see `%planck sidecar list {status.name}`"
        return {
            "sidecar": status.name,
            "state": status.state,
            "transport": status.transport,
            "tools": len(self.tool_names(status.name)) if is_connected else status.tools,
            "source": "" if spec is None or spec.source is None else str(spec.source),
            "remark": remark,
        }

    async def _ask(self, question: Question) -> QuestionAnswer | None:
        return None if self.ask is None else await self.ask(question)

    def _is_trusted(self, found: FoundSidecar) -> bool:
        return found.item is None or self._config.folder_trust.accepts(found.item)

    def _described(self, name: str) -> FoundSidecar:
        """The sidecar of this name that a file describes. Raises `UsageError` if there is none."""
        found = {each.spec.name: each for each in self.found()[0]}
        if name not in found:
            known = ", ".join(found) or "none"
            raise UsageError(f"There is no sidecar {name}; known are: {known}. `%planck sidecar add FILE` adds some.")
        return found[name]

    def _trusted(self, name: str) -> FoundSidecar:
        found = self._described(name)
        if not self._is_trusted(found):
            raise TrustError(untrusted_sidecar(name))
        return found

    async def _add(self, found: FoundSidecar) -> None:
        """Let the manager know the sidecar as its file describes it now."""
        manager, spec = self.manager, self._permitted(found)
        self._added[spec.name] = found
        if spec.name in manager.names():
            if manager.link(spec.name).spec == spec:
                return
            await manager.remove(spec.name)
        if found.folder is not None:
            manager.add_project(found.folder, spec.name, sampling=spec.sampling, roots=spec.roots)
        else:
            manager.add(spec)

    def _permitted(self, found: FoundSidecar) -> SidecarSpec:
        """The spec with the permissions that the settings give by name; a file of the project gives none."""
        config, spec, is_own = self._config.config, found.spec, found.is_own
        if is_own and found.item is None:  # its modules and packages are elsewhere
            spec = replace(spec, env={"PYTHONSAFEPATH": "1", **spec.env}, npx_shell=self._npx_shell(spec))
        return replace(
            spec,
            sampling=spec.name in config.sidecar_sampling or (spec.sampling and is_own),
            roots=spec.name in config.sidecar_roots or (spec.roots and is_own),
            observers=spec.name in config.sidecar_observers or found.folder is not None,
        )

    def _npx_shell(self, spec: SidecarSpec) -> Path | None:
        """Return the file for npx's shell, if the sidecar's working directory is in the project."""
        config = self._config.config
        folder = config.root if spec.cwd is None else config.root / spec.cwd.expanduser()
        is_inside = folder.resolve().is_relative_to(config.root.resolve())
        return config.user_folder / NPX_SHELL if is_inside and config.user_folder is not None else None

    async def _start_all(self) -> None:
        """Start all trusted sidecars, except those whose start has failed."""
        states = {} if self._sidecars is None else {status.name: status.state for status in self._sidecars.status()}
        if names := [name for name in self._names if states.get(name) != "failed"]:
            await self.start(names)

    def _accept(self, spec: SidecarSpec, _digest: str, tools: tuple[ToolDefinition, ...]) -> bool:
        """Whether a sidecar with these tools may be used: those that it had when it was trusted, or its first ones."""
        trust = self._config.folder_trust
        self._offered_tools[spec.name] = item = tools_item(self._added.get(spec.name), spec, tools)
        if not trust.accepts(item) and trust.trusted(item) is None:
            trust.add([item])
        return trust.accepts(item)

    def _refusal(self, spec: SidecarSpec) -> str:
        """Return why a sidecar must not be started, if so."""
        added = self._added.get(spec.name)
        sidecar = next((item for item in self.found()[0] if item.spec.name == spec.name), None)
        if added is None or added.item is None:  # the user's own
            return ""
        if sidecar is None or sidecar.item is None or (sidecar.folder is None and self._permitted(sidecar) != spec):
            return f"The sidecar {spec.name} is no longer described as it was started, so it was not started again."
        if not self._is_trusted(sidecar):
            return f"{untrusted_sidecar(spec.name)} It was not started."
        remove_bytecode(sidecar.files, self._config.config.root)
        return ""

    def _sign_in(self, spec: SidecarSpec) -> Authorize | None:
        folder = self._config.config.user_folder
        return None if folder is None else sign_in(spec, folder / SIGN_IN_FOLDER)

    def _offered(self) -> dict[str, Tool]:
        return {} if self._sidecars is None else {tool.name: tool for tool in self._sidecars.tools()}

    def _add_tools(self, agent_id: str, tools: Sequence[Tool]) -> None:
        """Give an agent tools that it has found by searching."""
        for agent in list(self._followers):
            if agent.id == agent_id:
                for tool in tools:
                    agent.add_tool(tool)

    def _offer(self) -> None:
        """Give the agents that follow the sidecars what they offer now."""
        offered = self._offered()
        for agent in list(self._followers):
            if is_stopped(agent):
                del self._followers[agent]
            else:
                self._offer_to(agent, offered)

    def _offer_to(self, agent: Agent, offered: Mapping[str, Tool]) -> None:
        given = self._followers[agent]
        present = {tool.name: tool for tool in agent.tools}
        for name, tool in given.items():
            if name not in offered and present.get(name) is tool:
                agent.remove_tool(name, reason=self._absence(name))
        for name, tool in offered.items():
            if given.get(name) is not tool and (name not in present or present[name] is given.get(name)):
                agent.add_tool(tool)  # what the user has given under this name stays
        self._followers[agent] = dict(offered)

    def _absence(self, tool: str) -> str:
        """Return a sentence about a stopped sidecar's tool."""
        owner = "" if self._sidecars is None else self._sidecars.former_owner(tool)
        return f"{tool} belongs to the sidecar {owner}, which is not running; go on without it." if owner else ""

    def _observe(self) -> None:
        """Pass the events of all agents on while a sidecar has an observer; otherwise nothing looks at them."""
        sidecars = self._sidecars
        wanted = sidecars is not None and sidecars.has_observers()
        if self._observing is not None and not wanted:
            self._observing.cancel()
            self._observing = None
        elif sidecars is not None and wanted and (self._observing is None or self._observing.done()):
            passing_on = self._pass_on(sidecars, self._events.subscribe())
            self._observing = spawn(passing_on, name="planck-sidecars-observe")

    @staticmethod
    async def _pass_on(sidecars: Sidecars, events: Subscription[AgentEvent]) -> None:
        async for event in events:
            sidecars.observe(event)
