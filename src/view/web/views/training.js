// SPDX-License-Identifier: MIT
// training.js: the view "How did the heads learn to attend?": shows the same text in the frames (checkpoints) of a
// training run, and the effective keys of each head over the steps. Other views then show the selected frame.
import { abs, max, min } from "../base/math.js";
import { addTexts, count, say, weight } from "../base/messages.js";
import { cells, el, nameNode, onClick } from "../base/dom.js";
import { page, quote, state, topKey } from "../base/state.js";
import { headColour } from "../base/palette.js";
import { requestDraw } from "../base/drawing.js";
import { addView, headOfKey, set, stacksOf, stepLayerBy, useStack, writeAddress } from "../base/frame.js";
import {
    figuresSvg, focused, hair, keyName, newFigure, pickers, redraw, shape, still, tenth, textAt, titled
} from "../parts/figure.js";
import { walkRows } from "./compare.js";

addTexts({
    learned: "How did the heads learn to attend?",
    noRun: "This file has no training run: “qkv view --training RUN” adds one.",
    stepOf: "step {0}", lossOf: "loss {0}", step: "Step of the run", stepAxis: "step",
    lossOver: "loss", keysAxis: "effective keys of the heads of layer {0}",
    began: "From step {0} to {1}, layer {2}, head {3} went from {4} to {5} effective keys per row",
    nowAttends: "; at step {0}, {1} attends most to {2}: {3}.",
    topKeysNow: "What head {0} attends to at step {1}, and in the first frame",
    frameNote: "The other views show the frame selected here.",
    queryToken: "token", attendsMost: "attends most to", atFirst: "in the first frame"
});

const LEFT = 42; // of the axis, right of its labels
const LABEL = 12; // height of the label of a line
const DIGIT = 7.2, BOLD_DIGIT = 9.2; // widths of a digit of a label, at most
const training = { at: -1, timer: 0, used: -1 };
const frames = () => page.about.training.frames;
const frameAt = () => training.at < 0 ? frames().length - 1 : min(training.at, frames().length - 1);
// Returns the stacks of frame n. In page.all, their weights follow the weights of the page and of the other model.
function frameStacks(n) {
    const frame = frames()[n], from = page.stacks.length + (page.about.against?.stacks.length ?? 0);
    const all = stacksOf({ texts: page.about.texts, stacks: frame.stacks });
    let before = from;
    for (const f of frames().slice(0, n)) before += f.stacks.length;
    all.forEach((s, k) => { s.weights = page.all[before + k]; });
    return all;
}
training.made = new Map();
function frameStack(n) {
    if (!training.made.has(n)) training.made.set(n, frameStacks(n));
    return training.made.get(n)[state.stack];
}

function buildTraining() {
    const n = frames().length;
    training.figure = newFigure(say("learned"));
    training.box = el("div", { class: "board", tabindex: 0, role: "group" }, training.figure.node);
    training.range = el("input", { type: "range", min: 0, max: n - 1, step: 1, "aria-label": say("step") });
    training.range.addEventListener("input", () => toFrame(+training.range.value));
    training.name = el("span", { class: "framename" });
    training.pick = pickers();
    training.pick.all.key.parentNode.remove();
    training.table = el("div");
    onClick(training.figure.node, e => {
        const line = e.target.closest("[data-head]");
        const r = training.figure.node.getBoundingClientRect();
        const s = training.seen;
        if (line) set({ selected: [+line.dataset.head] });
        else if (s) toFrame(nearestFrame(s, e.clientX - r.left));
    });
    return {
        mid: [
            el("div", { class: "controls" }, training.pick.node),
            el("div", { class: "slider scrub" }, training.name, training.range), training.box
        ],
        right: [training.table, el("p", { class: "note" }, say("frameNote"))]
    };
}
function toFrame(n) {
    training.at = min(frames().length - 1, max(0, n));
    writeAddress();
    requestDraw("base");
}
function nearestFrame(s, x) {
    return s.xs.reduce((best, at, n) => abs(at - x) < abs(s.xs[best] - x) ? n : best, 0);
}
// Handles the space key: plays the frames. If the reader prefers reduced motion, it shows the next frame instead.
function playTraining() {
    const stop = () => { clearInterval(training.timer); training.timer = 0; };
    if (training.timer) return stop();
    if (frameAt() === frames().length - 1) toFrame(0);
    else toFrame(frameAt() + 1);
    if (still.matches) return;
    training.timer = setInterval(() => {
        if (frameAt() === frames().length - 1) stop();
        else toFrame(frameAt() + 1);
    }, 400);
}
// Makes the other views show the selected frame.
function useFrame() {
    clearInterval(training.timer);
    training.timer = 0;
    const n = frameAt();
    if (training.used === n || training.at < 0) return;
    training.used = n;
    frameStack(n);
    training.made.get(n).forEach((s, k) =>
        Object.assign(page.stacks[k], { weights: s.weights, stats: s.stats, about: s.about }));
    useStack(state.stack);
}

