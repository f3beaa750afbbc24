// SPDX-License-Identifier: MIT
// steps.js: the view "How does this word attend to that one?": shows the six steps of attention for one query and every
// key, with the numbers of the model, and the purpose of the scale.
import { abs, floor, max, min } from "../base/math.js";
import { addTexts, count, errorOfWeights, certain, say, signed, weight } from "../base/messages.js";
import { el, onClick } from "../base/dom.js";
import { page, quote } from "../base/state.js";
import { requestDraw } from "../base/drawing.js";
import { addView, set, writeAddress } from "../base/frame.js";
import {
    MOST_ROWS, barsOf, canVectors, dotText, factors, figuresSvg, fitted, focused, hair, hatching,
    weightFill, keyLines, keyName, largest, newFigure, pairKeys, pairsOf, pickers, productText, rectAt, redraw,
    rootName, scaling, scoreText, scoresOf, shape, shownToken, still, takePointed, textAt, weighed, weightsAt,
    whyNot
} from "../parts/figure.js";
import { divisorOf, drawRaw, drawScale, isOwn, steps } from "./steps_scale.js";

addTexts({
    sixSteps: "The six steps",
    howAttends: "How does {0} attend to {1}?",
    step1: "Project", step2: "Score", step3: "Scale", step3mask: "Scale, mask", step3bias: "Scale, bias",
    step4: "Softmax", step5: "Weigh", step6: "Sum",
    under1: "W_Q, W_K, W_V", under2: "q · k = Σ q ∘ k", under4: "exp(s − max) / sum", under5: "w v",
    under6: "z = Σ w v",
    inputX: "x: {0} dimensions, the output of layer {1}", inputFirst: "x: {0} dimensions, embedding and position",
    noInput: "x", matrix: "W_{0}  {1} × {2}", matrixPlain: "W_{0}",
    projectQ: "q = x W_Q, the query of {0}: it is multiplied with every key",
    projectCross: "q = x W_Q, the query that writes {0}: it is multiplied with every key",
    projectK: "k = x W_K, the key of {0}: every token has one",
    projectV: "v = x W_V, the value of {0}: every token has one",
    keyColumn: "key k", productColumn: "q ∘ k", thinLine: "thin: no scale", valueColumn: "pale: v",
    sumColumn: "sum so far", sumName: "sum",
    noMask: "no mask: all keys are used", someMask: "{0} of {1} keys are masked", output: "output z",
    scaleFor: "What the scale is for",
    scaleWhy: "With a smaller divisor one key gets all the weight: the softmax saturates and its gradient vanishes. " +
        "With a larger one the weights become uniform.",
    divideBy: "divide by", weightAxis: "weight", back: "back to {0}",
    uniformEach: "uniform: 1/{0}", weightOf: "weight of {0}", effectiveKeysHere: "effective keys",
    softmaxGradient: "softmax gradient",
    times100: "Scores × 100 (divisor {0}): {1} gets {2}, and the softmax gradient Σ w(1−w) is {3}.",
    rawTitle: "Without projections: softmax(x xᵀ / √{0})",
    rawWhy: "Without W_Q and W_K a token's score with itself is |x|\u2060², the largest of its row unless another x " +
        "is longer. With the projections it can match other tokens better.",
    rawThin: "thick: this head, with its projections; thin: x xᵀ",
    rawItself: "{0} attends to itself with {1}; with the projections, with {2}.",
    rawMasked: "with the mask of this model",
    play: "▶ Play the six steps", pause: "❚❚ Pause", nextStep: "Next step",
    theKey: "key",
    weighed: "w × v",
    sumHere: "output z at this dimension"
});

