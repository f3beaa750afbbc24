// SPDX-License-Identifier: MIT
// magnifier.js: shows a head of the view model enlarged, with its tokens, its weights in hundredths, the keys to which
// it attends, and its ablation effect. Also makes the controls for the order of the heads and the content of cells.
import { abs, ceil, floor, max, min, round } from "../base/math.js";
import { addTexts, count, escaped, hundredths, plain, say, shortened, weight } from "../base/messages.js";
import { el, onClick } from "../base/dom.js";
import { defined } from "../base/terms.js";
import { page, quote, quoteKey, state } from "../base/state.js";
import { css, hue, kindColour, textOn, rampAt } from "../base/palette.js";
import { requestDraw } from "../base/drawing.js";
import { set } from "../base/frame.js";
import { headStyle, headWords, shownToken, tilted } from "../parts/figure.js";
import { darkness, firstOf, hasMask, hatchOf } from "../parts/heatmap.js";
import {
    MODEL_CELLS, MODEL_ORDERS, answerModel, drawThumb, effectBar, effectOf, effectText, fillGrid, gridOf, isPooled,
    model, nameOfThumb, paintGrid, paintStrip, shownHead, setModel, shownKeys, shownRows, statsOf, unitOf
} from "./model_grid.js";

addTexts({
    headTitle: "Layer {0}, head {1}",
    headsTitle: "Layer {0}, mean of heads {1}",
    magnifierNote: "rows: queries, columns: keys; numbers in hundredths",
    magnifierStrip: "left strip: weight on {0}",
    magnifierPooled: "{0} × {1} points, each the largest of about {2} × {3} weights",
    pairAttends: "{0} attends to {1}",
    squareAttends: "largest weight of tokens {0} to {1} on tokens {2} to {3}",
    effectiveKeysMean: "effective keys, mean",
    keysOfAll: "{0} of {1}",
    distanceMean: "distance, mean",
    toSpecials: "weight on special tokens",
    ablationEffect: "ablation effect",
    medianHead: "median of all heads",
    kindCounts: "Kinds of head, measured on this text",
    changesTitle: "Tokens that change most without this head",
    changesNone: "No token changes.",
    turnNote: "cosine of the token’s last hidden state with and without the head",
    probabilityNote: "probability of the token, with the head and without it",
    unitNote: "ablation effect: {0}",
    weightScale: "weight"
});

