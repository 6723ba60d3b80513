/** Renders the Markdown of models: no HTML, no pictures, and links to the web and to mail only. */

import MarkdownIt from 'markdown-it';
import type { Token } from 'markdown-it';

/** An open block longer than this is not rendered again until it closes: its text is only appended to. */
const RENDERED_WHILE_OPEN = 4096;

/** A longer block is never formatted: parsing it would block the page. The saved output has the same limit. */
const FORMATTED = 100_000;

/** Such a text is laid out in pieces of this length, so that the cost of appending does not grow with the text. */
const PIECE = 8192;

const markdown = new MarkdownIt('default', { html: false, linkify: false, typographer: false });
markdown.validateLink = (url) => /^(https?|mailto):/i.test(url.trim());

const { escapeHtml } = markdown.utils;
const codeBlock = (tokens: Token[], at: number): string =>
  `<pre class="pk-well" data-kind="code"><code>${escapeHtml(tokens[at]?.content.trimEnd() ?? '')}</code></pre>`;
const newTab = 'target="_blank" rel="noopener noreferrer nofollow"';
Object.assign(markdown.renderer.rules, {
  fence: codeBlock,
  code_block: codeBlock,
  table_open: () => '<div class="pk-scroll"><table class="pk-table">',
  table_close: () => '</table></div>',
  link_open: (tokens: Token[], at: number) =>
    `<a href="${escapeHtml(String(tokens[at]?.attrGet('href') ?? ''))}" ${newTab}>`,
  image: (tokens: Token[], at: number) => {
    const source = String(tokens[at]?.attrGet('src') ?? '');
    return `<a href="${escapeHtml(source)}" ${newTab}>${escapeHtml(tokens[at]?.content || source)}</a>`;
  },
});

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
  /** Link definitions, for the blocks after them. */
  private references: Record<string, unknown> = {};
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
    this.references = {};
  }

  /** Parsing costs time in proportion to the block, so it is repeated when the block has grown by a quarter. */
  private mayHaveEnded(added: string, length: number): boolean {
    return added.includes('\n') && length > this.checkedLength * 1.25;
  }

  private finish(rest: string): void {
    const nodes = this.nodes(markdown.parse(rest, this.references));
    this.replaceOpen(nodes);
    this.open = [];
    this.finished = this.text.length;
    this.caret.remove();
  }

  private render(rest: string): void {
    const tokens = markdown.parse(rest, this.references);
    const last = tokens.findLastIndex((token) => token.level === 0 && token.nesting >= 0 && token.map !== null);
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
    template.innerHTML = markdown.renderer.render(tokens, markdown.options, this.references);
    for (const block of template.content.children) (block as HTMLElement).dir = 'auto';
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
  return /^(A|BR|CODE|EM|S|STRONG|HR)$/.test(element.tagName) && element.parentElement?.tagName !== 'PRE';
}
