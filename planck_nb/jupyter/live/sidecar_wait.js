// What a prompt waits for, and a button to go on without it. They are gone once the wait is over.

const STYLE = `.planck-wait { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; padding: 4px 0; }
.planck-wait, .planck-wait button {
  font-family: var(--jp-ui-font-family, inherit);
  font-size: var(--jp-ui-font-size1, inherit);
  color: var(--jp-content-font-color1, inherit);
}
.planck-wait button {
  min-height: 28px;
  padding: 0 12px;
  cursor: pointer;
  border: 1px solid var(--jp-border-color1, #8888);
  border-radius: 4px;
  background: var(--jp-layout-color1, transparent);
}
.planck-wait [role="timer"] { font-variant-numeric: tabular-nums; }`;

// A click that was meant for what stood here before does not count.
const IGNORED_MS = 400;
const SHOWN_NAMES = 5;

function listed(names) {
  const first = names.slice(0, SHOWN_NAMES);
  if (names.length > SHOWN_NAMES) return `${first.join(", ")} and ${names.length - SHOWN_NAMES} more`;
  return first.length < 2 ? first.join("") : `${first.slice(0, -1).join(", ")} and ${first.at(-1)}`;
}

function render({ model, el }) {
  const style = document.createElement("style");
  style.textContent = STYLE;
  const row = document.createElement("div");
  row.className = "planck-wait";
  const text = document.createElement("span");
  const what = document.createElement("span");
  what.setAttribute("role", "status");
  // Not a live region, or each second would be announced.
  const seconds = document.createElement("span");
  seconds.setAttribute("role", "timer");
  text.append(what, seconds);
  const button = document.createElement("button");
  const shown = performance.now();
  button.addEventListener("click", () => {
    if (performance.now() - shown <= IGNORED_MS) return;
    button.disabled = true;
    model.send({ type: "leave" });
  });
  row.append(text, button);
  const name = () => {
    const names = model.get("names");
    what.textContent = `Waiting for ${listed(names)}`;
    button.textContent = `Go on without ${names.length === 1 ? "it" : "them"}`;
  };
  const tick = () => {
    seconds.textContent = `, ${Math.max(0, Math.round(Date.now() / 1000 - model.get("begun")))} s`;
  };
  const timer = setInterval(tick, 1000);
  const end = () => {
    if (model.get("done")) {
      clearInterval(timer);
      el.replaceChildren();
    }
  };
  model.on("change:names", name);
  model.on("change:done", end);
  name();
  tick();
  el.append(style, row);
  end();
  return () => {
    clearInterval(timer);
    model.off("change:names", name);
    model.off("change:done", end);
  };
}

export default { render };
