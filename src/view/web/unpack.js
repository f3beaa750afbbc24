// SPDX-License-Identifier: MIT
// unpack.js: the page's numbers: base64, raw deflate (RFC 1951), CRC-32, one row of weights.

function fromBase64(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
}

// Raw deflate without the browser's help, for browsers that have none.  Throws on anything malformed.
function inflate(bytes, size) {
    const out = new Uint8Array(size);
    let at = 0, bit = 0, held = 0, n = 0;
    const need = count => {
        while (held < count) {
            if (at >= bytes.length) throw new Error("cut");
            bit |= bytes[at++] << held;
            held += 8;
        }
    };
    const bits = count => {
        if (!count) return 0;
        need(count);
        const x = bit & (1 << count) - 1;
        bit >>>= count;
        held -= count;
        return x;
    };
    // Canonical Huffman: how many codes of each length, and the symbols in the order of their codes.
    const code = lengths => {
        const count = new Uint16Array(16), start = new Uint16Array(16), symbol = new Uint16Array(lengths.length);
        for (const l of lengths) count[l]++;
        count[0] = 0;
        for (let l = 1; l < 15; l++) start[l + 1] = start[l] + count[l];
        lengths.forEach((l, s) => { if (l) symbol[start[l]++] = s; });
        return { count, symbol };
    };
    const next = tree => {
        let x = 0, first = 0, index = 0;
        for (let l = 1; l < 16; l++) {
            x |= bits(1);
            const c = tree.count[l];
            if (x - c < first) return tree.symbol[index + x - first];
            index += c;
            first = first + c << 1;
            x <<= 1;
        }
        throw new Error("code");
    };
    const put = b => {
        if (n >= size) throw new Error("long");
        out[n++] = b;
    };
    const base = (first, extra) => {
        const out = [];
        let x = first;
        for (const e of extra) { out.push([x, e]); x += 1 << e; }
        return out;
    };
    const LENGTH = base(3, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]);
    LENGTH.push([258, 0]);
    const FAR = base(1, [0, 0, 0, 0, ...Array.from({ length: 26 }, (_, i) => 1 + (i >> 1))]);
    const ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
    for (let last = 0; !last;) {
        last = bits(1);
        const type = bits(2);
        if (type === 3) throw new Error("block");
        if (type === 0) {
            bit = held = 0;
            const length = bytes[at] | bytes[at + 1] << 8;
            if ((length ^ 0xffff) !== (bytes[at + 2] | bytes[at + 3] << 8)) throw new Error("stored");
            at += 4;
            if (at + length > bytes.length || n + length > size) throw new Error("cut");
            out.set(bytes.subarray(at, at + length), n);
            at += length;
            n += length;
            continue;
        }
        let words, fars;
        if (type === 1) {
            words = code([...Array(144).fill(8), ...Array(112).fill(9), ...Array(24).fill(7), ...Array(8).fill(8)]);
            fars = code(Array(30).fill(5));
        } else {
            const nw = bits(5) + 257, nf = bits(5) + 1, nc = bits(4) + 4, lengths = Array(19).fill(0);
            for (let i = 0; i < nc; i++) lengths[ORDER[i]] = bits(3);
            const tree = code(lengths), all = [];
            while (all.length < nw + nf) {
                const s = next(tree);
                if (s < 16) all.push(s);
                else if (s === 16 && !all.length) throw new Error("repeat");
                else {
                    const value = s === 16 ? all[all.length - 1] : 0;
                    for (let k = s === 16 ? 3 + bits(2) : s === 17 ? 3 + bits(3) : 11 + bits(7); k; k--) all.push(value);
                }
            }
            words = code(all.slice(0, nw));
            fars = code(all.slice(nw, nw + nf));
        }
        for (let s; (s = next(words)) !== 256;) {
            if (s < 256) { put(s); continue; }
            const [l, le] = LENGTH[s - 257] || [], length = l + bits(le);
            const [f, fe] = FAR[next(fars)] || [], far = f + bits(fe);
            if (!(far <= n) || !length) throw new Error("far");
            for (let i = 0; i < length; i++) put(out[n - far]);
        }
    }
    if (n !== size) throw new Error("short");
    return out;
}