const PLAY = 3200; // milliseconds per step: its sentence takes that long to read

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
        el("div", { class: "slider" }, steps.range), steps.reset, steps.table,
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
    steps.play = el("button", { class: "play" });
    onClick(steps.play, playSteps);
    const controls = el("div", { class: "controls" }, steps.pick.node, steps.play);
    return { mid: [controls, steps.missing, steps.box], right: [steps.scale, steps.number, steps.rawBox] };
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
    if (steps.timer) {
        stopSteps();
        return requestDraw("base");
    }
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
    if (w < 680) {
        const one = [.27 * w, .44 * w], at = steps.at || 4;
        return {
            narrow: true, name: .25 * w, bars: .45 * w, k: at === 1 ? one : null, p: at === 2 ? one : null,
            v: at === 5 ? one : null, z: at === 6 ? one : null, score: at === 2 ? w - 4 : 0,
            scaled: at === 3 ? w - 4 : 0, exp: at === 4 ? .42 * w : 0, weight: at > 3 ? w - 4 : 0,
            w: at === 4 ? [.46 * w, .36 * w] : at === 3 ? [.46 * w, 0] : null
        };
    }
    const f = w / 1040;
    const u = x => x * f;
    return {
        narrow: false, name: u(84), k: [u(96), u(110)], p: [u(222), u(110)], score: u(394), scaled: u(476),
        exp: u(574), weight: u(636), w: [u(646), u(96)], v: [u(762), u(126)], z: [u(908), u(126)], small: w <= 880,
        equals: u(221), x: [u(240), u(190)], times: u(446), matrix: [u(464), u(132)], note: u(610)
    };
}
function sizesFor(rows, narrow, top) {
    if (narrow && rows <= MOST_ROWS) return 44; // large enough for a finger
    return max(20, min(34, (max(420, innerHeight - min(top, innerHeight / 2) - 50) - 234) / max(1, rows)));
}

// ---- the picture -----------------------------------------------------------------------------------
function drawSteps() {
    const f = focused(), of = f && scoresOf(f), none = whyNot(f, of);
    steps.box.hidden = steps.scale.hidden = steps.play.hidden = !!none;
    steps.play.textContent = say(still.matches ? "nextStep" : steps.timer ? "pause" : "play");
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
        side, f, of, by, now, rows, c, tall, bare: weightsAt(of, 1), y: [], head: c.narrow ? 48 : 50,
        requestDraw: c.narrow ? 52 : PROJECT, most: null, values: false, z: null
    };
    const list = rows.filter(r => r.j >= 0);
    const ks = list.map(r => of.k(r.j)), vs = list.map(r => of.v(r.j));
    seen.most = { k: largest(ks), v: 0, p: 0 };
    seen.values = vs.length > 0 && !!vs[0];
    seen.most.v = largest(vs);
    seen.most.p = largest(ks.map(k => of.q.map((x, e) => x * k[e])));
    steps.seen = seen;
    const parts = [hatching("hatch"), ...stepHeads(seen, w)];
    const projections = c.narrow ? [queryRow(seen, w)] : projectionRows(seen, w);
    let y = seen.head + projections.length * seen.requestDraw + 26;
    parts.push(...projections.flat(), ...columnNames(seen, y - 8));
    if (seen.values) seen.z = new Float64Array(vs[0].length);
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
    say(n !== 3 ? `step${n}` : of.biased ? "step3bias" : of.seen < of.S ? "step3mask" : "step3");
