// A map at work: how many items are answered, how fast, and for how much, with buttons to stop it and to decide calls.

// What contains the outputs of one cell, as in labextension/src/view/static-output.ts, which is built and this is not.
const AREAS = ":is(.jp-OutputArea, .cell_container, .output_wrapper, #output-area)";

const STYLE = `.planck-map-now {
  --edge: var(--jp-border-color1, #8888);
  --rule: var(--jp-border-color2, #8884);
  --quiet: var(--jp-content-font-color2, inherit);
  --run: var(--jp-brand-color1, #1976d2);
  --bad: var(--jp-error-color1, #c62828);
  display: grid;
  gap: 8px;
  padding: 4px 0;
  font-family: var(--jp-ui-font-family, inherit);
  font-size: var(--jp-ui-font-size1, inherit);
  line-height: 20px;
  color: var(--jp-content-font-color1, inherit);
  font-variant-numeric: tabular-nums;
}
.planck-map-now > * { margin: 0; min-width: 0; }
.planck-map-now header { display: flex; align-items: center; gap: 4px 12px; min-height: 32px; }
.planck-map-now header span { color: var(--quiet); white-space: nowrap; }
.planck-map-now header .model { overflow: hidden; text-overflow: ellipsis; }
.planck-map-now header div { display: flex; gap: 8px; margin-inline-start: auto; }
.planck-map-now button {
  min-height: 28px;
  padding: 0 12px;
  font: inherit;
  white-space: nowrap;
  cursor: pointer;
  border: 1px solid var(--edge);
  border-radius: 4px;
  color: inherit;
  background: var(--jp-layout-color1, transparent);
}
.planck-map-now button.first { border-color: var(--run); color: var(--jp-ui-inverse-font-color1, #fff); background: var(--run); }
.planck-map-now button:disabled { cursor: default; opacity: 0.6; }
.planck-map-now .bar { display: flex; height: 4px; overflow: hidden; border-radius: 2px; background: var(--rule); }
.planck-map-now .bar i { background: var(--run); }
.planck-map-now .bar i + i { background: var(--bad); }
.planck-map-now[data-state="stopped"] .bar i:first-child { background: var(--quiet); }
.planck-map-now .figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(120px, 1fr)); gap: 8px 16px; }
.planck-map-now .figures div { display: grid; align-content: start; }
.planck-map-now .label, .planck-map-now small, .planck-map-now .facts { color: var(--quiet); font-size: var(--jp-ui-font-size0, 0.85em); }
.planck-map-now .value { font-weight: 500; }
.planck-map-now small { font-weight: 400; }
.planck-map-now .failed { color: var(--bad); }
.planck-map-now ul { margin: 4px 0 0; padding-inline-start: 20px; overflow-wrap: anywhere; }
.planck-map-now [role="alertdialog"] { padding: 8px 12px; border: 1px solid var(--rule); border-inline-start: 2px solid var(--jp-warn-color1, #b26a00); border-radius: 0 4px 4px 0; }
.planck-map-now pre { margin: 0 0 8px; font-family: var(--jp-code-font-family, monospace); font-size: inherit; white-space: pre-wrap; overflow-wrap: anywhere; }
.planck-map-now [role="alertdialog"] div { display: flex; flex-wrap: wrap; gap: 8px; }
.planck-map-now [hidden] { display: none; }
@media (forced-colors: active) { .planck-map-now .bar i { background: CanvasText; forced-color-adjust: none; } }`;

// A click that was meant for what stood here before does not count.
const IGNORED_MS = 400;

function node(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.textContent = text;
  return made;
}

