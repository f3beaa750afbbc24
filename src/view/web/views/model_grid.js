// SPDX-License-Identifier: MIT
// model_grid.js: draws all heads, layers x heads. Each is drawn as a small matrix (rows: queries, columns: keys), as
// links, or as one number.
import { abs, floor, max, min, round, sqrt } from "../base/math.js";
import { addTexts, count, say, starred, weight } from "../base/messages.js";
import { $, el, onClick, root, windowWidth } from "../base/dom.js";
import { page, quote, quoteKey, state, threshold } from "../base/state.js";
import { blend, cell, css, hue, kindColour, textOn, opacity, rampAt } from "../base/palette.js";
import { announce, requestDraw } from "../base/drawing.js";
import { set, writeAddress } from "../base/frame.js";
import { Field, firstOf, fixedScale, hasMask, scaleOf, shadeRow, shadesOf, runInSlices } from "../parts/heatmap.js";
import { tip } from "../parts/panel.js";

addTexts({
    modelQuestion: "What kinds of head does this model have?",
    whatHead: "What does layer {0}, head {1} do?",
    whichNeeded: "Which heads does this text need?",
    modelOrder: "Order",
    asBuilt: "as in the model",
    byKind: "kind",
    byEntropy: "effective keys",
    byDistance: "distance",
    byEffect: "ablation effect",
    cellShows: "A cell shows",
    cellMatrix: "matrix",
    cellLines: "links",
    cellKeys: "effective keys",
    cellDistance: "distance",
    cellEffect: "ablation effect",
    noEffects: "This file has no ablation effects: “qkv ablate TEXT -o map.html” measures them.",
    layerShort: "layer",
    headShort: "head",
    keysOf: "{0} keys",
    ablatingVector: "Ablating {0} changes the sentence vector most: {1}.",
    ablatingLoss: "Ablating {0} raises the loss most: {1} nats per token.",
    theHead2: "layer {0}, head {1}",
    noKind: "No measure of a kind of head is above its threshold on this text.",
    notOpen: "kinds of head need a text of at least 8 tokens"
});

export const model = {
    at: { layer: 0, head: 0 }, described: false, order: "asBuilt", cell: "cellMatrix", grids: new Map(), thumbs: [],
    lowEffect: 0, highEffect: 1 // the least effect, at most 0, and the largest
};
export const MODEL_ORDERS = ["asBuilt", "byKind", "byEntropy", "byDistance", "byEffect"];
export const MODEL_CELLS = ["cellMatrix", "cellLines", "cellKeys", "cellDistance", "cellEffect"];
const FIRST_SLICE = 24; // milliseconds
const THUMB = 64; // maximum number of points per side

export const effectOf = (l, h) => page.effects ? page.effects.values[l][h] : 0;
export function effectText(x) {
    const text = abs(x).toFixed(abs(x) < .01 ? 4 : 3).replace(/^0/, "");
    return (x < 0 ? "−" : "") + text;
}
// Draws an effect as a bar from 0, to the right or, if it is negative, to the left; `full` is the length of the range.
export function effectBar(x, full, unit) {
    const bar = el("u"), scale = full / (model.highEffect - model.lowEffect);
    bar.style.marginLeft = scale * (min(0, x) - model.lowEffect) + unit;
    bar.style.width = scale * abs(x) + unit;
    bar.className = x < 0 ? "less" : "";
    return bar;
}
export const unitOf = () => page.effects.unit.replace("-", "−");
export const statsOf = (l, h) => page.stats[l][h];
export const shownRows = () => page.visible;
export const shownKeys = () => page.keys === page.tokens
    ? page.visible
    : page.keys.map((_, j) => j).filter(j => state.special || !page.keys[j].special || page.keys.every(k => k.special));

