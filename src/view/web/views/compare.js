// SPDX-License-Identifier: MIT
// compare.js: the view "What changed?": shows the same head in two models, at two checkpoints, or on two texts, side by
// side with a common cursor, or as their difference. Heads are ordered by the divergence that the command computed.
import { abs, ceil, floor, max, min } from "../base/math.js";
import { addTexts, count, hundredths, say, signed, weight } from "../base/messages.js";
import { cells, el, nameNode, onClick } from "../base/dom.js";
import { defined } from "../base/terms.js";
import { headName, page, quote, state, threshold } from "../base/state.js";
import { css, hue, opacity, rampAt, thickness } from "../base/palette.js";
import { requestDraw } from "../base/drawing.js";
import { addView, headOfKey, set, stacksOf, stepLayerBy, writeAddress } from "../base/frame.js";
import {
    LEVELS, choices, figuresSvg, fitted, fittedAt, focused, weightText, keyName, levelOf, newFigure, pickers,
    rectAt, redraw, shape, shownToken, tenth, textAt
} from "../parts/figure.js";
import { SHADES } from "./neuron.js";

addTexts({
    changed: "What changed?",
    noOther: "There is nothing to compare with: “qkv view --against” names another model or text.",
    changedMost: "Heads that changed most",
    bitsNote: "Jensen-Shannon divergence in bits, mean of {0} rows: 0 for equal weights, 1 for no key in common.",
    asLinks: "links", asMatrices: "matrices", asDifference: "difference", how: "Show",
    mostOf: "Of {0} heads, ", changesMost: " changed most: {0} bits; the median head {1}.",
    thisHead: " Layer {0}, head {1} is number {2} in this order, with {3} bits.",
    nothingChanged: "Nothing changed: all {0} heads have the same weights, 0 bits.",
    first: "A", second: "B",
    fromTo: " {0} → {1}",
    noCounterpart: "{0} has no counterpart in B.",
    unaligned: "{0} of {1} tokens of A and {2} of {3} of B have no counterpart: the difference " +
        "does not show them.",
    rest: "not aligned or hidden",
    change: "change",
    differenceNote: "In a cell: A above B, in hundredths. Blue: larger in B; orange: smaller in B. " +
        "Darkness: size of the change.",
    blocks: "{0} × {0} cells, each the largest of its block"
});

const compare = { mode: "", point: null, other: [] };
const MOST_CELLS = 64;

// Returns the stacks of the other model or text, which are made only once. In page.all, their weights follow the
// weights of the page's own stacks.
function otherStacks() {
    if (!compare.other.length) {
        compare.other = stacksOf(page.about.against);
        compare.other.forEach((s, n) => { s.weights = page.all[page.stacks.length + n]; });
    }
    return compare.other;
}
// Returns the other stack, the alignment of its rows and keys with this one, and the tokens that each side shows.
function pairing() {
    const { against } = page.about, other = otherStacks()[state.stack], shown = t => state.special || !t.special;
    const align = against.align[page.stack.about.rows], key = against.align[page.stack.about.keys];
    const list = (tokens, all) => all.length && tokens.every(t => t.special) ? all : all.filter(i => shown(tokens[i]));
    return {
        other, align, key, rows: list(other.tokens, other.tokens.map((_, i) => i)),
        keys: list(other.keys, other.keys.map((_, j) => j)), ownKeys: list(page.keys, page.keys.map((_, j) => j))
    };
}
const ranked = () =>
    page.about.against.moved.filter(m => m[0] === state.stack)
        .map(([, l, h, bits, rows, row]) => ({ l, h, bits, rows, row }));
