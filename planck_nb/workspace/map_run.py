"""`Workspace.map`: many prompts, each answered by an agent of its own."""

from __future__ import annotations

import asyncio
import json
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from planck_nb.agent.agent import Agent
from planck_nb.agent.events import AgentEvent
from planck_nb.agent.output import OutputMismatch, OutputSpec
from planck_nb.agent.state import PendingApproval
from planck_nb.ai.models import Model
from planck_nb.ai.providers import may_cost
from planck_nb.base.errors import (
    PlanckError,
    ProviderStatusError,
    ProviderUnavailableError,
    QuotaExceededError,
    RateLimitError,
    SessionError,
    UsageError,
)
from planck_nb.base.text import one_line
from planck_nb.base.threads import run_in_thread
from planck_nb.base.visible import series
from planck_nb.sessions import Session, query_into
from planck_nb.workspace.agent_factory import AgentFactory
from planck_nb.workspace.map_pace import Pace, Slot
from planck_nb.workspace.map_progress import MapEstimate, MapProgress, MapState, RateMeter
from planck_nb.workspace.map_settings import ItemSettings, MapPrompt, MapPrompts, digest

if TYPE_CHECKING:
    import pandas as pd

_PAGE = 500
"""Items that are read from the session at once."""

_CHECKED_AT_ONCE = 1000
"""Prompts to check before other tasks have a turn."""

_CHARACTERS_AT_ONCE = 1_000_000
"""Their characters, in case prompts are long."""

_KEPT_REASONS = 50
_SHOWN_REASONS = 3
_REASON_CHARACTERS = 200

_KEY = "map:"
"""The beginning of metadata keys."""

_READ = ("name", "prompt", "answer", "error", "input_tokens", "output_tokens", "cost_usd", "seconds", "agent_id")
_COLUMNS = ("prompt", "error", "input_tokens", "output_tokens", "cost_usd", "seconds")


@dataclass(frozen=True, slots=True)
class MapItem:
    """One finished item.

    Args:
        name: Its key, or its number from 1.
        prompt: The prompt.
        answer: The structured answer if the map has an `output`, else the text; None if it failed.
        error: Why it failed, empty if it did not.
        input_tokens: Tokens read.
        output_tokens: Tokens written.
        cost: US dollars, None if the price is unknown.
        seconds: How long it took.
        agent_id: The agent that answered, by which the other views find it.
    """

    name: str
    prompt: str
    answer: Any
    error: str
    input_tokens: int
    output_tokens: int
    cost: float | None
    seconds: float | None
    agent_id: str


class _ItemWatch:
    """An item's observer for its run.

    Args:
        pace: Learns from refused requests.
        slot: The item's place in flight.
        waiting: The calls under approval in the run.
    """

    def __init__(self, pace: Pace, slot: Slot, waiting: set[tuple[str, str]]) -> None:
        self._pace, self._slot, self._waiting = pace, slot, waiting

    def append(self, event: AgentEvent) -> None:
        """Receive an event."""
        match event.type:
            case "retry" if event.attempt:  # 0 waits for others
                self._pace.refused(self._slot)
            case "approval_request":
                self._waiting.add((event.agent_id, event.id))
            case "approval_decision":
                self._waiting.discard((event.agent_id, event.id))
            case _:
                pass


@dataclass(slots=True)
class _Stored:
    """A session's items by their digests."""

    done: dict[int, float] = field(default_factory=dict[int, float])
    """Answered items' costs."""
    spent: dict[int, float] = field(default_factory=dict[int, float])
    """The costs for attempts without an answer."""
    attempts: dict[int, int] = field(default_factory=dict[int, int])
    open: dict[int, list[tuple[str, int]]] = field(default_factory=dict[int, list[tuple[str, int]]])
    """Agents and prompt lengths for attempts in flight at a death."""
    others: dict[int, tuple[str, float]] = field(default_factory=dict[int, tuple[str, float]])
    """Answers' settings and costs under other settings."""


