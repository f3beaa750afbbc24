// SPDX-License-Identifier: MIT
// test_ablate.c: checks ablated heads in whole models of every family of tests/golden: zeroing a
// head equals zeroing its columns of the output projection; decoding token by token equals a whole
// run; invalid names and lists are refused.
#include "base/faults.h"
#include "model/decode/decoder_case.h"
#include "model/forward/observe.h"
#include "model/tiny.h"
#include <float.h>
#include <qkv/ablate.h>

// ---- zero --------------------------------------------------------------------------------------
static qkv_model *open_writable(const char *name, qkv_precision p)
{
    const struct qkv_model_options o = { .precision = p, .no_mmap = true };
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    if (qkv_model_open(&m, tiny_path(name, ""), &o, &err)) fail_msg("%s: %s", name, err.text);
    return m;
}

// Zeroes the columns of W_o that multiply a head, in the bytes of the file, which were read into
// memory.
static void zero_columns(const struct qkv_model *m, const struct qkv_linear *out, int64_t head,
                         int64_t F)
{
    for (int64_t i = 0; i < m->sources; i++) {
        const struct qkv_linear_source *s = &m->source[i];
        if (s->to != out) continue;
        const struct qkv_tensor *t = s->from[0];
        const int64_t N = out->part[0].N, K = out->K;
        const size_t size = qkv_dtype_size(t->dtype);
        for (int64_t n = 0; n < N; n++)
            for (int64_t k = head * F; k < (head + 1) * F; k++)
                memset((char *)(uintptr_t)t->data +
                           (size_t)(s->transposed ? k * N + n : n * K + k) * size,
                       0, size);
        return;
    }
    fail_msg("no tensor of an output projection");
}

// Lists two heads of each part, one in the first and one in the last layer. If layers share
// weights, whose columns cannot be 0 in one layer alone: lists the same head of each layer.
static int64_t some_heads(struct qkv_ablation *list, const struct qkv_model *m, int seed)
{
    static const enum qkv_attention_part parts[] = { QKV_PART_STACK, QKV_PART_ENCODER,
                                                     QKV_PART_DECODER, QKV_PART_CROSS };
    const int64_t H = m->is.size.heads;
    int64_t n = 0;
    for (int p = 0; p < 4; p++) {
        const int64_t layers = qkv_part_layers(m, parts[p]);
        for (int64_t i = 0; m->is.shared.groups && i < layers; i++)
            list[n++] = (struct qkv_ablation){ parts[p], i, seed % H, 0 };
        if (m->is.shared.groups) continue;
        if (layers) list[n++] = (struct qkv_ablation){ parts[p], 0, (seed + p) % H, 0 };
        if (layers > 1)
            list[n++] = (struct qkv_ablation){ parts[p], layers - 1, (seed + 1) % H, 0 };
    }
    return n;
}

static void check_zero(const char *name, qkv_precision p, int seed)
{
    struct tiny t = open_tiny(name, p);
    qkv_model *zeroed = open_writable(name, p);
    struct qkv_ablation list[8];
    qkv_error err = { 0 };
    const size_t n = (size_t)(t.R * t.info.width);
    float *plain = golden_floats((int64_t)n), *want = golden_floats((int64_t)n);
    float *got = golden_floats((int64_t)n);
    const int64_t count = some_heads(list, t.model, seed);
    for (int64_t i = 0; i < count; i++)
        zero_columns(
            zeroed,
            &qkv_part_heads(zeroed, list[i].part, qkv_layer_source(&zeroed->is, list[i].layer))
                 ->out,
            list[i].head, t.info.value_width);
    CHECK_EQ(qkv_model_run(t.model, plain, tiny_input(&t), NULL, &err), QKV_OK);
    CHECK_EQ(qkv_model_run(zeroed, want, tiny_input(&t), NULL, &err), QKV_OK);
    if (qkv_model_ablate(t.model, list, count, &err)) fail_msg("%s: %s", name, err.text);
    CHECK_EQ(qkv_model_run(t.model, got, tiny_input(&t), NULL, &err), QKV_OK);
    if (memcmp(got, want, n * sizeof *got) != 0)
        fail_msg("%s, %s: other bits", name, qkv_precision_name(p));
    CHECK(memcmp(got, plain, n * sizeof *got) != 0);
    CHECK_EQ(qkv_model_ablate(t.model, NULL, 0, &err), QKV_OK); // removes all ablations
    CHECK_EQ(qkv_model_run(t.model, got, tiny_input(&t), NULL, &err), QKV_OK);
    CHECK_BITS(got, plain, n * sizeof *got);
    free(plain);
    free(want);
    free(got);
    qkv_model_close(zeroed);
    close_tiny(&t);
}