const bitsOf = x => x === 0 ? "0" : x < .0005 ? "< .001" : weight(x, 3);
// Returns names for the two sides: the names of the models or, if they are equal, the texts from shortly before their
// first difference.
function sideNames() {
    const { about } = page, { against } = about, align = against.align[0];
    if (about.model !== against.model) return [about.model, against.model];
    const words = ({ tokens }, apart) => {
        const own = tokens.map((t, i) => i).filter(i => tokens[i][2] !== 1);
        const at = own.findIndex(i => apart(i));
        const from = max(0, (at < 0 ? 0 : at) - 3);
        return `“${from ? "… " : ""}${own.slice(from).map(i => tokens[i][0]).join(" ")}”`;
    };
    return [words(about.texts[0], i => align[i] < 0), words(against.texts[0], i => !align.includes(i))];
}

function buildCompare() {
    if (page.first === "compare" && location.hash.length < 2) {
        const [most] = ranked();
        if (most && state.row < 0) Object.assign(state, { layer: most.l, selected: [most.h], row: most.row });
    }
    compare.figure = newFigure(say("changed"));
    compare.box = el("div", { class: "board", tabindex: 0, role: "group" }, compare.figure.node);
    compare.pick = pickers();
    compare.pick.all.key.parentNode.remove();
    compare.how = choices(
        say("how"),
        ["links", "matrix", "difference"].map((id, n) => [id, say(["asLinks", "asMatrices", "asDifference"][n])]),
        () => modeNow(), mode => { compare.mode = mode; writeAddress(); requestDraw("layout"); }
    );
    compare.list = el("div", { class: "ranked" });
    compare.note = el("p", { class: "note" });
    compare.table = el("div");
    const { node } = compare.figure;
    node.addEventListener("pointermove", e => pointCompare(placeAt(e)));
    node.addEventListener("pointerleave", () => pointCompare(null));
    onClick(node, e => {
        const p = placeAt(e);
        if (p && getSelection().isCollapsed)
            set(p.row === state.row && p.key === state.key ? { row: -1, key: -1 } : { row: p.row, key: p.key });
    });
    return {
        left: [el("div", {}, el("h2", defined("Jensen-Shannon divergence"), say("changedMost")), compare.list)],
        mid: [el("div", { class: "controls" }, compare.pick.node, compare.how.node), compare.box, compare.note],
        right: [compare.table]
    };
}
const modeNow = () => compare.mode || (page.T > 40 ? "matrix" : "links");
function pointCompare(p) {
    const a = compare.point;
    compare.point = p;
    if (a?.row !== p?.row || a?.key !== p?.key) requestDraw("target");
}
// Returns the cursor, as tokens of side A: the row and key under the pointer or, if there are none, the marked ones.
function cursor() {
    return compare.point ?? { row: state.row, key: state.key };
}

function drawRanked() {
    const all = ranked();
    const now = focused();
    const most = all[0]?.bits || 1;
    const shown = all.slice(0, 20);
    const at = all.findIndex(m => m.l === now?.layer && m.h === now?.head);
    if (at >= 20) shown.push(all[at]);
    compare.list.replaceChildren(...shown.map(m => {
        const bar = el("i");
        const b = el(
            "button", { "aria-pressed": m.l === now?.layer && m.h === now?.head }, el("span", {}, `L${m.l}.H${m.h}`),
            bar, el("span", {}, m.rows === 0 ? "!" : bitsOf(m.bits))
        );
        bar.style.width = 100 * m.bits / most + "%";
        onClick(b, () => set({ layer: m.l, selected: [m.h] }));
        return b;
    }), el(
        "p", { class: "note" },
        (all.length > shown.length ? say("more", all.length - shown.length) + ". " : "") +
            say("bitsNote", all[max(0, at)]?.rows ?? 0)
    ));
}

