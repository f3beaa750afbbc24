// SPDX-License-Identifier: MIT
// test_attention_parts.c: an attention call in parts of its rows (first_row, all_rows) has the bits
// of the whole call: out, lse, weights; and, where sums pass from part to part, all gradients.
#include "attention_back_case.h"

enum { PARTS = 3 };

// The rows first .. end-1 of a problem.
struct part {
    struct qkv_attention a;
    int64_t first, end;
};

static void set_strides(struct qkv_strides *s, int64_t T, int64_t H, int64_t E)
{
    if (!s->b && !s->t && !s->h) *s = (struct qkv_strides){ T * H * E, H * E, E };
}

static struct part part_of(const struct problem *p, int64_t first, int64_t end)
{
    struct part x = { .a = p->a, .first = first, .end = end };
    struct qkv_attention *a = &x.a;
    set_strides(&a->q_strides, a->T, a->H, a->E);
    set_strides(&a->k_strides, a->S, a->G, a->E);
    set_strides(&a->v_strides, a->S, a->G, a->F);
    set_strides(&a->out_strides, a->T, a->H, a->F);
    a->all_rows = a->T;
    a->first_row = first;
    a->T = end - first;
    if (a->bias.at) a->bias.at += first * a->bias.t;
    if (a->mask.at) a->mask.at += first * a->mask.t;
    return x;
}

// Address of row `first` in an array with strides s, of elements of the precision.
static void *moved(void *array, int64_t first, const struct qkv_strides *s)
{
    return (char *)array + (size_t)(first * s->t) * qkv_dtype_size(case_family()->type);
}

static void *scratch_of(size_t bytes)
{
    void *scratch = NULL;
    if (posix_memalign(&scratch, 64, bytes + 64)) fail_msg("no memory");
    memset(scratch, 0xff, bytes + 64);
    return scratch;
}

// Draws where parts begin. For sums over rows the parts of an item begin at a multiple of a group.
static void draw_cuts(int64_t cut[PARTS + 1], const struct qkv_attention *a, int64_t multiple)
{
    cut[0] = 0;
    cut[PARTS] = a->T;
    for (int i = 1; i < PARTS; i++) {
        int64_t at = cut[i - 1] + pick(a->T - cut[i - 1] + 1), from = 0;
        for (int64_t n = 0; n < a->sequences && a->q_offsets[n] <= at; n++) from = a->q_offsets[n];
        if (a->sequences && a->q_offsets[a->sequences] <= at) from = at;
        if (a->sequences && a->q_offsets[0] > at) from = at;
        cut[i] = qkv_max64(cut[i - 1], from + (at - from) / multiple * multiple);
    }
}

static struct qkv_attention drawn_sizes(void)
{
    struct qkv_attention a = { .B = 1 + pick(3),
                               .T = 1 + pick(90),
                               .S = 1 + pick(300),
                               .E = 1 + pick(40),
                               .F = 1 + pick(40) };
    a.G = 1 + pick(2);
    a.H = a.G * (1 + pick(3));
    return a;
}

// ---- forward ------------------------------------------------------------------------------------
static void check_forward(const struct problem *p, const struct part *x, const void *q,
                          const void *k, const void *v, char *out)
{
    const int64_t rows = x->a.T * x->a.B * x->a.H, S = x->a.S;
    real *lse = fenced_real((size_t)rows + 1);
    real *weights = p->weights ? fenced_real((size_t)(rows * S) + 1) : NULL;
    struct qkv_attention_work w;
    char reason[192] = "";
    if (qkv_attention_resolve(&w, case_family(), &x->a, reason, sizeof reason))
        fail_msg("%s", reason);
    void *scratch = scratch_of(w.scratch);
    CHECK_EQ(qkv_attention_run(moved(out, x->first, &x->a.out_strides), lse, weights,
                               moved((void *)(uintptr_t)q, x->first, &x->a.q_strides), k, v, &w,
                               scratch),
             QKV_OK);
    for (int64_t b = 0; b < x->a.B; b++)
        for (int64_t h = 0; h < x->a.H; h++) {
            const int64_t here = (b * x->a.H + h) * x->a.T;
            const int64_t there = (b * x->a.H + h) * p->a.T + x->first;
            if (!p->a.no_softmax)
                CHECK_BITS(lse + here, p->lse + there, (size_t)x->a.T * sizeof *lse);
            if (weights)
                CHECK_BITS(weights + here * S, p->weights + there * S,
                           (size_t)(x->a.T * S) * sizeof *lse);
        }
    free(scratch);
}

