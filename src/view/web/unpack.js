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

// Rows of weights of every head, computed when looked at; kept while there is room.
class Weights {
    constructor(about, arrays) {
        this.about = about;
        this.T = about.tokens.length;
        this.arrays = arrays;  // by layer: { w } or { q, k, lse }
        this.heads = new Map();
        this.rows = new Map();
        this.room = max(256, floor(3e7 / (4 * this.T)));
    }
    has(layer, head, i) {
        return this.rows.has((layer * this.about.heads + head) * this.T + i);
    }
    row(layer, head, i) {
        const key = (layer * this.about.heads + head) * this.T + i;
        let row = this.rows.get(key);
        if (row) return row;
        if (this.rows.size >= this.room) this.rows.clear();
        row = this.arrays[layer].w ? this.dense(layer, head, i) : this.product(layer, head, i);
        this.rows.set(key, row);
        return row;
    }
    // One weight, without its row where that is not at hand.
    pair(layer, head, i, j) {
        if (this.arrays[layer].w || this.has(layer, head, i)) return this.row(layer, head, i)[j];
        const { T } = this, E = this.about.width, { q, k, lse } = this.head(layer, head);
        let s = 0;
        if (lse[i] === -Infinity || (this.about.causal && j > i)) return 0;
        for (let e = 0; e < E; e++) s += q[i * E + e] * k[e * T + j];
        return Math.exp(s - lse[i]);
    }
    dense(layer, head, i) {
        const T = this.T, from = (head * T + i) * T, c = this.arrays[layer].w.data.subarray(from, from + T);
        const row = new Float32Array(T);
        let sum = 0;
        for (let j = 0; j < T; j++) sum += c[j] * c[j];
        if (c[0] === 255) row.fill(NaN);
        else if (sum) for (let j = 0; j < T; j++) row[j] = c[j] * c[j] / sum;
        return row;
    }
    head(layer, head) {
        const key = layer * this.about.heads + head;
        let m = this.heads.get(key);
        if (!m) {
            const { T } = this, { width, heads, kv } = this.about, a = this.arrays[layer];
            const lse = Float32Array.from({ length: T }, (_, t) => float(a.lse.data, 0, heads * T, head * T + t));
            m = { q: vectors(a.q, head, T, width, false), k: vectors(a.k, floor(head / (heads / kv)), T, width, true), lse };
            this.heads.set(key, m);
        }
        return m;
    }
    product(layer, head, i) {
        const { T } = this, E = this.about.width, m = this.head(layer, head), k = m.k;
        const row = new Float32Array(T), n = this.about.causal ? i + 1 : T, lse = m.lse[i];
        if (lse === -Infinity) return row;
        let e = 0;
        for (; e + 4 <= E; e += 4) {
            const q0 = m.q[i * E + e], q1 = m.q[i * E + e + 1], q2 = m.q[i * E + e + 2], q3 = m.q[i * E + e + 3];
            const k0 = e * T, k1 = k0 + T, k2 = k1 + T, k3 = k2 + T;
            for (let j = 0; j < n; j++) row[j] += q0 * k[k0 + j] + q1 * k[k1 + j] + q2 * k[k2 + j] + q3 * k[k3 + j];
        }
        for (; e < E; e++) for (let j = 0; j < n; j++) row[j] += m.q[i * E + e] * k[e * T + j];
        for (let j = 0; j < n; j++) row[j] = Math.exp(row[j] - lse);
        return row;
    }
}

// The numbers of the page; every array is checked before any of it is used.  Throws { say: text }.
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
    const arrays = Array.from({ length: about.layers }, () => ({}));
    for (const [name, kind, layer, shape, offset, size, crc] of about.rows) {
        const data = bytes.subarray(offset, offset + size);
        if (data.length !== size || crc32(data) !== crc) throw { say: say("array", name, layer, offset) };
        arrays[layer][name] = { kind, shape, data };
    }
    return new Weights(about, arrays);
}