// ---- points of a head ----------------------------------------------------------------------------------
// Returns the points of a head, { n, m, cells, strip, scale, done }. For up to 64 tokens, they are the weights between
// shown tokens; for more, 64 x 64 points over all tokens. strip: the weight of each row on special tokens; scale 0: the
// fixed scale.
export const isPooled = () => max(page.T, page.S) > THUMB;
export function gridOf(l, h) {
    const key = (l * page.H + h) * 2 + (state.special ? 1 : 0);
    let grid = model.grids.get(key);
    if (!grid) {
        const n = isPooled() ? min(THUMB, page.T) : shownRows().length;
        const m = isPooled() ? min(THUMB, page.S) : shownKeys().length;
        const strip = page.specials.length && !(state.special && !isPooled()) && !page.allSpecial;
        grid = {
            l, h, n, m, row: 0, cells: new Float32Array(n * m), strip: strip ? new Float32Array(n) : null, scale: 0,
            done: false
        };
        model.grids.set(key, grid);
    }
    return grid;
}
// Computes the points of a head until the time `end`. Returns true when all are computed.
export function fillGrid(grid, end) {
    if (grid.done) return true;
    if (!isPooled()) {
        const keys = shownKeys(), rows = shownRows();
        for (; grid.row < grid.n; grid.row++) {
            if (grid.row && performance.now() > end) return false;
            const row = page.weights.row(grid.l, grid.h, rows[grid.row]), from = grid.row * grid.m;
            for (let c = 0; c < grid.m; c++) grid.cells[from + c] = row[keys[c]];
            if (grid.strip) grid.strip[grid.row] = page.special.reduce((s, j) => s + row[j], 0);
        }
    } else {
        grid.field ??= new Field(grid.l, [grid.h]);
        grid.whole ??= grid.field.pooled(THUMB, "max");
        for (; grid.row < grid.n; grid.row++) {
            if (performance.now() > end) return false;
            const r = grid.row, from = r * grid.m;
            if (!grid.whole) grid.cells.set(grid.field.fill(THUMB, r, 0, grid.m).max, from);
            if (grid.strip) grid.strip[r] = stripOf(grid, r);
        }
        if (grid.whole) grid.cells = grid.whole;
        grid.scale = fixedScale() ? 0 : scaleOf([grid.cells]);
        grid.field = grid.whole = null;
    }
    return grid.done = true;
}
// Returns the weight on special tokens, as the mean of the rows in point r.
function stripOf(grid, r) {
    const i0 = firstOf(r, grid.n, page.T), i1 = firstOf(r + 1, grid.n, page.T);
    let sum = 0;
    for (let i = i0; i < i1; i++)
        for (const j of page.special) sum += page.weights.pair(grid.l, grid.h, i, j);
    return sum / (i1 - i0);
}
// Returns the range [first, end) of the points of row r that are not completely masked.
function maskEdges(layer, n, m, r, rows, keys) {
    const pooled = isPooled();
    const i0 = pooled ? firstOf(r, n, page.T) : rows[r];
    const i1 = pooled ? firstOf(r + 1, n, page.T) - 1 : rows[r];
    const from = page.weights.span(layer, i0)[0], to = page.weights.span(layer, i1)[1];
    if (!pooled) {
        let a = 0, b = m;
        while (a < m && keys[a] < from) a++;
        while (b > a && keys[b - 1] >= to) b--;
        return [a, b];
    }
    return [floor(from * m / page.S), to > 0 ? floor((to - 1) * m / page.S) + 1 : 0];
}

