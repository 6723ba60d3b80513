/** The JupyterLab extension `@planck-nb/lab`: its plugins. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { highlighting } from './highlighting.ts';

const plugins: JupyterFrontEndPlugin<void>[] = [highlighting];

export default plugins;
