// SPDX-License-Identifier: MIT
// matrix_draw.js: draws the matrix: points, masks, lines between sections, labels and numbers.
import { ceil, floor, max, min, round } from "../base/math.js";
import { hundredths, shortened } from "../base/messages.js";
import { page, state } from "../base/state.js";
import { hue, textOn, rampAt } from "../base/palette.js";
import { sectionsOf } from "../parts/sections.js";
import { shownToken, tilted } from "../parts/figure.js";
import { darkness, hatchOf, runInSlices } from "../parts/heatmap.js";
import {
    bandEdges, coarseOf, coversSpecials, fillWindow, keyAt, keysInView,
    labelledKeys, labelledRows, leavesOut, queryAt, levelAt, longest,
    matrix, missingRows, pointsImage,
    pointsOf, rowsInView, scaleNow, windowNow, windowOf, xOf, yOf
} from "./matrix_grid.js";

export function drawHeat(c, field) {
    const m = matrix, v = windowOf(levelAt(m.px)), missing = missingRows(field, v), s = scaleNow(field, v, !missing);
    m.view = v;
    m.shownScale = s;
    c.imageSmoothingEnabled = false;
    const put = (canvas, u) => m.rows ? putRuns(c, canvas) : c.drawImage(
        canvas, xOf(u.c0 * page.S / u.columns), yOf(u.r0 * page.T / u.rows), (u.c1 - u.c0) * page.S / u.columns * m.px,
        (u.r1 - u.r0) * page.T / u.rows * m.px
    );
    const coarse = missing ? coarseOf(field) : null;
    if (coarse && coarse.n !== v.n) {
        const u = windowOf(coarse.n);
        pointsImage(m.image, field, u, s);
        put(m.image, u);
    }
    if (missing < v.r1 - v.r0) {
        pointsImage(m.image, field, v, s);
        put(m.image, v);
    }
    if (missing) runInSlices("matrix", fillWindow);
}
// Draws the image of single weights without the rows and columns of hidden tokens.
function putRuns(c, image) {
    const m = matrix, runs = list => list.reduce((out, k) => {
        const last = out[out.length - 1];
        if (last && last[1] === k) last[1]++; else out.push([k, k + 1]);
        return out;
    }, []);
    for (const [i, end] of runs(m.rows))
        for (const [j, last] of runs(m.keys))
            c.drawImage(
                image, j, i, last - j, end - i, xOf(j), yOf(i), (last - j) * m.px, (end - i) * m.px
            );
}
// Hatches the masked keys. A dashed line shows the edge of a window, or the distance at which the factor of ALiBi is
// .01.
export function drawMask(c) {
    const causal = page.causal;
    const [left, right] = windowNow();
    const m = matrix;
    const reach = i => page.weights.span(state.layer, i);
    const i0 = m.rows ? 0 : floor(m.r0);
    const i1 = m.rows ? page.T : min(page.T, ceil(m.r0 + rowsInView()));
    const side = (edge, far) => { // hatches from the edge of each row to the far side
        c.beginPath();
        const step = m.px >= 3 ? 1 : max(1, floor((i1 - i0) / 400));
        c.moveTo(far, yOf(i0));
        for (let i = i0; i < i1; i += step) {
            c.lineTo(xOf(edge(i)), yOf(i));
            c.lineTo(xOf(edge(m.px >= 3 ? i : i + step)), yOf(min(i1, i + step)));
        }
        c.lineTo(far, yOf(i1));
        c.fillStyle = hue.paper;
        c.fill();
        c.fillStyle = hatchOf(c);
        c.fill();
    };
    if (causal || right >= 0 || page.keyPadding) side(i => reach(i)[1], m.left + m.w);
    if (left >= 0) side(i => reach(i)[0], m.left);
    c.strokeStyle = hue.text3;
    c.lineWidth = 1;
    for (const { far, before, hatched } of bandEdges()) {
        if (hatched && m.px >= 3) continue;
        c.setLineDash([4, 3]);
        c.beginPath();
        c.moveTo(xOf(i0 + (before ? -far : far + 1)), yOf(i0));
        c.lineTo(xOf(i1 + (before ? -far : far + 1)), yOf(i1));
        c.stroke();
        c.setLineDash([]);
    }
}
export function hideSpecials(c) {
    const m = matrix;
    if (!coversSpecials()) return;
    c.fillStyle = hue.panel;
    for (const j of page.special) c.fillRect(xOf(j), m.above, m.px, m.h);
    for (const i of page.specialRows) c.fillRect(m.left, yOf(i), m.w, m.px);
}
export function drawGaps(c) {
    const m = matrix;
    c.fillStyle = hue.paper;
    for (let j = ceil(m.c0); j < m.c0 + keysInView(); j++) c.fillRect(xOf(keyAt(j)) - .5, m.above, 1, m.h);
    for (let i = ceil(m.r0); i < m.r0 + rowsInView(); i++) c.fillRect(m.left, yOf(queryAt(i)) - .5, m.w, 1);
}
export function drawSectionLines(c) {
    const m = matrix, [rows, keys] = sectionsOf(page.stack);
    if (longest() <= 24) return;
    c.fillStyle = hue.text;
    c.globalAlpha = hue.dark ? .22 : .16;
    for (const s of keys.slice(1)) c.fillRect(round(xOf(s.from)) - .5, m.above, 1, m.h);
    for (const s of rows.slice(1)) c.fillRect(m.left, round(yOf(s.from)) - .5, m.w, 1);
    c.globalAlpha = 1;
}
export function drawSectionLabels(c) {
    const m = matrix, [rows, keys] = sectionsOf(page.stack);
    c.font = `12px ${page.font}`;
    c.fillStyle = hue.text2;
    c.textBaseline = "middle";
    const within = (a, b, low, high) => [max(a, low), min(b, high)];
    let free = -Infinity;
    c.textAlign = "right";
    for (const s of rows) {
        const [a, b] = within(yOf(s.from), yOf(s.to), m.above, m.above + m.h), y = (a + b) / 2;
        if (b <= a || y < free || y > m.above + m.h) continue;
        c.fillText(s.short, m.left - 7, y, m.left - 8);
        free = y + 15;
    }
    free = -Infinity;
    c.textAlign = "center";
    for (const s of keys) {
        const [a, b] = within(xOf(s.from), xOf(s.to), m.left, m.left + m.w);
        const x = (a + b) / 2;
        const half = c.measureText(s.short).width / 2 + 3;
        if (b <= a || x - half < free) continue;
        c.fillText(s.short, x, m.above - 12);
        free = x + half;
    }
}
export function drawTokenLabels(c) {
    const m = matrix;
    const size = max(9.5, min(13, m.px - 1));
    const text = t => shortened(shownToken(t), 12);
    c.font = `${size}px ${page.font}`;
    c.fillStyle = hue.text;
    c.textBaseline = "middle";
    c.textAlign = "right";
    for (const i of labelledRows())
        c.fillText(text(page.tokens[i]), m.left - 7, yOf(i + .5), m.left - 9);
    c.textAlign = "left";
    const tilt = max(9.5, min(13, .74 * m.px)); // column labels are rotated and have less space
    c.font = `${tilt}px ${page.font}`;
    for (const j of labelledKeys()) {
        tilted(c, text(page.keys[j]), xOf(j + .5), m.above - 6, m.wide, tilt);
    }
}
export function drawNumbers(c, field) {
    const m = matrix, v = m.view, s = m.shownScale, hides = leavesOut();
    if (v.n !== longest()) return;
    c.font = `${m.px >= 24 ? 12 : 11}px ${page.font}`;
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (let i = v.r0; i < v.r1; i++) {
        const p = pointsOf(field, v, i), [a, b] = page.weights.span(state.layer, i);
        if (!p || (hides && page.tokens[i].special)) continue;
        for (let j = max(v.c0, a); j < min(v.c1, b); j++) {
            if (hides && page.keys[j].special) continue;
            const w = p.values[p.first + j - v.c0];
            if (w < .095) continue;
            c.fillStyle = w === w ? textOn(rampAt(darkness(w, s))) : hue.paper;
            c.fillText(hundredths(w, m.px), xOf(j + .5), yOf(i + .5) + .5);
        }
    }
}
export const markColour = () => hue.forced ? hue.text : hue.point;
