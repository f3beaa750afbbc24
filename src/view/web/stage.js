// SPDX-License-Identifier: MIT
// stage.js: query tokens left, keys right, links between; text is text, the rest is one canvas.

const g = { w: 0, h: 0, row: 40, y: null, x0: 0, x1: 0, bars: 0, keys: 0 };
const stage = {};

const lit = () => state.lit.length < 2 ? state.lit : [...state.lit].sort((a, b) => a - b);
const isShown = j => state.special || !page.tokens[j].special || page.allSpecial;
const partOf = c => c === "A" ? 0 : 1;
const reads = i => state.filter === "all" || page.tokens[i].part === partOf(state.filter[0]);
const isRead = (i, j) => state.filter === "all" || page.tokens[j].part === partOf(state.filter[1]);
const visibleTo = i => page.causal ? i + 1 : page.T;
const threshold = i => min(.95, state.factor / visibleTo(i));
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
    stage.tokens = el("div", { id: "tokens", lang: "", translate: "yes" });
    stage.base = el("canvas", { "aria-hidden": "true" });
    stage.base.style.opacity = 1;
    stage.heading = el("div", { id: "heading" });
    stage.margin = el("span");
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
    let low = 0, high = page.visible.length - 1;
    while (low < high) {
        const mid = low + high >> 1;
        if (y > g.y[page.visible[mid]] + g.row / 2) low = mid + 1; else high = mid;
    }
    const i = page.visible[low];
    if (i === undefined || abs(y - g.y[i]) > g.row / 2) return null;
    return x < (g.x0 + g.x1) / 2 ? { row: i, key: -1 } : { row: -1, key: i };
}
function pin(p) {
    if (!p) return;
    if (p.row >= 0) set({ row: state.row === p.row && state.key < 0 ? -1 : p.row, key: -1 });
    else set({ key: state.key === p.key ? -1 : p.key });
}

// Places of rows and columns for the size of the window; then the token texts.
function layout() {
    const w = stage.box.clientWidth, narrow = innerWidth <= 760, n = page.visible.length;
    const top = stage.box.getBoundingClientRect().top + scrollY;
    const room = max(340, innerHeight - min(top, innerHeight / 2) - (narrow ? 20 : 54));
    const split = page.pair ? page.visible.findIndex(i => page.tokens[i].part === 1) : -1;
    const gap = split > 0 ? 26 : 0, scrolls = page.T > 64;
    const least = narrow && !scrolls ? 44 : 18;
    g.row = max(least, min(57, (room - 34 - gap) / n));
    g.total = n * g.row + gap;
    g.w = w;
    g.h = scrolls ? min(g.total, room) : g.total;
    const f = w / 808, wide = w >= 620;
    Object.assign(g, wide ? { keys: 57 * f, q: 190 * f, x0: 202 * f, x1: 534 * f, k: 546 * f, bars: 670 * f }
        : w >= 440 ? { keys: 0, q: .27 * w, x0: .27 * w + 10, x1: .62 * w, k: .62 * w + 10, bars: .84 * w }
        : { keys: 0, q: .34 * w, x0: .34 * w + 8, x1: .66 * w, k: .66 * w + 8, bars: 0 });
    g.y = new Float32Array(page.T).fill(-1);
    page.visible.forEach((i, r) => { g.y[i] = (r + .5) * g.row + (split > 0 && r >= split ? gap : 0); });
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
    const say2 = (text, x, right) => {
        const s = el("span", {}, text);
        s.style[right ? "right" : "left"] = (right ? w - x : x) + "px";
        return s;
    };
    stage.margin = el("span", {}, say("received"));
    stage.margin.style.left = g.bars + "px";
    stage.heading.replaceChildren(...(g.keys ? [say2(say("keysRead"), g.keys, true)] : []), say2(say("asks"), g.q, true), say2(say("readsFrom"), g.k), ...(g.bars && wide ? [stage.margin] : []));
}

