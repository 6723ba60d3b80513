"""Every statement of the original documents on sessions, paging and rewind, and the test that shows it."""

from __future__ import annotations

import pytest
from support.statements import exists

STATEMENTS: dict[str, tuple[str, ...]] = {
    "a session is a file <id>_<name> in a directory, which is made; it needs an id, a name and the directory": (
        "sessions/test_session_paging.py::test_start_makes_a_session_or_goes_on_with_it",
        "sessions/test_session_log.py::test_files_are_for_their_owner_only",
    ),
    "ids ascend, times have a known unit, the latest summary marks a checkpoint": (
        "sessions/test_session_fold.py::test_the_file_is_the_journal_column_by_column",
        "sessions/test_session_query.py::test_the_readme_lists_every_column",
        "sessions/test_session_branches.py::test_chapters",
    ),
    "append is synchronous and returns the row's id, which is the message's": (
        "sessions/test_session_paging.py::test_an_append_returns_the_id_of_the_row",
        "sessions/test_session_log.py::test_messages_are_durable_when_acknowledged_and_come_back_in_order",
    ),
    "a session that nobody knows is not found": (
        "sessions/test_session_log.py::test_an_unknown_name_suggests_the_nearest",
        "sessions/test_session_reader.py::test_a_session_that_is_gone_is_said",
    ),
    "messages(session), in the order they were appended": (
        "sessions/test_session_paging.py::test_agents_share_a_session_and_are_told_apart",
        "sessions/test_session_log.py::test_messages_are_durable_when_acknowledged_and_come_back_in_order",
    ),
    "messages(session, agent_id)": ("sessions/test_session_paging.py::test_agents_share_a_session_and_are_told_apart",),
    "a row has db_id, agent_id, message and inserted_at": (
        "sessions/test_session_paging.py::test_a_row_says_who_what_and_when",
    ),
    "a message comes back as it was, with all its parts": (
        "sessions/test_session_codec.py::test_every_message_comes_back_as_it_was",
    ),
    "messages_from_latest_checkpoint: the latest summary and all after it, or everything and no id": (
        "sessions/test_session_paging.py::test_a_long_conversation_is_read_a_chapter_at_a_time",
        "sessions/test_session_paging.py::test_without_a_summary_there_is_one_chapter",
    ),
    "messages_before_checkpoint: the chapter before, without the checkpoint, with the summary it begins with": (
        "sessions/test_session_paging.py::test_a_long_conversation_is_read_a_chapter_at_a_time",
        "sessions/test_session_paging.py::test_a_summary_is_found_however_far_back",
    ),
    "no id of a checkpoint before means that there is no more": (
        "sessions/test_session_paging.py::test_a_long_conversation_is_read_a_chapter_at_a_time",
    ),
    "both pages can be for one agent, whose summaries alone count then": (
        "sessions/test_session_paging.py::test_the_chapters_of_an_agent_begin_with_its_own_summaries",
    ),
    "a page of a long session is there at once": (
        "sessions/test_session_paging.py::test_a_chapter_of_a_long_session_is_there_at_once",
        "sessions/test_session_near.py::test_a_near_chapter_is_read_without_the_file",
        "sessions/test_session_near.py::test_reading_from_the_end_gives_what_reading_everything_gives",
    ),
    "the whole history stays in the session after a summary; the agent goes on from the summary": (
        "sessions/test_session_paging.py::test_a_long_conversation_is_read_a_chapter_at_a_time",
        "sessions/test_session_paging.py::test_an_agent_starts_from_what_its_model_is_still_sent",
    ),
    "truncate_after(id) takes back the row and all later ones, of all agents": (
        "sessions/test_session_log.py::test_taking_back_hides_everything_after_for_all_agents_and_ids_go_on",
        "sessions/test_session_paging.py::test_a_rewind_takes_back_the_message_and_what_follows",
    ),
    "metadata is merged key by key, empty where none is, and lasts": (
        "sessions/test_session_paging.py::test_metadata_is_merged_and_lasts",
    ),
    "find_by_id and find_by_name": ("sessions/test_session_paging.py::test_sessions_are_found_by_id_and_by_name",),
    "what people type finds nothing else than a session of that name; foreign files do no harm": (
        "sessions/test_session_bad_input.py::test_a_name_that_is_no_file_name_is_refused_and_finds_nothing",
        "sessions/test_session_query.py::test_foreign_files_in_the_directory_break_nothing",
        "sessions/test_session_log.py::test_the_newest_of_two_with_one_name_is_opened",
    ),
    "a store that fails is an error that can be seen, and works again when the disk does": (
        "sessions/test_session_journal.py::test_a_full_disk_fails_the_message_and_nothing_else",
        "sessions/test_session_kill.py::test_a_full_disk_loses_nothing_that_was_acknowledged",
        "sessions/test_session_kill.py::test_files_that_may_not_grow_lose_nothing_that_was_acknowledged",
    ),
    "a process that dies while it appends leaves a session that opens": (
        "sessions/test_session_crash.py::test_no_acknowledged_message_is_lost_when_the_process_is_killed",
        "sessions/test_session_kill.py::test_a_kill_at_any_moment_loses_nothing_that_was_acknowledged",
        "sessions/test_session_kill.py::test_a_kill_inside_a_step_leaves_a_session_that_is_whole",
    ),
    "the format has a version and is readable by others": (
        "sessions/test_session_journal.py::test_a_closed_journal_is_plain_json_lines_with_ascending_ids",
        "sessions/test_session_bad_input.py::test_a_journal_of_a_newer_version_is_refused_by_every_way_in",
        "sessions/test_session_fold.py::test_a_file_of_an_older_layout_gets_that_of_a_new_one",
    ),
    "several agents share a session": (
        "sessions/test_session_paging.py::test_agents_share_a_session_and_are_told_apart",
        "sessions/test_session_log.py::test_many_agents_share_one_sequence",
    ),
    "folding what a session stored of an agent, which Session.events gives, is the agent's live state": (
        "agent/test_state_machine.py::test_the_laws_hold_for_any_order_of_things",
    ),
    "rewind_to_message keeps what is strictly before the message, on disk and in memory": (
        "sessions/test_session_paging.py::test_a_rewind_takes_back_the_message_and_what_follows",
        "workspace/test_workspace_history.py::test_a_rewind_through_an_agent_is_the_same",
    ),
    "an agent without a session has nothing to rewind": (
        "sessions/test_session_log.py::test_every_log_keeps_the_protocol",
        "workspace/test_workspace_history.py::test_rewind_without_a_session_does_nothing",
    ),
    "after a rewind the prompt can be given anew, edited": (
        "sessions/test_session_branches.py::test_what_a_rewind_leaves_is_a_branch_that_can_be_returned_to",
        "workspace/test_workspace_history.py::test_rewind_stops_what_runs_and_cuts_all_agents_alike",
    ),
    "a rewind stops what runs first, cuts every agent and undoes agents that came later": (
        "sessions/test_session_log.py::test_followers_are_told_before_and_after_a_rewind",
        "sessions/test_session_log.py::test_what_stops_for_a_rewind_is_taken_back_too",
        "workspace/test_workspace_history.py::test_rewind_stops_what_runs_and_cuts_all_agents_alike",
        "workspace/test_workspace_history.py::test_agents_that_came_later_are_stopped_and_come_back_with_their_branch",
    ),
}


def test_no_statement_is_without_a_test() -> None:
    assert all(STATEMENTS.values())


@pytest.mark.parametrize("named", sorted({name for names in STATEMENTS.values() for name in names}))
def test_the_named_test_exists(named: str) -> None:
    assert exists(named)
