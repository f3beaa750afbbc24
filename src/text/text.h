// SPDX-License-Identifier: MIT
// text.h: declares the interface of module text for other modules: tries, UTF-8 and letter case.
//
// Tokenizers are used through the public header <qkv/text.h>; text_internal.h declares the parts
// that the sources of this module share.
#ifndef QKV_TEXT_TEXT_H
#define QKV_TEXT_TEXT_H

#include <qkv/text.h>
#include "base/base.h"

// ---- models/trie.c: a map from texts to numbers, walked byte by byte ---------------------------
// The nodes of a trie are numbered from 1 (the root).  Each edge is a slot of one open-addressing
// hash table, whose key is node << 8 | byte.
enum { QKV_TRIE_NODES = 1 << 24 }; // most nodes: a node number and a byte share 32 bits
struct qkv_trie {
    struct qkv_trie_slot {
        uint32_t key, next;
    } * slots;
    int32_t *value; // [nodes] value of the text that ends at the node; -1: no text ends there
    int64_t nodes, value_capacity;
    int64_t edges, texts;
    int shift;          // 32 - log2(slots)
    uint8_t first[256]; // whether a text starts with this byte
};
// Allocates a trie for about `texts` texts.  Returns false if memory is exhausted.
bool qkv_trie_init(struct qkv_trie *t, size_t texts);
void qkv_trie_free(struct qkv_trie *t);
// Adds text[bytes] with this value unless the trie contains the text already; *out is the value
// that the text then has.  Returns false if memory is exhausted or the trie would have more than
// 2^24 nodes.
bool qkv_trie_add(struct qkv_trie *t, const char *text, size_t bytes, int32_t value, int32_t *out);
// Returns the value of text[bytes], or -1 if the trie does not contain the text.
int32_t qkv_trie_find(const struct qkv_trie *t, const char *text, size_t bytes);

// ---- unicode/unicode.c: UTF-8 and letter case --------------------------------------------------
// Reads the first character of p[n], n >= 1, to *code and returns the number of its bytes.  For
// invalid UTF-8 *code is U+FFFD and the result is negative: minus the number of bytes that one
// U+FFFD replaces (the maximal subpart; Unicode standard, 3.9).
int qkv_utf8_read(const uint8_t *p, size_t n, uint32_t *code);
// Writes the character `code` as UTF-8; returns the number of its bytes, 1..4.
int qkv_utf8_write(uint8_t *p, uint32_t code);

// ---- readers/tokenizer_open.c: the files of a tokenizer ----------------------------------------
// Finds the file that qkv_tokenizer_open opens for path: *file is path itself, or, if path is a
// folder or a checkpoint of llama2.c, the path of a file of qkv_tokenizer_file(), in `buffer`; the
// first of them if the folder contains none.  Returns QKV_OK, or QKV_ERR_IO: the path is too long.
qkv_status qkv_tokenizer_locate(const char **file, char buffer[QKV_PATH], const char *path,
                                qkv_error *err);
// Returns the name under which qkv_tokenizer_open reads a copy of this file in a folder that has
// no other tokenizer: its own name if that is one of qkv_tokenizer_file(), otherwise the name of a
// file of the same format, such as "tokenizer.model" for FILE.model.
const char *qkv_tokenizer_name_of_copy(const char *file);

// ---- what tasks need to know of a tokenizer ----------------------------------------------------
// Returns the id of the unknown token of the tokenizer's model; -1: the model has none.
int32_t qkv_tokenizer_unknown(const qkv_tokenizer *t);
// Returns true if a prefix such as "##" marks the tokens that continue a word
// (continuing_subword_prefix).
bool qkv_tokenizer_marks_parts(const qkv_tokenizer *t);
// Makes the tokenizer convert texts to lower case before all other normalization, unless it does so
// already (normalize.c).  Returns QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_tokenizer_lowercase(qkv_tokenizer *t, qkv_error *err);
// Decodes n texts as qkv_tokenizer_decode decodes tokens with these texts.  The caller frees *out
// with qkv_free; *size receives the number of its bytes without the NUL.  Returns QKV_OK or
// QKV_ERR_LIMIT (decode_text.c).
qkv_status qkv_tokenizer_join(const qkv_tokenizer *t, char **out, size_t *size,
                              const char *const *text, const size_t *bytes, int64_t n,
                              qkv_error *err);

enum qkv_class {
    QKV_CLASS_SPACE = 1 << 0,  // White_Space
    QKV_CLASS_PUNCT = 1 << 1,  // P* or ASCII punctuation
    QKV_CLASS_NUMBER = 1 << 2, // N*
    QKV_CLASS_WORD = 1 << 3    // \w: Alphabetic, M*, Nd, Pc, Join_Control
};
unsigned qkv_unicode_class(uint32_t code, unsigned wanted); // the bits of `wanted` that code has
int qkv_unicode_lower(uint32_t out[3], uint32_t code);      // lower case; number of characters
#endif
