// The page is whole without this: it adds sorting and filtering of tables, and keeps the place on the page when the
// language is changed.
"use strict";

const number = text => parseFloat(text.replace(/,/g, "").replace(/^</, ""));

function sort(table, column, head) {
  const up = head.getAttribute("aria-sort") !== "ascending";
  const text = row => row.cells[column].textContent.trim();
  const rows = [...table.tBodies[0].rows];
  const least = (a, b) => isNaN(a) || isNaN(b) ? isNaN(a) - isNaN(b) : up ? a - b : b - a;
  const words = new Intl.Collator(document.documentElement.lang, { numeric: true });
  const order = head.classList.contains("n")
    ? (a, b) => least(number(text(a)), number(text(b)))
    : (a, b) => words.compare(text(a), text(b)) * (up ? 1 : -1);
  table.tBodies[0].append(...rows.sort(order));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column, head));
    head.append(button);
  });
}

function makeFilterable(table) {
  const label = document.getElementById("filter").content.firstElementChild.cloneNode(true);
  label.querySelector("input").addEventListener("input", event => {
    const wanted = event.target.value.toLowerCase();
    for (const row of table.tBodies[0].rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  table.closest(".scroll").before(label);
}

for (const table of document.querySelectorAll("table.sortable")) {
  if (table.tBodies[0].rows.length > 1) makeSortable(table);
  if (table.tBodies[0].rows.length >= 12) makeFilterable(table);
}

for (const link of document.querySelectorAll("a[hreflang]")) {
  link.addEventListener("click", () => { link.hash = location.hash; });
}