function drawTraining() {
    const all = frames(), n = frameAt(), now = frameStack(n), f = focused(), w = training.box.clientWidth;
    training.pick.show(f);
    training.range.value = n;
    training.name.textContent = say("stepOf", count(all[n].step)) +
        (Number.isFinite(all[n].loss) ? " · " + say("lossOf", all[n].loss.toFixed(3)) : "");
    training.range.setAttribute("aria-valuetext", training.name.textContent);
    const wide = w - LEFT - 34;
    const steps = all.map(x => x.step);
    const low = min(...steps);
    const high = max(...steps);
    const xs = steps.map(s => LEFT + (high > low ? (s - low) / (high - low) : .5) * wide), parts = [];
    training.seen = { xs };
    let y = 8;
    const losses = all.map(x => x.loss).filter(x => Number.isFinite(x));
    if (losses.length > 1) y = drawLoss(all, losses, xs, y, w, parts);
    drawLines(now, n, xs, y, w, parts);
    drawTopKeys(f, n, now);
}
function drawLoss(all, losses, xs, y, w, parts) {
    const low = min(...losses);
    const high = max(...losses);
    const tall = 70;
    const at = v => y + 20 + (high - v) / max(1e-9, high - low) * tall;
    let d = "";
    all.forEach((f, n) => {
        if (Number.isFinite(f.loss)) d += `${d ? "L" : "M"}${tenth(xs[n])} ${tenth(at(f.loss))}`;
    });
    if (high > low) parts.push(textAt(LEFT - 6, at(high) + 4, high.toFixed(2), "tiny", "end"));
    parts.push(
        textAt(0, y + 10, say("lossOver"), "note"), textAt(LEFT - 6, at(low) + 4, low.toFixed(2), "tiny", "end"),
        hair(xs[0], at(low), w - 34, at(low)),
        shape("path", { class: "sum", d })
    );
    return y + tall + 44;
}
function drawLines(now, n, xs, y, w, parts) {
    const { layer } = state;
    const H = page.H;
    const tall = max(200, min(320, innerHeight - 480));
    const most = Math.log2(max(2, page.S));
    const series = Array.from({ length: H }, (_, h) => frames().map((_, k) => frameStack(k).stats[layer][h].keys));
    const least = max(0, Math.floor(Math.log2(max(1, min(...series.flat())))) - 1); // the axis begins one tick below
    const at = keys => y + 24 + (most - Math.log2(max(1, keys))) / max(1, most - least) * tall;
    const focusHead = focused()?.head;
    parts.push(textAt(0, y + 10, say("keysAxis", layer), "note"));
    const tick = k => parts.push(hair(LEFT, at(k), w - 34, at(k)), textAt(LEFT - 6, at(k) + 4, k, "tiny", "end"));
    for (let k = 2 ** least; k <= page.S; k *= 2) tick(k);
    if (at(2 ** Math.floor(most)) - at(page.S) > LABEL) tick(page.S);
    const ends = [];
    const order = Array.from({ length: H }, (_, h) => h).sort((a, b) =>
        +(a === focusHead) - +(b === focusHead) || +state.selected.includes(a) - +state.selected.includes(b));
    for (const h of order) {
        const on = h === focusHead;
        const line = shape(
            "path",
            {
                class: `${on ? "headline own" : "headline"} k${h}`, stroke: headColour(h),
                d: series[h].map((k, i) => `${i ? "L" : "M"}${tenth(xs[i])} ${tenth(at(k))}`).join("")
            }
        );
        parts.push(
            shape(
                "g", { "data-head": h, class: "row" }, line,
                titled(shape("path", { class: "wide", d: line.getAttribute("d") }), say("head", h))
            )
        );
        ends.push({ h, y: at(series[h][series[h].length - 1]), on });
    }
    moveApart(ends);
    for (const e of ends) parts.push(textAt(w - 28, e.y + 4, e.h, e.on ? "strong" : "tiny"));
    const bottom = max(y + 24 + tall, (ends[ends.length - 1]?.y ?? 0)) + 20;
    parts.push(hair(xs[n], 4, xs[n], bottom - 16, "hotline"));
    const last = xs.length - 1, name = k => count(frames()[k].step), half = name(n).length * BOLD_DIGIT / 2 + 6;
    const clear = xs[n] - xs[0] > name(0).length * DIGIT + half && xs[last] - xs[n] > name(last).length * DIGIT + half;
    const mark = (k, anchor, kind) => parts.push(textAt(xs[k], bottom, name(k), kind, anchor));
    parts.push(textAt(0, bottom, say("stepAxis"), "tiny"));
    mark(0, "start", n ? "tiny" : "strong");
    if (clear) mark(n, "middle", "strong");
    if (last) mark(last, "end", n === last ? "strong" : "tiny");
    redraw(training.figure, w, bottom + 8, ...parts);
}
// Moves labels apart that overlap: they become groups, each in the middle of the places of its labels.
function moveApart(ends) {
    const groups = [];
    ends.sort((a, b) => a.y - b.y);
    for (const e of ends) {
        let g = { y: e.y, list: [e] };
        for (let last = groups[groups.length - 1]; last; last = groups[groups.length - 1]) {
            const n = g.list.length + last.list.length;
            if (g.y - last.y >= n / 2 * LABEL) break;
            g = { y: (g.y * g.list.length + last.y * last.list.length) / n, list: [...last.list, ...g.list] };
            groups.pop();
        }
        groups.push(g);
    }
    for (const g of groups) g.list.forEach((e, k) => { e.y = g.y + (k - (g.list.length - 1) / 2) * LABEL; });
}
const topOf = (stack, f, i) => f ? topKey(stack.weights.row(f.layer, f.head, i), -1, -1) : { to: -1, w: 0 };
function drawTopKeys(f, n, now) {
    if (!f) return training.table.replaceChildren();
    const first = frameStack(0), most = 24, list = page.visible.slice(0, most);
    const cellOf = t =>
        t.to < 0 ? "–" : el("td", { class: "text" }, nameNode(page.keys[t.to].named), ` ${weight(t.w)}`);
    training.table.replaceChildren(
        el("table", { class: "row" }, el("caption", {}, say("topKeysNow", f.head, count(frames()[n].step))),
            el(
                "thead", {},
                el(
                    "tr", {},
                    ...[say("queryToken"), say("attendsMost"), say("atFirst")].map(t =>
                        el("th", { scope: "col", class: "text" }, t))
                )
            ),
            el("tbody", {}, ...list.map(i => {
                const tr = cells(
                    el("td", { class: "text" }, nameNode(page.tokens[i].named)), cellOf(topOf(now, f, i)),
                    cellOf(topOf(first, f, i))
                );
                if (i === state.row) tr.className = "selected";
                return tr;
            }))),
        page.visible.length > most ? el("p", { class: "note" }, say("more", count(page.visible.length - most))) : ""
    );
}
function answerTraining() {
    const question = say("learned"), all = frames(), f = focused(), n = frameAt();
    if (!f) return { question, pieces: [say("choose")] };
    const keys = k => frameStack(k).stats[f.layer][f.head].keys.toFixed(1);
    const i = state.row >= 0 ? state.row : f.i;
    const top = topOf(frameStack(n), f, i);
    return {
        question,
        pieces: [
            say(
                "began", count(all[0].step), count(all[all.length - 1].step), f.layer, f.head, keys(0),
                keys(all.length - 1)
            ),
            ...(top.to < 0 ? ["."] : [say("nowAttends", count(all[n].step), quote(i), keyName(top.to), weight(top.w))])
        ]
    };
}
function trainingRows() {
    return [
        ["step", "loss", ...Array.from({ length: page.H }, (_, h) => `effective keys, head ${h}`)],
        ...frames().map((f, k) => [
            f.step, Number.isFinite(f.loss) ? f.loss.toFixed(4) : "–",
            ...frameStack(k).stats[state.layer].map(s => s.keys.toFixed(3))
        ])
    ];
}

