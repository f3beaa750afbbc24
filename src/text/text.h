// SPDX-License-Identifier: MIT
// text.h: the door of room text: tokenizer.json read, text to tokens and back.
//
// The way of a text:  added tokens cut out (added.c) -> each piece normalised (normalize.c),
// character by character with the bytes it came from -> cut into words (split.c, steps.c) -> each
// word to tokens by the model (bpe.c, unigram.c, wordpiece.c, wordlevel.c), remembered in
// word_cache.c -> truncated, put into the template, padded (template.c), places trimmed (trim.c).
// encode.c drives it. Semantics are those of Hugging Face tokenizers 0.23 (same ids, same places).
//
// Training (trainer.h) stands on the same scanners, and writes files that this room reads.
#ifndef QKV_ROOM_TEXT_H
#define QKV_ROOM_TEXT_H

#include <qkv/text.h>
#include "base/base.h"
#include "text/regex.h"

enum {
    QKV_TOKEN_IDS = 1 << 24,       // ids are below
    QKV_TOKENIZER_BYTES = 1 << 28, // of a tokenizer.json
    QKV_WORD_CHARS = 10000,        // most a file may ask of max_input_chars_per_word
    QKV_ADDED_BYTES = 4096         // most of an added token's text
};

// ---- trie.c: texts to numbers, walked byte by byte ---------------------------------------------
// Nodes are numbered from 1 (the root); an edge is a slot of one open hash table,
// key = node << 8 | byte.
struct qkv_trie {
    struct qkv_trie_slot {
        uint32_t key, next;
    } * slots;
    int32_t *value; // [nodes] number of the text that ends here, -1: none
    int64_t nodes, value_capacity;
    int64_t edges, texts;
    int shift;          // 32 - log2(slots)
    uint8_t first[256]; // a text starts with this byte
};
enum { QKV_TRIE_ROOT = 1 };
bool qkv_trie_init(struct qkv_trie *t, size_t texts); // about so many to come; false: no memory
void qkv_trie_free(struct qkv_trie *t);
// Adds text[bytes] unless it is there; *out: the number it
// has now.  false: no memory or over 2^24 nodes.
bool qkv_trie_add(struct qkv_trie *t, const char *text, size_t bytes, int32_t value, int32_t *out);
int32_t qkv_trie_find(const struct qkv_trie *t, const char *text, size_t bytes); // -1: not there

// The node behind `byte`, 0: none.
static inline uint32_t qkv_trie_step(const struct qkv_trie *t, uint32_t node, uint8_t byte)
{
    const uint32_t key = node << 8 | byte, mask = UINT32_MAX >> t->shift;
    uint32_t i = key * 0x9E3779B1u >> t->shift;
    while (t->slots[i].key != key) {
        if (!t->slots[i].key) return 0;
        i = (i + 1) & mask;
    }
    return t->slots[i].next;
}

// ---- unicode.c: UTF-8 and the properties the components ask for --------------------------------
// Bytes of the character at p[0..n), n >= 1.  Invalid: *code is U+FFFD, the result is negative:
// -bytes of the longest cut-off sequence, as the Unicode standard advises (3.9, "maximal subpart").
int qkv_utf8_read(const uint8_t *p, size_t n, uint32_t *code);
int qkv_utf8_write(uint8_t *p, uint32_t code); // bytes, 1..4; code is a scalar value

enum qkv_class {
    QKV_CLASS_SPACE = 1 << 0,  // White_Space
    QKV_CLASS_PUNCT = 1 << 1,  // P* or ASCII punctuation
    QKV_CLASS_NUMBER = 1 << 2, // N*
    QKV_CLASS_WORD = 1 << 3    // \w: Alphabetic, M*, Nd, Pc, Join_Control
};
unsigned qkv_unicode_class(uint32_t code, unsigned wanted); // those of `wanted` that code has
bool qkv_unicode_other(uint32_t code);                      // Cc, Cf, Co
bool qkv_unicode_mark(uint32_t code, bool nonspacing);      // Mn, or any M*
int qkv_unicode_lower(uint32_t out[3], uint32_t code);
// Full decomposition, not yet in canonical order; how many characters.
int qkv_unicode_decompose(uint32_t out[18], uint32_t code, bool compatible);
int qkv_unicode_ccc(uint32_t code);                   // canonical combining class
uint32_t qkv_unicode_compose(uint32_t a, uint32_t b); // 0: they do not
bool qkv_unicode_apart(uint32_t code); // a letter that joins or moves past nothing before it

