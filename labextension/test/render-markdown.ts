/** Writes the HTML of the Markdown texts that it reads, both as a list in JSON. */

import { readFileSync } from 'node:fs';

import { toHtml } from '../src/text/markdown.ts';

const texts = JSON.parse(readFileSync(0, 'utf8')) as string[];
process.stdout.write(JSON.stringify(texts.map(toHtml)));
