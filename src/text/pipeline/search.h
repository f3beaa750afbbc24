// SPDX-License-Identifier: MIT
// search.h: declares the search for a text in linear time, one byte or character after the other.
#ifndef QKV_TEXT_SEARCH_H
#define QKV_TEXT_SEARCH_H

#include "base/base.h"

// A text to search for.  Its elements are bytes or characters.
struct qkv_search {
    uint32_t *at;    // [count]
    int64_t *border; // [count + 1] length of the longest proper prefix of at[i] that also ends it
    int64_t count;
};
// Begins a search for the bytes, or for the characters, from[count]; both are copied.  Returns
// false if memory is exhausted: *s is then empty.
bool qkv_search_bytes(struct qkv_search *s, const char *from, int64_t count);
bool qkv_search_characters(struct qkv_search *s, const uint32_t *from, int64_t count);
void qkv_search_free(struct qkv_search *s); // a zeroed struct is allowed

// Reads the next element.  `matched` is the number of elements of s that end the input before it,
// less than s->count; returns their number after it.  A walk over a text takes two steps per
// element at most.
static inline int64_t qkv_search_step(const struct qkv_search *s, int64_t matched, uint32_t element)
{
    while (matched && s->at[matched] != element) matched = s->border[matched];
    return matched + (s->at[matched] == element);
}
#endif