function drawCompare(what) {
    const f = focused(), w = compare.box.clientWidth;
    compare.pick.show(f && { ...f, i: state.row < 0 ? "" : state.row }); // no row is marked: no query
    compare.how.show();
    if (what !== "target") drawRanked();
    if (!f) return redraw(compare.figure, w, 10);
    const old = compare.seen, p = pairing(), narrow = w < 560, parts = [];
    const sides = [
        {
            name: sideNames()[0], mark: say("first"), tokens: page.tokens, keys: page.keys, rows: page.visible,
            cols: p.ownKeys, row: i => page.weights.row(f.layer, f.head, i), of: i => i, key: j => j, back: i => i,
            backKey: j => j
        },
        {
            name: sideNames()[1], mark: say("second"), tokens: p.other.tokens, keys: p.other.keys, rows: p.rows,
            cols: p.keys, row: i => p.other.weights.row(f.layer, f.head, i), of: i => p.align[i] ?? -1,
            key: j => p.key[j] ?? -1, back: i => p.align.indexOf(i), backKey: j => p.key.indexOf(j)
        }
    ];
    // The cells do not change while only the cursor moves.
    const seen = compare.seen = {
        f, p, sides, w, places: [], grids: [], h: 0, cells: null,
        at: [state.stack, f.layer, f.head, modeNow(), w, hue.dark, hue.forced, state.raw, state.special].join()
    };
    if (old?.cells && old.at === seen.at)
        Object.assign(seen, { places: old.places, grids: old.grids, h: old.h, cells: old.cells });
    else if (modeNow() === "difference") drawDifference(seen, parts);
    else {
        const wide = narrow ? w : (w - 28) / 2;
        sides.forEach((s, n) => {
            const x = narrow ? 0 : n * (wide + 28), y = narrow && n ? seen.h + 20 : 0;
            parts.push(
                textAt(x, y + 16, s.mark, "letter"), textAt(x + 22, y + 16, fitted(s.name, wide - 26, 13), "note")
            );
            seen.h = max(seen.h, (modeNow() === "links" ? drawLinksOf : drawCellsOf)(seen, s, x, y + 28, wide, parts));
        });
    }
    seen.cells ??= shape("g", {}, ...parts);
    redraw(compare.figure, w, seen.h + 4, seen.cells, ...seen.grids.flatMap(g => ringsOf(g)));
    if (modeNow() === "links") seen.cells = null;
    const lost = [
        page.tokens.map((_, i) => p.align[i] ?? -1).filter(i => i < 0).length,
        p.other.tokens.map((_, i) => p.align.indexOf(i)).filter(i => i < 0).length
    ];
    const pooled = max(page.visible.length, p.rows.length, p.keys.length) > MOST_CELLS && modeNow() !== "links"
        ? say("blocks", MOST_CELLS) + ". "
        : "";
    compare.note.textContent = pooled + (modeNow() === "difference" ? say("differenceNote") + " " : "") +
        (lost[0] + lost[1] ? say("unaligned", lost[0], page.T, lost[1], p.other.T) : "");
    drawCompareTable(compare.seen);
}

