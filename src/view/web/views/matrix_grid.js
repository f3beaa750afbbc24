// SPDX-License-Identifier: MIT
// matrix_grid.js: computes what the matrix view shows: its zoom, its position, and the points, from points that each
// represent many weights down to single weights.
import { ceil, floor, max, min, round } from "../base/math.js";
import { addTexts, count, say } from "../base/messages.js";
import { el, windowWidth } from "../base/dom.js";
import { selectedHeads, page, state } from "../base/state.js";
import { requestDraw } from "../base/drawing.js";
import { writeAddress } from "../base/frame.js";
import { Field, firstOf, fixedScale, levelsOf, scaleOf, shadeRow, shadesOf } from "../parts/heatmap.js";

function layMinimap() {
    const m = matrix, most = min(256, m.mini.parentNode.clientWidth - 84), shape = page.T / page.S;
    m.miniW = max(48, round(shape > 1 ? most / shape : most));
    m.miniH = max(48, round(shape > 1 ? most : most * shape));
    m.mini.width = round(m.miniW * m.d);
    m.mini.height = round(m.miniH * m.d);
    Object.assign(m.mini.style, { width: m.miniW + "px", height: m.miniH + "px" });
    m.miniNote.replaceChildren(
        el("div", {}, say("weightsAHead", count(page.T * page.S))), el("div", {}), el("div", {})
    );
}
export const isKeyShown = j => state.special || !page.keys[j].special || page.keys.every(k => k.special);

// ---- pointer -------------------------------------------------------------------------------------------------
export function matrixPoint(e) {
    const m = matrix;
    const box = m.box.getBoundingClientRect();
    const x = (e.clientX - box.left - m.left) / m.px + m.c0;
    const y = (e.clientY - box.top - m.above) / m.px + m.r0;
    if (x < m.c0 || y < m.r0 || x >= min(keysShown(), m.c0 + keysInView()) ||
        y >= min(rowsShown(), m.r0 + rowsInView())) return null;
    return { x, y, row: queryAt(y), key: keyAt(x), px: e.clientX - box.left, py: e.clientY - box.top };
}
// Replaces a point that represents many weights by the pair with the largest weight, which is searched in its rows.
export function sharpen(p) {
    const m = matrix, field = m.field, n = levelAt(m.px), rows = min(n, page.T), columns = min(n, page.S);
    if (!field || n >= longest() || m.mode === "mean") return p;
    const r = floor(p.row * rows / page.T);
    const c = floor(p.key * columns / page.S);
    const i0 = firstOf(r, rows, page.T);
    const i1 = firstOf(r + 1, rows, page.T);
    const j0 = firstOf(c, columns, page.S);
    const j1 = firstOf(c + 1, columns, page.S);
    p.square = [i0, i1, j0, j1];
    if (i1 - i0 > (field.sparse ? 2000 : 24)) return p;
    let most = -1;
    for (let i = i0; i < i1; i++) {
        const one = field.sparse ? field.kept(i) : null, row = one ? null : field.row(i);
        const see = (j, w) => { if (w > most) { most = w; p.row = i; p.key = j; p.square = null; } };
        if (one) for (const [j, w] of one) { if (j >= j0 && j < j1) see(j, w); }
        else for (let j = j0; j < j1; j++) see(j, row[j]);
    }
    return p;
}
function pointAt(clientX, clientY) {
    const p = matrixPoint({ clientX, clientY });
    return p && sharpen(p);
}

// Returns the row and key under the pointer or, if there are none, the marked ones.
export function matrixTarget() {
    const p = matrix.point;
    return p ? { row: p.row, key: p.key, pointed: true } : { row: state.row, key: state.key };
}
// Returns the row that the panels describe: the marked row or, if none is marked, the row under the pointer.
export const describedRow = () => state.row >= 0 ? state.row : matrix.point?.row ?? -1;