// Only texts that have changed are replaced, so that nothing moves and nothing is announced twice.
function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function render({ model, el }) {
  const style = node("style", "", STYLE);
  const marker = model.get("marker");
  if (marker) {
    style.textContent += `
${AREAS}:has(.planck-map-now) :is(.jp-OutputArea-child:has(.${marker}), .${marker}) { display: none; }`;
  }
  const view = node("section", "planck-map-now");
  view.setAttribute("role", "group");
  view.setAttribute("aria-label", "Map");
  view.dataset.lmSuppressShortcuts = "true";

  function button(text, message, className = "") {
    const made = node("button", className, text);
    made.type = "button";
    const shown = performance.now();
    made.addEventListener("click", () => {
      if (performance.now() - shown <= IGNORED_MS) return;
      made.disabled = true;
      model.send(message);
    });
    return made;
  }

  const head = node("header");
  const headline = node("strong");
  const time = node("span");
  const name = node("span", "model");
  const actions = node("div");
  head.append(headline, time, name, actions);
  const bar = node("div", "bar");
  bar.setAttribute("role", "progressbar");
  bar.setAttribute("aria-label", "Items");
  bar.append(node("i"), node("i"));
  const figures = node("div", "figures");
  const asks = node("div");
  const failures = node("details");
  const failed = node("summary", "failed");
  const reasons = node("ul");
  failures.append(failed, reasons);
  const sentence = node("p", "facts");
  sentence.setAttribute("role", "status");
  view.append(head, bar, figures, asks, failures, sentence);

  function drawActions(names, goOn) {
    if (actions.dataset.names === names.join()) return;
    actions.dataset.names = names.join();
    const made = {
      stop: () => button("Stop", { type: "stop" }),
      "go on": () => button(goOn, { type: "go on" }, "first"),
    };
    actions.replaceChildren(...names.map((each) => made[each]()));
  }

  function drawBar(facts) {
    bar.hidden = !facts.total;
    if (!facts.total) return;
    bar.setAttribute("aria-valuemin", "0");
    bar.setAttribute("aria-valuemax", String(facts.total));
    bar.setAttribute("aria-valuenow", String(facts.finished));
    const [good, bad] = bar.children;
    good.style.width = `${(100 * (facts.finished - facts.failed)) / facts.total}%`;
    bad.style.width = `${(100 * facts.failed) / facts.total}%`;
    bad.style.minWidth = facts.failed ? "2px" : "0";
  }

  function drawFigures(rows) {
    while (figures.children.length > rows.length) figures.lastChild.remove();
    rows.forEach(([label, value, small], place) => {
      if (!figures.children[place]) {
        const row = node("div");
        const text = node("span", "value");
        text.append(node("span"), " ", node("small"));
        row.append(node("span", "label"), text);
        figures.append(row);
      }
      const [name, text] = figures.children[place].children;
      write(name, label);
      write(text.children[0], value);
      write(text.children[1], small);
    });
  }

  function drawCall(call) {
    const box = node("div");
    box.dataset.call = `${call.agent} ${call.id}`;
    box.setAttribute("role", "alertdialog");
    box.setAttribute("aria-label", "A call waits for approval");
    const row = node("div");
    const decision = { type: "decide", agent: call.agent, call: call.id };
    row.append(button("Allow", { ...decision, decision: "allow" }, "first"));
    if (call.always) row.append(button("Allow such calls", { ...decision, decision: "always" }));
    row.append(button("Deny", { ...decision, decision: "deny" }));
    box.append(node("pre", "", call.text), row);
    return box;
  }

  function drawCalls(calls) {
    const wanted = new Set(calls.map((call) => `${call.agent} ${call.id}`));
    for (const box of [...asks.children]) {
      if (!wanted.has(box.dataset.call)) box.remove();
      else wanted.delete(box.dataset.call);
    }
    asks.append(...calls.filter((call) => wanted.has(`${call.agent} ${call.id}`)).map(drawCall));
    asks.hidden = !asks.children.length;
  }

  function draw() {
    const facts = model.get("facts");
    view.dataset.state = facts.state;
    write(headline, facts.headline);
    write(time, facts.time);
    write(name, facts.model);
    drawActions(facts.actions, facts.go_on);
    drawBar(facts);
    drawFigures(facts.figures);
    drawCalls(facts.calls);
    failures.hidden = !facts.failed;
    write(failed, facts.failures_title);
    if (reasons.dataset.text !== facts.failures.join("\n")) {
      reasons.dataset.text = facts.failures.join("\n");
      reasons.replaceChildren(...facts.failures.map((text) => node("li", "", text)));
    }
    write(sentence, facts.sentence);
    sentence.hidden = !facts.sentence;
  }

  draw();
  model.on("change:facts", draw);
  el.append(style, view);
  model.send({ type: "shown" });
  return () => model.off("change:facts", draw);
}

export default { render };
