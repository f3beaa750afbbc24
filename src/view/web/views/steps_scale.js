// SPDX-License-Identifier: MIT
// steps_scale.js: draws two experiments of the view steps: softmax with another scale, and attention without
// projections. It also contains the state of that view.
import { abs, ceil, max, min, sqrt } from "../base/math.js";
import { count, certain, say, signed, weight } from "../base/messages.js";
import { cells, el } from "../base/dom.js";
import { defined } from "../base/terms.js";
import { page, quote } from "../base/state.js";
import {
    MOST_CURVES, fitted, fittedAt, hair, isOwnDivisor, weightFill, keyName, rectAt, redraw, rootName, shape, shownToken,
    tenth, textAt, weightsAt
} from "../parts/figure.js";

export const steps = { at: 0, divisor: 0, point: null, timer: 0 };
export const divisorOf = of => steps.divisor || of.own;
export const isOwn = of => isOwnDivisor(of, divisorOf(of));

// ---- the purpose of the scale -----------------------------------------------------------------------
export function drawScale(seen) {
    const { of, f, by, side: w } = seen, wide = w - 30, top = 26, tall = 146;
    steps.high = max(6, ceil(Math.log2(max(of.E, of.own))));
    const x = d => (Math.log2(d) + 1) / (steps.high + 1) * wide, yOf = p => top + (1 - p) * tall;
    const bottom = top + tall, parts = [];
    for (const [p, name] of [[0, "0"], [.5, ".5"], [1, "1"]])
        parts.push(hair(0, yOf(p), wide, yOf(p)), textAt(w, yOf(p) + 4, name, "tiny", "end"));
    for (let e = -1; e <= steps.high; e++)
        parts.push(textAt(x(2 ** e), bottom + 16, e < 0 ? "½" : 2 ** e, "tiny", e < 0 ? "start" : "middle"));
    parts.push(
        textAt(w, 10, say("weightAxis"), "tiny", "end"),
        textAt(wide, bottom + 31, say("divideBy"), "tiny", "end")
    );
    const curves = curvesOf(of, f.j, x, yOf);
    for (const { j, d } of curves) if (j !== f.j) parts.push(shape("path", { class: "curve", d }));
    const own = curves.find(c => c.j === f.j), p = weightsAt(of, by).w[f.j], px = x(by), uniform = 1 / max(1, of.seen);
    if (own) parts.push(shape("path", { class: "curve own", d: own.d }));
    parts.push(
        hair(px, top - 4, px, bottom + 2, "hotline"),
        shape("circle", { class: "dot", cx: tenth(px), cy: tenth(yOf(p)), r: 4 })
    );
    const left = px > wide * .62;
    parts.push(
        textAt(
            px + (left ? -8 : 8), max(top - 2, yOf(p) - 8), `${fitted(page.keys[f.j].named, 110)} ${weight(p)}`,
            "strong halo", left ? "end" : "start"
        )
    );
    const spot = yOf(uniform) - (uniform < .6 ? 12 : -20);
    const close = px < 130 && abs(spot - max(top - 2, yOf(p) - 8)) < 15;
    if (of.seen) parts.push(textAt(2, spot - (close ? 15 : 0), say("uniformEach", count(of.seen)), "tiny halo"));
    redraw(steps.curve, w, bottom + 36, ...parts);
    steps.range.value = 1000 * (Math.log2(by) + 1) / (steps.high + 1);
    steps.range.setAttribute("aria-valuetext", `${say("divideBy")} ${signed(by)}: ${weight(p, 3)}`);
    steps.reset.hidden = isOwn(of);
    steps.reset.textContent = say("back", rootName(of));
    drawScaleTable(of, f.j);
}
// Returns one curve per key, for the chosen key and the keys with the largest weights. A curve is the weight over the
// divisor, from ½ to the end of the axis. The softmaxes are computed once per query.
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
        steps.order = Array.from({ length: of.S }, (_, j) => j)
            .filter(j => !of.masked[j])
            .sort((a, b) => most[b] - most[a]);
    }
    const keys = steps.order.filter((j, n) => n < MOST_CURVES || j === chosen);
    return keys.map(j => ({
        j, d: steps.places.map(({ by, w }, k) => `${k ? "L" : "M"}${tenth(x(by))} ${yOf(w[j]).toFixed(1)}`).join("")
    }));
}
function drawScaleTable(of, j) {
    const at = [1, of.own, of.E];
    const ws = at.map(d => weightsAt(of, d));
    const hundred = weightsAt(of, of.own / 100);
    const open = hundred.w.indexOf(max(...hundred.w));
    const th = (text, kind) => el("th", { scope: "col", class: kind }, text);
    const row = (name, value, term = name) =>
        cells(el("td", { class: "text", ...defined(term) }, name), ...ws.map(value));
    steps.table.replaceChildren(el("table", { class: "scales" },
        el("thead", {}, el("tr", {}, th(say("divideBy"), ""), th("1", ""), th(rootName(of), "hot"), th(of.E, ""))),
        el(
            "tbody", {}, row(say("weightOf", keyName(j)), x => weight(x.w[j], 3), "weight"),
            row(say("effectiveKeysHere"), x => x.keys.toFixed(1)),
            row(say("softmaxGradient"), x => weight(x.gradient, 3))
        )));
    steps.hundred.textContent = of.seen > 1
        ? say(
            "times100", signed(of.own / 100, 3), keyName(max(0, open)), weight(hundred.w[max(0, open)], 3),
            weight(hundred.gradient, 3)
        )
        : "";
}

