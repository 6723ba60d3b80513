"""What can be requested of a run that is over: its transcript, or a rewind to before its prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from planck_nb.agent.agent import Agent
from planck_nb.agent.events import MessageAppended
from planck_nb.agent.run import Run
from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import UsageError
from planck_nb.base.threads import run_in_thread
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.live.browser_requests import RewindResult
from planck_nb.jupyter.namespace import tool_finder
from planck_nb.jupyter.session_prompts import session_prompts
from planck_nb.jupyter.transcript.answer import Answer
from planck_nb.workspace.agent_names import named_agents

_ELSEWHERE = "This notebook continues in another session now; `%planck rewind` lists the prompts of that one."
_NO_PROMPT = "This run has no prompt of its own to go back to; `%planck rewind` lists the prompts."


class FinishedRun:
    """What a user can request in the view of a run that is over.

    Args:
        controller: The state behind the magics of the notebook.
        agent: The agent of the run.
        run: The run.
        answer: Its answer.
        in_cell: Whether the cell of the view contains the prompt; if not, it was sent from a view.
        names: Returns the variables of the notebook, in which the tools of restored agents are found.
    """

    def __init__(
        self,
        controller: Controller,
        agent: Agent,
        run: Run,
        answer: Answer,
        *,
        in_cell: bool,
        names: Callable[[], Mapping[str, object]],
    ) -> None:
        self._controller = controller
        self._answer = answer
        self._in_cell = in_cell
        self._names = names
        self._prompt = _prompt_of(run, agent.id)
        self._branch: int | None = None
        """The branch that the rewind has left, None if the conversation was not rewound."""

    def markdown(self) -> str:
        """Return the whole transcript as Markdown."""
        return self._answer.transcript.bundle()["text/markdown"]

    async def rewind(self) -> RewindResult:
        """Rewind the conversation to before the prompt of the run.

        Returns:
            The prompt and what has happened. If the prompt is not in the conversation any more, nothing has.

        Raises:
            UsageError: The run has no prompt, an agent is working, or the notebook is in another session now.
        """
        prompt, workspace = self._prompt, self._controller.workspace
        if prompt is None:
            raise UsageError(_NO_PROMPT)
        self._require_same_session(prompt)
        prompts = await session_prompts(workspace)
        text = prompt.message.text if isinstance(prompt.message, UserMessage) else ""
        if (prompt.id, prompt.agent_id) not in set(zip(map(int, prompts["id"]), prompts["agent_id"], strict=True)):
            notice = "The conversation does not contain this prompt any more, so there was nothing to go back to."
            return RewindResult(text, self._in_cell, notice, undo=self._branch is not None)
        self._require_idle()
        problems = await workspace.rewind(prompt.id, find=tool_finder(self._names()))
        branch = max(await run_in_thread(workspace.session.branches), key=lambda each: each.id)
        self._branch = branch.id
        aside = "1 message is" if branch.messages == 1 else f"{branch.messages:,} messages are"
        notice = f"The conversation is back to before this prompt; {aside} set aside."
        return RewindResult(text, self._in_cell, self._told(notice, problems), undo=True)

    async def undo_rewind(self) -> str:
        """Return to the conversation as it was before `rewind`.

        Returns:
            What has happened, as a sentence.

        Raises:
            UsageError: The conversation was not rewound here, an agent is working, or the notebook is in another
                session now.
        """
        if self._branch is None or self._prompt is None:
            raise UsageError("Nothing was undone here; `%planck rewind --list` lists what rewinding has undone.")
        self._require_same_session(self._prompt)
        self._require_idle()
        problems = await self._controller.workspace.return_to(self._branch, find=tool_finder(self._names()))
        self._branch = None
        return self._told("The conversation is as it was before.", problems)

    def _told(self, sentence: str, problems: list[str]) -> str:
        return " ".join(filter(None, [sentence, *problems, self._controller.check_default()]))

    def _require_same_session(self, prompt: MessageAppended) -> None:
        if prompt.session_id != self._controller.workspace.session_id:
            raise UsageError(_ELSEWHERE)

    def _require_idle(self) -> None:
        working = [name for name, agent in named_agents(self._controller.workspace).items() if agent.status != "idle"]
        if working:
            verb = "is" if len(working) == 1 else "are"
            raise UsageError(f"{', '.join(working)} {verb} working; wait, or stop the run first.")


def _prompt_of(run: Run, agent_id: str) -> MessageAppended | None:
    """The first message of the user to the agent in the run."""
    for event in run.events.since(0):
        if isinstance(event, MessageAppended) and event.agent_id == agent_id:
            message = event.message
            if isinstance(message, UserMessage) and message.sender_id is None:
                return event
    return None
