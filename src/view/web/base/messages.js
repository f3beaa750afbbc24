// SPDX-License-Identifier: MIT
// messages.js: contains the texts that several views show, in one table, and formats numbers.
//
// A view adds its own texts with addTexts().
import { floor, max, min, round } from "./math.js";

/** @type {Record<string, any>} */
const TEXT = {
    which: "Which words attend to which?",
    what: "What does {0} attend to?",
    who: "Which tokens attend to {0}?",
    cut: "This file is cut short: expected {0} bytes, found {1}.",
    damaged: "This file is damaged: its numbers cannot be decompressed.",
    array: "This file is damaged: the numbers “{0}” of layer {1}, at byte {2}, do not match their checksum.",
    unreadable: "This file is cut short or damaged: its description cannot be read.",
    only: "The only token attends to itself: 1.000.",
    choose: "Choose a head.",
    nothing: "{0} attends to no key: all its weights are 0.",
    notNumber: "The weights of {0} are not numbers: they contain NaN.",
    layerOf: "layer {0}",
    layerHead: "Layer and head",
    focused: "darker = more focused",
    focusedDark: "brighter = more focused",
    attention: "Attention of",
    stackNames: { encoder: "Encoder", decoder: "Decoder", cross: "Cross" },
    several: "Heads drawn",
    eachHead: "each",
    rollout: "rollout",
    meanOf: "the mean of heads {0}",
    rollOf: "the rollout of layers 0 to {0}",
    rolling: "Computing the rollout of the layers.",
    rollNote: "Rollout: the product of one matrix per layer, half the mean of its heads plus half the identity.",
    rollSelf: "Rollout requires self-attention.",
    rollShort: "Rollout requires a text of at most {0} tokens.",
    words: "Merge sub-words",
    wordsNote: "For the tokens of a word, weights of keys are summed, and rows of queries are averaged.",
    log: "Log scale",
    logNote: "Darkness is the logarithm of the weight, from .0001 to 1.",
    notKept: "not stored",
    maskedKeys: "{0} masked",
    align: "Alignment, {0}",
    noStrongLink: "no strong link in this layer",
    searching: "searching all rows",
    linkShown: "link {0} of {1}: {2} to {3} {4}",
    sentences: "Sentences",
    all: "All",
    specials: "Special tokens",
    hide: "Hide {0}",
    goes: "Special tokens, which are hidden, receive {0} of the weight.",
    stays: "Special tokens receive {0} of the weight.",
    never: "The other weights are not renormalized.",
    above: "Show links above",
    half: "half the uniform weight, 1/2n",
    times: "{0} × the uniform weight 1/n",
    below: "{0} of the weight is below this threshold or hidden",
    effectiveKeys: "effective keys",
    queryHeading: "query token",
    queryHeadingCross: "written token",
    keyHeadingCross: "source token",
    keyHeading: "key token",
    itself: "itself",
    made: "generated",
    fold: "… {0} tokens, {1}",
    foldOne: "… {0} token, {1}",
    foldShort: "… {0}, {1}",
    weight: "weight",
    receivedHere: "weight received from these rows",
    received: "attention received",
    receivedShort: "received",
    oneBar: "weight per head",
    headsOf: "The {0} heads of layer {1}", headOf: "The head of layer {1}",
    keysNote: "Effective keys: e to the entropy of a row (its perplexity), mean over the rows. " +
        "Distance: tokens between query and key.",
    rowOf: "{0} in layer {1}, all weights",
    columnOf: "{0} in layer {1}, weight from each query",
    pair: "Weight from {0} to {1} in every head, in hundredths",
    matrixMax: "As a matrix, the largest weight of {0}",
    matrixOne: "As a matrix, {0}",
    alignMean: "mean of heads {0}",
    heads: "heads {0}",
    head: "head {0}",
    pooled: "{0} × {1} cells, each the largest of {2} × {3} weights",
    more: "and {0} more",
    moreAbove: "{0} more above, {1}",
    moreBelow: "{0} more below, {1}",
    strongest: "the {0} strongest of {1} links shown",
    sum: "sum",
    noMatch: "no token contains “{0}”",
    copied: "copied {0} rows",
    notCopied: "the browser refused to copy",
    saved: "saved {0}",
    save: "Save picture",
    printedWidth: "Printed width",
    asShown: "as shown",
    oneColumn: "column, 84 mm",
    wholePage: "page, 174 mm",
    plainPicture: "without title and legend",
    animated: "Animated SVG",
    onView: "Values shown, largest first",
    everywhere: "Everywhere",
    noPicture: "This view has no picture to save.",
    find: "Find a token",
    close: "Close",
    max: "maximum",
    mean: "mean",
    tip: "{0} {1}: {2}; measured on {3} rows, threshold {4}"
};
/**
 * Adds the texts of a view. No name may occur twice.
 * @param {Record<string, string>} texts
 */
export function addTexts(texts) {
    Object.assign(TEXT, texts);
}
/**
 * Returns the text with this name, in which {0}, {1}, ... are replaced by the arguments.
 * @param {string} key
 * @param {any[]} args
 * @returns {string}
 */
