// SPDX-License-Identifier: MIT
// test_ranks.c: attention over ranks has the bits of one call, for any number of ranks and any
// features, and sends the bytes that the plan says.
#include "layer/attention/attention_back_case.h"
#include "thread_ranks.h"

static const int64_t sizes[] = { 1, 2, 3, 4, 7 };

// The arrays of one rank.
struct job {
    struct qkv_attention a;
    struct qkv_attention_gradients g;
    bool backward;
    size_t limit; // collect_limit
    char *q, *k, *v, *out, *dout, *dq, *dk, *dv;
    float *lse, *bias;
    uint8_t *mask;
    struct qkv_ranks_plan plan;
    qkv_status status;
};
// The arrays of the whole call in the type of the precision.
struct stored {
    char *q, *k, *v, *out, *dout, *dq, *dk, *dv;
};

static size_t unit(void)
{
    return qkv_dtype_size(case_family()->type);
}

// Copies the rows of a rank out of an array [B][n][W bytes], or into it.
static void copy_rows(char *part, char *whole, const struct qkv_rank_rows *r, int64_t B, int64_t n,
                      size_t W, bool into)
{
    for (int64_t b = 0; b < B; b++)
        for (int i = 0; i < 2; i++) {
            char *here = part + (size_t)(b * r->all + (i ? r->n[0] : 0)) * W;
            char *there = whole + (size_t)(b * n + r->first[i]) * W;
            memcpy(into ? there : here, into ? here : there, (size_t)r->n[i] * W);
        }
}

static char *take(char *whole, const struct qkv_rank_rows *r, int64_t B, int64_t n, size_t W)
{
    char *part = fenced((size_t)(B * r->all) * W + 16);
    if (whole) copy_rows(part, whole, r, B, n, W, false);
    return part;
}

static void body(const struct qkv_comm *comm, void *ctx)
{
    struct job *j = ctx;
    struct qkv_comm limited = *comm;
    void *scratch = NULL;
    limited.collect_limit = j->limit;
    j->plan = j->backward ? qkv_ranks_backward_plan(&j->a, &j->g, &limited)
                          : qkv_ranks_plan(&j->a, &limited);
    if (!j->plan.status && posix_memalign(&scratch, 64, j->plan.scratch + 64)) abort();
    if (scratch) memset(scratch, 0xff, j->plan.scratch);
    j->status = j->backward
                    ? qkv_ranks_backward(j->dq, j->dk, j->dv, &j->g, j->dout, j->q, j->k, j->v,
                                         j->out, j->lse, &j->a, &limited, scratch)
                    : qkv_ranks_forward(j->out, j->lse, j->q, j->k, j->v, &j->a, &limited, scratch);
    free(scratch);
}

// Gives rank r of P its rows of bias or mask, with the strides b, h, t.
static void take_mask(struct job *j, const struct qkv_attention *a, const struct qkv_rank_rows *r)
{
    const int64_t n = a->B * a->H * r->all * a->S;
    const bool columns = a->bias.at && !a->bias.t; // all ranks have the whole bias
    if (a->bias.at && !columns) j->bias = fenced((size_t)n * sizeof(float) + 16);
    if (a->mask.at) j->mask = fenced((size_t)n + 16);
    for (int64_t row = 0; row < a->B * a->H * r->all; row++) {
        const int64_t b = row / r->all / a->H, h = row / r->all % a->H, t = row % r->all;
        const int64_t from = t < r->n[0] ? r->first[0] + t : r->first[1] + t - r->n[0];
        if (j->bias)
            memcpy(j->bias + row * a->S,
                   a->bias.at + b * a->bias.b + h * a->bias.h + from * a->bias.t,
                   (size_t)a->S * sizeof(float));
        if (j->mask)
            memcpy(j->mask + row * a->S,
                   a->mask.at + b * a->mask.b + h * a->mask.h + from * a->mask.t, (size_t)a->S);
    }
    j->a.mask.at = j->mask;
    j->a.mask.t = a->S;
    j->a.mask.h = qkv_max64(r->all, 1) * a->S; // the axis is there also without rows
    j->a.mask.b = a->H * j->a.mask.h;
    if (columns) return;
    j->a.bias.at = j->bias;
    j->a.bias.t = j->a.mask.t;
    j->a.bias.h = j->a.mask.h;
    j->a.bias.b = j->a.mask.b;
}

