// SPDX-License-Identifier: MIT
// figure.js: draws pictures as SVG, with text as text and in the colours of the theme. Also serves the views of one
// query: finds the selected head, query and key, and computes their scores and weights.
import { abs, ceil, floor, max, min, round, sqrt } from "../base/math.js";
import {
    addTexts, errorOfWeights, certain, escaped, isolated, placeMark, plain, say, signed, weight
} from "../base/messages.js";
import { cells, el, onClick, root } from "../base/dom.js";
import { selectedHeads, page, quote, stage, state, topKey } from "../base/state.js";
import { css, textOn, rampAt } from "../base/palette.js";
import { headOfKey, set, stepLayerBy } from "../base/frame.js";

addTexts({
    stack: "Attention",
    query: "Query",
    key: "Key",
    layer: "Layer",
    theHead: "Head",
    pointed: "Number under the pointer",
    dimension: "dimension",
    ofAll: "{0} of {1}",
    product: "q × k",
    shareOf: "share of the score",
    cappedAt: "capped at {0}", withBias: "bias {0}",
    masked: "masked",
    moreMasked: "… {0} keys masked",
    folded: "… {0} keys: {1}",
    noVectors: "The queries and keys of layer {0} are not in this file: “qkv view --layers {0}” stores them. For " +
        "texts of up to 192 tokens they are always stored.",
    noValues: "The values of layer {0} are not in this file: “qkv view --values” stores them.",
    noneVectors: "This file has no queries and keys. “qkv view --layers L” stores them for layer L; for texts of " +
        "up to 192 tokens they are always stored.",
    neverVectors: "There are no queries and keys: the model’s scores are additive, or the weights are from a file.",
    pooledBars: "the largest of each {0}"
});

// ---- SVG -----------------------------------------------------------------------------------------
export function shape(tag, attributes = {}, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const name in attributes) node.setAttribute(name, attributes[name]);
    node.append(...children);
    return node;
}
export const tenth = x => +x.toFixed(1);
export const textAt = (x, y, text, kind = "", anchor = "start") =>
    shape("text", { x: tenth(x), y: tenth(y), class: kind, "text-anchor": anchor }, isolated(`${text}`));
export const hair = (x0, y0, x1, y1, kind = "hair") =>
    shape("path", { class: kind, d: `M${tenth(x0)} ${tenth(y0)}L${tenth(x1)} ${tenth(y1)}` });
export const rectAt = (x, y, w, h, kind) =>
    shape("rect", { x: tenth(x), y: tenth(y), width: tenth(w > 0 ? w : 0), height: tenth(h > 0 ? h : 0), class: kind });
export function titled(node, text) {
    node.append(shape("title", {}, text));
    return node;
}
/**
 * Cuts a text so that it is at most `width` pixels wide. A repeated word keeps its place.
 * @param {string} text
 * @param {number} width
 * @param {number} size font size
 * @returns {string}
 */
const ruler = document.createElement("canvas").getContext("2d");
export function fitted(text, width, size = 13) {
    const place = placeMark(text), letters = [...text.slice(0, 200)], whole = text.length <= 200;
    ruler.font = `600 ${size}px ${page.font}`; // some of the texts are bold
    const cut = n => n < letters.length || !whole ? letters.slice(0, n).join("") + "…" + place : text;
    const fits = n => ruler.measureText(cut(n)).width <= width;
    if (fits(letters.length)) return cut(letters.length);
    let low = 1, high = letters.length;
    while (low < high) {
        const mid = low + high + 1 >> 1;
        if (fits(mid)) low = mid; else high = mid - 1;
    }
    return cut(low);
}
const SIZES = { tiny: 11, note: 12, under: 12 }; // of figure.css; 13: the size of the page
/**
 * Writes a text that is cut so that it is at most `width` pixels wide at the font size of its class.
 * @param {number} x
 * @param {number} y
 * @param {string} text
 * @param {number} width
 * @param {string} kind class
 * @param {string} anchor
 */
export const fittedAt = (x, y, text, width, kind = "", anchor = "start") =>
    textAt(x, y, fitted(text, width, SIZES[kind] ?? 13), kind, anchor);
