-- The views of %planck sql; README.md describes their columns.
-- They use the tables and views that snapshot.py creates: store.sessions, store.all_messages and store.all_events with the
-- column `hidden`, store.rewinds and store.branch_rows.
-- A session may have a million messages, so each view takes time in proportion to the rows: what belongs to the row before
-- it is found by a window over both, not by comparing ranges.

-- The clock may have been set back, so a duration is at least 0.
create macro store.seconds(first, last) as case when last < first then 0 else epoch(last - first) end;

-- Somebody else may have written the session; what cannot be right is unknown, as in planck_nb/ai/numbers.py.
create macro store.tokens(n) as case when n between 0 and 1000000000 then n end;
create macro store.measured(seconds) as case when try_cast(seconds as double) >= 0 then try_cast(seconds as double) end;
create macro store.dollars(amount) as case when amount between 0 and 1000000000 then amount end;

-- Whether an agent is an item of `Workspace.map`, by its id: the digests of its settings and prompt, and a number.
create macro store.is_map_item(id) as regexp_full_match(id, 'map-[0-9a-f]{12}-[0-9a-f]{16}-[0-9]+');

create view store.visible_events as
select * exclude (hidden) from store.all_events where not hidden;

-- The calls in replies and the results in later messages. What a query names of their texts is decoded in the end.
create view store.call_parts as
select session_id, session_name, agent_id, turn, id, ts, role, unnest(calls) as part
from store.all_messages
where not hidden and calls is not null;

-- The part of a message that has a call, or the result of one.
create macro store.part(data, kind, call_id) as list_filter(
    json_transform(data, '{"content": [{"type": "VARCHAR", "id": "VARCHAR", "args": "JSON", "text": "VARCHAR"}]}').content,
    lambda part: part.type = kind and part.id is not distinct from call_id
)[1];

create view messages as
select
    session_id, session_name, id, agent_id, turn, ts, role, provider, model, stop_reason,
    store.tokens(input_tokens) as input_tokens, store.tokens(output_tokens) as output_tokens,
    store.tokens(cache_read_tokens) as cache_read_tokens, store.tokens(cache_write_tokens) as cache_write_tokens,
    store.tokens(thinking_tokens) as thinking_tokens, store.dollars(cost_usd) as cost_usd, text,
    data->'$.content' as content,
    data->>'$.error' as error,
    data->>'$.sender_id' as sender_id, data->>'$.sender_name' as sender_name, data->>'$.purpose' as purpose,
    coalesce(estimated, false) as estimated,
    case when role = 'assistant' then store.measured(data->>'$.ttft_s') end as ttft_s,
    case when role = 'assistant' then store.measured(data->>'$.latency_s') end as latency_s
from store.all_messages
where not hidden;

create view agents as
with latest as (
    select
        session_id, session_name, agent_id, min(ts) as started,
        arg_max(data, id) filter (type = 'agent_started') as first_state,
        arg_max(data, id) as state
    from store.visible_events
    where type in ('agent_started', 'agent_changed')
    group by all
),
counts as (
    select session_id, agent_id, sum(messages)::bigint as messages, count(turn) as turns
    from (
        select session_id, agent_id, turn, count(*) as messages from store.all_messages where not hidden group by all
    )
    group by all
)
select
    session_id, session_name, agent_id,
    first_state->>'$.name' as name,
    first_state->>'$.agent_type' as type,
    state->>'$.model' as model,
    started,
    coalesce(messages, 0) as messages,
    coalesce(turns, 0) as turns,
    nullif(first_state->>'$.role', '') as team_role,
    first_state->>'$.team_id' as team_id,
    first_state->>'$.parent_id' as parent_id,
    case when json_type(first_state, '$.grants') = 'OBJECT' then first_state->'$.grants' end as grants,
    state->>'$.system_prompt' as system_prompt
from latest left join counts using (session_id, agent_id);

-- The id of a call is unique within its message only, so a result or an event belongs to the last call before it. Most
-- ids are of one call in the session; only those of several need a window, which sorts its rows and so takes longer than
-- all the rest. No step has texts, for the same reason.
create view store.first_calls as
select session_id, agent_id, part.id as call_id, min(id) as first_id, max(id) as last_id
from store.call_parts
where role = 'assistant'
group by all;

