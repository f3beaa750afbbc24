// SPDX-License-Identifier: MIT
// page.js: the keys of every view, theme, finder, dialogs, the start.

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

// ---- keys ------------------------------------------------------------------------------------------
// [keys as the reader sees them, what they do, which (a letter, or a function of the event), the act,
// in the footer: 1 always, a function: when it says so]
const KEYS = [
    ["S", "specials", "s", () => page.specials.length && set({ special: !state.special }), () => page.specials.length],
    ["R", "raw tokens", "r", () => set({ raw: !state.raw })],
    ["/", "find a token", e => e.key === "/", () => openFinder(), 1],
    ["T", "table", "t", () => { set({ table: !state.table }); drawTable(); if (state.table) page.table.scrollIntoView({ block: "nearest" }); }, 1],
    ["C", "copy as TSV", "c", () => copyTable()],
    ["E", "save picture", "e", () => page.view.svg ? page.saver.showModal() : announce(say("noPicture"))],
    ["Esc", "let go", e => e.key === "Escape", () => { page.view.drop?.(); set({ row: -1, key: -1 }); closeFinder(); }],
    ["D", "light or dark", "d", () => theme()],
    ["?", "keys", e => e.key === "?", () => openHelp()]
];
const keyRows = () => [...page.view?.keys ?? [], ...KEYS];
const viewKeys = () => VIEWS.map(v => [v.key, v.name.toLowerCase(), v.key.toLowerCase(), () => wantView(v)]);
function onKey(e) {
    if (e.ctrlKey || e.altKey || e.metaKey || document.querySelector("dialog[open]")) return;
    if (e.target.closest("input:not([type=range]), select, textarea") && e.key !== "Escape") return;
    if (e.target.closest("input") && /^Arrow|^Home$|^End$|^Page/.test(e.key)) return;
    for (const [, , when, act] of [...keyRows(), ...viewKeys()]) {
        if (typeof when === "string" ? e.key.toLowerCase() !== when : !when(e)) continue;
        e.preventDefault();
        act(e);
        return;
    }
}
function openHelp() {
    const list = rows => el("dl", {}, ...rows.flatMap(([k, what]) => [el("dt", {}, el("kbd", {}, k)), el("dd", {}, what)]));
    page.keyLists.replaceChildren(...page.view?.keys ? [el("h3", {}, page.view.name), list(page.view.keys)] : [], el("h3", {}, say("everywhere")), list([...KEYS, ...viewKeys()]));
    page.help.showModal();
}

function openFinder() {
    page.finder.hidden = false;
    page.finder.querySelector("input").focus();
}
function closeFinder() {
    page.finder.hidden = true;
    page.found = -1;
}
function findNext(text) {
    const want = text.toLowerCase(), n = page.T;
    if (!want) return;
    for (let k = 1; k <= n; k++) {
        const i = (max(-1, page.found ?? -1) + k) % n;
        if (!isShown(i) || !page.tokens[i].text.toLowerCase().includes(want)) continue;
        page.found = i;
        set({ row: i, key: -1 });
        return page.view.reveal?.(i);
    }
    announce(say("noMatch", text));
    page.finder.querySelector("span").textContent = say("noMatch", text);
}

// ---- the start -------------------------------------------------------------------------------------
function buildFrame() {
    const header = $("top");
    page.entries = VIEWS.map(v => {
        const b = el("button", {}, v.name + " ", el("kbd", {}, v.key));
        onClick(b, () => wantView(v));
        return b;
    });
    $("views").append(...page.entries);
    page.theme = el("button", {}, "Dark ", el("kbd", {}, "D"));
    onClick(page.theme, theme);
    const keys = el("button", {}, "Keys ", el("kbd", {}, "?"));
    onClick(keys, openHelp);
    header.append(page.theme, keys);
    const close = () => {
        const b = el("button", {}, say("close"));
        onClick(b, () => b.closest("dialog").close());
        return b;
    };
    page.keyLists = el("div");
    page.help = el("dialog", { "aria-label": "Keys" }, el("h2", {}, "Keys"), page.keyLists, el("div", { class: "buttons" }, close()));
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
    page.table = el("section", { id: "links", class: "quiet", "aria-label": say("onView") });
    document.body.append(page.help, page.saver, page.finder, page.live);
    themeNow();
}
function buildPage() {
    page.font = getComputedStyle(document.body).fontFamily;
    $("loading").remove();
    $("words").remove();
    $("mid").append(page.table);
    openView();
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
    page.stacks = stacksOf(about);
    buildFrame();
    try {
        const all = page.all = await load(about); // also those of another picture, of a run
        page.stacks.forEach((s, n) => { s.weights = all[n]; });
    } catch (e) {
        return broken(e.say ?? say("damaged"));
    }
    useStack(about.stack ?? 0);
    const { layer, heads, token, special } = page.stack.start;
    Object.assign(state, { layer, lit: heads, row: token, special });
    const wanted = about.view ?? (windowed() ? "matrix" : "heads");
    page.first = state.view = viewOf(wanted)?.can() === true ? wanted : "heads";
    buildPage();
    readAddress();
    if (state.row >= 0) requestAnimationFrame(() => page.view.reveal?.(state.row));
}
// For the console, and for tests: numbers as the page has them.
globalThis.qkv = { row: (l, h, i) => weights.row(l, h, i), get state() { return { ...state, look: look() }; }, get timing() { return page.timing; }, svg: () => page.view.svg(), table: () => page.view.table(), view: id => wantView(viewOf(id)), page };
themeNow();
if (document.readyState === "loading") addEventListener("DOMContentLoaded", start);
else start();