// ---- buffer.c: text that grows, and JSON written into it ---------------------------------------
// bytes is terminated once something was put; failed: no memory, what comes later is left out.
struct qkv_text_buffer {
    char *bytes;
    int64_t count, capacity;
    bool failed;
};
void qkv_text_put(struct qkv_text_buffer *b, const char *text, size_t bytes);
void qkv_text_say(struct qkv_text_buffer *b, const char *text);
void qkv_text_number(struct qkv_text_buffer *b, int64_t n);
// Few digits, so that every reader makes the same number of them; a point whatever the locale
// writes.
void qkv_text_real(struct qkv_text_buffer *b, double x);
void qkv_text_quoted(struct qkv_text_buffer *b, const char *text, size_t bytes);

// ---- normalize.c -------------------------------------------------------------------------------
// A character of a normalised text and the bytes of the original it stands for.
struct qkv_char {
    int64_t begin;
    uint32_t code, size; // bytes begin .. begin + size
};
struct qkv_chars {
    struct qkv_char *at;
    int64_t count, capacity;
    int64_t limit;             // most characters, 0: none
    struct qkv_effort *effort; // of regular expressions; NULL: a new one each time
    bool begins, ends; // the text begins here; the stretch between two added tokens ends here
};
// false: no memory, or at the limit.
bool qkv_chars_add(struct qkv_chars *c, uint32_t code, int64_t begin, uint32_t size);

// One step of normalisation, out of place: out is empty before.  false: no memory.
struct qkv_step {
    bool (*run)(const struct qkv_step *s, struct qkv_chars *out, const struct qkv_chars *in);
    bool whole;       // needs the whole piece, not only a stretch between two starters
    bool apart;       // ... but not what is across a space behind an ASCII letter or digit
    bool composes;    // a character may join with the one before
    bool compatible;  // decomposition
    bool left, right; // strip; spaces.c: more than one space goes, a mark before the text
    struct qkv_charsmap *map;
    uint32_t *from, *to;
    int64_t from_count, to_count;
    struct qkv_expression expression; // Replace: none: `from`
};
struct qkv_normalizer {
    struct qkv_step *steps;
    int64_t count, capacity;
    bool whole, composes; // of any step
    bool uncut;           // of any: whole and not apart
    uint8_t ascii[128];   // what an ASCII character becomes; QKV_ASCII_* below
    // What other characters become, remembered as they come: QKV_MEMO slots, NULL when a character
    // cannot be taken alone.  A slot is one word, so threads that share a tokenizer need no lock.
    _Atomic uint64_t *memo;
};
enum { QKV_ASCII_GONE = 0x80, QKV_ASCII_SLOW = 0x81, QKV_MEMO_BITS = 13 };
struct qkv_tokenizer;
// Runs all steps over a, b is room for the intermediate ones; the result is in *a.  false: no
// memory, or more than QKV_GROWTH times the text came out (steps
// that replace could double it again and again).
enum { QKV_GROWTH = 64, QKV_GROWTH_MORE = 65536 };
bool qkv_normalize(const struct qkv_normalizer *n, struct qkv_chars *a, struct qkv_chars *b);
bool qkv_normalizer_finish(struct qkv_normalizer *n); // the ASCII table; false: no memory
// One step more, which owns what it points to also when there is no memory.
bool qkv_normalizer_add(qkv_tokenizer *t, const struct qkv_json_at *at, struct qkv_step step);
// Characters of out that carry their change in `begin` get the places they have for it in `in`.
void qkv_chars_places(struct qkv_chars *out, const struct qkv_chars *in);
// A text of the file as characters; *to is the caller's.
bool qkv_text_characters(const struct qkv_json_at *at, const char *text, uint32_t **to,
                         int64_t *count);
