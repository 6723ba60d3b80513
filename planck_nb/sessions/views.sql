-- The views of %planck sql; README.md describes their columns.
-- They use the tables and views that query.py creates: store.sessions, store.all_messages, store.all_events, store.rewinds,
-- store.hidden and store.hidden_in_branch.

-- The clock may have been set back, so a duration is at least 0.
create macro store.seconds(first, last) as case when last < first then 0 else epoch(last - first) end;

-- Version 0.1.0 stored what servers reported; what cannot be right is unknown, as in planck_nb/ai/numbers.py.
create macro store.tokens(n) as case when n between 0 and 1000000000 then n end;
create macro store.dollars(amount) as case when amount between 0 and 1000000000 then amount end;

-- Only a reply that was ended early has an estimate in its usage, so that the data of most replies is not looked at.
create macro store.estimated(stop_reason, data) as
    case when stop_reason in ('aborted', 'error', 'length')
        then coalesce(try_cast(data->>'$.estimated' as boolean), false) else false end;

create view store.visible_events as
select * from store.all_events e
where not exists (
    select 1 from store.hidden h where h.session_id = e.session_id and e.id >= h.first_id and e.id < h.end_id
);

create view messages as
select
    session_id, session_name, id, agent_id, turn, ts, role, provider, model, stop_reason,
    store.tokens(input_tokens) as input_tokens, store.tokens(output_tokens) as output_tokens,
    store.tokens(cache_read_tokens) as cache_read_tokens, store.tokens(cache_write_tokens) as cache_write_tokens,
    store.tokens(thinking_tokens) as thinking_tokens, store.dollars(cost_usd) as cost_usd, text,
    data->'$.content' as content,
    data->>'$.error' as error,
    data->>'$.sender_id' as sender_id, data->>'$.sender_name' as sender_name, data->>'$.purpose' as purpose,
    role = 'assistant' and store.estimated(stop_reason, data) as estimated
from store.all_messages m
where not exists (
    select 1 from store.hidden h where h.session_id = m.session_id and m.id >= h.first_id and m.id < h.end_id
);

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
    select session_id, agent_id, count(*) as messages, count(distinct turn) as turns
    from messages
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
    case when json_type(first_state, '$.grants') = 'OBJECT' then first_state->'$.grants' end as grants
from latest left join counts using (session_id, agent_id);

-- The id of a call is unique within its message only, so a result or an event belongs to the last call before it.
create view tool_calls as
with parts as (
    select session_id, session_name, agent_id, turn, id, ts, role, unnest(json_extract(content, '$[*]')) as part
    from messages
    where role in ('assistant', 'tool_result')
),
calls as (
    select
        session_id, session_name, agent_id, turn, id as message_id, ts,
        part->>'$.id' as call_id, part->>'$.name' as name, part->'$.args' as args
    from parts
    where part->>'$.type' = 'tool_call'
),
steps as materialized (
    select s.*, c.message_id
    from (
        select session_id, session_name, agent_id, turn, id, ts, type, data->>'$.id' as call_id
        from store.visible_events
        where type in ('tool_start', 'tool_end')
    ) s
    asof left join calls c
        on c.session_id = s.session_id and c.agent_id = s.agent_id and c.call_id = s.call_id and c.message_id < s.id
),
-- What the model's server ran was shown while the reply arrived, so its events come before the reply, which has no part
-- of the type tool_call for it.
begun as materialized (
    select * exclude (message_id) from steps where type = 'tool_start' and message_id is null
),
replies as (
    select b.session_id, b.id, min(m.id) as message_id
    from begun b
    join messages m on m.session_id = b.session_id and m.agent_id = b.agent_id and m.turn = b.turn and m.id > b.id
    where m.role = 'assistant'
    group by all
),
server_calls as (
    select
        b.session_id, b.session_name, b.agent_id, b.turn, r.message_id, b.call_id, e.data->>'$.name' as name,
        e.data->'$.args' as args, ended.data->>'$.result' as result,
        try_cast(ended.data->>'$.error' as boolean) as is_error, b.ts, store.seconds(b.ts, ended.ts) as duration_s
    from begun b
    join store.visible_events e on e.session_id = b.session_id and e.id = b.id
    left join replies r on r.session_id = b.session_id and r.id = b.id
    asof left join (select * exclude (message_id) from steps where type = 'tool_end' and message_id is null) s
        on s.session_id = b.session_id and s.agent_id = b.agent_id and s.call_id = b.call_id and s.id > b.id
    left join store.visible_events ended on ended.session_id = s.session_id and ended.id = s.id
),
results as (
    select c.session_id, c.agent_id, c.message_id, c.call_id, r.result, r.is_error
    from (
        select
            session_id, agent_id, id, part->>'$.id' as call_id,
            part->>'$.text' as result, try_cast(part->>'$.is_error' as boolean) as is_error
        from parts
        where part->>'$.type' = 'tool_result'
    ) r
    asof join calls c
        on c.session_id = r.session_id and c.agent_id = r.agent_id and c.call_id = r.call_id and c.message_id < r.id
),
runs as (
    select
        session_id, agent_id, message_id, call_id,
        store.seconds(min(ts) filter (type = 'tool_start'), max(ts) filter (type = 'tool_end')) as duration_s
    from steps
    where message_id is not null
    group by all
)
select
    session_id, session_name, agent_id, turn, message_id, call_id, name, args, result, is_error, ts, duration_s,
    false as on_server
