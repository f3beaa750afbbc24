// SPDX-License-Identifier: MIT
// output.js: the view "What comes out?". Of a model that predicts tokens it shows the most likely tokens after each
// layer (the logit lens) at one position, and the most likely token of every position. Of other models it shows the
// probabilities of labels, or the share of each token in the vector of the text.
import { abs, floor, max, min } from "../base/math.js";
import { addTexts, count, quoted, say } from "../base/messages.js";
import { el, nameNode, onClick } from "../base/dom.js";
import { defined } from "../base/terms.js";
import { page, state } from "../base/state.js";
import { addView, set } from "../base/frame.js";
import {
    LEVELS, MOST_ROWS, figuresSvg, fitted, levelOf, newFigure, rectAt, redraw, shape, tenth, textAt, titled, weightFill
} from "../parts/figure.js";
import { css, rampAt, textOn } from "../base/palette.js";

addTexts({
    outputQuestion: "What comes out?",
    noOutput: "This file contains no output of a model: its weights are from a file, the model has no output head " +
        "for tokens or labels, or its vectors are no sum over tokens.",
    outputNext: "The most likely token after {0} is ",
    outputWritten: "The most likely token of the step that writes {0} is ",
    outputMasked: "The most likely token at the place of {0} is ",
    outputTokenLabels: "The most likely label of {0} is ",
    outputLabels: "The most likely label of the text is ",
    outputShares: "{0} has the largest share of the vector of the text: ",
    outputEqual: "; an equal share would be {0}.",
    outputLate: "; after layer {0} “{1}” is first",
    outputLateEmbeddings: "; after the embeddings “{0}” is first",
    outputEmbeddings: "; it is first from the embeddings on",
    outputSettled: "; it is first from the output of layer {0} on",
    outputGoesOn: ". The text continues with “{0}” {1}, place {2}",
    outputHas: ". The text has “{0}” {1}, place {2}",
    outputAfter: "after", outputToken: "token", outputPlace: "place",
    outputTokens: "most likely tokens, with probability", outputLabelsHead: "labels, with probability",
    outputLabel: "label", outputShareHead: "share of the vector", outputLabelHead: "probability",
    outputLens: "A row is softmax(head(norm(h))) of the hidden state h after that layer: the model’s own final " +
        "norm and output head. The last row is the output of the model.",
    outputStep: "The model is recurrent: it has one output per step, the softmax of its logits.",
    outputShareNote: "Share: the token’s summand of the pooled vector ({0}), times the vector, over the vector’s " +
        "squared length. The shares add up to 1; one below 0 points away from the vector.",
    outputRest: "the rest",
    outputPosition: "Position", outputEach: "Each position",
    outputOwn: "the text’s own",
    outputSome: "{0} of {1} positions are in this file.",
    outputDrawn: "{0} of {1} tokens are drawn: those with the largest shares."
});

const UNIT = 100000; // numbers of the file are multiples of 1 / UNIT
const LINE = 24, BAR_LINE = 20, CELL_LEAST = 104, CELL_MOST = 150, TARGET = 122;
const SAYS = {
    "next": "outputNext", "written": "outputWritten", "masked": "outputMasked", "token labels": "outputTokenLabels",
    "labels": "outputLabels", "shares": "outputShares"
};
const output = { box: null, figure: null, note: null, table: null, places: null };

