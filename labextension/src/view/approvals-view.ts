/** The calls that wait for approval, as blocks outside everything that scrolls. */

import { effectSentences, intention, languageOf, parseValue, rememberLabel, ruleScopes, visible } from '../model/approval-text.ts';
import type { ArgumentKind, EffectKind } from '../model/approval-text.ts';
import type { Decision } from '../model/connection.ts';
import { h, setText, withCode } from './dom.ts';
import type { ApprovalDisplay } from '../model/events.generated.ts';
import { elapsed } from '../model/format.ts';
import { highlighted } from '../text/highlight.ts';
import { icon } from './icons.ts';
import { keyName, onKeys } from './keys.ts';
import type { PendingApproval, Role, RuleScope } from '../model/agent-state.ts';
import { diffBox, watchOverflow } from './text-boxes.ts';

type Decide = (decision: Decision) => void;

/** The number of requests that are shown in full. */
const SHOWN = 2;

/** Buttons that have just appeared or moved ignore clicks for this long: they were meant for what was there before. */
const PAUSE_MS = 400;

export class ApprovalsView {
  readonly element = h('div', { class: 'pk-asks', hidden: '' });
  private readonly views = new Map<string, ApprovalView>();
  private readonly rest = h('p', { class: 'pk-facts' });
  private readonly decide: Decide;
  private known = new Set<string>();

  constructor(decide: Decide) {
    this.decide = decide;
  }

  /**
   * Show these requests, with the names of their agents if there are several, and the tasks on which the agents work,
   * by the ids of the agents. Returns the requests that are new.
   */
  update(
    approvals: readonly PendingApproval[],
    names: ReadonlyMap<string, string>,
    tasks: ReadonlyMap<string, string> = new Map(),
  ): readonly PendingApproval[] {
    const shown = approvals.slice(0, SHOWN);
    const shownKeys = new Set(shown.map(keyOf));
    const fresh = approvals.filter((approval) => !this.known.has(keyOf(approval)));
    const removed = [...this.views.keys()].filter((key) => !shownKeys.has(key));
    const added = shown.filter((approval) => !this.views.has(keyOf(approval)));
    this.known = new Set(approvals.map(keyOf));
    for (const key of removed) {
      this.views.get(key)?.element.remove();
      this.views.delete(key);
    }
    for (const approval of added) {
      const view = new ApprovalView(approval, this.decide);
      this.views.set(keyOf(approval), view);
      this.element.append(view.element);
    }
    for (const approval of shown) {
      const { agent } = approval;
      this.views.get(keyOf(approval))?.nameAgent(names.get(agent) ?? '', tasks.get(agent) ?? '');
    }
    if (removed.length > 0 || added.length > 0) for (const view of this.views.values()) view.pause();
    this.element.hidden = approvals.length === 0;
    if (added.length > 0) watchOverflow(this.element);
    const waiting = approvals.length - shown.length;
    setText(this.rest, `${waiting} more ${waiting === 1 ? 'waits' : 'wait'}`);
    if (waiting === 0) this.rest.remove();
    else if (this.element.lastElementChild !== this.rest) this.element.append(this.rest);
    return fresh;
  }

  tick(now: number): void {
    for (const view of this.views.values()) view.tick(now);
  }

  /** A decision was refused: enable the buttons again. */
  release(): void {
    for (const view of this.views.values()) view.pause();
  }
}

/** Ids of calls are unique per agent only. */
function keyOf({ agent, id }: PendingApproval): string {
  return JSON.stringify([agent, id]);
}

class ApprovalView {
  readonly element: HTMLElement;
  private readonly approval: PendingApproval;
  private readonly decide: Decide;
  private readonly agent = h('span');
  /** What the agent was asked to do. */
  private readonly task = h('p', { class: 'pk-asked', hidden: '' });
  private readonly deadline = h('span', { class: 'pk-meta' });
  private readonly content = h('div', { class: 'pk-change' });
  private readonly row = h('div', { class: 'pk-row' });
  /** What a decision that is remembered would allow, or why nothing can be allowed. */
  private readonly note = h('p', { class: 'pk-always' });
  private readonly remember: RememberButton;
  private fields: Field[] | null = null;
  private paused = 0;