TEST(parts_of_the_rows_have_the_bits_of_the_whole_call)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const int mixtures = check_mixtures(20, 3);
        for (int n = 0; n < mixtures; n++) {
            unsigned features = (unsigned)pick(FEATURES);
            if (features & NO_SOFTMAX) features &= ~(unsigned)SINKS;
            const struct problem p = case_new(drawn_sizes(), features);
            int64_t cut[PARTS + 1];
            case_run(&p);
            draw_cuts(cut, &p.a, 1);
            void *q = case_stored(p.q, p.q_n), *k = case_stored(p.k, p.k_n),
                 *v = case_stored(p.v, p.v_n);
            char *out = fenced(p.out_n * sizeof(real));
            for (int i = 0; i < PARTS; i++) {
                const struct part x = part_of(&p, cut[i], cut[i + 1]);
                if (x.a.T) check_forward(&p, &x, q, k, v, out);
            }
            real *again = fenced_real(p.out_n);
            if (qkv_dtype_size(case_family()->type) == sizeof(real))
                memcpy(again, out, p.out_n * sizeof(real));
            else
                back_unstored(again, out, p.out_n);
            for (int64_t b = 0; b < p.a.B; b++)
                for (int64_t t = 0; t < p.a.T; t++)
                    for (int64_t h = 0; h < p.a.H; h++)
                        CHECK_BITS(case_at(again, p.a.out_strides, p.a.T, p.a.H, p.a.F, b, t, h),
                                   case_at(p.out, p.a.out_strides, p.a.T, p.a.H, p.a.F, b, t, h),
                                   (size_t)p.a.F * sizeof(real));
            fence_free();
        }
    }
}

// ---- backward -----------------------------------------------------------------------------------
struct stage {
    struct part x;
    struct qkv_attention_back b;
    struct qkv_back_call call;
    struct qkv_attention_tables tables;
    struct qkv_attention_back_given given;
    real *lse;
    void *scratch;
};

static void begin_stage(struct stage *s, const struct back_problem *whole,
                        const struct qkv_attention_back_given *given, int64_t first, int64_t end)
{
    const struct problem *p = &whole->p;
    char reason[192] = "";
    s->x = part_of(p, first, end);
    const struct qkv_attention *a = &s->x.a;
    s->tables = whole->tables;
    if (s->tables.bias) s->tables.bias += first * a->bias.t;
    if (qkv_attention_back_resolve(&s->b, a, &s->tables, reason, sizeof reason))
        fail_msg("%s", reason);
    s->scratch = scratch_of(s->b.scratch);
    s->lse = fenced_real((size_t)(a->B * a->H * a->T) + 1);
    for (int64_t r = 0; r < a->B * a->H; r++)
        memcpy(s->lse + r * a->T, p->lse + r * p->a.T + first, (size_t)a->T * sizeof(real));
    s->given = *given;
    s->given.dq = moved(given->dq, first, &a->q_strides);
    s->given.q = moved((void *)(uintptr_t)given->q, first, &a->q_strides);
    s->given.dout = moved((void *)(uintptr_t)given->dout, first, &a->out_strides);
    s->given.out = moved((void *)(uintptr_t)given->out, first, &a->out_strides);
    s->given.lse = s->lse;
    s->given.scratch = s->scratch;
    CHECK_EQ(qkv_attention_back_begin(&s->call, &s->b, &s->tables, &s->given), QKV_OK);
}

// Runs backward in parts, unit by unit, from the last to the first: the sums of each unit pass
// through the parts in order.
static void run_parts(const struct back_problem *x, const struct qkv_attention_back_given *given)
{
    struct stage stage[PARTS];
    int64_t cut[PARTS + 1];
    struct qkv_attention_back b;
    CHECK_EQ(qkv_attention_back_resolve(&b, &x->p.a, &x->tables, NULL, 0), QKV_OK);
    draw_cuts(cut, &x->p.a, qkv_attention_back_multiple(&b));
    for (int i = 0; i < PARTS; i++) begin_stage(&stage[i], x, given, cut[i], cut[i + 1]);
    const int64_t units = qkv_attention_back_count(&stage[0].b);
    for (int64_t u = units - 1; u >= 0; u--) {
        const size_t bytes = qkv_attention_back_sums(&stage[0].b, &stage[0].tables, u);
        char *passed = fenced(bytes + 1), *next = fenced(bytes + 1);
        for (int i = 0; i < PARTS; i++) {
            struct qkv_back_sums sums = { .unit = u,
                                          .in = i ? passed : NULL,
                                          .out = i + 1 < PARTS ? next : NULL };
            CHECK_EQ(qkv_attention_back_sums(&stage[i].b, &stage[i].tables, u), (int64_t)bytes);
            qkv_attention_back_units(&stage[i].call, 1, &sums);
            memcpy(passed, next, bytes);
        }
    }
    for (int i = 0; i < PARTS; i++) {
        qkv_attention_back_rows(&stage[i].call);
        if (i + 1 == PARTS) qkv_attention_back_tables(&stage[i].call);
        free(stage[i].scratch);
    }
}