// ---- numbers ---------------------------------------------------------------------------------------
const data = () => page.about.output ?? null;
const isLens = o => ["next", "written", "masked"].includes(o.kind);
const isList = o => o.kind === "labels" || o.kind === "shares";
const tokensOf = o => page.stacks[o.stack].tokens;
const nameAt = (o, place) => quoted(tokensOf(o)[o.at[place]]);
const cellOf = (o, place, layer) => (place * o.rows + layer) * o.top;
// Prints a number as C does: ".421", "1.000", "−.012".
function printed(units) {
    const size = floor((abs(units) + 50) / 100), text = String(size % 1000).padStart(3, "0");
    return (units < 0 && size ? "−" : "") + (size < 1000 ? "" : floor(size / 1000)) + "." + text;
}
const rowName = (o, layer) => layer + 1 === o.rows ? "output" : layer ? `layer ${layer - 1}` : "embeddings";
// Returns the index of the position that is shown: that of the marked row; otherwise the last of a decoder, the first
// mask, or the first.
function placeNow(o) {
    const own = o.stacks.includes(state.stack) ? o.at.indexOf(state.row) : -1;
    if (own >= 0) return own;
    if (o.kind === "next") return o.at.length - 1;
    const mask = o.kind === "masked" ? o.targets.findIndex(t => t < 0) : 0;
    return max(0, mask);
}
function goTo(o, place) {
    if (!o.stacks.includes(state.stack)) set({ stack: o.stack });
    set({ row: o.at[place], key: -1, special: state.special || tokensOf(o)[o.at[place]].special });
}
// Returns the entries of a list that are drawn: those with the largest numbers, in the order of the text.
function listed(o) {
    const all = o.values.map((value, i) => ({ value, i }));
    const most = [...all].sort((a, b) => abs(b.value) - abs(a.value) || a.i - b.i).slice(0, MOST_ROWS);
    return most.sort((a, b) => a.i - b.i);
}
const isMarked = (o, i) => o.kind === "shares" && o.at[i] === state.row;
const listName = (o, i) => o.kind === "shares" ? nameAt(o, i) : o.names[o.entries[i]];

// ---- the figure ------------------------------------------------------------------------------------
function drawEntries(o, cell, shown, wide, x, y, parts) {
    for (let k = 0; k < shown; k++) {
        const units = o.values[cell + k], name = o.names[o.entries[cell + k]], left = x + k * wide;
        const level = levelOf(units / UNIT);
        const word = (at, text, anchor, size) => shape(
            "text",
            {
                x: tenth(at), y: tenth(y + 15.5), class: `on${level}`, "font-size": size, "text-anchor": anchor,
                fill: textOn(rampAt(level / LEVELS))
            },
            text
        );
        parts.push(titled(
            shape(
                "g", {}, weightFill(rectAt(left, y, wide - 2, LINE - 2, ""), units / UNIT),
                word(left + 6, fitted(name, wide - 54), "start", 13),
                word(left + wide - 8, printed(units), "end", 11)
            ),
            `${name} ${printed(units)}`
        ));
    }
}
function drawLens(o, place, lens) {
    const parts = [], w = output.box.clientWidth, names = min(124, max(104, floor(w * .2)));
    const target = lens && o.targets[place] >= 0 && w >= 560, space = w - names - (target ? TARGET : 0);
    const shown = max(1, min(o.top, floor(space / CELL_LEAST))), wide = tenth(min(CELL_MOST, space / shown));
    const rows = lens ? o.rows : min(MOST_ROWS, o.at.length), end = names + shown * wide;
    parts.push(
        textAt(names - 8, 12, say(lens ? "outputAfter" : "outputToken"), "tiny", "end"),
        textAt(names, 12, fitted(say(lens ? "outputTokens" : "outputLabelsHead"), space - 4, 11), "tiny")
    );
    if (target)
        parts.push(
            textAt(end + 60, 12, fitted(`“${o.names[o.targets[place]]}”`, 56, 11), "tiny", "end"),
            textAt(end + 116, 12, say("outputPlace"), "tiny", "end")
        );
    for (let i = 0; i < rows; i++) {
        const y = 20 + i * LINE, at = lens ? place : i, layer = lens ? i : 0, last = lens && i + 1 === rows;
        parts.push(textAt(
            names - 8, y + 15.5, fitted(lens ? rowName(o, i) : nameAt(o, i), names - 10), last ? "strong" : "", "end"
        ));
        drawEntries(o, cellOf(o, at, layer), shown, wide, names, y, parts);
        if (!target) continue;
        const row = place * o.rows + i;
        parts.push(
            textAt(end + 60, y + 15.5, printed(o.targetValues[row]), "tiny", "end"),
            textAt(end + 116, y + 15.5, count(o.targetRanks[row] + 1), "tiny", "end")
        );
    }
    redraw(output.figure, w, 20 + rows * LINE + 4, ...parts);
}
function drawList(o) {
    const parts = [], w = output.box.clientWidth, names = min(200, floor(w * .34)), list = listed(o);
    const most = max(1, ...list.map(e => abs(e.value))), bar = w - names - 60;
    const colour = rampAt(.7);
    const shares = o.kind === "shares", top = 18;
    parts.push(
        textAt(names - 8, 12, say(shares ? "outputToken" : "outputLabel"), "tiny", "end"),
        textAt(names, 12, say(shares ? "outputShareHead" : "outputLabelHead"), "tiny")
    );
    list.forEach(({ value, i }, n) => {
        const y = top + n * BAR_LINE, long = bar * abs(value) / most;
        parts.push(
            textAt(names - 8, y + 14, fitted(listName(o, i), names - 10), isMarked(o, i) ? "strong" : "", "end"),
            shape("rect", {
                x: names, y: y + 3, width: tenth(long), height: BAR_LINE - 7, class: value < 0 ? "neg" : "pos",
                fill: css(colour)
            }),
            textAt(names + long + 6, y + 14, printed(value), "tiny")
        );
    });
    let h = top + list.length * BAR_LINE;
    if (list.length < o.values.length) {
        const rest = o.values.reduce((a, b) => a + b, 0) - list.reduce((a, e) => a + e.value, 0);
        parts.push(
            textAt(names - 8, h + 14, say("outputRest"), "", "end"), textAt(names, h + 14, printed(rest), "tiny")
        );
        h += BAR_LINE;
    }
    redraw(output.figure, w, h + 4, ...parts);
}
function drawOutput() {
    const o = data();
    if (!o) return;
    const place = placeNow(o), notes = [];
    if (isList(o)) drawList(o); else drawLens(o, place, isLens(o));
    if (isLens(o)) notes.push(say(o.rows > 1 ? "outputLens" : "outputStep"));
    if (o.kind === "shares") notes.push(say("outputShareNote", o.detail));
    if (o.kind === "shares" && o.values.length > MOST_ROWS)
        notes.push(say("outputDrawn", MOST_ROWS, count(o.values.length)));
    if (o.at.length < o.all && !isList(o)) notes.push(say("outputSome", count(o.at.length), count(o.all)));
    output.note.textContent = notes.join(" ");
    output.note.title = isLens(o) && o.rows > 1 ? defined("logit lens").title : "";
    if (output.places) output.places.value = place;
}

