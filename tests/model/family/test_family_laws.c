// SPDX-License-Identifier: MIT
// test_family_laws.c: checks laws for small random models of every family in every precision that
// this CPU supports: other sequences, padding and threads change no bit; attention weights follow
// from what an observer receives.
#include "model/model_internal.h"
#include "model/tiny.h"

// Returns the root mean square of a - b divided by that of b.
static double relative_error(const float *a, const float *b, int64_t n)
{
    double off = 0, all = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)a[i] - (double)b[i];
        off += d * d;
        all += (double)b[i] * (double)b[i];
    }
    return sqrt(off / all);
}

// In a layer a number is rounded at most 12 times to the type of the precision (input and weights
// of four products, q or k or v, exp of a score, heads, inner rows), each time by at most u of its
// size; so a layer adds 12 u relative to the normalized stream. int8: rows and weights of four
// products are rounded to steps of their largest element / 127, which is at most sqrt(K) times the
// mean size of a row.
TEST(every_precision_stays_as_near_as_its_roundings)
{
    static const struct {
        qkv_precision p;
        double u;
    } rows[] = { { QKV_PRECISION_F32, 0x1p-24 },      { QKV_PRECISION_F32_STRICT, 0x1p-24 },
                 { QKV_PRECISION_F32_FAST, 0x1p-16 }, { QKV_PRECISION_BF16, 0x1p-9 },
                 { QKV_PRECISION_F16, 0x1p-12 },      { QKV_PRECISION_INT8, 0 } };
    double worst[QKV_PRECISIONS] = { 0 };
    EACH_TINY(name)
    EACH(r, rows)
    {
        if (!qkv_precision_runs(r->p)) continue;
        struct tiny t = open_tiny(*name, r->p);
        struct golden_seen k = golden_run(t.model, tiny_input(&t));
        const double most = sqrt((double)qkv_max64(k.D, k.info.inner));
        const double layer = r->p == QKV_PRECISION_INT8 ? 8 * most / 254 : 12 * r->u;
        const int64_t hidden = (golden_layers(&k.info) + 1) * t.R * k.D;
        if (!tiny_has(&t, "hidden")) {
            golden_free(&k);
            close_tiny(&t);
            continue;
        }
        const float *h = golden_get(t.golden, NULL, "hidden", QKV_F32, hidden);
        const double error = relative_error(k.last, h + hidden - t.R * k.D, t.R * k.D);
        // the reference itself has rounding errors of float, in sums of up to max(D, M) terms
        const double reference = (double)golden_layers(&k.info) * 12 * most * 0x1p-24;
        if (!(error <= (double)golden_layers(&k.info) * layer + reference))
            fail_msg("%s, %s: relative error %.3g, expected at most %.3g", *name,
                     qkv_precision_name(r->p), error,
                     (double)golden_layers(&k.info) * layer + reference);
        worst[r->p] = fmax(worst[r->p], error);
        golden_free(&k);
        close_tiny(&t);
    }
    EACH(r, rows)
    if (qkv_precision_runs(r->p))
        printf("%-10s relative error %.2g at most\n", qkv_precision_name(r->p), worst[r->p]);
}

// Returns sequence i of `in` as an input of its own, with its offsets.
static struct qkv_model_input only(const struct qkv_model_input *in, int64_t i, int64_t offsets[2])
{
    const int64_t at = in->offsets[i];
    offsets[0] = 0;
    offsets[1] = in->offsets[i + 1] - at;
    return (struct qkv_model_input){ .sequences = 1,
                                     .offsets = offsets,
                                     .ids = in->ids + at,
                                     .types = in->types ? in->types + at : NULL };
}
TEST(a_sequence_alone_has_the_bits_it_has_beside_others)
{
    EACH_TINY_PRECISION(name, p)
    {
        struct tiny t = open_tiny(*name, p);
        struct golden_seen all = golden_run(t.model, tiny_input(&t));
        for (int64_t i = 0; i < 3; i++) {
            int64_t own[2], sources[2];
            const int64_t at = t.in.offsets[i];
            const struct qkv_model_input source = t.source.ids ? only(&t.source, i, sources) : t.in;
            struct qkv_model_input in = only(&t.in, i, own);
            in.source = t.source.ids ? &source : NULL;
            struct golden_seen one = golden_run(t.model, &in);
            for (int64_t l = 0; l <= golden_layers(&one.info); l++)
                CHECK_BITS(one.hidden + l * one.R * one.D, all.hidden + (l * all.R + at) * all.D,
                           (size_t)(one.R * one.D) * sizeof(float));
            golden_free(&one);
        }
        golden_free(&all);
        close_tiny(&t);
    }
}

