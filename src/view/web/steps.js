// SPDX-License-Identifier: MIT
// steps.js: the view "How does this word arrive at that one?": the six steps of attention on one
// query and every key, with the model's own numbers, and what the scale is for.

Object.assign(TEXT, {
    sixSteps: "The six steps",
    arrive: "How does {0} arrive at {1}?",
    step1: "Project", step2: "Multiply", step3: "Score", step4: "Scale", step4mask: "Scale, mask", step4bias: "Scale, bias", step5: "Softmax", step6: "Weigh the values",
    under1: "q = xW, k = xW, v = xW", under2: "q ∘ k, one by one", under3: "q · k", under5: "weights sum to 1", under6: "w v",
    queryRow: "the query q of {0}; each key below is multiplied with it",
    inputPlain: "x, {0} numbers", inputRow: "x, {0} numbers out of layer {1}", inputFirst: "x, {0} numbers: embedding and position",
    keyColumn: "key k", productColumn: "product; sum it up", thinLine: "thin line: without the scale", valueColumn: "value v, shaded by weight",
    noMask: "no mask: every key is read", someMask: "masked: {0} of {1} keys, never read", output: "output z = Σ w v",
    scaleFor: "What the scale is for",
    scaleWhy: "Divide by less and one key takes all: softmax saturates and learning stops. Divide by more and every key gets the same.",
    divideBy: "divide by", back: "back to {0}",
    evenEach: "1/{0} each", weightOf: "weight of {0}", keysReadHere: "keys read", slopeLeft: "slope left, Σ w(1−w)",
    times100: "× 100: the scores times 100, as if divided by {0}: {1} takes {2}, and {3} of the slope is left.",
    rawTitle: "Without projections: softmax(x xᵀ / √{0})",
    rawWhy: "X Xᵀ X has no W: each token is compared with the others as it is. The projections let it ask for something else.",
    rawThin: "thick: projected, this head; thin: x xᵀ",
    rawItself: "{0} reads itself with {1}; through q and k with {2}.",
    rawMasked: "the mask of this model is kept",
    theKey: "key",
    weighed: "w × v",
    sumHere: "output z there"
});

const PLAY = 1600; // ms a step
const steps = { at: 0, divisor: 0, point: null, timer: 0 };
const still = matchMedia("(prefers-reduced-motion: reduce)");

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
    steps.scale = el("div", {}, el("h2", {}, say("scaleFor")), el("p", { class: "why" }, say("scaleWhy")), steps.curve.node, el("div", { class: "slider" }, steps.range, el("span", {}, say("divideBy"))), steps.reset, steps.table, steps.hundred);
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
// 0: all six are shown; 1..6: those up to it.
function stopSteps() {
    clearInterval(steps.timer);
    steps.timer = 0;
}
function showStep(n) {
    stopSteps();
    steps.at = n;
    writeAddress();
    ask("base");
}
// Space: one step after the other, again: a pause; where motion is not wanted, the next step.
function playSteps() {
    const next = () => {
        steps.at = (steps.at + 1) % 7;
        if (!steps.at) stopSteps();
        ask("base");
    };
    if (steps.timer) return stopSteps();
    if (!still.matches) steps.timer = setInterval(next, PLAY);
    next();
}
function divide(by) {
    steps.divisor = by;
    writeAddress();
    ask("base");
}
const divisorOf = of => steps.divisor || of.own;
const isOwn = of => abs(divisorOf(of) / of.own - 1) < 1e-3;
function scaleBy(factor) {
    const f = focused(), of = f && scoresOf(f);
    if (of) divide(min(2 ** steps.high, max(.5, divisorOf(of) * factor)));
}
const rootName = of => abs(of.own - sqrt(of.E)) < 1e-3 * of.own ? `√${of.E}` : signed(of.own);

