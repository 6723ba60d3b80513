/** What connects a notebook in the page with the package in its kernel, and connects it again after a restart. */

import type { DocumentRegistry } from '@jupyterlab/docregistry';
import type { INotebookModel } from '@jupyterlab/notebook';
import type { Kernel } from '@jupyterlab/services';
import { PromiseDelegate } from '@lumino/coreutils';
import { Signal } from '@lumino/signaling';

import { ASK, HELLO, PROTOCOL, TALK } from './protocol.generated.ts';
import { EXTENSION_URL, refusesScripts } from '../scripts.ts';
import type { Activity, Answer, CellChange, ChangeSet, CheckOffer, CheckProgress, CheckResult, Decision, FromKernel, FromPage, Hello, HelpStatus, Names, Overview, Question, SearchHits, StaleCells, TranscriptPage, Verbs } from './protocol.generated.ts';

/** The version of the extension, which `build.py` fills in. */
declare const VERSION: string;

export type NotebookContext = DocumentRegistry.IContext<INotebookModel>;

/** What the kernel says about verification and stale cells. */
export type CheckMessage = CheckOffer | CheckProgress | CheckResult | StaleCells;

type Asked = Question extends infer Each ? (Each extends Question ? Omit<Each, 'request'> : never) : never;
type Reply = Answer | Overview | SearchHits | TranscriptPage;

export class KernelLink {
  /** Sets to review on this page. */
  sets: readonly ChangeSet[] = [];
  /** Why the two sides do not understand one another; empty if they do. */
  problem = '';
  /** How far an agent is with a cell, by cell. */
  readonly help = new Map<string, HelpStatus>();
  /** The model for help with cells, as far as the kernel knows it. */
  model = '';
  /** What can be completed, as after the last cell. */
  verbs: Verbs | null = null;
  names: Names | null = null;
  readonly changed = new Signal<this, void>(this);
  /** The sentence for a person about an ended kernel. */
  readonly lost = new Signal<this, string>(this);
  /** The obstacle to a decision about a waiting call, or an empty text. */
  readonly approved = new Signal<this, string>(this);
  /** Emitted with news about verification and stale cells. */
  readonly checks = new Signal<this, CheckMessage>(this);
  /** Why nothing was trusted, or an empty text. */
  readonly trusted = new Signal<this, string>(this);
  /** The agents' activity, null before it is known. */
  activity: Activity | null = null;
  /** Emitted with the activity before. */
  readonly activityChanged = new Signal<this, Activity | null>(this);
  /** Whether the kernel answers questions while a cell blocks it. */
  isConcurrent = true;
  private isAbsent = false;
  private readonly context: NotebookContext;
  private readonly answers = new Map<string, (reply: Reply | null) => void>();
  private talk: Kernel.IComm | null = null;
  private ask: Kernel.IComm | null = null;
  /** Whether questions reach the kernel; resolves also when it ends. */
  private heard = new PromiseDelegate<void>();
  private kernel: Kernel.IKernelConnection | null = null;
  private isDisposed = false;
  private readonly wanted: (link: KernelLink, message: FromKernel) => void;

  /** `wanted` answers what the kernel wants of the page. */
  constructor(context: NotebookContext, wanted: (link: KernelLink, message: FromKernel) => void) {
    this.context = context;
    this.wanted = wanted;
    const session = context.sessionContext;
    session.kernelChanged.connect(() => this.follow());
    session.statusChanged.connect((_, status) => {
      if (status === 'restarting' || status === 'autorestarting' || status === 'dead') this.lose();
    });
    context.pathChanged.connect(() => this.focus());
    this.follow();
  }

  get isConnected(): boolean {
    return this.talk !== null && this.problem === '';
  }

  /** Whether a kernel is missing, silent so far, without the package, or connected. */
  get state(): 'none' | 'unknown' | 'absent' | 'connected' {
    if (this.kernel === null || this.kernel.isDisposed) return 'none';
    return this.talk !== null ? 'connected' : this.isAbsent ? 'absent' : 'unknown';
  }

