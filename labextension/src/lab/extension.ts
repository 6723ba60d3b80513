/** The JupyterLab extension `@planck-nb/lab`: its plugins. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { completion } from './completion.ts';
import { highlighting } from './highlighting.ts';
import { proposals } from './proposals-plugin.ts';
import { savedRuns } from './saved-runs.ts';

const plugins: JupyterFrontEndPlugin<void>[] = [completion, highlighting, proposals, savedRuns];

export default plugins;