create view store.call_steps as
select
    s.session_id, session_name, s.agent_id, turn, id, ts, kind, s.call_id, name, is_error, first_id, last_id
from (
    select
        session_id, session_name, agent_id, turn, id, ts, if(role = 'assistant', 'call', 'result') as kind,
        part.id as call_id, part.name as name, part.is_error as is_error
    from store.call_parts
    union all
    select session_id, session_name, agent_id, turn, id, ts, type, call_id, null, null
    from store.all_events
    where not hidden and type in ('tool_start', 'tool_end')
) s
left join store.first_calls f
    on f.session_id = s.session_id and f.agent_id = s.agent_id and f.call_id is not distinct from s.call_id;

create view store.own_calls as
select
    session_id, any_value(session_name) as session_name, any_value(agent_id) as agent_id,
    any_value(turn) filter (kind = 'call') as turn,
    message_id, call_id, any_value(name) filter (kind = 'call') as name,
    min(id) filter (kind = 'result') as result_id,
    try_cast(arg_min(is_error, id) filter (kind = 'result') as boolean) as is_error,
    any_value(ts) filter (kind = 'call') as ts,
    store.seconds(min(ts) filter (kind = 'tool_start'), max(ts) filter (kind = 'tool_end')) as duration_s
from (
    select *, first_id as message_id from store.call_steps where first_id = last_id and id >= first_id
    union all
    select
        *,
        max(case when kind = 'call' then id end) over (
            partition by session_id, agent_id, call_id order by id rows unbounded preceding
        ) as message_id
    from store.call_steps
    where first_id < last_id and id >= first_id
)
group by session_id, message_id, call_id;

-- The calls whose texts are joined: few if a statement needs few (queries.py), because DuckDB would join those of all.
create view store.wanted_calls as select * from store.own_calls;

-- What the model's server ran was shown while the reply arrived, so its events come before the reply, which has no part
-- of the type tool_call for it.
create view store.served_calls as
select *
from (
    select
        *,
        first_value(case when kind = 'tool_end' then {'id': id, 'ts': ts} end ignore nulls) over (
            partition by session_id, agent_id, call_id order by id rows between 1 following and unbounded following
        ) as ended
    from store.call_steps
    where kind in ('tool_start', 'tool_end') and (first_id is null or id < first_id)
)
where kind = 'tool_start';

create view tool_calls as
with served_replies as (
    select b.session_id, b.id, min(m.id) as message_id
    from store.served_calls b
    join store.all_messages m
        on m.session_id = b.session_id and m.agent_id = b.agent_id and m.turn = b.turn and m.id > b.id
    where m.role = 'assistant' and not m.hidden
    group by all
)
select
    c.session_id, c.session_name, c.agent_id, c.turn, c.message_id, c.call_id, c.name,
    store.part(m.data, 'tool_call', c.call_id).args as args,
    store.part(r.data, 'tool_result', c.call_id).text as result,
    c.is_error, c.ts, c.duration_s, false as on_server
from store.wanted_calls c
join store.all_messages m on m.session_id = c.session_id and m.id = c.message_id
left join store.all_messages r on r.session_id = c.session_id and r.id = c.result_id
union all
select
    c.session_id, c.session_name, c.agent_id, c.turn, p.message_id, c.call_id, s.data->>'$.name', s.data->'$.args',
    e.data->>'$.result', try_cast(e.data->>'$.error' as boolean), c.ts, store.seconds(c.ts, c.ended.ts), true
from store.served_calls c
join store.all_events s on s.session_id = c.session_id and s.id = c.id
left join store.all_events e on e.session_id = c.session_id and e.id = c.ended.id
left join served_replies p on p.session_id = c.session_id and p.id = c.id;

