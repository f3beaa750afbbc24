// SPDX-License-Identifier: MIT
// residual.js: the view "How does each layer change a token?". The upper part shows the norm of the residual stream
// over the layers, with a bar for the change by each sublayer. The lower part shows, token by token, how large the
// change by each sublayer is compared with the stream.
import { abs, ceil, floor, max, min, sqrt } from "../base/math.js";
import { addTexts, capital, count, quoted, say, signed } from "../base/messages.js";
import { cells, el, onClick } from "../base/dom.js";
import { defined } from "../base/terms.js";
import { page, state } from "../base/state.js";
import { hue } from "../base/palette.js";
import { addView, set } from "../base/frame.js";
import {
    figuresSvg, fittedAt, hair, newFigure, rectAt, redraw, shape, shownToken, tenth, textAt, titled
} from "../parts/figure.js";
import { walkRows } from "./compare.js";

addTexts({
    residual: "How does each layer change a token?",
    noResidual: "This file contains no residual stream of this stack. Files of a model’s encoder or decoder contain " +
        "it as far as their budget allows.",
    residualOf: "The residual stream of {0}",
    residualMean: "On average over {0} tokens the residual stream",
    residualGoes: "{0} goes from norm {1} to {2}; the largest change, by {3} in layer {4}, has the norm ",
    residualEnd: " (cosine {0}).",
    residualTokens: "the mean of {0} tokens",
    residualSize: "norm of the stream",
    residualChange: "change by {0}",
    residualScale: "full colour: the change is as long as the stream before it; {0}: along the stream, {1}: " +
        "against the stream (cosine below 0)",
    residualBand: "a row is the mean of {0} tokens, of which the first is named",
    residualTable: "Layer by layer, {0}",
    residualNote: "Size: the norm of the residual stream. Each sublayer: the norm of the stream after it minus the " +
        "stream before it; in a post-norm model this change includes the layer norm. Cosine: between change and " +
        "stream before it.",
    residualToken: "Token", residualAll: "mean of all",
    residualBlue: "blue", residualOrange: "orange"
});

const NAMES = ["attention", "cross-attention", "feed-forward"];
const BRIEF = ["attn", "cross", "ffn"];
const ARRAYS = ["attention", "cross", "feedforward"];
const COLOURS = [4, 1, 6]; // colours of heads that no cell of the grid has
const COLUMNS = 2;
const CHART = 150;
const ROW = 17;
const MOST_BANDS = 64;
const SHARE_SHADES = 16;
const residual = {
    box: null, figure: null, note: null, table: null, stacks: null, tokens: null, grid: null, gridOf: ""
};

// ---- numbers ---------------------------------------------------------------------------------------
/**
 * The change of a token by a sublayer, or its mean over several tokens.
 * @typedef {object} Added
 * @property {number} before norm of the stream before the sublayer
 * @property {number} added norm of the change
 * @property {number} cosine between the change and the stream before it
 * @property {number} after norm of the stream after the sublayer
 */
/**
 * The numbers of a layer: the norm of the stream before and after the layer and, for each sublayer, the norm of its
 * change and the cosine; null: the layer has no such sublayer.
 * @typedef {{ before: Float32Array, after: ?Float32Array, sublayers: ?Float32Array[], last: number }} LayerNumbers
 */