// ---- places ----------------------------------------------------------------------------------------
// Columns for a width: [left, width] of the pictures, the right edge of the numbers.  Narrow: one
// picture, that of the step.
function columnsFor(w) {
    if (w < 600) {
        const one = [.27 * w, .44 * w], at = steps.at || 5;
        return { narrow: true, name: .25 * w, bars: .45 * w, k: at === 1 ? one : null, p: at === 2 || at === 3 ? one : null, v: at === 6 ? one : null, score: at === 3 ? w - 4 : 0, scaled: at === 4 ? w - 4 : at === 5 ? .42 * w : 0, weight: at > 4 ? w - 4 : 0, w: at === 5 ? [.46 * w, .36 * w] : at === 4 ? [.46 * w, 0] : null };
    }
    const f = w / 1040, wide = w > 820;
    const u = x => x * f;
    return { narrow: false, name: u(78), k: [u(92), u(146)], p: [u(258), u(146)], score: u(470), scaled: u(576), weight: u(700), w: [u(712), u(148)], v: [u(880), u(152)], small: !wide };
}
function sizesFor(rows, narrow, top) {
    if (narrow && rows <= MOST_ROWS) return 44; // a finger's width
    return max(20, min(34, (max(420, innerHeight - min(top, innerHeight / 2) - 50) - 178) / max(1, rows)));
}

