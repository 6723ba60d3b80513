"""Cases with expected answers, and scorers for agents' answers.

A scorer is a function from a `CaseAnswer` to a verdict (bool), a number, or a mapping with several by name.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias

from planck_nb.agent.calling.user_code import calls_user_code
from planck_nb.agent.wait_graph import Participant, judging
from planck_nb.ai.messages import ToolCallPart
from planck_nb.base.errors import PlanckError, UsageError, did_you_mean
from planck_nb.base.text import one_line
from planck_nb.base.threads import run_in_thread

ScorerFunction: TypeAlias = Callable[["CaseAnswer"], object]
"""A function for an answer's verdict, number or mapping, or its awaitable."""

SCORER_SECONDS = 60.0
"""A scorer's time limit."""

_MOST_MEASURES = 1000
"""Scores in a scorer's mapping."""

_ERROR_CHARACTERS = 500
_CONSTANTS = (str, int, float, bytes, tuple, frozenset)


@dataclass(frozen=True, slots=True)
class Case:
    """A prompt and its expected answer.

    Args:
        input: The prompt.
        expected: What scorers compare the answer with, JSON data.
        metadata: More JSON data for scorers and queries.
        name: What people call it, by default its number from 1.

    Example:
        >>> from planck_nb.testing import Case
        >>> Case("What is 6 times 7?", expected="42", name="product").expected
        '42'
    """

    input: str
    expected: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict[str, Any])
    name: str = ""


@dataclass(frozen=True, slots=True)
class CaseAnswer:
    """An agent's answer to a case.

    Args:
        case: The case.
        answer: The text, or the structured answer.
        model: The model as "provider:model".
        calls: The tool calls in order, each with `name` and `args`.
        cost: US dollars, None if the price is unknown.
        seconds: How long it took.
        repetition: Counts the case's answers from 1.
    """

    case: Case
    answer: Any
    model: str = ""
    calls: tuple[ToolCallPart, ...] = ()
    cost: float | None = None
    seconds: float | None = None
    repetition: int = 1


@dataclass(frozen=True, slots=True)
class Score:
    """One score.

    Args:
        measure: Its name, for scorers with several.
        value: The score, None after an error.
        passed: The verdict, None for a number.
        error: Why there is only a row.
        reason: What a judging agent said.
        seconds: How long it took.
        judge_id: The judging agent.
    """

    measure: str = ""
    value: float | None = None
    passed: bool | None = None
    error: str = ""
    reason: str = ""
    seconds: float = 0.0
    judge_id: str = ""


@dataclass(frozen=True, slots=True)
class Scorer:
    """A function with the name by which its scores are known.

    Args:
        name: The name.
        function: The function.
        digest: A digest for its source and settings.
    """

    name: str
    function: ScorerFunction
    digest: str

    async def score(self, answer: CaseAnswer, *, seconds: float, agent: Participant | None) -> list[Score]:
        """Score an answer.

        Args:
            answer: The answer.
            seconds: A time limit.
            agent: The agent under evaluation, which scorers cannot prompt.

        Returns:
            A score, or several for a mapping. Any failure is a single score with its error.
        """
        begin = time.monotonic()
        try:
            scores = read_scores(await self._call(answer, seconds, agent))
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            task = asyncio.current_task()
            # A scorer may raise it itself, while this task goes on.
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            reason = one_line(str(error), _ERROR_CHARACTERS)
            kind = type(error).__name__
            sentence = reason if isinstance(error, PlanckError) else f"{kind}: {reason}" if reason else kind
            scores = [Score(error=one_line(sentence, _ERROR_CHARACTERS))]
        duration = time.monotonic() - begin
        return [_timed(score, duration) for score in scores]

    @calls_user_code
    async def _call(self, answer: CaseAnswer, seconds: float, agent: Participant | None) -> object:
        scope = None
        try:
            async with asyncio.timeout(seconds) as scope:
                if agent is None:
                    return await self._value(answer)
                with judging(agent):
                    return await self._value(answer)
        except TimeoutError:
            if scope is not None and scope.expired():
                return [Score(error=f"It took longer than {seconds:g} s.")]
            raise

    async def _value(self, answer: CaseAnswer) -> object:
        if inspect.iscoroutinefunction(self.function):
            return await self.function(answer)
        value = await run_in_thread(lambda: self.function(answer))
        return await value if isinstance(value, Awaitable) else value


def _timed(score: Score, seconds: float) -> Score:
    return Score(
        score.measure, score.value, score.passed, score.error, score.reason, score.seconds or seconds, score.judge_id
    )


def read_scores(value: object) -> list[Score]:
    """Read a scorer's result; a result without use becomes an error."""
    if isinstance(value, list) and value and all(isinstance(score, Score) for score in value):
        return value
    if not isinstance(value, Mapping):
        return [_score("", value)]
    if not value:
        return [Score(error="It returned an empty mapping; return a verdict or a number for each name.")]
    if len(value) > _MOST_MEASURES:
        return [Score(error=f"It returned {len(value):,} scores; return at most {_MOST_MEASURES:,} by name.")]
    return [_score(str(name), part) for name, part in value.items()]


def _score(measure: str, value: object) -> Score:
    plain = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value  # numpy's
    if isinstance(plain, bool):
        return Score(measure, float(plain), plain)
    if not isinstance(plain, int | float):
        kind = type(plain).__name__
        return Score(measure, error=f"It returned {kind} ({one_line(repr(plain), 60)}); return a bool, int or float.")
    try:
        number = float(plain)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        return Score(measure, error=f"It returned {number}; return a finite number.")
    return Score(measure, number)