// Returns the formula that is written below the name of each step.
const underOf = (of, by) => [
    "", say("under1"), say("under2"),
    `÷ ${isOwn(of) ? rootName(of) : signed(by)}`, say("under4"), say("under5"), say("under6")
];
function stepHeads({ of, c, by }, w) {
    const x = c.narrow
        ? [0, 1, 2, 3, 4, 5].map(n => n * w / 6)
        : [c.k[0], c.p[0], c.scaled - 60, c.exp - 52, c.v[0], c.z[0]];
    const under = underOf(of, by), space = n => (x[n] ?? w) - x[n - 1] - 17;
    const fits = (name, n) => fitted(name, space(n), 14) === name;
    return [1, 2, 3, 4, 5, 6].map(n => {
        const name = stepName(n, of), at = (steps.at || (c.narrow ? 4 : 0)) === n;
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
            textAt(x[n - 1] + 17, 19, fitted(fits(name, n) ? name : say(`step${n}`), space(n), 14), "name")
        );
        if (!c.narrow && !c.small)
            g.append(textAt(x[n - 1] + 17, 37, fitted(under[n], (x[n] ?? w) - x[n - 1] - 19, 12), "under"));
        return g;
    });
}
// Draws one projection as an equation: a vector of a token = its input row x, times one of the three matrices.
const PROJECT = 36;
function projectionRow({ f, of, c, most }, y, w, name, vector) {
    const query = name === "Q", j = query ? f.i : f.j, mid = y + PROJECT / 2, own = page.tokens === page.keys;
    const x = query || own ? page.weights.x?.(f.layer, j) : null, at = shownAt(1);
    const tokens = query ? page.tokens : page.keys, text = (at, t, kind, end) => textAt(at, mid + 4, t, kind, end);
    const matrix = x ? say("matrix", name, x.length, vector.length) : say("matrixPlain", name);
    const note = query && page.stack.name === "cross" ? "projectCross" : "project" + name;
    const quoted = query ? quote(f.i) : keyName(f.j);
    const frame = rectAt(c.matrix[0], mid - 12, c.matrix[1], 24, "frame");
    const bars = x
        ? barsOf(x, c.x[0], mid, c.x[1], PROJECT - 6, largest([x]), "pale")
        : text(c.x[0], say("noInput"), "note");
    if (x) {
        const from = f.layer ? say("inputX", x.length, f.layer - 1) : say("inputFirst", x.length);
        bars.append(shape("title", {}, from));
    }
    const full = say(note, quoted), space = w - c.note - 4;
    // what follows the colon is left out if it does not fit in one of the three rows
    const fits = t => fitted(t, space, 12) === t;
    const told = fits(full) && fits(say("projectQ", quote(f.i))) ? full : full.slice(0, full.lastIndexOf(": "));
    return [
        ...(query ? [rectAt(0, y, w, PROJECT, "mark")] : []),
        textAt(c.name, mid + 5, fitted(shownToken(tokens[j]), c.name - 4, 14), "strong", "end"),
        barsOf(vector, c.k[0], mid, c.k[1], PROJECT - 6, name === "V" ? most.v : most.k, at),
        text(c.equals, "=", "note", "middle"), bars, text(c.times, "×", "note", "middle"), frame,
        text(c.matrix[0] + c.matrix[1] / 2, fitted(matrix, c.matrix[1] - 6, 12), "note", "middle"),
        text(c.note, fitted(told, space, 12), "note")
    ];
}
function projectionRows(seen, w) {
    const { of, f } = seen, list = [["Q", of.q], ["K", of.k(f.j)]];
    if (seen.values) list.push(["V", of.v(f.j)]);
    return list.map(([name, vector], n) => projectionRow(seen, seen.head + n * PROJECT, w, name, vector));
}
// A narrow page shows only the query.
function queryRow({ f, of, c, head, requestDraw: tall }, w) {
    const mid = head + tall / 2;
    return [
        rectAt(0, head, w, tall, "mark"),
        textAt(c.name, mid + 5, fitted(shownToken(page.tokens[f.i]), c.name - 4, 15), "strong", "end"),
        barsOf(of.q, .27 * w, mid, .7 * w, tall - 10, largest([of.q]))
    ];
}
function columnNames({ of, c, values, by }, y) {
    if (c.narrow) {
        const n = steps.at || 4, under = underOf(of, by)[n];
        return [textAt(4, y, `${n} ${stepName(n, of)}: ${under}`, "note")];
    }
    const out = [], add = (at, text, n) => { if (at) out.push(textAt(at[0], y, text, `tiny ${shownAt(n)}`)); };
    add(c.k, say("keyColumn"), 1);
    add(c.p, say("productColumn"), 2);
    add(c.w, fitted(say("thinLine"), c.v[0] - c.w[0] - 6, 11), 4);
    if (!values) return out;
    add(c.v, fitted(say("valueColumn"), c.v[1], 11), 5);
    add(c.z, fitted(say("sumColumn"), c.z[1], 11), 6);
    return out;
}
function keyRow(seen, r, y, w) {
    const { f, of, by, now, c, tall, most, bare } = seen, mid = y + tall / 2;
    addValues(seen, r);
    if (r.j === undefined) {
        const g = shape(
            "g", {},
            textAt(
                c.name + (c.narrow ? -c.name + 8 : 14), mid + 4,
                r.masked ? say("moreMasked", count(r.n)) : say("folded", count(r.n), weight(r.w, 3)), "note"
            )
        );
        if (r.masked && !c.narrow) g.append(rectAt(c.scaled - 52, y + 3, c.weight - c.scaled + 52, tall - 6, "masked"));
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
    number(c.score, dotText(of, j), 2);
    if (masked) {
        const left = c.scaled ? c.scaled - 52 : w - 90;
        g.append(
            shape(
                "g", { class: shownAt(3) }, rectAt(left, y + 3, (c.weight || w - 4) - left, tall - 6, "masked"),
                textAt((left + (c.weight || w - 4)) / 2, mid + 4, say("masked"), "over", "middle")
            )
        );
        return g;
    }
    number(c.scaled, scoreText(of, j, by), 3);
    number(c.exp, weight(x * now.sum, 3), 4, "under");
    number(c.weight, weight(x, 3), 4);
    if (c.w && c.w[1]) {
        g.append(weightFill(rectAt(c.w[0], mid - min(6, tall * .2), max(.8, x * c.w[1]), min(12, tall * .4), ""), x));
        g.lastChild.classList.add(...shownAt(4).split(" ").filter(n => n));
        if (bare.w[j] * c.w[1] > .6)
            g.append(rectAt(c.w[0], mid + min(8, tall * .26), bare.w[j] * c.w[1], 2, `hot ${shownAt(4)}`));
    }
    if (v && c.v) {
        const value = barsOf(v, c.v[0], mid, c.v[1], tallest, most.v, shownAt(5));
        value.setAttribute("opacity", ".25");
        g.append(value, barsOf(v.map(e => e * x), c.v[0], mid, c.v[1], tallest, most.v, shownAt(5)));
    }
    if (seen.z && c.z) g.append(barsOf(seen.z, c.z[0], mid, c.z[1], tallest, most.v, "pale " + shownAt(6)));
    return g;
}
// Adds the values of the keys of a row, times their weights, to the sum so far. After the last row it is the output z.
function addValues({ of, now, z }, r) {
    for (let j = r.j ?? r.from, n = 0; z && n < (r.n ?? 1); n++, j++) {
        const v = now.w[j] ? of.v(j) : null;
        for (let e = 0; v && e < v.length; e++) z[e] += now.w[j] * v[e];
    }
}
function sumRow(seen, y, w) {
    const { of, c, now, values, f, z } = seen, mid = y + 24, out = [hair(0, y + 4, w, y + 4, "line")];
    const masked = of.S - of.seen, total = now.w.reduce((s, x) => s + x, 0);
    const strong = (at, text, n) => { if (at) out.push(textAt(at, mid + 4.5, text, `strong ${shownAt(n)}`, "end")); };
    out.push(
        textAt(
            c.narrow ? 8 : c.k[0], mid + 4, masked ? say("someMask", count(masked), count(of.S)) : say("noMask"), "note"
        )
    );
    if (!c.narrow) out.push(textAt(c.scaled, mid + 4, say("sumName"), "note", "end"));
    if (!c.narrow) strong(c.exp, weight(now.sum, 3), 4);
    strong(c.weight, weight(total, 3), 4);
    if (!values && !c.narrow)
        out.push(textAt(w, mid + 4, fitted(say("noValues", f.layer), w - c.w[0], 11), "tiny", "end"));
    if (!z || !c.z) return out;
    if (!c.narrow) strong(c.z[0] - 12, say("output"), 6);
    out.push(barsOf(z, c.z[0], mid, c.z[1], 40, max(seen.most.v, largest([z])), shownAt(6)));
    return out;
}

// Makes a picture that plays: the six steps one after the other, each with its sentence, then all of them; without
// script, by CSS. A reader who prefers reduced motion sees all steps.
function animatedSvg() {
    const was = steps.at, frames = [1, 2, 3, 4, 5, 6, 0].map(at => {
        steps.at = at;
        drawSteps();
        const [, open, words, style, inside] = /^(<svg[^>]*>)(.*?)<style[^>]*>(.*?)<\/style>(.*)<\/svg>$/s.exec(
            figuresSvg([steps.figure], answerSteps())
        );
        return { open, words, style, inside };
    });
    steps.at = was;
    drawSteps();
    const n = frames.length, { open, words, style } = frames[n - 1];
    const film = `.film{visibility:hidden;animation:film ${n * PLAY}ms infinite}` +
        frames.map((_, k) => `.film${k}{animation-delay:${k * PLAY}ms}`).join("") +
        `@keyframes film{0%{visibility:visible}${(100 / n).toFixed(3)}%{visibility:hidden}}` +
        `@media(prefers-reduced-motion:reduce){.film{animation:none}.film${n - 1}{visibility:visible}}`;
    return `${open}${words}<style>${style}${film}</style>` +
        frames.map((f, k) => `<g class="film film${k}">${f.inside}</g>`).join("") + "</svg>";
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
            [say("product"), factors(s.of, q, k)],
            [say("shareOf"), s.of.dot[p.j] ? `${signed(100 * q * k / s.of.dot[p.j], 0)}%` : "–"]
        );
    } else if (p) {
        const v = s.of.v(p.j)[p.e], x = s.now.w[p.j];
        rows.push(
            [say("theKey"), keyName(p.j)], [say("dimension"), say("ofAll", p.e, s.of.v(p.j).length)],
            [say("weighed"), weighed(s.of, x, v)],
            [
                say("sumHere"),
                s.z ? certain(s.z[p.e], s.of.off.v + errorOfWeights() * s.of.seen * s.most.v, 3) : "–"
            ]
        );
    }
    steps.number.replaceChildren(...(rows.length ? [el("h2", {}, say("pointed")), pairsOf(rows)] : []));
}

