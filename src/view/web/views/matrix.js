// SPDX-License-Identifier: MIT
// matrix.js: the view "Where does this text attend to itself?": rows are queries, columns are keys. It can show a text
// of any length. matrix_panels.js builds the panels around it.
import { max, min } from "../base/math.js";
import { weight } from "../base/messages.js";
import { $, el } from "../base/dom.js";
import { selectedHeads, page, state } from "../base/state.js";
import { css, hue, rampAt } from "../base/palette.js";
import { addView, headOfKey, set, selectOnly } from "../base/frame.js";
import { arrowOf } from "./model_grid.js";
import {
    CLOSEST, LABELLED, NUMBERED, fieldNow, isWhole, layMatrix, levelAt, matrixTarget, matrix, pointsOf, describedRow,
    keysShown, rowsShown, wholeText, windowOf, xOf, yOf, zoomBy
} from "./matrix_grid.js";
import {
    drawGaps, drawHeat, drawMask, drawNumbers, drawSectionLabels, drawSectionLines, drawTokenLabels, hideSpecials,
    markColour
} from "./matrix_draw.js";
import { answerMatrix, matrixNote, matrixSvg, matrixTable } from "./matrix_text.js";
import {
    buildMatrixLeft, buildMatrixRight, drawMatrixScale, drawMinimap, drawRowPanel, drawZooms, layContents,
    listenMatrix, markRow, nextSection, panMatrix, placeTip, revealRow, stepLayer
} from "./matrix_panels.js";

function drawMatrixBase() {
    const m = matrix, c = m.base.getContext("2d"), field = fieldNow();
    c.setTransform(m.d, 0, 0, m.d, 0, 0);
    c.clearRect(0, 0, m.wide, m.tall);
    if (!field) return;
    c.save();
    c.beginPath();
    c.rect(m.left, m.above, min(m.w, keysShown() * m.px), min(m.h, rowsShown() * m.px));
    c.clip();
    c.fillStyle = css(rampAt(0));
    c.fillRect(m.left, m.above, m.w, m.h);
    drawHeat(c, field);
    drawMask(c);
    hideSpecials(c);
    if (m.px >= LABELLED) drawGaps(c);
    drawSectionLines(c);
    if (m.px >= NUMBERED) drawNumbers(c, field);
    c.restore();
    if (m.px >= LABELLED) drawTokenLabels(c); else drawSectionLabels(c);
    c.strokeStyle = hue.rule;
    c.lineWidth = 1;
    c.strokeRect(m.left - .5, m.above - .5, min(m.w, keysShown() * m.px) + 1, min(m.h, rowsShown() * m.px) + 1);
}
// Draws the marks on the matrix: the marked row, the pair, and the point under the pointer.
function drawMatrixOver() {
    const m = matrix, c = m.over.getContext("2d"), l = matrixTarget(), thin = max(1, min(m.px, 2));
    c.setTransform(m.d, 0, 0, m.d, 0, 0);
    c.clearRect(0, 0, m.wide, m.tall);
    if (!m.field) return;
    c.save();
    c.beginPath();
    c.rect(m.left - 4, m.above - 4, m.w + 8, m.h + 8);
    c.clip();
    const edge = hue.dark || hue.forced ? hue.paper : hue.text2, line = markColour();
    if (l.row >= 0 && m.px < LABELLED) {
        c.fillStyle = edge;
        c.fillRect(m.left, yOf(l.row + .5) - thin / 2 - 1, m.w, thin + 2);
    }
    c.fillStyle = c.strokeStyle = line;
    if (l.row >= 0) {
        if (m.px >= LABELLED) { c.lineWidth = 2; c.strokeRect(m.left, yOf(l.row), min(m.w, keysShown() * m.px), m.px); }
        else c.fillRect(m.left, yOf(l.row + .5) - thin / 2, m.w, thin);
    }
    const key = l.key >= 0 ? l.key : -1;
    if (key >= 0 && m.px < LABELLED) {
        c.setLineDash([2, 3]);
        c.strokeStyle = hue.dark ? line : hue.text2;
        c.lineWidth = 1;
        c.beginPath();
        c.moveTo(xOf(key + .5), m.above);
        c.lineTo(xOf(key + .5), m.above + m.h);
        c.stroke();
        c.setLineDash([]);
    }
    if (key >= 0 && l.row >= 0) {
        c.beginPath();
        if (m.px >= LABELLED) c.rect(xOf(key), yOf(l.row), m.px, m.px);
        else c.arc(xOf(key + .5), yOf(l.row + .5), 7, 0, 7);
        for (const [wide, colour] of [[4, edge], [2, line]]) {
            c.lineWidth = wide;
            c.strokeStyle = colour;
            c.stroke();
        }
    }
    c.restore();
}