// ---- a thumbnail ------------------------------------------------------------------------------------------
// Draws the points as an image of w x h pixels. If several points share a pixel, the largest is drawn.
export function paintGrid(c, x, y, w, h, grid, kind = null) {
    const image = c.createImageData(w, h), pixels = new Uint32Array(image.data.buffer);
    const table = shadesOf(grid.scale, kind);
    const rows = shownRows(), keys = shownKeys(), line = new Float32Array(w), { n, m, cells } = grid;
    for (let py = 0; py < h; py++) {
        const r0 = floor(py * n / h);
        const r1 = max(r0 + 1, floor((py + 1) * n / h));
        const again = py && r0 === floor((py - 1) * n / h) && r1 === r0 + 1;
        if (again) {
            pixels.copyWithin(py * w, (py - 1) * w, py * w);
            continue;
        }
        const edge = maskEdges(grid.l, n, m, r0, rows, keys);
        for (let px = 0; px < w; px++) {
            const c0 = floor(px * m / w), c1 = max(c0 + 1, floor((px + 1) * m / w));
            let most = cells[r0 * m + c0];
            for (let r = r0; r < r1; r++)
                for (let k = c0; k < c1; k++) if (cells[r * m + k] > most) most = cells[r * m + k];
            line[px] = most;
        }
        shadeRow(pixels, py * w, line, 0, w, table, grid.scale);
        for (let px = 0; px < w; px++) {
            const c0 = floor(px * m / w);
            if (c0 < edge[0] || c0 >= edge[1]) pixels[py * w + px] = 0;
        }
    }
    c.putImageData(image, x, y);
}
export function paintStrip(c, x, y, w, h, strip) {
    for (let r = 0; r < strip.length; r++) {
        const from = round(r * h / strip.length), to = round((r + 1) * h / strip.length);
        c.fillStyle = css(cell(strip[r]));
        c.fillRect(x, y + from, w, to - from);
    }
}
// Draws the strongest links of a head above the threshold. For 64 x 64 points, the threshold is half of the scale.
const THUMB_LINKS = 160;
function paintLinks(c, x, y, w, h, grid) {
    const { n, m, cells } = grid, rows = shownRows(), pooled = isPooled(), of = pooled ? grid.scale || 1 : 1, list = [];
    for (let r = 0; r < n; r++) {
        const tau = pooled ? .5 : threshold(rows[r]);
        for (let k = 0; k < m; k++) {
            const t = (cells[r * m + k] / of - tau) / (1 - tau);
            if (t > 0) list.push([min(1, t), r, k]);
        }
    }
    c.strokeStyle = css(rampAt(hue.dark ? .72 : .62));
    c.globalCompositeOperation = blend();
    for (const [t, r, k] of list.sort((p, q) => q[0] - p[0]).slice(0, THUMB_LINKS)) {
        c.globalAlpha = opacity(t) * (pooled ? .6 : 1);
        c.lineWidth = (.5 + 1.6 * sqrt(t)) * model.dpr;
        c.beginPath();
        c.moveTo(x, y + (r + .5) * h / n);
        c.lineTo(x + w, y + (k + .5) * h / m);
        c.stroke();
    }
    c.globalAlpha = 1;
    c.globalCompositeOperation = "source-over";
}
// Returns the number by which the heads are drawn, and its colour.
function measureOf(l, h) {
    const s = statsOf(l, h);
    if (model.cell === "cellEffect") {
        const x = effectOf(l, h), mix = sqrt(abs(x) / max(model.highEffect, -model.lowEffect));
        return { text: effectText(x), colour: blendColours(hue.paper, x < 0 ? hue.pos : hue.hot, mix) };
    }
    const keys = model.cell === "cellKeys";
    const dark = keys ? s.focus ** .7 * .9 : s.distance / (model.mostDistance || 1) * .9;
    return { text: (keys ? s.keys : s.distance).toFixed(1), colour: rampAt(dark) };
}
const numbersOf = text => text.match(/\d+/g).map(Number);
function blendColours(a, b, x) {
    const [from, to] = [numbersOf(a), numbersOf(b)];
    return from.map((c, n) => round(c + (to[n] - c) * min(1, x)));
}
export function drawThumb(t) {
    const d = model.dpr;
    const side = round(model.side * d);
    const c = t.canvas.getContext("2d");
    const wide = round((model.side + stripWide()) * d);
    if (t.canvas.width !== wide || t.canvas.height !== side) Object.assign(t.canvas, { width: wide, height: side });
    const x = round(stripWide() * d), flat = !["cellMatrix", "cellLines"].includes(model.cell);
    c.clearRect(0, 0, wide, side);
    t.canvas.className = !flat && hasMask(t.l) && model.cell === "cellMatrix" ? "masked" : "";
    c.fillStyle = hue.paper;
    c.fillRect(0, 0, flat ? 0 : x, side);
    if (flat) {
        const { text, colour } = measureOf(t.l, t.h);
        c.fillStyle = css(colour);
        c.fillRect(x, 0, wide - x, side);
        c.fillStyle = textOn(colour);
        c.font = `${round((model.side > 50 ? 13 : 11) * d)}px ${page.font}`;
        c.textAlign = "center";
        c.textBaseline = "middle";
        if (model.side >= 30) c.fillText(text, (x + wide) / 2, side / 2);
        return;
    }
    const grid = gridOf(t.l, t.h);
    if (grid.strip && x) paintStrip(c, 0, 0, round(3.4 * d), side, grid.strip);
    if (model.cell === "cellLines") {
        c.fillRect(x, 0, wide - x, side);
        paintLinks(c, x, 0, wide - x, side, grid);
    } else {
        paintGrid(c, x, 0, wide - x, side, grid, t.colour);
    }
}

