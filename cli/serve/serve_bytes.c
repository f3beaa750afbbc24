// SPDX-License-Identifier: MIT
// serve_bytes.c: a growing array of bytes, for answers and for the texts of a chat template.
#include "serve/serve.h"
#include <stdlib.h>
#include <string.h>

void serve_bytes_add(struct serve_bytes *b, const void *bytes, size_t n)
{
    if (b->failed || !n) return;
    if (b->capacity < b->count + n) {
        size_t capacity = b->capacity ? b->capacity : 512;
        while (capacity < b->count + n) capacity *= 2;
        char *at = realloc(b->at, capacity);
        if (!at) {
            b->failed = true;
            return;
        }
        b->at = at;
        b->capacity = capacity;
    }
    memcpy(b->at + b->count, bytes, n);
    b->count += n;
}

void serve_bytes_free(struct serve_bytes *b)
{
    free(b->at);
    *b = (struct serve_bytes){ 0 };
}
