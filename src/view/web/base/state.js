// SPDX-License-Identifier: MIT
// state.js: contains the state that all views share, and answers questions about it: which heads are selected, which
// tokens are shown, and to which keys a row can attend. It imports no view.
import { max, min } from "./math.js";
import { quoted } from "./messages.js";

/** @type {State} */
export const state = {
    view: "heads", stack: 0, layer: 0, selected: [], row: -1, key: -1, special: false, filter: "all", factor: .5,
    raw: false,
    table: false, mean: false, log: false, rollout: false, words: false
};
/** @type {Page} */
export const page = /** @type {any} */ ({ stacks: [], get where() { return geometry; } });
/** @type {Geometry} */
export const geometry = {
    w: 0, h: 0, row: 40, rows: [], keys: [], folds: [], y: null, z: null, x0: 0, x1: 0, bars: 0, sums: 0
};
export const stage = { pointer: null };

export function toggled(h) {
    return state.selected.includes(h) ? state.selected.filter(x => x !== h) : [...state.selected, h];
}
export const selectedHeads = () => state.selected.length < 2 ? state.selected
    : [...state.selected].sort((a, b) => a - b);
export const isShown = i => state.special || !page.tokens[i].special || page.allSpecial;
export const isKey = j => state.special || !page.keys[j].special || page.allSpecial;
export const partOf = c => c === "A" ? 0 : 1;
export const rowPasses = i => state.filter === "all" || page.tokens[i].part === partOf(state.filter[0]);
export const keyPasses = j => state.filter === "all" || page.keys[j].part === partOf(state.filter[1]);
/**
 * Returns [first, end) of the keys that row i may attend to.
 * @param {number} i
 * @returns {[number, number]}
 */
export function span(i) {
    const of = x => Array.isArray(x) ? x[state.layer] : x, left = of(page.left), right = of(page.right);
    const keys = i < page.T - page.rowPadding ? page.S - page.keyPadding : 0; // padding attends to no key
    const end = min(keys, page.causal ? i + 1 : right < 0 ? page.S : i + right + 1);
    return [min(end, left < 0 ? 0 : max(0, i - left)), end];
}
export const threshold = i => { const [from, end] = span(i); return min(.95, state.factor / (end - from)); };
/**
 * Returns the row and the key under the pointer or, if there are none, the marked ones; -1: no row, no key.
 * @returns {Target}
 */
export function currentTarget() {
    const p = stage.pointer;
    if (p && p.row >= 0) return { row: p.row, key: -1 };
    if (p && p.key >= 0) return { row: state.row, key: p.key, pointed: true };
    return { row: state.row, key: state.key, pointed: state.key >= 0 };
}

export const FILTERS = ["all", "AA", "AB", "BA", "BB"];
export const marked = l => l.row >= 0 || l.key >= 0;

export const allHeads = () => Array.from({ length: page.H }, (_, h) => h);

export const quote = i => quoted(page.tokens[i]);
export const quoteKey = j => quoted(page.keys[j]);

export function topKey(row, a, b) {
    let to = -1, w = 0;
    for (let j = 0; j < row.length; j++)
        if (j !== a && j !== b && row[j] > w && isKey(j)) { to = j; w = row[j]; }
    return { to, w };
}
/** "L3.H1", "cross.L0.H1" */
export const headName = (layer, head) =>
    `${page.stack.name === "attention" ? "" : page.stack.name + "."}L${layer}.H${head}`;
