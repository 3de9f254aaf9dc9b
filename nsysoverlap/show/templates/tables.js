(() => {
  const text = (row, i) => row.cells[i].textContent.trim();
  const number = (row, i) => {
    const value = row.cells[i].dataset.v;
    return value === undefined ? null : Number(value);
  };

  function sort(table, column, down) {
    const numeric = table.tHead.rows[0].cells[column].classList.contains("n");
    const body = table.tBodies[0];
    const rows = [...body.rows];
    rows.sort((a, b) => {
      if (!numeric) {
        const order = text(a, column).localeCompare(text(b, column), "en", { numeric: true });
        return down ? -order : order;
      }
      const one = number(a, column), two = number(b, column);
      // What is unknown stands last in either order.
      if (one === null || two === null) return (one === null) - (two === null);
      return down ? two - one : one - two;
    });
    body.append(...rows);
    for (const head of table.tHead.rows[0].cells) head.setAttribute("aria-sort", "none");
    table.tHead.rows[0].cells[column].setAttribute("aria-sort", down ? "descending" : "ascending");
  }

  function filter(table, words, output) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    const rows = table.tBodies[0].rows;
    for (const row of rows) {
      const content = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => content.includes(word));
      shown += !row.hidden;
    }
    const all = `${rows.length} ${rows.length === 1 ? "row" : "rows"}`;
    output.textContent = wanted.length ? `${shown} of ${all}` : all;
  }

  for (const holder of document.querySelectorAll(".sorted")) {
    const table = holder.querySelector("table");
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, i) => head.querySelector("button").addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      // Numbers start with the largest, words with the first.
      const down = now === "none" ? head.classList.contains("n") : now === "ascending";
      sort(table, i, down);
    }));
    const input = holder.querySelector("input");
    const output = holder.querySelector("output");
    if (input) input.addEventListener("input", () => filter(table, input.value, output));
  }
})();
