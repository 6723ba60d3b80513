/** Calls that wait for consent, as blocks outside everything that scrolls. */

import { facts, valueOf, visible, wants } from './asking.ts';
import type { Decision } from './channel.ts';
import { h, say, sentence } from './dom.ts';
import { elapsed } from './figures.ts';
import { icon } from './icons.ts';
import type { Ask, AskedKind } from './model.ts';
import { nameOverflowing } from './wells.ts';

type Decide = (decision: Decision) => void;

/** So many are shown in full. */
const SHOWN = 2;

/** Buttons that have just come, or moved, take no click for this long: it was meant for what stood there before. */
const INERT_MS = 400;

export class AsksView {
  readonly element = h('div', { class: 'pk-asks', hidden: '' });
  private readonly views = new Map<string, AskView>();
  private readonly rest = h('p', { class: 'pk-facts' });
  private readonly decide: Decide;
  private known = new Set<string>();

  constructor(decide: Decide) {
    this.decide = decide;
  }

  /** Show these; returns those that nobody has been told of. */
  update(asks: readonly Ask[]): readonly Ask[] {
    const shown = asks.slice(0, SHOWN);
    const fresh = asks.filter((ask) => !this.known.has(ask.id));
    const gone = [...this.views.keys()].filter((id) => !shown.some((ask) => ask.id === id));
    const come = shown.filter((ask) => !this.views.has(ask.id));
    this.known = new Set(asks.map((ask) => ask.id));
    for (const id of gone) {
      this.views.get(id)?.element.remove();
      this.views.delete(id);
    }
    for (const ask of come) {
      const view = new AskView(ask, this.decide);
      this.views.set(ask.id, view);
      this.element.append(view.element);
    }
    if (gone.length > 0 || come.length > 0) for (const view of this.views.values()) view.pause();
    this.element.hidden = asks.length === 0;
    if (come.length > 0) nameOverflowing(this.element);
    const waiting = asks.length - shown.length;
    say(this.rest, `${waiting} more ${waiting === 1 ? 'waits' : 'wait'}`);
    if (waiting === 0) this.rest.remove();
    else this.element.append(this.rest);
    return fresh;
  }

  tick(now: number): void {
    for (const view of this.views.values()) view.tick(now);
  }

  /** What was decided did not count: ask again. */
  release(): void {
    for (const view of this.views.values()) view.pause();
  }
}

class AskView {
  readonly element: HTMLElement;
  private readonly ask: Ask;
  private readonly decide: Decide;
  private readonly deadline = h('span', { class: 'pk-meta' });
  private readonly content = h('div', { class: 'pk-change' });
  private readonly row = h('div', { class: 'pk-row' });
  private fields: Field[] | null = null;
  private paused = 0;

  constructor(ask: Ask, decide: Decide) {
    this.ask = ask;
    this.decide = decide;
    const { verb, target } = wants(ask);
    const what = h('span', { class: 'pk-what' }, h('b', {}, ask.name), ` ${verb} `);
    if (target !== '') what.append(h('code', {}, visible(target)));
    const mark = h('span', { class: 'pk-mark', 'data-state': 'ask' }, icon('diamond'));
    const said = facts(ask).flatMap(([text, strong]) => (strong ? [h('b', {}, visible(text))] : sentence(visible(text))));
    const body = h('div', { class: 'pk-body' }, h('p', { class: 'pk-facts' }, ...said), this.content, this.row);
    this.element = h(
      'section',
      { class: 'pk-ask', role: 'group', 'aria-label': `Approval: ${ask.name}` },
      h('div', { class: 'pk-line' }, mark, what, this.deadline),
      body,
    );
    this.element.addEventListener('keydown', (event) => this.key(event));
    this.show();
  }

  tick(now: number): void {
    say(this.deadline, `denies in ${elapsed(Math.ceil(this.ask.deadline - now))}`);
  }

  pause(): void {
    clearTimeout(this.paused);
    this.row.setAttribute('aria-disabled', 'true');
    this.paused = window.setTimeout(() => this.row.removeAttribute('aria-disabled'), INERT_MS);
  }

  /** The change, or what it would be run with, and the decisions. */
  private show(): void {
    this.fields = null;
    const { ask } = this;
    const { target } = wants(ask);
    const rest = ask.args.filter(([name, text]) => !ask.replaced.includes(name) && text !== target);
    const long = rest.filter(([, text, kind]) => kind === 'text' || kind === 'cut' || text.length > 40);
    const short = rest.filter((arg) => !long.includes(arg));
    const parts: HTMLElement[] = ask.change === null ? [] : [diff(ask.change)];
    const alone = parts.length === 0 && long.length === 1 && has(ask, 'execute');
    for (const [name, text] of long) parts.push(argument(alone ? '' : name, text));
    if (short.length > 0) {
      const values = short.flatMap(([name, text]) => [h('span', {}, `${visible(name)} `, h('b', {}, visible(text)))]);
      parts.push(h('p', { class: 'pk-facts pk-values' }, ...values));
    }
    this.content.replaceChildren(...parts);
    const edit = button('Edit arguments', 'bare', () => this.edit());
    this.row.replaceChildren(
      button('Allow once', 'main', () => this.allow(false)),
      button('Always this session', '', () => this.allow(true)),
      button('Deny', '', () => this.send(false, null, false)),
      ...(ask.args.some(([, , kind]) => kind !== 'cut') ? [h('span', { class: 'pk-push' }, edit)] : []),
    );
  }

