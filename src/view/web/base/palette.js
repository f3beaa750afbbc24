// SPDX-License-Identifier: MIT
// palette.js: maps weights to darkness and heads to colours, in the theme of the page.
import { floor, max, min, round, sqrt } from "./math.js";
import { el, root } from "./dom.js";
import { page, selectedHeads, state } from "./state.js";

export const hue = {};
// Reads the colours of the theme from the style sheet. Called once per theme.
export function readColours() {
    const style = getComputedStyle(root), probe = el("i");
    probe.style.forcedColorAdjust = "none"; // keep these colours in the forced-colours mode of browsers
    document.body.append(probe);
    const rgb = c => {
        probe.style.color = c;
        return getComputedStyle(probe).color.match(/[\d.]+/g).slice(0, 3).map(Number);
    };
    const read = name => style.getPropertyValue("--" + name).trim();
    hue.dark = root.dataset.theme === "dark";
    hue.forced = matchMedia("(forced-colors: active)").matches || matchMedia("(prefers-contrast: more)").matches;
    for (const name of ["paper", "panel", "text", "text2", "text3", "rule", "hot", "pos", "point"])
        hue[name] = `rgb(${rgb(read(name)).join()})`;
    hue.heads = read("heads").split(" ");
    const stops = read("ramp").split(" ").map(rgb);
    hue.ramp = Array.from({ length: 257 }, (_, i) => {
        const x = i / 256 * (stops.length - 1), k = min(stops.length - 2, floor(x)), f = x - k;
        return stops[k].map((c, n) => round(c + f * (stops[k + 1][n] - c)));
    });
    probe.remove();
}
export const rampAt = x => hue.ramp[round(256 * min(1, max(0, x || 0)))];
export const css = c => `rgb(${c.join()})`;
const LOG_FROM = 1e-4; // the smallest weight that is shown on a logarithmic scale
export const logOf = w => w > LOG_FROM ? 1 - Math.log(w) / Math.log(LOG_FROM) : 0;
export const cell = w => rampAt(state.log ? logOf(w) : Math.pow(w, .7));
export function textOn(c) { // returns black or white, whichever has more contrast with colour c
    const [r, g, b] = c.map(x => (x /= 255) <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b > .179 ? "#000" : "#fff";
}
// The colour of a kind of head, by its row in head_kind.def; other kinds are grey. palette.c has the same.
const KINDS = [0, 6, 1, 5, 8, 7, 4, 2];
export const kindColour = kind => hue.heads[KINDS[kind]] ?? hue.text2;
const sole = () => css(rampAt(hue.dark ? .72 : .62));
// Up to four selected heads have the colours FEW, in their order; of more heads, each has the colour of its index.
export const FEW = [0, 1, 8, 9];
export function headColour(h) {
    const at = selectedHeads().indexOf(h), n = state.selected.length;
    if (at < 0 && n <= FEW.length) return hue.text3;
    if (n <= FEW.length) return n === 1 ? sole() : hue.heads[FEW[at]];
    if (page.H <= 16) return hue.heads[h];
    return at >= 0 && at < 8 ? hue.heads[at] : hue.text3;
}
export const linkColour = h => h >= 0 ? headColour(h) : sole();

// Returns how far a weight w is above the threshold tau, from 0 to 1.
export function rise(w, tau) {
    if (!state.log) return (w - tau) / (1 - tau);
    const from = max(tau, LOG_FROM);
    return max(0, Math.log(w / from) / -Math.log(from));
}
export const opacity = t => hue.forced ? 1 : hue.dark ? .14 + .86 * t ** .6 : .05 + .95 * t ** .72;
export const thickness = t => .6 + 3.6 * sqrt(t);
export const blend = () => hue.forced ? "source-over" : hue.dark ? "screen" : "multiply";
export const lane = (i, m, row) => m < 2 ? 0 : (i - (m - 1) / 2) * min(3.4, .58 * row / (m - 1));

export function strokeLink(c, x0, y0, x1, y1, t) {
    const bend = .46 * (x1 - x0);
    c.globalAlpha = opacity(t);
    c.lineWidth = thickness(t);
    c.beginPath();
    c.moveTo(x0, y0);
    c.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    c.stroke();
}