  /** Why answers come late, as a sentence; empty if they come at once. */
  get delay(): string {
    return this.isConcurrent || this.kernel?.status !== 'busy' ? '' : `This waits until the cell ends. ${BETWEEN_CELLS}`;
  }

  /** Ask for what the side panel shows; `stored` is its present history. Null for an ended kernel, and for another version. */
  overview(stored: number): Promise<Overview | null> {
    return this.inquire<Overview>({ type: 'overview wanted', stored });
  }

  /** Search the texts of all sessions. Null if the kernel ends before. */
  search(words: string): Promise<SearchHits | null> {
    return this.inquire<SearchHits>({ type: 'search wanted', words });
  }

  /** Read a page of a session's transcript, the last one with two zeros. Null if the kernel ends before. */
  transcript(session: string, before: number, after: number): Promise<TranscriptPage | null> {
    return this.inquire<TranscriptPage>({ type: 'transcript wanted', session, before, after });
  }

  send(message: FromPage): void {
    if (this.talk !== null && !this.talk.isDisposed) this.talk.send(message as never);
  }

  /** Send decisions, and show them at once: a busy kernel notes them, and shows them when its cell ends. */
  decide(set: ChangeSet, decisions: readonly Decision[], inverse: readonly unknown[]): void {
    void this.question({ type: 'decided', set: set.id, decisions, inverse: inverse as never });
    const decided = (change: CellChange): CellChange => {
      const decision = decisions.find((each) => each.change === change.id);
      return decision ? { ...change, state: decision.state, source: decision.source ?? change.source } : change;
    };
    this.show(set, decided);
  }

  /** Say that a set was taken back, and show it at once. */
  takeBack(set: ChangeSet): void {
    void this.question({ type: 'taken back', set: set.id });
    this.show(set, (change) => (isApplied(change) ? { ...change, state: 'taken back' } : change));
  }

  /** Ask the kernel, which answers also while a cell runs. */
  async question(asked: Asked): Promise<Answer> {
    return (await this.inquire<Answer>(asked)) ?? refusal(this.problem);
  }

  /** Say that a person looks at this page, and where the notebook is now. */
  focus(): void {
    this.send({ type: 'focused', path: this.context.path });
  }

  /** Leave the kernel: nobody looks at the page any more. */
  dispose(): void {
    this.isDisposed = true;
    for (const comm of [this.talk, this.ask]) if (comm !== null && !comm.isDisposed) comm.close();
    this.end();
  }

  private async inquire<Wanted extends Reply>(asked: Asked): Promise<Wanted | null> {
    const request = newId();
    await this.heard.promise;
    if (this.ask === null || this.ask.isDisposed || this.problem !== '') return null;
    const reply = new Promise<Reply | null>((resolve) => this.answers.set(request, resolve));
    this.ask.send({ ...asked, request } as never);
    return reply as Promise<Wanted | null>;
  }

  private show(set: ChangeSet, now: (change: CellChange) => CellChange): void {
    this.sets = this.sets.map((each) => (each.id === set.id ? { ...each, changes: each.changes.map(now) } : each));
  }

  private follow(): void {
    if (this.isDisposed) return;
    this.lose();
    const { kernel = null } = this.context.sessionContext.session ?? {};
    this.kernel = kernel;
    if (kernel === null) return;
    kernel.registerCommTarget(HELLO, () => void this.connect(kernel));
    void kernel.requestCommInfo({ target_name: HELLO }).then(
      ({ content }) => {
        if (content.status !== 'ok' || kernel !== this.kernel) return;
        if (Object.keys(content.comms).length > 0) void this.connect(kernel);
        else if (this.talk === null) {
          this.isAbsent = true;
          this.changed.emit();
        }
      },
      () => {}, // the kernel is gone
    );
  }

