/** The prompt box in the side panel: a prompt to an agent runs as its magic, and its answer streams below the box. */

import type { CodeCell, ICellModel } from '@jupyterlab/cells';
import { OutputArea, OutputAreaModel } from '@jupyterlab/outputarea';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { html, nothing } from 'lit-html';
import type { TemplateResult } from 'lit-html';
import { live } from 'lit-html/directives/live.js';
import { repeat } from 'lit-html/directives/repeat.js';

import { keyHandler } from '../../view/keys.ts';
import { selectionIn } from '../cells/cell-help.ts';
import type { KernelCopy } from '../kernel/kernel-copy.ts';
import type { CellChange } from '../kernel/protocol.generated.ts';
import { outputText } from '../review/notebook-review.ts';
import type { NotebookReview } from '../review/notebook-review.ts';
import { act, coded, glyph } from './panel-parts.ts';
import { fenced, promptTo } from '../cells/planck-cells.ts';
import type { Reviews } from '../review/reviews.ts';

/** What may go along with a prompt. */
const PARTS = ['cell', 'selection', 'output'] as const;
type Part = (typeof PARTS)[number];

/** What is there to go along now: the words on its button, and its text. */
interface Offer {
  readonly part: Part;
  readonly label: string;
  readonly detail: string;
  readonly text: string;
}

/** A cell as it was with a prompt. */
interface Subject {
  readonly id: string;
  readonly type: CellChange['cell_type'];
  readonly source: string;
}

/** A prompt, from the moment in which it was sent until its answer is put away. */
interface Prompt {
  readonly review: NotebookReview;
  readonly agent: string;
  readonly text: string;
  /** The cell with the same effect. */
  readonly source: string;
  /** The cell that went along; null without one. */
  readonly cell: Subject | null;
  readonly host: HTMLElement;
  state: 'waiting' | 'running' | 'done';
  area: OutputArea | null;
  isProposed: boolean;
}

export class AskBox {
  private readonly reviews: Reviews;
  private readonly copyOf: (review: NotebookReview) => KernelCopy | undefined;
  private readonly redraw: () => void;
  private readonly prompts: Prompt[] = [];
  private readonly along = new Set<Part>();
  private text = '';
  private agent = '';

  constructor(reviews: Reviews, copyOf: (review: NotebookReview) => KernelCopy | undefined, redraw: () => void) {
    this.reviews = reviews;
    this.copyOf = copyOf;
    this.redraw = redraw;
  }

  /** The notebooks whose prompts wait for their kernels. */
  get awaited(): ReadonlySet<NotebookReview> {
    return new Set(this.prompts.filter(({ state }) => state === 'waiting').map(({ review }) => review));
  }

  /** Let the active cell go along. */
  addCell(): void {
    this.along.add('cell');
  }

  /** Send what waits for a free kernel, and forget closed notebooks. */
  next(): void {
    for (const prompt of [...this.prompts]) {
      if (!this.reviews.all.has(prompt.review)) this.remove(prompt);
      else if (prompt.state === 'waiting' && this.isFree(prompt.review)) this.run(prompt);
    }
  }

