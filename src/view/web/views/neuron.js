// SPDX-License-Identifier: MIT
// neuron.js: the view "Which dimensions make this weight?": shows a query and a key by dimension, with their products,
// and the products for every other key.
import { abs, ceil, floor, max, min, sqrt } from "../base/math.js";
import { addTexts, count, certain, say, signed, weight } from "../base/messages.js";
import { cells, el, onClick } from "../base/dom.js";
import { page, quote } from "../base/state.js";
import { requestDraw } from "../base/drawing.js";
import { addView, set, writeAddress } from "../base/frame.js";
import {
    barsOf, canVectors, choices, dotText, elementText, factors, figuresSvg, fitted, focused, hair, hatching, weightFill,
    keyLines, keyName, largest, newFigure, pairKeys, pairsOf, pickers, productError, productText, rectAt, redraw,
    rootName, scaling, scoresOf, shape, shownToken, takePointed, tenth, textAt, weighed, weighedText, weightsAt, whyNot
} from "../parts/figure.js";

addTexts({
    whichDimensions: "Which dimensions make {0} attend to {1}?",
    queryOf: "q of", keyOf: "k of", products: "q ∘ k", running: "running sum", valueOf: "v of", weighedValue: "w v",
    order: "Order", byPlace: "by dimension", byProduct: "by product",
    everyKey: "The same products for every key",
    everyKeyNote: "one column per dimension, in the order above; blue raises the score, orange lowers it",
    toWeight: "From score to weight",
    dotRow: "q · k", divided: "÷ {0}", capped: "capped at {0}", biased: "+ bias", maskRow: "mask",
    seenRow: "not masked",
    expRow: "exp(score − maximum)", sumRow: "sum over {0} keys", weightRow: "weight",
    largestProducts: "Largest products", theRest: "{0} others", restName: "sum of the rest",
    atMost: "the {0} largest of {1} products; the last bar is the sum of the rest",
    sumThere: "sum up to this dimension"
});

const neuron = { sorted: false, point: null };
const MOST_BARS = 128;
const KEPT_BARS = 64;

function buildNeuron() {
    neuron.figure = newFigure(say("products"));
    neuron.keys = newFigure(say("everyKey"));
    neuron.pick = pickers();
    neuron.order = choices(
        say("order"), [[false, say("byPlace")], [true, say("byProduct")]], () => neuron.sorted, sortProducts
    );
    neuron.missing = el("p", { class: "missing" });
    neuron.note = el("p", { class: "note" });
    neuron.all = el(
        "div", {}, el("h2", {}, say("everyKey")), neuron.keys.node, el("p", { class: "note" }, say("everyKeyNote"))
    );
    neuron.box = el("div", { class: "board", tabindex: 0, role: "group" }, neuron.figure.node, neuron.note, neuron.all);
    neuron.chain = el("div");
    neuron.number = el("div");
    neuron.top = el("div");
    for (const f of [neuron.figure, neuron.keys]) {
        f.node.addEventListener("pointermove", e => pointNeuron(e, f));
        f.node.addEventListener("pointerleave", () => { neuron.point = null; drawNeuronPoint(); });
    }
    onClick(neuron.keys.node, e => {
        const row = e.target.closest("[data-key]");
        if (row && getSelection().isCollapsed) set({ row: focused().i, key: +row.dataset.key });
    });
    return {
        mid: [el("div", { class: "controls" }, neuron.pick.node, neuron.order.node), neuron.missing, neuron.box],
        right: [neuron.chain, neuron.number, neuron.top]
    };
}
function sortProducts(sorted) {
    neuron.sorted = sorted;
    writeAddress();
    requestDraw("base");
}

