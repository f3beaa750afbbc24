// SPDX-License-Identifier: MIT
// ahead.c: pieces of work made one ahead on a thread of their own, while the caller uses the last.
//
// Two slots: while the caller holds one, the other is filled; so memory is that of two pieces.
// Pieces come in the order in which a single thread would make them, and nothing that is made
// depends on which thread did.
#include "task/task.h"

// Fills slots in turn, each as soon as the caller has left it.
static void *make_all(void *ctx)
{
    struct qkv_ahead *a = ctx;
    for (int slot = 1; !atomic_load(&a->stop); slot = !slot) {
        pthread_mutex_lock(&a->lock);
        while (a->full[slot] && !atomic_load(&a->stop)) pthread_cond_wait(&a->changed, &a->lock);
        pthread_mutex_unlock(&a->lock);
        if (atomic_load(&a->stop)) break;
        const bool more = a->make(a->ctx, slot);
        pthread_mutex_lock(&a->lock);
        a->full[slot] = true;
        if (!more) a->last = slot;
        pthread_cond_signal(&a->changed);
        pthread_mutex_unlock(&a->lock);
        if (!more) break;
    }
    return NULL;
}

void qkv_ahead_begin(struct qkv_ahead *a, bool (*make)(void *ctx, int slot), void *ctx)
{
    *a = (struct qkv_ahead){ .make = make, .ctx = ctx, .slot = -1, .last = -1 };
    atomic_init(&a->stop, false);
}

// The first piece is made here: where it is the only one, no thread is needed.
static int first(struct qkv_ahead *a)
{
    if (!a->make(a->ctx, 0)) {
        a->last = 0;
        return 0;
    }
    if (!qkv_threads_beside() || pthread_mutex_init(&a->lock, NULL) != 0) return 0;
    if (pthread_cond_init(&a->changed, NULL) == 0) {
        a->full[0] = true;
        a->threaded = qkv_thread_start(&a->thread, make_all, a);
        if (a->threaded) return 0;
        pthread_cond_destroy(&a->changed);
    }
    pthread_mutex_destroy(&a->lock);
    return 0;
}

int qkv_ahead_next(struct qkv_ahead *a)
{
    if (a->slot < 0) return a->slot = first(a);
    const int slot = !a->slot;
    if (!a->threaded) {
        if (a->last >= 0) return -1;
        if (!a->make(a->ctx, slot)) a->last = slot;
        return a->slot = slot;
    }
    pthread_mutex_lock(&a->lock);
    const bool end = a->last == a->slot;
    if (!end) {
        a->full[a->slot] = false;
        pthread_cond_signal(&a->changed);
        while (!a->full[slot]) pthread_cond_wait(&a->changed, &a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return end ? -1 : (a->slot = slot);
}

bool qkv_ahead_stopped(struct qkv_ahead *a)
{
    return atomic_load_explicit(&a->stop, memory_order_relaxed);
}

void qkv_ahead_end(struct qkv_ahead *a)
{
    if (!a->threaded) return;
    pthread_mutex_lock(&a->lock);
    atomic_store(&a->stop, true);
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    pthread_join(a->thread, NULL);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    a->threaded = false;
}
