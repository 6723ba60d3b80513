"""A session's answers for kernels which verify its notebook."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import islice, takewhile

from planck_nb.agent.context.conversation import sent
from planck_nb.agent.context.senders import with_sender
from planck_nb.agent.state import Entry
from planck_nb.ai.cassettes.conversations import ConversationKey, answer_line
from planck_nb.ai.messages import AssistantMessage, Message, ToolResultPart, UserMessage
from planck_nb.sessions import SessionReader

_COMPLETE = frozenset({"stop", "tool_use", "length", "refusal"})


def answer_lines(session: SessionReader) -> Iterator[bytes]:
    """Yield the lines for `ConversationCassette`, the oldest answer first.

    Messages hidden by a rewind and incomplete answers are left out.

    Args:
        session: The session.
    """
    conversations: defaultdict[str, list[Entry]] = defaultdict(list)
    for row in session.messages():
        conversations[row.agent_id].append(Entry(row.db_id, row.message))
    answers = [answer for entries in conversations.values() for answer in _answers(entries)]
    for _, key, message, results in sorted(answers, key=lambda answer: answer[0]):
        yield answer_line(key, message, results)


def _answers(entries: Sequence[Entry]) -> Iterator[tuple[int, str, AssistantMessage, list[ToolResultPart]]]:
    """Yield complete answers with id, conversation key and results."""
    key = ConversationKey()
    for index, entry in enumerate(entries):
        message = entry.message
        if message.type == "assistant" and message.stop_reason in _COMPLETE and not message.set_aside:
            yield entry.id, key.value, message, _results(islice(entries, index + 1, None))
        if message.type == "summary" or (message.type == "assistant" and message.set_aside):
            key = ConversationKey()
            for earlier in sent(entries[: index + 1]):
                key.add(_as_sent(earlier.message))
        else:
            key.add(_as_sent(message))


def _results(later: Iterator[Entry]) -> list[ToolResultPart]:
    messages = takewhile(lambda message: message.type != "assistant", (entry.message for entry in later))
    return [part for message in messages if message.type == "tool_result" for part in message.content]


def _as_sent(message: Message) -> Message:
    if message.type == "user" and message.sender_name is not None:
        return UserMessage(with_sender(message.content, message.sender_name, message.purpose))
    return message
