// SPDX-License-Identifier: MIT
// stage.js: query tokens left, keys right, links between; text is text, the rest is one canvas.
//
// Up to WHOLE tokens all stand there; longer texts: window.js says which.

// rows, keys: which tokens stand there; y, z: the middles of those of the left and the right column.
const g = { w: 0, h: 0, row: 40, rows: [], keys: [], folds: [], y: null, z: null, x0: 0, x1: 0, bars: 0, sums: 0 };
const stage = { pointer: null };

const lit = () => state.lit.length < 2 ? state.lit : [...state.lit].sort((a, b) => a - b);
const isShown = i => state.special || !page.tokens[i].special || page.allSpecial;
const isKey = j => state.special || !page.keys[j].special || page.allSpecial;
const partOf = c => c === "A" ? 0 : 1;
const reads = i => state.filter === "all" || page.tokens[i].part === partOf(state.filter[0]);
const isRead = j => state.filter === "all" || page.keys[j].part === partOf(state.filter[1]);
// Row i reads the keys from .. end - 1 at most.
function span(i) {
    const of = x => Array.isArray(x) ? x[state.layer] : x, left = of(page.left), right = of(page.right);
    const end = page.causal ? i + 1 : right < 0 ? page.S : min(page.S, i + right + 1);
    return [left < 0 ? 0 : max(0, i - left), end];
}
const threshold = i => { const [from, end] = span(i); return min(.95, state.factor / (end - from)); };
// What the reader points at, else what is pinned.  -1: nothing.
function look() {
    const p = stage.pointer;
    if (p && p.row >= 0) return { row: p.row, key: -1 };
    if (p && p.key >= 0) return { row: state.row, key: p.key, pointed: true };
    return { row: state.row, key: state.key, pointed: state.key >= 0 };
}

function buildStage() {
    stage.box = el("div", { id: "stage", tabindex: 0, role: "group" });
    stage.canvas = el("canvas", { "aria-hidden": "true" });
    stage.tokens = el("div", { id: "tokens", lang: "", translate: "yes" }, el("div"), el("div"), el("div", {}, el("div"), el("div")));
    stage.base = el("canvas", { "aria-hidden": "true" });
    stage.base.style.opacity = 1;
    stage.heading = el("div", { id: "heading" });
    stage.margin = el("span");
    stage.pointer = null;
    stage.box.append(stage.base, stage.canvas, stage.tokens);
    stage.box.addEventListener("pointermove", e => point(e.pointerType === "touch" ? null : at(e)));
    stage.box.addEventListener("pointerleave", () => point(null));
    stage.box.addEventListener("scroll", () => ask("base"));
    onClick(stage.box, e => { if (getSelection().isCollapsed) pin(at(e)); });
    return [stage.heading, stage.box];
}
function point(p) {
    const a = stage.pointer, same = (!a && !p) || (a && p && a.row === p.row && a.key === p.key);
    stage.pointer = p;
    if (!same) ask("look");
}
// Token under the pointer, as a row (left half) or a key (right half).
function at(e) {
    const box = stage.box.getBoundingClientRect(), x = e.clientX - box.left, y = e.clientY - box.top + stage.box.scrollTop;
    const left = x < (g.x0 + g.x1) / 2, list = left ? g.rows : g.keys, places = left ? g.y : g.z;
    let low = 0, high = list.length - 1;
    while (low < high) {
        const mid = low + high >> 1;
        if (y > places[list[mid]] + g.row / 2) low = mid + 1; else high = mid;
    }
    const i = list[low];
    if (i === undefined || abs(y - places[i]) > g.row / 2) return null;
    return left ? { row: i, key: -1 } : { row: -1, key: i };
}
function pin(p) {
    if (!p) return;
    if (p.row >= 0) set({ row: state.row === p.row && state.key < 0 ? -1 : p.row, key: -1 });
    else set({ key: state.key === p.key ? -1 : p.key });
}