// ---- the view -----------------------------------------------------------------------------------------------------
addView({
    key: "X", id: "matrix", name: "Matrix",
    can: () => true,
    build: () => {
        const m = matrix;
        m.base = el("canvas", { "aria-hidden": "true" });
        m.over = el("canvas", { "aria-hidden": "true" });
        m.image = document.createElement("canvas");
        m.tip = el("div", { class: "tip", hidden: "" });
        m.box = el("div", { id: "matrix", role: "group", tabindex: 0 }, m.base, m.over, m.tip);
        m.note = el("p", { class: "note" });
        listenMatrix();
        const nodes = { left: buildMatrixLeft(), mid: [m.box, m.note], right: buildMatrixRight() };
        layContents();
        return nodes;
    },
    stack: () => Object.assign(
        matrix,
        {
            px: 0, r0: 0, c0: 0, fieldKey: "", field: null, row: null, point: null, lock: 0, rowPanelKey: null,
            miniKey: null, zoomKey: null
        }
    ),
    show: () => { matrix.rowPanelKey = matrix.rampKey = null; },
    layout: () => layMatrix(),
    draw: what => {
        if (what !== "target") drawMatrixBase();
        drawMatrixOver();
        matrix.box.classList.toggle("whole", isWhole());
        placeTip();
    },
    panels: () => {
        const m = matrix;
        $("main").classList.toggle("short", max(page.T, page.S) <= 64);
        m.steppers[0].value.textContent = state.layer;
        m.steppers[1].value.textContent = selectedHeads().join(" ") || "–";
        drawMinimap();
        drawZooms();
        drawRowPanel();
        drawMatrixScale();
        m.modes.mark(m.mode);
        m.specials?.mark();
        m.scaleBox.hidden = false;
        m.note.replaceChildren(...matrixNote());
    },
    answer: () => answerMatrix(),
    get group() { return matrix.box; },
    table: () => matrixTable(),
    rest: n => {
        const list = matrixTable().slice(1 + n).reduce((s, r) => s + +r[2], 0);
        return describedRow() >= 0 ? weight(list, 3) : "";
    },
    svg: () => matrixSvg(),
    reveal: i => revealRow(i),
    drop: () => { matrix.point = null; },
    points: () => { // the drawn values as numbers, for the console and for tests
        const m = matrix, v = windowOf(levelAt(m.px)), all = { ...v, c0: 0, c1: v.columns };
        const point = (r, c) => {
            const p = pointsOf(m.field, { ...all, c0: c, c1: c + 1 }, r);
            return p && p.values[p.first];
        };
        return {
            n: v.n, rows: v.rows, columns: v.columns, T: page.T, S: page.S, px: m.px, r0: m.r0, c0: m.c0, left: m.left,
            above: m.above, mode: m.mode, point
        };
    },
    write: p => {
        const m = matrix;
        if (!isWhole() && m.px)
            for (const [name, x] of Object.entries({ zoom: m.px, top: m.r0, from: m.c0 }))
                p.set(name, `${+x.toPrecision(6)}`);
        if (m.mode === "mean") p.set("mean", "1");
    },
    read: p => {
        const number = (name, most) => { const x = parseFloat(p.get(name)); return x >= 0 && x <= most ? x : 0; };
        Object.assign(
            matrix,
            {
                px: number("zoom", CLOSEST), r0: number("top", page.T), c0: number("from", page.S),
                mode: p.get("mean") === "1" ? "mean" : "max"
            }
        );
    },
    keys: [
        [
            "+ −", "zoom", e => ["+", "=", "-", "−"].includes(e.key),
            e => zoomBy(e.key === "+" || e.key === "=" ? 2 : .5), 1
        ],
        ["← → ↑ ↓", "move (⇧: the mark)", e => arrowOf(e), e => panMatrix(...arrowOf(e), e.shiftKey), 1],
        ["J", "next section (⇧: previous)", "j", e => nextSection(e.shiftKey ? -1 : 1), 1],
        ["Enter", "mark a row", e => e.key === "Enter" && !e.target.closest("button, input, a"), () => markRow(), 1],
        ["W", "whole text", "w", () => wholeText(), 1],
        ["[ ]", "layer", e => e.key === "[" || e.key === "]", e => stepLayer(e.key === "[" ? -1 : 1), 1],
        ["0…9", "only this head", e => !e.shiftKey && /^Digit/.test(e.code) && headOfKey(e) >= 0,
            e => selectOnly(headOfKey(e))],
        ["G", "log scale", "g", () => set({ log: !state.log })]
    ]
});