// The gradient of bias before a call, which adds to it.
static float bias_before(size_t i)
{
    return (float)(i % 7) * 0.25f;
}

static struct job job_of(const struct back_problem *x, const struct stored *s, int64_t rank,
                         int64_t size, bool backward)
{
    const struct qkv_attention *a = &x->p.a;
    struct job j = { .a = *a, .backward = backward };
    const struct qkv_rank_rows rows = qkv_rank_rows(a, false, rank, size);
    const struct qkv_rank_rows keys = qkv_rank_rows(a, true, rank, size);
    const size_t q = (size_t)(a->H * a->E) * unit(), o = (size_t)(a->H * a->F) * unit();
    const size_t k = (size_t)(a->G * a->E) * unit(), v = (size_t)(a->G * a->F) * unit();
    j.q = take(s->q, &rows, a->B, a->T, q);
    j.k = take(s->k, &keys, a->B, a->S, k);
    j.v = take(s->v, &keys, a->B, a->S, v);
    j.out = take(backward ? s->out : NULL, &rows, a->B, a->T, o);
    j.lse = (float *)(void *)take(backward ? (char *)x->p.lse : NULL, &rows, a->B * a->H, a->T,
                                  sizeof(float));
    take_mask(&j, a, &rows);
    if (!backward) return j;
    j.dout = take(s->dout, &rows, a->B, a->T, o);
    j.dq = take(NULL, &rows, a->B, a->T, q);
    j.dk = take(NULL, &keys, a->B, a->S, k);
    j.dv = take(NULL, &keys, a->B, a->S, v);
    const size_t H = (size_t)a->H;
    if (x->tables.bias) {
        const size_t n = a->bias.t ? (size_t)(a->B * a->H * rows.all * a->S) : x->bias_n;
        j.g.bias.at = fenced(n * sizeof(float) + 16);
        for (size_t i = 0; i < n; i++) j.g.bias.at[i] = bias_before(i);
    }
    if (x->tables.relative) j.g.relative = memset(fenced(x->relative_n * 4), 0, x->relative_n * 4);
    if (x->tables.alibi) j.g.alibi = memset(fenced(H * 4), 0, H * 4);
    if (x->tables.sinks) j.g.sinks = memset(fenced(H * 4), 0, H * 4);
    return j;
}

static struct stored store(const struct back_problem *x)
{
    return (struct stored){ .q = case_stored(x->p.q, x->p.q_n),
                            .k = case_stored(x->p.k, x->p.k_n),
                            .v = case_stored(x->p.v, x->p.v_n) };
}

static void run_jobs(struct job *job, int64_t size)
{
    void *user[RANKS_MOST] = { NULL };
    size_t sent[RANKS_MOST];
    for (int64_t r = 0; r < size; r++) user[r] = &job[r];
    run_ranks(size, body, user, sent);
    for (int64_t r = 0; r < size; r++) {
        CHECK_EQ(job[r].status, job[0].status);
        if (job[r].plan.status)
            CHECK_EQ(job[r].plan.status, job[r].status);
        else
            CHECK_EQ(sent[r], job[r].plan.sent);
    }
}

static struct qkv_attention drawn(void)
{
    struct qkv_attention a = {
        .B = 1 + pick(3), .T = 1 + pick(150), .E = 1 + pick(40), .F = 1 + pick(40), .G = 1 + pick(2)
    };
    a.S = pick(2) ? a.T : 1 + pick(400);
    a.H = a.G * (1 + pick(3));
    return a;
}
enum { NOT_FORWARD = HEADS_FIRST | WEIGHTS, NOT_HERE = NOT_FORWARD | NO_SOFTMAX };

