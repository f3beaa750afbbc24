// SPDX-License-Identifier: MIT
// inflate.js: decompresses raw deflate (RFC 1951), for browsers without DecompressionStream("deflate-raw").

// Returns for each code [smallest value, number of extra bits].
function codesFrom(first, extra) {
    const out = [];
    let smallest = first;
    for (const bits of extra) {
        out.push([smallest, bits]);
        smallest += 1 << bits;
    }
    return out;
}
const LENGTHS = [
    ...codesFrom(3, [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5]), [258, 0]
];
const DISTANCES = codesFrom(1, [0, 0, 0, 0, ...Array.from({ length: 26 }, (_, i) => 1 + (i >> 1))]);
const LENGTH_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];
const END_OF_BLOCK = 256;

/** @typedef {{ count: Uint16Array, symbol: Uint16Array }} Code */
// Makes a canonical Huffman code: the number of codes of each length, and the symbols in the order of their codes.
function huffman(lengths) {
    const count = new Uint16Array(16), start = new Uint16Array(16), symbol = new Uint16Array(lengths.length);
    for (const l of lengths) count[l]++;
    count[0] = 0;
    for (let l = 1; l < 15; l++) start[l + 1] = start[l] + count[l];
    lengths.forEach((l, s) => { if (l) symbol[start[l]++] = s; });
    return { count, symbol };
}
/** @returns {[Code, Code]} */
const fixedCodes = () => [
    huffman([...Array(144).fill(8), ...Array(112).fill(9), ...Array(24).fill(7), ...Array(8).fill(8)]),
    huffman(Array(30).fill(5))
];

class BitReader {
    constructor(bytes) {
        this.bytes = bytes;
        this.at = 0; // index of the next byte
        this.held = 0; // bits that were read from bytes, but not used yet
        this.count = 0;
    }
    take(count) {
        while (this.count < count) {
            if (this.at >= this.bytes.length) throw new Error("cut");
            this.held |= this.bytes[this.at++] << this.count;
            this.count += 8;
        }
        const x = this.held & (1 << count) - 1;
        this.held >>>= count;
        this.count -= count;
        return x;
    }
    dropByte() {
        this.held = this.count = 0;
    }
    symbol(code) {
        let x = 0, first = 0, index = 0;
        for (let l = 1; l < 16; l++) {
            x |= this.take(1);
            const count = code.count[l];
            if (x - count < first) return code.symbol[index + x - first];
            index += count;
            first = first + count << 1;
            x <<= 1;
        }
        throw new Error("code");
    }
}

// Reads the two codes that the head of a block contains: for literals and lengths, and for distances.
/** @returns {[Code, Code]} */
function readCodes(from) {
    const literals = from.take(5) + 257, distances = from.take(5) + 1, n = from.take(4) + 4;
    const lengths = Array(19).fill(0);
    for (let i = 0; i < n; i++) lengths[LENGTH_ORDER[i]] = from.take(3);
    const code = huffman(lengths), all = [];
    while (all.length < literals + distances) {
        const s = from.symbol(code);
        if (s < 16) {
            all.push(s);
            continue;
        }
        if (s === 16 && !all.length) throw new Error("repeat");
        const value = s === 16 ? all[all.length - 1] : 0;
        for (let k = s === 16 ? 3 + from.take(2) : s === 17 ? 3 + from.take(3) : 11 + from.take(7); k; k--)
            all.push(value);
    }
    return [huffman(all.slice(0, literals)), huffman(all.slice(literals, literals + distances))];
}

// Copies a stored block to out[n..]. Returns the new n.
function copyStored(from, out, n) {
    const { bytes } = from, at = from.at + 4;
    const length = bytes[at - 4] | bytes[at - 3] << 8;
    from.dropByte();
    if ((length ^ 0xffff) !== (bytes[at - 2] | bytes[at - 1] << 8)) throw new Error("stored");
    if (at + length > bytes.length || n + length > out.length) throw new Error("cut");
    out.set(bytes.subarray(at, at + length), n);
    from.at = at + length;
    return n + length;
}

// Decodes a compressed block to out[n..]. Returns the new n.
function decodeBlock(from, [literals, distances], out, n) {
    for (let s; (s = from.symbol(literals)) !== END_OF_BLOCK;) {
        if (s < END_OF_BLOCK) {
            if (n >= out.length) throw new Error("long");
            out[n++] = s;
            continue;
        }
        const [shortest, lengthBits] = LENGTHS[s - 257] ?? [], length = shortest + from.take(lengthBits ?? 0);
        const [nearest, farBits] = DISTANCES[from.symbol(distances)] ?? [], far = nearest + from.take(farBits ?? 0);
        if (!(far <= n) || !length) throw new Error("far");
        if (n + length > out.length) throw new Error("long");
        for (let i = 0; i < length; i++, n++) out[n] = out[n - far];
    }
    return n;
}

/**
 * Decompresses bytes. Throws if they are malformed.
 * @param {Uint8Array} bytes
 * @param {number} size size of the result, which must be exact
 * @returns {Uint8Array}
 * @throws if bytes are malformed
 */
export function inflate(bytes, size) {
    const out = new Uint8Array(size), from = new BitReader(bytes);
    let n = 0;
    for (let last = 0; !last;) {
        last = from.take(1);
        const type = from.take(2);
        if (type === 3) throw new Error("block");
        if (type === 0) n = copyStored(from, out, n);
        else n = decodeBlock(from, type === 1 ? fixedCodes() : readCodes(from), out, n);
    }
    if (n !== size) throw new Error("short");
    return out;
}