// Not for int8: there one scale covers the widest head of a row, so that zeroing one head changes
// others.
TEST(a_head_of_nothing_is_one_whose_columns_are_zero)
{
    int runs = 0;
    EACH_TINY_PRECISION(name, p)
    if (p != QKV_PRECISION_INT8) check_zero(*name, p, runs++);
    CHECK(runs > 20);
}

// ---- uniform -----------------------------------------------------------------------------------
struct weighed {
    const char *name;
    int64_t head; // the ablated head of every layer
    int64_t rows; // number of rows checked
};

// Checks that every key that the head's row attends to has the same weight.
static int observe(void *user, const struct qkv_layer_output *s)
{
    struct weighed *w = user;
    for (int64_t n = 0; s->layer >= 0 && s->q_offsets[n] < s->R; n++) {
        const int64_t S = s->k_offsets[n + 1] - s->k_offsets[n];
        int64_t longest = 0;
        for (int64_t k = 0; k < 3; k++) {
            const int64_t keys = s->k_offsets[k + 1] - s->k_offsets[k];
            longest = keys > longest ? keys : longest;
        }
        for (int64_t r = s->q_offsets[n]; r < s->q_offsets[n + 1]; r++, w->rows++) {
            const float *row = s->weights + (w->head * s->R + r) * longest;
            const int64_t i = r - s->q_offsets[n];
            int64_t seen = 0;
            for (int64_t j = 0; j < S; j++)
                seen += !(s->causal && j > i) && (s->left < 0 || j >= i - s->left) &&
                        (s->right < 0 || s->causal || j <= i + s->right);
            int64_t read = 0;
            for (int64_t j = 0; j < S; j++) {
                if (row[j] == 0) continue;
                read++; // one exp, a sum of at most 40 ones, a division
                if (fabs((double)row[j] * (double)seen - 1) > 4 * (double)FLT_EPSILON)
                    fail_msg("%s: %g of %lld keys", w->name, (double)row[j], (long long)seen);
            }
            CHECK_EQ(read, seen);
        }
    }
    return 0;
}

TEST(uniform_weights_are_equal_in_every_family)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        struct qkv_ablation list[QKV_LAYERS_MAX];
        struct weighed w = { *name, 1 % t.info.heads, 0 };
        const struct qkv_observer observer = { .layer = observe, .user = &w, .weights = true };
        qkv_error err = { 0 };
        int64_t n = 0;
        for (int p = 0; p < 4; p++)
            for (int64_t k = 0; k < qkv_part_layers(t.model, (enum qkv_attention_part)p); k++)
                list[n++] = (struct qkv_ablation){ (enum qkv_attention_part)p, k, w.head,
                                                   QKV_ABLATE_UNIFORM };
        CHECK_EQ(qkv_model_ablate(t.model, list, n, &err), QKV_OK);
        CHECK_EQ(qkv_model_run(t.model, NULL, tiny_input(&t), &observer, &err), QKV_OK);
        CHECK(w.rows > 0);
        close_tiny(&t);
    }
}

