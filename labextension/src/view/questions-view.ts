/** The questions of sidecars that wait for an answer, as blocks beside the approvals. */

import type { QuestionAnswer } from '../model/connection.ts';
import { h, setText } from './dom.ts';
import type { QuestionDisplay, QuestionField } from '../model/events.generated.ts';
import { elapsed } from '../model/format.ts';
import { icon } from './icons.ts';
import { onKeys } from './keys.ts';

type Answer = (answer: QuestionAnswer) => void;

/** The number of questions that are shown in full. */
const SHOWN = 2;

/** Buttons that have just appeared or moved ignore clicks for this long: they were meant for what was there before. */
const PAUSE_MS = 400;

export class QuestionsView {
  readonly element = h('div', { class: 'pk-asks', hidden: '' });
  private readonly views = new Map<string, QuestionView>();
  private readonly rest = h('p', { class: 'pk-facts' });
  private readonly notice = h('p', { class: 'pk-facts', role: 'status' });
  private readonly answer: Answer;
  private known = new Set<string>();

  constructor(answer: Answer) {
    this.answer = answer;
  }

  /** Show these questions, and the outcome of earlier ones. Returns the questions that are new. */
  update(questions: readonly QuestionDisplay[], notice: string): readonly QuestionDisplay[] {
    const shown = questions.slice(0, SHOWN);
    const fresh = questions.filter(({ id }) => !this.known.has(id));
    const removed = [...this.views.keys()].filter((key) => !shown.some(({ id }) => id === key));
    const added = shown.filter(({ id }) => !this.views.has(id));
    this.known = new Set(questions.map(({ id }) => id));
    for (const id of removed) {
      this.views.get(id)?.element.remove();
      this.views.delete(id);
    }
    for (const question of added) {
      const view = new QuestionView(question, this.answer);
      this.views.set(question.id, view);
      this.element.append(view.element);
    }
    if (removed.length > 0 || added.length > 0) for (const view of this.views.values()) view.pause();
    this.element.hidden = questions.length === 0 && notice === '';
    const waiting = questions.length - shown.length;
    setText(this.rest, `${waiting} more ${waiting === 1 ? 'waits' : 'wait'}`);
    if (waiting === 0) this.rest.remove();
    else this.element.append(this.rest);
    setText(this.notice, notice);
    if (notice === '') this.notice.remove();
    else this.element.append(this.notice);
    return fresh;
  }

  tick(now: number): void {
    for (const view of this.views.values()) view.tick(now);
  }

  /** An answer was refused: enable the buttons again. */
  release(): void {
    for (const view of this.views.values()) view.pause();
  }
}

class QuestionView {
  readonly element: HTMLElement;
  private readonly question: QuestionDisplay;
  private readonly answer: Answer;
  private readonly deadline = h('span', { class: 'pk-meta' });
  private readonly row = h('div', { class: 'pk-row' });
  private readonly inputs: readonly Input[];
  private paused = 0;

  constructor(question: QuestionDisplay, answer: Answer) {
    this.question = question;
    this.answer = answer;
    this.inputs = question.fields.map((field) => new Input(field));
    const mark = h('span', { class: 'pk-mark', 'data-state': 'ask' }, icon('diamond'));
    const what = h('span', { class: 'pk-what' }, 'The sidecar ', h('b', {}, question.sidecar), ' asks');
    const body = h('div', { class: 'pk-body' }, h('p', { class: 'pk-asked pk-question' }, question.message));
    question.images.forEach((source, at) => {
      body.append(h('img', { class: 'pk-image', src: source, alt: `Image ${at + 1}`, title: `Image ${at + 1}` }));
    });
    if (question.url !== '') {
      body.append(
        h('p', { class: 'pk-facts' }, 'It asks you to visit this address. Open it yourself if you trust it:'),
        h('pre', { class: 'pk-well pk-address', 'data-kind': 'code' }, question.url),
      );
    }
    body.append(...this.inputs.map((input) => input.element));
    if (question.problem !== '') body.append(h('p', { class: 'pk-always' }, question.problem));
    const accept = question.problem === '' ? [button('Accept', 'main', () => this.accept())] : [];
    this.row.append(...accept, button('Decline', '', () => this.send(null)));
    body.append(this.row);
    this.element = h(
      'section',
      { class: 'pk-ask', role: 'group', 'aria-label': `Question of ${question.sidecar}` },
      h('div', { class: 'pk-line' }, mark, what, this.deadline),
      body,
    );
    onKeys(this.element, 'question', { accept: () => this.accept() });
  }

