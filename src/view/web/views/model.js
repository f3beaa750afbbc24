// SPDX-License-Identifier: MIT
// model.js: the view "What kinds of head does this model have?", which shows all heads (model_grid.js) and one of them
// enlarged (magnifier.js).
import { el } from "../base/dom.js";
import { page, state } from "../base/state.js";
import { addView, set } from "../base/frame.js";
import { runInSlices } from "../parts/heatmap.js";
import {
    MODEL_CELLS, MODEL_ORDERS, answerModel, arrowOf, drawModel, drawThumbs, layModel, model, modelTable, nextOf,
    openHead, peekHead, setModel, toggleMap, walkHeads
} from "./model_grid.js";
import { buildMagnifier, drawMagnifier, drawModelPanel, modelSvg } from "./magnifier.js";

addView({
    key: "M", id: "model", name: "Model",
    can: () => true,
    build: () => {
        model.grid = el("div");
        model.box = el("div", { id: "model", role: "group" }, model.grid);
        model.box.addEventListener("pointerleave", () => model.peek && peekHead(null));
        model.box.addEventListener("scroll", () => runInSlices("model", drawThumbs));
        model.laid = "";
        const right = buildMagnifier();
        return { mid: [model.box, model.kindList], right };
    },
    stack: () => {
        model.grids.clear();
        model.laid = "";
        model.at = { layer: 0, head: 0 };
        model.peek = null;
        const specialOf = tokens => tokens.map((_, i) => i).filter(i => tokens[i].special);
        Object.assign(page, { special: specialOf(page.keys), specialRows: specialOf(page.tokens) });
    },
    show: () => {
        model.at = { layer: state.layer, head: state.selected[0] ?? 0 };
        model.described = false;
        addEventListener("scroll", scrollModel);
    },
    hide: () => { removeEventListener("scroll", scrollModel); model.peek = null; },
    layout: () => layModel(),
    finish: () => drawThumbs(performance.now() + 3000),
    draw: what => { drawModel(what); drawMagnifier(); },
    panels: whole => drawModelPanel(whole),
    answer: () => answerModel(),
    get group() { return model.box; },
    table: () => modelTable(),
    svg: () => modelSvg(),
    drop: () => { model.described = false; model.peek = model.point = null; },
    write: p => {
        p.set("at", `${model.at.layer}.${model.at.head}`);
        if (model.order !== "asBuilt") p.set("order", `${MODEL_ORDERS.indexOf(model.order)}`);
        if (model.cell !== "cellMatrix") p.set("cell", `${MODEL_CELLS.indexOf(model.cell)}`);
    },
    read: p => {
        const at = /^(\d{1,6})\.(\d{1,6})$/.exec(p.get("at") ?? "");
        if (at && +at[1] < page.L && +at[2] < page.H) model.at = { layer: +at[1], head: +at[2] };
        const order = MODEL_ORDERS[p.get("order") ?? 0] ?? "asBuilt";
        const shown = MODEL_CELLS[p.get("cell") ?? 0] ?? "cellMatrix";
        model.order = order === "byEffect" && !page.effects ? "asBuilt" : order;
        model.cell = shown === "cellEffect" && !page.effects ? "cellMatrix" : shown;
        model.laid = "";
    },
    keys: [
        ["← → ↑ ↓", "head", e => arrowOf(e), e => walkHeads(...arrowOf(e)), 1],
        [
            "Enter", "open in heads view", e => e.key === "Enter" && !e.target.closest("button:not(.thumb), input, a"),
            () => openHead(), 1
        ],
        [
            "O", "order", "o",
            () => setModel({ order: nextOf(MODEL_ORDERS.filter(o => o !== "byEffect" || page.effects), model.order) }),
            1
        ],
        [
            "L", "links or matrix", "l",
            () => setModel({ cell: model.cell === "cellMatrix" ? "cellLines" : "cellMatrix" }), 1
        ],
        ["B", "ablation map", "b", () => toggleMap(), () => page.effects],
        ["G", "log scale", "g", () => set({ log: !state.log })]
    ]
});
function scrollModel() {
    runInSlices("model", drawThumbs);
}
