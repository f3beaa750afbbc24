// SPDX-License-Identifier: MIT
// panel.js: builds the panels around the diagram: overview of heads, filters, names of the selected heads, tables, and
// the small matrix.
import { abs, ceil, max, min, strongestOf, sumOf } from "../base/math.js";
import { NUMBERS, count, hundredths, say, share, shortened, stackTitle, weight } from "../base/messages.js";
import { cells, el, nameNode, onClick, roving } from "../base/dom.js";
import { defined } from "../base/terms.js";
import {
    FILTERS, allHeads, geometry, keyPasses, isShown, selectedHeads, page, quote, quoteKey, rowPasses, span, stage,
    state, toggled, topKey
} from "../base/state.js";
import { cell, css, headColour, hue, textOn, linkColour, logOf, rampAt } from "../base/palette.js";
import { MEAN, ROLLOUT, rolloutAllowed, drawn, isSparse, knows, nameOf, rowOf, wordStack } from "../base/aggregate.js";
import { links } from "../base/links.js";
import { announce } from "../base/drawing.js";
import { COARSE, rowStats } from "../base/head_stats.js";
import { windowed } from "../base/row_window.js";
import { set, selectOnly } from "../base/frame.js";
import { tilted } from "./figure.js";

export const panel = {};
const kindName = s => s.kind < 0 ? "" : page.about.kindTable[s.kind].name;
const kindShort = s =>
    s.kind < 0 ? "" : kindName(s) === "vertical" ? quoteKey(s.word) : kindName(s).replace(" word", "");
const hasStrength = s => s.kind >= 0 && kindName(s) !== "other";
export function tip(l, h) {
    const s = page.stats[l][h];
    if (s.kind < 0) return `layer ${l}, head ${h}`;
    const k = page.about.kindTable[s.kind];
    return `layer ${l}, head ${h}: ` +
        say(
            "tip", k.name, hasStrength(s) ? weight(s.strength) : "", k.rule, s.rows,
            hasStrength(s) ? weight(k.threshold) : "–"
        );
}