/** @returns {?LayerNumbers} */
function layerNumbers(layer) {
    const of = (layer, name) => page.weights.numbers?.(layer, `residual.${name}`) ?? null;
    const before = of(layer, "before"), sublayers = ARRAYS.map(name => of(layer, name));
    if (!before) return null;
    const after = layer + 1 < page.L ? of(layer + 1, "before") : of(layer, "after");
    return { before, after, sublayers, last: [2, 1, 0].find(k => sublayers[k]) ?? -1 };
}
function hasNumbers() {
    for (let l = 0; l < page.L; l++) if (!layerNumbers(l)) return false;
    return true;
}
/** @returns {Added} */
function addedTo(numbers, sublayer, token) {
    const a = { before: 0, added: 0, cosine: 0, after: numbers.before[token] };
    for (let k = 0; k <= sublayer; k++) {
        if (!numbers.sublayers[k]) continue;
        a.before = a.after;
        [a.added, a.cosine] = numbers.sublayers[k].subarray(token * COLUMNS, token * COLUMNS + COLUMNS);
        a.after = sqrt(max(0, a.before ** 2 + 2 * a.cosine * a.added * a.before + a.added ** 2));
    }
    if (sublayer === numbers.last && numbers.after) a.after = numbers.after[token];
    return a;
}
/** @returns {Added} */
function meanAdded(numbers, sublayer, rows) {
    const mean = { before: 0, added: 0, cosine: 0, after: 0 };
    for (const i of rows) {
        const a = addedTo(numbers, sublayer, i);
        for (const name in mean) mean[name] += a[name] / rows.length;
    }
    return mean;
}
// Returns the norm of the change divided by the norm of the stream, with the sign of the cosine.
const shareOf = a => (a.cosine < 0 ? -1 : 1) * (a.before > 0 ? a.added / a.before : 0);
// Returns the sublayers that at least one layer has.
function sublayersOf() {
    const layers = Array.from({ length: page.L }, (_, l) => layerNumbers(l));
    return [0, 1, 2].filter(k => layers.some(n => n.sublayers[k]));
}
const rowsOf = () => state.row >= 0 ? [state.row] : page.visible;
// Lists every sublayer of every layer in the order of computation.
function sublayerSteps(rows) {
    const out = [];
    for (let layer = 0; layer < page.L; layer++) {
        const numbers = layerNumbers(layer);
        for (const k of [0, 1, 2])
            if (numbers.sublayers[k]) out.push({ layer, k, ...meanAdded(numbers, k, rows) });
    }
    return out;
}
// Computes the shares for the rows of the grid, [band][layer][sublayer]; null: the layer has no such sublayer.
function gridShares(sublayers) {
    const at = `${state.stack} ${page.visible.length}`;
    if (residual.gridOf === at) return residual.grid;
    const each = max(1, ceil(page.visible.length / MOST_BANDS));
    const layers = Array.from({ length: page.L }, (_, l) => layerNumbers(l));
    residual.gridOf = at;
    residual.grid = Array.from({ length: ceil(page.visible.length / each) }, (_, b) => {
        const rows = page.visible.slice(b * each, b * each + each);
        return {
            first: rows[0], each,
            shares: layers.map(n => sublayers.map(k => n.sublayers[k] ? shareOf(meanAdded(n, k, rows)) : null))
        };
    });
    return residual.grid;
}

// ---- the figure ------------------------------------------------------------------------------------
function layOut() {
    const w = residual.box.clientWidth, sublayers = sublayersOf(), names = min(124, floor(w * .28));
    const group = min(110, (w - names) / page.L), gap = min(8, group * .18);
    return { w, names, group, gap, sublayers, column: (group - gap) / sublayers.length };
}
const leftOf = (g, layer, column) => g.names + layer * g.group + column * g.column;

