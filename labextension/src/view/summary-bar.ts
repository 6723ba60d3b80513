/** The slim bar that replaces the live view of a run that is over. */

import type { Announcer } from './announcer.ts';
import { copy } from './code-tools.ts';
import { h, withCode } from './dom.ts';
import { duration } from '../model/format.ts';
import { icon } from './icons.ts';
import { menuButton } from './menu.ts';
import type { MenuItem } from './menu.ts';
import type { NotebookCell } from './notebook-cell.ts';
import type { RunRequests } from '../model/run-requests.ts';

export interface Summary {
  readonly outcome: keyof typeof OUTCOME;
  readonly seconds: number;
  readonly tokens: number;
  readonly cost: number | null;
  readonly model: string;
  readonly text: string;
  /** The environment variable of the API key, if the run has failed because of that key. */
  readonly key_variable?: string;
}

export const OUTCOME = {
  done: 'Done',
  stopped: 'Stopped',
  failed: 'Failed',
  'cut off': 'Cut off',
  refused: 'Refused',
  'no answer': 'No answer',
} as const;

/** Actions do nothing for so long, because the bar comes to where other buttons were. */
const INERT_MS = 400;

const FROM_HERE = 'Edit and re-run from here';

/** The bar, with a line below it for what its actions have to tell. */
export class SummaryBar {
  readonly element: HTMLElement;
  private readonly actions = h('span', { class: 'pk-acts' });
  private readonly note = h('div', { class: 'pk-barnote', hidden: '' });
  private readonly shown = performance.now();
  private readonly summary: Summary;
  private readonly agent: string;
  private readonly cell: NotebookCell;
  private readonly requests: RunRequests;
  private readonly announcer: Announcer;

  constructor(summary: Summary, agent: string, cell: NotebookCell, requests: RunRequests, announcer: Announcer) {
    this.summary = summary;
    this.agent = /\s/.test(agent) ? JSON.stringify(agent) : agent;
    this.cell = cell;
    this.requests = requests;
    this.announcer = announcer;
    const incomplete = { state: 'stop', shape: 'square' } as const;
    const { state, shape } = (
      {
        done: { state: 'done', shape: 'check' },
        stopped: incomplete,
        failed: { state: 'bad', shape: 'cross' },
        'cut off': incomplete,
        refused: incomplete,
        'no answer': incomplete,
      } as const
    )[summary.outcome];
    // Tokens, cost and model are in the first line of the transcript, which is right below.
    const time = h('span', { class: 'pk-sep' }, duration(summary.seconds));
    const status = h('span', { class: 'pk-sum' }, h('strong', {}, OUTCOME[summary.outcome]), time);
    const mark = h('span', { class: 'pk-mark', 'data-state': state }, icon(shape));
    const bar = h('div', { class: 'pk-bar', role: 'group', 'aria-label': 'Run' }, mark, status, this.actions);
    this.element = h('div', { class: 'pk-barbox' }, bar, this.note);
    this.addActions();
  }

  private addActions(): void {
    const { outcome, text, key_variable: variable } = this.summary;
    const failed = outcome === 'failed';
    this.add('Reply', () => this.insert(this.promptLine));
    this.add(failed ? 'Try again' : 'Re-run', () => this.tell(this.cell.run() ? '' : 'Run the cell again.'));
    if (variable) this.add('How to set the key', () => this.showKeyHelp(variable));
    if (failed) this.add('Choose model', () => this.insert('%planck models'));
    this.add(FROM_HERE, () => this.editFromHere(), 'pk-wide');
    if (text !== '') this.actions.append(copyButton(text, this.announcer));
    const items = (): MenuItem[] => [
      { label: FROM_HERE, className: 'pk-narrow', does: () => this.editFromHere() },
      { label: 'Edit the cell only', does: () => this.tell(this.cell.edit() ? '' : 'Edit the cell and run it again.') },
      { label: 'Copy all as Markdown', does: () => void this.attempt(() => this.copyMarkdown()) },
      { label: 'Show the next request', does: () => this.insert(`%planck request ${this.agent}`) },
      { label: 'Show tokens and costs', does: () => this.insert('%planck cost') },
      { label: 'Export the session', does: () => this.insert('%planck export session.html') },
      { label: 'Fork the session', does: () => this.insert('%planck fork') },
    ];
    this.actions.append(...menuButton('More', icon('more'), items));
  }

  private get promptLine(): string {
    return `%%planck ${this.agent}\n`;
  }

  private add(label: string, does: () => void, className = ''): void {
    const button = h('button', { class: `pk-btn ${className}`.trim(), type: 'button', 'data-kind': 'bare' }, label);
    button.addEventListener('click', () => {
      if (performance.now() - this.shown >= INERT_MS) does();
    });
    this.actions.append(button);
  }

  /** Show a sentence below the bar, with what belongs to it; an empty one hides the line. */
  private tell(sentence: string, ...more: (Node | string)[]): void {
    this.note.hidden = sentence === '';
    this.note.replaceChildren(...(sentence === '' ? [] : [h('p', { class: 'pk-facts' }, ...withCode(sentence)), ...more]));
    if (sentence !== '') this.announcer.announceNow(sentence.replaceAll('`', ''));
  }

  /** Write lines into a new cell, or show them where the page cannot add one. They do not run by themselves. */
  private insert(source: string): void {
    if (this.cell.insertBelow(source)) this.tell('');
    else this.tell(`Write \`${source.trim()}\` in a new cell.`, copyButton(source, this.announcer));
  }

  private async attempt(does: () => Promise<void>): Promise<void> {
    try {
      await does();
    } catch (error) {
      this.tell((error as Error).message);
    }
  }

  /** Go back to before the prompt, and let the user edit it where it is. */
  private editFromHere(): void {
    void this.attempt(async () => {
      const { prompt, in_cell: inCell, notice, undo } = await this.requests.request('rewind');
      const source = `${this.promptLine}${prompt}`;
      const editing = inCell ? this.cell.edit() : this.cell.insertBelow(source);
      const button = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'bare' }, 'Undo');
      button.addEventListener('click', () => this.undo());
      const next = inCell ? 'Edit the cell and run it again.' : 'Write the prompt in a new cell.';
      const copy = editing ? [] : [copyButton(inCell ? prompt : source, this.announcer)];
      this.tell(editing ? notice : `${notice} ${next}`, ...copy, ...(undo ? [button] : []));
    });
  }

  private undo(): void {
    void this.attempt(async () => this.tell((await this.requests.request('undo_rewind')).notice));
  }

  private async copyMarkdown(): Promise<void> {
    const { text } = await this.requests.request('markdown');
    await navigator.clipboard.writeText(text).then(
      () => this.tell('Copied.'),
      () => this.tell('The browser does not allow copying.'),
    );
  }

  private showKeyHelp(variable: string): void {
    const code = `import getpass, os\nos.environ['${variable}'] = getpass.getpass('${variable}: ')`;
    const button = h('button', { class: 'pk-btn', type: 'button' }, 'Ask for it in a new cell');
    button.addEventListener('click', () => this.insert(code));
    this.tell(
      `Set the environment variable \`${variable}\` where Jupyter starts. Or have a cell ask for the key: what you type ` +
        'there is not saved in the notebook.',
      button,
    );
  }
}

export function copyButton(text: string, announcer: Announcer): HTMLElement {
  const button = h('button', { class: 'pk-btn', type: 'button', 'data-kind': 'bare' }, 'Copy');
  button.addEventListener('click', () => copy(text, button, announcer));
  return button;
}