// ---- the picture -----------------------------------------------------------------------------------
function drawSteps() {
    const f = focused(), of = f && scoresOf(f), none = whyNot(f, of);
    steps.box.hidden = steps.scale.hidden = !!none;
    const w = steps.box.clientWidth, side = max(220, steps.scale.clientWidth), top = steps.box.getBoundingClientRect().top + scrollY; // read before anything is written
    steps.pick.show(f);
    steps.missing.textContent = none;
    steps.seen = null;
    if (none) {
        steps.rawBox.replaceChildren();
        return steps.number.replaceChildren();
    }
    const by = divisorOf(of), now = weightsAt(of, by), rows = keyLines(of, now.w, f.j);
    const c = columnsFor(w), tall = sizesFor(rows.length, c.narrow, top);
    const seen = { side, f, of, by, now, rows, c, tall, bare: weightsAt(of, 1), y: [], head: c.narrow ? 48 : 50, ask: 52 };
    const list = rows.filter(r => r.j >= 0);
    const ks = list.map(r => of.k(r.j)), vs = list.map(r => of.v(r.j));
    seen.most = { k: largest(ks), v: 0, p: 0 };
    seen.values = vs.length > 0 && !!vs[0];
    seen.most.v = largest(vs);
    seen.most.p = largest(ks.map(k => of.q.map((x, e) => x * k[e])));
    steps.seen = seen;
    const parts = [hatching("hatch"), ...stepHeads(seen, w)];
    let y = seen.head + seen.ask + 26;
    parts.push(...askingRow(seen, w), ...columnNames(seen, y - 8));
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

const stepName = (n, of) => say(n !== 4 ? `step${n}` : of.biased ? "step4bias" : of.seen < of.S ? "step4mask" : "step4");
// What stands under the name of each step.
const underOf = (of, by) => ["", say("under1"), say("under2"), say("under3"), `÷ ${isOwn(of) && rootName(of) !== signed(of.own) ? rootName(of) + " = " : ""}${signed(by)}`, say("under5"), say("under6")];
function stepHeads({ of, c, by }, w) {
    const x = c.narrow ? [0, 1, 2, 3, 4, 5].map(n => n * w / 6) : [c.k[0], c.p[0], c.score - 58, c.scaled - 58, c.weight - 50, c.v[0]];
    const under = underOf(of, by);
    return [1, 2, 3, 4, 5, 6].map(n => {
        const name = stepName(n, of), at = (steps.at || (c.narrow ? 5 : 0)) === n;
        const g = shape("g", { class: `step ${at ? "now" : ""}`, "data-step": n, role: "button", tabindex: 0, "aria-pressed": at, "aria-label": `${n} ${name}` });
        if (c.narrow) g.append(rectAt(x[n - 1], 0, w / 6 - 3, 44, "chip"), textAt(x[n - 1] + w / 12 - 2, 29, n, "digit", "middle"));
        else g.append(rectAt(x[n - 1] - 4, 0, 40, 44, "none"), textAt(x[n - 1], 20, n, "digit"), textAt(x[n - 1] + 17, 19, fitted(name, (x[n] ?? w) - x[n - 1] - 17, 14), "name"));
        if (!c.narrow && !c.small) g.append(textAt(x[n - 1] + 17, 37, under[n], "under"));
        return g;
    });
}
const inputName = (layer, n) => page.tokens !== page.keys ? say("inputPlain", n) : layer ? say("inputRow", n, layer - 1) : say("inputFirst", n);
function askingRow({ f, of, c, head, ask: tall }, w) {
    const y = head, mid = y + tall / 2, x = weights.x?.(f.layer, f.i), side = c.narrow ? [.27 * w, .7 * w] : c.k;
    const out = [rectAt(0, y, w, tall, "mark"), textAt(c.name, mid + 5, fitted(shownToken(page.tokens[f.i]), c.name - 4, 15), "strong", "end"), barsOf(of.q, side[0], mid, side[1], tall - 10, largest([of.q]))];
    if (c.narrow) return out;
    if (x && !c.small) {
        const at = c.w[0], wide = w - at - 10, group = grouped(x.length, wide), long = inputName(f.layer, x.length) + (group > 1 ? `, ${say("pooledBars", group)}` : "");
        const text = fits(long, wide, 11) ? long : say("inputPlain", x.length) + (group > 1 ? `, ${say("pooledBars", group)}` : "");
        out.push(barsOf(x, at, mid + 6, wide, tall - 24, largest([x]), "pale"), textAt(at, y + 11, fitted(text, wide, 11), "tiny"));
    }
    out.push(textAt(c.p[0] - 4, mid + 4, fitted(say("queryRow", quote(f.i)), (x && !c.small ? c.w[0] : w) - c.p[0] - 8, 12), "note"));
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
        const g = shape("g", {}, textAt(c.name + (c.narrow ? -c.name + 8 : 14), mid + 4, r.masked ? say("moreMasked", count(r.n)) : say("folded", count(r.n), weight(r.w, 3)), "note"));
        if (r.masked && !c.narrow) g.append(rectAt(c.score - 50, y + 3, c.weight - c.score + 50, tall - 6, "masked"));
        return g;
    }
    const j = r.j, on = j === f.j, masked = of.masked[j], k = of.k(j), v = of.v(j), x = now.w[j];
    const g = shape("g", { class: on ? "row on" : "row", "data-key": j });
    g.append(rectAt(0, y + 1, w, tall - 2, on ? "mark" : "none"), textAt(c.name, mid + 5, fitted(shownToken(page.keys[j]), c.name - 4), on ? "strong" : "", "end"));
    const tallest = min(tall * 1.15, 40), number = (at, value, n, kind = "") => { if (at) g.append(textAt(at, mid + 4.5, value, `${on ? "strong" : ""} ${kind} ${shownAt(n)}`, "end")); };
    if (c.k) g.append(barsOf(k, c.k[0], mid, c.k[1], tallest, most.k, "pale " + shownAt(1)));
    if (c.p) g.append(barsOf(of.q.map((q, e) => q * k[e]), c.p[0], mid, c.p[1], tallest, most.p, shownAt(2)));
    number(c.score, signed(of.dot[j]), 3);
    if (masked) {
        const left = c.scaled ? c.scaled - 52 : w - 90;
        g.append(shape("g", { class: shownAt(4) }, rectAt(left, y + 3, (c.weight || w - 4) - left, tall - 6, "masked"), textAt((left + (c.weight || w - 4)) / 2, mid + 4, say("masked"), "over", "middle")));
        return g;
    }
    number(c.scaled, signed(of.score(j, by)), 4);
    number(c.weight, weight(x, 3), 5);
    if (c.w && c.w[1]) {
        g.append(inked(rectAt(c.w[0], mid - min(6, tall * .2), max(.8, x * c.w[1]), min(12, tall * .4), ""), x));
        g.lastChild.classList.add(...shownAt(5).split(" ").filter(n => n));
        if (bare.w[j] * c.w[1] > .6) g.append(rectAt(c.w[0], mid + min(8, tall * .26), bare.w[j] * c.w[1], 2, `hot ${shownAt(5)}`));
    }
    if (v && c.v) {
        const bars = barsOf(v, c.v[0], mid, c.v[1], tallest, most.v, shownAt(6));
        bars.setAttribute("opacity", tenth(.12 + .88 * x ** .5));
        g.append(bars);
    }
    return g;
}
// z = sum of w v, for the weights on view.
function mixedValue({ of, now }) {
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
    out.push(textAt(c.narrow ? 8 : c.p[0], mid + 4, masked ? say("someMask", count(masked), count(of.S)) : say("noMask"), "note"));
    if (c.weight) out.push(textAt(c.weight, mid + 4.5, total.toFixed(3), `strong ${shownAt(5)}`, "end"));
    if (!values || !c.v) {
        if (!values && !c.narrow) out.push(textAt(w, mid + 4, fitted(say("noValues", f.layer), w - c.w[0], 11), "tiny", "end"));
        return out;
    }
    const z = mixedValue(seen);
    seen.z = z;
    if (!c.narrow) out.push(textAt(c.v[0] - 12, mid + 4.5, say("output"), `strong ${shownAt(6)}`, "end"));
    if (z) out.push(barsOf(z, c.v[0], mid, c.v[1], 40, max(seen.most.v / 2, largest([z])), shownAt(6)));
    return out;
}