addView({
    key: ";", id: "training", name: "Training", rare: true,
    can: () => page.about.training?.frames.length ? true : say("noRun"),
    build: () => buildTraining(),
    hide: () => useFrame(),
    draw: () => drawTraining(),
    answer: () => answerTraining(),
    get group() { return training.box; },
    table: () => trainingRows(),
    svg: () => figuresSvg([training.figure], answerTraining()),
    write: p => { if (training.at >= 0) p.set("fr", `${training.at}`); },
    read: p => {
        training.at = /^\d{1,6}$/.test(p.get("fr") ?? "") && +p.get("fr") < frames().length ? +p.get("fr") : -1;
    },
    keys: [
        [
            "Space", "play the run", e => e.key === " " && !e.target.closest("button,select,input"),
            () => playTraining(), 1
        ],
        [
            "[ ]", "step of the run", e => e.key === "[" || e.key === "]",
            e => toFrame(frameAt() + (e.key === "[" ? -1 : 1)), 1
        ],
        [
            "↑ ↓", "row", e => e.key === "ArrowUp" || e.key === "ArrowDown",
            e => walkRows(e.key === "ArrowUp" ? -1 : 1), 1
        ],
        [
            "← →", "layer", e => e.key === "ArrowLeft" || e.key === "ArrowRight",
            e => stepLayerBy(e.key === "ArrowLeft" ? -1 : 1), 1
        ],
        ["0…9 - =", "head (0 to 11)", e => !e.shiftKey && headOfKey(e) >= 0, e => set({ selected: [headOfKey(e)] }), 1]
    ]
});
