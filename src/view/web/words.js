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
    attention: "Attention of",
    stackNames: { encoder: "Encoder", decoder: "Decoder", cross: "Cross" },
    several: "Heads drawn",
    eachHead: "each",
    rollout: "rollout",
    meanOf: "the mean of heads {0}",
    rollOf: "the rollout of layers 0 to {0}",
    rolling: "Rolling out the layers.",
    rollNote: "Rollout: layers multiplied, each half attention (mean of its heads), half the token itself.",
    rollSelf: "Rollout needs tokens that read themselves.",
    rollShort: "Rollout is exact and for at most {0} tokens.",
    words: "Merge sub-words",
    wordsNote: "Weights into a word are summed, its rows averaged.",
    log: "Log scale",
    logNote: "Darkness by the logarithm, from .0001 to 1.",
    notKept: "not kept",
    maskedKeys: "{0} masked",
    align: "Alignment, {0}",
    noJump: "no link stands out here",
    looking: "looking through all rows",
    jumped: "link {0} of {1}: {2} to {3} {4}",
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
    asksOutput: "the output asks…",
    readsInput: "…and reads",
    readsFrom: "…and reads from",
    itself: "itself",
    made: "written",
    fold: "… {0} tokens, {1}",
    foldOne: "… {0} token, {1}",
    foldShort: "… {0}, {1}",
    weight: "weight",
    receivedHere: "read by these rows",
    received: "attention received",
    oneBar: "weight, one bar a head",
    headsOf: "The {0} heads of layer {1}",
    keysNote: "Keys read: 2 to the entropy of a row, mean over rows. Distance: tokens between reader and read.",
    rowOf: "{0} in layer {1}, every weight",
    columnOf: "{0} in layer {1}, who reads it",
    pair: "{0} to {1} in every head, hundredths",
    matrixMax: "The same as a matrix, strongest of {0}",
    matrixOne: "The same as a matrix, {0}",
    alignMean: "mean of heads {0}",
    heads: "heads {0}",
    head: "head {0}",
    pooled: "{0} × {1} cells, each the largest of {2} × {3} weights",
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

const quoted = t => t.special ? t.text : `“${t.text}”`;
const quote = i => quoted(page.tokens[i]);
const quoteKey = j => quoted(page.keys[j]);

// ---- the sentence: choose.c makes the same for the state a page opens with -------------------------
// Pieces: plain text, or { b: bold text }.
const plain = pieces => pieces.map(p => p.b ?? p).join("");
function starred(text) { // "the *next* word"
    return text.split("*").map((t, i) => i % 2 ? { b: t } : t).filter(t => t !== "");
}

function topKey(row, a, b) {
    let to = -1, w = 0;
    for (let j = 0; j < row.length; j++)
        if (j !== a && j !== b && row[j] > w && isKey(j)) { to = j; w = row[j]; }
    return { to, w };
}

const inLayer = () => state.rollout && canRoll() === true ? "" : `In layer ${state.layer}${page.stack.name === "attention" ? "" : ` of the ${page.stack.name}${page.stack.name === "cross" ? " attention" : ""}`}, `;
function sayMarked(i) {
    const rows = drawn().map(h => ({ h, row: rowOf(h, i) })), own = page.tokens === page.keys;
    const keyOf = j => own && j === i ? say("itself") : quoteKey(j);
    let best = { w: 0 }, other = { w: 0 };
    for (const r of rows) {
        r.top = topKey(r.row, -1, -1);
        if (r.top.w > best.w) best = { w: r.top.w, to: r.top.to, ...r, second: topKey(r.row, r.top.to, own ? i : -1) };
    }
    if (rows.some(r => r.row[0] !== r.row[0])) return [say("notNumber", quote(i))];
    if (!best.row) return [inLayer(), say("nothing", quote(i))];
    for (const r of rows)
        if (r.h !== best.h && r.top.to !== best.to && r.top.w > other.w) other = { w: r.top.w, to: r.top.to, h: r.h };
    const out = [`${capital(inLayer() + nameOf(best.h))} gives ${weight(best.w)} of ${quote(i)} to `, { b: keyOf(best.to) }];
    if (best.second.w >= .045) out.push(` and ${weight(best.second.w)} to ${quoteKey(best.second.to)}`);
    let gone = 0;
    best.row.forEach((w, j) => { if (!isKey(j)) gone += w; });
    if (gone > best.w) out.push(`, ${weight(gone)} to special tokens`);
    if (other.w) out.push(`; head ${other.h} reads `, { b: keyOf(other.to) }, ` with ${weight(other.w)}`);
    out.push(".");
    return out;
}