export function say(key, ...args) {
    return TEXT[key].replace(/\{(\d)\}/g, (_, i) => args[i]);
}

// Formats 12345 as "12,345".
export const count = n => String(n).replace(/\B(?=(\d{3})+$)/g, ",");
// The number of decimals of a weight that the page knows. A page of a short text stores floats and knows all of them.
let knownDigits = 9;
let weightError = 0;
/** The error of the weights that the page stores. */
export const errorOfWeights = () => weightError;
/**
 * Sets the error of the weights that the page stores.
 * @param {number} error
 */
export function setWeightError(error) {
    weightError = error;
    knownDigits = error > 0 ? max(1, min(9, floor(-Math.log10(error) - 1e-9))) : 9;
}
/**
 * Formats a weight, ".64", as view_weight() in C does. Decimals within the error of the page are left out.
 * @param {number} w
 * @param {number} digits the largest number of decimals
 */
export function weight(w, digits = 2) {
    return w === w ? w.toFixed(min(digits, knownDigits)).replace(/^0\./, ".") : "!";
}
/** Formats a number with a sign, as view_signed() in C does. */
export function signed(x, digits = 2) {
    return x === x ? x.toFixed(digits).replace(/^-(0\.?0*)$/, "$1").replace("-", "−") : "!";
}
/**
 * Formats a number of which the page knows only that it is at most `error` away: leaves out the decimals that this may
 * change. If it may change even the integer, the text begins with ≈.
 * @param {number} x
 * @param {number} error
 * @param {number} digits the largest number of decimals
 * @param {(x: number, digits: number) => string} format
 */
export function certain(x, error, digits = 2, format = signed) {
    for (let d = digits; d >= 0; d--)
        if (format(x - error, d) === format(x + error, d)) return format(x, d);
    return x === x ? `≈${format(x, 0)}` : "!";
}
export const share = w => round(100 * w) + "%";
// Writes a weight in hundredths, as the terminal does: a weight that rounds to 1.00 is "100" or, in a cell that is
// too narrow for three digits at 11 pixels, "1."; NaN is "!".
const THREE_DIGITS = 22;
export function hundredths(w, wide = THREE_DIGITS) {
    const n = round(100 * w);
    return w !== w ? "!" : n >= 100 && wide < THREE_DIGITS ? "1." : String(n);
}
export const NUMBERS = [
    "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen",
    "fourteen", "fifteen", "sixteen"
];

/**
 * Names the tokens of a text: a word that occurs more than once carries its place in the text as a subscript: flies₂.
 * token_names.c does the same. Raw tokens are named in the same way, each by its own spelling.
 * @param {Token[]} tokens
 * @param {(i: number) => number} placeOf index of token i in the text
 */
export function nameTokens(tokens, placeOf) {
    const place = i => [...`${placeOf(i)}`].map(d => String.fromCharCode(0x2080 + +d)).join("");
    for (const [from, to] of [["text", "named"], ["raw", "rawNamed"]]) {
        const times = new Map();
        for (const t of tokens) if (!t.special) times.set(t[from], (times.get(t[from]) ?? 0) + 1);
        tokens.forEach((t, i) => { t[to] = t[from] + (!t.special && times.get(t[from]) > 1 ? place(i) : ""); });
    }
    return tokens;
}
const RTL = "[\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefc\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}]+";
const RTL_WORDS = new RegExp(`${RTL}(?: +${RTL})*[₀-₉]*`, "gu");
/**
 * Isolates right-to-left words, with their places, within a text that is read from left to right. Otherwise the number
 * after a Hebrew word would be on the other side of it, next to another word. canvas_svg.c does the same.
 * @param {string} text
 */
export const isolated = text => text.replace(RTL_WORDS, "\u2068$&\u2069");
/** The end of a name that no cut takes: its place and the quote after it, "₂”", "₂", or "". */
export const placeMark = name => /[₀-₉]*”?$/.exec(name)[0];
/** Cuts a name to at most `most` letters. A repeated word keeps its place: “internat…₁₂”. */
export function shortened(name, most) {
    const letters = [...name], place = placeMark(name);
    return letters.length <= most ? name : letters.slice(0, max(1, most - 1 - place.length)).join("") + "…" + place;
}
/** The name without its place, for a sentence that gives the place in words. */
export const quotedWord = t => t.special ? t.text : `“${t.text}”`;
export const quoted = t => t.special ? t.text : `“${t.named}”`;

// ---- the pieces of a sentence --------------------------------------------------------------------------
// A piece is plain text, or { b: bold text }.
/** @param {Piece[]} pieces */
export const plain = pieces => pieces.map(p => typeof p === "string" ? p : p.b).join("");
// Splits a text such as "the *next* word" into pieces.
/** @returns {Piece[]} */
export function starred(text) {
    return text.split("*").map((t, i) => i % 2 ? { b: t } : t).filter(t => t !== "");
}

export const capital = text => text[0].toUpperCase() + text.slice(1);

export const escaped = text =>
    text.replace(/[<>&"]/g, c => `&#${c.charCodeAt(0)};`).replace(/[\x00-\x08\x0b-\x1f]/g, "\ufffd");
export const stackTitle = name => TEXT.stackNames[name] ?? name;
