// SPDX-License-Identifier: MIT
// stop_strings.h: declares the text of an output, which is collected in parts and ends at the first
// stop string, and determines how many of its bytes can already be emitted.
#ifndef QKV_TASK_STOP_STRINGS_H
#define QKV_TASK_STOP_STRINGS_H

#include "base/base.h"

// Stop strings, shared by all outputs of a call.
struct qkv_stop_strings {
    const char *const *text; // [n] the caller's stop strings
    int64_t n;
    int32_t *bytes;  // [n] length of each stop string in bytes
    int32_t **fails; // [n][bytes + 1] failure function of each stop string (Knuth, Morris, Pratt)
};
// Prepares the stop strings. Returns QKV_ERR_USAGE for more than 64 of them, or for one that is
// empty, longer than 4096 bytes or not UTF-8.
qkv_status qkv_stop_strings_new(struct qkv_stop_strings *s, const char *const *text, int64_t n,
                                qkv_error *err);
void qkv_stop_strings_free(struct qkv_stop_strings *s); // accepts a zeroed struct

struct qkv_output_text {
    const struct qkv_stop_strings *stops;
    char *at; // [n] the text in bytes, terminated by NUL after the first addition
    int64_t n, capacity;
    int64_t shown; // number of bytes that have been emitted
    int64_t safe;  // number of bytes that can be emitted: no stop string can remove them anymore
    // [stops] for each stop string, the length of its longest prefix with which the text ends
    int32_t *state;
    bool stopped; // a stop string ended the text at n, where the stop string began
};
// Begins an empty text. The caller zeroes t before its first use; later texts reuse its memory.
// Returns false if memory is exhausted.
bool qkv_output_text_begin(struct qkv_output_text *t, const struct qkv_stop_strings *stops);
// Appends bytes to the text. stop: search the bytes for stop strings; false for tokens of a prefix.
bool qkv_output_text_add(struct qkv_output_text *t, const char *text, size_t bytes, bool stop);
void qkv_output_text_free(struct qkv_output_text *t);
#endif
