// SPDX-License-Identifier: MIT
// machines_messages.c: the functions of the ranks, which `qkv bench machines` times, leaves out, or
// repeats without the arithmetic between them.
#include "bench/machines.h"
#include "ranks/ranks.h"
#include <stdlib.h>
#include <string.h>

enum kind { SEND, RECEIVE, GATHER, REDUCE };

// A message of this rank. gather: places and sizes of the parts of all ranks.
struct message {
    enum kind kind;
    int64_t other; // the rank that it is for or from
    size_t n;      // bytes, or numbers of a reduction
    size_t *parts; // gather: [2 size] at, n
};
static struct {
    enum machines_mode mode;
    double seconds;
    struct message *list;
    size_t n, capacity, most; // most: bytes of the largest message
} messages;

// Adds a message to the list.
static struct message *record(enum kind kind, int64_t other, size_t n, size_t bytes)
{
    if (messages.n == messages.capacity) {
        messages.capacity = messages.capacity ? 2 * messages.capacity : 256;
        messages.list = cmd_grow(messages.list, messages.capacity, sizeof *messages.list);
    }
    if (bytes > messages.most) messages.most = bytes;
    messages.list[messages.n] = (struct message){ .kind = kind, .other = other, .n = n };
    return &messages.list[messages.n++];
}

static qkv_status end(double begin, qkv_status status)
{
    messages.seconds += bench_now() - begin;
    return status;
}

static qkv_status send_one(void *ctx, int64_t to, const void *data, size_t n)
{
    (void)ctx;
    if (messages.mode == MACHINES_LEFT_OUT) return QKV_OK;
    if (messages.mode == MACHINES_RECORDED) record(SEND, to, n, n);
    const double begin = bench_now();
    return end(begin, ranks.send(ranks.ctx, to, data, n));
}

static qkv_status receive_one(void *ctx, int64_t from, void *data, size_t n)
{
    (void)ctx;
    if (messages.mode == MACHINES_LEFT_OUT) return QKV_OK;
    if (messages.mode == MACHINES_RECORDED) record(RECEIVE, from, n, n);
    const double begin = bench_now();
    return end(begin, ranks.receive(ranks.ctx, from, data, n));
}

static qkv_status gather_all(void *ctx, void *all, const size_t *at, const size_t *n)
{
    (void)ctx;
    if (messages.mode == MACHINES_LEFT_OUT) return QKV_OK;
    if (messages.mode == MACHINES_RECORDED) {
        const size_t size = (size_t)ranks.size, bytes = size * sizeof *at;
        size_t most = 0;
        for (size_t r = 0; r < size; r++)
            if (at[r] + n[r] > most) most = at[r] + n[r];
        struct message *x = record(GATHER, 0, most, most);
        x->parts = cmd_alloc(2 * size, sizeof *x->parts);
        memcpy(x->parts, at, bytes);
        memcpy(x->parts + size, n, bytes);
    }
    const double begin = bench_now();
    return end(begin, ranks.gather(ranks.ctx, all, at, n));
}

static qkv_status reduce_all(void *ctx, int64_t *x, size_t n)
{
    (void)ctx;
    if (messages.mode == MACHINES_LEFT_OUT) return QKV_OK;
    if (messages.mode == MACHINES_RECORDED) record(REDUCE, 0, n, n * sizeof *x);
    const double begin = bench_now();
    return end(begin, ranks.reduce(ranks.ctx, x, n));
}

struct qkv_comm machines_comm(size_t collect_limit)
{
    struct qkv_comm c = ranks;
    c.ctx = NULL;
    c.send = send_one;
    c.receive = receive_one;
    c.gather = gather_all;
    c.reduce = reduce_all;
    c.collect_limit = collect_limit;
    return c;
}

void machines_messages_begin(enum machines_mode mode)
{
    if (mode == MACHINES_RECORDED) machines_messages_free();
    messages.mode = mode;
    messages.seconds = 0;
}

double machines_messages_seconds(void)
{
    return messages.seconds;
}

// Repeats one message with other data.
static qkv_status repeat(const struct message *x, char *out, char *in)
{
    switch (x->kind) {
    case SEND: return ranks.send(ranks.ctx, x->other, out, x->n);
    case RECEIVE: return ranks.receive(ranks.ctx, x->other, in, x->n);
    case GATHER: return ranks.gather(ranks.ctx, in, x->parts, x->parts + ranks.size);
    default: return ranks.reduce(ranks.ctx, (int64_t *)(void *)in, x->n);
    }
}

qkv_status machines_messages_repeat(double *seconds)
{
    char *out = cmd_alloc(messages.most + 64, 1), *in = cmd_alloc(messages.most + 64, 1);
    qkv_status status = ranks.size > 1 ? ranks.barrier(ranks.ctx) : QKV_OK;
    memset(out, 0, messages.most + 64);
    memset(in, 0, messages.most + 64);
    const double begin = bench_now();
    for (size_t i = 0; i < messages.n && !status; i++) status = repeat(&messages.list[i], out, in);
    *seconds = bench_now() - begin;
    free(out);
    free(in);
    return status;
}

void machines_messages_free(void)
{
    for (size_t i = 0; i < messages.n; i++) free(messages.list[i].parts);
    free(messages.list);
    messages.list = NULL;
    messages.n = messages.capacity = messages.most = 0;
}