// ---- words and panels ------------------------------------------------------------------------------
function settled(o, place) {
    const first = o.entries[cellOf(o, place, o.rows - 1)];
    let layer = o.rows - 1;
    while (layer > 0 && o.entries[cellOf(o, place, layer - 1)] === first) layer--;
    if (layer + 1 === o.rows) {
        const before = o.names[o.entries[cellOf(o, place, layer - 1)]];
        return layer > 1 ? say("outputLate", layer - 2, before) : say("outputLateEmbeddings", before);
    }
    return layer ? say("outputSettled", layer - 1) : say("outputEmbeddings");
}
function ownToken(o, place) {
    const row = place * o.rows + o.rows - 1, target = o.targets[place];
    if (target < 0 || !o.targetRanks[row]) return "";
    return say(
        o.kind === "masked" ? "outputHas" : "outputGoesOn", o.names[target], printed(o.targetValues[row]),
        count(o.targetRanks[row] + 1)
    );
}
function answerOutput() {
    const question = say("outputQuestion"), o = data();
    if (!o) return { question, pieces: [say("noOutput")] };
    if (o.kind === "shares") {
        const best = o.values.indexOf(max(...o.values));
        return {
            question,
            pieces: [
                say("outputShares", nameAt(o, best)), { b: printed(o.values[best]) },
                say("outputEqual", printed(floor(UNIT / o.values.length)))
            ]
        };
    }
    const place = placeNow(o), best = cellOf(o, place, o.rows - 1);
    const entry = `“${o.names[o.entries[best]]}” ${printed(o.values[best])}`;
    const end = (o.rows > 1 ? settled(o, place) : "") + (isLens(o) ? ownToken(o, place) : "") + ".";
    return { question, pieces: [say(SAYS[o.kind], isList(o) ? "" : nameAt(o, place)), { b: entry }, end] };
}
// Lists every position with its most likely token or label and, of tokens, the text's own token.
function drawPositions() {
    const o = data();
    if (!o || isList(o)) return output.table.replaceChildren();
    const lens = isLens(o), now = placeNow(o);
    const rows = o.at.map((_, place) => {
        const best = cellOf(o, place, o.rows - 1), row = place * o.rows + o.rows - 1, own = o.targets?.[place] ?? -1;
        const td = (text, kind = "") => el("td", kind ? { class: kind } : {}, text);
        const cells = [
            td(nameNode(nameAt(o, place)), "text"), td(o.names[o.entries[best]], "text"), td(printed(o.values[best]))
        ];
        if (lens)
            cells.push(
                td(own < 0 ? "" : o.names[own], "text"), td(own < 0 ? "" : printed(o.targetValues[row])),
                td(own < 0 ? "" : count(o.targetRanks[row] + 1))
            );
        const tr = el("tr", place === now ? { class: "on" } : {}, ...cells);
        onClick(tr, () => goTo(o, place));
        return tr;
    });
    const head = [say(o.kind === "next" ? "outputAfter" : "outputToken"), "first", "p"];
    if (lens) head.push(say("outputOwn"), "p", say("outputPlace"));
    output.table.replaceChildren(el(
        "table", { class: "row outputs" }, el("caption", {}, say("outputEach")),
        el("thead", {}, el("tr", {}, ...head.map((t, k) => el("th", {
            scope: "col", class: k < 2 || k === 3 ? "text" : ""
        }, t)))),
        el("tbody", {}, ...rows)
    ));
}
function outputRows() {
    const o = data();
    if (!o) return [];
    if (isList(o))
        return [
            [o.kind === "shares" ? "token" : "label", o.kind === "shares" ? "share" : "probability"],
            ...listed(o).sort((a, b) => b.value - a.value).map(e => [listName(o, e.i), printed(e.value)])
        ];
    const place = placeNow(o), out = [["position", "after", "rank", isLens(o) ? "token" : "label", "probability"]];
    for (let layer = 0; layer < o.rows; layer++)
        for (let k = 0; k < o.top; k++) {
            const cell = cellOf(o, place, layer) + k;
            out.push([nameAt(o, place), rowName(o, layer), k + 1, o.names[o.entries[cell]], printed(o.values[cell])]);
        }
    return out;
}

