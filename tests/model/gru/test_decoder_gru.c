// SPDX-License-Identifier: MIT
// test_decoder_gru.c: checks the GRU encoder-decoder opened as a model: its logits equal the logits
// of the trainable model, for any other items, pieces and copies.
#include "model/folder.h"
#include "model/model_internal.h"

enum { WIDTH = 8, VOCAB = 13, MOST = 9 };
static const int64_t from[] = { 0, 4, 5, 9 };
static const int32_t source[] = { 4, 7, 2, 6, 5, 3, 9, 12, 2 };

// Saves a trainable model of two layers and opens the folder as a model; net NULL: not requested.
static qkv_model *saved(qkv_net **net)
{
    const struct qkv_net_options o = { 0 };
    struct qkv_net_shape shape;
    qkv_net *n = NULL;
    qkv_model *m = NULL;
    qkv_error err = { 0 };
    CHECK(qkv_net_shape_default(&shape, "gru-attention"));
    shape.width = WIDTH;
    shape.inner = 6;
    shape.vocab = VOCAB;
    shape.layers = 2;
    shape.positions = 16;
    shape.bos = 0;
    shape.eos = 1;
    if (qkv_net_new(&n, &shape, &o, 7, &err)) fail_msg("%s", err.text);
    int64_t count;
    struct qkv_parameter *p = qkv_net_parameters(n, &count);
    check_seed = 5;
    for (int64_t i = 0; i < count; i++)
        for (int64_t k = 0; k < p[i].count; k++) p[i].value[k] += (real)check_random();
    if (qkv_net_save(n, folder_new(), QKV_F32, &err) || qkv_model_open(&m, folder_path, NULL, &err))
        fail_msg("%s", err.text);
    if (net)
        *net = n;
    else
        qkv_net_free(n);
    return m;
}

// Returns -log softmax(x)[want].
static double loss_of(const float *x, int32_t want)
{
    double sum = 0;
    for (int i = 0; i < VOCAB; i++) sum += exp((double)x[i]);
    return log(sum) - (double)x[want];
}

TEST(its_logits_are_those_of_the_trainable_model)
{
    static const int64_t to[] = { 0, 3, 4, 8 };
    static const int32_t in[] = { 0, 3, 8, 0, 0, 11, 4, 6 };
    qkv_net *n = NULL;
    qkv_model *m = saved(&n);
    qkv_decoder *d = NULL;
    float logits[8 * VOCAB];
    const struct qkv_model_info info = qkv_model_info(m);
    CHECK_EQ(info.kind, QKV_KIND_ENCODER_DECODER);
    CHECK_EQ(info.can, QKV_CAN_TOKENS);
    CHECK_EQ(qkv_decoder_new(&d, m, &(struct qkv_decoder_options){ .items = 3 }, NULL), QKV_OK);
    const struct qkv_model_input reads = { .sequences = 3, .offsets = from, .ids = source };
    const struct qkv_decoder_tokens t = { .n = 3, .offsets = to, .ids = in, .every = true };
    CHECK_EQ(qkv_decoder_source(d, 0, &reads, NULL), QKV_OK);
    CHECK_EQ(qkv_decoder_feed(d, logits, &t, NULL), QKV_OK);
    for (int32_t want = 0; want < VOCAB; want++)
        for (int64_t r = 0; r < 8; r++) {
            int32_t targets[8];
            struct qkv_loss loss = { 0 };
            const struct qkv_net_batch b = { .objective = QKV_OBJECTIVE_SEQ2SEQ,
                                             .in = { 3, to, in, NULL },
                                             .source = { 3, from, source, NULL },
                                             .targets = targets };
            for (int64_t i = 0; i < 8; i++) targets[i] = i == r ? want : -1;
            CHECK_EQ(qkv_net_run(n, &loss, &b, false, 1, 0, 0, NULL), QKV_OK);
            CHECK_NEAR(loss_of(logits + r * VOCAB, want), loss.sum, 1e-5 * (1 + loss.sum));
        }
    CHECK(qkv_decoder_bytes(d) > 0);
    qkv_decoder_free(d);
    qkv_model_close(m);
    qkv_net_free(n);
}

