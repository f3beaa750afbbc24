// SPDX-License-Identifier: MIT
// text_internal.h: declares the tokenizer and the readers of its components for the files of module
// text.
//
// A text is encoded in these steps, which encode_text.c calls:
//   added_tokens.c          finds added tokens in the text
//   normalize.c             normalizes the text between added tokens; each character keeps the byte
//                           offsets of its source
//   pretokenize_*.c         splits the normalized text into words
//   models/                 turns each word into tokens; word_cache.c caches the tokens of a word
//   postprocess_template.c  truncates, adds the special tokens of the template, and pads
//   postprocess_trim.c      excludes white space from the offsets of tokens
// Ids and offsets are the same as with Hugging Face tokenizers 0.23.
//
// Training (training/) uses the same pre-tokenizers and writes files that this module reads.
#ifndef QKV_TEXT_INTERNAL_H
#define QKV_TEXT_INTERNAL_H

#include "text/models/text_model.h"
#include "text/pipeline/added_tokens.h"
#include "text/pipeline/decode_tokens.h"
#include "text/pipeline/normalize.h"
#include "text/pipeline/postprocess.h"
#include "text/pipeline/pretokenize.h"
#include "text/text.h"
#include "text/unicode/unicode.h"

enum {
    QKV_TOKEN_IDS = 1 << 24,       // upper bound of ids
    QKV_TOKENIZER_BYTES = 1 << 28, // maximum size of a tokenizer.json
    // Limits of the lengths that a text is searched for at each of its bytes
    QKV_WORD_CHARS = 1000,  // maximum of max_input_chars_per_word
    QKV_ADDED_BYTES = 1024, // maximum length of an added token
    QKV_AFFIX_BYTES = 256   // maximum length of continuing_subword_prefix and end_of_word_suffix
};

typedef bool qkv_component_fn(qkv_tokenizer *t, const struct qkv_json_at *at);

// ---- readers/assemble.c: a tokenizer from other formats than tokenizer.json ---------------------
// A reader of another format makes an empty tokenizer, adds the tokens and the tables of its model
// to it, writes all other settings as the JSON of a tokenizer.json without model data, and calls
// qkv_tokenizer_assemble.  The resulting tokenizer is the same as from an equivalent
// tokenizer.json.
struct qkv_assembly {
    // Unigram: [score_count] scores by id; a token with score -INFINITY is never matched in texts
    double *scores;
    int64_t score_count;
    struct qkv_absent absent; // Unigram: pieces without an id
    bool marks_inside;        // a mark of spaces occurs inside of such a piece
    bool floats;              // Unigram: sums are floats, as in SentencePiece
    bool no_texts;            // Unigram: unknown characters never become the token of their text
    struct qkv_merge {
        int32_t left, right, to;
        uint32_t rank; // of pairs with equal ranks the leftmost is merged first
    } * merges;        // BPE
    int64_t merge_count, merge_capacity;
    bool merged;                 // all merges are present
    bool verbatim;               // added tokens occur unchanged in the normalized text
    qkv_component_fn *add_steps; // adds to normalizer and pre-tokenizer
    const void *context;         // for add_steps
};
void qkv_assembly_free(struct qkv_assembly *a);

// ---- readers/read_tokenizer_json.c -------------------------------------------------------------
struct qkv_tokenizer {
    char *file; // path as opened, for messages
    const struct qkv_text_model *kind;
    void *model;
    int64_t word_limit; // number of characters of a word that the model uses, 0: all
    bool cut_anywhere;  // tokens are single characters: a long word may reach the model in parts
    int32_t unknown;    // id of the unknown token of the model; -1: none
    bool parts_marked;  // the model has a continuing_subword_prefix
    struct qkv_vocab vocab;
    struct qkv_normalizer normalizer;
    bool bytes_ready; // the model accepts the bytes of a text in place of ByteLevel's characters
    struct qkv_word_masks masks;
    struct qkv_pre_tokenizer pre_tokenizer;
    struct qkv_word_cache *cache;
    struct qkv_added added;
    struct qkv_post post;
    struct qkv_limits limits;
    struct qkv_text_decoder decoder;
    struct qkv_assembly assembly; // only while the tokenizer is opened
};
qkv_status qkv_tokenizer_new(qkv_tokenizer **out, const char *file, qkv_error *err);
// Completes t with the components in the JSON text `rest` and writes it to *out.  On an error *out
// is NULL and t is closed.
qkv_status qkv_tokenizer_assemble(qkv_tokenizer **out, qkv_tokenizer *t,
                                  struct qkv_text_buffer *rest, qkv_error *err);
qkv_status qkv_tokenizer_read(qkv_tokenizer **out, const char *file, qkv_error *err); // JSON
// Reads a tokenizer.json from data[size].  Error messages use the name `file` and give byte
// offsets.
qkv_status qkv_tokenizer_parse(qkv_tokenizer **out, const char *data, size_t size, const char *file,
                               qkv_error *err);

// Each of these functions reads the component at->object according to its "type".  Returns false if
// at->err contains an error.
bool qkv_normalizer_read(qkv_tokenizer *t, const struct qkv_json_at *at);
bool qkv_pre_tokenizer_read(qkv_tokenizer *t, const struct qkv_json_at *at);
bool qkv_text_decoder_read(qkv_tokenizer *t, const struct qkv_json_at *at);
// Calls `read` for each object of the array at key `key`.  Returns false if at->err contains an
// error.
bool qkv_component_list(qkv_tokenizer *t, const struct qkv_json_at *at, const char *key,
                        qkv_component_fn *read);
// Returns the member `key`, an array if want_array is true, otherwise an object, and writes its
// path.  If the member is missing or null, returns NULL; this is an error if `need` is true.  If it
// has another type, returns NULL with an error.  On an error *ok is false and at->err contains it.
const json_t *qkv_json_member(const struct qkv_json_at *at, const char *key, bool need,
                              bool want_array, char path[256], bool *ok);
// Reports an error of the member `key`; always returns false.
bool qkv_text_fail(const struct qkv_json_at *at, const char *key, qkv_status status,
                   const char *format, ...) __attribute__((format(printf, 4, 5)));
// Reads the pattern of a component, {"Regex": ...} or {"String": ...}.  *text is the pattern; a
// Regex is also compiled to *expression, which the caller frees.
bool qkv_pattern_read(const struct qkv_json_at *at, const char **text,
                      struct qkv_expression *expression);
// Reads pattern and content of a component "Replace".  *from is the pattern and *to the content; a
// pattern that is a regular expression is compiled to *expression.  A pattern that is a plain text
// must not be empty.
bool qkv_replace_read(const struct qkv_json_at *at, const char **from, const char **to,
                      struct qkv_expression *expression);
#define QKV_NORMALIZER(type, fn)     qkv_component_fn qkv_normalizer_##fn;
#define QKV_PRE_TOKENIZER(type, fn)  qkv_component_fn qkv_pre_tokenizer_##fn;
#define QKV_POST_PROCESSOR(type, fn) qkv_component_fn qkv_post_processor_##fn;
#define QKV_DECODER(type, fn)        qkv_component_fn qkv_text_decoder_##fn;
#include "text/tokenizer.def"
#endif