void qkv_normalizer_free(struct qkv_normalizer *n);

// ---- charsmap.c: the table of normalisation that SentencePiece compiles into a model ------------
struct qkv_charsmap;
void qkv_charsmap_free(struct qkv_charsmap *m);

// ---- split.c: words.  These pre-tokenizers look at neighbours only, so they add up to masks ----
struct qkv_split {
    unsigned used;      // classes any mask asks for
    unsigned drop;      // such a character ends a word and is in none
    unsigned alone;     // is a word by itself
    unsigned change;    // a word ends where one of these begins or ends
    unsigned after;     // a word ends behind it
    unsigned before;    // a word ends before it
    uint8_t ascii[128]; // class of ASCII characters
};
void qkv_split_finish(struct qkv_split *s);
static inline bool qkv_split_between(const struct qkv_split *s, unsigned left, unsigned right)
{
    return ((left | right) & s->alone) | ((left ^ right) & s->change) | (left & s->after) |
           (right & s->before);
}

// ---- steps.c: pre-tokenizers that look further, one after the other ----------------------------
// A piece of text cut into words: bytes[length], for each byte the bytes of the original its
// character came from, and the words in order (none is empty).
struct qkv_words {
    uint8_t *bytes;
    int64_t *begin, *end;
    int64_t length, capacity;
    struct qkv_stretch {
        int64_t begin, end;
    } * cuts;
    int64_t count, cut_capacity;
    int64_t base;              // where the piece begins in the original
    bool whole;                // still one word, the piece itself
    struct qkv_effort *effort; // of regular expressions
};
bool qkv_words_put(struct qkv_words *w, const uint8_t *bytes, int n, int64_t begin, int64_t end);
bool qkv_words_cut(struct qkv_words *w, int64_t begin, int64_t end); // empty: nothing is added
void qkv_words_free(struct qkv_words *w);

enum qkv_behavior { // of what matches
    QKV_REMOVED,
    QKV_ISOLATED,
    QKV_MERGED_WITH_PREVIOUS,
    QKV_MERGED_WITH_NEXT,
    QKV_CONTIGUOUS
};
struct qkv_split_step {
    // Cuts, and where it rewrites fills `out` with the bytes (*rewrote; out is empty before); else
    // only the cuts of out.  false: no memory.
    bool (*run)(const struct qkv_split_step *s, struct qkv_words *out, const struct qkv_words *in,
                bool *rewrote);
    enum qkv_step_kind {
        QKV_STEP_MASKS,
        QKV_STEP_BYTES,
        QKV_STEP_META,
        QKV_STEP_SPLIT,
        QKV_STEP_MARKS
    } kind;
    struct qkv_split masks;
    struct qkv_expression expression; // Split: none: its text
    enum qkv_behavior behavior;
    bool invert, prefix, prefix_first, cuts, mapped;
    int64_t chars; // FixedLength: of a word
    char *text;    // Split: what it looks for; Metaspace: what stands for a space
    size_t bytes;
};
struct qkv_steps {
    struct qkv_split_step *at; // none: the masks of qkv_split alone
    int64_t count, capacity;
    bool cuttable;         // words never go across a space behind an ASCII letter or digit
    qkv_pattern_fn *plain; // words are pieces of the text itself: what it matches
    bool plain_gaps;       // and what is between
};
bool qkv_steps_add(qkv_tokenizer *t, const struct qkv_json_at *at, struct qkv_split_step step,
                   const char *text); // behind the others
bool qkv_steps_run(const struct qkv_steps *s, struct qkv_words *w, struct qkv_words *spare);
void qkv_steps_finish(qkv_tokenizer *t); // all are read
void qkv_steps_free(struct qkv_steps *s);
extern const uint16_t qkv_byte_char[256]; // bytes.c: the character that ByteLevel has for a byte
int qkv_char_byte(uint32_t code);         // and back, -1: none

