/**
 * Agent events as the browser receives them. Generated from `planck_nb/agent/events.py` by `python labextension/build.py`;
 * do not edit.
 *
 * Optional fields are part of the event and may be absent because a live view is not sent them.
 * `display` is added for the browser.
 */

export interface EventBase {
  readonly agent_id: string;
  readonly session_id?: string | null;
  readonly turn: number;
  readonly seq: number;
  readonly time: number;
}

export interface AgentStarted extends EventBase {
  readonly name: string;
  readonly agent_type: string;
  readonly model: string;
  readonly system_prompt?: string;
  readonly tools?: readonly string[];
  readonly options?: Readonly<Record<string, unknown>>;
  readonly role: '' | 'orchestrator' | 'worker';
  readonly team_id: string | null;
  readonly parent_id: string | null;
  readonly description: string;
  readonly grants?: Grants;
  readonly model_source?: Readonly<Record<string, unknown>>;
  readonly grant_sources?: readonly (Readonly<Record<string, unknown>>)[];
  readonly compactor?: Readonly<Record<string, unknown>>;
  readonly skills?: readonly string[] | null;
  readonly limits?: Readonly<Record<string, unknown>>;
  readonly usage?: Usage;
  readonly cost?: number | null;
  readonly type: 'agent_started';
}

export interface AgentChanged extends EventBase {
  readonly model: string;
  readonly system_prompt?: string;
  readonly tools?: readonly string[];
  readonly options?: Readonly<Record<string, unknown>>;
  readonly model_source?: Readonly<Record<string, unknown>>;
  readonly limits?: Readonly<Record<string, unknown>>;
  readonly type: 'agent_changed';
}

export interface AgentStopped extends EventBase {
  readonly removed: boolean;
  readonly type: 'agent_stopped';
}

export interface Queued extends EventBase {
  readonly prompt_id: string;
  readonly text: string;
  readonly steer: boolean;
  readonly content?: readonly (TextPart | ImagePart | FilePart | VideoPart)[];
  readonly output?: Readonly<Record<string, unknown>> | null;
  readonly join: boolean;
  readonly sender_id: string | null;
  readonly sender_name: string | null;
  readonly purpose: 'question' | 'task' | 'response' | null;
  readonly type: 'queued';
  readonly display?: QueuedDisplay;
}

export interface Unqueued extends EventBase {
  readonly prompt_id: string;
  readonly removed: boolean;
  readonly returned: boolean;
  readonly type: 'unqueued';
}

export interface Steered extends EventBase {
  readonly prompt_id: string;
  readonly type: 'steered';
}

export interface TurnStart extends EventBase {
  readonly index: number;
  readonly model: string;
  readonly type: 'turn_start';
}

export interface MessageAppended extends EventBase {
  readonly id: number;
  readonly message: UserMessage | AssistantMessage | ToolResultMessage | SummaryMessage;
  readonly type: 'message';
  readonly display?: ResultsDisplay;
}

export interface TextDelta extends EventBase {
  readonly text: string;
  readonly type: 'text_delta';
}

export interface ThinkingDelta extends EventBase {
  readonly text: string;
  readonly type: 'thinking_delta';
}

export interface ToolArgsDelta extends EventBase {
  readonly id: string;
  readonly name: string;
  readonly text: string;
  readonly type: 'tool_args_delta';
  readonly display?: ArgumentsDisplay;
}

export interface UsageDelta extends EventBase {
  readonly delta: Usage;
  readonly total: Usage;
  readonly cost: number | null;
  readonly total_cost: number | null;
  readonly context_tokens: number;
  readonly type: 'usage_delta';
  readonly estimated: boolean;
  readonly purpose: 'reply' | 'summary' | 'sampling' | 'failed';
  readonly model: string;
}

export interface ToolStart extends EventBase {
  readonly id: string;
  readonly name: string;
  readonly args?: Readonly<Record<string, unknown>>;
  readonly type: 'tool_start';
  readonly display?: CallDisplay;
}

export interface ToolProgress extends EventBase {
  readonly id: string;
  readonly name: string;
  readonly text?: string;
  readonly type: 'tool_progress';
  readonly display?: OutputDisplay;
}

export interface ToolPreview extends EventBase {
  readonly id: string;
  readonly name: string;
  readonly tables?: readonly TablePreview[];
  readonly documents?: readonly HtmlPreview[];
  readonly type: 'tool_preview';
  readonly display?: PreviewDisplay;
}

export interface ToolEnd extends EventBase {
  readonly id: string;
  readonly name: string;
  readonly result: string;
  readonly error: boolean;
  readonly type: 'tool_end';
}

export interface ApprovalRequest extends EventBase {
  readonly id: string;
  readonly name: string;
  readonly args?: Readonly<Record<string, unknown>>;
  readonly touches?: readonly Effect[];
  readonly reason?: string;
  readonly deadline: number;
  readonly rule?: string;
  readonly sandboxed?: boolean | null;
  readonly for_prompt: boolean;
  readonly type: 'approval_request';
  readonly display?: ApprovalDisplay;
}

