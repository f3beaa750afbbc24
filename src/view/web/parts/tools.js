// SPDX-License-Identifier: MIT
// tools.js: builds the toolbar next to the question, the buttons of the footer, and the help dialog.
import { $, el, onClick } from "../base/dom.js";
import { termList } from "../base/terms.js";
import { addTexts, say } from "../base/messages.js";
import { page, state } from "../base/state.js";
import { tell } from "../base/drawing.js";
import { KEYS, keyRows, requestView, stepLayerBy, viewOf, writeAddress } from "../base/frame.js";

addTexts({
    tools: "Tools",
    link: "Link",
    layerName: "Layer",
    linkCopied: "The address of this view is copied.",
    linkInBar: "The address bar has the link of this view.",
    touch: "On a touch screen",
    help: "Keys",
    terms: "Terms",
    termsNote: "Read on in the pages of the course, docs/notes of qkv."
});
const GESTURES = [
    ["tap a token", "mark its row or its key; tap it again to clear"],
    ["tap a head", "select it; heads are the numbers above the picture"],
    ["tap a cell of the overview", "choose a layer and a head"],
    ["drag, pinch", "move and zoom the matrix"],
    ["swipe the list of views", "the other views"]
];

async function copyLink() {
    writeAddress();
    try {
        await navigator.clipboard.writeText(location.href);
        tell(say("linkCopied"));
    } catch {
        tell(say("linkInBar"));
    }
}

// ---- the toolbar -------------------------------------------------------------------------------------
const byKey = key => KEYS.find(k => k[0] === key);
export function buildTools() {
    const box = el("div", { id: "tools", role: "toolbar", "aria-label": say("tools") });
    /** @type {[string, string, () => void][]} */
    const rows = [
        ["Find", "/", () => byKey("/")[3](null)],
        ["Table", "T", () => byKey("T")[3](null)],
        ["Copy", "C", () => byKey("C")[3](null)],
        ["Save", "E", () => byKey("E")[3](null)],
        [say("link"), "", () => copyLink()],
        ["Compare", "K", () => requestView(viewOf("compare"))]
    ];
    for (const [name, key, act] of rows) {
        const b = el("button", { title: key ? `${name} (${key})` : name, "data-tool": name }, name);
        onClick(b, act);
        box.append(b);
    }
    page.layer = el("b");
    const step = (name, by) => {
        const b = el("button", { "aria-label": `${say("layerName")} ${by < 0 ? "−" : "+"}1` }, name);
        onClick(b, () => stepLayerBy(by));
        return b;
    };
    const layers = el("div", { id: "layers" }, step("‹", -1), page.layer, step("›", 1));
    $("question").before(box, layers);
    page.tools = box;
}
export function drawTools() {
    page.layer.textContent = `${say("layerName")} ${state.layer}`;
    page.tools.querySelector("[data-tool=Table]").setAttribute("aria-pressed", `${state.table}`);
    page.tools.querySelector("[data-tool=Compare]").setAttribute(
        "aria-disabled", `${viewOf("compare").can() !== true}`
    );
}

// ---- the footer ---------------------------------------------------------------------------------------
const EVENT_KEYS = {
    "↑": "ArrowUp", "↓": "ArrowDown", "←": "ArrowLeft", "→": "ArrowRight", PgUp: "PageUp", PgDn: "PageDown"
};
// Returns the event of a key as a hint shows it, for the action of its button.
function eventOf(shown) {
    const shift = shown.startsWith("⇧ "), name = shown.replace("⇧ ", "");
    return /** @type {any} */ ({ key: EVENT_KEYS[name] ?? name, code: "", shiftKey: shift, target: document.body,
        preventDefault() {} });
}
/** @param {KeyRow} row */
function hint([shown, what, when, act]) {
    const text = what.replace(/ \(.*\)/, ""), keys = shown.startsWith("⇧") ? [shown] : shown.split(" ");
    const works = e => typeof when === "string" ? e.key.toLowerCase() === when : when(e);
    if (!keys.every(k => works(eventOf(k)))) return el("span", {}, el("kbd", {}, shown), text);
    return el("span", {}, ...keys.map((k, n) => {
        const b = el("button", { "aria-label": `${text}, ${k}` }, el("kbd", {}, k), n === keys.length - 1 ? text : "");
        onClick(b, () => act(eventOf(k)));
        return b;
    }));
}
export function drawHints() {
    $("hints").replaceChildren(
        ...keyRows().filter(k => k[4] && (typeof k[4] === "function" ? k[4]() : true)).map(hint)
    );
}

// ---- the help -------------------------------------------------------------------------------------------
export function buildHelp() {
    const close = el("button", {}, say("close"));
    onClick(close, () => page.help.close());
    page.keyLists = el("div", { class: "columns" });
    page.terms = el("div", { class: "columns" });
    page.help = el(
        "dialog", { class: "help", "aria-label": say("help") },
        el("div", { class: "buttons" }, close), el("h2", { tabindex: "-1", autofocus: "" }, say("help")), page.keyLists,
        el("h2", {}, say("terms")), el("p", { class: "note" }, say("termsNote")), page.terms
    );
    document.body.append(page.help);
}
export function openHelp(viewKeys) {
    const list = (title, rows) => el(
        "section", {}, el("h3", {}, title),
        el("dl", {}, ...rows.flatMap(([k, what]) => [el("dt", {}, el("kbd", {}, k)), el("dd", {}, what)]))
    );
    const touch = matchMedia("(hover: none)").matches;
    page.keyLists.replaceChildren(
        ...touch ? [list(say("touch"), GESTURES)] : [],
        ...page.view?.keys ? [list(page.view.name, page.view.keys)] : [],
        list(say("everywhere"), [...KEYS, ...viewKeys])
    );
    page.terms.replaceChildren(...termList());
    page.help.showModal();
    page.help.scrollTop = 0;
}