static void check_same(const char *what, const real *a, const real *b, size_t n, unsigned features)
{
    size_t i = 0;
    while (a && i < n && memcmp(a + i, b + i, sizeof *a) == 0) i++;
    if (a && i < n)
        fail_msg("%s %s %s[%d]: %.9g in parts, %.9g whole, features %x", qkv_isa(),
                 qkv_precision_name(case_precision), what, (int)i, (double)a[i], (double)b[i],
                 features);
}

TEST(gradients_in_parts_have_the_bits_of_the_whole_call)
{
    EACH_ISA(isa) EACH_PRECISION
    {
        const int mixtures = check_mixtures(16, 3);
        for (int n = 0; back_new_here(isa_n) && n < mixtures; n++) {
            const unsigned features = (unsigned)pick(ALL_FEATURES);
            const struct back_problem x = back_new(drawn_sizes(), features);
            case_run(&x.p);
            back_clear_tables(&x);
            struct back_problem y = x;
            y.dq = fenced_real(x.q_n);
            y.dk = fenced_real(x.k_n);
            y.dv = fenced_real(x.v_n);
            memcpy(y.dq, x.dq, x.q_n * sizeof(real)); // what is between strided rows stays
            memcpy(y.dk, x.dk, x.k_n * sizeof(real));
            memcpy(y.dv, x.dv, x.v_n * sizeof(real));
            const size_t H = (size_t)x.p.a.H;
            if (x.tables.bias) y.tables.bias = fenced_real(x.bias_n);
            if (x.tables.relative) y.tables.relative = fenced_real(x.relative_n);
            if (x.tables.alibi) y.tables.alibi = fenced_real(H);
            if (x.tables.sinks) y.tables.sinks = fenced_real(H);
            back_clear_tables(&y);
            void *dq = case_stored(y.dq, y.q_n), *dk = case_stored(y.dk, y.k_n),
                 *dv = case_stored(y.dv, y.v_n);
            const struct qkv_attention_back_given given = {
                .dq = dq,
                .dk = dk,
                .dv = dv,
                .dout = case_stored(x.dout, x.out_n),
                .q = case_stored(x.p.q, x.q_n),
                .k = case_stored(x.p.k, x.k_n),
                .v = case_stored(x.p.v, x.v_n),
                .out = case_stored(x.p.out, x.out_n),
            };
            run_parts(&y, &given);
            back_unstored(y.dq, dq, y.q_n);
            back_unstored(y.dk, dk, y.k_n);
            back_unstored(y.dv, dv, y.v_n);
            back_run(&x);
            check_same("dq", y.dq, x.dq, x.q_n, features);
            check_same("dk", y.dk, x.dk, x.k_n, features);
            check_same("dv", y.dv, x.dv, x.v_n, features);
            check_same("dbias", y.tables.bias, x.tables.bias, x.bias_n, features);
            check_same("drelative", y.tables.relative, x.tables.relative, x.relative_n, features);
            check_same("dalibi", y.tables.alibi, x.tables.alibi, H, features);
            check_same("dsinks", y.tables.sinks, x.tables.sinks, H, features);
            fence_free();
        }
    }
}

#ifndef QKV_DOUBLE
TEST(a_part_outside_of_the_longer_call_is_refused)
{
    const struct {
        int64_t first, all;
        qkv_status status;
    } cases[] = { { 0, 0, QKV_OK },          { 3, 0, QKV_OK },
                  { 3, 11, QKV_OK },         { 4, 11, QKV_ERR_USAGE },
                  { -1, 11, QKV_ERR_USAGE }, { INT64_MAX, 0, QKV_ERR_USAGE },
                  { 0, 7, QKV_ERR_USAGE },   { 0, INT64_MAX, QKV_ERR_USAGE } };
    EACH(c, cases)
    {
        const struct qkv_attention a = {
            .B = 1, .T = 8, .S = 9, .H = 1, .E = 4, .first_row = c->first, .all_rows = c->all
        };
        CHECK_EQ(qkv_attention_plan(&a).status, c->status);
    }
}
#endif

#ifdef QKV_DOUBLE
CHECK_MAIN(CASE(parts_of_the_rows_have_the_bits_of_the_whole_call),
           CASE(gradients_in_parts_have_the_bits_of_the_whole_call))
#else
CHECK_MAIN(CASE(parts_of_the_rows_have_the_bits_of_the_whole_call),
           CASE(gradients_in_parts_have_the_bits_of_the_whole_call),
           CASE(a_part_outside_of_the_longer_call_is_refused))
#endif
