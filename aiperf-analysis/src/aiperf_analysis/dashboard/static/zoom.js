// Zoom into a series: drag over the picture, or press + - and the arrows. Every step is a link of the page.

const LEAST = 6; // pixels of a drag; less is a click

const figure = document.querySelector("[data-zoom]");
const area = figure?.querySelector(".picture");
const band = document.createElement("div");
let start = null;
let dragged = false;

function plane() {
  // Of the two layouts the hidden one has no width.
  const boxes = Array.from(area.querySelectorAll("svg .area"), (one) => one.getBoundingClientRect());
  const seen = boxes.filter((box) => box.width > 0);
  if (!seen.length) return null;
  return { left: Math.min(...seen.map((box) => box.left)), right: Math.max(...seen.map((box) => box.right)) };
}

function run(x) {
  const { left, right } = plane();
  const [from, to] = [Number(figure.dataset.from), Number(figure.dataset.to)];
  const share = Math.min(Math.max((x - left) / (right - left), 0), 1);
  return Math.round(from - 0.5 + share * (to - from + 1));
}

function place(x) {
  const box = area.getBoundingClientRect();
  band.style.left = `${Math.min(start, x) - box.left}px`;
  band.style.width = `${Math.abs(x - start)}px`;
}

function go(a, b) {
  const [from, to] = [Math.max(Math.min(a, b), 1), Math.max(a, b, 2)];
  const address = new URL(figure.dataset.address, location.origin);
  address.searchParams.set("from", from);
  address.searchParams.set("to", Math.max(to, from + 1));
  location.assign(address);
}

function end(event) {
  if (start === null) return;
  const begin = start;
  start = null;
  band.remove();
  if (dragged && event.type === "pointerup") go(run(begin), run(event.clientX));
}

function moved(event) {
  if (start === null) return;
  if (!dragged && Math.abs(event.clientX - start) < LEAST) return;
  dragged = true;
  if (!band.isConnected) area.append(band);
  place(event.clientX);
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
  const key = { "+": "in", "=": "in", "-": "out", ArrowLeft: "earlier", ArrowRight: "later", 0: "all" }[event.key];
  const focused = event.key.startsWith("Arrow") ? document.activeElement?.closest("[data-zoom]") : figure;
  if (!key || !focused) return;
  const link = figure.querySelector(`[data-move="${key}"]`);
  if (link) {
    link.click();
    event.preventDefault();
  }
}

if (area) {
  band.className = "band";
  area.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.pointerType === "touch" || !plane()) return;
    start = event.clientX;
    dragged = false;
  });
  // No focus ring around the part under the pointer.
  area.addEventListener("mousedown", (event) => event.preventDefault());
  area.addEventListener("dragstart", (event) => event.preventDefault());
  // A drag that ends on a link must not follow it.
  area.addEventListener("click", (event) => dragged && event.preventDefault(), true);
  document.addEventListener("pointermove", moved);
  document.addEventListener("pointerup", end);
  document.addEventListener("pointercancel", end);
  document.addEventListener("keydown", pressed);
}
