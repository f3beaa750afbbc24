// SPDX-License-Identifier: MIT
// frame.js: what all views share: the state and its place in the address, the stacks of attention,
// the registry of views, one frame of drawing.
//
// A view is an object given to addView when its script is read; the order of the scripts in
// tools/embed.cmake is the order in the header.
//   key, id, name   "M", "model", "Model": the key that opens it, its name in the address, its name
//   can()           true, or why it cannot be opened: a sentence, the title of the disabled entry
//   rare            true: its entry is there only when it can be opened
//   words           true: it can show words in place of tokens (state.words)
//   build()         its nodes { left, mid, right }, arrays; once for each stack it is opened on
//   show(), hide()  it was opened; it was left
//   stack()         another stack, or words for tokens: what was computed for the old one is void
//   layout()        places for the size of the window
//   draw(what)      what changed: "look" (what is pointed at or marked), "base" (what is drawn),
//                   "layout" (layout ran just before), "theme" (colours were read anew)
//   panels(whole)   what stands around the picture, one frame later; whole: more than a look changed
//   answer()        { question, pieces }: the sentence, pieces as in words.js
//   group           the node whose aria-label is the sentence
//   spoken()        what a reader without eyes hears, if not the sentence
//   keys            rows as KEYS in page.js; they go before those of the page
//   table(most)     [[head, ...], [cell, ...], ...]: what is on view as numbers, strongest first, for C; for
//                   T only the first `most` rows are shown, so that the others may be left out
//   rest(n)         what the rows after the n-th weigh, in words; "": nothing to say
//   svg()           the picture as SVG, for E
//   reveal(i)       brings token i into view
//   drop()          Esc: lets go of what it alone holds
//   write(p), read(p)  its own part of the address, URLSearchParams; names of two letters or more
// All but key, id, name, can, build, draw and answer may be left out.

const state = { view: "heads", stack: 0, layer: 0, lit: [], row: -1, key: -1, special: false, filter: "all", factor: .5, raw: false, table: false, mean: false, log: false, rollout: false, words: false };
const page = { stacks: [], get weights() { return weights; }, get where() { return g; } };
let weights = null;
const $ = id => document.getElementById(id);
function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const name in attributes) node.setAttribute(name, attributes[name]);
    node.append(...children);
    return node;
}
const onClick = (node, act) => node.addEventListener("click", act);

// ---- stacks ----------------------------------------------------------------------------------------
// { name, tokens, keys, T, S, L, H, causal, left, right, stats, effects, start, weights, about, given }: rows are
// tokens, what they read are keys; in self-attention keys === tokens.  given: tokens from there on were
// written by the model; 0: none.
function tokenOf([text, part, special, raw]) {
    return { text, part, special: special === 1, raw: raw ?? text };
}
function stacksOf(about) {
    const texts = about.texts.map(t => ({ ...t, tokens: t.tokens.map(tokenOf) }));
    return about.stacks.map(s => {
        const { tokens, places: rowPlaces, given = 0 } = texts[s.rows], { tokens: keys, places: keyPlaces, given: givenKeys = 0 } = texts[s.keys];
        const stats = s.stats.map(layer => layer.map(([kind, strength, word, rows, keys, distance, focus, shares, best, same]) => ({ kind, strength, word, rows, keys, distance, focus, shares, best, same })));
        return { name: s.name, tokens, keys, rowPlaces, keyPlaces, given, givenKeys, T: tokens.length, S: keys.length, L: s.layers, H: s.heads, causal: s.causal, left: s.left, right: s.right, stats, effects: s.effects, start: s.start, weights: null, about: s };
    });
}
// The stack that is looked at: its names go to page, its numbers to weights.
function useStack(n, words = false) {
    page.stack = page.stacks[n];
    state.stack = n;
    const s = words ? wordStack(page.stack) : page.stack;
    for (const name of ["tokens", "keys", "T", "S", "L", "H", "causal", "left", "right", "stats", "effects", "given", "givenKeys"]) page[name] = s[name];
    weights = s.weights;
    page.words = words;
    page.allSpecial = page.tokens.every(t => t.special) || page.keys.every(t => t.special);
    page.specials = [...new Set([...page.tokens, ...page.keys].filter(t => t.special).map(t => t.text))];
    page.pair = page.tokens === page.keys && [0, 1].every(p => page.tokens.some(t => t.part === p && !t.special));
    seeTokens();
    forgetSurveys();
    forgetMixes();
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
    page.unseen = page.keys.map((_, j) => j).filter(j => !isKey(j));
    page.seen = page.tokens === page.keys ? page.visible : page.keys.map((_, j) => j).filter(isKey);
}

