/** The slim bar that replaces the live view of a run that is over. */

import type { Announcer } from './announcer.ts';
import { copy } from './code-tools.ts';
import { h, withCode } from './dom.ts';
import { duration } from '../model/format.ts';
import { icon } from './icons.ts';
import { RunBar } from './run-bar.ts';
import { menuButton } from './menu.ts';
import type { MenuItem } from './menu.ts';
import type { NotebookCell } from './notebook-cell.ts';
import type { RunRequests } from '../model/run-requests.ts';

export interface Summary {
  readonly outcome: keyof typeof OUTCOME;
  readonly seconds: number;
  /** Tokens and cost in words; empty for unknown ones. */
  readonly spent: readonly [tokens: string, cost: string];
  readonly cost: number | null;
  readonly model: string;
  readonly text: string;
  /** Failed calls in words; empty without failures. */
  readonly trouble?: string;
  /** Title and sentence for an unusual end. */
  readonly ending?: readonly [title: string, sentence: string] | null;
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

/** The agent for prompts without a name. */
const USUAL_AGENT = 'planck';

interface Action {
  readonly label: string;
  readonly does: () => void;
}

/** The bar, with a line below it for what its actions have to tell. */
export class SummaryBar {
  readonly element: HTMLElement;
  /** The reason for an unusual end, and the next steps; null for an ordinary one. */
  readonly note: HTMLElement | null;
  private readonly actions = h('span', { class: 'pk-acts' });
  private readonly message = h('div', { class: 'pk-barnote', hidden: '' });
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
    const { outcome, seconds, spent, model, trouble = '' } = summary;
    const bar = new RunBar('pk-bar', this.actions);
    if (outcome === 'done') bar.setMark('done', 'check');
    else if (outcome === 'stopped') bar.setMark('stop', 'square');
    else bar.setMark('bad', 'cross');
    const [tokens, cost] = spent;
    bar.show({ state: OUTCOME[outcome], attention: trouble, agent, time: duration(seconds), tokens, cost, model });
    bar.element.setAttribute('role', 'group');
    bar.element.setAttribute('aria-label', 'Run');
    this.element = h('div', { class: 'pk-barbox' }, bar.element);
    this.note = this.endNote();
    (this.note ?? this.element).append(this.message);
    this.addActions();
  }

  private addActions(): void {
    const { text } = this.summary;
    const { reply, rerun } = this;
    const more: Action[] = [];
    if (this.note === null) this.actions.append(this.button(reply), this.button(rerun, 'pk-wide'));
    else more.push(reply);
    if (text !== '') this.actions.append(copyButton(text, this.announcer));
    const items = (): MenuItem[] => [
      ...(this.note === null ? [{ ...rerun, className: 'pk-narrow' }] : more),
      { label: 'Edit and re-run from here', does: () => this.editFromHere() },
      { label: 'Edit the cell only', does: () => this.tell(this.cell.edit() ? '' : 'Edit the cell and run it again.') },
      { label: 'Copy all as Markdown', does: () => void this.attempt(() => this.copyMarkdown()) },
      { label: 'Show the next request', does: () => this.insert(`%planck request ${this.agent}`) },
      { label: 'Show tokens and costs', does: () => this.insert('%planck cost') },
      { label: 'Export the session', does: () => this.insert('%planck export session.html') },
      { label: 'Fork the session', does: () => this.insert('%planck fork') },
    ];
    this.actions.append(...menuButton('More', icon('more'), items));
  }

  private endNote(): HTMLElement | null {
    const { outcome, ending } = this.summary;
    if (outcome === 'done') return null;
    const [title, sentence] = ending ?? [OUTCOME[outcome], ''];
    const doors = h('div', { class: 'pk-row' }, ...this.doors().map((door) => this.button(door, '', 'door')));
    const kind = outcome === 'failed' ? 'bad' : 'stop';
    const text = sentence === '' ? [] : [h('p', {}, ...withCode(sentence))];
    return h('section', { class: 'pk-note', 'data-kind': kind }, h('h4', {}, ...withCode(title)), ...text, doors);
  }

  /** What can be done after an unusual end. */
  private doors(): Action[] {
    const { outcome, key_variable: variable } = this.summary;
    const again = { ...this.rerun, label: 'Try again' };
    if (outcome === 'refused') return [again];
    if (outcome !== 'failed') return [{ label: 'Continue', does: () => this.continue() }, outcome === 'stopped' ? this.rerun : again];
    const key = variable ? [{ label: 'How to set the key', does: () => this.showKeyHelp(variable) }] : [];
    return [...key, { label: 'Choose model', does: () => this.insert('%planck models') }, again];
  }

  private get reply(): Action {
    return { label: 'Reply', does: () => this.insert(this.promptLine) };
  }

  private get rerun(): Action {
    return { label: 'Re-run', does: () => this.tell(this.cell.run() ? '' : 'Run the cell again.') };
  }

  private continue(): void {
    const line = `%planck continue ${this.agent}`;
    if (!this.cell.insertBelow(line, { run: true })) this.insert(line);
  }

  private get promptLine(): string {
    return this.agent === USUAL_AGENT ? '%%planck\n' : `%%planck ${this.agent}\n`;
  }

  private button({ label, does }: Action, className = '', kind = 'bare'): HTMLElement {
    const button = h('button', { class: `pk-btn ${className}`.trim(), type: 'button', 'data-kind': kind }, label);
    button.addEventListener('click', () => {
      if (performance.now() - this.shown >= INERT_MS) does();
    });
    return button;
  }

  /** Show a sentence below the bar or in the note, with what belongs to it; an empty one hides the line. */
  private tell(sentence: string, ...more: (Node | string)[]): void {
    this.message.hidden = sentence === '';
    this.message.replaceChildren(...(sentence === '' ? [] : [h('p', { class: 'pk-facts' }, ...withCode(sentence)), ...more]));
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