// Places of rows and columns for the size of the window; then the token texts.
function layout() {
    const w = stage.box.clientWidth, narrow = innerWidth <= 760, scrolled = stage.box.scrollTop;
    const top = stage.box.getBoundingClientRect().top + scrollY;
    const room = max(340, innerHeight - min(top, innerHeight / 2) - (narrow ? 20 : 20 + $("bottom").offsetHeight));
    if (windowed()) placeWindow();
    else Object.assign(g, { rows: page.visible, keys: page.seen, folds: [] });
    const n = max(g.rows.length, g.keys.length + g.folds.length, 1);
    const split = windowed() ? -1 : page.given ? page.visible.findIndex(i => i >= page.given) : page.pair ? page.visible.findIndex(i => page.tokens[i].part === 1) : -1;
    const gap = split > 0 ? 26 : 0, scrolls = max(page.T, page.S) > 64;
    const least = narrow && !scrolls ? 44 : 18;
    g.row = max(least, min(57, (room - 34 - gap) / n));
    g.total = n * g.row + gap;
    g.w = w;
    g.h = scrolls ? min(g.total, room) : g.total;
    stage.top = min(scrolled, g.total - g.h); // read before anything is written, so that nothing is laid out twice
    const f = w / 808, wide = w >= 620;
    Object.assign(g, wide ? { sums: 57 * f, q: 190 * f, x0: 202 * f, x1: 534 * f, k: 546 * f, bars: 670 * f }
        : w >= 440 ? { sums: 0, q: .27 * w, x0: .27 * w + 10, x1: .62 * w, k: .62 * w + 10, bars: .84 * w }
        : { sums: 0, q: .34 * w, x0: .34 * w + 8, x1: .66 * w, k: .66 * w + 8, bars: 0 });
    g.y = new Float32Array(page.T).fill(-1);
    g.rows.forEach((i, r) => { g.y[i] = (r + .5) * g.row + (split > 0 && r >= split ? gap : 0); });
    g.z = page.tokens === page.keys && !windowed() ? g.y : placeKeys();
    stage.box.style.height = g.h + "px";
    const dpr = devicePixelRatio || 1;
    for (const c of [stage.canvas, stage.base]) {
        c.width = max(1, round(w * dpr));
        c.height = max(1, round(g.h * dpr));
        c.style.width = w + "px";
        c.style.height = g.h + "px";
    }
    stage.canvas.style.marginTop = -g.h + "px"; // the two lie on each other
    stage.tokens.style.height = g.total + "px";
    stage.dpr = dpr;
    layTokens(split, gap);
    const head = (key, x, right) => {
        const s = el("span", {}, say(key));
        s.style[right ? "right" : "left"] = (right ? w - x : x) + "px";
        return s;
    };
    stage.margin = el("span", {}, say("received"));
    stage.margin.style.left = g.bars + "px";
    const cross = page.tokens !== page.keys;
    stage.heading.replaceChildren(...(g.sums ? [head("keysRead", g.sums, true)] : []), head(cross ? "asksOutput" : "asks", g.q, true), head(cross ? "readsInput" : "readsFrom", g.k), ...(g.bars && wide ? [stage.margin] : []));
}
// The right column where it is not the left one again: keys, and what is folded between them.
function placeKeys() {
    const z = new Float32Array(page.S).fill(-1);
    let at = 0, f = 0;
    for (const j of g.keys) {
        while (f < g.folds.length && g.folds[f].from < j) g.folds[f++].y = at++ * g.row + g.row / 2;
        z[j] = at++ * g.row + g.row / 2;
    }
    while (f < g.folds.length) g.folds[f++].y = at++ * g.row + g.row / 2;
    return z;
}

