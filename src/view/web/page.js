// SPDX-License-Identifier: MIT
// page.js: starts the page, and contains what all views share: keys, theme, finder, dialogs.
import { max } from "./base/math.js";
import { say, setWeightError } from "./base/messages.js";
import { $, el, onClick, root } from "./base/dom.js";
import { isShown, currentTarget, page, state } from "./base/state.js";
import { load } from "./base/unpack.js";
import { hue } from "./base/palette.js";
import { requestDraw, drawNow, drawTable, tell } from "./base/drawing.js";
import { windowed } from "./base/row_window.js";
import {
    VIEWS, addKeys, keyRows, nameRows, openView, readAddress, set, stacksOf, useStack, viewOf, requestView
} from "./base/frame.js";
import { choices } from "./parts/figure.js";
import { copyTable, saveAnimated, savePng, saveSvg, savedSvg, saving } from "./parts/save.js";
import { buildStories } from "./parts/stories.js";
import { buildLive, drawLive, isLive, toggleHeads } from "./parts/live.js";
import { buildHelp, buildTools, drawHints, drawTools, openHelp } from "./parts/tools.js";

// Chooses the theme: the theme with which the file was made; if it has none, the theme that the reader chose last; if
// there is none, the theme of the system.
const system = matchMedia("(prefers-color-scheme: dark)");
function kept() {
    // some browsers have no storage for local files
    try { return localStorage.getItem("qkv-theme"); } catch { return null; }
}
function themeNow() {
    const made = page.made ??= root.dataset.theme ?? "";
    const own = page.chosen ?? (made || kept());
    root.dataset.theme = own === "dark" || own === "light" ? own : system.matches ? "dark" : "light";
    if (page.theme) page.theme.firstChild.nodeValue = root.dataset.theme === "dark" ? "Light " : "Dark ";
}
function theme() {
    page.chosen = hue.dark ? "light" : "dark";
    try { localStorage.setItem("qkv-theme", page.chosen); } catch { /* then it holds for this time */ }
    themeNow();
    requestDraw("theme");
}