-- A decision belongs to the request just before it; a decision by a rule has no request.
create view approvals as
with steps as (
    select session_id, session_name, agent_id, turn, id, ts, type, call_id
    from store.all_events
    where not hidden and type in ('approval_request', 'approval_decision')
    union all
    select session_id, session_name, agent_id, turn, id, ts, 'call', part.id
    from store.call_parts
    where role = 'assistant'
),
placed as (
    select
        *,
        lag(type) over same_call as type_before,
        lead(type) over same_call as type_after,
        lead(ts) over same_call as ts_after,
        lead(id) over same_call as id_after,
        max(case when type = 'call' then id end) over (same_call rows unbounded preceding) as message_id
    from steps
    window same_call as (partition by session_id, agent_id, call_id order by id)
),
paired as (
    select
        session_id, session_name, agent_id, turn, id, call_id, message_id,
        case when type = 'approval_request' then id end as request_id,
        case when type = 'approval_request' then ts end as asked,
        case when type = 'approval_decision' then id when type_after = 'approval_decision' then id_after end as decision_id,
        case when type = 'approval_decision' then ts when type_after = 'approval_decision' then ts_after end as decided
    from placed
    where type = 'approval_request'
        or (type = 'approval_decision' and type_before is distinct from 'approval_request')
)
select
    p.session_id, p.session_name, p.agent_id, p.turn, p.call_id,
    coalesce(r.data, d.data)->>'$.name' as name,
    coalesce(r.data->'$.args', store.part(m.data, 'tool_call', p.call_id).args) as args,
    r.data->'$.touches' as touches,
    p.asked, p.decided, store.seconds(p.asked, p.decided) as waited_s,
    try_cast(d.data->>'$.allowed' as boolean) as allowed,
    d.data->>'$.by' as decided_by,
    case when json_type(d.data, '$.args') = 'OBJECT' then d.data->'$.args' end as edited_args,
    nullif(d.data->>'$.rule', '') as rule,
    coalesce(nullif(d.data->>'$.reason', ''), r.data->>'$.reason') as reason
from paired p
left join store.all_events r on r.session_id = p.session_id and r.id = p.request_id
left join store.all_events d on d.session_id = p.session_id and d.id = p.decision_id
left join store.all_messages m on m.session_id = p.session_id and m.id = p.message_id;

-- Everything that happened to agents beside their messages.
create view events as
select
    session_id, session_name, id, agent_id, turn, ts, type,
    case
        when type in (
            'retry', 'error', 'fallback', 'limit_reached', 'compacted', 'worker_exit', 'approval_request',
            'approval_decision'
        ) then nullif(data->>'$.reason', '')
        when type in ('warning', 'queued', 'delegated', 'responded') then nullif(data->>'$.text', '')
    end as detail,
    call_id, data
from store.all_events
where not hidden;

-- All that was paid for, once: the replies in conversations are their messages, everything else has an event. What limits
-- count and what agents show is the sum of the same rows.
create view store.spending as
select
    session_id, session_name, id, agent_id, turn, ts,
    case when provider = '' then model else provider || ':' || model end as model, 'reply' as purpose,
    store.tokens(input_tokens) as input_tokens, store.tokens(output_tokens) as output_tokens,
    store.tokens(cache_read_tokens) as cache_read_tokens, store.tokens(cache_write_tokens) as cache_write_tokens,
    store.tokens(thinking_tokens) as thinking_tokens, store.dollars(cost_usd) as cost_usd,
    coalesce(estimated, false) as estimated, hidden as rewound
from store.all_messages
where role = 'assistant'
union all
select
    session_id, session_name, id, agent_id, turn, ts,
    nullif(data->>'$.model', '') as model, purpose,
    store.tokens(try_cast(data->>'$.delta.input_tokens' as bigint)),
    store.tokens(try_cast(data->>'$.delta.output_tokens' as bigint)),
    store.tokens(try_cast(data->>'$.delta.cache_read_tokens' as bigint)),
    store.tokens(try_cast(data->>'$.delta.cache_write_tokens' as bigint)),
    store.tokens(try_cast(data->>'$.delta.thinking_tokens' as bigint)),
    store.dollars(try_cast(data->>'$.cost' as double)),
    coalesce(try_cast(data->>'$.estimated' as boolean), false), hidden
from store.all_events
where purpose is not null;

-- A fork has copied the rows up to `copied`, which the session that it was forked from has paid for.
create view charges as
select s.* from store.spending s join (select session_id, copied from store.sessions) using (session_id)
where id > copied;

