// SPDX-License-Identifier: MIT
// reading.js: what the matrix says: one row of the text, the sentence, the table, the saved picture.

// ---- one row of the text ---------------------------------------------------------------------------------
// { i, at(j), top: [[key, weight], ...] falling, rest, sum(from, to) }.
function readRow(i) {
    const field = matrix.field;
    if (matrix.row?.i === i && matrix.row.field === field) return matrix.row;
    const dense = field.sparse ? null : field.row(i), all = dense ? strongest(dense) : field.kept(i), map = new Map(all);
    const at = dense ? j => dense[j] : j => map.get(j) ?? 0;
    const sum = (from, to) => {
        let s = 0;
        if (dense) for (let j = from; j < to; j++) s += dense[j];
        else for (const [j, w] of all) if (j >= from && j < to) s += w;
        return s;
    };
    return matrix.row = { i, field, at, top: all, rest: field.rest(i), sum };
}
// At most 200 of a row, falling: [[key, weight], ...].
function strongest(row) {
    let list = [], low = 0;
    row.forEach((w, j) => {
        if (!(w > low)) return;
        list.push([j, w]);
        if (list.length < 400) return;
        list = list.sort((a, b) => b[1] - a[1]).slice(0, 200);
        low = list[199][1];
    });
    return list.sort((a, b) => b[1] - a[1] || a[0] - b[0]).slice(0, 200);
}
const evenShares = (i, w) => {
    const [a, b] = weights.span(state.layer, i), x = w * (b - a);
    return say("evenShares", x >= 10 ? count(round(x)) : x.toFixed(1));
};

// What is pointed at, else what is pinned.
function lookMatrix() {
    const p = matrix.point;
    return p ? { row: p.row, key: p.key, pointed: true } : { row: state.row, key: state.key };
}
// The row whose reading the panels show: the pinned one; where none is, the one pointed at.
const readingRow = () => state.row >= 0 ? state.row : matrix.point?.row ?? -1;

// ---- the sentence ---------------------------------------------------------------------------------------------
function whatIsShown() {
    const m = matrix, n = levelAt(m.px), v = windowOf(n), T = page.T;
    const shown = isWhole() ? say("ofTokens", count(T)) : say("inWindow", count(floor(m.r0)), count(min(T, ceil(m.r0 + rowsInView())) - 1));
    const many = (of, k) => count(max(1, round(of / k)));
    return shown + ", " + (n >= longest() ? say("oneWeight") : say("onePoint", say(m.mode === "max" ? "theStrongest" : "theMean"), many(T, v.rows), many(page.S, v.columns)));
}
function sayShares(i, row) {
    const own = matrix.bars.map(b => ({ name: b.s.name, w: row.sum(b.s.from, b.s.to) })).filter(x => x.w >= .1).sort((a, b) => b.w - a.w).slice(0, 2);
    return matrix.bars.length < 2 ? "" : own.map(x => say("alsoReads", share(x.w), `“${x.name}”`)).join("");
}
function answerMatrix() {
    const cross = page.tokens !== page.keys, question = say(cross ? "whereCross" : "whereReads"), heads = lit(), l = lookMatrix();
    if (page.T === 1 && page.S === 1) return { question, pieces: [say("only")] };
    if (!heads.length) return { question, pieces: [say("choose")] };
    fieldNow();
    const who = heads.length > 1 ? say("headsTitle", state.layer, heads.join(", ")) : say("headTitle", state.layer, heads[0]);
    if (l.row >= 0 && l.key >= 0 && (l.pointed || state.key >= 0)) {
        if (matrix.point?.square) return { question, pieces: [`${who}: ${tipLines(matrix.point, () => "").join(", ")}.`] };
        return { question, pieces: [`${who}: ${quote(l.row)} (token ${count(l.row)}) gives `, { b: quoteKey(l.key) }, ` (token ${count(l.key)}): ${pairText(l.row, l.key)}.`] };
    }
    if (l.row >= 0) {
        const row = readRow(l.row), top = row.top.find(([j]) => isKeyShown(j));
        if (Number.isNaN(row.sum(0, page.S))) return { question, pieces: [`${who}: `, say("notNumber", quote(l.row))] };
        if (!top) return { question, pieces: [`${who}: `, say("nothing", quote(l.row))] };
        return { question, pieces: [`${who}: ${quote(l.row)} (token ${count(l.row)}) reads `, { b: quoteKey(top[0]) }, ` (token ${count(top[0])}) most: ${weight(top[1], 3)}, ${evenShares(l.row, top[1])}${sayShares(l.row, row)}.`] };
    }
    const s = page.stats[state.layer][heads[0]], told = cross ? say("crossMean", "*" + who + "*", s.keys.toFixed(1)) : say("farther", "*" + who + "*", s.distance.toFixed(1), s.keys.toFixed(1));
    return { question, pieces: heads.length > 1 ? [who, `; ${whatIsShown()}.`] : [...starred(told), `; ${whatIsShown()}.`] };
}
function matrixNote() {
    const m = matrix, field = m.field, coarse = field && coarseOf(field), out = [];
    if (!field) return "";
    if (leavesOut()) out.push(say("leftOut", share(field.heads.reduce((s, h) => s + page.stats[state.layer][h].shares[4], 0) / field.heads.length), page.specials.slice(0, 3).join(", ")));
    if (!field.sparse) return out.join(" ");
    const kept = share(page.stack.about.kept ?? 1);
    if (!coarse) out.push(say("onlyKeptAll", kept));
    else if (levelAt(m.px) > coarse.n) out.push(say("onlyKept", count(round(longest() / coarse.n)), kept));
    return out.join(" ");
}
// Keys of the marked row, strongest first; without a mark the strongest points in view.
function matrixTable() {
    const m = matrix, l = { row: readingRow() };
    if (!m.field) return [];
    if (l.row >= 0) {
        const row = readRow(l.row), rows = row.top.map(([j, w]) => [page.keys[j].text, j, w.toFixed(5), (w * (weights.span(state.layer, l.row)[1] - weights.span(state.layer, l.row)[0])).toFixed(1)]);
        const left = row.sum(0, page.S) - row.top.reduce((s, x) => s + x[1], 0);
        if (left > 5e-4) rows.push([say("more", count(page.S - row.top.length)), "", left.toFixed(5), ""]);
        if (row.rest > 5e-4) rows.push([say("notInFile"), "", row.rest.toFixed(5), ""]);
        return [["key", "token", "weight", "even shares"], ...rows];
    }
    const v = windowOf(levelAt(m.px)), best = [], one = v.n >= longest();
    let least = 0;
    for (let r = v.r0; r < v.r1; r++) {
        const p = pointsOf(m.field, v, r);
        for (let c = v.c0; p && c < v.c1; c++) {
            const w = p[0][p[1] + c - v.c0];
            if (!(w > least)) continue;
            best.push([r, c, w]);
            if (best.length >= 400) { best.sort((a, b) => b[2] - a[2]); best.length = 200; least = best[199][2]; }
        }
    }
    best.sort((a, b) => b[2] - a[2]);
    const name = (tokens, k, of, T) => one ? tokens[k].text : say("strongestPairs", count(firstOf(k, of, T)), count(firstOf(k + 1, of, T) - 1));
    return [["rows", "keys", "weight"], ...best.slice(0, 200).map(([r, c, w]) => [name(page.tokens, r, v.rows, page.T), name(page.keys, c, v.columns, page.S), w.toFixed(5)])];
}