// ---- the order, and the thumbnails in it ---------------------------------------------------------------
const byBuilt = (a, b) => a.l - b.l || a.h - b.h;
function orderedHeads() {
    const list = [];
    for (let l = 0; l < page.L; l++) for (let h = 0; h < page.H; h++) list.push({ l, h, s: statsOf(l, h) });
    const by = {
        asBuilt: () => 0,
        byKind: (a, b) => +(a.s.kind < 0) - +(b.s.kind < 0) || a.s.kind - b.s.kind || b.s.strength - a.s.strength,
        byEntropy: (a, b) => a.s.keys - b.s.keys,
        byDistance: (a, b) => a.s.distance - b.s.distance,
        byEffect: (a, b) => effectOf(b.l, b.h) - effectOf(a.l, a.h)
    }[model.order];
    return list.sort((a, b) => by(a, b) || byBuilt(a, b));
}
const describedOf = s => kindOf(s) === "vertical" ? page.keys[s.word].named : kindOf(s).replace(" word", "");
const strengthOf = s => s.kind < 0 || kindOf(s) === "other" ? "" : weight(s.strength);
const labelOf = s => [describedOf(s), strengthOf(s)].filter(x => x).join(" ");
export function nameOfThumb(l, h) {
    const s = statsOf(l, h), e = page.effects ? `, ablation effect ${effectText(effectOf(l, h))}` : "";
    return `layer ${l}, head ${h}${s.kind < 0 ? "" : ", " + labelOf(s)}, ${s.keys.toFixed(1)} effective keys${e}`;
}
function buildThumb({ l, h, s }) {
    const canvas = el("canvas", { "aria-hidden": "true" });
    const what = el("span", { class: "what" });
    const small = model.side < 60;
    if (model.order !== "asBuilt") what.append(el("b", {}, `${l}.${h} `));
    if (s.kind >= 0) what.append(el("i", {}, page.about.kindTable[s.kind].glyph));
    if (s.kind >= 0 && (kindOf(s) === "vertical" || !small && model.order === "asBuilt"))
        what.append(" ", el("bdi", {}, describedOf(s)));
    if (strengthOf(s)) what.append(" ", el("bdi", { class: "number" }, strengthOf(s)));
    const b = el(
        "button", { class: "thumb", "data-rove": "", tabindex: -1, "aria-label": nameOfThumb(l, h), title: tip(l, h) },
        canvas, what
    );
    if (page.effects) {
        b.append(el("s", {}, effectBar(effectOf(l, h), 100, "%")));
    }
    onClick(b, () => {
        pickHead(l, h);
        if (model.cell !== "cellEffect") openHead();
    });
    b.addEventListener("pointerenter", e => e.pointerType !== "touch" && peekHead({ layer: l, head: h }));
    b.addEventListener("focus", () => b.matches(":focus-visible") && pickHead(l, h));
    return { l, h, node: b, canvas, drawn: "", colour: () => kindColour(s.kind) };
}
function layThumbs() {
    const built = model.order === "asBuilt", list = orderedHeads(), parts = [];
    model.thumbs = list.map(buildThumb);
    model.at1 = new Map(model.thumbs.map(t => [t.l * page.H + t.h, t]));
    if (built) {
        parts.push(
            el("span", { class: "corner" }, el("small", {}, say("layerShort")), el("small", {}, say("headShort"))),
            ...Array.from({ length: page.H }, (_, h) =>
                el("span", { class: "top", "aria-hidden": "true" }, model.side < 18 && h % 2 ? "" : h))
        );
        for (let l = 0; l < page.L; l++) {
            const keys = page.stats[l].reduce((s, x) => s + x.keys, 0) / page.H;
            parts.push(
                el(
                    "span", { class: "side" }, el("b", {}, l),
                    model.bare ? "" : el("small", {}, say("keysOf", keys.toFixed(keys < 100 ? 1 : 0)))
                )
            );
            parts.push(...model.thumbs.slice(l * page.H, (l + 1) * page.H).map(t => t.node));
        }
    } else {
        let kind = null;
        for (const t of model.thumbs) {
            const k = statsOf(t.l, t.h).kind;
            if (model.order === "byKind" && k !== kind) {
                const n = list.filter(x => x.s.kind === k).length;
                parts.push(
                    el("h3", {}, k < 0 ? say("notOpen")
                        : `${page.about.kindTable[k].glyph} ${page.about.kindTable[k].name} ${n}`)
                );
                kind = k;
            }
            parts.push(t.node);
        }
    }
    model.grid.className = (built ? "built" : "flow") + (model.bare ? " bare" : "");
    model.grid.replaceChildren(...parts);
    model.laid = laidAs();
}
const laidAs = () => [model.order, state.stack, model.side < 60, model.bare].join();
const stripWide = () => model.bare ? 0 : 5;

