// SPDX-License-Identifier: MIT
// spare.c: memory of runs, kept by the model from one to the next.
//
// There are as many blocks as runs were ever under way at once; what is too small for the run at
// hand makes room for what is not.
#include "model/model.h"

enum { KEEP_BYTES = 64 << 20 }; // a larger block goes back at once

struct qkv_spare *qkv_spare_take(struct qkv_model *m, size_t size)
{
    pthread_mutex_lock(&m->spare_lock);
    struct qkv_spare **at = &m->spare;
    while (*at && (*at)->size < size && (*at)->next)
        at = &(*at)->next; // one that fits, or the last
    struct qkv_spare *b = *at;
    if (b) *at = b->next;
    pthread_mutex_unlock(&m->spare_lock);
    if (!b) b = qkv_alloc_zero(1, sizeof *b);
    if (!b) return NULL;
    if (b->at && b->size >= size) return b;
    qkv_free(b->at);
    b->at = qkv_alloc(size, 1);
    b->size = size;
    if (b->at) return b;
    qkv_free(b);
    return NULL;
}

void qkv_spare_give(struct qkv_model *m, struct qkv_spare *b)
{
    if (!b) return;
    if (b->size > KEEP_BYTES) {
        qkv_free(b->at);
        qkv_free(b);
        return;
    }
    pthread_mutex_lock(&m->spare_lock);
    b->next = m->spare;
    m->spare = b;
    pthread_mutex_unlock(&m->spare_lock);
}

void qkv_spare_free(struct qkv_model *m)
{
    while (m->spare) {
        struct qkv_spare *b = m->spare;
        m->spare = b->next;
        qkv_free(b->at);
        qkv_free(b);
    }
}
