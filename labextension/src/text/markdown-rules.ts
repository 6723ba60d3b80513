/**
 * What models write beyond CommonMark: web addresses, task lists, footnotes and mathematics.
 *
 * `planck_nb/base/markdown_rules.py` contains the same rules for the saved output. `tests/fixtures/markdown` holds texts
 * that both must render the same.
 */

import type { Env, MarkdownIt, StateBlock, StateCore, StateInline, Token } from 'markdown-it';

/** In a longer paragraph, emphasis, links and inline code are not recognised: parsing them is the slowest part. */
const PARAGRAPH_CHARACTERS = 10_000;

/** Longer formulas are shown as they were written. */
const FORMULA_CHARACTERS = 5_000;

/** Commands that make links, set attributes or define other commands. A formula with one is shown as it was written. */
const UNSAFE_TEX =
  /\\(?:href|url|style|class|cssId|data|html[a-z]*|require|include[a-z]*|input|csname|[egx]?def|let|futurelet|(?:re|provide)?new[a-z]*|renew[a-z]*|Declare[a-z]*|mmlToken|bbox|unicode|catcode)(?![a-z])/i;

/** Everything here is limited, so that a search takes time in proportion to the text. */
const ADDRESS =
  /(?:https?:\/\/[\w-]|www\.[\w-]{1,63}\.[\w-])[^\s<>"`\\]{0,2000}|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}/gi;
const SENTENCE_MARKS = "?!.,:;*_~'$";
const FOOTNOTE = /^\[\^([^\s\]^]{1,100})\]:[ \t]*/;
const FOOTNOTE_MARK = /\[\^([^\s\]^]{1,100})\]/y;
const TASK = /^\[([ xX])\][ \t]+/;
const BLOCK_ENDS = { $$: '$$', '\\[': '\\]' } as const;

/** Footnotes by their label in lower case: the texts, and the labels in the order in which they are first used. */
interface Footnotes {
  texts: Map<string, string>;
  used: string[];
}

export interface Environment extends Env {
  /** More text follows, so footnotes are not shown yet. */
  growing?: boolean;
  footnotes?: Footnotes;
}

export function withRules(markdown: MarkdownIt): MarkdownIt {
  markdown.core.ruler.at('inline', parseInline);
  markdown.block.ruler.before('fence', 'math_block', mathBlock, { alt: ['paragraph', 'reference', 'blockquote', 'list'] });
  markdown.block.ruler.before('reference', 'footnote', footnoteText);
  markdown.inline.ruler.before('escape', 'math', inlineMath);
  markdown.inline.ruler.before('link', 'footnote_mark', footnoteMark);
  markdown.core.ruler.push('footnotes', appendFootnotes);
  markdown.core.ruler.push('tasks', markTasks);
  markdown.core.ruler.push('addresses', linkAddresses);
  return markdown;
}

/** Whether a formula may be typeset. */
export function isSafeTex(tex: string): boolean {
  const delimiters = /\\[()[\]]/.test(tex.replaceAll('\\\\', '')); // in the saved output they would end the formula
  return tex.length <= FORMULA_CHARACTERS && !UNSAFE_TEX.test(tex) && !delimiters;
}

/** The line of the first formula that has begun and not ended, -1 for none. */
export function lineOfOpenFormula(text: string): number {
  let opened = -1;
  let closing = '';
  const lines = text.split('\n');
  lines.forEach((line, at) => {
    const row = line.trim();
    if (row === '') opened = at === lines.length - 1 ? opened : -1;
    else if (opened < 0) {
      const end = BLOCK_ENDS[row.slice(0, 2) as keyof typeof BLOCK_ENDS];
      if (end === undefined || row.includes(end, 2)) return;
      opened = at;
      closing = end;
    } else if (row.includes(closing)) opened = -1;
  });
  return opened;
}

/** Parse the text inside blocks, except in very long ones. Replaces the parser's own rule of this name. */
function parseInline(state: StateCore): void {
  for (const token of state.tokens) parseInlineToken(state, token);
}

function parseInlineToken(state: StateCore, token: Token): void {
  if (token.type !== 'inline') return;
  token.children = [];
  if (token.content.length > PARAGRAPH_CHARACTERS) {
    const text = new state.Token('text', '', 0);
    text.content = token.content;
    token.children.push(text);
  } else {
    state.md.inline.parse(token.content, state.md, state.env, token.children);
  }
}

/** The lines between which a formula was found not to end, by what would end it. */
const unclosed = new WeakMap<StateBlock, Partial<Record<string, [number, number]>>>();