// ---- the sentence, the table ---------------------------------------------------------------------------------
// Returns the softmax of key j in numbers, such as "exp(4.14 − 4.14) / 1.55 = .647".
const softmaxOf = (of, j, by, now) =>
    `exp(${scoreText(of, j, by)} ${now.top < 0 ? "+" : "−"} ${certain(abs(now.top), of.most / by)}) / ` +
    `${now.sum.toFixed(2)} = ${weight(now.w[j], 3)}`;
// Describes step n for the chosen key.
function describeStep(n, { f, of, by, now }) {
    const j = f.j, k = of.k(j), key = keyName(j);
    const products = [...of.q].map((q, e) => q * k[e]);
    const most = products.reduce((a, p, e) => abs(p) > abs(products[a]) ? e : a, 0);
    const hidden = of.S - of.seen;
    return [null,
        [
            `1. Layer ${f.layer}, head ${f.head} has three matrices: W_Q makes the query of ${quote(f.i)}, W_K and ` +
                `W_V the key and the value of each token, of ${of.E} dimensions.`
        ],
        [
            "2. The score is the sum of the products of query and key: for ", { b: key },
            ` it is ${dotText(of, j)}; the largest of the ${of.E} products is ` +
                `${productText(of, of.q[most], k[most], 2)}, in dimension ${most}.`
        ],
        [
            `3. ${dotText(of, j)} ${scaling(of, j, by)}`,
            hidden ? `; ${count(hidden)} of ${count(of.S)} keys are masked.` : "; no key is masked."
        ],
        of.masked[j]
            ? [`4. Softmax over the ${count(of.seen)} keys that are not masked; `, { b: key },
                " is masked: its weight is 0."]
            : ["4. The softmax of ", { b: key }, ` is ${softmaxOf(of, j, by, now)}.`],
        [
            "5. Each value is multiplied with its weight: the value of ", { b: key }, ` with ${weight(now.w[j], 3)}.`
        ],
        [`6. The output z of ${quote(f.i)} is the sum of the values times their weights.`]
    ][n].filter(t => t !== "");
}
function answerSteps() {
    const f = focused(), of = f && scoresOf(f);
    const question = f ? say("howAttends", quote(f.i), keyName(f.j)) : say("sixSteps");
    if (whyNot(f, of)) return { question, pieces: [whyNot(f, of)] };
    const seen = { f, of, by: divisorOf(of), now: weightsAt(of, divisorOf(of)) };
    if (!of.seen) return { question, pieces: [say("nothing", quote(f.i))] };
    if (steps.at) return { question, pieces: describeStep(steps.at, seen) };
    const chain = of.masked[f.j]
        ? [" is masked: its weight is 0."]
        : [
            `: score ${dotText(of, f.j)}, ${scaling(of, f.j, seen.by)}, softmax ` +
                `${softmaxOf(of, f.j, seen.by, seen.now)}.`
        ];
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
                page.keys[j].named, dotText(of, j, 4), ...(of.biased ? [signed(of.bias[j], 4)] : []),
                of.masked[j] ? say("masked") : scoreText(of, j, by, 4),
                of.masked[j] ? say("masked") : weight(now.w[j], 4),
                of.masked[j] ? say("masked") : weight(s.bare.w[j], 4), ...(s.raw ? [s.raw.text(j, 4)] : [])
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
    animated: () => steps.seen && animatedSvg(),
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
