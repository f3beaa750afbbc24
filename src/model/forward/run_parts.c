// SPDX-License-Identifier: MIT
// run_parts.c: divides the sequences of a run into parts, which threads run at the same time.
//
// A thread that runs the whole model on some of the sequences never waits for another one; loops
// inside the layers end with such a wait after each product. No row depends on other sequences, so
// the parts change no bit.
#include "model/forward/forward.h"

enum {
    PART_ROWS = 512,  // of a part, if there are enough rows
    PART_LEAST = 192, // with fewer rows products are slower
    PARTS_THREAD = 4  // most parts per thread
};

struct part {
    int64_t first, sequences; // the sequences first .. first + sequences - 1
    int64_t *offsets;         // [sequences + 1], from 0
    qkv_status status;
    qkv_error err;
};

struct parts {
    const struct qkv_model *m;
    const struct qkv_model_input *in;
    float *hidden;
    int64_t n;
    struct part *part;
};

static int64_t rows_of(const struct qkv_model_input *in, int64_t i)
{
    return in->lengths ? in->lengths[i] : in->offsets[i + 1] - in->offsets[i];
}

// Divides the sequences into p->n consecutive parts of about equal numbers of rows, of all rows.
// Returns the rows of the largest part.
static int64_t divide(struct parts *p, int64_t all)
{
    int64_t i = 0, rows = 0, most = 0;
    for (int64_t k = 0; k < p->n; k++) {
        // at the boundary that is nearest to the equal share
        const int64_t begin = rows, end = (k + 1) * all / p->n;
        p->part[k].first = i;
        while (i < p->in->sequences && (k + 1 == p->n || rows + rows_of(p->in, i) / 2 < end))
            rows += rows_of(p->in, i++);
        p->part[k].sequences = i - p->part[k].first;
        most = qkv_max64(most, rows - begin);
    }
    return most;
}

static void run_part(void *ctx, int64_t i, int thread)
{
    const struct parts *p = ctx;
    struct part *part = &p->part[i];
    const struct qkv_model_input *in = p->in;
    const int64_t row = in->offsets[part->first];
    struct qkv_model_input some = { .sequences = part->sequences,
                                    .offsets = part->offsets,
                                    .lengths = in->lengths ? in->lengths + part->first : NULL,
                                    .ids = in->ids ? in->ids + row : NULL,
                                    .types = in->types ? in->types + row : NULL };
    (void)thread;
    for (int64_t s = 0; s <= part->sequences; s++)
        part->offsets[s] = in->offsets[part->first + s] - row;
    if (part->sequences)
        part->status =
            qkv_model_run(p->m, p->hidden + row * p->m->is.size.width, &some, NULL, &part->err);
}

// Returns the number of parts of a run with so many rows; 1: threads share the loops inside the
// layers.
static int64_t count_parts(const struct qkv_run *u, const struct qkv_model_input *in, int64_t all)
{
    const int64_t threads = qkv_threads();
    if (threads < 2 || u->sides > 1 || u->observer || u->options || !u->hidden) return 1;
    if (in->sequences < threads || all < threads * PART_LEAST) return 1;
    const int64_t each = qkv_min64(all / (threads * PART_ROWS), PARTS_THREAD);
    return qkv_min64(threads * qkv_max64(each, 1), in->sequences);
}

bool qkv_run_parts(qkv_status *status, const struct qkv_run *u, const struct qkv_model_input *in,
                   qkv_error *err)
{
    int64_t all = 0;
    for (int64_t i = 0; i < in->sequences; i++) all += rows_of(in, i);
    struct parts p = { .m = u->m, .in = in, .hidden = u->hidden, .n = count_parts(u, in, all) };
    if (p.n < 2) return false;
    p.part = qkv_alloc_zero((size_t)p.n, sizeof *p.part);
    int64_t *offsets = qkv_alloc((size_t)(in->sequences + p.n), sizeof *offsets);
    // a part that is much larger than the others would keep its thread busy alone
    const bool even = p.part && offsets && divide(&p, all) <= all / qkv_threads() * 9 / 8;
    // all threads pack the weights together, before each of them needs all
    if (even && !qkv_model_pack((struct qkv_model *)(uintptr_t)u->m, QKV_PACK_BODY)) {
        for (int64_t i = 0, at = 0; i < p.n; at += p.part[i++].sequences + 1)
            p.part[i].offsets = offsets + at;
        qkv_parallel_for(p.n, run_part, &p);
        *status = QKV_OK;
        for (int64_t i = p.n - 1; i >= 0; i--)
            if (p.part[i].status) {
                *status = p.part[i].status;
                if (err) *err = p.part[i].err;
            }
    } else
        p.n = 1; // without memory for parts the whole run may still succeed
    qkv_free(offsets);
    qkv_free(p.part);
    return p.n > 1;
}