export interface ApprovalDecision extends EventBase {
  readonly id: string;
  readonly name: string;
  readonly allowed: boolean;
  readonly by: 'rule' | 'user' | 'deadline' | 'nobody' | 'stop';
  readonly args?: Readonly<Record<string, unknown>> | null;
  readonly rule: string;
  readonly reason: string;
  readonly scope: '' | 'agent' | 'role' | 'all' | 'prompt';
  readonly type: 'approval_decision';
  readonly display?: CallDisplay;
}

export interface Compacting extends EventBase {
  readonly messages: number;
  readonly tokens: number;
  readonly type: 'compacting';
}

export interface Compacted extends EventBase {
  readonly summary_id: number | null;
  readonly tokens_before: number;
  readonly tokens_after: number;
  readonly reason: string;
  readonly type: 'compacted';
}

export interface LimitReached extends EventBase {
  readonly limit: string;
  readonly reason: string;
  readonly type: 'limit_reached';
}

export interface Fallback extends EventBase {
  readonly failed: string;
  readonly model: string;
  readonly reason: string;
  readonly type: 'fallback';
}

export interface Rewound extends EventBase {
  readonly message_id: number;
  readonly usage: Usage;
  readonly cost: number | null;
  readonly type: 'rewound';
}

export interface Retry extends EventBase {
  readonly attempt: number;
  readonly delay: number;
  readonly reason: string;
  readonly type: 'retry';
}

export interface Warned extends EventBase {
  readonly text: string;
  readonly about: '' | 'cut_off' | 'refused' | 'no_answer';
  readonly type: 'warning';
}

export interface WorkerSpawned extends EventBase {
  readonly worker_id: string;
  readonly name: string;
  readonly role: '' | 'orchestrator' | 'worker';
  readonly worker_type: string;
  readonly model: string;
  readonly type: 'worker_spawned';
}

export interface WorkerExit extends EventBase {
  readonly worker_id: string;
  readonly name: string;
  readonly reason: string;
  readonly normal: boolean;
  readonly type: 'worker_exit';
}

export interface Delegated extends EventBase {
  readonly task_id: string;
  readonly kind: 'ask' | 'delegate';
  readonly target_id: string;
  readonly target_name: string;
  readonly text: string;
  readonly call_id: string;
  readonly type: 'delegated';
}

export interface Responded extends EventBase {
  readonly task_id: string;
  readonly kind: 'ask' | 'delegate';
  readonly target_id: string;
  readonly target_name: string;
  readonly text: string;
  readonly error: boolean;
  readonly automatic: boolean;
  readonly task_turn: number | null;
  readonly type: 'responded';
}

export interface EvaluationStarted extends EventBase {
  readonly name: string;
  readonly cases?: readonly (Readonly<Record<string, unknown>>)[];
  readonly repeat: number;
  readonly type: 'evaluation_started';
}

export interface Scored extends EventBase {
  readonly evaluation_id: string;
  readonly model: string;
  readonly case: string;
  readonly repetition: number;
  readonly scorer: string;
  readonly scorer_digest: string;
  readonly measure: string;
  readonly score: number | null;
  readonly passed: boolean | null;
  readonly error: string;
  readonly reason: string;
  readonly judge_id: string;
  readonly seconds: number;
  readonly type: 'scored';
}

export interface TurnEnd extends EventBase {
  readonly message?: AssistantMessage;
  readonly usage: Usage;
  readonly type: 'turn_end';
}

export interface Aborted extends EventBase {
  readonly type: 'aborted';
}

export interface Error extends EventBase {
  readonly reason: string;
  readonly kind: string;
  readonly type: 'error';
}

/** Any event of an agent. */
export type AgentEvent =
  | AgentStarted
  | AgentChanged
  | AgentStopped
  | Queued
  | Unqueued
  | Steered
  | TurnStart
  | MessageAppended
  | TextDelta
  | ThinkingDelta
  | ToolArgsDelta
  | UsageDelta
  | ToolStart
  | ToolProgress
  | ToolPreview
  | ToolEnd
  | ApprovalRequest
  | ApprovalDecision
  | Compacting
  | Compacted
  | LimitReached
  | Fallback
  | Rewound
  | Retry
  | Warned
  | WorkerSpawned
  | WorkerExit
  | Delegated
  | Responded
  | EvaluationStarted
  | Scored
  | TurnEnd
  | Aborted
  | Error;

export interface ApprovalDisplay {
  readonly key: string;
  readonly effects: readonly (readonly ['read' | 'write' | 'execute' | 'network', string])[];
  readonly folder: string;
  readonly cwd: string;
  readonly reason: string;
  readonly arguments: readonly (readonly [string, string, 'text' | 'number' | 'boolean' | 'json' | 'cut'])[];
  readonly replaced: readonly string[];
  readonly change: readonly (readonly [' ' | '-' | '+' | '@', string])[] | null;
  readonly commands: readonly string[];
  readonly rule: string;
  readonly whole: boolean;
  readonly sandboxed: boolean | null;
  readonly overwrites: boolean;
  readonly for_prompt: boolean;
}

