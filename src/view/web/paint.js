// SPDX-License-Identifier: MIT
// paint.js: weight to darkness, heads to colours, links on a canvas.

const hue = {};
// Colours of the theme as the style sheet has them, read once a theme.
function readColours() {
    const style = getComputedStyle(root), probe = el("i");
    probe.style.forcedColorAdjust = "none"; // the ramp keeps its colours
    document.body.append(probe);
    const rgb = c => {
        probe.style.color = c;
        return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
    };
    const read = name => style.getPropertyValue("--" + name).trim();
    hue.dark = root.dataset.theme === "dark";
    hue.forced = matchMedia("(forced-colors: active)").matches || matchMedia("(prefers-contrast: more)").matches;
    for (const name of ["paper", "panel", "ink", "ink2", "ink3", "rule", "hot", "point"]) hue[name] = `rgb(${rgb(read(name)).join()})`;
    hue.heads = read("heads").split(" ");
    const stops = read("ramp").split(" ").map(rgb);
    hue.ramp = Array.from({ length: 257 }, (_, i) => {
        const x = i / 256 * (stops.length - 1), k = min(stops.length - 2, floor(x)), f = x - k;
        return stops[k].map((c, n) => round(c + f * (stops[k + 1][n] - c)));
    });
    probe.remove();
}
const rampAt = x => hue.ramp[round(256 * min(1, max(0, x || 0)))];
const css = c => `rgb(${c.join()})`;
const LOG_FROM = 1e-4; // what a log scale can tell from nothing
const logOf = w => w > LOG_FROM ? 1 - Math.log(w) / Math.log(LOG_FROM) : 0;
const cell = w => rampAt(state.log ? logOf(w) : Math.pow(w, .7));
function inkOn(c) { // black or white, whichever contrasts more
    const [r, g, b] = c.map(x => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b > .179 ? "#000" : "#fff";
}
function headColour(h) {
    if (page.H <= 16) return hue.heads[h];
    const at = state.lit.indexOf(h);
    return at >= 0 && at < 8 ? hue.heads[at] : hue.ink3;
}
const linkColour = h => h >= 0 && state.lit.length > 1 ? headColour(h) : css(rampAt(hue.dark ? .72 : .62));

// t in 0..1: how far a weight is above the threshold.
function rise(w, tau) {
    if (!state.log) return (w - tau) / (1 - tau);
    const from = max(tau, LOG_FROM);
    return max(0, Math.log(w / from) / -Math.log(from));
}
const opacity = t => hue.forced ? 1 : hue.dark ? .14 + .86 * t ** .6 : .05 + .95 * t ** .72;
const thickness = t => .6 + 3.6 * sqrt(t);
const blend = () => hue.forced ? "source-over" : hue.dark ? "screen" : "multiply";
const lane = (i, m, row) => m < 2 ? 0 : (i - (m - 1) / 2) * min(3.4, .58 * row / (m - 1));

// Links in reach, in arrays that are used again: head (place among the lit), row, key, weight, t.
// leaving: [head, row, side, weight] of what is out of view; beyond, gone: how many, how much, a side.
const links = { n: 0, room: 0, all: 0, weight: 0, whole: 0, missing: false, leaving: [], beyond: [0, 0], gone: [0, 0] };
function roomFor(n) {
    if (n <= links.room) return;
    const room = max(4096, 2 * n), keep = (Type, old) => { const a = new Type(room); if (old) a.set(old); return a; };
    links.m = keep(Uint8Array, links.m);
    links.i = keep(Uint32Array, links.i);
    links.j = keep(Uint32Array, links.j);
    links.w = keep(Float32Array, links.w);
    links.t = keep(Float32Array, links.t);
    links.room = room;
}

const MOST = 4000;
// The links above the threshold of the rows `rows`; of more than MOST, the strongest.  Rows not yet
// known are computed until `end`; links.missing says that some are left for the next frame.
function gather(rows, top, end) {
    const heads = drawn(), keys = g.keys, L = links, side = new Int8Array(page.S).fill(-2);
    for (const j of keys) side[j] = isRead(j) ? beyond(j, top) : -2;
    L.leaving = [];
    L.beyond = [0, 0];
    L.gone = [0, 0];
    L.n = L.weight = L.whole = 0;
    L.missing = false;
    heads.forEach((h, m) => {
        for (const i of rows) {
            if (!reads(i)) continue;
            if (!knows(h, i) && performance.now() > end) { L.missing = true; continue; }
            const tau = threshold(i);
            L.whole++;
            roomFor(L.n + keys.length);
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
                if (w) L.leaving.push([m, i, s, w]);
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

function strokeLink(c, x0, y0, x1, y1, t) {
    const bend = .46 * (x1 - x0);
    c.globalAlpha = opacity(t);
    c.lineWidth = thickness(t);
    c.beginPath();
    c.moveTo(x0, y0);
    c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    c.stroke();
}
// Strokes the gathered links that `pick` takes, `top` scrolled away.
function strokeLinks(c, g, top, pick) {
    const heads = drawn(), L = links;
    c.globalCompositeOperation = blend();
    for (let m = 0; m < heads.length; m++) {
        const dy = lane(m, heads.length, g.row);
        c.strokeStyle = linkColour(heads[m]);
        for (let k = 0; k < L.n; k++)
            if (L.m[k] === m && (!pick || pick(L.i[k], L.j[k]))) strokeLink(c, g.x0, g.y[L.i[k]] - top + dy, g.x1, g.z[L.j[k]] - top + dy, L.t[k]);
    }
    c.globalAlpha = 1;
    c.globalCompositeOperation = "source-over";
}
