/** Project settings as a form. Only Save writes, and only what a person has changed. */

import { html, nothing } from 'lit-html';
import type { TemplateResult } from 'lit-html';
import { live } from 'lit-html/directives/live.js';
import { repeat } from 'lit-html/directives/repeat.js';

import type { NotebookReview } from '../review/notebook-review.ts';
import { act, coded } from './panel-parts.ts';
import type { Answer, SettingEntry } from '../kernel/protocol.generated.ts';

/** A notebook's open form. */
interface Form {
  entries: readonly SettingEntry[];
  /** What a person has typed, by setting. */
  readonly typed: Map<string, string>;
  scope: 'project' | 'user';
  isWaiting: boolean;
  says: string;
}

export class SettingsForm {
  private readonly forms = new Map<NotebookReview, Form>();
  private readonly redraw: () => void;

  constructor(redraw: () => void) {
    this.redraw = redraw;
  }

  /** Forget a notebook that is closed, or whose kernel has ended. */
  forget(review: NotebookReview): void {
    this.forms.delete(review);
  }

  content(review: NotebookReview): TemplateResult {
    const form = this.forms.get(review);
    const toggle = (): void => {
      if (!this.forms.delete(review)) void this.open(review);
      this.redraw();
    };
    const door = html`<button class="pk-btn" type="button" data-kind="bare" aria-expanded=${form !== undefined} @click=${toggle}>${form === undefined ? 'Change' : 'Close'}</button>`;
    return html`<h2>Settings${door}</h2>${form === undefined ? nothing : this.fields(review, form)}`;
  }

  private async open(review: NotebookReview): Promise<void> {
    const form: Form = { entries: [], typed: new Map(), scope: 'project', isWaiting: true, says: '' };
    this.forms.set(review, form);
    this.take(form, await review.link.question({ type: 'settings wanted' }));
  }

  private async save(review: NotebookReview, form: Form): Promise<void> {
    form.isWaiting = true;
    form.says = '';
    this.redraw();
    const values = Object.fromEntries(form.typed);
    const answer = await review.link.question({ type: 'save settings', scope: form.scope, values });
    if (answer.ok) {
      for (const [name, text] of Object.entries(values)) if (form.typed.get(name) === text) form.typed.delete(name);
      form.says = 'Saved. New kernels use it.';
    }
    this.take(form, answer);
  }

  private take(form: Form, { problem, settings }: Answer): void {
    form.isWaiting = false;
    if (problem !== '') form.says = problem;
    if (settings.length > 0) form.entries = settings;
    this.redraw();
  }

  private fields(review: NotebookReview, form: Form): TemplateResult {
    const choose = (event: Event): void => {
      form.scope = (event.target as HTMLSelectElement).value === 'user' ? 'user' : 'project';
    };
    const discard = (): void => {
      form.typed.clear();
      form.says = '';
      this.redraw();
    };
    const says = form.says !== '' ? form.says : form.isWaiting ? review.link.delay || 'The kernel is asked.' : '';
    return html`<div class="planck-settings" role="group" aria-label="Settings">
      ${repeat(form.entries, ({ name }) => name, (entry) => this.field(form, entry))}
      <div class="planck-foot"><div class="planck-acts">
        <select class="pk-field" aria-label="Where to save" @change=${choose}>
          <option value="project">In this folder</option>
          <option value="user">For all my folders</option>
        </select>
        <button class="pk-btn" type="button" ?disabled=${form.isWaiting || form.typed.size === 0} @click=${() => void this.save(review, form)}>Save</button>
        ${form.typed.size === 0 ? nothing : act('Discard', discard, 'bare')}
      </div>
      ${says === '' ? nothing : html`<p class="pk-hint" role="status">${coded(says)}</p>`}</div>
    </div>`;
  }

  private field(form: Form, { name, value, source, about }: SettingEntry): TemplateResult {
    const type = (event: Event): void => {
      const text = (event.target as HTMLInputElement).value;
      if (text === value) form.typed.delete(name);
      else form.typed.set(name, text);
      this.redraw();
    };
    const from = source.startsWith('environment') ? `${source}, which counts before the files` : source;
    return html`<label class="planck-setting"><b>${name}</b><small>${about}</small>
      <input class="pk-field" spellcheck="false" autocomplete="off" .value=${live(form.typed.get(name) ?? value)} @input=${type}>
      <small>From ${from}</small></label>`;
  }
}
