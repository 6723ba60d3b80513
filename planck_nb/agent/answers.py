"""Replies that are cut off, refused or without an answer: what is said about them, and how to ask for the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from planck_nb.ai.messages import AssistantMessage, Message, UserMessage
from planck_nb.ai.models import Model

ReplyProblem: TypeAlias = Literal["", "cut_off", "refused", "no_answer"]
"""What is wrong with a reply: it ends too early, the model refused, or there is only thinking."""

ENDINGS: Mapping[ReplyProblem, str] = {"": "", "cut_off": "cut off", "refused": "refused", "no_answer": "no answer"}
"""Their names for display."""

NEARLY_FULL = 0.98
"""The fraction of a context window that counts as full: servers reserve some tokens for themselves."""

_GO_ON = {
    "cut_off": (
        "Your reply was cut off. Go on exactly where it ended, without an introduction, and repeat nothing that you "
        "have written."
    ),
    "no_answer": "You have thought about it, but written no answer. Answer now.",
    "": "Go on.",
}
"""The prompt that lets a model go on after its own reply, by what was wrong with that reply."""


def problem_of(reply: Message) -> ReplyProblem:
    """What is wrong with a reply, empty if nothing is, or if it is not a reply at all."""
    if not isinstance(reply, AssistantMessage):
        return ""
    if reply.stop_reason == "refusal":
        return "refused"
    if reply.stop_reason == "length":
        return "cut_off"
    has_only_thinking = any(part.type == "thinking" for part in reply.content) and not reply.text.strip()
    return "no_answer" if reply.stop_reason == "stop" and has_only_thinking else ""


def warning(reply: AssistantMessage, model: Model) -> str:
    """One sentence on what is wrong with a reply and what can be done, empty if nothing is.

    Args:
        reply: A complete reply.
        model: The model that wrote it.
    """
    match problem_of(reply):
        case "cut_off":
            return _cut_off(reply, model)
        case "refused":
            return f"{model} refused to answer; rephrase the prompt, or choose another model."
        case "no_answer":
            return f"{model} thought but wrote no answer; `agent.continue_()` or `%planck continue` asks for it."
        case _:
            return ""


def request_to_continue(conversation: Sequence[Message]) -> UserMessage:
    """The message that lets a model go on; without content if the conversation ends with an unanswered message.

    Args:
        conversation: The messages as they are sent, at least one.
    """
    last = next((message for message in reversed(conversation) if message.content), None)
    if not isinstance(last, AssistantMessage):
        return UserMessage(())
    wrong = "cut_off" if last.stop_reason in ("aborted", "error") else problem_of(last)
    return UserMessage(_GO_ON.get(wrong, _GO_ON[""]))


def _cut_off(reply: AssistantMessage, model: Model) -> str:
    usage = None if reply.estimated else reply.usage
    window = model.context_window
    if usage is not None and window is not None and usage.total_tokens >= window * NEARLY_FULL:
        return (
            f"The reply of {model} was cut off, because the conversation fills its context window of {window:,} "
            "tokens; shorten it with `agent.compact()` or `%planck compact`, and let the model go on with "
            "`agent.continue_()` or `%planck continue`."
        )
    written = "" if usage is None or not usage.output_tokens else f" after {usage.output_tokens:,} tokens"
    if not reply.text.strip() and not reply.tool_calls:
        return (
            f"{model} reached its token limit{written} before it wrote an answer; raise `max_tokens`, or lower "
            "`thinking`."
        )
    return (
        f"The reply of {model} was cut off{written}, at its token limit; let it go on with `agent.continue_()` or "
        "`%planck continue`, or raise `max_tokens`."
    )
