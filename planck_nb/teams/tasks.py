"""Tasks between a team's agents, and the ways back for responses.

A task is one agent's prompt to another. `ask` waits for the answer to that prompt. `delegate` returns at once; the
response is a prompt to the agent that gave the task, which wakes it up if it is idle. The task that an agent works on
is in a context variable of its turn, so that what it sends goes to the delegator of this task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from typing import Any

from planck_nb.agent import events as ev
from planck_nb.agent.agent import Agent
from planck_nb.agent.agent_access import emit_for, is_stopped, prompt_from
from planck_nb.agent.calling.tool_output import as_output
from planck_nb.agent.run import Run
from planck_nb.agent.run_group import RunGroup, current_group, within_group
from planck_nb.agent.run_result import RunResult
from planck_nb.agent.team_members import TeamMembers, title
from planck_nb.ai.messages import Purpose
from planck_nb.base.errors import AgentError, AgentStoppedError, DeadlockError, PlanckError, ToolError
from planck_nb.base.ids import new_id
from planck_nb.base.json_types import JsonObject

STOPPED = "{} was stopped before it answered."
NO_TEXT = "{} ended its work without a text."

MAX_CHAIN = 5
"""Tasks from one agent to another, each part of the one before."""

MAX_EQUAL = 10
"""Equal open tasks from one agent to another."""


@dataclass(eq=False)
class Task:
    """A task that one agent has given to another.

    Args:
        id: Its id, which is also the prompt's.
        kind: Whether the delegator waits for the answer.
        team: Their team.
        delegator: The agent that gave it.
        worker: The agent that works on it.
        text: The task.
        outer: The task that the delegator works on itself, None if it works for a person or a program.
        group: The runs that belong together with the delegator's.
    """

    id: str
    kind: ev.TaskKind
    team: TeamMembers[Agent]
    delegator: Agent
    worker: Agent
    text: str
    outer: Task | None
    group: RunGroup | None
    responses: list[str] = field(default_factory=list[str])
    """Responses which the worker has sent so far."""
    open_parts: int = 0
    """Open tasks which the worker has delegated to do this one."""
    open_runs: int = 0
    """Runs of the worker that work on it."""
    outcome: RunResult[Any] | BaseException | None = None
    """The last run's outcome."""
    turn: int | None = None
    """The index of the worker's newest turn for it."""
    is_over: bool = False
    has_failed: bool = False

    @property
    def is_wanted(self) -> bool:
        """Return whether the delegator is still there for a response."""
        return self.team.get(self.delegator.id) is self.delegator and not is_stopped(self.delegator)

    @property
    def is_dropped(self) -> bool:
        """Return whether the run to which it belongs was stopped."""
        return self.group is not None and self.group.is_aborted

    def give_up(self) -> None:
        """End the task without a result.

        Its worker has stopped working on it.
        """
        if self.kind == "delegate":
            _finish(self, None)


_current: ContextVar[Task | None] = ContextVar("planck_nb_task", default=None)


async def ask(
    team: TeamMembers[Agent],
    delegator: Agent,
    other: Agent,
    question: str,
    *,
    call_id: str,
    output: JsonObject | None = None,
    fresh: bool = False,
) -> str:
    """Ask another agent and wait for its answer to this very question.

    Args:
        team: Their team.
        delegator: The agent that asks and waits.
        other: The agent that answers.
        question: The question.
        call_id: The id of the tool call.
        output: The JSON Schema of the answer, None for text.
        fresh: Whether the other agent forgets its conversation before it.

    Returns:
        The answer.

    Raises:
        ToolError: There is no answer: the other one failed, was stopped, or waits for the delegator itself.
    """
    task = _new_task("ask", team, delegator, other, question)
    _publish(task, call_id)
    text, is_error = STOPPED.format(title(other)), True
    try:
        text = await _answer(task, output=output, fresh=fresh)
        is_error = False
    except ToolError as error:
        text = str(error)
        raise
    finally:
        task.is_over = True
        _count(task, text)
        _responded(task, as_output(text).text, error=is_error, automatic=False)
    return text