// Returns the order in which dimensions are drawn, { at: [dimension], products, rest: [dimension], restSum }. Up to 128
// dimensions are all in `at`; if there are more, the 64 with the largest products are in `at`, and the others in
// `rest`.
function orderOf(of, j) {
    const k = of.k(j), products = of.q.map((x, e) => x * k[e]), E = of.E;
    let at = Array.from({ length: E }, (_, e) => e), rest = [];
    if (E > MOST_BARS) {
        at.sort((a, b) => abs(products[b]) - abs(products[a]));
        rest = at.slice(KEPT_BARS);
        at = at.slice(0, KEPT_BARS);
    }
    if (neuron.sorted || rest.length) at.sort((a, b) => products[b] - products[a] || a - b);
    return { at, products, rest, restSum: rest.reduce((s, e) => s + products[e], 0) };
}

function drawNeuron() {
    const f = focused(), of = f && scoresOf(f), none = whyNot(f, of);
    neuron.box.hidden = !!none;
    const w = neuron.box.clientWidth;
    neuron.pick.show(f);
    neuron.order.show();
    neuron.missing.textContent = none;
    neuron.seen = null;
    for (const box of [neuron.chain, neuron.number, neuron.top]) if (none) box.replaceChildren();
    if (none) return;
    const now = weightsAt(of, of.own), order = orderOf(of, f.j), narrow = w < 560;
    const left = narrow ? 0 : 92;
    const n = order.at.length + (order.rest.length ? 1 : 0);
    const wide = w - left - (narrow ? 0 : NUMBERS_WIDTH);
    neuron.seen = { f, of, now, order, w, left, wide, n, narrow, rows: keyLines(of, now.w, f.j) };
    drawBands(neuron.seen);
    drawEveryKey(neuron.seen);
    drawChain(neuron.seen);
    drawNeuronPoint();
}
// Draws the bands: q, k, their products, the running sum, v and w v.
function drawBands(seen) {
    const { f, of, now, order, w, left, wide, narrow } = seen, k = of.k(f.j), v = of.v(f.j), parts = [];
    const some = list => order.at.map(e => list[e]), most = largest([of.q, k]);
    let y = 0;
    const band = (tall, name, token, values, top, end, kind) => {
        const mid = y + (narrow ? 16 : 0) + tall / 2;
        parts.push(
            ...(narrow
                ? [textAt(0, y + 12, `${name} ${token}`, "note")]
                : [
                    textAt(left - 14, mid - (token ? 3 : -4), name, "note", "end"),
                    ...(token ? [textAt(left - 14, mid + 13, fitted(token, left - 16, 13), "strong", "end")] : [])
                ])
        );
        parts.push(barsOf(values, left, mid, values.length / seen.n * wide, tall - 8, top, kind));
        if (end)
            parts.push(
                textAt(
                    narrow ? w : left + wide + 10, narrow ? y + 12 : mid + 4.5, end, "strong", narrow ? "end" : "start"
                )
            );
        y += tall + (narrow ? 16 : 0);
        return mid;
    };
    seen.bands = [];
    const put = (what, tall, ...more) => {
        const from = y;
        band(tall, ...more);
        seen.bands.push({ what, from, to: y });
    };
    put("q", 64, say("queryOf"), page.tokens[f.i].named, some(of.q), most, "", "pale");
    put("k", 64, say("keyOf"), page.keys[f.j].named, some(k), most, "", "pale");
    const list = [...some(order.products), ...(order.rest.length ? [order.restSum] : [])];
    put("p", 84, say("products"), "", list, largest([list]), "", "");
    if (order.rest.length)
        parts.push(
            textAt(
                left + wide, y - 42 + (order.restSum < 0 ? -6 : 14), say("theRest", order.rest.length), "tiny", "end"
            )
        );
    const from = y;
    y = runningSum(seen, list, y, parts);
    seen.bands.push({ what: "s", from, to: y });
    const x = now.w[f.j];
    if (v) {
        const top = largest([v]), all = v.length === of.E ? some(v) : v;
        parts.push(hair(0, y + 6, w, y + 6, "line"));
        y += 14;
        const full = seen.n;
        seen.n = all.length; // values may have another width than queries
        put("v", 56, say("valueOf"), page.keys[f.j].named, all, top, "", "pale");
        put("w", 56, say("weighedValue"), "", all.map(a => a * x), top, `× ${weight(x, 3)}`, "");
        seen.n = full;
        seen.values = v.length === of.E ? order.at : v.map((_, e) => e);
    } else {
        parts.push(textAt(left, y + 18, fitted(say("noValues", f.layer), w - left, 12), "note"));
        y += 26;
    }
    neuron.note.textContent = order.rest.length ? say("atMost", KEPT_BARS, of.E) : "";
    redraw(neuron.figure, w, y + 4, ...parts);
}
// Draws the running sum of the products as a step line, from 0 to the score.
function runningSum({ left, wide, narrow, w, n, of, f }, list, y, parts) {
    const sums = [0];
    for (const p of list) sums.push(sums[sums.length - 1] + p);
    const low = min(...sums), high = max(...sums), tall = 72, top = y + (narrow ? 24 : 12);
    const end = dotText(of, f.j);
    const at = s => top + (high - s) / max(1e-12, high - low) * (tall - 16);
    let d = `M${tenth(left)} ${at(0).toFixed(1)}`;
    for (let b = 1; b < sums.length; b++) d += `V${at(sums[b]).toFixed(1)}H${tenth(left + b / n * wide)}`;
    parts.push(
        textAt(narrow ? 0 : left - 14, narrow ? y + 12 : at(0) + 4, say("running"), "note", narrow ? "start" : "end"),
        hair(left, at(0), left + wide, at(0)), shape("path", { class: "sum", d })
    );
    parts.push(
        textAt(
            narrow ? w : left + wide + 10, narrow ? y + 12 : at(sums[sums.length - 1]) + 4.5, end, "strong",
            narrow ? "end" : "start"
        )
    );
    return y + tall + (narrow ? 16 : 8);
}
export const SHADES = 8;
const NUMBERS_WIDTH = 168; // width of the numbers to the right of the strips
// Draws a strip for each key: its products with the query as cells, then its score and its weight.
function drawEveryKey(seen) {
    const { f, of, now, order, w, left, rows, narrow, n } = seen;
    const name = narrow ? 70 : left - 8;
    const wide = narrow ? w - name - 54 : seen.wide;
    const tall = 20;
    const products = rows.map(r => {
        if (r.j === undefined) return null;
        const k = of.k(r.j), out = order.at.map(e => of.q[e] * k[e]);
        if (order.rest.length) out.push(order.rest.reduce((s, e) => s + of.q[e] * k[e], 0));
        return out;
    });
    const most = largest(products);
    const paths = Array.from({ length: 2 * SHADES }, () => "");
    const parts = [hatching("hatched")];
    const step = wide / n;
    const gap = step > 4 ? 1 : 0;
    Object.assign(seen, { strip: name + 8, stripWide: wide, tall });
    rows.forEach((r, at) => {
        const y = at * tall, mid = y + tall / 2;
        if (r.j === undefined)
            return parts.push(
                textAt(
                    name + 8, mid + 4,
                    r.masked ? say("moreMasked", count(r.n)) : say("folded", count(r.n), weight(r.w, 3)), "note"
                )
            );
        const on = r.j === f.j;
        const masked = of.masked[r.j];
        const x = now.w[r.j];
        const g = shape(
            "g", { class: "row", "data-key": r.j }, rectAt(0, y, w, tall, on ? "mark" : "none"),
            textAt(name, mid + 4.5, fitted(shownToken(page.keys[r.j]), name - 2, 13), on ? "strong" : "", "end")
        );
        if (on) g.append(rectAt(name + 8, y, wide, tall, "under0"));
        products[at].forEach((p, b) => {
            const shade = min(SHADES, ceil(SHADES * sqrt(abs(p) / most)));
            if (shade && !masked)
                paths[(p < 0 ? SHADES : 0) + shade - 1] += `M${tenth(name + 8 + b * step)} ` +
                    `${y + 2}h${(step - gap).toFixed(2)}v${tall - 4}h${(gap - step).toFixed(2)}z`;
        });
        if (masked)
            g.append(
                rectAt(name + 8, y + 2, wide, tall - 4, "masked other"),
                textAt(name + 8 + wide / 2, mid + 4, say("masked"), "over", "middle")
            );
        if (!narrow) g.append(textAt(w - 104, mid + 4.5, dotText(of, r.j), on ? "strong" : "", "end"));
        if (!masked) g.append(textAt(narrow ? w : w - 58, mid + 4.5, weight(x, 3), on ? "strong" : "", "end"));
        if (!masked && !narrow) g.append(weightFill(rectAt(w - 50, mid - 4, max(.8, 50 * x), 8, ""), x));
        parts.push(g);
    });
    paths.forEach((d, n) => {
        if (d)
            parts.push(
                shape("path", { class: n < SHADES ? "pos" : "neg", d, opacity: tenth((n % SHADES + 1) / SHADES) })
            );
    });
    redraw(neuron.keys, w, rows.length * tall + 2, ...parts);
}
function drawChain({ f, of, now, order }) {
    const j = f.j;
    const x = now.w[j];
    const score = of.score(j, of.own);
    const off = of.error[j] / of.own, rows = [
        [say("dotRow"), dotText(of, j, 3)], [say("divided", rootName(of)), certain(of.dot[j] / of.own, off, 3)]
    ];
    if (of.cap) rows.push([say("capped", signed(of.cap, 0)), certain(score - of.bias[j], off, 3)]);
    if (of.biased) rows.push([say("biased"), signed(of.bias[j], 3)]);
    rows.push([say("maskRow"), say(of.masked[j] ? "masked" : "seenRow")]);
    if (!of.masked[j])
        rows.push(
            [say("expRow"), (x * now.sum).toPrecision(3)],
            [say("sumRow", count(of.seen)), signed(now.sum, 3)]
        );
    rows.push([say("weightRow"), weight(x, 4), "total"]);
    neuron.chain.replaceChildren(el("h2", {}, say("toWeight")), pairsOf(rows));
    const k = of.k(j);
    const strong = [...order.products.keys()].sort((a, b) => abs(order.products[b]) - abs(order.products[a])).slice(
        0, 8
    );
    neuron.top.replaceChildren(
        el("h2", {}, say("largestProducts")),
        el(
            "table", {},
            el("thead", {}, el("tr", {}, ...["dimension", "q", "k", "q × k"].map(t => el("th", { scope: "col" }, t)))),
            el("tbody", {}, ...strong.map(e => cells(
                e, elementText(of, "q", of.q[e]), elementText(of, "k", k[e]), productText(of, of.q[e], k[e])
            )))
        )
    );
}

