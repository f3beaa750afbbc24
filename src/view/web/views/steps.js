// SPDX-License-Identifier: MIT
// steps.js: the view "How does this word attend to that one?": shows the six steps of attention for one query and every
// key, with the numbers of the model, and the purpose of the scale.
import { abs, floor, max, min } from "../base/math.js";
import { addTexts, count, say, weight } from "../base/messages.js";
import { el, onClick } from "../base/dom.js";
import { page, quote } from "../base/state.js";
import { requestDraw } from "../base/drawing.js";
import { addView, set, writeAddress } from "../base/frame.js";
import {
    MOST_ROWS, barsOf, canVectors, figuresSvg, fits, fitted, focused, grouped, hair, hatching, weightFill, keyLines,
    keyName, largest, newFigure, pairKeys, pairsOf, pickers, rectAt, redraw, rootName, scaling, scoresOf, shape,
    shownToken, signed, still, takePointed, tenth, textAt, weightsAt, whyNot
} from "../parts/figure.js";
import { divisorOf, drawRaw, drawScale, isOwn, steps } from "./steps_scale.js";

addTexts({
    sixSteps: "The six steps",
    howAttends: "How does {0} attend to {1}?",
    step1: "Project", step2: "Multiply", step3: "Score", step4: "Scale", step4mask: "Scale, mask",
    step4bias: "Scale, bias", step5: "Softmax", step6: "Weighted sum",
    under1: "xW_Q, xW_K, xW_V", under2: "q ∘ k, elementwise", under3: "q · k", under5: "weights sum to 1",
    under6: "w v",
    queryRow: "the query q of {0}, multiplied elementwise with each key below",
    inputPlain: "x, {0} dimensions", inputRow: "x, {0} dimensions, output of layer {1}",
    inputFirst: "x, {0} dimensions: embedding and position",
    keyColumn: "key k", productColumn: "product of q and k", thinLine: "thin line: without the scale",
    valueColumn: "value v, shaded by its weight",
    noMask: "no mask: all keys are used", someMask: "{0} of {1} keys are masked", output: "output z = Σ w v",
    scaleFor: "What the scale is for",
    scaleWhy: "With a smaller divisor one key gets all the weight: the softmax saturates and its gradient vanishes. " +
        "With a larger one the weights become uniform.",
    divideBy: "divide by", back: "back to {0}",
    uniformEach: "uniform: 1/{0}", weightOf: "weight of {0}", effectiveKeysHere: "effective keys",
    softmaxGradient: "softmax gradient",
    times100: "Scores × 100 (divisor {0}): {1} gets {2}, and the softmax gradient Σ w(1−w) is {3}.",
    rawTitle: "Without projections: softmax(x xᵀ / √{0})",
    rawWhy: "Without W_Q and W_K each token is compared with the others as it is, and matches itself best. With the " +
        "projections it can match other tokens better.",
    rawThin: "thick: this head, with its projections; thin: x xᵀ",
    rawItself: "{0} attends to itself with {1}; with the projections, with {2}.",
    rawMasked: "with the mask of this model",
    theKey: "key",
    weighed: "w × v",
    sumHere: "output z at this dimension"
});

const PLAY = 1600; // milliseconds per step

function buildSteps() {
    steps.figure = newFigure(say("sixSteps"), "group");
    steps.box = el("div", { class: "board", tabindex: 0, role: "group" }, steps.figure.node);
    steps.pick = pickers();
    steps.missing = el("p", { class: "missing" });
    steps.curve = newFigure(say("scaleFor"));
    steps.range = el("input", { type: "range", min: 0, max: 1000, "aria-label": say("divideBy") });
    steps.range.addEventListener("input", () => divide(2 ** (steps.range.value / 1000 * (steps.high + 1) - 1)));
    steps.reset = el("button", { class: "plain" });
    onClick(steps.reset, () => divide(0));
    steps.table = el("div");
    steps.hundred = el("p", { class: "note" });
    steps.number = el("div");
    steps.raw = newFigure(say("rawTitle", ""));
    steps.rawBox = el("div");
    steps.scale = el(
        "div", {}, el("h2", {}, say("scaleFor")), el("p", { class: "why" }, say("scaleWhy")), steps.curve.node,
        el("div", { class: "slider" }, steps.range, el("span", {}, say("divideBy"))), steps.reset, steps.table,
        steps.hundred
    );
    steps.figure.node.addEventListener("pointermove", pointSteps);
    steps.figure.node.addEventListener("pointerleave", () => { steps.point = null; drawPointed(); });
    onClick(steps.figure.node, e => {
        const head = e.target.closest("[data-step]"), row = e.target.closest("[data-key]");
        if (head) toggleStep(+head.dataset.step);
        else if (row && getSelection().isCollapsed) set({ row: focused().i, key: +row.dataset.key });
    });
    steps.figure.node.addEventListener("keydown", e => {
        const head = e.target.closest("[data-step]");
        if (!head || (e.key !== "Enter" && e.key !== " ")) return;
        e.preventDefault();
        e.stopPropagation();
        toggleStep(+head.dataset.step);
    });
    return { mid: [steps.pick.node, steps.missing, steps.box], right: [steps.scale, steps.number, steps.rawBox] };
}

