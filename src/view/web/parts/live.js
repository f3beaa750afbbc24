// SPDX-License-Identifier: MIT
// live.js: the bar of a page that a server has answered (docs/serve.md): a field for the text, heads that are switched
// off, the scale of the scores. Each change asks the server for the page again and shows the numbers of its answer. The
// page of a file has no bar.
import { min } from "../base/math.js";
import { $, el, onClick } from "../base/dom.js";
import { addTexts, say, setWeightError, weight } from "../base/messages.js";
import { headName, page, selectedHeads, state } from "../base/state.js";
import { wordStack } from "../base/aggregate.js";
import { load } from "../base/unpack.js";
import { requestDraw } from "../base/drawing.js";
import { nameRows, openView, stacksOf, useStack, viewOf, writeAddress } from "../base/frame.js";

addTexts({
    liveBar: "Model",
    liveText: "Text",
    liveSecond: "Second text",
    liveOff: "Switch off {0}",
    liveOn: "Switch on {0}",
    liveScale: "Scale ×",
    liveHeat: "Temperature",
    liveTop: "Top-p",
    liveCosine: "cosine with the unchanged vector {0}",
    liveNext: "next token:",
    liveWas: "(unchanged {0})",
    liveDrawn: "→ {0}",
    liveGone: "The server does not answer; the page shows the last text."
});
const WAIT = 120; // milliseconds without a key before the server is asked
const live = /** @type {any} */ ({ off: [] });
export const isLive = () => !!page.about.server && /^http/.test(location.protocol);

// ---- new numbers -----------------------------------------------------------------------------------
/**
 * Replaces the data of the page by that of another page, and keeps what is selected where that exists.
 * @param {Document} answer
 */
async function replace(answer) {
    const about = JSON.parse(answer.getElementById("about").textContent), old = page.tokens, { row } = state;
    $("packed").textContent = answer.getElementById("packed").textContent;
    nameRows(about);
    const stacks = stacksOf(about), all = await load(about);
    Object.assign(page, { about, stacks, all, version: page.version + 1 });
    stacks.forEach((s, n) => { s.weights = all[n]; });
    setWeightError(all.reduce((most, s) => Math.max(most, s.about.error), 0));
    if (viewOf(state.view).can() !== true) state.view = "heads";
    const words = state.words && viewOf(state.view).words === true && wordStack(stacks[0]) !== null;
    useStack(0, words);
    const same = page.tokens[row]?.text === old[row]?.text;
    Object.assign(state, {
        layer: min(state.layer, page.L - 1), row: same ? row : -1, key: -1, filter: page.pair ? state.filter : "all"
    });
    document.title = answer.title;
    $("kept").textContent = answer.getElementById("kept").textContent;
    openView();
    writeAddress();
    requestDraw("layout");
}

// ---- the request -----------------------------------------------------------------------------------
async function ask() {
    const { text, second, scale, heat, top } = live, body = {
        model: page.about.server.model, input: text.value, ablate: live.off, score_scale: 2 ** +scale.value, live: true
    };
    live.asking?.abort();
    if (!text.value.trim()) return;
    if (!second.hidden && second.value.trim()) body.against = second.value;
    if (heat) Object.assign(body, { temperature: +heat.value, top_p: +top.value });
    const { signal } = live.asking = new AbortController();
    try {
        const answer = await fetch("/v1/attention", {
            method: "POST", signal, body: JSON.stringify(body),
            headers: { "Accept": "text/html", "Content-Type": "application/json" }
        });
        const got = await answer.text();
        if (signal.aborted) return;
        if (!answer.ok) return fail(JSON.parse(got).error.message);
        await replace(new DOMParser().parseFromString(got, "text/html"));
        live.said.className = "";
    } catch (e) {
        if (!signal.aborted) fail(e.say ?? say("liveGone"));
    }
}
function fail(text) {
    live.said.className = "broken";
    live.said.textContent = text;
}
function later() {
    clearTimeout(live.timer);
    live.timer = setTimeout(ask, WAIT);
}
function toggle(names) {
    const on = names.every(n => live.off.includes(n));
    live.off = on ? live.off.filter(n => !names.includes(n)) : [...new Set([...live.off, ...names])];
    drawLive();
    ask();
}

