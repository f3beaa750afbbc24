// SPDX-License-Identifier: MIT
// diagram.js: draws the head view: query tokens on the left, keys on the right, links between them. The tokens are
// text; the links are one canvas.
//
// A text of up to WHOLE tokens is shown completely; for longer texts, row_window.js chooses the tokens.
import { abs, max, min, round } from "../base/math.js";
import { count, say, weight } from "../base/messages.js";
import { $, el, onClick, windowWidth } from "../base/dom.js";
import { defined } from "../base/terms.js";
import {
    geometry, keyPasses, currentTarget, page, partOf, rowPasses, span, stage, state, threshold
} from "../base/state.js";
import { blend, hue, lane, linkColour, rise, strokeLink } from "../base/palette.js";
import { drawn, eachWeight, rowOf } from "../base/aggregate.js";
import { beyond, gather, links, strokeLinks } from "../base/links.js";
import { requestDraw } from "../base/drawing.js";
import { rowStats, rowStatsReady } from "../base/head_stats.js";
import { foldWeight, placeWindow, showRow, windowSums, windowed } from "../base/row_window.js";
import { set } from "../base/frame.js";
import { fitted, shownToken } from "./figure.js";

export function buildStage() {
    stage.box = el("div", { id: "stage", tabindex: 0, role: "group" });
    stage.canvas = el("canvas", { "aria-hidden": "true" });
    stage.tokens = el(
        "div", { id: "tokens", lang: "", translate: "yes" }, el("div"), el("div"), el("div", {}, el("div"), el("div"))
    );
    stage.base = el("canvas", { "aria-hidden": "true" });
    stage.base.style.opacity = 1;
    stage.heading = el("div", { id: "heading" });
    stage.margin = el("span");
    stage.pointer = null;
    stage.box.append(stage.base, stage.canvas, stage.tokens);
    stage.box.addEventListener("pointermove", e => point(e.pointerType === "touch" ? null : at(e)));
    stage.box.addEventListener("pointerleave", () => point(null));
    stage.box.addEventListener("scroll", () => requestDraw("base"));
    onClick(stage.box, e => { if (getSelection().isCollapsed) pin(at(e)); });
    return [stage.heading, stage.box];
}
function point(p) {
    const a = stage.pointer, same = (!a && !p) || (a && p && a.row === p.row && a.key === p.key);
    stage.pointer = p;
    if (!same) requestDraw("target");
}
/**
 * Returns the token under the pointer: as a row in the left half, as a key in the right half; null if there is none.
 * @param {PointerEvent | MouseEvent} e
 * @returns {?Target}
 */
function at(e) {
    const box = stage.box.getBoundingClientRect();
    const x = e.clientX - box.left;
    const y = e.clientY - box.top + stage.box.scrollTop;
    const left = x < (geometry.x0 + geometry.x1) / 2;
    const list = left ? geometry.rows : geometry.keys;
    const places = left ? geometry.y : geometry.z;
    let low = 0, high = list.length - 1;
    while (low < high) {
        const mid = low + high >> 1;
        if (y > places[list[mid]] + geometry.row / 2) low = mid + 1; else high = mid;
    }
    const i = list[low];
    if (i === undefined || abs(y - places[i]) > geometry.row / 2) return null;
    return left ? { row: i, key: -1 } : { row: -1, key: i };
}
export function pin(p) {
    if (!p) return;
    if (p.row >= 0) set({ row: state.row === p.row && state.key < 0 ? -1 : p.row, key: -1 });
    else set({ key: state.key === p.key ? -1 : p.key });
}