async function unpack(bytes, size) {
    let stream = null;
    try {
        stream = new DecompressionStream("deflate-raw");
    } catch {
        return inflate(bytes, size);
    }
    const out = new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
    if (out.length !== size) throw new Error("short");
    return out;
}

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
    const e = h >> 10 & 31, m = h & 1023, x = e === 31 ? (m ? NaN : Infinity) : e ? (1 + m / 1024) * 2 ** (e - 15) : m * 2 ** -24;
    return h >> 15 ? -x : x;
}
// Little-endian f32 number i of n in four planes from `at`.
const bits = new DataView(new ArrayBuffer(4));
function float(b, at, n, i) {
    for (let k = 0; k < 4; k++) bits.setUint8(k, b[at + k * n + i]);
    return bits.getFloat32(0, true);
}
// Head `index` of an array [N][T][E], as one Float32Array [T][E], or [E][T].
function vectors(array, index, T, E, transposed) {
    const b = array.data, N = array.shape[0], n = N * T, out = new Float32Array(T * E), small = array.kind === "i8";
    for (let e = 0; e < E; e++) {
        const step = small ? 0 : float(b, 2 * n * E, N * E, index * E + e);
        const middle = small ? 0 : float(b, 2 * n * E + 4 * N * E, N * E, index * E + e);
        for (let t = 0; t < T; t++) {
            const v = index * T + t, i = v * E + e;
            const c = small ? b[i] << 24 >> 24 : (b[i] | b[n * E + i] << 8) << 16 >> 16;
            const x = small ? c * half(b[n * E + v] | b[n * E + n + v] << 8) : c === -8192 ? NaN : middle + c * step;
            out[transposed ? e * T + t : t * E + e] = x;
        }
    }
    return out;
}

// Head `index` of an array of kind s8 or s16, [N][M][K].
function roots(array, index) {
    const [N, M, K] = array.shape, n = M * K, b = array.data, wide = array.kind === "s16", all = N * n;
    const scale = float(b, (wide ? 2 : 1) * all, N, index), most = wide ? 65535 : 255;
    return Float32Array.from({ length: n }, (_, i) => {
        const at = index * n + i, c = wide ? b[at] | b[all + at] << 8 : b[at];
        return scale * (c / most) ** 2;
    });
}

