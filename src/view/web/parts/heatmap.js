// SPDX-License-Identifier: MIT
// heatmap.js: draws weights as points, each of which may represent a square of tokens. The points are computed in
// slices of time and coloured by the ramp.
//
// A level is the matrix as n x m points: token i is in row floor(i n / T), key j in column floor(j m / S), as in the
// blocks of the file. A point is the maximum or the mean of the weights in its square.
import { ceil, floor, max, min, round, sqrt } from "../base/math.js";
import { page, state } from "../base/state.js";
import { hue, rampAt } from "../base/palette.js";

// ---- time: long computations run in slices, so that the page stays responsive ---------------------------
const HEAT_SLICE = 6;
const tasks = new Map();
let sliceTimer = 0;
/**
 * Runs step(end) in slices of time: it works until performance.now() reaches end, and returns true when it is done. A
 * new step with the same name replaces the old one.
 * @param {string} name
 * @param {(end: number) => boolean} step
 */
export function runInSlices(name, step) {
    tasks.set(name, step);
    if (!sliceTimer) sliceTimer = setTimeout(runSlice);
}
function runSlice() {
    const end = performance.now() + HEAT_SLICE;
    for (const [name, step] of [...tasks]) {
        if (performance.now() >= end) break;
        if (step(end) && tasks.get(name) === step) tasks.delete(name);
    }
    sliceTimer = tasks.size ? setTimeout(runSlice) : 0;
}

// ---- colour: weight to the 32 bits of a pixel ----------------------------------------------------------
const SHADE_STEPS = 1024;
const NOT_A_NUMBER = SHADE_STEPS;
const MASKED = SHADE_STEPS + 1;
const pixelOf = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
// Returns the darkness (0..1) of a weight. For up to 128 keys, the scale is 0..1; for more keys, it is relative to s.
// On the log scale, it is the darkness of the logarithm.
export function darkness(w, s) {
    if (state.log) return w > 0 ? max(0, 1 + Math.log10(w / (s || 1)) / 4) : 0;
    return s ? sqrt(min(1, w / s)) : w ** .7;
}
// Returns the colours for a scale (0: fixed) as pixels: SHADE_STEPS steps of sqrt(w / s), then NaN, then masked.
// kind: the function that returns the colour of a kind of head, whose ramp is then used, with the square root as its
// scale, so that weak weights are seen in a small picture.
const shadeTables = new Map();
export function shadesOf(s, kind = null) {
    const of = kind?.() ?? "", key = [hue.dark, hue.forced, hue.text, !!s, state.log, of].join();
    let table = shadeTables.get(key);
    if (!table) {
        table = new Uint32Array(SHADE_STEPS + 2);
        for (let k = 0; k < SHADE_STEPS; k++) {
            const w = (k / (SHADE_STEPS - 1)) ** 2;
            table[k] = pixelOf(of ? kindShade(darkness(w, 1), of) : rampAt(darkness(w, s ? 1 : 0)));
        }
        table[NOT_A_NUMBER] = pixelOf(hue.text3.match(/\d+/g).map(Number));
        table[MASKED] = 0;
        if (shadeTables.size > 24) shadeTables.clear();
        shadeTables.set(key, table);
    }
    return table;
}
// Returns the colour of darkness x in the ramp of a kind: from paper to its colour at .75, then to the colour of text.
function kindShade(x, colour) {
    const numbers = c =>
        c[0] === "#" ? [1, 3, 5].map(n => parseInt(c.slice(n, n + 2), 16)) : c.match(/\d+/g).map(Number);
    const [from, to] = (x < .75 ? [hue.paper, colour] : [colour, hue.text]).map(numbers);
    const f = x < .75 ? x / .75 : (x - .75) / .25 * .5;
    return from.map((c, n) => round(c + f * (to[n] - c)));
}
// Writes n weights as pixels to pixels[to..].
export function shadeRow(pixels, to, w, from, n, table, s) {
    const times = 1 / (s || 1);
    for (let c = 0; c < n; c++) {
        const x = sqrt(w[from + c] * times);
        pixels[to + c] = table[x < 1 ? x * (SHADE_STEPS - 1) + .5 | 0 : x >= 1 ? SHADE_STEPS - 1 : NOT_A_NUMBER];
    }
}
// Returns the weight that is drawn darkest in a long text: only .15 % of the weights in list exceed it.
export function scaleOf(list) {
    const bins = new Uint32Array(2048);
    let n = 0, most = 0;
    for (const w of list)
        for (let k = 0; k < w.length; k++)
            if (w[k] > 0) { n++; bins[min(2047, sqrt(w[k]) * 2048 | 0)]++; if (w[k] > most) most = w[k]; }
    let left = n * .0015, k = 2047;
    while (k > 0 && (left -= bins[k]) >= 0) k--;
    return min(most, ((k + 1) / 2048) ** 2) || 1;
}
export const fixedScale = () => page.S <= 128;

// ---- points ----------------------------------------------------------------------------------------------
export const firstOf = (r, n, T) => ceil(r * T / n); // first token of row r, if the matrix has n rows
// Returns the number of points per side of each level, from coarse to fine. The last level has a point per token.
export function levelsOf(T, S) {
    const out = [], most = max(T, S);
    for (let n = 64; n < most; n *= 2) out.push(n);
    return [...out, most];
}

// Returns how many points per side the finest level in the file has, for a layer; 0: the file has none.
function sideOf(layer) {
    const array = page.about.arrays.find(a => a.name === "max" && a.stack === state.stack && a.layer === layer);
    return array ? array.shape[1] : 0;
}

