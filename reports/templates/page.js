// The page is whole without this: it adds sorting, filtering and copying of tables, copies code, unfolds what a link
// leads to and what is printed, and keeps the place on the page when the language is changed.
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

function cellsOf(table) {
  const rows = [...table.rows].filter(row => !row.hidden);
  return rows.map(row => [...row.cells].map(cell => cell.textContent.trim().replace(/\s+/g, " ")));
}

const forms = {
  code: holder => holder.querySelector("pre").textContent,
  cells: holder => cellsOf(holder.querySelector("table")).map(cells => cells.join("\t")).join("\n"),
  markdown(holder) {
    const table = holder.querySelector("table");
    const rows = cellsOf(table).map(cells => cells.map(cell => cell.replace(/\|/g, "\\|")));
    const marks = [...table.rows[0].cells].map(cell => cell.classList.contains("n") ? "---:" : "---");
    if (!table.tHead) rows.unshift(marks.map(() => ""));
    rows.splice(1, 0, marks);
    return rows.map(cells => `| ${cells.join(" | ")} |`).join("\n");
  },
};

async function copy(text) {
  // Without a secure origin, or without leave, there is no clipboard but the one of the selection.
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "quiet";
    document.body.append(field);
    const focused = document.activeElement;
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    focused?.focus();
    return isCopied;
  }
}

function addCopying(holder, template, place) {
  const buttons = document.getElementById(template).content.cloneNode(true);
  for (const button of buttons.querySelectorAll("button")) {
    const name = button.textContent;
    button.addEventListener("click", async () => {
      const isCopied = await copy(forms[button.dataset.form](holder));
      const words = document.getElementById("copied").dataset;
      button.textContent = isCopied ? words.copied : words.failed;
      document.getElementById("said").textContent = button.textContent;
      setTimeout(() => { button.textContent = name; }, 2000);
    });
  }
  place.append(buttons);
}

for (const holder of document.querySelectorAll(".code")) addCopying(holder, "copy-code", holder);
for (const holder of document.querySelectorAll(".table")) addCopying(holder, "copy-table", holder.querySelector(".tools"));

function unfold() {
  const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!place) return;
  const own = place.querySelector(":scope > details.folded");
  if (own) own.open = true;
  for (let part = place.closest("details"); part; part = part.parentElement.closest("details")) part.open = true;
  place.scrollIntoView();
}

addEventListener("hashchange", unfold);
addEventListener("DOMContentLoaded", unfold);

// Paper has what is folded too, without programs, which are copied from the page.
const unfolded = [];

addEventListener("beforeprint", () => {
  for (const part of document.querySelectorAll("details:not([open], :has(> .code))")) {
    part.open = true;
    unfolded.push(part);
  }
});
addEventListener("afterprint", () => {
  for (const part of unfolded.splice(0)) part.open = false;
});

for (const table of document.querySelectorAll("table.sortable")) {
  if (table.tBodies[0].rows.length > 1) makeSortable(table);
  if (table.tBodies[0].rows.length >= 12) makeFilterable(table);
}

for (const link of document.querySelectorAll("a[hreflang]")) {
  link.addEventListener("click", () => { link.hash = location.hash; });
}
