// SPDX-License-Identifier: MIT
// frame.js: sets the shared state, writes it to the address of the page, and registers and opens views.
//
// A view is an object that its script passes to addView(). include/qkv/view.def has the order of views in the header.
//   key, id, name   "M", "model", "Model": the key that opens it, its name in the address, its name in the header
//   can()           true, or why it cannot be opened: a sentence, which becomes the title of the disabled entry
//   rare            true: its entry is shown only if it can be opened
//   words           true: it can show words in place of tokens (state.words)
//   build()         returns its nodes { left, mid, right }, each an array; called once per stack
//   show(), hide()  called when it is opened, and when another view is opened
//   stack()         called when another stack, or words in place of tokens, are shown: earlier results are invalid
//   layout()        computes positions for the size of the window
//   draw(what)      draws what changed: "target" (the token under the pointer, or the marked one), "base" (what is
//                   drawn), "layout" (layout() ran just before), "theme" (the colours changed)
//   panels(whole)   draws the panels around the picture, one frame later; whole: more than "target" changed
//   answer()        returns { question, pieces }: the title, and the pieces of the sentence (see sentence.js)
//   group           the node whose aria-label is the sentence
//   spoken()        the text for screen readers, if it is not the sentence
//   keys            rows like the rows of addKeys() in page.js; they precede the rows of the page
//   table(most)     [[head, ...], [cell, ...], ...]: the numbers in view, largest first. Key C copies all rows; key T
//                   shows the first `most` rows, so the others may be omitted
//   rest(n)         the sum of the rows after the n-th, as text; "": there is no such row
//   animated()      the picture as SVG that moves without script; null: it has none now
//   svg()           the picture as SVG, which key E saves
//   reveal(i)       scrolls token i into view
//   finish()        draws at once what draw() left for later, before the page is printed
//   drop()          clears the selections that only this view has, for key Esc
//   write(p), read(p)  its own part of the address, a URLSearchParams; its names have two letters or more
// All members except key, id, name, can, build, draw and answer are optional.
import { max, min } from "./math.js";
import { $, el, windowWidth } from "./dom.js";
import { FILTERS, isKey, isShown, page, state } from "./state.js";
import { forgetAggregates, wordStack } from "./aggregate.js";
import { requestDraw, tell } from "./drawing.js";
import { nameTokens } from "./messages.js";
import { forgetRowStats } from "./head_stats.js";
import { forgetWindow, windowed } from "./row_window.js";

// ---- stacks ----------------------------------------------------------------------------------------
/**
 * @param {[text: string, part: number, special: number, raw?: string]} entry of the file
 * @returns {Token}
 */
function tokenOf(entry) {
    const [text, part, special, raw] = entry;
    return { text, part, special: special === 1, raw: raw ?? text, named: "", rawNamed: "" };
}
/** @returns {?Pair} */
const pairOf = entry => entry && { row: entry[0], key: entry[1], weight: entry[2] };
/** @returns {HeadStats} */
function statsOfHead([kind, strength, word, rows, keys, distance, focus, shares, best, same]) {
    return { kind, strength, word, rows, keys, distance, focus, shares, best: pairOf(best), same: pairOf(same) };
}
/**
 * Names the members of the rows in the description of the page: kinds of head, arrays.
 * @param {any} about as parsed from the file
 */
export function nameRows(about) {
    about.kindTable = about.kindTable.map(([name, glyph, threshold, target, rule]) =>
        ({ name, glyph, threshold, target, rule }));
    about.arrays = about.rows.map(([name, kind, stack, layer, shape, offset, size, crc]) =>
        ({ name, kind, stack, layer, shape, offset, size, crc }));
}
/**
 * Returns the stacks of a description: of the page, of the model to compare with, or of a frame of training.
 * @returns {Stack[]}
 */