// One stack: rows of weights of every head, computed when looked at, kept while there is room.
// about: the stack's own; arrays: by layer, { w }, { q, k, lse } or { top } and what stands beside.
class Weights {
    constructor(about, arrays, T, S) {
        Object.assign(this, { about, arrays, T, S, L: about.layers, H: about.heads, kind: about.kind });
        this.heads = new Map();
        this.rows = new Map();
        this.kept = new Map();
        this.room = max(64, floor(3e7 / (4 * S)));
    }
    at(layer, head) {
        return layer * this.H + head;
    }
    // make() once for each key.
    once(key, make) {
        let x = this.kept.get(key);
        if (x === undefined) this.kept.set(key, x = make());
        return x;
    }
    group(head) {
        return floor(head / (this.H / this.about.kv));
    }
    // Whether rows of this layer are whole, not only their largest weights.
    whole(layer) {
        return !!(this.arrays[layer].w || this.arrays[layer].q);
    }
    // The keys [from, to) that row i may read.
    span(layer, i) {
        const { causal, left, right } = this.about, l = left[layer], r = right[layer];
        const to = min(this.S, causal ? i + 1 : this.S, r >= 0 ? max(0, i + r + 1) : this.S);
        return [min(to, l >= 0 ? max(0, i - l) : 0), to];
    }
    has(layer, head, i) {
        return this.rows.has(this.at(layer, head) * this.T + i);
    }
    row(layer, head, i) {
        const key = this.at(layer, head) * this.T + i;
        let row = this.rows.get(key);
        if (row) return row;
        if (this.rows.size >= this.room) this.rows.clear();
        const a = this.arrays[layer];
        row = a.w ? this.dense(layer, head, i) : a.q ? this.product(layer, head, i) : this.sparse(layer, head, i);
        this.rows.set(key, row);
        return row;
    }
    // The weight of row i that row() does not have.
    rest(layer, head, i) {
        if (this.whole(layer)) return 0;
        const list = this.slots(layer, head, i);
        return list.length ? max(0, this.sum(layer, head, i) - list.reduce((s, [, w]) => s + w, 0)) : 0;
    }
    // One weight, without its row where that is not at hand.
    pair(layer, head, i, j) {
        const a = this.arrays[layer];
        if (a.w || this.has(layer, head, i)) return this.row(layer, head, i)[j];
        if (!a.q) return this.slots(layer, head, i).find(([key]) => key === j)?.[1] ?? 0;
        if (!a.lse) return this.row(layer, head, i)[j];
        const s = this.score(layer, head, i, j), { lse } = this.head(layer, head);
        return s.masked || lse[i] === -Infinity ? 0 : Math.exp(s.score - lse[i]);
    }
    // The largest weights of a row, falling: at most n.
    top(layer, head, i, n = 16) {
        if (!this.whole(layer)) return this.slots(layer, head, i).slice(0, n);
        const row = this.row(layer, head, i), out = [];
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
        return s ? float(s.data, 0, this.H * this.T, head * this.T + i) : 1;
    }
    dense(layer, head, i) {
        const S = this.S, from = (head * this.T + i) * S, c = this.arrays[layer].w.data.subarray(from, from + S);
        const row = new Float32Array(S);
        let sum = 0;
        for (let j = 0; j < S; j++) sum += c[j] * c[j];
        if (c[0] === 255) return row.fill(NaN);
        const one = this.sum(layer, head, i) / sum;
        if (sum) for (let j = 0; j < S; j++) row[j] = c[j] * c[j] * one;
        return row;
    }
    // [[key, weight], ...] as kept; NaN: one entry of NaN.
    slots(layer, head, i) {
        const { data: b, shape: [H, T, K] } = this.arrays[layer].top, m = H * T, n = K * m, at = head * T + i;
        const planes = (b.length - 2 * m) / n - 1, codes = planes * n, u = b[codes + n + at] | b[codes + n + m + at] << 8;
        const largest = this.sum(layer, head, i) * (u / 65535) ** 2, out = [];
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
    // q [T][E] and k [E][S] of a head, lse [T]; null where the layer has none.
    head(layer, head) {
        const key = this.at(layer, head), a = this.arrays[layer];
        if (!a.q) return null;
        let m = this.heads.get(key);
        if (!m) {
            const { T, S, H } = this, E = this.about.width;
            if (this.heads.size * (T + S) * E > 6e7) this.heads.clear();
            const lse = a.lse && Float32Array.from({ length: T }, (_, t) => float(a.lse.data, 0, H * T, head * T + t));
            m = { q: vectors(a.q, head, T, E, false), k: vectors(a.k, this.group(head), S, E, true), lse };
            this.heads.set(key, m);
        }
        return m;
    }
    // What is added to a score; the table of a head, or null.
    table(layer, head) {
        const a = this.arrays[layer].relative;
        if (!a) return null;
        const n = a.shape[1], N = a.shape[0] * n;
        return this.once(`r${layer}.${head}`, () => Float32Array.from({ length: n }, (_, i) => float(a.data, 0, N, head * n + i)));
    }
    slope(layer, head) {
        const a = this.arrays[layer].alibi;
        return a ? float(a.data, 0, a.shape[0], head) : 0;
    }
    bias(layer, head, i, j) {
        const t = this.table(layer, head), reach = t ? (t.length - 1) / 2 : 0;
        return (t ? t[reach + max(-reach, min(reach, j - i))] : 0) - this.slope(layer, head) * abs(i - j);
    }
    // How a score comes about: dot = q.k, scaled, capped, + bias = score; masked: it does not count.
    score(layer, head, i, j) {
        const m = this.head(layer, head), { S } = this, E = this.about.width;
        if (!m) return null;
        const [from, to] = this.span(layer, i), cap = this.about.softcap[layer];
        let dot = 0;
        for (let e = 0; e < E; e++) dot += m.q[i * E + e] * m.k[e * S + j];
        const scaled = dot * this.about.scale[layer], capped = cap > 0 ? cap * Math.tanh(scaled / cap) : scaled;
        const bias = this.bias(layer, head, i, j);
        return { dot, scaled, capped, bias, masked: j < from || j >= to, score: capped + bias };
    }
    product(layer, head, i) {
        const { S } = this, E = this.about.width, m = this.head(layer, head), k = m.k;
        const row = new Float32Array(S), [from, to] = this.span(layer, i);
        let lse = m.lse?.[i];
        if (lse === -Infinity) return row;
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
        if (this.table(layer, head) || this.slope(layer, head)) for (let j = from; j < to; j++) row[j] += this.bias(layer, head, i, j);
        if (!m.lse) { // the row sums to 1
            let top = -Infinity, sum = 0;
            for (let j = from; j < to; j++) top = max(top, row[j]);
            for (let j = from; j < to; j++) sum += Math.exp(row[j] - top);
            lse = top + Math.log(sum);
        }
        for (let j = from; j < to; j++) row[j] = Math.exp(row[j] - lse);
        return row;
    }
    // Vectors of one token; null where the page has none.
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
        return a ? this.once(`v${layer}.${g}`, () => vectors(a, g, this.S, F, false)).slice(j * F, j * F + F) : null;
    }
    x(layer, i) {
        const a = this.arrays[layer].x, D = this.about.input;
        return a ? this.once(`x${layer}`, () => vectors(a, 0, this.T, D, false)).slice(i * D, i * D + D) : null;
    }
    received(layer, head) {
        const a = this.arrays[layer].received;
        return a ? this.once(`c${layer}.${head}`, () => roots(a, head)) : null;
    }
    entropy(layer, head) {
        const a = this.arrays[layer].entropy;
        return a ? this.once(`e${layer}.${head}`, () => roots(a, head)) : null;
    }
    // The whole as side x side blocks, "max" or "mean"; null where it would take every row of a
    // long text to tell.
    pyramid(layer, head, side, what) {
        const key = `${what}${layer}.${head}.${side}`, a = this.arrays[layer][what];
        if (!a && (this.T * this.S > 1.1e6 || !this.whole(layer))) return null;
        return this.once(key, () => a ? pool(roots(a, head), a.shape[1], side, what, this.T, this.S) : this.blocks(layer, head, side, what));
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

// Blocks n x n as side x side: finer ones repeat, coarser ones take the largest, or the mean by pairs.
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

// Every stack that has arrays, in the order their rows count: the picture's, the other picture's,
// those of each moment of a run; each with the numbers of tokens of its texts.
function everyStack(about) {
    const of = (stacks, texts) => stacks.map(about => ({ about, T: texts[about.rows].tokens.length, S: texts[about.keys].tokens.length }));
    return [...of(about.stacks, about.texts), ...about.against ? of(about.against.stacks, about.against.texts) : [],
        ...(about.training?.frames ?? []).flatMap(f => of(f.stacks, about.texts))];
}

// The numbers of the page, a Weights for every stack; every array is checked before any of it is
// used.  Throws { say: text }.
async function load(about) {
    const node = document.getElementById("packed");
    const text = node ? node.textContent.trim() : "", found = floor(text.length * 3 / 4);
    const cut = () => ({ say: say("cut", count(about.packed), count(max(0, found - (text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0)))) });
    if (text.length !== 4 * ceil(about.packed / 3)) throw cut();
    let bytes = null;
    try {
        bytes = await unpack(fromBase64(text), about.bytes);
    } catch {
        throw { say: say("damaged") };
    }
    const stacks = everyStack(about), arrays = stacks.map(s => Array.from({ length: s.about.layers }, () => ({})));
    for (const [name, kind, stack, layer, shape, offset, size, crc] of about.rows) {
        const data = bytes.subarray(offset, offset + size);
        if (data.length !== size || crc32(data) !== crc) throw { say: say("array", name, layer, offset) };
        for (const a of layer < 0 ? arrays[stack] : [arrays[stack][layer]]) a[name] ??= { kind, shape, data };
    }
    return stacks.map((s, n) => new Weights(s.about, arrays[n], s.T, s.S));
}
