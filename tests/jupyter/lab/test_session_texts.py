"""Search results and transcripts from stored sessions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from planck_nb.agent.events import ApprovalDecision, ToolEnd, ToolStart
from planck_nb.ai.messages import (
    AssistantMessage,
    Message,
    SummaryMessage,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
)
from planck_nb.jupyter.lab.protocol import SearchHits, SearchWanted, TranscriptPage, TranscriptWanted
from planck_nb.jupyter.lab.session_texts import PAGE_MESSAGES, SessionTexts
from planck_nb.sessions import Session

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
def texts(tmp_path: Path) -> SessionTexts:
    return SessionTexts(lambda: tmp_path)


def store(session: Session, *messages: Message, agent: str = "a1") -> list[int]:
    async def append() -> list[int]:
        return [await session.append(agent, message) for message in messages]

    return asyncio.run(append())


def page(texts: SessionTexts, session: Session, *, before: int = 0, after: int = 0) -> TranscriptPage:
    found = texts.answer(TranscriptWanted("r", session.id, before, after), "page")
    assert isinstance(found, TranscriptPage)
    assert found.request == "r"
    return found


def search(texts: SessionTexts, words: str) -> SearchHits:
    found = texts.answer(SearchWanted("r", words), "page")
    assert isinstance(found, SearchHits)
    return found


def call(name: str, key: str) -> ToolCallPart:
    return ToolCallPart(key, name, {"command": key})


def test_a_search_has_excerpts_from_all_sessions(tmp_path: Path, texts: SessionTexts) -> None:
    for name in ("one", "two"):
        with Session.create(tmp_path, name=name) as session:
            store(session, UserMessage(f"A burst pipe\nin {name}, <b>wet</b>"))
    found = search(texts, '"Burst pipe" wet')
    assert found.terms == ("burst pipe", "wet")
    assert {(hit.session_name, hit.agent, hit.role) for hit in found.hits} == {
        ("one", "a1", "user"),
        ("two", "a1", "user"),
    }
    assert "A burst pipe in one, <b>wet</b>" in {hit.excerpt for hit in found.hits}
    assert search(texts, "dry") == SearchHits("r", ("dry",))


def test_a_search_without_words_has_a_problem(texts: SessionTexts) -> None:
    assert search(texts, " ").problem == "There is nothing to search for; give one or more words."


def test_a_transcript_shows_calls_with_results_and_facts(tmp_path: Path, texts: SessionTexts) -> None:
    with Session.create(tmp_path) as session:
        reply = AssistantMessage((ThinkingPart("Hm."), TextPart("I look."), call("bash", "ls"), call("bash", "rm")))
        store(session, UserMessage("Look."), reply)
        decision = ApprovalDecision("a1", session.id, 0, 0, 5.0, id="rm", name="bash", allowed=False, by="user")
        session.log("a1").record(ToolStart("a1", session.id, 0, 0, 5.0, id="ls", name="bash", args={"command": "ls"}))
        session.log("a1").record(decision)
        session.log("a1").record(
            ToolEnd("a1", session.id, 0, 0, 7.5, id="ls", name="bash", result="a.txt", error=False)
        )
        results = ToolResultMessage((ToolResultPart("ls", "bash", "a.txt"), ToolResultPart("rm", "bash", "No.", True)))
        store(
            session,
            results,
            UserMessage("And?", sender_id="b", sender_name="lead"),
            AssistantMessage((TextPart("Done."),)),
        )
    found = page(texts, session)
    assert [(item.kind, item.name, item.text) for item in found.items] == [
        ("prompt", "", "Look."),
        ("thinking", "", "Hm."),
        ("prose", "", "I look."),
        ("call", "bash", "a.txt"),
        ("call", "bash", "No."),
        ("prompt", "lead", "And?"),
        ("prose", "", "Done."),
    ]
    assert [(item.key, item.state, item.seconds) for item in found.items[3:5]] == [
        ("ls", "done", 2.5),
        ("rm", "deny", 0),
    ]
    assert (found.older, found.newer) == (0, 0)


def test_pages_have_every_message_once_and_calls_of_interleaved_agents_whole(
    tmp_path: Path, texts: SessionTexts
) -> None:
    with Session.create(tmp_path) as session:
        for turn in range(PAGE_MESSAGES):
            for agent in ("a1", "a2"):
                store(
                    session, UserMessage(f"{agent} {turn}"), AssistantMessage((call("bash", str(turn)),)), agent=agent
                )
            for agent in ("a2", "a1"):
                result = ToolResultPart(str(turn), "bash", f"{agent} {turn}")
                store(session, ToolResultMessage((result,)), agent=agent)
    pages = [page(texts, session)]
    while pages[0].older:
        pages.insert(0, page(texts, session, before=pages[0].older))
    assert len(pages) == 4
    items = [item for each in pages for item in each.items]
    wanted = [f"{agent} {turn}" for turn in range(PAGE_MESSAGES) for agent in ("a1", "a2") for _ in range(2)]
    assert [item.text for item in items] == wanted
    assert page(texts, session, after=pages[0].newer) == pages[1]
    assert pages[-1].newer == 0


def test_a_summary_a_failure_and_an_empty_session_are_shown(tmp_path: Path, texts: SessionTexts) -> None:
    with Session.create(tmp_path) as session:
        assert page(texts, session) == TranscriptPage("r")
        store(
            session,
            SummaryMessage("So far."),
            AssistantMessage((TextPart("Par"),), stop_reason="error", error="The line broke."),
        )
    kinds = [(item.kind, item.text) for item in page(texts, session).items]
    assert kinds == [
        ("cut", "Earlier messages were summarised."),
        ("prose", "So far."),
        ("prose", "Par"),
        ("note", "The line broke."),
    ]


def test_an_unknown_session_has_a_problem(texts: SessionTexts) -> None:
    found = texts.answer(TranscriptWanted("r", "../../etc"), "page")
    assert found.problem == "The session is not in this folder any more; it was deleted or moved."


def test_a_closed_source_answers_with_a_problem(tmp_path: Path, texts: SessionTexts) -> None:
    with Session.create(tmp_path) as session:
        store(session, UserMessage("wet"))
    texts.close()
    assert search(texts, "wet").problem == "A newer question took its place."
