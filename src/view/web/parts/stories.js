// SPDX-License-Identifier: MIT
// stories.js: offers links that are worth a look, which C chose (stories.c), as buttons below the sentence.
import { $, el, onClick } from "../base/dom.js";
import { addTexts, isolated, say, weight } from "../base/messages.js";
import { headName, page, quote, quoteKey, state } from "../base/state.js";
import { set } from "../base/frame.js";

addTexts({ also: "also:" });

const box = el("p", { id: "stories" });
/** @param {Story} story */
function show({ layer, head, row }) {
    set({ layer, selected: [head], row, key: -1, mean: false, rollout: false });
    page.view.reveal?.(row);
}
// Draws the buttons of the current stack; called before the layout, since their line takes space.
function drawStories() {
    const stories = page.words ? [] : page.stack.stories, of = `${page.version},${state.stack},${page.words}`;
    box.hidden = !stories.length || ["compare", "training"].includes(state.view);
    if (box.dataset.stack !== of)
        box.replaceChildren(say("also"), ...stories.map(s => {
            const link = `${quote(s.row)} → ${quoteKey(s.key)} ${weight(s.weight)}`;
            const b = el("button", {}, isolated(`${link}, ${headName(s.layer, s.head)}`));
            onClick(b, () => show(s));
            return b;
        }));
    box.dataset.stack = of;
    stories.forEach((s, n) => {
        const now = state.layer === s.layer && state.row === s.row && state.selected.join() === `${s.head}`;
        box.children[n].setAttribute("aria-pressed", `${now}`);
    });
}
export function buildStories() {
    $("sentence").after(box);
    page.drawStories = drawStories;
}
