"""Scorers for `Workspace.evaluate`, and cases as pytest parameters."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import participant_of
from planck_nb.agent.scoring import SCORER_SECONDS, CaseAnswer, function_scorer, named_scorers, read_cases
from planck_nb.ai.messages import AssistantMessage, ToolCallPart
from planck_nb.base.errors import UsageError

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet

    from planck_nb.agent.scoring import Case


def equals(answer: CaseAnswer) -> bool:
    """Compare the answer with the expected one, apart from spaces around texts.

    Args:
        answer: The answer.

    Returns:
        Whether they are equal.

    Raises:
        UsageError: The expected answer is missing.

    Example:
        >>> from planck_nb.testing import Case, CaseAnswer, equals
        >>> equals(CaseAnswer(Case("6 times 7?", expected="42"), " 42"))
        True
    """
    return bool(_stripped(answer.answer) == _stripped(_expected(answer)))


def contains(answer: CaseAnswer) -> bool:
    """Look for the expected text, or each text in a list.

    Upper and lower case are equal.

    Args:
        answer: The answer.

    Returns:
        Whether all are there.

    Raises:
        UsageError: The expected texts are missing.

    Example:
        >>> from planck_nb.testing import Case, CaseAnswer, contains
        >>> contains(CaseAnswer(Case("Primes?", expected=["two", "three"]), "Two and three."))
        True
    """
    target = _expected(answer)
    parts = [target] if isinstance(target, str) else target
    if not isinstance(parts, Sequence) or not parts or not all(isinstance(part, str) for part in parts):
        raise UsageError(f"`contains` needs a text or a list with texts as `expected`, not {target!r}.")
    text = _text(answer).casefold()
    return all(part.casefold() in text for part in parts)


def matches(answer: CaseAnswer) -> bool:
    """Search the answer with the expected regular expression.

    Args:
        answer: The answer.

    Returns:
        Whether it matches.

    Raises:
        UsageError: The expected pattern is missing.

    Example:
        >>> from planck_nb.testing import Case, CaseAnswer, matches
        >>> matches(CaseAnswer(Case("When?", expected=r"[0-9]{4}"), "In 1969."))
        True
    """
    pattern = _expected(answer)
    if not isinstance(pattern, str):
        raise UsageError(f"`matches` needs a regular expression as `expected`, not {pattern!r}.")
    return re.search(pattern, _text(answer)) is not None


def json_equal(answer: CaseAnswer) -> bool:
    """Compare JSON data, however it is laid out.

    Args:
        answer: The answer.

    Returns:
        Whether both are the same data.

    Raises:
        UsageError: The expected answer is missing.

    Example:
        >>> from planck_nb.testing import Case, CaseAnswer, json_equal
        >>> json_equal(CaseAnswer(Case("As JSON?", expected={"n": 1}), '{ "n": 1 }'))
        True
    """
    target = _expected(answer)
    try:
        value = json.loads(answer.answer) if isinstance(answer.answer, str) else _plain(answer.answer)
        data = json.loads(target) if isinstance(target, str) else _plain(target)
    except ValueError:
        return False
    return json.dumps(value, sort_keys=True) == json.dumps(data, sort_keys=True)


@dataclass(frozen=True, slots=True)
class _CalledTool:
    tool: str
    args: Mapping[str, Any]

    @property
    def name(self) -> str:
        arguments = "".join(f", {name}={value!r}" for name, value in self.args.items())
        return f"called_tool({self.tool}{arguments})"

    def __call__(self, answer: CaseAnswer) -> bool:
        return any(
            call.name == self.tool
            and all(name in call.args and call.args[name] == value for name, value in self.args.items())
            for call in answer.calls
        )


def called_tool(name: str, **args: Any) -> _CalledTool:  # noqa: ANN401 - JSON values
    """Make a scorer for calls to a tool.

    Args:
        name: The tool.
        **args: Arguments which one call must have, among others.

    Returns:
        The scorer.

    Example:
        >>> from planck_nb.testing import called_tool
        >>> called_tool("search", query="primes").name
        "called_tool(search, query='primes')"
    """
    return _CalledTool(name, args)


@dataclass(frozen=True, slots=True)
class _CostBelow:
    dollars: float

    @property
    def name(self) -> str:
        return f"cost_below({self.dollars:g})"

    def __call__(self, answer: CaseAnswer) -> bool:
        if answer.cost is None:
            raise UsageError(f"The price for {answer.model or 'this model'} is unknown.")
        return answer.cost < self.dollars


def cost_below(dollars: float) -> _CostBelow:
    """Make a scorer for cheap answers.

    Args:
        dollars: A bound in US dollars.

    Returns:
        The scorer.

    Raises:
        UsageError: The bound is not a positive number.

    Example:
        >>> from planck_nb.testing import Case, CaseAnswer, cost_below
        >>> cost_below(0.01)(CaseAnswer(Case("hi"), "Hello.", cost=0.002))
        True
    """
    if isinstance(dollars, bool) or not isinstance(dollars, int | float) or not dollars > 0:
        raise UsageError(f"`cost_below` needs more than 0 US dollars, not {dollars!r}.")
    return _CostBelow(dollars)


def case_parameters(cases: Iterable[object]) -> list[ParameterSet]:
    """Return cases as pytest parameters, each with its name as id.

    Args:
        cases: Cases, or mappings with `input`, `expected`, `metadata` and `name`.

    Returns:
        Parameters for `pytest.mark.parametrize("case", ...)`.

    Raises:
        UsageError: A case cannot be used.

    Example:
        >>> from planck_nb.testing import case_parameters
        >>> [parameter.id for parameter in case_parameters([{"input": "6 times 7?", "name": "product"}])]
        ['product']
    """
    import pytest  # noqa: PLC0415 - only tests have it

    return [pytest.param(case, id=case.name) for case in read_cases(cases)]


async def check_case(agent: Agent, case: Case, scorers: Sequence[object] | Mapping[str, object]) -> CaseAnswer:
    """Prompt an agent with a case, and require good scores.

    Each must be True or above 0.

    With a client whose cassette has the answers, a test needs neither key nor network.

    Args:
        agent: The agent, fresh for each case.
        case: The case.
        scorers: Functions, as for `Workspace.evaluate`.

    Returns:
        The answer.

    Raises:
        AssertionError: A scorer returned False or 0, or failed.
        PlanckError: The agent failed.

    Example:
        >>> import asyncio
        >>> from planck_nb import Agent
        >>> from planck_nb.testing import Case, check_case, contains, scripted_model
        >>> async def main():
        ...     async with Agent(model=scripted_model(["It is 42."])) as agent:
        ...         return (await check_case(agent, Case("6 times 7?", expected="42"), [contains])).answer
        >>> asyncio.run(main())
        'It is 42.'
    """
    [case] = read_cases([case])
    functions = [function_scorer(name, scorer) for name, scorer in named_scorers(scorers).items()]
    begin = time.monotonic()
    result = await agent.prompt(case.input)
    answer = CaseAnswer(
        case, result.text, str(agent.model), _calls(result.messages), result.cost, time.monotonic() - begin
    )
    problems = []
    for scorer in functions:
        for score in await scorer.score(answer, seconds=SCORER_SECONDS, agent=participant_of(agent)):
            if score.error or not score.value or score.value < 0:
                name = f"{scorer.name}.{score.measure}" if score.measure else scorer.name
                problems.append(f"{name}: {score.error or score.value}")
    assert not problems, f"{case.name}: {'; '.join(problems)}\nThe answer: {result.text}"  # noqa: S101 - for pytest
    return answer


def _calls(messages: Iterable[object]) -> tuple[ToolCallPart, ...]:
    parts = [part for message in messages if isinstance(message, AssistantMessage) for part in message.content]
    return tuple(part for part in parts if isinstance(part, ToolCallPart))


def _expected(answer: CaseAnswer) -> Any:  # noqa: ANN401 - any value
    if answer.case.expected is None:
        raise UsageError(f"The case {answer.case.name or answer.case.input!r} has no `expected` to compare with.")
    return answer.case.expected


def _stripped(value: object) -> object:
    return value.strip() if isinstance(value, str) else _plain(value)


def _plain(value: object) -> object:
    from pydantic_core import to_jsonable_python  # noqa: PLC0415 - only for structured answers

    return to_jsonable_python(value)


def _text(answer: CaseAnswer) -> str:
    return answer.answer if isinstance(answer.answer, str) else json.dumps(_plain(answer.answer), ensure_ascii=False)