// ---- attention without projections ------------------------------------------------------------------
// Returns the weights without projections, softmax(x xᵀ / √D), with the same mask; null if the file has no input rows
// x.
function rawWeights({ f, of }) {
    const x = page.tokens === page.keys ? page.weights.x?.(f.layer, f.i) : null;
    if (!x) return null;
    const w = new Float64Array(of.S), by = sqrt(x.length);
    const off = page.weights.error(f.layer, "x"), long = y => y.reduce((s, z) => s + abs(z), 0);
    let top = -Infinity, sum = 0, error = 0;
    for (let j = 0; j < of.S; j++) {
        if (of.masked[j]) continue;
        const y = page.weights.x(f.layer, j);
        for (let e = 0; e < x.length; e++) w[j] += x[e] * y[e];
        error = max(error, off * (long(x) + long(y)) / by);
        top = max(top, w[j] /= by);
    }
    for (let j = 0; j < of.S; j++) sum += w[j] = of.masked[j] ? 0 : Math.exp(w[j] - top);
    const shares = w.map(p => p / sum), grown = Math.expm1(2 * error);
    // each score may be `error` off, so that each weight is at most e^(2 error) times as large
    const text = (j, digits) => certain(shares[j], min(shares[j], 1 - shares[j]) * grown, digits, weight);
    return { w: shares, D: x.length, text };
}
export function drawRaw(seen) {
    const raw = rawWeights(seen), { f, of, now } = seen;
    seen.raw = raw;
    if (!raw) return steps.rawBox.replaceChildren();
    const w = seen.side, name = 84, space = w - name - 84;
    const open = Array.from({ length: of.S }, (_, j) => j).filter(j => !of.masked[j]);
    const keys = open.sort((a, b) => max(now.w[b], raw.w[b]) - max(now.w[a], raw.w[a]))
        .slice(0, 10)
        .sort((a, b) => a - b);
    const parts = [];
    keys.forEach((j, n) => {
        const y = n * 22 + 12, on = j === f.i;
        parts.push(fittedAt(name - 8, y + 4, shownToken(page.keys[j]), name - 8, on ? "strong" : "", "end"),
            weightFill(rectAt(name, y - 6, max(.8, now.w[j] * space), 7, ""), now.w[j]),
            rectAt(name, y + 3, max(.8, raw.w[j] * space), 3, "thin"),
            textAt(w - 40, y + 4, weight(now.w[j], 3), "", "end"), textAt(
                w, y + 4, raw.text(j, 3), "under", "end"
            ));
    });
    redraw(steps.raw, w, keys.length * 22 + 6, ...parts);
    steps.rawBox.replaceChildren(
        el("h2", {}, say("rawTitle", raw.D)),
        el(
            "p", { class: "why" },
            say("rawItself", quote(f.i), raw.text(f.i, 3), weight(now.w[f.i], 3)) + " " + say("rawWhy")
        ),
        steps.raw.node,
        el(
            "p", { class: "note" },
            [
                say("rawThin"), keys.length < open.length ? say("more", count(open.length - keys.length)) : "",
                of.seen < of.S ? say("rawMasked") : ""
            ].filter(
                t => t
            ).join(
                "; "
            )
        )
    );
}
