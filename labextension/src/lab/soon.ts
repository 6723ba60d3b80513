/** Changes of a notebook come in crowds, and before its widgets have followed. */

/** Returns a function that has `action` done once, after all of the present changes. */
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
