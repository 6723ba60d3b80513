/** The texts of an approval request, and the values of its edited arguments. No DOM here. */

import type { ApprovalDisplay } from './events.generated.ts';
import type { Role, RuleScope } from './agent-state.ts';

export type EffectKind = ApprovalDisplay['effects'][number][0];
export type ArgumentKind = ApprovalDisplay['arguments'][number][2];

/** A piece of a sentence, perhaps emphasised. */
export type Piece = readonly [text: string, strong: boolean];

/** The tool that runs Python in the kernel, called what it is. */
const RUN_PYTHON = 'run_python';

/** What the call would do, as the end of a sentence that begins with its name; `target` is shown as code. */
export function intention(request: ApprovalDisplay, name = ''): { readonly verb: string; readonly target: string } {
  if (name === RUN_PYTHON) return { verb: 'wants to run Python in your kernel', target: '' };
  const targets = targetsOf(request, 'write');
  if (has(request, 'execute')) return { verb: 'wants to run a command', target: '' };
  if (targets.length > 1) return { verb: `wants to change ${targets.length} files`, target: '' };
  if (request.overwrites) return { verb: 'wants to overwrite', target: targets[0] ?? '' };
  if (has(request, 'write')) return { verb: targets[0] ? 'wants to change' : 'wants to write files', target: targets[0] ?? '' };
  if (has(request, 'network')) return { verb: 'wants to use the network', target: '' };
  if (has(request, 'read')) {
    const [target = ''] = targetsOf(request, 'read');
    return { verb: target === '' ? 'wants to read files' : 'wants to read', target };
  }
  return { verb: 'wants to run', target: '' };
}

/** The effects of the call, as sentences. */
export function effectSentences(request: ApprovalDisplay, name = ''): Piece[] {
  const pieces: Piece[] = [];
  const written = targetsOf(request, 'write');
  if (written.length > 0) {
    pieces.push(['Writes ', false], [written.length === 1 ? '1 file' : `${written.length} files`, true]);
    if (request.folder !== '') pieces.push([` in ${request.folder}`, false]);
    pieces.push([written.length === 1 ? '. ' : `: ${written.join(', ')}. `, false]);
  }
  if (request.change !== null) {
    const lines = (sign: string): number => (request.change ?? []).filter(([other]) => other === sign).length;
    const added = lines('+');
    pieces.push([`${added} ${added === 1 ? 'line' : 'lines'} added, ${lines('-')} removed. `, false]);
  }
  if (name === RUN_PYTHON) {
    pieces.push(['Can do ', false], ['all that you can', true], [': change your variables and files, and use the network. ', false]);
  } else if (has(request, 'execute')) {
    pieces.push(['Runs ', false], ['a command', true]);
    if (request.cwd !== '') pieces.push([' in ', false], [request.cwd, true], [request.sandboxed === null ? '' : ',', false]);
    pieces.push([`${powerOfCommands(request)} `, false]);
  }
  if (has(request, 'network')) {
    const hosts = targetsOf(request, 'network');
    const anywhere = has(request, 'execute') && hosts.length === 0;
    pieces.push(['Uses ', false], ['the network', true], [anywhere ? ", also this computer's own servers. " : listed(hosts), false]);
  }
  const read = targetsOf(request, 'read');
  if (read.length > 0 && written.length === 0 && intention(request).target === '') {
    pieces.push(['Reads ', false], [read.join(', '), true], ['. ', false]);
  }
  if (request.effects.length === 0) pieces.push(['The tool does not declare its effects. ', false]);
  if (request.reason !== '') pieces.push([request.reason, false]);
  return pieces;
}

/** What the commands of the call can do, as the end of a sentence about them. */
function powerOfCommands(request: ApprovalDisplay): string {
  switch (request.sandboxed) {
    case true: {
      const places = has(request, 'write') ? 'below the working directory and in what is named above' : 'below the working directory';
      return ` in a sandbox: it can write only ${places}${has(request, 'network') ? '' : ', and has no network'}.`;
    }
    case false:
      return ' without a sandbox: it can write files and use the network.';
    default:
      return '. It can write files and use the network.';
  }
}

/** The language of an argument, to colour it; empty for plain text. */
export function languageOf(tool: string, argument: string): string {
  return tool === RUN_PYTHON && argument === 'code' ? 'python' : '';
}

/** The agents that a decision can be remembered for, each with its label, for a request by an agent of this role. */
export function ruleScopes(role: Role): (readonly [scope: RuleScope, label: string])[] {
  return [['agent', 'This agent'], ...(role === '' ? [] : [['role', `All ${role}s`] as const]), ['all', 'All agents']];
}

/** The label of the button that remembers a decision; it names the agents if they are more than the one that asked. */
export function rememberLabel(scope: RuleScope, role: Role): string {
  const label = ruleScopes(role).find(([other]) => other === scope)?.[1] ?? '';
  return scope === 'agent' ? 'Always this session' : `Always this session, ${label.toLowerCase()}`;
}

function listed(targets: readonly string[]): string {
  return targets.length === 0 ? '. ' : `: ${targets.join(', ')}. `;
}

function has(request: ApprovalDisplay, kind: EffectKind): boolean {
  return request.effects.some(([other]) => other === kind);
}

function targetsOf(request: ApprovalDisplay, kind: EffectKind): string[] {
  return request.effects.flatMap(([other, target]) => (other === kind && target !== '' ? [target] : []));
}

/**
 * The text with each character spelled out that cannot be seen, as `planck_nb/base/visible.py` does. The texts of a
 * request are spelled out already; this is for names.
 */
export function visible(text: string): string {
  return text.replace(HIDDEN, (char) => `⟨U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}⟩`);
}

/** Controls, formats, unassigned, private, surrogates, all blanks but the space, and letters that are blank. */
const HIDDEN =
  /⟨(?=U\+)|(?![ \n\t])[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\u{16FE4}\u{1D159}\u{13441}\u{13442}]/gu;

/** The value of a field's text; undefined if it is not of that kind. */
export function parseValue(kind: ArgumentKind, text: string): unknown {
  switch (kind) {
    case 'number': {
      const value = text.trim() === '' ? NaN : Number(text);
      return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value)) ? value : undefined;
    }
    case 'boolean':
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
