// SPDX-License-Identifier: MIT
// words.js: every word the page says, in one table, and how numbers are written.

const { abs, ceil, floor, max, min, round, sqrt } = Math;
const root = document.documentElement;

const TEXT = {
    which: "Which words read which?",
    what: "What does {0} read?",
    who: "Who reads {0}?",
    cut: "This file is cut short: expected {0} bytes, found {1}.",
    damaged: "This file is damaged: its numbers cannot be unpacked.",
    array: "This file is damaged: the numbers “{0}” of layer {1}, at byte {2}, fail their check.",
    unreadable: "This file is cut short or damaged: its description cannot be read.",
    only: "The only token reads itself: 1.000.",
    choose: "Choose a head.",
    nothing: "{0} reads nothing: all keys masked.",
    notNumber: "{0} is not a number here: the model’s weights hold NaN.",
    layerHead: "Layer and head",
    focused: "darker = more focused",
    focusedDark: "brighter = more focused",
    sentences: "Sentences",
    all: "All",
    specials: "Special tokens",
    hide: "Hide {0}",
    goes: "The other {0} goes there.",
    stays: "{0} of the weight goes there.",
    never: "Weights are never renormalised.",
    above: "Show links above",
    half: "half of an even share, 1/2n",
    times: "{0} of an even share",
    below: "{0} of the weight is below or hidden",
    keysRead: "keys read",
    asks: "this token asks…",
    readsFrom: "…and reads from",
    received: "attention received",
    oneBar: "weight, one bar a head",
    headsOf: "The {0} heads of layer {1}",
    keysNote: "Keys read: 2 to the entropy of a row, mean over rows. Distance: tokens between reader and read.",
    rowOf: "{0} in layer {1}, every weight",
    columnOf: "{0} in layer {1}, who reads it",
    pair: "{0} to {1} in every head, hundredths",
    matrixMax: "The same as a matrix, strongest of {0}",
    matrixMean: "The same as a matrix, mean of {0}",
    heads: "heads {0}",
    head: "head {0}",
    pooled: "{0} × {0} cells, each the largest of {1} × {1} weights",
    more: "and {0} more",
    moreAbove: "{0} more above, {1}",
    moreBelow: "{0} more below, {1}",
    strongest: "the {0} strongest of {1} links in view",
    sum: "sum",
    noMatch: "no token holds “{0}”",
    copied: "copied {0} rows",
    notCopied: "the browser refused to copy",
    saved: "saved {0}",
    save: "Save picture",
    onView: "What is on view, strongest first",
    everywhere: "Everywhere",
    noPicture: "This view has no picture to save.",
    find: "Find a token",
    close: "Close",
    max: "strongest",
    mean: "mean",
    tip: "{0} {1}: {2}; measured on {3} rows, threshold {4}"
};
function say(key, ...args) {
    return TEXT[key].replace(/\{(\d)\}/g, (_, i) => args[i]);
}

const count = n => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
function weight(w, digits = 2) {
    return w === w ? w.toFixed(digits).replace(/^0/, "") : "!";
}
const share = w => round(100 * w) + "%";
const NUMBERS = "no one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen".split(" ");

function quote(i) {
    const t = page.tokens[i];
    return t.special ? t.text : `“${t.text}”`;
}

// ---- the sentence: choose.c makes the same for the state a page opens with -------------------------
// Pieces: plain text, or { b: bold text }.
const plain = pieces => pieces.map(p => p.b ?? p).join("");
function starred(text) { // "the *next* word"
    return text.split("*").map((t, i) => i % 2 ? { b: t } : t).filter(t => t !== "");
}

function topKey(row, a, b) {
    let to = -1, w = 0;
    for (let j = 0; j < row.length; j++)
        if (j !== a && j !== b && isShown(j) && row[j] > w) { to = j; w = row[j]; }
    return { to, w };
}

