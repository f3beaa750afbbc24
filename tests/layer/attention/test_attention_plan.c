// SPDX-License-Identifier: MIT
// test_attention_plan.c: tests refusals and their reasons, the memory of a call, and a quarter of a
// million tokens.
#include "attention_case.h"

static struct qkv_attention small(void)
{
    return (struct qkv_attention){ .B = 2, .T = 3, .S = 4, .H = 4, .G = 2, .E = 8 };
}

TEST(wrong_arguments_are_refused_with_the_reason)
{
    static const int64_t falls[] = { 0, 2, 1 }, beyond[] = { 0, 2, 9 }, lengths[] = { 5, 0 },
                         negative[] = { -1, 0 };
    static const float ones[4] = { 1, 1, 1, 1 };
    struct {
        struct qkv_attention a;
        qkv_status status;
        const char *word;
    } cases[24];
    int n = 0;
#define REFUSED(STATUS, WORD, ...)                                                                 \
    do {                                                                                           \
        struct qkv_attention a = small();                                                          \
        __VA_ARGS__;                                                                               \
        cases[n].a = a;                                                                            \
        cases[n].status = STATUS;                                                                  \
        cases[n++].word = WORD;                                                                    \
    } while (0)
    REFUSED(QKV_ERR_USAGE, "B is -1", a.B = -1);
    REFUSED(QKV_ERR_USAGE, "E is 0", a.E = 0);
    REFUSED(QKV_ERR_USAGE, "multiple", a.G = 3);
    REFUSED(QKV_ERR_USAGE, "F is -2", a.F = -2);
    REFUSED(QKV_ERR_LIMIT, "T is", a.T = INT64_MAX);
    REFUSED(QKV_ERR_LIMIT, "E is", a.E = INT64_MAX);
    REFUSED(QKV_ERR_LIMIT, "does not fit", a.B = a.T = a.S = INT64_C(1) << 31; a.E = 1 << 20);
    REFUSED(QKV_ERR_USAGE, "scale", a.scale = NAN);
    REFUSED(QKV_ERR_USAGE, "softcap", a.softcap = -1);
    REFUSED(QKV_ERR_USAGE, "diagonal", a.diagonal = (enum qkv_diagonal)7);
    REFUSED(QKV_ERR_USAGE, "window", a.window.on = true; a.window.left = -2);
    REFUSED(QKV_ERR_USAGE, "sinks", a.no_softmax = true; a.sinks = ones);
    REFUSED(QKV_ERR_USAGE, "B is 2", a.sequences = 2; a.q_offsets = beyond);
    REFUSED(QKV_ERR_USAGE, "require the array q_offsets", a.B = 1; a.sequences = 2);
    REFUSED(QKV_ERR_USAGE, "q_offsets[2] is 1", a.B = 1; a.sequences = 2; a.q_offsets = falls);
    REFUSED(QKV_ERR_USAGE, "q_offsets[2] is 9", a.B = 1; a.sequences = 2; a.q_offsets = beyond);
    REFUSED(QKV_ERR_USAGE, "k_lengths[0] is 5", a.k_lengths = lengths);
    REFUSED(QKV_ERR_USAGE, "k_lengths[0] is -1", a.k_lengths = negative);
    REFUSED(QKV_ERR_USAGE, "strides", a.q_strides.b = INT64_MAX);
    REFUSED(QKV_ERR_USAGE, "strides", a.k_strides.t = INT64_MIN);
    REFUSED(QKV_ERR_USAGE, "strides", a.bias.at = ones; a.bias.t = INT64_MAX / 2);
    for (int i = 0; i < n; i++) {
        struct problem p = case_new(small(), 0);
        const real before = p.out[0];
        p.a = cases[i].a;
        const struct qkv_attention_plan plan = qkv_attention_plan(&p.a);
        CHECK_EQ(plan.status, cases[i].status);
        if (!strstr(plan.reason, cases[i].word))
            fail_msg("\"%s\" does not say \"%s\"", plan.reason, cases[i].word);
        CHECK_EQ(case_status(&p), cases[i].status);
        CHECK_BITS(&before, p.out, sizeof before);
        fence_free();
    }
}

TEST(a_precision_runs_converted_unless_its_own_products_are_asked_for)
{
    EACH_ISA(isa) for (int n = 0; n < QKV_PRECISIONS; n++)
    {
        struct qkv_attention a = small();
        a.precision = (qkv_precision)n;
        struct qkv_attention_plan plan = qkv_attention_plan(&a);
        CHECK_EQ(plan.status, QKV_OK);
        CHECK(plan.isa && plan.arithmetic);
        a.native = true;
        plan = qkv_attention_plan(&a);
        const bool native = isa->attention[n]->native;
        CHECK_EQ(plan.status, native ? QKV_OK : QKV_ERR_UNSUPPORTED);
        if (!native) CHECK(strstr(plan.reason, qkv_precision_name((qkv_precision)n)));
        if (!native) CHECK(strstr(plan.reason, "f32, f32-strict"));
        CHECK_EQ(qkv_attention_forward(NULL, NULL, NULL, NULL, NULL, NULL, &a, NULL),
                 native ? QKV_ERR_USAGE : QKV_ERR_UNSUPPORTED);
    }
    struct qkv_attention a = small();
    a.precision = (qkv_precision)77;
    const struct qkv_attention_plan plan = qkv_attention_plan(&a);
    CHECK_EQ(plan.status, QKV_ERR_USAGE);
    CHECK(strstr(plan.reason, "an unknown precision"));
}