// Runs the forward pass on `size` ranks with a limit, and compares it with one call.
static void check_forward(const struct problem *p, const struct stored *s, int64_t size,
                          size_t limit)
{
    const struct qkv_attention *a = &p->a;
    const struct back_problem x = { .p = *p };
    const size_t all = (size_t)(a->B * a->S * a->G * (a->E + a->F)) * unit();
    const bool pipeline = limit && all > limit;
    struct job job[RANKS_MOST];
    for (int64_t r = 0; r < size; r++) {
        job[r] = job_of(&x, s, r, size, false);
        job[r].limit = limit;
    }
    run_jobs(job, size);
    char *out = fenced(p->out_n * unit()), *lse = fenced(p->lse_n * sizeof(float));
    for (int64_t r = 0; r < size; r++) {
        CHECK_EQ(job[r].status, QKV_OK);
        CHECK_EQ(job[r].plan.mode, pipeline ? QKV_RANKS_PIPELINE : QKV_RANKS_COLLECT);
        CHECK_EQ(job[r].plan.blocks > 0, pipeline && a->B);
        copy_rows(job[r].out, out, &job[r].plan.rows, a->B, a->T, (size_t)(a->H * a->F) * unit(),
                  true);
        copy_rows((char *)job[r].lse, lse, &job[r].plan.rows, a->B * a->H, a->T, sizeof(float),
                  true);
    }
    CHECK_BITS(out, s->out, p->out_n * unit());
    if (!a->no_softmax) CHECK_BITS(lse, p->lse, p->lse_n * sizeof(float));
}

TEST(rows_over_ranks_have_the_bits_of_one_call)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const int mixtures = check_mixtures(10, 3);
        for (int n = 0; n < mixtures; n++) {
            struct qkv_attention a = drawn();
            if (n % 3 == 0) a.S = 1 + pick(1500); // several blocks
            unsigned features = (unsigned)pick(FEATURES) & ~(unsigned)NOT_FORWARD;
            if (features & SINKS) features &= ~(unsigned)NO_SOFTMAX;
            struct back_problem x = { .p = case_new(a, features) };
            const int64_t size = sizes[pick(5)];
            struct stored s = store(&x);
            case_run(&x.p);
            s.out = case_stored(x.p.out, x.p.out_n);
            check_forward(&x.p, &s, size, 0);
            check_forward(&x.p, &s, size, 1);
            check_forward(&x.p, &s, size, (size_t)pick(1 << 20));
            fence_free();
        }
    }
}

static void check_same(const char *what, const void *a, const void *b, size_t n, unsigned features,
                       int64_t size)
{
    if (a && memcmp(a, b, n) != 0)
        fail_msg("%s %s %s differs, %d ranks, features %x", qkv_isa(),
                 qkv_precision_name(case_precision), what, (int)size, features);
}

static void check_backward(const struct back_problem *x, struct job *job, int64_t size,
                           const struct stored *s, unsigned features)
{
    const struct qkv_attention *a = &x->p.a;
    const size_t n = unit(), q_n = x->q_n * n, k_n = x->k_n * n, v_n = x->v_n * n;
    char *dq = fenced(q_n), *dk = fenced(k_n), *dv = fenced(v_n);
    for (int64_t r = 0; r < size; r++) {
        const struct qkv_ranks_plan *p = &job[r].plan;
        CHECK_EQ(job[r].status, QKV_OK);
        copy_rows(job[r].dq, dq, &p->rows, a->B, a->T, (size_t)(a->H * a->E) * n, true);
        copy_rows(job[r].dk, dk, &p->keys, a->B, a->S, (size_t)(a->G * a->E) * n, true);
        copy_rows(job[r].dv, dv, &p->keys, a->B, a->S, (size_t)(a->G * a->F) * n, true);
        check_same("drelative", job[r].g.relative, x->tables.relative, x->relative_n * 4, features,
                   size);
        check_same("dalibi", job[r].g.alibi, x->tables.alibi, (size_t)a->H * 4, features, size);
        check_same("dsinks", job[r].g.sinks, x->tables.sinks, (size_t)a->H * 4, features, size);
        if (!a->bias.t)
            check_same("dbias", job[r].g.bias.at, x->tables.bias, x->bias_n * 4, features, size);
    }
    check_same("dq", dq, s->dq, q_n, features, size);
    check_same("dk", dk, s->dk, k_n, features, size);
    check_same("dv", dv, s->dv, v_n, features, size);
}