addTexts({
    whereAttends: "Where does this text attend to itself?",
    whereCross: "Where does the output attend to the input?",
    inWindow: "tokens {0} to {1}",
    ofTokens: "all {0} tokens",
    onePoint: "one point is {0} of {1} × {2} weights",
    oneWeight: "one point is one weight",
    theStrongest: "the maximum",
    theMean: "the mean",
    farther: "{0} attends {1} tokens away on average, to {2} effective keys per row",
    crossMean: "{0} attends to {1} effective keys per row",
    timesUniform: "{0}× uniform",
    tipPair: "{0} {1} → {2} {3}",
    tipSquare: "{0} to {1} → {2} to {3}",
    tipWeight: "weight {0}, {1}",
    tipMean: "mean weight {0}",
    tipMasked: "masked",
    tipNotKept: "not stored: {0}",
    keptMost: "at most {0}",
    tiny: "below .0001",
    leftOut: "{0} of the weight goes to {1}, which are not shown.",
    showThem: "Key S shows them.",
    onlyKept: "At zoom levels finer than 1 : {0} the file has only the largest weights of each row, {1} of all weight.",
    onlyKeptAll: "The file has only the largest weights of each row, {0} of all weight.",
    bandEdge: "{0} tokens away",
    slopeEdge: "× .01"
});

export const POINT = 2.66;
export const LABELLED = 10;
export const NUMBERED = 19;
export const CLOSEST = 34;
export const matrix = { px: 0, r0: 0, c0: 0, mode: "max", lock: 0, point: null, field: null };

// Returns what is drawn: the selected heads of the layer, as a Field.
export function fieldNow() {
    const heads = selectedHeads(), key = [state.stack, state.layer, heads].join("|");
    if (!heads.length) return null;
    if (matrix.fieldKey !== key) {
        matrix.fieldKey = key;
        matrix.field = new Field(state.layer, heads);
        matrix.row = null;
    }
    return matrix.field;
}
// Special tokens that are hidden have no rows and columns in a text of up to 64 tokens; longer texts cover them.
// Places count the tokens that are shown; m.rows and m.keys list these, or are null if all tokens have a place.
const isCompact = () => longest() <= 64 && !state.special && !page.allSpecial && page.specials.length > 0;
const placeIn = (list, i) => {
    if (!list) return i;
    const n = list.findIndex(k => k + 1 > i);
    return n < 0 ? list.length : n + max(0, i - list[n]);
};
const tokenIn = (list, place) => list ? list[min(list.length - 1, floor(place))] : floor(place);
export const rowPlace = i => placeIn(matrix.rows, i);
export const keyPlace = j => placeIn(matrix.keys, j);
export const queryAt = place => tokenIn(matrix.rows, place);
export const keyAt = place => tokenIn(matrix.keys, place);
export const rowsShown = () => matrix.rows?.length ?? page.T;
export const keysShown = () => matrix.keys?.length ?? page.S;
// Returns the tokens in view that have a label: [token, ...].
export const labelledRows = () => tokensFrom(queryAt, matrix.r0, min(rowsShown(), matrix.r0 + rowsInView() - .2));
export const labelledKeys = () => tokensFrom(keyAt, matrix.c0, min(keysShown(), matrix.c0 + keysInView() - .2));
function tokensFrom(at, from, end) {
    const out = [];
    for (let k = ceil(from - .5); k < end; k++) out.push(at(k));
    return out;
}
export const longest = () => max(page.T, page.S);
// Returns the level that is drawn at a zoom of px pixels per token. If tokens are at least a pixel wide, it is the
// level of single weights; if not, the level with points of at most 3 pixels. Where that level knows only the stored
// weights, it is the level of the file, with points of up to 6 pixels.
export function levelAt(px) {
    const levels = matrix.levels, last = levels[levels.length - 1], side = matrix.field?.side ?? 0;
    if (px >= 1) return last;
    const n = levels.find(n => px * longest() / n <= 3) ?? last;
    return matrix.field?.sparse && n > side && side && px * longest() / side <= 6 ? side : n;
}