// ---- state ---------------------------------------------------------------------------------------
function toggled(h) {
    return state.lit.includes(h) ? state.lit.filter(x => x !== h) : [...state.lit, h];
}
function solo(h) { // again: what was lit before
    if (state.lit.length === 1 && state.lit[0] === h && page.before) return set({ lit: page.before });
    const before = state.lit;
    set({ lit: [h] });
    page.before = before;
}
function set(change) {
    const of = name => name in change && change[name] !== state[name];
    const stack = of("stack"), view = of("view");
    if (change.lit) page.before = null;
    Object.assign(state, change);
    const words = state.words && viewOf(state.view).words === true && wordStack(page.stacks[state.stack]) !== null, again = stack || words !== page.words;
    if (stack) {
        useStack(state.stack, words);
        Object.assign(state, { layer: min(state.layer, page.L - 1), lit: state.lit.filter(h => h < page.H), row: -1, key: -1, filter: "all" });
    } else if (again) {
        const { groups } = wordStack(page.stack), to = (name, list, n) => n < 0 ? -1 : words ? groups[name][n] : groups[list][n][0];
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
    const folds = windowed() && ("row" in change || "key" in change); // the keys that stand there follow the mark
    ask(view || again || folds || "special" in change || "raw" in change ? "layout" : "row" in change || "key" in change ? "look" : "base");
}

// #w=model&a=1&u=1&l=3&h=1.6&t=10&k=2&f=AB&s=1&x=.5&r=1&v=1&m=1 and what the view writes
const FLAGS = { s: "special", r: "raw", v: "table", m: "mean", g: "log", z: "rollout" };
function writeAddress() {
    const s = state, p = new URLSearchParams();
    if (s.view !== page.first) p.set("w", s.view);
    if (s.stack !== (page.about.stack ?? 0)) p.set("a", s.stack);
    if (s.words) p.set("u", 1);
    p.set("l", s.layer);
    p.set("h", s.lit.join("."));
    if (s.row >= 0) p.set("t", s.row);
    if (s.key >= 0) p.set("k", s.key);
    if (s.filter !== "all") p.set("f", s.filter);
    if (s.factor !== .5) p.set("x", +s.factor.toPrecision(4));
    for (const name in FLAGS) if (s[FLAGS[name]]) p.set(name, 1);
    page.view?.write?.(p);
    page.address = "#" + p;
    try {
        history.replaceState(null, "", page.address);
    } catch { /* some browsers refuse it for files: the picture works, the link does not follow */ }
}
// Only what can be shown is taken over.
function readAddress() {
    if (location.hash.length < 2 || location.hash === page.address) return;
    const p = new URLSearchParams(location.hash.slice(1));
    const int = (name, end, none) => /^\d{1,9}$/.test(p.get(name) ?? "") && +p.get(name) < end ? +p.get(name) : none;
    const first = { view: viewOf(p.get("w"))?.can() === true ? p.get("w") : page.first, stack: int("a", page.stacks.length, page.about.stack ?? 0), words: p.get("u") === "1" };
    set(first);
    const s = { layer: int("l", page.L, state.layer), row: int("t", page.T, -1), key: int("k", page.S, -1) };
    for (const name in FLAGS) s[FLAGS[name]] = p.get(name) === "1";
    if (p.has("h")) s.lit = [...new Set(p.get("h").split(".").filter(x => /^\d{1,6}$/.test(x) && +x < page.H).map(Number))];
    s.filter = page.pair && FILTERS.includes(p.get("f")) ? p.get("f") : "all";
    const factor = parseFloat(p.get("x"));
    s.factor = factor >= 0 && factor <= .95 * page.S ? factor : .5;
    page.view.read?.(p);
    set(s);
}

// ---- views -----------------------------------------------------------------------------------------
const VIEWS = [];
const addView = view => { VIEWS.push(view); };
const viewOf = id => VIEWS.find(v => v.id === id);
// What a key or a click in the header asks for.
function wantView(view) {
    const can = view.can();
    if (can !== true) return announce(can);
    if (view.id === state.view) return (view.group ?? $("mid")).focus();
    set({ view: view.id });
}
function openView() {
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
        b.parentNode.hidden = n !== 1 && !b.firstChild;
    });
    page.view = view;
    $("main").dataset.view = view.id;
    drawViews();
    if (old !== view) view.show?.();
    ask("theme");
}
function drawViews() {
    VIEWS.forEach((v, n) => {
        const b = page.entries[n], can = v.can(), on = v === page.view;
        b.title = can === true ? "" : can;
        b.hidden = v.rare && can !== true;
        b.setAttribute("aria-disabled", can !== true);
        if (on) b.setAttribute("aria-current", "page");
        else b.removeAttribute("aria-current");
    });
    $("hints").replaceChildren(...keyRows().filter(k => k[4] && (k[4] === 1 || k[4]())).map(k => el("span", {}, el("kbd", {}, k[0]), k[1].replace(/ \(.*\)/, ""))));
}

