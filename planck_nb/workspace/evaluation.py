"""`Workspace.evaluate`: cases, answered by each model and scored."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import participant_of
from planck_nb.agent.events import EvaluationStarted, Scored
from planck_nb.agent.output import OutputSpec
from planck_nb.agent.scoring import Case, CaseAnswer, Score, Scorer, function_scorer
from planck_nb.ai.messages import ToolCallPart
from planck_nb.ai.models import Model
from planck_nb.base.errors import SessionError, UsageError
from planck_nb.base.ids import new_id
from planck_nb.base.secrets import redact
from planck_nb.base.text import one_line
from planck_nb.sessions import Session, query_async
from planck_nb.workspace.agent_factory import AgentFactory
from planck_nb.workspace.map_run import MapItem, MapRun
from planck_nb.workspace.map_settings import ItemSettings, digest

if TYPE_CHECKING:
    import pandas as pd

_DIGEST = 12
_NAME_CHARACTERS = 60

_JUDGE_PROMPT = """\
Judge the answer to the task below. Say whether it passes, and why in one sentence.

<task>
{task}
</task>
{expected}
<answer>
{answer}
</answer>"""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A judging agent's answer.

    Args:
        passed: Whether the answer passes.
        reason: Why, in one sentence.
    """

    passed: bool
    reason: str


@dataclass(frozen=True, slots=True)
class EvaluationParts:
    """An evaluation's needs from its workspace.

    Args:
        factory: Creates judging agents.
        settings: Each model's settings.
        judges: Judging agents' settings by scorer name.
    """

    factory: AgentFactory
    settings: Sequence[ItemSettings]
    judges: Mapping[str, ItemSettings]


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """Cases and their scorers.

    Args:
        name: What people call the evaluation.
        cases: The cases.
        scorers: Functions and agents by name.
        repeat: How often to ask each case.
        spec: The structured answer's specification, None for text.
        cost: US dollars for everything, None if unlimited.
        concurrency: The most answers in flight.
        scorer_seconds: A time limit for each scorer.
        agent: The agent under evaluation, None for new agents' defaults.
    """

    name: str
    cases: Sequence[Case]
    scorers: Mapping[str, object]
    repeat: int
    spec: OutputSpec | None
    cost: float | None
    concurrency: int
    scorer_seconds: float
    agent: Agent | None

    def suite(self) -> tuple[dict[str, Any], ...]:
        """Return the cases as JSON data.

        Raises:
            UsageError: A case has other data, or a secret.
        """
        return tuple(_stored_case(number, case) for number, case in enumerate(self.cases, 1))


StartMap = Callable[["pd.DataFrame", ItemSettings, float | None], MapRun]
"""A function to start maps with a limit in US dollars."""


@dataclass(slots=True)
class _Round:
    """One model's answers to all cases, once each."""

    settings: ItemSettings
    repetition: int
    keys: dict[str, Case] = field(default_factory=dict[str, Case])
    stored: float = 0.0
    """US dollars, at first those from earlier calls."""
    run: MapRun | None = None

    @property
    def cost(self) -> float:
        """Return US dollars so far."""
        # A running map counts stored answers only as it meets them.
        return self.stored if self.run is None else max(self.stored, self.run.cost)


