// SPDX-License-Identifier: MIT
// matrix_text.js: describes the matrix in words and numbers: one row, the sentence, the table, the saved picture.
import { el } from "../base/dom.js";
import { ceil, floor, max, min, round } from "../base/math.js";
import { count, escaped, plain, quotedWord, say, share, shortened, starred, weight } from "../base/messages.js";
import { selectedHeads, page, quote, state } from "../base/state.js";
import { css, hue, rampAt } from "../base/palette.js";
import { sectionsOf } from "../parts/sections.js";
import { firstOf } from "../parts/heatmap.js";
import { shownToken } from "../parts/figure.js";
import { pictureSvg } from "./magnifier.js";
import {
    coarseOf, fieldNow, isKeyShown, isWhole, leavesOut, levelAt, longest, matrixTarget, matrix, pointsOf,
    describedRow, keysShown, labelledKeys, labelledRows, queryAt, rowsInView, rowsShown, windowOf, xOf, yOf
} from "./matrix_grid.js";
import { drawHeat, drawMask } from "./matrix_draw.js";

export function tipLines(p, name) {
    const field = matrix.field, n = levelAt(matrix.px);
    if (p.square || (matrix.mode === "mean" && n < longest())) {
        const rows = min(n, page.T);
        const columns = min(n, page.S);
        const r = floor(p.row * rows / page.T);
        const c = floor(p.key * columns / page.S);
        const v = { ...windowOf(n), c0: c, c1: c + 1 };
        const q = pointsOf(field, v, r);
        const end = (k, of, T) => count(min(T, firstOf(k + 1, of, T)) - 1);
        return [
            say(
                "tipSquare", count(firstOf(r, rows, page.T)), end(r, rows, page.T), count(firstOf(c, columns, page.S)),
                end(c, columns, page.S)
            ),
            q && !q.values[q.first] && field.sparse && n > field.side
                ? notKept(field.rest(p.row))
                : q
                ? say(
                    matrix.mode === "mean" ? "tipMean" : "tipWeight", weight(q.values[q.first], 4),
                    timesUniform(p.row, q.values[q.first])
                )
                : ""
        ];
    }
    return [
        say("tipPair", name(page.tokens, p.row), count(p.row), name(page.keys, p.key), count(p.key)),
        pairText(p.row, p.key)
    ];
}
// Describes the weight between row i and key j.
function pairText(i, j) {
    const [a, b] = page.weights.span(state.layer, i), w = matrix.field.at(i, j), rest = matrix.field.rest(i);
    if (j < a || j >= b) return say("tipMasked");
    if (!w && rest > 0) return notKept(min(rest, leastKept(i)));
    return say("tipWeight", weight(w, w < .01 ? 4 : 3), timesUniform(i, w));
}
const notKept = most => say("tipNotKept", most < 5e-5 ? say("tiny") : say("keptMost", weight(most, 4)));
const leastKept = i => matrix.field.kept(i).reduce((s, x) => min(s, x[1]), 1);

// ---- one row of the text ---------------------------------------------------------------------------------
/**
 * Returns the weights of a row: at(j) is the weight on key j, top the largest weights in descending order, rest the
 * weight that is not stored, and sum(from, to) a sum over keys.
 * @returns {{ i: number, field: any, at: (j: number) => number, top: [number, number][], rest: number, sum: (from:
 *     number, to: number) => number }}
 */
export function rowSummary(i) {
    const field = matrix.field;
    if (matrix.row?.i === i && matrix.row.field === field) return matrix.row;
    const dense = field.sparse ? null : field.row(i);
    const all = dense ? strongest(dense) : field.kept(i);
    const map = new Map(all);
    const at = dense ? j => dense[j] : j => map.get(j) ?? 0;
    const sum = (from, to) => {
        let s = 0;
        if (dense) for (let j = from; j < to; j++) s += dense[j];
        else for (const [j, w] of all) if (j >= from && j < to) s += w;
        return s;
    };
    return matrix.row = { i, field, at, top: all, rest: field.rest(i), sum };
}
// Returns the 200 largest weights of a row in descending order, [[key, weight], ...].
function strongest(row) {
    let list = [], low = 0;
    row.forEach((w, j) => {
        if (!(w > low)) return;
        list.push([j, w]);
        if (list.length < 400) return;
        list = list.sort((a, b) => b[1] - a[1]).slice(0, 200);
        low = list[199][1];
    });
    return list.sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 200);
}
const timesUniform = (i, w) => {
    const [a, b] = page.weights.span(state.layer, i), x = w * (b - a);
    return say("timesUniform", x >= 10 ? count(round(x)) : x.toFixed(1));
};

