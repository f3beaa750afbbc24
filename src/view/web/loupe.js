// SPDX-License-Identifier: MIT
// loupe.js: one head of the model view, large: tokens, hundredths, what it reads, what its removal
// changes; and the choices of order and of what the cells show.

Object.assign(TEXT, {
    headTitle: "Layer {0}, head {1}",
    headsTitle: "Layer {0}, mean of heads {1}",
    loupeNote: "row asks, column is read; numbers in hundredths",
    loupeStrip: "the left strip is what goes to {0}",
    loupePooled: "{0} × {1} points, each the largest of about {2} × {3} weights",
    readsPair: "{0} reads {1}",
    readsSquare: "tokens {0} to {1} read {2} to {3}, strongest",
    keysMean: "keys read, mean",
    keysOfAll: "{0} of {1}",
    distanceMean: "distance, mean",
    toSpecials: "goes to specials",
    removing: "effect of removing it",
    medianHead: "median of all heads",
    kindsHere: "Kinds, measured on this text",
    changesTitle: "What changes without it",
    changesTurn: "{0} turns",
    changesNone: "No token changes.",
    turnNote: "1 − cosine of the token’s last hidden row with and without the head",
    probabilityNote: "probability of the token, with the head and without it",
    unitNote: "effect: {0}",
    weightScale: "weight"
});