// Computes the positions of rows and columns for the size of the window, and moves the tokens to them.
export function layout() {
    const w = stage.box.clientWidth, narrow = windowWidth() <= 760, scrolled = stage.box.scrollTop;
    const top = stage.box.getBoundingClientRect().top + scrollY;
    const space = max(340, innerHeight - min(top, innerHeight / 2) - (narrow ? 20 : 20 + $("bottom").offsetHeight));
    if (windowed()) placeWindow();
    else Object.assign(geometry, { rows: page.visible, keys: page.visibleKeys, folds: [] });
    const n = max(geometry.rows.length, geometry.keys.length + geometry.folds.length, 1);
    const split = windowed()
        ? -1
        : page.given
        ? page.visible.findIndex(i => i >= page.given)
        : page.pair
        ? page.visible.findIndex(i => page.tokens[i].part === 1)
        : -1;
    const gap = split > 0 ? 26 : 0, scrolls = max(page.T, page.S) > 64;
    const least = narrow && !scrolls ? 44 : 18;
    geometry.row = max(least, min(57, (space - 34 - gap) / n));
    geometry.total = n * geometry.row + gap;
    geometry.w = w;
    geometry.h = scrolls ? min(geometry.total, space) : geometry.total;
    // read all sizes before writing any, so that the browser computes the layout only once
    stage.top = min(scrolled, geometry.total - geometry.h);
    const f = w / 808, wide = w >= 620;
    Object.assign(geometry, wide ? { sums: 57 * f, q: 190 * f, x0: 202 * f, x1: 534 * f, k: 546 * f, bars: 670 * f }
        : w >= 440 ? { sums: 0, q: .27 * w, x0: .27 * w + 10, x1: .62 * w, k: .62 * w + 10, bars: .84 * w }
        : { sums: 0, q: .34 * w, x0: .34 * w + 8, x1: .66 * w, k: .66 * w + 8, bars: 0 });
    geometry.y = new Float32Array(page.T).fill(-1);
    geometry.rows.forEach((i, r) => { geometry.y[i] = (r + .5) * geometry.row + (split > 0 && r >= split ? gap : 0); });
    geometry.z = page.tokens === page.keys && !windowed() ? geometry.y : placeKeys();
    stage.box.style.height = geometry.h + "px";
    const dpr = devicePixelRatio || 1;
    for (const c of [stage.canvas, stage.base]) {
        c.width = max(1, round(w * dpr));
        c.height = max(1, round(geometry.h * dpr));
        c.style.width = w + "px";
        c.style.height = geometry.h + "px";
    }
    stage.canvas.style.marginTop = -geometry.h + "px"; // the two canvases overlap
    stage.tokens.style.height = geometry.total + "px";
    stage.dpr = dpr;
    layTokens(split, gap);
    const head = (key, x, right) => {
        const s = el("span", defined(say(key)), say(key));
        s.style[right ? "right" : "left"] = (right ? w - x : x) + "px";
        return s;
    };
    stage.margin = el("span", {}, say(wide ? "received" : "receivedShort"));
    stage.margin.style.left = geometry.bars + "px";
    const cross = page.stack.about.name === "cross";
    stage.heading.replaceChildren(
        ...(geometry.sums ? [head("effectiveKeys", 0)] : []),
        head(cross ? "queryHeadingCross" : "queryHeading", geometry.q, true),
        head(cross ? "keyHeadingCross" : "keyHeading", geometry.k),
        ...(geometry.bars ? [stage.margin] : [])
    );
}
// Computes the positions of the keys (if they are other tokens than the rows) and of the folds between them.
function placeKeys() {
    const z = new Float32Array(page.S).fill(-1);
    let at = 0, f = 0;
    for (const j of geometry.keys) {
        while (f < geometry.folds.length && geometry.folds[f].from < j)
            geometry.folds[f++].y = at++ * geometry.row + geometry.row / 2;
        z[j] = at++ * geometry.row + geometry.row / 2;
    }
    while (f < geometry.folds.length) geometry.folds[f++].y = at++ * geometry.row + geometry.row / 2;
    return z;
}