  private async connect(kernel: Kernel.IKernelConnection): Promise<void> {
    const scripts = await refusesScripts ? EXTENSION_URL : '';
    if (kernel !== this.kernel || kernel.isDisposed || this.isDisposed) return;
    this.end();
    const { path } = this.context;
    const hello: Hello = { client: kernel.clientId, path, version: VERSION, protocol: PROTOCOL, scripts };
    this.talk = kernel.createComm(TALK);
    this.ask = kernel.createComm(ASK);
    this.heard = new PromiseDelegate();
    // This returns undefined: JupyterLab would handle the kernel's next message only after a returned promise.
    this.talk.onMsg = ({ content }): void => this.receive(content.data as unknown as FromKernel);
    this.talk.onClose = (): void => this.end(true);
    this.ask.onMsg = ({ content }): void => this.receiveAnswer(content.data as unknown as Reply);
    // JupyterLab opens comms on the main shell; a question on a subshell may overtake that and is lost. The kernel
    // welcomes a page once it has both. It says so by `talk`: in ipykernel 7.4, what it sends from the main shell has
    // all further messages of that comm handled there.
    this.ask.open({ client: kernel.clientId });
    this.talk.open(hello as never);
  }

  private receive(message: FromKernel): void {
    switch (message.type) {
      case 'welcome':
        this.heard.resolve(undefined);
        this.problem = message.problem;
        this.model = message.model;
        this.isConcurrent = message.concurrent;
        break;
      case 'activity':
        this.setActivity(message);
        return;
      case 'not approved':
        this.approved.emit(message.problem);
        return;
      case 'check offer':
      case 'check progress':
      case 'check result':
      case 'stale cells':
        this.checks.emit(message);
        return;
      case 'trust settled':
        this.trusted.emit(message.problem);
        return;
      case 'verbs':
        this.verbs = message;
        return;
      case 'names':
        this.names = message;
        return;
      case 'help status':
        if (message.state === '') this.help.delete(message.cell);
        else this.help.set(message.cell, message);
        break;
      case 'sets':
        this.sets = message.sets.filter(({ format }) => format === PROTOCOL);
        break;
      default:
        this.wanted(this, message);
        return;
    }
    this.changed.emit();
  }

  private setActivity(activity: Activity | null): void {
    const before = this.activity;
    this.activity = activity;
    this.activityChanged.emit(before);
  }

  private receiveAnswer(reply: Reply): void {
    this.answers.get(reply.request)?.(reply);
    this.answers.delete(reply.request);
  }

  /** Forget a kernel which has ended, and say what ended with it. */
  private lose(): void {
    const isProposed = this.sets.some(({ changes }) => changes.some(({ state }) => state === 'open'));
    const isHelped = [...this.help.values()].some(({ state }) => state === 'working');
    this.end();
    if (isProposed) this.lost.emit(PROPOSALS_ENDED);
    else if (isHelped) this.lost.emit(HELP_ENDED);
  }

  /** Forget the comms, which are gone with the kernel or its package. */
  private end(isAbsent = false): void {
    this.talk = this.ask = null;
    this.heard.resolve(undefined);
    this.isAbsent = isAbsent;
    this.setActivity(null);
    this.problem = '';
    for (const resolve of this.answers.values()) resolve(null);
    this.answers.clear();
    this.help.clear();
    this.verbs = this.names = null;
    this.sets = [];
    this.changed.emit();
  }
}

/** Whether a change is in the notebook. */
export function isApplied({ state }: CellChange): boolean {
  return state === 'accepted' || state === 'edited';
}

export const BETWEEN_CELLS = 'The kernel\'s ipykernel answers between cells only: run `%pip install -U ipykernel`, then restart it.';
const PROPOSALS_ENDED =
  'The kernel has ended: load planck_nb in the next one, and `%planck resume latest` shows the open proposals again.';
const HELP_ENDED = 'The kernel has ended, and the help with the cell too; ask for it again.';

function newId(): string {
  return crypto.randomUUID?.() ?? String(Math.random());
}

const NOT_LOADED = 'The kernel has ended or has not loaded planck_nb; run `%load_ext planck_nb`.';

function refusal(problem: string): Answer {
  return { type: 'answer', request: '', ok: false, problem: problem || NOT_LOADED, inverse: [], settings: [] };
}