// Returns the sum of the products of some dimensions. What remains to the score is as good a measure of its error.
function sumText({ of, f, order }, list) {
    const k = of.k(f.j), off = e => productError(of, of.q[e], k[e]);
    const sum = list.reduce((s, e) => s + order.products[e], 0), error = list.reduce((s, e) => s + off(e), 0);
    const rest = of.error[f.j] + of.q.reduce((s, _, e) => s + off(e), 0) - error;
    if (error <= rest) return certain(sum, error, 3);
    const listed = new Set(list);
    return certain(of.dot[f.j] - order.products.reduce((s, p, e) => s + (listed.has(e) ? 0 : p), 0), rest, 3);
}

function pointNeuron(e, figure) {
    const s = neuron.seen, r = figure.node.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    neuron.point = null;
    if (!s) return;
    const column = (left, wide, n) => x >= left && x < left + wide ? floor((x - left) / wide * n) : -1;
    if (figure === neuron.keys) {
        const row = s.rows[floor(y / s.tall)], b = column(s.strip, s.stripWide, s.n);
        if (row?.j !== undefined && b >= 0 && b < s.order.at.length) neuron.point = { j: row.j, e: s.order.at[b], b };
    } else {
        const band = s.bands.find(b => y >= b.from && y < b.to);
        const ofValue = band && (band.what === "v" || band.what === "w");
        const b = column(s.left, s.wide, ofValue ? s.values.length : s.n);
        if (band && b >= 0)
            neuron.point = { j: s.f.j, e: (ofValue ? s.values : s.order.at)[b] ?? -1, b, value: ofValue };
    }
    drawNeuronPoint();
}
function drawNeuronPoint() {
    const s = neuron.seen, p = neuron.point;
    if (!s) return;
    const rows = [];
    if (p?.value) {
        const v = s.of.v(p.j)[p.e], x = s.now.w[p.j];
        rows.push(
            [say("theKey"), keyName(p.j)], [say("dimension"), say("ofAll", p.e, s.values.length)],
            [say("weighed"), weighed(s.of, x, v)]
        );
    } else if (p && p.e < 0) {
        rows.push([say("restName"), el("td", {}, el("b", {}, sumText(s, s.order.rest)))]);
    } else if (p) {
        const q = s.of.q[p.e], k = s.of.k(p.j)[p.e];
        rows.push(
            [say("theKey"), keyName(p.j)], [say("dimension"), say("ofAll", p.e, s.of.E)],
            [say("product"), factors(s.of, q, k)],
            [say("shareOf"), s.of.dot[p.j] ? `${signed(100 * q * k / s.of.dot[p.j], 0)}%` : "–"]
        );
        if (p.j === s.f.j)
            rows.push([
                say("sumThere"),
                sumText(s, s.order.at.slice(0, p.b + 1))
            ]);
    }
    neuron.number.replaceChildren(...(rows.length ? [el("h2", {}, say("pointed")), pairsOf(rows)] : []));
}