// The spans are used again: a window that moves, or folds that follow the mark, change a few of them.
function layTokens(split, gap) {
    const size = g.row >= 24 ? 16 : 13, pad = g.row > 30 ? 3 : 0, tall = g.row - 2 * pad;
    const [rows, keys, more] = stage.tokens.children;
    const spans = (box, n, name) => {
        while (box.children.length < n) box.append(el("span", { class: name }, el("bdi")));
        while (box.children.length > n) box.lastChild.remove();
        return box.children;
    };
    const place = (s, text, left, right, top, tall, size) => {
        if (s.firstChild.textContent !== text) s.firstChild.textContent = text;
        const style = `left:${left}px;width:${right - left}px;top:${top}px;height:${tall}px;line-height:${tall}px;font-size:${size}px`;
        if (s.placed !== style) s.style.cssText = s.placed = style;
    };
    const lay = (spans, list, tokens, places, left, right) => new Map(list.map((i, n) => {
        place(spans[n], state.raw ? tokens[i].raw : tokens[i].text, left, right, places[i] - g.row / 2 + pad, tall, size);
        return [i, spans[n]];
    }));
    const end = (g.bars || g.w) - 4;
    stage.q = lay(spans(rows, g.rows.length, "q"), g.rows, page.tokens, g.y, g.sums + 8, g.q + 6);
    stage.k = lay(spans(keys, g.keys.length, "k"), g.keys, page.keys, g.z, g.k - 6, end);
    const folds = spans(more.lastChild, g.folds.length, "fold");
    g.folds.forEach((fold, n) => {
        fold.node = folds[n];
        place(folds[n], folds[n].textContent, g.k - 6, end, fold.y - 9, 18, 11);
    });
    const marks = [];
    if (split > 0) {
        const hr = el("hr");
        hr.style.top = split * g.row + gap / 2 + "px";
        marks.push(hr);
    }
    if (split > 0 && g.sums) (page.given ? ["", say("made")] : ["A", "B"]).forEach((name, k) => {
        const s = el("span", { class: page.given ? "part word" : "part", lang: "en" }, name);
        s.style.top = g.y[page.visible[k ? split : 0]] - (page.given ? g.row / 2 + 10 : 12) + "px"; // a word stands in the gap, above the numbers
        marks.push(s);
    });
    more.firstChild.replaceChildren(...marks);
}

function inView(list, places) {
    if (g.h >= g.total) return list;
    const { top } = stage, end = top + g.h;
    return list.filter(i => places[i] + g.row / 2 > top && places[i] - g.row / 2 < end);
}
const rowsOnStage = () => inView(g.rows, g.y);
const keysOnStage = () => inView(g.keys, g.z);

// The links of all rows in view, into stage.base.  Returns false when rows were left for the next frame.
function drawBase() {
    const c = stage.base.getContext("2d"), { top } = stage;
    c.setTransform(stage.dpr, 0, 0, stage.dpr, 0, 0);
    c.clearRect(0, 0, g.w, g.h);
    gather(rowsOnStage(), top, performance.now() + 3);
    strokeLinks(c, g, top);
    if (g.h < g.total) strokeLeaving(c, links.leaving, top);
    return !links.missing;
}
// What leaves the view: of each row and head one dashed link a side, as dark as their sum, that fades
// out at the edge.
function strokeLeaving(c, list, top) {
    const heads = drawn();
    const edge = (side, colour) => {
        const fade = c.createLinearGradient(0, side ? g.h - 40 : 40, 0, side ? g.h : 0);
        fade.addColorStop(0, colour);
        fade.addColorStop(1, hue.dark ? "rgba(0,0,0,0)" : "rgba(255,255,255,0)");
        return fade;
    };
    const colours = heads.map(h => [0, 1].map(side => edge(side, linkColour(h))));
    c.setLineDash([2, 4]);
    for (const [m, i, side, w] of list) {
        const tau = threshold(i);
        if (w <= tau) continue;
        c.strokeStyle = colours[m][side];
        strokeLink(c, g.x0, g.y[i] - top + lane(m, heads.length, g.row), g.x1, side ? g.h + 30 : -30, rise(w, tau) * .2);
    }
    c.setLineDash([]);
    c.globalAlpha = 1;
}