class EvaluationRun:
    """A running evaluation.

    Await it, then read `rates()` and `frame()`. `Workspace.evaluate` makes it. Models and repetitions are asked one
    after another, so equal requests never overlap and cassettes replay them in order.

    Args:
        plan: What to ask and how to score it.
        prepare: Returns what it needs from its workspace.
        start_map: Starts a map.

    Example:
        >>> import asyncio, tempfile
        >>> from pathlib import Path
        >>> from planck_nb import Config, Workspace
        >>> from planck_nb.testing import contains, scripted_model
        >>> async def main(folder):
        ...     config = Config.load(environment={}, directory=folder, home=folder)
        ...     async with Workspace(config) as workspace:
        ...         cases = [{"input": "6 times 7?", "expected": "42"}]
        ...         run = await workspace.evaluate(None, cases, [contains], models=[scripted_model(["It is 42."])])
        ...         return (await run.frame()).score.tolist()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     asyncio.run(main(Path(folder)))
        [1.0]
    """

    def __init__(
        self, plan: EvaluationPlan, prepare: Callable[[], Awaitable[EvaluationParts]], start_map: StartMap
    ) -> None:
        self._plan, self._load, self._start_map = plan, prepare, start_map
        self._suite = plan.suite()
        self._functions = [function_scorer(name, s) for name, s in plan.scorers.items() if not isinstance(s, Agent)]
        self.id = ""
        """The evaluation's id in queries, empty until it is known."""
        self.answers = 0
        """Answers so far, stored ones included."""
        self.failed = 0
        """Cases without an answer so far."""
        self.judge_cost = 0.0
        """US dollars for judging agents, earlier calls included."""
        self.limit = ""
        """A sentence if a cost limit or a server ended the evaluation."""
        self.stopped = False
        """True after `stop`."""
        self._rounds: list[_Round] = []
        self._known: set[tuple[str, str]] = set()
        """Agents and scorer digests with scores."""
        self._map: MapRun | None = None
        self._scoring: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(_retrieved)

    def __await__(self) -> Generator[object, None, EvaluationRun]:
        return self._own().__await__()

    def __repr__(self) -> str:
        state = "stopped, " if self.stopped else "" if self._task.done() else "running, "
        total = len(self._plan.cases) * self._plan.repeat * max(1, len(self._rounds) // self._plan.repeat)
        failures = f", {self.failed:,} failed" if self.failed else ""
        judges = f", ${self.judge_cost:.4f} for judges" if self.judge_cost else ""
        return f"<EvaluationRun {state}{self.answers:,} of {total:,} answers{failures}, ${self.cost:.4f}{judges}>"

    @property
    def cost(self) -> float:
        """US dollars for answers so far, earlier calls included."""
        return sum(part.cost for part in self._rounds)

    @property
    def done(self) -> bool:
        """Return whether the evaluation has ended."""
        return self._task.done()

    def stop(self) -> None:
        """Stop everything in flight. Stored answers and scores stay."""
        self.stopped = True
        if self._map is not None:
            self._map.stop()
        for scoring in self._scoring:
            scoring.cancel()

    async def aclose(self) -> None:
        """Stop, and return after the end."""
        self.stop()
        await asyncio.wait([self._task])

    async def frame(self) -> pd.DataFrame:
        """Read the scores, in the order of models, cases and repetitions.

        Returns:
            A row for each score: `model`, `case_name`, `repetition`, `scorer`, `score`, `passed`, `error`, `reason`,
            `prompt`, `answer`, `cost_usd` (the answer's), `judge_cost_usd` and `seconds` (the answer's).

        Raises:
            QueryError: The session cannot be read.
        """
        return await self._query(
            "select s.model, case_name, repetition, scorer, score, passed, s.error, reason, prompt, answer, cost_usd,"  # noqa: S608 - our own id
            " judge_cost_usd, m.seconds from scores s left join map_items m using (session_id, agent_id)"
            f" where evaluation_id = '{self.id}' order by s.model, case_number, repetition, scorer"
        )

    async def rates(self) -> pd.DataFrame:
        """Read the mean scores, with 95 % intervals.

        Returns:
            Rows from the view `score_rates`, for all cases together where `case_name` is missing.

        Raises:
            QueryError: The session cannot be read.
        """
        return await self._query(
            "select model, scorer, case_name, answers, errors, passed, mean, low, high, interval from score_rates"  # noqa: S608 - our own id
            f" where evaluation_id = '{self.id}' order by scorer, case_number nulls first, model"
        )

    async def _own(self) -> EvaluationRun:
        try:
            await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self.aclose()
            raise
        return self

    async def _run(self) -> None:
        parts = await self._load()
        self._factory = parts.factory
        self._session: Session = parts.factory.session
        for settings in (*parts.settings, *parts.judges.values()) if self._plan.cost is not None else ():
            settings.require_price()
        self._scorers = [*self._functions, *(self._judge(name, part) for name, part in parts.judges.items())]
        await self._begin(parts.settings)
        for part in self._rounds:
            if self.stopped or self.limit:
                break
            await self._ask(part)
        await self._flush()

    async def _begin(self, models: Sequence[ItemSettings]) -> None:
        """Find out what is stored, and store the cases."""
        instructions = {name: value for name, value in models[0].digests(self._plan.spec).items() if name != "model"}
        inputs = [case.input for case in self._plan.cases]
        self.id = "evaluation-" + _digest([self._plan.name, self._suite, inputs, instructions])
        numbers: dict[str, _Round] = {}
        for settings in models:
            decisive = settings.digests(self._plan.spec)
            for repetition in range(1, self._plan.repeat + 1):
                part = _Round(settings, repetition)
                for case in self._plan.cases:
                    code = _digest([self._plan.name, case.name, case.input, repetition, decisive])
                    key = f"{one_line(case.name, _NAME_CHARACTERS)}, {repetition} ({code})"
                    part.keys[key] = case
                    numbers[key] = part
                self._rounds.append(part)
        await self._read_stored(numbers)

    async def _read_stored(self, rounds: Mapping[str, _Round]) -> None:
        items = await self._query("select name, cost_usd from map_items where cost_usd is not null")
        for name, dollars in zip(items["name"], items["cost_usd"], strict=True):
            if name in rounds:
                rounds[name].stored += dollars
        judges = await self._query(
            f"select coalesce(sum(cost_usd), 0) as dollars from charges where agent_id like 'judge-{self.id}-%'"  # noqa: S608 - our own id
        )
        self.judge_cost = float(judges["dollars"][0])
        scores = await self._query(
            "select agent_id, scorer_digest from scores"  # noqa: S608 - our own id
            f" where evaluation_id = '{self.id}' group by all having count(error) = 0"
        )
        self._known = set(zip(scores["agent_id"], scores["scorer_digest"], strict=True))
        calls = await self._query(f"select max(repeat) as repeat from evaluations where evaluation_id = '{self.id}'")  # noqa: S608 - our own id
        if calls["repeat"].fillna(0)[0] < self._plan.repeat:
            start = EvaluationStarted(
                self.id, self._session.id, 0, 0, time.time(), self._plan.name, self._suite, self._plan.repeat
            )
            await self._session.log(self.id).keep(start)

    async def _ask(self, part: _Round) -> None:
        import pandas as pd  # noqa: PLC0415 - heavy

        spending = self.cost - part.cost + self.judge_cost
        rest = None if self._plan.cost is None else max(0.0, self._plan.cost - spending)
        prompts = pd.DataFrame({"key": list(part.keys), "input": [case.input for case in part.keys.values()]})
        run = self._map = part.run = self._start_map(prompts, part.settings, rest)
        slots = asyncio.Semaphore(self._plan.concurrency)
        try:
            async for item in run.as_finished():
                self.answers += not item.error
                self.failed += bool(item.error)
                await slots.acquire()
                if self.stopped or self._failure is not None:
                    break
                self._start_scoring(self._score(part, item), slots)
            while self._scoring:
                await asyncio.wait(self._scoring)
        finally:
            if self._failure is not None:
                await run.aclose()
            for scoring in self._scoring:
                scoring.cancel()
            await asyncio.gather(*self._scoring, return_exceptions=True)
            part.stored, part.run = part.cost, None
        if self._failure is not None:
            raise self._failure
        if self._is_spent():
            self._note_limit()
        elif run.limit:
            self.limit = run.limit

    def _start_scoring(self, scoring: Coroutine[Any, Any, None], slots: asyncio.Semaphore) -> None:
        def end(task: asyncio.Task[None]) -> None:
            slots.release()
            self._scoring.discard(task)
            if not task.cancelled():
                self._failure = self._failure or task.exception()

        task = asyncio.create_task(scoring)
        self._scoring.add(task)
        task.add_done_callback(end)

    def _is_spent(self) -> bool:
        return self._plan.cost is not None and self.cost + self.judge_cost >= self._plan.cost

    def _note_limit(self) -> None:
        self.limit = (
            f"The evaluation has used up its {self._plan.cost:g} US dollars; answers and scores are kept, and the same "
            "call with a higher `cost` goes on."
        )

    async def _score(self, part: _Round, item: MapItem) -> None:
        answer = await self._answer(part, item)
        participant = None if self._plan.agent is None else participant_of(self._plan.agent)
        for scorer in self._scorers:
            if (item.agent_id, scorer.digest) in self._known:
                continue
            if item.error:
                scores = [Score(error=f"There is no answer: {item.error}")]
            elif scorer in self._functions or not self._is_spent():
                scores = await scorer.score(answer, seconds=self._plan.scorer_seconds, agent=participant)
            else:
                continue
            await self._store(part, item, answer, scorer, scores)

    async def _answer(self, part: _Round, item: MapItem) -> CaseAnswer:
        calls: tuple[ToolCallPart, ...] = ()
        if part.settings.tools:
            rows = await self._query(
                f"select call_id, name, args from tool_calls where agent_id = '{item.agent_id}' order by message_id"  # noqa: S608 - our own id
            )
            values = zip(*(rows[name].tolist() for name in rows), strict=True)
            calls = tuple(ToolCallPart(call_id, name, json.loads(args or "{}")) for call_id, name, args in values)
        case, model = part.keys[item.name], str(part.settings.model)
        return CaseAnswer(case, item.answer, model, calls, item.cost, item.seconds, part.repetition)

    async def _store(
        self, part: _Round, item: MapItem, answer: CaseAnswer, scorer: Scorer, scores: Sequence[Score]
    ) -> None:
        log, now = self._session.log(item.agent_id), time.time()
        events = [
            Scored(
                item.agent_id,
                self._session.id,
                0,
                number,
                now,
                self.id,
                answer.model,
                answer.case.name,
                part.repetition,
                scorer.name,
                scorer.digest,
                score.measure,
                score.value,
                score.passed,
                redact(score.error),
                redact(score.reason),
                score.judge_id,
                score.seconds,
            )
            for number, score in enumerate(scores)
        ]
        for event in events[:-1]:
            log.record(event)
        await log.keep(events[-1])  # in one write with the others, and a cancellation comes after it

    def _judge(self, name: str, settings: ItemSettings) -> Scorer:
        async def judge(answer: CaseAnswer) -> list[Score]:
            return [await self._verdict(settings, answer)]

        return Scorer(name, judge, _digest([settings.digests(None), _JUDGE_PROMPT]))

    async def _verdict(self, settings: ItemSettings, answer: CaseAnswer) -> Score:
        target = answer.case.expected
        text = answer.answer if isinstance(answer.answer, str) else _json(to_jsonable_python(answer.answer))
        prompt = _JUDGE_PROMPT.format(
            task=answer.case.input,
            expected="" if target is None else f"\n<expected>\n{_plain(target)}\n</expected>\n",
            answer=text,
        )
        name = one_line(f"{answer.case.name}, judged", _NAME_CHARACTERS)
        agent = self._factory.create_item(f"judge-{self.id}-{new_id()}", name, settings, deque(maxlen=0))
        try:
            result = await agent.prompt(prompt, output=Verdict)
        finally:
            await agent.stop(removed=True)
            cost = agent.info().cost or 0.0
            self.judge_cost += cost
            if self._map is not None:
                self._map.charge(cost)
        verdict = result.output
        return Score("", float(verdict.passed), verdict.passed, reason=verdict.reason, judge_id=agent.id)

    async def _query(self, sql: str) -> pd.DataFrame:
        await self._flush()
        return await query_async(self._session.directory, sql, only=self._session.info)

    async def _flush(self) -> None:
        with suppress(SessionError):  # what was written can be read
            await self._session.flush()


def model_settings(settings: ItemSettings, models: Sequence[Model]) -> list[ItemSettings]:
    """Return the settings with each model; the same ones without any."""
    return [replace(settings, model=model) for model in models] or [settings]


def _stored_case(number: int, case: Case) -> dict[str, Any]:
    try:
        data = to_jsonable_python({"name": case.name, "expected": case.expected, "metadata": case.metadata})
        text = json.dumps(data, allow_nan=False)
    except (PydanticSerializationError, ValueError, TypeError) as error:
        reason = one_line(str(error), 200)
        raise UsageError(f"Case {number} has an `expected` or `metadata` beyond JSON ({reason}).") from error
    if redact(text) != text:
        raise UsageError(f"Case {number} contains a secret of this process; replace it, since cases are stored.")
    return dict(data)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _digest(value: object) -> str:
    return digest(json.dumps(value, sort_keys=True, default=str))[:_DIGEST]


def _retrieved(task: asyncio.Task[None]) -> None:
    """Mark a failure as seen."""
    if not task.cancelled():
        task.exception()
