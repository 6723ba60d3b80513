/**
 * The messages between a kernel and a page. Generated from `planck_nb/jupyter/lab/protocol.py` by `python labextension/build.py`;
 * do not edit.
 */

export const PROTOCOL = 1;

export const TALK = 'planck.lab';
export const ASK = 'planck.ask';
export const HELLO = 'planck.hello';

export interface CellChange {
  readonly id: string;
  readonly kind: 'insert' | 'change' | 'move' | 'delete';
  readonly cell: string;
  readonly cell_type: 'code' | 'markdown' | 'raw';
  readonly before: string | null;
  readonly source: string | null;
  readonly after: string | null;
  readonly why: string;
  readonly state: 'open' | 'accepted' | 'edited' | 'refused' | 'outdated' | 'taken back';
  readonly reason: string;
}

export interface ChangeSet {
  readonly id: string;
  readonly agent: string;
  readonly agent_id: string;
  readonly path: string;
  readonly created: number;
  readonly changes: readonly CellChange[];
  readonly run: boolean;
  readonly title: string;
  readonly decided: number | null;
  readonly decided_by: string;
  readonly format: number;
}

export interface Hello {
  readonly client: string;
  readonly path: string;
  readonly version: string;
  readonly protocol: number;
  readonly scripts: string;
}

export interface Welcome {
  readonly version: string;
  readonly model: string;
  readonly protocol: number;
  readonly problem: string;
  readonly concurrent: boolean;
  readonly type: 'welcome';
}

export interface VerbWords {
  readonly about: string;
  readonly is_cell: boolean;
  readonly takes_agent: boolean;
  readonly options: Readonly<Record<string, string>>;
}

export interface Verbs {
  readonly verbs: Readonly<Record<string, VerbWords>>;
  readonly options: Readonly<Record<string, string>>;
  readonly type: 'verbs';
}

export interface Names {
  readonly agents: Readonly<Record<string, string>>;
  readonly variables: Readonly<Record<string, string>>;
  readonly type: 'names';
}

export interface Sets {
  readonly sets: readonly ChangeSet[];
  readonly type: 'sets';
}

export interface CellsWanted {
  readonly request: string;
  readonly outputs_of: string;
  readonly type: 'cells wanted';
}

export interface RunWanted {
  readonly request: string;
  readonly cell: string;
  readonly source: string;
  readonly type: 'run wanted';
}

export interface PageCell {
  readonly id: string;
  readonly cell_type: 'code' | 'markdown' | 'raw';
  readonly source: string;
  readonly count: number | null;
  readonly output: string;
  readonly is_stale: boolean;
  readonly editable: boolean;
  readonly deletable: boolean;
}

export interface Cells {
  readonly request: string;
  readonly cells: readonly PageCell[];
  readonly writable: boolean;
  readonly type: 'cells';
}

export interface Started {
  readonly request: string;
  readonly problem: string;
  readonly type: 'started';
}

export interface Decision {
  readonly change: string;
  readonly state: 'open' | 'accepted' | 'edited' | 'refused' | 'outdated' | 'taken back';
  readonly reason: string;
  readonly source: string | null;
}

export interface Decided {
  readonly request: string;
  readonly set: string;
  readonly decisions: readonly Decision[];
  readonly inverse: readonly (Readonly<Record<string, unknown>>)[];
  readonly type: 'decided';
}

export interface TakenBack {
  readonly request: string;
  readonly set: string;
  readonly type: 'taken back';
}

export interface Focused {
  readonly path: string;
  readonly type: 'focused';
}

export interface HelpWanted {
  readonly action: 'fix' | 'improve' | 'document' | 'test';
  readonly cell: string;
  readonly words: string;
  readonly type: 'help wanted';
}

export interface HelpStopped {
  readonly cell: string;
  readonly type: 'help stopped';
}

export interface NotRun {
  readonly cell: string;
  readonly type: 'not run';
}

export interface HelpStatus {
  readonly cell: string;
  readonly text: string;
  readonly state: 'working' | 'done' | 'failed' | '';
  readonly type: 'help status';
}

export interface Claim {
  readonly request: string;
  readonly set: string;
  readonly changes: readonly string[];
  readonly type: 'claim';
}

export interface InverseWanted {
  readonly request: string;
  readonly set: string;
  readonly type: 'inverse wanted';
}

export interface SettingEntry {
  readonly name: string;
  readonly value: string;
  readonly source: string;
  readonly about: string;
}

export interface SettingsWanted {
  readonly request: string;
  readonly type: 'settings wanted';
}

export interface SaveSettings {
  readonly request: string;
  readonly scope: 'project' | 'user';
  readonly values: Readonly<Record<string, string>>;
  readonly type: 'save settings';
}

export interface Answer {
  readonly request: string;
  readonly ok: boolean;
  readonly problem: string;
  readonly inverse: readonly (Readonly<Record<string, unknown>>)[];
  readonly settings: readonly SettingEntry[];
  readonly type: 'answer';
}

export interface OverviewWanted {
  readonly request: string;
  readonly stored: number;
  readonly type: 'overview wanted';
}

export interface AgentEntry {
  readonly name: string;
  readonly team: string;
  readonly status: 'idle' | 'streaming' | 'executing_tools';
  readonly waits_for: string;
  readonly model: string;
  readonly cost: number | null;
}

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

export interface WaitingCall {
  readonly agent: string;
  readonly agent_name: string;
  readonly role: '' | 'orchestrator' | 'worker';
  readonly id: string;
  readonly name: string;
  readonly deadline: number;
  readonly display: ApprovalDisplay;
}

