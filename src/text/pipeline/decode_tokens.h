// SPDX-License-Identifier: MIT
// decode_tokens.h: declares the steps that turn tokens back into text, for texts and for streams.
#ifndef QKV_TEXT_DECODE_TOKENS_H
#define QKV_TEXT_DECODE_TOKENS_H

#include "text/pipeline/search.h"
#include "text/regex/regex.h"
#include "text/text.h"

// A step of a decoder.  The text of each token is an item.  A step receives items in parts, and
// passes text to the next step as soon as no later input can change it.
struct qkv_decoding;
struct qkv_decode_step {
    // Receives text[n], an item or a part of an item; `ends` is true for its last part.  Returns
    // false if memory is exhausted or the text is too long.
    bool (*put)(struct qkv_decoding *d, int64_t step, const char *text, int64_t n, bool ends);
    bool (*end)(struct qkv_decoding *d, int64_t step); // no item follows; NULL: nothing is pending
    bool whole;                                        // put receives each item in one part
    // Texts of the decoder: `from` is the prefix of wordpiece, the pattern of replace, the
    // character of strip and metaspace, the suffix of bpe, the padding of ctc; `to` is the content
    // of replace, the delimiter of ctc.  Of pieces they are the mark and the unknown surface.
    char *from, *to;
    int64_t from_bytes, to_bytes;
    struct qkv_search search; // for `from`, if replace uses it
    bool cleanup, prefixed;
    bool bytes;                       // pieces: there are byte pieces
    int64_t start, stop;              // strip; pieces: marks at the start of a text are removed
    struct qkv_expression expression; // replace; empty: `from` is the pattern
};
struct qkv_text_decoder {
    struct qkv_decode_step *steps;
    int64_t count, capacity;
};
struct qkv_decode_state {                        // of one step
    struct qkv_text_buffer item;                 // received parts of an incomplete item
    struct qkv_text_buffer pending, work, other; // for use by the step
    int64_t matched;    // replace: the last bytes received are the first bytes of `from`
    int64_t passed;     // bytes received
    int64_t items;      // completed items
    int64_t cut, tail;  // strip: characters removed, held back
    bool begun, inside; // an item was received; strip: after its start
};
struct qkv_decoding {
    const qkv_tokenizer *t;
    struct qkv_decode_state *states; // of each step
    struct qkv_text_buffer out;
    int64_t fed;              // bytes of all tokens
    struct qkv_effort effort; // budget of regular expressions
    bool skip_special, any;
    bool raw; // one token as it adds to a text: nothing depends on other tokens, bytes pass as such
};
// Passes a part of an item to step `step`; what leaves the last step is appended to d->out.
bool qkv_decode_feed(struct qkv_decoding *d, int64_t step, const char *text, int64_t n, bool ends);
bool qkv_decode_add(qkv_tokenizer *t, const struct qkv_json_at *at, struct qkv_decode_step step,
                    const char *from, const char *to);
// Returns the byte that a text such as "<0x41>" spells, or -1 for any other text.
int qkv_spelled_byte(const char *text, int64_t n);
void qkv_text_decoder_free(struct qkv_text_decoder *d);
#endif
