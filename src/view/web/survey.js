// SPDX-License-Identifier: MIT
// survey.js: what needs every row of a head (keys read, attention received, the coarse matrix, the
// strongest links), computed in slices of a few milliseconds so that nothing waits for it.

const SLICE = 6, COARSE = 64, STRONG = 24;
const surveys = new Map();
const waiting = new Set();
let queue = [], running = false;

function survey(layer, head) {
    const key = `${layer}:${head}${head === MEAN ? lit() : ""}`;
    let s = surveys.get(key);
    if (!s) {
        const { T, S } = page, n = min(COARSE, T), m = min(COARSE, S);
        s = { layer, head, heads: lit(), done: 0, keys: new Float32Array(T), got: [0, 1, 2].map(() => new Float32Array(S)), n, m, coarse: new Float32Array(n * m), strong: [] };
        surveys.set(key, s);
        if (max(T, S) <= 64 && head !== ROLLOUT) while (s.done < T) surveyRow(s);
    }
    return s;
}

function surveyRow(s) {
    const { T, S } = page, i = s.done++, token = page.tokens[i], own = page.tokens === page.keys;
    const got = s.got[token.special ? 2 : token.part], at = floor(i * s.n / T) * s.m;
    let entropy = 0;
    const take = (j, w) => {
        got[j] += w;
        if (w > 0) entropy -= w * Math.log(w);
        if (token.special || page.keys[j].special) return;
        const c = at + floor(j * s.m / S);
        if (w > s.coarse[c]) s.coarse[c] = w;
        if ((own && i === j) || !(w > (s.strong[STRONG - 1]?.w ?? 0))) return;
        s.strong.push({ i, j, w });
        s.strong.sort((a, b) => b.w - a.w);
        s.strong.length = min(s.strong.length, STRONG);
    };
    if (s.head >= 0 && isSparse(s.layer)) {
        for (const [j, w] of weights.top(s.layer, s.head, i, ALL_KEPT)) take(j, w);
    } else {
        const row = rowAt(s.layer, s.head, i);
        for (let j = 0; j < S; j++) take(j, row[j]);
    }
    s.keys[i] = Math.exp(entropy);
}

function forgetSurveys() {
    surveys.clear();
    queue = [];
    waiting.clear();
}

// Asks for the surveys of these heads, in place of those asked for before; `then` runs when all are complete.
function wantSurveys(layer, heads, then) {
    waiting.add(then);
    queue = heads.map(h => survey(layer, h)).filter(s => s.done < page.T);
    if (queue.length && !running) {
        running = true;
        setTimeout(step);
    }
    function step() {
        const end = performance.now() + SLICE;
        while (queue.length && performance.now() < end) {
            if (queue[0].head === MEAN && `${queue[0].heads}` !== `${lit()}`) { // other heads were lit meanwhile
                queue.shift();
                continue;
            }
            surveyRow(queue[0]);
            if (queue[0].done >= page.T) queue.shift();
        }
        running = queue.length > 0;
        if (running) return void setTimeout(step);
        const all = [...waiting];
        waiting.clear();
        for (const then of all) then();
    }
}
const surveyed = (layer, heads) => heads.every(h => survey(layer, h).done >= page.T);