// Makes the labels above a grid of heads: one per head or, of more than 16 heads, one per four.
function headLabels() {
    const { H } = page, every = H > 16 ? 4 : 1;
    return Array.from({ length: ceil(H / every) }, (_, n) => {
        const label = el("span", { class: every > 1 ? "label four" : "label", "aria-hidden": "true" }, n * every);
        if (every > 1) label.style.gridColumn = `span ${min(every, H - n * every)}`;
        return label;
    });
}
export function buildOverview() {
    const { L, H } = page, box = el("div", { id: "overview", role: "group", "aria-label": say("layerHead") });
    const small = H > 16;
    box.style.gridTemplateColumns = `20px repeat(${H}, minmax(0, 1fr))`;
    box.append(el("span"));
    panel.columns = headLabels();
    box.append(...panel.columns);
    panel.cells = [];
    panel.rows = [];
    for (let l = 0; l < L; l++) {
        const name = el("button", { class: "num", tabindex: -1, "aria-label": `layer ${l}` }, l);
        onClick(name, () => set({ layer: l }));
        const cells = Array.from({ length: H }, (_, h) => {
            const s = page.stats[l][h];
            const b = el(
                "button", { "data-rove": "", tabindex: l || h ? -1 : 0, title: tip(l, h), "aria-label": tip(l, h) },
                small || s.kind < 0 ? "" : page.about.kindTable[s.kind].glyph
            );
            onClick(b, e => set({ layer: l, selected: e.shiftKey ? toggled(h) : [h] }));
            return b;
        });
        const row = el("div", { class: "row" }, name, ...cells);
        panel.cells.push(cells);
        panel.rows.push(row);
        box.append(row);
    }
    panel.outline = el("div", { id: "outline", "aria-hidden": "true" });
    box.append(panel.outline);
    roving(box, H);
    panel.legend = el("div", { class: "legend" });
    const present = [...new Set(page.stats.flat().map(s => s.kind))].filter(k => k >= 0).sort((a, b) => a - b);
    panel.focused = el("div");
    panel.legend.append(
        panel.focused,
        ...present.map(k => page.about.kindTable[k])
            .flatMap(({ name, glyph }) => [el("span", {}, el("i", {}, glyph), name), " "])
    );
    return el("div", {}, el("h2", {}, say("layerHead")), box, panel.legend);
}
export function drawOverview() {
    const sees = [state.layer, state.selected, hue.dark, hue.forced, innerWidth].join();
    if (panel.drawn === sees) return;
    panel.drawn = sees;
    panel.focused.textContent = say(hue.dark ? "focusedDark" : "focused");
    panel.columns.forEach((c, n) => {
        if (page.H <= 16) c.className = "label" + (state.selected.includes(n) ? " on" : "");
    });
    panel.cells.forEach((cells, l) => {
        panel.rows[l].className = "row" + (l === state.layer ? " on" : "");
        cells.forEach((b, h) => {
            const c = rampAt(.7 * page.stats[l][h].focus);
            b.style.background = hue.forced ? "" : css(c);
            b.style.color = hue.forced ? "" : textOn(c);
            b.style.borderBottomColor = l === state.layer && state.selected.includes(h) ? headColour(h) : "transparent";
        });
    });
    const first = panel.rows[state.layer].firstChild, box = panel.outline.parentNode;
    Object.assign(
        panel.outline.style,
        {
            top: first.offsetTop - 2 + "px", height: first.offsetHeight + 4 + "px", left: "-2px",
            width: box.clientWidth + 4 + "px"
        }
    );
}
// Makes the switch that hides special tokens. Its mark() shows the state of the page.
export function specialsSwitch() {
    const b = el(
        "button", { class: "switch", role: "switch" },
        el("span", {}, say("hide", page.specials.slice(0, 3).join(" "))), el("i")
    );
    onClick(b, () => set({ special: !state.special }));
    b.mark = () => b.setAttribute("aria-checked", `${!state.special}`);
    return b;
}
export function buildFilters() {
    const out = [];
    panel.filters = [];
    if (page.stacks.length > 1) out.push(buildStacks());
    if (page.pair) {
        panel.filters = FILTERS.map(f => {
            const b = el(
                "button", { class: "filter" }, el("span", {}, f === "all" ? say("all") : `${f[0]} → ${f[1]}`),
                el("i", {}, f === "all" ? "" : el("b")), el("span")
            );
            onClick(b, () => set({ filter: f }));
            return b;
        });
        out.push(el("div", {}, el("h2", {}, say("sentences")), ...panel.filters));
    }
    if (page.specials.length && !page.allSpecial) {
        panel.switch = specialsSwitch();
        panel.goes = el("span");
        out.push(
            el(
                "div", {}, el("h2", defined("special tokens"), say("specials")), panel.switch,
                el("p", { class: "note" }, panel.goes, el("br"), say("never"))
            )
        );
    }
    panel.range = el("input", { type: "range", min: 0, max: 1000, "aria-label": say("above") });
    panel.range.addEventListener("input", () => set({ factor: factorOf(panel.range.value / 1000) }));
    panel.tau = el("span");
    panel.uniform = el("span");
    panel.below = el("span");
    out.push(
        el(
            "div", {}, el("h2", {}, say("above")), el("div", { class: "slider" }, panel.range, panel.tau),
            el("p", { class: "note" }, panel.uniform, el("br"), panel.below)
        )
    );
    out.push(buildAggregation());
    return out;
}
// Makes the buttons that select a stack: encoder, decoder or cross-attention.
function buildStacks() {
    panel.stacks = page.stacks.map((s, n) => {
        const b = el(
            "button", { class: "filter", "aria-pressed": n === state.stack },
            el("span", {}, stackTitle(s.name)),
            el("span", {}, s.tokens === s.keys ? s.T : `${s.T} × ${s.S}`)
        );
        onClick(b, () => set({ stack: n }));
        return b;
    });
    return el("div", { class: "stacks" }, el("h2", {}, say("attention")), ...panel.stacks);
}
function switchOf(key, act) {
    const b = el("button", { class: "switch", role: "switch" }, el("span", {}, say(key)), el("i"));
    onClick(b, act);
    return b;
}
// Makes the choices of what is drawn: each head, their mean, or the rollout; words or tokens; the scale.
function buildAggregation() {
    const can = rolloutAllowed();
    panel.aggregates = ["eachHead", "mean", "rollout"].map(name => {
        const b = el("button", {}, say(name)), off = name === "rollout" && can !== true;
        if (off) b.title = can;
        b.setAttribute("aria-disabled", off);
        onClick(b, () => off ? announce(can) : set({ mean: name === "mean", rollout: name === "rollout" }));
        return b;
    });
    panel.words = wordStack(page.stack) ? switchOf("words", () => set({ words: !state.words })) : null;
    panel.log = switchOf("log", () => set({ log: !state.log }));
    panel.aggregateNote = el("p", { class: "note" });
    return el(
        "div", {}, el("h2", {}, say("several")),
        el("div", { class: "segments", role: "group", "aria-label": say("several") }, ...panel.aggregates),
        ...(panel.words ? [panel.words] : []), panel.log, panel.aggregateNote
    );
}
export function drawAggregation() {
    const now = drawn()[0] === ROLLOUT ? 2 : state.mean ? 1 : 0;
    panel.aggregates.forEach((b, n) => b.setAttribute("aria-pressed", n === now));
    panel.words?.setAttribute("aria-checked", page.words);
    panel.log.setAttribute("aria-checked", state.log);
    panel.aggregateNote.textContent = [
        now === 2 ? say("rollNote") : "", page.words ? say("wordsNote") : "", state.log ? say("logNote") : ""
    ].filter(
        x => x
    ).join(
        " "
    );
}
// The slider of the threshold has finer steps near 0.
const factorOf = x => min(.95, x ** 3) * page.S;
const sliderOf = f => Math.cbrt(min(.95, f / page.S));
// Returns the shares of weight from A to A, A to B, B to A, B to B, and to special tokens: as the mean of the selected
// heads, or of the rollout, over the rows that are no special tokens.
function sharesNow() {
    const heads = selectedHeads(), all = [0, 1, 2, 3, 4];
    if (drawn()[0] !== ROLLOUT)
        return all.map(k => heads.reduce((s, h) => s + page.stats[state.layer][h].shares[k], 0) / (heads.length || 1));
    const out = all.map(() => 0), rows = page.visible.filter(i => !page.tokens[i].special);
    for (const i of rows) rowOf(ROLLOUT, i).forEach((w, j) => {
        out[page.keys[j].special ? 4 : 2 * page.tokens[i].part + page.keys[j].part] += w / rows.length;
    });
    return out;
}
export function drawFilters() {
    const shares = sharesNow();
    panel.filters.forEach((b, f) => {
        const [, bar, text] = b.children, x = f ? shares[f - 1] : shares.slice(0, 4).reduce((s, v) => s + v, 0);
        b.setAttribute("aria-pressed", state.filter === FILTERS[f]);
        text.textContent = share(x);
        if (f) bar.firstChild.style.width = 100 * min(1, x / .5) + "%";
    });
    if (panel.switch) {
        panel.switch.mark();
        panel.goes.textContent = say(state.special ? "stays" : "goes", share(shares[4]));
    }
    panel.range.value = 1000 * sliderOf(state.factor);
    const tau = min(.95, state.factor / page.S);
    const text = weight(tau, tau < .001 ? 5 : 3);
    panel.range.setAttribute("aria-valuetext", text);
    panel.tau.textContent = text;
    panel.uniform.textContent = abs(state.factor - .5) < 1e-6
        ? say("half")
        : say("times", state.factor.toFixed(state.factor < 10 ? 2 : 0));
}
export function drawBelow() {
    const rows = links.whole;
    panel.below.textContent = rows && !links.missing
        ? say("below", share(max(0, 1 - links.weight / rows))) +
            (links.all > links.n ? "; " + say("strongest", count(links.n), count(links.all)) : "")
        : "";
}

