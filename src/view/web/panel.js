// SPDX-License-Identifier: MIT
// panel.js: what stands around the stage: atlas, filters, chips, tables, the small matrix.

const panel = {};
const kindName = s => s.kind < 0 ? "" : page.about.kinds[s.kind][0];
const kindShort = s => s.kind < 0 ? "" : kindName(s) === "one word" ? quote(s.word) : kindName(s).replace(" word", "");
const hasStrength = s => s.kind >= 0 && kindName(s) !== "content";
function tip(l, h) {
    const s = page.stats[l][h];
    if (s.kind < 0) return `layer ${l}, head ${h}`;
    const k = page.about.kinds[s.kind];
    return `layer ${l}, head ${h}: ` + say("tip", k[0], hasStrength(s) ? weight(s.strength) : "", k[4], s.rows, hasStrength(s) ? weight(k[2]) : "–");
}

// Buttons that arrow keys walk: one of them is in the tab order.
function roving(box, columns) {
    box.addEventListener("keydown", e => {
        const all = [...box.querySelectorAll("[data-rove]")], i = all.indexOf(document.activeElement);
        const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[e.key];
        if (i < 0 || !step || e.ctrlKey || e.altKey || e.metaKey) return;
        e.preventDefault();
        e.stopPropagation();
        const to = all[i + step];
        if (!to) return;
        all[i].tabIndex = -1;
        to.tabIndex = 0;
        to.focus();
    });
}