from calls
left join results using (session_id, agent_id, message_id, call_id)
left join runs using (session_id, agent_id, message_id, call_id)
union all
select
    session_id, session_name, agent_id, turn, message_id, call_id, name, args, result, is_error, ts, duration_s, true
from server_calls;

-- A decision belongs to the request just before it; a decision by a rule has no request.
create view approvals as
with steps as (
    select
        session_id, session_name, agent_id, turn, id, ts, type, data, data->>'$.id' as call_id,
        lag(type) over same_call as type_before,
        lead(type) over same_call as type_after,
        lead(ts) over same_call as ts_after,
        lead(data) over same_call as data_after
    from store.visible_events
    where type in ('approval_request', 'approval_decision')
    window same_call as (partition by session_id, agent_id, data->>'$.id' order by id)
),
paired as (
    select
        session_id, session_name, agent_id, turn, id, call_id, ts as asked, data as request,
        case when type_after = 'approval_decision' then ts_after end as decided,
        case when type_after = 'approval_decision' then data_after end as decision
    from steps
    where type = 'approval_request'
    union all
    select session_id, session_name, agent_id, turn, id, call_id, null, null, ts, data
    from steps
    where type = 'approval_decision' and type_before is distinct from 'approval_request'
)
select
    p.session_id, p.session_name, p.agent_id, p.turn, p.call_id,
    coalesce(p.request, p.decision)->>'$.name' as name,
    coalesce(p.request->'$.args', c.args) as args,
    p.request->'$.touches' as touches,
    p.asked, p.decided, store.seconds(p.asked, p.decided) as waited_s,
    try_cast(p.decision->>'$.allowed' as boolean) as allowed,
    p.decision->>'$.by' as decided_by,
    case when json_type(p.decision, '$.args') = 'OBJECT' then p.decision->'$.args' end as edited_args,
    nullif(p.decision->>'$.rule', '') as rule,
    coalesce(nullif(p.decision->>'$.reason', ''), p.request->>'$.reason') as reason
from paired p
asof left join tool_calls c
    on c.session_id = p.session_id and c.agent_id = p.agent_id and c.call_id = p.call_id and c.message_id < p.id;

-- Replies hidden by a rewind have been paid for and count here and in sessions.
create view usage as
select
    session_id, session_name, agent_id,
    case when provider = '' then model else provider || ':' || model end as model,
    count(*) as replies,
    sum(store.tokens(input_tokens))::bigint as input_tokens,
    sum(store.tokens(output_tokens))::bigint as output_tokens,
    sum(store.tokens(cache_read_tokens))::bigint as cache_read_tokens,
    sum(store.tokens(cache_write_tokens))::bigint as cache_write_tokens,
    sum(store.tokens(thinking_tokens))::bigint as thinking_tokens,
    sum(store.dollars(cost_usd)) as cost_usd,
    bool_or(store.estimated(stop_reason, data)) as estimated