TEST(pieces_neighbours_and_copies_change_no_bit)
{
    static const int32_t ids[6] = { 0, 3, 8, 0, 5, 2 };
    static const int64_t one[2] = { 0, 3 }, both[3] = { 0, 3, 5 };
    float want[3 * VOCAB], got[5 * VOCAB];
    qkv_model *m = saved(NULL);
    qkv_decoder *d = NULL;
    const struct qkv_model_input in = { .sequences = 3, .offsets = from, .ids = source };
    CHECK_EQ(qkv_decoder_new(&d, m, &(struct qkv_decoder_options){ .items = 3 }, NULL), QKV_OK);
    CHECK_EQ(qkv_decoder_source(d, 0, &in, NULL), QKV_OK);
    for (int64_t t = 0; t < 3; t++)
        CHECK_EQ(qkv_decoder_feed(d, want + t * VOCAB,
                                  &(struct qkv_decoder_tokens){ .n = 1, .ids = ids + t }, NULL),
                 QKV_OK);
    CHECK_EQ(qkv_decoder_cut(d, 0, 1), QKV_ERR_USAGE); // a state cannot be restored
    CHECK_EQ(qkv_decoder_length(d, 0), 3);
    CHECK_EQ(qkv_decoder_cut(d, 0, 0), QKV_OK);
    CHECK_EQ(qkv_decoder_feed(
                 d, got,
                 &(struct qkv_decoder_tokens){ .n = 1, .offsets = one, .ids = ids, .every = true },
                 NULL),
             QKV_OK);
    CHECK_BITS(got, want, sizeof want);
    CHECK_EQ(qkv_decoder_cut(d, 0, 0), QKV_OK);
    CHECK_EQ(qkv_decoder_feed(
                 d, got,
                 &(struct qkv_decoder_tokens){ .n = 2, .offsets = both, .ids = ids, .every = true },
                 NULL),
             QKV_OK);
    CHECK_BITS(got, want, sizeof want);
    // Item 2 becomes a copy of item 0 after two tokens, with its source.
    static const int64_t to = 2, origin = 0;
    CHECK_EQ(qkv_decoder_cut(d, 0, 0), QKV_OK);
    CHECK_EQ(qkv_decoder_feed(
                 d, NULL,
                 &(struct qkv_decoder_tokens){ .n = 1, .offsets = (int64_t[]){ 0, 2 }, .ids = ids },
                 NULL),
             QKV_OK);
    CHECK_EQ(qkv_decoder_copy(d, &to, &origin, 1, NULL), QKV_OK);
    CHECK_EQ(qkv_decoder_feed(d, got,
                              &(struct qkv_decoder_tokens){ .n = 1, .items = &to, .ids = ids + 2 },
                              NULL),
             QKV_OK);
    CHECK_BITS(got, want + 2 * VOCAB, VOCAB * sizeof *got);
    qkv_decoder_free(d);
    qkv_model_close(m);
}

// The attention of an item's new tokens that the observer received, for comparison with the
// trainer's alignment.
struct shown {
    int64_t rows;
    bool stop;
    float weights[MOST][8];
};
static int show(void *user, const struct qkv_layer_output *s)
{
    struct shown *k = user;
    CHECK(s->part == QKV_PART_CROSS && s->layer == 0 && s->H == 1 && s->probe);
    CHECK_EQ(s->first, k->rows);
    for (int64_t r = 0; r < s->R; r++) {
        const float *w = s->weights + r * s->S;
        double entropy = 0, sum = 0, most = 0;
        memcpy(k->weights[k->rows + r], w, (size_t)s->S * sizeof *w);
        for (int64_t j = 0; j < s->S; j++) {
            entropy -= w[j] > 0 ? (double)w[j] * log((double)w[j]) : 0;
            sum += (double)w[j];
            most = fmax(most, (double)w[j]);
        }
        CHECK_NEAR(sum, 1, 1e-6);
        CHECK_NEAR(s->probe->entropy[r], entropy, 1e-5);
        CHECK_NEAR(s->probe->top_weight[r], most, 1e-6);
    }
    if (!k->stop) k->rows += s->R;
    return k->stop;
}

TEST(new_tokens_show_what_they_read)
{
    qkv_model *m = saved(NULL);
    qkv_decoder *d = NULL;
    struct shown one = { 0 }, many = { 0 };
    const struct qkv_decoder_options o = { .items = 3 };
    const struct qkv_model_input in = { .sequences = 3, .offsets = from, .ids = source };
    const int32_t tokens[] = { 0, 3, 5, 2 };
    const int64_t item = 2, offsets[] = { 0, 4 };
    struct qkv_observer observer = { .layer = show,
                                     .user = &one,
                                     .probe = { .top_k = 1, .entropy = true } };
    CHECK_EQ(qkv_decoder_new(&d, m, &o, NULL), QKV_OK);
    CHECK_EQ(qkv_decoder_source(d, 0, &in, NULL), QKV_OK);
    CHECK_EQ(qkv_decoder_observe(d, &observer, 2, NULL), QKV_OK);
    for (int i = 0; i < 4; i++) {
        const struct qkv_decoder_tokens t = { .n = 1, .items = &item, .ids = tokens + i };
        CHECK_EQ(qkv_decoder_feed(d, NULL, &t, NULL), QKV_OK);
    }
    CHECK_EQ(one.rows, 4);
    CHECK_EQ(qkv_decoder_cut(d, 2, 0), QKV_OK);
    observer.user = &many;
    many.stop = true;
    const struct qkv_decoder_tokens all = {
        .n = 1, .items = &item, .offsets = offsets, .ids = tokens
    };
    CHECK_EQ(qkv_decoder_observe(d, &observer, 2, NULL), QKV_OK);
    CHECK_EQ(qkv_decoder_feed(d, NULL, &all, NULL), QKV_ERR_INTERRUPTED);
    CHECK_EQ(qkv_decoder_length(d, 2), 0);
    many.stop = false;
    CHECK_EQ(qkv_decoder_feed(d, NULL, &all, NULL), QKV_OK);
    CHECK_EQ(many.rows, 4);
    CHECK_BITS(one.weights, many.weights, sizeof one.weights);
    qkv_decoder_free(d);
    qkv_model_close(m);
}

CHECK_MAIN(CASE(its_logits_are_those_of_the_trainable_model),
           CASE(pieces_neighbours_and_copies_change_no_bit), CASE(new_tokens_show_what_they_read))