// ---- the head under the pointer, or the selected one -----------------------------------------------
export const shownHead = () => model.peek ?? model.at;
export function peekHead(p) {
    model.peek = p;
    requestDraw("target");
}
function pickHead(l, h) {
    model.at = { layer: l, head: h };
    model.described = true;
    model.peek = model.point = null;
    writeAddress();
    requestDraw("target");
}
export function openHead() {
    const { layer, head } = shownHead();
    set({ layer, selected: [head], view: "heads" });
}
// Marks the next head in a direction.
export function walkHeads(dx, dy) {
    const { layer, head } = model.at, t = model.at1.get(layer * page.H + head);
    let to = null;
    if (dx) {
        to = model.thumbs[model.thumbs.indexOf(t) + dx];
        if (to && model.order === "asBuilt" && to.l !== t.l) to = null;
    } else {
        const x = t.node.offsetLeft, y = t.node.offsetTop;
        for (const o of model.thumbs) {
            const far = (o.node.offsetTop - y) * dy;
            if (far <= 0) continue;
            const best = to && (to.node.offsetTop - y) * dy;
            if (!to || far < best || (far === best && abs(o.node.offsetLeft - x) < abs(to.node.offsetLeft - x))) to = o;
        }
    }
    if (!to) return;
    pickHead(to.l, to.h);
    to.node.scrollIntoView({ block: "nearest", inline: "nearest" });
    if (document.activeElement?.classList.contains("thumb")) to.node.focus();
}