async def _answer(task: Task, *, output: JsonObject | None, fresh: bool) -> str:
    """Return the answer to a question. Raises ToolError."""
    name = title(task.worker)
    try:
        run = _start(task, "question", output=output, fresh=fresh)
        result = await run
    except DeadlockError as cycle:
        raise ToolError(
            f"Deadlock detected: {cycle} Use delegate_task, which does not wait, or answer without it."
        ) from cycle
    except AgentStoppedError:
        raise ToolError(f"Agent terminated: {name} was stopped.") from None
    except PlanckError as failure:
        raise ToolError(f"{name} could not answer: {failure}") from failure
    task.turn = run.turn
    if result.aborted:
        raise ToolError(STOPPED.format(name))
    answer = "\n\n".join(task.responses) or result.text
    if result.limit and not answer.strip():
        raise ToolError(f"{name} could not answer: {result.limit}") from DeadlockError(
            result.limit, f"{name} reaches its limit"
        )
    return answer


def delegate(
    team: TeamMembers[Agent], delegator: Agent, worker: Agent, text: str, *, call_id: str, fresh: bool = False
) -> None:
    """Give another agent a task, without waiting for the response.

    Args:
        team: Their team.
        delegator: The agent that gives the task.
        worker: The agent that gets it.
        text: The task.
        call_id: The id of the tool call.
        fresh: Whether the worker forgets its conversation before it.

    Raises:
        ToolError: The worker was stopped.
    """
    task = _new_task("delegate", team, delegator, worker, text)
    _publish(task, call_id)
    try:
        run = _start(task, "task", fresh=fresh)
    except AgentError as error:
        task.is_over = True
        _responded(task, str(error), error=True, automatic=True)
        raise ToolError(f"{title(worker)} cannot accept the task: {error}") from error
    if task.outer is not None:
        task.outer.open_parts += 1
    team.add_task(worker, task)
    _add_run(task, run)


def give_up_waiting(team: TeamMembers[Agent], worker: Agent) -> None:
    """End the tasks for which an agent only waits for responses.

    These are other agents' responses, and this one was interrupted.

    Args:
        team: Its team.
        worker: The agent.
    """
    for task in team.tasks_of(worker):
        if isinstance(task, Task) and not task.open_runs:
            task.give_up()


def respond(agent: Agent, text: str) -> None:
    """Send a response to the agent that gave the task on which this agent works.

    Args:
        agent: The agent that sends it.
        text: The response.

    Raises:
        ToolError: It works on no task of another agent, or that agent is gone.
    """
    task = _current.get()
    if task is None or task.worker is not agent or task.is_over or not task.is_wanted:
        raise ToolError("No delegator to respond to. Your final reply goes to whoever prompted you.")
    task.responses.append(text)
    if task.kind == "delegate":
        _deliver(task, text, error=False, automatic=False)


def _new_task(kind: ev.TaskKind, team: TeamMembers[Agent], delegator: Agent, worker: Agent, text: str) -> Task:
    outer = _current.get()
    if outer is not None and outer.worker is not delegator:
        outer = None
    task = Task(new_id(), kind, team, delegator, worker, text, outer, current_group())
    if task.is_dropped:
        raise ToolError("The run was stopped.")
    _require_progress(task)
    return task


def _require_progress(task: Task) -> None:
    """Raise `ToolError` if two agents hand the same work back and forth."""
    names = f"{title(task.delegator)} and {title(task.worker)}"
    if sum(_is_between_same(task, outer) for outer in _outer_tasks(task)) >= MAX_CHAIN:
        cause = DeadlockError("", f"{names} give each other tasks, each as a part of the one before")
        raise ToolError(
            f"{names} have given each other {2 * MAX_CHAIN} tasks, each as a part of the one before; do this one "
            "yourself, or answer."
        ) from cause
    open_tasks = [item for item in task.team.tasks_of(task.worker) if isinstance(item, Task)]
    if sum(_is_between_same(task, item) and item.text == task.text for item in open_tasks) >= MAX_EQUAL:
        cause = DeadlockError("", f"{title(task.worker)} has this task already")
        raise ToolError(
            f"{title(task.worker)} has been given this very task {MAX_EQUAL} times and works on it; end your turn and "
            "wait for the responses, or do something else."
        ) from cause


def _outer_tasks(task: Task) -> Iterator[Task]:
    """Yield the tasks around a task, the innermost first."""
    outer = task.outer
    while outer is not None:
        yield outer
        outer = outer.outer


def _is_between_same(task: Task, other: Task) -> bool:
    return other.delegator is task.delegator and other.worker is task.worker


def _publish(task: Task, call_id: str) -> None:
    worker = task.worker
    emit_for(task.delegator, ev.Delegated, task.id, task.kind, worker.id, title(worker), task.text, call_id)


