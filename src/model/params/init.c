// SPDX-License-Identifier: MIT
// init.c: sets the initial values of parameters, most of them at random (docs/training.md).
//
// Number i of parameter p is a function of (seed, p, i) only: a Philox word, which the method of
// Box and Muller (1958) converts to a normal distribution. So it depends neither on the number of
// threads nor on other parameters.
#include "model/params/trainable.h"
#include <math.h>

enum { PIECE = 1 << 14 }; // numbers that one task of a parallel loop sets; a multiple of 4

enum law { LAW_ZERO = 0, LAW_ONE, LAW_NORMAL, LAW_UNIFORM };
struct draw {
    real *value;
    int64_t count;
    enum law law;
    double spread; // NORMAL: standard deviation; UNIFORM: -spread .. spread
    uint64_t seed, site;
};

// Sets the distribution of a row according to the initialization scheme of the architecture.
static void resolve_law(struct draw *to, const qkv_net *n, const struct qkv_parameter_row *row)
{
    const bool xavier = n->scheme == QKV_SCHEME_XAVIER;
    to->law = LAW_NORMAL;
    to->spread = n->spread;
    switch (row->init) {
    case QKV_INIT_ZERO: to->law = LAW_ZERO; break;
    case QKV_INIT_ONE: to->law = LAW_ONE; break;
    case QKV_INIT_UNIFORM: to->law = LAW_UNIFORM; // fall through
    case QKV_INIT_NORMAL: to->spread = row->spread; break;
    case QKV_INIT_TABLE:
        if (xavier) to->spread = 1 / sqrt((double)n->is.size.width);
        break;
    case QKV_INIT_MATRIX:
    case QKV_INIT_BRANCH:
        if (xavier) {
            to->law = LAW_UNIFORM;
            to->spread = (row->spread > 0 ? row->spread : 1) *
                         sqrt(6.0 / (double)(row->rows + row->columns));
        } else if (n->scheme == QKV_SCHEME_RESIDUAL && row->init == QKV_INIT_BRANCH) {
            to->spread /= sqrt(2 * (double)n->is.size.layers);
        }
    }
}

// Converts four random words to four numbers of the distribution j->law.
static void draw_four(double out[4], const uint32_t word[4], const struct draw *j)
{
    const double whole = 0x1p-32, turn = 6.283185307179586476925;
    for (int k = 0; k < 4; k += 2) {
        if (j->law == LAW_UNIFORM) {
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

static void draw_piece(void *ctx, int64_t p, int thread)
{
    const struct draw *j = ctx;
    (void)thread;
    for (int64_t i = p * PIECE; i < j->count && i < (p + 1) * PIECE; i += 4) {
        double some[4] = { 0, 0, 0, 0 };
        uint32_t word[4];
        if (j->law == LAW_ONE) some[0] = some[1] = some[2] = some[3] = 1;
        if (j->law == LAW_NORMAL || j->law == LAW_UNIFORM) {
            qkv_philox(word, j->seed, j->site, (uint64_t)(i / 4));
            draw_four(some, word, j);
        }
        for (int64_t k = 0; k < 4 && i + k < j->count; k++) j->value[i + k] = (real)some[k];
    }
}

void qkv_net_initialize(qkv_net *n, uint64_t seed, bool missing_only)
{
    for (int64_t i = 0; i < n->parameters; i++) {
        const struct qkv_parameter *p = &n->parameter[i];
        const int64_t pad = n->row[i].zero_pad ? n->is.size.pad : -1;
        if (missing_only && !n->slot[i].missing) continue;
        // The top bit of `site` distinguishes these random streams from the streams of dropout, in
        // which the training step is in the upper bits.
        struct draw j = { .value = p->value,
                          .count = p->count,
                          .seed = seed,
                          .site = (uint64_t)1 << 63 | (uint64_t)i };
        resolve_law(&j, n, &n->row[i]);
        qkv_parallel_for(qkv_ceil_div(p->count, PIECE), draw_piece, &j);
        if (pad >= 0 && pad < p->shape[0])
            for (int64_t k = 0; k < p->shape[1]; k++) p->value[pad * p->shape[1] + k] = 0;
    }
}
