// SPDX-License-Identifier: MIT
// sentence.js: writes the sentence that describes the head view. When the page opens, initial_selection.c has written
// the same sentence. A piece of the sentence is plain text, or { b: bold text }.
import { min } from "../base/math.js";
import { capital, say, starred, weight } from "../base/messages.js";
import { geometry, headName, isKey, selectedHeads, page, quote, quoteKey, state, topKey } from "../base/state.js";
import { rolloutAllowed, drawn, knows, nameOf, rolloutReady, rowOf } from "../base/aggregate.js";
import { linkOrder, links } from "../base/links.js";

const STACKS = { attention: "", cross: " of the cross-attention" };
const isRollout = () => state.rollout && rolloutAllowed() === true;
/** "In layer 3, ", or "" for the rollout, which has no layer of its own. */
const inLayer = () =>
    isRollout() ? "" : `In layer ${state.layer}${STACKS[page.stack.name] ?? ` of the ${page.stack.name}`}, `;
/** " (L3.H1)", " (the mean of heads 0, 1 of L3)", " (the rollout of layers 0 to 3)" */
function inHead(head) {
    if (head >= 0) return ` (${headName(state.layer, head)})`;
    const layer = isRollout() ? "" : ` of ${headName(state.layer, 0).replace(/\.H0$/, "")}`;
    return ` (${nameOf(head)}${layer})`;
}

/** Describes the marked row: "“it” attends to “animal” .64, “street” .05 (L3.H1)." */
function describeRow(i) {
    const rows = drawn().map(h => ({ h, row: rowOf(h, i), top: topKey(rowOf(h, i), -1, -1) }));
    const own = page.tokens === page.keys;
    const keyOf = j => own && j === i ? say("itself") : quoteKey(j);
    let best = { w: 0 }, other = { w: 0 };
    for (const r of rows) {
        if (r.top.w > best.w) best = { w: r.top.w, to: r.top.to, ...r, second: topKey(r.row, r.top.to, own ? i : -1) };
    }
    if (rows.some(r => r.row.some(Number.isNaN))) return [say("notNumber", quote(i))];
    if (!best.row) return [inLayer(), say("nothing", quote(i))];
    for (const r of rows)
        if (r.h !== best.h && r.top.to !== best.to && r.top.w > other.w) other = { w: r.top.w, to: r.top.to, h: r.h };
    const out = [`${quote(i)} attends to `, { b: keyOf(best.to) }, ` ${weight(best.w)}`];
    if (best.second.w >= .045) out.push(`, ${quoteKey(best.second.to)} ${weight(best.second.w)}`);
    let hidden = 0;
    best.row.forEach((w, j) => { if (!isKey(j)) hidden += w; });
    if (hidden > best.w) out.push(`, special tokens ${weight(hidden)}`);
    out.push(inHead(best.h));
    if (other.w) out.push("; to ", { b: keyOf(other.to) }, ` ${weight(other.w)}${inHead(other.h)}`);
    out.push(".");
    return out;
}

function describePair(i, j) {
    const all = drawn().map(h => ({ h, w: rowOf(h, i)[j] })).sort((a, b) => b.w - a.w || a.h - b.h);
    const out = [`${quote(i)} attends to `, { b: quoteKey(j) }, " "];
    all.slice(0, 5).forEach((x, n) => out.push(n ? ", " : "", `${weight(x.w)}${inHead(x.h)}`));
    out.push(".");
    return out;
}

function describeColumn(j) {
    let best = { w: -1 };
    for (const h of drawn())
        for (const i of geometry.rows) {
            if (!knows(h, i) && page.S > 192) continue;
            const w = rowOf(h, i)[j];
            if ((i !== j || page.tokens !== page.keys) && w > best.w) best = { h, i, w };
        }
    if (best.w < 0) return [`${inLayer()}no token in view attends to ${quoteKey(j)}.`];
    return [
        `${quoteKey(j)} receives most from `, { b: quote(best.i) }, ` ${weight(best.w)}${inHead(best.h)}.`
    ];
}

// Returns a pair of tokens from the statistics, with the weight between their words if words are shown.
const pairNow = ({ row, key, weight }, h) =>
    ({ row, key, w: page.words ? page.weights.pair(state.layer, h, row, key) : weight });
function describeKind(s, last, h) {
    const kind = s.kind < 0 ? "other" : page.about.kindTable[s.kind].name;
    const out = kind === "other" ? [] : ["to ", ...starred(page.about.kindTable[s.kind].target)];
    if (kind === "vertical") out.push({ b: quoteKey(s.word) });
    if (kind === "same word" && s.same) {
        const { row, key, w } = pairNow(s.same, h), a = page.tokens[row], b = page.keys[key];
        out.push(
            (a.part !== b.part ? " in the other sentence" : "") + (last ? ": " : " (") +
                `${quote(row)} to ${quoteKey(key)} ${weight(w)}` +
                (last ? "" : ")")
        );
    }
    if (kind === "other" && s.best) {
        const { row, key, w } = pairNow(s.best, h);
        out.push(`most from ${quote(row)} to ${quoteKey(key)} ${weight(w)}`);
    } else if (kind === "other") {
        out.push("to no other token above the uniform weight");
    }
    return out;
}
// Describes the mean of the selected heads, or the rollout: its largest weight among the rows and keys that are shown.
function describeAggregate() {
    const [k] = linkOrder().filter(k => page.tokens !== page.keys || links.i[k] !== links.j[k]);
    const name = nameOf(drawn()[0]);
    if (state.rollout && !rolloutReady(state.layer)) return [say("rolling")];
    const begin = capital(inLayer() + name);
    if (k === undefined) return [`${begin} has no weight above the threshold.`];
    return [
        `${begin} has its largest weight from `, { b: quote(links.i[k]) }, " to ", { b: quoteKey(links.j[k]) },
        `: ${weight(links.w[k])}.`
    ];
}
function describeHeads() {
    const described = s => +(s.kind >= 0 && s.kind <= page.about.telling);
    const order = selectedHeads().map(h => ({ h, s: page.stats[state.layer][h] }))
        .sort((a, b) => described(b.s) - described(a.s) || b.s.strength - a.s.strength || a.h - b.h);
    const n = min(4, order.length), more = order.length - n;
    /** @type {Piece[]} */
    const out = [inLayer()];
    order.slice(0, n).forEach(({ h, s }, i) => {
        const last = i === n - 1 && !more;
        out.push(i ? last ? " and " : ", " : "", `head ${h} ${i ? "" : "attends "}`, ...describeKind(s, last, h));
    });
    out.push(more ? ` and ${more} more heads.` : ".");
    return out;
}

/**
 * Returns the title of the view and the sentence for a target.
 * @param {Target} target
 * @returns {Answer}
 */
export function answer(target) {
    const question = target.row >= 0
        ? say("what", quote(target.row))
        : target.key >= 0
        ? say("who", quoteKey(target.key))
        : say("which");
    if (page.T === 1 && page.tokens === page.keys) return { question, pieces: [say("only")] };
    if (!drawn().length) return { question, pieces: [say("choose")] };
    const { row, key } = target;
    if (row >= 0) return { question, pieces: key >= 0 && target.pointed ? describePair(row, key) : describeRow(row) };
    if (key >= 0) return { question, pieces: describeColumn(key) };
    return { question, pieces: drawn()[0] < 0 ? describeAggregate() : describeHeads() };
}