-- Each reply once, also if a rewind has taken it back: it has been paid for.
create view replies as
select
    session_id, session_name, id, agent_id, turn, ts,
    case when provider = '' then model else provider || ':' || model end as model,
    stop_reason,
    store.tokens(input_tokens) as input_tokens, store.tokens(output_tokens) as output_tokens,
    store.tokens(cache_read_tokens) as cache_read_tokens, store.tokens(cache_write_tokens) as cache_write_tokens,
    store.tokens(thinking_tokens) as thinking_tokens, store.dollars(cost_usd) as cost_usd,
    store.measured(data->>'$.ttft_s') as ttft_s, store.measured(data->>'$.latency_s') as latency_s,
    data->>'$.error' as error, coalesce(estimated, false) as estimated, hidden as rewound
from store.all_messages join (select session_id, copied from store.sessions) using (session_id)
where role = 'assistant' and id > copied;

create view usage as
select
    session_id, session_name, agent_id, model, purpose,
    count(*) filter (purpose = 'reply') as replies,
    sum(input_tokens)::bigint as input_tokens,
    sum(output_tokens)::bigint as output_tokens,
    sum(cache_read_tokens)::bigint as cache_read_tokens,
    sum(cache_write_tokens)::bigint as cache_write_tokens,
    sum(thinking_tokens)::bigint as thinking_tokens,
    sum(cost_usd) as cost_usd,
    bool_or(estimated) as estimated,
    min(ts) as first_reply,
    max(ts) as last_reply,
    count(*) filter (rewound and purpose = 'reply') as rewound_replies,
    coalesce(sum(input_tokens) filter (rewound), 0)::bigint as rewound_input_tokens,
    coalesce(sum(output_tokens) filter (rewound), 0)::bigint as rewound_output_tokens,
    coalesce(sum(cost_usd) filter (rewound), 0) as rewound_cost_usd
from charges
group by session_id, session_name, agent_id, model, purpose;

-- The orchestrator records that a worker left; the agent itself, that it was stopped. A resumed agent starts again.
create view team_members as
with steps as (
    select
        session_id, id, ts, type, data,
        case when type = 'worker_exit' then data->>'$.worker_id' else agent_id end as agent_id
    from store.visible_events
    where type in ('agent_started', 'agent_changed', 'agent_stopped', 'worker_exit')
),
lives as (
    select
        session_id, agent_id,
        arg_max(data, id) filter (type = 'agent_started') as first_state,
        arg_max(data, id) filter (type in ('agent_started', 'agent_changed')) as state,
        max(id) filter (type = 'agent_started') as started_id,
        arg_max({'id': id, 'ts': ts}, id) filter (type = 'agent_stopped') as stopped,
        arg_max({'id': id, 'ts': ts, 'reason': data->>'$.reason'}, id) filter (type = 'worker_exit') as left_team,
        arg_max(coalesce(try_cast(data->>'$.removed' as boolean), false), id)
            filter (type in ('agent_started', 'agent_stopped')) as removed
    from steps
    group by all
),
spent as (
    select
        session_id, agent_id,
        sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens,
        sum(cost_usd) as cost_usd
    from usage
    group by all
)
select
    session_id, session_name, team_id, agent_id, name, type, team_role as role, parent_id, model,
    first_state->>'$.description' as description,
    case when json_type(grants, '$.tools') = 'ARRAY' then grants->'$.tools' end as granted_tools,
    case when json_type(grants, '$.skills') = 'ARRAY' then grants->'$.skills' end as granted_skills,
    case when json_type(grants, '$.models') = 'ARRAY' then grants->'$.models' end as granted_models,
    case when json_type(state, '$.tools') = 'ARRAY' then state->'$.tools' end as tools,
    started as started_at,
    coalesce(
        case when stopped.id > started_id then stopped.ts end, case when left_team.id > started_id then left_team.ts end
    ) as ended_at,
    case when left_team.id > started_id then left_team.reason end as exit_reason,
    coalesce(removed, false) as removed,
    messages, input_tokens, output_tokens, cost_usd
from agents join lives using (session_id, agent_id) left join spent using (session_id, agent_id)
where team_id is not null;

