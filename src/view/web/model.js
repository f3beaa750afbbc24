// SPDX-License-Identifier: MIT
// model.js: the view "What kinds of head are there?": all layers and heads at once, each a small
// matrix (queries down, keys across), links, or one measure; beside them one head larger: loupe.js.

Object.assign(TEXT, {
    whatKinds: "What kinds of head does this model have?",
    whatHead: "What does layer {0}, head {1} do?",
    whichNeeded: "Which heads does this text need?",
    modelOrder: "Order",
    asBuilt: "as built",
    byKind: "kind",
    byEntropy: "keys read",
    byDistance: "distance",
    byEffect: "effect",
    cellShows: "A cell shows",
    cellMatrix: "matrix",
    cellLines: "links",
    cellKeys: "keys read",
    cellDistance: "distance",
    cellEffect: "effect",
    noEffects: "This file has no effects of removing heads: “qkv ablate TEXT -o map.html” measures them.",
    layerShort: "layer",
    headShort: "head",
    keysOf: "{0} keys",
    removingVector: "Removing {0} moves the sentence vector most: {1}.",
    removingLoss: "Removing {0} costs most: {1} nats a token.",
    theHead2: "layer {0}, head {1}",
    notOpen: "nothing is told of heads in texts under 8 tokens"
});

const model = { at: { layer: 0, head: 0 }, told: false, order: "asBuilt", cell: "cellMatrix", grids: new Map(), thumbs: [] };
const MODEL_ORDERS = ["asBuilt", "byKind", "byEntropy", "byDistance", "byEffect"];
const MODEL_CELLS = ["cellMatrix", "cellLines", "cellKeys", "cellDistance", "cellEffect"];
const THUMB = 64; // points a side at most

const effectOf = (l, h) => page.effects ? page.effects.values[l][h] : 0;
function effectText(x) {
    const text = abs(x).toFixed(abs(x) < .01 ? 4 : 3).replace(/^0/, "");
    return (x < 0 ? "−" : "") + text;
}
const unitOf = () => page.effects.unit.replace("-", "−");
const statsOf = (l, h) => page.stats[l][h];
const shownRows = () => page.visible;
const shownKeys = () => page.keys === page.tokens ? page.visible : page.keys.map((_, j) => j).filter(j => state.special || !page.keys[j].special || page.keys.every(k => k.special));

