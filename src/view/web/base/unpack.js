// SPDX-License-Identifier: MIT
// unpack.js: decodes the numbers of the page: base64, deflate (inflate.js), CRC-32, rows of weights.
import { abs, ceil, floor, max, min } from "./math.js";
import { count, say } from "./messages.js";
import { fromBase64, unpack } from "./bytes.js";

const CRC = Uint32Array.from({ length: 256 }, (_, i) => {
    for (let k = 0; k < 8; k++) i = i & 1 ? i >>> 1 ^ 0xedb88320 : i >>> 1;
    return i;
});
function crc32(bytes) {
    let c = -1;
    for (let i = 0; i < bytes.length; i++) c = CRC[(c ^ bytes[i]) & 255] ^ c >>> 8;
    return ~c >>> 0;
}

// ---- weights -----------------------------------------------------------------------------------
function half(h) {
    const e = h >> 10 & 31;
    const m = h & 1023;
    const x = e === 31 ? (m ? NaN : Infinity) : e ? (1 + m / 1024) * 2 ** (e - 15) : m * 2 ** -24;
    return h >> 15 ? -x : x;
}
// Returns the i-th of n little-endian f32 numbers, whose bytes are stored in four planes from `at` on.
const bits = new DataView(new ArrayBuffer(4));
function float(b, at, n, i) {
    for (let k = 0; k < 4; k++) bits.setUint8(k, b[at + k * n + i]);
    return bits.getFloat32(0, true);
}
/**
 * Decodes head `index` of an array [N][T][E] to [all][E] or, if `transposed`, to [E][all]. The vectors of padding
 * tokens are 0.
 * @param {PackedArray} array
 * @param {number} index
 * @param {number} all
 * @param {boolean} [transposed]
 */
function vectors(array, index, all, transposed) {
    const b = array.data, [N, T, E] = array.shape, n = N * T, out = new Float32Array(all * E);
    const small = array.kind === "i8", wide = array.kind === "d24", unit = wide ? 1e4 : 1e3;
    const decimals = wide || array.kind === "d16";
    for (let e = 0; e < E; e++) {
        const coded = !small && !decimals;
        const step = !coded ? 0 : float(b, 2 * n * E, N * E, index * E + e);
        const middle = !coded ? 0 : float(b, 2 * n * E + 4 * N * E, N * E, index * E + e);
        for (let t = 0; t < T; t++) {
            const v = index * T + t, i = v * E + e, to = transposed ? e * all + t : t * E + e;
            if (decimals) {
                const u = b[i] | b[n * E + i] << 8 | (wide ? b[2 * n * E + i] << 16 : 0);
                out[to] = (u & 1 ? -(u >>> 1) : u >>> 1) / unit;
                continue;
            }
            const c = small ? b[i] << 24 >> 24 : (b[i] | b[n * E + i] << 8) << 16 >> 16;
            if (small) out[to] = c * half(b[n * E + v] | b[n * E + n + v] << 8);
            else out[to] = c === -8192 ? NaN : middle + c * step;
        }
    }
    return out;
}
// Returns the largest error of a number of such an array: half a step.
function vectorError(array) {
    const b = array.data, [N, T, E] = array.shape, n = N * T;
    if (array.kind === "d24" || array.kind === "d16") return array.kind === "d24" ? 5e-5 : 5e-4;
    let most = 0;
    if (array.kind === "i14") for (let e = 0; e < N * E; e++) most = max(most, float(b, 2 * n * E, N * E, e));
    else for (let v = 0; v < n; v++) most = max(most, half(b[n * E + v] | b[n * E + n + v] << 8) || 0);
    return most / 2 + 1e-7;
}

/**
 * Decodes head `index` of an array [N][M][K] of kind s8 or s16.
 * @param {PackedArray} array
 * @param {number} index
 */
function roots(array, index) {
    const [N, M, K] = array.shape, n = M * K, b = array.data, wide = array.kind === "s16", all = N * n;
    const scale = float(b, (wide ? 2 : 1) * all, N, index), most = wide ? 65535 : 255;
    return Float32Array.from({ length: n }, (_, i) => {
        const at = index * n + i, c = wide ? b[at] | b[all + at] << 8 : b[at];
        return scale * (c / most) ** 2;
    });
}