// ---- geometry --------------------------------------------------------------------------------------
export function layMatrix() {
    const m = matrix, wide = m.box.clientWidth, narrow = windowWidth() <= 760, d = devicePixelRatio || 1;
    const top = m.box.getBoundingClientRect().top + scrollY;
    const space = max(320, innerHeight - min(top, innerHeight / 2) - (narrow ? 30 : 76));
    m.levels = levelsOf(page.T, page.S);
    m.rows = isCompact() ? page.visible : null;
    m.keys = isCompact() ? page.visibleKeys : null;
    const shape = min(3, max(1 / 3, rowsShown() / keysShown()));
    const area = labelled => {
        const left = labelled ? narrow ? 64 : 92 : 34, above = labelled ? 64 : 24;
        const w = floor(min(wide - left - (labelled ? 26 : 2), (space - above) / shape));
        const h = floor(min(space - above, w * shape));
        return { left, above, w, h, fit: min(w / keysShown(), h / rowsShown()) };
    };
    // px is below 0 after a layout while the view had no width
    const plainArea = area(false), whole = !(m.px > 0) || m.px <= (m.fit ?? 0) * 1.001;
    m.labelled = (whole ? plainArea.fit : m.px) >= LABELLED;
    Object.assign(m, area(m.labelled), { d, wide });
    if (whole || m.px < m.fit) m.px = m.fit;
    m.px = min(m.px, max(CLOSEST, m.fit));
    m.tall = m.above + m.h + 2;
    clampWindow();
    for (const c of [m.base, m.over]) {
        c.width = round(wide * d);
        c.height = round(m.tall * d);
        Object.assign(c.style, { width: wide + "px", height: m.tall + "px" });
    }
    m.box.style.height = m.tall + "px";
    layMinimap();
}
export const rowsInView = () => min(rowsShown(), matrix.h / matrix.px);
export const keysInView = () => min(keysShown(), matrix.w / matrix.px);
function clampWindow() {
    const m = matrix;
    m.r0 = min(max(0, m.r0), rowsShown() - rowsInView());
    m.c0 = min(max(0, m.c0), keysShown() - keysInView());
}
export const isWhole = () => matrix.px <= matrix.fit * 1.001;
export function moveWindow(r0, c0) {
    matrix.r0 = r0;
    matrix.c0 = c0;
    windowMoved();
    requestDraw("base");
}
function windowMoved() {
    const { point, box } = matrix, r = point && box.getBoundingClientRect();
    clampWindow();
    writeMatrix();
    // after the move, another token is under the pointer
    if (point) matrix.point = pointAt(r.left + point.px, r.top + point.py);
}
// Sets the zoom to px pixels per token. The point (row, key) stays where it is.
export function zoomTo(px, row, key) {
    const m = matrix, old = m.px, labelled = m.labelled;
    m.px = min(max(px, m.fit), max(CLOSEST, m.fit));
    if (m.px === old) return;
    m.r0 = row - (row - m.r0) * old / m.px;
    m.c0 = key - (key - m.c0) * old / m.px;
    windowMoved();
    requestDraw((m.px >= LABELLED) !== labelled ? "layout" : "base");
}
// Zooms around the pointer; without a pointer, around the marked row; without a marked row, around the middle.
export function zoomBy(times) {
    const m = matrix, p = m.point, at = rowPlace(state.row);
    const inside = at >= m.r0 && at <= m.r0 + rowsInView();
    const row = p ? p.y : state.row >= 0 && inside ? at + .5 : m.r0 + rowsInView() / 2;
    const key = p ? p.x : m.c0 + keysInView() / 2;
    zoomTo(m.px * times, row, key);
}
export function wholeText() {
    Object.assign(matrix, { px: 0, r0: 0, c0: 0 });
    writeMatrix();
    requestDraw("layout");
}
function writeMatrix() {
    clearTimeout(matrix.writing); // browsers limit how often the address may change
    matrix.writing = setTimeout(writeAddress, 200);
}
export const xOf = j => matrix.left + (keyPlace(j) - matrix.c0) * matrix.px;
export const yOf = i => matrix.above + (rowPlace(i) - matrix.r0) * matrix.px;

// ---- the points in view ------------------------------------------------------------------------
// Returns the rows and columns of a level that are in view: { n, rows, columns, r0, r1, c0, c1 }.
export function windowOf(n) {
    const m = matrix, rows = min(n, page.T), columns = min(n, page.S);
    if (m.rows) return { n, rows, columns, r0: 0, r1: rows, c0: 0, c1: columns };
    return {
        n, rows, columns, r0: floor(m.r0 * rows / page.T), r1: min(rows, ceil((m.r0 + rowsInView()) * rows / page.T)),
        c0: floor(m.c0 * columns / page.S), c1: min(columns, ceil((m.c0 + keysInView()) * columns / page.S))
    };
}
/**
 * Returns the points c0..c1 of row r: an array, and the index of the first point in it; null if they are not known.
 * @returns {?{ values: Float32Array, first: number }}
 */