  tick(now: number): void {
    setText(this.deadline, `declined in ${elapsed(Math.ceil(this.question.deadline - now))}`);
  }

  pause(): void {
    clearTimeout(this.paused);
    this.row.setAttribute('aria-disabled', 'true');
    this.paused = window.setTimeout(() => this.row.removeAttribute('aria-disabled'), PAUSE_MS);
  }

  private accept(): void {
    if (this.question.problem !== '') return;
    const wrong = this.inputs.filter((input) => !input.check())[0];
    if (wrong === undefined) this.send(this.inputs.map((input) => input.value ?? null));
    else wrong.focus();
  }

  private send(values: readonly unknown[] | null): void {
    if (this.row.hasAttribute('aria-disabled')) return;
    // Until the question goes, or the answer is refused.
    this.row.setAttribute('aria-disabled', 'true');
    this.answer({ id: this.question.id, values });
  }
}

/** The input of one field. */
class Input {
  readonly element: HTMLElement;
  private readonly field: QuestionField;
  private readonly control: HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;
  private readonly note = h('span');

  constructor(field: QuestionField) {
    this.field = field;
    this.control = controlOf(field);
    this.control.setAttribute('aria-label', field.label);
    if (field.required) this.control.setAttribute('aria-required', 'true');
    const label = h('span', { class: 'pk-label' }, h('span', {}, field.required ? field.label : `${field.label} (optional)`), this.note);
    const about = field.description === '' ? [] : [h('span', { class: 'pk-facts' }, field.description)];
    this.element = h('label', { class: 'pk-block' }, label, ...about, this.control);
    this.control.addEventListener('input', () => this.check());
  }

  /** The value as the kernel accepts it: null if it was left empty, undefined if it is not of its kind. */
  get value(): unknown {
    const { kind, required } = this.field;
    const text = this.control.value;
    if (this.control instanceof HTMLSelectElement && this.control.multiple) {
      return [...this.control.selectedOptions].map((option) => Number(option.value));
    }
    if (kind === 'text') return text === '' && !required && this.field.default === '' ? null : text;
    if (text.trim() === '') return null;
    if (kind === 'boolean') return text === 'true';
    if (kind === 'json') return text;
    const number = Number(text);
    return Number.isFinite(number) ? number : undefined;
  }

  /** Whether it is filled in as it must be; shows beside its name if not. */
  check(): boolean {
    const { value } = this;
    const problem = value === undefined ? 'not a number' : value === null && this.field.required ? 'required' : '';
    this.control.setAttribute('aria-invalid', String(problem !== ''));
    setText(this.note, problem);
    return problem === '';
  }

  focus(): void {
    this.control.focus();
  }
}

function controlOf(field: QuestionField): HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement {
  const attributes = { class: 'pk-field', spellcheck: 'false' };
  if (field.kind === 'choices') {
    const chosen = new Set<number>(field.default === '' ? [] : (JSON.parse(field.default) as number[]));
    const select = h('select', { ...attributes, multiple: '', size: String(Math.min(field.choices.length, 6)) });
    field.choices.forEach((choice, at) => select.append(option(String(at), choice, chosen.has(at))));
    return select;
  }
  if (field.kind === 'choice' || field.kind === 'boolean') {
    const choices = field.kind === 'choice' ? field.choices.map((choice, at) => [String(at), choice] as const) : BOOLEANS;
    const select = h('select', attributes, option('', '—', field.default === ''));
    for (const [value, label] of choices) select.append(option(value, label, value === field.default));
    return select;
  }
  if (field.kind === 'number') {
    const input = h('input', { ...attributes, inputmode: 'decimal' });
    input.value = field.default;
    return input;
  }
  const area = h('textarea', { ...attributes, rows: '1', ...(field.kind === 'json' ? { 'data-kind': 'code' } : {}) });
  area.value = field.default;
  return area;
}

const BOOLEANS = [
  ['true', 'yes'],
  ['false', 'no'],
] as const;

function option(value: string, label: string, selected: boolean): HTMLOptionElement {
  const element = h('option', { value }, label);
  element.selected = selected;
  return element;
}

function button(label: string, kind: string, onClick: () => void): HTMLElement {
  const element = h('button', { class: 'pk-btn', type: 'button', 'data-kind': kind }, label);
  element.addEventListener('click', onClick);
  return element;
}
