"""A run's live view in a terminal: text and event lines."""

from __future__ import annotations

import asyncio
import sys
from typing import TextIO

from planck_nb.agent.calling.user_code import STOPPED
from planck_nb.agent.events import (
    AgentEvent,
    ApprovalDecision,
    Compacted,
    Delegated,
    Fallback,
    LimitReached,
    MessageAppended,
    Queued,
    Responded,
    Retry,
    ToolEnd,
    ToolStart,
    Unqueued,
    Warned,
)
from planck_nb.ai.messages import AssistantMessage, UserMessage
from planck_nb.base.async_tasks import spawn
from planck_nb.base.event_log import EventLog
from planck_nb.base.terminal_markdown import TerminalMarkdown
from planck_nb.base.text import encodable, one_line
from planck_nb.jupyter.terminal.approval_prompt import ApprovalPrompt
from planck_nb.jupyter.transcript.answer import sentence_of
from planck_nb.rendering.blocks import UNNAMED
from planck_nb.rendering.formatting import key_argument
from planck_nb.rendering.plain_output import PlainStream, for_terminal

_LABEL_CHARACTERS = 100
_SENTENCE_CHARACTERS = 500
_NOTED_SECONDS = 1.0
"""Shortest call with a duration on display."""


class TerminalPrinter:
    """Prints events: text without terminal commands, and the rest in brackets.

    Args:
        output: Where to print; None for the current standard output.
        prompts: Whether the run's prompts are printed, for runs whose prompt was not typed in the cell.
        agent: Id and name of the run's agent; None if all events are from a single agent. The other agents in a team
            are shown with their tasks and answers only.
        styles: Whether replies are printed as styled Markdown.
    """

    def __init__(
        self,
        output: TextIO | None = None,
        *,
        prompts: bool = False,
        agent: tuple[str, str] | None = None,
        styles: bool = False,
    ) -> None:
        self._output = output
        self._prompts = prompts
        self._leader = "" if agent is None else agent[0]
        self._names = {} if agent is None else {agent[0]: agent[1]}
        self._steered = False
        self._stream = PlainStream()
        self._markdown = TerminalMarkdown() if styles else None
        self._reply = ""
        self._thinking = False
        self._breaks = ""
        """Final line breaks, printed only if more text follows."""
        self._in_line = False
        self._calls: dict[str, tuple[str, float]] = {}
        """Label and start for each running call."""
        self._denied: set[str] = set()
        self._queued: dict[str, str] = {}
        """Texts of waiting prompts, by id."""

    def write(self, text: str) -> None:
        """Print text on separate lines."""
        self.end_line()
        self._print(text)
        self._in_line = not text.endswith("\n")

    def end_line(self) -> None:
        """End the unfinished line."""
        if self._markdown is not None:
            self._write_text(self._markdown.end())
        self._breaks = ""
        if self._in_line:
            self._print("\n")
            self._in_line = False

    def show(self, event: AgentEvent) -> None:
        """Print an event."""
        if isinstance(event, Delegated | Responded):
            self._line(self._exchange(event))
        elif self._leader in {"", event.agent_id}:
            self._show(event)

    def _show(self, event: AgentEvent) -> None:
        match event.type:
            case "text_delta":
                self._reply += event.text
                self._text(event.text)
            case "thinking_delta" if not self._thinking:
                self._thinking = True
                self._line("thinking")
            case "retry":
                self._reply = ""  # what was written is asked for anew
                self._line(self._notice(event))
            case "steered":
                self._steered = True
            case "message":
                self._message(event)
            case "tool_start":
                self._start(event)
            case "tool_end":
                self._end(event)
            case "approval_decision":
                self._decision(event)
            case _:
                if sentence := self._notice(event):
                    self._line(sentence)

    def _text(self, text: str) -> None:
        plain_text = encodable(self._stream.feed(text))
        self._write_text(plain_text if self._markdown is None else self._markdown.feed(plain_text))

    def _write_text(self, text: str) -> None:
        """Print text, except for breaks at its end, which wait for more."""
        printable = self._breaks + text
        if not self._in_line:
            printable = printable.lstrip("\n")
        content = printable.rstrip("\n")
        self._breaks = printable[len(content) :]
        if content:
            self._print(content)
            self._in_line = True

    def _message(self, event: MessageAppended) -> None:
        """Print a reply's unprinted part, and prompts from outside the cell."""
        message = event.message
        if isinstance(message, UserMessage):
            if self._steered or self._prompts:
                self.write("".join(f"> {line}\n" for line in for_terminal(encodable(message.text)).splitlines()))
            return
        self._steered = self._prompts = False
        if not isinstance(message, AssistantMessage):
            return
        text, printed_text = message.text, self._reply
        if not text.startswith(printed_text):
            self.end_line()
            printed_text = ""
        self._text(text[len(printed_text) :])
        self.end_line()
        self._reply, self._thinking, self._stream = "", False, PlainStream()

    def _start(self, event: ToolStart) -> None:
        label = one_line(f"{event.name} {key_argument(event.args)}".strip(), _LABEL_CHARACTERS)
        self._calls[event.id] = label, event.time
        self._line(label)

    def _end(self, event: ToolEnd) -> None:
        label, began = self._calls.pop(event.id, (event.name, event.time))
        seconds = event.time - began
        if event.id in self._denied:
            self._denied.discard(event.id)
            state = "denied"
        elif event.result == STOPPED:
            state = "stopped"
        elif event.error:
            state = f"failed: {event.result.removeprefix('Error: ')}"
        else:
            state = f"done in {seconds:.1f} s" if seconds >= _NOTED_SECONDS else "done"
        self._line(f"{label}: {state}")

    def _decision(self, event: ApprovalDecision) -> None:
        if not event.allowed and event.by != "stop":
            self._denied.add(event.id)
            if event.by != "user":
                self._line(event.reason)

    def _notice(self, event: AgentEvent) -> str:
        """Return a sentence about an event between two messages, if any."""
        match event:
            case Queued():
                self._queued[event.prompt_id] = event.text
                return ""
            case Unqueued(returned=True):
                return f"Not sent: {self._queued.get(event.prompt_id, '')}"
            case Retry():
                return f"{event.reason.rstrip('.')}. Trying again in {event.delay:.0f} s."
            case Warned():
                return event.text
            case Compacted() | LimitReached() | Fallback():
                return sentence_of(event)
            case _:
                return ""

    def _exchange(self, event: Delegated | Responded) -> str:
        """Return a task or an answer between two agents."""
        self._names[event.target_id] = event.target_name
        delegator, target = self._names.get(event.agent_id, UNNAMED), event.target_name
        if isinstance(event, Delegated):
            return f"{delegator} → {target}, {'question' if event.kind == 'ask' else 'task'}: {event.text}"
        return f"{target} → {delegator}, {'no answer' if event.error else 'answer'}: {event.text}"

    def _line(self, sentence: str) -> None:
        self.write(f"[{for_terminal(encodable(one_line(sentence, _SENTENCE_CHARACTERS)))}]\n")

    def _print(self, text: str) -> None:
        output = self._output or sys.stdout
        try:
            output.write(text)
        except UnicodeEncodeError:  # a terminal without some characters
            encoding = output.encoding or "ascii"
            output.write(text.encode(encoding, "backslashreplace").decode(encoding))
        output.flush()


