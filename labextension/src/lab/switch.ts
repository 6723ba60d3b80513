/** The setting that turns all plugins off. It counts when the page is loaded. */

import type { JupyterFrontEndPlugin } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';

const ID = '@planck-nb/lab:proposals';

let enabled: Promise<boolean> | null = null;

/** The plugin, which does nothing if the setting turns it off. */
export function switchable(plugin: JupyterFrontEndPlugin<unknown>): JupyterFrontEndPlugin<unknown> {
  return {
    ...plugin,
    optional: [...(plugin.optional ?? []), ISettingRegistry],
    activate: async (app, ...services) => {
      const settings = services.pop() as ISettingRegistry | null;
      enabled ??= isEnabled(settings);
      return (await enabled) ? plugin.activate(app, ...services) : null;
    },
  };
}

async function isEnabled(settings: ISettingRegistry | null): Promise<boolean> {
  const loaded = await settings?.load(ID).catch(() => null);
  if (loaded === null || loaded === undefined) return true;
  const read = (): boolean => loaded.get('enabled').composite !== false;
  const isOn = read();
  loaded.changed.connect(() => {
    if (read() === isOn) return;
    const callback = (): void => location.reload();
    Notification.info(`Reload the page to turn Planck ${isOn ? 'off' : 'on'}.`, { autoClose: false, actions: [{ label: 'Reload', callback }] });
  });
  return isOn;
}
