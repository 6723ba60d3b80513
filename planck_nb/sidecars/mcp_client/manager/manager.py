"""`Sidecars`: a notebook's sidecars by name, and their common offers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.context.compactor import KEEP_RECENT, RATIO, Compactor
from planck_nb.agent.events import AgentEvent
from planck_nb.ai.models import Model
from planck_nb.base.errors import PlanckError, SidecarError, UsageError, did_you_mean
from planck_nb.base.json_types import JsonObject
from planck_nb.base.visible import visible
from planck_nb.sidecars.conventions import COMPACTOR_PREFIX, ROLE_COMPACTOR, ROLE_OBSERVER, ROLE_TOOL
from planck_nb.sidecars.mcp_client.link.authorization import Authorize
from planck_nb.sidecars.mcp_client.link.link import SidecarLink
from planck_nb.sidecars.mcp_client.link.settings import Accept, LinkCallbacks, LinkTiming, Refusal
from planck_nb.sidecars.mcp_client.link.status import SidecarEvent, SidecarStatus
from planck_nb.sidecars.mcp_client.manager.environment import SidecarEnvironment
from planck_nb.sidecars.mcp_client.manager.observers import EventQueue
from planck_nb.sidecars.mcp_client.manager.remote_compactors import remote_compactor, sidecar_compactor
from planck_nb.sidecars.mcp_client.manager.search import SEARCH_NAME, search_tool
from planck_nb.sidecars.mcp_client.offers.definitions import LeftOut, ToolDefinition
from planck_nb.sidecars.mcp_client.offers.fingerprint import fingerprint
from planck_nb.sidecars.mcp_client.offers.offered_tools import make_tool, prefixed, problem_with, tool_name
from planck_nb.sidecars.mcp_client.sidecar_spec import PROJECT_NAME, SidecarSpec
from planck_nb.tools.reserved_names import is_reserved

if TYPE_CHECKING:
    from planck_nb.sidecars.mcp_client.link.questions import Ask
    from planck_nb.sidecars.mcp_client.link.sampling import Sample

SEARCH_THRESHOLD = 40
"""Largest number of tools to give directly.