-- The last response names the turn of its task. That of a task without one is found by the prompt: an agent takes up the
-- prompts of one sender in the order in which they were sent, so the first of several equal ones is for the first task.
-- A rewind stops all turns, so that a task whose response it has taken back never gets another one; nor does one of an
-- agent that was removed.
create view delegations as
with steps as (
    select session_id, session_name, agent_id, id, ts, type, data, data->>'$.task_id' as task_id
    from store.visible_events
    where type in ('delegated', 'responded')
),
pairs as (
    select
        session_id, session_name, agent_id as from_agent_id, task_id,
        min(id) filter (type = 'delegated') as id,
        arg_min(ts, id) filter (type = 'delegated') as asked_at,
        arg_min(data, id) filter (type = 'delegated') as asked,
        arg_max(ts, id) filter (type = 'responded') as answered_at,
        arg_max(data, id) filter (type = 'responded') as answer,
        string_agg(data->>'$.text', chr(10) || chr(10) order by id) filter (type = 'responded') as response
    from steps
    where task_id is not null
    group by all
),
rewound as (
    select
        session_id, agent_id as from_agent_id,
        max(id) filter (type = 'rewound') as rewound_id,
        max(id) filter (type <> 'rewound' and try_cast(data->>'$.removed' as boolean)) as removed_id
    from store.visible_events
    where type in ('rewound', 'agent_stopped')
    group by all
),
tasks as (
    select
        session_id, session_name, id, task_id, from_agent_id, asked_at, answered_at, response,
        asked->>'$.kind' as kind,
        asked->>'$.target_id' as to_agent_id, asked->>'$.target_name' as to_agent_name, asked->>'$.text' as task,
        case
            when answer is null and greatest(rewound_id, removed_id) > id then 'failed'
            when answer is null then 'open'
            when try_cast(answer->>'$.error' as boolean) then 'failed'
            else 'answered'
        end as status,
        try_cast(answer->>'$.automatic' as boolean) as automatic,
        try_cast(answer->>'$.task_turn' as integer) as task_turn,
        nullif(asked->>'$.call_id', '') as call_id
    from pairs left join rewound using (session_id, from_agent_id)
    where asked is not null
),
equal_tasks as (
    select session_id, from_agent_id, to_agent_id, task, task_id,
        row_number() over (partition by session_id, to_agent_id, from_agent_id, task order by id) as place
    from tasks left join rewound using (session_id, from_agent_id)
    where (answered_at is null or task_turn is not null) and id > coalesce(rewound_id, 0)
),
equal_prompts as (
    select m.session_id, sender_id as from_agent_id, agent_id as to_agent_id, text as task, turn,
        row_number() over (partition by m.session_id, agent_id, sender_id, text order by id) as place
    from messages m left join rewound r on r.session_id = m.session_id and r.from_agent_id = m.sender_id
    where role = 'user' and sender_id is not null and purpose is distinct from 'response'
        and id > coalesce(rewound_id, 0)
),
prompted as (
    select session_id, from_agent_id, task_id, turn
    from equal_tasks join equal_prompts using (session_id, from_agent_id, to_agent_id, task, place)
),
placed as (
    select tasks.*, case when answered_at is null then turn else task_turn end as to_turn
    from tasks left join prompted using (session_id, from_agent_id, task_id)
),
spent as (
    select
        session_id, agent_id as to_agent_id, turn as to_turn,
        sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens, sum(cost_usd) as cost_usd
    from store.spending
    where not rewound
    group by all
),
names as (
    select session_id, agent_id as from_agent_id, arg_max(data->>'$.name', id) as name
    from store.visible_events
    where type = 'agent_started'
    group by all
)
select
    session_id, session_name, id, task_id, kind,
    from_agent_id, name as from_agent_name, to_agent_id, to_agent_name,
    task, response, status, automatic, asked_at, answered_at, store.seconds(asked_at, answered_at) as seconds,
    to_turn, input_tokens, output_tokens, cost_usd, call_id
from placed
left join spent using (session_id, to_agent_id, to_turn)
left join names using (session_id, from_agent_id);

create view sessions as
with by_agent as (
    select session_id, agent_id, count(*) as messages, max(ts) as last
    from store.all_messages
    where not hidden
    group by all
),
said as (
    select session_id, count(*) as agents, sum(messages)::bigint as messages, max(last) as last
    from by_agent
    group by session_id
),
spent as (
    select
        session_id,
        sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens, sum(cost_usd) as cost_usd
    from charges
    group by session_id
)
select
    session_id, session_name, created,
    coalesce(agents, 0) as agents, coalesce(messages, 0) as messages, input_tokens, output_tokens, cost_usd, last,
    parent