export function buildChips() {
    const { H } = page, box = el("div", { id: "chips", role: "group", "aria-label": "heads" });
    const bare = H > 16 || page.stats.flat().every(s => s.kind < 0);
    box.className = bare ? "bare" : "";
    box.style.gridTemplateColumns = `repeat(${H <= 12 ? H : H <= 16 ? 8 : 16}, minmax(0, 1fr))`;
    panel.chips = Array.from({ length: H }, (_, h) => {
        const b = el(
            "button", { class: "chip", "data-rove": "", tabindex: h ? -1 : 0 }, el("span", {}, h),
            bare ? "" : el("small")
        );
        onClick(b, () => set({ selected: toggled(h) }));
        b.addEventListener("dblclick", () => selectOnly(h));
        return b;
    });
    box.append(...panel.chips);
    roving(box, 1);
    return box;
}
export function drawChips() {
    const narrow = panel.chips[0].clientWidth < 62;
    panel.chips.forEach((b, h) => {
        const s = page.stats[state.layer][h], on = state.selected.includes(h);
        b.setAttribute("aria-pressed", on);
        b.setAttribute(
            "aria-label",
            [`head ${h}`, kindShort(s), hasStrength(s) ? weight(s.strength) : "", on ? "selected" : ""]
                .filter(x => x).join(", ")
        );
        b.title = tip(state.layer, h);
        const glyph = page.about.kindTable[s.kind]?.glyph;
        if (b.children[1]) b.children[1].textContent = narrow && glyph ? glyph : kindShort(s);
        b.style.borderColor = on ? headColour(h) : hue.rule;
        b.style.borderLeftColor = on || page.H <= 16 ? headColour(h) : hue.rule;
        if (!on && page.H <= 16) b.style.borderLeftColor = `color-mix(in srgb, ${headColour(h)} 30%, ${hue.paper})`;
    });
}
function headTable() {
    const all = page.stats[state.layer], n = NUMBERS[page.H] || page.H;
    const body = all.map((s, h) => {
        const swatch = el("i", { class: "swatch" });
        swatch.style.background = state.selected.includes(h) || page.H <= 16 ? headColour(h) : hue.rule;
        if (!state.selected.includes(h)) swatch.style.opacity = .35;
        const tr = cells(
            el("td", {}, swatch, h), el("td", { class: "text" }, kindShort(s)),
            hasStrength(s) ? weight(s.strength) : "–", s.keys.toFixed(1),
            page.tokens === page.keys ? s.distance.toFixed(1) : "–"
        );
        if (state.selected.includes(h)) tr.className = "selected";
        return tr;
    });
    return el("table", {}, el("caption", {}, say(page.H === 1 ? "headOf" : "headsOf", n, state.layer)),
        el(
            "thead", {},
            el(
                "tr", {},
                ...[["head"], ["kind", ""], ["strength"], ["effective keys"], ["distance"]].map(([t, shown = t]) =>
                    el("th", { scope: "col", ...defined(t) }, shown)
                )
            )
        ),
        el("tbody", {}, ...body));
}
/**
 * Returns the table of a marked row or column, largest weights first.
 * @param {Target} l
 * @param {number} most maximum number of rows
 * @returns {{ heads: number[], rows: { name: string, w: number[], mean: number, key?: number, total?: boolean }[] }}
 *     w: one weight per head; mean: over all heads
 */