// Decodes an array [1][T][K] of kind h16 to [all][K]: half floats, to be multiplied by the largest number of their
// column. The numbers of padding tokens are 0.
function halves(array, all) {
    const [, T, K] = array.shape, n = T * K, b = array.data;
    const largest = Array.from({ length: K }, (_, k) => float(b, 2 * n, K, k));
    return Float32Array.from({ length: all * K }, (_, i) => i < n ? half(b[i] | b[n + i] << 8) * largest[i % K] : 0);
}

// The rows of weights of every head of a stack. They are computed when needed, and cached as long as they fit. arrays:
// for each layer { w }, { q, k, lse } or { top }, and the optional arrays of docs/formats.md.
class Weights {
    /**
     * @param {any} about the entry of the file
     * @param {Record<string, PackedArray>[]} arrays by layer
     * @param {number} T with padding, as S
     * @param {number} S
     * @param {number} rows the rows without padding: those that are in the arrays
     * @param {number} keys
     */
    constructor(about, arrays, T, S, rows, keys) {
        this.about = about;
        this.arrays = arrays;
        this.T = T;
        this.S = S;
        this.own = rows;
        this.open = keys;
        this.H = about.heads;
        this.heads = new Map();
        this.rows = new Map();
        this.kept = new Map();
        this.capacity = max(64, floor(3e7 / (4 * S)));
    }
    at(layer, head) {
        return layer * this.H + head;
    }
    /**
     * Returns the cached result of make() for a key.
     * @template X
     * @param {string} key
     * @param {() => X} make
     * @returns {X}
     */
    once(key, make) {
        let x = this.kept.get(key);
        if (x === undefined) this.kept.set(key, x = make());
        return x;
    }
    group(head) {
        return floor(head / (this.H / this.about.kv));
    }
    // Returns true if all weights of this layer are known, not only the largest of each row.
    whole(layer) {
        return !!(this.arrays[layer].w || this.arrays[layer].q);
    }
    /**
     * Returns [from, to) of the keys that row i may attend to.
     * @returns {[number, number]}
     */
    span(layer, i) {
        const { causal, left, right } = this.about, l = left[layer], r = right[layer];
        const all = i < this.own ? this.open : 0;
        const to = min(all, causal ? i + 1 : all, r >= 0 ? max(0, i + r + 1) : all);
        return [min(to, l >= 0 ? max(0, i - l) : 0), to];
    }
    has(layer, head, i) {
        return this.rows.has(this.at(layer, head) * this.T + i);
    }
    row(layer, head, i) {
        const key = this.at(layer, head) * this.T + i;
        let row = this.rows.get(key);
        if (row) return row;
        if (this.rows.size >= this.capacity) this.rows.clear();
        const a = this.arrays[layer];
        if (i >= this.own) row = new Float32Array(this.S);
        else row = a.w ? this.dense(layer, head, i) : a.q ? this.product(layer, head, i) : this.sparse(layer, head, i);
        this.rows.set(key, row);
        return row;
    }
    // Returns the weight that row i has on keys that row() does not return.
    rest(layer, head, i) {
        if (this.whole(layer)) return 0;
        const list = this.slots(layer, head, i);
        return list.length ? max(0, this.sum(layer, head, i) - list.reduce((s, [, w]) => s + w, 0)) : 0;
    }
    // Returns one weight. If possible, its row is not computed as a whole.
    pair(layer, head, i, j) {
        const a = this.arrays[layer];
        if (a.w || this.has(layer, head, i)) return this.row(layer, head, i)[j];
        if (!a.q) return this.slots(layer, head, i).find(([key]) => key === j)?.[1] ?? 0;
        if (!a.lse) return this.row(layer, head, i)[j];
        const s = this.score(layer, head, i, j), { lse } = this.head(layer, head);
        return s.masked || lse[i] === -Infinity ? 0 : Math.exp(s.score - lse[i]);
    }
    /**
     * Returns the n largest weights of a row, [key, weight], in descending order.
     * @returns {[number, number][]}
     */
    top(layer, head, i, n = 16) {
        if (!this.whole(layer)) return this.slots(layer, head, i).slice(0, n);
        const row = this.row(layer, head, i);
        /** @type {[number, number][]} */
        const out = [];
        for (let j = 0; j < row.length; j++) {
            const w = row[j];
            if (!(w > 0) || (out.length === n && !(w > out[n - 1][1]))) continue;
            let at = out.length < n ? out.push(null) - 1 : n - 1;
            for (; at > 0 && out[at - 1][1] < w; at--) out[at] = out[at - 1];
            out[at] = [j, w];
        }
        return out;
    }
    sum(layer, head, i) {
        const s = this.arrays[layer].sum;
        return s ? float(s.data, 0, this.H * this.own, head * this.own + i) : 1;
    }
    dense(layer, head, i) {
        const S = this.open, from = (head * this.own + i) * S, w = this.arrays[layer].w;
        const row = new Float32Array(this.S);
        if (w.kind === "f32")
            return row.map((_, j) => j < S ? float(w.data, 0, this.H * this.own * S, from + j) : 0);
        const c = w.data.subarray(from, from + S);
        let sum = 0;
        for (let j = 0; j < S; j++) sum += c[j] * c[j];
        if (c[0] === 255) return row.fill(NaN);
        const one = this.sum(layer, head, i) / sum;
        if (sum) for (let j = 0; j < S; j++) row[j] = c[j] * c[j] * one;
        return row;
    }
    /**
     * Returns the stored keys and weights of a row. If the row contains NaN, returns a single entry with NaN.
     * @returns {[number, number][]}
     */
    slots(layer, head, i) {
        const { data: b, shape: [H, T, K] } = this.arrays[layer].top, m = H * T, n = K * m, at = head * T + i;
        const planes = (b.length - 2 * m) / n - 1;
        const codes = planes * n;
        const u = b[codes + n + at] | b[codes + n + m + at] << 8;
        const largest = this.sum(layer, head, i) * (u / 65535) ** 2;
        /** @type {[number, number][]} */
        const out = [];
        if (i >= T) return out;
        if (u === 65535 && !b[codes + at]) return [[i, NaN]];
        for (let s = 0; s < K; s++) {
            const c = b[codes + s * m + at];
            if (!c) break;
            let z = 0;
            for (let p = 0; p < planes; p++) z += b[p * n + s * m + at] * 256 ** p;
            out.push([z >= 127 ? z - 127 : z % 2 ? i - (z + 1) / 2 : i + z / 2, largest * (c / 255) ** 2]);
        }
        return out;
    }
    sparse(layer, head, i) {
        const row = new Float32Array(this.S), list = this.slots(layer, head, i);
        if (list.length && list[0][1] !== list[0][1]) return row.fill(NaN);
        for (const [j, w] of list) row[j] = w;
        return row;
    }
    // Returns the arrays of a head: q [T][E], k [E][S] and lse [T]; null if the layer does not have them.
    head(layer, head) {
        const key = this.at(layer, head), a = this.arrays[layer];
        if (!a.q) return null;
        let m = this.heads.get(key);
        if (!m) {
            const { T, S, H, own } = this;
            if (this.heads.size * (T + S) * this.about.width > 6e7) this.heads.clear();
            const lse = a.lse && Float32Array.from(
                { length: T }, (_, t) => t < own ? float(a.lse.data, 0, H * own, head * own + t) : -Infinity
            );
            m = { q: vectors(a.q, head, T), k: vectors(a.k, this.group(head), S, true), lse };
            this.heads.set(key, m);
        }
        return m;
    }
    // Returns the relative biases of a head; null if the layer has none.
    table(layer, head) {
        const a = this.arrays[layer].relative;
        if (!a) return null;
        const n = a.shape[1], N = a.shape[0] * n;
        return this.once(`r${layer}.${head}`, () =>
            Float32Array.from({ length: n }, (_, i) => float(a.data, 0, N, head * n + i)));
    }
    slope(layer, head) {
        const a = this.arrays[layer].alibi;
        return a ? float(a.data, 0, a.shape[0], head) : 0;
    }
    bias(layer, head, i, j) {
        const t = this.table(layer, head), reach = t ? (t.length - 1) / 2 : 0;
        return (t ? t[reach + max(-reach, min(reach, j - i))] : 0) - this.slope(layer, head) * abs(i - j);
    }
    /**
     * Computes a score step by step: dot = q.k, then scaled, then capped, then with bias. masked: the row cannot attend
     * to the key. error: of dot. Where the page has the weight as a float, the score is its logarithm + lse, which is
     * nearer than the product of rounded vectors.
     * @returns {?{ dot: number, error: number, scaled: number, capped: number, bias: number, masked: boolean, score:
     *     number }}
     */
    score(layer, head, i, j) {
        const m = this.head(layer, head), { S } = this, E = this.about.width, a = this.arrays[layer];
        if (!m) return null;
        const [from, to] = this.span(layer, i), cap = this.about.softcap[layer], scale = this.about.scale[layer];
        const bias = this.bias(layer, head, i, j), masked = j < from || j >= to;
        const eq = this.error(layer, "q"), ek = this.error(layer, "k");
        let dot = 0, error = 0;
        for (let e = 0; e < E; e++) {
            const q = m.q[i * E + e], k = m.k[e * S + j];
            dot += q * k;
            error += abs(q) * ek + abs(k) * eq + eq * ek;
        }
        const w = a.w?.kind === "f32" && !masked && m.lse ? this.row(layer, head, i)[j] : 0;
        if (w > 1e-30 && scale > 0) {
            const log = Math.log(w), part = cap > 0 ? (log + m.lse[i] - bias) / cap : 0;
            const own = cap > 0 ? cap * Math.atanh(part) / scale : (log + m.lse[i] - bias) / scale;
            // the kernel and this page each round a few times
            const off = 2 ** -21 * (abs(own) + (abs(log) + abs(m.lse[i]) + 2) / scale / (1 - part * part));
            if (off < error) [dot, error] = [own, off];
        }
        const scaled = dot * scale, capped = cap > 0 ? cap * Math.tanh(scaled / cap) : scaled;
        return { dot, error, scaled, capped, bias, masked, score: capped + bias };
    }
    // Returns the largest error of a number of the vectors "q", "k", "v" or "x" of a layer.
    error(layer, name) {
        const a = this.arrays[layer][name];
        return a ? this.once(`d${name}${layer}`, () => vectorError(a)) : 0;
    }
    product(layer, head, i) {
        const { S } = this, E = this.about.width, m = this.head(layer, head), k = m.k;
        const row = new Float32Array(S), [from, to] = this.span(layer, i);
        let lse = m.lse?.[i];
        if (lse === -Infinity) return row;
        if (lse === Infinity) return row.fill(NaN, from, to); // a score is +Inf
        const q = m.q.subarray(i * E, i * E + E).map(x => x * this.about.scale[layer]);
        let e = 0;
        for (; e + 4 <= E; e += 4) {
            const q0 = q[e], q1 = q[e + 1], q2 = q[e + 2], q3 = q[e + 3];
            const k0 = e * S, k1 = k0 + S, k2 = k1 + S, k3 = k2 + S;
            for (let j = from; j < to; j++) row[j] += q0 * k[k0 + j] + q1 * k[k1 + j] + q2 * k[k2 + j] + q3 * k[k3 + j];
        }
        for (; e < E; e++) for (let j = from; j < to; j++) row[j] += q[e] * k[e * S + j];
        const cap = this.about.softcap[layer];
        if (cap > 0) for (let j = from; j < to; j++) row[j] = cap * Math.tanh(row[j] / cap);
        if (this.table(layer, head) || this.slope(layer, head))
            for (let j = from; j < to; j++) row[j] += this.bias(layer, head, i, j);
        if (!m.lse) { // without a stored lse, the row sums to 1
            let top = -Infinity, sum = 0;
            for (let j = from; j < to; j++) top = max(top, row[j]);
            for (let j = from; j < to; j++) sum += Math.exp(row[j] - top);
            lse = top + Math.log(sum);
        }
        for (let j = from; j < to; j++) row[j] = Math.exp(row[j] - lse);
        return row;
    }
    // These return the vector of one token; null if the page does not have it.
    q(layer, head, i) {
        const E = this.about.width;
        return this.head(layer, head)?.q.slice(i * E, i * E + E) ?? null;
    }
    k(layer, head, j) {
        const m = this.head(layer, head);
        return m ? Float32Array.from({ length: this.about.width }, (_, e) => m.k[e * this.S + j]) : null;
    }
    v(layer, head, j) {
        const a = this.arrays[layer].v, F = this.about.value, g = this.group(head);
        return a ? this.once(`v${layer}.${g}`, () => vectors(a, g, this.S)).slice(j * F, j * F + F) : null;
    }
    x(layer, i) {
        const a = this.arrays[layer].x, D = this.about.input;
        return a ? this.once(`x${layer}`, () => vectors(a, 0, this.T)).slice(i * D, i * D + D) : null;
    }
    // Returns the array with this name in a layer, numbers [T][columns] of every token; null if the page has no such
    // array.
    numbers(layer, name) {
        const a = this.arrays[layer][name];
        return a ? this.once(`${name}${layer}`, () => halves(a, this.T)) : null;
    }
    received(layer, head) {
        const a = this.arrays[layer].received;
        return a ? this.once(`c${layer}.${head}`, () => roots(a, head)) : null;
    }
    entropy(layer, head) {
        const a = this.arrays[layer].entropy;
        return a ? this.once(`e${layer}.${head}`, () => roots(a, head)) : null;
    }
    // Returns the matrix as side x side blocks, with the largest weight ("max") or the mean weight ("mean") of each
    // block; null if this would require every row of a long text.
    pyramid(layer, head, side, what) {
        const key = `${what}${layer}.${head}.${side}`, a = this.arrays[layer][what];
        if (!a && (this.T * this.S > 1.1e6 || !this.whole(layer))) return null;
        return this.once(key, () =>
            a ? pool(roots(a, head), a.shape[1], side, what, this.T, this.S) : this.blocks(layer, head, side, what));
    }
    blocks(layer, head, side, what) {
        const { T, S } = this, out = new Float32Array(side * side), n = new Float32Array(side * side);
        for (let i = 0; i < T; i++) {
            const row = this.row(layer, head, i), from = floor(i * side / T) * side;
            for (let j = 0; j < S; j++) {
                const b = from + floor(j * side / S);
                n[b]++;
                if (what === "mean") out[b] += row[j]; else if (row[j] > out[b]) out[b] = row[j];
            }
        }
        return what === "mean" ? out.map((x, b) => n[b] ? x / n[b] : 0) : out;
    }
}