from store.sessions left join said using (session_id) left join spent using (session_id);

-- A rewind to a turn's prompt does not hide the start of the turn, which is written before it. The rewind stops all turns,
-- so the end is hidden; a fork does not have it, but what the agent has recorded of the rewind.
create view turns as
with marks as (
    select
        session_id, session_name, agent_id, turn,
        arg_max({'id': id, 'ts': ts}, id) filter (type = 'turn_start' and not hidden) as start,
        arg_max({'id': id, 'ts': ts, 'type': type}, id) filter (type <> 'turn_start' and not hidden) as finish,
        arg_max({'id': id, 'ts': ts}, id) filter (type <> 'turn_start' and hidden) as hidden_finish
    from store.all_events
    where type in ('turn_start', 'turn_end', 'aborted', 'error')
    group by all
    having not bool_and(hidden)
),
rewinds as (
    select session_id, agent_id, id, ts from store.visible_events where type = 'rewound'
),
bounds as (
    select
        m.session_id, session_name, m.agent_id, turn,
        m.start.ts as started,
        coalesce(finish.ts, case when hidden_finish.id > m.start.id then hidden_finish.ts end, r.ts) as ended,
        case
            when finish is not null then finish.type
            when hidden_finish.id > m.start.id or r.id is not null then 'rewound'
        end as outcome
    from marks m
    asof left join rewinds r on r.session_id = m.session_id and r.agent_id = m.agent_id and r.id > m.start.id
),
said as (
    select
        session_id, session_name, agent_id, turn,
        arg_min(text, id) filter (role = 'user') as prompt,
        count(*) filter (role = 'assistant') as replies
    from store.all_messages
    where not hidden and role <> 'summary'  -- which may be written after the last turn was taken back
    group by all
),
spent as (
    select
        session_id, agent_id, turn,
        sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens, sum(cost_usd) as cost_usd
    from store.spending
    where not rewound
    group by all
),
calls as (
    select session_id, agent_id, turn, count(*) as tool_calls
    from (
        select session_id, agent_id, turn from store.own_calls
        union all
        select session_id, agent_id, turn from store.served_calls
    )
    group by all
)
select
    session_id, session_name, agent_id, turn, prompt, started, ended, store.seconds(started, ended) as duration_s, outcome,
    coalesce(replies, 0) as replies,
    coalesce(tool_calls, 0) as tool_calls,
    input_tokens, output_tokens, cost_usd
from said
full join bounds using (session_id, session_name, agent_id, turn)
left join spent using (session_id, agent_id, turn)
left join calls using (session_id, agent_id, turn);

-- The summaries are joined in the end: sorting the texts of all messages with them would take most of the time.
create view chapters as
with numbered as (
    select
        session_id, session_name, agent_id, id, ts, role,
        sum(if(role = 'summary', 1, 0)) over (
            partition by session_id, agent_id order by id rows unbounded preceding
        )::bigint as chapter
    from store.all_messages
    where not hidden
),
counted as (
    select
        session_id, session_name, agent_id, chapter,
        max(if(role = 'summary', id, null)) as checkpoint_id,
        min(id) as first_id, max(id) as last_id, count(*) as messages, min(ts) as started, max(ts) as last
    from numbered
    group by session_id, session_name, agent_id, chapter
),
summaries as (
    select session_id, id as checkpoint_id, text as summary from store.all_messages where role = 'summary' and not hidden
)
select
    session_id, session_name, agent_id, chapter, checkpoint_id, first_id, last_id, messages, started, last, summary
from counted left join summaries using (session_id, checkpoint_id);

-- The messages of a branch are counted by their places in the session, since each rewind has some ranges of them.
create view branches as
with placed as (
    select session_id, id, row_number() over (partition by session_id order by id) as place
    from store.all_messages
    where session_id in (select session_id from store.rewinds)
),
ranges as (
    select
        b.session_id, b.branch_id, l.id as last_id, coalesce(l.place, 0) - coalesce(f.place, 0) as messages
    from store.branch_rows b
    asof left join placed f on f.session_id = b.session_id and b.first_id > f.id
    asof left join placed l on l.session_id = b.session_id and b.end_id > l.id
),
counted as (
    select session_id, branch_id, sum(messages)::bigint as messages, max(last_id) as last_id
    from ranges
    where messages > 0
    group by session_id, branch_id
)
select c.session_id, r.session_name, c.branch_id, r.before_id, r.ts as left_at, c.messages, m.text as last_text
from counted c
join store.rewinds r on r.session_id = c.session_id and r.id = c.branch_id
join store.all_messages m on m.session_id = c.session_id and m.id = c.last_id;