TEST(padding_changes_no_bit_and_its_rows_are_zero)
{
    EACH_TINY_PRECISION(name, p)
    {
        struct tiny t = open_tiny(*name, p);
        struct golden_seen plain = golden_run(t.model, tiny_input(&t));
        struct tiny_padded in, source;
        tiny_pad(&in, &t.in);
        if (t.source.ids) tiny_pad(&source, &t.source);
        if (t.source.ids) in.in.source = &source.in;
        struct golden_seen padded = golden_run(t.model, &in.in);
        const int64_t *lengths = in.lengths;
        const size_t row = (size_t)plain.D * sizeof(float);
        for (int64_t l = 0; l <= golden_layers(&plain.info); l++)
            for (int64_t i = 0; i < 3; i++)
                for (int64_t j = 0; j < TINY_LONG; j++) {
                    const float *got = padded.hidden + (l * padded.R + i * TINY_LONG + j) * plain.D;
                    const float *want =
                        plain.hidden + (l * plain.R + t.in.offsets[i] + j) * plain.D;
                    if (j < lengths[i])
                        CHECK_BITS(got, want, row);
                    else
                        for (int64_t d = 0; d < plain.D; d++) CHECK(got[d] == 0);
                }
        for (int64_t l = 0; l < golden_layers(&plain.info); l++)
            for (int64_t h = 0; h < plain.info.heads; h++)
                for (int64_t i = 0; i < 3; i++)
                    for (int64_t j = 0; j < TINY_LONG; j++) {
                        const int64_t head = l * plain.info.heads + h;
                        const float *got =
                            padded.weights + (head * padded.R + i * TINY_LONG + j) * TINY_LONG;
                        const float *want =
                            plain.weights + (head * plain.R + t.in.offsets[i] + j) * plain.S;
                        if (j < lengths[i])
                            CHECK_BITS(got, want, TINY_LONG * sizeof(float));
                        else
                            for (int64_t c = 0; c < TINY_LONG; c++) CHECK(got[c] == 0);
                    }
        golden_free(&plain);
        golden_free(&padded);
        close_tiny(&t);
    }
}