// Reuses the elements of the tokens, since few of them change when the window moves or the marked row changes.
function layTokens(split, gap) {
    const size = geometry.row >= 24 ? 16 : 13, pad = geometry.row > 30 ? 3 : 0, tall = geometry.row - 2 * pad;
    const [rows, keys, more] = stage.tokens.children;
    const spans = (box, n, name) => {
        while (box.children.length < n) box.append(el("span", { class: name }, el("bdi")));
        while (box.children.length > n) box.lastChild.remove();
        return box.children;
    };
    const place = (s, text, left, right, top, tall, size) => {
        if (s.firstChild.textContent !== text) s.firstChild.textContent = text;
        const style = `left:${left}px;width:${right - left}px;top:${top}px;height:${tall}px;line-height:${tall}` +
            `px;font-size:${size}px`;
        if (s.placed !== style) s.style.cssText = s.placed = style;
    };
    // the style cuts a name that is too long, but a place at its end would be lost
    const shownName = (t, wide) => {
        const name = shownToken(t);
        return name === (state.raw ? t.raw : t.text) ? name : fitted(name, wide, size);
    };
    const lay = (spans, list, tokens, places, left, right) => new Map(list.map((i, n) => {
        const name = shownName(tokens[i], right - left - 12);
        place(spans[n], name, left, right, places[i] - geometry.row / 2 + pad, tall, size);
        return [i, spans[n]];
    }));
    const end = (geometry.bars || geometry.w) - 4;
    stage.q = lay(
        spans(rows, geometry.rows.length, "q"), geometry.rows, page.tokens, geometry.y, geometry.sums + 8,
        geometry.q + 6
    );
    stage.k = lay(spans(keys, geometry.keys.length, "k"), geometry.keys, page.keys, geometry.z, geometry.k - 6, end);
    const folds = spans(more.lastChild, geometry.folds.length, "fold");
    geometry.folds.forEach((fold, n) => {
        fold.node = folds[n];
        place(folds[n], folds[n].textContent, geometry.k - 6, end, fold.y - 9, 18, 11);
    });
    const marks = [];
    if (split > 0) {
        const hr = el("hr");
        hr.style.top = split * geometry.row + gap / 2 + "px";
        marks.push(hr);
    }
    if (split > 0 && geometry.sums) (page.given ? ["", say("made")] : ["A", "B"]).forEach((name, k) => {
        const s = el("span", { class: page.given ? "part word" : "part", lang: "en" }, name);
        // the word is between the two parts, above the numbers
        s.style.top = geometry.y[page.visible[k ? split : 0]] - (page.given ? geometry.row / 2 + 10 : 12) + "px";
        marks.push(s);
    });
    more.firstChild.replaceChildren(...marks);
}

function inView(list, places) {
    if (geometry.h >= geometry.total) return list;
    const { top } = stage, end = top + geometry.h;
    return list.filter(i => places[i] + geometry.row / 2 > top && places[i] - geometry.row / 2 < end);
}
export const rowsOnStage = () => inView(geometry.rows, geometry.y);
export const keysOnStage = () => inView(geometry.keys, geometry.z);

// Draws the links of all rows in view on stage.base. Returns false if some rows are left for the next frame.
export function drawBase() {
    const c = stage.base.getContext("2d"), { top } = stage;
    c.setTransform(stage.dpr, 0, 0, stage.dpr, 0, 0);
    c.clearRect(0, 0, geometry.w, geometry.h);
    gather(rowsOnStage(), top, performance.now() + 3);
    strokeLinks(c, geometry, top);
    if (geometry.h < geometry.total) strokeLeaving(c, links.leaving, top);
    return !links.missing;
}
// Draws the links to keys that are out of view. For each row and head there is one dashed link upwards and one
// downwards, as dark as the sum of their weights; it fades at the edge.
function strokeLeaving(c, list, top) {
    const heads = drawn();
    const edge = (side, colour) => {
        const fade = c.createLinearGradient(0, side ? geometry.h - 40 : 40, 0, side ? geometry.h : 0);
        fade.addColorStop(0, colour);
        fade.addColorStop(1, hue.dark ? "rgba(0,0,0,0)" : "rgba(255,255,255,0)");
        return fade;
    };
    const colours = heads.map(h => [0, 1].map(side => edge(side, linkColour(h))));
    c.setLineDash([2, 4]);
    for (const { m, row: i, side, weight: w } of list) {
        const tau = threshold(i);
        if (w <= tau) continue;
        c.strokeStyle = colours[m][side];
        strokeLink(
            c, geometry.x0, geometry.y[i] - top + lane(m, heads.length, geometry.row), geometry.x1,
            side ? geometry.h + 30 : -30, rise(w, tau) * .2
        );
    }
    c.setLineDash([]);
    c.globalAlpha = 1;
}