  constructor(approval: PendingApproval, decide: Decide) {
    this.approval = approval;
    this.decide = decide;
    this.remember = new RememberButton(approval.role, () => this.allow(this.remember.scope));
    const { name, display } = approval;
    const { verb, target } = intention(display, name);
    const what = h('span', { class: 'pk-what' }, this.agent, h('b', {}, name), ` ${verb} `);
    if (target !== '') what.append(h('code', {}, target));
    const mark = h('span', { class: 'pk-mark', 'data-state': 'ask' }, icon('diamond'));
    const effects = effectSentences(display, name).flatMap(([text, strong]) =>
      strong ? [h('b', {}, text)] : withCode(text),
    );
    const facts = h('p', { class: 'pk-facts' }, ...effects);
    const body = h('div', { class: 'pk-body' }, this.task, facts, this.content, this.row, this.note);
    this.element = h(
      'section',
      { class: 'pk-ask', role: 'group', 'aria-label': `Approval: ${name}` },
      h('div', { class: 'pk-line' }, mark, what, this.deadline),
      body,
    );
    onKeys(this.element, 'approval', { allow: () => this.allow(null), back: () => this.back() });
    this.show();
  }

  /** Show whose call it is, and what this agent was asked to do; what is empty is not shown. */
  nameAgent(name: string, task: string): void {
    setText(this.agent, name === '' ? '' : `${visible(name)}: `);
    const agent = name === '' ? '' : ` for ${name}`;
    this.element.setAttribute('aria-label', `Approval${agent}: ${this.approval.name}`);
    this.task.hidden = task === '';
    setText(this.task, visible(task));
  }

  tick(now: number): void {
    setText(this.deadline, `expires in ${elapsed(Math.ceil(this.approval.deadline - now))}`);
  }

  pause(): void {
    clearTimeout(this.paused);
    this.row.setAttribute('aria-disabled', 'true');
    this.paused = window.setTimeout(() => this.row.removeAttribute('aria-disabled'), PAUSE_MS);
  }

  /** Show the change or the arguments, and the possible decisions. */
  private show(): void {
    this.fields = null;
    const { display, name: tool } = this.approval;
    const { target } = intention(display, tool);
    const rest = display.arguments.filter(([name, text]) => !display.replaced.includes(name) && text !== target);
    const long = rest.filter(([, text, kind]) => kind === 'text' || kind === 'cut' || text.length > 40);
    const short = rest.filter((arg) => !long.includes(arg));
    const parts: HTMLElement[] = display.change === null ? [] : [diffBox({ text: '', lines: display.change })];
    for (const command of display.commands) parts.push(argument('Runs', command));
    const alone = parts.length === 0 && long.length === 1 && has(display, 'execute');
    for (const [name, text] of long) parts.push(argument(alone ? '' : name, text, languageOf(tool, name)));
    if (short.length > 0) {
      const values = short.flatMap(([name, text]) => [h('span', {}, `${name} `, h('b', {}, text))]);
      parts.push(h('p', { class: 'pk-facts pk-values' }, ...values));
    }
    this.content.replaceChildren(...parts.map(withEnd));
    this.note.classList.toggle('pk-behind', display.whole);
    if (!display.whole) {
      setText(this.note, 'It is too long to be shown as a whole, and so it cannot be allowed here.');
      this.row.replaceChildren(button('Deny', '', () => this.send(false, null, null)));
      return;
    }
    const always = display.rule === '' ? '' : `Always this session allows ${display.rule}.`;
    const prompt = display.for_prompt ? 'Allow for this prompt runs such calls without asking until it is answered.' : '';
    this.note.replaceChildren(...withCode(always || prompt));
    const edit = button('Edit arguments', 'bare', () => this.edit());
    this.row.replaceChildren(
      button('Allow once', 'main', () => this.allow(null)),
      ...(display.rule === '' ? [] : [this.remember.element]),
      ...(display.for_prompt ? [button('Allow for this prompt', '', () => this.allow('prompt'))] : []),
      button('Deny', '', () => this.send(false, null, null)),
      ...(display.arguments.some(([, , kind]) => kind !== 'cut') ? [h('span', { class: 'pk-push' }, edit)] : []),
    );
  }

  private edit(): void {
    this.fields = this.approval.display.arguments.map(([name, text, kind]) => new Field(name, text, kind));
    this.content.replaceChildren(...this.fields.map((field) => field.element));
    this.note.replaceChildren();
    this.row.replaceChildren(
      button('Allow edited once', 'main', () => this.allow(null)),
      button('Reset', '', () => this.show()),
      button('Deny', '', () => this.send(false, null, null)),
      h('span', { class: 'pk-push pk-mute pk-wide' }, `${keyName('approval', 'allow')} allows`),
    );
    this.fields.find((field) => field.input !== null)?.input?.focus();
  }

  /** Drop what was edited. Returns whether there was something. */
  private back(): boolean {
    if (this.fields === null) return false;
    this.show();
    this.row.querySelector<HTMLElement>('.pk-push button')?.focus();
    return true;
  }

