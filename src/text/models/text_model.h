// SPDX-License-Identifier: MIT
// text_model.h: declares the vocabulary and the models that split words into tokens.
#ifndef QKV_TEXT_TEXT_MODEL_H
#define QKV_TEXT_TEXT_MODEL_H

#include "text/text.h"

// ---- trie.c: one step from node to node --------------------------------------------------------
enum { QKV_TRIE_ROOT = 1 };
// Returns the child of `node` for `byte`, or 0 if the node has no such child.
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

// ---- long_tokens.c: the long tokens that end at a byte of a text -------------------------------
enum { QKV_SHORT_TOKEN = 64 }; // bytes; longer tokens are long
enum { QKV_LONG_ENDS = 64 };   // maximum number of long tokens that end at one byte of a text
struct qkv_vocab;
struct qkv_long_tokens {
    bool any;             // false: the vocabulary has no long token, and all else is empty
    struct qkv_trie trie; // long tokens: text -> id
    uint32_t *shorter;    // [nodes] node of the longest proper suffix of a node's text
    uint32_t
        *found; // [nodes] node of the longest suffix, itself included, that is a token; 0: none
};
// Collects the long tokens of v with a score above -INFINITY.  Returns false if memory is
// exhausted.
bool qkv_long_tokens_init(struct qkv_long_tokens *l, const struct qkv_vocab *v,
                          const double *scores);
// Returns the id of a token at whose end more than QKV_LONG_ENDS long tokens end, or -1.
int32_t qkv_long_tokens_crowded(const struct qkv_long_tokens *l);
void qkv_long_tokens_free(struct qkv_long_tokens *l);
// Returns the node after `byte`, from `node` after the preceding bytes; the first is QKV_TRIE_ROOT.
uint32_t qkv_long_tokens_step(const struct qkv_long_tokens *l, uint32_t node, uint8_t byte);

// ---- unigram.c: pieces without an id -----------------------------------------------------------
// Pieces that the model uses to split a word, but for which the vocabulary has no id: each becomes
// one unknown token.  Pieces of more than QKV_SHORT_TOKEN bytes are not used.
struct qkv_absent {
    struct qkv_trie trie; // text -> index in scores; slots NULL: there are no such pieces
    double *scores;
    int64_t count;
};
void qkv_absent_free(struct qkv_absent *a);

// ---- tokens of a word --------------------------------------------------------------------------
struct qkv_parts {
    struct qkv_part {
        int64_t begin, end; // the bytes of the word that the token represents
        int32_t id;
    } * at;
    int64_t count, capacity;
    int64_t dropped; // characters of the word without a token that represents them
    void *work;      // work memory of the model, reused for the next word
    int64_t work_bytes;
};
// Grows p->work to at least `bytes` bytes.  Returns false if memory is exhausted.
bool qkv_parts_reserve(struct qkv_parts *p, int64_t bytes);
bool qkv_parts_grow(struct qkv_parts *p);
static inline bool qkv_parts_add(struct qkv_parts *p, int32_t id, int64_t begin, int64_t end)
{
    if (p->count == p->capacity && !qkv_parts_grow(p)) return false;
    p->at[p->count++] = (struct qkv_part){ begin, end, id };
    return true;
}

// ---- word_cache.c: tokens of recent words, shared by the threads that use a tokenizer -----------
struct qkv_word_cache;                             // read and written without locks
enum { QKV_CACHE_WORD = 24, QKV_CACHE_PARTS = 6 }; // bytes and tokens of a cached word at most
struct qkv_word_cache *qkv_word_cache_new(void);   // NULL: out of memory; free with qkv_free
// Looks up the tokens of a word in the cache.  Returns false if the word is not cached: *out is
// unchanged.
bool qkv_word_cache_get(struct qkv_word_cache *c, const uint8_t *word, int64_t length,
                        struct qkv_parts *out);
void qkv_word_cache_put(struct qkv_word_cache *c, const uint8_t *word, int64_t length,
                        const struct qkv_parts *parts);

// ---- a model: a row of tokenizer.def -----------------------------------------------------------
struct qkv_text_model {
    const char *name;
    // Reads $.model with its vocabulary and sets t->model.  Returns false if at->err contains an
    // error.
    bool (*open)(qkv_tokenizer *t, const struct qkv_json_at *at);
    void (*close)(void *model);
    // Writes the tokens of word[length], length > 0, to *out, which is empty.  chars is the number
    // of characters of the complete word; it may exceed length if the word was cut at
    // t->word_limit.  Returns false if memory is exhausted.
    bool (*word)(const qkv_tokenizer *t, struct qkv_parts *out, const uint8_t *word, int64_t length,
                 int64_t chars);
};
#define QKV_TEXT_MODEL(type, table) extern const struct qkv_text_model qkv_model_##table;
#include "text/tokenizer.def"

// ---- vocab.c: all tokens, by id and by text ----------------------------------------------------
enum { QKV_TOKEN_ADDED = 1, QKV_TOKEN_SPECIAL = 2 };
struct qkv_token {
    uint32_t text; // offset in pool, NUL-terminated; a file has less than 2^32 bytes
    uint32_t bytes;
    int32_t id;
    uint8_t flags; // QKV_TOKEN_*
};
struct qkv_vocab {
    struct qkv_trie trie;     // tokens of the model: text -> id
    struct qkv_token *tokens; // by ascending id after qkv_vocab_finish
    int64_t count, capacity;
    char *pool; // texts of the tokens
    int64_t pool_count, pool_capacity;
    bool scanned; // qkv_vocab_scan has already read the tokens of the model
};
// Reads $.model.vocab from the JSON text data[size] if it has the plain form, an object of texts
// and ids; data[*begin .. *end) is then the vocabulary with its brackets.  Returns false for any
// other form: the caller must then read the vocabulary from the parsed JSON.
bool qkv_vocab_scan(struct qkv_vocab *v, const char *data, size_t size, size_t *begin, size_t *end);
// Reads a vocabulary as qkv_vocab_scan does, from data[size], which contains only the vocabulary.
bool qkv_vocab_scan_object(struct qkv_vocab *v, const char *data, size_t size);
// Reads {"text": id, ...} at key `key` of at->object into an empty vocabulary.
bool qkv_vocab_read(struct qkv_vocab *v, const struct qkv_json_at *at, const char *key);
bool qkv_vocab_add(struct qkv_vocab *v, const char *text, size_t bytes, int32_t id, uint8_t flags);
// Sorts the tokens by id; *twice becomes an id that two tokens have, or -1 if all ids differ.
void qkv_vocab_finish(struct qkv_vocab *v, int64_t *twice);
const struct qkv_token *qkv_vocab_token(const struct qkv_vocab *v, int64_t id); // NULL: no such id
void qkv_vocab_free(struct qkv_vocab *v);
#endif