  private edit(): void {
    this.fields = this.ask.args.map(([name, text, kind]) => new Field(name, text, kind));
    this.content.replaceChildren(...this.fields.map((field) => field.element));
    this.row.replaceChildren(
      button('Allow edited once', 'main', () => this.allow(false)),
      button('Reset', '', () => this.show()),
      button('Deny', '', () => this.send(false, null, false)),
      h('span', { class: 'pk-push pk-mute pk-wide' }, 'Ctrl+Enter allows'),
    );
    this.fields.find((field) => field.input !== null)?.input?.focus();
  }

  private key(event: KeyboardEvent): void {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) this.allow(false);
    else if (event.key === 'Escape' && this.fields !== null) {
      this.show();
      this.row.querySelector<HTMLElement>('.pk-push button')?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private allow(remember: boolean): void {
    const fields = this.fields ?? [];
    const wrong = fields.find((field) => !field.check());
    if (wrong !== undefined) {
      wrong.input?.focus();
      return;
    }
    const edited = fields.filter((field) => field.edited);
    const args = Object.fromEntries(edited.map((field) => [field.name, field.value]));
    this.send(true, edited.length > 0 ? args : null, remember);
  }

  private send(allow: boolean, args: Decision['args'], remember: boolean): void {
    if (this.row.hasAttribute('aria-disabled')) return;
    // Stays so until the decision comes back, or why it does not count.
    this.row.setAttribute('aria-disabled', 'true');
    this.decide({ id: this.ask.id, allow, args, remember, reason: '' });
  }
}

/** One argument that can be edited, or that is too long for it and only shown. */
class Field {
  readonly element: HTMLElement;
  readonly name: string;
  readonly input: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement | null;
  private readonly kind: AskedKind;
  /** As the browser holds it: it changes the ends of lines. */
  private readonly text: string = '';
  private readonly note = h('span');

  constructor(name: string, text: string, kind: AskedKind) {
    this.name = name;
    this.kind = kind;
    this.input = fieldInput(kind, text);
    if (this.input === null) {
      this.element = argument(`${name}, too long to be edited here`, text);
      return;
    }
    this.text = this.input.value;
    const label = h('span', { class: 'pk-label' }, h('span', {}, visible(name)), this.note);
    const small = kind === 'number' || kind === 'choice';
    this.element = h('label', { class: small ? 'pk-row' : 'pk-block' }, label, this.input);
    this.input.addEventListener('input', () => this.check());
  }

  get edited(): boolean {
    return this.input !== null && this.input.value !== this.text;
  }

  get value(): unknown {
    return valueOf(this.kind, this.input?.value ?? '');
  }

  /** Whether it holds a value of its kind; says so beside its name. */
  check(): boolean {
    const right = !this.edited || this.value !== undefined;
    this.input?.setAttribute('aria-invalid', String(!right));
    say(this.note, right ? (this.edited ? 'edited' : '') : this.kind === 'number' ? 'not a number' : 'not JSON');
    return right;
  }
}

function fieldInput(kind: AskedKind, text: string): Field['input'] {
  const attributes = { class: 'pk-field', 'data-kind': 'code', spellcheck: 'false' };
  if (kind === 'cut') return null;
  if (kind === 'choice') {
    const select = h('select', attributes, h('option', {}, 'true'), h('option', {}, 'false'));
    select.value = text;
    return select;
  }
  if (kind === 'number') {
    const input = h('input', { ...attributes, inputmode: 'decimal' });
    input.value = text;
    return input;
  }
  const area = h('textarea', { ...attributes, rows: String(Math.min(text.split('\n').length, 12)) });
  area.value = text;
  return area;
}

function button(label: string, kind: string, act: () => void): HTMLElement {
  const element = h('button', { class: 'pk-btn', type: 'button', 'data-kind': kind }, label);
  element.addEventListener('click', act);
  return element;
}

function argument(label: string, text: string): HTMLElement {
  const pre = h('pre', { class: 'pk-well', 'data-kind': 'code', 'data-name': label || 'command' });
  if (label !== '') pre.append(h('span', { class: 'pk-label' }, visible(label)));
  pre.append(visible(text));
  return pre;
}

function diff(lines: NonNullable<Ask['change']>): HTMLElement {
  const element = h('div', { class: 'pk-diff', role: 'group', 'aria-label': 'Change', 'data-name': 'change' });
  for (const [sign, line] of lines) {
    const kind = { '+': 'pk-add', '-': 'pk-del', ' ': '' }[sign];
    element.append(h('div', { class: kind }, h('u', {}, sign === '-' ? '−' : sign), h('span', {}, visible(line))));
  }
  return element;
}

function has(ask: Ask, kind: Ask['touches'][number][0]): boolean {
  return ask.touches.some(([other]) => other === kind);
}