function layTokens(split, gap) {
    const size = g.row >= 24 ? 16 : 13, spans = [];
    stage.span = new Map();
    for (const i of page.visible) {
        const t = page.tokens[i], pair = ["q", "k"].map(side => {
            const s = el("span", { class: side }, el("bdi", {}, state.raw ? t.raw : t.text));
            const left = side === "q" ? g.keys + 8 : g.k - 6, right = side === "q" ? g.q + 6 : (g.bars || g.w) - 4;
            Object.assign(s.style, { left: left + "px", width: right - left + "px", top: g.y[i] - g.row / 2 + (g.row > 30 ? 3 : 0) + "px", height: g.row - (g.row > 30 ? 6 : 0) + "px", lineHeight: g.row - (g.row > 30 ? 6 : 0) + "px", fontSize: size + "px" });
            spans.push(s);
            return s;
        });
        stage.span.set(i, pair);
    }
    if (split > 0) {
        const hr = el("hr");
        hr.style.top = split * g.row + gap / 2 + "px";
        spans.push(hr);
    }
    if (split > 0 && g.keys) ["A", "B"].forEach((name, k) => {
        const s = el("span", { class: "part", lang: "en" }, name);
        s.style.top = g.y[page.visible[k ? split : 0]] - 12 + "px";
        spans.push(s);
    });
    stage.tokens.replaceChildren(...spans);
}

function inView(margin = 0) {
    if (g.h >= g.total) return page.visible;
    const top = stage.box.scrollTop - margin, end = top + g.h + 2 * margin;
    return page.visible.filter(i => g.y[i] + g.row / 2 > top && g.y[i] - g.row / 2 < end);
}

// The links of all rows in view, into stage.base.  Returns false when rows were left for the next frame.
function drawBase() {
    const c = stage.base.getContext("2d"), top = stage.box.scrollTop;
    c.setTransform(stage.dpr, 0, 0, stage.dpr, 0, 0);
    c.clearRect(0, 0, g.w, g.h);
    gather(inView(), top, performance.now() + 3);
    strokeLinks(c, g, i => g.y[i] - top);
    if (g.h < g.total) strokeLeaving(c, links.leaving, top);
    return !links.missing;
}
// What leaves the view: of each row and head one dashed link a side, as dark as their sum, that fades
// out at the edge.
function strokeLeaving(c, list, top) {
    const heads = lit();
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
        strokeLink(c, g.x0, g.y[i] - top + lane(m, heads.length, g.row), g.x1, side ? g.h + 30 : -30, (w - tau) / (1 - tau) * .2);
    }
    c.setLineDash([]);
    c.globalAlpha = 1;
}

// What the reader points at, above the rest, which pales.
function drawStage() {
    const c = stage.canvas.getContext("2d"), l = look(), any = l.row >= 0 || l.key >= 0, top = stage.box.scrollTop;
    const pale = any ? hue.dark ? .07 : .11 : 1;
    if (+stage.base.style.opacity !== pale) stage.base.style.opacity = pale;
    c.setTransform(stage.dpr, 0, 0, stage.dpr, 0, 0);
    c.clearRect(0, 0, g.w, g.h);
    if (l.row >= 0) strokeRow(c, l, top);
    else if (l.key >= 0) strokeLinks(c, g, i => g.y[i] - top, (i, j) => j === l.key);
    drawMargins(c, l, top);
    markTokens(l);
}
// One row's links, all of them.
function strokeRow(c, l, top) {
    const heads = lit(), tau = threshold(l.row), leaving = [];
    c.globalCompositeOperation = blend();
    heads.forEach((h, m) => {
        const row = weights.row(state.layer, h, l.row), dy = lane(m, heads.length, g.row), gone = [0, 0];
        c.strokeStyle = linkColour(h);
        for (const j of page.visible) {
            if (!(row[j] > tau) || !isRead(l.row, j) || (l.pointed && j !== l.key)) continue;
            const side = beyond(j, top);
            if (side < 0) strokeLink(c, g.x0, g.y[l.row] - top + dy, g.x1, g.y[j] - top + dy, (row[j] - tau) / (1 - tau));
            else gone[side] += row[j];
        }
        gone.forEach((w, side) => leaving.push([m, l.row, side, w]));
    });
    c.globalAlpha = 1;
    c.globalCompositeOperation = "source-over";
    if (g.h < g.total) strokeLeaving(c, leaving, top);
}
// 0: token j is above the view, 1: below, -1: in it.
const beyond = (j, top) => g.h >= g.total ? -1 : g.y[j] < top ? 0 : g.y[j] > top + g.h ? 1 : -1;