/** `$$…$$` or `\[…\]` that begins and ends with a line and has no empty line. */
function mathBlock(state: StateBlock, startLine: number, endLine: number, silent: boolean): boolean {
  if ((state.sCount[startLine] ?? 0) - state.blkIndent >= 4) return false;
  const start = lineOf(state, startLine);
  const opening = start.slice(0, 2) as keyof typeof BLOCK_ENDS;
  const closing = BLOCK_ENDS[opening];
  if (closing === undefined) return false;
  const known = unclosed.get(state)?.[closing] ?? [0, 0];
  if (startLine >= known[0] && startLine < known[1]) return false; // it was searched for from an earlier line
  const lines: string[] = [];
  let line = startLine;
  for (; line < endLine; line++) {
    if (line > startLine && ((state.sCount[line] ?? 0) < state.blkIndent || state.isEmpty(line))) break;
    const text = (line === startLine ? start.slice(2) : lineOf(state, line)).trimEnd();
    const end = text.indexOf(closing);
    if (end < 0) {
      lines.push(text);
      continue;
    }
    lines.push(text.slice(0, end));
    const tex = lines.join('\n').trim();
    if (end + 2 !== text.length || tex === '') return false;
    if (silent) return true;
    const token = state.push('math_block', 'math', 0);
    token.content = tex;
    token.block = true;
    token.map = [startLine, line + 1];
    state.line = line + 1;
    return true;
  }
  unclosed.set(state, { ...unclosed.get(state), [closing]: [startLine, line] });
  return false;
}

function lineOf(state: StateBlock, line: number): string {
  return state.src.slice((state.bMarks[line] ?? 0) + (state.tShift[line] ?? 0), state.eMarks[line]);
}

/**
 * `$…$`, `$$…$$`, `\(…\)` and `\[…\]`. An amount of money is no formula: after `$` and before the next one there must be
 * no space, and no digit after that.
 */
function inlineMath(state: StateInline, silent: boolean): boolean {
  const { src, pos } = state;
  const two = src.slice(pos, pos + 2);
  const closing = two === '$$' ? '$$' : two === '\\(' ? '\\)' : two === '\\[' ? '\\]' : two[0] === '$' ? '$' : '';
  if (closing === '') return false;
  const start = pos + closing.length;
  const end = closing === '$' ? endOfMath(src, start) : src.indexOf(closing, start);
  const tex = src.slice(start, end).trim();
  if (end < 0 || tex === '' || tex.includes('`')) {
    if (closing !== '$$') return false;
    if (!silent) state.pending += closing; // neither of these begins a formula
    state.pos += 2;
    return true;
  }
  if (!silent) {
    const token = state.push('math_inline', 'math', 0);
    token.content = tex;
    token.markup = closing === '$$' || closing === '\\]' ? 'display' : '';
  }
  state.pos = end + closing.length;
  return true;
}

/** The position of the `$` that ends the formula which begins at `start`, -1 if this is no formula. */
function endOfMath(src: string, start: number): number {
  if (/\s|^$/.test(src.charAt(start))) return -1;
  let end = start;
  while (end < src.length && src[end] !== '$') end += src[end] === '\\' ? 2 : 1;
  return end < src.length && !/\s/.test(src.charAt(end - 1)) && !/\d/.test(src.charAt(end + 1)) ? end : -1;
}

/** A paragraph that begins with `[^label]:`, with the indented paragraphs after it, is set aside. */
function footnoteText(state: StateBlock, startLine: number, endLine: number, silent: boolean): boolean {
  if (state.level > 0 || (state.sCount[startLine] ?? 0) >= 4) return false;
  const first = lineOf(state, startLine);
  const found = FOOTNOTE.exec(first);
  if (found === null) return false;
  if (silent) return true;
  const lines = [first.slice(found[0].length)];
  let line = startLine + 1;
  for (; line < endLine; line++) {
    const text = lineOf(state, line);
    const indent = state.sCount[line] ?? 0;
    if (text === '') {
      if ((state.sCount[line + 1] ?? 0) < 4 || line + 1 >= endLine || state.isEmpty(line + 1)) break;
      lines.push('');
    } else if (indent < 4 && (lines.at(-1) === '' || FOOTNOTE.test(text))) break;
    else lines.push(' '.repeat(Math.max(indent - 4, 0)) + text);
  }
  const { texts } = footnotesOf(state.env as Environment);
  const label = (found[1] ?? '').toLowerCase();
  if (!texts.has(label)) texts.set(label, lines.join('\n'));
  state.line = line;
  return true;
}