// Resamples n x n blocks to side x side blocks. Smaller blocks repeat a number; larger blocks have the maximum or the
// mean.
function pool(from, n, side, what, T, S) {
    if (n === side) return from;
    const out = new Float32Array(side * side), sum = new Float32Array(side * side);
    const size = (b, all) => ceil((b + 1) * all / n) - ceil(b * all / n);
    for (let a = 0; a < max(n, side); a++) {
        for (let b = 0; b < max(n, side); b++) {
            const x = side > n ? from[floor(a * n / side) * n + floor(b * n / side)] : from[a * n + b];
            const to = side > n ? a * side + b : floor(a * side / n) * side + floor(b * side / n);
            const pairs = side > n ? 1 : size(a, T) * size(b, S);
            if (what === "mean") { out[to] += x * pairs; sum[to] += pairs; } else if (x > out[to]) out[to] = x;
        }
    }
    return what === "mean" ? out.map((x, i) => sum[i] ? x / sum[i] : 0) : out;
}

// Lists every stack that has arrays, in the order of their numbers in the file: the stacks of the page, of the other
// model or text, and of each frame of training. Each has the lengths of its texts.
function everyStack(about) {
    const of = (stacks, texts) =>
        stacks.map(about => ({ about, rows: texts[about.rows], keys: texts[about.keys] }));
    return [...of(about.stacks, about.texts), ...about.against ? of(about.against.stacks, about.against.texts) : [],
        ...(about.training?.frames ?? []).flatMap(f => of(f.stacks, about.texts))];
}

