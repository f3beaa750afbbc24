// SPDX-License-Identifier: MIT
// heads.js: the view "Which words read which?": stage.js and panel.js put together.

function step(by) { // the marked token
    const at = page.visible.indexOf(state.row), n = page.visible.length;
    const to = page.visible[at < 0 ? by > 0 ? 0 : n - 1 : min(n - 1, max(0, at + by))];
    if (to === undefined) return;
    stage.pointer = null;
    set({ row: to, key: -1 });
    reveal(to);
}
// The strongest links of the heads drawn, one after the other; asked again until all rows were read.
function jump(by) {
    const heads = drawn();
    if (!heads.length) return;
    if (heads[0] === ROLLOUT && !rolled(state.layer)) return announce(say("rolling"));
    if (!surveyed(state.layer, heads)) {
        announce(say("looking"));
        return wantSurveys(state.layer, heads, () => jump(by));
    }
    const all = heads.flatMap(h => survey(state.layer, h).strong).sort((a, b) => b.w - a.w).slice(0, STRONG);
    if (!all.length) return announce(say("noJump"));
    const at = all.findIndex(s => s.i === state.row && s.j === state.key), n = all.length;
    const to = at < 0 ? by > 0 ? 0 : n - 1 : (at + by + n) % n, { i, j, w } = all[to];
    stage.pointer = null;
    set({ row: i, key: j });
    reveal(i);
    announce(say("jumped", to + 1, n, quote(i), quoteKey(j), weight(w)));
}
const page60 = by => { // the window of a long text
    win.from += by * (ROWS - 10);
    ask("layout");
};
const layer = by => set({ layer: min(page.L - 1, max(0, state.layer + by)) });
function enter() {
    const p = stage.pointer;
    if (p) pin(p);
    else if (state.row >= 0) set({ row: state.row });
}
function headOf(e) {
    const at = /^Digit\d$/.test(e.code) ? +e.code[5] : e.code === "Minus" ? 10 : e.code === "Equal" ? 11 : -1;
    return at < page.H ? at : -1;
}
const allHeads = () => Array.from({ length: page.H }, (_, h) => h);

const lookAgain = () => ask("look");
function drawHeads(what) {
    if (what !== "layout") stage.top = what === "theme" ? stage.top : stage.box.scrollTop;
    if (ORDER.indexOf(what) >= 2) {
        const complete = drawBase(), heads = drawn();
        if (heads[0] === ROLLOUT && !rolled(state.layer)) wantRoll(() => ask("base"));
        else if (!complete) ask("base");
        else if (windowed()) wantWindow();
        else if (!surveyed(state.layer, heads)) wantSurveys(state.layer, heads, lookAgain);
    }
    drawStage();
}
function drawHeadPanels(whole) {
    const l = look(), sees = [state.layer, state.lit, l.row, l.key, state.special, state.filter, drawn()[0], state.log, hue.dark, stage.box.clientWidth, windowed() || surveyed(state.layer, drawn())].join();
    if (whole) { drawFilters(); drawMixes(); drawBelow(); drawChips(); drawAtlas(); }
    if (sees !== page.sees) drawRight(l);
    page.sees = sees;
    if (lit().length) return void (panel.pulsed = false);
    if (panel.pulsed) return;
    panel.pulsed = true;
    panel.chipBox.parentNode.classList.remove("pulse");
    requestAnimationFrame(() => panel.chipBox.parentNode.classList.add("pulse"));
}
// "it, row 11 of 15, layer 4 head 2: animal .64, it .07, street .05; specials .15"
function spoken(i) {
    const heads = drawn().map(h => {
        const row = rowOf(h, i), keys = strongestOf(page.seen, row, 3);
        const hidden = sumOf(page.unseen, row);
        return `${nameOf(h)}: ${keys.map(j => `${page.keys[j].text} ${weight(row[j])}`).join(", ")}${hidden > .005 ? `; specials ${weight(hidden)}` : ""}`;
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
        return { left: [buildAtlas(), ...buildFilters()], mid: [el("div", {}, panel.chipBox), ...picture], right: buildRight() };
    },
    layout: () => layout(),
    draw: what => drawHeads(what),
    panels: whole => drawHeadPanels(whole),
    answer: () => answer(look()),
    get group() { return stage.box; },
    spoken: () => look().row >= 0 ? spoken(look().row) : null,
    table: most => viewRows(most && most - 4),
    rest: n => restOfLinks(n),
    svg: () => svg(),
    reveal: i => reveal(i),
    drop: () => { stage.pointer = null; },
    keys: [
        ["↑ ↓", "token", e => e.key === "ArrowUp" || e.key === "ArrowDown", e => step(e.key === "ArrowUp" ? -1 : 1), 1],
        ["← →", "layer", e => e.key === "ArrowLeft" || e.key === "ArrowRight", e => layer(e.key === "ArrowLeft" ? -1 : 1), 1],
        ["0…9 - =", "solo a head (0 to 11)", e => !e.shiftKey && headOf(e) >= 0, e => solo(headOf(e)), 1],
        ["⇧ 0", "add a head", e => e.shiftKey && headOf(e) >= 0, e => set({ lit: toggled(headOf(e)) }), () => !windowed()],
        ["A", "light all heads", "a", () => set({ lit: allHeads() })],
        ["I", "invert the heads", "i", () => set({ lit: allHeads().filter(h => !state.lit.includes(h)) })],
        ["Enter", "pin what is pointed at", e => e.key === "Enter" && !e.target.closest("button,input,a"), enter],
        ["J", "next strongest link (⇧ back)", "j", e => jump(e.shiftKey ? -1 : 1), () => windowed()],
        ["PgUp PgDn", "rows of a long text", e => windowed() && /^Page/.test(e.key), e => page60(e.key === "PageUp" ? -1 : 1), () => windowed()],
        ["Y", "encoder, decoder, cross", "y", () => set({ stack: (state.stack + 1) % page.stacks.length }), () => page.stacks.length > 1],
        ["V", "mean of the heads, or each", "v", () => set({ mean: !state.mean, rollout: false })],
        ["Z", "rollout of the layers", "z", () => canRoll() === true ? set({ rollout: !state.rollout }) : announce(canRoll())],
        ["⇧ R", "merge sub-words", e => e.shiftKey && e.key === "R", () => set({ words: !state.words })],
        ["G", "log scale", "g", () => set({ log: !state.log })],
        ["F", "sentences", "f", () => page.pair && set({ filter: FILTERS[(FILTERS.indexOf(state.filter) + 1) % 5] }), () => page.pair],
        [", .", "threshold", e => e.key === "," || e.key === ".", e => set({ factor: min(.95 * page.S, max(.01, state.factor * (e.key === "," ? .8 : 1.25))) })]
    ]
});