// What the reader points at, above the rest, which pales.
function drawStage() {
    const c = stage.canvas.getContext("2d"), l = look(), any = l.row >= 0 || l.key >= 0, { top } = stage;
    const pale = any ? hue.dark ? .07 : .11 : 1;
    if (+stage.base.style.opacity !== pale) stage.base.style.opacity = pale;
    c.setTransform(stage.dpr, 0, 0, stage.dpr, 0, 0);
    c.clearRect(0, 0, g.w, g.h);
    if (l.row >= 0 && g.y[l.row] >= 0) strokeRow(c, l, top);
    else if (l.key >= 0) strokeLinks(c, g, top, (i, j) => j === l.key);
    drawMargins(c, l, top);
    markTokens(l);
}
// One row's links, all of them.
function strokeRow(c, l, top) {
    const heads = drawn(), tau = threshold(l.row), leaving = [];
    c.globalCompositeOperation = blend();
    heads.forEach((h, m) => {
        const dy = lane(m, heads.length, g.row), gone = [0, 0];
        c.strokeStyle = linkColour(h);
        eachWeight(h, l.row, g.keys, (j, w) => {
            if (!(w > tau) || g.z[j] < 0 || !isRead(j) || (l.pointed && j !== l.key)) return;
            const side = beyond(j, top);
            if (side < 0) strokeLink(c, g.x0, g.y[l.row] - top + dy, g.x1, g.z[j] - top + dy, rise(w, tau));
            else gone[side] += w;
        });
        gone.forEach((w, side) => leaving.push([m, l.row, side, w]));
    });
    c.globalAlpha = 1;
    c.globalCompositeOperation = "source-over";
    if (g.h < g.total) strokeLeaving(c, leaving, top);
}
// 0: key j is above the view, 1: below, -1: in it.
const beyond = (j, top) => g.h >= g.total ? -1 : g.z[j] < top ? 0 : g.z[j] > top + g.h ? 1 : -1;

// ---- margins: left keys read; right attention received, or one bar a head of the marked row ----------
function drawMargins(c, l, top) {
    const heads = drawn(), sums = heads.length ? marginSums(heads) : null;
    c.font = `${g.row < 24 ? 11 : 12}px ${page.font}`;
    c.textBaseline = "middle";
    if (g.sums && sums) {
        c.textAlign = "right";
        for (const i of rowsOnStage()) {
            const keys = sums.keysRead(i);
            c.fillStyle = i === l.row ? hue.ink : hue.ink3;
            if (keys >= 0) c.fillText(keys.toFixed(1), g.sums, g.y[i] - top + 1);
        }
    }
    if (!g.bars) return;
    c.textAlign = "left";
    const long = min(102, g.w - g.bars - 40);
    if (l.row >= 0) drawBars(c, l, top, heads, long);
    else if (sums) drawReceived(c, l, top, sums.received, long);
    if (g.h < g.total) drawBeyond(c, l, top);
}
// { keysRead(i), received(j) }, means of the heads; null while they are being counted.
function marginSums(heads) {
    if (windowed()) return windowSums();
    if (!surveyed(state.layer, heads)) return null;
    const all = heads.map(h => survey(state.layer, h)), mean = of => all.reduce((s, x) => s + of(x), 0) / all.length;
    return { keysRead: i => mean(s => s.keys[i]), received: j => mean(s => receivedOf(s, j)) };
}
function receivedOf({ got }, j) {
    if (state.filter === "all") return got[0][j] + got[1][j] + (state.special ? got[2][j] : 0);
    return isRead(j) ? got[partOf(state.filter[0])][j] : 0;
}
function drawBars(c, l, top, heads, long) {
    const row = heads.map(h => rowOf(h, l.row)), [from, end] = span(l.row);
    const thick = max(1, min(6, (g.row - 5) / max(1, heads.length))), gap = thick > 3 ? 1 : 0;
    for (const j of keysOnStage()) {
        if (j < from || j >= end) continue;
        let most = -1;
        heads.forEach((h, m) => {
            const w = row[m][j];
            c.fillStyle = linkColour(h);
            if (w > 0) c.fillRect(g.bars, g.z[j] - top + (m - heads.length / 2) * thick, max(1, w * long), thick - gap);
            if (!(w <= most)) most = w;
        });
        if (most < 0 || (most < .005 && page.S > 64)) continue;
        c.fillStyle = most >= .05 ? hue.ink : hue.ink3;
        c.fillText(weight(most), g.bars + max(1, most * long) + 6, g.z[j] - top + 1);
    }
}
function drawReceived(c, l, top, received, long) {
    const most = g.keys.reduce((m, j) => max(m, received(j)), 1e-9);
    for (const j of keysOnStage()) {
        const w = received(j);
        c.fillStyle = l.key < 0 || l.key === j ? hue.ink2 : hue.rule;
        if (!hue.forced && l.key < 0) c.fillStyle = hue.ink3;
        c.fillRect(g.bars, g.z[j] - top - (g.row < 24 ? 1.5 : 3), max(1, w / most * long), g.row < 24 ? 3 : 6);
        c.fillStyle = hue.ink2;
        c.fillText(weight(w), g.bars + max(1, w / most * long) + 6, g.z[j] - top + 1);
    }
}
// What leaves the view above and below: how many links, what share of the weight of their rows.
function drawBeyond(c, l, top) {
    let n = links.beyond, sum = links.gone, rows = links.whole;
    if (l.row >= 0) {
        const tau = threshold(l.row);
        n = [0, 0];
        sum = [0, 0];
        rows = drawn().length;
        for (const h of drawn()) eachWeight(h, l.row, g.keys, (j, w) => {
            const side = g.z[j] < 0 ? -1 : beyond(j, top);
            if (side >= 0 && w > tau && isRead(j)) { n[side]++; sum[side] += w; }
        });
    }
    [["moreAbove", 10], ["moreBelow", g.h - 10]].forEach(([key, y], side) => {
        if (!n[side]) return;
        c.fillStyle = hue.paper;
        c.fillRect(g.bars - 2, y - 10, g.w - g.bars + 2, 20);
        c.fillStyle = hue.ink2;
        c.fillText(say(key, count(n[side]), weight(sum[side] / max(1, rows))), g.bars, y + 1);
    });
}