export function stacksOf(about) {
    const texts = about.texts.map(t => ({ ...t, tokens: nameTokens(t.tokens.map(tokenOf), i => i) }));
    return about.stacks.map(s => {
        const { tokens, places: rowPlaces, given = 0, padding: rowPadding = 0 } = texts[s.rows];
        const { tokens: keys, places: keyPlaces, given: givenKeys = 0, padding: keyPadding = 0 } = texts[s.keys];
        const stats = s.stats.map(layer => layer.map(statsOfHead));
        return {
            name: s.name, tokens, keys, rowPlaces, keyPlaces, given, givenKeys, rowPadding, keyPadding,
            T: tokens.length, S: keys.length,
            L: s.layers, H: s.heads, causal: s.causal, left: s.left, right: s.right, stats, effects: s.effects,
            start: s.start, weights: null, about: s,
            stories: (s.stories ?? []).map(([layer, head, row, key, weight]) => ({ layer, head, row, key, weight }))
        };
    });
}
/**
 * Makes stack n the current one: copies its members to `page`.
 * @param {number} n
 * @param {boolean} words true: words are shown in place of tokens
 */
export function useStack(n, words = false) {
    page.stack = page.stacks[n];
    state.stack = n;
    const s = words ? wordStack(page.stack) : page.stack;
    for (const name of [
        "tokens", "keys", "T", "S", "L", "H", "causal", "left", "right", "stats", "effects", "given", "givenKeys",
        "rowPadding", "keyPadding"
    ])
        page[name] = s[name];
    page.weights = s.weights;
    page.words = words;
    page.allSpecial = page.tokens.every(t => t.special) || page.keys.every(t => t.special);
    page.specials = [...new Set([...page.tokens, ...page.keys].filter(t => t.special).map(t => t.text))];
    page.pair = page.tokens === page.keys && [0, 1].every(p => page.tokens.some(t => t.part === p && !t.special));
    seeTokens();
    forgetRowStats();
    forgetAggregates();
    forgetWindow();
    page.sees = page.before = null;
    for (const v of VIEWS) {
        v.stack?.();
        v.boxes?.forEach(b => b.remove());
        v.boxes = null;
    }
}
function seeTokens() {
    page.visible = page.tokens.map((_, i) => i).filter(isShown);
    page.hiddenKeys = page.keys.map((_, j) => j).filter(j => !isKey(j));
    page.visibleKeys = page.tokens === page.keys ? page.visible : page.keys.map((_, j) => j).filter(isKey);
}
export function selectOnly(h) { // when called again, restores the previous selection
    if (state.selected.length === 1 && state.selected[0] === h && page.before) return set({ selected: page.before });
    const before = state.selected;
    set({ selected: [h] });
    page.before = before;
}
export function set(change) {
    const of = name => name in change && change[name] !== state[name];
    const stack = of("stack"), view = of("view");
    if (change.selected) page.before = null;
    Object.assign(state, change);
    const words = state.words && viewOf(state.view).words === true && wordStack(page.stacks[state.stack]) !== null;
    const again = stack || words !== page.words;
    if (stack) {
        useStack(state.stack, words);
        Object.assign(
            state,
            {
                layer: min(state.layer, page.L - 1), selected: state.selected.filter(h => h < page.H), row: -1, key: -1,
                filter: "all"
            }
        );
    } else if (again) {
        const { groups } = wordStack(page.stack);
        const to = (name, list, n) => n < 0 ? -1 : words ? groups[name][n] : groups[list][n][0];
        Object.assign(state, { row: to("row", "rows", state.row), key: to("key", "keys", state.key) });
        useStack(state.stack, words);
    }
    if ("special" in change) {
        seeTokens();
        if (state.row >= 0 && !isShown(state.row)) state.row = state.key = -1;
        if (state.key >= 0 && !isKey(state.key)) state.key = -1;
    }
    if (view || again) openView();
    writeAddress();
    // the keys that are shown depend on the marked row
    const folds = windowed() && ("row" in change || "key" in change);
    requestDraw(
        view || again || folds || "special" in change || "raw" in change
            ? "layout"
            : "row" in change || "key" in change
            ? "target"
            : "base"
    );
}

