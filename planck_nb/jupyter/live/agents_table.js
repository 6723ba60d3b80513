// The table of `%planck agents` while agents run. Only texts that have changed are replaced, so that nothing moves.

// What contains the outputs of one cell: JupyterLab, Notebook and Voila; VS Code; Notebook 6; Colab.
const AREAS = ":is(.jp-OutputArea, .cell_container, .output_wrapper, #output-area)";

// The table that is saved in the same cell is for pages without this one.
const STYLE = `${AREAS}:has(.planck-agents-now) :is(.jp-OutputArea-child:has(.planck-agents), .planck-agents) {
  display: none;
}`;

function render({ model, el }) {
  const style = document.createElement("style");
  style.textContent = STYLE;
  const table = document.createElement("table");
  table.className = "planck-agents-now";
  const caption = table.createCaption();
  caption.style.textAlign = "left";
  const head = table.createTHead().insertRow();
  const body = table.createTBody();
  for (const name of model.get("columns")) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.style.textAlign = "left";
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
        cell.style.textAlign = "left";
        write(cell, text);
      });
    });
  }

  draw();
  model.on("change:rows", draw);
  el.append(style, table);
  return () => model.off("change:rows", draw);
}

export default { render };
