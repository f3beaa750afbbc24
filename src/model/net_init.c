// SPDX-License-Identifier: MIT
// net_init.c: the numbers that weights begin with.
//
// Number i of weight p is a function of (seed, p, i) alone: Philox words, by Box and Muller (1958)
// for the normal distribution; so neither threads nor what else is in the model show in them.
#include "model/net_parts.h"
#include <math.h>

enum { PIECE = 1 << 14 }; // numbers a task, a multiple of 4

struct job {
    real *value;
    int64_t count;
    enum qkv_begin begin;
    double spread;
    uint64_t seed, site;
};

// Four numbers from four words.
static void four(double out[4], const uint32_t word[4], const struct job *j)
{
    const double whole = 0x1p-32, turn = 6.283185307179586476925;
    for (int k = 0; k < 4; k += 2) {
        if (j->begin == QKV_BEGIN_UNIFORM) {
            out[k] = j->spread * (2 * (((double)word[k] + .5) * whole) - 1);
            out[k + 1] = j->spread * (2 * (((double)word[k + 1] + .5) * whole) - 1);
            continue;
        }
        const double radius = j->spread * sqrt(-2 * log(((double)word[k] + .5) * whole));
        const double angle = turn * ((double)word[k + 1] * whole);
        out[k] = radius * cos(angle);
        out[k + 1] = radius * sin(angle);
    }
}

static void piece(void *ctx, int64_t p, int thread)
{
    const struct job *j = ctx;
    (void)thread;
    for (int64_t i = p * PIECE; i < j->count && i < (p + 1) * PIECE; i += 4) {
        double some[4] = { 0, 0, 0, 0 };
        uint32_t word[4];
        if (j->begin == QKV_BEGIN_ONE) some[0] = some[1] = some[2] = some[3] = 1;
        if (j->begin == QKV_BEGIN_NORMAL || j->begin == QKV_BEGIN_UNIFORM) {
            qkv_philox(word, j->seed, j->site, (uint64_t)(i / 4));
            four(some, word, j);
        }
        for (int64_t k = 0; k < 4 && i + k < j->count; k++) j->value[i + k] = (real)some[k];
    }
}

void qkv_net_begin(qkv_net *n, uint64_t seed, bool missing_only)
{
    for (int64_t i = 0; i < n->parameters; i++) {
        const struct qkv_parameter *p = &n->parameter[i];
        const struct qkv_net_slot *slot = &n->slot[i];
        if (missing_only && !slot->missing) continue;
        // Sites of weights are apart from those of dropout, which count steps from 0.
        struct job j = { .value = p->value,
                         .count = p->count,
                         .begin = slot->begin,
                         .spread = slot->spread,
                         .seed = seed,
                         .site = (uint64_t)1 << 63 | (uint64_t)i };
        qkv_parallel_for(qkv_ceil_div(p->count, PIECE), piece, &j);
        if (slot->zero_row > 0 && slot->zero_row <= p->shape[0])
            for (int64_t k = 0; k < p->shape[1]; k++)
                p->value[(slot->zero_row - 1) * p->shape[1] + k] = 0;
    }
}