// Runs the backward pass of a problem in one call and on `size` ranks. Returns whether ranks refuse
// it: gradients of tables of batch items that are not packed.
static bool run_backward(struct back_problem *x, int64_t size, unsigned features)
{
    struct job job[RANKS_MOST];
    case_run(&x->p);
    back_clear_tables(x);
    for (size_t i = 0; x->tables.bias && i < x->bias_n; i++) x->tables.bias[i] = bias_before(i);
    back_run(x);
    struct stored s = store(x);
    s.out = case_stored(x->p.out, x->p.out_n);
    s.dout = case_stored(x->dout, x->out_n);
    s.dq = case_stored(x->dq, x->q_n);
    s.dk = case_stored(x->dk, x->k_n);
    s.dv = case_stored(x->dv, x->v_n);
    for (int64_t r = 0; r < size; r++) job[r] = job_of(x, &s, r, size, true);
    run_jobs(job, size);
    const bool tables = x->tables.relative || x->tables.alibi || x->tables.sinks;
    const bool refused = job[0].status == QKV_ERR_UNSUPPORTED;
    if (refused)
        CHECK(tables && x->p.a.B > 1 && !x->p.a.sequences);
    else
        check_backward(x, job, size, &s, features);
    return refused;
}

// Runs are short: up to 150 rows on up to 7 ranks, so a block of rows has rows of several ranks.
TEST(gradients_over_ranks_have_the_bits_of_one_call)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const int mixtures = check_mixtures(16, 3);
        int done = 0;
        for (int n = 0; back_new_here(isa_n) && n < mixtures; n++) {
            const unsigned features =
                (unsigned)pick(ALL_FEATURES) & ~(unsigned)NOT_HERE & ~(unsigned)BROADCAST;
            struct back_problem x = back_new(drawn(), features);
            done += !run_backward(&x, sizes[pick(5)], features);
            fence_free();
        }
        CHECK(done || !back_new_here(isa_n));
    }
}

// Relative positions beyond the reach, ALiBi and sinks of runs that are shorter than a block.
TEST(short_runs_pass_the_gradients_of_tables)
{
    const unsigned features[] = { RELATIVE, ALIBI | CAUSAL, SINKS | ALIBI | RELATIVE | CAUSAL,
                                  PACKED | RELATIVE | ALIBI };
    EACH_PRECISION EACH(f, features) EACH(size, sizes)
    {
        if (!back_family()) continue;
        struct back_problem x = back_new(
            (struct qkv_attention){ .B = 1, .T = 120, .S = 700, .H = 4, .G = 2, .E = 8, .F = 8 },
            *f | TABLES);
        CHECK(!run_backward(&x, *size, *f | TABLES));
        fence_free();
    }
}

// The gradient of a bias that is the same for all rows, with or without axes of batch items and
// heads: sums over all rows, in the order of the rows.
TEST(gradients_of_a_bias_without_rows_have_the_bits_of_one_call)
{
    const unsigned features[] = { BIAS,
                                  BIAS | CAUSAL,
                                  BIAS | PACKED,
                                  BIAS | RELATIVE,
                                  BIAS | PACKED | SINKS | CAUSAL,
                                  BIAS | DROPOUT };
    const int64_t items[] = { 1, 3, 20 }, heads[] = { 1, 2, 20 };
    EACH_PRECISION EACH(f, features)
    {
        if (!back_family()) continue;
        for (int axes = 0; axes < 4; axes++) EACH(size, sizes)
            {
                const int64_t B = *f & PACKED ? 1 : items[pick(3)], G = heads[pick(3)];
                struct back_problem x = back_new(
                    (struct qkv_attention){
                        .B = B, .T = 60, .S = 150, .H = 2 * G, .G = G, .E = 4, .F = 4 },
                    *f | TABLES);
                struct qkv_attention *a = &x.p.a;
                a->bias.t = 0;
                a->bias.h = axes & 1 ? a->S : 0;
                a->bias.b = axes & 2 ? (a->bias.h ? a->H : 1) * a->S : 0;
                x.bias_n = bias_numbers(a);
                const bool refused = run_backward(&x, *size, *f | TABLES);
                CHECK(!refused);
                fence_free();
            }
    }
}

