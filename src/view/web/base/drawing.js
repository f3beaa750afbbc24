// SPDX-License-Identifier: MIT
// drawing.js: redraws the parts of the page that changed (picture, sentence, panels, table), once per frame.
import { max } from "./math.js";
import { count, isolated, plain, say } from "./messages.js";
import { $, el, nameNode } from "./dom.js";
import { page, state } from "./state.js";
import { readColours } from "./palette.js";
import { links } from "./links.js";

// ---- drawing, once per frame --------------------------------------------------------------------------
export const ORDER = ["none", "target", "base", "layout", "theme"];
let pending = 0;
let scheduled = false;
export function requestDraw(what) {
    pending = max(pending, ORDER.indexOf(what));
    if (!scheduled) {
        scheduled = true;
        requestAnimationFrame(frame);
    }
}
function frame() {
    const start = performance.now(), what = pending, view = page.view;
    scheduled = false;
    pending = 0;
    if (!page.weights || !view) return;
    if (what >= 4) readColours();
    page.drawTools?.();
    page.drawStories?.();
    if (what >= 3) view.layout?.();
    view.draw(ORDER[what]);
    drawWords();
    page.timing = {
        what: ORDER[what], picture: performance.now() - start, panels: page.timing?.panels ?? 0, links: links.n
    };
    page.shownAt ??= performance.now();
    page.whole ||= what >= 2;
    page.panels ||= requestAnimationFrame(drawPanels);
}
// Draws everything immediately, before the page is printed.
export function drawNow() {
    pending = ORDER.length - 1;
    frame();
    page.view.finish?.();
    drawPanels();
}
// The panels around the picture are drawn one frame later.
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
    if (text === page.said && question === page.question) return;
    page.said = text;
    if (question !== page.question) {
        page.question = question;
        const lines = $("question").offsetHeight;
        $("question").textContent = isolated(question);
        if ($("question").offsetHeight !== lines) requestDraw("layout"); // it wraps next to the toolbar
    }
    $("sentence").replaceChildren(...pieces.map(p => typeof p === "string" ? isolated(p) : el("b", {}, isolated(p.b))));
    announce(() => page.view.spoken?.() ?? text);
}
/**
 * Gives a text to screen readers, at most once in half a second. If there are several texts, only the last one is read.
 * A function is called only when its text is needed.
 * @param {string | (() => string)} text
 */
export function announce(text) {
    page.speech = text;
    page.speaking ||= setTimeout(() => {
        page.speaking = 0;
        page.live.textContent = typeof page.speech === "function" ? page.speech() : page.speech;
    }, 500);
}

// Shows a text for a few seconds, also to screen readers.
export function tell(text) {
    announce(text);
    page.note.textContent = text;
    page.note.hidden = false;
    clearTimeout(page.noting);
    page.noting = setTimeout(() => { page.note.hidden = true; }, 4000);
}

// Writes the shown numbers as a table. Screen readers find the table at any time; the key T shows its first rows.
const TABLE_ROWS = 30;
export function drawTable() {
    const rows = page.view.table?.(TABLE_ROWS) ?? [];
    const body = rows.slice(1, 1 + TABLE_ROWS);
    const more = rows.length - 1 - body.length;
    const number = c => body.every(r => /^$|^[-−\d.,]+$/.test(String(r[c])));
    const numbers = (rows[0] ?? []).map((_, c) => number(c));
    const td = (x, c) => numbers[c]
        ? el("td", {}, String(x).replace(/^([-−]?)0\./, "$1."))
        : el("td", { class: "text" }, nameNode(String(x)));
    page.table.className = state.table ? "" : "quiet";
    page.table.replaceChildren(...(rows.length ? [el("table", {}, el("caption", {}, say("onView")),
        el(
            "thead", {},
            el("tr", {}, ...rows[0].map((t, c) => el("th", { scope: "col", class: numbers[c] ? "" : "text" }, t)))
        ),
        el("tbody", {}, ...body.map(r => el("tr", {}, ...r.map(td)))))] : []),
        el(
            "p", { class: "note" },
            more > 0 ? [say("more", count(more)), page.view.rest?.(TABLE_ROWS)].filter(x => x).join(", ") : ""
        ));
}