/**
 * Decodes the numbers of the page to one Weights per stack. All arrays are checked before any is used.
 * @returns {Promise<Weights[]>}
 * @throws {{ say: string }}
 */
export async function load(about) {
    const node = document.getElementById("packed");
    const text = node ? node.textContent.trim() : "", found = floor(text.length * 3 / 4);
    const cut = () => ({
        say: say(
            "cut", count(about.packed), count(max(0, found - (text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0)))
        )
    });
    if (text.length !== 4 * ceil(about.packed / 3)) throw cut();
    let bytes = null;
    try {
        bytes = await unpack(fromBase64(text), about.bytes);
    } catch {
        throw { say: say("damaged") };
    }
    const stacks = everyStack(about), arrays = stacks.map(s => Array.from({ length: s.about.layers }, () => ({})));
    for (const { name, kind, stack, layer, shape, offset, size, crc } of about.arrays) {
        const data = bytes.subarray(offset, offset + size);
        if (data.length !== size || crc32(data) !== crc) throw { say: say("array", name, layer, offset) };
        for (const a of layer < 0 ? arrays[stack] : [arrays[stack][layer]]) a[name] ??= { kind, shape, data };
    }
    const own = text => text.tokens.length - (text.padding ?? 0);
    return stacks.map(({ about, rows, keys }, n) =>
        new Weights(about, arrays[n], rows.tokens.length, keys.tokens.length, own(rows), own(keys)));
}