export interface StoredSession {
  readonly id: string;
  readonly name: string;
  readonly messages: number;
  readonly cost: number | null;
  readonly used: number;
}

export interface TrustEntry {
  readonly key: string;
  readonly title: string;
  readonly path: string;
  readonly status: string;
  readonly lines: readonly (readonly [string, string])[];
}

export interface Stored {
  readonly sessions: readonly StoredSession[];
  readonly cost: number | null;
  readonly unpriced: boolean;
  readonly tokens: number;
  readonly problem: string;
  readonly untrusted: readonly TrustEntry[];
}

export interface Overview {
  readonly request: string;
  readonly age: number;
  readonly now: number;
  readonly running: boolean;
  readonly default: string;
  readonly session: string;
  readonly agents: readonly AgentEntry[];
  readonly teams: readonly string[];
  readonly waiting: readonly WaitingCall[];
  readonly stored: number;
  readonly history: Stored | null;
  readonly type: 'overview';
}

export interface Approve {
  readonly agent_id: string;
  readonly id: string;
  readonly allow: boolean;
  readonly args: Readonly<Record<string, unknown>> | null;
  readonly remember: boolean;
  readonly scope: 'agent' | 'role' | 'all' | 'prompt' | null;
  readonly reason: string;
  readonly type: 'approve';
}

export interface AnswerProposed {
  readonly agent: string;
  readonly cell: string;
  readonly cell_type: 'code' | 'markdown' | 'raw';
  readonly before: string;
  readonly source: string;
  readonly type: 'answer proposed';
}

export interface NotApproved {
  readonly problem: string;
  readonly type: 'not approved';
}

export interface Trust {
  readonly keys: readonly string[];
  readonly type: 'trust';
}

export interface TrustSettled {
  readonly problem: string;
  readonly type: 'trust settled';
}

export interface Activity {
  readonly working: number;
  readonly waiting: number;
  readonly cost: number | null;
  readonly type: 'activity';
}

export interface SearchWanted {
  readonly request: string;
  readonly words: string;
  readonly type: 'search wanted';
}

export interface SearchHit {
  readonly session: string;
  readonly session_name: string;
  readonly id: number;
  readonly agent: string;
  readonly role: string;
  readonly time: number;
  readonly excerpt: string;
}

export interface SearchHits {
  readonly request: string;
  readonly terms: readonly string[];
  readonly hits: readonly SearchHit[];
  readonly problem: string;
  readonly type: 'search hits';
}

export interface TranscriptWanted {
  readonly request: string;
  readonly session: string;
  readonly before: number;
  readonly after: number;
  readonly type: 'transcript wanted';
}

export interface StoredItem {
  readonly kind: 'prompt' | 'prose' | 'thinking' | 'call' | 'cut' | 'note';
  readonly message: number;
  readonly agent: string;
  readonly time: number;
  readonly text: string;
  readonly name: string;
  readonly key: string;
  readonly state: 'done' | 'bad' | 'deny' | 'stop';
  readonly arguments: readonly (readonly [string, string])[];
  readonly seconds: number;
  readonly edited: boolean;
}

export interface TranscriptPage {
  readonly request: string;
  readonly items: readonly StoredItem[];
  readonly older: number;
  readonly newer: number;
  readonly problem: string;
  readonly type: 'transcript page';
}

export interface CheckWanted {
  readonly set: string;
  readonly type: 'check wanted';
}

export interface CheckOffer {
  readonly set: string;
  readonly folder: string;
  readonly files: number;
  readonly size: number;
  readonly copied: boolean;
  readonly python: string;
  readonly problem: string;
  readonly type: 'check offer';
}

export interface CheckedCell {
  readonly id: string;
  readonly number: number;
  readonly source: string;
  readonly outputs: readonly (Readonly<Record<string, unknown>>)[] | null;
}

export interface CheckStarted {
  readonly set: string;
  readonly cells: readonly CheckedCell[];
  readonly total: number;
  readonly copied: boolean;
  readonly type: 'check started';
}

export interface CheckProgress {
  readonly set: string;
  readonly number: number;
  readonly total: number;
  readonly seconds: number;
  readonly type: 'check progress';
}

export interface CheckResult {
  readonly set: string;
  readonly state: 'same' | 'different' | 'ended';
  readonly text: string;
  readonly cell: string;
  readonly before: string;
  readonly after: string;
  readonly type: 'check result';
}

export interface CheckSeen {
  readonly request: string;
  readonly set: string;
  readonly type: 'check seen';
}

export interface CheckStopped {
  readonly request: string;
  readonly set: string;
  readonly type: 'check stopped';
}

export interface CellText {
  readonly id: string;
  readonly source: string;
}

export interface ChangedCells {
  readonly request: string;
  readonly cells: readonly CellText[];
  readonly before: readonly CellText[];
  readonly type: 'changed cells';
}

export interface StaleCells {
  readonly request: string;
  readonly cells: Readonly<Record<string, readonly string[]>>;
  readonly type: 'stale cells';
}

export type FromKernel = Welcome | Verbs | Names | Sets | CellsWanted | RunWanted | HelpStatus | NotApproved | TrustSettled | Activity | CheckOffer | CheckProgress | CheckResult | StaleCells;

export type FromPage = Cells | Started | NotRun | Focused | HelpWanted | HelpStopped | AnswerProposed | Approve | Trust | CheckWanted | CheckStarted | ChangedCells;

export type Question = Claim | Decided | InverseWanted | OverviewWanted | SaveSettings | SearchWanted | SettingsWanted | TakenBack | TranscriptWanted | CheckSeen | CheckStopped;