// Returns the part of a list that is drawn as links: at most 64 tokens, around the cursor.
function around(list, at) {
    if (list.length <= MOST_CELLS) return list;
    const from = min(list.length - MOST_CELLS, max(0, list.indexOf(at) - MOST_CELLS / 2));
    return list.slice(from, from + MOST_CELLS);
}
function drawLinksOf(seen, s, x, y, wide, parts) {
    const c = cursor();
    const row = c.row >= 0 ? s.of(c.row) : -1;
    const key = c.key >= 0 ? s.key(c.key) : -1;
    const rows = around(s.rows, row);
    const cols = around(s.cols, row >= 0 && s.tokens === s.keys ? row : key);
    const tall = max(18, min(40, 560 / max(rows.length, cols.length)));
    const side = min(110, .25 * wide);
    const keySide = min(130, .34 * wide); // with the weights
    const x0 = x + side + 8;
    const x1 = x + wide - keySide - 8;
    const bend = .46 * (x1 - x0);
    const colour = hue.dark ? "link dark" : "link", at = new Map(cols.map((j, n) => [j, y + (n + .5) * tall]));
    rows.forEach((i, n) => {
        const mid = y + (n + .5) * tall, ws = s.row(i), on = row < 0 || i === row;
        parts.push(
            fittedAt(
                x + side, mid + 4.5, shownToken(s.tokens[i]), side,
                i === row ? "strong" : row >= 0 ? "pale" : "", "end"
            )
        );
        seen.places.push({ x, w: wide / 2, y: mid - tall / 2, h: tall, row: s.back(i), key: -1 });
        for (const j of cols) {
            const tau = threshold(i), t = (ws[j] - tau) / (1 - tau);
            if (!(ws[j] > tau) || (row < 0 && key >= 0 && j !== key)) continue;
            const to = at.get(j);
            parts.push(
                shape(
                    "path",
                    {
                        class: colour, opacity: (opacity(t) * (on ? 1 : .11)).toFixed(3),
                        "stroke-width": thickness(t).toFixed(2),
                        d: `M${tenth(x0)} ${tenth(mid)}C${tenth(x0 + bend)} ${tenth(mid)} ${tenth(x1 - bend)} ` +
                            `${tenth(to)} ${tenth(x1)} ${tenth(to)}`
                    }
                )
            );
        }
    });
    const ws = row >= 0 ? s.row(row) : null;
    cols.forEach((j, n) => {
        const mid = y + (n + .5) * tall, kind = j === key ? "strong" : ws && ws[j] < .05 ? "pale" : "";
        parts.push(fittedAt(x + wide - keySide, mid + 4.5, shownToken(s.keys[j]), keySide - (ws ? 34 : 0), kind));
        if (ws && ws[j] >= .01)
            parts.push(textAt(x + wide, mid + 4, weight(ws[j]), ws[j] >= .05 ? "under" : "tiny", "end"));
        seen.places.push({ x: x + wide / 2, w: wide / 2, y: mid - tall / 2, h: tall, row: c.row, key: s.backKey(j) });
    });
    return y + max(rows.length, cols.length) * tall;
}