// Draws the links of the token that is pointed at or marked, above the other links, which become fainter.
export function drawStage() {
    const c = stage.canvas.getContext("2d"), l = currentTarget(), any = l.row >= 0 || l.key >= 0, { top } = stage;
    const pale = any ? hue.dark ? .07 : .11 : 1;
    if (+stage.base.style.opacity !== pale) stage.base.style.opacity = pale;
    c.setTransform(stage.dpr, 0, 0, stage.dpr, 0, 0);
    c.clearRect(0, 0, geometry.w, geometry.h);
    if (l.row >= 0 && geometry.y[l.row] >= 0) strokeRow(c, l, top);
    else if (l.key >= 0) strokeLinks(c, geometry, top, (i, j) => j === l.key);
    drawMargins(c, l, top);
    markTokens(l);
}
// Draws all links of one row.
function strokeRow(c, l, top) {
    const heads = drawn(), tau = threshold(l.row), leaving = [];
    c.globalCompositeOperation = blend();
    heads.forEach((h, m) => {
        const dy = lane(m, heads.length, geometry.row), gone = [0, 0];
        c.strokeStyle = linkColour(h);
        eachWeight(h, l.row, geometry.keys, (j, w) => {
            if (!(w > tau) || geometry.z[j] < 0 || !keyPasses(j) || (l.pointed && j !== l.key)) return;
            const side = beyond(j, top);
            if (side < 0)
                strokeLink(
                    c, geometry.x0, geometry.y[l.row] - top + dy, geometry.x1, geometry.z[j] - top + dy, rise(w, tau)
                );
            else gone[side] += w;
        });
        gone.forEach((w, side) => leaving.push({ m, row: l.row, side, weight: w }));
    });
    c.globalAlpha = 1;
    c.globalCompositeOperation = "source-over";
    if (geometry.h < geometry.total) strokeLeaving(c, leaving, top);
}

// ---- margins: effective keys on the left; on the right attention received, or the weights of the
function drawMargins(c, l, top) {
    const heads = drawn(), sums = heads.length ? marginSums(heads) : null;
    c.font = `${geometry.row < 24 ? 11 : 12}px ${page.font}`;
    c.textBaseline = "middle";
    if (geometry.sums && sums) {
        c.textAlign = "right";
        for (const i of rowsOnStage()) {
            const keys = sums.effectiveKeys(i);
            c.fillStyle = i === l.row ? hue.text : hue.text3;
            if (keys >= 0 && i < page.T - page.rowPadding)
                c.fillText(keys.toFixed(1), geometry.sums, geometry.y[i] - top + 1);
        }
    }
    if (!geometry.bars) return;
    c.textAlign = "left";
    const long = min(102, geometry.w - geometry.bars - 40);
    if (l.row >= 0) drawBars(c, l, top, heads, long);
    else if (sums) drawReceived(c, l, top, sums.received, long);
    if (geometry.h < geometry.total) drawBeyond(c, l, top);
}
// Returns { effectiveKeys(i), received(j) }, the means over the heads; null while they are being computed.
function marginSums(heads) {
    if (windowed()) return windowSums();
    if (!rowStatsReady(state.layer, heads)) return null;
    const all = heads.map(h => rowStats(state.layer, h)), mean = of => all.reduce((s, x) => s + of(x), 0) / all.length;
    return { effectiveKeys: i => mean(s => s.keys[i]), received: j => mean(s => receivedOf(s, j)) };
}
function receivedOf({ got }, j) {
    if (state.filter === "all") return got[0][j] + got[1][j] + (state.special ? got[2][j] : 0);
    return keyPasses(j) ? got[partOf(state.filter[0])][j] : 0;
}
function drawBars(c, l, top, heads, long) {
    const row = heads.map(h => rowOf(h, l.row)), [from, end] = span(l.row);
    const thick = max(1, min(6, (geometry.row - 5) / max(1, heads.length))), gap = thick > 3 ? 1 : 0;
    for (const j of keysOnStage()) {
        if (j < from || j >= end) continue;
        let most = -1;
        heads.forEach((h, m) => {
            const w = row[m][j];
            c.fillStyle = linkColour(h);
            if (w > 0)
                c.fillRect(
                    geometry.bars, geometry.z[j] - top + (m - heads.length / 2) * thick, max(1, w * long), thick - gap
                );
            if (!(w <= most)) most = w;
        });
        if (most < 0 || (most < .005 && page.S > 64)) continue;
        c.fillStyle = most >= .05 ? hue.text : hue.text3;
        c.fillText(weight(most), geometry.bars + max(1, most * long) + 6, geometry.z[j] - top + 1);
    }
}
function drawReceived(c, l, top, received, long) {
    const most = geometry.keys.reduce((m, j) => max(m, received(j)), .01); // .00 is no bar
    for (const j of keysOnStage()) {
        const w = received(j);
        c.fillStyle = l.key < 0 || l.key === j ? hue.text2 : hue.rule;
        if (!hue.forced && l.key < 0) c.fillStyle = hue.text3;
        c.fillRect(
            geometry.bars, geometry.z[j] - top - (geometry.row < 24 ? 1.5 : 3), max(1, w / most * long),
            geometry.row < 24 ? 3 : 6
        );
        c.fillStyle = hue.text2;
        c.fillText(weight(w), geometry.bars + max(1, w / most * long) + 6, geometry.z[j] - top + 1);
    }
}
// Writes how many links leave the view above and below, and their share of the weight of their rows; where the margin
// is narrow, with an arrow.
function drawBeyond(c, l, top) {
    let n = links.beyond, sum = links.gone, rows = links.whole;
    if (l.row >= 0) {
        const tau = threshold(l.row);
        n = [0, 0];
        sum = [0, 0];
        rows = drawn().length;
        for (const h of drawn()) eachWeight(h, l.row, geometry.keys, (j, w) => {
            const side = geometry.z[j] < 0 ? -1 : beyond(j, top);
            if (side >= 0 && w > tau && keyPasses(j)) { n[side]++; sum[side] += w; }
        });
    }
    ["moreAbove", "moreBelow"].forEach((key, side) => {
        if (!n[side]) return;
        const y = side ? geometry.h - 10 : 10;
        const number = count(n[side]), share = weight(sum[side] / max(1, rows)), arrow = side ? "↓" : "↑";
        const x = geometry.bars, fits = text => x + c.measureText(text).width <= geometry.w - 2;
        const text = [say(key, number, share), `${arrow} ${number}, ${share}`].find(fits) ?? `${arrow} ${number}`;
        c.clearRect(x - 2, y - 12, geometry.w - x + 2, 24);
        c.fillStyle = hue.paper;
        c.fillRect(x - 2, y - 12, geometry.w - x + 2, 24);
        c.fillStyle = hue.text2;
        c.fillText(text, x, y + 1);
    });
}

