// Two buttons for a decision in the running cell. They are gone once it is made, or when the time is over.

const STYLE = `.planck-confirm { display: flex; gap: 8px; align-items: center; padding: 4px 0; }
.planck-confirm button {
  min-height: 28px;
  padding: 0 12px;
  font: inherit;
  cursor: pointer;
  border: 1px solid var(--jp-border-color1, #8888);
  border-radius: 4px;
  color: var(--jp-content-font-color1, inherit);
  background: var(--jp-layout-color1, transparent);
}
.planck-confirm button:first-of-type {
  color: var(--jp-ui-inverse-font-color1, #fff);
  background: var(--jp-brand-color1, #1976d2);
}
.planck-confirm span { color: var(--jp-content-font-color2, inherit); }`;

// A click that was meant for what stood here before does not count.
const IGNORED_MS = 400;

function render({ model, el }) {
  const style = document.createElement("style");
  style.textContent = STYLE;
  const row = document.createElement("div");
  row.className = "planck-confirm";
  row.setAttribute("role", "group");
  row.setAttribute("aria-label", model.get("question"));
  const shown = performance.now();
  for (const [name, accepted] of [["accept", true], ["decline", false]]) {
    const button = document.createElement("button");
    button.textContent = model.get(name);
    button.addEventListener("click", () => {
      if (performance.now() - shown > IGNORED_MS) model.send({ type: "answer", accepted });
    });
    row.append(button);
  }
  const left = document.createElement("span");
  left.setAttribute("role", "timer");
  const tick = () => {
    const seconds = Math.max(0, Math.round(model.get("ends") - Date.now() / 1000));
    left.textContent = `expires in ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  };
  const timer = setInterval(tick, 1000);
  tick();
  row.append(left);
  const end = () => {
    if (model.get("done")) {
      clearInterval(timer);
      el.replaceChildren();
    }
  };
  model.on("change:done", end);
  el.append(style, row);
  end();
  model.send({ type: "shown" });
  return () => {
    clearInterval(timer);
    model.off("change:done", end);
  };
}

export default { render };