-- An item whose turn has no end runs, or ran when the process died: it may have been paid for without an answer.
create view map_items as
with steps as (
    select
        session_id, session_name, agent_id,
        arg_min(data, id) filter (type = 'agent_started') as state,
        arg_max(type, id) filter (type in ('turn_start', 'turn_end', 'aborted', 'error')) as last,
        arg_max(data->>'$.reason', id) filter (type = 'error') as reason,
        min(ts) filter (type = 'turn_start') as started,
        max(ts) filter (type in ('turn_end', 'aborted', 'error')) as ended
    from store.visible_events
    where store.is_map_item(agent_id)
    group by all
),
said as (
    select
        session_id, agent_id,
        arg_min(text, id) filter (role = 'user') as prompt,
        arg_max(text, id) filter (role = 'assistant') as answer
    from store.all_messages
    where not hidden and store.is_map_item(agent_id)
    group by all
),
spent as (
    select
        session_id, agent_id,
        sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens, sum(cost_usd) as cost_usd
    from charges
    where store.is_map_item(agent_id)
    group by all
)
select
    session_id, session_name, agent_id,
    state->>'$.description' as name,
    split_part(agent_id, '-', 2) as settings,
    split_part(agent_id, '-', 3) as digest,
    state->>'$.model' as model,
    case last when 'turn_end' then 'done' when 'error' then 'failed' when 'aborted' then 'stopped' else 'open' end as status,
    prompt,
    case when last = 'turn_end' then answer end as answer,
    case when last = 'error' then reason end as error,
    input_tokens, output_tokens, cost_usd, started, ended,
    store.seconds(started, ended) as seconds
from steps join said using (session_id, agent_id) left join spent using (session_id, agent_id)
where prompt is not null;

-- The scores of one scoring have one time; a later scoring of the same answer, or of another attempt, replaces them.
create view store.newest_scores as
select * exclude (newest)
from (
    select
        *,
        max(ts) over (partition by session_id, evaluation_id, model, case_name, repetition, base) as newest
    from (
        select
            session_id, session_name, agent_id, id, ts,
            data->>'$.evaluation_id' as evaluation_id, data->>'$.model' as model, data->>'$.case' as case_name,
            try_cast(data->>'$.repetition' as integer) as repetition,
            data->>'$.scorer' as base, data->>'$.scorer_digest' as scorer_digest,
            concat_ws('.', data->>'$.scorer', nullif(data->>'$.measure', '')) as scorer,
            try_cast(data->>'$.score' as double) as score, try_cast(data->>'$.passed' as boolean) as passed,
            nullif(data->>'$.error', '') as error, nullif(data->>'$.reason', '') as reason,
            nullif(data->>'$.judge_id', '') as judge_id, store.measured(data->>'$.seconds') as seconds
        from store.visible_events
        where type = 'scored'
    )
)
where ts = newest;

create view store.evaluation_calls as
select
    session_id, session_name, agent_id as evaluation_id,
    min(ts) as started, arg_max(data->>'$.name', id) as name, arg_max(data->'$.cases', id) as cases,
    max(try_cast(data->>'$.repeat' as integer)) as repeat
from store.visible_events
where type = 'evaluation_started'
group by all;

create view scores as
with cases as (
    select
        session_id, evaluation_id, case_number, data->>'$.name' as case_name,
        nullif(data->'$.expected', 'null') as expected, data->'$.metadata' as metadata
    from (
        select
            session_id, evaluation_id, unnest(from_json(cases, '["JSON"]')) as data,
            unnest(range(1, json_array_length(cases)::bigint + 1)) as case_number
        from store.evaluation_calls
    )
),
judges as (
    select session_id, agent_id as judge_id, sum(cost_usd) as judge_cost_usd
    from charges
    where agent_id like 'judge-%'
    group by all
)
select
    session_id, session_name, evaluation_id, e.name as evaluation, s.agent_id, s.model, case_number,
    case_name, repetition, s.scorer, score, passed, error, reason, expected, metadata, judge_id, judge_cost_usd, s.seconds, s.ts, s.scorer_digest