const toggleStep = n => showStep(n === steps.at ? 0 : n);
// Stops playing and shows the steps up to n; n = 0: all six steps.
function stopSteps() {
    clearInterval(steps.timer);
    steps.timer = 0;
}
function showStep(n) {
    stopSteps();
    steps.at = n;
    writeAddress();
    requestDraw("base");
}
// Handles the space key: plays the steps one after the other, or pauses. If the reader prefers reduced motion, it shows
// the next step instead.
function playSteps() {
    const next = () => {
        steps.at = (steps.at + 1) % 7;
        if (!steps.at) stopSteps();
        requestDraw("base");
    };
    if (steps.timer) return stopSteps();
    if (!still.matches) steps.timer = setInterval(next, PLAY);
    next();
}
function divide(by) {
    steps.divisor = by;
    writeAddress();
    requestDraw("base");
}
function scaleBy(factor) {
    const f = focused(), of = f && scoresOf(f);
    if (of) divide(min(2 ** steps.high, max(.5, divisorOf(of) * factor)));
}

// ---- geometry --------------------------------------------------------------------------------------
// Returns for each column [left, width] of its pictures and the right edge of its numbers, for a page of width w. A
// narrow page shows only the picture of the current step.
function columnsFor(w) {
    if (w < 600) {
        const one = [.27 * w, .44 * w], at = steps.at || 5;
        return {
            narrow: true, name: .25 * w, bars: .45 * w, k: at === 1 ? one : null, p: at === 2 || at === 3 ? one : null,
            v: at === 6 ? one : null, score: at === 3 ? w - 4 : 0, scaled: at === 4 ? w - 4 : at === 5 ? .42 * w : 0,
            weight: at > 4 ? w - 4 : 0, w: at === 5 ? [.46 * w, .36 * w] : at === 4 ? [.46 * w, 0] : null
        };
    }
    const f = w / 1040, wide = w > 820;
    const u = x => x * f;
    return {
        narrow: false, name: u(78), k: [u(92), u(146)], p: [u(258), u(146)], score: u(470), scaled: u(576),
        weight: u(700), w: [u(712), u(148)], v: [u(880), u(152)], small: !wide
    };
}
function sizesFor(rows, narrow, top) {
    if (narrow && rows <= MOST_ROWS) return 44; // large enough for a finger
    return max(20, min(34, (max(420, innerHeight - min(top, innerHeight / 2) - 50) - 178) / max(1, rows)));
}

// ---- the picture -----------------------------------------------------------------------------------
function drawSteps() {
    const f = focused(), of = f && scoresOf(f), none = whyNot(f, of);
    steps.box.hidden = steps.scale.hidden = !!none;
    // read the width before writing anything, so that the browser computes the layout only once
    const w = steps.box.clientWidth;
    const side = max(220, steps.scale.clientWidth);
    const top = steps.box.getBoundingClientRect().top + scrollY;
    steps.pick.show(f);
    steps.missing.textContent = none;
    steps.seen = null;
    if (none) {
        steps.rawBox.replaceChildren();
        return steps.number.replaceChildren();
    }
    const by = divisorOf(of), now = weightsAt(of, by), rows = keyLines(of, now.w, f.j);
    const c = columnsFor(w), tall = sizesFor(rows.length, c.narrow, top);
    const seen = {
        side, f, of, by, now, rows, c, tall, bare: weightsAt(of, 1), y: [], head: c.narrow ? 48 : 50, requestDraw: 52,
        most: null, values: false
    };
    const list = rows.filter(r => r.j >= 0);
    const ks = list.map(r => of.k(r.j)), vs = list.map(r => of.v(r.j));
    seen.most = { k: largest(ks), v: 0, p: 0 };
    seen.values = vs.length > 0 && !!vs[0];
    seen.most.v = largest(vs);
    seen.most.p = largest(ks.map(k => of.q.map((x, e) => x * k[e])));
    steps.seen = seen;
    const parts = [hatching("hatch"), ...stepHeads(seen, w)];
    let y = seen.head + seen.requestDraw + 26;
    parts.push(...queryRow(seen, w), ...columnNames(seen, y - 8));
    for (const r of rows) {
        seen.y.push(y);
        parts.push(keyRow(seen, r, y, w));
        y += tall;
    }
    parts.push(...sumRow(seen, y, w));
    redraw(steps.figure, w, y + 46, ...parts);
    drawScale(seen);
    drawPointed();
    drawRaw(seen);
}
const shownAt = n => steps.at && steps.at < n ? "later" : steps.at === n ? "now" : "";

