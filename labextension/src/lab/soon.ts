/** A notebook's changes come in crowds, and before its widgets follow. */

/** Returns a function which has `action` done once, after all present changes. */
export function soon(action: () => void): () => void {
  let isWanted = false;
  return () => {
    if (isWanted) return;
    isWanted = true;
    queueMicrotask(() => {
      isWanted = false;
      action();
    });
  };
}