// ---- token by token ----------------------------------------------------------------------------
// Lists each kind of ablation, on heads of every part that a decoder has.
static int64_t all_kinds(struct qkv_ablation *list, const struct qkv_model *m)
{
    const int64_t H = m->is.size.heads;
    int64_t n = 0;
    for (int p = 0; p < 4; p++)
        for (int64_t k = 0; k < qkv_part_layers(m, (enum qkv_attention_part)p) && n < 60; k++)
            for (int64_t h = 0; h < H && h < 3; h++)
                list[n++] = (struct qkv_ablation){ (enum qkv_attention_part)p, k, h,
                                                   (enum qkv_ablation_kind)((h + k + p) % 3) };
    return n;
}

static void check_bits(const char *name, const char *what, const float *got, const float *want,
                       int64_t n)
{
    if (memcmp(got, want, (size_t)n * sizeof *got) != 0) fail_msg("%s: %s", name, what);
}

TEST(a_token_at_a_time_says_what_all_at_once_say)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        struct qkv_ablation list[64];
        qkv_error err = { 0 };
        case_open(&c, *name, QKV_PRECISION_F32);
        if (qkv_model_ablate(c.model, list, all_kinds(list, c.model), &err))
            fail_msg("%s: %s", *name, err.text);
        const int64_t V = c.info.vocab, T = c.T;
        float *want = case_whole(&c, c.ids, T), *got = golden_floats(T * V);
        const struct qkv_decoder_options o = { .items = 3, .chunk = 5 };
        qkv_decoder *d = case_decoder(&c, &o);
        for (int64_t i = 0; i < T; i++) case_feed(d, got + i * V, 0, c.ids + i, 1, false);
        check_bits(*name, "one by one", got, want, T * V);
        case_feed(d, got, 1, c.ids, T, true); // in pieces of 5
        check_bits(*name, "in pieces", got, want, T * V);
        // Items are exchanged, one is cut, then both continue.
        const int64_t to[] = { 0, 2 }, from[] = { 1, 0 };
        CHECK_EQ(qkv_decoder_copy(d, to, from, 2, &err), QKV_OK);
        // released tokens of a window cannot be restored
        if (qkv_decoder_cut(d, 2, T / 2) == QKV_OK) {
            case_feed(d, got, 2, c.ids + T / 2, T - T / 2, true);
            check_bits(*name, "after a cut", got, want + T / 2 * V, (T - T / 2) * V);
        }
        qkv_decoder_free(d);
        free(want);
        free(got);
        qkv_model_close(c.model);
    }
}

// ---- one run -----------------------------------------------------------------------------------
TEST(heads_that_a_run_ablates_are_those_that_the_model_would_ablate)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        struct qkv_ablation list[64];
        qkv_error err = { 0 };
        const int64_t n = t.R * t.info.width;
        float *plain = golden_floats(n), *want = golden_floats(n), *got = golden_floats(n);
        const struct qkv_run_options o = { .ablate = list, .ablations = all_kinds(list, t.model) };
        struct qkv_model_input in = *tiny_input(&t);
        CHECK_EQ(qkv_model_run(t.model, plain, &in, NULL, &err), QKV_OK);
        in.options = &o;
        CHECK_EQ(qkv_model_run(t.model, got, &in, NULL, &err), QKV_OK);
        in.options = NULL;
        CHECK_EQ(qkv_model_run(t.model, want, &in, NULL, &err), QKV_OK);
        check_bits(*name, "the next run has ablated heads", want, plain, n);
        CHECK_EQ(qkv_model_ablate(t.model, o.ablate, o.ablations, &err), QKV_OK);
        CHECK_EQ(qkv_model_run(t.model, want, &in, NULL, &err), QKV_OK);
        check_bits(*name, "ablations of a run", got, want, n);
        CHECK(memcmp(got, plain, (size_t)n * sizeof *got) != 0);
        // a list of a run replaces that of the model
        const struct qkv_run_options one = { .ablate = list, .ablations = 1 };
        in.options = &one;
        CHECK_EQ(qkv_model_run(t.model, got, &in, NULL, &err), QKV_OK);
        in.options = NULL;
        CHECK_EQ(qkv_model_ablate(t.model, list, 1, &err), QKV_OK);
        CHECK_EQ(qkv_model_run(t.model, want, &in, NULL, &err), QKV_OK);
        check_bits(*name, "another list than the model's", got, want, n);
        free(plain);
        free(want);
        free(got);
        close_tiny(&t);
    }
}

