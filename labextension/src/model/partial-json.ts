/** Reads the JSON object of a call's arguments while the model is writing it. */

export interface Member {
  readonly name: string;
  readonly text: string;
  readonly complete: boolean;
}

/** The top-level string members that have begun, in order, with their text so far. */
export function stringMembers(json: string): Member[] {
  const members: Member[] = [];
  let depth = 0;
  let name: string | null = null;
  let expectsValue = false;
  let at = 0;
  while (at < json.length) {
    const char = json[at];
    if (char === '"') {
      const end = closingQuote(json, at + 1);
      const text = decoded(json.slice(at + 1, end < 0 ? json.length : end));
      if (depth === 1 && expectsValue && name !== null) members.push({ name, text, complete: end >= 0 });
      else if (depth === 1) name = text;
      if (end < 0) break;
      at = end;
    } else if (char === '{' || char === '[') depth++;
    else if (char === '}' || char === ']') depth--;
    else if (depth === 1 && char === ':') expectsValue = true;
    else if (depth === 1 && char === ',') expectsValue = false;
    at++;
  }
  return members;
}

function closingQuote(json: string, from: number): number {
  for (let at = from; at < json.length; at++) {
    if (json[at] === '\\') at++;
    else if (json[at] === '"') return at;
  }
  return -1;
}

function decoded(raw: string): string {
  const whole = raw.replace(/\\(?:u[0-9a-fA-F]{0,3})?$/, (tail, at: number) => (escaped(raw, at) ? tail : ''));
  try {
    return JSON.parse(`"${whole}"`) as string;
  } catch {
    return whole;
  }
}

function escaped(text: string, at: number): boolean {
  let slashes = 0;
  while (text[at - 1 - slashes] === '\\') slashes++;
  return slashes % 2 === 1;
}

const KEY_NAMES = ['path', 'file_path', 'file', 'command', 'cmd', 'code', 'query', 'sql', 'url', 'pattern', 'name'];

/** The argument that identifies the call at a glance, once it is complete; `formatting.py` has the same rule. */
export function keyOf(members: readonly Member[]): string {
  const complete = members.filter((member) => member.complete);
  const preferred = KEY_NAMES.flatMap((name) => complete.filter((member) => member.name === name));
  const text = (preferred[0] ?? complete[0])?.text ?? '';
  return (text.split('\n').find((line) => line.trim() !== '') ?? '').trim().slice(0, 200);
}