const stepName = (n, of) =>
    say(n !== 4 ? `step${n}` : of.biased ? "step4bias" : of.seen < of.S ? "step4mask" : "step4");
// Returns the formula that is written below the name of each step.
const underOf = (of, by) => [
    "", say("under1"), say("under2"), say("under3"),
    `÷ ${isOwn(of) && rootName(of) !== signed(of.own) ? rootName(of) + " = " : ""}${signed(by)}`, say("under5"),
    say("under6")
];
function stepHeads({ of, c, by }, w) {
    const x = c.narrow
        ? [0, 1, 2, 3, 4, 5].map(n => n * w / 6)
        : [c.k[0], c.p[0], c.score - 58, c.scaled - 58, c.weight - 50, c.v[0]];
    const under = underOf(of, by);
    return [1, 2, 3, 4, 5, 6].map(n => {
        const name = stepName(n, of), at = (steps.at || (c.narrow ? 5 : 0)) === n;
        const g = shape(
            "g",
            {
                class: `step ${at ? "now" : ""}`, "data-step": n, role: "button", tabindex: 0, "aria-pressed": at,
                "aria-label": `${n} ${name}`
            }
        );
        if (c.narrow)
            g.append(
                rectAt(x[n - 1], 0, w / 6 - 3, 44, "chip"), textAt(x[n - 1] + w / 12 - 2, 29, n, "digit", "middle")
            );
        else g.append(
            rectAt(x[n - 1] - 4, 0, 40, 44, "none"), textAt(x[n - 1], 20, n, "digit"),
            textAt(x[n - 1] + 17, 19, fitted(name, (x[n] ?? w) - x[n - 1] - 17, 14), "name")
        );
        if (!c.narrow && !c.small) g.append(textAt(x[n - 1] + 17, 37, under[n], "under"));
        return g;
    });
}
const inputName = (layer, n) =>
    page.tokens !== page.keys ? say("inputPlain", n) : layer ? say("inputRow", n, layer - 1) : say("inputFirst", n);
