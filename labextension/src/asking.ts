/** What an approval says and what its fields give. No DOM here. */

import type { Ask, AskedKind, TouchKind } from './model.ts';

/** A piece of a sentence; what matters is strong. */
export type Piece = readonly [text: string, strong: boolean];

/** Who asks wants this; the target is set as code. */
export function wants(ask: Ask): { readonly verb: string; readonly target: string } {
  const targets = targetsOf(ask, 'write');
  if (has(ask, 'execute')) return { verb: 'wants to run a command', target: '' };
  if (targets.length > 1) return { verb: `wants to change ${targets.length} files`, target: '' };
  if (has(ask, 'write')) return { verb: targets[0] ? 'wants to change' : 'wants to write files', target: targets[0] ?? '' };
  if (has(ask, 'network')) return { verb: 'wants to use the network', target: '' };
  if (has(ask, 'read')) {
    const [target = ''] = targetsOf(ask, 'read');
    return { verb: target === '' ? 'wants to read files' : 'wants to read', target };
  }
  return { verb: 'wants to run', target: '' };
}

/** What would be touched, as sentences. */
export function facts(ask: Ask): Piece[] {
  const pieces: Piece[] = [];
  const written = targetsOf(ask, 'write');
  if (written.length > 0) {
    pieces.push(['Writes ', false], [written.length === 1 ? '1 file' : `${written.length} files`, true]);
    if (ask.folder !== '') pieces.push([` in ${ask.folder}`, false]);
    pieces.push([written.length === 1 ? '. ' : `: ${written.join(', ')}. `, false]);
  }
  if (ask.change !== null) {
    const lines = (sign: string): number => (ask.change ?? []).filter(([other]) => other === sign).length;
    const added = lines('+');
    pieces.push([`${added} ${added === 1 ? 'line' : 'lines'} added, ${lines('-')} removed. `, false]);
  }
  if (has(ask, 'execute')) {
    pieces.push(['Runs ', false], ['a command', true], ['. It can write files and use the network. ', false]);
  }
  if (has(ask, 'network')) pieces.push(['Uses ', false], ['the network', true], [tail(targetsOf(ask, 'network')), false]);
  const read = targetsOf(ask, 'read');
  if (read.length > 0 && written.length === 0 && wants(ask).target === '') {
    pieces.push(['Reads ', false], [read.join(', '), true], ['. ', false]);
  }
  if (ask.touches.length === 0) pieces.push(['It does not say what it touches. ', false]);
  if (ask.reason !== '') pieces.push([ask.reason, false]);
  return pieces;
}

function tail(targets: readonly string[]): string {
  return targets.length === 0 ? '. ' : `: ${targets.join(', ')}. `;
}

function has(ask: Ask, kind: TouchKind): boolean {
  return ask.touches.some(([other]) => other === kind);
}

function targetsOf(ask: Ask, kind: TouchKind): string[] {
  return ask.touches.flatMap(([other, target]) => (other === kind && target !== '' ? [target] : []));
}

/** Characters that do not show, or that make text show in another order, in words: consent is to what runs. */
export function visible(text: string): string {
  return text.replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
    (char) => `⟨U+${char.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}⟩`,
  );
}

/** The value that was typed into a field; undefined where it is not of that kind. */
export function valueOf(kind: AskedKind, text: string): unknown {
  switch (kind) {
    case 'number': {
      const value = text.trim() === '' ? NaN : Number(text);
      return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value)) ? value : undefined;
    }
    case 'choice':
      return text === 'true';
    case 'json':
      try {
        return JSON.parse(text);
      } catch {
        return undefined;
      }
    default:
      return text;
  }
}