function drawCurve(g, y, parts) {
    const all = sublayerSteps(rowsOf());
    const most = max(1e-12, ...all.flatMap(s => [s.before, s.added, s.after]).filter(isFinite));
    const level = x => y - CHART * x / most, end = leftOf(g, page.L, 0) - g.gap;
    for (const k of [0, .5, 1]) {
        parts.push(
            hair(g.names, level(k * most), end, level(k * most)),
            textAt(g.names - 8, level(k * most) + 4, (k * most).toFixed(most < 100 ? 1 : 0), "tiny", "end")
        );
    }
    let path = "";
    const wide = tenth(max(1, g.column - 2));
    for (const s of all) {
        const column = g.sublayers.indexOf(s.k), x = leftOf(g, s.layer, column);
        const text = `${NAMES[s.k]} ${s.layer}: ${s.added.toFixed(2)}, ${signed(s.cosine)}`;
        if (s.added > 0)
            parts.push(titled(
                shape("path", {
                    class: `k${COLOURS[s.k]}`, stroke: hue.heads[COLOURS[s.k]], "stroke-width": wide,
                    d: `M${tenth(x + g.column / 2)} ${tenth(y)}V${tenth(level(s.added))}`
                }),
                text
            ));
        if (g.column >= 36) parts.push(textAt(x + g.column / 2, y + 18, signed(s.cosine), "tiny", "middle"));
        if (!isFinite(s.before) || !isFinite(s.after)) continue;
        if (!path) path = `M${tenth(x)} ${tenth(level(s.before))}`;
        path += `L${tenth(x + g.column)} ${tenth(level(s.after))}`;
    }
    if (g.column >= 36) parts.push(textAt(g.names - 8, y + 18, "cosine", "tiny", "end"));
    parts.push(shape("path", { class: "sum", d: path }));
}
// Draws the legend of the colours. Returns the y coordinate below it.
function drawLegend(g, parts) {
    let x = 0, y = 12;
    const entry = (mark, text) => {
        const wide = 34 + 6.6 * text.length;
        if (x > 0 && x + wide > g.w) { x = 0; y += 18; }
        parts.push(mark(x, y), textAt(x + 24, y, text, "note"));
        x += wide;
    };
    entry((x, y) => hair(x, y - 4, x + 18, y - 4, "sum"), say("residualSize"));
    for (const k of g.sublayers) {
        const n = COLOURS[k];
        const mark = (x, y) => shape(
            "path", { class: `k${n}`, stroke: hue.heads[n], "stroke-width": 10, d: `M${x + 4} ${y - 4}h10` }
        );
        entry(mark, say("residualChange", NAMES[k]));
    }
    return y;
}
function drawLayerNames(g, y, parts) {
    const every = ceil(26 / g.group);
    for (let l = 0; l < page.L; l += every)
        parts.push(
            textAt(
                leftOf(g, l, 0) + (g.group - g.gap) / 2, y, g.group >= 52 ? `${say("layer")} ${l}`.toLowerCase() : l,
                "note", "middle"
            )
        );
}
function drawGrid(g, y, parts) {
    const grid = gridShares(g.sublayers), paths = {}, wide = tenth(max(.5, g.column - 1));
    grid.forEach((band, b) => {
        const top = y + b * ROW, token = page.tokens[band.first];
        const next = grid[b + 1]?.first ?? page.T, on = state.row >= band.first && state.row < next;
        parts.push(shape(
            "g", { class: "row", "data-row": band.first },
            rectAt(0, top, g.names - 2, ROW, on ? "mark" : "none"), rectAt(0, top, g.w, ROW, "none"),
            fittedAt(g.names - 8, top + 12.5, shownToken(token), g.names - 10, on ? "strong" : "", "end")
        ));
        band.shares.forEach((shares, l) => shares.forEach((share, c) => {
            if (share === null || share !== share) return;
            const shade = min(SHARE_SHADES, ceil(SHARE_SHADES * abs(share) ** .7));
            const name = `${share < 0 ? "neg" : "pos"} ${shade}`;
            if (!shade) return;
            paths[name] = `${paths[name] ?? ""}M${tenth(leftOf(g, l, c))} ${top + 1}h${wide}v${ROW - 1}h${-wide}z`;
        }));
    });
    for (const name in paths) {
        const [kind, shade] = name.split(" ");
        const opacity = (+shade / SHARE_SHADES).toFixed(2);
        parts.push(shape("path", { class: kind, d: paths[name], opacity, "pointer-events": "none" }));
    }
    return y + grid.length * ROW;
}
function drawResidual() {
    if (!hasNumbers()) {
        redraw(residual.figure, residual.box.clientWidth, 1);
        return residual.note.replaceChildren();
    }
    const g = layOut(), parts = [], top = drawLegend(g, parts) + 26 + CHART;
    drawCurve(g, top, parts);
    drawLayerNames(g, top + 42, parts);
    const end = drawGrid(g, top + 50, parts), each = residual.grid[0]?.each ?? 1;
    redraw(residual.figure, g.w, end + 4, ...parts);
    const scale = say("residualScale", say("residualBlue"), say("residualOrange"));
    residual.note.textContent = capital(scale) + "." + (each > 1 ? ` ${capital(say("residualBand", each))}.` : "");
    residual.tokens.value = state.row;
    if (residual.stacks) residual.stacks.value = state.stack;
}

// ---- words and panels ------------------------------------------------------------------------------
const nameOfRows = rows =>
    rows.length === 1 ? quoted(page.tokens[rows[0]]) : say("residualTokens", count(rows.length));
const streamOfRows = rows =>
    rows.length === 1 ? say("residualOf", quoted(page.tokens[rows[0]])) : say("residualMean", count(rows.length));