export interface ArgumentsDisplay {
  readonly characters: number;
}

export interface AssistantMessage {
  readonly content?: readonly (TextPart | ThinkingPart | ToolCallPart)[];
  readonly stop_reason: 'stop' | 'length' | 'tool_use' | 'refusal' | 'aborted' | 'error';
  readonly usage?: Usage | null;
  readonly cost?: number | null;
  readonly provider?: string;
  readonly model?: string;
  readonly error?: string | null;
  readonly api?: string;
  readonly type: 'assistant';
  readonly estimated?: boolean | null;
  readonly set_aside?: readonly number[] | null;
  readonly ttft_s?: number | null;
  readonly latency_s?: number | null;
}

export interface CallDisplay {
  readonly key: string;
  readonly arguments: readonly (readonly [string, string])[];
}

export interface Effect {
  readonly kind: 'read' | 'write' | 'execute' | 'network';
  readonly target: string;
  readonly cwd: string;
}

export interface FilePart {
  readonly data: string | null;
  readonly mime: string;
  readonly name: string;
  readonly url: string | null;
  readonly type: 'file';
}

export interface Grants {
  readonly tools: readonly string[];
  readonly skills: readonly string[];
  readonly models: readonly string[];
}

export interface HtmlPreview {
  readonly text: string;
  readonly html: string;
}

export interface ImageDisplay {
  readonly call: string;
  readonly source: string;
  readonly notice: string;
}

export interface ImagePart {
  readonly data: string | null;
  readonly mime: string;
  readonly url: string | null;
  readonly type: 'image';
}

export interface OutputDisplay {
  readonly tail: string;
  readonly earlier_lines: number;
}

export interface PreviewDisplay {
  readonly tables: readonly TableDisplay[];
  readonly documents: readonly string[];
}

export interface QuestionDisplay {
  readonly id: string;
  readonly sidecar: string;
  readonly message: string;
  readonly url: string;
  readonly fields: readonly QuestionField[];
  readonly problem: string;
  readonly deadline: number;
  readonly images: readonly string[];
}

export interface QuestionField {
  readonly label: string;
  readonly description: string;
  readonly kind: 'text' | 'number' | 'boolean' | 'choice' | 'choices' | 'json';
  readonly default: string;
  readonly choices: readonly string[];
  readonly required: boolean;
}

export interface QueuedDisplay {
  readonly complete: boolean;
}

export interface ResultsDisplay {
  readonly images: readonly ImageDisplay[];
}

export interface SummaryMessage {
  readonly content?: readonly TextPart[];
  readonly kept?: readonly number[];
  readonly type: 'summary';
}

export interface TableDisplay {
  readonly names: readonly string[];
  readonly types: readonly string[];
  readonly numeric: readonly boolean[];
  readonly index: number;
  readonly rows: readonly (readonly string[])[];
  readonly size: string;
}

export interface TablePreview {
  readonly text: string;
  readonly names: readonly string[];
  readonly types: readonly string[];
  readonly numeric: readonly boolean[];
  readonly index: number;
  readonly rows: readonly (readonly string[])[];
  readonly row_count: number;
  readonly column_count: number;
}

export interface TextPart {
  readonly text: string;
  readonly provider_state: Readonly<Record<string, unknown>> | null;
  readonly type: 'text';
}

export interface ThinkingPart {
  readonly text: string;
  readonly provider_state: Readonly<Record<string, unknown>> | null;
  readonly type: 'thinking';
}

export interface ToolCallPart {
  readonly id: string;
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly invalid: string | null;
  readonly provider_state: Readonly<Record<string, unknown>> | null;
  readonly type: 'tool_call';
}

export interface ToolResultMessage {
  readonly content: readonly ToolResultPart[];
  readonly type: 'tool_result';
}

export interface ToolResultPart {
  readonly id: string;
  readonly name: string;
  readonly text: string;
  readonly is_error: boolean;
  readonly images?: readonly ImagePart[];
  readonly type: 'tool_result';
}

export interface Usage {
  readonly input_tokens: number;
  readonly output_tokens: number;
  readonly cache_read_tokens: number;
  readonly cache_write_tokens: number;
  readonly thinking_tokens: number;
}

export interface UserMessage {
  readonly content?: readonly (TextPart | ImagePart | FilePart | VideoPart)[];
  readonly type: 'user';
  readonly sender_id: string | null;
  readonly sender_name: string | null;
  readonly purpose: 'question' | 'task' | 'response' | null;
}

export interface VideoPart {
  readonly data: string | null;
  readonly mime: string;
  readonly url: string | null;
  readonly type: 'video';
}