// ---- words and the tokens they become ----------------------------------------------------------
// A word under construction: its UTF-8 and, for each byte, the bytes its character came from.
struct qkv_word {
    uint8_t *bytes;
    int64_t *begin, *end;
    int64_t length, capacity;
    int64_t chars; // may go on when bytes are kept no more: over `limit` characters
    int64_t limit;
    int64_t first, last; // bytes of the original: begin of the first character, end of the last
};
// Tokens of a word and the bytes of it that each stands for.
struct qkv_parts {
    struct qkv_part {
        int64_t begin, end;
        int32_t id;
    } * at;
    int64_t count, capacity;
    void *room; // for the model, kept from word to word
    int64_t room_bytes;
};
bool qkv_parts_room(struct qkv_parts *p, int64_t bytes); // room for the model: false: no memory
bool qkv_parts_grow(struct qkv_parts *p);
static inline bool qkv_parts_add(struct qkv_parts *p, int32_t id, int64_t begin, int64_t end)
{
    if (p->count == p->capacity && !qkv_parts_grow(p)) return false;
    p->at[p->count++] = (struct qkv_part){ begin, end, id };
    return true;
}

// ---- word_cache.c: words seen before, shared by all threads that use a tokenizer ---------------
struct qkv_word_cache; // slots of one word each, written and read without locks
enum { QKV_CACHE_WORD = 24, QKV_CACHE_PARTS = 6 };
struct qkv_word_cache *qkv_word_cache_new(void); // NULL: no memory; qkv_free
bool qkv_word_cache_get(struct qkv_word_cache *c, const uint8_t *word, int64_t length,
                        struct qkv_parts *out); // false: not there, out as it was
void qkv_word_cache_put(struct qkv_word_cache *c, const uint8_t *word, int64_t length,
                        const struct qkv_parts *parts);

// Where tokens go.
struct qkv_sink {
    qkv_encoding *e;
    int32_t type;
    uint8_t which; // 0, 1: text of the pair
};
bool qkv_encoding_room(qkv_encoding *e, int64_t tokens); // false: no memory
static inline bool qkv_sink_add(struct qkv_sink *s, int32_t id, int64_t begin, int64_t end)
{
    qkv_encoding *e = s->e;
    if (e->count == e->capacity && !qkv_encoding_room(e, e->count + 1)) return false;
    const int64_t i = e->count++;
    e->ids[i] = id;
    e->types[i] = s->type;
    e->begin[i] = begin;
    e->end[i] = end;
    e->text[i] = s->which;
    e->attend[i] = 1;
    return true;
}

// A model: a row of tokenizer.def.
struct qkv_text_model {
    const char *name;
    // Reads $.model (vocabulary too); fills t->model.  false: at->err is filled.
    bool (*open)(qkv_tokenizer *t, const struct qkv_json_at *at);
    void (*close)(void *model);
    // Tokens of word[length], length > 0, to out, which is empty before; chars of them, may be more
    // than there are bytes (limit of qkv_word).  false: no memory.
    bool (*word)(const qkv_tokenizer *t, struct qkv_parts *out, const uint8_t *word, int64_t length,
                 int64_t chars);
};
#define QKV_TEXT_MODEL(type, table) extern const struct qkv_text_model qkv_model_##table;
#include "text/tokenizer.def"

// ---- vocab.c: all tokens, by id and by text ----------------------------------------------------
enum { QKV_TOKEN_ADDED = 1, QKV_TOKEN_SPECIAL = 2 };
struct qkv_token {
    uint32_t text; // in pool, terminated; a file has less than 2^32 bytes
    uint32_t bytes;
    int32_t id;
    uint8_t flags;
};
struct qkv_vocab {
    struct qkv_trie trie;     // tokens of the model: text -> id
    struct qkv_token *tokens; // by ascending id after qkv_vocab_finish
    int64_t count, capacity;
    char *pool;
    int64_t pool_count, pool_capacity;
    bool scanned; // the model's tokens are here already
};
// $.model.vocab out of the JSON text data[size], where it is plain; [*begin, *end) is then its
// place with both brackets.  false: it has to be read from the parsed JSON.
bool qkv_vocab_scan(struct qkv_vocab *v, const char *data, size_t size, size_t *begin, size_t *end);
bool qkv_vocab_scan_object(struct qkv_vocab *v, const char *data,
                           size_t size); // it is all there is