// ---- the sentence ---------------------------------------------------------------------------------------------
function describeWindow() {
    const m = matrix, n = levelAt(m.px), v = windowOf(n), T = page.T;
    const shown = isWhole()
        ? say("ofTokens", count(T))
        : say("inWindow", count(queryAt(m.r0)), count(min(T - 1, queryAt(ceil(m.r0 + rowsInView()) - 1))));
    const many = (of, k) => count(max(1, round(of / k)));
    return shown + ", " +
        (n >= longest()
            ? say("oneWeight")
            : say(
                "onePoint", say(m.mode === "max" ? "theStrongest" : "theMean"), many(T, v.rows), many(page.S, v.columns)
            ));
}
function describeShares(i, row) {
    const own = matrix.bars.map(b => ({ name: b.s.name, w: row.sum(b.s.from, b.s.to) }))
        .filter(x => x.w >= .1)
        .sort((a, b) => b.w - a.w)
        .slice(0, 2);
    return matrix.bars.length < 2 ? "" : own.map(x => say("alsoAttends", share(x.w), `“${x.name}”`)).join("");
}
export function answerMatrix() {
    const cross = page.tokens !== page.keys;
    const question = say(cross ? "whereCross" : "whereAttends");
    const heads = selectedHeads();
    const l = matrixTarget();
    if (page.T === 1 && page.S === 1) return { question, pieces: [say("only")] };
    if (!heads.length) return { question, pieces: [say("choose")] };
    fieldNow();
    const who = heads.length > 1
        ? say("headsTitle", state.layer, heads.join(", "))
        : say("headTitle", state.layer, heads[0]);
    if (l.row >= 0 && l.key >= 0 && (l.pointed || state.key >= 0)) {
        if (matrix.point?.square)
            return { question, pieces: [`${who}: ${tipLines(matrix.point, () => "").join(", ")}.`] };
        return {
            question,
            pieces: [
                `${who}: from ${quotedWord(page.tokens[l.row])} (token ${count(l.row)}) to `,
                { b: quotedWord(page.keys[l.key]) }, ` (token ${count(l.key)}): ${pairText(l.row, l.key)}.`
            ]
        };
    }
    if (l.row >= 0) {
        const row = rowSummary(l.row), top = row.top.find(([j]) => isKeyShown(j));
        if (Number.isNaN(row.sum(0, page.S))) return { question, pieces: [`${who}: `, say("notNumber", quote(l.row))] };
        if (!top) return { question, pieces: [`${who}: `, say("nothing", quote(l.row))] };
        return {
            question,
            pieces: [
                `${who}: ${quotedWord(page.tokens[l.row])} (token ${count(l.row)}) attends most to `,
                { b: quotedWord(page.keys[top[0]]) }, ` (token ${count(top[0])}): ${weight(top[1], 3)}, ` +
                    `${timesUniform(l.row, top[1])}${describeShares(l.row, row)}.`
            ]
        };
    }
    const s = page.stats[state.layer][heads[0]];
    const described = cross
        ? say("crossMean", "*" + who + "*", s.keys.toFixed(1))
        : say("farther", "*" + who + "*", s.distance.toFixed(1), s.keys.toFixed(1));
    return {
        question, pieces: heads.length > 1 ? [who, `; ${describeWindow()}.`]
            : [...starred(described), `; ${describeWindow()}.`]
    };
}
// Returns the pieces of the note under the matrix. What names a key to press is left out on paper (class "act").
export function matrixNote() {
    const m = matrix, field = m.field, coarse = field && coarseOf(field), out = [];
    if (!field) return out;
    if (leavesOut())
        out.push(
            say(
                "leftOut",
                share(field.heads.reduce((s, h) => s + page.stats[state.layer][h].shares[4], 0) / field.heads.length),
                page.specials.slice(0, 3).join(", ")
            ),
            el("span", { class: "act" }, " " + say("showThem"))
        );
    if (!field.sparse) return out;
    const kept = share(page.stack.about.kept ?? 1);
    if (!coarse) out.push(" " + say("onlyKeptAll", kept));
    else if (levelAt(m.px) > coarse.n) out.push(" " + say("onlyKept", count(round(longest() / coarse.n)), kept));
    return out;
}
// Returns the table of the view: the keys of the marked row, largest weights first; if no row is marked, the strongest
// points in view.
export function matrixTable() {
    const m = matrix, l = { row: describedRow() };
    if (!m.field) return [];
    if (l.row >= 0) {
        const row = rowSummary(l.row);
        const rows = row.top.map(([j, w]) => [
            page.keys[j].text, j, weight(w, 5),
            (w * (page.weights.span(state.layer, l.row)[1] - page.weights.span(state.layer, l.row)[0])).toFixed(1)
        ]);
        const left = row.sum(0, page.S) - row.top.reduce((s, x) => s + x[1], 0);
        if (left > 5e-4) rows.push([say("more", count(page.S - row.top.length)), "", weight(left, 5), ""]);
        if (row.rest > 5e-4) rows.push([say("notInFile"), "", weight(row.rest, 5), ""]);
        return [["key", "token", "weight", "× uniform"], ...rows];
    }
    const v = windowOf(levelAt(m.px)), best = [], one = v.n >= longest();
    let least = 0;
    for (let r = v.r0; r < v.r1; r++) {
        const p = pointsOf(m.field, v, r);
        for (let c = v.c0; p && c < v.c1; c++) {
            const w = p.values[p.first + c - v.c0];
            if (!(w > least)) continue;
            best.push([r, c, w]);
            if (best.length >= 400) { best.sort((a, b) => b[2] - a[2]); best.length = 200; least = best[199][2]; }
        }
    }
    best.sort((a, b) => b[2] - a[2]);
    const name = (tokens, k, of, T) =>
        one ? tokens[k].named : say("strongestPairs", count(firstOf(k, of, T)), count(firstOf(k + 1, of, T) - 1));
    return [
        ["rows", "keys", "weight"],
        ...best.slice(0, 200).map(([r, c, w]) =>
            [name(page.tokens, r, v.rows, page.T), name(page.keys, c, v.columns, page.S), weight(w, 5)])
    ];
}