// ---- the view --------------------------------------------------------------------------------------
function buildOutput() {
    const o = data(), mid = [];
    output.figure = newFigure(say("outputQuestion"));
    output.box = el("div", { class: "board", tabindex: 0, role: "group" }, output.figure.node);
    output.note = el("p", { class: "note" });
    output.table = el("div", { class: "positions" });
    output.places = null;
    if (o && !isList(o)) {
        const list = o.at.map((i, place) => el("option", { value: place }, `${i} ${tokensOf(o)[i].text}`.slice(0, 40)));
        const places = output.places = el("select", { "aria-label": say("outputPosition") }, ...list);
        places.addEventListener("change", () => goTo(o, +places.value));
        const label = el("label", {}, el("span", {}, say("outputPosition")), places);
        mid.push(el("div", { class: "controls" }, el("div", { class: "pickers" }, label)));
    }
    return { mid: [...mid, output.box, output.note], right: [output.table] };
}
function walkPlaces(by) {
    const o = data();
    if (o && !isList(o)) goTo(o, min(o.at.length - 1, max(0, placeNow(o) + by)));
}

addView({
    key: "'", id: "output", name: "Output",
    can: () => data() ? true : say("noOutput"),
    build: () => buildOutput(),
    draw: () => drawOutput(),
    panels: () => drawPositions(),
    answer: () => answerOutput(),
    get group() { return output.box; },
    table: () => outputRows(),
    svg: () => figuresSvg([output.figure], answerOutput()),
    keys: [
        [
            "↑ ↓", "position", e => e.key === "ArrowUp" || e.key === "ArrowDown",
            e => walkPlaces(e.key === "ArrowUp" ? -1 : 1), () => data() && !isList(data())
        ]
    ]
});
