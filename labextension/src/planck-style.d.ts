/** The minified style sheet, as `build.py` puts it into the code. */
declare module 'planck-style' {
  const style: string;
  export default style;
}
