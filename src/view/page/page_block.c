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
    for (; b->summed < b->count; b->summed++) {
        struct view_array *a = &b->array[b->summed];
        a->crc = view_crc32(b->bytes + a->offset, a->bytes);
    }
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

// Divides the block into pieces, *out, each with a code of its own. Returns false if memory is
// exhausted.
static bool find_pieces(struct view_piece **out, int64_t *pieces, const struct view_block *b)
{
    enum { LEAST = 1024 }; // the code of a shorter piece would cost more than it saves
    int64_t capacity = 0, from = 0;
    *out = NULL;
    *pieces = 0;
    for (int64_t i = 0; i < b->count; i++) {
        const struct view_array *a = &b->array[i];
        const int64_t planes = planes_of(a), n = a->shape[0] * a->shape[1] * a->shape[2];
        for (int64_t k = 1; k <= planes + 1; k++) {
            const int64_t end = k > planes ? a->bytes : qkv_min64(a->bytes, k * n);
            if (a->offset + end - from < LEAST) continue;
            if (!qkv_reserve((void **)out, &capacity, *pieces + 1, sizeof **out)) {
                qkv_free(*out);
                *out = NULL;
                return false;
            }
            // masked weights are 0, and so are the highest bytes of decimals
            const bool zeros = !strcmp(a->name, "w") || (planes == 3 && k == 3);
            (*out)[(*pieces)++] = (struct view_piece){ a->offset + end, zeros };
            from = a->offset + end;
        }
    }
    return true;
}

// Returns true if the block begins with the pieces that p has compressed, which are in `before`.
static bool begins_with(const struct view_block *b, const struct view_piece *piece, int64_t pieces,
                        const struct view_packed *p, const struct view_block *before)
{
    const int64_t n = p->stream.pieces;
    if (!before || !n || n > pieces) return false;
    for (int64_t i = 0; i < n; i++)
        if (piece[i].end != p->piece[i].end || piece[i].repeats != p->piece[i].repeats)
            return false;
    return b == before || memcmp(b->bytes, before->bytes, (size_t)piece[n - 1].end) == 0;
}

qkv_status view_block_pack(struct view_packed *p, const struct view_block *b,
                           const struct view_block *before, qkv_error *err)
{
    struct view_piece *piece;
    int64_t pieces;
    if (!find_pieces(&piece, &pieces, b)) return qkv_fail_memory(err, NULL);
    if (!begins_with(b, piece, pieces, p, before)) view_packed_free(p);
    qkv_free(p->piece);
    p->piece = piece;
    return view_deflate(&p->bytes, &p->size, &p->stream, b->bytes, b->size, piece, pieces, err);
}

void view_packed_free(struct view_packed *p)
{
    view_stream_free(&p->stream);
    qkv_free(p->piece);
    qkv_free(p->bytes);
    *p = (struct view_packed){ 0 };
}