class TerminalView:
    """A running run, with questions about calls under approval.

    Lines during an open question are printed after the answer.

    Args:
        log: The run's events.
        prompt: Asks for approval.
        printer: Prints the events; None to show only the complete answer.
    """

    def __init__(
        self, log: EventLog[AgentEvent], prompt: ApprovalPrompt, printer: TerminalPrinter | None = None
    ) -> None:
        self._log = log
        self._prompt = prompt
        self._printer = printer
        self._position = 0
        self._follower: asyncio.Task[None] = spawn(self._follow(), name="planck terminal view")

    @property
    def has_shown_answer(self) -> bool:
        """Return whether the answer was shown while it came."""
        return self._printer is not None

    def finish(self) -> None:
        """Print the remaining events, and stop.

        Further calls have no effect.
        """
        self._follower.cancel()
        for event in self._log.since(self._position):
            self._show(event)
        if self._printer is not None:
            self._printer.end_line()

    async def _follow(self) -> None:
        while True:
            await self._log.wait_beyond(self._position)
            if self._position >= self._log.end:
                return
            for event in self._log.since(self._position):
                self._show(event)
                if event.type == "approval_request":
                    await self._prompt.ask(event.id, event.agent_id)

    def _show(self, event: AgentEvent) -> None:
        self._position += 1
        if self._printer is not None:
            self._printer.show(event)
