// SPDX-License-Identifier: MIT
// matrix.js: the view "Where does this text read itself?": rows ask, columns are read, any length:
// from the points of the whole text down to single weights.  What stands around it: minimap.js.

Object.assign(TEXT, {
    whereReads: "Where does this text read itself?",
    whereCross: "Where does the output read the input?",
    inWindow: "tokens {0} to {1}",
    ofTokens: "all {0} tokens",
    onePoint: "one point is {0} of {1} × {2} weights",
    oneWeight: "one point is one weight",
    theStrongest: "the strongest",
    theMean: "the mean",
    farther: "{0} reads {1} tokens away on mean and {2} keys a row",
    crossMean: "{0} reads {1} keys a row",
    evenShares: "{0} even shares",
    tipPair: "{0} {1} → {2} {3}",
    tipSquare: "{0} to {1} → {2} to {3}",
    tipWeight: "weight {0}, {1}",
    tipMean: "mean weight {0}",
    tipMasked: "masked",
    tipNotKept: "not among the weights kept: {0}",
    keptMost: "at most {0}",
    tiny: "below .0001",
    leftOut: "{0} of the weight goes to {1}, which are left out here (S shows them).",
    onlyKept: "Finer than 1 : {0} the picture has only the strongest weights of each row, {1} of the weight; the rest is not in this file.",
    onlyKeptAll: "The picture has only the strongest weights of each row, {0} of the weight; the rest is not in this file.",
    bandEdge: "{0} tokens away",
    slopeEdge: "× .01"
});

const POINT = 2.66, LABELLED = 10, NUMBERED = 19, CLOSEST = 34;
const matrix = { px: 0, r0: 0, c0: 0, mode: "max", lock: 0, point: null, field: null };

// The field that is shown: the lit heads of the layer.
function fieldNow() {
    const heads = lit(), key = [state.stack, state.layer, heads].join("|");
    if (!heads.length) return null;
    if (matrix.fieldKey !== key) {
        matrix.fieldKey = key;
        matrix.field = new Field(state.layer, heads);
        matrix.row = null;
    }
    return matrix.field;
}
const longest = () => max(page.T, page.S);
// The level that is drawn at a zoom: single weights where they are a pixel wide, else points of 3 at most;
// where finer levels have only what was kept, the file's own points up to 6.
function levelAt(px) {
    const levels = matrix.levels, last = levels[levels.length - 1], side = matrix.field?.side ?? 0;
    if (px >= 1) return last;
    const n = levels.find(n => px * longest() / n <= 3) ?? last;
    return matrix.field?.sparse && n > side && side && px * longest() / side <= 6 ? side : n;
}

