// SPDX-License-Identifier: MIT
// rope_scale.c: computes the angles of rotary positions, which some models scale to more positions
// than they were trained with.
//
// Three kinds of scaling: llama3, from the reference of Llama 3.1; yarn, Peng et al. 2023 (arXiv
// 2309.00071); longrope, Ding et al. 2024 (arXiv 2402.13753). They agree with modeling_rope_utils of
// transformers, which takes the long factors of longrope for a whole batch; here each sequence has
// the factors of its own length.
#include "model/position/position.h"
#include <math.h>

static const double turn = 6.283185307179586; // 2 pi

int64_t qkv_rope_pairs(const struct qkv_description *d)
{
    const int64_t E = qkv_head_keys(d);
    return d->rotated > 0 ? (int64_t)((double)E * d->rotated) / 2 : E / 2;
}

// Returns the (fractional) index of the pair of dimensions that makes `turns` full rotations within
// `original`, the number of positions with which the model was trained.
static double pair_of(double turns, int64_t pairs, double theta, int64_t original)
{
    return (double)pairs * log((double)original / (turns * turn)) / log(theta);
}

static void yarn(double *step, int64_t pairs, double theta, const struct qkv_rope_scaling *r)
{
    double low = pair_of(r->high, pairs, theta, r->original);
    double high = pair_of(r->low, pairs, theta, r->original);
    if (r->whole) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)(2 * pairs - 1));
    // With few original positions high is below low, even below 0: then every slow is 0, as in the
    // reference.
    if (high == low) high += .001;
    for (int64_t i = 0; i < pairs; i++) {
        const double slow = fmin(fmax(((double)i - low) / (high - low), 0), 1);
        step[i] = step[i] / r->factor * slow + step[i] * (1 - slow);
    }
}

static void llama3(double *step, int64_t pairs, const struct qkv_rope_scaling *r)
{
    const double original = (double)r->original;
    for (int64_t i = 0; i < pairs; i++) {
        const double wave = turn / step[i], slow = step[i] / r->factor;
        if (wave > original / r->low) {
            step[i] = slow;
        } else if (wave >= original / r->high) {
            const double fast = (original / wave - r->low) / (r->high - r->low);
            step[i] = (1 - fast) * slow + fast * step[i];
        }
    }
}

// Writes to step[] the angle per position of each rotated pair, for the base of local or of other
// layers, scaled as the description requires. longer: QKV_ROPE_LONG has the factors of sequences of
// more than `original` tokens. Returns the factor of cosines and sines.
static double scaled_steps(double *step, const struct qkv_description *d, bool local, bool longer)
{
    const int64_t pairs = qkv_rope_pairs(d);
    const double theta = local ? d->theta_local : d->theta, base = theta > 0 ? theta : 10000;
    qkv_rope_steps(step, pairs, base);
    if (local && d->rope_local_plain) return 1;
    switch (d->rope.kind) {
    case QKV_ROPE_PLAIN: break;
    case QKV_ROPE_LONG:
        for (int64_t i = 0; i < pairs; i++) step[i] /= d->rope.lengths[longer][i];
        break;
    case QKV_ROPE_LINEAR:
        for (int64_t i = 0; i < pairs; i++) step[i] /= d->rope.factor;
        break;
    case QKV_ROPE_LLAMA3: llama3(step, pairs, &d->rope); break;
    case QKV_ROPE_YARN: yarn(step, pairs, base, &d->rope); break;
    }
    return d->rope.attention > 0 ? d->rope.attention : 1;
}

bool qkv_rope_turns(real *table, int64_t rows, const struct qkv_description *d, bool local)
{
    const int64_t pairs = qkv_rope_pairs(d);
    double *step = qkv_alloc((size_t)pairs, sizeof *step);
    if (!step) return false;
    int64_t first = rows; // rows of the first table; with QKV_ROPE_LONG another one may follow
    if (d->rope.kind == QKV_ROPE_LONG) first = qkv_min64(rows, d->rope.original);
    double gain = scaled_steps(step, d, local, false);
    qkv_rope_table_of(table, first, pairs, step, gain);
    if (first < rows) {
        gain = scaled_steps(step, d, local, true);
        qkv_rope_table_of(table + first * 2 * pairs, rows - first, pairs, step, gain);
    }
    qkv_free(step);
    return true;
}
