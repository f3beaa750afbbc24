// SPDX-License-Identifier: MIT
// plot.js: numbers under the reader's pointer; the curves are there without it.
const kinds = [["loss", "training loss"], ["valid", "validation loss"], ["rate", "learning rate"], ["norm", "gradient"]];
let data, stage, svg, cursor, at = -1, steps = [];

const short = (x) => {
  const a = Math.abs(x);
  if (a && (a < 1e-3 || a >= 1e6)) return x.toExponential(2).replace("-", "−").replace("e+", "e");
  return (a >= 1000 ? x.toLocaleString("en", { maximumFractionDigits: 0 }) : x.toFixed(a >= 100 ? 1 : 4)).replace("-", "−");
};

// The point of a series at the step or the last one before it; none before the first.
const point = (series, step) => {
  let low = 0, high = series.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (series[middle][0] <= step) low = middle + 1;
    else high = middle;
  }
  return low ? series[low - 1] : null;
};

const element = (name, attributes, parent) => {
  const e = document.createElementNS(name === "tr" || name === "td" || name === "th" || name === "i" ? "http://www.w3.org/1999/xhtml" : "http://www.w3.org/2000/svg", name);
  for (const key in attributes) e.setAttribute(key, attributes[key]);
  parent.append(e);
  return e;
};

const xOf = (step) => data.left + (data.right - data.left) * (step - data.first) / Math.max(1, data.last - data.first);

const yOf = (panel, value) => {
  const place = panel.log ? Math.log(value / panel.low) / Math.log(panel.high / panel.low) : (value - panel.low) / (panel.high - panel.low);
  return panel.top + panel.height * (1 - Math.min(1, Math.max(0, place)));
};

const look = (index) => {
  at = Math.min(steps.length - 1, Math.max(0, index));
  const step = steps[at], x = xOf(step);
  const bottom = data.panels[data.panels.length - 1];
  cursor.replaceChildren();
  element("line", { id: "cursor", x1: x, x2: x, y1: data.panels[0].top, y2: bottom.top + bottom.height }, cursor);
  document.getElementById("under").textContent = "At step " + step.toLocaleString("en");
  const table = document.getElementById("numbers");
  table.replaceChildren();
  data.runs.forEach((run, r) => {
    if (data.runs.length > 1) {
      const head = element("tr", {}, table), cell = element("th", { colspan: 2 }, head);
      element("i", { class: "swatch b" + r % 16 }, cell);
      cell.append(run.name);
    }
    for (const [kind, name] of kinds) {
      const found = point(run[kind], step);
      if (!found) continue;
      const row = element("tr", {}, table);
      element("td", {}, row).textContent = name;
      element("td", {}, row).textContent = short(found[1]);
      const panel = data.panels.find((p) => p.kind === (kind === "valid" ? "loss" : kind));
      if (panel) element("circle", { class: "look c" + r % 16, r: 4, cx: xOf(found[0]), cy: yOf(panel, found[1]) }, cursor);
    }
  });
};

const pointed = (event) => {
  const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
  const x = view.x + (event.clientX - box.left) * view.width / box.width;
  const step = data.first + (x - data.left) / (data.right - data.left) * (data.last - data.first);
  let best = 0;
  steps.forEach((s, i) => { if (Math.abs(s - step) < Math.abs(steps[best] - step)) best = i; });
  look(best);
};

const theme = () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
};

document.addEventListener("DOMContentLoaded", () => {
  data = JSON.parse(document.getElementById("data").textContent);
  stage = document.getElementById("stage");
  svg = document.getElementById("curves");
  document.getElementById("theme").addEventListener("click", theme);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "d" || event.key === "D") theme();
    if (!steps.length) return;
    const by = event.shiftKey ? 10 : 1;
    if (event.key === "ArrowRight") look(at + by);
    else if (event.key === "ArrowLeft") look(at < 0 ? steps.length - 1 : at - by);
    else return;
    event.preventDefault();
  });
  if (!data.runs.length || !data.panels.length) return;
  steps = [...new Set(data.runs.flatMap((run) => kinds.flatMap(([kind]) => run[kind].map((p) => p[0]))))].sort((a, b) => a - b);
  cursor = element("g", {}, svg);
  stage.addEventListener("pointermove", pointed);
  stage.addEventListener("pointerdown", pointed);
  look(steps.length - 1);
});
