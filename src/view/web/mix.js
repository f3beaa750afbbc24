// SPDX-License-Identifier: MIT
// mix.js: several heads as one (their mean, the rollout of layers), several tokens as one (words).

const MEAN = -1, ROLLOUT = -2; // heads that are drawn but that no layer has
// The heads that are drawn: those lit, or one that stands for them.
const drawn = () => state.rollout && canRoll() === true ? [ROLLOUT] : state.mean && state.lit.length > 1 ? [MEAN] : lit();
const nameOf = h => h === MEAN ? say("meanOf", lit().join(", ")) : h === ROLLOUT ? say("rollOf", state.layer) : `head ${h}`;
const rowOf = (h, i) => rowAt(state.layer, h, i);
const rowAt = (layer, h, i) => h >= 0 ? weights.row(layer, h, i) : h === MEAN ? meanRow(layer, i) : rollRow(layer, i);
const knows = (h, i) => h >= 0 ? weights.has(state.layer, h, i) : h === ROLLOUT ? rolled(state.layer) : means.has(meanKey(state.layer, i));
// Past a page's budget only the strongest keys of a row are there: walked as they are, not as S numbers.
const isSparse = layer => page.stack.about.kinds[layer] === "top";
const ALL_KEPT = 1 << 16;
// visit(key, weight) of what row i of head h reads; of `keys`, where all are known.
function eachWeight(h, i, keys, visit) {
    if (h >= 0 && isSparse(state.layer)) {
        for (const [j, w] of weights.top(state.layer, h, i, ALL_KEPT)) if (isKey(j)) visit(j, w);
        return;
    }
    const row = rowOf(h, i);
    for (const j of keys) visit(j, row[j]);
}

// ---- the mean of the heads that are lit --------------------------------------------------------------
const means = new Map();
const meanKey = (layer, i) => `${layer}:${lit()}:${i}`;
function meanRow(layer, i) {
    const key = meanKey(layer, i), heads = lit();
    let out = means.get(key);
    if (out) return out;
    out = new Float32Array(page.S);
    for (const h of heads) {
        const row = weights.row(layer, h, i);
        for (let j = 0; j < row.length; j++) out[j] += row[j] / heads.length;
    }
    if (means.size * page.S > 4e6) means.clear();
    means.set(key, out);
    return out;
}

// ---- rollout -----------------------------------------------------------------------------------------
// Abnar, Zuidema 2020 (arXiv 2005.00928): R_0 = A'_0, R_l = A'_l R_(l-1), A' = (A + I) / 2, A the mean of
// all heads: how much of what entered layer 0 at token j has come to token i.  Of tokens, also where
// words are shown: these are merged afterwards.
const ROLL_TOKENS = 192;
const roll = { layers: [], done: 0, running: false };
function canRoll() {
    if (page.stack.tokens !== page.stack.keys) return say("rollSelf");
    return page.stack.T > ROLL_TOKENS ? say("rollShort", ROLL_TOKENS) : true;
}
const rolled = layer => roll.layers.length > layer + 1 || (roll.layers.length === layer + 1 && roll.done === page.stack.T);
function rollOne() {
    const { T, H, L, weights } = page.stack;
    if (!roll.layers.length || roll.done === T) {
        if (roll.layers.length === L) return;
        roll.layers.push(new Float32Array(T * T));
        roll.done = 0;
    }
    const l = roll.layers.length - 1, i = roll.done++, below = roll.layers[l - 1], out = roll.layers[l].subarray(i * T, i * T + T), mean = new Float32Array(T);
    for (let h = 0; h < H; h++) weights.row(l, h, i).forEach((w, j) => { mean[j] += w / H; });
    mean[i]++; // + I
    if (!below) return void mean.forEach((a, j) => { out[j] = a / 2; });
    for (let k = 0; k < T; k++) {
        if (mean[k] === 0) continue;
        const a = mean[k] / 2, at = k * T;
        for (let j = 0; j < T; j++) out[j] += a * below[at + j];
    }
}
function rollRow(layer, i) {
    const { T } = page.stack, of = t => roll.layers[layer].subarray(t * T, t * T + T);
    if (!rolled(layer)) return new Float32Array(page.S);
    return page.words ? weights.merge(i, of) : of(i);
}
// Rows in slices until the layer on view is rolled out; then `then`.
function wantRoll(then) {
    if (roll.running || rolled(state.layer)) return;
    const slice = () => {
        const end = performance.now() + SLICE;
        while (!rolled(state.layer) && performance.now() < end) rollOne();
        roll.running = state.rollout && !rolled(state.layer);
        if (roll.running) setTimeout(slice);
        else then();
    };
    roll.running = true;
    setTimeout(slice);
}
function forgetMixes() {
    means.clear();
    roll.layers = [];
    roll.done = 0;
}

// ---- words -------------------------------------------------------------------------------------------
// [first, end) of the tokens of each word.  A token goes on with the word before it when its piece
// says so ("##ing"), or, where pieces mark the beginning of words (a joiner in front), when it has no
// mark and letters or digits meet.  Without either mark: where nothing lies between their places.
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
// Weights between words: into a word they are summed over its tokens, out of a word its rows are averaged.
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
            for (const [j, w] of this.base.top(l, h, t, ALL_KEPT)) sums.set(this.to[j], (sums.get(this.to[j]) ?? 0) + w / (end - from));
        return [...sums].sort((a, b) => b[1] - a[1]);
    }
}
// A stack of words from a stack of tokens; null where no word has two tokens.
function wordStack(s) {
    if (s.merged !== undefined) return s.merged;
    const rows = wordsOf(s.tokens, s.rowPlaces), keys = s.keys === s.tokens ? rows : wordsOf(s.keys, s.keyPlaces);
    if (rows.length === s.T && keys.length === s.S) return s.merged = null;
    const merged = (tokens, groups) => groups.map(([from, end]) => {
        const part = tokens.slice(from, end), join = name => part.map(t => t[name]).join("");
        return { text: join("text"), raw: join("raw"), part: part[0].part, special: part[0].special };
    });
    const wordOf = (groups, n) => { const to = new Int32Array(n); groups.forEach(([from, end], w) => to.fill(w, from, end)); return to; };
    const row = wordOf(rows, s.T), key = wordOf(keys, s.S), tokens = merged(s.tokens, rows);
    const pair = p => p && [row[p[0]], key[p[1]], p[2]];
    const stats = s.stats.map(layer => layer.map(x => ({ ...x, word: x.word < 0 ? -1 : key[x.word], best: pair(x.best), same: pair(x.same) })));
    return s.merged = { ...s, tokens, keys: s.keys === s.tokens ? tokens : merged(s.keys, keys), T: rows.length, S: keys.length, left: -1, right: -1, given: s.given && row[s.given], givenKeys: s.givenKeys && key[s.givenKeys], stats, weights: new Words(s.weights, rows, keys), groups: { rows, keys, row, key } };
}
