// SPDX-License-Identifier: MIT
// page_block.c: the bytes of all arrays of a page and their compression.
#include "view/page/page_internal.h"
#include <string.h>

uint8_t *view_array_add(struct view_block *b, const char *name, const char *kind, int64_t stack,
                        int64_t layer, int64_t n, int64_t m, int64_t k, int64_t bytes)
{
    int64_t size;
    if (__builtin_add_overflow(b->size, bytes, &size) ||
        !qkv_reserve((void **)&b->bytes, &b->capacity, size, 1) ||
        !qkv_reserve((void **)&b->array, &b->array_capacity, b->count + 1, sizeof *b->array))
        return NULL;
    uint8_t *at = b->bytes + b->size;
    b->array[b->count++] =
        (struct view_array){ name, kind, stack, layer, { n, m, k }, b->size, bytes, 0 };
    memset(at, 0, (size_t)bytes);
    b->size = size;
    return at;
}

void view_block_sum(struct view_block *b)
{
    for (int64_t i = 0; i < b->count; i++)
        b->array[i].crc = view_crc32(b->bytes + b->array[i].offset, b->array[i].bytes);
}

void view_block_free(struct view_block *b)
{
    qkv_free(b->bytes);
    qkv_free(b->array);
    *b = (struct view_block){ 0 };
}

void view_put_float(uint8_t *p, int64_t n, float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    for (int b = 0; b < 4; b++) p[b * n] = (uint8_t)(u >> 8 * b);
}

// ---- compression --------------------------------------------------------------------------------
// Returns the number of planes of the array, each with one byte of every number.
static int64_t planes_of(const struct view_array *a)
{
    if (!strcmp(a->kind, "f32")) return 4;
    if (!strcmp(a->kind, "d24")) return 3;
    return strstr(a->kind, "16") || !strcmp(a->kind, "i14") ? 2 : 1;
}

qkv_status view_block_pack(uint8_t **out, int64_t *size, const struct view_block *b, qkv_error *err)
{
    enum { LEAST = 1024 }; // the code of a shorter piece would cost more than it saves
    struct view_piece *piece = NULL;
    int64_t pieces = 0, capacity = 0, from = 0;
    for (int64_t i = 0; i < b->count; i++) {
        const struct view_array *a = &b->array[i];
        const int64_t planes = planes_of(a), n = a->shape[0] * a->shape[1] * a->shape[2];
        for (int64_t k = 1; k <= planes + 1; k++) {
            const int64_t end = k > planes ? a->bytes : qkv_min64(a->bytes, k * n);
            if (a->offset + end - from < LEAST) continue;
            if (!qkv_reserve((void **)&piece, &capacity, pieces + 1, sizeof *piece)) {
                qkv_free(piece);
                return qkv_fail_memory(err, NULL);
            }
            // masked weights are 0, and so are the highest bytes of decimals
            const bool zeros = !strcmp(a->name, "w") || (planes == 3 && k == 3);
            piece[pieces++] = (struct view_piece){ a->offset + end, zeros };
            from = a->offset + end;
        }
    }
    const qkv_status status = view_deflate(out, size, b->bytes, b->size, piece, pieces, err);
    qkv_free(piece);
    return status;
}
