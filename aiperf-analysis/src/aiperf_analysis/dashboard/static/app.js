// Sort, filter and keys. Every page works without this script.

const COLLATOR = new Intl.Collator("en", { numeric: true });
const FILTERED_FROM = 8; // rows of a table that gets a filter
const FIRST = 200; // rows of a table that are shown first; as in style.css

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
  table.dispatchEvent(new Event("sorted"));
}

function sortable(table) {
  const rows = table.tBodies[0]?.rows.length ?? 0;
  if (rows < 2) return;
  Array.from(table.tHead.rows[0].cells).forEach((head, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...Array.from(head.childNodes).filter((node) => node.nodeName !== "A"));
    head.prepend(button);
    button.addEventListener("click", () => sort(table, head, index));
  });
  if (rows >= FILTERED_FROM) filterable(table);
}

// A filter, and of a long table the first rows that fit it until the reader asks for all.
function filterable(table) {
  const body = table.tBodies[0];
  let rows = Array.from(body.rows);
  let wanted = [];
  let limit = FIRST;
  const texts = new Map();
  const text = (row) => {
    if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
    return texts.get(row);
  };
  const label = document.createElement("label");
  label.className = "seek quiet small";
  const input = document.createElement("input");
  input.type = "search";
  const count = document.createElement("span");
  count.setAttribute("role", "status");
  label.append("filter ", input, " ", count);
  const frame = table.closest(".wide") ?? table;
  frame.before(label);
  const all = document.createElement("button");
  all.type = "button";
  const apply = () => {
    let fit = 0;
    for (const row of rows) {
      const fits = wanted.every((word) => text(row).includes(word));
      fit += fits;
      const hidden = !fits || fit > limit;
      if (row.hidden !== hidden) row.hidden = hidden;
    }
    const shown = Math.min(fit, limit);
    count.textContent = shown < rows.length ? `${shown} of ${wanted.length ? `${fit} that fit, of ` : ""}${rows.length}` : "";
    all.textContent = `Show all ${fit}`;
    all.hidden = fit <= limit;
  };
  input.addEventListener("input", () => {
    wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    apply();
  });
  table.addEventListener("sorted", () => {
    rows = Array.from(body.rows);
    apply();
  });
  all.addEventListener("click", () => {
    limit = Infinity;
    apply();
  });
  if (rows.length <= FIRST) return;
  frame.after(all);
  apply();
  table.removeAttribute("data-long");
  // The texts of all rows before the reader types, while the browser has nothing else to do.
  (window.requestIdleCallback ?? setTimeout)(() => rows.forEach(text));
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
    const seek = document.querySelector(".seek input") ?? document.querySelector(".filters input");
    if (seek) {
      seek.closest("details")?.setAttribute("open", "");
      seek.focus();
      event.preventDefault();
    }
  }
}

// --- a run that goes on: an event has texts for the parts of the page, and at its end the connection is closed

function follow(place) {
  const part = (name) => place.querySelector(`[data-${name}]`);
  const events = new EventSource(place.dataset.live);
  const show = (event) => {
    const state = JSON.parse(event.data);
    for (const field of place.querySelectorAll("[data-field]")) {
      const text = state.fields[field.dataset.field] ?? "";
      if (field.textContent !== text) field.textContent = text;
    }
    const headline = part("headline");
    if (headline && headline.textContent !== state.headline) headline.textContent = state.headline;
    const share = part("share");
    if (share && state.share !== null) share.value = state.share;
    if (state.picture !== undefined && part("picture")) {
      // The server escapes what the picture shows, and a parsed document runs nothing.
      const parsed = new DOMParser().parseFromString(state.picture, "text/html");
      part("picture").replaceChildren(...parsed.body.childNodes);
    }
    for (const [name, verdicts] of state.finished) finished(place, name, verdicts);
    if (state.state === "running") return;
    events.close();
    if (part("results")) part("results").hidden = false;
  };
  for (const name of ["running", "finished", "died"]) events.addEventListener(name, show);
}

function finished(place, name, verdicts) {
  const list = place.querySelector("[data-finished]");
  if (!list || Array.from(list.children).some((one) => one.dataset.name === name)) return;
  const item = document.createElement("li");
  item.dataset.name = name;
  const target = document.createElement("b");
  target.textContent = name;
  item.append(target, ` ${verdicts}`);
  list.prepend(item);
  place.querySelector("[data-none]").hidden = true;
}

// --- a link to a folded part opens it

function unfold() {
  const part = Array.from(document.querySelectorAll("details[id]")).find((one) => `#${encodeURIComponent(one.id)}` === location.hash);
  if (!part) return;
  part.open = true;
  part.scrollIntoView();
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
document.querySelectorAll("[data-live]").forEach(follow);
document.addEventListener("keydown", pressed);
window.addEventListener("hashchange", unfold);
unfold();
const keys = document.querySelector("[data-keys]");
if (keys) {
  keys.hidden = false;
  keys.addEventListener("click", help);
}
const form = document.querySelector("form[data-login]");
if (form) login(form);
if (matchMedia("(max-width: 52rem)").matches) document.querySelector("[data-nav]")?.removeAttribute("open");