static qkv_status run_flow(void *ctx, qkv_error *err)
{
    static const int32_t ids[] = { 1, 2, 3 };
    static const int64_t offsets[] = { 0, 3 };
    const struct qkv_ablation uniform = { QKV_PART_STACK, 0, -1, QKV_ABLATE_UNIFORM };
    const struct qkv_run_options o = { .score_scale = 2, .ablate = &uniform, .ablations = 1 };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .ids = ids, .options = &o
    };
    qkv_model *m = NULL;
    qkv_status status = qkv_model_open(&m, ctx, NULL, err);
    if (!status) status = qkv_model_run(m, NULL, &in, NULL, err);
    qkv_model_close(m);
    return status;
}

TEST(options_of_a_run_survive_every_failed_allocation)
{
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    CHECK(faults_walk(run_flow, (void *)GOLDEN "gpt2", true) > 5);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

static qkv_status copy_flow(void *ctx, qkv_error *err)
{
    const struct qkv_ablation mean = { QKV_PART_STACK, 0, -1, QKV_ABLATE_MEAN };
    const struct qkv_model_options o = { .ablate = &mean, .ablations = 1 };
    const struct qkv_decoder_options two = { .items = 2, .chunk = 4 };
    static const int32_t ids[] = { 1, 2, 3, 4, 5, 6 };
    const int64_t items[] = { 0, 1 }, turned[] = { 1, 0 }, offsets[] = { 0, 4, 6 };
    const struct qkv_decoder_tokens t = { .n = 2, .items = items, .offsets = offsets, .ids = ids };
    qkv_model *m = NULL;
    qkv_decoder *d = NULL;
    qkv_status status = qkv_model_open(&m, ctx, &o, err);
    if (!status) status = qkv_decoder_new(&d, m, &two, err);
    if (!status) status = qkv_decoder_feed(d, NULL, &t, err);
    if (!status) status = qkv_decoder_copy(d, items, turned, 2, err);
    if (!status) status = qkv_decoder_feed(d, NULL, &t, err);
    qkv_decoder_free(d);
    qkv_model_close(m);
    return status;
}

TEST(ablation_survives_every_failed_allocation)
{
    CHECK_EQ(qkv_threads_set(1), QKV_OK);
    CHECK(faults_walk(copy_flow, (void *)GOLDEN "gpt2", true) > 10);
    CHECK_EQ(qkv_threads_set(0), QKV_OK);
}

// ---- names and lists ---------------------------------------------------------------------------
TEST(names_are_read_and_written)
{
    static const struct {
        const char *text, *name; // NULL: the text is refused
    } rows[] = {
        { "L3.H5=zero", "L3.H5=zero" },
        { "L3.H5", "L3.H5=zero" },
        { "L0.H0=mean", "L0.H0=mean" },
        { "L12.H*=uniform", "L12.H*=uniform" },
        { "enc.L0.H1", "enc.L0.H1=zero" },
        { "dec.L1.H2=mean", "dec.L1.H2=mean" },
        { "cross.L9.H*", "cross.L9.H*=zero" },
        { "", NULL },
        { "L3", NULL },
        { "L3.H", NULL },
        { "L.H5", NULL },
        { "L-1.H0", NULL },
        { "L3.H5=", NULL },
        { "L3.H5=none", NULL },
        { "L3.H5=zeros", NULL },
        { "L3.H5zero", NULL },
        { "l3.h5", NULL },
        { "L03.H5", NULL },
        { "L3.H5 ", NULL },
        { "L9999999999.H0", NULL },
        { "encoder.L0.H0", NULL },
        { "H5.L3", NULL },
        { "L3.H**", NULL },
    };
    EACH(r, rows)
    {
        struct qkv_ablation a;
        char name[48];
        qkv_error err = { 0 };
        const qkv_status status = qkv_ablation_parse(&a, r->text, strlen(r->text), &err);
        if ((status == QKV_OK) != (r->name != NULL)) fail_msg("'%s': %d", r->text, (int)status);
        if (r->name)
            CHECK_TEXT(qkv_ablation_name(name, sizeof name, &a), r->name);
        else
            CHECK(status == QKV_ERR_USAGE && strstr(err.text, "expected") &&
                  strstr(err.text, "found"));
    }
}

TEST(lists_that_do_not_fit_the_model_change_nothing)
{
    static const struct {
        const char *folder;
        struct qkv_ablation list[2];
        int64_t n;
        const char *says;
    } rows[] = {
        { "bert", { { QKV_PART_STACK, 99, 0, 0 } }, 1, "cannot ablate L99.H0=zero: no such layer" },
        { "bert", { { QKV_PART_STACK, -1, 0, 0 } }, 1, "no such layer" },
        { "bert", { { QKV_PART_STACK, 0, 99, 0 } }, 1, "no such head" },
        { "bert", { { QKV_PART_STACK, 0, -2, 0 } }, 1, "no such head" },
        { "bert", { { QKV_PART_STACK, 0, 1, 0 }, { QKV_PART_STACK, 0, 1, 2 } }, 2, "named twice" },
        { "bert", { { QKV_PART_STACK, 0, -1, 0 }, { QKV_PART_STACK, 0, 1, 0 } }, 2, "named twice" },
        { "bert",
          { { QKV_PART_STACK, 0, 0, (enum qkv_ablation_kind)3 } },
          1,
          "unknown replacement" },
        { "bert",
          { { QKV_PART_ENCODER, 0, 0, 0 } },
          1,
          "wrong part of the model, expected a layer without" },
        { "gpt2", { { QKV_PART_CROSS, 0, 0, 0 } }, 1, "wrong part of the model" },
        { "t5",
          { { QKV_PART_STACK, 0, 0, 0 } },
          1,
          "wrong part of the model, expected enc., dec. or cross." },
        { "t5", { { (enum qkv_attention_part)4, 0, 0, 0 } }, 1, "wrong part of the model" },
    };
    EACH(r, rows)
    {
        struct tiny t = open_tiny(r->folder, QKV_PRECISION_F32);
        qkv_error err = { 0 };
        CHECK_EQ(qkv_model_ablate(t.model, r->list, r->n, &err), QKV_ERR_USAGE);
        if (!strstr(err.text, r->says)) fail_msg("%s: %s", r->says, err.text);
        CHECK(!t.model->ablated && !t.model->stack[0].block[0].heads.ablation);
        const struct qkv_run_options run = { .ablate = r->list, .ablations = r->n };
        struct qkv_model_input in = *tiny_input(&t);
        in.options = &run;
        CHECK_EQ(qkv_model_run(t.model, NULL, &in, NULL, &err), QKV_ERR_USAGE);
        if (!strstr(err.text, r->says)) fail_msg("%s: %s", r->says, err.text);
        const struct qkv_model_options o = { .ablate = r->list, .ablations = r->n };
        qkv_model *m = NULL;
        CHECK_EQ(qkv_model_open(&m, tiny_path(r->folder, ""), &o, &err), QKV_ERR_USAGE);
        CHECK(!m);
        close_tiny(&t);
    }
    CHECK_EQ(qkv_model_ablate(NULL, NULL, 0, NULL), QKV_ERR_USAGE);
}

CHECK_MAIN(CASE(a_head_of_nothing_is_one_whose_columns_are_zero),
           CASE(uniform_weights_are_equal_in_every_family),
           CASE(a_token_at_a_time_says_what_all_at_once_say),
           CASE(heads_that_a_run_ablates_are_those_that_the_model_would_ablate),
           CASE(options_of_a_run_survive_every_failed_allocation),
           CASE(ablation_survives_every_failed_allocation), CASE(names_are_read_and_written),
           CASE(lists_that_do_not_fit_the_model_change_nothing))