// Splits a list into at most 64 blocks of the matrix.
function blocksOf(list) {
    const n = min(MOST_CELLS, list.length);
    return Array.from(
        { length: n }, (_, b) => list.slice(floor(b * list.length / n), floor((b + 1) * list.length / n))
    );
}
function labelsFor(tokens, rows, cols, keys, x, y, size, parts) {
    const letters = min(13, max(9.5, size - 3));
    const label = (x, y, token, width, anchor) => {
        const node = textAt(x, y, fitted(shownToken(token), width, letters), "", anchor);
        node.setAttribute("font-size", letters);
        parts.push(node);
        return node;
    };
    rows.forEach(([i], n) => label(x - 8, y + (n + .5) * size + 4, tokens[i], 70, "end"));
    cols.forEach(([j], n) => {
        const node = label(0, 0, keys[j], 58, "start");
        node.setAttribute("transform", `translate(${tenth(x + (n + .6) * size)} ${tenth(y - 6)}) rotate(-52)`);
    });
}
// Marks the row and the cell of the cursor on one side.
function ringsOf({ side: s, x, y, size, rows, cols }) {
    const c = cursor(), r = c.row >= 0 ? s.of(c.row) : -1, k = c.key >= 0 ? s.key(c.key) : -1, out = [];
    const n = rows.findIndex(b => b.includes(r)), m = cols.findIndex(b => b.includes(k));
    if (n >= 0) out.push(rectAt(x - 1, y + n * size - 1, cols.length * size + 2, size + 2, "ring"));
    if (n >= 0 && m >= 0) out.push(rectAt(x + m * size - 1, y + n * size - 1, size + 2, size + 2, "ring thick"));
    return out;
}
// Returns true if the labels of a matrix of n rows are at least as far apart as their letters are tall.
const hasLabelSpace = (wide, n) => wide - 108 >= 11 * n;
function drawCellsOf(seen, s, x, y, wide, parts) {
    const rows = blocksOf(s.rows);
    const cols = blocksOf(s.cols);
    const n = max(rows.length, cols.length);
    const named = n <= 28 && hasLabelSpace(wide, n);
    const left = named ? 78 : 0;
    const top = named ? 58 : 0;
    const size = (wide - left - (named ? 30 : 0)) / max(1, n);
    const gap = size > 8 ? 1 : 0;
    const paths = Array.from({ length: LEVELS + 1 }, () => "");
    const numbers = [];
    const x0 = x + left;
    const y0 = y + top;
    rows.forEach((block, a) => {
        const most = new Float32Array(cols.length);
        for (const i of block) {
            const ws = s.row(i);
            cols.forEach((b, m) => { for (const j of b) if (ws[j] > most[m]) most[m] = ws[j]; });
        }
        most.forEach((v, m) => {
            paths[levelOf(v)] += `M${tenth(x0 + m * size)} ` +
                `${tenth(y0 + a * size)}h${(size - gap).toFixed(2)}v${(size - gap).toFixed(2)}` +
                `h${(gap - size).toFixed(2)}z`;
        });
        cols.forEach((b, m) => seen.places.push({
            x: x0 + m * size, w: size, y: y0 + a * size, h: size, row: s.back(block[0]), key: s.backKey(b[0])
        }));
        if (size >= 22)
            most.forEach((v, m) => {
                if (v >= .095)
                    numbers.push(weightText(x0 + (m + .5) * size - .5, y0 + (a + .5) * size + 3.5, v, hundredths(v)));
            });
    });
    paths.forEach((d, n) => {
        if (d) parts.push(shape("path", { class: `w${n}`, fill: css(rampAt(n / LEVELS)), d }));
    });
    parts.push(...numbers);
    seen.grids.push({ side: s, x: x0, y: y0, size, rows, cols });
    if (named) labelsFor(s.tokens, rows, cols, s.keys, x0, y0, size, parts);
    return y0 + rows.length * size;
}
// Draws the difference B - A for the tokens that both sides have. Large cells also contain both weights.
function drawDifference(seen, parts) {
    const { p, sides, w } = seen, [a, b] = sides;
    const rows = blocksOf(a.rows.filter(i => p.align[i] >= 0));
    const cols = blocksOf(a.cols.filter(j => p.key[j] >= 0));
    const n = max(rows.length, cols.length);
    const named = n <= 32 && hasLabelSpace(w, n);
    const left = named ? 78 : 0;
    const top = named ? 58 : 0;
    const size = min(52, (w - left - (named ? 30 : 0)) / max(1, n));
    const gap = size > 8 ? 1 : 0;
    const paths = Array.from({ length: 2 * SHADES + 1 }, () => "");
    const numbers = [];
    rows.forEach((block, r) => {
        const most = new Float32Array(cols.length), both = cols.map(() => [0, 0]);
        for (const i of block) {
            const u = a.row(i), v = b.row(p.align[i]);
            cols.forEach((list, m) => { for (const j of list) {
                const d = v[p.key[j]] - u[j];
                if (!(abs(d) < abs(most[m])) ) { most[m] = d; both[m] = [u[j], v[p.key[j]]]; }
            } });
        }
        most.forEach((d, m) => {
            const shade = d ? min(SHADES, ceil(SHADES * abs(d) ** .7)) : 0, x = left + m * size, y = top + r * size;
            paths[shade ? (d < 0 ? SHADES : 0) + shade : 0] += `M${tenth(x)} ${tenth(y)}h${(size - gap).toFixed(2)}` +
                `v${(size - gap).toFixed(2)}h${(gap - size).toFixed(2)}z`;
            seen.places.push({ x, w: size, y, h: size, row: block[0], key: cols[m][0] });
            if (size >= 30 && max(...both[m]) >= .045)
                both[m].forEach((v, k) => numbers.push(
                    shape(
                        "text",
                        {
                            class: shade > SHADES / 2 ? "celltext" : "under", "font-size": 10.5,
                            "text-anchor": "middle",
                            x: tenth(x + size / 2 - .5), y: tenth(y + size / 2 + (k ? 13 : -2))
                        },
                        hundredths(v)
                    )
                ));
        });
    });
    paths.forEach((d, n) => {
        if (d)
            parts.push(
                shape(
                    "path",
                    n
                        ? { class: n > SHADES ? "neg" : "pos", opacity: tenth(((n - 1) % SHADES + 1) / SHADES), d }
                        : { class: "empty", d }
                )
            );
    });
    parts.push(...numbers);
    seen.grids.push({ side: a, x: left, y: top, size, rows, cols });
    if (named) labelsFor(a.tokens, rows, cols, a.keys, left, top, size, parts);
    seen.h = top + rows.length * size;
}
function placeAt(e) {
    const r = compare.figure.node.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    const p = compare.seen?.places.find(b => x >= b.x && x < b.x + b.w && y >= b.y && y < b.y + b.h);
    return p && (p.row >= 0 || p.key >= 0) ? { row: p.row, key: p.key } : null;
}