// ---- what the scale is for ----------------------------------------------------------------------------
function drawScale(seen) {
    const { of, f, by, side: w } = seen, wide = w - 30, h = 190;
    steps.high = max(6, ceil(Math.log2(max(of.E, of.own))));
    const x = d => (Math.log2(d) + 1) / (steps.high + 1) * wide, yOf = p => 14 + (1 - p) * (h - 44), parts = [];
    for (const p of [0, .5, 1]) parts.push(hair(0, yOf(p), wide, yOf(p)), textAt(w, yOf(p) + 4, p, "tiny", "end"));
    for (let e = -1; e <= steps.high; e++) parts.push(textAt(x(2 ** e), h - 14, e < 0 ? "½" : 2 ** e, "tiny", e < 0 ? "start" : "middle"));
    const curves = curvesOf(of, f.j, x, yOf);
    for (const { j, d } of curves) if (j !== f.j) parts.push(shape("path", { class: "curve", d }));
    const own = curves.find(c => c.j === f.j), p = weightsAt(of, by).w[f.j], px = x(by), even = 1 / max(1, of.seen);
    if (own) parts.push(shape("path", { class: "curve own", d: own.d }));
    parts.push(hair(px, 10, px, h - 28, "hotline"), shape("circle", { class: "dot", cx: tenth(px), cy: tenth(yOf(p)), r: 4 }));
    const left = px > wide * .62;
    parts.push(textAt(px + (left ? -8 : 8), max(12, yOf(p) - 8), `${fitted(page.keys[f.j].text, 110)} ${weight(p)}`, "strong halo", left ? "end" : "start"));
    const spot = yOf(even) - (even < .6 ? 12 : -20), close = px < 130 && abs(spot - max(12, yOf(p) - 8)) < 15;
    if (of.seen) parts.push(textAt(2, spot - (close ? 15 : 0), say("evenEach", count(of.seen)), "tiny halo"));
    redraw(steps.curve, w, h, ...parts);
    steps.range.value = 1000 * (Math.log2(by) + 1) / (steps.high + 1);
    steps.range.setAttribute("aria-valuetext", `${say("divideBy")} ${signed(by)}: ${weight(p, 3)}`);
    steps.reset.hidden = isOwn(of);
    steps.reset.textContent = say("back", rootName(of));
    drawScaleTable(of, f.j);
}
// A curve a key: the chosen one and those that get most anywhere between ½ and the end.  The softmax
// at every place is computed once for a query.
const PLACES = 48;
function curvesOf(of, chosen, x, yOf) {
    if (steps.of !== of) {
        const most = new Float64Array(of.S);
        steps.of = of;
        steps.places = Array.from({ length: PLACES + 1 }, (_, k) => {
            const by = 2 ** (k / PLACES * (steps.high + 1) - 1), { w } = weightsAt(of, by);
            w.forEach((p, j) => { if (p > most[j]) most[j] = p; });
            return { by, w };
        });
        steps.order = Array.from({ length: of.S }, (_, j) => j).filter(j => !of.masked[j]).sort((a, b) => most[b] - most[a]);
    }
    const keys = steps.order.filter((j, n) => n < MOST_CURVES || j === chosen);
    return keys.map(j => ({ j, d: steps.places.map(({ by, w }, k) => `${k ? "L" : "M"}${tenth(x(by))} ${yOf(w[j]).toFixed(1)}`).join("") }));
}
function drawScaleTable(of, j) {
    const at = [1, of.own, of.E], ws = at.map(d => weightsAt(of, d)), hundred = weightsAt(of, of.own / 100), open = hundred.w.indexOf(max(...hundred.w));
    const th = (text, kind) => el("th", { scope: "col", class: kind }, text);
    const row = (name, value) => cells(el("td", { class: "text" }, name), ...ws.map(value));
    steps.table.replaceChildren(el("table", { class: "scales" },
        el("thead", {}, el("tr", {}, th(say("divideBy"), ""), th("1", ""), th(rootName(of), "hot"), th(of.E, ""))),
        el("tbody", {}, row(say("weightOf", keyName(j)), x => weight(x.w[j], 3)), row(say("keysReadHere"), x => x.keys.toFixed(1)), row(say("slopeLeft"), x => weight(x.slope, 3)))));
    steps.hundred.textContent = of.seen > 1 ? say("times100", signed(of.own / 100, 3), keyName(max(0, open)), weight(hundred.w[max(0, open)], 3), weight(hundred.slope, 3)) : "";
}