// Several heads of a layer that are drawn as one: each point is the mean of the points of the heads.
export class Field {
    constructor(layer, heads) {
        this.layer = layer;
        this.heads = heads;
        this.weights = page.weights;
        this.T = page.T;
        this.S = page.S;
        this.rows = new Map();
        this.held = 0;
        this.whole = new Map();
        this.sparse = !page.weights.whole(layer);
        this.side = sideOf(layer);
    }
    // Returns the points of a level of the whole text from the file; null if the file does not have them.
    pooled(n, kind) {
        const key = n + kind;
        if (!this.whole.has(key)) this.whole.set(key, this.gather(n, kind));
        return this.whole.get(key);
    }
    gather(n, kind) {
        if (n > this.side || n >= max(this.T, this.S)) return null;
        const all = this.heads.map(h => this.weights.pyramid(this.layer, h, n, kind));
        return all.length > 1 ? meanOf(all) : all[0];
    }
    // Returns the points from..to of row r of a level as { from, max, mean }; null if they are not known yet.
    known(n, r, from, to) {
        const p = this.rows.get(n * 2 ** 21 + r);
        return p && p.from <= from && p.to >= to ? p : null;
    }
    fill(n, r, from, to) {
        const all = this.heads.map(h => this.points(h, n, r, from, to));
        const p = { from, to, max: meanOf(all.map(x => x.max)), mean: meanOf(all.map(x => x.mean)) };
        const key = n * 2 ** 21 + r, old = this.rows.get(key);
        if (old) { this.held -= old.max.length; this.rows.delete(key); }
        this.rows.set(key, p);
        this.held += to - from;
        for (const [k, q] of this.rows) { // drop the rows that were computed first
            if (this.held < 4e6) break;
            this.rows.delete(k);
            this.held -= q.max.length;
        }
        return p;
    }
    // Computes the points of one head.
    points(h, n, r, from, to) {
        const { T, S, layer } = this, rows = min(n, T), columns = min(n, S), wide = to - from;
        const p = { from, max: new Float32Array(wide), mean: new Float32Array(wide) };
        const i0 = firstOf(r, rows, T);
        const i1 = firstOf(r + 1, rows, T);
        const j0 = firstOf(from, columns, S);
        const j1 = firstOf(to, columns, S);
        for (let i = i0; i < i1; i++)
            if (this.sparse) addKept(p, this.weights.slots(layer, h, i), j0, j1, columns, S);
            else addRow(p, this.weights.row(layer, h, i), j0, columns, S);
        if (columns < S || rows < T)
            for (let c = 0; c < wide; c++)
                p.mean[c] /= (i1 - i0) * (firstOf(from + c + 1, columns, S) - firstOf(from + c, columns, S));
        return p;
    }
    // Returns one row of weights.
    row(i) {
        return meanOf(this.heads.map(h => this.weights.row(this.layer, h, i)));
    }
    at(i, j) {
        return this.heads.reduce((s, h) => s + this.weights.pair(this.layer, h, i, j), 0) / this.heads.length;
    }
    // Returns the weight of row i that the file does not have.
    rest(i) {
        return this.sparse
            ? this.heads.reduce((s, h) => s + this.weights.rest(this.layer, h, i), 0) / this.heads.length
            : 0;
    }
    // Returns the stored keys and weights of row i, [[key, weight], ...], in descending order.
    kept(i) {
        const sum = new Map();
        for (const h of this.heads)
            for (const [j, w] of this.weights.slots(this.layer, h, i))
                sum.set(j, (sum.get(j) ?? 0) + w / this.heads.length);
        return [...sum].sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    }
}
function meanOf(lists) {
    if (lists.length < 2) return lists[0];
    const out = lists[0].slice();
    for (const list of lists.slice(1)) for (let k = 0; k < out.length; k++) out[k] += list[k];
    return out.map(x => x / lists.length);
}
function addKept(p, list, j0, j1, columns, S) {
    for (const [j, w] of list) {
        if (j < j0 || j >= j1) continue;
        const c = floor(j * columns / S) - p.from;
        p.mean[c] += w;
        if (!(w <= p.max[c])) p.max[c] = w;
    }
}
function addRow(p, row, j0, columns, S) {
    const wide = p.max.length;
    for (let c = 0, j = j0; c < wide; c++) {
        const end = columns === S ? j + 1 : firstOf(p.from + c + 1, columns, S);
        let most = p.max[c], sum = 0;
        for (; j < end; j++) {
            const w = row[j];
            sum += w;
            if (!(w <= most)) most = w;
        }
        p.max[c] = most;
        p.mean[c] += sum;
    }
}

// Makes the hatching of masked cells: lines at 45 degrees on the colour of paper.
const hatchTile = { key: "", tile: null };
export function hatchOf(c) {
    const key = [hue.paper, hue.rule].join();
    if (hatchTile.key !== key) {
        const tile = document.createElement("canvas");
        tile.width = tile.height = 6;
        const t = tile.getContext("2d");
        t.strokeStyle = hue.rule;
        t.beginPath();
        for (const x of [-6, 0, 6]) { t.moveTo(x, 6); t.lineTo(x + 6, 0); }
        t.stroke();
        hatchTile.key = key;
        hatchTile.tile = tile;
    }
    return c.createPattern(hatchTile.tile, "repeat");
}
// Returns true if a layer masks keys; weights.span() says which.
export const hasMask = layer =>
    page.causal || page.keyPadding > 0 || page.stack.about.left[layer] >= 0 || page.stack.about.right[layer] >= 0;