  content(current: NotebookReview, copy: KernelCopy): TemplateResult {
    const offers = offersOf(current);
    const { agents = [], teams = [], default: usual = 'planck' } = copy.overview ?? {};
    const names = [...new Set([usual, ...teams, ...agents.map(({ name }) => name)])];
    const agent = names.includes(this.agent) ? this.agent : usual;
    const send = (): void => this.send(current, agent, agent === usual ? '' : agent, offers);
    const key = keyHandler('ask', { send });
    const type = (event: Event): void => {
      this.text = (event.target as HTMLTextAreaElement).value;
      this.redraw();
    };
    const choose = (event: Event): void => {
      this.agent = (event.target as HTMLSelectElement).value;
      this.redraw();
    };
    const isFree = this.isFree(current);
    const magic = agent === usual ? '%%planck' : `%%planck ${agent}`;
    return html`<h2>Ask</h2><div class="planck-box">
        ${offers.length === 0 ? nothing : html`<div class="pk-chips" role="group" aria-label="Goes along">${offers.map((offer) => this.chip(offer))}</div>`}
        <textarea aria-label="Prompt" rows="3" placeholder=${`Ask ${agent}, or type @ and the name of your data`} .value=${live(this.text)} @input=${type} @keydown=${key}></textarea>
        <div class="planck-boxfoot">
          <select class="pk-field" aria-label="Agent" .value=${live(agent)} @change=${choose}>${names.map((name) => html`<option value=${name} ?selected=${name === agent}>${name}</option>`)}</select>
          ${act(isFree ? 'Send' : 'Queue', send)}
        </div>
      </div>
      <p class="pk-hint">${coded(`As a cell that begins with \`${magic}\`. Enter sends.`)}</p>
      ${repeat(this.prompts.filter(({ review }) => review === current), (prompt) => prompt, (prompt) => this.prompt(prompt))}`;
  }

  /** Attach the answers in the document. */
  attach(): void {
    for (const { area, host } of this.prompts) {
      if (area === null || area.isDisposed || area.isAttached || !host.isConnected) continue;
      Widget.attach(area, host);
      MessageLoop.sendMessage(area, Widget.Msg.AfterShow);
    }
  }

  private chip({ part, label, detail }: Offer): TemplateResult {
    const isOn = this.along.has(part);
    const toggle = (): void => {
      if (!this.along.delete(part)) this.along.add(part);
      this.redraw();
    };
    return html`<button class="pk-btn pk-chip" type="button" aria-pressed=${isOn} title=${isOn ? 'Goes along with the prompt' : 'Let it go along'} @click=${toggle}>${isOn ? '' : '+ '}${label}<small>${detail}</small></button>`;
  }

  private prompt(prompt: Prompt): TemplateResult {
    const { state, agent, text, host } = prompt;
    const says = state === 'waiting' ? html`<p class="pk-hint" role="status">Waits until the kernel is free.</p>` : nothing;
    const actions = {
      waiting: () => act('Withdraw', () => this.remove(prompt), 'bare'),
      running: () => nothing,
      done: () => html`${act('Keep in the notebook', () => this.insert(prompt))}${this.proposing(prompt)}${act('Close', () => this.remove(prompt), 'bare')}`,
    }[state]();
    return html`<section class="planck-run" role="group" aria-label=${`Prompt to ${agent}`}>
      <div class="planck-asked"><span class="pk-mark">${state === 'waiting' ? glyph('clock') : nothing}</span><span><b>${agent}</b> ${text}</span></div>
      ${says}${host}
      <div class="pk-row">${actions}</div>
    </section>`;
  }

  /** The button for the answer's last code as a change to the cell that went along. */
  private proposing(prompt: Prompt): TemplateResult | typeof nothing {
    const { review, cell, agent, isProposed } = prompt;
    const at = review.panel.content.widgets.findIndex(({ model }) => model.id === cell?.id);
    const source = codeIn(prompt.host);
    if (cell === null || at < 0 || source === '') return nothing;
    if (isProposed) return html`<span class="pk-mute" role="status">Proposed for cell ${at + 1}.</span>`;
    if (!review.link.isConnected) return nothing;
    const propose = (): void => {
      prompt.isProposed = true;
      review.link.send({ type: 'answer proposed', agent, cell: cell.id, cell_type: cell.type, before: cell.source, source });
      this.redraw();
    };
    return act(`Propose for cell ${at + 1}`, propose);
  }

  private send(review: NotebookReview, agent: string, name: string, offers: readonly Offer[]): void {
    const text = this.text.trim();
    if (text === '') return;
    const parts = offers.filter(({ part }) => this.along.has(part)).map((offer) => offer.text);
    const { activeCell } = review.panel.content;
    const cell = parts.length === 0 || activeCell === null ? null : subjectOf(activeCell.model);
    const host = document.createElement('div');
    host.className = 'planck-answer';
    this.prompts.push({ review, agent, text, source: promptTo(name, parts, text), cell, host, state: 'waiting', area: null, isProposed: false });
    this.reviews.answers.set(host, review);
    this.text = '';
    this.along.clear();
    this.next();
    this.redraw();
  }

  /** Whether a prompt would be answered at once, as far as kernel and page know. */
  private isFree(review: NotebookReview): boolean {
    if (!review.link.isConnected || (this.copyOf(review)?.isBusy(performance.now()) ?? true)) return false;
    if (this.prompts.some((other) => other.review === review && other.state === 'running')) return false;
    return !review.runsCell;
  }

  private run(prompt: Prompt): void {
    const { review, host, source: code } = prompt;
    const kernel = review.panel.context.sessionContext.session?.kernel;
    if (!kernel) return;
    prompt.state = 'running';
    const model = new OutputAreaModel({ trusted: true });
    const area = new OutputArea({ model, rendermime: review.panel.content.rendermime });
    prompt.area = area;
    area.future = kernel.requestExecute({ code, store_history: false, stop_on_error: false });
    const end = (): void => {
      prompt.state = 'done';
      this.copyOf(review)?.expire();
      this.redraw();
    };
    void area.future.done.then(end, end); // an ended kernel is shown in the notebook
    host.replaceChildren();
    this.redraw();
  }

  /** Put prompt and answer into the notebook, below the active cell. */
  private insert(prompt: Prompt): void {
    const { review, source, area } = prompt;
    const below = review.panel.content.activeCell?.model.id;
    if (below !== undefined && review.insertBelow(below, source, false, area?.model.toJSON() ?? [])) this.remove(prompt);
  }

  private remove(prompt: Prompt): void {
    const at = this.prompts.indexOf(prompt);
    if (at >= 0) this.prompts.splice(at, 1);
    this.reviews.answers.delete(prompt.host);
    if (prompt.state === 'waiting' && this.text === '') this.text = prompt.text; // it can be sent again
    prompt.area?.dispose();
    this.redraw();
  }
}

function subjectOf({ id, type, sharedModel }: ICellModel): Subject {
  return { id, type: type as Subject['type'], source: sharedModel.getSource() };
}

/** The last code in an answer, as its button inserts it. */
function codeIn(answer: HTMLElement): string {
  const insert = [...answer.querySelectorAll('.pk-code [data-does="insert"]')].at(-1);
  return insert?.closest('.pk-code')?.querySelector('pre')?.textContent?.replace(/\n$/, '') ?? '';
}

/** What of the active cell may go along. */
function offersOf({ panel }: NotebookReview): readonly Offer[] {
  const { activeCell: cell, activeCellIndex: at, model, codeMimetype } = panel.content;
  if (cell === null || cell.isDisposed) return [];
  const source = cell.model.sharedModel.getSource();
  const isCode = cell.model.type === 'code';
  const language = cell.model.mimeType === codeMimetype ? (model?.defaultKernelLanguage ?? '') : 'markdown';
  const number = `cell ${at + 1}`;
  const offers: Offer[] = [];
  if (source.trim() !== '') offers.push({ part: 'cell', label: number, detail: '', text: `The notebook's ${number}:\n\n${fenced(source, language)}` });
  const selection = selectionIn(cell);
  if (selection.trim() !== '') {
    const lines = selection.trimEnd().split('\n').length;
    offers.push({ part: 'selection', label: 'selection', detail: lines === 1 ? '1 line' : `${lines} lines`, text: `Selected in ${number}:\n\n${fenced(selection, language)}` });
  }
  const output = isCode ? outputText((cell as CodeCell).model) : '';
  if (output.trim() !== '') {
    const { outputs } = (cell as CodeCell).model;
    const hasError = Array.from({ length: outputs.length }, (_, each) => outputs.get(each).type).includes('error');
    offers.push({ part: 'output', label: 'output', detail: hasError ? 'error' : '', text: `The output of ${number}:\n\n${fenced(output, '')}` });
  }
  return offers;
}