// ---- places -----------------------------------------------------------------------------------------------
function layMatrix() {
    const m = matrix, wide = m.box.clientWidth, narrow = innerWidth <= 760, d = devicePixelRatio || 1;
    const top = m.box.getBoundingClientRect().top + scrollY, room = max(320, innerHeight - min(top, innerHeight / 2) - (narrow ? 30 : 76));
    m.levels = levelsOf(page.T, page.S);
    const shape = min(3, max(1 / 3, page.T / page.S));
    const area = labelled => {
        const left = labelled ? narrow ? 64 : 92 : 34, above = labelled ? 64 : 24;
        const w = floor(min(wide - left - (labelled ? 26 : 2), (room - above) / shape)), h = floor(min(room - above, w * shape));
        return { left, above, w, h, fit: min(w / page.S, h / page.T) };
    };
    const plainArea = area(false), whole = !m.px || m.px <= (m.fit ?? 0) * 1.001;
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
const rowsInView = () => min(page.T, matrix.h / matrix.px), keysInView = () => min(page.S, matrix.w / matrix.px);
function clampWindow() {
    const m = matrix;
    m.r0 = min(max(0, m.r0), page.T - rowsInView());
    m.c0 = min(max(0, m.c0), page.S - keysInView());
}
const isWhole = () => matrix.px <= matrix.fit * 1.001;
function moveWindow(r0, c0) {
    matrix.r0 = r0;
    matrix.c0 = c0;
    windowMoved();
    ask("base");
}
function windowMoved() {
    const { point, box } = matrix, r = point && box.getBoundingClientRect();
    clampWindow();
    writeMatrix();
    if (point) matrix.point = pointAt(r.left + point.px, r.top + point.py); // another token lies there now
}
// Zoom to px pixels a token; what lies at (row, key) stays where it is.
function zoomTo(px, row, key) {
    const m = matrix, old = m.px, labelled = m.labelled;
    m.px = min(max(px, m.fit), max(CLOSEST, m.fit));
    if (m.px === old) return;
    m.r0 = row - (row - m.r0) * old / m.px;
    m.c0 = key - (key - m.c0) * old / m.px;
    windowMoved();
    ask((m.px >= LABELLED) !== labelled ? "layout" : "base");
}
// Zooms at what is pointed at, else at the marked row, else in the middle.
function zoomBy(times) {
    const m = matrix, p = m.point, inside = state.row >= m.r0 && state.row <= m.r0 + rowsInView();
    const row = p ? p.y : state.row >= 0 && inside ? state.row + .5 : m.r0 + rowsInView() / 2, key = p ? p.x : m.c0 + keysInView() / 2;
    zoomTo(m.px * times, row, key);
}
function wholeText() {
    Object.assign(matrix, { px: 0, r0: 0, c0: 0 });
    writeMatrix();
    ask("layout");
}
function writeMatrix() {
    clearTimeout(matrix.writing); // browsers count changes of the address
    matrix.writing = setTimeout(writeAddress, 200);
}
const xOf = j => matrix.left + (j - matrix.c0) * matrix.px, yOf = i => matrix.above + (i - matrix.r0) * matrix.px;

// ---- points of the window -----------------------------------------------------------------------------------
// The level's rows and columns in view: { n, rows, columns, r0, r1, c0, c1 }.
function windowOf(n) {
    const m = matrix, rows = min(n, page.T), columns = min(n, page.S);
    return { n, rows, columns, r0: floor(m.r0 * rows / page.T), r1: min(rows, ceil((m.r0 + rowsInView()) * rows / page.T)), c0: floor(m.c0 * columns / page.S), c1: min(columns, ceil((m.c0 + keysInView()) * columns / page.S)) };
}
// Points c0..c1 of row r: [array, where they begin], or null.
function pointsOf(field, v, r) {
    const all = field.pooled(v.n, matrix.mode);
    if (all) return [all, r * v.columns + v.c0];
    const p = field.known(v.n, r, v.c0, v.c1);
    return p && [p[matrix.mode], v.c0 - p.from];
}
// Computes what the window lacks; true: nothing.
function fillWindow(end) {
    const field = matrix.field;
    if (!field || page.view.id !== "matrix") return true;
    const v = windowOf(levelAt(matrix.px)), margin = ceil((v.c1 - v.c0) / 4);
    let more = false;
    for (let r = v.r0; r < v.r1; r++) {
        if (pointsOf(field, v, r)) continue;
        if (performance.now() > end) { ask("base"); return false; }
        field.fill(v.n, r, max(0, v.c0 - margin), min(v.columns, v.c1 + margin));
        more = true;
    }
    if (more) ask("base");
    return true;
}
// The scale of what is on view (0: the fixed one); settles when all points are there.
function scaleNow(field, v, whole) {
    const m = matrix;
    if (fixedScale()) return 0;
    if (m.lock) return m.lock;
    const key = [m.fieldKey, v.n, m.mode].join(), place = [key, v.r0, v.r1, v.c0, v.c1, whole].join();
    if (m.scalePlace !== place && (whole || m.scaleKey !== key)) {
        const lists = [];
        for (let r = v.r0; r < v.r1; r++) {
            const p = pointsOf(field, v, r);
            if (p) lists.push(p[0].subarray(p[1], p[1] + v.c1 - v.c0));
        }
        if (!lists.length) return m.scale || coarseScale(field);
        m.scale = scaleOf(lists);
        if (whole) Object.assign(m, { scalePlace: place, scaleKey: key });
    }
    return m.scale;
}
// Points of the whole text that are there at once: of the file, else what the minimap has so far.
function coarseOf(field) {
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
// Rows of points as a canvas of as many pixels; rows that are not there stay clear.
function pointsImage(canvas, field, v, s) {
    const w = v.c1 - v.c0, h = v.r1 - v.r0, c = canvas.getContext("2d");
    canvas.width = w;
    canvas.height = h;
    const image = c.createImageData(w, h), pixels = new Uint32Array(image.data.buffer), table = shadesOf(s);
    let missing = 0;
    for (let r = v.r0; r < v.r1; r++) {
        const p = pointsOf(field, v, r);
        if (p) shadeRow(pixels, (r - v.r0) * w, p[0], p[1], w, table, s);
        else missing++;
    }
    c.putImageData(image, 0, 0);
    return missing;
}
function missingRows(field, v) {
    let n = 0;
    for (let r = v.r0; r < v.r1; r++) if (!pointsOf(field, v, r)) n++;
    return n;
}
function drawHeat(c, field) {
    const m = matrix, v = windowOf(levelAt(m.px)), missing = missingRows(field, v), s = scaleNow(field, v, !missing);
    m.view = v;
    m.shownScale = s;
    c.imageSmoothingEnabled = false;
    const put = (canvas, u) => c.drawImage(canvas, xOf(u.c0 * page.S / u.columns), yOf(u.r0 * page.T / u.rows), (u.c1 - u.c0) * page.S / u.columns * m.px, (u.r1 - u.r0) * page.T / u.rows * m.px);
    const coarse = missing ? coarseOf(field) : null;
    if (coarse && coarse.n !== v.n) {
        const u = windowOf(coarse.n);
        pointsImage(m.image, field, u, s);
        put(m.image, u);
    }
    if (missing < v.r1 - v.r0) {
        pointsImage(m.image, field, v, s);
        put(m.image, v);
    }
    if (missing) toil("matrix", fillWindow);
}
function drawMatrixBase() {
    const m = matrix, c = m.base.getContext("2d"), field = fieldNow();
    c.setTransform(m.d, 0, 0, m.d, 0, 0);
    c.clearRect(0, 0, m.wide, m.tall);
    if (!field) return;
    c.save();
    c.beginPath();
    c.rect(m.left, m.above, min(m.w, page.S * m.px), min(m.h, page.T * m.px));
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
    c.strokeRect(m.left - .5, m.above - .5, min(m.w, page.S * m.px) + 1, min(m.h, page.T * m.px) + 1);
}
// Hatched: what the mask hides.  Windows show their edge, ALiBi where its factor is .01.
function drawMask(c) {
    const causal = page.causal, [left, right] = windowNow(), m = matrix, reach = i => weights.span(state.layer, i), i0 = floor(m.r0), i1 = min(page.T, ceil(m.r0 + rowsInView()));
    const side = (edge, far) => { // from the edge of each row to the far side
        c.beginPath();
        const step = m.px >= 3 ? 1 : max(1, floor((i1 - i0) / 400));
        c.moveTo(far, yOf(i0));
        for (let i = i0; i < i1; i += step) {
            c.lineTo(xOf(edge(i)), yOf(i));
            c.lineTo(xOf(edge(m.px >= 3 ? i : i + step)), yOf(min(i1, i + step)));
        }
        c.lineTo(far, yOf(i1));
        c.fillStyle = hue.paper;
        c.fill();
        c.fillStyle = hatchOf(c);
        c.fill();
    };
    if (causal || right >= 0) side(i => reach(i)[1], m.left + m.w);
    if (left >= 0) side(i => reach(i)[0], m.left);
    c.strokeStyle = hue.ink3;
    c.lineWidth = 1;
    for (const [far, before, thin] of bandEdges()) {
        if (thin && m.px >= 3) continue;
        c.setLineDash([4, 3]);
        c.beginPath();
        c.moveTo(xOf(i0 + (before ? -far : far + 1)), yOf(i0));
        c.lineTo(xOf(i1 + (before ? -far : far + 1)), yOf(i1));
        c.stroke();
        c.setLineDash([]);
    }
}
const windowNow = () => [page.stack.about.left[state.layer], page.stack.about.right[state.layer]];
// [tokens away, before the row, hatched as well]: windows, and where a slope leaves a hundredth.
function bandEdges() {
    const out = [], [left, right] = windowNow(), slope = lit().length === 1 ? weights.slope(state.layer, lit()[0]) : 0;
    if (left >= 0) out.push([left, true, true]);
    if (right >= 0 && !page.causal) out.push([right, false, true]);
    if (slope > 0) {
        const far = Math.log(100) / slope;
        if (far < longest()) out.push([far, true], ...(page.causal ? [] : [[far, false]]));
    }
    return out;
}
// Single tokens: hidden specials are left out of the picture; the note says what goes there.
const leavesOut = () => !state.special && !page.allSpecial && page.specials.length && matrix.px >= 1;
function hideSpecials(c) {
    const m = matrix;
    if (!leavesOut()) return;
    c.fillStyle = hue.panel;
    for (const j of page.special) c.fillRect(xOf(j), m.above, m.px, m.h);
    for (const i of page.specialRows) c.fillRect(m.left, yOf(i), m.w, m.px);
}
function drawGaps(c) {
    const m = matrix;
    c.fillStyle = hue.paper;
    for (let j = ceil(m.c0); j < m.c0 + keysInView(); j++) c.fillRect(xOf(j) - .5, m.above, 1, m.h);
    for (let i = ceil(m.r0); i < m.r0 + rowsInView(); i++) c.fillRect(m.left, yOf(i) - .5, m.w, 1);
}
function drawSectionLines(c) {
    const m = matrix, [rows, keys] = sectionsOf(page.stack);
    if (longest() <= 24) return;
    c.fillStyle = hue.ink;
    c.globalAlpha = hue.dark ? .22 : .16;
    for (const s of keys.slice(1)) c.fillRect(round(xOf(s.from)) - .5, m.above, 1, m.h);
    for (const s of rows.slice(1)) c.fillRect(m.left, round(yOf(s.from)) - .5, m.w, 1);
    c.globalAlpha = 1;
}
function drawSectionLabels(c) {
    const m = matrix, [rows, keys] = sectionsOf(page.stack);
    c.font = `12px ${page.font}`;
    c.fillStyle = hue.ink2;
    c.textBaseline = "middle";
    const within = (a, b, low, high) => [max(a, low), min(b, high)];
    let free = -Infinity;
    c.textAlign = "right";
    for (const s of rows) {
        const [a, b] = within(yOf(s.from), yOf(s.to), m.above, m.above + m.h), y = (a + b) / 2;
        if (b <= a || y < free || y > m.above + m.h) continue;
        c.fillText(s.short, m.left - 7, y, m.left - 8);
        free = y + 15;
    }
    free = -Infinity;
    c.textAlign = "center";
    for (const s of keys) {
        const [a, b] = within(xOf(s.from), xOf(s.to), m.left, m.left + m.w), x = (a + b) / 2, half = c.measureText(s.short).width / 2 + 3;
        if (b <= a || x - half < free) continue;
        c.fillText(s.short, x, m.above - 12);
        free = x + half;
    }
}
function drawTokenLabels(c) {
    const m = matrix, size = max(9.5, min(13, m.px - 1)), cut = t => t.length > 12 ? t.slice(0, 11) + "…" : t, text = t => cut(state.raw ? t.raw : t.text);
    c.font = `${size}px ${page.font}`;
    c.fillStyle = hue.ink;
    c.textBaseline = "middle";
    c.textAlign = "right";
    for (let i = ceil(m.r0 - .5); i < min(page.T, m.r0 + rowsInView() - .2); i++) c.fillText(text(page.tokens[i]), m.left - 7, yOf(i + .5), m.left - 9);
    c.textAlign = "left";
    c.font = `${max(9.5, min(13, .74 * m.px))}px ${page.font}`; // they lean: less room
    for (let j = ceil(m.c0 - .5); j < min(page.S, m.c0 + keysInView() - .2); j++) {
        c.save();
        c.translate(xOf(j + .5), m.above - 6);
        c.rotate(-.87);
        c.fillText(text(page.keys[j]), 0, 0, 76);
        c.restore();
    }
}
function drawNumbers(c, field) {
    const m = matrix, v = m.view, s = m.shownScale, hides = leavesOut();
    if (v.n !== longest()) return;
    c.font = `${m.px >= 24 ? 12 : 11}px ${page.font}`;
    c.textAlign = "center";
    c.textBaseline = "middle";
    for (let i = v.r0; i < v.r1; i++) {
        const p = pointsOf(field, v, i), [a, b] = weights.span(state.layer, i);
        if (!p || (hides && page.tokens[i].special)) continue;
        for (let j = max(v.c0, a); j < min(v.c1, b); j++) {
            if (hides && page.keys[j].special) continue;
            const w = p[0][p[1] + j - v.c0];
            if (w < .095) continue;
            c.fillStyle = w === w ? inkOn(rampAt(darkness(w, s))) : hue.paper;
            c.fillText(w > .995 ? "1" : w === w ? round(100 * w) : "!", xOf(j + .5), yOf(i + .5) + .5);
        }
    }
}
const markColour = () => hue.forced ? hue.ink : hue.point;
// The marked row, the pair, and what is pointed at.
function drawMatrixOver() {
    const m = matrix, c = m.over.getContext("2d"), l = lookMatrix(), thin = max(1, min(m.px, 2));
    c.setTransform(m.d, 0, 0, m.d, 0, 0);
    c.clearRect(0, 0, m.wide, m.tall);
    if (!m.field) return;
    c.save();
    c.beginPath();
    c.rect(m.left - 4, m.above - 4, m.w + 8, m.h + 8);
    c.clip();
    const edge = hue.dark || hue.forced ? hue.paper : hue.ink2, line = markColour();
    if (l.row >= 0 && m.px < LABELLED) {
        c.fillStyle = edge;
        c.fillRect(m.left, yOf(l.row + .5) - thin / 2 - 1, m.w, thin + 2);
    }
    c.fillStyle = c.strokeStyle = line;
    if (l.row >= 0) {
        if (m.px >= LABELLED) { c.lineWidth = 2; c.strokeRect(m.left, yOf(l.row), min(m.w, page.S * m.px), m.px); }
        else c.fillRect(m.left, yOf(l.row + .5) - thin / 2, m.w, thin);
    }
    const key = l.key >= 0 ? l.key : -1;
    if (key >= 0 && m.px < LABELLED) {
        c.setLineDash([2, 3]);
        c.strokeStyle = hue.dark ? line : hue.ink2;
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
    stack: () => Object.assign(matrix, { px: 0, r0: 0, c0: 0, fieldKey: "", field: null, row: null, point: null, lock: 0, readingKey: null, miniKey: null, zoomKey: null }),
    show: () => { matrix.readingKey = matrix.rampKey = null; },
    layout: () => layMatrix(),
    draw: what => {
        if (what !== "look") drawMatrixBase();
        drawMatrixOver();
        matrix.box.classList.toggle("whole", isWhole());
        placeTip();
    },
    panels: () => {
        const m = matrix;
        m.steppers[0].value.textContent = state.layer;
        m.steppers[1].value.textContent = lit().join(" ") || "–";
        drawMinimap();
        drawZooms();
        drawReading();
        drawMatrixScale();
        m.modes.mark(m.mode);
        m.scaleBox.hidden = false;
        m.note.textContent = matrixNote();
    },
    answer: () => answerMatrix(),
    get group() { return matrix.box; },
    table: () => matrixTable(),
    rest: n => {
        const list = matrixTable().slice(1 + n).reduce((s, r) => s + +r[2], 0);
        return readingRow() >= 0 ? weight(list, 3) : "";
    },
    svg: () => matrixSvg(),
    reveal: i => revealRow(i),
    drop: () => { matrix.point = null; },
    points: () => { // for the console, and for tests: what is drawn, as numbers
        const m = matrix, v = windowOf(levelAt(m.px)), all = { ...v, c0: 0, c1: v.columns };
        const point = (r, c) => { const p = pointsOf(m.field, { ...all, c0: c, c1: c + 1 }, r); return p && p[0][p[1]]; };
        return { n: v.n, rows: v.rows, columns: v.columns, T: page.T, S: page.S, px: m.px, r0: m.r0, c0: m.c0, left: m.left, above: m.above, mode: m.mode, point };
    },
    write: p => {
        const m = matrix;
        if (!isWhole() && m.px) for (const [name, x] of [["zoom", m.px], ["top", m.r0], ["from", m.c0]]) p.set(name, +x.toPrecision(6));
        if (m.mode === "mean") p.set("mean", 1);
    },
    read: p => {
        const number = (name, most) => { const x = parseFloat(p.get(name)); return x >= 0 && x <= most ? x : 0; };
        Object.assign(matrix, { px: number("zoom", CLOSEST), r0: number("top", page.T), c0: number("from", page.S), mode: p.get("mean") === "1" ? "mean" : "max" });
    },
    keys: [
        ["+ −", "zoom", e => ["+", "=", "-", "−"].includes(e.key), e => zoomBy(e.key === "+" || e.key === "=" ? 2 : .5), 1],
        ["← → ↑ ↓", "move (⇧: the mark)", e => arrowOf(e), e => panMatrix(...arrowOf(e), e.shiftKey), 1],
        ["J", "next section (⇧: the one before)", "j", e => nextSection(e.shiftKey ? -1 : 1), 1],
        ["Enter", "mark a row", e => e.key === "Enter" && !e.target.closest("button, input, a"), () => markRow(), 1],
        ["W", "whole text", "w", () => wholeText(), 1],
        ["[ ]", "layer", e => e.key === "[" || e.key === "]", e => stepLayer(e.key === "[" ? -1 : 1), 1],
        ["0…9", "a head", e => !e.shiftKey && /^Digit/.test(e.code) && headOf(e) >= 0, e => solo(headOf(e))],
        ["G", "log scale", "g", () => set({ log: !state.log })]
    ]
});