// ---- the number under the pointer -----------------------------------------------------------------------
function pointSteps(e) {
    const s = steps.seen, r = steps.figure.node.getBoundingClientRect(), x = e.clientX - r.left, y = e.clientY - r.top;
    steps.point = null;
    if (!s) return;
    const within = (at, n) => at && x >= at[0] && x < at[0] + at[1] ? floor((x - at[0]) / at[1] * n) : -1;
    const n = s.y.findIndex(top => y >= top && y < top + s.tall), row = s.rows[n];
    const asks = y >= s.head && y < s.head + s.ask;
    if (row?.j === undefined && !asks) return drawPointed();
    const e1 = max(within(s.c.k, s.of.E), within(s.c.p, s.of.E)), values = asks ? null : s.of.v(row.j), e2 = values ? within(s.c.v, values.length) : -1;
    if (e1 >= 0 || e2 >= 0) steps.point = { j: asks ? s.f.j : row.j, e: e2 >= 0 ? e2 : e1, value: e2 >= 0 };
    drawPointed();
}
function drawPointed() {
    const s = steps.seen, p = steps.point;
    if (!s) return;
    const rows = [];
    if (p && !p.value) {
        const q = s.of.q[p.e], k = s.of.k(p.j)[p.e];
        rows.push([say("theKey"), keyName(p.j)], [say("dimension"), say("ofAll", p.e, s.of.E)], [say("product"), el("td", {}, `${signed(q, 3)} × ${signed(k, 3)} = `, el("b", {}, signed(q * k, 3)))], [say("shareOf"), s.of.dot[p.j] ? `${signed(100 * q * k / s.of.dot[p.j], 0)}%` : "–"]);
    } else if (p) {
        const v = s.of.v(p.j)[p.e], x = s.now.w[p.j];
        rows.push([say("theKey"), keyName(p.j)], [say("dimension"), say("ofAll", p.e, s.of.v(p.j).length)], [say("weighed"), el("td", {}, `${weight(x, 3)} × ${signed(v, 3)} = `, el("b", {}, signed(x * v, 3)))], [say("sumHere"), s.z ? signed(s.z[p.e], 3) : "–"]);
    }
    steps.number.replaceChildren(...(rows.length ? [el("h2", {}, say("pointed")), pairsOf(rows)] : []));
}