// {"text": id, ...} at key `key` of at->object into an empty vocab.
bool qkv_vocab_read(struct qkv_vocab *v, const struct qkv_json_at *at, const char *key);
bool qkv_vocab_add(struct qkv_vocab *v, const char *text, size_t bytes, int32_t id, uint8_t flags);
// Sorts by id; *twice: an id that two texts have, -1: none.
void qkv_vocab_finish(struct qkv_vocab *v, int64_t *twice);
const struct qkv_token *qkv_vocab_token(const struct qkv_vocab *v, int64_t id); // NULL: no such id
void qkv_vocab_free(struct qkv_vocab *v);

// ---- added.c: tokens found in the text before anything else ------------------------------------
struct qkv_added {
    struct qkv_added_token {
        int32_t id;
        bool special, single_word, lstrip, rstrip, normalized;
        int64_t text, cooked; // index in pool: as the file has it; as it is matched and decoded
        uint32_t bytes, cooked_bytes;
    } * tokens;
    int64_t count, capacity;
    char *pool;
    int64_t pool_count, pool_capacity;
    struct qkv_trie names;  // text -> index
    struct qkv_trie raw;    // those matched in the text as it is
    struct qkv_trie cooked; // normalised ones, matched after normalisation
    bool any_raw, any_cooked;
};
bool qkv_added_read(qkv_tokenizer *t, const struct qkv_json_at *root); // after the normaliser
void qkv_added_free(struct qkv_added *a);
// A stretch of a text: token >= 0: this added token; -1: text between.
struct qkv_found {
    int64_t begin, end;
    int32_t token; // index
};
// A walk over n bytes or n normalised characters, stretch by stretch.
struct qkv_added_walk {
    const struct qkv_added *added;
    const struct qkv_trie *trie;
    const uint8_t *bytes; // one of the two
    const struct qkv_char *chars;
    int64_t n, at, search;
    struct qkv_found next; // a token found behind plain text
    bool has_next, no_special;
};
bool qkv_added_next(struct qkv_added_walk *w, struct qkv_found *out); // false: the end

// ---- template.c: specials around texts, truncation, padding ------------------------------------
struct qkv_piece {
    int32_t sequence; // 0 A, 1 B, -1: special
    int32_t type;
    int64_t ids, count; // special: into ids
};
struct qkv_template {
    struct qkv_piece *pieces;
    int64_t count, capacity;
};
struct qkv_post {
    struct qkv_template one, two;
    int32_t *ids;
    int64_t ids_count, ids_capacity;
    bool trims, trims_prefixed; // ByteLevel, Roberta: places without white space (trim.c)
};
struct qkv_limits {
    bool truncates, pads;
    int64_t max_length, stride;
    enum qkv_cut cut;
    bool cut_left, pad_left;
    int64_t pad_length; // 0: batch longest
    int64_t pad_multiple;
    int32_t pad_id, pad_type; // pad_id -1: no padding token
};
bool qkv_limits_read(qkv_tokenizer *t, const struct qkv_json_at *root);
bool qkv_post_default(qkv_tokenizer *t); // no post-processor: texts as they are
bool qkv_post_roberta(qkv_tokenizer *t, const struct qkv_json_at *at);
bool qkv_post_processor_read(qkv_tokenizer *t, const struct qkv_json_at *at);
// Places of tokens [from, from + count) of one text[bytes] without the white space their tokens
// have.
void qkv_trim_places(const qkv_tokenizer *t, qkv_encoding *e, int64_t from, int64_t count,
                     const uint8_t *text, int64_t bytes);