export function rowTable(l, most) {
    const heads = drawn().slice(0, 5);
    const row = l.row >= 0;
    const tokens = row ? page.keys : page.tokens;
    const n = tokens.length;
    const [from, end] = row ? span(l.row) : [0, n];
    const every = row ? page.visibleKeys : page.visible;
    const list = end - from < n ? every.filter(j => j >= from && j < end) : every;
    /** @type {{ name: string, w: number[], mean: number, key?: number, total?: boolean }[]} */
    const out = [];
    const known = new Set(geometry.rows);
    const across = row
        ? h => rowOf(h, l.row)
        : h => Float32Array.from(
            { length: n }, (_, i) => page.S <= 192 || (known.has(i) && knows(h, i)) ? rowOf(h, i)[l.key] : 0
        );
    const shown = heads.map(across);
    const all = row ? allHeads() : drawn();
    const mean = new Float32Array(n);
    const peak = new Float32Array(n);
    for (const h of all) {
        const of = across(h);
        for (let j = 0; j < n; j++) mean[j] += of[j] / all.length;
    }
    for (const of of shown) for (let j = 0; j < n; j++) if (of[j] > peak[j]) peak[j] = of[j];
    const few = isSparse(state.layer) && heads[0] >= 0;
    if (list.length === most + 1) most++; // the row "and 1 more" would need as much space
    const keys = strongestOf(few && row ? list.filter(j => !(peak[j] <= 0)) : list, peak, most);
    const sums = which => ({ w: shown.map(of => sumOf(which, of)), mean: sumOf(which, mean) });
    const plus = (a, b, sign) => ({ w: a.w.map((w, m) => w + sign * b.w[m]), mean: a.mean + sign * b.mean });
    const whole = sums(list);
    const hidden = sums(row ? page.hiddenKeys : page.tokens.map((_, i) => i).filter(i => !isShown(i)));
    for (const j of keys) out.push({ name: tokens[j].named, key: j, w: shown.map(of => of[j]), mean: mean[j] });
    const rest = plus(whole, sums(keys), -1);
    if (list.length > keys.length && !(few && row && keys.length < most)) { // if not, the other weights are not stored
        out.push({
            name: say("more", count(list.length - keys.length)), w: rest.w.map(w => w < 0 ? 0 : w),
            mean: max(0, rest.mean)
        });
    }
    if (list.length < every.length)
        out.push({ name: say("maskedKeys", count(every.length - list.length)), w: shown.map(() => 0), mean: 0 });
    if (every.length < n) out.push({ name: page.specials.slice(0, 2).join(" "), ...hidden });
    if (!row) return { heads, rows: out };
    const gone = h => h >= 0 && isSparse(state.layer) ? page.weights.rest(state.layer, h, l.row) : 0;
    const lost = { w: heads.map(gone), mean: all.reduce((s, h) => s + gone(h) / all.length, 0) };
    if (isSparse(state.layer)) out.push({ name: say("notKept"), ...lost });
    out.push({ name: say("sum"), total: true, ...plus(plus(whole, hidden, 1), lost, 1) });
    return { heads, rows: out };
}
function markedTable(l) {
    const { heads, rows } = rowTable(l, max(page.T, page.S) > 64 ? 14 : 20), alone = l.row < 0;
    const averaged = !alone && page.H > 1;
    const names = heads.map(h => {
        if (h < 0) return el("th", { scope: "col" }, say(h === MEAN ? "mean" : "rollout"));
        const swatch = el("i", { class: "swatch" });
        swatch.style.background = headColour(h);
        swatch.style.marginRight = "4px";
        return el("th", { scope: "col" }, swatch, h);
    });
    const number = (w, total) => {
        const s = el("span", {}, weight(w, 3));
        if (total || hue.forced) return el("td", {}, s);
        const c = cell(w);
        s.style.background = css(c);
        s.style.color = textOn(c);
        return el("td", {}, s);
    };
    const body = rows.map(r => {
        const tr = cells(
            el("td", { class: "text", title: r.name }, nameNode(r.name)), ...r.w.map(w => number(w, r.total)),
            ...(averaged ? [number(r.mean, r.total)] : [])
        );
        if (r.total) tr.className = "total";
        return tr;
    });
    return el(
        "table", { class: "row" },
        el("caption", {}, say(alone ? "columnOf" : "rowOf", alone ? quoteKey(l.key) : quote(l.row), state.layer)),
        el(
            "thead", {},
            el(
                "tr", {}, el("th", { scope: "col" }, alone ? "token" : "key"), ...names,
                ...(averaged ? [el("th", { scope: "col" }, `all ${page.H}`)] : [])
            )
        ),
        el("tbody", {}, ...body)
    );
}

