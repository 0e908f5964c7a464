// Sort, filter and keys. Every page works without this script.

const COLLATOR = new Intl.Collator("en", { numeric: true });
const FILTERED_FROM = 8; // rows of a table that gets a filter

function valueOf(cell) {
  const sort = cell.dataset.sort;
  return sort === undefined ? cell.textContent.trim() : Number(sort);
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  if (typeof a === "number") return -1;
  if (typeof b === "number") return 1;
  return COLLATOR.compare(a, b);
}

function sort(table, head, index) {
  const down = head.getAttribute("aria-sort") === "ascending";
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", down ? "descending" : "ascending");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows, (row) => [valueOf(row.cells[index]), row]);
  rows.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
  body.append(...rows.map(([, row]) => row));
}

function sortable(table) {
  const rows = table.tBodies[0]?.rows.length ?? 0;
  if (rows < 2) return;
  Array.from(table.tHead.rows[0].cells).forEach((head, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sort(table, head, index));
  });
  if (rows >= FILTERED_FROM) filterable(table);
}

function filterable(table) {
  const rows = Array.from(table.tBodies[0].rows);
  const label = document.createElement("label");
  label.className = "seek quiet small";
  const input = document.createElement("input");
  input.type = "search";
  const count = document.createElement("span");
  count.setAttribute("role", "status");
  label.append("filter ", input, " ", count);
  (table.closest(".wide") ?? table).before(label);
  let texts = null;
  input.addEventListener("input", () => {
    texts ??= rows.map((row) => row.textContent.toLowerCase());
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, index) => {
      const fits = wanted.every((word) => texts[index].includes(word));
      if (row.hidden === fits) row.hidden = !fits;
      shown += fits;
    });
    count.textContent = wanted.length ? `${shown} of ${rows.length}` : "";
  });
}

// --- keys

const KEYS = [
  ["/", "filter the first table"],
  ["g then a letter", "go to a page of the navigation that begins with it"],
  ["o", "open filters and options"],
  ["?", "show these keys"],
  ["Escape", "leave a field, close this"],
];

function help() {
  let dialog = document.querySelector("dialog.help");
  if (!dialog) {
    dialog = document.createElement("dialog");
    dialog.className = "help";
    dialog.setAttribute("aria-label", "keys");
    const list = document.createElement("dl");
    for (const [key, about] of KEYS) {
      const dt = document.createElement("dt");
      const kbd = document.createElement("kbd");
      kbd.textContent = key;
      dt.append(kbd);
      const dd = document.createElement("dd");
      dd.textContent = about;
      list.append(dt, dd);
    }
    const close = document.createElement("button");
    close.textContent = "Close";
    close.addEventListener("click", () => dialog.close());
    dialog.append(list, close);
    document.body.append(dialog);
  }
  if (!dialog.open) dialog.showModal();
}

let going = 0;
function go(letter) {
  const links = Array.from(document.querySelectorAll(".sections a"));
  const found = links.filter((link) => link.textContent.trim().toLowerCase().startsWith(letter));
  const here = found.findIndex((link) => link.hasAttribute("aria-current"));
  if (found.length) found[(here + 1) % found.length].click();
}

function pressed(event) {
  const field = event.target.closest?.("input, select, textarea");
  if (event.key === "Escape" && field) return field.blur();
  if (field || event.ctrlKey || event.metaKey || event.altKey) return;
  if (Date.now() - going < 1500 && /^[a-z]$/.test(event.key)) {
    going = 0;
    return go(event.key);
  }
  if (event.key === "g") going = Date.now();
  else if (event.key === "?") help();
  else if (event.key === "o") document.querySelector("[data-options]")?.toggleAttribute("open");
  else if (event.key === "/") {
    const seek = document.querySelector(".seek input, .filters input");
    if (seek) {
      seek.closest("details")?.setAttribute("open", "");
      seek.focus();
      event.preventDefault();
    }
  }
}

// --- the token of a link: it stands behind the #, which no browser sends

function login(form) {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return;
  history.replaceState(null, "", location.pathname);
  form.elements.token.value = token;
  form.submit();
}

document.querySelectorAll("table[data-sortable]").forEach(sortable);
document.addEventListener("keydown", pressed);
const keys = document.querySelector("[data-keys]");
if (keys) {
  keys.hidden = false;
  keys.addEventListener("click", help);
}
const form = document.querySelector("form[data-login]");
if (form) login(form);
if (matchMedia("(max-width: 52rem)").matches) document.querySelector("[data-nav]")?.removeAttribute("open");
