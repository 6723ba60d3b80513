/** What calls have returned, as people see it: tables, images, and HTML in frames that run and load nothing. */

import { h } from './dom.ts';
import type { ImageDisplay, PreviewDisplay, TableDisplay } from '../model/events.generated.ts';

/** The heights of frames, in pixels. A frame without an origin cannot tell how high its content is. */
const LOWEST = 48;
const HIGHEST = 320;
const ROW = 26;

/** Nothing is loaded, whatever the document contains. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

export function previewBoxes({ tables, documents }: PreviewDisplay, call: string): HTMLElement[] {
  return [...tables.map(tableBox), ...documents.map((document) => frameOf(document, call))];
}

/** An image of a result, or what stands in its place. Nothing is loaded: it is in its own address. */
export function imageBox({ source, notice }: ImageDisplay, call: string): HTMLElement {
  if (!source.startsWith('data:image/')) return h('p', { class: 'pk-facts' }, notice);
  return h('img', { class: 'pk-image', src: source, alt: `Image from ${call}`, decoding: 'async' });
}

function tableBox({ names, types, numeric, index, rows, size }: TableDisplay): HTMLElement {
  const side = (at: number): string => (numeric[at] === true ? 'end' : 'start');
  const heads = names.map((name, at) => {
    const attributes = { title: types[at] ?? '', 'data-side': side(at) };
    return name === '' ? h('td', attributes) : h('th', { scope: 'col', ...attributes }, name);
  });
  const lines = rows.map((cells) =>
    h(
      'tr',
      {},
      ...cells.map((cell, at) => {
        const attributes = { 'data-side': side(at) };
        return at < index ? h('th', { scope: 'row', ...attributes }, cell) : h('td', attributes, cell);
      }),
    ),
  );
  const table = h('table', { class: 'pk-frame' }, h('thead', {}, h('tr', {}, ...heads)), h('tbody', {}, ...lines));
  const scroll = h('div', { class: 'pk-scroll', 'data-name': `Table, ${size}` }, table);
  return h('div', { class: 'pk-preview' }, scroll, h('p', { class: 'pk-facts' }, size));
}

/** The frames of the page with their documents, which get the colours of the theme. */
const frames = new Map<WeakRef<HTMLIFrameElement>, string>();

/** `sandbox` without any permission: no scripts, no forms, no popups, and an origin of its own. */
function frameOf(html: string, call: string): HTMLElement {
  const rows = html.split(/<tr[\s>]|<br|<p[\s>]|<div[\s>]|<li[\s>]/i).length;
  const drawn = /<svg[\s>]|<img [^>]*src=/i.test(html);
  const frame = h('iframe', { class: 'pk-html', sandbox: '', referrerpolicy: 'no-referrer', title: `Result of ${call}` });
  frame.style.height = `${drawn ? HIGHEST : Math.min(HIGHEST, Math.max(LOWEST, rows * ROW))}px`;
  frame.srcdoc = documentOf(html);
  if (frames.size === 0) followTheme();
  frames.set(new WeakRef(frame), html);
  return frame;
}

function documentOf(html: string): string {
  const theme = getComputedStyle(document.body);
  const value = (name: string, otherwise: string): string =>
    (theme.getPropertyValue(name) || otherwise).replace(/[<>{};]/g, '');
  const font = value('--jp-content-font-family', 'system-ui, sans-serif');
  const color = value('--jp-content-font-color1', theme.color);
  const style = `:root{color-scheme:normal}body{margin:0;font:12px/20px ${font};color:${color};background:transparent}
    table{border-collapse:collapse;font:inherit;color:inherit}
    th,td{padding:2px 12px 2px 0;text-align:right;font-variant-numeric:tabular-nums}`;
  const head = `<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}"><style>${style}</style>`;
  return `<!doctype html><html><head>${head}</head><body>${html}</body></html>`;
}

function followTheme(): void {
  new MutationObserver(() => {
    // The style sheets of the theme come a moment later.
    window.setTimeout(() => {
      for (const [reference, html] of frames) {
        const frame = reference.deref();
        if (frame === undefined) frames.delete(reference);
        else if (frame.isConnected) frame.srcdoc = documentOf(html);
      }
    }, 200);
  }).observe(document.body, { attributes: true, attributeFilter: ['data-jp-theme-light', 'data-vscode-theme-kind'] });
}