function buildLoupe() {
    const canvas = el("canvas", { "aria-hidden": "true" });
    Object.assign(model, { loupe: canvas, title: el("h2"), note: el("p", { class: "note" }), facts: el("dl", { class: "facts" }), changes: el("div"), kinds: el("div", { class: "kinds" }), scale: el("div", { class: "scale" }) });
    canvas.addEventListener("pointermove", e => {
        const p = loupeAt(e), old = model.point;
        model.point = p;
        if (p?.r !== old?.r || p?.c !== old?.c) ask("look");
    });
    canvas.addEventListener("pointerleave", () => { model.point = null; ask("look"); });
    onClick(canvas, e => {
        const p = loupeAt(e), { layer, head } = seenHead();
        if (p) set({ layer, lit: [head], row: p.row, key: p.key, view: "heads" });
    });
    const choice = (title, list, now, act) => {
        const buttons = list.map(name => {
            const b = el("button", {}, say(name));
            if (/Effect$/.test(name) && !page.effects) Object.assign(b, { disabled: true, title: say("noEffects") });
            onClick(b, () => act(name));
            return b;
        });
        const box = el("div", { class: "choice", role: "group", "aria-label": say(title) }, ...buttons);
        box.mark = () => buttons.forEach((b, n) => b.setAttribute("aria-pressed", list[n] === now()));
        return box;
    };
    model.choices = [choice("modelOrder", MODEL_ORDERS, () => model.order, order => setModel({ order })), choice("cellShows", MODEL_CELLS, () => model.cell, cell => setModel({ cell }))];
    return [el("div", {}, model.title, canvas, model.note), model.facts, model.changes,
        el("div", { class: "choose" }, el("h2", {}, say("modelOrder")), model.choices[0], el("h2", {}, say("cellShows")), model.choices[1], model.scale),
        el("div", {}, el("h2", {}, say("kindsHere")), model.kinds)];
}
// Places of the loupe's picture.
function loupePlaces(grid) {
    const wide = min(336, model.loupe.parentNode.clientWidth || 312), labels = !isPooled() && max(grid.n, grid.m) <= 24;
    const left = labels ? 84 : 8, top = labels ? 58 : 2, room = wide - left - (labels ? 26 : 0);
    const size = room / grid.m, tall = labels || !isPooled() ? size : room / grid.n;
    return { wide, labels, left, top, size, tall, w: size * grid.m, h: tall * grid.n };
}
// The point under the pointer: { r, c, row, key }.
function loupeAt(e) {
    const { layer, head } = seenHead(), grid = gridOf(layer, head), g = loupePlaces(grid), box = model.loupe.getBoundingClientRect();
    const c = floor((e.clientX - box.left - g.left) / g.size), r = floor((e.clientY - box.top - g.top) / g.tall);
    if (r < 0 || c < 0 || r >= grid.n || c >= grid.m) return null;
    return isPooled() ? { r, c, row: firstOf(r, grid.n, page.T), key: firstOf(c, grid.m, page.S) } : { r, c, row: shownRows()[r], key: shownKeys()[c] };
}
// What is told as a number: the point under the pointer, else the strongest.
function loupePoint(grid) {
    if (model.point && model.point.r < grid.n && model.point.c < grid.m) return model.point;
    let at = 0;
    for (let k = 1; k < grid.cells.length; k++) if (grid.cells[k] > grid.cells[at]) at = k;
    const r = floor(at / grid.m), c = at % grid.m;
    return isPooled() ? { r, c } : { r, c, row: shownRows()[r], key: shownKeys()[c] };
}
function drawLoupe() {
    const { layer, head } = seenHead(), grid = gridOf(layer, head), d = model.dpr, g = loupePlaces(grid), c = model.loupe.getContext("2d");
    if (!fillGrid(grid, performance.now() + 3)) ask("look");
    const wide = round(g.wide * d), tall = round((g.top + g.h + 2) * d);
    if (model.loupe.width !== wide || model.loupe.height !== tall) {
        Object.assign(model.loupe, { width: wide, height: tall });
        Object.assign(model.loupe.style, { width: g.wide + "px", height: tall / d + "px" });
    }
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, wide, tall);
    const x = round(g.left * d), y = round(g.top * d), w = round(g.w * d), h = round(g.h * d);
    paintGrid(c, x, y, w, h, grid);
    if (hasMask(layer)) {
        c.globalCompositeOperation = "destination-over";
        c.fillStyle = hatchOf(c);
        c.fillRect(x, y, w, h);
        c.globalCompositeOperation = "source-over";
    }
    if (grid.strip) paintStrip(c, x - round(7 * d), y, round(5 * d), h, grid.strip);
    c.setTransform(d, 0, 0, d, 0, 0);
    if (g.size >= 10) loupeGaps(c, g, grid);
    const p = loupePoint(grid);
    if (g.labels) loupeLabels(c, g, p);
    if (g.size >= 15) loupeNumbers(c, g, grid);
    c.strokeStyle = hue.ink;
    c.lineWidth = 1.5;
    if (model.point) c.strokeRect(g.left + p.c * g.size, g.top + p.r * g.tall, g.size, g.tall);
    drawFacts(grid, p);
}
function loupeGaps(c, g, grid) {
    c.fillStyle = hue.paper;
    for (let k = 1; k < grid.m; k++) c.fillRect(g.left + k * g.size - .5, g.top, 1, g.h);
    for (let k = 1; k < grid.n; k++) c.fillRect(g.left, g.top + k * g.tall - .5, g.w, 1);
}
function loupeLabels(c, g, p) {
    const cut = t => t.length > 11 ? t.slice(0, 10) + "…" : t, text = t => cut(state.raw ? t.raw : t.text);
    c.textBaseline = "middle";
    const font = on => `${on ? "600 " : ""}${max(9.5, min(12, g.size - 1))}px ${page.font}`;
    shownRows().forEach((i, r) => {
        c.textAlign = "right";
        c.font = font(r === p.r);
        c.fillStyle = r === p.r ? hue.ink : hue.ink2;
        c.fillText(text(page.tokens[i]), g.left - 11, g.top + (r + .5) * g.tall, g.left - 12);
    });
    shownKeys().forEach((j, k) => {
        c.save();
        c.translate(g.left + (k + .5) * g.size, g.top - 6);
        c.rotate(-.87);
        c.textAlign = "left";
        c.font = font(k === p.c);
        c.fillStyle = k === p.c ? hue.ink : hue.ink2;
        c.fillText(text(page.keys[j]), 0, 0);
        c.restore();
    });
}
function loupeNumbers(c, g, grid) {
    c.font = `${g.size >= 18 ? 11 : 9.5}px ${page.font}`;
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (let r = 0; r < grid.n; r++)
        for (let k = 0; k < grid.m; k++) {
            const w = grid.cells[r * grid.m + k];
            if (w < .095) continue;
            c.fillStyle = w === w ? inkOn(rampAt(darkness(w, grid.scale))) : hue.paper;
            c.fillText(w > .995 ? "1" : w === w ? round(100 * w) : "!", g.left + (k + .5) * g.size, g.top + (r + .5) * g.tall + .5);
        }
}
// ---- the numbers of the head -------------------------------------------------------------------------------
function fact(name, value, bar) {
    const dd = el("dd", {});
    if (bar !== undefined) {
        const b = el("u");
        b.style.width = 68 * min(1, bar) + "px";
        dd.append(b);
    }
    dd.append(el("b", {}, value));
    return [el("dt", {}, name), dd];
}
function drawFacts(grid, p) {
    const { layer, head } = seenHead(), s = statsOf(layer, head), sees = [layer, head, p.r, p.c, state.special, state.stack, grid.done, model.cell].join();
    if (sees === model.sees) return;
    model.sees = sees;
    const w = grid.cells[p.r * grid.m + p.c], to = (r, n, T) => count(min(T - 1, firstOf(r + 1, n, T) - 1));
    const name = isPooled() ? say("readsSquare", count(firstOf(p.r, grid.n, page.T)), to(p.r, grid.n, page.T), count(firstOf(p.c, grid.m, page.S)), to(p.c, grid.m, page.S)) : say("readsPair", quote(p.row), quoteKey(p.key));
    const facts = [...fact(name, weight(w, 3)), ...fact(say("keysMean"), say("keysOfAll", s.keys.toFixed(1), count(page.S))), ...fact(say("distanceMean"), s.distance.toFixed(1))];
    if (page.special.length) facts.push(...fact(say("toSpecials"), weight(s.shares[4], 3)));
    if (page.effects) {
        const all = page.effects.values.flat().sort((a, b) => a - b), median = all[all.length >> 1], most = model.mostEffect;
        facts.push(...fact(say("removing"), effectText(effectOf(layer, head)), abs(effectOf(layer, head)) / most), ...fact(say("medianHead"), effectText(median), abs(median) / most));
    }
    model.title.textContent = say("headTitle", layer, head);
    model.facts.replaceChildren(...facts);
    model.note.textContent = isPooled() ? say("loupePooled", grid.n, grid.m, count(round(page.T / grid.n)), count(round(page.S / grid.m))) : [say("loupeNote"), grid.strip ? say("loupeStrip", page.specials.slice(0, 3).join(", ")) : ""].filter(x => x).join("; ");
    drawChanges(layer, head);
    drawModelScale(grid);
}
// Tokens that change most without the head: [token, before, after].
function tokensChanged(layer, head) {
    return (page.effects?.changes?.[layer]?.[head] ?? []).filter(x => x[0] >= 0 && x[0] < page.T);
}
function drawChanges(layer, head) {
    const list = tokensChanged(layer, head), turns = page.effects?.unit !== "nats", number = x => el("td", {}, abs(x) < .0005 && x ? effectText(x) : weight(x, 3));
    if (!page.effects?.changes) return model.changes.replaceChildren();
    const rows = list.map(([i, before, after]) => el("tr", {}, el("td", { class: "text" }, el("bdi", {}, page.tokens[i].text)), el("td", {}, count(i)), ...(turns ? [number(after)] : [number(before), number(after)])));
    const head1 = ["token", "place", ...(turns ? ["turns by"] : ["with", "without"])];
    model.changes.replaceChildren(el("table", {}, el("caption", {}, say("changesTitle")), el("thead", {}, el("tr", {}, ...head1.map(t => el("th", { scope: "col" }, t)))), el("tbody", {}, ...rows)),
        el("p", { class: "note" }, list.length ? say(turns ? "turnNote" : "probabilityNote") : say("changesNone")));
}
// From 0 to the largest, in the colours of the cells.
function rampCanvas(wide, colour) {
    const canvas = el("canvas", { "aria-hidden": "true" }), d = devicePixelRatio || 1, c = canvas.getContext("2d");
    canvas.width = round(wide * d);
    canvas.height = round(10 * d);
    Object.assign(canvas.style, { width: wide + "px", height: "10px" });
    for (let x = 0; x < canvas.width; x++) {
        c.fillStyle = css(colour(x / canvas.width));
        c.fillRect(x, 0, 1, canvas.height);
    }
    return canvas;
}
function drawModelScale(grid) {
    const red = model.cell === "cellEffect", rows = [];
    if (!red) rows.push(el("span", {}, "0"), rampCanvas(120, x => rampAt(darkness(x * (grid.scale || 1), grid.scale))), el("span", {}, weight(grid.scale || 1, grid.scale ? 3 : 0) + " " + say("weightScale")));
    if (page.effects) {
        const bar = el("u");
        rows.push(bar, el("span", {}, say("unitNote", unitOf())));
    }
    model.scale.replaceChildren(...rows);
}
function drawModelPanel(whole) {
    if (!whole) return;
    for (const c of model.choices) c.mark();
    const n = new Map(), key = [state.stack, page.L].join();
    if (model.counted === key) return;
    model.counted = key;
    for (const s of page.stats.flat()) if (s.kind >= 0) n.set(s.kind, (n.get(s.kind) ?? 0) + 1);
    const rows = [...n].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([k, times]) => el("span", { title: page.about.kinds[k][4] }, el("i", {}, page.about.kinds[k][1]), page.about.kinds[k][0], el("b", {}, count(times))));
    model.kinds.replaceChildren(...(rows.length ? rows : [say("notOpen")]));
}

