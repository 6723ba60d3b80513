"""Runs an agent: takes prompts from its queue and answers them, one turn at a time."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, TypeVar

from planck_nb.agent import events as ev
from planck_nb.agent.agent_settings import AgentSettings
from planck_nb.agent.approval.gate import Approvals, Gate
from planck_nb.agent.calling.tool import stored_names
from planck_nb.agent.charges import Charge, charged, read_within_limits
from planck_nb.agent.context.compactor import Compactor, ContextUsage
from planck_nb.agent.context.window import ContextWindow
from planck_nb.agent.event_loop_ownership import LoopOwnership
from planck_nb.agent.limits import SessionSpend, TurnBudget
from planck_nb.agent.loop import run_turn
from planck_nb.agent.output import OutputSpec
from planck_nb.agent.prompt_queue import PromptQueue
from planck_nb.agent.recorder import EventRecorder
from planck_nb.agent.run import Run, logs_of
from planck_nb.agent.run_group import RunGroup, current_group, within_group
from planck_nb.agent.run_result import RunResult, RunStatus
from planck_nb.agent.team_members import TeamMembers, enter_team
from planck_nb.agent.tokens import estimate_request
from planck_nb.agent.turn_runner import TurnRunner
from planck_nb.agent.wait_graph import Participant, require_unjudged, within
from planck_nb.ai.context_windows import cuts_silently, is_reported
from planck_nb.ai.messages import AssistantMessage, Message, Usage, UserMessage, UserPart
from planck_nb.ai.model_lookup.model_source import model_source
from planck_nb.ai.model_lookup.stored_options import stored_options
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options
from planck_nb.base.errors import AgentError, AgentStoppedError, NoRunningLoopError, PlanckError
from planck_nb.base.event_loops import await_in_loop, call_in_loop, is_running_here
from planck_nb.base.ids import new_id
from planck_nb.base.secrets import redact

T = TypeVar("T")

SAFE_SCALE = 1.25
"""The lowest ratio of counted to estimated tokens assumed for a server that silently cuts long conversations."""

NOTICED_WAIT = 10.0
"""Seconds that a prompt from another thread waits before the running turn warns about it."""

NEW_TASK = "Starting new task."
"""The summary that replaces a conversation which is not to be sent to the model any more."""

_busy: set[AgentRunner] = set()
"""Runners with a turn under way: the event loop keeps only weak references to tasks."""


class AgentRunner:
    """The private side of an `Agent`: its queue, the running turn, and how both are stopped.

    A turn is one task, and between turns there is none. It runs on the event loop that sent its prompt; while it does,
    all else that changes the agent happens on that loop too.

    Args:
        setup: The agent's settings; read again for every request.
        recorder: The agent's conversation and events.
        approvals: Decides which calls may run, None if all may.
        compactor: Shortens the conversation, None for an agent without one.
        session_spend: What the agents of the session have spent together.
    """

    def __init__(
        self,
        setup: AgentSettings,
        recorder: EventRecorder,
        approvals: Approvals | None,
        compactor: Compactor | None,
        session_spend: SessionSpend,
    ) -> None:
        self.window = ContextWindow(
            recorder,
            compactor,
            measure=self._measure,
            count=self._count,
            model=self._current_model,
            ratio=setup.tokens_per_estimate,
            spend=self._spend_on_summary,
            seconds_left=self._seconds_left,
            stop=self._stop_run,
        )
        self.gate = Gate(approvals, setup.identity, recorder) if approvals else None
        self._setup = setup
        self._recorder = recorder
        self.session_spend = session_spend
        self.approvals = approvals
        self.participant = Participant(setup.identity.name or setup.identity.id)
        self._ownership = LoopOwnership()
        self._queue = PromptQueue()
        self._turn: TurnRunner | None = None
        self._task: asyncio.Task[None] | None = None
        self._aborting = False
        """Whether we have cancelled the running turn."""
        self._stopping = self._removed = False
        self._group: weakref.ref[RunGroup] | None = None
        """The group of the newest turn."""
        self.team: TeamMembers[Any] | None = None
        """The agent's team."""
        self._rewinding = False
        self._rewinding_loop: asyncio.AbstractEventLoop | None = None
        recorder.follow(self)

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running, or prompts have to wait for a rewind."""
        return self._task is not None or self._rewinding

    def accept(
        self,
        prompt: UserMessage,
        *,
        output: OutputSpec | None = None,
        steer: bool = False,
        join: bool = False,
        batch: object = None,
        logged: bool = True,
        fresh: bool = False,
        prompt_id: str | None = None,
        allow: Iterable[str] = (),
    ) -> Run[Any]:
        """Answer the prompt now, or queue it while a turn is running.

        Args:
            prompt: The prompt; without content it only lets the model continue.
            output: What the answer must be, None for plain text.
            steer: Whether the prompt may enter the running turn.
            join: Whether one turn may answer it together with others that wait.
            batch: It joins only prompts with the same batch, in the same run group.
            logged: Whether the run keeps its own log of events.
            fresh: Whether the model is sent nothing of the conversation before it.
            prompt_id: Its id, None for a new one.
            allow: Names of tools that need no approval for this prompt.

        Returns:
            The run of the prompt.

        Raises:
            NoRunningLoopError: Outside an event loop, unless the agent is used by one that runs.
            AgentStoppedError: After `stop`.
            UsageError: A scorer prompts the agent under evaluation.
        """
        require_unjudged(self.participant)
        loop = self._require_loop(steer=steer)
        group = current_group()
        if steer and group is None and self._group is not None:
            group = self._group()  # steering adds to what the agent works on, even while it waits for others
        with within_group(group):
            run = self._new_run(
                prompt_id or new_id(),
                prompt,
                output,
                loop,
                steer=steer,
                join=join or steer,
                batch=batch,
                logged=logged,
                fresh=fresh,
                allow=allow,
            )
        if is_running_here(loop):
            self._admit(run)
        else:
            self._call_soon(run, self._admit)
        return run

    def accept_again(
        self,
        prompt_id: str,
        prompt: UserMessage,
        *,
        output: OutputSpec | None = None,
        join: bool = False,
    ) -> Run[Any]:
        """Queue a prompt of an earlier process under its own id; `answer_queue` starts the answer.

        Raises:
            NoRunningLoopError: Outside an event loop.
            AgentStoppedError: After `stop`.
        """
        run = self._new_run(prompt_id, prompt, output, self._require_loop(), join=join)
        if self._ownership.admit(run):
            self._queue.put(run)
            self._emit_queued(run)
        return run

    def answer_queue(self) -> None:
        """Start to answer the waiting prompts unless a turn is running, at whose end they are answered."""
        if self._queue and not self.is_busy:
            self._start_next_turn()

    def in_loop(self, function: Callable[[], T]) -> T:
        """Call a quick function that changes the agent, on the event loop that uses it."""
        return call_in_loop(self._ownership.loop, function)

    def forget_queued(self, prompt_id: str) -> None:
        """Publish that a waiting prompt of an earlier process was removed."""
        self._recorder.emit(ev.Unqueued, prompt_id, removed=True)

    def edit_queued(self, prompt_id: str, content: Sequence[UserPart]) -> None:
        """Replace the content of a waiting prompt. Raises `AgentError` if no such prompt is waiting."""
        run = self.find_queued(prompt_id)
        run.prompt = replace(run.prompt, content=tuple(content))
        self._emit_queued(run)

    def remove_queued(self, prompt_id: str, *, returned: bool) -> None:
        """Remove a waiting prompt. Raises `AgentError` if no such prompt is waiting."""
        self.stop_run(self.find_queued(prompt_id), returned=returned)

    def find_queued(self, prompt_id: str) -> Run[Any]:
        """The run of a waiting prompt. Raises `AgentError` if no such prompt is waiting."""
        run = self._queue.find(prompt_id)
        if run is None:
            raise AgentError(f"No prompt {prompt_id} is waiting; it was answered or removed already.")
        return run

    def stop_run(self, run: Run[Any], *, returned: bool = False) -> None:
        """Remove the run from the queue, or cancel the turn that answers it.

        Args:
            run: The run.
            returned: Whether views offer a removed prompt to its author to send again.
        """
        if run in self._queue:
            self._queue.remove(run)
            self._recorder.emit_to(run.logs, ev.Unqueued, run.id, removed=True, returned=returned)
            _settle_unanswered(run)
        elif self._turn is not None and run in self._turn.runs:
            self._cancel_turn()
        elif run.status == "queued":  # behind the prompts of another thread's event loop
            self._ownership.leave(run)
            _settle_unanswered(run)

    async def abort(self) -> None:
        """Cancel the running turn and return when it has ended; then the queue is answered."""
        await self._where_it_runs(self._abort)

    async def stop(self, *, removed: bool) -> None:
        """Accept no more prompts, empty the queue, cancel the running turn and return when it has ended."""
        self._stopping = True
        self._removed = self._removed or removed
        await self._where_it_runs(self._stop)

    async def compact(self) -> bool:
        """Compact the conversation now, on the event loop that uses the agent.

        Returns:
            Whether it became shorter.

        Raises:
            AgentError: If the agent has no compactor.
        """
        here = asyncio.get_running_loop()
        owner = self._ownership.acquire(here)
        if owner is not here and owner.is_running():
            return await await_in_loop(owner, self.compact)  # that loop may have released it by then
        try:
            return await self.window.compact()
        finally:
            if self._ownership.loop is here and not self.is_busy:
                self._release()

    async def close_window(self) -> None:
        """Stop a running compaction and return when it has ended; the conversation stays as it was."""
        await self._where_it_runs(self.window.close)

    async def _abort(self) -> None:
        runs = list(self._turn.runs) if self._turn else []
        if runs:
            self._cancel_turn()
        await self.window.close()
        await asyncio.gather(*(run.wait() for run in runs), return_exceptions=True)

    async def _stop(self) -> None:
        for run in self._ownership.clear():
            self._call_soon(run, _settle_unanswered)
        self._empty_queue()
        self._cancel_turn()
        await self.window.close()
        if self._task is not None:
            await asyncio.wait([self._task])
        self._close()

    def refresh_prompt_parts(self) -> None:
        """Read the parts of the system prompt that may have changed, between turns."""
        if self._task is None:
            self._load_prompt_parts()

    def change_model(self) -> None:
        """Use the model that was set from the next request on, in the running turn too."""
        if self._turn is not None:
            self._turn.model = self._setup.model
        self.emit_changed()

    def emit_changed(self) -> None:
        """Publish the agent's settings after one of them changed."""
        setup = self._setup
        self._recorder.emit(
            ev.AgentChanged,
            str(setup.model),
            setup.system_prompt,
            stored_names(setup.tools),
            stored_options(setup.options),
            model_source(setup.model),
            setup.own_limits(),
        )

    # `LogFollower`: called by the session when messages are taken back.

    async def rewinding(self) -> None:
        """Stop the running turn and empty the queue; prompts wait until `rewound`."""
        self._rewinding, self._rewinding_loop = True, asyncio.get_running_loop()
        # Prompts from other loops are queued for an idle agent; a loop that uses the agent keeps it.
        self._ownership.acquire(asyncio.get_running_loop())
        self.in_loop(self._empty_queue)
        await self.abort()
        await self.close_window()

    def rewound(self, message_id: int | None) -> None:
        """Continue from what is left in the log."""
        try:
            if message_id is not None and not self._stopping:  # after a stop, another agent may have its id
                self._recorder.reload(message_id)
                self.emit_changed()
        finally:
            self._rewinding, self._rewinding_loop = False, None
            owner = self._ownership.loop
            if owner is None or is_running_here(owner):
                self._answer_queue_or_release()
            else:  # the prompts that wait were sent there
                with suppress(RuntimeError):
                    owner.call_soon_threadsafe(self._answer_queue_or_release)

    def _answer_queue_or_release(self) -> None:
        """Continue after a rewind, unless a turn still runs because nothing was taken back."""
        if self._queue:
            self.answer_queue()
        elif not self.is_busy:
            self._release()

    def require_not_stopped(self) -> None:
        """Raise `AgentStoppedError` after `stop`."""
        if self._stopping:
            identity = self._setup.identity
            raise AgentStoppedError(f"Agent {identity.name or identity.id} was stopped; create a new one.")

    def _require_loop(self, *, steer: bool = False) -> asyncio.AbstractEventLoop:
        """The event loop for a prompt that is sent now: that of the caller, or that of the turn that it steers."""
        self.require_not_stopped()
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            if (last := self._ownership.last) is not None:
                return last
            raise NoRunningLoopError(
                "An agent needs a running event loop; wrap the call in `asyncio.run(main())`."
            ) from None
        return (self._ownership.loop or here) if steer else here

    def _new_run(
        self,
        prompt_id: str,
        prompt: UserMessage,
        output: OutputSpec | None,
        loop: asyncio.AbstractEventLoop,
        *,
        steer: bool = False,
        join: bool,
        batch: object = None,
        logged: bool = True,
        fresh: bool = False,
        allow: Iterable[str] = (),
    ) -> Run[Any]:
        return Run(
            prompt_id,
            prompt,
            self.stop_run,
            output,
            steer=steer,
            join=join,
            batch=batch,
            logged=logged,
            fresh=fresh,
            allow=allow,
            agent=self.participant,
            loop=loop,
        )

    def _admit(self, run: Run[Any]) -> None:
        """Answer or queue a prompt. Called on its event loop."""
        if not self._ownership.admit(run):
            run.loop.call_later(NOTICED_WAIT, self._notice_wait, run)
            return
        self._forget_lost_turn()
        if self._stopping:
            _settle_unanswered(run)
            if not self.is_busy:
                self._release()
        elif self.is_busy:
            run.steer = run.steer and not self._rewinding  # else there is no turn that it could enter
            self._queue.put(run)
            self._emit_queued(run)
        else:
            self._start_turn([run])

    def _release(self) -> None:
        """Let the event loop of another thread use the agent, if one waits for it."""
        compaction = self.window.compaction
        if compaction is not None:  # it belongs to this event loop
            compaction.add_done_callback(lambda _: self._release_if_idle())
        elif (run := self._ownership.release()) is not None:
            self._call_soon(run, self._answer_after_release)

    def _release_if_idle(self) -> None:
        if not self.is_busy and self.window.compaction is None:
            self._release()

    def _answer_after_release(self, run: Run[Any]) -> None:
        """Answer a prompt that waited for the event loop of another thread. Called on its own loop."""
        if run.status == "queued":
            self._admit(run)  # a later prompt of this loop may have started a turn already
        elif not self.is_busy:
            self._release()

    def _notice_wait(self, run: Run[Any]) -> None:
        """Let a turn warn that a prompt from another thread waits for it, in case a tool waits for that thread."""
        owner = self._ownership.loop
        if run.status == "queued" and owner is not None:
            with suppress(RuntimeError):
                owner.call_soon_threadsafe(self._warn_of_wait, owner)

    def _warn_of_wait(self, owner: asyncio.AbstractEventLoop) -> None:
        if self._turn is not None and self._ownership.loop is owner:  # not handed over meanwhile
            self._turn.warn_of_wait()

    def _call_soon(self, run: Run[Any], function: Callable[[Run[Any]], None]) -> None:
        """Call the function with the run on its event loop, unless that is closed."""
        with suppress(RuntimeError):
            run.loop.call_soon_threadsafe(function, run)

    async def _where_it_runs(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await the function on the event loop that uses the agent."""
        loop = self._ownership.loop
        if loop is None or is_running_here(loop) or not loop.is_running():
            return await function()
        return await await_in_loop(loop, function)

    def _forget_lost_turn(self) -> None:
        """Drop a turn whose event loop was closed before it had ended, and prompts that waited on a closed loop."""
        turn, task = self._turn, self._task
        if self._rewinding_loop is not None and self._rewinding_loop.is_closed():
            self._rewinding, self._rewinding_loop = False, None
        if turn is not None and task is not None and task.get_loop().is_closed():
            self._recorder.emit(ev.Aborted)
            self._task = self._turn = None
            _busy.discard(self)
            self._recorder.audience = []
        for run in self._queue:
            if run.loop.is_closed():
                self._queue.remove(run)
                self._recorder.emit_to(run.logs, ev.Unqueued, run.id, removed=True)
                with suppress(RuntimeError):  # a task of the closed loop awaited it
                    _settle_unanswered(run)

    def _emit_queued(self, run: Run[Any]) -> None:
        """Publish a waiting prompt with all that is needed to send it again after a crash."""
        prompt = run.prompt
        content = () if prompt.content == UserMessage(prompt.text).content else prompt.content
        schema = None if run.output_spec is None else run.output_spec.schema
        self._recorder.emit_to(
            run.logs,
            ev.Queued,
            run.id,
            prompt.text,
            run.steer,
            content,
            schema,
            run.join,
            prompt.sender_id,
            prompt.sender_name,
            prompt.purpose,
        )

    @property
    def worker(self) -> str:
        """Name the current reply's worker."""
        return self._turn.worker if self._turn else ""

    def _current_model(self) -> Model:
        """The model that answers now: in a turn perhaps a fallback."""
        return self._turn.model if self._turn else self._setup.model

    def _count(self, messages: Sequence[Message], scale: float, counted: bool) -> int:
        if cuts_silently(self._current_model()):  # then a wrong estimate is never noticed
            scale, counted = max(scale, SAFE_SCALE), False
        return self._setup.estimate_tokens(messages, scale, counted=counted)

    def _measure(self, messages: Sequence[Message], scale: float, counted: bool) -> ContextUsage:
        setup = self._setup
        model = self._current_model()
        if cuts_silently(model):
            scale = max(scale, SAFE_SCALE)  # as in `_count`
        tokens = self._count(messages, scale, counted)
        window = setup.client.context_window(model, setup.options)
        spend = self.window.count_compaction
        return ContextUsage(tokens, window, model, setup.client, scale, spend, self._exhausted)

    def _spend_on_summary(
        self, usage: Usage, cost: float | None, /, model: str = "", *, estimated: bool = False
    ) -> None:
        self._charge(Charge("summary", usage, cost, model or str(self._current_model()), estimated))

    def _charge(self, charge: Charge) -> None:
        """Count what a request outside the conversation took."""
        if self._turn is not None:
            self._turn.charge(charge)
        elif not charge.is_nothing:
            TurnBudget(self._setup.limits, self.session_spend).spend(charge.usage.total_tokens, charge.cost)
            self._recorder.add_charge(charge)

    async def complete(self, context: Context, options: Options) -> AssistantMessage:
        """Have the model reply outside the conversation, and count what that takes."""
        model, request = self._current_model(), Usage(estimate_request(context))
        if reason := self._exhausted(request.total_tokens, model.cost(request)):
            raise AgentError(reason)
        async with (
            asyncio.timeout(self._seconds_left()),
            self._setup.client.stream(model, context, options) as stream,
        ):
            try:
                reason = await read_within_limits(stream, request, self._exhausted)
            finally:  # what a stopped reply has taken is paid for, too
                reply = charged(stream, request)
                self._charge(Charge.of("sampling", reply))
        if reason:
            raise AgentError(reason)
        return reply

    def _seconds_left(self) -> float | None:
        """How long a compaction may take: as long as the turn may go on, or as a turn may take."""
        return self._setup.limits.seconds if self._turn is None else self._turn.seconds_left()

    def _exhausted(self, tokens: int = 0, cost: float | None = 0.0) -> str:
        """A sentence if a limit is reached, with what a running request takes: then a compaction may send no more."""
        if self._turn is not None:
            return self._turn.reached_limit(tokens, cost)
        budget = TurnBudget(self._setup.limits, self.session_spend)
        reached = budget.reached_limit(self._setup.model, tokens, cost)
        return "" if reached is None else reached[1]

    def _load_prompt_parts(self) -> None:
        setup = self._setup
        parts = setup.load_prompt_parts()
        if parts != setup.prompt_parts:
            setup.prompt_parts = parts
        missing = [tool for tool in setup.prompt_parts.tools if tool.name not in setup.tools]
        if missing:
            setup.add_tools(missing)
            self.emit_changed()

    def _start_turn(self, runs: list[Run[Any]]) -> None:
        self._aborting = False
        setup = self._setup
        group = runs[0].group
        self._group = None if group is None else weakref.ref(group)
        budget = TurnBudget(setup.limits, self.session_spend, run_spend=None if group is None else group.spend)
        turn = TurnRunner(
            runs,
            setup=setup,
            recorder=self._recorder,
            window=self.window,
            gate=self.gate,
            queue=self._queue,
            budget=budget,
            participant=self.participant,
        )
        self._turn = turn
        self.window.start_turn()
        self._recorder.audience = logs_of(runs)
        self._recorder.emit(ev.TurnStart, self._recorder.settled.turn + 1, str(setup.model))
        for run in runs:
            run.turn = self._recorder.settled.turn
        # What a tool prints shows under the cell whose prompt is answered: the turn runs in that prompt's context.
        name, context = f"planck-agent-{setup.identity.name or setup.identity.id}", runs[0].context
        self._task = asyncio.get_running_loop().create_task(self._answer(turn), name=name, context=context)
        self._task.add_done_callback(self._answered, context=context)
        _busy.add(self)

    def _start_next_turn(self) -> None:
        """Answer what is waiting."""
        runs = self._queue.take_turn()
        for run in runs:
            self._recorder.emit_to(run.logs, ev.Unqueued, run.id)
        self._start_turn(runs)

    async def _answer(self, turn: TurnRunner) -> None:
        """The task of one turn. A turn that was cancelled or failed is ended by `_answered`."""
        enter_team(self.team)
        self._load_prompt_parts()
        await self._look_up_window(turn)
        if any(run.fresh for run in turn.runs):
            await self._recorder.append_summary(NEW_TASK, lambda _: ())
        with within(self.participant):
            reply = await run_turn(turn, turn.prompts)
        task = asyncio.current_task()
        if task is not None and not task.cancelling():
            self._end_turn(task, reply=reply)

    async def _look_up_window(self, turn: TurnRunner) -> None:
        """Learn the context window of a local model from its server, before the first request to it."""
        model = self._setup.model
        if not is_reported(model):
            return
        known = await self._setup.client.with_reported_window(model)
        if known != model and self._setup.model is model:
            self._setup.model = turn.model = known
            self.emit_changed()

    def _answered(self, task: asyncio.Task[None]) -> None:
        """The turn's task is done, perhaps cancelled before its first step."""
        if task is self._task:
            self._end_turn(task, error=None if task.cancelled() else task.exception())

    def _end_turn(
        self,
        task: asyncio.Task[Any],
        *,
        reply: AssistantMessage | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Publish how the turn ended, and continue with what is waiting."""
        turn = self._turn
        if turn is None:
            return
        status: RunStatus
        if reply is not None:
            status = "done"
            self._recorder.emit(ev.TurnEnd, reply, turn.usage)
        elif error is not None:
            status = "failed"
            reason = str(error) if isinstance(error, PlanckError) else f"{type(error).__name__}: {error}"
            self._recorder.emit(ev.Error, redact(reason), type(error).__name__)
        else:
            status = "aborted"
            self._recorder.emit(ev.Aborted)
        self._task = self._turn = None
        _busy.discard(self)
        self._recorder.audience = []
        turn.settle(status, error)
        if task.cancelling() > self._aborting:  # cancelled by something else too: the event loop is closing
            self._empty_queue()
        elif self._queue and not self._rewinding:
            self._start_next_turn()
        elif not (self._stopping or self._aborting):  # after a stop nothing is asked of a model
            self.window.prepare_ahead()
        if self._stopping:
            self._close()
        if not self.is_busy:
            self._release()

    def _close(self) -> None:
        """Publish that the agent stopped, once."""
        if not self._recorder.settled.stopped:
            self._recorder.emit(ev.AgentStopped, self._removed)
            self._recorder.events.close()

    def _empty_queue(self) -> None:
        for run in self._queue:
            self.stop_run(run)

    def _stop_run(self) -> None:
        """Cancel the turn and its whole run."""
        if (group := current_group()) is not None:
            group.abort()
        if self._turn is not None:
            self._cancel_turn()

    def _cancel_turn(self) -> None:
        """Cancel the turn once: a second cancellation must not interrupt how it stores what was written."""
        if self._aborting:
            return
        self._aborting = True
        if self._task is not None:
            self._task.cancel()


def _settle_unanswered(run: Run[Any]) -> None:
    """End a run that no turn will answer."""
    run.settle("aborted", RunResult((), Usage(), None, aborted=True, output=None if run.output_spec else ""))
