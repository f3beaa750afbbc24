// SPDX-License-Identifier: MIT
// test_ranks_cache.c: decoding with a cache whose parts are on several ranks has the bits of one
// process with all parts, for any number of ranks and any features, and sends the planned bytes.
#include "layer/cache/cache_case.h"
#include "thread_ranks.h"

static const int64_t sizes[] = { 1, 2, 3, 4, 7 };
enum { OPTIONS = 10, H = 6, G = 2, S = 2600, T = 5 };

static int64_t pick(int64_t n)
{
    return (int64_t)((check_random() + 1) * .5 * (double)n) % n;
}

struct job {
    const struct pair *p;
    struct qkv_attention a; // of the call
    void *out;
    float *lse;
    struct qkv_ranks_plan plan;
    bool no_scratch;
    qkv_status status;
};

// Appends, cuts, copies and forgets, on each rank in the same way.
static void fill(const struct pair *p, qkv_cache *c)
{
    qkv_error err = { 0 };
    const int64_t zero = 0, last = p->a.B - 1;
    for (int64_t b = 0; b < p->a.B; b++)
        for (int64_t at = 0; at < p->lengths[b]; at += 411)
            pair_append(c, p, b, at, at + 411 < p->lengths[b] ? at + 411 : p->lengths[b]);
    CHECK_EQ(qkv_cache_cut(c, 0, S - 700), QKV_OK);
    CHECK_EQ(qkv_cache_copy(c, &last, &zero, last > 0, &err), QKV_OK);
    pair_append(c, p, 0, S - 700, S);
    if (p->a.window.on) CHECK_EQ(qkv_cache_forget(c, 0, S - 700), QKV_OK);
}

static void *scratch_of(size_t n)
{
    void *x = NULL;
    if (posix_memalign(&x, 64, n + 64)) abort();
    return memset(x, 0xff, n + 64);
}

static void body(const struct qkv_comm *comm, void *ctx)
{
    struct job *j = ctx;
    const struct qkv_attention *a = &j->p->a;
    const struct qkv_cache_shape s = {
        .B = a->B, .G = a->G, .E = a->E, .F = a->F, .precision = a->precision, .parts = j->p->parts
    };
    qkv_error err = { 0 };
    qkv_cache *c;
    j->status = qkv_ranks_cache_new(&c, &s, comm, &err);
    if (j->status) return;
    fill(j->p, c);
    struct thread_rank *rank = comm->ctx;
    rank->world->sent[comm->rank] = 0;
    j->plan = qkv_ranks_cache_plan(c, &j->a, comm);
    void *scratch = scratch_of(j->plan.scratch);
    j->status = qkv_ranks_cache_forward(j->out, j->lse, j->p->q, c, &j->a, comm,
                                        j->no_scratch ? NULL : scratch);
    free(scratch);
    qkv_cache_free(c);
}

static size_t out_bytes(const struct qkv_attention *a)
{
    return (size_t)(a->B * a->T * a->H * a->F) * qkv_dtype_size(pair_type(a->precision));
}
static size_t lse_bytes(const struct qkv_attention *a)
{
    return (size_t)(a->B * a->H * a->T) * sizeof(float);
}

static void run_jobs(const struct pair *p, int64_t size, struct job *job, size_t *sent)
{
    void *user[RANKS_MOST] = { NULL };
    for (int64_t r = 0; r < size; r++) {
        job[r] = (struct job){ .p = p,
                               .a = p->a,
                               .out = fenced(out_bytes(&p->a) + 16),
                               .lse = fenced(lse_bytes(&p->a) + 16) };
        job[r].a.S = 0;
        user[r] = &job[r];
    }
    run_ranks(size, body, user, sent);
}