// ---- as SVG: pictures of points as images, words as words ------------------------------------------------------
function modelSvg() {
    const { question, pieces } = answerModel(), sentence = plain(pieces), box = model.grid.getBoundingClientRect(), out = [];
    const w = ceil(box.width + 16), h = ceil(box.height + 96), place = n => { const r = n.getBoundingClientRect(); return { x: r.left - box.left + 8, y: r.top - box.top + 84, w: r.width, h: r.height }; };
    const text = (node, anchor) => {
        const p = place(node), small = parseFloat(getComputedStyle(node).fontSize), x = anchor === "middle" ? p.x + p.w / 2 : p.x;
        out.push(`<text class="n" x="${x.toFixed(1)}" y="${(p.y + p.h / 2).toFixed(1)}" text-anchor="${anchor}" font-size="${small}">${escaped(node.textContent.trim())}</text>`);
    };
    for (const t of model.thumbs) {
        if (!fillGrid(gridOf(t.l, t.h), Infinity)) continue;
        drawThumb(t);
        const p = place(t.canvas);
        out.push(`<image x="${p.x.toFixed(1)}" y="${p.y.toFixed(1)}" width="${p.w.toFixed(1)}" height="${p.h.toFixed(1)}" href="${t.canvas.toDataURL()}"><title>${escaped(nameOfThumb(t.l, t.h))}</title></image>`);
        text(t.node.querySelector(".what"), "start");
        const bar = t.node.querySelector("u");
        if (bar) { const b = place(bar); out.push(`<rect x="${b.x.toFixed(1)}" y="${b.y.toFixed(1)}" width="${b.w.toFixed(1)}" height="3" fill="${hue.hot}"/>`); }
    }
    for (const n of model.grid.querySelectorAll(".top")) text(n, "middle");
    for (const n of model.grid.querySelectorAll(".side b, .side small, h3")) text(n, "start");
    return pictureSvg(w, h, question, sentence, out.join(""));
}
// The frame of a saved picture: question, sentence, paper of the theme it was seen in.
function pictureSvg(w, h, question, sentence, inside) {
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" role="img"><title>${escaped(question)}</title><desc>${escaped(sentence)}</desc>` +
        `<style>text{font-family:system-ui,sans-serif;dominant-baseline:central}.t{fill:${hue.ink}}.n{fill:${hue.ink2}}.s{font:25px Georgia,serif}.d{font:15px Georgia,serif}image{image-rendering:pixelated}</style>` +
        `<rect width="100%" height="100%" fill="${hue.paper}"/><text class="t s" x="8" y="24">${escaped(question)}</text><text class="n d" x="8" y="54">${escaped(sentence)}</text>${inside}</svg>`;
}