TEST(any_number_of_threads_gives_the_same_bits)
{
    static const int counts[] = { 2, 3, 8 };
    EACH_TINY_PRECISION(name, p)
    {
        struct tiny t = open_tiny(*name, p);
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        struct golden_seen one = golden_run(t.model, tiny_input(&t));
        EACH(n, counts)
        {
            CHECK_EQ(qkv_threads_set(*n), QKV_OK);
            struct golden_seen many = golden_run(t.model, tiny_input(&t));
            CHECK_BITS(one.hidden, many.hidden,
                       (size_t)((golden_layers(&one.info) + 1) * one.R * one.D) * sizeof(float));
            golden_free(&many);
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        golden_free(&one);
        close_tiny(&t);
    }
}

// Recomputes weights = exp(score - lse), as the pages of qkv view do.
struct rebuilt {
    int64_t sequences, attentions;
    double less; // relative error of the products in a score
    double worst;
};
static bool meets(const struct qkv_layer_output *s, int64_t i, int64_t j)
{
    return (!s->causal || j <= i) && (s->left < 0 || j >= i - s->left) &&
           (s->right < 0 || j <= i + s->right);
}
static double score(const struct qkv_layer_output *s, int64_t h, int64_t i, int64_t j, double dot)
{
    double x = (double)s->scale * dot;
    if (s->softcap > 0) x = (double)s->softcap * tanh(x / (double)s->softcap);
    if (s->relative) {
        const int64_t far = qkv_max64(-s->reach, qkv_min64(s->reach, j - i));
        x += (double)s->relative[h * (2 * s->reach + 1) + far + s->reach];
    }
    return x;
}
// Recomputes row r of head h in sequence n.
static void rebuild_row(struct rebuilt *b, const struct qkv_layer_output *s, int64_t h, int64_t n,
                        int64_t r, int64_t keys)
{
    const int64_t at = s->k_offsets[n], i = r - s->q_offsets[n];
    // most: largest sum of products of any key in the row, which bounds the error of lse
    double most = 0, off = 0;
    for (int64_t c = at; c < s->k_offsets[n + 1]; c++) {
        const double w = (double)s->weights[(h * s->R + r) * keys + c - at];
        double dot = 0, size = 0;
        if (!meets(s, i, c - at)) {
            CHECK(w == 0);
            continue;
        }
        for (int64_t e = 0; e < s->E; e++) {
            const double x = (double)s->q[(r * s->H + h) * s->E + e] *
                             (double)s->k[(c * s->G + h / (s->H / s->G)) * s->E + e];
            dot += x;
            size += fabs(x);
        }
        most = fmax(most, size);
        const double p = exp(score(s, h, i, c - at, dot) - (double)s->lse[h * s->R + r]);
        off = fmax(off, fabs(p - w));
    }
    // A score off by d, and the row's lse off by as much, change a weight of at most 1 by a factor
    // of e^2d.
    const double d = b->less * fabs((double)s->scale) * most;
    b->worst = fmax(b->worst, off - expm1(2 * d));
}
static int rebuild(void *user, const struct qkv_layer_output *s)
{
    struct rebuilt *b = user;
    if (s->layer < 0) {
        CHECK(!s->q && !s->k && !s->v && !s->lse && !s->weights);
        return 0;
    }
    b->attentions++;
    int64_t keys = 0;
    for (int64_t n = 0; n < b->sequences; n++)
        keys = qkv_max64(keys, s->k_offsets[n + 1] - s->k_offsets[n]);
    for (int64_t h = 0; h < s->H; h++)
        for (int64_t n = 0; n < b->sequences; n++)
            for (int64_t r = s->q_offsets[n]; r < s->q_offsets[n + 1]; r++)
                rebuild_row(b, s, h, n, r, keys);
    return 0;
}
TEST(weights_follow_from_q_k_and_lse)
{
    EACH_TINY_PRECISION(name, p)
    {
        struct tiny t = open_tiny(*name, p);
        // three products of bf16 parts: docs/numerics.md, "AMX"
        const double less = p == QKV_PRECISION_F32_FAST ? 0x1p-15 : 0;
        struct rebuilt b = { .sequences = t.in.sequences, .less = less };
        const struct qkv_observer observer = { .layer = rebuild, .user = &b, .weights = true };
        qkv_error err = { 0 };
        CHECK_EQ(qkv_model_run(t.model, NULL, tiny_input(&t), &observer, &err), QKV_OK);
        CHECK_EQ(b.attentions, t.info.layers + 2 * t.info.decoder_layers);
        if (!(b.worst <= golden_attention_tolerance))
            fail_msg("%s, %s: weights %.3g off", *name, qkv_precision_name(p), b.worst);
        close_tiny(&t);
    }
}

static int stop_at_layer_0(void *user, const struct qkv_layer_output *s)
{
    ++*(int *)user;
    return s->layer == 0;
}
TEST(an_observer_can_stop_the_run)
{
    struct tiny t = open_tiny("bert", QKV_PRECISION_F32);
    int calls = 0;
    const struct qkv_observer observer = { .layer = stop_at_layer_0, .user = &calls };
    qkv_error err = { 0 };
    CHECK_EQ(qkv_model_run(t.model, NULL, &t.in, &observer, &err), QKV_ERR_INTERRUPTED);
    CHECK_EQ(err.status, QKV_ERR_INTERRUPTED);
    CHECK_EQ(calls, 2);
    close_tiny(&t);
}

TEST(what_the_model_is_told)
{
    struct tiny t = open_tiny("roberta", QKV_PRECISION_F32);
    const struct qkv_model_info info = qkv_model_info(t.model);
    CHECK_TEXT(info.family, "roberta");
    CHECK_TEXT(info.name, "roberta");
    CHECK_EQ(info.layers, 2);
    CHECK_EQ(info.heads, 3);
    CHECK_EQ(info.kv_heads, 3);
    CHECK_EQ(info.width, 24);
    CHECK_EQ(info.head_width, 8);
    CHECK_EQ(info.inner, 40);
    CHECK_EQ(info.vocab, 40);
    CHECK_EQ(info.positions, 16); // 18 rows, of which 2 precede the first position
    CHECK_EQ(info.types, 1);
    CHECK_EQ(info.tensors, 5 + 2 * 16 + 2);
    CHECK_EQ(info.unused_tensors, 2); // the pooler
    CHECK_NEAR(info.flops_token, 2.0 * 2 * (4 * 24 * 24 + 2 * 24 * 40), 0);
    close_tiny(&t);
}

TEST(wrong_tokens_are_refused_with_the_numbers)
{
    struct tiny t = open_tiny("bert", QKV_PRECISION_F32);
    const int32_t good[14] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14 };
    const int32_t bad_id[2] = { 3, 40 }, below[1] = { -1 }, bad_type[2] = { 0, 2 };
    const struct {
        int64_t offsets[3], lengths[2];
        const int32_t *ids, *types;
        bool padded;
        const char *text;
    } rows[] = {
        { { 0, 2, 2 },
          { 0, 0 },
          bad_id,
          NULL,
          false,
          "token id out of range, expected an id below 40, found 40" },
        { { 0, 1, 1 },
          { 0, 0 },
          below,
          NULL,
          false,
          "token id out of range, expected an id below 40, found -1" },
        { { 0, 2, 2 },
          { 0, 0 },
          good,
          bad_type,
          false,
          "token type out of range, expected a type below 2, found 2" },
        { { 0, 14, 14 },
          { 0, 0 },
          good,
          NULL,
          false,
          "sequence too long for the model, expected at most 13 tokens, found 14" },
        { { 0, 3, 2 },
          { 0, 0 },
          good,
          NULL,
          false,
          "invalid offsets of sequences, expected ascending numbers of at most 2147483647, found "
          "2" },
        { { 1, 3, 3 },
          { 0, 0 },
          good,
          NULL,
          false,
          "invalid offsets of sequences, expected offsets that begin with 0" },
        { { 0, 3, 5 },
          { 3, 3 },
          good,
          NULL,
          true,
          "invalid length of sequence 1, expected 0 .. 2, found 3" },
    };
    EACH(r, rows)
    {
        qkv_error err = { 0 };
        float hidden[14 * 35];
        const struct qkv_model_input in = { .sequences = 2,
                                            .offsets = r->offsets,
                                            .ids = r->ids,
                                            .types = r->types,
                                            .lengths = r->padded ? r->lengths : NULL };
        CHECK_EQ(qkv_model_run(t.model, hidden, &in, NULL, &err), QKV_ERR_USAGE);
        CHECK_TEXT(err.text, r->text);
    }
    close_tiny(&t);
}

