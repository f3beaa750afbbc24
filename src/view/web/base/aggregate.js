// SPDX-License-Identifier: MIT
// aggregate.js: combines heads (to their mean, or to the rollout of the layers) and tokens (sub-words to words).
import { nameTokens, say } from "./messages.js";
import { isKey, selectedHeads, page, state } from "./state.js";

export const SLICE = 6;

// Numbers that replace the number of a head: MEAN is the mean of the selected heads, ROLLOUT the rollout of the layers.
export const MEAN = -1;
export const ROLLOUT = -2;
/**
 * Returns the heads that are drawn: the selected heads, or the number (MEAN, ROLLOUT) that combines them.
 * @returns {number[]}
 */
export const drawn = () =>
    state.rollout && rolloutAllowed() === true ? [ROLLOUT] : state.mean && state.selected.length > 1 ? [MEAN]
        : selectedHeads();
export const nameOf = h =>
    h === MEAN ? say("meanOf", selectedHeads().join(", ")) : h === ROLLOUT ? say("rollOf", state.layer) : `head ${h}`;
export const rowOf = (h, i) => rowAt(state.layer, h, i);
export const rowAt = (layer, h, i) =>
    h >= 0 ? page.weights.row(layer, h, i) : h === MEAN ? meanRow(layer, i) : rolloutRow(layer, i);
export const knows = (h, i) => h >= 0
    ? page.weights.has(state.layer, h, i)
    : h === ROLLOUT
    ? rolloutReady(state.layer)
    : means.has(meanKey(state.layer, i));
// Returns true if the page has only the largest weights of each row of this layer, as for long texts.
export const isSparse = layer => page.stack.about.codes[layer] === "top";
export const ALL_KEPT = 1 << 16;
/**
 * Calls visit(key, weight) for the weights of row i of head h. In a sparse layer these are all stored weights; in
 * another layer, the weights on the keys in `keys`.
 * @param {number} h
 * @param {number} i
 * @param {Iterable<number>} keys
 * @param {(key: number, weight: number) => void} visit
 */
export function eachWeight(h, i, keys, visit) {
    if (h >= 0 && isSparse(state.layer)) {
        for (const [j, w] of page.weights.top(state.layer, h, i, ALL_KEPT)) if (isKey(j)) visit(j, w);
        return;
    }
    const row = rowOf(h, i);
    for (const j of keys) visit(j, row[j]);
}

// ---- the mean of the selected heads ------------------------------------------------------------------
const means = new Map();
const meanKey = (layer, i) => `${layer}:${selectedHeads()}:${i}`;
function meanRow(layer, i) {
    const key = meanKey(layer, i), heads = selectedHeads();
    let out = means.get(key);
    if (out) return out;
    out = new Float32Array(page.S);
    for (const h of heads) {
        const row = page.weights.row(layer, h, i);
        for (let j = 0; j < row.length; j++) out[j] += row[j] / heads.length;
    }
    if (means.size * page.S > 4e6) means.clear();
    means.set(key, out);
    return out;
}

// ---- rollout -----------------------------------------------------------------------------------------
// Rollout (Abnar, Zuidema 2020, arXiv 2005.00928): R_0 = A'_0, R_l = A'_l R_(l-1), A' = (A + I) / 2, where A is the
// mean of all heads of a layer. R_l[i][j] is how much of token i after layer l comes from token j at the input of layer
// 0. The rollout is computed for tokens; if words are shown, its rows are merged afterwards.
const ROLL_TOKENS = 192;
const rollout = { layers: [], done: 0, running: false };
/** @returns {true | string} true, or the reason why there is no rollout */
export function rolloutAllowed() {
    if (page.stack.tokens !== page.stack.keys) return say("rollSelf");
    return page.stack.T > ROLL_TOKENS ? say("rollShort", ROLL_TOKENS) : true;
}
export const rolloutReady = layer =>
    rollout.layers.length > layer + 1 || (rollout.layers.length === layer + 1 && rollout.done === page.stack.T);
function rollOneRow() {
    const { T, H, L, weights } = page.stack;
    if (!rollout.layers.length || rollout.done === T) {
        if (rollout.layers.length === L) return;
        rollout.layers.push(new Float32Array(T * T));
        rollout.done = 0;
    }
    const l = rollout.layers.length - 1;
    const i = rollout.done++;
    const below = rollout.layers[l - 1];
    const out = rollout.layers[l].subarray(i * T, i * T + T);
    const mean = new Float32Array(T);
    for (let h = 0; h < H; h++) weights.row(l, h, i).forEach((w, j) => { mean[j] += w / H; });
    mean[i]++; // adds I
    if (!below) return void mean.forEach((a, j) => { out[j] = a / 2; });
    for (let k = 0; k < T; k++) {
        if (mean[k] === 0) continue;
        const a = mean[k] / 2, at = k * T;
        for (let j = 0; j < T; j++) out[j] += a * below[at + j];
    }
}
function rolloutRow(layer, i) {
    const { T } = page.stack, of = t => rollout.layers[layer].subarray(t * T, t * T + T);
    if (!rolloutReady(layer)) return new Float32Array(page.S);
    return page.words ? page.weights.merge(i, of) : of(i);
}
/**
 * Computes the rollout up to the current layer, in slices of time. Then calls `then`.
 * @param {() => void} then
 */
