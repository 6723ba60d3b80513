/** Colours code. `planck_nb/base/highlight.py` knows the same languages. */

import hljs from 'highlight.js/lib/core';
import bash from 'highlight.js/lib/languages/bash';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import ini from 'highlight.js/lib/languages/ini';
import java from 'highlight.js/lib/languages/java';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import r from 'highlight.js/lib/languages/r';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';

/** Longer code is not coloured: that would block the page. */
const COLOURED_CHARACTERS = 20_000;

const LANGUAGES = { bash, diff, go, ini, java, json, python, r, rust, sql, typescript, xml, yaml };
for (const [name, language] of Object.entries(LANGUAGES)) hljs.registerLanguage(name, language);
hljs.configure({ classPrefix: 'hl-' });
const ALIASES: Readonly<Record<string, string>> = {
  python3: 'python',
  ipython: 'python',
  ipython3: 'python',
  javascript: 'typescript',
  js: 'typescript',
  jsx: 'typescript',
  shell: 'bash',
  console: 'bash',
  duckdb: 'sql',
  postgresql: 'sql',
  sqlite: 'sql',
};

/** Code as HTML with classes, null if the language is not known or the code is too long. */
export function highlighted(code: string, language: string): string | null {
  const name = ALIASES[language.toLowerCase()] ?? language;
  if (code.length > COLOURED_CHARACTERS || hljs.getLanguage(name) === undefined) return null;
  return hljs.highlight(code, { language: name, ignoreIllegals: true }).value;
}