With more tools, agents get a tool which finds them.
"""


@dataclass(frozen=True, slots=True)
class OfferedTools:
    """All sidecars' tools under the models' names for them.

    Args:
        tools: The tools by name.
        owners: Each tool's sidecar and its own name there, by name.
        left_out: For each other tool, its sidecar, its name there, and the reason as the end of a sentence.
        notes: A sentence for each tool which is renamed here or left out.
    """

    tools: Mapping[str, Tool]
    owners: Mapping[str, tuple[str, str]]
    left_out: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()


def _no_names() -> Collection[str]:
    return ()


def _no_session() -> str:
    return ""


class Sidecars:
    """A notebook's sidecars.

    All callbacks are optional and are called on the sidecars' event loop. Methods which do not wait can be called from
    any thread.

    Args:
        cwd: The session's folder: working directory for sidecars without their own.
        environment: The kernel's environment, from which a few harmless variables are passed on; `os.environ` by
            default.
        ask: Shows a sidecar's question to a person; without it all questions are declined.
        sample: Has a model reply for a sidecar whose spec allows it, after approval; without it, requests are refused.
        refusal: Called before each start of a sidecar; returns a sentence if it must not be started.
        accept: Called with each new fingerprint of a sidecar and its tools; decides whether it may be used. Without it
            all may.
        on_event: Called with each sidecar's events.
        on_tools: Called when the tools may have changed, for passing them to running agents.
        add_tools: Called with an agent's id and the tools which it has found; without it searching is off.
        taken: Returns names which are not available for tools in sidecars.
        session_id: Returns the current session's id, for the sidecars.
        timing: Times for the links.
        search_threshold: With more tools than this, `tools` returns the search tool instead.
        auth: Returns the authentication for a spec, such as `sign_in(spec, folder)`; without it no sign-in is offered.

    Example:
        >>> sidecars = Sidecars()
        >>> sidecars.add(SidecarSpec("files", command="some-server"))
        >>> [status.state for status in sidecars.status()]
        ['idle']
    """

    def __init__(
        self,
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        ask: Ask | None = None,
        sample: Sample | None = None,
        refusal: Refusal | None = None,
        accept: Accept | None = None,
        on_event: Callable[[SidecarEvent], None] | None = None,
        on_tools: Callable[[], None] | None = None,
        add_tools: Callable[[str, Sequence[Tool]], None] | None = None,
        taken: Callable[[], Collection[str]] = _no_names,
        session_id: Callable[[], str] = _no_session,
        timing: LinkTiming | None = None,
        search_threshold: int = SEARCH_THRESHOLD,
        auth: Callable[[SidecarSpec], Authorize | None] | None = None,
    ) -> None:
        self._cwd = cwd
        self._environment = environment
        self._callbacks = LinkCallbacks(
            ask=ask,
            sample=sample,
            refusal=refusal,
            accept=accept,
            on_event=self._on_event,
            on_tools=self._refresh,
        )
        self._event_handler = on_event
        self._tools_handler = on_tools
        self._add_tools = add_tools
        self._taken = taken
        self._session_id = session_id
        self._timing = timing
        self._search_threshold = search_threshold
        self._auth = auth
        self._links: dict[str, SidecarLink] = {}
        self._offered = OfferedTools({}, {})
        self._events: EventQueue | None = None
        """The queue, made with the first observer."""
        self._names = _OwnedNames()
        self._are_names_settled = False
        self._made: dict[tuple[str, str, str], Tool] = {}
        """Earlier tools by sidecar, definition and name.

        Running agents thereby keep the same ones.
        """

    # The sidecars

    def add(self, spec: SidecarSpec, *, environment: SidecarEnvironment | None = None) -> None:
        """Add a sidecar without starting it.

        Args:
            spec: The way to start or reach it.
            environment: Built before it starts.

        Raises:
            UsageError: If the name is in use.
        """
        if spec.name in self._links:
            if self._links[spec.name].spec == spec:
                return
            raise UsageError(f"There is a sidecar {spec.name} already; remove it first, or give this one another name.")
        self._links[spec.name] = SidecarLink(
            spec,
            callbacks=self._callbacks,
            cwd=self._cwd,
            environment=self._environment,
            timing=self._timing,
            auth=None if self._auth is None else self._auth(spec),
            build=None if environment is None else environment.build,
        )

    def add_project(
        self, folder: Path, name: str = PROJECT_NAME, *, sampling: bool = False, roots: bool = False
    ) -> SidecarSpec:
        """Add the sidecar in a folder with a pyproject.toml, without starting it.

        Args:
            folder: The folder.
            name: The sidecar's name.
            sampling: Whether it may ask the user's models for replies.
            roots: Whether it is told the session's folder.

        Returns:
            Its spec.

        Raises:
            UsageError: If the name is in use.
        """
        environment = SidecarEnvironment(folder, environment=self._environment)
        spec = replace(environment.spec(name), sampling=sampling, roots=roots)
        self.add(spec, environment=environment)
        return spec

    def names(self) -> list[str]:
        """Return all sidecars' names, in the order in which they were added."""
        return list(self._links)

    def specs(self) -> list[SidecarSpec]:
        """Return all sidecars' specs, in the order in which they were added."""
        return [link.spec for link in self._links.values()]

    def link(self, name: str) -> SidecarLink:
        """Return the link to a sidecar.

        Raises:
            UsageError: If the name is unknown.
        """
        if name not in self._links:
            hint = did_you_mean(name, self._links) or "Add one with `%planck sidecar add FILE`."
            raise UsageError(f"There is no sidecar {name}. {hint}")
        return self._links[name]

    async def start(self, names: Iterable[str] | None = None) -> list[SidecarStatus]:
        """Start sidecars at the same time, and wait for all results.

        Args:
            names: The sidecars, None for all.

        Returns:
            Their states, in the same order; `reason` explains a failure.

        Raises:
            UsageError: If a name is unknown.
        """
        links = self._named(names)
        results = await asyncio.gather(*(link.start() for link in links), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, SidecarError):
                raise result
        self._refresh()
        return [link.status() for link in links]

    async def stop(self, names: Iterable[str] | None = None) -> None:
        """Stop sidecars and everything started by them.

        Args:
            names: The sidecars, None for all.

        Raises:
            UsageError: If a name is unknown.
        """
        await asyncio.gather(*(link.stop() for link in self._named(names)))
        self._refresh()

    async def restart(self, names: Iterable[str] | None = None) -> list[SidecarStatus]:
        """Stop sidecars and start them again, like `stop` and `start`."""
        selection = [link.name for link in self._named(names)]
        await self.stop(selection)
        return await self.start(selection)

    async def remove(self, name: str) -> None:
        """Stop a sidecar and forget it.

        Raises:
            UsageError: If the name is unknown.
        """
        await self.link(name).stop()
        self._links.pop(name, None)
        self._refresh()

    async def aclose(self) -> None:
        """Stop all sidecars, and drop the remaining events."""
        if self._events is not None:
            self._events.close()
            self._events = None
        await self.stop()

    def status(self, name: str | None = None) -> list[SidecarStatus]:
        """Return the states of all sidecars or of one, without waiting.

        Raises:
            UsageError: If the name is unknown.
        """
        return [link.status() for link in (self._links.values() if name is None else [self.link(name)])]

    def logs(self, name: str, count: int | None = None) -> list[str]:
        """Return a sidecar's newest lines, the oldest first.

        They are without control codes and secrets.

        Args:
            name: The sidecar.
            count: Number of lines, None for all available ones.

        Raises:
            UsageError: If the name is unknown.
        """
        return self.link(name).logs(count)

    # What they offer

    def tools(self) -> list[Tool]:
        """Return the tools for an agent with all sidecars.

        These are all tools, or the tool which finds them.
        """
        available = list(self._offered.tools.values())
        if len(available) <= self._search_threshold or self._add_tools is None:
            return available
        return [search_tool(lambda: list(self._offered.tools.values()), self._add_tools)]

    def all_tools(self) -> list[Tool]:
        """Return all sidecars' tools, however many, such as for resolving names."""
        return list(self._offered.tools.values())

    def tools_of(self, name: str) -> list[Tool]:
        """Return a sidecar's tools.

        Raises:
            UsageError: If the name is unknown.
        """
        self.link(name)
        owners = self._offered.owners
        return [tool for key, tool in self._offered.tools.items() if owners[key][0] == name]

    def left_out(self, name: str) -> list[LeftOut]:
        """Return the unusable items in a sidecar's lists.

        Raises:
            UsageError: If the name is unknown.
        """
        rest = [item for item in self.link(name).left_out() if item.kind != "tool"]
        tools = self._offered.left_out
        return [*(LeftOut("tool", tool, reason) for sidecar, tool, reason in tools if sidecar == name), *rest]

    def owner(self, tool: str) -> tuple[str, str] | None:
        """Return a tool's sidecar and its name there, by the models' name."""
        return self._offered.owners.get(tool)

    def former_owner(self, tool: str) -> str:
        """Return a tool's sidecar in this session, even if stopped."""
        return self._names.owner(tool)

    def name_owners(self) -> dict[str, tuple[str, str]]:
        """Return the session's names with their owners, to be stored with it."""
        self._names.use_session(self._session_id())
        return self._names.owners()

    def settle_names(self) -> None:
        """Keep all tools' names for their owners, before a model sees them.

        Without this, tools from a sidecar which was added earlier get the names even if it starts later.
        """
        self._are_names_settled = True
        self._refresh()

    def restore_name_owners(self, owners: Mapping[str, tuple[str, str]]) -> None:
        """Keep the names of a stored session for their owners."""
        self._names.use_session(self._session_id())
        self._names.keep(owners)
        self._refresh()

    def notes(self) -> list[str]:
        """Return a sentence for each renamed tool, missing tool and idle observer.

        If there is a search, it has one, too.
        """
        sentences = list(self._offered.notes)
        count = len(self._offered.tools)
        if count > self._search_threshold and self._add_tools is not None:
            sentences.append(
                f"The sidecars offer {count} tools, more than {self._search_threshold}; agents get the tool "
                f"{SEARCH_NAME} instead, which finds and adds them."
            )
        return sentences

    # Compactors and observers

    def compactors(self) -> dict[str, str]:
        """Return the available compactors with their sidecars' names.

        Among compactors with the same name, all but the first are listed as "SIDECAR/NAME".
        """
        compactors: dict[str, str] = {}
        for link in self._links.values():
            for definition in link.definitions():
                if definition.role == ROLE_COMPACTOR:
                    name = definition.name.removeprefix(COMPACTOR_PREFIX)
                    compactors[f"{link.name}/{name}" if name in compactors else name] = link.name
        return compactors

    def compactor(
        self,
        name: str,
        *,
        model: Model | str | None = None,
        ratio: float = RATIO,
        keep_recent: int = KEEP_RECENT,
    ) -> Compactor:
        """Make a compactor which calls a sidecar's compactor.

        It is looked up at each call, so the sidecar may be connected later. The built-in compactor, with the same
        settings, decides when to compact, and is used instead after any failure: an unknown compactor, an unconnected
        sidecar, a timeout, or an invalid result. That emits the event "compactor_failed".

        Args:
            name: Its name, or "SIDECAR/NAME".
            model: The model for the built-in compactor's summary; None for the agent's own.
            ratio: The fraction of the context window above which the conversation is compacted.
            keep_recent: Approximate number of messages which the built-in compactor keeps.

        Returns:
            The compactor. A session stores it under this name.

        Raises:
            ConfigError: If `ratio` or `keep_recent` is out of range.
        """
        self._find_compactor(name)  # from now on the name is this sidecar's
        on_failure = partial(self._compactor_failed, name)
        return sidecar_compactor(
            name, self._call_compactor, on_failure=on_failure, model=model, ratio=ratio, keep_recent=keep_recent
        )

    def remote_compactor(self, name: str) -> Compactor:
        """Make a compactor like `compactor`, without the built-in fallback.

        It serves for restoring a compactor from a session.
        """
        return remote_compactor(name, self._call_compactor, on_failure=partial(self._compactor_failed, name))

    def has_observers(self) -> bool:
        """Return whether a running or restarting sidecar has an observer.

        Otherwise `observe` has no effect.
        """
        return any(
            link.spec.observers
            and link.status().state not in ("idle", "failed")
            and any(definition.role == ROLE_OBSERVER for definition in link.definitions())
            for link in self._links.values()
        )

    def observe(self, event: AgentEvent) -> None:
        """Pass a session's event on to all observers, in batches.

        This does not wait, and can be called from any thread.

        Args:
            event: The event. Deltas and progress are not passed on.
        """
        if self._events is not None:
            self._events.add(event)

    async def flush(self) -> None:
        """Wait until the observers have received all events so far."""
        if self._events is not None:
            await self._events.flush()

    def _find_compactor(self, name: str) -> tuple[SidecarLink, ToolDefinition] | None:
        sidecar, _, compactor = name.rpartition("/")
        for link in self._links.values():
            owner = (_identity(link), "")
            if not self._names.is_free(f"{_COMPACTOR}{name}", owner):
                continue
            for definition in link.definitions():
                matches = (
                    definition.role == ROLE_COMPACTOR and definition.name.removeprefix(COMPACTOR_PREFIX) == compactor
                )
                if matches and sidecar in ("", link.name):
                    self._names.keep({f"{_COMPACTOR}{name}": owner})
                    return link, definition
        return None

    async def _call_compactor(self, name: str, arguments: JsonObject) -> Any:  # noqa: ANN401 - an mcp_types.CallToolResult
        match = self._find_compactor(name)
        if match is None:
            hint = did_you_mean(name, self.compactors())
            raise SidecarError(f"No sidecar that is connected has a compactor {name}. {hint}".rstrip())
        link, definition = match
        if (status := link.status()).state != "connected":  # an agent cannot go on before its messages are compacted
            raise SidecarError(f"The sidecar {link.name} is {status.state}; see `%planck sidecar list`.")
        return await link.call_raw(definition.name, arguments, session_id=self._session_id())

    def _compactor_failed(self, name: str, reason: str) -> None:
        match = self._find_compactor(name)
        self._on_event(SidecarEvent("" if match is None else match[0].name, "compactor_failed", reason))

    async def _deliver(self, events: list[JsonObject]) -> None:
        """Call all observers in connected sidecars.

        A failure is noted in the sidecar's log.
        """
        arguments: JsonObject = {"events": events, "session_id": self._session_id()}

        async def call(link: SidecarLink, definition: ToolDefinition) -> None:
            try:
                await link.call(definition.name, arguments, session_id=self._session_id())
            except PlanckError as error:
                link.note(f"The observer {definition.name} failed: {error}")

        await asyncio.gather(*(call(link, definition) for link, definition in self._observers()))

    def _observers(self) -> list[tuple[SidecarLink, ToolDefinition]]:
        return [
            (link, definition)
            for link in self._links.values()
            if link.spec.observers and link.status().state == "connected"
            for definition in link.definitions()
            if definition.role == ROLE_OBSERVER
        ]

    def _named(self, names: Iterable[str] | None) -> list[SidecarLink]:
        return list(self._links.values()) if names is None else [self.link(name) for name in names]

    def _on_event(self, event: SidecarEvent) -> None:
        if self._event_handler is not None:
            self._event_handler(event)

    def _refresh(self) -> None:
        """Compute the tools again, after any sidecar's change."""
        before = self._offered
        self._offered = self._collect()
        if (self._events is None or self._events.is_closed) and self._observers():
            self._events = EventQueue(self._deliver)
        if self._tools_handler is not None and dict(before.tools) != dict(self._offered.tools):
            self._tools_handler()

    def _collect(self) -> OfferedTools:
        tools: dict[str, Tool] = {}
        owners: dict[str, tuple[str, str]] = {}
        notes: list[str] = []
        left_out: list[tuple[str, str, str]] = []
        reserved_names = {name.lower() for name in self._taken()} | {SEARCH_NAME}
        keys: set[tuple[str, str, str]] = set()
        running: set[str] = set()
        tool_owners: dict[str, tuple[str, str]] = {}
        self._names.use_session(self._session_id())
        links = list(self._links.values())
        for link in links:
            if link.status().state in ("idle", "failed"):
                continue
            running.add(link.name)
            identity = _identity(link)
            address = self._names.address(link.name, identity)
            tool_owners[f"{_SIDECAR}{link.name}"] = identity, ""
            for definition in link.definitions():
                label = visible(definition.name[:100])
                if definition.role == ROLE_OBSERVER and not link.spec.observers:
                    notes.append(
                        f"The observer {label} of the sidecar {link.name} gets nothing, because the setting "
                        f"sidecar_observers does not name {link.name}."
                    )
                if definition.role != ROLE_TOOL:
                    continue
                if problem := problem_with(definition):
                    left_out.append((link.name, definition.name, problem))
                    continue
                short = tool_name(definition.name)
                names = [short, prefixed(link.name, short)]
                owner = (identity, definition.name)
                not_free = {name.lower() for name in names if is_reserved(name)} | reserved_names
                names_left = [name for name in names if name.lower() not in not_free and name not in tools]
                name = next((name for name in names_left if self._names.is_free(name, owner)), "")
                if not name:
                    left_out.append((link.name, definition.name, f"there is another {names[1]}"))
                    continue
                if name != definition.name:
                    notes.append(f"The tool {label} of the sidecar {link.name} is called {name} here.")
                key = (address, repr(definition), name)
                keys.add(key)
                tool_owners[name] = owner
                tools[name] = self._tool(key, definition, link.name, identity)
                owners[name] = (link.name, definition.name)
            left_out += [(link.name, item.name, item.reason) for item in link.left_out() if item.kind == "tool"]
        # The order of the configuration decides about names, not who is faster, until a model is shown them.
        starting = (at for at, link in enumerate(links) if link.status().state in ("building", "starting"))
        first = len(links) if self._are_names_settled else next(starting, len(links))
        stable = {_identity(link) for link in links[:first]}
        self._names.keep(
            {name: owner for name, owner in tool_owners.items() if name.startswith(_SIDECAR) or owner[0] in stable}
        )
        self._made = {
            key: tool for key, tool in self._made.items() if key in keys or key[0].partition("~")[0] not in running
        }
        notes += [
            f"The tool {visible(tool[:100])} of the sidecar {sidecar} is left out, because {visible(reason)}."
            for sidecar, tool, reason in left_out
        ]
        return OfferedTools(tools, owners, tuple(left_out), tuple(notes))

    def _tool(self, key: tuple[str, str, str], definition: ToolDefinition, sidecar: str, identity: str) -> Tool:
        """Return the tool, the same object as before if it is unchanged."""
        if key not in self._made:
            address, _, name = key
            self._made[key] = make_tool(address, definition, name, _ByName(self, sidecar, identity), self._session_id)
        return self._made[key]