function queryRow({ f, of, c, head, requestDraw: tall }, w) {
    const y = head, mid = y + tall / 2, x = page.weights.x?.(f.layer, f.i), side = c.narrow ? [.27 * w, .7 * w] : c.k;
    const out = [
        rectAt(0, y, w, tall, "mark"),
        textAt(c.name, mid + 5, fitted(shownToken(page.tokens[f.i]), c.name - 4, 15), "strong", "end"),
        barsOf(of.q, side[0], mid, side[1], tall - 10, largest([of.q]))
    ];
    if (c.narrow) return out;
    if (x && !c.small) {
        const at = c.w[0];
        const wide = w - at - 10;
        const group = grouped(x.length, wide);
        const long = inputName(f.layer, x.length) + (group > 1 ? `, ${say("pooledBars", group)}` : "");
        const text = fits(long, wide, 11)
            ? long
            : say("inputPlain", x.length) + (group > 1 ? `, ${say("pooledBars", group)}` : "");
        out.push(
            barsOf(x, at, mid + 6, wide, tall - 24, largest([x]), "pale"),
            textAt(at, y + 11, fitted(text, wide, 11), "tiny")
        );
    }
    out.push(
        textAt(
            c.p[0] - 4, mid + 4, fitted(say("queryRow", quote(f.i)), (x && !c.small ? c.w[0] : w) - c.p[0] - 8, 12),
            "note"
        )
    );
    return out;
}
function columnNames({ of, c, values, by }, y) {
    if (c.narrow) {
        const n = steps.at || 5, under = underOf(of, by)[n];
        return [textAt(4, y, `${n} ${stepName(n, of)}: ${under}`, "note")];
    }
    const out = [], add = (at, text, n) => { if (at) out.push(textAt(at[0], y, text, `tiny ${shownAt(n)}`)); };
    add(c.k, say("keyColumn"), 1);
    add(c.p, say("productColumn"), 2);
    add(c.w, fitted(say("thinLine"), c.v[0] - c.w[0] - 6, 11), 5);
    if (values) add(c.v, fitted(say("valueColumn"), c.v?.[1] ?? 0, 11), 6);
    return out;
}
function keyRow(seen, r, y, w) {
    const { f, of, by, now, c, tall, most, bare } = seen, mid = y + tall / 2;
    if (r.j === undefined) {
        const g = shape(
            "g", {},
            textAt(
                c.name + (c.narrow ? -c.name + 8 : 14), mid + 4,
                r.masked ? say("moreMasked", count(r.n)) : say("folded", count(r.n), weight(r.w, 3)), "note"
            )
        );
        if (r.masked && !c.narrow) g.append(rectAt(c.score - 50, y + 3, c.weight - c.score + 50, tall - 6, "masked"));
        return g;
    }
    const j = r.j, on = j === f.j, masked = of.masked[j], k = of.k(j), v = of.v(j), x = now.w[j];
    const g = shape("g", { class: on ? "row on" : "row", "data-key": j });
    g.append(
        rectAt(0, y + 1, w, tall - 2, on ? "mark" : "none"),
        textAt(c.name, mid + 5, fitted(shownToken(page.keys[j]), c.name - 4), on ? "strong" : "", "end")
    );
    const tallest = min(tall * 1.15, 40);
    const number = (at, value, n, kind = "") => {
        if (at) g.append(textAt(at, mid + 4.5, value, `${on ? "strong" : ""} ${kind} ${shownAt(n)}`, "end"));
    };
    if (c.k) g.append(barsOf(k, c.k[0], mid, c.k[1], tallest, most.k, "pale " + shownAt(1)));
    if (c.p) g.append(barsOf(of.q.map((q, e) => q * k[e]), c.p[0], mid, c.p[1], tallest, most.p, shownAt(2)));
    number(c.score, signed(of.dot[j]), 3);
    if (masked) {
        const left = c.scaled ? c.scaled - 52 : w - 90;
        g.append(
            shape(
                "g", { class: shownAt(4) }, rectAt(left, y + 3, (c.weight || w - 4) - left, tall - 6, "masked"),
                textAt((left + (c.weight || w - 4)) / 2, mid + 4, say("masked"), "over", "middle")
            )
        );
        return g;
    }
    number(c.scaled, signed(of.score(j, by)), 4);
    number(c.weight, weight(x, 3), 5);
    if (c.w && c.w[1]) {
        g.append(weightFill(rectAt(c.w[0], mid - min(6, tall * .2), max(.8, x * c.w[1]), min(12, tall * .4), ""), x));
        g.lastChild.classList.add(...shownAt(5).split(" ").filter(n => n));
        if (bare.w[j] * c.w[1] > .6)
            g.append(rectAt(c.w[0], mid + min(8, tall * .26), bare.w[j] * c.w[1], 2, `hot ${shownAt(5)}`));
    }
    if (v && c.v) {
        const bars = barsOf(v, c.v[0], mid, c.v[1], tallest, most.v, shownAt(6));
        bars.setAttribute("opacity", tenth(.12 + .88 * x ** .5));
        g.append(bars);
    }
    return g;
}
// Returns the output z, the sum of w v, for the weights that are shown.
function outputOf({ of, now }) {
    let z = null;
    for (let j = 0; j < of.S; j++) {
        const v = now.w[j] ? of.v(j) : null;
        if (!v) continue;
        z ??= new Float64Array(v.length);
        for (let e = 0; e < v.length; e++) z[e] += now.w[j] * v[e];
    }
    return z;
}
function sumRow(seen, y, w) {
    const { of, c, now, values, f } = seen, mid = y + 24, out = [hair(0, y + 4, w, y + 4, "line")];
    const masked = of.S - of.seen, total = now.w.reduce((s, x) => s + x, 0);
    out.push(
        textAt(
            c.narrow ? 8 : c.p[0], mid + 4, masked ? say("someMask", count(masked), count(of.S)) : say("noMask"), "note"
        )
    );
    if (c.weight) out.push(textAt(c.weight, mid + 4.5, total.toFixed(3), `strong ${shownAt(5)}`, "end"));
    if (!values || !c.v) {
        if (!values && !c.narrow)
            out.push(textAt(w, mid + 4, fitted(say("noValues", f.layer), w - c.w[0], 11), "tiny", "end"));
        return out;
    }
    const z = outputOf(seen);
    seen.z = z;
    if (!c.narrow) out.push(textAt(c.v[0] - 12, mid + 4.5, say("output"), `strong ${shownAt(6)}`, "end"));
    if (z) out.push(barsOf(z, c.v[0], mid, c.v[1], 40, max(seen.most.v / 2, largest([z])), shownAt(6)));
    return out;
}

