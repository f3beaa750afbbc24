// SPDX-License-Identifier: MIT
// types.js: declares the types of the page's data for the checker (tools/typecheck.sh) and for readers.
// docs/formats.md defines the fields of the file; T rows, S keys, L layers, H heads.

/**
 * A token of a text.
 * @typedef {object} Token
 * @property {string} text as shown
 * @property {number} part 0, or 1 in the second sentence of a pair
 * @property {boolean} special
 * @property {string} raw as the tokenizer spells it
 * @property {string} named the text and, if it occurs more than once, the place as a subscript
 * @property {string} rawNamed the same of the raw token
 */
/**
 * A row and a key, and the weight between them.
 * @typedef {{ row: number, key: number, weight: number }} Pair
 */
/**
 * A kind of head (head_kind.def).
 * @typedef {{ name: string, glyph: string, threshold: number, target: string, rule: string }} HeadKind
 */
/**
 * Statistics of a head, measured in C.
 * @typedef {object} HeadStats
 * @property {number} kind row of page.about.kindTable; -1: unknown
 * @property {number} strength
 * @property {number} word the key that a vertical head attends to; -1: another kind of head
 * @property {number} rows number of rows that the strength was measured on
 * @property {number} keys effective keys, mean over rows
 * @property {number} distance mean number of tokens between query and key
 * @property {number} focus 0 diffuse to 1 focused
 * @property {number[]} shares
 * @property {?Pair} best the largest weight between different tokens
 * @property {?Pair} same the largest weight between equal words
 */
/**
 * An array of numbers from the file, before decoding.
 * @typedef {{ kind: string, shape: number[], data: Uint8Array }} PackedArray
 */
/**
 * Rows of weights of a stack: Weights of its tokens (unpack.js), or Words (aggregate.js), which has fewer methods.
 * @typedef {object} StackWeights
 * @property {(layer: number, head: number, i: number) => boolean} has true: the row is already computed
 * @property {(layer: number, head: number, i: number) => Float32Array} row
 * @property {(layer: number, head: number, i: number, j: number) => number} pair
 * @property {(layer: number, head: number, i: number) => number} rest the weight of a row on keys that are not stored
 * @property {(layer: number, head: number, i: number, n?: number) => [number, number][]} top largest first
 * @property {((i: number, rowOf: (token: number) => Float32Array) => Float32Array)=} merge only in Words
 * @property {((layer: number, head: number) => ?Float32Array)=} entropy only in Weights, like all members below
 * @property {((layer: number) => boolean)=} whole
 * @property {((layer: number, i: number) => [number, number])=} span
 * @property {((layer: number, head: number, i: number) => [number, number][])=} slots
 * @property {((layer: number, head: number, side: number, kind: string) => ?Float32Array)=} pyramid
 * @property {((layer: number, head: number) => number)=} slope
 * @property {((layer: number, head: number, i: number, j: number) => any)=} score
 * @property {((layer: number, head: number, i: number) => ?Float32Array)=} q
 * @property {((layer: number, head: number, j: number) => ?Float32Array)=} k
 * @property {((layer: number, head: number, j: number) => ?Float32Array)=} v
 * @property {((layer: number, i: number) => ?Float32Array)=} x
 * @property {((layer: number, name: string) => ?Float32Array)=} numbers of tokens by layers
 * @property {((layer: number, name: string) => number)=} error the largest error of an element of q, k, v or x
 */
/**
 * A link that is worth a look.
 * @typedef {{ layer: number, head: number, row: number, key: number, weight: number }} Story
 */
/**
 * A stack of attention: encoder, decoder, cross, or the only one. Rows are tokens, columns are keys; in self-attention
 * keys === tokens.
 * @typedef {object} Stack
 * @property {string} name "attention", "encoder", "decoder" or "cross"
 * @property {Token[]} tokens
 * @property {Token[]} keys
 * @property {number[]=} rowPlaces start and end of each token in the source
 * @property {number[]=} keyPlaces
 * @property {number} given index of the first token that the model generated; 0: it generated none
 * @property {number} givenKeys
 * @property {number} T
 * @property {number} S
 * @property {number} L
 * @property {number} H
 * @property {boolean} causal
 * @property {number | number[]} left how many tokens before a row it may attend to; -1: no limit
 * @property {number | number[]} right how many tokens after a row it may attend to; -1: no limit
 * @property {HeadStats[][]} stats [layer][head]
 * @property {?{ unit: string, values: number[][] }} effects of ablating each head, [layer][head]
 * @property {{ layer: number, heads: number[], token: number, special: boolean }} start
 * @property {Story[]} stories links that are worth a look
 * @property {?StackWeights} weights
 * @property {any} about the description of the stack in the file
 * @property {?Stack=} merged the same stack with words for tokens; null: no word has two tokens
 * @property {any=} groups
 * @property {any=} sections
 */
