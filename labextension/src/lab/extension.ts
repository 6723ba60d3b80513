/** The JupyterLab extension `@planck-nb/lab`: its plugins. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';

import { completion } from './cells/completion.ts';
import { highlighting } from './cells/highlighting.ts';
import { panel } from './panel/panel-plugin.ts';
import { proposals } from './review/proposals-plugin.ts';
import { savedRuns } from './saved-runs.ts';
import { switchable } from './switch.ts';

const plugins: JupyterFrontEndPlugin<unknown>[] = [completion, highlighting, proposals, panel, savedRuns].map(switchable);

export default plugins;