// The state in the address, such as #w=model&a=1&u=1&l=3&h=1.6&t=10&k=2&f=AB&s=1&x=.5&r=1&v=1&m=1, followed by the
// names that the view adds.
const FLAGS = { s: "special", r: "raw", v: "table", m: "mean", g: "log", z: "rollout" };
export function writeAddress() {
    const s = state, p = new URLSearchParams();
    if (s.view !== page.first) p.set("w", s.view);
    if (s.stack !== (page.about.stack ?? 0)) p.set("a", `${s.stack}`);
    if (s.words) p.set("u", "1");
    p.set("l", `${s.layer}`);
    p.set("h", s.selected.join("."));
    if (s.row >= 0) p.set("t", `${s.row}`);
    if (s.key >= 0) p.set("k", `${s.key}`);
    if (s.filter !== "all") p.set("f", s.filter);
    if (s.factor !== .5) p.set("x", `${+s.factor.toPrecision(4)}`);
    for (const name in FLAGS) if (s[FLAGS[name]]) p.set(name, "1");
    page.view?.write?.(p);
    page.address = "#" + p;
    try {
        history.replaceState(null, "", page.address);
    } catch { /* some browsers refuse it for files: the picture works, the link does not follow */ }
}
// Reads the state from the address. Values that cannot be shown are ignored.
export function readAddress() {
    if (location.hash.length < 2 || location.hash === page.address) return;
    const p = new URLSearchParams(location.hash.slice(1));
    const int = (name, end, none) => /^\d{1,9}$/.test(p.get(name) ?? "") && +p.get(name) < end ? +p.get(name) : none;
    const first = {
        view: viewOf(p.get("w"))?.can() === true ? p.get("w") : page.first,
        stack: int("a", page.stacks.length, page.about.stack ?? 0), words: p.get("u") === "1"
    };
    set(first);
    const s = { layer: int("l", page.L, state.layer), row: int("t", page.T, -1), key: int("k", page.S, -1) };
    for (const name in FLAGS) s[FLAGS[name]] = p.get(name) === "1";
    if (p.has("h"))
        s.selected = [...new Set(p.get("h").split(".").filter(x => /^\d{1,6}$/.test(x) && +x < page.H).map(Number))];
    s.filter = page.pair && FILTERS.includes(p.get("f")) ? p.get("f") : "all";
    const factor = parseFloat(p.get("x"));
    s.factor = factor >= 0 && factor <= .95 * page.S ? factor : .5;
    page.view.read?.(p);
    set(s);
}

// ---- views -----------------------------------------------------------------------------------------
/** @type {View[]} */
export const VIEWS = [];
/** @param {View} view */
export const addView = view => { VIEWS.push(view); };
export const viewOf = id => VIEWS.find(v => v.id === id);
// The keys that work in every view, which page.js adds.
/** @type {KeyRow[]} */
export const KEYS = [];
/** @param {KeyRow[]} rows */
export const addKeys = rows => { KEYS.push(...rows); };
export const keyRows = () => [...page.view?.keys ?? [], ...KEYS];
// Opens a view after a key or a click in the header.
export function requestView(view) {
    const can = view.can();
    if (can !== true) return tell(can);
    if (view.id === state.view) return (view.group ?? $("mid")).focus();
    set({ view: view.id });
}
export function openView() {
    const view = viewOf(state.view), old = page.view;
    if (old && old !== view) {
        old.hide?.();
        old.boxes?.forEach(b => { b.hidden = true; });
    }
    if (!view.boxes) {
        const nodes = view.build();
        view.boxes = ["left", "mid", "right"].map(where => {
            const box = el("div", { class: `view ${view.id}` }, ...(nodes[where] ?? []));
            $(where).insertBefore(box, where === "mid" ? page.table : null);
            return box;
        });
    }
    view.boxes.forEach((b, n) => {
        b.hidden = false;
        b.parentElement.hidden = n !== 1 && !b.firstChild;
    });
    page.view = view;
    $("main").dataset.view = view.id;
    drawViews();
    if (old !== view) view.show?.();
    requestDraw("theme");
}
function drawViews() {
    VIEWS.forEach((v, n) => {
        const b = page.entries[n], can = v.can(), on = v === page.view;
        b.title = can === true ? "" : can;
        b.hidden = v.rare && can !== true;
        b.setAttribute("aria-disabled", `${can !== true}`);
        if (on) b.setAttribute("aria-current", "page");
        else b.removeAttribute("aria-current");
        if (on && windowWidth() <= 760) b.scrollIntoView({ block: "nearest", inline: "center" });
    });
    page.drawHints();
}

export const stepLayerBy = by => set({ layer: min(page.L - 1, max(0, state.layer + by)) });
export function headOfKey(e) {
    const at = /^Digit\d$/.test(e.code) ? +e.code[5] : e.code === "Minus" ? 10 : e.code === "Equal" ? 11 : -1;
    return at < page.H ? at : -1;
}
