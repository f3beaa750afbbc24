// SPDX-License-Identifier: MIT
// survey.js: what needs every row of a head (keys read, attention received, the coarse matrix),
// computed in slices of a few milliseconds so that nothing waits for it.

const SLICE = 6, COARSE = 64;
const surveys = new Map();
let queue = [], running = false;

function survey(layer, head) {
    const key = layer * page.H + head;
    let s = surveys.get(key);
    if (!s) {
        const T = page.T, n = min(COARSE, T);
        s = { layer, head, done: 0, keys: new Float32Array(T), got: [0, 1, 2].map(() => new Float32Array(T)), n, coarse: new Float32Array(n * n) };
        surveys.set(key, s);
        if (T <= 64) while (s.done < T) surveyRow(s);
    }
    return s;
}

function surveyRow(s) {
    const T = page.T, i = s.done++, row = weights.row(s.layer, s.head, i), token = page.tokens[i];
    const got = s.got[token.special ? 2 : token.part], at = floor(i * s.n / T) * s.n;
    let entropy = 0;
    for (let j = 0; j < T; j++) {
        const w = row[j];
        got[j] += w;
        if (w > 0) entropy -= w * Math.log(w);
        if (token.special || page.tokens[j].special) continue;
        const c = at + floor(j * s.n / T);
        if (w > s.coarse[c]) s.coarse[c] = w;
    }
    s.keys[i] = Math.exp(entropy);
}

function forgetSurveys() {
    surveys.clear();
    queue = [];
}

// Asks for the surveys of these heads; `then` runs when all are complete.
function wantSurveys(layer, heads, then) {
    queue = heads.map(h => survey(layer, h)).filter(s => s.done < page.T);
    if (queue.length && !running) {
        running = true;
        setTimeout(step);
    }
    function step() {
        const end = performance.now() + SLICE;
        while (queue.length && performance.now() < end) {
            surveyRow(queue[0]);
            if (queue[0].done >= page.T) queue.shift();
        }
        running = queue.length > 0;
        if (running) setTimeout(step);
        else then();
    }
}
const surveyed = (layer, heads) => heads.every(h => survey(layer, h).done >= page.T);