  /** Allow the call, and calls like it by the agents in `scope`; null for this call only. */
  private allow(scope: RuleScope | null): void {
    if (!this.approval.display.whole) return;
    const fields = this.fields ?? [];
    const wrong = fields.find((field) => !field.check());
    if (wrong !== undefined) {
      wrong.input?.focus();
      return;
    }
    const edited = fields.filter((field) => field.edited);
    const args = Object.fromEntries(edited.map((field) => [field.name, field.value]));
    this.send(true, edited.length > 0 ? args : null, scope);
  }

  private send(allow: boolean, args: Decision['args'], scope: RuleScope | null): void {
    if (this.row.hasAttribute('aria-disabled')) return;
    // Until the decision comes back as an event, or is refused.
    this.row.setAttribute('aria-disabled', 'true');
    const { agent, id } = this.approval;
    this.decide({ agent_id: agent, id, allow, args, remember: scope !== null, scope, reason: '' });
  }
}

/** The button that remembers a decision, and beside it the choice of the agents that the decision is for. */
class RememberButton {
  readonly element: HTMLElement;
  private readonly select: HTMLSelectElement;

  constructor(role: Role, onClick: () => void) {
    const options = ruleScopes(role).map(([scope, label]) => h('option', { value: scope }, label));
    const label = 'Always allow for';
    this.select = h('select', { 'aria-label': label, title: label }, ...options);
    const remember = button(rememberLabel(this.scope, role), '', onClick);
    this.select.addEventListener('change', () => setText(remember, rememberLabel(this.scope, role)));
    this.element = h('span', { class: 'pk-split' }, remember, h('span', { class: 'pk-pick' }, icon('chevron'), this.select));
  }

  get scope(): RuleScope {
    return this.select.value as RuleScope;
  }
}

/** One argument that can be edited; a text that is too long for that is only shown. */
class Field {
  readonly element: HTMLElement;
  readonly name: string;
  readonly input: HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement | null;
  private readonly kind: ArgumentKind;
  /** As the input returns it: browsers normalise line ends. */
  private readonly text: string = '';
  private readonly note = h('span');

  constructor(name: string, text: string, kind: ArgumentKind) {
    this.name = name;
    this.kind = kind;
    this.input = fieldInput(kind, text);
    if (this.input === null) {
      this.element = argument(`${name}, too long to be edited here`, text);
      return;
    }
    this.text = this.input.value;
    const label = h('span', { class: 'pk-label' }, h('span', {}, name), this.note);
    const small = kind === 'number' || kind === 'boolean';
    this.element = h('label', { class: small ? 'pk-row' : 'pk-block' }, label, this.input);
    this.input.addEventListener('input', () => this.check());
  }

  get edited(): boolean {
    return this.input !== null && this.input.value !== this.text;
  }

  get value(): unknown {
    return parseValue(this.kind, this.input?.value ?? '');
  }

  /** Whether it contains a value of its kind; shows beside its name if not. */
  check(): boolean {
    const valid = !this.edited || this.value !== undefined;
    this.input?.setAttribute('aria-invalid', String(!valid));
    setText(this.note, valid ? (this.edited ? 'edited' : '') : this.kind === 'number' ? 'not a number' : 'not JSON');
    return valid;
  }
}

function fieldInput(kind: ArgumentKind, text: string): Field['input'] {
  const attributes = { class: 'pk-field', 'data-kind': 'code', spellcheck: 'false' };
  if (kind === 'cut') return null;
  if (kind === 'boolean') {
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

function button(label: string, kind: string, onClick: () => void): HTMLElement {
  const element = h('button', { class: 'pk-btn', type: 'button', 'data-kind': kind }, label);
  element.addEventListener('click', onClick);
  return element;
}

function argument(label: string, text: string, language = ''): HTMLElement {
  const pre = h('pre', { class: 'pk-well', 'data-kind': 'code', 'data-name': label || 'command' });
  if (label !== '') pre.append(h('span', { class: 'pk-label' }, label));
  pre.append(language === '' ? text : coloured(text, language));
  return pre;
}

/** Code in colours, or plain text if it is too long. */
function coloured(text: string, language: string): HTMLElement | string {
  const html = highlighted(text, language);
  if (html === null) return text;
  const code = h('code');
  code.innerHTML = html;
  return code;
}

/** A box, and below it a note for as long as a part of it is out of sight. */
function withEnd(box: HTMLElement): HTMLElement {
  const note = h('p', { class: 'pk-below', hidden: '' }, '↓ It goes on below: scroll to see all of it.');
  const check = (): void => {
    note.hidden = box.scrollTop + box.clientHeight >= box.scrollHeight - 4;
  };
  box.addEventListener('scroll', check);
  new ResizeObserver(check).observe(box);
  return h('div', {}, box, note);
}

function has(display: ApprovalDisplay, kind: EffectKind): boolean {
  return display.effects.some(([other]) => other === kind);
}
