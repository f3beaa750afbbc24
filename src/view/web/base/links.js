// SPDX-License-Identifier: MIT
// links.js: collects the links whose weight is above the threshold, and draws them on a canvas.
import { floor, max, min, sqrt } from "./math.js";
import { weight } from "./messages.js";
import { geometry, keyPasses, currentTarget, marked, page, rowPasses, threshold } from "./state.js";
import { blend, lane, linkColour, rise, strokeLink } from "./palette.js";
import { drawn, eachWeight, knows, nameOf } from "./aggregate.js";

// The collected links, as arrays that are reused: m head (index among the drawn heads), i row, j key, w weight, t
// opacity. leaving: links to keys that are scrolled out of view; beyond, gone: their number and their weight, [0] above
// the view, [1] below it.
/**
 * @typedef {{ m: number, row: number, side: number, weight: number }} LeavingLink
 */
export const links = {
    n: 0, capacity: 0, all: 0, weight: 0, whole: 0, missing: false, leaving: /** @type {LeavingLink[]} */ ([]),
    beyond: [0, 0], gone: [0, 0]
};
function reserve(n) {
    if (n <= links.capacity) return;
    const capacity = max(4096, 2 * n);
    const keep = (Type, old) => {
        const a = new Type(capacity);
        if (old) a.set(old);
        return a;
    };
    links.m = keep(Uint8Array, links.m);
    links.i = keep(Uint32Array, links.i);
    links.j = keep(Uint32Array, links.j);
    links.w = keep(Float32Array, links.w);
    links.t = keep(Float32Array, links.t);
    links.capacity = capacity;
}

const MOST = 4000;
/**
 * Collects the links of these rows above the threshold; if there are more than MOST, only the strongest. Rows that are
 * not known yet are computed until the time `end`; if some are left for the next frame, links.missing is true.
 * @param {number[]} rows
 * @param {number} top pixels that are scrolled away
 * @param {number} end
 */
export function gather(rows, top, end) {
    const heads = drawn(), keys = geometry.keys, L = links, side = new Int8Array(page.S).fill(-2);
    for (const j of keys) side[j] = keyPasses(j) ? beyond(j, top) : -2;
    L.leaving = [];
    L.beyond = [0, 0];
    L.gone = [0, 0];
    L.n = L.weight = L.whole = 0;
    L.missing = false;
    heads.forEach((h, m) => {
        for (const i of rows) {
            if (!rowPasses(i)) continue;
            if (!knows(h, i) && performance.now() > end) { L.missing = true; continue; }
            const tau = threshold(i);
            L.whole++;
            reserve(L.n + keys.length);
            const gone = [0, 0];
            eachWeight(h, i, keys, (j, w) => {
                const s = side[j];
                if (!(w > tau) || s < -1) return;
                if (s >= 0) {
                    gone[s] += w;
                    L.beyond[s]++;
                    L.weight += w;
                } else {
                    L.m[L.n] = m; L.i[L.n] = i; L.j[L.n] = j; L.w[L.n] = w; L.t[L.n] = rise(w, tau);
                    L.weight += w;
                    L.n++;
                }
            });
            gone.forEach((w, s) => {
                if (w) L.leaving.push({ m, row: i, side: s, weight: w });
                L.gone[s] += w;
            });
        }
    });
    L.all = L.n;
    if (L.n > MOST) keepStrongest();
}
function keepStrongest() {
    const L = links, bins = new Uint32Array(2048);
    const bin = w => min(2047, floor(2048 * sqrt(w)));
    for (let k = 0; k < L.n; k++) bins[bin(L.w[k])]++;
    let from = 2047;
    for (let sum = bins[2047]; from > 0 && sum + bins[from - 1] <= MOST; from--) sum += bins[from - 1];
    let n = 0;
    L.weight = L.gone[0] + L.gone[1];
    for (let k = 0; k < L.n; k++) {
        if (bin(L.w[k]) < from || n >= MOST) continue;
        L.m[n] = L.m[k]; L.i[n] = L.i[k]; L.j[n] = L.j[k]; L.w[n] = L.w[k]; L.t[n] = L.t[k];
        L.weight += L.w[n++];
    }
    L.n = n;
}
// Draws the collected links for which pick() returns true. `top` pixels are scrolled away.
export function strokeLinks(c, g, top, pick) {
    const heads = drawn(), L = links;
    c.globalCompositeOperation = blend();
    for (let m = 0; m < heads.length; m++) {
        const dy = lane(m, heads.length, g.row);
        c.strokeStyle = linkColour(heads[m]);
        for (let k = 0; k < L.n; k++)
            if (L.m[k] === m && (!pick || pick(L.i[k], L.j[k])))
                strokeLink(c, g.x0, g.y[L.i[k]] - top + dy, g.x1, g.z[L.j[k]] - top + dy, L.t[k]);
    }
    c.globalAlpha = 1;
    c.globalCompositeOperation = "source-over";
}

// Returns 0 if key j is above the view, 1 if it is below, and -1 if it is in view.
export const beyond = (j, top) =>
    geometry.h >= geometry.total ? -1 : geometry.z[j] < top ? 0 : geometry.z[j] > top + geometry.h ? 1 : -1;

// ---- links as a table ---------------------------------------------------------------------------
export function linkOrder() {
    const L = links;
    return Array.from({ length: L.n }, (_, k) => k).sort((a, b) =>
        L.w[b] - L.w[a] || L.i[a] - L.i[b] || L.j[a] - L.j[b]);
}
export function linkRows() {
    const L = links, heads = drawn();
    return linkOrder().map(k => [
        page.tokens[L.i[k]].named, page.keys[L.j[k]].named, heads[L.m[k]] < 0 ? nameOf(heads[L.m[k]]) : heads[L.m[k]],
        L.w[k]
    ]);
}
export function restOfLinks(n) {
    if (marked(currentTarget())) return "";
    return weight(linkOrder().slice(n).reduce((s, k) => s + links.w[k], 0) / max(1, links.whole));
}