static void check_ranks(const struct pair *p, int64_t size)
{
    struct qkv_attention a = p->a;
    struct job job[RANKS_MOST];
    size_t sent[RANKS_MOST], all = 0;
    a.S = 0;
    qkv_cache *c = pair_cache(p);
    fill(p, c);
    void *scratch = scratch_of(qkv_cache_plan(c, &a).scratch);
    void *out = fenced(out_bytes(&p->a) + 16);
    float *lse = fenced(lse_bytes(&p->a) + 16);
    CHECK_EQ(qkv_cache_forward(out, lse, NULL, p->q, c, &a, scratch), QKV_OK);
    run_jobs(p, size, job, sent);
    for (int64_t r = 0; r < size; r++) {
        CHECK_EQ(job[r].plan.status, QKV_OK);
        CHECK_EQ(job[r].status, QKV_OK);
        CHECK_EQ(sent[r], job[r].plan.sent);
        all += sent[r];
        pair_same(job[r].out, out, out_bytes(&p->a) / qkv_dtype_size(pair_type(a.precision)),
                  pair_type(a.precision), "out");
        if (!a.no_softmax) pair_same(job[r].lse, lse, lse_bytes(&p->a) / 4, QKV_F32, "lse");
    }
    // with as many parts as ranks, P - 1 messages go up and P - 1 down
    if (p->parts == size && size > 1) CHECK_EQ(all % (size_t)(2 * size - 2), 0);
    free(scratch);
    qkv_cache_free(c);
}

TEST(decoding_over_ranks_has_the_bits_of_one_process)
{
    static const float sinks[H] = { 1, -2, 0, 3, -1, 2 };
    float slopes[H];
    qkv_alibi_slopes(slopes, H);
    EACH_ISA(k) EACH_PRECISION(precision) for (int option = 0; option < OPTIONS; option++)
    {
        struct qkv_attention a = {
            .B = 1 + pick(3), .T = 1 + pick(T), .S = S, .H = H, .G = G, .E = 12, .F = 20
        };
        const int64_t size = sizes[pick(5)];
        a.precision = (qkv_precision)precision;
        a.causal = pick(2);
        float *bias = fenced_random(a.T * S);
        uint8_t *mask = fenced((size_t)(a.T * S));
        for (int64_t i = 0; i < a.T * S; i++) mask[i] = (uint8_t)(i / 400 % 3 == 0 ? 0 : i % 3);
        if (option == 1) a.softcap = 1.5f;
        if (option == 2) a.alibi = slopes;
        if (option == 3 || option == 9) a.sinks = sinks;
        if (option == 4) a.no_softmax = true;
        if (option == 5) a.bias.at = bias, a.bias.t = S;
        if (option == 6) a.mask.at = mask, a.mask.t = S;
        if (option == 7) a.window.on = true, a.window.left = 690, a.window.right = -1;
        if (option == 8) a.T = 60;
        struct pair p = pair_new(a);
        for (int64_t j = 0; option == 9 && j < S; j += 300)
            pair_set(p.v, a.precision, j * G * 20 + 7, INFINITY);
        p.parts = option % 2 ? size : size + pick(9);
        check_ranks(&p, size);
        fence_free();
    }
}

static void other_call(const struct qkv_comm *comm, void *ctx)
{
    struct job *j = ctx;
    if (comm->rank == 1) j->a.T--;
    if (comm->rank == 1) j->a.q_strides = (struct qkv_strides){ 5 * 4 * 8, 4 * 8, 8 };
    body(comm, ctx);
}
static void without_scratch(const struct qkv_comm *comm, void *ctx)
{
    struct job *j = ctx;
    j->no_scratch = comm->rank == 2;
    body(comm, ctx);
}

TEST(an_error_of_one_rank_is_the_error_of_all)
{
    void (*const bodies[])(const struct qkv_comm *, void *) = { other_call, without_scratch };
    EACH(run, bodies)
    {
        struct pair p = pair_new(
            (struct qkv_attention){ .B = 2, .T = 5, .S = S, .H = 4, .G = 1, .E = 8, .F = 8 });
        struct job job[4];
        void *user[4];
        p.parts = 7;
        for (int64_t r = 0; r < 4; r++) {
            job[r] = (struct job){
                .p = &p, .a = p.a, .out = fenced(out_bytes(&p.a)), .lse = fenced(lse_bytes(&p.a))
            };
            job[r].a.S = 0;
            user[r] = &job[r];
        }
        run_ranks(4, *run, user, NULL); // no message is left
        EACH(j, job) CHECK_EQ(j->status, QKV_ERR_USAGE);
        fence_free();
    }
}