export function buildMagnifier() {
    const canvas = el("canvas", { "aria-hidden": "true" });
    Object.assign(
        model,
        {
            magnifier: canvas, title: el("h2"), note: el("p", { class: "note" }), facts: el("dl", { class: "facts" }),
            changes: el("div"),
            kindList: el("div", { class: "kinds", role: "group", "aria-label": say("kindCounts") }),
            scale: el("div", { class: "scale" })
        }
    );
    canvas.addEventListener("pointermove", e => {
        const p = magnifierPointAt(e), old = model.point;
        model.point = p;
        if (p?.r !== old?.r || p?.c !== old?.c) requestDraw("target");
    });
    canvas.addEventListener("pointerleave", () => { model.point = null; requestDraw("target"); });
    onClick(canvas, e => {
        const p = magnifierPointAt(e), { layer, head } = shownHead();
        if (p) set({ layer, selected: [head], row: p.row, key: p.key, view: "heads" });
    });
    const choice = (title, list, now, act) => {
        const buttons = list.map(name => {
            const b = el("button", defined(say(name)), say(name));
            const why = say("noEffects");
            if (/Effect$/.test(name) && !page.effects)
                Object.assign(b, { disabled: true, title: why, ariaDescription: why });
            onClick(b, () => act(name));
            return b;
        });
        const box = el("div", { class: "choice", role: "group", "aria-label": say(title) }, ...buttons);
        box.mark = () => buttons.forEach((b, n) => b.setAttribute("aria-pressed", list[n] === now()));
        return box;
    };
    model.choices = [
        choice("modelOrder", MODEL_ORDERS, () => model.order, order => setModel({ order })),
        choice("cellShows", MODEL_CELLS, () => model.cell, cell => setModel({ cell }))
    ];
    return [el("div", {}, model.title, canvas, model.note), model.facts, model.changes,
        el(
            "div", { class: "choose" }, el("h2", {}, say("modelOrder")), model.choices[0],
            el("h2", {}, say("cellShows")), model.choices[1], model.scale
        )];
}
// Computes the positions of the parts of the magnifier.
function magnifierLayout(grid) {
    const wide = min(336, model.magnifier.parentNode.clientWidth || 312),
        labels = !isPooled() && max(grid.n, grid.m) <= 24;
    const left = labels ? 84 : 8, top = labels ? 58 : 2, space = wide - left - (labels ? 26 : 0);
    const size = space / grid.m, tall = labels || !isPooled() ? size : space / grid.n;
    return { wide, labels, left, top, size, tall, w: size * grid.m, h: tall * grid.n };
}
// Returns the point under the pointer: { r, c, row, key }.
function magnifierPointAt(e) {
    const { layer, head } = shownHead();
    const grid = gridOf(layer, head);
    const g = magnifierLayout(grid);
    const box = model.magnifier.getBoundingClientRect();
    const c = floor((e.clientX - box.left - g.left) / g.size), r = floor((e.clientY - box.top - g.top) / g.tall);
    if (r < 0 || c < 0 || r >= grid.n || c >= grid.m) return null;
    return isPooled()
        ? { r, c, row: firstOf(r, grid.n, page.T), key: firstOf(c, grid.m, page.S) }
        : { r, c, row: shownRows()[r], key: shownKeys()[c] };
}
// Returns the point whose number is shown: the point under the pointer or, without one, the point of the largest
// weight, of the marked row if there is one.
function magnifierPoint(grid) {
    if (model.point && model.point.r < grid.n && model.point.c < grid.m) return model.point;
    const { row } = state;
    const marked = row < 0 ? -1 : isPooled() ? floor(row * grid.n / page.T) : shownRows().indexOf(row);
    const from = marked < 0 ? 0 : marked * grid.m, end = marked < 0 ? grid.cells.length : from + grid.m;
    let at = from;
    for (let k = from + 1; k < end; k++) if (grid.cells[k] > grid.cells[at]) at = k;
    const r = floor(at / grid.m), c = at % grid.m;
    return isPooled() ? { r, c } : { r, c, row: shownRows()[r], key: shownKeys()[c] };
}
export function drawMagnifier() {
    const { layer, head } = shownHead();
    const grid = gridOf(layer, head);
    const d = model.dpr;
    const g = magnifierLayout(grid);
    const c = model.magnifier.getContext("2d");
    if (!fillGrid(grid, performance.now() + 3)) requestDraw("target");
    const wide = round(g.wide * d), tall = round((g.top + g.h + 2) * d);
    if (model.magnifier.width !== wide || model.magnifier.height !== tall) {
        Object.assign(model.magnifier, { width: wide, height: tall });
        Object.assign(model.magnifier.style, { width: g.wide + "px", height: tall / d + "px" });
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
    if (g.size >= 10) drawMagnifierGaps(c, g, grid);
    const p = magnifierPoint(grid);
    if (g.labels) drawMagnifierLabels(c, g, p);
    if (g.size >= 15) drawMagnifierNumbers(c, g, grid);
    c.strokeStyle = hue.text;
    c.lineWidth = 1.5;
    if (model.point) c.strokeRect(g.left + p.c * g.size, g.top + p.r * g.tall, g.size, g.tall);
    drawFacts(grid, p);
}
function drawMagnifierGaps(c, g, grid) {
    c.fillStyle = hue.paper;
    for (let k = 1; k < grid.m; k++) c.fillRect(g.left + k * g.size - .5, g.top, 1, g.h);
    for (let k = 1; k < grid.n; k++) c.fillRect(g.left, g.top + k * g.tall - .5, g.w, 1);
}
function drawMagnifierLabels(c, g, p) {
    const text = t => shortened(shownToken(t), 11);
    c.textBaseline = "middle";
    const font = on => `${on ? "600 " : ""}${max(9.5, min(12, g.size - 1))}px ${page.font}`;
    shownRows().forEach((i, r) => {
        c.textAlign = "right";
        c.font = font(r === p.r);
        c.fillStyle = r === p.r ? hue.text : hue.text2;
        c.fillText(text(page.tokens[i]), g.left - 11, g.top + (r + .5) * g.tall, g.left - 12);
    });
    shownKeys().forEach((j, k) => {
        c.textAlign = "left";
        c.font = font(k === p.c);
        c.fillStyle = k === p.c ? hue.text : hue.text2;
        tilted(c, text(page.keys[j]), g.left + (k + .5) * g.size, g.top - 6, g.wide, max(9.5, min(12, g.size - 1)));
    });
}
function drawMagnifierNumbers(c, g, grid) {
    c.font = `${g.size >= 18 ? 11 : 9.5}px ${page.font}`;
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (let r = 0; r < grid.n; r++)
        for (let k = 0; k < grid.m; k++) {
            const w = grid.cells[r * grid.m + k];
            if (w < .095) continue;
            c.fillStyle = w === w ? textOn(rampAt(darkness(w, grid.scale))) : hue.paper;
            c.fillText(
                hundredths(w, g.size), g.left + (k + .5) * g.size, g.top + (r + .5) * g.tall + .5
            );
        }
}
// ---- the numbers of the head -------------------------------------------------------------------------------
function fact(name, value, bar) {
    const dd = el("dd", {});
    if (bar) dd.append(bar);
    dd.append(el("b", {}, value));
    return [el("dt", defined(name), name), dd];
}
function drawFacts(grid, p) {
    const { layer, head } = shownHead();
    const s = statsOf(layer, head);
    const sees = [layer, head, p.r, p.c, state.special, state.stack, grid.done, model.cell].join();
    if (sees === model.sees) return;
    model.sees = sees;
    const w = grid.cells[p.r * grid.m + p.c], to = (r, n, T) => count(min(T - 1, firstOf(r + 1, n, T) - 1));
    const name = isPooled()
        ? say(
            "squareAttends", count(firstOf(p.r, grid.n, page.T)), to(p.r, grid.n, page.T),
            count(firstOf(p.c, grid.m, page.S)), to(p.c, grid.m, page.S)
        )
        : say("pairAttends", quote(p.row), quoteKey(p.key));
    const facts = [
        ...fact(name, weight(w, 3)),
        ...fact(say("effectiveKeysMean"), say("keysOfAll", s.keys.toFixed(1), count(page.S - page.keyPadding))),
        ...fact(say("distanceMean"), page.tokens === page.keys ? s.distance.toFixed(1) : "–")
    ];
    if (page.special.length) facts.push(...fact(say("toSpecials"), weight(s.shares[4], 3)));
    if (page.effects) {
        const all = page.effects.values.flat().sort((a, b) => a - b);
        const median = all[all.length >> 1], own = effectOf(layer, head);
        facts.push(
            ...fact(say("ablationEffect"), effectText(own), effectBar(own, 68, "px")),
            ...fact(say("medianHead"), effectText(median), effectBar(median, 68, "px"))
        );
    }
    model.title.textContent = say("headTitle", layer, head);
    model.facts.replaceChildren(...facts);
    model.note.textContent = isPooled()
        ? say("magnifierPooled", grid.n, grid.m, count(round(page.T / grid.n)), count(round(page.S / grid.m)))
        : [say("magnifierNote"), grid.strip ? say("magnifierStrip", page.specials.slice(0, 3).join(", ")) : ""].filter(
            x => x
        ).join(
            "; "
        );
    drawChanges(layer, head);
    drawModelScale(grid);
}
/**
 * Returns the tokens whose predictions change most if the head is ablated.
 * @returns {{ token: number, before: number, after: number }[]}
 */
function tokensChanged(layer, head) {
    return (page.effects?.changes?.[layer]?.[head] ?? [])
        .map(([token, before, after]) => ({ token, before, after }))
        .filter(({ token }) => token >= 0 && token < page.T);
}
function drawChanges(layer, head) {
    const list = tokensChanged(layer, head);
    const turns = page.effects?.unit !== "nats";
    const number = x => el("td", {}, abs(x) < .0005 && x ? effectText(x) : weight(x, 3));
    if (!page.effects?.changes) return model.changes.replaceChildren();
    const rows = list.map(({ token: i, before, after }) => el(
        "tr", {}, el("td", { class: "text" }, el("bdi", {}, page.tokens[i].text)), el("td", {}, count(i)),
        ...(turns ? [number(after)] : [number(before), number(after)])
    ));
    const head1 = ["token", "position", ...(turns ? ["1 − cosine"] : ["with", "without"])];
    model.changes.replaceChildren(
        el(
            "table", {}, el("caption", {}, say("changesTitle")),
            el("thead", {}, el("tr", {}, ...head1.map(t => el("th", { scope: "col" }, t)))), el("tbody", {}, ...rows)
        ),
        el("p", { class: "note" }, list.length ? say(turns ? "turnNote" : "probabilityNote") : say("changesNone"))
    );
}
// Makes a canvas with the colours of cells, from 0 on the left to the maximum on the right.
export function rampCanvas(wide, colour) {
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
    if (!red)
        rows.push(
            el("span", {}, "0"), rampCanvas(120, x => rampAt(darkness(x * (grid.scale || 1), grid.scale))),
            el("span", {}, weight(grid.scale || 1, grid.scale ? 3 : 0) + " " + say("weightScale"))
        );
    if (page.effects) {
        const bar = el("u");
        rows.push(bar, el("span", {}, say("unitNote", unitOf())));
    }
    model.scale.replaceChildren(...rows);
}
function swatchOf(kind) {
    const s = el("span", { class: "swatch" });
    s.style.background = kindColour(kind);
    return s;
}
export function drawModelPanel(whole) {
    if (!whole) return;
    for (const c of model.choices) c.mark();
    const n = new Map(), key = [state.stack, page.L, hue.dark, hue.forced].join();
    if (model.counted === key) return;
    model.counted = key;
    for (const s of page.stats.flat()) if (s.kind >= 0) n.set(s.kind, (n.get(s.kind) ?? 0) + 1);
    const rows = [...n].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([k, times]) => el(
        "span", { title: page.about.kindTable[k].rule }, swatchOf(k), el("i", {}, page.about.kindTable[k].glyph),
        page.about.kindTable[k].name,
        el("b", {}, count(times))
    ));
    model.kindList.replaceChildren(...(rows.length ? rows : [say("notOpen")]));
}