function buildAtlas() {
    const { L, H } = page, box = el("div", { id: "atlas", role: "group", "aria-label": say("layerHead") });
    const small = H > 16;
    box.style.gridTemplateColumns = `20px repeat(${H}, minmax(0, 1fr))`;
    box.append(el("span"));
    panel.columns = Array.from({ length: H }, (_, h) => el("span", { class: "label", "aria-hidden": "true" }, small && h % 4 ? "" : h));
    box.append(...panel.columns);
    panel.cells = [];
    panel.rows = [];
    for (let l = 0; l < L; l++) {
        const name = el("button", { class: "num", tabindex: -1, "aria-label": `layer ${l}` }, l);
        onClick(name, () => set({ layer: l }));
        const cells = Array.from({ length: H }, (_, h) => {
            const s = page.stats[l][h];
            const b = el("button", { "data-rove": "", tabindex: l || h ? -1 : 0, title: tip(l, h), "aria-label": tip(l, h) }, small || s.kind < 0 ? "" : page.about.kinds[s.kind][1]);
            onClick(b, e => set({ layer: l, lit: e.shiftKey ? toggled(h) : [h] }));
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
    const kinds = [...new Set(page.stats.flat().map(s => s.kind))].filter(k => k >= 0).sort((a, b) => a - b);
    panel.focused = el("div");
    panel.legend.append(panel.focused, ...kinds.flatMap(k => [el("span", {}, el("i", {}, page.about.kinds[k][1]), page.about.kinds[k][0]), " "]));
    return el("div", {}, el("h2", {}, say("layerHead")), box, panel.legend);
}
function drawAtlas() {
    const sees = [state.layer, state.lit, hue.dark, hue.forced, innerWidth].join();
    if (panel.drawn === sees) return;
    panel.drawn = sees;
    panel.focused.textContent = say(hue.dark ? "focusedDark" : "focused");
    panel.columns.forEach((c, h) => { c.className = "label" + (state.lit.includes(h) ? " on" : ""); });
    panel.cells.forEach((cells, l) => {
        panel.rows[l].className = "row" + (l === state.layer ? " on" : "");
        cells.forEach((b, h) => {
            const c = rampAt(.7 * page.stats[l][h].focus);
            b.style.background = hue.forced ? "" : css(c);
            b.style.color = hue.forced ? "" : inkOn(c);
            b.style.borderBottomColor = l === state.layer && state.lit.includes(h) ? headColour(h) : "transparent";
        });
    });
    const first = panel.rows[state.layer].firstChild, box = panel.outline.parentNode;
    Object.assign(panel.outline.style, { top: first.offsetTop - 2 + "px", height: first.offsetHeight + 4 + "px", left: "-2px", width: box.clientWidth + 4 + "px" });
}

const FILTERS = ["all", "AA", "AB", "BA", "BB"];
function buildFilters() {
    const out = [];
    panel.filters = [];
    if (page.pair) {
        panel.filters = FILTERS.map(f => {
            const b = el("button", { class: "filter" }, el("span", {}, f === "all" ? say("all") : `${f[0]} → ${f[1]}`), el("i", {}, f === "all" ? "" : el("b")), el("span"));
            onClick(b, () => set({ filter: f }));
            return b;
        });
        out.push(el("div", {}, el("h2", {}, say("sentences")), ...panel.filters));
    }
    if (page.specials.length && !page.allSpecial) {
        panel.switch = el("button", { class: "switch", role: "switch" }, el("span", {}, say("hide", page.specials.slice(0, 3).join(" "))), el("i"));
        onClick(panel.switch, () => set({ special: !state.special }));
        panel.goes = el("span");
        out.push(el("div", {}, el("h2", {}, say("specials")), panel.switch, el("p", { class: "note" }, panel.goes, el("br"), say("never"))));
    }
    panel.range = el("input", { type: "range", min: 0, max: 1000, "aria-label": say("above") });
    panel.range.addEventListener("input", () => set({ factor: factorOf(panel.range.value / 1000) }));
    panel.tau = el("span");
    panel.even = el("span");
    panel.below = el("span");
    out.push(el("div", {}, el("h2", {}, say("above")), el("div", { class: "slider" }, panel.range, panel.tau), el("p", { class: "note" }, panel.even, el("br"), panel.below)));
    return out;
}
// The slider is finer near 0.
const factorOf = x => min(.95, x ** 3) * page.T;
const sliderOf = f => Math.cbrt(min(.95, f / page.T));
function drawFilters() {
    const heads = lit(), shares = [0, 1, 2, 3, 4].map(k => heads.reduce((s, h) => s + page.stats[state.layer][h].shares[k], 0) / (heads.length || 1));
    panel.filters.forEach((b, f) => {
        const [, bar, text] = b.children, x = f ? shares[f - 1] : shares.slice(0, 4).reduce((s, v) => s + v, 0);
        b.setAttribute("aria-pressed", state.filter === FILTERS[f]);
        text.textContent = share(x);
        if (f) bar.firstChild.style.width = 100 * min(1, x / .5) + "%";
    });
    if (panel.switch) {
        panel.switch.setAttribute("aria-checked", !state.special);
        panel.goes.textContent = say(state.special ? "stays" : "goes", share(shares[4]));
    }
    panel.range.value = 1000 * sliderOf(state.factor);
    const tau = min(.95, state.factor / page.T);
    panel.range.setAttribute("aria-valuetext", weight(tau, 3));
    panel.tau.textContent = weight(tau, 3);
    panel.even.textContent = abs(state.factor - .5) < 1e-6 ? say("half") : say("times", state.factor.toFixed(state.factor < 10 ? 2 : 0));
}
function drawBelow() {
    const rows = links.whole;
    panel.below.textContent = rows && !links.missing ? say("below", share(max(0, 1 - links.weight / rows))) + (links.all > links.n ? "; " + say("strongest", count(links.n), count(links.all)) : "") : "";
}

function buildChips() {
    const { H } = page, box = el("div", { id: "chips", role: "group", "aria-label": "heads" });
    const bare = H > 16 || page.stats.flat().every(s => s.kind < 0);
    box.className = bare ? "bare" : "";
    box.style.gridTemplateColumns = `repeat(${H <= 12 ? H : H <= 16 ? 8 : 16}, minmax(0, 1fr))`;
    panel.chips = Array.from({ length: H }, (_, h) => {
        const b = el("button", { class: "chip", "data-rove": "", tabindex: h ? -1 : 0 }, el("span", {}, h), bare ? "" : el("small"));
        onClick(b, () => set({ lit: toggled(h) }));
        b.addEventListener("dblclick", () => solo(h));
        return b;
    });
    box.append(...panel.chips);
    roving(box, 1);
    return box;
}
function drawChips() {
    panel.chips.forEach((b, h) => {
        const s = page.stats[state.layer][h], on = state.lit.includes(h);
        b.setAttribute("aria-pressed", on);
        b.setAttribute("aria-label", [`head ${h}`, kindShort(s), hasStrength(s) ? weight(s.strength) : "", on ? "lit" : ""].filter(x => x).join(", "));
        b.title = tip(state.layer, h);
        if (b.children[1]) b.children[1].textContent = kindShort(s);
        b.style.borderColor = on ? headColour(h) : hue.rule;
        b.style.borderLeftColor = on || page.H <= 16 ? headColour(h) : hue.rule;
        if (!on && page.H <= 16) b.style.borderLeftColor = `color-mix(in srgb, ${headColour(h)} 30%, ${hue.paper})`;
    });
}

// ---- the right column ----------------------------------------------------------------------------
function cells(...list) {
    return el("tr", {}, ...list.map(x => x instanceof Node ? x : el("td", {}, x)));
}
function headTable() {
    const all = page.stats[state.layer], n = NUMBERS[page.H] || page.H;
    const body = all.map((s, h) => {
        const swatch = el("i", { class: "swatch" });
        swatch.style.background = state.lit.includes(h) || page.H <= 16 ? headColour(h) : hue.rule;
        if (!state.lit.includes(h)) swatch.style.opacity = .35;
        const tr = cells(el("td", {}, swatch, h), el("td", { class: "text" }, kindShort(s)), hasStrength(s) ? weight(s.strength) : "–", s.keys.toFixed(1), s.distance.toFixed(1));
        if (state.lit.includes(h)) tr.className = "lit";
        return tr;
    });
    return el("table", {}, el("caption", {}, say("headsOf", n, state.layer)),
        el("thead", {}, el("tr", {}, ...["head", "", "strength", "keys read", "distance"].map(t => el("th", { scope: "col" }, t)))),
        el("tbody", {}, ...body));
}

// The rows of the table of a marked row (or column), strongest first: { name, w: [by lit head], mean }.
function rowTable(l, most) {
    const heads = lit().slice(0, 5), every = Array.from({ length: page.H }, (_, h) => h), T = page.T;
    const across = l.row >= 0 ? h => weights.row(state.layer, h, l.row) : h => Float32Array.from({ length: T }, (_, i) => weights.has(state.layer, h, i) || T <= 192 ? weights.row(state.layer, h, i)[l.key] : 0);
    const shown = heads.map(across), mean = new Float32Array(T);
    for (const h of l.row >= 0 ? every : heads) across(h).forEach((w, j) => { mean[j] += w / (l.row >= 0 ? page.H : heads.length); });
    const top = j => shown.reduce((m, r) => max(m, r[j]), 0);
    const keys = page.visible.slice().sort((a, b) => top(b) - top(a) || a - b), out = [];
    const sum = list => ({ w: shown.map(r => list.reduce((s, j) => s + r[j], 0)), mean: list.reduce((s, j) => s + mean[j], 0) });
    for (const j of keys.slice(0, most)) out.push({ name: page.tokens[j].text, key: j, w: shown.map(r => r[j]), mean: mean[j] });
    if (keys.length > most) out.push({ name: say("more", count(keys.length - most)), ...sum(keys.slice(most)) });
    const hidden = page.tokens.map((_, j) => j).filter(j => !isShown(j));
    if (hidden.length) out.push({ name: page.specials.slice(0, 2).join(" "), ...sum(hidden) });
    if (l.row >= 0) out.push({ name: say("sum"), total: true, ...sum(page.tokens.map((_, j) => j)) });
    return { heads, rows: out };
}
function markedTable(l) {
    const { heads, rows } = rowTable(l, page.T > 64 ? 14 : 20), alone = l.row < 0;
    const names = heads.map(h => {
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
        s.style.color = inkOn(c);
        return el("td", {}, s);
    };
    const body = rows.map(r => {
        const tr = cells(el("td", { class: "text", title: r.name }, el("bdi", {}, r.name)), ...r.w.map(w => number(w, r.total)), ...(alone ? [] : [number(r.mean, r.total)]));
        if (r.total) tr.className = "total";
        return tr;
    });
    return el("table", { class: "row" }, el("caption", {}, say(alone ? "columnOf" : "rowOf", quote(alone ? l.key : l.row), state.layer)),
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, alone ? "token" : "key"), ...names, ...(alone ? [] : [el("th", { scope: "col" }, `all ${page.H}`)]))),
        el("tbody", {}, ...body));
}

function buildRight() {
    panel.table = el("div", { id: "table" });
    panel.small = el("div", { id: "small" });
    panel.matrix = el("canvas", { "aria-hidden": "true" });
    panel.pairs = el("div", { id: "pairs", role: "img" });
    panel.pairs.style.gridTemplateColumns = `20px repeat(${page.H}, minmax(0, 1fr))`;
    const label = t => el("span", { class: "label" }, t);
    panel.pairCells = page.stats.map(row => row.map(() => el("span")));
    panel.pairs.append(el("span"), ...page.stats[0].map((_, h) => label(page.H > 16 && h % 4 ? "" : h)));
    panel.pairCells.forEach((row, l) => panel.pairs.append(label(l), ...row));
    return [panel.table, panel.small];
}
function drawRight(l) {
    const marked = l.row >= 0 || l.key >= 0;
    panel.table.replaceChildren(...(!lit().length && marked ? [] : marked ? [markedTable(l)] : [headTable(), el("p", { class: "note" }, say("keysNote"))]));
    if (l.row >= 0 && lit().length) drawPairs(l);
    else if (!marked && lit().length) drawMatrix();
    else panel.small.replaceChildren();
}
function drawPairs(l) {
    let key = l.key;
    if (key < 0) {
        let most = -1;
        for (const h of lit()) {
            const t = topKey(weights.row(state.layer, h, l.row), -1, -1);
            if (t.w > most) { most = t.w; key = t.to; }
        }
    }
    if (key < 0) return panel.small.replaceChildren();
    panel.pairCells.forEach((row, layer) => row.forEach((s, h) => {
        const w = weights.pair(layer, h, l.row, key), c = cell(w);
        s.textContent = w >= .095 ? w > .995 ? "1" : round(100 * w) : w === w ? "" : "!";
        s.style.background = hue.forced ? "" : css(c);
        s.style.color = hue.forced ? "" : inkOn(c);
    }));
    const title = say("pair", quote(l.row), quote(key));
    panel.pairs.setAttribute("aria-label", title);
    if (panel.small.lastChild !== panel.pairs) panel.small.replaceChildren(el("h2"), panel.pairs);
    panel.small.firstChild.textContent = title;
}

// The same links as a matrix: cells of tokens, or past 64 tokens each the largest of a square.
function drawMatrix() {
    const heads = lit(), coarse = page.T > 64, n = coarse ? COARSE : page.visible.length;
    const labels = !coarse && n <= 28, side = panel.small.clientWidth || 312;
    const left = labels ? 60 : 0, top = labels ? 56 : 0, room = side - left - (labels ? 24 : 0), size = room / n, gap = labels && size > 8 ? 1 : 0;
    const c = panel.matrix.getContext("2d"), d = stage.dpr;
    panel.matrix.width = side * d;
    panel.matrix.height = (top + room) * d;
    panel.matrix.style.width = side + "px";
    panel.matrix.style.height = top + room + "px";
    c.setTransform(d, 0, 0, d, 0, 0);
    const one = heads.length < 2 || state.mean, colours = heads.map(headColour);
    const rows = coarse ? heads.map(h => survey(state.layer, h).coarse) : null;
    c.fillStyle = hue.paper;
    c.fillRect(0, 0, side, top + room);
    for (let i = 0; i < n; i++) {
        const own = coarse ? rows : heads.map(h => weights.row(state.layer, h, page.visible[i])), asks = coarse || reads(page.visible[i]);
        for (let j = 0; j < n; j++) {
            let w = 0, mean = 0, at = 0;
            for (let m = 0; m < own.length; m++) {
                const x = own[m][coarse ? i * n + j : page.visible[j]];
                mean += x / own.length;
                if (x > w) { w = x; at = m; }
            }
            if (state.mean) w = mean;
            if (!asks || !(coarse || isRead(-1, page.visible[j]))) w = 0;
            if (!gap && w <= .02) continue;
            c.globalAlpha = 1;
            c.fillStyle = one && w > .02 ? css(cell(w)) : hue.panel;
            if (gap || one) c.fillRect(left + j * size, top + i * size, size - gap, size - gap);
            if (one || w <= .02) continue;
            c.globalAlpha = w ** .7;
            c.fillStyle = colours[at];
            c.fillRect(left + j * size, top + i * size, size - gap, size - gap);
        }
    }
    c.globalAlpha = 1;
    if (labels) matrixLabels(c, left, top, size);
    const list = say(heads.length > 1 ? "heads" : "head", heads.join(", "));
    const title = el("h2", {}, say(state.mean ? "matrixMean" : "matrixMax", list) + " ");
    if (heads.length > 1) {
        const b = el("button", {}, say(state.mean ? "max" : "mean"));
        onClick(b, () => set({ mean: !state.mean }));
        title.append(b);
    }
    panel.small.replaceChildren(title, panel.matrix, ...(coarse ? [el("p", { class: "note" }, say("pooled", COARSE, ceil(page.T / COARSE)))] : []));
}
function matrixLabels(c, left, top, size) {
    c.font = `${max(9.5, min(11, size))}px ${page.font}`;
    c.fillStyle = hue.ink;
    c.textBaseline = "middle";
    const cut = t => t.length > 9 ? t.slice(0, 8) + "…" : t;
    page.visible.forEach((i, r) => {
        c.textAlign = "right";
        c.fillText(cut(page.tokens[i].text), left - 8, top + (r + .5) * size, left - 10);
        c.save();
        c.translate(left + (r + .5) * size, top - 6);
        c.rotate(-.87);
        c.textAlign = "left";
        c.fillText(cut(page.tokens[i].text), 0, 0);
        c.restore();
    });
}

// ---- links as a table ---------------------------------------------------------------------------
function linkOrder() {
    const L = links;
    return Array.from({ length: L.n }, (_, k) => k).sort((a, b) => L.w[b] - L.w[a] || L.i[a] - L.i[b] || L.j[a] - L.j[b]);
}
function linkRows() {
    const L = links, heads = lit();
    return linkOrder().map(k => [page.tokens[L.i[k]].text, page.tokens[L.j[k]].text, heads[L.m[k]], L.w[k]]);
}
const marked = l => l.row >= 0 || l.key >= 0;
function restOfLinks(n) {
    return marked(look()) ? "" : weight(linkOrder().slice(n).reduce((s, k) => s + links.w[k], 0) / max(1, links.whole));
}