// The results of four ranks without an error.
static struct job whole[4];

static void check_broken(int64_t rank, void *const *user)
{
    for (int64_t r = 0; r < 4; r++) {
        const struct job *j = user[r];
        CHECK(j->status || r != rank);
        if (j->status) continue;
        CHECK_BITS(j->out, whole[r].out, out_bytes(&j->p->a));
        CHECK_BITS(j->lse, whole[r].lse, lse_bytes(&j->p->a));
    }
}

// The transport returns an error on one rank alone, at any of its messages.
TEST(no_rank_waits_for_a_broken_one)
{
    struct pair p =
        pair_new((struct qkv_attention){ .B = 1, .T = 3, .S = S, .H = 2, .G = 1, .E = 4, .F = 4 });
    struct job job[4];
    void *user[4];
    p.parts = 7;
    run_jobs(&p, 4, whole, NULL);
    EACH(j, whole) CHECK_EQ(j->status, QKV_OK);
    run_jobs(&p, 4, job, NULL);
    for (int64_t r = 0; r < 4; r++) user[r] = &job[r];
    break_each(4, 1, body, user, check_broken);
    fence_free();
}

static void new_cache(const struct qkv_comm *comm, void *ctx)
{
    struct qkv_cache_shape *s = ctx;
    qkv_error err = { 0 };
    qkv_cache *c;
    s->capacity = qkv_ranks_cache_new(&c, s, comm, &err); // the result
    CHECK(!c);
}

TEST(caches_of_ranks_are_made_by_all_or_none)
{
    struct qkv_cache_shape s[3];
    void *user[] = { &s[0], &s[1], &s[2] };
    for (int wrong = 0; wrong < 4; wrong++) {
        EACH(x, s) *x = (struct qkv_cache_shape){ .B = 1, .G = 2, .E = 4 };
        if (wrong == 0) s[1].G = 3; // other shapes
        for (int r = 0; r < 3 && wrong; r++) s[r].parts = wrong == 1 ? 2 : 3 + 254 * (wrong == 2);
        for (int r = 0; r < 3 && wrong == 3; r++) s[r].E = 0;
        run_ranks(3, new_cache, user, NULL);
        EACH(x, s) CHECK_EQ(x->capacity, QKV_ERR_USAGE);
    }
}

TEST(a_plan_names_what_it_refuses)
{
    const struct qkv_comm one = { .rank = 0, .size = 2 };
    const struct qkv_attention a = { .T = 1, .H = 2 };
    const struct qkv_cache_shape s = { .B = 1, .G = 2, .E = 4, .parts = 2 };
    qkv_error err = { 0 };
    qkv_cache *c = NULL;
    CHECK_EQ(qkv_cache_new(&c, &s, &err), QKV_OK);
    CHECK_TEXT(
        qkv_ranks_cache_plan(c, &a, &one).reason,
        "cache has 2 parts from part 0 on, which qkv_ranks_cache_new does not make for rank 0 "
        "of 2");
    CHECK_TEXT(qkv_ranks_cache_plan(NULL, &a, &one).reason, "the cache or the ranks are missing");
    CHECK_EQ(qkv_ranks_cache_plan(c, &a, NULL).status, QKV_ERR_USAGE);
    CHECK_EQ(qkv_ranks_cache_forward(NULL, NULL, NULL, c, &a, NULL, NULL), QKV_ERR_USAGE);
    qkv_cache_free(c);
}

CHECK_MAIN(CASE(decoding_over_ranks_has_the_bits_of_one_process),
           CASE(an_error_of_one_rank_is_the_error_of_all), CASE(no_rank_waits_for_a_broken_one),
           CASE(caches_of_ranks_are_made_by_all_or_none), CASE(a_plan_names_what_it_refuses))
