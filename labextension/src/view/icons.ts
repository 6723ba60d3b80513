/** Icons, drawn on a 16 px grid in the colour of the text. */

const SHAPES = {
  ring: '<circle cx="8" cy="8" r="5"/><path d="M8 3a5 5 0 0 1 5 5"/>',
  dots:
    '<circle class="pk-solid" cx="3.5" cy="8" r="1.25"/><circle class="pk-solid" cx="8" cy="8" r="1.25"/>' +
    '<circle class="pk-solid" cx="12.5" cy="8" r="1.25"/>',
  check: '<path d="M3.5 8.5l3 3 6-7"/>',
  cross: '<path d="M4 4l8 8M12 4l-8 8"/>',
  square: '<rect class="pk-solid" x="4" y="4" width="8" height="8" rx="1"/>',
  diamond: '<path class="pk-solid" d="M8 2.5L13.5 8 8 13.5 2.5 8z"/>',
  dot: '<circle class="pk-solid" cx="8" cy="8" r="2"/>',
  clock: '<circle cx="8" cy="8" r="5"/><path d="M8 5.5V8l1.75 1.25"/>',
  more:
    '<circle class="pk-solid" cx="3.5" cy="8" r="1.5"/><circle class="pk-solid" cx="8" cy="8" r="1.5"/>' +
    '<circle class="pk-solid" cx="12.5" cy="8" r="1.5"/>',
  chevron: '<path d="M6 4l4 4-4 4"/>',
} as const;

export type Shape = keyof typeof SHAPES;

export function icon(shape: Shape, className = ''): SVGElement {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  // The whole element turns, not a part of it, which the browser would have to paint again in each frame.
  svg.setAttribute('class', `pk-i ${shape === 'ring' ? 'pk-spin' : ''} ${className}`.trim());
  svg.setAttribute('viewBox', '0 0 16 16');
  svg.setAttribute('aria-hidden', 'true');
  svg.innerHTML = SHAPES[shape];
  return svg;
}