// ---- points of a head ----------------------------------------------------------------------------------
// { n, m, cells, strip, scale, done }: up to 64 tokens those that are shown, else 64 x 64 of all; strip:
// what each row gives to specials; scale 0: weights as they are.
const isPooled = () => max(page.T, page.S) > THUMB;
function gridOf(l, h) {
    const key = (l * page.H + h) * 2 + (state.special ? 1 : 0);
    let grid = model.grids.get(key);
    if (!grid) {
        const n = isPooled() ? min(THUMB, page.T) : shownRows().length, m = isPooled() ? min(THUMB, page.S) : shownKeys().length;
        const strip = page.specials.length && !(state.special && !isPooled()) && !page.allSpecial;
        grid = { l, h, n, m, row: 0, cells: new Float32Array(n * m), strip: strip ? new Float32Array(n) : null, scale: 0, done: false };
        model.grids.set(key, grid);
    }
    return grid;
}
// Goes on with the points until `end`; true: they are all there.
function fillGrid(grid, end) {
    if (grid.done) return true;
    if (!isPooled()) {
        const keys = shownKeys(), rows = shownRows();
        for (; grid.row < grid.n; grid.row++) {
            if (grid.row && performance.now() > end) return false;
            const row = weights.row(grid.l, grid.h, rows[grid.row]), from = grid.row * grid.m;
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
// What the rows of point r give to specials, mean.
function stripOf(grid, r) {
    const i0 = firstOf(r, grid.n, page.T), i1 = firstOf(r + 1, grid.n, page.T);
    let sum = 0;
    for (let i = i0; i < i1; i++)
        for (const j of page.special) sum += weights.pair(grid.l, grid.h, i, j);
    return sum / (i1 - i0);
}
// Is point (r, c) of a grid behind the mask as a whole?
function maskEdges(layer, n, m, r, rows, keys) {
    const pooled = isPooled(), i0 = pooled ? firstOf(r, n, page.T) : rows[r], i1 = pooled ? firstOf(r + 1, n, page.T) - 1 : rows[r];
    const from = weights.span(layer, i0)[0], to = weights.span(layer, i1)[1];
    if (!pooled) {
        let a = 0, b = m;
        while (a < m && keys[a] < from) a++;
        while (b > a && keys[b - 1] >= to) b--;
        return [a, b];
    }
    return [floor(from * m / page.S), to > 0 ? floor((to - 1) * m / page.S) + 1 : 0];
}

// ---- a thumbnail ------------------------------------------------------------------------------------------
// Points as an image of w x h pixels; where points are smaller than pixels, the largest shows.
function paintGrid(c, x, y, w, h, grid) {
    const image = c.createImageData(w, h), pixels = new Uint32Array(image.data.buffer), table = shadesOf(grid.scale);
    const rows = shownRows(), keys = shownKeys(), line = new Float32Array(w), { n, m, cells } = grid;
    for (let py = 0; py < h; py++) {
        const r0 = floor(py * n / h), r1 = max(r0 + 1, floor((py + 1) * n / h)), again = py && r0 === floor((py - 1) * n / h) && r1 === r0 + 1;
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
function paintStrip(c, x, y, w, h, strip) {
    for (let r = 0; r < strip.length; r++) {
        const from = round(r * h / strip.length), to = round((r + 1) * h / strip.length);
        c.fillStyle = css(cell(strip[r]));
        c.fillRect(x, y + from, w, to - from);
    }
}
// Of the links above the threshold the strongest; at 64 x 64 points those above half of the scale.
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
// One measure of the head: darkness (effect: red) and the number.
function measureOf(l, h) {
    const s = statsOf(l, h);
    if (model.cell === "cellEffect") {
        const x = effectOf(l, h), mix = sqrt(abs(x) / (model.mostEffect || 1));
        return { text: effectText(x), colour: mixed(hue.paper, hue.hot, mix) };
    }
    const keys = model.cell === "cellKeys", dark = keys ? s.focus ** .7 * .9 : s.distance / (model.mostDistance || 1) * .9;
    return { text: (keys ? s.keys : s.distance).toFixed(1), colour: rampAt(dark) };
}
const numbersOf = text => text.match(/\d+/g).map(Number);
function mixed(a, b, x) {
    const [from, to] = [numbersOf(a), numbersOf(b)];
    return from.map((c, n) => round(c + (to[n] - c) * min(1, x)));
}
function drawThumb(t) {
    const d = model.dpr, side = round(model.side * d), c = t.canvas.getContext("2d"), wide = round((model.side + 5) * d);
    if (t.canvas.width !== wide || t.canvas.height !== side) Object.assign(t.canvas, { width: wide, height: side });
    const x = round(5 * d), flat = !["cellMatrix", "cellLines"].includes(model.cell);
    c.clearRect(0, 0, wide, side);
    t.canvas.className = !flat && hasMask(t.l) && model.cell === "cellMatrix" ? "masked" : "";
    c.fillStyle = hue.paper;
    c.fillRect(0, 0, flat ? 0 : x, side);
    if (flat) {
        const { text, colour } = measureOf(t.l, t.h);
        c.fillStyle = css(colour);
        c.fillRect(x, 0, wide - x, side);
        c.fillStyle = inkOn(colour);
        c.font = `${round((model.side > 50 ? 13 : 11) * d)}px ${page.font}`;
        c.textAlign = "center";
        c.textBaseline = "middle";
        c.fillText(text, (x + wide) / 2, side / 2);
        return;
    }
    const grid = gridOf(t.l, t.h);
    if (grid.strip) paintStrip(c, 0, 0, round(3.4 * d), side, grid.strip);
    if (model.cell === "cellLines") {
        c.fillRect(x, 0, wide - x, side);
        paintLinks(c, x, 0, wide - x, side, grid);
    } else {
        paintGrid(c, x, 0, wide - x, side, grid);
    }
}

// ---- the order, and the thumbnails in it ---------------------------------------------------------------
const byBuilt = (a, b) => a.l - b.l || a.h - b.h;
function orderedHeads() {
    const list = [];
    for (let l = 0; l < page.L; l++) for (let h = 0; h < page.H; h++) list.push({ l, h, s: statsOf(l, h) });
    const by = {
        asBuilt: () => 0,
        byKind: (a, b) => (a.s.kind < 0) - (b.s.kind < 0) || a.s.kind - b.s.kind || b.s.strength - a.s.strength,
        byEntropy: (a, b) => a.s.keys - b.s.keys,
        byDistance: (a, b) => a.s.distance - b.s.distance,
        byEffect: (a, b) => effectOf(b.l, b.h) - effectOf(a.l, a.h)
    }[model.order];
    return list.sort((a, b) => by(a, b) || byBuilt(a, b));
}
function labelOf(s) {
    if (s.kind < 0) return "";
    const name = page.about.kinds[s.kind][0], told = name === "one word" ? page.keys[s.word].text : name.replace(" word", "");
    return name === "content" ? told : `${told} ${weight(s.strength)}`;
}
const strengthOf = s => countsHeads(s) === "content" ? "" : (countsHeads(s) === "one word" ? page.keys[s.word].text + " " : "") + weight(s.strength);
function nameOfThumb(l, h) {
    const s = statsOf(l, h), e = page.effects ? `, effect ${effectText(effectOf(l, h))}` : "";
    return `layer ${l}, head ${h}${s.kind < 0 ? "" : ", " + labelOf(s)}, ${s.keys.toFixed(1)} keys read${e}`;
}
function buildThumb({ l, h, s }) {
    const canvas = el("canvas", { "aria-hidden": "true" }), what = el("span", { class: "what" }), small = model.side < 60;
    if (model.order !== "asBuilt") what.append(el("b", {}, `${l}.${h} `));
    if (s.kind >= 0) what.append(el("i", {}, page.about.kinds[s.kind][1]), " ", el("bdi", {}, small || model.order !== "asBuilt" ? strengthOf(s) : labelOf(s)));
    const b = el("button", { class: "thumb", "data-rove": "", tabindex: -1, "aria-label": nameOfThumb(l, h), title: tip(l, h) }, canvas, what);
    if (page.effects) {
        const bar = el("u"), x = effectOf(l, h);
        bar.style.width = 100 * min(1, abs(x) / (model.mostEffect || 1)) + "%";
        bar.className = x < 0 ? "less" : "";
        b.append(el("s", {}, bar));
    }
    onClick(b, () => {
        pickHead(l, h);
        if (model.cell !== "cellEffect") openHead();
    });
    b.addEventListener("pointerenter", e => e.pointerType !== "touch" && peekHead({ layer: l, head: h }));
    b.addEventListener("focus", () => b.matches(":focus-visible") && pickHead(l, h));
    return { l, h, node: b, canvas, drawn: "" };
}
function layThumbs() {
    const built = model.order === "asBuilt", list = orderedHeads(), parts = [];
    model.thumbs = list.map(buildThumb);
    model.at1 = new Map(model.thumbs.map(t => [t.l * page.H + t.h, t]));
    if (built) {
        parts.push(el("span", { class: "corner" }, el("small", {}, say("layerShort")), el("small", {}, say("headShort"))), ...Array.from({ length: page.H }, (_, h) => el("span", { class: "top", "aria-hidden": "true" }, h)));
        for (let l = 0; l < page.L; l++) {
            const keys = page.stats[l].reduce((s, x) => s + x.keys, 0) / page.H;
            parts.push(el("span", { class: "side" }, el("b", {}, l), el("small", {}, say("keysOf", keys.toFixed(keys < 100 ? 1 : 0)))));
            parts.push(...model.thumbs.slice(l * page.H, (l + 1) * page.H).map(t => t.node));
        }
    } else {
        let kind = null;
        for (const t of model.thumbs) {
            const k = statsOf(t.l, t.h).kind;
            if (model.order === "byKind" && k !== kind) {
                const n = list.filter(x => x.s.kind === k).length;
                parts.push(el("h3", {}, k < 0 ? say("notOpen") : [page.about.kinds[k][1], page.about.kinds[k][0], n].join(" ")));
                kind = k;
            }
            parts.push(t.node);
        }
    }
    model.grid.className = built ? "built" : "flow";
    model.grid.replaceChildren(...parts);
    model.laid = [model.order, state.stack, model.side < 60].join();
}

// ---- what is looked at --------------------------------------------------------------------------------------
const seenHead = () => model.peek ?? model.at;
function peekHead(p) {
    model.peek = p;
    ask("look");
}
function pickHead(l, h) {
    model.at = { layer: l, head: h };
    model.told = true;
    model.peek = model.point = null;
    writeAddress();
    ask("look");
}
function openHead() {
    const { layer, head } = seenHead();
    set({ layer, lit: [head], view: "heads" });
}
// The next thumbnail in a direction.
function walkHeads(dx, dy) {
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
function layModel() {
    const w = model.box.clientWidth, narrow = innerWidth <= 760, big = page.H > 12 || page.L > 24;
    model.dpr = devicePixelRatio || 1;
    model.mostEffect = page.effects ? max(1e-12, ...page.effects.values.flat().map(abs)) : 1;
    model.mostDistance = max(1e-12, ...page.stats.flat().map(s => s.distance));
    const own = (w - 60) / page.H - 13, most = page.L * page.H > 24 ? 68 : 120;
    model.side = max(narrow ? 44 : 48, min(most, big ? 48 : floor(own)));
    if (model.laid !== [model.order, state.stack, model.side < 60].join()) layThumbs();
    model.grid.style.gridTemplateColumns = model.order === "asBuilt" ? `52px repeat(${page.H}, minmax(${model.side + 9}px, ${model.side + (big ? 13 : 22)}px))` : `repeat(auto-fill, minmax(${max(76, model.side + 9)}px, 1fr))`;
    for (const t of model.thumbs) {
        t.drawn = "";
        Object.assign(t.canvas.style, { width: model.side + 5 + "px", height: model.side + "px" });
    }
    const tall = model.grid.scrollHeight, top = model.box.getBoundingClientRect().top + scrollY;
    const room = max(360, innerHeight - top - 48), scrolls = model.order === "asBuilt" && (big || narrow) && tall > room;
    model.box.style.maxHeight = scrolls ? room + "px" : "";
    for (const t of model.thumbs) t.top = t.node.offsetTop;
}
function drawModel(what) {
    const { layer, head } = model.at, seen = seenHead();
    for (const t of model.thumbs) {
        const at = t.l === layer && t.h === head, name = "thumb" + (at ? " at" : "") + (t.l === seen.layer && t.h === seen.head ? " on" : "");
        if (t.node.className !== name) t.node.className = name;
        if ((t.node.tabIndex === 0) !== at) t.node.tabIndex = at ? 0 : -1;
    }
    if (what !== "look") toil("model", drawThumbs);
}
// Thumbnails in view first; then the others.
function drawThumbs(end) {
    const look = [model.cell, model.side, model.dpr, state.special, state.log, hue.dark, hue.forced, state.factor].join();
    const box = model.box.getBoundingClientRect(), from = box.top - model.box.scrollTop, top = max(0, box.top), bottom = min(innerHeight, box.bottom), late = [];
    const flat = !["cellMatrix", "cellLines"].includes(model.cell);
    const draw = t => {
        if (!flat && !fillGrid(gridOf(t.l, t.h), end)) return false;
        drawThumb(t);
        t.drawn = look;
        if (t.l === seenHead().layer && t.h === seenHead().head) ask("look");
        return performance.now() < end;
    };
    if (page.view.id !== "model") return true;
    for (const t of model.thumbs) {
        if (t.drawn === look) continue;
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
const countsHeads = s => s.kind < 0 ? "" : page.about.kinds[s.kind][0];
function sayKinds() {
    const n = {}, all = page.stats.flat();
    for (const s of all) n[countsHeads(s)] = (n[countsHeads(s)] ?? 0) + 1;
    const near = (n.previous ?? 0) + (n.next ?? 0), told = [[near, "a ", "neighbour"], [n.itself, "each word ", "itself"], [n["same word"], "the ", "same word"], [n["one word"], "one ", "word"], [n.induction, "what ", "followed an earlier copy"], [n.broad, "", "broadly"], [n.sink, "little but ", "special tokens"], [n.content, "by ", "content"]].filter(x => x[0]);
    const out = [`Of ${count(all.length)} head${all.length === 1 ? "" : "s"}, `];
    if (!told.length) return [`${count(all.length)} heads; `, say("notOpen"), "."];
    told.forEach(([k, how, what], i) => {
        out.push(i ? i === told.length - 1 ? " and " : ", " : "", `${count(k)} ${i ? "" : k === 1 ? "reads " : "read "}${how}`, { b: what });
    });
    out.push(".");
    return out;
}
function sayRemoving() {
    const e = mostEffective(), text = say(page.effects.unit === "nats" ? "removingLoss" : "removingVector", "*" + say("theHead2", e.l, e.h) + "*", effectText(e.x));
    return starred(text);
}
function sayHead(l, h) {
    const s = statsOf(l, h), kind = countsHeads(s), out = [`Layer ${l}, head ${h} reads `];
    if (kind === "one word") out.push("mostly ", { b: quoteKey(s.word) });
    else if (s.kind >= 0) out.push(...starred(page.about.kinds[s.kind][3]));
    else out.push({ b: s.keys.toFixed(1) + " keys" }, " a row");
    if (s.kind >= 0 && kind !== "content") out.push(` (${weight(s.strength)})`);
    if (s.kind >= 0) out.push(`, ${s.keys.toFixed(1)} keys a row`);
    if (s.best) out.push(`; most of all ${quote(s.best[0])} reads `, { b: quoteKey(s.best[1]) }, `: ${weight(s.best[2])}`);
    out.push(".");
    if (page.effects) out.push(` Without it: ${effectText(effectOf(l, h))} (${unitOf()}).`);
    return out;
}
function answerModel() {
    const { layer, head } = seenHead();
    if (model.peek || model.told) return { question: say("whatHead", layer, head), pieces: sayHead(layer, head) };
    if (model.cell === "cellEffect") {
        const all = page.effects.values.flat().sort((a, b) => a - b), middle = all[all.length >> 1];
        return { question: say("whichNeeded"), pieces: [...sayRemoving(), ` The median head: ${effectText(middle)} (${unitOf()}).`] };
    }
    return { question: say("whatKinds"), pieces: [...sayKinds(), ...(page.effects ? [" ", ...sayRemoving()] : [])] };
}

// ---- the view ------------------------------------------------------------------------------------------------------
function setModel(change) {
    Object.assign(model, change);
    if (change.order) model.laid = "";
    writeAddress();
    ask("layout");
}
function modelTable() {
    const effect = page.effects ? [`effect, ${unitOf()}`] : [];
    return [["layer", "head", "kind", "strength", "keys read", "distance", "to specials", ...effect],
        ...orderedHeads().map(({ l, h, s }) => [l, h, countsHeads(s) === "one word" ? page.keys[s.word].text : countsHeads(s), s.kind < 0 || countsHeads(s) === "content" ? "" : s.strength.toFixed(3), s.keys.toFixed(2), s.distance.toFixed(2), s.shares[4].toFixed(3), ...(page.effects ? [effectOf(l, h).toFixed(5)] : [])])];
}
const arrowOf = e => ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] })[e.key];
const nextOf = (list, one) => list[(list.indexOf(one) + 1) % list.length];
function toggleMap() {
    if (!page.effects) return announce(say("noEffects"));
    setModel({ cell: model.cell === "cellEffect" ? "cellMatrix" : "cellEffect" });
}

addView({
    key: "M", id: "model", name: "Model",
    can: () => true,
    build: () => {
        model.grid = el("div");
        model.box = el("div", { id: "model", role: "group" }, model.grid);
        model.box.addEventListener("pointerleave", () => model.peek && peekHead(null));
        model.box.addEventListener("scroll", () => toil("model", drawThumbs));
        model.laid = "";
        return { mid: [model.box], right: buildLoupe() };
    },
    stack: () => {
        model.grids.clear();
        model.laid = "";
        model.at = { layer: 0, head: 0 };
        model.peek = null;
        const specialOf = tokens => tokens.map((_, i) => i).filter(i => tokens[i].special);
        Object.assign(page, { special: specialOf(page.keys), specialRows: specialOf(page.tokens) });
    },
    show: () => {
        model.at = { layer: state.layer, head: state.lit[0] ?? 0 };
        model.told = false;
        addEventListener("scroll", scrollModel);
    },
    hide: () => { removeEventListener("scroll", scrollModel); model.peek = null; },
    layout: () => layModel(),
    draw: what => { drawModel(what); drawLoupe(); },
    panels: whole => drawModelPanel(whole),
    answer: () => answerModel(),
    get group() { return model.box; },
    table: () => modelTable(),
    svg: () => modelSvg(),
    drop: () => { model.told = false; model.peek = model.point = null; },
    write: p => {
        p.set("at", `${model.at.layer}.${model.at.head}`);
        if (model.order !== "asBuilt") p.set("order", MODEL_ORDERS.indexOf(model.order));
        if (model.cell !== "cellMatrix") p.set("cell", MODEL_CELLS.indexOf(model.cell));
    },
    read: p => {
        const at = /^(\d{1,6})\.(\d{1,6})$/.exec(p.get("at") ?? "");
        if (at && +at[1] < page.L && +at[2] < page.H) model.at = { layer: +at[1], head: +at[2] };
        const order = MODEL_ORDERS[p.get("order") ?? 0] ?? "asBuilt", shown = MODEL_CELLS[p.get("cell") ?? 0] ?? "cellMatrix";
        model.order = order === "byEffect" && !page.effects ? "asBuilt" : order;
        model.cell = shown === "cellEffect" && !page.effects ? "cellMatrix" : shown;
        model.laid = "";
    },
    keys: [
        ["← → ↑ ↓", "head", e => arrowOf(e), e => walkHeads(...arrowOf(e)), 1],
        ["Enter", "open in heads view", e => e.key === "Enter" && !e.target.closest("button:not(.thumb), input, a"), () => openHead(), 1],
        ["O", "order", "o", () => setModel({ order: nextOf(MODEL_ORDERS.filter(o => o !== "byEffect" || page.effects), model.order) }), 1],
        ["L", "links or matrix", "l", () => setModel({ cell: model.cell === "cellMatrix" ? "cellLines" : "cellMatrix" }), 1],
        ["B", "ablation map", "b", () => toggleMap(), () => page.effects],
        ["G", "log scale", "g", () => set({ log: !state.log })]
    ]
});
function scrollModel() {
    toil("model", drawThumbs);
}
