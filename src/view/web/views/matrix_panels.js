// SPDX-License-Identifier: MIT
// matrix_panels.js: builds the panels around the matrix: contents, zoom, minimap, the text shaded by the marked row,
// and the row's strongest keys. Also handles pointer and keyboard.
import { abs, floor, max, min, round } from "../base/math.js";
import { addTexts, count, say, share, weight } from "../base/messages.js";
import { el, nameNode, onClick } from "../base/dom.js";
import { selectedHeads, page, state } from "../base/state.js";
import { css, hue, rampAt } from "../base/palette.js";
import { announce, requestDraw } from "../base/drawing.js";
import { set, writeAddress } from "../base/frame.js";
import { specialsSwitch } from "../parts/panel.js";
import { sectionsOf, shadedText } from "../parts/sections.js";
import { darkness, fixedScale, scaleOf, runInSlices } from "../parts/heatmap.js";
import { rampCanvas } from "./magnifier.js";
import {
    CLOSEST, POINT, coarseOf, isKeyShown, isWhole, keysInView, levelAt, longest, matrixTarget, matrix, matrixPoint,
    missingRows, moveWindow, pointsImage, pointsOf, describedRow, keyAt, keyPlace, keysShown, queryAt, rowPlace,
    rowsInView, rowsShown, sharpen, wholeText, zoomTo
} from "./matrix_grid.js";
import { markColour } from "./matrix_draw.js";
import { rowSummary, tipLines } from "./matrix_text.js";

addTexts({
    contents: "Contents",
    contentsNote: "bars: weight of the marked row on each section",
    zoom: "Zoom",
    zoomWhole: "{0} whole text",
    zoomSingle: "{0} single tokens",
    pointShows: "A point shows",
    strongestPoint: "maximum",
    meanPoint: "mean",
    lockScale: "Lock the scale",
    scaleTo: "0 to {0}",
    whole: "Whole text",
    weightsAHead: "{0} weights per head",
    rowShaded: "The text, shaded by the weights of token {0}",
    aroundQuery: "around token {0}, the query",
    aroundKey: "around token {0}, the strongest distant key",
    strongestKeys: "strongest keys",
    notInFile: "not in this file",
    markHint: "Click a row, or press Enter, to see its weights.",
    sectionNow: "{0}, tokens {1} to {2}",
    noSections: "the text has no sections",
    alsoAttends: ", {0} of its weight in {1}",
    strongestPairs: "{0} to {1}",
    before: "before",
    after: "after"
});