export function pointsOf(field, v, r) {
    const all = field.pooled(v.n, matrix.mode);
    if (all) return { values: all, first: r * v.columns + v.c0 };
    const p = field.known(v.n, r, v.c0, v.c1);
    return p && { values: p[matrix.mode], first: v.c0 - p.from };
}
// Computes the points in view that are missing, until the time `end`. Returns true when none is missing.
export function fillWindow(end) {
    const field = matrix.field;
    if (!field || page.view.id !== "matrix") return true;
    const v = windowOf(levelAt(matrix.px)), margin = ceil((v.c1 - v.c0) / 4);
    let more = false;
    for (let r = v.r0; r < v.r1; r++) {
        if (pointsOf(field, v, r)) continue;
        if (performance.now() > end) { requestDraw("base"); return false; }
        field.fill(v.n, r, max(0, v.c0 - margin), min(v.columns, v.c1 + margin));
        more = true;
    }
    if (more) requestDraw("base");
    return true;
}
// Returns the scale for the points in view (0: fixed). It changes until all points are known.
export function scaleNow(field, v, whole) {
    const m = matrix;
    if (fixedScale()) return 0;
    if (m.lock) return m.lock;
    const key = [m.fieldKey, v.n, m.mode].join(), place = [key, v.r0, v.r1, v.c0, v.c1, whole].join();
    if (m.scalePlace !== place && (whole || m.scaleKey !== key)) {
        const lists = [];
        for (let r = v.r0; r < v.r1; r++) {
            const p = pointsOf(field, v, r);
            if (p) lists.push(p.values.subarray(p.first, p.first + v.c1 - v.c0));
        }
        if (!lists.length) return m.scale || coarseScale(field);
        m.scale = scaleOf(lists);
        if (whole) Object.assign(m, { scalePlace: place, scaleKey: key });
    }
    return m.scale;
}
// Returns the points of the whole text that are already known: from the file or, if it has none, from the minimap.
export function coarseOf(field) {
    for (const n of [256, 128, 64]) {
        const all = field.pooled(n, matrix.mode);
        if (all) return { n, rows: min(n, page.T), columns: min(n, page.S), all };
    }
    return null;
}
function coarseScale(field) {
    const c = coarseOf(field);
    return c ? scaleOf([c.all]) : .05;
}

// ---- drawing ----------------------------------------------------------------------------------------------------
// Writes rows of points to a canvas, one pixel per point. Rows that are not known stay transparent. Returns how many
// rows are known.
export function pointsImage(canvas, field, v, s) {
    const w = v.c1 - v.c0, h = v.r1 - v.r0, c = canvas.getContext("2d");
    canvas.width = w;
    canvas.height = h;
    const image = c.createImageData(w, h), pixels = new Uint32Array(image.data.buffer), table = shadesOf(s);
    let missing = 0;
    for (let r = v.r0; r < v.r1; r++) {
        const p = pointsOf(field, v, r);
        if (p) shadeRow(pixels, (r - v.r0) * w, p.values, p.first, w, table, s);
        else missing++;
    }
    c.putImageData(image, 0, 0);
    return missing;
}
export function missingRows(field, v) {
    let n = 0;
    for (let r = v.r0; r < v.r1; r++) if (!pointsOf(field, v, r)) n++;
    return n;
}
export const windowNow = () => [page.stack.about.left[state.layer], page.stack.about.right[state.layer]];
// Returns the distances of dashed lines: the edges of windows, and where an ALiBi slope reduces a weight to .01 of it.
export function bandEdges() {
    const out = [];
    const [left, right] = windowNow();
    const slope = selectedHeads().length === 1 ? page.weights.slope(state.layer, selectedHeads()[0]) : 0;
    if (left >= 0) out.push({ far: left, before: true, hatched: true });
    if (right >= 0 && !page.causal) out.push({ far: right, before: false, hatched: true });
    if (slope > 0) {
        const far = Math.log(100) / slope;
        if (far < longest()) {
            out.push({ far, before: true, hatched: false });
            if (!page.causal) out.push({ far, before: false, hatched: false });
        }
    }
    return out;
}
// Returns true if special tokens are left out of the picture; the note then says how much weight they have.
export const leavesOut = () => !state.special && !page.allSpecial && page.specials.length && matrix.px >= 1;
export const coversSpecials = () => leavesOut() && !matrix.rows;
