/** Numbers, durations and texts as they are shown. */

/** A count in at most five characters: 640, 18.4k, 1.2M. */
export function count(n: number): string {
  if (n >= 999_950) return `${(n / 1e6).toFixed(1)}M`;
  return n >= 1000 ? `${(n / 1000).toFixed(1)}k` : String(n);
}

/** A cost in US dollars; a cost above zero is never shown as zero. */
export function dollars(cost: number): string {
  if (cost === 0) return '$0';
  if (cost < 0.001) return '<$0.001';
  return `$${cost.toFixed(cost < 1 ? 3 : 2)}`;
}

/** Whole seconds below a minute, otherwise minutes and seconds: 41 s, 1:24. */
export function elapsed(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, '0')}`;
}

/** As `elapsed`, with tenths below a minute. */
export function duration(seconds: number): string {
  return seconds < 59.95 ? `${Math.max(0, seconds).toFixed(1)} s` : elapsed(seconds);
}

/** The last sentence, on one line. Only the end of a long text is examined. */
export function lastSentence(text: string): string {
  const flat = text.slice(-600).replace(/\s+/g, ' ').trim();
  const parts = flat.split(/(?<=[.!?。！？])\s+/);
  return (parts.at(-1) ?? '').replace(/[.。]$/, '');
}