// ---- drawing: everything happens in one frame ------------------------------------------------------
const ORDER = ["none", "look", "base", "layout", "theme"];
let asked = 0, scheduled = false;
function ask(what) {
    asked = max(asked, ORDER.indexOf(what));
    if (!scheduled) {
        scheduled = true;
        requestAnimationFrame(frame);
    }
}
function frame() {
    const start = performance.now(), what = asked, view = page.view;
    scheduled = false;
    asked = 0;
    if (!weights || !view) return;
    if (what >= 4) readColours();
    if (what >= 3) view.layout?.();
    view.draw(ORDER[what]);
    drawWords();
    page.timing = { what: ORDER[what], picture: performance.now() - start, panels: page.timing?.panels ?? 0, links: links.n };
    page.whole ||= what >= 2;
    page.panels ||= requestAnimationFrame(drawPanels);
}
// What stands around the picture follows one frame later.
function drawPanels() {
    const start = performance.now(), whole = page.whole;
    page.panels = 0;
    page.whole = false;
    page.view.panels?.(whole);
    page.timing.panels = performance.now() - start;
    clearTimeout(page.later);
    page.later = setTimeout(drawTable, 150);
}
function drawWords() {
    const { question, pieces } = page.view.answer(), text = plain(pieces);
    page.view.group?.setAttribute("aria-label", text);
    if (text === page.said && question === page.asked) return;
    page.said = text;
    page.asked = question;
    $("question").textContent = question;
    $("sentence").replaceChildren(...pieces.map(p => p.b ? el("b", {}, p.b) : p));
    announce(() => page.view.spoken?.() ?? text);
}
// At most once in half a second: the last word counts; a function says it when it is time.
function announce(text) {
    page.speech = text;
    page.speaking ||= setTimeout(() => {
        page.speaking = 0;
        page.live.textContent = typeof page.speech === "function" ? page.speech() : page.speech;
    }, 500);
}

// The numbers on view as a table: always in the tree, shown by T; its first rows.
const TABLE_ROWS = 30;
function drawTable() {
    const rows = page.view.table?.(TABLE_ROWS) ?? [], body = rows.slice(1, 1 + TABLE_ROWS), more = rows.length - 1 - body.length;
    const number = c => body.every(r => /^$|^[-−\d.,]+$/.test(r[c]));
    const numbers = (rows[0] ?? []).map((_, c) => number(c));
    const td = (x, c) => numbers[c] ? el("td", {}, String(x).replace(/^([-−]?)0\./, "$1.")) : el("td", { class: "text" }, el("bdi", {}, x));
    page.table.className = state.table ? "" : "quiet";
    page.table.replaceChildren(...(rows.length ? [el("table", {}, el("caption", {}, say("onView")),
        el("thead", {}, el("tr", {}, ...rows[0].map((t, c) => el("th", { scope: "col", class: numbers[c] ? "" : "text" }, t)))),
        el("tbody", {}, ...body.map(r => el("tr", {}, ...r.map(td)))))] : []),
        el("p", { class: "note" }, more > 0 ? [say("more", count(more)), page.view.rest?.(TABLE_ROWS)].filter(x => x).join(", ") : ""));
}