/**
 * The state that all views share; the address of the page holds it.
 * @typedef {object} State
 * @property {string} view
 * @property {number} stack
 * @property {number} layer
 * @property {number[]} selected the heads that are drawn
 * @property {number} row the marked row; -1: none
 * @property {number} key the marked key; -1: none
 * @property {boolean} special special tokens are shown
 * @property {string} filter "all", or the parts (A, B) of row and key of a text pair: "AA", "AB", "BA", "BB"
 * @property {number} factor the threshold for links, as a multiple of the uniform weight
 * @property {boolean} raw tokens are shown as the tokenizer spells them
 * @property {boolean} table the numbers in view are shown as a table
 * @property {boolean} mean the mean of the selected heads is shown in their place
 * @property {boolean} log darkness is logarithmic
 * @property {boolean} rollout the rollout of the layers is shown in place of heads
 * @property {boolean} words words are shown in place of tokens
 */
/**
 * A view; the head of frame.js lists its members.
 * @typedef {object} View
 * @property {string} key
 * @property {string} id
 * @property {string} name
 * @property {() => true | string} can
 * @property {boolean=} rare
 * @property {boolean=} words
 * @property {() => { left?: Node[], mid?: Node[], right?: Node[] }} build
 * @property {(() => void)=} show
 * @property {(() => void)=} hide
 * @property {(() => void)=} stack
 * @property {(() => void)=} layout
 * @property {(what: string) => void} draw
 * @property {((whole: boolean) => void)=} panels
 * @property {() => Answer} answer
 * @property {HTMLElement | SVGElement=} group
 * @property {(() => ?string)=} spoken
 * @property {((most?: number) => (string | number)[][])=} table
 * @property {((n: number) => string)=} rest
 * @property {(() => string)=} svg
 * @property {(() => ?string)=} animated
 * @property {((i: number) => void)=} reveal
 * @property {(() => void)=} finish
 * @property {(() => void)=} drop
 * @property {((p: URLSearchParams) => void)=} write
 * @property {((p: URLSearchParams) => void)=} read
 * @property {KeyRow[]=} keys
 * @property {HTMLElement[]=} boxes its nodes once built: left, middle, right
 * @property {(() => any)=} points
 */
/**
 * @typedef {KeyboardEvent & { target: Element }} KeyEvent
 */
/**
 * A key of the keyboard: its name as shown; what it does, in words; its letter, or a test of the event; its action; and
 * whether the footer shows it: 1 always, a function if it returns true.
 * @typedef {[shown: string, words: string, when: string | ((e: KeyEvent) => any), act: (e: KeyEvent) => any,
 *     footer?: number | (() => any)]} KeyRow
 */
/**
 * A piece of a sentence: plain text, or bold.
 * @typedef {string | { b: string }} Piece
 */
/**
 * The title of a view, which is a question, and the sentence that answers it.
 * @typedef {{ question: string, pieces: Piece[] }} Answer
 */
/**
 * The query and the key that a view of one pair shows.
 * @typedef {{ layer: number, head: number, i: number, j: number }} Focus i: query, j: key
 */
/**
 * The scores of one query with every key.
 * @typedef {object} Scores
 * @property {number} E dimensions of q and k
 * @property {Float32Array} q
 * @property {number} S keys
 * @property {Float64Array} dot the product q.k for each key
 * @property {Float64Array} error the largest error of each product
 * @property {number=} most the largest of these errors
 * @property {Record<string, number>=} off the largest error of an element of "q", "k", "v"
 * @property {Float64Array} bias
 * @property {Uint8Array} masked 1: the query cannot attend to the key
 * @property {number} seen number of keys that are not masked
 * @property {boolean} biased true: some bias is not 0
 * @property {number=} own the number by which the model divides q.k
 * @property {number=} cap soft cap; 0: none
 * @property {boolean=} broken true: a weight or a score is not a number
 * @property {Float32Array=} row the weights of the query that the page stores
 * @property {((j: number) => Float32Array)=} k
 * @property {((j: number) => ?Float32Array)=} v
 * @property {((j: number, by: number) => number)=} score of key j, divided by `by`
 */
/**
 * A line in a list of keys: one key, or n folded keys, whose weights have the sum w.
 * @typedef {{ j?: number, from?: number, n?: number, w?: number, masked?: boolean }} KeyLine
 */