// The gradients of tables pass from rank to rank where runs are long; with ranks whose rows are not
// of equal work without the zigzag.
TEST(long_runs_pass_the_gradients_of_tables)
{
    const unsigned features[] = { SINKS | ALIBI | CAUSAL, RELATIVE, PACKED | CAUSAL | SINKS };
    EACH(f, features)
    {
        case_precision = QKV_PRECISION_F32;
        struct back_problem x = back_new(
            (struct qkv_attention){ .B = 1, .T = 32 * QKV_CHUNK, .S = 900, .H = 2, .G = 1, .E = 8 },
            *f | TABLES);
        enum { SIZE = 2 };
        struct job job[SIZE];
        case_run(&x.p);
        back_clear_tables(&x);
        back_run(&x);
        struct stored s = store(&x);
        s.out = (char *)x.p.out;
        s.dout = (char *)x.dout;
        s.dq = (char *)x.dq;
        s.dk = (char *)x.dk;
        s.dv = (char *)x.dv;
        for (int64_t r = 0; r < SIZE; r++) job[r] = job_of(&x, &s, r, SIZE, true);
        run_jobs(job, SIZE);
        check_backward(&x, job, SIZE, &s, *f);
        if (*f & CAUSAL && !(*f & PACKED)) {
            const struct qkv_ranks_plan *p = &job[0].plan;
            CHECK(p->all / (SIZE * p->flops) > .5);
        }
        fence_free();
    }
}

TEST(every_row_has_one_rank_and_zigzag_balances)
{
    for (int64_t size = 1; size < 9; size++)
        for (int64_t T = 0; T < 5000; T = T * 3 + 1) {
            const struct qkv_attention a = {
                .B = 1, .T = T, .S = T, .H = 4, .G = 2, .E = 16, .causal = true
            };
            int64_t seen = 0;
            for (int64_t r = 0; r < size; r++) {
                const struct qkv_rank_rows x = qkv_rank_rows(&a, false, r, size);
                seen += x.all;
                CHECK_EQ(x.all, x.n[0] + x.n[1]);
                CHECK(x.n[0] >= 0 && x.n[1] >= 0 && (!x.n[1] || x.first[1] >= x.n[0]));
            }
            CHECK_EQ(seen, T);
        }
    const struct qkv_attention a = {
        .B = 1, .T = 1 << 15, .S = 1 << 15, .H = 8, .E = 64, .causal = true
    };
#ifdef QKV_TINY_TILES // edges at multiples that are no powers of two: each moves by at most 64 rows
    const double off = 64.0 * 2 * 64 * 4 / (1 << 15);
#else
    const double off = 1e-12;
#endif
    for (int64_t size = 1; size <= 64; size *= 2)
        for (int64_t r = 0; r < size; r++) {
            const struct qkv_comm comm = { .rank = r, .size = size };
            const struct qkv_ranks_plan p = qkv_ranks_plan(&a, &comm);
            CHECK_NEAR(p.all / ((double)size * p.flops), 1, off);
        }
}

// Checks that a call, which writes its status to ctx, is refused on each of up to three ranks.
static void check_refused(int64_t size, void (*call)(const struct qkv_comm *comm, void *ctx))
{
    qkv_status status[] = { QKV_OK, QKV_OK, QKV_OK };
    void *user[] = { &status[0], &status[1], &status[2] };
    run_ranks(size, call, user, NULL);
    for (int64_t r = 0; r < size; r++) CHECK_EQ(status[r], QKV_ERR_USAGE);
}

static void other_call(const struct qkv_comm *comm, void *ctx)
{
    struct qkv_attention a = { .B = 1, .T = 8, .S = 8, .H = 1, .E = 4 };
    float x[64] = { 0 };
    qkv_status *status = ctx;
    a.softcap = comm->rank == 1 ? -1 : 0; // this rank refuses
    *status = qkv_ranks_forward(x, NULL, x + 32, x + 32, x + 32, &a, comm, NULL);
}

TEST(an_error_of_one_rank_is_the_error_of_all)
{
    check_refused(3, other_call);
}

