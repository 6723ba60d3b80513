/** A cell's language, by its text. */

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
