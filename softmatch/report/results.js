// Search and sort the table of the classes, which is part of the page.

const figure = (text) => Number.parseFloat(text.replaceAll("\u202f", "")); // NaN for a dash

// Names from A to Z, figures from the highest; a second click reverses the order. Rows without a figure stay at the end.
function sortResults(head, place) {
  const body = find("results").tBodies[0];
  const order = head.getAttribute("aria-sort");
  const rising = order ? order === "descending" : place === 0;
  const keyed = [...body.rows].map((row) => [place ? figure(row.cells[place].textContent) : row.cells[0].textContent, row]);
  const compare = place ? (a, b) => a - b : new Intl.Collator(undefined, { numeric: true }).compare;
  keyed.sort(([a], [b]) => {
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return rising ? compare(a, b) : compare(b, a);
  });
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", rising ? "ascending" : "descending");
  body.append(...keyed.map(([, row]) => row));
}

function searchResults() {
  const wanted = find("searched").value.trim().toLowerCase();
  const rows = [...find("results").tBodies[0].rows];
  for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
  find("found").textContent = wanted ? `${count(rows.filter((row) => !row.hidden).length)} of ${count(rows.length)} classes` : "";
}

function prepareResults() {
  const target = find("results");
  if (!target) return;
  [...target.tHead.rows[0].cells].forEach((head, place) => {
    const button = element("button", head.textContent, "order");
    button.type = "button";
    button.addEventListener("click", () => sortResults(head, place));
    head.replaceChildren(button);
    if (button.textContent === "Error") head.setAttribute("aria-sort", "descending"); // the order of the page
  });
  if (!find("search")) return;
  find("search").hidden = false;
  find("searched").addEventListener("input", searchResults);
}
