// SPDX-License-Identifier: MIT
// sections.js: divides a text into sections, and shades the text by the attention of a row. Sections begin at headings;
// if there are none, at blank lines; if there are none either, at sentences.
import { min, sqrt } from "../base/math.js";
import { el, onClick } from "../base/dom.js";
import { page, state } from "../base/state.js";
import { css, hue, textOn, rampAt } from "../base/palette.js";

// Maximum number of sections; if there are more, neighbours are joined. A section is { name, short, from, to } and has
// the tokens from..to-1.
const SECTIONS = 24;
export function sectionsOf(stack) {
    stack.sections ??= {};
    return ["rows", "keys"].map(side => {
        const n = stack.about[side] ?? 0, text = (page.about.texts ?? [])[n];
        return stack.sections[side] ??= findSections(text, side === "rows" ? stack.tokens : stack.keys);
    });
}
function findSections(text, tokens) {
    const starts = text?.source && text.places ? startsInSource(text, tokens) : startsInTokens(tokens);
    let list = starts.filter((s, n) => s.from < (starts[n + 1]?.from ?? tokens.length));
    const most = tokens.length / SECTIONS;
    if (list.length > SECTIONS) {
        const kept = [];
        for (const s of list) if (!kept.length || s.from - kept[kept.length - 1].from >= most) kept.push(s);
        list = kept;
    }
    list.forEach((s, n) => {
        s.to = list[n + 1]?.from ?? tokens.length;
        const number = /^\s*(?:§\s*|article\s+|section\s+|chapter\s+)?(\d+(?:\.\d+)*)\b/i.exec(s.name);
        s.short = number ? "§" + number[1] : String(n + 1);
        s.name = s.name.replace(/\s+/g, " ").trim();
        if (s.name.length > 60) s.name = s.name.slice(0, 58).trimEnd() + "…";
    });
    return list;
}
const wordsFrom = text =>
    text.trim().split(/\s+/).slice(0, 6).join(" ") + (text.trim().split(/\s+/).length > 6 ? "…" : "");
function isHeading(line, before, after) {
    const text = line.trim();
    if (/^#{1,6}\s+\S/.test(text)) return true;
    if (!text || text.length > 72 || before.trim() || after.trim()) return false;
    return /^(§|(article|section|chapter|part)\s+[\divxlc]|\d+(\.\d+)*[.)]?\s)/i.test(text) ||
        (text.length > 3 && /[A-Z]{2}/.test(text) && text === text.toUpperCase());
}
// Finds where sections begin in the source: at headings, if there are at least two; if not, at paragraphs; if there is
// only one, at sentences.
function startsInSource(text, tokens) {
    const source = [text.source].flat(), out = [];
    source.forEach((whole, part) => {
        const lines = whole.split("\n"), ways = [[], [], []];
        let at = 0;
        lines.forEach((line, n) => {
            if (isHeading(line, lines[n - 1] ?? "", lines[n + 1] ?? ""))
                ways[0].push([at, line.trim().replace(/^#+\s*/, "")]);
            if (line.trim() && !(lines[n - 1] ?? "").trim()) ways[1].push([at, wordsFrom(line)]);
            at += line.length + 1;
        });
        ways[2] = [...whole.matchAll(/(?:^|[.!?。！？]["'”’)\]]*\s+)(?=\S)/g)].map(m => [
            m.index + m[0].length,
            wordsFrom(whole.slice(m.index + m[0].length, m.index + m[0].length + 80).split(/[.!?]\s/)[0])
        ]);
        const way = ways.find(w => w.length > 1) ?? [[0, wordsFrom(whole)]];
        let i = tokens.findIndex(t => t.part === part && !t.special);
        if (i < 0) return;
        const first = way[0][0] > 0 ? [[0, wordsFrom(whole.slice(0, way[0][0]))]] : [];
        [...first, ...way].forEach(([place, name]) => {
            while (i < tokens.length && tokens[i].part === part &&
                (tokens[i].special || text.places[2 * i + 1] <= place))
                i++;
            if (i < tokens.length && tokens[i].part === part) out.push({ name, from: i });
        });
    });
    return out;
}
function startsInTokens(tokens) {
    const out = [];
    let fresh = true;
    tokens.forEach((t, i) => {
        if (t.special) { fresh = true; return; }
        if (fresh || (i && tokens[i - 1].part !== t.part)) {
            let name = "";
            for (let k = i; k < tokens.length && name.length < 28 && !/^[.!?]$/.test(tokens[k].text) &&
                !tokens[k].special; k++)
                name += (name && !isGlued(tokens, k) ? " " : "") + tokens[k].text;
            out.push({ name, from: i });
            fresh = false;
        }
        if (/^([.!?。！？]+|⏎+)$/.test(t.text.trim())) fresh = true;
    });
    return out;
}
// Returns true if token i begins where the token before it ends.
function isGlued(tokens, i, places) {
    if (!i) return true;
    if (tokens[i - 1].special) return false;
    if (/^[Ġ▁]./.test(tokens[i].raw)) return false; // its place in the source begins with the space
    if (places && tokens[i - 1].part === tokens[i].part && places[2 * i + 1] > places[2 * i])
        return places[2 * i] <= places[2 * i - 1];
    const raw = tokens[i].raw;
    if (raw.startsWith("##")) return true;
    if (/^[Ġ▁]/.test(raw)) return false;
    tokens.spaced ??= tokens.some(t => /^[Ġ▁]/.test(t.raw));
    return tokens.spaced && !tokens[i].special;
}

// Makes running text of the tokens from..to-1. Each is shaded by its weight(token), relative to `most`.
export function shadedText(tokens, places, from, to, weight, most, marked, act) {
    const p = el("p", { class: "shaded", lang: "", dir: "auto" });
    for (let i = from; i < to; i++) {
        if (i > from && !isGlued(tokens, i, places)) p.append(" ");
        const w = weight(i);
        const s = el("span", { "data-token": i }, state.raw ? tokens[i].raw : tokens[i].text);
        const x = most > 0 ? sqrt(min(1, w / most)) : 0;
        if (i === marked) s.className = "marked";
        else if (x > .15 && !hue.forced) {
            const c = rampAt(x * .8);
            s.style.background = css(c);
            s.style.color = textOn(c);
        } else if (x > .5) s.className = "strong";
        p.append(s);
    }
    onClick(p, e => {
        const at = e.target.dataset.token;
        if (at !== undefined) act(+at);
    });
    return p;
}