export function buildRight() {
    panel.table = el("div", { id: "table" });
    panel.small = el("div", { id: "small" });
    panel.matrix = el("canvas", { "aria-hidden": "true" });
    panel.pairs = el("div", { id: "pairs", role: "img" });
    panel.pairs.style.gridTemplateColumns = `20px repeat(${page.H}, minmax(0, 1fr))`;
    const label = t => el("span", { class: "label" }, t);
    panel.pairCells = page.stats.map(row => row.map(() => el("span")));
    panel.pairs.append(el("span"), ...headLabels());
    panel.pairCells.forEach((row, l) => panel.pairs.append(label(l), ...row));
    return [panel.table, panel.small];
}
export function drawRight(l) {
    const marked = l.row >= 0 || l.key >= 0;
    panel.table.replaceChildren(
        ...(!drawn().length && marked
            ? []
            : marked
            ? [markedTable(l)]
            : [headTable(), el("p", { class: "note" }, say("keysNote"))])
    );
    if (l.row >= 0 && drawn().length) drawPairs(l);
    else if (!marked && drawn().length) drawMatrix();
    else panel.small.replaceChildren();
}
function drawPairs(l) {
    let key = l.key;
    if (key < 0) {
        let most = -1;
        for (const h of drawn()) {
            const t = topKey(rowOf(h, l.row), -1, -1);
            if (t.w > most) { most = t.w; key = t.to; }
        }
    }
    if (key < 0) return panel.small.replaceChildren();
    const wide = (panel.small.clientWidth - 20) / page.H - 2;
    panel.pairCells.forEach((row, layer) => row.forEach((s, h) => {
        const w = page.weights.pair(layer, h, l.row, key), c = cell(w);
        s.textContent = w < .095 || (wide < 14 && w === w) ? "" : hundredths(w, wide);
        s.style.background = hue.forced ? "" : css(c);
        s.style.color = hue.forced ? "" : textOn(c);
    }));
    const title = say("pair", quote(l.row), quoteKey(key));
    panel.pairs.setAttribute("aria-label", title);
    if (panel.small.lastChild !== panel.pairs) panel.small.replaceChildren(el("h2"), panel.pairs);
    panel.small.firstChild.textContent = title;
}

