/** The extension's scripts, which a page with any policy runs. */

/** The extension's name, filled in by `build.py`. */
declare const EXTENSION: string;

const config = JSON.parse(document.getElementById('jupyter-config-data')?.textContent ?? '{}') as Record<string, string>;

/** Where the extension's scripts are. */
export const EXTENSION_URL = new URL(`${config['fullLabextensionsUrl']}/${EXTENSION}/static`, location.href).href;

/** Whether the page's policy refuses scripts from kernels, which come as blobs. */
export const refusesScripts: Promise<boolean> = import(
  URL.createObjectURL(new Blob([''], { type: 'text/javascript' }))
).then(
  () => false,
  () => true,
);
