// SPDX-License-Identifier: MIT
// thread_ranks.h: ranks that are threads of the test, with mailboxes in memory. It also counts the
// bytes that each rank sends to others, and lets messages fail: for want of memory, or since the
// connection of one rank breaks.
#ifndef QKV_THREAD_RANKS_H
#define QKV_THREAD_RANKS_H
#include "check.h"
#include <pthread.h>
#include <qkv/ranks.h>

enum { RANKS_MOST = 8 };
struct letter {
    struct letter *next;
    size_t n;
    char data[];
};
struct world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct letter *first[RANKS_MOST][RANKS_MOST]; // [to][from]
    size_t sent[RANKS_MOST];
    qkv_status failed; // of any rank
};
// The message of each rank, counted from 1, for which it has no memory; 0: none.
static int64_t no_memory_for[RANKS_MOST];
// The message of each rank, sent or received and counted from 1, that returns an error on this
// rank, of which the transport tells the others nothing; 0: none. broke: whether there was one.
static int64_t breaks_at[RANKS_MOST];
static bool broke[RANKS_MOST];
struct thread_rank {
    int64_t messages, moved; // that this rank has sent; and received
    struct world *world;
    struct qkv_comm comm;
    void (*body)(const struct qkv_comm *comm, void *ctx);
    void *user;
};

static void thread_fail(void *ctx, qkv_status status)
{
    struct world *w = ((struct thread_rank *)ctx)->world;
    pthread_mutex_lock(&w->lock);
    if (!w->failed) w->failed = status;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static bool breaks(struct thread_rank *r)
{
    if (++r->moved != breaks_at[r->comm.rank]) return false;
    return broke[r->comm.rank] = true;
}

static qkv_status thread_send(void *ctx, int64_t to, const void *data, size_t n)
{
    struct thread_rank *r = ctx;
    struct world *w = r->world;
    if (breaks(r)) return QKV_ERR_IO;
    const bool fails = ++r->messages == no_memory_for[r->comm.rank];
    struct letter *x = fails ? NULL : malloc(sizeof *x + n), **end;
    if (!x) {
        thread_fail(ctx, QKV_ERR_LIMIT);
        return QKV_ERR_LIMIT;
    }
    x->next = NULL;
    x->n = n;
    memcpy(x->data, data, n);
    pthread_mutex_lock(&w->lock);
    for (end = &w->first[to][r->comm.rank]; *end; end = &(*end)->next) {
    }
    *end = x;
    if (to != r->comm.rank) w->sent[r->comm.rank] += n;
    const qkv_status status = w->failed;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    return status;
}

static qkv_status thread_receive(void *ctx, int64_t from, void *data, size_t n)
{
    struct thread_rank *r = ctx;
    struct world *w = r->world;
    struct letter **box = &w->first[r->comm.rank][from];
    if (breaks(r)) return QKV_ERR_IO;
    pthread_mutex_lock(&w->lock);
    while (!*box && !w->failed) pthread_cond_wait(&w->changed, &w->lock);
    const qkv_status failed = w->failed;
    struct letter *x = *box;
    if (failed) {
        pthread_mutex_unlock(&w->lock);
        return failed;
    }
    *box = x->next;
    pthread_mutex_unlock(&w->lock);
    const bool fits = x->n == n;
    if (fits) memcpy(data, x->data, n);
    free(x);
    return fits ? QKV_OK : QKV_ERR_INTERNAL;
}

static qkv_status thread_gather(void *ctx, void *all, const size_t *at, const size_t *n)
{
    const struct thread_rank *r = ctx;
    qkv_status status = QKV_OK;
    for (int64_t to = 0; to < r->comm.size && !status; to++)
        if (to != r->comm.rank)
            status = thread_send(ctx, to, (char *)all + at[r->comm.rank], n[r->comm.rank]);
    for (int64_t from = 0; from < r->comm.size && !status; from++)
        if (from != r->comm.rank)
            status = thread_receive(ctx, from, (char *)all + at[from], n[from]);
    return status;
}

static qkv_status thread_reduce(void *ctx, int64_t *x, size_t n)
{
    const struct thread_rank *r = ctx;
    const size_t sent = r->world->sent[r->comm.rank];
    int64_t other[8];
    qkv_status status = n > 8 ? QKV_ERR_INTERNAL : QKV_OK;
    for (int64_t to = 0; to < r->comm.size && !status; to++)
        if (to != r->comm.rank) status = thread_send(ctx, to, x, n * sizeof *x);
    for (int64_t from = 0; from < r->comm.size && !status; from++) {
        if (from == r->comm.rank) continue;
        status = thread_receive(ctx, from, other, n * sizeof *x);
        for (size_t i = 0; i < n && !status; i++) x[i] = x[i] > other[i] ? x[i] : other[i];
    }
    r->world->sent[r->comm.rank] = sent; // agreement is not counted
    return status;
}

static qkv_status thread_barrier(void *ctx)
{
    int64_t none = 0;
    return thread_reduce(ctx, &none, 1);
}

static void *thread_begin(void *ctx)
{
    struct thread_rank *r = ctx;
    r->body(&r->comm, r->user);
    return NULL;
}

// Runs body(comm, user[rank]) on `size` ranks at once, and writes the bytes that each sent.
static void run_ranks(int64_t size, void (*body)(const struct qkv_comm *comm, void *ctx),
                      void *const *user, size_t *sent)
{
    struct world w = { .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };
    struct thread_rank rank[RANKS_MOST];
    pthread_t thread[RANKS_MOST];
    for (int64_t i = 0; i < size; i++) {
        rank[i] = (struct thread_rank){ .world = &w,
                                        .comm = { .rank = i,
                                                  .size = size,
                                                  .ctx = &rank[i],
                                                  .send = thread_send,
                                                  .receive = thread_receive,
                                                  .gather = thread_gather,
                                                  .reduce = thread_reduce,
                                                  .barrier = thread_barrier,
                                                  .fail = thread_fail },
                                        .body = body,
                                        .user = user[i] };
        CHECK_EQ(pthread_create(&thread[i], NULL, thread_begin, &rank[i]), 0);
    }
    for (int64_t i = 0; i < size; i++) pthread_join(thread[i], NULL);
    for (int64_t i = 0; i < size; i++)
        for (int64_t j = 0; j < size; j++) {
            CHECK(!w.first[i][j] || w.failed); // every message was received
            for (struct letter *x = w.first[i][j], *next; x; x = next) {
                next = x->next;
                free(x);
            }
        }
    if (sent) memcpy(sent, w.sent, (size_t)size * sizeof *sent);
}

// Runs the ranks once for each message of each rank, or for one of `every` (in slow builds for
// fewer), which breaks the connection of this rank. check(rank, user) checks the results.
static inline void break_each(int64_t size, int64_t every,
                              void (*body)(const struct qkv_comm *comm, void *ctx),
                              void *const *user, void (*check)(int64_t rank, void *const *user))
{
    for (int64_t rank = 0; rank < size; rank++)
        for (int64_t n = 1;; n += QKV_FEW ? 7 * every : every) {
            breaks_at[rank] = n;
            broke[rank] = false;
            run_ranks(size, body, user, NULL);
            breaks_at[rank] = 0;
            CHECK(broke[rank] || n > 1);
            if (!broke[rank]) break;
            check(rank, user);
        }
}
#endif
