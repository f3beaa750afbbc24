// SPDX-License-Identifier: MIT
// save.js: saves the current view: its table as TSV, its picture as SVG or PNG.
import { ceil, floor, max } from "../base/math.js";
import { count, escaped, plain, say, weight } from "../base/messages.js";
import { el, root, tsv } from "../base/dom.js";
import { geometry, selectedHeads, currentTarget, page, stage, state, threshold } from "../base/state.js";
import { FEW, hue, lane, opacity, rise, thickness } from "../base/palette.js";
import { drawn, nameOf, rowOf } from "../base/aggregate.js";
import { linkRows, links } from "../base/links.js";
import { tell } from "../base/drawing.js";
import { keysOnStage, rowsOnStage } from "./diagram.js";
import { sentenceLines } from "./figure.js";
import { panel, rowTable } from "./panel.js";

const TABLE_MOST = 5000;
export function viewRows(most = TABLE_MOST) {
    const l = currentTarget();
    if (l.row >= 0 || l.key >= 0) {
        const t = rowTable(l, most), mean = l.row >= 0;
        return [[mean ? "key" : "token", ...t.heads.map(h => nameOf(h)), ...(mean ? ["all heads"] : [])],
            ...t.rows.map(r => [r.name, ...r.w.map(w => weight(w, 4)), ...(mean ? [weight(r.mean, 4)] : [])])];
    }
    return [["from", "to", "head", "weight"], ...linkRows().map(r => [r[0], r[1], r[2], weight(r[3], 4)])];
}
export async function copyTable() {
    const rows = page.view.table?.() ?? [], text = tsv(rows);
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const area = el("textarea", { class: "quiet" });
        area.value = text;
        document.body.append(area);
        area.select();
        const ok = document.execCommand("copy");
        area.remove();
        if (!ok) return tell(say("notCopied"));
    }
    tell(say("copied", count(max(0, rows.length - 1))));
}
// Returns the diagram as SVG: text as text, without script, with colours as classes for both themes.
export function svg() {
    const { top } = stage;
    const heads = drawn();
    const { question, pieces } = page.view.answer();
    const sentence = plain(pieces);
    const l = currentTarget();
    const across = max(1, floor(geometry.w / 110)), legend = 36 + 18 * ceil(heads.length / across);
    const lines = sentenceLines(sentence, geometry.w - 16), lower = 20 * max(0, lines.length - 1);
    const h = ceil(geometry.h + 84 + legend + lower);
    const dark = [["#101319", "#e9e7e1", "#858993"], ["#fbfaf6", "#1b1c20", "#6b6d75"]];
    const value = name => getComputedStyle(root).getPropertyValue(name).split(" ").filter(x => x);
    const theme = (root, colours, blending) => `${root}{--paper:${colours[0]}}.p{fill:${colours[0]}` +
        `}.t{fill:${colours[1]}}.n{fill:${colours[2]}}path{mix-blend-mode:${blending}}`;
    const other = d => { // returns the palette of a theme, read from the style sheet
        const old = root.dataset.theme;
        root.dataset.theme = d;
        const out = { heads: value("--heads"), ramp: value("--ramp") };
        root.dataset.theme = old;
        return heads.map((head, m) => {
            const c = heads.length < 2 || head < 0
                ? out.ramp[d === "dark" ? 6 : 5]
                : out.heads[heads.length <= FEW.length ? FEW[m] : page.H <= 16 ? head : m % 16];
            return `.h${m}{stroke:${c};fill:${c}}`;
        }).join("");
    };
    const out = [
        `<svg xmlns="http://www.w3.org/2000/svg" width="${geometry.w}" height="${h}" viewBox="0 0 ${geometry.w} ` +
            `${h}" role="img">`,
        `<title>${escaped(question)}</title><desc>${escaped(sentence)}</desc>`,
        `<style>text{font:${geometry.row < 24 ? 13 : 16}px ` +
            `system-ui,sans-serif;dominant-baseline:central}path{fill:none!important}.n{font-size:12px}.s{font:25px ` +
            `Georgia,serif}.d{font:15px Georgia,serif}`,
        hue.dark ? "" : theme("svg", dark[1], "multiply") + other("light"),
        hue.dark
            ? theme("svg", dark[0], "screen") + other("dark")
            : `@media(prefers-color-scheme:dark){${theme("svg", dark[0], "screen")}${other("dark")}}`,
        hue.dark ? `@media(prefers-color-scheme:light){${theme("svg", dark[1], "multiply")}${other("light")}}` : "",
        `</style><rect class="p" width="100%" height="100%"/>`,
        `<text class="t s" x="8" y="20">${escaped(question)}</text>` +
            lines.map((line, n) => `<text class="n d" x="8" y="${48 + 20 * n}">${escaped(line)}</text>`).join("") +
            `<g transform="translate(0 ${72 + lower})">`
    ];
    const link = (m, i, j, w, dim) => {
        const tau = threshold(i);
        const t = rise(w, tau);
        const dy = lane(m, heads.length, geometry.row);
        const y0 = geometry.y[i] - top + dy;
        const y1 = geometry.z[j] - top + dy;
        const b = .46 * (geometry.x1 - geometry.x0);
        const r = x => x.toFixed(1);
        out.push(
            `<path class="h${m}" opacity="${(opacity(t) * dim).toFixed(3)}" ` +
                `stroke-width="${thickness(t).toFixed(2)}" d="M${r(geometry.x0)} ${r(y0)}C${r(geometry.x0 + b)} ` +
                `${r(y0)} ${r(geometry.x1 - b)} ${r(y1)} ${r(geometry.x1)} ${r(y1)}"/>`
        );
    };
    const any = l.row >= 0 || l.key >= 0, within = j => geometry.z[j] >= top && geometry.z[j] <= top + geometry.h;
    for (let k = 0; k < links.n; k++) {
        const i = links.i[k], j = links.j[k], on = l.row >= 0 ? i === l.row : l.key < 0 || j === l.key;
        if (within(j)) link(links.m[k], i, j, links.w[k], any && !on ? hue.dark ? .07 : .11 : 1);
    }
    const text = (kind, x, y, words, more = "") => out.push(
        `<text class="${kind}" x="${x.toFixed(1)}" y="${(y - top).toFixed(1)}"${more}>${escaped(words)}</text>`
    );
    const name = t => state.raw ? t.raw : t.text, rows = l.row >= 0 ? heads.map(head => rowOf(head, l.row)) : [];
    for (const i of rowsOnStage()) text("t", geometry.q, geometry.y[i], name(page.tokens[i]), ` text-anchor="end"`);
    for (const j of keysOnStage()) {
        text("t", geometry.k, geometry.z[j], name(page.keys[j]));
        if (rows.length && geometry.bars)
            text("n", geometry.bars, geometry.z[j], weight(max(0, ...rows.map(r => r[j]))));
    }
    for (const fold of geometry.folds)
        if (fold.y >= top && fold.y <= top + geometry.h) text("n", geometry.k, fold.y, fold.node.textContent);
    const y = h - legend + 6, where = `${page.about.model} · ${say("layerOf", state.layer)}`;
    out.push(`</g><text class="n" x="8" y="${y}">${escaped(where)}</text>`);
    heads.forEach((head, m) => {
        const x = 8 + m % across * 110, line = y + 12 + 18 * floor(m / across);
        out.push(
            `<rect class="h${m}" x="${x}" y="${line}" width="10" height="10"/><text class="n" x="${x + 16}" ` +
                `y="${line + 5}">${escaped(nameOf(head))}</text>`
        );
    });
    const below = panel.below?.textContent;
    if (below) out.push(`<text class="n" x="${geometry.w - 8}" y="${y}" text-anchor="end">${escaped(below)}</text>`);
    out.push("</svg>");
    return out.join("");
}

function download(blob, name) {
    const a = el("a", { href: URL.createObjectURL(blob), download: name });
    document.body.append(a);
    a.click();
    a.remove();
    setTimeout(() => URL.revokeObjectURL(a.href), 1e4);
    tell(say("saved", name));
}
const headNames = () => state.selected.length ? ".H" + selectedHeads().join("-") : "";
const pictureName = end => `${page.view.id}-L${state.layer}${headNames()}.${end}`;
export const saveSvg = () => download(new Blob([page.view.svg()], { type: "image/svg+xml" }), pictureName("svg"));
export const saveAnimated = () =>
    download(new Blob([page.view.animated()], { type: "image/svg+xml" }), pictureName("animated.svg"));
export function savePng() {
    const image = new Image();
    const c = document.createElement("canvas");
    const url = URL.createObjectURL(new Blob([page.view.svg()], { type: "image/svg+xml" }));
    image.onload = () => {
        c.width = 2 * image.width;
        c.height = 2 * image.height;
        c.getContext("2d").drawImage(image, 0, 0, c.width, c.height);
        URL.revokeObjectURL(url);
        c.toBlob(b => b && download(b, pictureName("png")), "image/png");
    };
    image.src = url;
}
