// SPDX-License-Identifier: MIT
// stop_strings.h: declares the text of an output, which is collected piece by piece, ends at the
// first stop string, and says how many of its bytes can be emitted.
#ifndef QKV_TASK_STOP_STRINGS_H
#define QKV_TASK_STOP_STRINGS_H

#include "base/base.h"

// Stop strings, shared by all outputs of a call.
struct qkv_stop_strings {
    const char *const *text; // [n] borrowed from the caller
    int64_t n;
    int32_t *bytes;  // [n] length of each stop string
    int32_t **fails; // [n][bytes + 1] failure functions of Knuth, Morris and Pratt
};
// Prepares stop strings. QKV_ERR_USAGE: more than 64; or one that is empty, longer than 4096 bytes
// or not UTF-8.
qkv_status qkv_stop_strings_new(struct qkv_stop_strings *s, const char *const *text, int64_t n,
                                qkv_error *err);
void qkv_stop_strings_free(struct qkv_stop_strings *s); // a zeroed struct is allowed

struct qkv_output_text {
    const struct qkv_stop_strings *stops;
    char *at; // [n] bytes of the text; NUL-terminated after the first piece
    int64_t n, capacity;
    int64_t shown;  // bytes already emitted
    int64_t safe;   // bytes that no stop string can remove anymore
    int32_t *state; // [stops] length of the prefix of each stop string that the text ends with
    bool stopped;   // a stop string ended the text: n is its start
};
// Begins an empty text. The caller zeroes t before its first use; later texts reuse its memory.
// false: memory is exhausted.
bool qkv_output_text_begin(struct qkv_output_text *t, const struct qkv_stop_strings *stops);
// Appends bytes. stop: search them for stop strings (false for tokens of a prefix).
bool qkv_output_text_add(struct qkv_output_text *t, const char *text, size_t bytes, bool stop);
void qkv_output_text_free(struct qkv_output_text *t);
#endif