void qkv_post_free(struct qkv_post *p);
// Where the texts of a template stand: the first and second that it names.
struct qkv_layout {
    int texts;        // 1 or 2
    uint8_t which[2]; // 0 A, 1 B
    int32_t type[2];
    int64_t specials[3]; // tokens before the first, between, behind the last
    int64_t count[2];    // tokens of each text; they stand behind their specials
    const uint8_t *text[2];
    int64_t bytes[2];
};
void qkv_template_layout(struct qkv_layout *l, const struct qkv_template *p, bool no_special);
// e holds the texts of l with room left for the specials: truncates, fills in the specials, pads.
qkv_status qkv_template_apply(const qkv_tokenizer *t, qkv_encoding *e, const struct qkv_template *p,
                              const struct qkv_layout *l, const struct qkv_encode_options *o,
                              qkv_error *err);

// ---- decode_text.c, decode_steps.c: ids to text, token by token ---------------------------------
// Each token is an item; a step is given items part by part and gives them on to the next one as
// soon as nothing that follows can change them.  One way for texts and for streams.
struct qkv_decode_flow;
struct qkv_decode_step {
    // text[n] is (a part of) an item, its last one if `ends`.  false: no memory, or too much text.
    bool (*put)(struct qkv_decode_flow *f, int64_t step, const char *text, int64_t n, bool ends);
    bool (*end)(struct qkv_decode_flow *f, int64_t step); // no item follows; NULL: nothing waits
    bool whole;                                           // put is given items in one part
    // wordpiece: prefix;  replace: pattern, content;  strip, metaspace: character;  bpe: suffix;
    // ctc: padding, delimiter
    char *from, *to;
    bool cleanup, prefixed;
    int64_t start, stop;              // strip
    struct qkv_expression expression; // replace: none: `from`
};
struct qkv_text_decoder {
    struct qkv_decode_step *steps;
    int64_t count, capacity;
};
struct qkv_decode_state {                      // of one step
    struct qkv_text_buffer item;               // parts of an item that has not ended
    struct qkv_text_buffer waits, work, other; // the step's own
    int64_t passed;                            // bytes it was given
    int64_t items;                             // that have ended
    int64_t cut, tail;                         // strip: characters taken away, kept back
    bool begun, inside;                        // there was an item; strip: past its start
};
struct qkv_decode_flow {
    const qkv_tokenizer *t;
    struct qkv_decode_state *states; // of each step
    struct qkv_text_buffer out;
    int64_t fed;              // bytes of tokens
    struct qkv_effort effort; // of regular expressions
    bool skip_special, any;
};
// Part of an item to step `step`, behind the last one to f->out.
bool qkv_decode_feed(struct qkv_decode_flow *f, int64_t step, const char *text, int64_t n,
                     bool ends);
bool qkv_decode_add(qkv_tokenizer *t, const struct qkv_json_at *at, struct qkv_decode_step step,
                    const char *from, const char *to);
void qkv_text_decoder_free(struct qkv_text_decoder *d);

// ---- given.c, read.h: tokenizers of other formats -----------------------------------------------
// A reader of another format makes an empty tokenizer, gives it tokens and what its model needs,
// says all else in the JSON of a tokenizer.json without these, and has it finished:
// what is in memory then is the same.
typedef bool qkv_component_fn(qkv_tokenizer *t, const struct qkv_json_at *at);
struct qkv_given {
    double
        *scores; // Unigram: by id, for ids below score_count; -INFINITY: not to be found in texts
    int64_t score_count;
    struct qkv_given_merge {
        int32_t left, right, to;
        uint32_t rank; // equal ranks: the pair further left first
    } * merges;        // BPE
    int64_t merge_count, merge_capacity;
    bool merged;             // they are all there
    bool verbatim;           // added tokens stand in the normalised text as they are written
    qkv_component_fn *steps; // adds to normaliser and pre-tokenizer
    const void *context;     // of steps, the reader's
};
void qkv_given_free(struct qkv_given *g);