// ---- as SVG ------------------------------------------------------------------------------------------------------
function matrixSvg() {
    const m = matrix, { question, pieces } = answerMatrix(), heat = document.createElement("canvas"), out = [], c = heat.getContext("2d"), r = x => x.toFixed(1), l = lookMatrix();
    const w = min(m.w, page.S * m.px), h = min(m.h, page.T * m.px), scale = 2;
    heat.width = ceil(w * scale);
    heat.height = ceil(h * scale);
    c.setTransform(scale, 0, 0, scale, -m.left * scale, -m.above * scale);
    c.fillStyle = css(rampAt(0));
    c.fillRect(m.left, m.above, w, h);
    if (m.field) { drawHeat(c, m.field); drawMask(c); }
    out.push(`<g transform="translate(0 76)"><image x="${m.left}" y="${m.above}" width="${r(w)}" height="${r(h)}" href="${heat.toDataURL()}"/>`);
    const text = (x, y, anchor, words, turn) => out.push(`<text class="n" font-size="12" x="${r(x)}" y="${r(y)}" text-anchor="${anchor}"${turn ? ` transform="rotate(-50 ${r(x)} ${r(y)})"` : ""}>${escaped(words)}</text>`);
    const [rows, keys] = sectionsOf(page.stack), inside = (x, low, size) => x >= low && x <= low + size;
    if (m.labelled) {
        for (let i = ceil(m.r0 - .5); i < min(page.T, m.r0 + rowsInView() - .2); i++) text(m.left - 7, yOf(i + .5), "end", page.tokens[i].text.slice(0, 14));
        for (let j = ceil(m.c0 - .5); j < min(page.S, m.c0 + keysInView() - .2); j++) text(xOf(j + .5), m.above - 6, "start", page.keys[j].text.slice(0, 14), true);
    } else {
        for (const s of rows) { const y = yOf((s.from + s.to) / 2); if (inside(y, m.above, h)) text(m.left - 7, y, "end", s.short); }
        for (const s of keys) { const x = xOf((s.from + s.to) / 2); if (inside(x, m.left, w)) text(x, m.above - 12, "middle", s.short); }
    }
    if (l.row >= 0 && inside(yOf(l.row + .5), m.above, h)) out.push(`<rect x="${m.left}" y="${r(yOf(l.row + .5) - 1)}" width="${r(w)}" height="2" fill="${hue.point}"/>`);
    out.push("</g>");
    return pictureSvg(ceil(m.wide), ceil(m.tall + 84), question, plain(pieces), out.join(""));
}
