// SPDX-License-Identifier: MIT
// dom.js: makes elements, table rows, and groups of buttons in which arrow keys move the focus.
import { placeMark } from "./messages.js";

export const root = document.documentElement;

export const $ = id => document.getElementById(id);
export function el(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const name in attributes) node.setAttribute(name, attributes[name]);
    node.append(...children);
    return node;
}
export const onClick = (node, act) => node.addEventListener("click", act);

/**
 * Lets arrow keys move the focus among the buttons of a grid. Only one of the buttons is in the tab order.
 * @param {HTMLElement} box
 * @param {number} columns
 */
export function roving(box, columns) {
    box.addEventListener("keydown", e => {
        const all = /** @type {HTMLElement[]} */ ([...box.querySelectorAll("[data-rove]")]);
        const i = all.findIndex(button => button === document.activeElement);
        const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[e.key];
        if (i < 0 || !step || e.ctrlKey || e.altKey || e.metaKey) return;
        e.preventDefault();
        e.stopPropagation();
        const to = all[i + step];
        if (!to) return;
        all[i].tabIndex = -1;
        to.tabIndex = 0;
        to.focus();
    });
}

// ---- tables ----------------------------------------------------------------------------------------
export function cells(...list) {
    return el("tr", {}, ...list.map(x => x instanceof Node ? x : el("td", {}, x)));
}

/**
 * Returns a name for a cell of a table. If the cell is too narrow, the style cuts the word, but not the place after it.
 * @param {string} name
 * @returns {HTMLElement}
 */
export function nameNode(name) {
    const place = placeMark(name);
    return el("bdi", { class: "placed" }, el("span", {}, name.slice(0, name.length - place.length)), place);
}

// Tabs and line ends inside a cell are replaced by spaces, since they separate cells and rows.
export const tsv = rows => rows.map(r => r.map(x => String(x).replace(/[\t\r\n]/g, " ")).join("\t")).join("\n") + "\n";
/** The width for which the page is laid out: of the window, or of the sheet for which a picture is saved. */
export const windowWidth = () =>
    root.dataset.sheet && root.dataset.sheet !== "print" ? document.body.clientWidth : innerWidth;
