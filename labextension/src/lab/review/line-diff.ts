/** The difference between two texts, line by line. */

/** A line with its mark; `@` marks a part's heading. */
export type DiffLine = readonly [' ' | '-' | '+' | '@', string];

/** Unchanged lines around a change. */
const CONTEXT = 3;
/** Line pairs above which two texts are shown one after the other. */
const MAX_PAIRS = 4_000_000;

export function lineDiff(before: string, after: string): DiffLine[] {
  const old = before === '' ? [] : before.split('\n');
  const fresh = after === '' ? [] : after.split('\n');
  const all = old.length * fresh.length > MAX_PAIRS ? apart(old, fresh) : aligned(old, fresh);
  return inParts(all);
}

/** How many lines are added and removed, such as "+1 −2". */
export function counts(lines: readonly DiffLine[]): string {
  const count = (wanted: string): number => lines.filter(([mark]) => mark === wanted).length;
  const [added, removed] = [count('+'), count('-')];
  return [added > 0 && `+${added}`, removed > 0 && `−${removed}`].filter(Boolean).join(' ');
}

function apart(old: readonly string[], fresh: readonly string[]): DiffLine[] {
  return [...old.map((line) => ['-', line] as const), ...fresh.map((line) => ['+', line] as const)];
}

/** The lines, with as few changes as possible. */
function aligned(old: readonly string[], fresh: readonly string[]): DiffLine[] {
  const width = fresh.length + 1;
  const common = new Uint32Array((old.length + 1) * width); // common lines from a pair on
  for (let i = old.length - 1; i >= 0; i--)
    for (let j = fresh.length - 1; j >= 0; j--)
      common[i * width + j] =
        old[i] === fresh[j]
          ? common[(i + 1) * width + j + 1]! + 1
          : Math.max(common[(i + 1) * width + j]!, common[i * width + j + 1]!);
  const lines: DiffLine[] = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < fresh.length) {
    if (i < old.length && j < fresh.length && old[i] === fresh[j]) {
      lines.push([' ', old[i]!]);
      i++;
      j++;
    } else if (i < old.length && (j === fresh.length || common[(i + 1) * width + j]! >= common[i * width + j + 1]!))
      lines.push(['-', old[i++]!]);
    else lines.push(['+', fresh[j++]!]);
  }
  return lines;
}

/** The lines near a change, each part after a heading with its place. */
function inParts(lines: readonly DiffLine[]): DiffLine[] {
  const changed = lines.flatMap(([mark], at) => (mark === ' ' ? [] : [at]));
  const shown = new Set<number>();
  for (const at of changed)
    for (let near = at - CONTEXT; near <= at + CONTEXT; near++) if (near >= 0 && near < lines.length) shown.add(near);
  const parts: DiffLine[] = [];
  let [old, fresh] = [1, 1];
  lines.forEach((line, at) => {
    if (shown.has(at)) {
      if (!shown.has(at - 1)) parts.push(['@', `@@ -${old} +${fresh} @@`]);
      parts.push(line);
    }
    if (line[0] !== '+') old++;
    if (line[0] !== '-') fresh++;
  });
  return parts;
}
