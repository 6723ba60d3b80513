"""Every statement of the original documents about providers, models and stream events, and the test that shows it."""

from __future__ import annotations

import pytest
from support.statements import exists

STATEMENTS: dict[str, tuple[str, ...]] = {
    "anthropic, openai, google, ollama and llama_cpp are the valid providers": (
        "ai/test_wire_catalogue.py::test_providers",
        "ai/test_wire_recordings.py::test_messages_stream_equals_the_sdk",
        "ai/test_wire_responses_recordings.py::test_responses_stream_equals_the_sdk",
        "ai/test_wire_google_recordings.py::test_google_stream_equals_the_sdk",
        "ai/test_wire_ollama.py::test_a_recording_says_what_the_official_client_says",
        "ai/test_wire_llama.py::test_tool_loop_with_thinking",
    ),
    "a provider of any other name is refused, with the valid ones": (
        "ai/test_wire_catalogue.py::test_slips_of_the_pen_are_named",
    ),
    "servers that speak an OpenAI format are reached as openai with a base_url; ollama keeps its own name": (
        "ai/test_wire_requests.py::test_addresses",
        "ai/test_wire_responses.py::test_which_format_is_spoken",
        "ai/test_wire_ollama.py::test_addresses",
    ),
    "get_model gives a model by provider and id": ("ai/test_wire_catalogue.py::test_a_model_of_the_catalogue",),
    "get_model tells when there is no such model or provider": (
        "ai/test_wire_catalogue.py::test_slips_of_the_pen_are_named",
        "ai/test_wire_catalogue.py::test_ids_that_nobody_knows_work",
    ),
    "list_models gives the models of a provider, which agents can be offered": (
        "ai/test_wire_catalogue.py::test_a_model_of_the_catalogue",
        "ai/test_wire_catalogue.py::test_ollama_lists_what_it_has",
        "ai/test_catalogue_discovery.py::test_the_running_llama_cpp_server",
    ),
    "a stream tells text as it comes": (
        "ai/test_wire_streams.py::test_text_usage_and_cost",
        "agent/test_loop.py::test_a_prompt_streams_and_ends",
    ),
    "a stream tells thinking as it comes": (
        "ai/test_wire_streams.py::test_messages_parts_in_order",
        "agent/test_loop.py::test_a_prompt_streams_and_ends",
    ),
    "a stream tells tool calls with id, name and arguments": (
        "ai/test_wire_streams.py::test_chat_parts_in_order",
        "ai/test_wire_streams.py::test_call_ids_become_unique_in_events_and_message",
    ),
    "a stream ends with the reason why the model stopped": (
        "ai/test_wire_streams.py::test_stop_reason_follows_the_parts",
        "ai/test_wire_ollama.py::test_ends",
    ),
    "a stream tells how many tokens were read and written": (
        "ai/test_wire_streams.py::test_text_usage_and_cost",
        "ai/test_wire_google.py::test_counts_of_tools_and_caches",
    ),
    "a stream that fails tells why, and what came before stays": (
        "ai/test_wire_failures.py::test_a_broken_stream_keeps_what_came",
        "ai/test_wire_streams.py::test_errors_inside_a_stream_are_told_by_their_type",
    ),
}


def test_no_statement_is_without_a_test() -> None:
    assert all(STATEMENTS.values())


@pytest.mark.parametrize("named", sorted({name for names in STATEMENTS.values() for name in names}))
def test_the_named_test_exists(named: str) -> None:
    assert exists(named)