// ---- left: contents, zoom, controls ------------------------------------------------------------
export function buildMatrixLeft() {
    const m = matrix, pressed = (title, list, act) => {
        const buttons = list.map(([name, text]) => {
            const b = el("button", {}, text);
            onClick(b, () => act(name));
            return b;
        });
        const box = el("div", { class: "choice", role: "group", "aria-label": title }, ...buttons);
        box.mark = now => buttons.forEach((b, n) => b.setAttribute("aria-pressed", list[n][0] === now));
        return box;
    };
    const stepper = (name, act) => {
        const less = el("button", { "aria-label": `${name} ${say("before")}` }, "‹");
        const value = el("b");
        const more = el("button", { "aria-label": `${name} ${say("after")}` }, "›");
        onClick(less, () => act(-1));
        onClick(more, () => act(1));
        const box = el("div", { class: "stepper" }, el("span", {}, name), less, value, more);
        box.value = value;
        return box;
    };
    m.steppers = [stepper("Layer", by => stepLayer(by)), stepper("Head", by => stepHead(by))];
    m.contents = el("ol", { class: "contents" });
    m.contentsNote = el("p", { class: "note" }, say("contentsNote"));
    m.zooms = el("div", { class: "zooms", role: "group", "aria-label": say("zoom") });
    m.modes = pressed(
        say("pointShows"), [["max", say("strongestPoint")], ["mean", say("meanPoint")]],
        mode => { m.mode = mode; writeAddress(); requestDraw("base"); }
    );
    m.locker = el("button", { class: "switch", role: "switch" }, el("span", {}, say("lockScale")), el("i"));
    onClick(m.locker, () => { m.lock = m.lock ? 0 : m.shownScale || 0; requestDraw("base"); });
    m.ramp = el("div", { class: "scale" });
    m.scaleBox = el("div", {}, el("h2", { class: "far" }, say("pointShows")), m.modes, m.locker, m.ramp);
    const specials = page.specials.length > 0 && !page.allSpecial;
    m.specials = specials ? specialsSwitch() : null;
    return [
        el("div", {}, ...m.steppers),
        ...specials ? [el("div", { class: "specials" }, el("h2", {}, say("specials")), m.specials)] : [],
        el("div", { class: "far" }, el("h2", {}, say("contents")), m.contents, m.contentsNote),
        el("div", { class: "far" }, el("h2", {}, say("zoom")), m.zooms), m.scaleBox
    ];
}
export const stepLayer = by => set({ layer: min(page.L - 1, max(0, state.layer + by)) });
const stepHead = by => set({ selected: [min(page.H - 1, max(0, (selectedHeads()[0] ?? 0) + by))] });
export function layContents() {
    const [, keys] = sectionsOf(page.stack);
    matrix.bars = keys.map(s => {
        const bar = el("u");
        const share = el("span");
        const b = el(
            "button", { title: say("sectionNow", s.name, count(s.from), count(s.to - 1)) },
            el(
                "b", {}, s.short.startsWith("§") && s.name.includes(s.short.slice(1)) ? "" : s.short + " ",
                el("bdi", {}, s.name)
            ),
            el("i", {}, bar, share)
        );
        onClick(b, () => goToSection(s));
        return { s, bar, share, item: el("li", {}, b) };
    });
    matrix.contents.replaceChildren(...matrix.bars.map(b => b.item));
}
// Moves the view so that the section begins at its top left corner.
function goToSection(s) {
    const own = page.keys === page.tokens;
    if (isWhole()) zoomTo(min(CLOSEST, max(matrix.fit * 2, .9 * matrix.h / max(8, s.to - s.from))), s.from, s.from);
    moveWindow(own ? s.from - 1 : matrix.r0, s.from - 1);
    announce(say("sectionNow", s.name, count(s.from), count(s.to - 1)));
}
export function nextSection(by) {
    const [, keys] = sectionsOf(page.stack), at = matrix.c0 + 1.01;
    if (!keys.length) return announce(say("noSections"));
    let n = keys.findIndex(s => s.from > at);
    if (n < 0) n = keys.length;
    const now = isWhole() && by > 0 ? 0 : by > 0 ? n : n - 2;
    goToSection(keys[(now + keys.length) % keys.length]);
}
export function drawZooms() {
    const m = matrix;
    const fit = levelAt(m.fit);
    const now = levelAt(m.px);
    const levels = m.levels.filter(n => n >= fit);
    const key = [levels, now, isWhole()].join();
    if (m.zoomKey === key) return;
    m.zoomKey = key;
    const last = levels[levels.length - 1];
    m.zooms.replaceChildren(...levels.map(n => {
        const per = longest() / n;
        const ratio = `1 : ${per < 9.5 && n !== last ? round(per * 10) / 10 : count(round(per))}`;
        const text = n === fit && levels.length > 1
            ? say("zoomWhole", ratio)
            : n === last
            ? say("zoomSingle", ratio)
            : ratio;
        const b = el("button", { "aria-pressed": n === now }, text);
        onClick(b, () => n === fit
            ? wholeText()
            : zoomTo(
                n === last ? max(1.01, POINT, m.fit * 1.01) : POINT * n / longest(), m.r0 + rowsInView() / 2,
                m.c0 + keysInView() / 2
            ));
        return b;
    }));
}
export function drawMatrixScale() {
    const m = matrix, s = m.shownScale, key = [s, hue.dark, state.log, m.lock].join();
    if (m.rampKey === key) return;
    m.rampKey = key;
    m.locker.hidden = fixedScale();
    m.locker.setAttribute("aria-checked", m.lock > 0);
    m.ramp.replaceChildren(
        el("span", {}, "0"), rampCanvas(96, x => rampAt(darkness(x * (s || 1), s))),
        el("span", {}, s ? weight(s, s < .1 ? 4 : 2) : "1")
    );
}

