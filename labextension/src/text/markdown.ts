/** Renders the Markdown of models: no HTML, no pictures, and links to the web and to mail only. */

import MarkdownIt from 'markdown-it';
import type { Token } from 'markdown-it';

import { highlighted } from './highlight.ts';
import { isSafeTex, lineOfOpenFormula, withRules } from './markdown-rules.ts';
import type { Environment } from './markdown-rules.ts';
import { typeset } from './mathematics.ts';

/** An open block longer than this is not rendered again until it closes: its text is only appended to. */
const RENDERED_WHILE_OPEN = 4096;

/** A longer block is never formatted: parsing it would block the page. The saved output has the same limit. */
const FORMATTED = 100_000;

/** Such a text is laid out in pieces of this length, so that the cost of appending does not grow with the text. */
const PIECE = 8192;

/** The beginning of a line that does not show yet whether it continues the block before it. */
const MARKER = /^\s*(?:\d{1,9}[.)]?|[-+*>|`~$=#\\[]{0,3})\s*$/;

const markdown = withRules(new MarkdownIt('commonmark', { html: false })).enable(['table', 'strikethrough']);
markdown.validateLink = (url) => /^(https?|mailto):/i.test(url.trim());

const { escapeHtml } = markdown.utils;
const newTab = 'target="_blank" rel="noopener noreferrer nofollow"';

function fence(tokens: Token[], at: number): string {
  const token = tokens[at];
  return codeBlock(token?.content.trimEnd() ?? '', /^[\w+#.-]{1,30}/.exec(token?.info.trim() ?? '')?.[0] ?? '');
}

/** Code as HTML, with its language and its buttons. */
export function codeBlock(code: string, language: string): string {
  return (
    `<div class="pk-code"><div class="pk-tools"><span>${escapeHtml(language)}</span>` +
    '<button class="pk-btn" type="button" data-kind="bare" data-does="copy">Copy</button>' +
    '<button class="pk-btn" type="button" data-kind="bare" data-does="wrap" aria-pressed="false">Wrap</button>' +
    '<button class="pk-btn" type="button" data-kind="bare" data-does="insert">Insert as cell</button></div>' +
    `<pre class="pk-well" data-kind="code"><code>${highlighted(code, language) ?? escapeHtml(code)}</code></pre></div>`
  );
}

function formula(tokens: Token[], at: number): string {
  const { content = '', type = '', markup = '' } = tokens[at] ?? {};
  const code = `<code>${escapeHtml(content)}</code>`;
  if (!isSafeTex(content)) return type === 'math_block' ? `<p>${code}</p>` : code;
  const display = type === 'math_block' || markup === 'display' ? ' data-display="true"' : '';
  const tag = type === 'math_block' ? 'div' : 'span';
  return `<${tag} class="pk-math"${display} dir="ltr">${code}</${tag}>`;
}

Object.assign(markdown.renderer.rules, {
  fence,
  code_block: fence,
  math_block: formula,
  math_inline: formula,
  table_open: () => '<div class="pk-scroll"><table class="pk-table">',
  table_close: () => '</table></div>',
  list_item_open: (tokens: Token[], at: number) => (tokens[at]?.meta?.task === true ? '<li class="pk-task">' : '<li>'),
  task: (tokens: Token[], at: number) => {
    const done = tokens[at]?.meta?.done === true;
    return `<span class="pk-box" role="img" aria-label="${done ? 'done' : 'to do'}">${done ? '☑' : '☐'}</span> `;
  },
  footnote_mark: (tokens: Token[], at: number) => `<sup>${escapeHtml(tokens[at]?.content ?? '')}</sup>`,
  footnotes_open: () => '<section class="pk-footnotes" aria-label="Footnotes">',
  link_open: (tokens: Token[], at: number) =>
    `<a href="${escapeHtml(String(tokens[at]?.attrGet('href') ?? ''))}" ${newTab}>`,
  image: (tokens: Token[], at: number) => {
    const source = String(tokens[at]?.attrGet('src') ?? '');
    return `<a href="${escapeHtml(source)}" ${newTab}>${escapeHtml(tokens[at]?.content || source)}</a>`;
  },
});

/** Markdown as HTML, with its footnotes. */
export function toHtml(text: string): string {
  return markdown.render(text, {});
}

/** The words of a Markdown text, without its marks. */
export function toWords(text: string): string {
  const words = (tokens: readonly Token[]): string =>
    tokens
      .map(({ type, content, children }) =>
        children !== null ? words(children) : /^(?:softbreak|hardbreak|(?!(?:strong|em|s|link)_close).*_close)$/.test(type) ? ' ' : type === 'hr' ? '' : content,
      )
      .join('');
  return words(markdown.parse(text, {})).replace(/\s+/g, ' ').trim();
}

/**
 * A Markdown text that grows. A block is rendered once when the next one has begun; the last block is rendered again
 * with each piece of text as long as it is small.
 */
export class GrowingMarkdown {
  private text = '';
  /** The length of the text in finished blocks. */
  private finished = 0;
  private open: ChildNode[] = [];
  /** The text node that a long open block is appended to. */
  private plain: Text | null = null;
  private checkedLength = 0;
  /** Definitions of links and footnotes, for the blocks after them. */
  private environment: Environment = { growing: true };
  private readonly element: HTMLElement;
  private readonly caret: HTMLElement;

  constructor(element: HTMLElement) {
    this.element = element;
    this.caret = document.createElement('span');
    this.caret.className = 'pk-caret';
  }

  update(source: string, open: boolean): void {
    const text = source.includes('\r') ? source.replace(/\r\n?/g, '\n') : source;
    if (!text.startsWith(this.text)) this.reset();
    const added = text.slice(this.text.length);
    this.text = text;
    const rest = text.slice(this.finished);
    if (rest.length > FORMATTED) {
      this.appendPlain(rest, added);
      if (!open) this.caret.remove();
    } else if (!open) {
      this.finish(rest);
    } else if (this.plain !== null && !this.mayHaveEnded(added, rest.length)) {
      this.appendPlain(rest, added);
    } else {
      this.render(rest);
    }
  }

  private reset(): void {
    this.element.replaceChildren();
    this.text = '';
    this.finished = 0;
    this.open = [];
    this.plain = null;
    this.environment = { growing: true };
  }

  /** Parsing costs time in proportion to the block, so it is repeated when the block has grown by a quarter. */
  private mayHaveEnded(added: string, length: number): boolean {
    return added.includes('\n') && length > this.checkedLength * 1.25;
  }

  private finish(rest: string): void {
    const tokens = markdown.parse(rest, this.environment);
    if (this.hasDefinitions && this.text.length <= FORMATTED) {
      // A definition also applies to what is before it, and footnotes are at the end.
      this.environment = {};
      this.element.replaceChildren(...this.nodes(markdown.parse(this.text, this.environment)));
    } else {
      this.replaceOpen(this.nodes(tokens));
    }
    this.open = [];
    this.finished = this.text.length;
    this.caret.remove();
  }

  private get hasDefinitions(): boolean {
    const { references = {}, footnotes } = this.environment;
    return Object.keys(references).length > 0 || (footnotes?.texts.size ?? 0) > 0;
  }

  private render(rest: string): void {
    const tokens = markdown.parse(rest, this.environment);
    const open = lineOfOpenFormula(rest);
    const lines = rest.split('\n').length - 1;
    const end = open >= 0 ? open : MARKER.test(rest.slice(rest.lastIndexOf('\n') + 1)) ? lines - 1 : lines;
    const last = tokens.findLastIndex(
      ({ level, nesting, map }) => level === 0 && nesting >= 0 && map !== null && map[0] <= end,
    );
    const line = tokens[last]?.map?.[0] ?? 0;
    let tail = rest;
    if (last > 0 && line > 0) {
      tail = rest.slice(offsetOfLine(rest, line));
      this.replaceOpen(this.nodes(tokens.slice(0, last)));
      this.open = [];
      this.plain = null;
      this.finished = this.text.length - tail.length;
    }
    if (tail.length <= RENDERED_WHILE_OPEN) {
      const nodes = this.nodes(last < 0 ? [] : tokens.slice(last));
      this.replaceOpen(nodes);
      placeCaret(this.element, this.caret, nodes);
    } else {
      this.checkedLength = tail.length;
      this.showPlain(tail);
    }
  }

  private showPlain(text: string): void {
    const block = document.createElement('div');
    block.className = 'pk-plain';
    // Not `auto`, which would look for the first letter again with each piece of text.
    block.dir = this.open[0] instanceof HTMLElement ? getComputedStyle(this.open[0]).direction : 'ltr';
    this.plain = document.createTextNode(text);
    block.append(this.newPiece(this.plain));
    this.replaceOpen([block]);
    this.breakPlain(this.plain);
  }

  private appendPlain(rest: string, added: string): void {
    if (this.plain === null) {
      this.showPlain(rest);
    } else {
      this.plain.appendData(added);
      this.breakPlain(this.plain);
    }
  }

  private breakPlain(plain: Text): void {
    while (plain.length > PIECE) {
      const space = Math.max(plain.data.lastIndexOf(' ', PIECE), plain.data.lastIndexOf('\n', PIECE));
      const rest = plain.splitText(space < 0 ? PIECE : space + 1);
      plain.parentElement?.after(this.newPiece(rest));
      plain = rest;
    }
    this.plain = plain;
  }

  private newPiece(text: Text): HTMLElement {
    const piece = document.createElement('div');
    piece.append(text, this.caret);
    return piece;
  }

  private nodes(tokens: Token[]): ChildNode[] {
    const template = document.createElement('template');
    template.innerHTML = markdown.renderer.render(tokens, markdown.options, this.environment);
    for (const block of template.content.children) if (!block.hasAttribute('dir')) (block as HTMLElement).dir = 'auto';
    for (const element of template.content.querySelectorAll<HTMLElement>('.pk-math')) typeset(element);
    return [...template.content.childNodes];
  }

  private replaceOpen(nodes: ChildNode[]): void {
    for (const node of this.open) node.remove();
    this.caret.parentElement === this.element && this.caret.remove();
    this.element.append(...nodes);
    this.open = nodes;
  }
}

function offsetOfLine(text: string, line: number): number {
  let at = 0;
  for (let passed = 0; passed < line; passed++) at = text.indexOf('\n', at) + 1;
  return at;
}

/** Put the caret at the end of the newest text, inside the block that contains it. */
function placeCaret(element: HTMLElement, caret: HTMLElement, nodes: ChildNode[]): void {
  let place = nodes.findLast((node) => node instanceof HTMLElement) as HTMLElement | undefined;
  while (place?.lastElementChild instanceof HTMLElement && !isInline(place.lastElementChild)) {
    place = place.lastElementChild;
  }
  const target = place === undefined || place.tagName === 'HR' ? element : place;
  const end = target.lastChild;
  if (end instanceof Text) end.data = end.data.trimEnd();
  target.append(caret);
}

function isInline(element: HTMLElement): boolean {
  return /^(A|BR|CODE|EM|HR|S|SPAN|STRONG|SUP|MATH)$/i.test(element.tagName) && element.parentElement?.tagName !== 'PRE';
}