// Splits a text of a saved picture into lines of at most `width` pixels, measured with the widest of the usual fonts;
// where that is not installed, the reader's may be a little wider.
function linesOf(text, width, size) {
    const out = [""];
    ruler.font = `${size}px "DejaVu Serif", Georgia, serif`;
    for (const word of text.split(" ")) {
        const line = `${out[out.length - 1]} ${word}`.trim();
        if (ruler.measureText(line).width <= .92 * width) out[out.length - 1] = line;
        else out.push(word);
    }
    return out.filter(line => line);
}
const headSizes = () => root.dataset.sheet ? [18, 13] : [25, 15];
export const headStyle = () => headSizes().map((size, n) =>
    `.${["question", "sentence"][n]}{font:${size}px Georgia,serif;dominant-baseline:auto}`).join("");
/**
 * Returns question and sentence of a saved picture as SVG, and the height that they take. On a sheet of a printed width
 * they are smaller.
 * @param {string} question
 * @param {string} sentence
 * @param {number} x left end
 * @param {number} width of the picture
 * @param {string[]} kinds classes of both
 */
export function headWords(question, sentence, x, width, kinds) {
    const small = !!root.dataset.sheet, [big, size] = headSizes(), out = [];
    let y = 8;
    const put = (text, kind, size, leading) => {
        for (const line of linesOf(text, width - 2 * x, size))
            out.push(`<text class="${kind}" x="${x}" y="${((y += leading) - .2 * size).toFixed(1)}">` +
                `${escaped(isolated(line))}</text>`);
    };
    put(question, kinds[0] + " question", big, small ? 22 : 30);
    put(sentence, kinds[1] + " sentence", size, small ? 17 : 20);
    return { words: `<g data-words="">${out.join("")}</g>`, height: y + 14 };
}
// Writes a text on a canvas, upwards to the right from (x, y), shortened to stay left of `right` and below the top.
export function tilted(c, text, x, y, right, size) {
    c.save();
    c.translate(x, y);
    c.rotate(-.87);
    c.fillText(fitted(text, min((y - size * .4) / .764, (right - x - size * .5) / .645), size), 0, 0);
    c.restore();
}
// Fills a node with the colour of a weight. The colour is one of 25 classes of the ramp, so that a saved file works in
// both themes. Class on<n> is the colour of text on that fill.
export const LEVELS = 24;
export const levelOf = w => round(LEVELS * min(1, max(0, w === w ? w ** .7 : 0)));
export function weightFill(node, w) {
    const n = levelOf(w);
    node.setAttribute("class", `w${n}`);
    node.setAttribute("fill", css(rampAt(n / LEVELS)));
    return node;
}
export function weightText(x, y, w, text) {
    const n = levelOf(w);
    return shape(
        "text",
        {
            x: tenth(x), y: tenth(y), class: `on${n}`, fill: textOn(rampAt(n / LEVELS)), "font-size": 10.5,
            "text-anchor": "middle"
        },
        text
    );
}

// Draws values as bars that rise (positive) or fall (negative) from a line. If there are more values than pixels, a bar
// shows the largest of a group of values.
const grouped = (n, w) => max(1, ceil(n / max(1, floor(w / 1.4))));
export function barsOf(values, x, y, w, h, most, kind = "") {
    const group = grouped(values.length, w), n = ceil(values.length / group), wide = w / n, gap = wide > 3 ? 1 : 0;
    let up = "", down = "";
    for (let b = 0; b < n; b++) {
        let v = 0;
        for (let k = b * group; k < min(values.length, (b + 1) * group); k++)
            if (abs(values[k]) > abs(v)) v = values[k];
        const tall = h / 2 * max(-1, min(1, v / most));
        if (!v) continue;
        const bar =
            `M${tenth(x + b * wide)} ${tenth(y)}v${(-tall).toFixed(2)}h${(wide - gap).toFixed(2)}v${tall.toFixed(2)}z`;
        if (v > 0) up += bar; else down += bar;
    }
    const out = shape("g", kind ? { class: kind } : {}, hair(x, y, x + w - gap, y));
    if (up) out.append(shape("path", { class: "pos", d: up }));
    if (down) out.append(shape("path", { class: "neg", d: down }));
    return out;
}
export const largest = lists => {
    let most = 1e-12;
    for (const list of lists) for (const x of list ?? []) if (abs(x) > most) most = abs(x);
    return most;
};

// A figure has few parts, so it is redrawn completely at each change.
export function newFigure(name, role = "img") {
    const node = shape("svg", { class: "figure", role, "aria-label": name });
    return { node, w: 0, h: 0 };
}
export function redraw(f, w, h, ...parts) {
    f.w = w;
    f.h = h;
    f.node.setAttribute("width", w);
    f.node.setAttribute("height", h);
    f.node.setAttribute("viewBox", `0 0 ${w} ${h}`);
    f.node.replaceChildren(...parts);
}
// Makes the hatching of masked cells. Each figure has its own, so that a saved figure is complete.
export const hatching = id => shape(
    "defs", {},
    shape(
        "pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        shape("path", { class: "hatch", d: "M0 0V6" })
    )
);