// ---- as SVG ------------------------------------------------------------------------------------------------------
export function matrixSvg() {
    const m = matrix;
    const { question, pieces } = answerMatrix();
    const heat = document.createElement("canvas");
    const out = [];
    const c = heat.getContext("2d");
    const r = x => x.toFixed(1);
    const l = matrixTarget();
    const w = min(m.w, keysShown() * m.px), h = min(m.h, rowsShown() * m.px), scale = 2;
    heat.width = ceil(w * scale);
    heat.height = ceil(h * scale);
    c.setTransform(scale, 0, 0, scale, -m.left * scale, -m.above * scale);
    c.fillStyle = css(rampAt(0));
    c.fillRect(m.left, m.above, w, h);
    if (m.field) { drawHeat(c, m.field); drawMask(c); }
    out.push(
        `<g transform="translate(0 76)"><image x="${m.left}" y="${m.above}" width="${r(w)}" height="${r(h)}" ` +
            `href="${heat.toDataURL()}"/>`
    );
    const text = (x, y, anchor, words, turn) => out.push(
        `<text class="n" font-size="12" x="${r(x)}" y="${r(y)}" ` +
            `text-anchor="${anchor}"${turn ? ` transform="rotate(-50 ${r(x)} ${r(y)})"` : ""}>${escaped(words)}</text>`
    );
    const [rows, keys] = sectionsOf(page.stack), inside = (x, low, size) => x >= low && x <= low + size;
    if (m.labelled) {
        for (const i of labelledRows())
            text(m.left - 7, yOf(i + .5), "end", shortened(shownToken(page.tokens[i]), 12));
        for (const j of labelledKeys())
            text(xOf(j + .5), m.above - 6, "start", shortened(shownToken(page.keys[j]), 12), true);
    } else {
        for (const s of rows) {
            const y = yOf((s.from + s.to) / 2);
            if (inside(y, m.above, h)) text(m.left - 7, y, "end", s.short);
        }
        for (const s of keys) {
            const x = xOf((s.from + s.to) / 2);
            if (inside(x, m.left, w)) text(x, m.above - 12, "middle", s.short);
        }
    }
    if (l.row >= 0 && inside(yOf(l.row + .5), m.above, h))
        out.push(`<rect x="${m.left}" y="${r(yOf(l.row + .5) - 1)}" width="${r(w)}" height="2" fill="${hue.point}"/>`);
    const ramp = Array.from({ length: 25 }, (_, n) =>
        `<rect x="${8 + 5 * n}" y="${r(m.tall + 8)}" width="5.2" height="10" fill="${css(rampAt(n / 24))}"/>`);
    const scale1 = m.shownScale ? weight(m.shownScale, 3) : "1";
    out.push(
        `<g data-words="">`, ...ramp, `<text class="n" font-size="12" x="140" y="${r(m.tall + 13)}">0 – ${scale1} · ` +
            `${escaped(page.about.model)} · ${escaped(say("layerOf", state.layer))}, ` +
            `${escaped(say(selectedHeads().length > 1 ? "heads" : "head", selectedHeads().join(", ")))}</text></g>`
    );
    out.push("</g>");
    return pictureSvg(ceil(m.wide), ceil(m.tall + 108), ceil(m.tall + 80), question, plain(pieces), out.join(""));
}
