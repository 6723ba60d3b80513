/** Parts of the side panel as templates. Whatever stands in braces becomes text, an attribute or a listener, never HTML. */

import { html } from 'lit-html';
import type { TemplateResult } from 'lit-html';
import { guard } from 'lit-html/directives/guard.js';

import { icon } from '../../view/icons.ts';
import type { Shape } from '../../view/icons.ts';

export function act(label: string, does: () => void, kind = ''): TemplateResult {
  return html`<button class="pk-btn" type="button" data-kind=${kind} @click=${does}>${label}</button>`;
}

export function glyph(shape: Shape): unknown {
  return guard([shape], () => icon(shape));
}

/** A sentence with code between backticks. */
export function coded(text: string): (TemplateResult | string)[] {
  return text.split(/`([^`]+)`/).map((piece, at) => (at % 2 === 1 ? html`<code>${piece}</code>` : piece));
}