// Runs jobs of which some ranks have no memory for their n-th message or, with step, a later one
// on each rank. Returns whether a message failed.
static bool run_without_memory(struct job *job, int64_t size, int64_t ranks, int64_t n,
                               int64_t step)
{
    void *user[RANKS_MOST] = { NULL };
    bool failed = false;
    for (int64_t r = 0; r < size; r++) {
        user[r] = &job[r];
        no_memory_for[r] = r < ranks ? n + r * step : 0;
    }
    run_ranks(size, body, user, NULL);
    memset(no_memory_for, 0, sizeof no_memory_for);
    for (int64_t r = 0; r < size; r++) {
        CHECK(job[r].status == QKV_OK || job[r].status == QKV_ERR_LIMIT);
        failed = failed || job[r].status;
    }
    return failed;
}

// One rank, two or all have no memory for a message, at the same point or not: all ranks return.
TEST(ranks_without_memory_for_a_message_end_all)
{
    case_precision = QKV_PRECISION_F32;
    for (int64_t size = 2; size < 5; size++) {
        struct back_problem x = back_new(
            (struct qkv_attention){ .B = 1, .T = 300, .S = 300, .H = 2, .G = 1, .E = 4, .F = 4 },
            CAUSAL);
        struct job job[2][RANKS_MOST];
        int64_t counts[2] = { 0 };
        case_run(&x.p);
        struct stored s = store(&x);
        s.out = (char *)x.p.out;
        s.dout = (char *)x.dout;
        for (int i = 0; i < 2; i++)
            for (int64_t r = 0; r < size; r++) {
                job[i][r] = job_of(&x, &s, r, size, i);
                job[i][r].limit = i ? 0 : 1;
            }
        for (int i = 0; i < 2; i++)
            for (int64_t ranks = 1; ranks <= size; ranks++)
                for (int64_t step = 0; step < 3; step++) {
                    int64_t n = 1;
                    for (; run_without_memory(job[i], size, ranks, n, step); n += 1 + n / 8)
                        CHECK(n < 100000);
                    counts[i] += n;
                }
        CHECK(counts[0] > 30 && counts[1] > 30);
        fence_free();
    }
}

static void limited_call(const struct qkv_comm *comm, void *ctx, size_t limit, int out)
{
    const struct qkv_attention a = { .B = 1, .T = 8, .S = 8, .H = 1, .E = 4 };
    struct qkv_comm limited = *comm;
    float x[4][32] = { { 0 } };
    qkv_status *status = ctx;
    limited.collect_limit = limit;
    void *scratch = aligned_alloc(64, qkv_ranks_plan(&a, &limited).scratch);
    *status = qkv_ranks_forward(x[out], NULL, x[1], x[2], x[3], &a, &limited, scratch);
    free(scratch);
}
static void other_limit(const struct qkv_comm *comm, void *ctx)
{
    limited_call(comm, ctx, comm->rank == 1 ? 16 : 0, 0);
}

TEST(ranks_with_different_limits_are_refused)
{
    check_refused(3, other_limit);
}

// All ranks but one have a bias per batch item.
static void other_bias(const struct qkv_comm *comm, void *ctx)
{
    float bias[128] = { 0 }, grad[128] = { 0 }, x[8][64] = { { 0 } }, lse[16] = { 0 };
    struct qkv_attention a = { .B = 2, .T = 8, .S = 8, .H = 1, .E = 4, .bias = { bias, 64, 0, 8 } };
    const struct qkv_attention_gradients g = { .bias = { grad } };
    if (comm->rank == 1) a.bias.b = 0;
    void *scratch = aligned_alloc(64, qkv_ranks_backward_plan(&a, &g, comm).scratch);
    *(qkv_status *)ctx = qkv_ranks_backward(x[0], x[1], x[2], &g, x[3], x[4], x[5], x[6], x[7], lse,
                                            &a, comm, scratch);
    free(scratch);
}

TEST(ranks_with_different_axes_of_the_bias_are_refused)
{
    check_refused(3, other_bias);
}

static void overlapping_call(const struct qkv_comm *comm, void *ctx)
{
    limited_call(comm, ctx, 16, 2);
}

TEST(a_key_that_the_output_would_overwrite_is_refused)
{
    check_refused(2, overlapping_call);
}

