// SPDX-License-Identifier: MIT
// page.js: the frame: state and its place in the address, keys, one frame of drawing, the start.

const state = { layer: 0, lit: [], row: -1, key: -1, special: false, filter: "all", factor: .5, raw: false, table: false, mix: "max" };
const page = {};
let weights = null;
const $ = id => document.getElementById(id);
function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const name in attributes) node.setAttribute(name, attributes[name]);
    node.append(...children);
    return node;
}

const onClick = (node, act) => node.addEventListener("click", act);

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
    if (change.lit) page.before = null;
    Object.assign(state, change);
    if ("special" in change) {
        page.visible = page.tokens.map((_, i) => i).filter(isShown);
        if (state.row >= 0 && !isShown(state.row)) state.row = state.key = -1;
        if (state.key >= 0 && !isShown(state.key)) state.key = -1;
    }
    writeAddress();
    ask("special" in change || "raw" in change ? "layout" : "row" in change || "key" in change ? "look" : "base");
}

// #l=3&h=1.6&t=10&k=2&f=AB&s=1&x=.5&r=1&v=1&m=mean
function writeAddress() {
    const s = state, p = [`l=${s.layer}`, `h=${s.lit.join(".")}`];
    if (s.row >= 0) p.push(`t=${s.row}`);
    if (s.key >= 0) p.push(`k=${s.key}`);
    if (s.filter !== "all") p.push(`f=${s.filter}`);
    if (s.special) p.push("s=1");
    if (s.factor !== .5) p.push(`x=${+s.factor.toPrecision(4)}`);
    if (s.raw) p.push("r=1");
    if (s.table) p.push("v=1");
    if (s.mix !== "max") p.push("m=mean");
    page.address = "#" + p.join("&");
    try {
        history.replaceState(null, "", page.address);
    } catch { /* some browsers refuse it for files: the picture works, the link does not follow */ }
}
// Only what can be shown is taken over.
function readAddress() {
    if (location.hash.length < 2 || location.hash === page.address) return;
    const p = new URLSearchParams(location.hash.slice(1));
    const int = (name, end, none) => /^\d{1,9}$/.test(p.get(name) ?? "") && +p.get(name) < end ? +p.get(name) : none;
    const s = { layer: int("l", page.L, state.layer), row: int("t", page.T, -1), key: int("k", page.T, -1), special: p.get("s") === "1", raw: p.get("r") === "1", table: p.get("v") === "1", mix: p.get("m") === "mean" ? "mean" : "max" };
    if (p.has("h")) s.lit = [...new Set(p.get("h").split(".").filter(x => /^\d{1,6}$/.test(x) && +x < page.H).map(Number))];
    s.filter = page.pair && FILTERS.includes(p.get("f")) ? p.get("f") : "all";
    const factor = parseFloat(p.get("x"));
    s.factor = factor >= 0 && factor <= .95 * page.T ? factor : .5;
    set(s);
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
    const start = performance.now(), what = asked;
    scheduled = false;
    asked = 0;
    if (!weights) return;
    if (what >= 4) readColours();
    if (what >= 3) layout();
    if (what >= 2) {
        const complete = drawBase();
        if (!complete) ask("base");
        else if (!surveyed(state.layer, lit())) wantSurveys(state.layer, lit(), () => ask("look"));
    }
    drawStage();
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
    const l = look(), sees = [state.layer, state.lit, l.row, l.key, state.special, state.filter, state.mix, hue.dark, stage.box.clientWidth, surveyed(state.layer, lit())].join();
    if (whole) { drawFilters(); drawBelow(); drawChips(); drawAtlas(); }
    if (sees !== page.sees) drawRight(l);
    page.sees = sees;
    page.timing.panels = performance.now() - start;
    clearTimeout(page.later);
    page.later = setTimeout(drawLinks, 150);
}
function drawWords() {
    const { question, pieces } = answer(look()), text = plain(pieces);
    if (text === page.said && question === page.asked) return;
    page.said = text;
    page.asked = question;
    $("question").textContent = question;
    $("sentence").replaceChildren(...pieces.map(p => p.b ? el("b", {}, p.b) : p));
    stage.box.setAttribute("aria-label", text);
    if (!lit().length) {
        panel.chipBox.parentNode.classList.remove("pulse");
        requestAnimationFrame(() => panel.chipBox.parentNode.classList.add("pulse"));
    }
    const l = look();
    announce(l.row >= 0 ? spoken(l.row) : text);
}
// "it, row 11 of 15, layer 4 head 2: animal .64, it .07, street .05; specials .15"
function spoken(i) {
    const heads = lit().map(h => {
        const row = weights.row(state.layer, h, i), keys = page.visible.slice().sort((a, b) => row[b] - row[a]).slice(0, 3);
        const hidden = row.reduce((s, w, j) => isShown(j) ? s : s + w, 0);
        return `head ${h}: ${keys.map(j => `${page.tokens[j].text} ${weight(row[j])}`).join(", ")}${hidden > .005 ? `; specials ${weight(hidden)}` : ""}`;
    });
    return `${page.tokens[i].text}, row ${i} of ${page.T}, layer ${state.layer} ${heads.slice(0, 3).join(". ")}`;
}
// At most once in half a second: the last word counts.
function announce(text) {
    page.speech = text;
    page.speaking ||= setTimeout(() => {
        page.speaking = 0;
        page.live.textContent = page.speech;
    }, 500);
}