TEST(missing_arrays_are_refused)
{
    struct problem p = case_new(small(), 0);
    const struct qkv_attention_plan plan = qkv_attention_plan(&p.a);
    char *scratch = aligned_alloc(64, plan.scratch + 64);
    struct qkv_attention_work w;
    CHECK_EQ(qkv_attention_resolve(&w, case_family(), &p.a, NULL, 0), QKV_OK);
    CHECK_EQ(qkv_attention_run(NULL, NULL, NULL, p.q, p.k, p.v, &w, scratch), QKV_ERR_USAGE);
    CHECK_EQ(qkv_attention_run(p.out, NULL, NULL, NULL, p.k, p.v, &w, scratch), QKV_ERR_USAGE);
    CHECK_EQ(qkv_attention_run(p.out, NULL, NULL, p.q, NULL, p.v, &w, scratch), QKV_ERR_USAGE);
    CHECK_EQ(qkv_attention_run(p.out, NULL, NULL, p.q, p.k, NULL, &w, scratch), QKV_ERR_USAGE);
    CHECK_EQ(qkv_attention_run(p.out, NULL, NULL, p.q, p.k, p.v, &w, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_attention_run(p.out, NULL, NULL, p.q, p.k, p.v, &w, scratch + 4), QKV_ERR_USAGE);
    free(scratch);
    fence_free();
}

TEST(scratch_does_not_grow_with_the_tokens)
{
    EACH_ISA(isa)
    {
        struct qkv_attention a = { .B = 1, .T = 4096, .S = 4096, .H = 1, .E = 64 };
        const struct qkv_attention_plan near = qkv_attention_plan(&a);
        a.T = a.S = 262144;
        const struct qkv_attention_plan far = qkv_attention_plan(&a);
        CHECK_EQ(far.status, QKV_OK);
        CHECK(far.scratch_thread < 4 << 20);
        CHECK(far.scratch <= (size_t)qkv_threads() * far.scratch_thread);
        CHECK(far.scratch_thread <= 4 * near.scratch_thread);
        CHECK(far.flops == 4.0 * 64 * 262144 * 262144);
    }
}

// Scratch ends at a guard page, and the number of threads is raised after scratch was sized.
TEST(a_resolved_call_keeps_to_its_threads)
{
    EACH_ISA(isa)
    {
        enum { B = 40, T = 5, H = 4, E = 8, N = B * T * H * E };
        const struct qkv_attention a = { .B = B, .T = T, .S = T, .H = H, .E = E };
        real *x = fenced(N * sizeof *x), *out[2] = { fenced(N * sizeof *x), fenced(N * sizeof *x) };
        for (int i = 0; i < N; i++) x[i] = (real)check_gauss();
        for (int n = 0; n < 2; n++) {
            struct qkv_attention_work w;
            CHECK_EQ(qkv_threads_set(n + 1), QKV_OK);
            CHECK_EQ(qkv_attention_resolve(&w, case_family(), &a, NULL, 0), QKV_OK);
            CHECK_EQ(w.threads, n + 1);
            void *scratch = fenced(w.scratch);
            CHECK_EQ(qkv_threads_set(8), QKV_OK);
            CHECK_EQ(qkv_attention_run(out[n], NULL, NULL, x, x, x, &w, scratch), QKV_OK);
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        CHECK_BITS(out[0], out[1], N * sizeof *x);
        fence_free();
    }
}

// An allocator for the library that refuses every request: forward must not allocate.
static void *refuse(void *user, size_t bytes)
{
    (void)user;
    (void)bytes;
    return NULL;
}
static void let_go(void *user, void *p)
{
    (void)user;
    free(p);
}

TEST(a_quarter_of_a_million_tokens_run_in_scratch_alone)
{
    enum { N = 262144, E = 16 };
    real *x = malloc((size_t)N * E * sizeof *x), *out = malloc((size_t)N * E * sizeof *out);
    CHECK(x && out);
    for (int64_t i = 0; i < (int64_t)N * E; i++) x[i] = (real)(float)check_random();
    const struct qkv_attention a = { .B = 1,
                                     .T = N,
                                     .S = N,
                                     .H = 1,
                                     .G = 1,
                                     .E = E,
                                     .F = E,
                                     .causal = true,
                                     .window = { .on = true, .left = 100, .right = -1 } };
    const struct problem p = { .a = a, .q = x, .k = x, .v = x };
    const struct qkv_attention_plan plan = qkv_attention_plan(&a);
    CHECK(plan.visited < plan.tiles / 500);
    void *scratch = aligned_alloc(64, plan.scratch);
    CHECK(scratch != NULL);
    qkv_allocator_set(&(struct qkv_allocator){ refuse, let_go, NULL });
    struct qkv_attention_work w;
    qkv_status status = qkv_attention_resolve(&w, case_family(), &a, NULL, 0);
    if (!status) status = qkv_attention_run(out, NULL, NULL, x, x, x, &w, scratch);
    qkv_allocator_set(NULL);
    CHECK_EQ(status, QKV_OK);
    double workspace[E] = { 0 }, *weights = malloc(N * sizeof *weights);
    struct row want = { .out = workspace, .p = weights };
    for (int64_t t = 0; t < N; t += 65519) {
        case_reference(&want, &p, 0, t, 0, false);
        for (int64_t e = 0; e < E; e++)
            CHECK_NEAR(out[t * E + e], want.out[e], (2 * want.spread + 125) * UNIT * want.reach);
    }
    free(weights);
    free(scratch);
    free(out);
    free(x);
}

CHECK_MAIN(CASE(wrong_arguments_are_refused_with_the_reason),
           CASE(a_precision_runs_converted_unless_its_own_products_are_asked_for),
           CASE(missing_arrays_are_refused), CASE(scratch_does_not_grow_with_the_tokens),
           CASE(a_resolved_call_keeps_to_its_threads),
           CASE(a_quarter_of_a_million_tokens_run_in_scratch_alone))