from store.all_messages join store.sessions using (session_id, session_name)
where role = 'assistant' and id > copied
group by all;

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
replies as (
    select
        session_id, agent_id as to_agent_id, turn as to_turn,
        sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens, sum(cost_usd) as cost_usd
    from messages
    where role = 'assistant'
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
left join replies using (session_id, to_agent_id, to_turn)
left join names using (session_id, from_agent_id);

create view sessions as
with totals as (
    select
        session_id,
        sum(store.tokens(input_tokens))::bigint as input_tokens, sum(store.tokens(output_tokens))::bigint as output_tokens, sum(store.dollars(cost_usd)) as cost_usd
    from store.all_messages join store.sessions using (session_id)
    where id > copied
    group by all
),
counts as (
    select session_id, count(distinct agent_id) as agents, count(*) as messages, max(ts) as last
    from messages
    group by all
)
select
    session_id, session_name, created,
    coalesce(agents, 0) as agents, coalesce(messages, 0) as messages, input_tokens, output_tokens, cost_usd, last,
    parent
from store.sessions left join counts using (session_id) left join totals using (session_id);

create view turns as
with bounds as (
    select
        session_id, session_name, agent_id, turn,
        arg_max(ts, id) filter (type = 'turn_start') as started,
        arg_max(ts, id) filter (type <> 'turn_start') as ended,
        arg_max(type, id) filter (type <> 'turn_start') as outcome
    from store.visible_events e
    where type in ('turn_start', 'turn_end', 'aborted', 'error')
        -- A rewind to a turn's prompt does not hide the start of the turn, which is written before it.
        and not exists (
            select 1 from store.visible_events r
            where r.type = 'rewound' and r.session_id = e.session_id and r.agent_id = e.agent_id
                and r.id > e.id and r.turn < e.turn
        )
    group by all
),
said as (
    select
        session_id, session_name, agent_id, turn,
        arg_min(text, id) filter (role = 'user') as prompt,
        count(*) filter (role = 'assistant') as replies,
        sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens, sum(cost_usd) as cost_usd
    from messages
    group by all
),
calls as (
    select session_id, agent_id, turn, count(*) as tool_calls from tool_calls group by all
)
select
    session_id, session_name, agent_id, turn, prompt, started, ended, store.seconds(started, ended) as duration_s, outcome,
    coalesce(replies, 0) as replies,
    coalesce(tool_calls, 0) as tool_calls,
    input_tokens, output_tokens, cost_usd
from said
full join bounds using (session_id, session_name, agent_id, turn)
left join calls using (session_id, agent_id, turn);

create view chapters as
with numbered as (
    select *, count(*) filter (role = 'summary') over (partition by session_id, agent_id order by id) as chapter
    from messages
)
select
    session_id, session_name, agent_id, chapter,
    max(id) filter (role = 'summary') as checkpoint_id,
    min(id) as first_id, max(id) as last_id, count(*) as messages, min(ts) as started, max(ts) as last,
    max(text) filter (role = 'summary') as summary
from numbered
group by all;

create view branches as
with own as (
    select r.session_id, r.id as branch_id, m.id, m.text
    from store.rewinds r
    join store.all_messages m on m.session_id = r.session_id and m.id >= r.before_id and m.id < r.id
)
select
    o.session_id, r.session_name, o.branch_id, r.before_id, r.ts as left_at,
    count(*) as messages, arg_max(o.text, o.id) as last_text
from own o join store.rewinds r on r.session_id = o.session_id and r.id = o.branch_id
where not exists (
    select 1 from store.hidden_in_branch h
    where h.session_id = o.session_id and h.branch_id = o.branch_id and o.id >= h.first_id and o.id < h.end_id
)
group by all;