// ---- keys ------------------------------------------------------------------------------------------
function step(by) { // the marked token
    const at = page.visible.indexOf(state.row), n = page.visible.length;
    const to = page.visible[at < 0 ? by > 0 ? 0 : n - 1 : min(n - 1, max(0, at + by))];
    stage.pointer = null;
    set({ row: to, key: -1 });
    reveal(to);
}
const layer = by => set({ layer: min(page.L - 1, max(0, state.layer + by)) });
// Light or dark: as the file was made, else as the reader last chose, else as the system is.
const system = matchMedia("(prefers-color-scheme: dark)");
function kept() {
    try { return localStorage.getItem("qkv-theme"); } catch { return null; } // some keep nothing for files
}
function themeNow() {
    const made = page.made ??= root.dataset.theme ?? "";
    const own = page.chosen ?? (made || kept());
    root.dataset.theme = own === "dark" || own === "light" ? own : system.matches ? "dark" : "light";
    if (page.theme) page.theme.firstChild.data = root.dataset.theme === "dark" ? "Light " : "Dark ";
}
function theme() {
    page.chosen = hue.dark ? "light" : "dark";
    try { localStorage.setItem("qkv-theme", page.chosen); } catch { /* then it holds for this time */ }
    themeNow();
    ask("theme");
}
function enter() {
    const p = stage.pointer;
    if (p) pin(p);
    else if (state.row >= 0) set({ row: state.row });
}
const KEYS = [
    ["↑ ↓", "token", e => e.key === "ArrowUp" || e.key === "ArrowDown", e => step(e.key === "ArrowUp" ? -1 : 1), 1],
    ["← →", "layer", e => e.key === "ArrowLeft" || e.key === "ArrowRight", e => layer(e.key === "ArrowLeft" ? -1 : 1), 1],
    ["0…9 - =", "solo a head (0 to 11)", e => !e.shiftKey && headOf(e) >= 0, e => solo(headOf(e)), 1],
    ["⇧ 0", "add a head", e => e.shiftKey && headOf(e) >= 0, e => set({ lit: toggled(headOf(e)) }), 1],
    ["A", "light all heads", "a", () => set({ lit: Array.from({ length: page.H }, (_, h) => h) })],
    ["I", "invert the heads", "i", () => set({ lit: Array.from({ length: page.H }, (_, h) => h).filter(h => !state.lit.includes(h)) })],
    ["Enter", "pin what is pointed at", e => e.key === "Enter" && !e.target.closest("button,input,a"), enter],
    ["Esc", "let go", e => e.key === "Escape", () => { stage.pointer = null; set({ row: -1, key: -1 }); closeFinder(); }],
    ["S", "specials", "s", () => page.specials.length && set({ special: !state.special }), 1],
    ["F", "sentences", "f", () => page.pair && set({ filter: FILTERS[(FILTERS.indexOf(state.filter) + 1) % 5] }), 2],
    [", .", "threshold", e => e.key === "," || e.key === ".", e => set({ factor: min(.95 * page.T, max(.01, state.factor * (e.key === "," ? .8 : 1.25))) })],
    ["R", "raw tokens", "r", () => set({ raw: !state.raw })],
    ["/", "find a token", e => e.key === "/", () => openFinder(), 1],
    ["T", "table", "t", () => { set({ table: !state.table }); drawLinks(); if (state.table) panel.links.scrollIntoView({ block: "nearest" }); }, 1],
    ["C", "copy as TSV", "c", () => copyTable()],
    ["E", "save picture", "e", () => page.saver.showModal()],
    ["H", "heads", "h", () => stage.box.focus()],
    ["D", "light or dark", "d", () => theme()],
    ["?", "keys", e => e.key === "?", () => page.help.showModal()]
];
function headOf(e) {
    const at = /^Digit\d$/.test(e.code) ? +e.code[5] : e.code === "Minus" ? 10 : e.code === "Equal" ? 11 : -1;
    return at < page.H ? at : -1;
}
function onKey(e) {
    if (e.ctrlKey || e.altKey || e.metaKey || document.querySelector("dialog[open]")) return;
    if (e.target.closest("input") && e.key !== "Escape") return;
    for (const [, , when, act] of KEYS) {
        if (typeof when === "string" ? e.key.toLowerCase() !== when : !when(e)) continue;
        e.preventDefault();
        act(e);
        return;
    }
}