// ---- keys ------------------------------------------------------------------------------------------
// A row is a KeyRow (types.js): the key as shown, what it does in words, the test of the event, the action, and whether
// the footer shows it.
addKeys([
    ["S", "specials", "s", () => page.specials.length && set({ special: !state.special }), () => page.specials.length],
    ["R", "raw tokens", "r", () => set({ raw: !state.raw })],
    ["/", "find a token", e => e.key === "/", () => openFinder(), 1],
    [
        "T", "table", "t",
        () => {
            set({ table: !state.table });
            drawTable();
            if (state.table) page.table.scrollIntoView({ block: "nearest" });
        },
        1
    ],
    ["C", "copy as TSV", "c", () => copyTable()],
    ["E", "save picture", "e", () => {
        if (!page.view.svg) return tell(say("noPicture"));
        page.animated.hidden = !page.view.animated?.();
        page.widths.show();
        page.saver.showModal();
    }],
    ["Esc", "clear the selection", e => e.key === "Escape",
        () => { page.view.drop?.(); set({ row: -1, key: -1 }); closeFinder(); }],
    ["D", "light or dark theme", "d", () => theme()],
    ["?", "keys", e => e.key === "?", () => openHelp(viewKeys())]
]);
const viewKeys = () => VIEWS.map(v => [v.key, v.name.toLowerCase(), v.key.toLowerCase(), () => requestView(v)]);
function onKey(e) {
    if (e.ctrlKey || e.altKey || e.metaKey || document.querySelector("dialog[open]")) return;
    if (e.target.closest("input:not([type=range]), select, textarea") && e.key !== "Escape") return;
    if (e.target.closest("input") && /^Arrow|^Home$|^End$|^Page/.test(e.key)) return;
    for (const [, , when, act] of /** @type {KeyRow[]} */ ([...keyRows(), ...viewKeys()])) {
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
    tell(say("noMatch", text));
    page.finder.querySelector("span").textContent = say("noMatch", text);
}

// ---- the start -------------------------------------------------------------------------------------
function buildFrame() {
    const header = $("top");
    // the style of the views, which tools/embed.cmake puts before the script
    document.head.append(el("style", {}, /** @type {any} */ (globalThis).qkvStyle));
    page.entries = VIEWS.map(v => {
        const b = el("button", {}, v.name + " ", el("kbd", {}, v.key));
        onClick(b, () => requestView(v));
        return b;
    });
    $("views").append(...page.entries);
    page.theme = el("button", {}, "Dark ", el("kbd", {}, "D"));
    onClick(page.theme, theme);
    const keys = el("button", {}, "Keys ", el("kbd", {}, "?"));
    onClick(keys, () => openHelp(viewKeys()));
    header.append(page.theme, keys);
    const close = () => {
        const b = el("button", {}, say("close"));
        onClick(b, () => b.closest("dialog").close());
        return b;
    };
    page.widths = choices(
        say("printedWidth"), [["", say("asShown")], ["column", say("oneColumn")], ["page", say("wholePage")]],
        () => saving.sheet, sheet => { saving.sheet = sheet; page.widths.show(); }
    );
    const bare = el("input", { type: "checkbox", "aria-label": say("plainPicture") });
    bare.addEventListener("change", () => { saving.plain = bare.checked; });
    page.saver = el(
        "dialog", { "aria-label": say("save") }, el("h2", {}, say("save")), page.widths.node,
        el("label", {}, bare, el("span", {}, say("plainPicture"))),
        el("div", { class: "buttons" }, .../** @type {[string, () => void][]} */ ([
            ["SVG", saveSvg], ["PNG", savePng], [say("animated"), saveAnimated]
        ]).map(([t, act]) => {
            const b = el("button", {}, t);
            onClick(b, () => { page.saver.close(); act(); });
            if (act === saveAnimated) page.animated = b;
            return b;
        }), close())
    );
    const input = el("input", { type: "search", "aria-label": say("find"), placeholder: say("find") });
    page.finder = el("div", { id: "finder", role: "search", hidden: "" }, input, el("span", { class: "note" }));
    input.addEventListener("keydown", e => {
        if (e.key === "Enter") findNext(input.value);
        else page.finder.querySelector("span").textContent = "";
    });
    page.live = el("div", { class: "quiet", "aria-live": "polite" });
    page.table = el("section", { id: "links", class: "quiet", "aria-label": say("onView") });
    buildHelp();
    buildTools();
    if (isLive()) {
        buildLive();
        addKeys([["Del", "switch the heads off or on", e => e.key === "Delete", () => toggleHeads(), 1]]);
    }
    const drawBars = () => { drawTools(); drawLive(); };
    Object.assign(page, { drawHints, drawTools: drawBars, note: el("p", { id: "note", hidden: "" }) });
    document.body.append(page.note, page.saver, page.finder, page.live);
    themeNow();
}
function buildPage() {
    page.font = getComputedStyle(document.body).fontFamily;
    $("loading").remove();
    $("words").remove();
    $("mid").append(page.table);
    buildStories();
    openView();
    addEventListener("keydown", onKey);
    addEventListener("hashchange", readAddress);
    addEventListener("resize", () => requestDraw("layout"));
    for (const query of [system, matchMedia("(forced-colors: active)"), matchMedia("(prefers-contrast: more)")])
        query.addEventListener("change", () => { themeNow(); requestDraw("theme"); });
    // Paper is white, so the light theme is printed; it is laid out as wide as a sheet (page.css).
    addEventListener("beforeprint", () => {
        root.dataset.theme = "light";
        root.dataset.print = "";
        root.dataset.sheet = "print";
        drawNow();
    });
    addEventListener("afterprint", () => {
        delete root.dataset.print;
        delete root.dataset.sheet;
        themeNow();
        requestDraw("theme");
    });
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
    nameRows(about);
    page.about = about;
    page.version = 0;
    page.stacks = stacksOf(about);
    buildFrame();
    try {
        // the numbers of all stacks, also of the other model or text and of the frames of training
        const all = page.all = await load(about);
        page.stacks.forEach((s, n) => { s.weights = all[n]; });
        setWeightError(all.reduce((most, s) => max(most, s.about.error), 0));
    } catch (e) {
        return broken(e.say ?? say("damaged"));
    }
    const first = about.stack ?? 0, { layer, heads, token, special } = page.stacks[first].start;
    state.special = special;
    useStack(first);
    Object.assign(state, { layer, selected: heads, row: token });
    const wanted = about.view ?? (windowed() ? "matrix" : "heads");
    page.first = state.view = viewOf(wanted)?.can() === true ? wanted : "heads";
    buildPage();
    readAddress();
    if (state.row >= 0) requestAnimationFrame(() => page.view.reveal?.(state.row));
}
// Makes the numbers of the page available to the console and to tests.
globalThis.qkv = {
    row: (l, h, i) => page.weights.row(l, h, i), get state() { return { ...state, target: currentTarget() }; },
    get timing() { return page.timing; },
    svg: (sheet = "", plain = false) => savedSvg(sheet, plain), table: () => page.view.table(),
    view: id => requestView(viewOf(id)), page
};
themeNow();
start(); // loader.js runs this script when the document is complete