// ---- drawing --------------------------------------------------------------------------------------------------
export function layModel() {
    const w = model.box.clientWidth - 8, narrow = windowWidth() <= 760, big = page.H > 12 || page.L > 24;
    model.dpr = devicePixelRatio || 1;
    const effects = page.effects ? page.effects.values.flat() : [];
    model.lowEffect = min(0, ...effects);
    model.highEffect = max(1e-12, ...effects);
    model.mostDistance = max(1e-12, ...page.stats.flat().map(s => s.distance));
    // As a poster: in the order of the model all heads fit the window, without labels where they are small.
    const top = model.box.getBoundingClientRect().top + scrollY, paper = "print" in root.dataset;
    const space = max(280, innerHeight - min(top, innerHeight / 2) - $("bottom").offsetHeight -
        model.kindList.offsetHeight - 16);
    const extra = page.effects ? 34 : 30, own = floor((w - 52) / page.H) - 11;
    const sideFor = more => min(own, paper ? 999 : floor((space - 32) / page.L) - more);
    model.bare = !narrow && sideFor(extra) < 40;
    model.side = narrow && !paper ? max(44, own)
        : model.bare ? max(8, min(own + 5, sideFor(page.effects ? 8 : 4) + 2))
        : sideFor(extra);
    model.side = min(model.side, page.L * page.H > 24 ? 72 : 120);
    const gap = model.bare ? 5 : 9;
    if (model.laid !== laidAs()) layThumbs();
    model.grid.style.gridTemplateColumns = model.order === "asBuilt"
        ? `52px repeat(${page.H}, minmax(${model.side + gap}px, ${model.side + (big ? 13 : 22)}px))`
        : `repeat(auto-fill, minmax(${model.bare ? model.side + gap : max(76, model.side + 9)}px, 1fr))`;
    for (const t of model.thumbs) {
        t.drawn = "";
        Object.assign(t.canvas.style, { width: model.side + stripWide() + "px", height: model.side + "px" });
    }
    const scrolls = !paper && model.order === "asBuilt" && (big || narrow) && model.grid.scrollHeight > space;
    model.box.style.maxHeight = scrolls ? max(360, space) + "px" : "";
    for (const t of model.thumbs) t.top = t.node.offsetTop;
}
export function drawModel(what) {
    const { layer, head } = model.at, seen = shownHead();
    for (const t of model.thumbs) {
        const at = t.l === layer && t.h === head;
        const name = "thumb" + (at ? " at" : "") + (t.l === seen.layer && t.h === seen.head ? " on" : "");
        if (t.node.className !== name) t.node.className = name;
        if ((t.node.tabIndex === 0) !== at) t.node.tabIndex = at ? 0 : -1;
    }
    // all of a short text in one frame, unless the machine is slow
    if (what !== "target" && (isPooled() || !drawThumbs(performance.now() + FIRST_SLICE)))
        runInSlices("model", drawThumbs);
}
// Draws the small matrices that are in view first, then the others.
export function drawThumbs(end) {
    const drawn = [model.cell, model.side, model.dpr, state.special, state.log, hue.dark, hue.forced, state.factor];
    const appearance = drawn.join();
    const box = model.box.getBoundingClientRect();
    const from = box.top - model.box.scrollTop;
    const top = max(0, box.top);
    const bottom = min(innerHeight, box.bottom);
    const late = [];
    const flat = !["cellMatrix", "cellLines"].includes(model.cell);
    const draw = t => {
        if (!flat && !fillGrid(gridOf(t.l, t.h), end)) return false;
        drawThumb(t);
        t.drawn = appearance;
        if (t.l === shownHead().layer && t.h === shownHead().head) requestDraw("target");
        return performance.now() < end;
    };
    if (page.view.id !== "model") return true;
    const { layer, head } = model.at;
    const first = t => t.l === layer && t.h === head ? 0 : 1; // the chosen head is drawn before the others
    for (const t of [...model.thumbs].sort((a, b) => first(a) - first(b))) {
        if (t.drawn === appearance) continue;
        if (from + t.top + model.side + 40 < top || from + t.top > bottom) late.push(t);
        else if (!draw(t)) return false;
    }
    return late.every(draw);
}