// ---- the number under the pointer -----------------------------------------------------------------------
function pointSteps(e) {
    const s = steps.seen, r = steps.figure.node.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    steps.point = null;
    if (!s) return;
    const within = (at, n) => at && x >= at[0] && x < at[0] + at[1] ? floor((x - at[0]) / at[1] * n) : -1;
    const n = s.y.findIndex(top => y >= top && y < top + s.tall), row = s.rows[n];
    const queryHeading = y >= s.head && y < s.head + s.requestDraw;
    if (row?.j === undefined && !queryHeading) return drawPointed();
    const e1 = max(within(s.c.k, s.of.E), within(s.c.p, s.of.E));
    const values = queryHeading ? null : s.of.v(row.j);
    const e2 = values ? within(s.c.v, values.length) : -1;
    if (e1 >= 0 || e2 >= 0) steps.point = { j: queryHeading ? s.f.j : row.j, e: e2 >= 0 ? e2 : e1, value: e2 >= 0 };
    drawPointed();
}
function drawPointed() {
    const s = steps.seen, p = steps.point;
    if (!s) return;
    const rows = [];
    if (p && !p.value) {
        const q = s.of.q[p.e], k = s.of.k(p.j)[p.e];
        rows.push(
            [say("theKey"), keyName(p.j)], [say("dimension"), say("ofAll", p.e, s.of.E)],
            [say("product"), el("td", {}, `${signed(q, 3)} × ${signed(k, 3)} = `, el("b", {}, signed(q * k, 3)))],
            [say("shareOf"), s.of.dot[p.j] ? `${signed(100 * q * k / s.of.dot[p.j], 0)}%` : "–"]
        );
    } else if (p) {
        const v = s.of.v(p.j)[p.e], x = s.now.w[p.j];
        rows.push(
            [say("theKey"), keyName(p.j)], [say("dimension"), say("ofAll", p.e, s.of.v(p.j).length)],
            [say("weighed"), el("td", {}, `${weight(x, 3)} × ${signed(v, 3)} = `, el("b", {}, signed(x * v, 3)))],
            [say("sumHere"), s.z ? signed(s.z[p.e], 3) : "–"]
        );
    }
    steps.number.replaceChildren(...(rows.length ? [el("h2", {}, say("pointed")), pairsOf(rows)] : []));
}

