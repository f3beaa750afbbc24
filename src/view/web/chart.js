// SPDX-License-Identifier: MIT
// chart.js: shows the number under the pointer next to a chart. The picture itself needs no script: the style shows the
// drawing that fits the width of the screen.
let data, panels, stage, svg, cursor, panel = 0, at = -1;
const SVG = "http://www.w3.org/2000/svg";

const short = (x) => {
  const a = Math.abs(x);
  if (a && (a < 1e-3 || a >= 1e9)) return x.toExponential(2).replace(/-/g, "−").replace("e+", "e");
  const text = a >= 1000 ? x.toLocaleString("en", { maximumFractionDigits: 0 }) : String(+x.toFixed(a >= 100 ? 1 : 4));
  return text.replace("-", "−");
};

// Makes an SVG element if the parent is inside the picture, otherwise an HTML element.
const element = (name, attributes, parent) => {
  const e = cursor.contains(parent) ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  parent.append(e);
  return e;
};

const place = ([low, high, log], v) =>
    Math.min(1, Math.max(0, log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low)));
const xOf = (p, x) => p.box[0] + (p.box[2] - p.box[0]) * place(p.x, x);
const yOf = (p, y) => p.box[3] - (p.box[3] - p.box[1]) * place(p.y, y);

// Returns at how many points the cursor can stop: the cells of a grid, or the positions of lines.
const stops = (p) => {
  if (p.grid) return p.grid[4] * p.grid[5];
  p.stops = p.stops || [...new Set(p.lines.flatMap((l) => l.at.map((q) => q[0])))].sort((a, b) => a - b);
  return p.stops.length;
};

const row = (name, text, colour) => {
  const line = element("tr", {}, document.getElementById("numbers")), cell = element("td", {}, line);
  if (colour) {
    const mark = element("span", { class: "swatch" }, cell), drawn = svg.querySelector(".s" + colour + ",.f" + colour);
    if (drawn) {
      const style = getComputedStyle(drawn);
      mark.style.background = drawn.classList.contains("s" + colour) ? style.stroke : style.fill;
    }
  }
  cell.append(name);
  element("td", {}, line).textContent = text;
};

const showLines = (p) => {
  const x = p.stops[at], where = xOf(p, x), of = p.of ? p.of[0] : "";
  element("line", { x1: where, x2: where, y1: p.box[1], y2: p.box[3] }, cursor);
  const name = p.places ? p.places[Math.round(x)] : short(x);
  document.getElementById("under").textContent = (p.name ? p.name[0] + ", " : "") + (of ? of + " " : "") + name;
  for (const line of p.lines)
    for (const q of line.at) {
      if (q[0] !== x) continue;
      row(q[2] || line.name, short(q[1]), line.colour);
      element("circle", { class: "point f" + line.colour, r: 4, cx: where, cy: yOf(p, q[1]) }, cursor);
    }
};

const showGrid = (p) => {
  const [left, top, w, h, , columns] = p.grid, r = Math.floor(at / columns), c = at % columns, value = p.values[at];
  element("rect", { x: left + c * w, y: top + r * h, width: w, height: h }, cursor);
  document.getElementById("under").textContent = (p.rows ? p.rows[r] : "row " + r) + ", " +
      (p.columns ? p.columns[c] : "column " + c);
  row("value", value === null ? "masked" : short(value));
};

const showAt = (which, index) => {
  panel = which;
  const p = panels[panel];
  at = Math.min(stops(p) - 1, Math.max(0, index));
  cursor.replaceChildren();
  document.getElementById("numbers").replaceChildren();
  if (at < 0) return;
  if (p.grid) showGrid(p);
  else showLines(p);
};

const boxOf = (p) =>
    p.grid ? [p.grid[0], p.grid[1], p.grid[0] + p.grid[2] * p.grid[5], p.grid[1] + p.grid[3] * p.grid[4]] : p.box;

const pointed = (event) => {
  const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
  const x = (event.clientX - box.left) * view.width / box.width;
  const y = (event.clientY - box.top) * view.height / box.height;
  const which = panels.findIndex((p) => {
      const b = boxOf(p);
      return x >= b[0] - 8 && x <= b[2] + 8 && y >= b[1] - 8 && y <= b[3] + 8;
  });
  if (which < 0) return;
  const p = panels[which];
  if (p.grid) {
    const [left, top, w, h, rows, columns] = p.grid;
    const r = Math.min(rows - 1, Math.max(0, Math.floor((y - top) / h)));
    const c = Math.min(columns - 1, Math.max(0, Math.floor((x - left) / w)));
    showAt(which, r * columns + c);
    return;
  }
  let best = 0;
  stops(p);
  p.stops.forEach((s, i) => { if (Math.abs(xOf(p, s) - x) < Math.abs(xOf(p, p.stops[best]) - x)) best = i; });
  showAt(which, best);
};

const theme = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  if (at >= 0) showAt(panel, at);
};

const key = (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "d" || event.key === "D") theme();
  const p = panels[panel];
  const by = event.shiftKey ? 10 : 1;
  const step = { ArrowRight: by, ArrowLeft: -by }[event.key];
  const turn = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && p) showAt(panel, at < 0 ? 0 : at + step);
  else if (turn && p && p.grid && at + turn * p.grid[5] >= 0 && at + turn * p.grid[5] < stops(p))
      showAt(panel, at + turn * p.grid[5]);
  else if (turn && panels[panel + turn]) showAt(panel + turn, p && !p.grid ? at : 0);
  else return;
  event.preventDefault();
};

// Finds the drawing that the style shows. Only the first has the numbers and names.
const findDrawing = () => {
  const drawings = [...stage.children];
  const n = Math.max(0, drawings.findIndex((d) => getComputedStyle(d).display !== "none"));
  if (drawings[n] === svg) return;
  svg = drawings[n];
  svg.append(cursor);
  panels = data[0].map((p, i) => ({ ...p, ...data[n][i] }));
  if (at >= 0) showAt(panel, at);
};

document.addEventListener("DOMContentLoaded", () => {
  data = JSON.parse(document.getElementById("data").textContent);
  stage = document.getElementById("stage");
  cursor = document.createElementNS(SVG, "g");
  cursor.id = "cursor";
  findDrawing();
  addEventListener("resize", findDrawing);
  document.getElementById("theme").addEventListener("click", theme);
  document.addEventListener("keydown", key);
  stage.addEventListener("pointermove", pointed);
  stage.addEventListener("pointerdown", pointed);
});
