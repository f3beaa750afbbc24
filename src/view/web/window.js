// SPDX-License-Identifier: MIT
// window.js: the head view of a long text: some rows around the marked one, and of the keys only
// those that they read; what lies between is folded and said.

const WHOLE = 512, ROWS = 60, SLOTS = 64, MARKED = 16;
const win = { from: 0, now: null, placed: null };
const windowed = () => max(page.T, page.S) > WHOLE;

// Rows of the window; keys and folds of the last window that was read to its end.
function placeWindow() {
    const last = max(0, page.visible.length - ROWS);
    win.from = min(last, max(0, win.from));
    g.rows = page.visible.slice(win.from, win.from + ROWS);
    wantWindow();
    if (win.placed) chooseKeys(win.placed);
    else Object.assign(g, { keys: [], folds: [] });
}
// Moves so that token i stands in it, not at its edge; true when it moved.
function showRow(i) {
    const at = page.visible.indexOf(i), last = max(0, page.visible.length - ROWS);
    if (at < 0) return false;
    const to = at >= win.from + (win.from > 0 ? 4 : 0) && at < win.from + ROWS - (win.from < last ? 4 : 0) ? win.from : min(last, max(0, at - ROWS / 2));
    if (to === win.from) return false;
    win.from = to;
    ask("layout");
    return true;
}
function forgetWindow() {
    win.now = win.placed = null;
    win.from = 0;
}

// Reads the rows of the window in slices; when all are read: ask("layout").
function wantWindow() {
    const key = [state.layer, drawn(), lit(), win.from, state.filter, state.special, page.S].join("|");
    if (win.now?.key === key) return;
    const w = win.now = { key, rows: g.rows, heads: drawn(), done: 0, sum: new Float32Array(page.S), top: new Float32Array(page.S), read: new Float32Array(page.T).fill(-1), whole: 0 };
    const slice = () => {
        if (win.now !== w) return;
        const end = performance.now() + SLICE;
        while (w.done < w.rows.length * w.heads.length && performance.now() < end) countRow(w);
        if (w.done < w.rows.length * w.heads.length) return void setTimeout(slice);
        win.placed = w;
        ask("layout");
    };
    setTimeout(slice);
}
function countRow(w) {
    const i = w.rows[floor(w.done / w.heads.length)], h = w.heads[w.done++ % w.heads.length];
    if (!reads(i)) return;
    let entropy = 0;
    const exact = !(h >= 0 && isSparse(state.layer));
    eachWeight(h, i, page.seen, (j, x) => {
        if (!(x > 0) || !isRead(j)) return;
        w.sum[j] += x;
        if (x > w.top[j]) w.top[j] = x;
    });
    if (exact) {
        for (const x of rowOf(h, i)) if (x > 0) entropy -= x * Math.log(x);
    } else {
        entropy = weights.entropy?.(state.layer, h)?.[i] ?? NaN;
    }
    if (entropy === entropy) w.read[i] = max(0, w.read[i]) + Math.exp(entropy) / w.heads.length;
    w.whole++;
}
// Which keys stand there: the strongest of the marked row, then those of all rows of the window, as many
// as there is room for with the folds between them.
function chooseKeys(w) {
    const shown = new Set(), place = new Int32Array(page.S).fill(-1), rows = state.row >= 0 ? w.heads.map(h => rowOf(h, state.row)) : [];
    page.seen.forEach((j, n) => { place[j] = n; });
    let slots = 1;
    const take = j => { // a key in a fold makes two of it, or one, or none
        if (slots >= SLOTS || shown.has(j)) return;
        const beside = d => shown.has(page.seen[place[j] + d]) || page.seen[place[j] + d] === undefined;
        shown.add(j);
        slots += 2 - beside(-1) - beside(1);
    };
    for (const row of rows) for (const j of strongestOf(page.seen, row, MARKED)) if (row[j] > threshold(state.row) && isRead(j)) take(j);
    if (state.key >= 0) take(state.key);
    for (const j of strongestOf(page.seen, w.top, SLOTS)) if (w.top[j] > 0) take(j);
    g.keys = [...shown].sort((a, b) => a - b);
    g.folds = [];
    let k = 0, fold = null;
    for (const j of page.seen) {
        if (j === g.keys[k]) {
            k++;
            fold = null;
            continue;
        }
        if (!fold) g.folds.push(fold = { from: j, to: j, n: 0, sum: 0, y: 0, node: null });
        fold.to = j;
        fold.n++;
        fold.sum += w.sum[j];
    }
}
// Weight that goes to what is folded: of the marked row, else of a row of the window, means of the heads.
function foldWeight(fold, rows) {
    if (!rows.length) return fold.sum / max(1, win.placed.whole);
    let sum = 0;
    for (const row of rows) for (let j = fold.from; j <= fold.to; j++) if (isKey(j)) sum += row[j];
    return sum / rows.length;
}
function windowSums() {
    const w = win.placed;
    return w && { keysRead: i => w.read[i], received: j => w.sum[j] / w.heads.length };
}