// ---- the sentence -----------------------------------------------------------------------------------------------
function mostEffective() {
    let best = null;
    page.effects.values.forEach((row, l) => row.forEach((x, h) => { if (!best || x > best.x) best = { l, h, x }; }));
    return best;
}
const kindOf = s => s.kind < 0 ? "" : page.about.kindTable[s.kind].name;
function describeCounts() {
    const n = {}, all = page.stats.flat();
    for (const s of all) n[kindOf(s)] = (n[kindOf(s)] ?? 0) + 1;
    const near = (n.previous ?? 0) + (n.next ?? 0);
    const counted = [
        { n: near, before: "a ", bold: "neighbour" }, { n: n.itself, before: "the ", bold: "token itself" },
        { n: n["same word"], before: "the ", bold: "same word" }, { n: n.vertical, before: "", bold: "one token" },
        { n: n.induction, before: "the token ", bold: "after an earlier copy" },
        { n: n.diffuse, before: "", bold: "all tokens", after: " about equally" },
        { n: n.sink, before: "almost only ", bold: "special tokens" }
    ].filter(x => x.n);
    if (!counted.length && n.other) return [say("noKind")];
    if (!counted.length) return [`${count(all.length)} heads; `, say("notOpen"), "."];
    /** @type {Piece[]} */
    const out = [`Of ${count(all.length)} head${all.length === 1 ? "" : "s"}, `];
    counted.forEach((x, i) => {
        const joined = i ? i === counted.length - 1 ? " and " : ", " : "", verb = x.n === 1 ? "attends " : "attend ";
        out.push(joined, `${count(x.n)} ${i ? "" : verb}to ${x.before}`, { b: x.bold }, x.after ?? "");
    });
    out.push(n.other ? `; ${count(n.other)} ${n.other === 1 ? "is" : "are"} of no kind.` : ".");
    return out.filter(piece => piece !== "");
}
function describeAblation() {
    const e = mostEffective();
    const text = say(
        page.effects.unit === "nats" ? "ablatingLoss" : "ablatingVector", "*" + say("theHead2", e.l, e.h) + "*",
        effectText(e.x)
    );
    return starred(text);
}
function describeHead(l, h) {
    const s = statsOf(l, h), kind = kindOf(s);
    /** @type {Piece[]} */
    const out = [`Layer ${l}, head ${h} attends to `];
    const keys = s.keys.toFixed(1) + " effective keys";
    if (s.kind < 0 || kind === "other") out.push({ b: keys }, " per row");
    else out.push(...starred(page.about.kindTable[s.kind].target));
    if (kind === "vertical") out.push({ b: quoteKey(s.word) });
    if (s.kind >= 0 && kind !== "other") out.push(` (${weight(s.strength)}), ${keys} per row`);
    if (s.best)
        out.push(`; the largest weight is from ${quote(s.best.row)} to `, { b: quoteKey(s.best.key) },
            `: ${weight(s.best.weight)}`);
    out.push(".");
    if (page.effects) out.push(` Ablation effect: ${effectText(effectOf(l, h))} (${unitOf()}).`);
    return out;
}
export function answerModel() {
    const { layer, head } = shownHead();
    if (model.peek || model.described)
        return { question: say("whatHead", layer, head), pieces: describeHead(layer, head) };
    if (model.cell === "cellEffect") {
        const all = page.effects.values.flat().sort((a, b) => a - b), middle = all[all.length >> 1];
        return {
            question: say("whichNeeded"),
            pieces: [...describeAblation(), ` The median head: ${effectText(middle)} (${unitOf()}).`]
        };
    }
    const ablation = page.effects ? [" ", ...describeAblation()] : [];
    return { question: say("modelQuestion"), pieces: [...describeCounts(), ...ablation] };
}

// ---- the view ------------------------------------------------------------------------------------------------------
export function setModel(change) {
    Object.assign(model, change);
    if (change.order) model.laid = "";
    writeAddress();
    requestDraw("layout");
}
export function modelTable() {
    const effect = page.effects ? [`ablation effect, ${unitOf()}`] : [];
    return [["layer", "head", "kind", "strength", "effective keys", "distance", "to special tokens", ...effect],
        ...orderedHeads().map(({ l, h, s }) => [
            l, h, kindOf(s) === "vertical" ? page.keys[s.word].named : kindOf(s),
            s.kind < 0 || kindOf(s) === "other" ? "" : weight(s.strength, 3), s.keys.toFixed(2),
            s.distance.toFixed(2), weight(s.shares[4], 3),
            ...(page.effects ? [effectText(effectOf(l, h)).replace("−", "-")] : []) // numbers to copy have ASCII signs
        ])];
}
export const arrowOf = e => ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] })[e.key];
export const nextOf = (list, one) => list[(list.indexOf(one) + 1) % list.length];
export function toggleMap() {
    if (!page.effects) return announce(say("noEffects"));
    setModel({ cell: model.cell === "cellEffect" ? "cellMatrix" : "cellEffect" });
}