// ---- X Xᵀ X beside it -------------------------------------------------------------------------------------
// The same query and keys without projections: softmax(x xᵀ / √D), with the same mask.  null: no x.
function rawWeights({ f, of }) {
    const x = page.tokens === page.keys ? weights.x?.(f.layer, f.i) : null;
    if (!x) return null;
    const w = new Float64Array(of.S), by = sqrt(x.length);
    let top = -Infinity, sum = 0;
    for (let j = 0; j < of.S; j++) {
        if (of.masked[j]) continue;
        const y = weights.x(f.layer, j);
        for (let e = 0; e < x.length; e++) w[j] += x[e] * y[e];
        top = max(top, w[j] /= by);
    }
    for (let j = 0; j < of.S; j++) sum += w[j] = of.masked[j] ? 0 : Math.exp(w[j] - top);
    return { w: w.map(p => p / sum), D: x.length };
}
function drawRaw(seen) {
    const raw = rawWeights(seen), { f, of, now } = seen;
    seen.raw = raw;
    if (!raw) return steps.rawBox.replaceChildren();
    const w = seen.side, name = 84, room = w - name - 84;
    const open = Array.from({ length: of.S }, (_, j) => j).filter(j => !of.masked[j]);
    const keys = open.sort((a, b) => max(now.w[b], raw.w[b]) - max(now.w[a], raw.w[a])).slice(0, 10).sort((a, b) => a - b), parts = [];
    keys.forEach((j, n) => {
        const y = n * 22 + 12, on = j === f.i;
        parts.push(textAt(name - 8, y + 4, fitted(shownToken(page.keys[j]), name - 8, 12), on ? "strong" : "", "end"),
            inked(rectAt(name, y - 6, max(.8, now.w[j] * room), 7, ""), now.w[j]), rectAt(name, y + 3, max(.8, raw.w[j] * room), 3, "thin"),
            textAt(w - 40, y + 4, weight(now.w[j], 3), "", "end"), textAt(w, y + 4, weight(raw.w[j], 3), "under", "end"));
    });
    redraw(steps.raw, w, keys.length * 22 + 6, ...parts);
    steps.rawBox.replaceChildren(el("h2", {}, say("rawTitle", raw.D)), el("p", { class: "why" }, say("rawItself", quote(f.i), weight(raw.w[f.i], 3), weight(now.w[f.i], 3)) + " " + say("rawWhy")), steps.raw.node,
        el("p", { class: "note" }, [say("rawThin"), keys.length < open.length ? say("more", count(open.length - keys.length)) : "", of.seen < of.S ? say("rawMasked") : ""].filter(t => t).join("; ")));
}