function sayPair(i, j) {
    const all = drawn().map(h => ({ h, w: rowOf(h, i)[j] })).sort((a, b) => b.w - a.w || a.h - b.h);
    const out = [`${inLayer()}${quote(i)} gives `, { b: quoteKey(j) }];
    all.slice(0, 5).forEach((x, n) => out.push(n ? ", " : " ", `${weight(x.w)} in ${nameOf(x.h)}`));
    out.push(".");
    return out;
}

function sayColumn(j) {
    let best = { w: -1 };
    for (const h of drawn())
        for (const i of g.rows) {
            if (!knows(h, i) && page.S > 192) continue;
            const w = rowOf(h, i)[j];
            if ((i !== j || page.tokens !== page.keys) && w > best.w) best = { h, i, w };
        }
    if (best.w < 0) return [`${inLayer()}nothing in view reads ${quoteKey(j)}.`];
    return [`${inLayer()}${quoteKey(j)} is read most by `, { b: quote(best.i) }, `: ${weight(best.w)} in ${nameOf(best.h)}.`];
}

// A pair of the statistics, with the weight between words where words are shown.
const pairNow = ([from, to, w], h) => [from, to, page.words ? weights.pair(state.layer, h, from, to) : w];
function sayKind(s, last, h) {
    const out = s.kind < 0 ? [] : starred(page.about.kinds[s.kind][3]);
    const kind = s.kind < 0 ? "" : page.about.kinds[s.kind][0];
    if (kind === "one word") out.push({ b: quoteKey(s.word) });
    if (kind === "same word" && s.same) {
        const [from, to, w] = pairNow(s.same, h), a = page.tokens[from], b = page.keys[to];
        out.push((a.part !== b.part ? " in the other sentence" : "") + (last ? ": " : " (") + `${quote(from)} ${weight(w)}` + (last ? "" : ")"));
    }
    if ((kind === "content" || s.kind < 0) && s.best) {
        const [from, to, w] = pairNow(s.best, h), at = weight(w);
        out.push(s.kind < 0 ? `${quoteKey(to)} from ${quote(from)} with ${at}` : ` (${quote(from)} to ${quoteKey(to)} ${at})`);
    } else if (s.kind < 0) {
        out.push("no other word more than an even share");
    }
    return out;
}

const capital = text => text[0].toUpperCase() + text.slice(1);
// One head in the place of several: what it links most, of what is in view.
function sayMixed() {
    const [k] = linkOrder().filter(k => page.tokens !== page.keys || links.i[k] !== links.j[k]), name = nameOf(drawn()[0]);
    if (state.rollout && !rolled(state.layer)) return [say("rolling")];
    const begin = capital(inLayer() + name);
    if (k === undefined) return [`${begin} links nothing above the threshold.`];
    return [`${begin} links `, { b: quote(links.i[k]) }, " to ", { b: quoteKey(links.j[k]) }, ` most: ${weight(links.w[k])}.`];
}
function sayHeads() {
    const told = s => s.kind >= 0 && s.kind <= page.about.telling;
    const order = lit().map(h => ({ h, s: page.stats[state.layer][h] }))
        .sort((a, b) => told(b.s) - told(a.s) || b.s.strength - a.s.strength || a.h - b.h);
    const n = min(4, order.length), more = order.length - n, out = [inLayer()];
    order.slice(0, n).forEach(({ h, s }, i) => {
        const last = i === n - 1 && !more;
        out.push(i ? last ? " and " : ", " : "", `head ${h} ${i ? "" : "reads "}`, ...sayKind(s, last, h));
    });
    out.push(more ? ` and ${more} more heads.` : ".");
    return out;
}

// { question, pieces } of what is looked at.
function answer(look) {
    const question = look.row >= 0 ? say("what", quote(look.row)) : look.key >= 0 ? say("who", quoteKey(look.key)) : say("which");
    if (page.T === 1 && page.tokens === page.keys) return { question, pieces: [say("only")] };
    if (!drawn().length) return { question, pieces: [say("choose")] };
    if (look.row >= 0) return { question, pieces: look.key >= 0 && look.pointed ? sayPair(look.row, look.key) : sayMarked(look.row) };
    return { question, pieces: look.key >= 0 ? sayColumn(look.key) : drawn()[0] < 0 ? sayMixed() : sayHeads() };
}
