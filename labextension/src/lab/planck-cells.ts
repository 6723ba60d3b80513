/** The texts of `%%planck` cells. */

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