// ---- the sentence, the table ---------------------------------------------------------------------------------
// What step n says of the chosen key.
function sayStep(n, { f, of, by, now }) {
    const j = f.j, k = of.k(j), key = keyName(j), scaled = signed(of.score(j, by));
    const products = [...of.q].map((q, e) => q * k[e]), most = products.reduce((a, p, e) => abs(p) > abs(products[a]) ? e : a, 0);
    const hidden = of.S - of.seen, z = now.w[j];
    return [null,
        [`1. In layer ${f.layer}, head ${f.head} makes of each token three vectors of ${of.E} numbers: a query, a key, a value. ${quote(f.i)} asks with its query, `, { b: key }, " answers with its key."],
        ["2. Query times key, number by number: for ", { b: key }, ` the largest of the ${of.E} products is ${signed(products[most])}, in dimension ${most}.`],
        [`3. The products of `, { b: key }, ` sum to ${signed(of.dot[j])}: its score.`],
        [`4. ${signed(of.dot[j])} ${scaling(of, j, by)}`, hidden ? `; ${count(hidden)} of ${count(of.S)} keys are masked.` : "; no key is masked."],
        of.masked[j] ? [`5. Softmax of the ${count(of.seen)} keys that are not masked; `, { b: key }, " is, and gets nothing."] : [`5. Softmax: e to the ${scaled}, over the sum of all ${count(of.seen)} keys, is ${weight(z, 3)} for `, { b: key }, "."],
        ["6. The values are weighed and summed to the output z: ", { b: key }, ` gives ${weight(z, 3)} of its value.`]][n].filter(t => t !== "");
}
function answerSteps() {
    const f = focused(), of = f && scoresOf(f);
    const question = f ? say("arrive", quote(f.i), keyName(f.j)) : say("sixSteps");
    if (whyNot(f, of)) return { question, pieces: [whyNot(f, of)] };
    const seen = { f, of, by: divisorOf(of), now: weightsAt(of, divisorOf(of)) };
    if (!of.seen) return { question, pieces: [say("nothing", quote(f.i))] };
    if (steps.at) return { question, pieces: sayStep(steps.at, seen) };
    const x = seen.now.w[f.j];
    const chain = of.masked[f.j] ? [" is masked: it gets nothing."] : [`: score ${signed(of.dot[f.j])}, ${scaling(of, f.j, seen.by)}, softmax ${weight(x, 3)}.`];
    return { question, pieces: [`Layer ${f.layer}, head ${f.head}, all ${of.E} numbers of every vector. `, { b: keyName(f.j) }, ...chain, isOwn(of) ? "" : ` The model itself divides by ${rootName(of)}: ${weight(weightsAt(of, of.own).w[f.j], 3)}.`].filter(t => t !== "") };
}
function stepsRows() {
    const s = steps.seen;
    if (!s) return [];
    const { of, now, by } = s;
    return [["key", "q · k", ...(of.biased ? ["bias"] : []), `÷ ${signed(by)}`, "weight", "without scale", ...(s.raw ? ["x xᵀ"] : [])],
        ...Array.from({ length: of.S }, (_, j) => [page.keys[j].text, signed(of.dot[j], 4), ...(of.biased ? [signed(of.bias[j], 4)] : []), of.masked[j] ? say("masked") : signed(of.score(j, by), 4), of.masked[j] ? say("masked") : now.w[j].toFixed(4), of.masked[j] ? say("masked") : s.bare.w[j].toFixed(4), ...(s.raw ? [s.raw.w[j].toFixed(4)] : [])])];
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
        if (steps.at) p.set("st", steps.at);
        if (steps.divisor) p.set("by", +steps.divisor.toPrecision(4));
    },
    read: p => {
        steps.at = /^[1-6]$/.test(p.get("st") ?? "") ? +p.get("st") : 0;
        const by = parseFloat(p.get("by"));
        steps.divisor = by >= .5 && by <= 1e5 ? by : 0;
    },
    keys: [
        ["Space", "play the six steps", e => e.key === " " && !e.target.closest("button,select,input"), () => playSteps(), 1],
        ["⇧ ← →", "one step", e => e.shiftKey && /^Arrow(Left|Right)$/.test(e.key), e => showStep(e.key === "ArrowLeft" ? max(0, (steps.at || 7) - 1) : (steps.at + 1) % 7), 1],
        ["[ ]", "scale", e => e.key === "[" || e.key === "]", e => scaleBy(e.key === "[" ? 2 ** -.25 : 2 ** .25), 1],
        ...pairKeys(() => steps.pick)
    ]
});
