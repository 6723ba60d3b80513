/** The source of the library, without the additions for chemistry and physics that its bundle contains. */
declare module 'temml/temml.js' {
  const temml: { render(tex: string, element: HTMLElement, options: object): void };
  export default temml;
}