TEST(no_tokens_are_no_work)
{
    struct tiny t = open_tiny("bert", QKV_PRECISION_F32);
    const int64_t offsets[3] = { 0, 0, 0 };
    qkv_error err = { 0 };
    const int64_t two[2] = { 0, 2 }, none[1] = { 0 };
    const int32_t ids[2] = { -1, -1 };
    float hidden[2 * 35];
    for (int i = 0; i < 2 * 35; i++) hidden[i] = 1;
    const struct qkv_model_input padding = {
        .sequences = 1, .offsets = two, .lengths = none, .ids = ids
    };
    CHECK_EQ(qkv_model_run(t.model, hidden, &padding, NULL, &err), QKV_OK);
    for (int i = 0; i < 2 * 35; i++) CHECK(hidden[i] == 0);
    CHECK_EQ(
        qkv_model_run(t.model, NULL, &(struct qkv_model_input){ .offsets = offsets }, NULL, &err),
        QKV_OK);
    CHECK_EQ(qkv_model_run(t.model, NULL,
                           &(struct qkv_model_input){ .sequences = 2, .offsets = offsets }, NULL,
                           &err),
             QKV_OK);
    close_tiny(&t);
}

CHECK_MAIN(CASE(every_precision_stays_as_near_as_its_roundings),
           CASE(a_sequence_alone_has_the_bits_it_has_beside_others),
           CASE(padding_changes_no_bit_and_its_rows_are_zero),
           CASE(any_number_of_threads_gives_the_same_bits), CASE(weights_follow_from_q_k_and_lse),
           CASE(an_observer_can_stop_the_run), CASE(what_the_model_is_told),
           CASE(wrong_tokens_are_refused_with_the_numbers), CASE(no_tokens_are_no_work))