function openFinder() {
    page.finder.hidden = false;
    page.finder.querySelector("input").focus();
}
function closeFinder() {
    page.finder.hidden = true;
    stage.found = -1;
}
function findNext(text) {
    const want = text.toLowerCase(), n = page.T;
    if (!want) return;
    for (let k = 1; k <= n; k++) {
        const i = (max(-1, stage.found ?? -1) + k) % n;
        if (!isShown(i) || !page.tokens[i].text.toLowerCase().includes(want)) continue;
        stage.found = i;
        set({ row: i, key: -1 });
        return reveal(i);
    }
    announce(say("noMatch", text));
    page.finder.querySelector("span").textContent = say("noMatch", text);
}

// ---- the start -------------------------------------------------------------------------------------
function buildFrame() {
    const header = $("top");
    page.theme = el("button", {}, "Dark ", el("kbd", {}, "D"));
    onClick(page.theme, theme);
    const keys = el("button", {}, "Keys ", el("kbd", {}, "?"));
    onClick(keys, () => page.help.showModal());
    header.append(page.theme, keys);
    const close = () => {
        const b = el("button", {}, say("close"));
        onClick(b, () => b.closest("dialog").close());
        return b;
    };
    page.help = el("dialog", { "aria-label": "Keys" }, el("h2", {}, "Keys"), el("dl", {}, ...KEYS.flatMap(([k, what]) => [el("dt", {}, el("kbd", {}, k)), el("dd", {}, what)])), el("div", { class: "buttons" }, close()));
    page.saver = el("dialog", { "aria-label": say("save") }, el("h2", {}, say("save")), el("div", { class: "buttons" }, ...["SVG", "PNG"].map((t, k) => {
        const b = el("button", {}, t);
        onClick(b, () => { page.saver.close(); (k ? savePng : saveSvg)(); });
        return b;
    }), close()));
    const input = el("input", { type: "search", "aria-label": say("find"), placeholder: say("find") });
    page.finder = el("div", { id: "finder", role: "search", hidden: "" }, input, el("span", { class: "note" }));
    input.addEventListener("keydown", e => {
        if (e.key === "Enter") findNext(input.value);
        else page.finder.querySelector("span").textContent = "";
    });
    page.live = el("div", { class: "quiet", "aria-live": "polite" });
    document.body.append(page.help, page.saver, page.finder, page.live);
    $("hints").append(...KEYS.filter(k => k[4] === 1 || (k[4] === 2 && page.pair)).map(k => el("span", {}, el("kbd", {}, k[0]), k[1].replace(" (0 to 11)", ""))));
    themeNow();
}
function buildPage() {
    stage.font = getComputedStyle(document.body).fontFamily;
    stage.margin = el("span");
    const picture = buildStage();
    panel.chipBox = buildChips();
    panel.links = el("section", { id: "links", class: "quiet", "aria-label": say("links") });
    $("loading").remove();
    $("words").remove();
    $("mid").append(el("div", {}, panel.chipBox), ...picture, panel.links);
    $("left").append(buildAtlas(), ...buildFilters());
    $("right").append(...buildRight());
    addEventListener("keydown", onKey);
    addEventListener("hashchange", readAddress);
    addEventListener("resize", () => ask("layout"));
    for (const query of [system, matchMedia("(forced-colors: active)"), matchMedia("(prefers-contrast: more)")])
        query.addEventListener("change", () => { themeNow(); ask("theme"); });
    addEventListener("beforeprint", () => { // paper is light
        root.dataset.theme = "light";
        asked = 4;
        frame();
        drawPanels();
    });
    addEventListener("afterprint", () => { themeNow(); ask("theme"); });
}
function broken(text) {
    $("loading").textContent = text;
    $("loading").className = "broken";
    $("words")?.remove();
}

async function start() {
    if (!$("loading")) return;
    $("loading").hidden = false;
    let about = null;
    try {
        about = JSON.parse($("about").textContent);
    } catch {
        return broken(say("unreadable"));
    }
    page.about = about;
    page.L = about.layers;
    page.H = about.heads;
    page.T = about.tokens.length;
    page.tokens = about.tokens.map(([text, part, special, raw]) => ({ text, part, special: special === 1, raw: raw ?? text }));
    page.stats = about.stats.map(layer => layer.map(([kind, strength, word, rows, keys, distance, focus, shares, best, same]) => ({ kind, strength, word, rows, keys, distance, focus, shares, best, same })));
    page.allSpecial = page.tokens.every(t => t.special);
    page.specials = [...new Set(page.tokens.filter(t => t.special).map(t => t.text))];
    page.pair = [0, 1].every(p => page.tokens.some(t => t.part === p && !t.special));
    buildFrame();
    try {
        weights = await load(about);
    } catch (e) {
        return broken(e.say ?? say("damaged"));
    }
    Object.assign(state, { layer: about.start.layer, lit: about.start.heads, row: about.start.token, special: about.start.special });
    page.visible = page.tokens.map((_, i) => i).filter(isShown);
    buildPage();
    readAddress();
    ask("theme");
    if (state.row >= 0) requestAnimationFrame(() => reveal(state.row));
}
// For the console, and for tests: numbers as the page has them.
globalThis.qkv = { row: (l, h, i) => weights.row(l, h, i), get state() { return { ...state, look: look() }; }, get timing() { return page.timing; }, svg, viewRows };
themeNow();
if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
else start();