export function requestRollout(then) {
    if (rollout.running || rolloutReady(state.layer)) return;
    const slice = () => {
        const end = performance.now() + SLICE;
        while (!rolloutReady(state.layer) && performance.now() < end) rollOneRow();
        rollout.running = state.rollout && !rolloutReady(state.layer);
        if (rollout.running) setTimeout(slice);
        else then();
    };
    rollout.running = true;
    setTimeout(slice);
}
export function forgetAggregates() {
    means.clear();
    rollout.layers = [];
    rollout.done = 0;
}

// ---- words -------------------------------------------------------------------------------------------
// Returns the ranges of tokens that form words, [first, end). A token continues the word before it if its piece says so
// ("##ing"). If pieces mark the beginning of a word instead, a token continues the word if it has no mark and letters
// or digits meet. If pieces have neither mark, a token continues the word that it touches in the source.
const LETTER = /[\p{L}\p{N}\p{M}]/u;
function wordsOf(tokens, places) {
    const some = pattern => tokens.some(t => !t.special && pattern.test(t.raw));
    const inner = some(/^##./), outer = some(/^[▁Ġ]/), out = [];
    const goesOn = (t, before, i) => {
        if (t.special || before.special || t.part !== before.part) return false;
        if (/^<0x[0-9A-F]{2}>$/.test(t.raw) && /^<0x[0-9A-F]{2}>$/.test(before.raw)) return true;
        if (inner) return /^##./.test(t.raw);
        if (!outer && !(places && places[2 * i] === places[2 * i - 1] && places[2 * i] > 0)) return false;
        return !/^[▁Ġ]/.test(t.raw) && LETTER.test([...t.text][0] ?? "") && LETTER.test([...before.text].pop() ?? "");
    };
    tokens.forEach((t, i) => {
        if (i && goesOn(t, tokens[i - 1], i)) out[out.length - 1][1] = i + 1;
        else out.push([i, i + 1]);
    });
    return out;
}
// Weights between words: the sum over the tokens of the key's word, averaged over the tokens of the row's word.
class Words {
    constructor(base, rows, keys) {
        this.base = base;
        this.groups = rows;
        this.keys = keys;
        this.T = rows.length;
        this.S = keys.length;
        this.to = new Int32Array(keys[keys.length - 1][1]);
        keys.forEach(([from, end], w) => this.to.fill(w, from, end));
        this.kept = new Map();
    }
    key(l, h, i) {
        return `${l}:${h}:${i}`;
    }
    has(l, h, i) {
        return this.kept.has(this.key(l, h, i));
    }
    merge(i, of) {
        const out = new Float32Array(this.S), [from, end] = this.groups[i];
        for (let t = from; t < end; t++) {
            const row = of(t);
            for (let j = 0; j < row.length; j++) out[this.to[j]] += row[j] / (end - from);
        }
        return out;
    }
    row(l, h, i) {
        const key = this.key(l, h, i);
        let row = this.kept.get(key);
        if (row) return row;
        row = this.merge(i, t => this.base.row(l, h, t));
        if (this.kept.size * this.S > 4e6) this.kept.clear();
        this.kept.set(key, row);
        return row;
    }
    over(i, of) {
        const [from, end] = this.groups[i];
        let sum = 0;
        for (let t = from; t < end; t++) sum += of(t);
        return sum / (end - from);
    }
    pair(l, h, i, j) {
        const [from, end] = this.keys[j];
        return this.over(i, t => {
            let sum = 0;
            for (let k = from; k < end; k++) sum += this.base.pair(l, h, t, k);
            return sum;
        });
    }
    rest(l, h, i) {
        return this.over(i, t => this.base.rest(l, h, t));
    }
    top(l, h, i) {
        const sums = new Map(), [from, end] = this.groups[i];
        for (let t = from; t < end; t++)
            for (const [j, w] of this.base.top(l, h, t, ALL_KEPT))
                sums.set(this.to[j], (sums.get(this.to[j]) ?? 0) + w / (end - from));
        return [...sums].sort((a, b) => b[1] - a[1]);
    }
}
/**
 * Returns the stack with words in place of tokens; null if no word has two tokens.
 * @param {Stack} s
 * @returns {?Stack}
 */
export function wordStack(s) {
    if (s.merged !== undefined) return s.merged;
    const rows = wordsOf(s.tokens, s.rowPlaces), keys = s.keys === s.tokens ? rows : wordsOf(s.keys, s.keyPlaces);
    if (rows.length === s.T && keys.length === s.S) return s.merged = null;
    const merged = (tokens, groups) => nameTokens(
        groups.map(([from, end]) => {
            const part = tokens.slice(from, end), join = name => part.map(t => t[name]).join("");
            const { part: text, special } = part[0];
            return { text: join("text"), raw: join("raw"), named: "", rawNamed: "", part: text, special };
        }),
        w => groups[w][0]
    );
    const wordOf = (groups, n) => {
        const to = new Int32Array(n);
        groups.forEach(([from, end], w) => to.fill(w, from, end));
        return to;
    };
    const row = wordOf(rows, s.T), key = wordOf(keys, s.S), tokens = merged(s.tokens, rows);
    const pair = p => p && { row: row[p.row], key: key[p.key], weight: p.weight };
    const stats = s.stats.map(layer =>
        layer.map(x => ({ ...x, word: x.word < 0 ? -1 : key[x.word], best: pair(x.best), same: pair(x.same) })));
    return s.merged = {
        ...s, tokens, keys: s.keys === s.tokens ? tokens : merged(s.keys, keys), T: rows.length, S: keys.length,
        left: -1, right: -1, given: s.given && row[s.given], givenKeys: s.givenKeys && key[s.givenKeys], stats,
        weights: new Words(s.weights, rows, keys), groups: { rows, keys, row, key }
    };
}