// Draws the links as a small matrix. Up to 64 tokens, a cell is a weight; for more tokens, a cell is the largest weight
// of a square.
function drawMatrix() {
    const heads = drawn(), coarse = max(page.T, page.S) > 64, c = panel.matrix.getContext("2d"), d = stage.dpr;
    const cells = coarse ? coarseCells(heads) : { n: page.visible.length, m: page.visibleKeys.length };
    if (!cells) return panel.small.replaceChildren();
    const { n, m } = cells, labels = !coarse && max(n, m) <= 28, side = panel.small.clientWidth || 312;
    const left = labels ? 60 : 0;
    const top = labels ? 56 : 0;
    const size = min((side - left - (labels ? 24 : 0)) / m, 460 / n);
    const gap = labels && size > 8 ? 1 : 0;
    const high = top + n * size + 2;
    panel.matrix.width = side * d;
    panel.matrix.height = high * d;
    panel.matrix.style.width = side + "px";
    panel.matrix.style.height = high + "px";
    c.setTransform(d, 0, 0, d, 0, 0);
    const one = heads.length < 2, colours = heads.map(linkColour);
    c.fillStyle = hue.paper;
    c.fillRect(0, 0, side, high);
    for (let i = 0; i < n; i++) {
        const own = coarse ? null : heads.map(h => rowOf(h, page.visible[i]));
        const queryHeading = coarse || rowPasses(page.visible[i]);
        const [from, end] = coarse ? [0, page.S] : span(page.visible[i]);
        for (let j = 0; j < m; j++) {
            let w = 0, at = 0;
            for (let k = 0; k < heads.length; k++) {
                const x = coarse ? cells.rows[k][i * m + j] : own[k][page.visibleKeys[j]];
                if (x > w) { w = x; at = k; }
            }
            const x = left + j * size;
            const y = top + i * size;
            const hiddenKeys = !coarse && (page.visibleKeys[j] < from || page.visibleKeys[j] >= end);
            if (!queryHeading || !(coarse || keyPasses(page.visibleKeys[j]))) w = 0;
            if (hiddenKeys && gap) hatch(c, x, y, size - gap);
            if (hiddenKeys || (!gap && w <= .02)) continue;
            c.globalAlpha = 1;
            c.fillStyle = one && w > .02 ? css(cell(w)) : hue.panel;
            if (gap || one) c.fillRect(x, y, size - gap, size - gap);
            if (one || w <= .02) continue;
            c.globalAlpha = state.log ? logOf(w) : w ** .7;
            c.fillStyle = colours[at];
            c.fillRect(x, y, size - gap, size - gap);
        }
    }
    c.globalAlpha = 1;
    if (labels) matrixLabels(c, left, top, size, side);
    const aligned = page.tokens !== page.keys && !coarse ? alignment() : null;
    if (aligned) drawRings(c, aligned, left, top, size);
    const name = heads[0] < 0 ? nameOf(heads[0]) : say(heads.length > 1 ? "heads" : "head", heads.join(", "));
    panel.small.replaceChildren(
        el("h2", {}, say(one ? "matrixOne" : "matrixMax", name)), panel.matrix,
        ...(coarse ? [el("p", { class: "note" }, say("pooled", n, m, ceil(page.T / n), ceil(page.S / m)))] : []),
        ...(aligned ? [alignTable(aligned)] : [])
    );
}
// Returns { n, m, rows: [one per head] }, the largest weights of squares; null if none are known.
function coarseCells(heads) {
    if (!windowed()) {
        const { n, m } = rowStats(state.layer, heads[0]);
        return { n, m, rows: heads.map(h => rowStats(state.layer, h).coarse) };
    }
    const rows = heads.map(h => h >= 0 && !page.words ? page.weights.pyramid?.(state.layer, h, COARSE, "max") : null);
    return rows.every(r => r) ? { n: COARSE, m: COARSE, rows } : null;
}
// Hatches the keys to which a row cannot attend, since a masked weight is not a weight of 0.
function hatch(c, x, y, size) {
    c.strokeStyle = hue.rule;
    c.lineWidth = 1;
    c.beginPath();
    for (let k = 0; k < size; k += 4) {
        c.moveTo(x + k, y + size);
        c.lineTo(x + size, y + k);
        if (k) { c.moveTo(x, y + size - k); c.lineTo(x + size - k, y); }
    }
    c.stroke();
}
function matrixLabels(c, left, top, size, side) {
    const letters = max(9.5, min(11, size));
    c.font = `${letters}px ${page.font}`;
    c.fillStyle = hue.text;
    c.textBaseline = "middle";
    c.textAlign = "right";
    page.visible.forEach((i, r) =>
        c.fillText(shortened(page.tokens[i].named, 9), left - 8, top + (r + .5) * size, left - 10));
    c.textAlign = "left";
    page.visibleKeys.forEach((j, r) => {
        tilted(c, shortened(page.keys[j].named, 9), left + (r + .5) * size, top - 6, side, letters);
    });
}