def read_cases(cases: Iterable[object]) -> list[Case]:
    """Read cases or mappings.

    Args:
        cases: The cases.

    Returns:
        Cases with unique names.

    Raises:
        UsageError: One cannot be used.
    """
    if isinstance(cases, str | bytes | Mapping) or not isinstance(cases, Iterable):
        raise UsageError("`cases` must be a list with cases, such as [{'input': '6 times 7?', 'expected': '42'}].")
    result: list[Case] = []
    numbers: dict[str, int] = {}
    for number, value in _numbered(_records(cases)):
        case = _case(number, value)
        if case.name in numbers:
            raise UsageError(f"Cases {numbers[case.name]} and {number} are both named {case.name!r}; rename one.")
        numbers[case.name] = number
        result.append(case)
    if not result:
        raise UsageError("There are no cases; pass at least one.")
    return result


def _records(cases: Any) -> Iterable[object]:  # noqa: ANN401 - a frame or an iterable
    if not hasattr(cases, "columns"):
        yield from cases
        return
    for record in cases.to_dict("records"):
        yield {name: value for name, value in record.items() if not _is_missing(value)}


def _is_missing(value: object) -> bool:
    """Return whether a frame has no value there."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None or is_nan or type(value).__name__ in {"NAType", "NaTType"}


def _numbered(cases: Iterable[object]) -> Iterator[tuple[int, object]]:
    number, source = 0, iter(cases)
    while True:
        number += 1
        try:
            value = next(source)
        except StopIteration:
            return
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise UsageError(f"The cases could not be read at case {number} ({reason}); nothing was asked.") from error
        yield number, value


def _case(number: int, value: object) -> Case:
    if isinstance(value, Mapping):
        names = [field.name for field in fields(Case)]
        for key in value:
            if key not in names:
                raise UsageError(f"Case {number} has an unknown field {key!r}. {did_you_mean(str(key), names)}")
        if "input" not in value:
            raise UsageError(f"Case {number} has no `input`; write the prompt there.")
        value = Case(**value)
    if not isinstance(value, Case):
        raise UsageError(f"Case {number} is {type(value).__name__}; pass a mapping with `input` and `expected`.")
    if not isinstance(value.input, str) or not value.input.strip():
        raise UsageError(f"Case {number} has no text as its `input` ({value.input!r}); write the prompt there.")
    if not isinstance(value.metadata, Mapping):
        raise UsageError(f"Case {number} has {type(value.metadata).__name__} as `metadata`; pass a mapping.")
    return Case(value.input, value.expected, dict(value.metadata), str(value.name).strip() or str(number))


def named_scorers(scorers: Sequence[object] | Mapping[str, object]) -> dict[str, object]:
    """Return scorers by name.

    Args:
        scorers: Functions or agents with names, or a mapping by name.

    Returns:
        The scorers.

    Raises:
        UsageError: One cannot be used.
    """
    if isinstance(scorers, Mapping):
        pairs = [(str(name), scorer) for name, scorer in scorers.items()]
    elif isinstance(scorers, Sequence) and not isinstance(scorers, str):
        pairs = [(_name(number, scorer), scorer) for number, scorer in enumerate(scorers, 1)]
    else:
        raise UsageError("`scorers` must be a list with functions, or a mapping by name.")
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"Several scorers are named {name}; pass a mapping with a name for each.")
    if not pairs:
        raise UsageError("There are no scorers; pass at least one, such as `planck_nb.testing.equals`.")
    return dict(pairs)


def _name(number: int, scorer: object) -> str:
    name = getattr(scorer, "name", None) or getattr(scorer, "__name__", "")
    if not isinstance(name, str) or not name or name == "<lambda>":
        raise UsageError(f"Scorer {number} has no name; pass a mapping, such as {{'short': lambda answer: ...}}.")
    return name


def function_scorer(name: str, function: object) -> Scorer:
    """Make a scorer from a function.

    Raises:
        UsageError: It cannot be called.
    """
    if not callable(function):
        raise UsageError(f"The scorer {name} is {type(function).__name__}; pass a function of the answer.")
    return Scorer(name, function, _digest(function))


def _cells(function: Any) -> Iterator[object]:  # noqa: ANN401 - any callable
    for cell in getattr(function, "__closure__", None) or ():
        with suppress(ValueError):  # empty
            yield cell.cell_contents


def _digest(function: Any) -> str:  # noqa: ANN401 - any callable
    """Digest a callable's source and the constants that it closes over."""
    if isinstance(function, partial):
        arguments = f"{function.args!r}, {sorted(function.keywords.items())!r}"
        return sha256(f"{_digest(function.func)}\0{arguments}".encode("utf-8", "replace")).hexdigest()[:12]
    code = function if hasattr(function, "__code__") else type(function)
    try:
        source = inspect.getsource(code)
    except (OSError, TypeError):
        source = f"{getattr(code, '__module__', '')}.{getattr(code, '__qualname__', '')}"
    constants = [*_cells(function), *(getattr(function, "__defaults__", None) or ())]
    settings = repr(function) if is_dataclass(function) else ""
    parts = [source, settings, *(repr(value) for value in constants if isinstance(value, _CONSTANTS))]
    return sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()[:12]
