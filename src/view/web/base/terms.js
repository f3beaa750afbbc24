// SPDX-License-Identifier: MIT
// terms.js: defines the terms of the page, each in one sentence, under the page of the course that explains it.
import { el } from "./dom.js";
import { page } from "./state.js";

/** @type {[string, [string, string][]][]} a page of docs/notes/, and its terms with their definitions */
const TERMS = [
    ["5. Query, key, value", [
        ["query token", "the token that attends: its query q = x W_Q is multiplied with every key"],
        ["key token", "a token that is attended to: queries are multiplied with its key k = x W_K"]
    ]],
    ["6. Scaling and softmax", [
        ["weight", "softmax of a score: the share of a key in the output of a query, whose weights sum to 1"],
        ["entropy", "how evenly the weights w of a query are spread: −Σ w ln w, 0 if one key has all weight"],
        ["effective keys", "e to the entropy: so many keys with equal weights would have the same entropy"],
        ["softmax gradient", "Σ w (1 − w): how much the weights change with their scores, 0 if one key has all weight"]
    ]],
    ["7. Masks and padding", [
        ["special tokens", "tokens that the tokenizer adds to the text, such as [CLS] and [SEP]"],
        ["mask", "the keys that a query must not attend to: their weights are 0"]
    ]],
    ["9. Multi-head attention", [
        ["head", "one attention with its own W_Q, W_K and W_V; a layer has several"],
        ["kind", "what a head attends to on this text, if a measure of that is above its threshold"],
        ["strength", "the measure of the head’s kind, from 0 to 1"],
        ["distance", "tokens between a query and the keys to which it attends, averaged by weight"],
        ["attention received", "the sum of the weights of a key over all queries"]
    ]],
    ["10. What heads attend to", [
        ["ablation effect", "how much the output changes if this head is replaced, by zeros for example"],
        ["Jensen-Shannon divergence", "how far two rows of weights are apart: 0 equal, 1 no key in common"]
    ]],
    ["12. The layer", [
        ["residual stream", "the vector of a token from layer to layer, to which each sublayer adds"]
    ]],
    ["15. Generation", [
        ["logit lens", "the output head of the model, applied to the hidden state after an earlier layer"]
    ]]
];
const MEANING = new Map(TERMS.flatMap(([, rows]) => rows));

/**
 * Returns the attributes that define a term where it appears; none if the text is no term.
 * @param {string} text the term, which "mean" may follow after a comma
 * @returns {Record<string, string>}
 */
export function defined(text) {
    const of = MEANING.get(text.replace(/, mean$/, ""));
    return of ? { title: of, "aria-description": of } : {};
}
/** Makes the list of all terms for the help dialog, with the kinds of heads of this page. */
export function termList() {
    return TERMS.map(([course, rows]) => {
        const kinds = course[0] === "9" ? page.about.kindTable.map(k => [`${k.glyph} ${k.name}`, k.rule]) : [];
        return el("section", {}, el("h3", {}, course), el("dl", {}, ...[...rows, ...kinds].flatMap(([name, of]) => [
            el("dt", {}, name), el("dd", {}, of)
        ])));
    });
}