from store.newest_scores s
join store.evaluation_calls e using (session_id, session_name, evaluation_id)
left join cases using (session_id, evaluation_id, case_name)
left join judges using (session_id, judge_id);

create view evaluations as
with items as (
    select session_id, agent_id, sum(cost_usd) as cost_usd from charges where store.is_map_item(agent_id) group by all
),
answers as (
    select session_id, evaluation_id, count(*) as answers, sum(cost_usd) as cost_usd
    from (select distinct session_id, evaluation_id, agent_id from store.newest_scores)
    left join items using (session_id, agent_id)
    group by all
),
judged as (
    select session_id, evaluation_id, sum(judge_cost_usd) as judge_cost_usd
    from (select distinct session_id, evaluation_id, judge_id, judge_cost_usd from scores where judge_id is not null)
    group by all
),
marks as (
    select
        session_id, evaluation_id, max(ts) as ended,
        list_sort(list(distinct model)) as models, list_sort(list(distinct scorer)) as scorers,
        count(distinct case_name) as cases, count(error) as errors
    from store.newest_scores
    group by all
)
select
    session_id, session_name, evaluation_id, name, started, ended,
    coalesce(models, []) as models, coalesce(scorers, []) as scorers, coalesce(m.cases, 0) as cases, repeat,
    coalesce(answers, 0) as answers, coalesce(errors, 0) as errors, cost_usd, judge_cost_usd
from store.evaluation_calls e
left join marks m using (session_id, evaluation_id)
left join answers using (session_id, evaluation_id)
left join judged using (session_id, evaluation_id);

-- Wilson's 95 % interval. It holds for any scores between 0 and 1: none has more variance than verdicts of the same mean.
create macro store.wilson(mean, n, side) as
    greatest(0, least(1, (
        mean + 1.920729 / n + side * 1.959964 * sqrt(mean * (1 - mean) / n + 0.960365 / (n * n))
    ) / (1 + 3.841459 / n)));

-- A percentile of the means of 1,000 resamples, the same for the same scores.
create macro store.resampled(scores, percentile) as list_aggregate(
    list_transform(
        range(1000),
        lambda b: list_avg(list_transform(
            range(len(scores)), lambda i: scores[(1 + hash(b * 1000003 + i) % len(scores)::ubigint)::bigint]
        ))
    ),
    'quantile_cont', percentile
);

-- Repeated answers to one case are alike, so over all cases each counts once, with its mean.
create view score_rates as
with judged as (
    select
        s.*, e.started, e.repeat,
        coalesce(
            bool_and(score between 0 and 1) over (partition by s.session_id, s.evaluation_id, s.scorer), true
        ) as is_rate
    from scores s join store.evaluation_calls e using (session_id, evaluation_id)
),
by_case as (
    select
        session_id, session_name, evaluation_id, evaluation, started, model, scorer, case_number, case_name, is_rate,
        count(score) as answers, count(error) as errors, sum(passed::integer)::bigint as passed, avg(score) as mean,
        list(score order by repetition) filter (score is not null) as drawn
    from judged
    group by all
),
over_all as (
    select
        session_id, session_name, evaluation_id, evaluation, started, model, scorer, null as case_number, null as case_name,
        is_rate,
        sum(answers)::bigint as answers, sum(errors)::bigint as errors, sum(passed)::bigint as passed, avg(mean) as mean,
        list(mean order by case_number) filter (mean is not null) as drawn
    from by_case
    group by all
),
rates as (select * from by_case union all select * from over_all)
select
    session_id, session_name, evaluation_id, evaluation, started, model, scorer, case_number, case_name, answers, errors, passed, mean,
    case
        when drawn is null then null
        when is_rate then store.wilson(mean, len(drawn), -1)
        when len(drawn) > 1 then store.resampled(drawn, 0.025)
    end as low,
    case
        when drawn is null then null
        when is_rate then store.wilson(mean, len(drawn), 1)
        when len(drawn) > 1 then store.resampled(drawn, 0.975)
    end as high,
    if(is_rate, 'wilson', 'bootstrap') as interval
from rates;
