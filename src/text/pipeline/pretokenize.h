// SPDX-License-Identifier: MIT
// pretokenize.h: declares pre-tokenizers: masks over neighboring characters, and steps that cut or
// rewrite words.
#ifndef QKV_TEXT_PRETOKENIZE_H
#define QKV_TEXT_PRETOKENIZE_H

#include "text/regex/regex.h"
#include "text/text.h"

// ---- pretokenize_masks.c: cuts that depend on two neighboring characters only -------------------
struct qkv_word_masks { // bits of qkv_class
    unsigned used;      // union of all masks
    unsigned drop;      // such a character ends a word and belongs to none
    unsigned alone;     // is a word by itself
    unsigned change;    // a word ends where a run of these begins or ends
    unsigned after;     // a word ends after it
    unsigned before;    // a word ends before it
    uint8_t ascii[128]; // classes of the ASCII characters
};
void qkv_word_masks_finish(struct qkv_word_masks *m); // fills used and ascii
// Returns true if a word ends between characters of the classes left and right.
static inline bool qkv_word_masks_cut(const struct qkv_word_masks *m, unsigned left, unsigned right)
{
    return ((left | right) & m->alone) | ((left ^ right) & m->change) | (left & m->after) |
           (right & m->before);
}

// ---- pretokenize_steps.c: pre-tokenizers with patterns, texts or rewriting ----------------------
// A piece of text that is split into words: its bytes[length]; for each byte, the byte offsets of
// its character in the original text; and the words in order, none of them empty.
struct qkv_words {
    uint8_t *bytes;
    int64_t *begin, *end;
    int64_t length, capacity;
    struct qkv_range {
        int64_t begin, end;
    } * cuts;
    int64_t count, cut_capacity;
    struct qkv_effort *effort; // budget of regular expressions
};
bool qkv_words_put(struct qkv_words *w, const uint8_t *bytes, int n, int64_t begin, int64_t end);
bool qkv_words_cut(struct qkv_words *w, int64_t begin,
                   int64_t end); // adds a word unless it is empty
void qkv_words_free(struct qkv_words *w);

enum qkv_behavior { // how matches become words
    QKV_REMOVED,
    QKV_ISOLATED,
    QKV_MERGED_WITH_PREVIOUS,
    QKV_MERGED_WITH_NEXT,
    QKV_CONTIGUOUS
};
struct qkv_pre_tokenizer_step {
    // Splits the words of *in and adds the resulting words to *out, which is empty.  A step that
    // rewrites the text sets *rewrote and writes the new bytes to *out too.  Returns false if
    // memory is exhausted.
    bool (*run)(const struct qkv_pre_tokenizer_step *s, struct qkv_words *out,
                const struct qkv_words *in, bool *rewrote);
    enum qkv_pre_tokenizer_kind {
        QKV_PRE_TOKENIZER_MASKS,
        QKV_PRE_TOKENIZER_BYTES,
        QKV_PRE_TOKENIZER_METASPACE,
        QKV_PRE_TOKENIZER_SPLIT,
        QKV_PRE_TOKENIZER_MARKS
    } kind;
    struct qkv_word_masks masks;
    struct qkv_expression expression; // Split; empty: `text` is the pattern
    enum qkv_behavior behavior;
    bool invert, prefix, prefix_first, cuts, mapped;
    int64_t chars; // FixedLength: characters of a word
    char *text;    // Split: the pattern; Metaspace: the character that replaces a space
    size_t bytes;
};
struct qkv_pre_tokenizer {
    struct qkv_pre_tokenizer_step *at; // none: t->masks does all the splitting
    int64_t count, capacity;
    bool cuttable;         // no word extends across a space that follows an ASCII letter or digit
    qkv_pattern_fn *plain; // words are substrings of the text: the matches of this scanner
    bool plain_gaps;       // and the text between matches
};
// Appends a step.  Masks that were read before the first step become a step of their own.
bool qkv_pre_tokenizer_add(qkv_tokenizer *t, const struct qkv_json_at *at,
                           struct qkv_pre_tokenizer_step step, const char *text);
// Runs all steps over the words of *w; *spare is work memory.
bool qkv_pre_tokenizer_run(const struct qkv_pre_tokenizer *p, struct qkv_words *w,
                           struct qkv_words *spare);
void qkv_pre_tokenizer_finish(qkv_tokenizer *t); // after the last step is added
void qkv_pre_tokenizer_free(struct qkv_pre_tokenizer *p);
// Returns the masks to which the component being read is added: t->masks, or, if steps precede it,
// the masks of a new step.  Returns NULL if at->err contains an error.
struct qkv_word_masks *qkv_pre_tokenizer_masks(qkv_tokenizer *t, const struct qkv_json_at *at);
bool qkv_behavior_read(const struct qkv_json_at *at, enum qkv_behavior *out); // "behavior"
// Reads the members of a component "Metaspace".
bool qkv_prepend_scheme_read(const struct qkv_json_at *at, const char **mark, bool *prefix,
                             bool *first, bool *split);

// ---- pretokenize_spaces.c: white space as in SentencePiece -------------------------------------
// The treatment of white space, from which steps for normalizer and pre-tokenizer are made; it is
// the context of struct qkv_assembly.
struct qkv_spaces {
    const char *mark; // replaces a space
    bool single;      // runs of spaces become one space; leading and trailing ones are removed
    bool prefix;      // adds a leading mark
    enum qkv_spaces_cut {
        QKV_SPACES_TOGETHER, // tokens may extend across a mark: a text is one word
        QKV_SPACES_RUNS,     // a word begins with all the marks of a run
        QKV_SPACES_EACH      // a word begins with one mark
    } cut;
};
bool qkv_spaces_add(qkv_tokenizer *t, const struct qkv_json_at *at, const struct qkv_spaces *s);
// Returns the finest cut at spaces that no token of the vocabulary extends across.  If tokens have
// scores, tokens with score -INFINITY do not count.
enum qkv_spaces_cut qkv_spaces_cut_of(const qkv_tokenizer *t, const char *mark);
#endif
