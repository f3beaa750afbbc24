// SPDX-License-Identifier: MIT
// heads.js: the view "Which words attend to which?", which consists of diagram.js and panel.js.
import { max, min, strongestOf, sumOf } from "../base/math.js";
import { say, weight } from "../base/messages.js";
import { el } from "../base/dom.js";
import {
    FILTERS, allHeads, selectedHeads, currentTarget, page, quote, quoteKey, stage, state, toggled
} from "../base/state.js";
import { hue } from "../base/palette.js";
import { ROLLOUT, rolloutAllowed, drawn, nameOf, rolloutReady, rowOf, requestRollout } from "../base/aggregate.js";
import { restOfLinks } from "../base/links.js";
import { ORDER, announce, requestDraw } from "../base/drawing.js";
import { STRONG, rowStats, rowStatsReady, requestRowStats } from "../base/head_stats.js";
import { ROWS, requestWindow, win, windowed } from "../base/row_window.js";
import { addView, headOfKey, set, selectOnly, stepLayerBy } from "../base/frame.js";
import { answer } from "../parts/sentence.js";
import { buildStage, drawBase, drawStage, layout, pin, reveal } from "../parts/diagram.js";
import {
    buildOverview, buildChips, buildFilters, buildRight, drawOverview, drawBelow, drawChips, drawFilters,
    drawAggregation, drawRight, panel
} from "../parts/panel.js";
import { svg, viewRows } from "../parts/save.js";

function step(by) { // marks the next token in direction `by`
    const at = page.visible.indexOf(state.row), n = page.visible.length;
    const to = page.visible[at < 0 ? by > 0 ? 0 : n - 1 : min(n - 1, max(0, at + by))];
    if (to === undefined) return;
    stage.pointer = null;
    set({ row: to, key: -1 });
    reveal(to);
}
// Marks the strongest links of the drawn heads, one after the other. Repeats itself until all rows are known.
function stepLinks(by) {
    const heads = drawn();
    if (!heads.length) return;
    if (heads[0] === ROLLOUT && !rolloutReady(state.layer)) return announce(say("rolling"));
    if (!rowStatsReady(state.layer, heads)) {
        announce(say("searching"));
        return requestRowStats(state.layer, heads, () => stepLinks(by));
    }
    const all = heads.flatMap(h => rowStats(state.layer, h).strong).sort((a, b) => b.w - a.w).slice(0, STRONG);
    if (!all.length) return announce(say("noStrongLink"));
    const at = all.findIndex(s => s.i === state.row && s.j === state.key), n = all.length;
    const to = at < 0 ? by > 0 ? 0 : n - 1 : (at + by + n) % n, { i, j, w } = all[to];
    stage.pointer = null;
    set({ row: i, key: j });
    reveal(i);
    announce(say("linkShown", to + 1, n, quote(i), quoteKey(j), weight(w)));
}
const page60 = by => { // moves the window by 60 tokens, in a long text
    win.from += by * (ROWS - 10);
    requestDraw("layout");
};
function enter() {
    const p = stage.pointer;
    if (p) pin(p);
    else if (state.row >= 0) set({ row: state.row });
}

const drawTarget = () => requestDraw("target");
function drawHeads(what) {
    if (what !== "layout") stage.top = what === "theme" ? stage.top : stage.box.scrollTop;
    if (ORDER.indexOf(what) >= 2) {
        const complete = drawBase(), heads = drawn();
        if (heads[0] === ROLLOUT && !rolloutReady(state.layer)) requestRollout(() => requestDraw("base"));
        else if (!complete) requestDraw("base");
        else if (windowed()) requestWindow();
        else if (!rowStatsReady(state.layer, heads)) requestRowStats(state.layer, heads, drawTarget);
    }
    drawStage();
}
function drawHeadPanels(whole) {
    const l = currentTarget();
    const sees = [
        state.layer, state.selected, l.row, l.key, state.special, state.filter, drawn()[0], state.log, hue.dark,
        stage.box.clientWidth, windowed() || rowStatsReady(state.layer, drawn())
    ].join();
    if (whole) { drawFilters(); drawAggregation(); drawBelow(); drawChips(); drawOverview(); }
    if (sees !== page.sees) drawRight(l);
    page.sees = sees;
    if (selectedHeads().length) return void (panel.pulsed = false);
    if (panel.pulsed) return;
    panel.pulsed = true;
    panel.chipBox.parentNode.classList.remove("pulse");
    requestAnimationFrame(() => panel.chipBox.parentNode.classList.add("pulse"));
}
// Returns "it, row 11 of 15, layer 4 head 2: animal .64, it .07, street .05; special tokens .15".
function spoken(i) {
    const heads = drawn().map(h => {
        const row = rowOf(h, i), keys = strongestOf(page.visibleKeys, row, 3);
        const hidden = sumOf(page.hiddenKeys, row);
        return `${nameOf(h)}: ${keys.map(j => `${page.keys[j].named} ${weight(row[j])}`).join(", ")}` +
            `${hidden > .005 ? `; special tokens ${weight(hidden)}` : ""}`;
    });
    return `${page.tokens[i].text}, row ${i} of ${page.T}, layer ${state.layer} ${heads.slice(0, 3).join(". ")}`;
}

