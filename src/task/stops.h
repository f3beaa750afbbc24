// SPDX-License-Identifier: MIT
// stops.h: the text of an output as its bytes come: where a stop string ends it, and how much of it
// can be shown already.
#ifndef QKV_TASK_STOPS_H
#define QKV_TASK_STOPS_H

#include "base/base.h"

// Stop strings, shared by all outputs of a call.
struct qkv_stops {
    const char *const *text; // [n], the caller's
    int64_t n;
    int32_t *bytes;  // [n]
    int32_t **fails; // [n][bytes + 1] of Knuth, Morris and Pratt
};
// QKV_ERR_USAGE: one that is empty, longer than 4096 bytes, or not UTF-8; more than 64.
qkv_status qkv_stops_new(struct qkv_stops *s, const char *const *text, int64_t n, qkv_error *err);
void qkv_stops_free(struct qkv_stops *s); // a zeroed struct is fine

struct qkv_output_text {
    const struct qkv_stops *stops;
    char *at; // [n], terminated once anything came
    int64_t n, capacity;
    int64_t shown;  // bytes that were told
    int64_t safe;   // bytes before which no stop string can begin any more
    int32_t *state; // [stops] how much of each stands at the end
    bool stopped;   // one came: n is where it began
};
// t is zero before the first; its memory is used again.  false: no memory.
bool qkv_output_text_begin(struct qkv_output_text *t, const struct qkv_stops *stops);
// stop: are these bytes looked through?  (A prefix that the caller forced is not.)
bool qkv_output_text_add(struct qkv_output_text *t, const char *text, size_t bytes, bool stop);
void qkv_output_text_free(struct qkv_output_text *t);
#endif
