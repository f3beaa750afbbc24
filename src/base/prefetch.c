// SPDX-License-Identifier: MIT
// prefetch.c: makes the next item on a second thread while the caller uses the current one.
//
// There are two slots, with memory for one item each: while the caller uses one slot, the other is
// filled.  The items are made in the order in which a single thread would make them, and no item
// depends on which thread made it.
#include "base/base_internal.h"

// Runs on the second thread: fills the slots in turn, each slot as soon as the caller has released
// it.
static void *make_items(void *ctx)
{
    struct qkv_prefetch *p = ctx;
    for (int slot = 1; !atomic_load(&p->stop); slot = !slot) {
        pthread_mutex_lock(&p->lock);
        while (p->full[slot] && !atomic_load(&p->stop)) pthread_cond_wait(&p->changed, &p->lock);
        pthread_mutex_unlock(&p->lock);
        if (atomic_load(&p->stop)) break;
        const bool more = p->make(p->ctx, slot);
        pthread_mutex_lock(&p->lock);
        p->full[slot] = true;
        if (!more) p->last = slot;
        pthread_cond_signal(&p->changed);
        pthread_mutex_unlock(&p->lock);
        if (!more) break;
    }
    return NULL;
}

void qkv_prefetch_begin(struct qkv_prefetch *p, bool (*make)(void *ctx, int slot), void *ctx)
{
    *p = (struct qkv_prefetch){ .make = make, .ctx = ctx, .slot = -1, .last = -1 };
    atomic_init(&p->stop, false);
}

// Makes the first item on the caller's thread, because a single item needs no second thread.
static int make_first(struct qkv_prefetch *p)
{
    if (!p->make(p->ctx, 0)) {
        p->last = 0;
        return 0;
    }
    if (!qkv_threads_second() || pthread_mutex_init(&p->lock, NULL) != 0) return 0;
    if (pthread_cond_init(&p->changed, NULL) == 0) {
        p->full[0] = true;
        p->threaded = qkv_thread_start(&p->thread, make_items, p);
        if (p->threaded) return 0;
        pthread_cond_destroy(&p->changed);
    }
    pthread_mutex_destroy(&p->lock);
    return 0;
}

int qkv_prefetch_next(struct qkv_prefetch *p)
{
    if (p->slot < 0) return p->slot = make_first(p);
    const int slot = !p->slot;
    if (!p->threaded) {
        if (p->last >= 0) return -1;
        if (!p->make(p->ctx, slot)) p->last = slot;
        return p->slot = slot;
    }
    pthread_mutex_lock(&p->lock);
    const bool end = p->last == p->slot;
    if (!end) {
        p->full[p->slot] = false;
        pthread_cond_signal(&p->changed);
        while (!p->full[slot]) pthread_cond_wait(&p->changed, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return end ? -1 : (p->slot = slot);
}

bool qkv_prefetch_stopped(struct qkv_prefetch *p)
{
    return atomic_load_explicit(&p->stop, memory_order_relaxed);
}

void qkv_prefetch_end(struct qkv_prefetch *p)
{
    if (!p->threaded) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->stop, true);
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    p->threaded = false;
}
