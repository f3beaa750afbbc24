// SPDX-License-Identifier: MIT
// row_window.js: chooses the rows and the keys that the head view of a long text shows: the rows around the marked row,
// and only the keys to which they attend. The keys between them are folded; a fold shows their number.
import { floor, max, min, strongestOf } from "./math.js";
import { geometry, isKey, keyPasses, selectedHeads, page, rowPasses, state, threshold } from "./state.js";
import { SLICE, drawn, eachWeight, isSparse, rowOf } from "./aggregate.js";
import { requestDraw } from "./drawing.js";

const WHOLE = 512;
export const ROWS = 60;
const SLOTS = 64;
const MARKED = 16;
export const win = { from: 0, now: null, placed: null };
export const windowed = () => max(page.T, page.S) > WHOLE;

// Sets the rows of the window. Keys and folds stay as in the last window whose rows are all known.
export function placeWindow() {
    const last = max(0, page.visible.length - ROWS);
    win.from = min(last, max(0, win.from));
    geometry.rows = page.visible.slice(win.from, win.from + ROWS);
    requestWindow();
    if (win.placed) chooseKeys(win.placed);
    else Object.assign(geometry, { keys: [], folds: [] });
}
/**
 * Moves the window so that token i is inside and not at the edge. Returns true if it moved.
 * @param {number} i
 */
export function showRow(i) {
    const at = page.visible.indexOf(i), last = max(0, page.visible.length - ROWS);
    if (at < 0) return false;
    const to = at >= win.from + (win.from > 0 ? 4 : 0) && at < win.from + ROWS - (win.from < last ? 4 : 0)
        ? win.from
        : min(last, max(0, at - ROWS / 2));
    if (to === win.from) return false;
    win.from = to;
    requestDraw("layout");
    return true;
}
export function forgetWindow() {
    win.now = win.placed = null;
    win.from = 0;
}

// Reads the rows of the window in slices of time. When all are read, requests the layout.
export function requestWindow() {
    const key = [state.layer, drawn(), selectedHeads(), win.from, state.filter, state.special, page.S].join("|");
    if (win.now?.key === key) return;
    const w = win.now = {
        key, rows: geometry.rows, heads: drawn(), done: 0, sum: new Float32Array(page.S), top: new Float32Array(page.S),
        read: new Float32Array(page.T).fill(-1), whole: 0
    };
    const slice = () => {
        if (win.now !== w) return;
        const end = performance.now() + SLICE;
        while (w.done < w.rows.length * w.heads.length && performance.now() < end) countRow(w);
        if (w.done < w.rows.length * w.heads.length) return void setTimeout(slice);
        win.placed = w;
        requestDraw("layout");
    };
    setTimeout(slice);
}
function countRow(w) {
    const i = w.rows[floor(w.done / w.heads.length)], h = w.heads[w.done++ % w.heads.length];
    if (!rowPasses(i)) return;
    let entropy = 0;
    const exact = !(h >= 0 && isSparse(state.layer));
    eachWeight(h, i, page.visibleKeys, (j, x) => {
        if (!(x > 0) || !keyPasses(j)) return;
        w.sum[j] += x;
        if (x > w.top[j]) w.top[j] = x;
    });
    if (exact) {
        for (const x of rowOf(h, i)) if (x > 0) entropy -= x * Math.log(x);
    } else {
        entropy = page.weights.entropy?.(state.layer, h)?.[i] ?? NaN;
    }
    if (entropy === entropy) w.read[i] = max(0, w.read[i]) + Math.exp(entropy) / w.heads.length;
    w.whole++;
}
// Chooses the keys to show: first the strongest keys of the marked row, then the keys with the largest weights in all
// rows of the window. With the folds between them they take at most SLOTS lines.
function chooseKeys(w) {
    const shown = new Set();
    const place = new Int32Array(page.S).fill(-1);
    const rows = state.row >= 0 ? w.heads.map(h => rowOf(h, state.row)) : [];
    page.visibleKeys.forEach((j, n) => { place[j] = n; });
    let slots = 1;
    const take = j => { // showing a key splits its fold into two, one or no folds
        if (slots >= SLOTS || shown.has(j)) return;
        const shownAt = d => shown.has(page.visibleKeys[place[j] + d]) || page.visibleKeys[place[j] + d] === undefined;
        shown.add(j);
        slots += 2 - +shownAt(-1) - +shownAt(1);
    };
    for (const row of rows)
        for (const j of strongestOf(page.visibleKeys, row, MARKED))
            if (row[j] > threshold(state.row) && keyPasses(j)) take(j);
    if (state.key >= 0) take(state.key);
    for (const j of strongestOf(page.visibleKeys, w.top, SLOTS)) if (w.top[j] > 0) take(j);
    geometry.keys = [...shown].sort((a, b) => a - b);
    geometry.folds = [];
    let k = 0, fold = null;
    for (const j of page.visibleKeys) {
        if (j === geometry.keys[k]) {
            k++;
            fold = null;
            continue;
        }
        if (!fold) geometry.folds.push(fold = { from: j, to: j, n: 0, sum: 0, y: 0, node: null });
        fold.to = j;
        fold.n++;
        fold.sum += w.sum[j];
    }
}
// Returns the weight on the keys of a fold, as the mean of the heads: in the marked row or, if no row is marked, as the
// mean over the rows of the window.
export function foldWeight(fold, rows) {
    if (!rows.length) return fold.sum / max(1, win.placed.whole);
    let sum = 0;
    for (const row of rows) for (let j = fold.from; j <= fold.to; j++) if (isKey(j)) sum += row[j];
    return sum / rows.length;
}
export function windowSums() {
    const w = win.placed;
    return w && { effectiveKeys: i => w.read[i], received: j => w.sum[j] / w.heads.length };
}