function markup(text) {
    const box = shape("g");
    box.innerHTML = text;
    return box.firstChild;
}
/**
 * Joins figures to one SVG file, side by side or, if `under`, one below the other. Title and sentence are text; the
 * colours are classes for both themes.
 * @param {{ node: SVGElement, w: number, h: number }[]} figures
 * @param {Answer} answer
 * @param {boolean} under
 * @returns {string}
 */
export function figuresSvg(figures, { question, pieces }, under = false) {
    const sheet = !!root.dataset.sheet, gap = 28, edge = sheet ? 10 : 20, sentence = plain(pieces);
    const used = root.dataset.theme;
    under ||= sheet;
    const sum = name => figures.reduce((s, f) => s + f[name] + gap, -gap);
    const most = name => max(...figures.map(f => f[name]));
    const w = ceil(under ? most("w") : sum("w")) + 2 * edge, tall = ceil(under ? sum("h") : most("h"));
    const { words, height } = headWords(question, sentence, edge, w, ["h", "d"]), h = height + tall + 44;
    const rules = theme => {
        root.dataset.theme = theme;
        const style = getComputedStyle(root);
        const value = name => style.getPropertyValue(name).trim();
        const stops = value("--ramp").split(" ");
        const out = [`.paper{fill:${value("--paper")}}.h{fill:${value("--text")}}.d{fill:${value("--text2")}}`];
        for (const rule of [...document.styleSheets].flatMap(sheet => [...sheet.cssRules]))
            if (rule instanceof CSSStyleRule && rule.selectorText.startsWith(".figure"))
                out.push(
                    rule.cssText.replace(/\.figure (?!\{)/g, "").replace(/var\((--\w+)\)/g, (_, name) => value(name))
                );
        for (let n = 0; n <= LEVELS; n++) {
            const x = n / LEVELS * (stops.length - 1);
            const k = min(stops.length - 2, floor(x));
            const mix = c => parseInt(stops[k].slice(c, c + 2), 16) * (1 - x + k) +
                parseInt(stops[k + 1].slice(c, c + 2), 16) * (x - k);
            const colour = [1, 3, 5].map(c => round(mix(c)));
            out.push(`.w${n}{fill:${css(colour)}}.on${n}{fill:${textOn(colour)}}`);
        }
        value("--heads").split(" ").forEach((c, n) => out.push(`.k${n}{stroke:${c}}`));
        root.dataset.theme = used;
        return out.join("");
    };
    const other = used === "dark" ? "light" : "dark";
    const whole = shape("svg", { width: w, height: h, viewBox: `0 0 ${w} ${h}`, role: "img" },
        shape("title", {}, question), shape("desc", {}, sentence),
        shape(
            "style", {},
            `text{font:13px system-ui,sans-serif}.d.small{font:12px system-ui,sans-serif}${rules(used)}${headStyle()}` +
                `@media(prefers-color-scheme:${other}){${rules(other)}}`
        ),
        shape("rect", { width: "100%", height: "100%", class: "paper" }), markup(words));
    let x = edge, y = height;
    whole.dataset.top = `${height - 8}`;
    whole.dataset.bottom = `${height + tall + 8}`;
    for (const f of figures) {
        const copy = /** @type {SVGElement} */ (f.node.cloneNode(true));
        copy.setAttribute("x", `${x}`);
        copy.setAttribute("y", `${y}`);
        copy.removeAttribute("role");
        for (const n of copy.querySelectorAll("[role]"))
            for (const name of ["role", "tabindex", "aria-pressed", "aria-label"]) n.removeAttribute(name);
        whole.append(copy);
        if (under) y += f.h + gap; else x += f.w + gap;
    }
    const about = [page.about.model, say("layerOf", state.layer), nameOfHeads()].join(" · ");
    const last = shape("g", { "data-words": "" }, textAt(edge, h - 12, about, "d small"));
    whole.append(last);
    return new XMLSerializer().serializeToString(whole);
}
const nameOfHeads = () => selectedHeads().length
    ? say(selectedHeads().length > 1 ? "heads" : "head", selectedHeads().join(", ")) : "";

// ---- one head, one query, one key ------------------------------------------------------------------
const focus = { at: "", head: 0 };
/**
 * Returns the pair of query and key that a view of one pair shows: the marked tokens; if none are marked, the pair with
 * the largest weight. If several heads are selected, it is the head with the largest weight on the pair, which stays
 * the same as long as the selection does. null: no head is selected.
 * @returns {?Focus}
 */
export function focused() {
    const heads = selectedHeads(), { layer } = state;
    if (!heads.length) return null;
    const strongest = h => {
        const s = page.stats[layer][h];
        if (state.row < 0) return s.best ? s.best.weight : 0;
        const r = page.weights.row(layer, h, state.row);
        return state.key >= 0 ? r[state.key] : topKey(r, -1, -1).w;
    };
    const at = [page.version, state.stack, layer, heads].join();
    if (focus.at !== at) {
        focus.at = at;
        focus.head = heads.length === 1 ? heads[0] : heads.reduce((a, b) => strongest(b) > strongest(a) ? b : a);
    }
    const head = focus.head, best = page.stats[layer][head].best;
    const i = state.row >= 0 ? state.row : best ? best.row : page.visible[0] ?? 0;
    let j = state.key;
    if (j < 0) j = topKey(page.weights.row(layer, head, i), -1, -1).to;
    return { layer, head, i, j: j < 0 ? 0 : j };
}

const scored = { at: "", of: null };
/**
 * Computes the scores of query i with every key; null if the file has no queries and keys of this layer.
 * @param {Focus} focus
 * @returns {?Scores}
 */
export function scoresOf({ layer, head, i }) {
    const at = [page.version, state.stack, layer, head, i].join();
    if (scored.at === at) return scored.of;
    const q = page.weights.q(layer, head, i), S = page.S;
    scored.at = at;
    if (!q || !page.weights.k(layer, head, 0)) return scored.of = null;
    const of = {
        E: q.length, q, S, dot: new Float64Array(S), error: new Float64Array(S), bias: new Float64Array(S),
        masked: new Uint8Array(S), seen: 0,
        biased: false
    };
    of.own = 1 / (page.stack.about.scale?.[layer] || 1 / sqrt(of.E));
    of.cap = page.stack.about.softcap?.[layer] || 0;
    for (let j = 0; j < S; j++) {
        const s = page.weights.score(layer, head, i, j);
        of.dot[j] = s.dot;
        of.error[j] = s.error;
        of.bias[j] = s.bias || 0;
        of.masked[j] = s.masked ? 1 : 0;
        of.biased ||= !!s.bias;
    }
    const row = page.weights.row(layer, head, i);
    of.broken = row[0] !== row[0] || of.dot.some(x => x !== x);
    if (!row.some(w => w)) of.masked.fill(1); // a row of a padding token attends to no key
    else if (!of.broken) of.row = row;
    of.seen = of.masked.reduce((n, m) => n + +!m, 0);
    of.k = j => page.weights.k(layer, head, j);
    of.v = j => page.weights.v(layer, head, j);
    of.most = of.error.reduce((most, e, j) => of.masked[j] ? most : max(most, e), 0);
    of.off = Object.fromEntries(["q", "k", "v"].map(name => [name, page.weights.error(layer, name)]));
    of.score = (j, by) => {
        const x = of.dot[j] / by;
        return (of.cap ? of.cap * Math.tanh(x / of.cap) : x) + of.bias[j];
    };
    return scored.of = of;
}
// These format numbers with the decimals that the page knows: the product q.k of key j, its score with a divisor, an
// element of a vector ("q", "k" or "v"), a product of an element of q and one of k, a weight times an element of v.
export const dotText = (of, j, digits = 2) => certain(of.dot[j], of.error[j], digits);
export const scoreText = (of, j, by, digits = 2) => certain(of.score(j, by), of.error[j] / by, digits);
export const elementText = (of, name, x) => vectorText(of.off[name], x);
// All decimals of a vector that is stored as decimals are those that the command prints.
const vectorText = (off, x) => off === 5e-4 || off === 5e-5 ? signed(x, off === 5e-5 ? 4 : 3) : certain(x, off, 3);
export const productError = (of, q, k) => abs(q) * of.off.k + abs(k) * of.off.q;
export const productText = (of, q, k, digits = 3) => certain(q * k, productError(of, q, k), digits);
export const factors = (of, q, k) => el(
    "td", {}, `${elementText(of, "q", q)} × ${elementText(of, "k", k)} = `, el("b", {}, productText(of, q, k))
);
export const weighedText = (of, w, v, digits = 3) =>
    certain(w * v, w * of.off.v + abs(v) * errorOfWeights(), digits);
export const weighed = (of, w, v) =>
    el("td", {}, `${weight(w, 3)} × ${elementText(of, "v", v)} = `, el("b", {}, weighedText(of, w, v)));
export const isOwnDivisor = (of, by) => Math.abs(by / of.own - 1) < 1e-3;
/**
 * Computes the softmax of these scores divided by `by`.
 * @param {Scores} of
 * @param {number} by
 * @returns {{ w: Float64Array, keys: number, gradient: number, top: number, sum: number }} keys: effective keys, e to
 *     the entropy; gradient: the sum of w (1 - w), the trace of the Jacobian; top: the largest score; sum: of the
 *     exponentials
 */
export function weightsAt(of, by) {
    const w = new Float64Array(of.S), own = of.row && isOwnDivisor(of, by);
    let top = -Infinity, sum = 0, entropy = 0, gradient = 0;
    for (let j = 0; j < of.S; j++) if (!of.masked[j]) top = max(top, w[j] = of.score(j, by));
    for (let j = 0; j < of.S; j++) sum += w[j] = of.masked[j] ? 0 : Math.exp(w[j] - top);
    // the weights of the model itself are the ones that the page stores, not the ones of rounded queries and keys
    if (own) sum = 1 / of.row.reduce((most, x) => max(most, x), 0);
    for (let j = 0; j < of.S; j++) {
        if (own) w[j] = of.row[j];
        else if (sum) w[j] /= sum;
        gradient += w[j] * (1 - w[j]);
        if (w[j] > 0) entropy -= w[j] * Math.log(w[j]);
    }
    return { w, keys: of.seen ? Math.exp(entropy) : 0, gradient, top, sum };
}

/**
 * Chooses the keys that have a line of their own: all keys if there are at most MOST_ROWS; if there are more, the
 * strongest keys and the chosen one. The others are folded.
 * @param {Scores} of
 * @param {ArrayLike<number>} w
 * @param {number} chosen
 * @returns {KeyLine[]} in the order of the text
 */
export const MOST_ROWS = 64;
const KEPT_ROWS = 24;
export const MOST_CURVES = 40;
export function keyLines(of, w, chosen) {
    const S = of.S, order = Array.from({ length: S }, (_, j) => j), own = new Uint8Array(S);
    const open = order.filter(j => !of.masked[j]);
    if (open.length <= MOST_ROWS) for (const j of open) own[j] = 1;
    else for (const j of open.sort((a, b) => w[b] - w[a]).slice(0, KEPT_ROWS)) own[j] = 1;
    const hidden = order.filter(j => of.masked[j]);
    for (const j of hidden.slice(0, hidden.length <= 4 ? 4 : 2)) own[j] = 1;
    own[chosen] = 1;
    const out = [];
    for (const j of order) {
        const last = out[out.length - 1];
        if (own[j]) out.push({ j });
        else if (last?.n && last.masked === !!of.masked[j]) { last.n++; last.w += w[j]; }
        else out.push({ from: j, n: 1, w: w[j], masked: !!of.masked[j] });
    }
    return out.map(r => r.n === 1 ? { j: r.from } : r); // one key takes no more space than its fold
}
export const keyName = j => page.keys[j].special ? page.keys[j].text : `“${page.keys[j].named}”`;
export const shownToken = t => state.raw ? t.rawNamed : t.named;

// ---- controls --------------------------------------------------------------------------------------
// Makes the lists that select query, key, layer and head. If the text has more than 512 tokens, number fields select
// query and key.
export function pickers() {
    const make = (name, n, text, act) => {
        const node = n <= 512
            ? el(
                "select", { "aria-label": name },
                ...Array.from({ length: n }, (_, i) => el("option", { value: i }, text(i)))
            )
            : el("input", { type: "number", min: 0, max: n - 1, "aria-label": name });
        node.addEventListener("change", () => act(min(n - 1, max(0, floor(+node.value) || 0))));
        return node;
    };
    const token = list => i => `${i} ${list[i].text}`.slice(0, 40), number = i => i;
    const all = {};
    if (page.stacks.length > 1) {
        all.stack = make(say("stack"), page.stacks.length, n => page.stacks[n].name, n => set({ stack: n }));
        all.stack.value = state.stack;
    }
    Object.assign(all, {
        query: make(say("query"), page.T, token(page.tokens), i => set({ row: i })),
        key: make(say("key"), page.S, token(page.keys), j => set({ row: focused()?.i ?? -1, key: j })),
        layer: make(say("layer"), page.L, number, l => set({ layer: l })),
        head: make(say("theHead"), page.H, number, h => set({ selected: [h] }))
    });
    const node = el(
        "div", { class: "pickers" },
        ...Object.keys(all).map(name =>
            el("label", {}, el("span", {}, say(name === "head" ? "theHead" : name)), all[name]))
    );
    return { node, all, show(f) {
        if (f)
            Object.assign(all.query, { value: f.i }), Object.assign(all.key, { value: f.j }), Object.assign(
                all.head, { value: f.head }
            );
        all.layer.value = state.layer;
    } };
}
// Makes a group of buttons, one of which is pressed. list has elements { id, text }.
export function choices(name, list, now, act) {
    const buttons = list.map(([id, text]) => {
        const b = el("button", {}, text);
        onClick(b, () => act(id));
        return [id, b];
    });
    const node = el("div", { class: "choices", role: "group", "aria-label": name }, ...buttons.map(b => b[1]));
    return { node, show() { for (const [id, b] of buttons) b.setAttribute("aria-pressed", id === now()); } };
}
// Makes a table of names and numbers.
export const pairsOf = rows => el("table", { class: "pairs" }, el("tbody", {}, ...rows.map(([name, value, kind]) => {
    const tr = cells(el("td", { class: "text" }, name), value);
    if (kind) tr.className = kind;
    return tr;
})));
// Marks the next key in direction `by`; the query stays.
function walkKeys(by) {
    const f = focused();
    if (!f) return;
    set({ row: f.i, key: min(page.S - 1, max(0, f.j + by)) });
}
/**
 * Returns true, or why the page cannot show queries: no layer has its vectors in the file.
 * @returns {true | string}
 */
export function canVectors() {
    for (let l = 0; l < page.L; l++) if (page.weights?.q?.(l, 0, 0) && page.weights.k(l, 0, 0)) return true;
    return say(page.stack.about.width ? "noneVectors" : "neverVectors");
}
// Describes how the score of key j follows from its dot product, such as "÷ √32 = 4.14".
export function scaling(of, j, by) {
    const more = [of.cap ? say("cappedAt", of.cap) : "", of.biased ? say("withBias", signed(of.bias[j])) : ""].filter(
        t => t
    ).join(
        ", "
    );
    return `÷ ${abs(by / of.own - 1) < 1e-3 ? rootName(of) : signed(by)}${more ? `, ${more}:` : " ="} ` +
        scoreText(of, j, by);
}
// Returns why the pair cannot be drawn; "" if it can.
export function whyNot(f, of) {
    return !f ? say("choose") : !of ? say("noVectors", f.layer) : of.broken ? say("notNumber", quote(f.i)) : "";
}
// The keys for the views of one pair.
/** @returns {KeyRow[]} */
export const pairKeys = pick => [
    ["↑ ↓", "key", e => e.key === "ArrowUp" || e.key === "ArrowDown", e => walkKeys(e.key === "ArrowUp" ? -1 : 1), 1],
    [
        "← →", "layer", e => e.key === "ArrowLeft" || e.key === "ArrowRight",
        e => stepLayerBy(e.key === "ArrowLeft" ? -1 : 1), 1
    ],
    ["0…9 - =", "head (0 to 11)", e => !e.shiftKey && headOfKey(e) >= 0, e => set({ selected: [headOfKey(e)] }), 1],
    ["Q", "choose the query", "q", () => pick().all.query.focus(), 1],
    [
        "Y", "encoder, decoder, cross", "y", () => set({ stack: (state.stack + 1) % page.stacks.length }),
        () => page.stacks.length > 1
    ]
];
// Called when a view of one pair opens from the view heads: the pair under the pointer becomes its pair.
export function takePointed() {
    const p = stage.pointer;
    stage.pointer = null;
    if (!p) return;
    if (p.row >= 0) Object.assign(state, { row: p.row, key: -1 });
    else if (p.key >= 0 && state.row >= 0) state.key = p.key;
}

export const still = matchMedia("(prefers-reduced-motion: reduce)");
export const rootName = of => abs(of.own - sqrt(of.E)) < 1e-3 * of.own ? `√${of.E}` : signed(of.own);
