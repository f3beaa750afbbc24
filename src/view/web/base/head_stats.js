// SPDX-License-Identifier: MIT
// head_stats.js: computes the statistics of a head that need all of its rows (effective keys, attention received, the
// coarse matrix, the strongest links), in slices of a few milliseconds that do not block the page.
import { floor, max, min } from "./math.js";
import { selectedHeads, page } from "./state.js";
import { ALL_KEPT, MEAN, ROLLOUT, SLICE, isSparse, rowAt } from "./aggregate.js";

export const COARSE = 64;
export const STRONG = 24;
const known = new Map();
const waiting = new Set();
let queue = [];
let running = false;

export function rowStats(layer, head) {
    const key = `${layer}:${head}${head === MEAN ? selectedHeads() : ""}`;
    let s = known.get(key);
    if (!s) {
        const { T, S } = page, n = min(COARSE, T), m = min(COARSE, S);
        s = {
            layer, head, heads: selectedHeads(), done: 0, keys: new Float32Array(T),
            got: [0, 1, 2].map(() => new Float32Array(S)), n, m, coarse: new Float32Array(n * m), strong: []
        };
        known.set(key, s);
        if (max(T, S) <= 64 && head !== ROLLOUT) while (s.done < T) addRowStats(s);
    }
    return s;
}

function addRowStats(s) {
    const { T, S } = page, i = s.done++, token = page.tokens[i], own = page.tokens === page.keys;
    const got = s.got[token.special ? 2 : token.part], at = floor(i * s.n / T) * s.m;
    let entropy = 0;
    const take = (j, w) => {
        got[j] += w;
        if (w > 0) entropy -= w * Math.log(w);
        if (token.special || page.keys[j].special) return;
        const c = at + floor(j * s.m / S);
        if (w > s.coarse[c]) s.coarse[c] = w;
        if ((own && i === j) || !(w > (s.strong[STRONG - 1]?.w ?? 0))) return;
        s.strong.push({ i, j, w });
        s.strong.sort((a, b) => b.w - a.w);
        s.strong.length = min(s.strong.length, STRONG);
    };
    if (s.head >= 0 && isSparse(s.layer)) {
        for (const [j, w] of page.weights.top(s.layer, s.head, i, ALL_KEPT)) take(j, w);
    } else {
        const row = rowAt(s.layer, s.head, i);
        for (let j = 0; j < S; j++) take(j, row[j]);
    }
    s.keys[i] = Math.exp(entropy);
}

export function forgetRowStats() {
    known.clear();
    queue = [];
    waiting.clear();
}

/**
 * Requests the row statistics of these heads. Earlier requests are dropped. `then` is called when all are complete.
 * @param {number} layer
 * @param {number[]} heads
 * @param {() => void} then
 */
export function requestRowStats(layer, heads, then) {
    waiting.add(then);
    queue = heads.map(h => rowStats(layer, h)).filter(s => s.done < page.T);
    if (queue.length && !running) {
        running = true;
        setTimeout(step);
    }
    function step() {
        const end = performance.now() + SLICE;
        while (queue.length && performance.now() < end) {
            const [s] = queue;
            if (s.head === MEAN && `${s.heads}` !== `${selectedHeads()}`) { // other heads were selected in the meantime
                queue.shift();
                continue;
            }
            addRowStats(queue[0]);
            if (queue[0].done >= page.T) queue.shift();
        }
        running = queue.length > 0;
        if (running) return void setTimeout(step);
        const all = [...waiting];
        waiting.clear();
        for (const then of all) then();
    }
}
export const rowStatsReady = (layer, heads) => heads.every(h => rowStats(layer, h).done >= page.T);
