from __future__ import annotations

import json

import pytest

from planck_nb import ai
from planck_nb.ai.dialect import Dialect
from planck_nb.ai.dialects import anthropic_messages as messages
from planck_nb.ai.dialects import google_generate_content as generate_content
from planck_nb.ai.dialects import google_interactions as interactions
from planck_nb.ai.dialects import ollama
from planck_nb.ai.dialects import openai_chat as chat
from planck_nb.ai.dialects import openai_responses as responses
from planck_nb.ai.message_history.portable_history import prepare
from planck_nb.ai.messages import SUMMARY_HEADING, AssistantMessage, SummaryMessage, TextPart, UserMessage

MODEL = ai.Model("openai", "small", api="chat", base_url="http://127.0.0.1:1/v1")


def test_a_model_reads_a_summary_as_a_users_message() -> None:
    reply = AssistantMessage((TextPart("yes"),))
    prepared = prepare([SummaryMessage("They agreed."), reply, UserMessage("go on")], MODEL)
    assert prepared == [UserMessage(f"{SUMMARY_HEADING}\n\nThey agreed."), reply, UserMessage("go on")]


@pytest.mark.parametrize("format_", [chat, generate_content, interactions, messages, ollama, responses])
def test_every_wire_format_sends_a_summary(format_: object) -> None:
    dialect: Dialect = format_.DIALECT  # type: ignore[attr-defined]  # each of these modules has one
    context = ai.Context(messages=[SummaryMessage("They agreed."), UserMessage("go on")])
    body = json.dumps(dialect.request(MODEL, context, ai.Options(), "key").body)
    assert json.dumps(f"{SUMMARY_HEADING}\n\nThey agreed.") in body
    assert '"summary"' not in body