// Returns the weights of the row at the cursor for every key, by the size of their change. All keys without an aligned
// key share one row, so that both columns sum to 1. null: the cursor is on no row.
function changesOf({ f, p }, i) {
    const at = i >= 0 ? p.align[i] : -1;
    if (i < 0 || !(at >= 0)) return null;
    const u = page.weights.row(f.layer, f.head, i), v = p.other.weights.row(f.layer, f.head, at), out = [];
    const rest = [u.reduce((s, x) => s + x, 0), v.reduce((s, x) => s + x, 0)], total = [...rest];
    for (const j of p.ownKeys) {
        const k = p.key[j];
        if (!(k >= 0)) continue;
        out.push({ j, a: u[j], b: v[k] });
        rest[0] -= u[j];
        rest[1] -= v[k];
    }
    out.sort((x, y) => abs(y.b - y.a) - abs(x.b - x.a) || x.j - y.j);
    return { keys: out, rest, total };
}
function drawCompareTable(seen) {
    const c = cursor(), i = c.row, all = changesOf(seen, i);
    if (!all) {
        const last = i >= 0 ? [el("p", { class: "note" }, say("noCounterpart", quote(i)))] : [];
        return compare.table.replaceChildren(...last);
    }
    const line = (name, a, b, kind) => {
        const tr = cells(
            el("td", { class: "text", title: name }, nameNode(name)), weight(a, 3), weight(b, 3),
            el("td", { class: abs(b - a) < 5e-4 ? "" : b > a ? "up" : "down" }, signed(b - a, 3).replace("0.", "."))
        );
        if (kind) tr.className = kind;
        return tr;
    };
    const most = 18, rest = all.keys.slice(most).reduce((s, k) => [s[0] + k.a, s[1] + k.b], [0, 0]);
    compare.table.replaceChildren(
        el("table", { class: "row changes" }, el("caption", {}, say("rowOf", quote(i), state.layer)),
            el(
                "thead", {},
                el(
                    "tr", {},
                    ...["key", say("first"), say("second"), say("change")].map(t => el("th", { scope: "col" }, t))
                )
            ),
            el(
                "tbody", {},
                ...all.keys.slice(0, most).map(k =>
                    line(page.keys[k.j].named, k.a, k.b, k.j === c.key ? "selected" : "")),
                ...(all.keys.length > most ? [line(say("more", count(all.keys.length - most)), rest[0], rest[1])] : []),
                ...(max(abs(all.rest[0]), abs(all.rest[1])) > 5e-4
                    ? [line(say("rest"), all.rest[0], all.rest[1])]
                    : []),
                line(say("sum"), all.total[0], all.total[1], "total")
            ))
    );
}

