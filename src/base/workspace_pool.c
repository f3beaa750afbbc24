// SPDX-License-Identifier: MIT
// workspace_pool.c: keeps the work memory of finished calls for later calls.
//
// The pool has as many buffers as calls ever ran at the same time; a buffer that is too small for a
// call is replaced.
#include "base/base.h"

enum { KEEP_BYTES = 64 << 20 }; // a buffer of more bytes is freed when its call releases it

void qkv_workspace_pool_init(struct qkv_workspace_pool *pool)
{
    pool->idle = NULL;
    pthread_mutex_init(&pool->lock, NULL);
}

struct qkv_workspace *qkv_workspace_acquire(struct qkv_workspace_pool *pool, size_t size)
{
    pthread_mutex_lock(&pool->lock);
    struct qkv_workspace **at = &pool->idle;
    while (*at && (*at)->size < size && (*at)->next)
        at = &(*at)->next; // the first buffer that is large enough, or the last buffer
    struct qkv_workspace *w = *at;
    if (w) *at = w->next;
    pthread_mutex_unlock(&pool->lock);
    if (!w) w = qkv_alloc_zero(1, sizeof *w);
    if (!w) return NULL;
    if (w->bytes && w->size >= size) return w;
    qkv_free(w->bytes);
    w->bytes = qkv_alloc(size, 1);
    w->size = size;
    if (w->bytes) return w;
    qkv_free(w);
    return NULL;
}

void qkv_workspace_release(struct qkv_workspace_pool *pool, struct qkv_workspace *w)
{
    if (!w) return;
    if (w->size > KEEP_BYTES) {
        qkv_free(w->bytes);
        qkv_free(w);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    w->next = pool->idle;
    pool->idle = w;
    pthread_mutex_unlock(&pool->lock);
}

void qkv_workspace_pool_free(struct qkv_workspace_pool *pool)
{
    while (pool->idle) {
        struct qkv_workspace *w = pool->idle;
        pool->idle = w->next;
        qkv_free(w->bytes);
        qkv_free(w);
    }
    pthread_mutex_destroy(&pool->lock);
}
