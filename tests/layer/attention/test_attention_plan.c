// SPDX-License-Identifier: MIT
// test_attention_plan.c: tests refusals and their reasons, the memory of a call, and a quarter of a
// million tokens.
#include "attention_case.h"
#include <errno.h>

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
    REFUSED(QKV_ERR_USAGE, "expected 0 .. 2147483648", a.sequences = INT64_MAX);
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
    CHECK(strstr(plan.reason, "unknown precision 77, expected a value of enum qkv_precision"));
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

// ---- tiles --------------------------------------------------------------------------------------
// Counts the tiles of one head group by group.
static void plain_tiles(const struct qkv_attention_work *w, const struct qkv_attention_tiling *tile,
                        int64_t *tiles, int64_t *visited)
{
    const struct qkv_attention_item m = qkv_attention_item(w, 0);
    const int64_t rows = m.T * w->heads, keys = tile->keys;
    *tiles = *visited = 0;
    for (int64_t r0 = 0; r0 < rows; r0 += tile->block) {
        const int64_t n = qkv_min64(tile->block, rows - r0), groups = qkv_ceil_div(n, tile->rows);
        *tiles += groups * qkv_ceil_div(m.all, keys);
        for (int64_t g = 0; g < groups; g++) {
            const int64_t first = r0 + qkv_attention_group(g, n, groups);
            const int64_t last = r0 + qkv_attention_group(g + 1, n, groups) - 1;
            const int64_t lo = qkv_attention_keys(w, &m, first / w->heads).lo;
            const int64_t hi = qkv_attention_keys(w, &m, last / w->heads).hi;
            if (lo < hi) *visited += qkv_ceil_div(hi, keys) - lo / keys;
        }
    }
}

static int64_t draw(int64_t most) // 0 .. most
{
    return (int64_t)((check_random() + 1) / 2 * (double)(most + 1)) % (most + 1);
}

TEST(tiles_are_counted_as_one_by_one)
{
    for (int round = 0; round < 20000; round++) {
        struct qkv_attention a = { .B = 1, .T = draw(300), .S = draw(300), .G = 1, .E = 1 };
        a.H = 1 + draw(7);
        a.causal = draw(1);
        a.diagonal = draw(1) ? QKV_BOTTOM_RIGHT : QKV_TOP_LEFT;
        a.window.on = draw(1);
        a.window.left = draw(3) ? draw(draw(1) ? 20 : 400) : -1;
        a.window.right = draw(3) ? draw(draw(1) ? 20 : 400) : -1;
        struct qkv_attention_work w;
        if (qkv_attention_resolve(&w, case_family(), &a, NULL, 0)) continue;
        const struct qkv_attention_tiling tile = { .block = 1 + draw(40),
                                                   .rows = 1 + draw(10),
                                                   .keys = 1 + draw(30) };
        struct qkv_attention_plan p = { 0 };
        int64_t tiles, visited;
        qkv_attention_count(&p, &w, &tile);
        plain_tiles(&w, &tile, &tiles, &visited);
        if (p.tiles != tiles || p.visited != visited)
            fail_msg("round %d: %lld of %lld, expected %lld of %lld", round, (long long)p.visited,
                     (long long)p.tiles, (long long)visited, (long long)tiles);
    }
}

// One by one, these plans would take hours.
TEST(plans_of_the_largest_sizes_are_made_at_once)
{
    const int64_t most = (INT64_C(1) << 31) - 1;
#ifdef QKV_TINY_TILES
    const int64_t H = 1 << 10, B = 1009; // with more, blocks of 4 rows are too many for a plan
#else
    const int64_t H = 1 << 20, B = 1000003;
#endif
    struct qkv_attention a = { .B = 1, .T = most, .S = most, .H = H, .G = 1, .E = 1 };
    for (int kind = 0; kind < 4; kind++) {
        a.causal = kind & 1;
        a.window.on = kind >> 1;
        a.window.left = 1000;
        a.window.right = -1;
        const struct qkv_attention_plan p = qkv_attention_plan(&a);
        CHECK_EQ(p.status, QKV_OK);
        CHECK(p.tiles > 0 && p.visited > 0 && p.visited <= p.tiles);
        CHECK_EQ(p.skipped, p.tiles - p.visited);
    }
    a = (struct qkv_attention){ .B = B, .T = most, .S = most, .H = 1, .E = 1 };
    const struct qkv_attention_plan p = qkv_attention_plan(&a);
    CHECK_EQ(p.status, QKV_OK);
    CHECK(p.visited == p.tiles && p.tiles > 0);
}

TEST(a_row_without_keys_leaves_errno_alone)
{
    const int64_t none[1] = { 0 };
    const struct qkv_attention a = { .B = 1, .T = 2, .S = 2, .H = 1, .E = 4, .k_lengths = none };
    static const float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    float out[8], lse[2];
    void *scratch = aligned_alloc(64, qkv_attention_plan(&a).scratch);
    errno = 0;
    CHECK_EQ(qkv_attention_forward(out, lse, NULL, x, x, x, &a, scratch), QKV_OK);
    CHECK_EQ(errno, 0);
    CHECK(lse[0] == -INFINITY && out[0] == 0);
    free(scratch);
}

TEST(strides_along_axes_of_one_element_may_be_any_number)
{
    struct qkv_attention a = { .B = 1, .T = 2, .S = 2, .H = 1, .E = 4 };
    static const float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    float out[8], same[8];
    void *scratch = aligned_alloc(64, qkv_attention_plan(&a).scratch);
    CHECK_EQ(qkv_attention_forward(out, NULL, NULL, x, x, x, &a, scratch), QKV_OK);
    a.q_strides = (struct qkv_strides){ .b = INT64_MIN, .t = 4, .h = INT64_MIN };
    if (qkv_attention_forward(same, NULL, NULL, x, x, x, &a, scratch) == QKV_OK)
        CHECK_BITS(out, same, sizeof out);
    free(scratch);
}

CHECK_MAIN(CASE(wrong_arguments_are_refused_with_the_reason),
           CASE(a_precision_runs_converted_unless_its_own_products_are_asked_for),
           CASE(missing_arrays_are_refused), CASE(scratch_does_not_grow_with_the_tokens),
           CASE(a_resolved_call_keeps_to_its_threads), CASE(tiles_are_counted_as_one_by_one),
           CASE(plans_of_the_largest_sizes_are_made_at_once),
           CASE(a_row_without_keys_leaves_errno_alone),
           CASE(strides_along_axes_of_one_element_may_be_any_number),
           CASE(a_quarter_of_a_million_tokens_run_in_scratch_alone))
