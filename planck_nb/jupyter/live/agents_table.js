// The table of `%planck agents` while agents run. Only texts that have changed are replaced, so that nothing moves.
function render({ model, el }) {
  const table = document.createElement("table");
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
  el.append(table);
  return () => model.off("change:rows", draw);
}

export default { render };
