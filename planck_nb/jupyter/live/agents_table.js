// The table of `%planck agents` while agents run. Only texts that have changed are replaced, so that nothing moves.

// What contains the outputs of one cell, as in labextension/src/view/static-output.ts, which is built and this is not.
const AREAS = ":is(.jp-OutputArea, .cell_container, .output_wrapper, #output-area)";

const NUMBERS = new Set(["turns", "messages", "tokens", "cost_usd"]);

// The table that is saved in the same cell is for pages without this one.
const STYLE = `${AREAS}:has(.planck-agents-now) :is(.jp-OutputArea-child:has(.planck-agents), .planck-agents) {
  display: none;
}
.planck-agents-now {
  border-collapse: collapse;
  font-family: var(--jp-ui-font-family, inherit);
  font-size: var(--jp-ui-font-size1, inherit);
  color: var(--jp-content-font-color1, inherit);
}
.planck-agents-now caption, .planck-agents-now th {
  color: var(--jp-content-font-color2, inherit);
  font-weight: normal;
  text-align: left;
}
.planck-agents-now :is(caption, th, td) {
  padding: 4px 16px 4px 0;
}
.planck-agents-now :is(th, td) {
  border-bottom: 1px solid var(--jp-border-color2, #8884);
  text-align: left;
  vertical-align: top;
}
.planck-agents-now .number {
  text-align: right;
  font-variant-numeric: tabular-nums;
}
.planck-agents-now td:first-child {
  font-weight: 600;
}`;

function render({ model, el }) {
  const style = document.createElement("style");
  style.textContent = STYLE;
  const table = document.createElement("table");
  table.className = "planck-agents-now";
  const caption = table.createCaption();
  const head = table.createTHead().insertRow();
  const body = table.createTBody();
  const columns = model.get("columns");
  for (const name of columns) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.classList.toggle("number", NUMBERS.has(name));
    cell.textContent = name;
    head.append(cell);
  }

  function write(node, text) {
    if (node.textContent !== text) node.textContent = text;
  }

  function draw() {
    const rows = model.get("rows");
    const hidden = model.get("hidden");
    write(caption, hidden ? `Agents now, and ${hidden} more` : "Agents now");
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach((row, place) => {
      const line = body.rows[place] ?? body.insertRow();
      row.forEach((text, column) => {
        const cell = line.cells[column] ?? line.insertCell();
        cell.classList.toggle("number", NUMBERS.has(columns[column]));
        write(cell, text);
      });
    });
    columns.forEach((_, column) => {
      const isEmpty = rows.every((row) => row[column] === "");
      for (const line of table.rows) line.cells[column].hidden = isEmpty;
    });
  }

  draw();
  model.on("change:rows", draw);
  el.append(style, table);
  return () => model.off("change:rows", draw);
}

export default { render };
