// SPDX-License-Identifier: MIT
// save.js: saves the current view: its table as TSV, its picture as SVG or PNG.
import { ceil, floor, max } from "../base/math.js";
import { count, escaped, plain, say, weight } from "../base/messages.js";
import { el, root, tsv } from "../base/dom.js";
import { geometry, selectedHeads, currentTarget, page, stage, state, threshold } from "../base/state.js";
import { FEW, hue, lane, opacity, rise, thickness } from "../base/palette.js";
import { drawn, nameOf, rowOf } from "../base/aggregate.js";
import { linkRows, links } from "../base/links.js";
import { drawNow, tell } from "../base/drawing.js";
import { keysOnStage, rowsOnStage } from "./diagram.js";
import { fitted, headStyle, headWords, shownToken } from "./figure.js";
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
    const across = max(1, floor(geometry.w / 110)), below = panel.below?.textContent;
    const split = below && geometry.w < 640, legend = 36 + 18 * ceil(heads.length / across) + (split ? 18 : 0);
    const { words, height } = headWords(question, sentence, 8, geometry.w, ["t", "n"]);
    const h = ceil(height + geometry.h + 12 + legend);
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
            `${h}" role="img" data-top="${height - 8}" data-bottom="${height + geometry.h + 8}">`,
        `<title>${escaped(question)}</title><desc>${escaped(sentence)}</desc>`,
        `<style>text{font:${geometry.row < 24 ? 13 : 16}px ` +
            `system-ui,sans-serif;dominant-baseline:central}path{fill:none!important}.n{font-size:12px}` +
            headStyle(),
        hue.dark ? "" : theme("svg", dark[1], "multiply") + other("light"),
        hue.dark
            ? theme("svg", dark[0], "screen") + other("dark")
            : `@media(prefers-color-scheme:dark){${theme("svg", dark[0], "screen")}${other("dark")}}`,
        hue.dark ? `@media(prefers-color-scheme:light){${theme("svg", dark[1], "multiply")}${other("light")}}` : "",
        `</style><rect class="p" width="100%" height="100%"/>${words}<g transform="translate(0 ${height})">`
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
    const rows = l.row >= 0 ? heads.map(head => rowOf(head, l.row)) : [];
    const name = wide => t => fitted(shownToken(t), wide, geometry.row < 24 ? 13 : 16);
    const left = name(geometry.q - 8), right = name((rows.length && geometry.bars || geometry.w) - geometry.k - 8);
    for (const i of rowsOnStage()) text("t", geometry.q, geometry.y[i], left(page.tokens[i]), ` text-anchor="end"`);
    for (const j of keysOnStage()) {
        text("t", geometry.k, geometry.z[j], right(page.keys[j]));
        if (rows.length && geometry.bars)
            text("n", geometry.bars, geometry.z[j], weight(max(0, ...rows.map(r => r[j]))));
    }
    for (const fold of geometry.folds)
        if (fold.y >= top && fold.y <= top + geometry.h) text("n", geometry.k, fold.y, fold.node.textContent);
    const y = h - legend + 6, where = `${page.about.model} · ${say("layerOf", state.layer)}`;
    out.push(`</g><g data-words=""><text class="n" x="8" y="${y}">${escaped(where)}</text>`);
    heads.forEach((head, m) => {
        const x = 8 + m % across * 110, line = y + 12 + 18 * floor(m / across);
        out.push(
            `<rect class="h${m}" x="${x}" y="${line}" width="10" height="10"/><text class="n" x="${x + 16}" ` +
                `y="${line + 5}">${escaped(nameOf(head))}</text>`
        );
    });
    const end = split ? `x="8" y="${h - 10}"` : `x="${geometry.w - 8}" y="${y}" text-anchor="end"`;
    if (below) out.push(`<text class="n" ${end}>${escaped(below)}</text>`);
    out.push("</g></svg>");
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
// ---- how a picture is saved: printed width, plain -------------------------------------------------------
const PRINTED = { column: 84, page: 174 };
/** sheet: "", "column" or "page"; plain: without title, sentence and legend. */
export const saving = { sheet: "", plain: false };
/**
 * Returns the picture of the view as SVG text, laid out for a printed width.
 * @param {string} sheet
 * @param {boolean} bare without title, sentence and legend
 * @param {boolean} animated
 */
export function savedSvg(sheet, bare, animated = false) {
    const at = scrollY;
    if (sheet) {
        root.dataset.sheet = sheet;
        drawNow();
    }
    const text = finished(animated ? page.view.animated() : page.view.svg(), sheet, bare && !animated);
    if (sheet) {
        delete root.dataset.sheet;
        drawNow();
        scrollTo(scrollX, at);
    }
    return text;
}
// Leaves out the words, and sets the printed width. Texts have no < and no >, so that the elements are found as text.
function finished(text, sheet, bare) {
    const of = name => Number(new RegExp(` ${name}="([^"]*)"`).exec(text)[1]), w = of("width"), top = of("data-top");
    const tall = bare ? of("data-bottom") - top : of("height"), mm = PRINTED[sheet];
    if (!sheet && !bare) return text;
    if (bare)
        text = text.replace(/<g data-words="">.*?<\/g>/gs, "").replace(
            /(<rect [^>]*"100%"[^>]*>)(.*)<\/svg>$/s, `$1<g transform="translate(0 ${-top})">$2</g></svg>`
        );
    const size = mm ? [`${mm}mm`, `${(mm * tall / w).toFixed(2)}mm`] : [w, tall];
    return text.replace(/ width="[^"]*"/, ` width="${size[0]}"`).replace(/ height="[^"]*"/, ` height="${size[1]}"`)
        .replace(/ viewBox="[^"]*"/, ` viewBox="0 0 ${w} ${tall}"`);
}

const headNames = () => state.selected.length ? ".H" + selectedHeads().join("-") : "";
const pictureName = end => `${page.view.id}-L${state.layer}${headNames()}.${end}`;
const pictureBlob = animated =>
    new Blob([savedSvg(saving.sheet, saving.plain, animated)], { type: "image/svg+xml" });
export const saveSvg = () => download(pictureBlob(false), pictureName("svg"));
export const saveAnimated = () => download(pictureBlob(true), pictureName("animated.svg"));
const DENSITY = 360; // dots per inch of a PNG file with a printed width
export function savePng() {
    const image = new Image();
    const c = document.createElement("canvas");
    const url = URL.createObjectURL(pictureBlob(false));
    const mm = PRINTED[saving.sheet], scale = mm ? DENSITY * mm / 25.4 : 0;
    image.onload = () => {
        c.width = scale ? Math.round(scale) : 2 * image.width;
        c.height = scale ? Math.round(scale * image.height / image.width) : 2 * image.height;
        c.getContext("2d").drawImage(image, 0, 0, c.width, c.height);
        URL.revokeObjectURL(url);
        c.toBlob(b => b && download(b, pictureName("png")), "image/png");
    };
    image.src = url;
}