// ---- as SVG: pictures of points as images, words as words ------------------------------------------------------
export function modelSvg() {
    const { question, pieces } = answerModel();
    const sentence = plain(pieces);
    const box = model.grid.getBoundingClientRect();
    const out = [];
    const w = ceil(max(box.width, model.grid.scrollWidth) + 16);
    let h = ceil(box.height + 142);
    const place = n => {
        const r = n.getBoundingClientRect();
        return { x: r.left - box.left + 8, y: r.top - box.top + 84, w: r.width, h: r.height };
    };
    const text = (node, anchor) => {
        const p = place(node);
        if (!p.w || !node.checkVisibility()) return;
        const small = parseFloat(getComputedStyle(node).fontSize);
        const x = anchor === "middle" ? p.x + p.w / 2 : p.x;
        out.push(
            `<text class="n" x="${x.toFixed(1)}" y="${(p.y + p.h / 2).toFixed(1)}" text-anchor="${anchor}" ` +
                `font-size="${small}">${escaped(node.textContent.trim())}</text>`
        );
    };
    for (const t of model.thumbs) {
        if (!fillGrid(gridOf(t.l, t.h), Infinity)) continue;
        drawThumb(t);
        const p = place(t.canvas);
        out.push(
            `<image x="${p.x.toFixed(1)}" y="${p.y.toFixed(1)}" width="${p.w.toFixed(1)}" height="${p.h.toFixed(1)}" ` +
                `href="${t.canvas.toDataURL()}"><title>${escaped(nameOfThumb(t.l, t.h))}</title></image>`
        );
        text(t.node.querySelector(".what"), "start");
        const bar = t.node.querySelector("u");
        if (bar) {
            const b = place(bar);
            out.push(
                `<rect x="${b.x.toFixed(1)}" y="${b.y.toFixed(1)}" width="${b.w.toFixed(1)}" height="3" ` +
                    `fill="${bar.className ? hue.pos : hue.hot}"/>`
            );
        }
    }
    // the legend: kinds of head, model, what a picture shows
    out.push(`<g data-words="">`);
    let x = 8;
    let y = box.height + 104;
    for (const n of model.kindList.children) {
        const swatch = /** @type {?HTMLElement} */ (n.querySelector(".swatch")), wide = n.getBoundingClientRect().width;
        if (!swatch) continue;
        if (x + wide > w) {
            x = 8;
            y += 18;
            h += 18;
        }
        out.push(`<rect x="${x}" y="${y - 5}" width="10" height="10" fill="${swatch.style.background}"/>` +
            `<text class="n" x="${x + 15}" y="${y}" font-size="12">` +
                `${escaped(n.textContent.replace(/(\d+)$/, " $1"))}</text>`);
        x += wide + 24;
    }
    out.push(`<text class="n" x="8" y="${y + 22}" font-size="12">${escaped(page.about.model)} · ` +
        `${escaped(say("magnifierNote").split(";")[0])}</text></g>`);
    for (const n of model.grid.querySelectorAll(".top")) text(n, "middle");
    for (const n of model.grid.querySelectorAll(".side b, .side small, h3")) text(n, "start");
    return pictureSvg(w, h, ceil(box.height + 92), question, sentence, out.join(""));
}
// Makes the frame of a saved picture: title, sentence and background in the current theme.
export function pictureSvg(w, h, bottom, question, sentence, inside) {
    const { words, height } = headWords(question, sentence, 8, w, ["t", "n"]), lower = height - 72;
    h += lower;
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${w}" height="${h}" viewBox="0 0 ${w} ${h}" role="img" ` +
        `data-top="${height}" data-bottom="${bottom + lower}">` +
        `<title>${escaped(question)}</title><desc>${escaped(sentence)}</desc>` +
        `<style>text{font-family:system-ui,sans-serif;dominant-baseline:central}.t{fill:${hue.text}` +
        `}.n{fill:${hue.text2}}image{image-rendering:pixelated}${headStyle()}</style>` +
        `<rect width="100%" height="100%" fill="${hue.paper}"/>${words}` +
        `<g transform="translate(0 ${lower})">${inside}</g></svg>`;
}
