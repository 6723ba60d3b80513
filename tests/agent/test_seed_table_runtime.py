"""Every statement of the original documents about agents, tools, compaction and skills, and the test that shows it.

With them what was found wanting there and is better here. What belongs to parts that are built on these is listed with
the reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.statements import exists

LOOP = "agent/test_loop.py"
STEER = "agent/test_agent_steer.py"
QUEUE = "agent/test_agent_queue.py"
TURNS = "agent/test_agent_turns.py"
LIMITS = "agent/test_agent_limits.py"
BRIEFING = "agent/test_agent_briefing.py"
ROOM = "agent/test_agent_compaction.py"
APPROVAL = "agent/test_agent_approval.py"
FOLDER = "agent/test_agent_folder.py"
LAWS = "agent/test_state_machine.py"
STATE = "agent/test_state.py"
OUTPUT = "agent/test_tool_output.py"
COMPACTOR = "agent/test_compaction.py"
SUMMARY = "agent/test_compaction_summary.py"
CONVERSATION = "agent/test_compaction_conversation.py"
TOKENS = "agent/test_tokens.py"
FUNCTIONS = "agent/test_functions.py"
POLICY = "agent/test_policy.py"
FILES = "tools/test_tool_files.py"
EDITS = "tools/test_tool_edits.py"
CHANGES = "tools/test_tool_changes.py"
SHELL = "tools/test_tool_shell.py"
LEFTOVERS = "tools/test_tool_leftovers.py"
EXTERNAL = "tools/test_tool_external.py"
SKILLS = "resources/test_skills.py"
FRONT = "resources/test_skill_front_matter.py"
POOL = "resources/test_skill_pool.py"
INSTRUCTIONS = "resources/test_instructions.py"
HISTORY = "workspace/test_workspace_history.py"
EQUIPMENT = "workspace/test_workspace_equipment.py"
WORKSPACE = "workspace/test_workspace.py"
PAGING = "sessions/test_session_paging.py"
KILL = "sessions/test_session_kill.py"
PORTABLE = "ai/test_portable_history.py"
STREAMS = "ai/test_wire_streams.py"


def at(path: str, *tests: str) -> tuple[str, ...]:
    """The names of tests of one file."""
    return tuple(f"{path}::test_{test}" for test in tests)


LIFE = {
    "an agent is idle, streams, executes tools, streams again, and is idle at the end": (
        *at(LOOP, "a_tool_turn_runs_the_tool_and_answers_with_its_result"),
        *at(APPROVAL, "a_call_waits_for_its_answer"),
        *at(LAWS, "the_laws_hold_for_any_order_of_things"),
    ),
    "an agent is made of a model, and optionally id, name, type, description, prompt, tools, session, options, hook": (
        *at(TURNS, "an_agent_at_a_glance"),
        *at(FOLDER, "an_agent_knows_its_team_and_the_models_it_may_give_away"),
    ),
    "an agent that ended is not started again by itself": at(LOOP, "a_stopped_agent_takes_no_prompts"),
    "no agent is left behind by the place that made it": (
        *at(HISTORY, "a_fork_goes_on_alone"),
        *at(LOOP, "a_stopping_agent_takes_no_prompts_and_ends_last"),
    ),
    "a prompt is text, or parts that are passed through": at(QUEUE, "content_parts_are_passed_through"),
    "a prompt returns at once; the agent streams from then on": at(STEER, "to_an_idle_agent_it_is_a_prompt"),
    "ask, run the calls, ask again, until there are no more calls": (
        *at(LOOP, "a_tool_turn_runs_the_tool_and_answers_with_its_result"),
        *at(QUEUE, "prompts_during_several_tool_rounds_do_not_split_them"),
    ),
    "the results of a round are one message, in call order": at(
        LOOP, "results_stand_in_call_order_whatever_ends_first"
    ),
    "parts of a reply keep their order": (*at(STREAMS, "messages_parts_in_order"), *at(STREAMS, "chat_parts_in_order")),
    "a turn is what follows a prompt; its index counts prompts, not requests": (
        *at(QUEUE, "prompts_during_several_tool_rounds_do_not_split_them"),
        *at(TURNS, "an_agent_that_goes_on_counts_on"),
    ),
    "a turn begins at its prompt, to which a session can go back": at(
        HISTORY, "rewind_stops_what_runs_and_cuts_all_agents_alike"
    ),
    "a snapshot of everything, and the agent at a glance": (
        *at(TURNS, "an_agent_at_a_glance"),
        *at(STATE, "partial_text_can_be_read_at_any_time"),
    ),
    "agents are found by name and id, and one that is not there is said": at(
        WORKSPACE, "names_are_taken_once_and_unknown_ones_suggest"
    ),
    "another model answers from the next request on": at(TURNS, "another_model_answers_from_the_next_request_on"),
    "a nudge has the model go on without a new message; a busy agent ignores it": at(
        TURNS, "a_nudge_has_the_model_go_on_without_a_new_message", "a_busy_agent_is_not_nudged"
    ),
    "a checkpoint in any status begins a new chapter": at(
        TURNS, "a_checkpoint_begins_a_chapter", "a_checkpoint_while_tools_run_leaves_a_valid_request"
    ),
    "how much of the window is filled is known": at(ROOM, "the_filled_part_of_the_window_falls"),
    "the agent answers while tools run": at(APPROVAL, "a_call_waits_for_its_answer"),
}

EVENTS = {
    "turn_start with its index, turn_end once, with the last message and the usage of all replies": (
        *at(LOOP, "a_prompt_streams_and_ends"),
        *at(LOOP, "usage_and_cost_add_up"),
        *at(LAWS, "the_laws_hold_for_any_order_of_things"),
    ),
    "text and thinking come as deltas": at(LOOP, "a_prompt_streams_and_ends"),
    "usage_delta has what was added and the total, cost and the filled part of the window with it": (
        *at(LOOP, "usage_and_cost_add_up"),
        *at(ROOM, "the_filled_part_of_the_window_falls"),
    ),
    "tool_start and tool_end with id, name, arguments, result and error": at(
        LOOP, "a_failing_call_becomes_a_result_and_the_loop_goes_on"
    ),
    "error with a reason, no turn_end, and the agent is idle": at(
        LOOP, "a_stream_that_breaks_fails_the_run_and_keeps_what_came"
    ),
    "compacting before and compacted after a compaction, none where nothing is done": (
        *at(ROOM, "the_summary_is_told_stored_and_counted"),
        *at(ROOM, "a_function_is_asked_before_every_request_and_may_decline"),
    ),
    "a rewind is told": at(HISTORY, "what_was_spent_stays_spent"),
    "a stop is told, and whoever waits hears of it": (
        *at(LOOP, "stop_while_streaming_keeps_the_text_so_far"),
        *at(QUEUE, "abort_takes_up_what_waits_at_once"),
    ),
    "events of an agent and of a session, by their ids; those of a session say whose they are": at(
        WORKSPACE, "events_of_the_session_and_of_one_agent"
    ),
    "events are counted, and late or slow subscribers know what they missed": at(
        LOOP, "late_subscribers_replay_and_slow_ones_never_stall"
    ),
}

WAITING = {
    "a prompt to a busy agent is answered in one more turn, after the running one": at(
        QUEUE, "a_prompt_while_text_streams_is_answered_in_one_more_turn"
    ),
    "several that wait are answered together": at(
        LOOP, "a_prompt_while_busy_is_queued_and_all_that_wait_share_the_next_turn"
    ),
    "what waited is stored after the running reply; ids ascend": at(
        QUEUE, "a_prompt_while_text_streams_is_answered_in_one_more_turn"
    ),
    "what waited through tool rounds is answered; where nothing waited there is no further turn": at(
        QUEUE, "prompts_during_several_tool_rounds_do_not_split_them", "nothing_queued_means_no_further_turn"
    ),
    "what waits survives a tool that crashes": at(QUEUE, "a_prompt_survives_a_tool_that_breaks"),
    "a stop takes up what waits at once": at(QUEUE, "abort_takes_up_what_waits_at_once"),
    "requests never have a question before its turn, split a pair, or answer twice; an error keeps nothing back": (
        *at(
            QUEUE, "a_prompt_while_text_streams_is_answered_in_one_more_turn", "a_failing_turn_does_not_keep_what_waits"
        ),
        *at(LAWS, "the_laws_hold_for_any_order_of_things"),
    ),
    "what waits can be listed, changed and taken back": at(QUEUE, "prompts_that_wait_can_be_changed_and_taken_back"),
    "steering enters after the running tools": at(STEER, "it_enters_once_the_running_tools_have_ended"),
}

STOPPING = {
    "whatever was stored, a request answers every call exactly once": (
        *at(PORTABLE, "orphans_are_repaired"),
        *at(PORTABLE, "every_call_is_answered_once_right_after_it_by_an_id_that_everybody_takes"),
        *at(LAWS, "the_laws_hold_for_any_order_of_things"),
    ),
    "abort stops the stream and the tools from any state; idle it does nothing; stop ends the agent": (
        *at(LOOP, "stop_while_streaming_keeps_the_text_so_far", "stop_while_a_tool_runs_answers_every_call"),
        *at(LOOP, "stop_does_not_wait_for_a_blocking_function"),
        *at(QUEUE, "stop_drops_what_waits_and_says_so"),
    ),
    "after abort has returned a prompt runs normally": at(QUEUE, "abort_then_prompt_runs_normally_again_and_again"),
    "late results and late events of what was stopped are ignored": (
        *at(LOOP, "stop_does_not_wait_for_a_blocking_function"),
        *at(QUEUE, "what_an_aborted_stream_still_sends_stays_out_of_the_next_turn"),
    ),
    "a partial answer is kept and flagged": (
        *at(LOOP, "stop_while_streaming_keeps_the_text_so_far"),
        *at(LOOP, "a_stream_that_breaks_fails_the_run_and_keeps_what_came"),
    ),
    "a stop leaves every call answered exactly once": (
        *at(LOOP, "stop_while_a_tool_runs_answers_every_call"),
        *at(LOOP, "stop_while_a_message_is_written_loses_and_doubles_nothing"),
    ),
}

SPENDING = {
    "tokens and cost add up over all replies": at(LOOP, "usage_and_cost_add_up"),
    "a reply without usage changes no totals": at(LIMITS, "what_nobody_counted_is_guessed"),
    "what was spent is stored as it is spent, and goes on when the session does": at(
        HISTORY, "a_session_goes_on_where_it_was"
    ),
    "what was spent stays spent, also after a rewind": at(HISTORY, "what_was_spent_stays_spent"),
    "an agent may begin with what was spent before": at(TURNS, "an_agent_that_goes_on_counts_on"),
    "rounds, tokens, money and time of a turn and a session are bounded, and end a turn softly": (
        *at(LIMITS, "a_model_that_calls_for_ever_is_stopped", "time_is_a_limit"),
        *at(LIMITS, "a_budget_that_is_crossed_mid_stream_cuts_the_reply_and_keeps_it"),
        *at(LIMITS, "there_are_limits_unless_somebody_says_otherwise"),
    ),
    "a model that cannot answer is replaced by another, and rate limits are waited for": (
        *at(TURNS, "a_fallback_answers_in_the_place_of_a_model_that_cannot"),
        *at("ai/test_chaos.py", "a_dropped_connection_is_tried_again", "a_rate_limit_is_waited_for"),
    ),
}

CALLS = {
    "calls of a round run side by side": at(LOOP, "results_stand_in_call_order_whatever_ends_first"),
    "a call is given up after a time": at(LOOP, "a_tool_that_takes_too_long_is_given_up"),
    "an unknown tool is a result that says so, with tool_start and tool_end": at(
        LOOP, "a_failing_call_becomes_a_result_and_the_loop_goes_on"
    ),
    "an exception in a tool is a result with its message": at(
        LOOP, "a_failing_call_becomes_a_result_and_the_loop_goes_on", "whatever_a_tool_does_its_call_has_a_result"
    ),
    "texts stay as they are, other values become text, failures begin with Error": (
        *at(OUTPUT, "values_become_text"),
        *at(LOOP, "a_failing_call_becomes_a_result_and_the_loop_goes_on"),
    ),
    "long output is cut with head and tail, between characters; bytes are no text": (
        *at(OUTPUT, "long_texts_keep_their_ends_in_little_memory"),
        *at(FILES, "binary_files_and_cut_characters"),
        *at(SHELL, "long_output_shows_head_and_tail_and_where_the_rest_is"),
    ),
    "arguments are checked against the schema before the function runs": at(
        LOOP, "a_raw_schema_is_enforced", "a_failing_call_becomes_a_result_and_the_loop_goes_on"
    ),
    "tools come and go, and count from the next request on": at(
        LOOP, "tools_come_and_go_between_requests", "a_tool_of_the_same_name_replaces_the_old_one"
    ),
    "of two tools of one name the last counts": at(LOOP, "a_tool_of_the_same_name_replaces_the_old_one"),
    "a stream that raises is an error event": at(LOOP, "a_stream_that_breaks_fails_the_run_and_keeps_what_came"),
    "an empty reply is asked for once more, and leaves a note that is never sent": at(
        TURNS, "an_empty_reply_is_asked_for_once_more", "a_second_empty_reply_leaves_a_note_that_is_never_sent"
    ),
    "arguments that are no JSON are told to the model and never run": at(
        LOOP, "arguments_that_are_not_json_are_never_run"
    ),
    "calls without ids, or with the same, have a result each": at(
        STREAMS, "call_ids_become_unique_in_events_and_message"
    ),
}

MESSAGES = {
    "a message has a role and parts, and an id and a time in its log": at(PAGING, "a_row_says_who_what_and_when"),
    "a summary is what a model reads as a user's message": at(CONVERSATION, "a_summary_is_sent_as_a_user_says_it"),
    "notes are never sent to a model": at(TURNS, "a_second_empty_reply_leaves_a_note_that_is_never_sent"),
    "tokens are estimated, anchored on what the provider counted, pictures and all scripts included": at(
        TOKENS,
        "what_the_provider_counted_last_is_the_anchor",
        "pictures_files_thinking_calls_and_results_count",
        "prose_is_estimated_within_15_percent_of_what_its_provider_counted",
    ),
    "the id of a message is that of its row": (
        *at(PAGING, "an_append_returns_the_id_of_the_row"),
        *at(QUEUE, "a_prompt_while_text_streams_is_answered_in_one_more_turn"),
    ),
    "a model sees what follows the latest summary": at(CONVERSATION, "from_the_latest_summary_on_with_what_it_keeps"),
    "thinking with its signature and the order of parts survive tool calls": at(STREAMS, "messages_parts_in_order"),
}

TOOLS = {
    "a tool is a name, a description, a schema and a function; the model sees the first three": at(
        "agent/test_generators.py", "the_context_is_not_for_the_model_to_give"
    ),
    "a function takes (args), (call id, args) or (agent id, call id, args)": at(
        LOOP, "every_signature_of_a_tool_function_is_served"
    ),
    "Python functions are tools, their schema from hints and docstring": at(
        FUNCTIONS, "the_schema_comes_from_hints_and_docstring"
    ),
    "a tool succeeds or fails": at(LOOP, "a_failing_call_becomes_a_result_and_the_loop_goes_on"),
    "a name that no provider takes is refused when the tool is made": at(
        FUNCTIONS, "a_function_that_json_cannot_call_is_refused_in_one_sentence"
    ),
    "read skips offset lines and gives limit lines, raw; beyond the end it gives nothing": at(
        FILES, "read_skips_and_limits_lines"
    ),
    "read of a huge file takes little memory": at(FILES, "reading_a_huge_file_takes_little_memory"),
    "read expands ~ and starts from the working directory": at(
        FILES, "read_expands_home_and_follows_the_working_directory"
    ),
    "what cannot be read, and offsets that make no sense, are said": at(FILES, "what_cannot_be_read_is_named"),
    "write makes parents and replaces": at(FILES, "write_makes_folders_keeps_modes_and_follows_links"),
    "what cannot be written is said, and nothing is left half written": at(
        FILES, "a_write_that_fails_leaves_the_file_and_no_rest", "readers_never_see_half_a_file"
    ),
    "changes are shown as a diff, checked for staleness, and can be undone": (
        *at(FILES, "what_changed_since_it_was_read_is_not_overwritten", "edit_changes_one_place_and_says_so"),
        *at(CHANGES, "changes_are_listed_and_undone"),
    ),
    "edit replaces the one occurrence": at(FILES, "edit_changes_one_place_and_says_so"),
    "edit refuses none, several and empty matches, overlapping ones too, and leaves the file": at(
        EDITS, "what_is_not_one_exact_match_is_refused"
    ),
    "two edits of one file in a round both count": at(FILES, "parallel_edits_of_one_file_all_count"),
    "bash takes a command, cwd and timeout, 30 s by default": at(
        SHELL, "output_streams_and_status", "what_cannot_start_is_said"
    ),
    "stderr has its heading, only where there is some; a status other than 0 is an error with the output": at(
        SHELL, "output_streams_and_status"
    ),
    "a timeout keeps the output, and nothing of the command is left": at(
        LEFTOVERS, "a_timeout_keeps_the_output_and_ends_the_family"
    ),
    "nothing is left after a stop or the death of the process": at(
        LEFTOVERS, "nothing_is_left_after_the_agent_was_stopped", "nothing_is_left_after_the_process_died"
    ),
    "what cannot start is said": at(SHELL, "what_cannot_start_is_said"),
    "a command has no input": at(SHELL, "output_streams_and_status"),
    "a command does not see secrets": at(SHELL, "secrets_stay_out"),
    "output is shown as it comes, and bounded in memory however much it is": at(
        SHELL, "output_is_shown_as_it_comes", "a_loud_command_takes_little_memory"
    ),
    "a TOOL.json has name, description, command and parameters": at(
        EXTERNAL, "every_file_skipped_is_named_with_its_reason"
    ),
    "placeholders become the arguments once, unknown ones nothing": at(
        EXTERNAL, "what_is_not_given_is_nothing_at_all", "any_text_arrives_as_it_is", "other_values_are_json"
    ),
    "cwd and timeout are always taken": at(EXTERNAL, "working_directory_and_timeout_are_always_taken"),
    "all of some folders are loaded, in order, ~ expanded; what is skipped is named": (
        *at(EXTERNAL, "every_file_skipped_is_named_with_its_reason"),
        *at(EXTERNAL, "home_is_expanded_and_a_file_may_begin_with_a_byte_order_mark"),
        *at(EQUIPMENT, "every_file_that_cannot_be_used_is_named"),
    ),
    "it runs like bash": at(EXTERNAL, "it_runs_like_bash"),
    "an argument is never run by the shell": at(
        EXTERNAL, "no_argument_is_ever_run", "where_no_value_is_safe_the_file_is_refused"
    ),
    "both the project's and the user's folders are looked through": at(
        EQUIPMENT, "of_two_folders_the_projects_own_comes_first"
    ),
    "tools are given by name, unknown names are said, and nobody has what he was not given": at(
        EQUIPMENT, "tools_are_given_by_name_and_by_group", "what_an_agent_is_not_given_it_does_not_have"
    ),
    "a tool of one's own hides a built-in one of its name": at(
        EQUIPMENT, "a_tool_of_a_file_works_in_the_workspaces_folder_and_hides_a_built_in_one"
    ),
    "every tool works in the session's directory": at(
        FOLDER, "tools_without_a_folder_work_in_the_agents", "what_is_asked_about_is_the_file_that_would_be_touched"
    ),
    "calls are allowed, asked about or denied, by tool, path and command; decisions are stored": (
        *at(APPROVAL, "a_call_waits_for_its_answer", "what_a_rule_denies_does_not_run", "every_decision_is_stored"),
        *at(POLICY, "deny_always_wins"),
    ),
}

PROMPT = {
    "one line says who the agent is, none where nobody knows": at(BRIEFING, "one_line_says_who_the_agent_is"),
    "identity, instructions, the agent's own prompt, guidance for tools, skills": at(
        BRIEFING, "everything_has_its_place"
    ),
    "only tools that are there are explained": (
        *at(BRIEFING, "only_tools_that_are_there_are_explained"),
        *at(BRIEFING, "without_tools_that_have_guidance_nothing_is_said_about_tools"),
    ),
    "AGENTS.md is found upwards, as far as the repository, a worktree too, and comes first": (
        *at(INSTRUCTIONS, "all_of_them_outermost_first", "nothing_above_the_repository_is_read"),
        *at(INSTRUCTIONS, "a_worktree_is_a_repository"),
        *at(BRIEFING, "skills_and_instructions_of_the_folder_are_part_of_it"),
    ),
    "what does not change stays the same to the letter, for the provider's cache": at(
        BRIEFING, "what_does_not_change_stays_the_same_to_the_letter"
    ),
}

GOING_ON = {
    "rewind keeps what is before the message, in memory and in the store; without a session it does nothing": at(
        HISTORY, "rewind_stops_what_runs_and_cuts_all_agents_alike", "rewind_without_a_session_does_nothing"
    ),
    "an edited prompt runs again from there": at(HISTORY, "a_stream_that_runs_is_cancelled"),
    "a rewind stops what runs, cuts all agents alike, and stops those that came later; nothing is lost": at(
        HISTORY,
        "a_stream_that_runs_is_cancelled",
        "agents_that_came_later_are_stopped_and_come_back_with_their_branch",
        "what_is_said_while_a_rewind_is_under_way_comes_after_it",
    ),
    "a session goes on by id or name; an unknown one is said": at(
        HISTORY, "a_session_goes_on_where_it_was", "a_session_that_is_in_use_leaves_everything_as_it_was"
    ),
    "ids, history, usage, cost, prompts and granted tools are as they were": at(
        HISTORY, "a_session_goes_on_where_it_was", "functions_are_handed_over_by_name"
    ),
    "who was removed does not come back, and nobody is merged": at(
        HISTORY, "a_removed_agent_does_not_come_back_and_twins_do"
    ),
    "a model that is gone gives way to another, with a sentence": at(
        HISTORY, "a_model_that_is_gone_gives_way_to_the_default_one"
    ),
    "what was cut off is told to the model once, and the next request is valid": at(
        HISTORY,
        "what_was_cut_off_is_told_once_and_the_next_request_is_valid",
        "being_told_survives_until_somebody_prompts",
        "a_turn_that_was_taken_back_was_not_interrupted",
    ),
    "nothing runs by itself when a session goes on": at(HISTORY, "being_told_survives_until_somebody_prompts"),
    "a session that is open is not opened twice": at(
        HISTORY, "a_session_goes_on_where_it_was", "a_session_that_is_in_use_leaves_everything_as_it_was"
    ),
    "a process that is killed loses nothing that was acknowledged": at(
        KILL, "a_kill_at_any_moment_loses_nothing_that_was_acknowledged"
    ),
}

COMPACTION = {
    "the hook gets what is sent, the last summary included, before every request": at(
        ROOM, "it_is_asked_before_every_request", "a_function_is_asked_before_every_request_and_may_decline"
    ),
    "it acts at 0.8 of the window and keeps ten messages": at(
        COMPACTOR,
        "it_acts_when_the_ratio_of_the_window_is_reached",
        "all_but_the_ten_newest_messages_are_summarised_by_the_agents_own_model",
    ),
    "one request without tools asks for the goal, the facts and what is under way": at(
        SUMMARY, "one_request_without_tools_that_says_what_matters", "messages_are_labelled_by_role_and_bounded"
    ),
    "the summary before is part of the next": (
        *at(SUMMARY, "the_previous_summary_comes_first_and_is_carried_on"),
        *at(ROOM, "a_fact_of_the_first_chapter_is_in_the_second_summary"),
    ),
    "an error or an empty summary changes nothing": (
        *at(ROOM, "a_failure_leaves_the_conversation_as_it_was"),
        *at(COMPACTOR, "a_model_that_fails_or_says_nothing_raises"),
    ),
    "the summary is stored, requests start from it, and the whole history stays": (
        *at(ROOM, "the_summary_is_told_stored_and_counted"),
        *at(PAGING, "a_long_conversation_is_read_a_chapter_at_a_time"),
    ),
    "a compactor from elsewhere that fails gives way to the built-in one": at(
        COMPACTOR, "where_another_compactor_fails_the_model_is_asked"
    ),
    "what a compactor gives is checked": at(COMPACTOR, "what_a_compactor_gives_is_checked"),
    "what is kept survives the session being opened again": at(
        ROOM, "what_is_kept_survives_the_session_being_opened_again"
    ),
    "no pair of call and result is split, also inside one long turn": (
        *at(CONVERSATION, "no_cut_separates_a_call_from_its_result", "a_long_turn_can_be_cut_inside"),
        *at(ROOM, "the_built_in_compactor_makes_room_and_splits_no_pair"),
    ),
    "it can be stopped, and works in the background after a turn": at(
        ROOM,
        "stopping_ends_it_and_leaves_the_conversation_as_it_was",
        "after_a_turn_it_works_in_the_background_and_the_next_turn_need_not_wait",
    ),
    "the system prompt and the tools count; its own input is bounded": (
        *at(TOKENS, "the_system_prompt_and_the_tools_are_part_of_a_request"),
        *at(SUMMARY, "what_is_too_long_for_the_model_is_summarised_piece_by_piece"),
    ),
    "where nothing else helps old tool outputs are left out": at(
        ROOM,
        "a_refused_length_is_shortened_and_asked_again",
        "where_there_is_no_other_way_old_tool_outputs_are_left_out",
    ),
    "the filled part of the window falls": at(ROOM, "the_filled_part_of_the_window_falls"),
}

KNOWING_HOW = {
    "a folder with a SKILL.md is a skill; the public format works unchanged": at(
        SKILLS, "a_skill_of_the_public_format_works_unchanged"
    ),
    "front matter at the first byte, line ends do not matter, what is wrong is said": at(
        FRONT, "line_ends_and_marks_do_not_matter", "what_is_wrong_is_said"
    ),
    "it is YAML, and plain lines with colons are taken as they stand": at(
        FRONT, "it_is_yaml_whose_values_stay_texts", "plain_text_that_is_no_yaml_is_taken_as_it_stands"
    ),
    "missing folders are no matter, others are ignored, bad ones are skipped with a sentence": at(
        SKILLS, "home_missing_directories_and_other_files", "a_bad_file_is_skipped_with_a_sentence"
    ),
    "the prompt lists the skills and says how to load them; none, no section": at(
        SKILLS, "the_section_of_the_system_prompt"
    ),
    "load_skill gives the text as it is now; an unknown name lists the known ones": at(
        POOL, "the_text_is_read_at_the_call", "what_cannot_be_loaded_is_said"
    ),
    "list_skills lists them": at(POOL, "the_list_of_skills"),
    "both are there where there are skills": at(EQUIPMENT, "the_tools_of_skills_are_there_where_there_are_skills"),
    "an edited description is in the next turn's prompt": (
        *at(POOL, "edits_show_at_the_next_call"),
        *at(BRIEFING, "skills_and_instructions_of_the_folder_are_part_of_it"),
    ),
    "an agent can read what a skill refers to": at(POOL, "an_agent_can_read_what_a_skill_refers_to"),
    "the project's skills come before the user's": at(SKILLS, "directories_in_order_and_the_first_wins"),
}

BETTER = {
    "an append does not get slower with the length of the history": at(
        TOKENS, "an_anchored_count_does_not_look_at_the_history"
    ),
    "an answer can be asked for in a form, and one that does not fit is told to the model": at(
        "agent/test_output.py", "an_answer_that_does_not_fit_is_told_to_the_model_once"
    ),
    "folding what is stored gives the live state": (
        *at(STATE, "folding_events_gives_the_live_state"),
        *at(HISTORY, "a_session_can_be_replayed_into_the_state_it_left"),
    ),
    "what the next request would send can be looked at": at(
        BRIEFING, "the_request_that_is_shown_is_the_one_that_is_sent"
    ),
}

TABLE = {
    **LIFE,
    **EVENTS,
    **WAITING,
    **STOPPING,
    **SPENDING,
    **CALLS,
    **MESSAGES,
    **TOOLS,
    **PROMPT,
    **GOING_ON,
    **COMPACTION,
    **KNOWING_HOW,
    **BETTER,
}

LATER = {
    "the role of an agent comes from its tools": "roles exist in teams only",
    "workers that start or end are told to the orchestrator": "worker_spawned and worker_exit are events of teams",
    "a response of another agent is a message of its own, with its sender": "teams send it",
    "a response takes up an idle agent, and counts once where it is busy": "teams send it",
    "a stopped agent is an error to whoever asked it, and a busy one answers the right question": "asking is of teams",
    "registered tools, and those of sidecars, in their order": "sidecars bring tools in, and teams share them out",
    "a compactor of its own for each member, or of a sidecar": "team files name it, sidecars offer it",
    "members that were spawned, and what was delegated, come back when a session goes on": "teams keep that record",
    "text from files, the web and other agents is marked as such": "sidecars and teams bring such text in",
    "binary documents are read as text": "a sidecar does that",
}


def named() -> Iterator[str]:
    """All tests that the table names."""
    for tests in TABLE.values():
        yield from tests


def test_no_statement_is_without_a_test() -> None:
    assert all(TABLE.values())
    assert all(LATER.values())
    parts = (LIFE, EVENTS, WAITING, STOPPING, SPENDING, CALLS, MESSAGES, TOOLS, PROMPT, GOING_ON, COMPACTION)
    assert len(TABLE) == sum(map(len, parts)) + len(KNOWING_HOW) + len(BETTER)


@pytest.mark.parametrize("name", sorted(set(named())))
def test_the_named_test_exists(name: str) -> None:
    assert exists(name)