// ---- tokenizer.c -------------------------------------------------------------------------------
qkv_status qkv_tokenizer_new(qkv_tokenizer **out, const char *file, qkv_error *err);
// t with the rest of its components; *out is t, or NULL: then it is closed.
qkv_status qkv_tokenizer_given(qkv_tokenizer **out, qkv_tokenizer *t, struct qkv_text_buffer *rest,
                               qkv_error *err);
qkv_status qkv_tokenizer_read(qkv_tokenizer **out, const char *file, qkv_error *err); // JSON
// A tokenizer.json in memory; file: its name in messages, places in the JSON are bytes.
qkv_status qkv_tokenizer_parse(qkv_tokenizer **out, const char *data, size_t size, const char *file,
                               qkv_error *err);
struct qkv_tokenizer {
    char *file; // as opened, for messages
    const struct qkv_text_model *kind;
    void *model;
    int64_t word_limit; // characters of a word worth keeping, 0: all
    bool cut_anywhere;  // tokens are characters: a long word may go to the model in parts
    struct qkv_vocab vocab;
    struct qkv_normalizer normalizer;
    bool bytes_ready; // the model takes the bytes of a text as ByteLevel's characters
    struct qkv_split split;
    struct qkv_steps steps;
    struct qkv_word_cache *cache;
    struct qkv_added added;
    struct qkv_post post;
    struct qkv_limits limits;
    struct qkv_text_decoder decoder;
    struct qkv_given given; // while it is put together
};

// Reads the component at->object by its "type".  what: "normalizer", ... for messages.
bool qkv_normalizer_read(qkv_tokenizer *t, const struct qkv_json_at *at);
bool qkv_pre_tokenizer_read(qkv_tokenizer *t, const struct qkv_json_at *at);
bool qkv_text_decoder_read(qkv_tokenizer *t, const struct qkv_json_at *at);
// Each object of the array at key `key`, read by `read`; false: at->err is filled.
bool qkv_component_list(qkv_tokenizer *t, const struct qkv_json_at *at, const char *key,
                        qkv_component_fn *read);
// The member `key` as a place of its own: object or array (array: want_array); NULL: missing, null
// (need: at->err is filled) or of another type (at->err is filled, *ok false).
const json_t *qkv_json_member(const struct qkv_json_at *at, const char *key, bool need,
                              bool want_array, char path[256], bool *ok);
bool qkv_text_fail(const struct qkv_json_at *at, const char *key, qkv_status status,
                   const char *format, ...) __attribute__((format(printf, 4, 5))); // always false
// Where masks go that are read now: t->split, or a step behind others; NULL: at->err is filled.
struct qkv_split *qkv_split_masks(qkv_tokenizer *t, const struct qkv_json_at *at);
bool qkv_behavior_read(const struct qkv_json_at *at, enum qkv_behavior *out); // "behavior"
// Members of a component "Metaspace".
bool qkv_prepend_scheme_read(const struct qkv_json_at *at, const char **mark, bool *prefix,
                             bool *first, bool *split);
// pattern of a component: {"Regex"} or {"String"}; *text is either's, *expression the caller's.
bool qkv_pattern_read(const struct qkv_json_at *at, const char **text,
                      struct qkv_expression *expression);
// pattern and content of a component "Replace"; *from is not empty unless it is an expression.
bool qkv_replace_read(const struct qkv_json_at *at, const char **from, const char **to,
                      struct qkv_expression *expression);
#define QKV_NORMALIZER(type, fn)     qkv_component_fn qkv_normalizer_##fn;
#define QKV_PRE_TOKENIZER(type, fn)  qkv_component_fn qkv_pre_tokenizer_##fn;
#define QKV_POST_PROCESSOR(type, fn) qkv_component_fn qkv_post_processor_##fn;
#define QKV_DECODER(type, fn)        qkv_component_fn qkv_text_decoder_##fn;
#include "text/tokenizer.def"
#endif