/**
 * The row and the key under the pointer (`pointed`), or the marked ones; -1: there is none.
 * @typedef {{ row: number, key: number, pointed?: boolean }} Target
 */
/**
 * Positions of the head view, in pixels.
 * @typedef {object} Geometry
 * @property {number} w width
 * @property {number} h height in view
 * @property {number=} total height of all rows
 * @property {number} row height of a row
 * @property {number[]} rows the tokens that are shown on the left
 * @property {number[]} keys the tokens that are shown on the right
 * @property {Fold[]} folds the folded keys between the shown ones
 * @property {?Float32Array} y the middle of each row; -1: not shown
 * @property {?Float32Array} z the middle of each key; -1: not shown
 * @property {number} x0 where links begin
 * @property {number} x1 where links end
 * @property {number=} q right edge of the query tokens
 * @property {number=} k left edge of the key tokens
 * @property {number} bars left edge of the bars; 0: none
 * @property {number} sums right edge of the effective keys; 0: none
 */
/**
 * Keys of a long text that are folded into one line.
 * @typedef {{ from: number, to: number, n: number, sum: number, y: number, node: ?HTMLElement }} Fold
 */
/**
 * The page: its data, the stack in view, and the elements that several scripts use.
 * @typedef {object} Page
 * @property {any} about the description in the file (docs/formats.md)
 * @property {any[]} all the weights of every stack in the file, including other models and frames of training
 * @property {Stack[]} stacks
 * @property {number} version the number of answers of the server that have replaced the data (parts/live.js)
 * @property {(() => void)=} drawTools
 * @property {(() => void)=} drawHints
 * @property {?HTMLElement} tools the toolbar (parts/tools.js)
 * @property {?HTMLElement} layer the number of the layer, on small screens
 * @property {?HTMLElement} note a text that is shown for a few seconds
 * @property {any} noting
 * @property {(() => void)=} drawStories draws the offered links (parts/stories.js)
 * @property {Stack} stack the stack that is shown
 * @property {Token[]} tokens the rows of the stack; words if they are shown in place of tokens
 * @property {Token[]} keys
 * @property {number} T
 * @property {number} S
 * @property {number} L
 * @property {number} H
 * @property {boolean} causal
 * @property {number | number[]} left
 * @property {number | number[]} right
 * @property {HeadStats[][]} stats
 * @property {?{ unit: string, values: number[][], changes?: any }} effects
 * @property {number} given
 * @property {number} givenKeys
 * @property {number} rowPadding number of padding tokens, which are the last rows
 * @property {number} keyPadding
 * @property {StackWeights} weights
 * @property {boolean} words words are shown in place of tokens
 * @property {boolean} pair the text is a pair of sentences
 * @property {boolean} allSpecial true: all rows, or all keys, are special; they are then always shown
 * @property {string[]} specials texts of the special tokens
 * @property {number[]} special the special keys
 * @property {number[]} specialRows
 * @property {number[]} visible the rows that are shown
 * @property {number[]} visibleKeys the keys that are shown
 * @property {number[]} hiddenKeys the keys that are hidden
 * @property {View} view the view that is open
 * @property {string} first the name of the view to open if the address names none
 * @property {string} address the address as it was last written
 * @property {?number[]} before the heads that were selected before a single one was
 * @property {?string} sees the state for which the panels were drawn
 * @property {number} found the token that the finder found last; -1: none
 * @property {string} font
 * @property {?string} made the theme with which the file was made
 * @property {?string} chosen the theme that the reader chose
 * @property {HTMLButtonElement} theme
 * @property {HTMLButtonElement[]} entries the entries of the header
 * @property {HTMLElement} table
 * @property {HTMLElement} live the element that screen readers read
 * @property {HTMLElement} finder
 * @property {HTMLElement} keyLists
 * @property {HTMLElement} terms
 * @property {HTMLDialogElement} help
 * @property {HTMLDialogElement} saver
 * @property {HTMLElement} animated the button that saves an animated picture
 * @property {{ node: HTMLElement, show: () => void }} widths the printed widths
 * @property {string | (() => string)} speech the next text for `live`
 * @property {number} speaking a timer; 0: none
 * @property {string} said the sentence that was written last
 * @property {string} question the question that was written last
 * @property {boolean} whole true: more than the target changed since the panels were drawn
 * @property {number} panels an animation frame; 0: none
 * @property {number} later a timer
 * @property {{ what: string, picture: number, panels: number, links: number }} timing of the last frame, in ms
 * @property {number} shownAt when the first picture was drawn, in ms after the navigation
 * @property {Geometry} where positions of the head view, for tests
 */