function sayMarked(i) {
    const layer = state.layer, rows = lit().map(h => ({ h, row: weights.row(layer, h, i) }));
    let best = { w: 0 }, other = { w: 0 };
    for (const r of rows) {
        r.top = topKey(r.row, -1, -1);
        if (r.top.w > best.w) best = { w: r.top.w, to: r.top.to, ...r, second: topKey(r.row, r.top.to, i) };
    }
    if (rows.some(r => r.row[0] !== r.row[0])) return [say("notNumber", quote(i))];
    if (!best.row) return [`In layer ${layer}, `, say("nothing", quote(i))];
    for (const r of rows)
        if (r.h !== best.h && r.top.to !== best.to && r.top.w > other.w) other = { w: r.top.w, to: r.top.to, h: r.h };
    const out = [`In layer ${layer}, head ${best.h} gives ${weight(best.w)} of ${quote(i)} to `,
        { b: best.to === i ? "itself" : quote(best.to) }];
    if (best.second.w >= .045) out.push(` and ${weight(best.second.w)} to ${quote(best.second.to)}`);
    let gone = 0;
    best.row.forEach((w, j) => { if (!isShown(j)) gone += w; });
    if (gone > best.w) out.push(`, ${weight(gone)} to special tokens`);
    if (other.w) out.push(`; head ${other.h} reads `, { b: other.to === i ? "itself" : quote(other.to) }, ` with ${weight(other.w)}`);
    out.push(".");
    return out;
}

function sayPair(i, j) {
    const all = lit().map(h => ({ h, w: weights.row(state.layer, h, i)[j] })).sort((a, b) => b.w - a.w || a.h - b.h);
    const out = [`In layer ${state.layer}, ${quote(i)} gives `, { b: quote(j) }];
    all.slice(0, 5).forEach((x, n) => out.push(n ? ", " : " ", `${weight(x.w)} in head ${x.h}`));
    out.push(".");
    return out;
}

function sayColumn(j) {
    let best = { w: -1 };
    for (const h of lit())
        for (const i of page.visible) {
            if (!weights.has(state.layer, h, i) && page.T > 192) continue;
            const w = weights.row(state.layer, h, i)[j];
            if (i !== j && w > best.w) best = { h, i, w };
        }
    if (best.w < 0) return [`In layer ${state.layer}, nothing in view reads ${quote(j)}.`];
    return [`In layer ${state.layer}, ${quote(j)} is read most by `, { b: quote(best.i) }, `: ${weight(best.w)} in head ${best.h}.`];
}

function sayKind(s, last) {
    const out = s.kind < 0 ? [] : starred(page.about.kinds[s.kind][3]);
    const kind = s.kind < 0 ? "" : page.about.kinds[s.kind][0];
    if (kind === "one word") out.push({ b: quote(s.word) });
    if (kind === "same word" && s.same) {
        const [from, to, w] = s.same, a = page.tokens[from], b = page.tokens[to];
        out.push((a.part !== b.part ? " in the other sentence" : "") + (last ? ": " : " (") + `${quote(from)} ${weight(w)}` + (last ? "" : ")"));
    }
    if ((kind === "content" || s.kind < 0) && s.best) {
        const text = `${quote(s.best[0])} to ${quote(s.best[1])} ${weight(s.best[2])}`;
        out.push(s.kind < 0 ? text : ` (${text})`);
    } else if (s.kind < 0) {
        out.push("no other word more than an even share");
    }
    return out;
}

function sayHeads() {
    const told = s => s.kind >= 0 && s.kind <= page.about.telling;
    const order = lit().map(h => ({ h, s: page.stats[state.layer][h] }))
        .sort((a, b) => told(b.s) - told(a.s) || b.s.strength - a.s.strength || a.h - b.h);
    const n = min(4, order.length), more = order.length - n, out = [`In layer ${state.layer}, `];
    order.slice(0, n).forEach(({ h, s }, i) => {
        const last = i === n - 1 && !more;
        out.push(i ? last ? " and " : ", " : "", `head ${h} ${i ? "" : "reads "}`, ...sayKind(s, last));
    });
    out.push(more ? ` and ${more} more heads.` : ".");
    return out;
}

// { question, pieces } of what is looked at.
function answer(look) {
    const question = look.row >= 0 ? say("what", quote(look.row)) : look.key >= 0 ? say("who", quote(look.key)) : say("which");
    if (page.T === 1) return { question, pieces: [say("only")] };
    if (!lit().length) return { question, pieces: [say("choose")] };
    if (look.row >= 0) return { question, pieces: look.key >= 0 && look.pointed ? sayPair(look.row, look.key) : sayMarked(look.row) };
    return { question, pieces: look.key >= 0 ? sayColumn(look.key) : sayHeads() };
}