_SIDECAR = "sidecar:"
_COMPACTOR = "compactor:"
"""Prefixes for sidecars and compactors among the names of tools."""


def _identity(link: SidecarLink) -> str:
    return f"{link.name} {fingerprint(link.spec)}"


class _OwnedNames:
    """The owners of tools' names in one session.

    Conversations and permissions refer to tools by name, so a name never passes to another sidecar's tool: not after a
    stop or a crash, and not to a sidecar that only has the same name.
    """

    def __init__(self) -> None:
        self._owners: dict[str, tuple[str, str]] = {}
        self._session_id = ""

    def use_session(self, session_id: str) -> None:
        """Begin anew if the session changed."""
        if session_id != self._session_id:
            self._session_id = session_id
            self._owners.clear()

    def is_free(self, name: str, owner: tuple[str, str]) -> bool:
        """Return whether a tool can have a name.

        Args:
            name: The name.
            owner: The sidecar's name and fingerprint, and its own name for the tool.
        """
        return self._owners.get(name.lower(), owner) == owner

    def owner(self, name: str) -> str:
        """Return the owning sidecar's name; empty without an owner."""
        return self._owners.get(name.lower(), ("", ""))[0].partition(" ")[0]

    def address(self, sidecar: str, identity: str) -> str:
        """Return a sidecar's name in rules.

        A second sidecar of the same name gets a suffix, so its calls need approval.
        """
        first, _ = self._owners.get(f"{_SIDECAR}{sidecar}".lower(), (identity, ""))
        return sidecar if first == identity else f"{sidecar}~{identity.rpartition(' ')[2][:6]}"

    def owners(self) -> dict[str, tuple[str, str]]:
        """Return all names with their owners."""
        return dict(self._owners)

    def keep(self, owners: Mapping[str, tuple[str, str]]) -> None:
        """Keep names for their owners from now on."""
        for name, owner in owners.items():
            self._owners.setdefault(name.lower(), owner)


class _ByName:
    """A caller for a sidecar, by name and identity.

    Tools thereby outlive its link, and never call another sidecar of its name.
    """

    def __init__(self, sidecars: Sidecars, name: str, identity: str) -> None:
        self._sidecars = sidecars
        self._name = name
        self._identity = identity

    async def call(self, tool: str, args: dict[str, Any], **options: Any) -> Any:  # noqa: ANN401 - as of the link
        if self._name not in self._sidecars.names():
            raise SidecarError(f"The sidecar {self._name} was removed, so {tool} cannot be called.")
        link = self._sidecars.link(self._name)
        if _identity(link) != self._identity:
            raise SidecarError(f"The sidecar {self._name} was replaced by another one, so {tool} was not called.")
        return await link.call(tool, args, **options)