addView({
    key: "H", id: "heads", name: "Heads",
    words: true,
    can: () => true,
    build: () => {
        const picture = buildStage();
        panel.chipBox = buildChips();
        panel.drawn = null;
        return {
            left: [buildOverview(), ...buildFilters()], mid: [el("div", {}, panel.chipBox), ...picture],
            right: buildRight()
        };
    },
    layout: () => layout(),
    draw: what => drawHeads(what),
    panels: whole => drawHeadPanels(whole),
    answer: () => answer(currentTarget()),
    get group() { return stage.box; },
    spoken: () => currentTarget().row >= 0 ? spoken(currentTarget().row) : null,
    table: most => viewRows(most && most - 4),
    rest: n => restOfLinks(n),
    svg: () => svg(),
    reveal: i => reveal(i),
    drop: () => { stage.pointer = null; },
    keys: [
        ["↑ ↓", "token", e => e.key === "ArrowUp" || e.key === "ArrowDown", e => step(e.key === "ArrowUp" ? -1 : 1), 1],
        [
            "← →", "layer", e => e.key === "ArrowLeft" || e.key === "ArrowRight",
            e => stepLayerBy(e.key === "ArrowLeft" ? -1 : 1), 1
        ],
        ["0…9 - =", "only this head (0 to 11)", e => !e.shiftKey && headOfKey(e) >= 0, e => selectOnly(headOfKey(e)),
            1],
        [
            "⇧ 0", "add a head", e => e.shiftKey && headOfKey(e) >= 0, e => set({ selected: toggled(headOfKey(e)) }),
            () => !windowed()
        ],
        ["A", "select all heads", "a", () => set({ selected: allHeads() })],
        ["I", "invert the heads", "i", () => set({ selected: allHeads().filter(h => !state.selected.includes(h)) })],
        ["Enter", "mark the token under the pointer", e => e.key === "Enter" && !e.target.closest("button,input,a"),
            enter],
        ["J", "next strongest link (⇧ back)", "j", e => stepLinks(e.shiftKey ? -1 : 1), () => windowed()],
        [
            "PgUp PgDn", "rows of a long text", e => windowed() && /^Page/.test(e.key),
            e => page60(e.key === "PageUp" ? -1 : 1), () => windowed()
        ],
        [
            "Y", "encoder, decoder, cross", "y", () => set({ stack: (state.stack + 1) % page.stacks.length }),
            () => page.stacks.length > 1
        ],
        ["V", "mean of the heads, or each", "v", () => set({ mean: !state.mean, rollout: false })],
        [
            "Z", "rollout of the layers", "z",
            () => {
                const allowed = rolloutAllowed();
                if (allowed === true) set({ rollout: !state.rollout });
                else announce(allowed);
            }
        ],
        ["⇧ R", "merge sub-words", e => e.shiftKey && e.key === "R", () => set({ words: !state.words })],
        ["G", "log scale", "g", () => set({ log: !state.log })],
        [
            "F", "sentences", "f", () => page.pair && set({ filter: FILTERS[(FILTERS.indexOf(state.filter) + 1) % 5] }),
            () => page.pair
        ],
        [
            ", .", "threshold", e => e.key === "," || e.key === ".",
            e => set({ factor: min(.95 * page.S, max(.01, state.factor * (e.key === "," ? .8 : 1.25))) })
        ]
    ]
});