def _start(task: Task, purpose: Purpose, *, output: JsonObject | None = None, fresh: bool = False) -> Run[Any]:
    """Send the task to the worker.

    The worker's turn works on it from then on.
    """
    return _in_context(
        task,
        task.group,
        lambda: prompt_from(
            task.delegator, task.worker, task.text, purpose, prompt_id=task.id, output=output, fresh=fresh
        ),
    )


def _in_context(task: Task | None, group: RunGroup | None, send: Callable[[], Run[Any]]) -> Run[Any]:
    """Send a prompt whose turn works on the task and belongs to the group."""

    def sent() -> Run[Any]:
        _current.set(task)
        with within_group(group):
            return send()

    return copy_context().run(sent)


def _add_run(task: Task, run: Run[Any]) -> None:
    """Note that a run of the worker works on the task."""
    task.open_runs += 1
    run.follow(lambda worker_run: _run_ended(task, worker_run))


def _run_ended(task: Task, run: Run[Any]) -> None:
    task.open_runs -= 1
    task.turn = run.turn if run.turn is not None else task.turn
    task.outcome = run.outcome
    _finish_if_done(task)


def _finish_if_done(task: Task) -> None:
    """Finish a delegated task if its worker is done with it."""
    outcome = task.outcome
    if task.kind == "ask" or outcome is None:  # the delegator has its answer already; or the first turn has not ended
        return
    result = outcome if isinstance(outcome, RunResult) and not (outcome.aborted or task.is_dropped) else None
    # A worker that waits for responses itself goes on when they have come.
    if result is None or not (task.open_runs or task.open_parts):
        _finish(task, result)


def _finish(task: Task, result: RunResult[Any] | None) -> None:
    """End a delegated task: send what the worker has not sent itself."""
    if task.is_over:
        return
    task.is_over = True
    task.team.remove_task(task.worker, task)
    name, outcome = title(task.worker), task.outcome
    if result is None:
        task.has_failed = True
        reason = f"{name} failed: {outcome}" if isinstance(outcome, BaseException) else STOPPED.format(name)
        _deliver(task, reason, error=True, automatic=True)
    elif not task.responses:
        text = result.text if result.text.strip() else " ".join(filter(None, (NO_TEXT.format(name), result.limit)))
        _deliver(task, text, error=False, automatic=True)
    _end_part(task)


def _end_part(task: Task) -> None:
    """Note in the outer task that this part has ended."""
    if (outer := task.outer) is not None:
        outer.open_parts -= 1
        _finish_if_done(outer)


def _deliver(task: Task, text: str, *, error: bool, automatic: bool) -> None:
    """Send a response to the agent which gave the task.

    It is not sent if the agent, the run or the outer task has ended.
    """
    text = as_output(text).text
    _responded(task, text, error=error, automatic=automatic)
    count = _count(task, text)
    outer = task.outer
    if not task.is_wanted or task.is_dropped or (outer is not None and outer.has_failed):
        return
    if outer is not None and outer.is_over:
        outer = None
    prompt = f"Error: {text}" if error else text
    if count:
        name = title(task.worker)
        prompt += f"\n\n[{name} has sent this response {count} times to the same task; do something else, or answer.]"
    with suppress(AgentError):  # it was stopped meanwhile, or its event loop is closed
        run = _in_context(
            outer, task.group, lambda: prompt_from(task.worker, task.delegator, prompt, "response", batch=outer)
        )
        if outer is not None:
            _add_run(outer, run)


def _count(task: Task, response: str) -> int:
    """Count the task; return the number of equal ones for the delegator."""
    names = title(task.delegator), title(task.worker)
    return 0 if task.group is None else task.group.spend.count_task(*names, (task.text, response))


def _responded(task: Task, text: str, *, error: bool, automatic: bool) -> None:
    if not task.is_wanted:
        return
    worker = task.worker
    turn = task.turn if task.turn is not None else _turn_of(task)
    with within_group(task.group):  # the delegator may be idle: its own turn is not what this belongs to
        emit_for(
            task.delegator,
            ev.Responded,
            task.id,
            task.kind,
            worker.id,
            title(worker),
            text,
            error,
            automatic,
            turn,
        )


def _turn_of(task: Task) -> int | None:
    """Return the turn in which the worker is working on the task.

    None if this is called outside it.
    """
    info = task.worker.info()
    return info.turn if _current.get() is task and info.status != "idle" else None