TEST(the_plan_chooses_the_mode_and_says_why)
{
    const struct qkv_attention a = {
        .B = 1, .T = 1 << 20, .S = 1 << 20, .H = 1, .E = 16, .causal = true
    };
    struct qkv_comm comm = { .rank = 1, .size = 4 };
    struct qkv_ranks_plan p = qkv_ranks_plan(&a, &comm);
    CHECK_EQ(p.mode, QKV_RANKS_COLLECT);
    CHECK_EQ(p.blocks, 0);
    CHECK_TEXT(p.reason, "there is no limit for collected keys and values");
    CHECK(p.scratch > 128 << 20);
    comm.collect_limit = 128 << 20;
    p = qkv_ranks_plan(&a, &comm);
    CHECK_EQ(p.mode, QKV_RANKS_COLLECT);
    CHECK_TEXT(p.reason, "all keys and values have 134217728 bytes, within the limit of 134217728 "
                         "bytes");
    comm.collect_limit = 4 << 20;
    const size_t sent = p.sent;
    p = qkv_ranks_plan(&a, &comm);
    CHECK_EQ(p.mode, QKV_RANKS_PIPELINE);
    CHECK_TEXT(p.reason, "all keys and values have 134217728 bytes, more than the limit of 4194304 "
                         "bytes");
    CHECK_EQ(p.sent, sent);
    CHECK_EQ(p.blocks, 128); // of 4 MiB / 4 ranks
    CHECK(p.block >= 1 << 20 && p.block <= (1 << 20) + QKV_CHUNK * 128);
    CHECK(p.scratch > p.block && p.scratch < 32 << 20);
}

TEST(what_is_not_supported_is_refused_with_the_reason)
{
    const struct qkv_comm comm = { .rank = 0, .size = 2 };
    struct qkv_attention a = { .B = 1, .T = 8, .S = 8, .H = 1, .E = 4, .q_strides = { 32, 4, 4 } };
    struct qkv_ranks_plan p = qkv_ranks_plan(&a, &comm);
    CHECK_EQ(p.status, QKV_ERR_UNSUPPORTED);
    CHECK_TEXT(p.reason, "strides are not supported over ranks");
    a.q_strides = (struct qkv_strides){ 0, 0, 0 };
    a.first_row = 1;
    CHECK_EQ(qkv_ranks_plan(&a, &comm).status, QKV_ERR_USAGE);
    a.first_row = 0;
    const float sinks[1] = { 0 };
    float grad[1];
    const struct qkv_attention_gradients g = { .sinks = grad };
    a.B = 17;
    a.sinks = sinks;
    p = qkv_ranks_backward_plan(&a, &g, &comm);
    CHECK_EQ(p.status, QKV_ERR_UNSUPPORTED);
    CHECK_TEXT(p.reason,
               "gradients of relative, alibi and sinks of more than 16 batch items are not "
               "supported over ranks, expected packed sequences");
    CHECK_EQ(qkv_ranks_plan(NULL, &comm).status, QKV_ERR_USAGE);
    CHECK_EQ(qkv_ranks_plan(&a, NULL).status, QKV_ERR_USAGE);
    CHECK_EQ(qkv_rank_rows(&a, false, 2, 2).all, 0);
}

CHECK_MAIN(CASE(rows_over_ranks_have_the_bits_of_one_call),
           CASE(gradients_over_ranks_have_the_bits_of_one_call),
           CASE(short_runs_pass_the_gradients_of_tables),
           CASE(gradients_of_a_bias_without_rows_have_the_bits_of_one_call),
           CASE(long_runs_pass_the_gradients_of_tables),
           CASE(every_row_has_one_rank_and_zigzag_balances),
           CASE(an_error_of_one_rank_is_the_error_of_all),
           CASE(ranks_without_memory_for_a_message_end_all),
           CASE(ranks_with_different_limits_are_refused),
           CASE(ranks_with_different_axes_of_the_bias_are_refused),
           CASE(a_key_that_the_output_would_overwrite_is_refused),
           CASE(the_plan_chooses_the_mode_and_says_why),
           CASE(what_is_not_supported_is_refused_with_the_reason))
