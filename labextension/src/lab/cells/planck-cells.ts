/** The texts of `%%planck` cells. */

import type { Names, Verbs } from '../kernel/protocol.generated.ts';

/** The body's language in a `%%planck` cell; null for any other cell. */
export function languageOf(source: string): 'markdown' | 'sql' | null {
  const magic = /^\s*%%planck(?![\w.])([^\n]*)/.exec(source);
  if (magic === null) return null;
  return /^\s+sql(?:\s|$)/.test(magic[1] ?? '') ? 'sql' : 'markdown';
}

/** Where the names after `@` are in a text. One after a letter belongs to an address, one after `\` is text. */
export function* namesIn(text: string): Generator<readonly [number, number]> {
  for (const found of text.matchAll(/(?<![\w\\.@])@[\p{L}_][\p{L}\p{N}_]*(?:[./:-][\p{L}\p{N}_]+)*/gu))
    yield [found.index, found.index + found[0].length];
}

const HEADER = '%%planck\n';

/** A text as code for the agent: nothing in it is a name or an instruction. */
export function fenced(text: string, language: string): string {
  const runs = text.match(/`+/g) ?? [];
  const fence = '`'.repeat(Math.max(3, ...runs.map((run) => run.length + 1)));
  return `${fence}${language}\n${text.replace(/\n$/, '')}\n${fence}\n`;
}

/** The beginning of a prompt about a text. */
export function promptAbout(text: string, language: string): string {
  return `${HEADER}${fenced(text, language)}\n`;
}

/** A prompt to an agent, by default without a name, with texts that go along. */
export function promptTo(agent: string, parts: readonly string[], text: string): string {
  return [agent === '' ? '%%planck' : `%%planck ${agent}`, ...parts, text.trim()].join('\n');
}

/** A text as a prompt. */
export function promptOf(text: string): string {
  return `${HEADER}${text.trim()}`;
}

/** Whether a prompt may hand something over by `@`, such as a variable or a file. */
export function handsOver(prompt: string): boolean {
  return /(?<!\\)@\S/.test(prompt);
}

/** What Tab offers: the word's start, and texts with their descriptions. */
export interface Offer {
  readonly start: number;
  readonly texts: Readonly<Record<string, string>>;
}

/** What may be written at the cursor, after the kernel's last word about verbs and names; null if that is not ours. */
export function offerAt(text: string, cursor: number, { verbs, options }: Verbs, { agents, variables }: Names): Offer | null {
  const line = text.slice(text.lastIndexOf('\n', cursor - 1) + 1, cursor);
  const word = /\S*$/.exec(line)![0];
  const start = cursor - word.length;
  const header = /^\s*%%planck(?![\w.])[^\n]*/.exec(text)?.[0];
  const isMention = word.startsWith('@');
  if (header !== undefined && cursor > header.length)
    return isMention && languageOf(text) === 'markdown' ? { start, texts: starting(word, variables) } : null;
  const magic = header === undefined ? /^\s*(?:[^%=]+=\s*)?%planck[ \t]+/ : /^\s*%%planck[ \t]+/;
  const written = magic.exec(line)?.[0];
  if (written === undefined) return null;
  const [first, ...more] = line.slice(written.length, line.length - word.length).split(/\s+/).filter(Boolean);
  const verb = first !== undefined && Object.hasOwn(verbs, first) ? verbs[first] : undefined;
  if (isMention) return { start, texts: starting(word, variables) };
  if (word.startsWith('-')) return { start, texts: starting(word, verb?.options ?? options) };
  if (verb !== undefined) return verb.takes_agent && more.length === 0 ? { start, texts: starting(word, agents) } : null;
  if (first !== undefined) return null;
  const fitting = Object.entries(verbs).filter(([, { is_cell }]) => is_cell || header === undefined);
  return { start, texts: starting(word, { ...agents, ...Object.fromEntries(fitting.map(([name, { about }]) => [name, about])) }) };
}

function starting(word: string, described: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(described).filter(([text]) => text.startsWith(word)));
}