function markTokens(l) {
    const rows = l.row >= 0 ? drawn().map(h => rowOf(h, l.row)) : [], off = state.filter !== "all";
    const most = j => rows.reduce((m, r) => max(m, r[j] || 0), 0);
    const put = (s, name) => { if (s.className !== name) s.className = name; };
    let top = -1;
    for (const j of geometry.keys) if (most(j) > (top < 0 ? 0 : most(top))) top = j;
    for (const i of rowsOnStage()) {
        let a = "q";
        if (i === l.row) a += " marked";
        else if (off && !rowPasses(i)) a += " off";
        else if (l.row >= 0) a += " faint";
        if (i === page.found) a += " found";
        if (page.given && i >= page.given) a += " made";
        put(stage.q.get(i), a);
    }
    for (const j of keysOnStage()) {
        let b = "k";
        if (j === l.key) b += " marked";
        else if (rows.length && !l.pointed)
            b += j === top ? " most" : most(j) >= .1 ? " some" : most(j) > threshold(l.row) ? "" : " faint";
        else if (off && !keyPasses(j)) b += " off";
        else if (l.key >= 0) b += " faint";
        if (page.givenKeys && j >= page.givenKeys) b += " made";
        put(stage.k.get(j), b);
    }
    for (const fold of geometry.folds)
        fold.node.firstChild.textContent = say(
            !geometry.sums ? "foldShort" : fold.n === 1 ? "foldOne" : "fold", count(fold.n),
            weight(foldWeight(fold, rows), 3)
        );
    const short = !geometry.sums; // the margins are narrow
    stage.margin.textContent = say(
        l.row >= 0 ? short || drawn()[0] < 0 ? "weight" : "oneBar"
            : short ? "receivedShort" : windowed() ? "receivedHere" : "received"
    );
    const of = defined(l.row >= 0 ? "weight" : "attention received");
    for (const name in of) stage.margin.setAttribute(name, of[name]);
}
export function reveal(i) {
    if (windowed() && showRow(i)) return void requestAnimationFrame(() => requestAnimationFrame(() => reveal(i)));
    if (geometry.h >= geometry.total) return;
    const y = geometry.y[i], { top } = stage;
    if (y - geometry.row < top || y + geometry.row > top + geometry.h) stage.box.scrollTop = y - geometry.h / 2;
}