// ---- the bar ---------------------------------------------------------------------------------------
const chosen = () => selectedHeads().map(h => headName(state.layer, h));
function slider(name, least, most, value, shown) {
    const range = el("input", { type: "range", min: least, max: most, step: .05, value, "aria-label": say(name) });
    const number = el("span"), write = () => { number.textContent = shown(+range.value); };
    range.addEventListener("input", () => { write(); later(); });
    write();
    live.bar.append(el("label", { class: "slider" }, say(name), range, number));
    return range;
}
function field(name, value) {
    const input = el("input", { type: "text", "aria-label": say(name), placeholder: say(name), spellcheck: "false" });
    input.value = value;
    input.addEventListener("input", later);
    return input;
}
export function buildLive() {
    const { server } = page.about, bar = el("div", { id: "live", role: "group", "aria-label": say("liveBar") });
    live.bar = bar;
    live.text = field("liveText", server.text);
    live.second = field("liveSecond", "");
    live.second.hidden = true;
    const two = el("button", { "aria-pressed": "false" }, say("liveSecond"));
    onClick(two, () => {
        live.second.hidden = !live.second.hidden;
        two.setAttribute("aria-pressed", `${!live.second.hidden}`);
        if (!live.second.hidden) live.second.focus();
        if (live.second.value) ask();
    });
    live.toggle = el("button", {});
    onClick(live.toggle, () => { if (chosen().length) toggle(chosen()); });
    live.heads = el("span", { class: "off" });
    live.said = el("output", {});
    bar.append(live.text, two, live.second, live.toggle, live.heads);
    live.scale = slider("liveScale", -2, 2, 0, x => (2 ** x).toFixed(2));
    if (server.next) {
        live.heat = slider("liveHeat", .05, 2, 1, x => x.toFixed(2));
        live.top = slider("liveTop", .05, 1, 1, x => x.toFixed(2));
    }
    bar.append(live.said);
    $("main").before(bar);
}
// Writes how much the output differs from that of the unchanged model.
function changes() {
    const { vector, next } = page.about.server;
    if (vector !== undefined) return [say("liveCosine", weight(vector, 4))];
    if (!next) return [];
    return [say("liveNext"), ...next.map(([text, now, was, drawn]) => el(
        "span", {}, el("b", {}, text), ` ${weight(now, 3)}`, was === now ? "" : ` ${say("liveWas", weight(was, 3))}`,
        drawn === undefined || drawn === now ? "" : ` ${say("liveDrawn", drawn ? weight(drawn, 3) : "0")}`
    ))];
}
export function drawLive() {
    if (!live.bar) return;
    const names = chosen(), on = names.length > 0 && names.every(n => live.off.includes(n));
    live.toggle.textContent = say(on ? "liveOn" : "liveOff", names.slice(0, 3).join(", ") + (names[3] ? ", …" : ""));
    live.toggle.setAttribute("aria-disabled", `${!names.length}`);
    const shown = live.off.join();
    if (live.shown !== shown)
        live.heads.replaceChildren(...live.off.map(name => {
            const b = el("button", { "aria-label": say("liveOn", name) }, `${name} ×`);
            onClick(b, () => toggle([name]));
            return b;
        }));
    live.shown = shown;
    document.querySelectorAll("#chips .chip").forEach((chip, h) =>
        chip.toggleAttribute("data-off", live.off.includes(headName(state.layer, h))));
    if (live.version !== page.version) live.said.replaceChildren(...changes());
    live.version = page.version;
}
export const toggleHeads = () => { if (chosen().length) toggle(chosen()); };