class MapRun:
    """A running map.

    Await it, or iterate over its items in order or as they finish. They are read from the session, so memory stays
    small. `Workspace.map` makes it.

    Args:
        prompts: The prompts.
        prepare: Returns what creates agents, and their settings.
        output: The type or JSON Schema for structured answers, None for text.
        spec: The same as a specification.
        concurrency: The most items in flight.
        cost: US dollars for all items together, None if unlimited.
        again: Whether to repeat items with other settings and interrupted ones.
        first: Prompts in the preview, None for all prompts at once.

    Example:
        >>> import asyncio, tempfile
        >>> from pathlib import Path
        >>> from planck_nb import Config, Workspace
        >>> from planck_nb.testing import scripted_model
        >>> async def main(folder):
        ...     config = Config.load(environment={}, directory=folder, home=folder)
        ...     async with Workspace(config) as workspace:
        ...         run = workspace.map(["Is 7 prime?", "Is 11?"], model=scripted_model(["Yes."]))
        ...         return [(item.name, item.answer) async for item in run]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(main(Path(folder)))
        [('1', 'Yes.'), ('2', 'Yes.')]
    """

    def __init__(
        self,
        prompts: MapPrompts,
        prepare: Callable[[], Awaitable[tuple[AgentFactory, ItemSettings]]],
        *,
        output: Any,  # noqa: ANN401 - any type
        spec: OutputSpec | None,
        concurrency: int,
        cost: float | None,
        again: bool,
        first: int | None = None,
    ) -> None:
        self._prompts, self._load = prompts, prepare
        self._output, self._spec = output, spec
        self._concurrency, self._bound, self._again = concurrency, cost, again
        self._first = first
        self.asked = 0
        """Items asked by this run."""
        self.failed = 0
        """Items without an answer."""
        self.stored = 0
        """Items whose answers were stored already."""
        self.cost = 0.0
        """US dollars so far, earlier attempts included."""
        self.limit = ""
        """A sentence if a cost limit or a server ended the map."""
        self.interrupted: list[str] = []
        """Items in flight at an earlier process's death, possibly paid twice."""
        self.interrupted_cost = 0.0
        """Their largest possible cost in US dollars."""
        self.skipped: list[str] = []
        """Interrupted items whose tools may have acted; `again=True` asks them."""
        self.stopped = False
        """True after `stop`."""
        self.model: Model | None = None
        """The answering model, None until it is known."""
        self.at_end: list[Callable[[], object]] = []
        """Functions to call at the end, before awaiting callers go on."""
        self.changed = False
        """True if answers have other settings; `go_on` asks them again."""
        self.estimate: MapEstimate | None = None
        """The rest after a preview; `go_on` asks it."""
        self._order, self._finished = array("Q"), array("Q")
        self._met: set[int] = set()
        self._unfinished: set[int] = set()
        """Met items in flight, stopped or left out."""
        self._changed = asyncio.Event()
        self._settings_digest = ""
        self._failure: BaseException | None = None
        self._closed = False
        self._workers: list[asyncio.Task[None]] = []
        self._pull = asyncio.Lock()
        self._pace = Pace(concurrency)
        self._waiting: set[tuple[str, str]] = set()
        self._meter = RateMeter(time.monotonic())
        self._reasons: Counter[str] = Counter()
        self._seconds = self._item_seconds = self._charged = 0.0
        """Times before `go_on`, for all items together; US dollars for other work."""
        self._unanswered: int | None = None
        """Distinct prompts that had no answer at the start."""
        self._task = asyncio.get_running_loop().create_task(self._supervise(self._run))
        self._task.add_done_callback(_retrieved)

    def __await__(self) -> Generator[object, None, MapRun]:
        return self._own().__await__()

    def __aiter__(self) -> AsyncIterator[MapItem]:
        return self._items(self._order, ordered=True)

    def __repr__(self) -> str:
        total = "" if self._prompts.total is None else f" of {self._prompts.total:,}"
        failures = f", {self.failed:,} failed" if self.failed else ""
        state = "stopped, " if self.stopped else "" if self._closed else "running, "
        rest = f" {self.estimate}" if self.estimate else ""
        return f"<MapRun {state}{len(self._finished):,}{total} items{failures}, ${self.cost:.4f}>{rest}"

    def as_finished(self) -> AsyncIterator[MapItem]:
        """Iterate over the items as they finish; equal prompts count once.

        Returns:
            An async iterator. It ends with the run, and raises what ended the run.
        """
        return self._items(self._finished, ordered=False)

    @property
    def done(self) -> bool:
        """Return whether the run has ended, perhaps with a preview."""
        return self._closed

    def waiting_calls(self) -> list[tuple[Agent, PendingApproval]]:
        """Return the calls under approval, each with its agent."""
        if not self._waiting:
            return []
        waiting = {agent_id for agent_id, _ in self._waiting}
        agents = [agent for agent in self._factory.live_items.values() if agent.id in waiting]
        return [(agent, call) for agent in agents for call in agent.state.pending_approvals]

    @property
    def progress(self) -> MapProgress:
        """Return how far it is."""
        count, now = self.asked - self._pace.active, time.monotonic()
        rate = self._meter.rate(now)
        rest = None if self._unanswered is None else max(0, self._unanswered - count)
        cost = None if rest is None or not count else self.cost + self._mean_cost(count) * rest
        return MapProgress(
            self._state(),
            self._prompts.total,
            self._count_finished(),
            self.failed,
            self._pace.active,
            len(self._waiting),
            self._pace.allowed,
            self.cost,
            self._bound,
            cost,
            self._seconds if self._closed else self._seconds + now - self._meter.began,
            rate,
            None if self._closed or rest is None or not rate else rest / rate,
            self._sentence(),
            tuple(self._reasons.most_common(_SHOWN_REASONS)),
        )

    def _count_finished(self) -> int:
        return len(self._met) - len(self._unfinished)

    def _state(self) -> MapState:
        if not self._closed:
            return "running"
        if self._failure is not None:
            return "changed" if self.changed else "failed"
        if self.stopped:
            return "stopped"
        if self.limit:
            return "limit"
        return "done" if self.estimate is None else "preview"

    def _sentence(self) -> str:
        if self._failure is not None:
            return str(self._failure)
        return self.limit or ("" if self.estimate is None else str(self.estimate))

    def go_on(self) -> MapRun:
        """Ask the rest after a preview, or old answers' prompts again.

        Returns:
            The same run, to await.

        Raises:
            UsageError: The run waits for neither.
        """
        work = self._ask_all
        if self._state() == "changed":
            self._again, self.changed, self._failure = True, False, None
            work = self._run
        elif self._state() != "preview":
            reason = {"running": "has not ended", "done": "has asked all prompts"}.get(self._state(), "ended early")
            raise UsageError(f"This map {reason}, so it cannot go on; make the same call again, without `first`.")
        else:
            self._first = self.estimate = None
        self._closed = False
        self._meter = RateMeter(time.monotonic())
        self._task = asyncio.create_task(self._supervise(work))
        self._task.add_done_callback(_retrieved)
        return self

    async def wait(self, seconds: float | None = None) -> None:
        """Wait for the end without owning the run.

        Args:
            seconds: The longest wait, None for any.
        """
        await asyncio.wait([self._task], timeout=seconds)

    def charge(self, cost: float) -> None:
        """Count other work's cost against the limit, such as a judge's.

        Args:
            cost: US dollars.
        """
        self._charged += cost

    def _has_spent_all(self) -> bool:
        return self._bound is not None and self.cost + self._charged >= self._bound

    def stop(self) -> None:
        """Stop all items in flight. Stored answers stay."""
        self.stopped = True
        for worker in self._workers:
            worker.cancel()

    async def aclose(self) -> None:
        """Stop, and return after the last item's end."""
        self.stop()
        await asyncio.wait([self._task])

    async def frame(self) -> pd.DataFrame:
        """Read the items from the session, in the prompts' order.

        Returns:
            A row for each finished prompt: `prompt`, `answer` or the structured answer's fields, `error`,
            `input_tokens`, `output_tokens`, `cost_usd` and `seconds`. The index has the items' names.

        Raises:
            QueryError: The session cannot be read.
        """
        import pandas as pd  # noqa: PLC0415 - heavy

        rows = await self._rows(None)
        items = [rows[number] for number in self._order if number in rows]
        table: list[dict[str, object]] = []
        for row in items:
            answer = self._answer(row["answer"])
            fields = _fields(answer) or {"answer": answer}
            columns = {f"answer_{name}" if name in _COLUMNS else name: value for name, value in fields.items()}
            table.append({"prompt": row["prompt"], **columns, **{name: row[name] for name in _COLUMNS[1:]}})
        return pd.DataFrame(table, index=[row["name"] for row in items])

    async def _own(self) -> MapRun:
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        return self

    async def _run(self) -> None:
        await self._prepare()
        await self._ask_all()

    async def _ask_all(self) -> None:
        if self.stopped:
            return
        self._workers = [asyncio.create_task(self._work()) for _ in range(self._concurrency)]
        await asyncio.gather(*self._workers, return_exceptions=True)
        await self._session.flush()
        if self._first is not None and not (self.stopped or self.limit or self._failure):
            self.estimate = self._estimated()

    async def _supervise(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except BaseException as error:
            self._failure = self._failure or error
            raise
        finally:
            for worker in self._workers:
                worker.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)
            self._seconds += time.monotonic() - self._meter.began
            self._closed = True
            self._changed.set()
            for follower in self.at_end:
                follower()
        if self._failure is not None:
            raise self._failure

    async def _prepare(self) -> None:
        self._factory, self._settings = await self._load()
        self.model = self._settings.model
        self._session: Session = self._factory.session
        if self._bound is not None:
            self._settings.require_price()
        parts = self._settings.digests(self._spec)
        self._settings_digest = digest(json.dumps(parts, sort_keys=True))[:12]
        earlier = await run_in_thread(self._session.get_metadata)
        is_first = not any(name.startswith(_KEY) for name in earlier)  # and so needs no query, a kernel's slowest step
        self._known = _Stored() if is_first else await self._read_stored()
        await self._check(earlier, parts)
        if earlier.get(_KEY + self._settings_digest) != parts:
            await self._session.save_metadata({_KEY + self._settings_digest: parts})
        self._source = self._prompts.read()

    async def _read_stored(self) -> _Stored:
        rows = await self._query("select agent_id, status, coalesce(cost_usd, 0), length(prompt) from map_items")
        history = _Stored()
        for agent_id, status, dollars, size in rows:
            _, settings, code, attempt = agent_id.split("-")
            number = int(code, 16)
            if settings != self._settings_digest:
                if status == "done":
                    history.others[number] = settings, dollars
                continue
            history.attempts[number] = max(history.attempts.get(number, 0), int(attempt))
            if status == "done":
                history.done[number] = dollars
            elif status == "open":
                history.open.setdefault(number, []).append((agent_id, size))
            if status != "done":
                history.spent[number] = history.spent.get(number, 0.0) + dollars
        return history

    async def _check(self, earlier: dict[str, Any], parts: dict[str, str]) -> None:
        """Check and count all prompts, if they can be read twice."""
        if self._prompts.total is None:
            return
        new: set[int] = set()
        count_again = 0
        cost = 0.0
        settings: set[str] = set()
        characters = 0
        for count, prompt in enumerate(self._prompts.iterate(), 1):
            characters += len(prompt.text)
            if count % _CHECKED_AT_ONCE == 0 or characters > _CHARACTERS_AT_ONCE:
                characters = 0
                await asyncio.sleep(0)
                if self.stopped:
                    return
            if prompt.digest not in self._known.done:
                new.add(prompt.digest)
            if prompt.digest in self._known.others and prompt.digest not in self._known.done:
                before, dollars = self._known.others[prompt.digest]
                count_again, cost = count_again + 1, cost + dollars
                settings.add(before)
        self._unanswered = len(new)
        if count_again and not self._again:
            self.changed = True
            raise UsageError(self._changed_sentence(count_again, cost, settings, earlier, parts))

    def _changed_sentence(
        self, count: int, cost: float, settings: Iterable[str], earlier: dict[str, Any], parts: dict[str, str]
    ) -> str:
        old = [before for key in settings if isinstance(before := earlier.get(_KEY + key), dict)]
        names = [name for name, value in parts.items() if any(before.get(name) != value for before in old)]
        return (
            f"The {series(names) or 'settings'} changed since {count:,} of these items were answered; `again` "
            f"asks them again, for about ${cost:.4f}."
        )

    def _mean_cost(self, count: int) -> float:
        """Return an item's mean US dollars."""
        return self.cost / (count + self.stored)

    def _estimated(self) -> MapEstimate:
        """Return the rest's price and time, from the items so far."""
        rest = None if self._unanswered is None else self._unanswered - self.asked
        count = 1 if rest is None else rest
        model, seconds = self._settings.model, self._item_seconds / max(1, self.asked)
        is_known = model.pricing is not None or self._settings.limits.unknown_price is not None or not may_cost(model)
        mean = self._mean_cost(self.asked) if self.asked + self.stored else 0.0
        waves = count if rest is None else count / min(self._concurrency, max(count, 1))
        return MapEstimate(rest, mean * count if is_known else None, seconds * waves)

    async def _work(self) -> None:
        try:
            while True:
                slot = await self._pace.enter()
                try:
                    prompt = await self._next()
                except BaseException:
                    self._pace.leave(slot, answered=False)
                    raise
                if prompt is None:
                    self._pace.leave(slot, answered=False)
                    break
                while not await self._ask(prompt, slot):
                    slot = await self._pace.enter()
        except Exception as error:  # noqa: BLE001 - the other items that are in flight end first
            self._failure = self._failure or error

    async def _next(self) -> MapPrompt | None:
        """Take the next unanswered prompt, None at the end."""
        async with self._pull:
            while self._failure is None and not self.stopped and not self.limit:
                if self._first is not None and len(self._order) >= self._first:
                    break
                if self._has_spent_all():
                    self.limit = (
                        f"The map has used up its {self._bound:g} US dollars; the answers are kept, and the same call "
                        "with a higher `cost` asks the rest."
                    )
                    break
                prompt = await anext(self._source, None)
                if prompt is None:
                    break
                if await self._is_new(prompt):
                    return prompt
            return None

    async def _is_new(self, prompt: MapPrompt) -> bool:
        history, number = self._known, prompt.digest
        self._order.append(number)
        if number in self._met:
            return False
        self._met.add(number)
        self._unfinished.add(number)
        if f"{self._settings_digest}-{number}" in self._factory.live_items:
            raise UsageError(f"Item {prompt.name} is being asked by another map at the moment; await that one first.")
        open_attempts = () if number in history.done else history.open.get(number, ())
        if open_attempts:
            self.interrupted.append(prompt.name)
            self.interrupted_cost += sum(self._settings.largest_cost(size) for _, size in open_attempts)
        if number in history.done:
            self.stored += 1
            self.cost += history.done[number]
            self._end(number)
            return False
        self.cost += history.spent.get(number, 0.0)
        if number in history.others and not self._again:  # from an iterator, read only once
            settings, dollars = history.others[number]
            earlier = await run_in_thread(self._session.get_metadata)
            raise UsageError(
                self._changed_sentence(1, dollars, [settings], earlier, self._settings.digests(self._spec))
            )
        for agent_id, _ in () if self._again else open_attempts:
            if await self._may_have_acted(agent_id):
                self.skipped.append(prompt.name)
                return False
        return True

    def _may_go_on_after(self, refusal: PlanckError) -> bool:
        """Pause after a refusal; False if the run ends."""
        if self.stopped or self._failure is not None or self.limit:
            return False
        if self._has_spent_all():
            return False
        if self._pace.pause(refusal.retry_after if isinstance(refusal, ProviderStatusError) else None):
            return True
        self.limit = (
            f"{refusal} The server has refused too much, so the map has ended; the answers are kept, and the same call "
            "asks the rest later."
        )
        return False

    async def _may_have_acted(self, agent_id: str) -> bool:
        """Check whether an item's tools may have done more than read."""
        if not self._settings.tools:
            return False
        sql = f"select name, args from tool_calls where agent_id = '{agent_id}'"  # noqa: S608 - digests
        tools = {tool.name: tool for tool in self._settings.tools}
        for name, args in await self._query(sql):
            effects = tools[name].touched(json.loads(args)) if name in tools else ()
            if not effects or any(effect.kind != "read" for effect in effects):
                return True
        return False

    async def _ask(self, prompt: MapPrompt, slot: Slot) -> bool:
        """Ask one item; False if the server refused it for now."""
        attempt = self._known.attempts[prompt.digest] = self._known.attempts.get(prompt.digest, 0) + 1
        item_id = f"map-{self._settings_digest}-{prompt.digest:016x}-{attempt}"
        watch = _ItemWatch(self._pace, slot, self._waiting)
        agent = self._factory.create_item(item_id, prompt.name, self._settings, watch)
        self.asked += 1
        live = f"{self._settings_digest}-{prompt.digest}"
        self._factory.live_items[live] = agent
        began = time.monotonic()
        has_answer = is_refused = False
        try:
            await agent.prompt(prompt.text, output=self._output)
            has_answer = True
        except SessionError:
            raise
        except PlanckError as error:
            is_refused = _is_refusal(error)
            if is_refused and self._may_go_on_after(error):
                self.asked -= 1
                return False
            self.failed += 1
            self._count_reason(error)
        finally:
            if is_refused:
                self._pace.refused(slot)
            self._pace.leave(slot, answered=has_answer)
            self._waiting.difference_update([call for call in self._waiting if call[0] == item_id])
            self._factory.live_items.pop(live, None)
            await agent.stop(removed=True)
            self.cost += agent.info().cost or 0.0
            self._item_seconds += time.monotonic() - began
        del self._known.attempts[prompt.digest]  # the next call reads it again
        self._end(prompt.digest)
        self._meter.add(time.monotonic())
        return True

    def _count_reason(self, error: PlanckError) -> None:
        reason = one_line(str(error), _REASON_CHARACTERS)
        if reason in self._reasons or len(self._reasons) < _KEPT_REASONS:
            self._reasons[reason] += 1

    def _end(self, number: int) -> None:
        self._finished.append(number)
        self._unfinished.discard(number)
        self._changed.set()

    async def _items(self, numbers: array[int], *, ordered: bool) -> AsyncIterator[MapItem]:
        position = 0
        while True:
            self._changed.clear()
            page = numbers[position : position + _PAGE]
            if ordered:
                page = page[: next((i for i, number in enumerate(page) if number in self._unfinished), len(page))]
            if page:
                rows = await self._rows(set(page))
                for number in page:
                    if number in rows:
                        yield self._item(rows[number])
                position += len(page)
            elif not self._closed:
                await self._changed.wait()
            elif position < len(numbers):  # stopped, or left out
                position += 1
            else:
                break
        await asyncio.shield(self._task)

    def _item(self, row: dict[str, Any]) -> MapItem:
        return MapItem(
            row["name"],
            row["prompt"],
            self._answer(row["answer"]),
            row["error"] or "",
            row["input_tokens"] or 0,
            row["output_tokens"] or 0,
            row["cost_usd"],
            row["seconds"],
            row["agent_id"],
        )

    def _answer(self, text: str | None) -> Any:  # noqa: ANN401 - of the type of `output`
        if text is None or self._spec is None:
            return text
        with suppress(OutputMismatch):
            return self._spec.read(text)
        return None

    async def _rows(self, numbers: set[int] | None) -> dict[int, dict[str, Any]]:
        """Read items' newest attempts by digest."""
        if not self._settings_digest:
            return {}
        digests = ", ".join(f"'{number:016x}'" for number in numbers or ())
        condition = f"and digest in ({digests})" if numbers is not None else ""
        settings = f"where settings = '{self._settings_digest}' and status <> 'open'"
        sql = f"select digest, {', '.join(_READ)} from map_items {settings} {condition} order by started"  # noqa: S608 - digests
        return {int(code, 16): dict(zip(_READ, row, strict=True)) for code, *row in await self._query(sql)}

    async def _query(self, sql: str) -> list[tuple[Any, ...]]:
        """Read without pandas, whose import would take longer than the first answer."""
        with suppress(SessionError):  # closed, or a full disk: what was written can be read
            await self._session.flush()
        return await query_into(self._session.directory, sql, lambda rows: rows.fetchall(), only=self._session.info)


def _fields(answer: object) -> dict[str, object]:
    """Return a structured answer's fields by name."""
    if hasattr(type(answer), "model_dump") or is_dataclass(answer):
        answer = to_jsonable_python(answer)
    return {str(name): value for name, value in answer.items()} if isinstance(answer, dict) else {}


def _is_refusal(error: PlanckError) -> bool:
    """Return whether the server had too many requests at that moment."""
    if isinstance(error, QuotaExceededError):
        return False
    return isinstance(error, RateLimitError | ProviderUnavailableError)


def _retrieved(task: asyncio.Task[None]) -> None:
    """Mark a failure as seen."""
    if not task.cancelled():
        task.exception()
