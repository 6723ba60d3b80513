"""One turn of an agent, as the loop sees it: its requests and tool calls, what it may spend, and its results."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

from planck_nb.agent import events as ev
from planck_nb.agent.agent_settings import AgentSettings
from planck_nb.agent.answers import ReplyProblem, problem_of, warning
from planck_nb.agent.approval.gate import Gate
from planck_nb.agent.calling.approved_call import ApprovedCall
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.charges import Charge, charged
from planck_nb.agent.context.refused_media import RefusedMedia
from planck_nb.agent.context.window import ContextWindow
from planck_nb.agent.limits import ReachedLimit, TurnBudget
from planck_nb.agent.output import OutputMismatch, OutputSpec, correction
from planck_nb.agent.prompt_queue import PromptQueue
from planck_nb.agent.recorder import EventRecorder
from planck_nb.agent.run import Run, logs_of
from planck_nb.agent.run_group import GroupedTurn
from planck_nb.agent.run_result import RunResult, RunStatus, last_reply
from planck_nb.agent.state import Entry
from planck_nb.agent.wait_graph import Participant, WaitScope, within
from planck_nb.ai.client import Stream
from planck_nb.ai.messages import AssistantMessage, Message, ToolCallPart, ToolResultPart, Usage, UserMessage
from planck_nb.ai.models import Model
from planck_nb.base.errors import (
    ContextOverflowError,
    DeadlockError,
    LimitError,
    ModelError,
    OutputError,
    PlanckError,
    ProviderError,
    did_you_mean,
)
from planck_nb.base.secrets import redact
from planck_nb.base.timeouts import ReusableTimeout


class TurnRunner:
    """What the loop needs to run one turn, and what it learns on the way.

    Args:
        runs: The prompts that the turn answers.
        setup: The agent's settings, which may change while the turn runs.
        recorder: The agent's conversation and events.
        window: Keeps the conversation within the context window.
        gate: Decides which calls may run, None if all may.
        queue: The agent's waiting prompts, some of which may steer the turn.
        budget: Counts what the turn spends.
        participant: The agent, as the graph of waits knows it.
    """

    def __init__(
        self,
        runs: list[Run[Any]],
        *,
        setup: AgentSettings,
        recorder: EventRecorder,
        window: ContextWindow,
        gate: Gate | None,
        queue: PromptQueue,
        budget: TurnBudget,
        participant: Participant,
    ) -> None:
        self.runs = runs
        self.model = setup.model
        """The model that answers now: a fallback, once the agent's own has failed."""
        self.usage = self._request = Usage()
        """The tokens of the turn's requests so far."""
        self.lost_workers = 0
        self.emit = recorder.emit
        self.has_deltas = recorder.has_deltas
        self.append: Callable[[Message], Awaitable[None]] = recorder.append
        self.fit_window = window.prepare
        self.count_streamed = budget.count_streamed
        self._setup = setup
        self._recorder = recorder
        self._window = window
        self._gate = gate
        self._queue = queue
        self._budget = budget
        self._participant = participant
        self._fallbacks = list(setup.fallbacks)
        self._refused_media = RefusedMedia(setup.sendable)
        self._asked = False
        self._next_request: Usage | None = None
        """The estimate of the next request, until it is sent."""
        self._first = len(recorder.settled.messages)
        self._cost: float | None = None
        self._unpriced = False
        self._output: object = None
        self._corrected = False
        self._limit = ""
        self._warning = ""
        """What is wrong with the newest reply."""
        self._told_of_wait = False
        self._stream: Stream | None = None
        """The current reply."""
        self._timeout = ReusableTimeout(budget.seconds_left)
        for run in runs:
            run.status = "running"

    @property
    def agent_id(self) -> str:
        """The agent's id, which some tools ask for."""
        return self._setup.identity.id

    @property
    def prompts(self) -> list[UserMessage]:
        """The prompts to answer; a run that only lets the model continue has none."""
        return [run.prompt for run in self.runs if run.prompt.content]

    # Asking the model.

    async def check_images(self) -> None:
        """Check the images that the next request has, without blocking the event loop."""
        await self._setup.sendable.check_images(self._window.messages())

    def open_stream(self) -> Stream:
        """Ask the model for the next reply to the conversation so far."""
        setup, spec = self._setup, self._output_spec
        self._warning = ""
        options = setup.options if spec is None else replace(setup.options, output=spec.schema)
        messages = self._window.messages()
        context = setup.context(messages, self.model)
        while setup.sendable.notes:
            self.emit(ev.Warned, setup.sendable.notes.pop(0))
        self._request = self._next_request or self._estimate_request(messages)
        self._next_request = None
        self._budget.start_request(self._request)
        stream = self._stream = setup.client.stream(self.model, context, options)
        # Work that was paid for is worth a longer wait; but if another model can answer, nobody needs to wait.
        stream.continues = self._asked and not self._fallbacks
        return stream

    async def recover(self, error: PlanckError) -> bool:
        """Prepare for another attempt after a request failed before any content arrived.

        The next attempt is shorter, leaves out media that an earlier prompt contains, or asks another model.

        Returns:
            Whether the request can be sent again.
        """
        if isinstance(error, ContextOverflowError) and await self._window.recover_from_overflow(error):
            return True
        if isinstance(error, ContextOverflowError) and not self._fallbacks:
            raise await self._window.set_aside(error) from error
        prompts = [run.prompt for run in self.runs]
        messages = self._window.messages()
        if await self._refused_media.leave_out(error, messages, prompts, self.model, self._check_request):
            return True
        if not isinstance(error, (ModelError, ProviderError)) or not self._fallbacks:
            return False
        failed, self.model = self.model, self._fallbacks.pop(0)
        self.emit(ev.Fallback, str(failed), str(self.model), redact(str(error)))
        return True

    async def _check_request(self, messages: Sequence[Message], model: Model) -> None:
        """Build a request of these messages alone. Raises `UnsupportedFeatureError` if it cannot be sent them."""
        await self._setup.client.preview(model, self._setup.context(messages, model), self._setup.options)

    # Counting what it spends.

    def charged(self, stream: Stream) -> AssistantMessage:
        """The message of a stream that is not read any more, with its usage so far."""
        return charged(stream, self._request)

    def charge(self, charge: Charge, context_tokens: int | None = None) -> None:
        """Count what a request took, once for all: for the limits, the turn, the agent and the session."""
        if charge.is_nothing:
            return
        self._budget.spend(charge.usage.total_tokens, charge.cost)
        self.usage += charge.usage
        if charge.cost is None:
            self._unpriced = True
        else:
            self._cost = (self._cost or 0.0) + charge.cost
        self._recorder.add_charge(charge, context_tokens)

    def reached_limit(self, tokens: int = 0, cost: float | None = 0.0) -> str:
        """The sentence about the limit that is reached with what a compaction has taken, empty if there is none."""
        reached = self._budget.reached_limit(self.model, tokens, cost)
        return "" if reached is None else reached[1]

    async def keep(self, reply: AssistantMessage) -> None:
        """Append a reply, complete or partial, and count it."""
        try:
            await self.append(reply)
        except BaseException:  # it was cancelled before, or the disk is full
            self.count_lost(reply)
            raise
        self._end_reply()
        self.charge(Charge.of("reply", reply), None if reply.usage is None else reply.usage.total_tokens)

    def drop(self, reply: AssistantMessage) -> None:
        """Count a reply that a limit ended before it had any content."""
        self._end_reply()
        self.count_lost(reply)

    def count_lost(self, reply: AssistantMessage) -> None:
        """Count what was paid for a reply that is not kept."""
        self.charge(Charge.of("failed", reply))

    @property
    def worker(self) -> str:
        """Name the current reply's worker."""
        return "" if self._stream is None else self._stream.worker

    def _end_reply(self) -> None:
        self._stream = None
        self._asked = True
        self._budget.end_reply()
        self._window.answered()

    def seconds_left(self) -> float | None:
        """How long the turn may still take, None without a limit."""
        return self._budget.seconds_left

    @contextmanager
    def within_time(self) -> Iterator[None]:
        """Cancel the block when the turn's time is up, and continue after it."""
        try:
            with self._timeout.of(self.seconds_left()):
                yield
        except TimeoutError:
            if not self._timeout.expired:
                raise

    def out_of_budget(self) -> bool:
        """Whether a limit is reached; emits `limit_reached` if so.

        Raises:
            LimitError: If it is reached before the model was asked at all, so that there is nothing to keep.
        """
        return self._end_for(self._budget.reached_limit(self.model))

    def cannot_afford_request(self) -> bool:
        """Whether the next request alone would cross a limit; emits `limit_reached` if so.

        Raises:
            LimitError: As for `out_of_budget`.
        """
        self._next_request = self._estimate_request(self._window.messages())
        return self._end_for(self._budget.crossed_by(self._next_request, self.model))

    def require_fit(self) -> None:
        """Raise `ContextOverflowError` if the server would not refuse the request but silently cut it."""
        self._window.require_fit()

    def _estimate_request(self, messages: Sequence[Message]) -> Usage:
        """The tokens of the next request. Those that the last one had in the cache are probably still there."""
        tokens = self._window.tokens()
        last = next((each for each in reversed(messages) if each.type == "assistant"), None)
        if last is None or last.usage is None or last.model != self.model.id or last.provider != self.model.provider:
            return Usage(tokens)
        cached = last.usage.cache_read_tokens + last.usage.cache_write_tokens
        return Usage(tokens, cache_read_tokens=min(tokens, cached))

    def _end_for(self, reached: ReachedLimit | None) -> bool:
        if reached is None:
            return False
        name, self._limit = reached
        if not self._budget.rounds:
            raise LimitError(self._limit)
        self.emit(ev.LimitReached, name, self._limit)
        return True

    def warn(self, sentence: str, about: ReplyProblem = "") -> None:
        """Publish a sentence about the request, or what is wrong with the reply to it."""
        if about:
            self._warning = sentence
        self.emit(ev.Warned, sentence, about)

    def warn_about(self, reply: AssistantMessage) -> None:
        """Publish what is wrong with a complete reply, or missing for the limits."""
        about = problem_of(reply)
        if about and not self._warning:  # the provider may have said why it refused
            self.warn(warning(reply, self.model), about)
        for sentence in self._budget.gaps(self.model, reply):
            self.emit(ev.Warned, sentence)

    # Calling tools.

    def tool(self, name: str) -> Tool | None:
        """The tool of this name, as the agent has it now."""
        tools = self._setup.tools
        return tools.get(name) or next((tool for tool in tools.values() if name in tool.aliases), None)

    def missing_tool(self, name: str) -> str:
        """Return a sentence about a tool which the agent does not have."""
        unknown = f"unknown tool: {name}. {did_you_mean(name, self._setup.tools)}".rstrip()
        return self._setup.removed.get(name) or unknown

    async def approve(self, tool: Tool, call: ToolCallPart) -> ApprovedCall:
        """Wait until the call may run.

        Returns:
            The call as it was approved; the user may have edited its arguments.

        Raises:
            ToolError: If it may not run.
        """
        if self._gate is None:
            return ApprovedCall(call.args)
        prompts = [run for run in self.runs if not run.steer]
        allowed = bool(prompts) and all(tool.name in run.allow for run in prompts)

        def allow_for_prompts() -> None:
            for run in prompts:
                run.allow |= {tool.name}

        return await self._gate.approve(tool, call, allowed=allowed, allow_for_prompts=allow_for_prompts)

    def waiting_for_call(self) -> AbstractContextManager[WaitScope]:
        """Run the block as a tool call of this turn: agents that it awaits block the turn."""
        return within(self._participant)

    def warn_of_wait(self) -> None:
        """Publish once that a prompt from another thread waits for the turn, if tools run that may wait for it."""
        state = self._recorder.settled
        undecided = {request.id for request in state.pending_approvals}
        names = dict.fromkeys(call.name for call in state.running if call.id not in undecided)
        if names and not self._told_of_wait:
            self._told_of_wait = True
            self.emit(
                ev.Warned,
                f"A prompt from another thread waits for the end of this turn. If {' or '.join(names)} waits for its "
                "answer, stop the run, and start that thread with `contextvars.copy_context().run`, so that such a "
                "wait is an error at once.",
            )

    def noting_repetition(self, call: ToolCallPart, result: ToolResultPart) -> ToolResultPart:
        """Count a call. Returns the result as the model reads it, with a note if it keeps making the same call."""
        count = self._budget.count_call(call, result)
        if not count:
            return result
        self.emit(ev.Warned, f"The model has called {call.name} {count} times with the same arguments and result.")
        note = (
            f"[{call.name} was called {count} times in this turn with the same arguments and the same result; "
            "do something else, or answer.]"
        )
        return replace(result, text=f"{result.text}\n\n{note}")

    def count_hopeless_call(self, call: ToolCallPart, cause: DeadlockError) -> None:
        """Count a call without a possible answer: agents wait for each other."""
        self._budget.count_hopeless_call(self._participant.name, call.name, cause.reason)

    # Messages that the turn adds.

    def is_steered(self) -> bool:
        """Whether a prompt is waiting to steer the turn."""
        return any(run.steer for run in self._queue)

    def take_steering(self) -> list[UserMessage]:
        """Remove the prompts that steer the turn from the queue, to answer them now."""
        runs = self._queue.take_steering()
        for run in runs:
            self._recorder.emit_to(run.logs, ev.Unqueued, run.id)
            self.runs.append(run)
            run.status, run.turn = "running", self._recorder.settled.turn
            self._recorder.audience = logs_of(self.runs)
            self.emit(ev.Steered, run.id)
        return [run.prompt for run in runs]

    def correct(self, answer: AssistantMessage) -> UserMessage | None:
        """Read the final answer as the output that was asked for.

        Returns:
            A message that tells the model what is wrong, once; None if the answer is as it should be.

        Raises:
            OutputError: If a corrected answer is still wrong, or the model refused.
        """
        spec = self._output_spec
        if spec is None:
            return None
        try:
            self._output = spec.read(answer.text)
        except OutputMismatch as problems:
            if answer.stop_reason == "length":
                raise OutputError(
                    f"The answer of {self.model} was cut off before its JSON was complete, so it cannot be parsed; "
                    "raise `max_tokens`, or make `output` smaller."
                ) from None
            if self._corrected or answer.stop_reason == "refusal":
                raise OutputError(
                    f"The answer of {self.model} does not match `output` ({problems}); "
                    "simplify `output` or choose another model."
                ) from None
            self._corrected = True
            return UserMessage(correction(str(problems), spec.schema))
        return None

    # The outcome.

    def settle(self, status: RunStatus, error: BaseException | None = None) -> None:
        """Give the runs their result, or the error that ended the turn."""
        self._timeout.close()
        result = self._result(self._recorder.settled.messages, aborted=status == "aborted")
        for group in dict.fromkeys(run.group for run in self.runs if run.group is not None):
            group.add_turn(GroupedTurn(self.agent_id, result, error))
        for run in self.runs:
            run.settle(status, error or (replace(result, output=self._output) if run.output_spec else result))

    @property
    def _output_spec(self) -> OutputSpec | None:
        """The output that the answer must have; a prompt with one has a turn of its own."""
        return self.runs[0].output_spec if self.runs else None

    def _result(self, entries: Sequence[Entry], *, aborted: bool) -> RunResult[Any]:
        messages = tuple(entry.message for entry in entries[self._first :])
        cost = None if self._unpriced else self._cost
        reply = last_reply(messages)
        text = "" if reply is None else reply.text
        return RunResult(messages, self.usage, cost, aborted, text, self._limit, self._warning)
