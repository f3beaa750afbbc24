// SPDX-License-Identifier: MIT
// bytes.js: decodes base64 and decompresses, with the functions of the browser where it has them.
import { inflate } from "./inflate.js";

export function fromBase64(text) {
    // not all browsers have fromBase64, nor does the type checker know it
    const own = /** @type {any} */ (Uint8Array).fromBase64;
    if (own) return own.call(Uint8Array, text);
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
}

/**
 * Decompresses raw deflate.
 * @param {Uint8Array} bytes
 * @param {number} size size of the result, which must be exact
 * @returns {Promise<Uint8Array>}
 * @throws if bytes are malformed
 */
export async function unpack(bytes, size) {
    let stream = null;
    try {
        stream = new /** @type {any} */ (globalThis).DecompressionStream("deflate-raw");
    } catch {
        return inflate(bytes, size);
    }
    const out = new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
    if (out.length !== size) throw new Error("short");
    return out;
}