function answerNeuron() {
    const f = focused(), of = f && scoresOf(f);
    const question = f ? say("whichDimensions", quote(f.i), keyName(f.j)) : say("products");
    if (whyNot(f, of)) return { question, pieces: [whyNot(f, of)] };
    const j = f.j;
    const k = of.k(j);
    const most = [...of.q.keys()].reduce((a, e) => abs(of.q[e] * k[e]) > abs(of.q[a] * k[a]) ? e : a, 0);
    const p = productText(of, of.q[most], k[most], 2);
    const tail = of.masked[j]
        ? [", but the key is masked: its weight is 0."]
        : [`; ${scaling(of, j, of.own)}, and the softmax weight is `, { b: weight(weightsAt(of, of.own).w[j], 3) },
            "."];
    return {
        question,
        pieces: [
            `In layer ${f.layer}, head ${f.head}, the ${of.E} products sum to ${dotText(of, j)}`, ...tail,
            ` The largest product is in dimension ${most}: ${p}.`
        ]
    };
}
function neuronRows() {
    const s = neuron.seen;
    if (!s) return [];
    const { of, f, order } = s, k = of.k(f.j), v = of.v(f.j), same = v?.length === of.E;
    const all = [...order.at, ...order.rest];
    return [["dimension", "q", "k", "q × k", "running sum", ...(same ? ["v", "w v"] : [])],
        ...all.map((e, n) => [
            e, elementText(of, "q", of.q[e]), elementText(of, "k", k[e]), productText(of, of.q[e], k[e], 4),
            sumText(s, all.slice(0, n + 1)),
            ...(same ? [elementText(of, "v", v[e]), weighedText(of, s.now.w[f.j], v[e], 4)] : [])
        ])];
}

addView({
    key: "N", id: "neuron", name: "Neuron",
    can: () => canVectors(),
    build: () => buildNeuron(),
    stack: () => { neuron.seen = null; },
    show: () => takePointed(),
    draw: () => drawNeuron(),
    answer: () => answerNeuron(),
    get group() { return neuron.box; },
    table: () => neuronRows(),
    svg: () => figuresSvg([neuron.figure, neuron.keys], answerNeuron(), true),
    write: p => { if (neuron.sorted) p.set("so", "1"); },
    read: p => { neuron.sorted = p.get("so") === "1"; },
    keys: [
        ["O", "sort by product", "o", () => sortProducts(!neuron.sorted), 1],
        ...pairKeys(() => neuron.pick)
    ]
});