// Left: keys read.  Right: attention received, or one bar a head of the marked row.
function drawMargins(c, l, top) {
    const heads = lit(), rows = inView(), done = heads.length && surveyed(state.layer, heads);
    c.font = `${g.row < 24 ? 11 : 12}px ${page.font}`;
    c.textBaseline = "middle";
    if (g.keys && done) {
        c.textAlign = "right";
        for (const i of rows) {
            let keys = 0;
            for (const h of heads) keys += survey(state.layer, h).keys[i];
            c.fillStyle = i === l.row ? hue.ink : hue.ink3;
            c.fillText((keys / heads.length).toFixed(1), g.keys, g.y[i] - top + 1);
        }
    }
    if (!g.bars) return;
    c.textAlign = "left";
    const long = min(102, g.w - g.bars - 40);
    if (l.row >= 0) drawBars(c, l, top, heads, rows, long);
    else if (done) drawReceived(c, l, top, heads, rows, long);
    if (g.h < g.total) drawBeyond(c, l, top);
}
function drawBars(c, l, top, heads, rows, long) {
    const row = heads.map(h => weights.row(state.layer, h, l.row));
    const thick = max(1, min(6, (g.row - 5) / max(1, heads.length))), gap = thick > 3 ? 1 : 0;
    for (const j of rows) {
        let most = -1;
        heads.forEach((h, m) => {
            const w = row[m][j];
            c.fillStyle = linkColour(h);
            if (w > 0) c.fillRect(g.bars, g.y[j] - top + (m - heads.length / 2) * thick, max(1, w * long), thick - gap);
            if (!(w <= most)) most = w;
        });
        if (most < 0 || (most < .005 && page.T > 64)) continue;
        c.fillStyle = most >= .05 ? hue.ink : hue.ink3;
        c.fillText(weight(most), g.bars + max(1, most * long) + 6, g.y[j] - top + 1);
    }
}
function received(j) {
    const heads = lit();
    let sum = 0;
    for (const h of heads) {
        const { got } = survey(state.layer, h);
        if (state.filter === "all") sum += got[0][j] + got[1][j] + (state.special ? got[2][j] : 0);
        else if (isRead(-1, j)) sum += got[partOf(state.filter[0])][j];
    }
    return sum / heads.length;
}
function drawReceived(c, l, top, heads, rows, long) {
    const all = new Map(page.visible.map(j => [j, received(j)]));
    const most = max(1e-9, ...all.values());
    for (const j of rows) {
        const w = all.get(j);
        c.fillStyle = l.key < 0 || l.key === j ? hue.ink2 : hue.rule;
        if (!hue.forced && l.key < 0) c.fillStyle = hue.ink3;
        c.fillRect(g.bars, g.y[j] - top - (g.row < 24 ? 1.5 : 3), max(1, w / most * long), g.row < 24 ? 3 : 6);
        c.fillStyle = hue.ink2;
        c.fillText(weight(w), g.bars + max(1, w / most * long) + 6, g.y[j] - top + 1);
    }
}
// What leaves the view above and below: how many links, what share of the weight of their rows.
function drawBeyond(c, l, top) {
    let n = links.beyond, sum = links.gone, rows = links.whole;
    if (l.row >= 0) {
        const tau = threshold(l.row);
        n = [0, 0];
        sum = [0, 0];
        rows = lit().length;
        for (const h of lit()) {
            const row = weights.row(state.layer, h, l.row);
            for (const j of page.visible) {
                const side = beyond(j, top);
                if (side >= 0 && row[j] > tau && isRead(l.row, j)) { n[side]++; sum[side] += row[j]; }
            }
        }
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
    const heads = lit(), rows = l.row >= 0 ? heads.map(h => weights.row(state.layer, h, l.row)) : [];
    const most = j => rows.reduce((m, r) => max(m, r[j] || 0), 0);
    let top = -1;
    for (const j of page.visible) if (most(j) > (top < 0 ? 0 : most(top))) top = j;
    for (const i of inView()) {
        const [q, k] = stage.span.get(i), off = state.filter !== "all";
        let a = "q", b = "k";
        if (i === l.row) a += " marked";
        else if (off && !reads(i)) a += " off";
        else if (l.row >= 0) a += " faint";
        if (i === l.key) b += " marked";
        else if (rows.length && !l.pointed) b += i === top ? " most" : most(i) >= .1 ? " some" : most(i) > threshold(l.row) ? "" : " faint";
        else if (off && !isRead(-1, i)) b += " off";
        else if (l.key >= 0) b += " faint";
        if (i === page.found) a += " found";
        if (q.className !== a) q.className = a;
        if (k.className !== b) k.className = b;
    }
    stage.margin.textContent = say(l.row >= 0 ? "oneBar" : "received");
}
function reveal(i) {
    if (g.h >= g.total) return;
    const y = g.y[i], top = stage.box.scrollTop;
    if (y - g.row < top || y + g.row > top + g.h) stage.box.scrollTop = y - g.h / 2;
}