function answerResidual() {
    const question = say("residual");
    if (!hasNumbers()) return { question, pieces: [say("noResidual")] };
    const rows = rowsOf(), all = sublayerSteps(rows), last = all[all.length - 1];
    const most = all.reduce((a, b) => b.added > a.added ? b : a);
    return {
        question,
        pieces: [
            say(
                "residualGoes", streamOfRows(rows), all[0].before.toFixed(2), last.after.toFixed(2), NAMES[most.k],
                most.layer
            ),
            { b: most.added.toFixed(2) }, say("residualEnd", signed(most.cosine))
        ]
    };
}
function drawPanel() {
    if (!hasNumbers()) return residual.table.replaceChildren();
    const rows = rowsOf(), all = sublayerSteps(rows), sublayers = sublayersOf();
    const head = ["layer", ...sublayers.flatMap(k => [BRIEF[k], "cos"]), "size"];
    const body = Array.from({ length: page.L }, (_, l) => {
        const own = all.filter(s => s.layer === l), of = k => own.find(s => s.k === k);
        return cells(
            l, ...sublayers.flatMap(k => of(k) ? [of(k).added.toFixed(2), signed(of(k).cosine)] : ["", ""]),
            own.length ? own[own.length - 1].after.toFixed(2) : ""
        );
    });
    residual.table.replaceChildren(
        el(
            "table", { class: "row" },
            el("caption", defined("residual stream"), say("residualTable", nameOfRows(rows))),
            el("thead", {}, el("tr", {}, ...head.map(t => el("th", { scope: "col" }, t)))), el("tbody", {}, ...body)
        ),
        el("p", { class: "note" }, say("residualNote"))
    );
}
function residualRows() {
    if (!hasNumbers()) return [];
    const head = ["token", "layer", "sublayer", "size before", "change", "cosine", "size after"];
    const of = i => sublayerSteps([i]).map(s => [
        page.tokens[i].named, s.layer, NAMES[s.k], s.before.toFixed(4), s.added.toFixed(4), s.cosine.toFixed(4),
        s.after.toFixed(4)
    ]);
    return [head, ...rowsOf().flatMap(of)];
}

// ---- the view --------------------------------------------------------------------------------------
function select(name, options, act) {
    const list = options.map(([value, text]) => el("option", { value }, text));
    const node = el("select", { "aria-label": name }, ...list);
    node.addEventListener("change", () => act(+node.value));
    return [node, el("label", {}, el("span", {}, name), node)];
}
function buildResidual() {
    const most = 2000, labels = [];
    residual.figure = newFigure(say("residual"));
    residual.box = el("div", { class: "board", tabindex: 0, role: "group" }, residual.figure.node);
    residual.note = el("p", { class: "note" });
    residual.table = el("div");
    residual.gridOf = "";
    residual.stacks = null;
    if (page.stacks.length > 1) {
        const [node, label] = select(say("stack"), page.stacks.map((s, n) => [n, s.name]), n => set({ stack: n }));
        residual.stacks = node;
        labels.push(label);
    }
    const tokens = page.tokens.slice(0, most).map((t, i) => [i, `${i} ${t.text}`.slice(0, 40)]);
    const [node, label] = select(
        say("residualToken"), [[-1, say("residualAll")], ...tokens], row => set({ row, key: -1 })
    );
    residual.tokens = node;
    labels.push(label);
    onClick(residual.figure.node, e => {
        const row = e.target.closest("[data-row]");
        if (row) set({ row: +row.dataset.row === state.row ? -1 : +row.dataset.row, key: -1 });
    });
    return {
        mid: [
            el("div", { class: "controls" }, el("div", { class: "pickers" }, ...labels)), residual.box, residual.note
        ],
        right: [residual.table]
    };
}

addView({
    key: "U", id: "residual", name: "Residual",
    can: () => page.weights && hasNumbers() ? true : say("noResidual"),
    build: () => buildResidual(),
    stack: () => { residual.gridOf = ""; },
    draw: () => drawResidual(),
    panels: () => drawPanel(),
    answer: () => answerResidual(),
    get group() { return residual.box; },
    table: () => residualRows(),
    svg: () => figuresSvg([residual.figure], answerResidual()),
    keys: [
        [
            "↑ ↓", "token", e => e.key === "ArrowUp" || e.key === "ArrowDown",
            e => walkRows(e.key === "ArrowUp" ? -1 : 1), 1
        ],
        [
            "Y", "encoder, decoder, cross", "y", () => set({ stack: (state.stack + 1) % page.stacks.length }),
            () => page.stacks.length > 1
        ]
    ]
});