// ---- the sentence, the table ---------------------------------------------------------------------------------
// Describes step n for the chosen key.
function describeStep(n, { f, of, by, now }) {
    const j = f.j, k = of.k(j), key = keyName(j), scaled = signed(of.score(j, by));
    const products = [...of.q].map((q, e) => q * k[e]);
    const most = products.reduce((a, p, e) => abs(p) > abs(products[a]) ? e : a, 0);
    const hidden = of.S - of.seen, z = now.w[j];
    return [null,
        [
            `1. In layer ${f.layer}, head ${f.head} projects each token to a query, a key and a value of ${of.E} ` +
                `dimensions; here the query is ${quote(f.i)} and the key `,
            { b: key }, "."
        ],
        [
            "2. The query is multiplied with each key, elementwise: for ", { b: key },
            ` the largest of the ${of.E} products is ${signed(products[most])}, in dimension ${most}.`
        ],
        [`3. The products of `, { b: key }, ` sum to ${signed(of.dot[j])}: its score.`],
        [
            `4. ${signed(of.dot[j])} ${scaling(of, j, by)}`,
            hidden ? `; ${count(hidden)} of ${count(of.S)} keys are masked.` : "; no key is masked."
        ],
        of.masked[j]
            ? [`5. Softmax over the ${count(of.seen)} keys that are not masked; `, { b: key },
                " is masked: its weight is 0."]
            : [
                `5. Softmax: e to the ${scaled}, divided by the sum over ${count(of.seen)} keys, ` +
                    `is ${weight(z, 3)} for `,
                { b: key }, "."
            ],
        [
            "6. The output z is the weighted sum of the values: ", { b: key }, ` has the weight ${weight(z, 3)}.`
        ]][n].filter(t => t !== "");
}
function answerSteps() {
    const f = focused(), of = f && scoresOf(f);
    const question = f ? say("howAttends", quote(f.i), keyName(f.j)) : say("sixSteps");
    if (whyNot(f, of)) return { question, pieces: [whyNot(f, of)] };
    const seen = { f, of, by: divisorOf(of), now: weightsAt(of, divisorOf(of)) };
    if (!of.seen) return { question, pieces: [say("nothing", quote(f.i))] };
    if (steps.at) return { question, pieces: describeStep(steps.at, seen) };
    const x = seen.now.w[f.j];
    const chain = of.masked[f.j]
        ? [" is masked: its weight is 0."]
        : [`: score ${signed(of.dot[f.j])}, ${scaling(of, f.j, seen.by)}, softmax ${weight(x, 3)}.`];
    return {
        question,
        pieces: [
            `Layer ${f.layer}, head ${f.head}, ${of.E} dimensions per vector. `, { b: keyName(f.j) }, ...chain,
            isOwn(of) ? "" : ` The model itself divides by ${rootName(of)}: ${weight(weightsAt(of, of.own).w[f.j], 3)}.`
        ].filter(
            t => t !== ""
        )
    };
}
function stepsRows() {
    const s = steps.seen;
    if (!s) return [];
    const { of, now, by } = s;
    return [
        [
            "key", "q · k", ...(of.biased ? ["bias"] : []), `÷ ${signed(by)}`, "weight", "without scale",
            ...(s.raw ? ["x xᵀ"] : [])
        ],
        ...Array.from(
            { length: of.S },
            (_, j) => [
                page.keys[j].text, signed(of.dot[j], 4), ...(of.biased ? [signed(of.bias[j], 4)] : []),
                of.masked[j] ? say("masked") : signed(of.score(j, by), 4),
                of.masked[j] ? say("masked") : now.w[j].toFixed(4),
                of.masked[j] ? say("masked") : s.bare.w[j].toFixed(4), ...(s.raw ? [s.raw.w[j].toFixed(4)] : [])
            ]
        )
    ];
}

addView({
    key: "P", id: "steps", name: "Steps",
    can: () => canVectors(),
    build: () => buildSteps(),
    stack: () => { steps.seen = null; },
    show: () => takePointed(),
    hide: () => { stopSteps(); steps.at = 0; },
    draw: () => drawSteps(),
    answer: () => answerSteps(),
    get group() { return steps.box; },
    table: () => stepsRows(),
    svg: () => figuresSvg([steps.figure, steps.curve], answerSteps()),
    drop: () => { steps.divisor = 0; showStep(0); },
    write: p => {
        if (steps.at) p.set("st", `${steps.at}`);
        if (steps.divisor) p.set("by", `${+steps.divisor.toPrecision(4)}`);
    },
    read: p => {
        steps.at = /^[1-6]$/.test(p.get("st") ?? "") ? +p.get("st") : 0;
        const by = parseFloat(p.get("by"));
        steps.divisor = by >= .5 && by <= 1e5 ? by : 0;
    },
    keys: [
        [
            "Space", "play the six steps", e => e.key === " " && !e.target.closest("button,select,input"),
            () => playSteps(), 1
        ],
        [
            "⇧ ← →", "one step", e => e.shiftKey && /^Arrow(Left|Right)$/.test(e.key),
            e => showStep(e.key === "ArrowLeft" ? max(0, (steps.at || 7) - 1) : (steps.at + 1) % 7), 1
        ],
        ["[ ]", "scale", e => e.key === "[" || e.key === "]", e => scaleBy(e.key === "[" ? 2 ** -.25 : 2 ** .25), 1],
        ...pairKeys(() => steps.pick)
    ]
});