function markTokens(l) {
    const rows = l.row >= 0 ? drawn().map(h => rowOf(h, l.row)) : [], off = state.filter !== "all";
    const most = j => rows.reduce((m, r) => max(m, r[j] || 0), 0);
    const put = (s, name) => { if (s.className !== name) s.className = name; };
    let top = -1;
    for (const j of g.keys) if (most(j) > (top < 0 ? 0 : most(top))) top = j;
    for (const i of rowsOnStage()) {
        let a = "q";
        if (i === l.row) a += " marked";
        else if (off && !reads(i)) a += " off";
        else if (l.row >= 0) a += " faint";
        if (i === page.found) a += " found";
        if (page.given && i >= page.given) a += " made";
        put(stage.q.get(i), a);
    }
    for (const j of keysOnStage()) {
        let b = "k";
        if (j === l.key) b += " marked";
        else if (rows.length && !l.pointed) b += j === top ? " most" : most(j) >= .1 ? " some" : most(j) > threshold(l.row) ? "" : " faint";
        else if (off && !isRead(j)) b += " off";
        else if (l.key >= 0) b += " faint";
        if (page.givenKeys && j >= page.givenKeys) b += " made";
        put(stage.k.get(j), b);
    }
    for (const fold of g.folds) fold.node.firstChild.textContent = say(!g.bars ? "foldShort" : fold.n === 1 ? "foldOne" : "fold", count(fold.n), weight(foldWeight(fold, rows), 3));
    stage.margin.textContent = say(l.row >= 0 ? drawn()[0] < 0 ? "weight" : "oneBar" : windowed() ? "receivedHere" : "received");
}
function reveal(i) {
    if (windowed() && showRow(i)) return void requestAnimationFrame(() => requestAnimationFrame(() => reveal(i)));
    if (g.h >= g.total) return;
    const y = g.y[i], { top } = stage;
    if (y - g.row < top || y + g.row > top + g.h) stage.box.scrollTop = y - g.h / 2;
}