function footnotesOf(env: Environment): Footnotes {
  env.footnotes ??= { texts: new Map(), used: [] };
  return env.footnotes;
}

function footnoteMark(state: StateInline, silent: boolean): boolean {
  FOOTNOTE_MARK.lastIndex = state.pos;
  const found = FOOTNOTE_MARK.exec(state.src);
  if (found === null) return false;
  const { texts, used } = footnotesOf(state.env as Environment);
  const label = (found[1] ?? '').toLowerCase();
  if (!texts.has(label)) return false;
  if (!silent) {
    if (!used.includes(label)) used.push(label);
    state.push('footnote_mark', 'sup', 0).content = String(used.indexOf(label) + 1);
  }
  state.pos += found[0].length;
  return true;
}

/** The footnotes that are used, as a list at the end. */
function appendFootnotes(state: StateCore): void {
  const { footnotes, growing } = state.env as Environment;
  if (growing === true || footnotes === undefined || footnotes.used.length === 0) return;
  state.tokens.push(new state.Token('footnotes_open', 'section', 1), new state.Token('ordered_list_open', 'ol', 1));
  for (let at = 0; at < footnotes.used.length; at++) {
    const tokens: Token[] = [];
    const text = footnotes.texts.get(footnotes.used[at] ?? '') ?? '';
    state.md.block.parse(text, state.md, state.env, tokens);
    for (const token of tokens) {
      token.map = null;
      parseInlineToken(state, token); // which may use another footnote
    }
    state.tokens.push(new state.Token('list_item_open', 'li', 1), ...tokens, new state.Token('list_item_close', 'li', -1));
  }
  state.tokens.push(new state.Token('ordered_list_close', 'ol', -1), new state.Token('footnotes_close', 'section', -1));
}

/** `[ ]` and `[x]` at the beginning of an item of a list. */
function markTasks(state: StateCore): void {
  state.tokens.forEach((token, at) => {
    const item = state.tokens[at - 2];
    const text = token.children?.[0];
    if (token.type !== 'inline' || item?.type !== 'list_item_open' || text?.type !== 'text') return;
    const found = TASK.exec(text.content);
    if (found === null) return;
    item.meta = { task: true };
    text.content = text.content.slice(found[0].length);
    const mark = new state.Token('task', 'span', 0);
    mark.meta = { done: found[1] !== ' ' };
    token.children?.unshift(mark);
  });
}

/** Addresses of the web and of mail in a text become links. */
function linkAddresses(state: StateCore): void {
  for (const token of state.tokens) {
    if (token.children === null || !/[@:]|www\./i.test(token.content)) continue;
    let links = 0;
    token.children = token.children.flatMap((child) => {
      if (child.type === 'link_open' || child.type === 'link_close') links += child.nesting;
      return child.type === 'text' && links === 0 ? linked(state, child) : [child];
    });
  }
}

function linked(state: StateCore, token: Token): Token[] {
  const written: Token[] = [];
  const add = (type: string, tag: string, nesting: -1 | 0 | 1, content = ''): Token => {
    const added = new state.Token(type, tag, nesting);
    added.content = content;
    written.push(added);
    return added;
  };
  let from = 0;
  for (const found of token.content.matchAll(ADDRESS)) {
    if (found.index < from || /[\w/.+-]/.test(token.content.charAt(found.index - 1))) continue;
    const address = withoutEnd(found[0]);
    const scheme = /^https?:/i.test(address) ? '' : /^www\./i.test(address) ? 'https://' : 'mailto:';
    if (found.index > from) add('text', '', 0, token.content.slice(from, found.index));
    add('link_open', 'a', 1).attrSet('href', state.md.normalizeLink(scheme + address));
    add('text', '', 0, address);
    add('link_close', 'a', -1);
    from = found.index + address.length;
  }
  if (written.length === 0) return [token];
  if (from < token.content.length) add('text', '', 0, token.content.slice(from));
  return written;
}

/** Without the sentence marks and the closing brackets after an address. */
function withoutEnd(address: string): string {
  let text = address;
  for (;;) {
    const last = text.charAt(text.length - 1);
    if (!SENTENCE_MARKS.includes(last) && !(last === ')' && isUnbalanced(text))) return text;
    text = text.slice(0, -1);
  }
}

function isUnbalanced(text: string): boolean {
  return text.split(')').length > text.split('(').length;
}
