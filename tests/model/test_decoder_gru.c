// SPDX-License-Identifier: MIT
// test_decoder_gru.c: the encoder-decoder with GRUs opened as a model: it writes what the search of
// its trainer writes, whatever the neighbours, pieces and copies.
#include "folder.h"
#include "model/model.h"

enum { WIDTH = 8, VOCAB = 13, MOST = 9 };
static const int64_t from[] = { 0, 4, 5, 9 };
static const int32_t source[] = { 4, 7, 2, 6, 5, 3, 9, 12, 2 };

// A net of two layers in a folder, and what its own greedy search writes.
static qkv_model *saved(int32_t ids[3 * MOST], int64_t lengths[3])
{
    const struct qkv_net_options o = { 0 };
    const struct qkv_sequences in = { 3, from, source, NULL };
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
    if (qkv_net_decode(n, ids, lengths, MOST, 1, 0, &in, &err) ||
        qkv_net_save(n, folder_new(), QKV_F32, &err) || qkv_model_open(&m, folder_path, NULL, &err))
        fail_msg("%s", err.text);
    qkv_net_free(n);
    return m;
}

static int32_t largest(const float *x)
{
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

TEST(it_writes_what_the_trainer_s_search_writes)
{
    int32_t want[3 * MOST], next[3] = { 0 };
    int64_t lengths[3];
    float logits[3 * VOCAB];
    qkv_model *m = saved(want, lengths);
    qkv_decoder *d = NULL;
    const struct qkv_model_info info = qkv_model_info(m);
    CHECK_EQ(info.kind, QKV_KIND_ENCODER_DECODER);
    CHECK_EQ(info.can, QKV_CAN_TOKENS);
    CHECK_EQ(qkv_decoder_new(&d, m, &(struct qkv_decoder_options){ .items = 3 }, NULL), QKV_OK);
    const struct qkv_model_input in = { .sequences = 3, .offsets = from, .ids = source };
    CHECK_EQ(qkv_decoder_source(d, 0, &in, NULL), QKV_OK);
    for (int64_t t = 0; t < MOST; t++) {
        CHECK_EQ(
            qkv_decoder_feed(d, logits, &(struct qkv_decoder_tokens){ .n = 3, .ids = next }, NULL),
            QKV_OK);
        for (int64_t i = 0; i < 3; i++) {
            next[i] = largest(logits + i * VOCAB);
            if (t < lengths[i]) CHECK_EQ(next[i], want[i * MOST + t]);
            if (t == lengths[i]) CHECK_EQ(next[i], info.eos);
        }
    }
    CHECK(qkv_decoder_bytes(d) > 0);
    qkv_decoder_free(d);
    qkv_model_close(m);
}

TEST(pieces_neighbours_and_copies_change_no_bit)
{
    static const int32_t ids[6] = { 0, 3, 8, 0, 5, 2 };
    static const int64_t one[2] = { 0, 3 }, both[3] = { 0, 3, 5 };
    int32_t unused[3 * MOST];
    int64_t lengths[3];
    float want[3 * VOCAB], got[5 * VOCAB];
    qkv_model *m = saved(unused, lengths);
    qkv_decoder *d = NULL;
    const struct qkv_model_input in = { .sequences = 3, .offsets = from, .ids = source };
    CHECK_EQ(qkv_decoder_new(&d, m, &(struct qkv_decoder_options){ .items = 3 }, NULL), QKV_OK);
    CHECK_EQ(qkv_decoder_source(d, 0, &in, NULL), QKV_OK);
    for (int64_t t = 0; t < 3; t++)
        CHECK_EQ(qkv_decoder_feed(d, want + t * VOCAB,
                                  &(struct qkv_decoder_tokens){ .n = 1, .ids = ids + t }, NULL),
                 QKV_OK);
    CHECK_EQ(qkv_decoder_cut(d, 0, 1), QKV_ERR_USAGE); // a state does not go back
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
    // Item 2 becomes item 0 after two tokens, and reads its source.
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

CHECK_MAIN(CASE(it_writes_what_the_trainer_s_search_writes),
           CASE(pieces_neighbours_and_copies_change_no_bit))