// ---- cross-attention: the alignment of words ---------------------------------------------------------
/**
 * Returns the strongest key of each row, in the mean of the selected heads. The key is -1 if its weight is less than
 * twice the uniform weight.
 * @returns {Pair[]}
 */
function alignment() {
    const heads = drawn(), uniform = 2 / page.visibleKeys.length;
    return page.visible.map(i => {
        const mean = new Float32Array(page.S);
        for (const h of heads) rowOf(h, i).forEach((w, j) => { mean[j] += w / heads.length; });
        const { to, w } = topKey(mean, -1, -1);
        return { row: i, key: w < uniform ? -1 : to, weight: w };
    });
}
function drawRings(c, aligned, left, top, size) {
    c.strokeStyle = hue.text;
    c.lineWidth = 1.5;
    aligned.forEach(({ key }, r) => {
        const k = page.visibleKeys.indexOf(key);
        if (k < 0) return;
        c.beginPath();
        c.arc(left + (k + .5) * size - .5, top + (r + .5) * size - .5, max(2, size * .42), 0, 7);
        c.stroke();
    });
}
function alignTable(aligned) {
    const name = drawn()[0] < 0
        ? nameOf(drawn()[0])
        : say(drawn().length > 1 ? "alignMean" : "head", drawn().join(", "));
    return el(
        "table", { id: "aligned" }, el("caption", {}, say("align", name)),
        el("tbody", {}, ...aligned.map(({ row: i, key: j, weight: w }) =>
            cells(
                el("td", { class: "text" }, nameNode(page.tokens[i].named)),
                el("td", { class: "text" }, j < 0 ? "–" : "→ ", ...(j < 0 ? [] : [nameNode(page.keys[j].named)])),
                weight(w)
            )))
    );
}