function answerCompare() {
    const question = say("changed"), all = ranked(), f = focused(), c = cursor();
    if (!f) return { question, pieces: [say("choose")] };
    if (!all.length || all[0].bits === 0) return { question, pieces: [say("nothingChanged", all.length)] };
    const seen = { f, p: pairing() }, row = changesOf(seen, c.row);
    if (c.row >= 0 && !row) return { question, pieces: [say("noCounterpart", quote(c.row))] };
    if (row && row.keys.length) {
        const pick = row.keys.find(k => k.j === c.key);
        const list = pick ? [pick] : row.keys.slice(0, 2).filter(k => abs(k.b - k.a) >= .005 || k === row.keys[0]);
        return {
            question,
            pieces: [
                `${quote(c.row)} in ${headName(f.layer, f.head)}: `,
                ...list.flatMap((k, n) =>
                    [n ? ", " : "", { b: keyName(k.j) }, say("fromTo", weight(k.a), weight(k.b))]),
                "."
            ].filter(
                t => t !== ""
            )
        };
    }
    const middle = all[all.length >> 1].bits, at = all.findIndex(m => m.l === f.layer && m.h === f.head);
    return {
        question,
        pieces: [
            say("mostOf", all.length), { b: `layer ${all[0].l}, head ${all[0].h}` },
            say("changesMost", bitsOf(all[0].bits), bitsOf(middle)),
            ...(at > 0 ? [say("thisHead", f.layer, f.head, at + 1, bitsOf(all[at].bits))] : [])
        ]
    };
}
function compareRows() {
    const f = focused(), row = f && changesOf({ f, p: pairing() }, cursor().row);
    if (row)
        return [
            ["key", "A", "B", "change"],
            ...row.keys.map(k => [page.keys[k.j].named, weight(k.a, 4), weight(k.b, 4), signed(k.b - k.a, 4)]),
            [say("rest"), ...row.rest.map(x => weight(max(0, x), 4)), signed(row.rest[1] - row.rest[0], 4)],
            [say("sum"), ...row.total.map(x => weight(x, 4)), signed(row.total[1] - row.total[0], 4)]
        ];
    return [
        ["layer", "head", "bits", "rows"], ...ranked().map(m => [m.l, m.h, m.bits ? m.bits.toFixed(6) : "0", m.rows])
    ];
}
export function walkRows(by) {
    const at = page.visible.indexOf(state.row), n = page.visible.length;
    compare.point = null;
    set({ row: page.visible[at < 0 ? by > 0 ? 0 : n - 1 : min(n - 1, max(0, at + by))], key: -1 });
}
// Moves to the next head in the order of their differences.
function walkRanked(by) {
    const all = ranked();
    const f = focused();
    const at = all.findIndex(m => m.l === f?.layer && m.h === f?.head);
    const to = all[min(all.length - 1, max(0, at + by))];
    if (to) set({ layer: to.l, selected: [to.h] });
}

addView({
    key: "K", id: "compare", name: "Compare",
    can: () => page.about.against ? true : say("noOther"),
    build: () => buildCompare(),
    stack: () => { compare.seen = null; compare.other = []; },
    hide: () => { compare.point = null; },
    draw: what => drawCompare(what),
    answer: () => answerCompare(),
    get group() { return compare.box; },
    table: () => compareRows(),
    svg: () => figuresSvg([compare.figure], answerCompare()),
    drop: () => { compare.point = null; },
    write: p => { if (compare.mode) p.set("cm", compare.mode); },
    read: p => { compare.mode = ["links", "matrix", "difference"].includes(p.get("cm")) ? p.get("cm") : ""; },
    keys: [
        [
            "↑ ↓", "row", e => e.key === "ArrowUp" || e.key === "ArrowDown",
            e => walkRows(e.key === "ArrowUp" ? -1 : 1), 1
        ],
        ["[ ]", "head, by change", e => e.key === "[" || e.key === "]", e => walkRanked(e.key === "[" ? -1 : 1), 1],
        [
            "← →", "layer", e => e.key === "ArrowLeft" || e.key === "ArrowRight",
            e => stepLayerBy(e.key === "ArrowLeft" ? -1 : 1), 1
        ],
        ["0…9 - =", "head (0 to 11)", e => !e.shiftKey && headOfKey(e) >= 0, e => set({ selected: [headOfKey(e)] }), 1],
        [
            "L", "links, matrices, difference", "l",
            () => {
                const all = ["links", "matrix", "difference"];
                compare.mode = all[(all.indexOf(modeNow()) + 1) % 3];
                writeAddress();
                requestDraw("layout");
            },
            1
        ]
    ]
});