// ---- right: minimap, text, strongest keys ----------------------------------------------------------
export function buildMatrixRight() {
    const m = matrix;
    m.mini = el("canvas", { "aria-hidden": "true", id: "minimap" });
    m.miniImage = document.createElement("canvas");
    const drag = e => {
        const r = m.mini.getBoundingClientRect();
        moveWindow(
            (e.clientY - r.top) / r.height * page.T - rowsInView() / 2,
            (e.clientX - r.left) / r.width * page.S - keysInView() / 2
        );
    };
    m.mini.addEventListener("pointerdown", e => { m.mini.setPointerCapture(e.pointerId); m.dragging = true; drag(e); });
    m.mini.addEventListener("pointermove", e => m.dragging && drag(e));
    for (const end of ["pointerup", "pointercancel"]) m.mini.addEventListener(end, () => { m.dragging = false; });
    m.miniNote = el("div", { class: "note" });
    m.rowPanel = el("div", { class: "row-panel" });
    const mini = el("div", { class: "mini" }, m.mini, m.miniNote);
    return [el("div", { class: "far" }, el("h2", {}, say("whole")), mini), m.rowPanel];
}
// Returns the number of points per side of the minimap.
const miniLevel = () => min(256, longest());
function fillMinimap(end) {
    const field = matrix.field, n = miniLevel(), rows = min(n, page.T), columns = min(n, page.S);
    if (!field || page.view.id !== "matrix") return true;
    for (let r = 0; r < rows; r++) {
        if (field.known(n, r, 0, columns)) continue;
        if (performance.now() > end) { requestDraw("target"); return false; }
        field.fill(n, r, 0, columns);
    }
    matrix.miniKey = null;
    requestDraw("target");
    return true;
}
export function drawMinimap() {
    const m = matrix, c = m.mini.getContext("2d"), field = m.field, l = matrixTarget();
    if (!field) return;
    const coarse = coarseOf(field);
    const n = coarse?.n ?? miniLevel();
    const rows = min(n, page.T);
    const columns = min(n, page.S);
    const v = { n, rows, columns, r0: 0, r1: rows, c0: 0, c1: columns };
    const missing = coarse ? 0 : missingRows(field, v);
    const key = [m.fieldKey, m.mode, n, missing, hue.dark, hue.forced, state.log].join();
    if (m.miniKey !== key) {
        m.miniKey = key;
        const lists = [];
        for (let r = 0; r < rows; r++) {
            const p = pointsOf(field, v, r);
            if (p) lists.push(p.values.subarray(p.first, p.first + columns));
        }
        pointsImage(m.miniImage, field, v, fixedScale() ? 0 : scaleOf(lists));
        if (missing) runInSlices("minimap", fillMinimap);
    }
    c.setTransform(m.d, 0, 0, m.d, 0, 0);
    c.fillStyle = css(rampAt(0));
    c.fillRect(0, 0, m.miniW, m.miniH);
    c.imageSmoothingEnabled = columns > m.miniW * m.d;
    c.drawImage(m.miniImage, 0, 0, m.miniW, m.miniH);
    const x = m.c0 / page.S * m.miniW;
    const y = m.r0 / page.T * m.miniH;
    const w = keysInView() / page.S * m.miniW;
    const h = rowsInView() / page.T * m.miniH;
    if (l.row >= 0) {
        c.fillStyle = markColour();
        c.fillRect(0, (l.row + .5) / page.T * m.miniH - .5, m.miniW, 1);
    }
    c.strokeStyle = hue.text;
    c.lineWidth = 1.5;
    c.strokeRect(x + .75, y + .75, max(3, w - 1.5), max(3, h - 1.5));
    const [, first, last] = m.miniNote.children, put = (node, text, at) => {
        if (node.textContent !== text) node.textContent = text;
        node.style.top = at - 7 + "px";
    };
    put(first, isWhole() ? "" : count(round(m.r0)), max(44, y));
    put(last, isWhole() ? "" : count(round(m.r0 + rowsInView())), max(60, y + 15, y + h));
}
const AROUND = 22;
export function drawRowPanel() {
    const m = matrix;
    const i = describedRow();
    const places = (page.about.texts ?? [])[page.stack.about.rows ?? 0]?.places;
    const keyPlaces = (page.about.texts ?? [])[page.stack.about.keys ?? 0]?.places;
    const sees = [i, m.fieldKey, state.raw, state.special, hue.dark, hue.forced].join();
    if (m.rowPanelKey === sees) return;
    m.rowPanelKey = sees;
    for (const b of m.bars) b.item.className = "";
    if (i < 0 || !m.field) {
        for (const b of m.bars) { b.bar.style.width = "0"; b.share.textContent = ""; }
        m.contentsNote.hidden = true;
        return m.rowPanel.replaceChildren(el("p", { class: "note act" }, say("markHint")));
    }
    const row = rowSummary(i), shares = m.bars.map(b => row.sum(b.s.from, b.s.to));
    m.contentsNote.hidden = false;
    m.bars.forEach((b, n) => {
        b.bar.style.width = max(shares[n] > 0 ? 1 : 0, 90 * min(1, shares[n])) + "px";
        b.share.textContent = share(shares[n]);
        b.item.className = shares[n] < .005 ? "faint" : "";
    });
    const first = m.bars[shares.indexOf(max(...shares))]?.item, list = m.contents;
    if (first &&
        (first.offsetTop < list.scrollTop || first.offsetTop + first.offsetHeight > list.scrollTop + list.clientHeight))
        list.scrollTop = first.offsetTop - 40;
    const top = row.top.filter(([j]) => isKeyShown(j)), own = page.keys === page.tokens, most = top[0]?.[1] ?? 0;
    const far = top.find(([j]) => !own || abs(j - i) > AROUND)?.[0] ?? -1;
    const span = (at, T) => [max(0, at - AROUND), min(T, at + AROUND + 1)];
    const mark = j => { if (own) set({ row: j, key: -1 }); else set({ key: j }); };
    const parts = [el("h2", {}, say("rowShaded", count(i)))];
    if (own)
        parts.push(
            el("p", { class: "note" }, say("aroundQuery", count(i))),
            shadedText(page.tokens, places, ...span(i, page.T), j => row.at(j), most, i, mark)
        );
    if (far >= 0 && page.S > 2 * AROUND)
        parts.push(
            el("p", { class: "note" }, say("aroundKey", count(far))),
            shadedText(page.keys, keyPlaces, ...span(far, page.S), j => row.at(j), most, own ? i : -1, mark)
        );
    else if (!own) parts.push(shadedText(page.keys, keyPlaces, 0, page.S, j => row.at(j), most, -1, mark));
    const td = (text, kind) => el("td", kind ? { class: kind } : {}, nameNode(text));
    const cells = top.slice(0, 8).filter((x, n) => !n || x[1] >= 5e-4);
    const rows = cells.map(([j, w]) =>
        el("tr", {}, td(page.keys[j].text, "text"), td(count(j)), el("td", {}, el("b", {}, weight(w, 3)))));
    const left = row.sum(0, page.S) - cells.reduce((s, x) => s + x[1], 0);
    const also = (name, w) =>
        rows.push(el("tr", { class: "rest" }, td(name, "text"), td(""), td(weight(max(0, w), 3))));
    if (left > .0005) also(say("more", count(page.S - cells.length)), left);
    if (row.rest > .0005) also(say("notInFile"), row.rest);
    parts.push(
        el(
            "table", {},
            el(
                "thead", {},
                el("tr", {}, ...[say("strongestKeys"), "token", "weight"].map(t => el("th", { scope: "col" }, t)))
            ),
            el("tbody", {}, ...rows)
        )
    );
    m.rowPanel.replaceChildren(...parts);
}
function pointMatrix(e) {
    const p = e ? matrixPoint(e) : null, old = matrix.point;
    if (!p && !old) return;
    if (p && old && floor(p.y) === floor(old.y) && floor(p.x) === floor(old.x)) {
        old.px = p.px;
        old.py = p.py;
        return;
    }
    matrix.point = p && sharpen(p);
    requestDraw("target");
}
export function placeTip() {
    const m = matrix, p = m.point, tip = m.tip;
    tip.hidden = !p || !m.field || m.moving;
    if (tip.hidden) return;
    const name = (tokens, k) => tokens[k].special ? tokens[k].text : state.raw ? tokens[k].raw : tokens[k].text;
    const lines = tipLines(p, name);
    const late = p.px > m.wide / 2; // the tip is on the wider side of the pointer, so its size need not be measured
    tip.replaceChildren(el("b", {}, lines[0]), el("span", {}, lines[1]));
    Object.assign(
        tip.style,
        {
            left: late ? "auto" : p.px + 18 + "px", right: late ? m.wide - p.px + 18 + "px" : "auto",
            top: max(0, p.py - 54) + "px"
        }
    );
}
export function listenMatrix() {
    const m = matrix, touches = new Map();
    const spread = () => {
        const [a, b] = [...touches.values()];
        return Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
    };
    m.box.addEventListener("pointerdown", e => {
        if (e.button) return;
        touches.set(e.pointerId, e);
        m.start = { x: e.clientX, y: e.clientY, r0: m.r0, c0: m.c0, moved: false };
        m.pinch = touches.size === 2 ? { far: spread(), px: m.px } : null;
        if (!isWhole()) m.box.setPointerCapture(e.pointerId);
    });
    m.box.addEventListener("pointermove", e => {
        if (!touches.has(e.pointerId)) return e.pointerType === "touch" ? undefined : pointMatrix(e);
        touches.set(e.pointerId, e);
        if (m.pinch && touches.size === 2) {
            const [a, b] = [...touches.values()];
            const p = matrixPoint({ clientX: (a.clientX + b.clientX) / 2, clientY: (a.clientY + b.clientY) / 2 });
            m.start.moved = true;
            return p ? zoomTo(m.pinch.px * spread() / m.pinch.far, p.y, p.x) : undefined;
        }
        const dx = e.clientX - m.start.x, dy = e.clientY - m.start.y;
        if (!m.start.moved && abs(dx) + abs(dy) < 5) return;
        m.start.moved = m.moving = true;
        m.point = null;
        moveWindow(m.start.r0 - dy / m.px, m.start.c0 - dx / m.px);
    });
    const end = e => { touches.delete(e.pointerId); m.moving = false; };
    m.box.addEventListener("pointerup", e => {
        const click = touches.has(e.pointerId) && !m.start.moved;
        end(e);
        if (!click) return;
        const p = matrixPoint(e);
        if (!p) return;
        const { row, key } = sharpen(p);
        set(state.row === row && state.key === key ? { row: -1, key: -1 } : { row, key });
    });
    m.box.addEventListener("pointercancel", end);
    m.box.addEventListener("pointerleave", () => pointMatrix(null));
    m.box.addEventListener("dblclick", e => { const p = matrixPoint(e); if (p) zoomTo(m.px * 2, p.y, p.x); });
    m.box.addEventListener("wheel", e => {
        if (!e.ctrlKey) return;
        e.preventDefault();
        const p = matrixPoint(e);
        if (p) zoomTo(m.px * Math.exp(-e.deltaY / 200), p.y, p.x);
    }, { passive: false });
}
// Handles the arrow keys: they move the view. If the whole text is in view, or with Shift, they move the marked row or
// key.
export function panMatrix(dx, dy, shift) {
    const m = matrix;
    if (!isWhole() && !shift) return moveWindow(m.r0 + dy * rowsInView() / 8, m.c0 + dx * keysInView() / 8);
    // a step from one shown token to the next
    const step = (n, by, shown) => max(0, min(shown - 1, n + by));
    const row = queryAt(state.row < 0 ? m.r0 + rowsInView() / 2 : step(rowPlace(state.row), dy, rowsShown()));
    const first = dx && state.key < 0 ? rowSummary(row).top[0]?.[0] ?? 0 : state.key;
    const key = first === state.key && first >= 0 ? keyAt(step(keyPlace(first), dx, keysShown())) : first;
    m.point = null;
    set({ row, key });
    revealRow(state.row, state.key);
}
export function revealRow(i, j = -1) {
    const m = matrix, at = rowPlace(i), low = m.px * 2;
    const key = j >= 0 ? keyPlace(j) : page.keys === page.tokens ? at : m.c0 + keysInView() / 2;
    const r0 = at < m.r0 || at + 1 > m.r0 + rowsInView() ? at - rowsInView() / 2 : m.r0;
    const c0 = key < m.c0 || key + 1 > m.c0 + keysInView() ? key - keysInView() / 2 : m.c0;
    if (low && (r0 !== m.r0 || c0 !== m.c0)) moveWindow(r0, c0);
}
export function markRow() {
    const p = matrix.point;
    if (p) return set({ row: p.row, key: p.key });
    set({ row: state.row >= 0 ? -1 : queryAt(matrix.r0 + rowsInView() / 2), key: -1 });
}
