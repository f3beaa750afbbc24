// SPDX-License-Identifier: MIT
// test_decoder_observe.c: checks that the observer of a decoder receives for new tokens exactly the
// bits that the observer of a whole run receives for them.
#include "decoder_case.h"

enum { LAYERS = 8, HEADS = 8, WIDE = 256, TOP = 3 };

// What the observer received for one kind of layer; rows by position in the sequence.
struct shown {
    int64_t rows, calls;
    float hidden[CASE_TOKENS][WIDE], q[CASE_TOKENS][WIDE];
    float lse[CASE_TOKENS][HEADS], weights[CASE_TOKENS][HEADS][CASE_TOKENS];
    float entropy[CASE_TOKENS][HEADS], top[CASE_TOKENS][HEADS][TOP];
};
struct all {
    struct shown part[4][LAYERS + 1];
    int64_t D, stop; // stop: stop after this many calls; 0: never
    bool decoder;
};

static int show(void *user, const struct qkv_layer_output *s)
{
    struct all *a = user;
    struct shown *k = &a->part[s->part][s->layer + 1];
    CHECK(s->layer < LAYERS && s->H <= HEADS && s->H * s->E <= WIDE && a->D <= WIDE);
    CHECK_EQ(s->first, a->decoder ? k->rows : 0);
    k->rows += s->R;
    k->calls++;
    for (int64_t r = 0; r < s->R; r++) {
        const int64_t t = s->first + r;
        if (s->hidden) memcpy(k->hidden[t], s->hidden + r * a->D, (size_t)a->D * sizeof(float));
        if (s->layer < 0) continue;
        CHECK(!a->decoder || (!s->k && !s->v));
        memcpy(k->q[t], s->q + r * s->H * s->E, (size_t)(s->H * s->E) * sizeof(float));
        for (int64_t h = 0; h < s->H; h++) {
            const int64_t at = h * s->R + r, n = s->probe->top_k;
            k->lse[t][h] = s->lse[at];
            k->entropy[t][h] = s->probe->entropy[at];
            memcpy(k->weights[t][h], s->weights + at * s->S, (size_t)s->S * sizeof(float));
            memcpy(k->top[t][h], s->probe->top_weight + at * n, (size_t)n * sizeof(float));
        }
    }
    return a->stop > 0 && --a->stop == 0;
}

static struct all whole, pieces;
static const struct qkv_probe_request request = { .top_k = TOP, .entropy = true };

static void observe_all(const struct decoder_case *c)
{
    const struct qkv_observer observer = { show, &whole, true, request, false, false };
    const struct qkv_model_input in = { .sequences = 1,
                                        .offsets = c->offsets,
                                        .ids = c->ids,
                                        .source = case_two(c) ? &c->read : NULL };
    qkv_error err = { 0 };
    memset(&whole, 0, sizeof whole);
    whole.D = c->info.width;
    if (qkv_model_run(c->model, NULL, &in, &observer, &err)) fail_msg("%s", err.text);
}

static void begin(qkv_decoder *d, const struct decoder_case *c, int64_t item)
{
    const struct qkv_observer observer = { show, &pieces, true, request, false, false };
    memset(&pieces, 0, sizeof pieces);
    pieces.D = c->info.width;
    pieces.decoder = true;
    CHECK_EQ(qkv_decoder_observe(d, &observer, item, NULL), QKV_OK);
}

static void same(const struct decoder_case *c)
{
    static const enum qkv_attention_part parts[] = { QKV_PART_STACK, QKV_PART_DECODER,
                                                     QKV_PART_CROSS };
    EACH(p, parts)
    for (int64_t l = 0; l <= LAYERS; l++) {
        struct shown *a = &whole.part[*p][l], *b = &pieces.part[*p][l];
        CHECK_EQ(a->rows, b->rows);
        a->calls = b->calls; // the number of calls differs: a decoder observes in pieces
        if (memcmp(a, b, sizeof *a) != 0)
            fail_msg("%s: part %d layer %d differs", c->info.name, (int)*p, (int)l - 1);
    }
}

TEST(new_tokens_are_shown_as_in_a_run_of_the_whole)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        observe_all(&c);
        qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 3, .chunk = 9 });
        begin(d, &c, 1);
        // Single tokens and many at once, with other items in the call and without.
        const int64_t items[] = { 2, 1, 0 };
        for (int64_t t = 0, n = 1; t < c.T; t += n, n = n % 5 + (t > 12 ? 9 : 1)) {
            n = n < c.T - t ? n : c.T - t;
            const int64_t offsets[] = { 0, 1, 1 + n, 1 + n + 1 };
            int32_t ids[CASE_TOKENS + 2] = { 3 };
            memcpy(ids + 1, c.ids + t, (size_t)n * sizeof *ids);
            ids[1 + n] = 5;
            const struct qkv_decoder_tokens other = {
                .n = 3, .items = items, .offsets = offsets, .ids = ids
            };
            if (t % 2)
                CHECK_EQ(qkv_decoder_feed(d, NULL, &other, NULL), QKV_OK);
            else
                case_feed(d, NULL, 1, c.ids + t, n, false);
        }
        same(&c);
        const int64_t calls =
            pieces.part[QKV_PART_STACK][1].calls + pieces.part[QKV_PART_DECODER][1].calls;
        CHECK(calls > 3);
        CHECK(qkv_decoder_bytes(d) > 0);
        case_feed(d, NULL, 0, c.ids, 1, false); // of another item: the observer is not called
        CHECK_EQ(qkv_decoder_observe(d, NULL, 1, NULL), QKV_OK);
        CHECK_EQ(qkv_decoder_cut(d, 1, 0), QKV_OK);
        case_feed(d, NULL, 1, c.ids, 2, false);
        CHECK_EQ(calls,
                 pieces.part[QKV_PART_STACK][1].calls + pieces.part[QKV_PART_DECODER][1].calls);
        qkv_decoder_free(d);
        qkv_model_close(c.model);
    }
}

TEST(an_observer_that_stops_leaves_every_item_as_it_was)
{
    EACH_CASE(name)
    {
        struct decoder_case c;
        case_open(&c, *name, QKV_PRECISION_F32);
        float *want = case_whole(&c, c.ids, c.T);
        float *logits = malloc((size_t)c.info.vocab * sizeof *logits);
        qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 1, .chunk = 4 });
        case_feed(d, NULL, 0, c.ids, 3, false);
        const int64_t offsets[] = { 0, c.T - 3 };
        const struct qkv_decoder_tokens t = { .n = 1, .offsets = offsets, .ids = c.ids + 3 };
        qkv_error err = { 0 };
        begin(d, &c, 0);
        for (int p = 0; p < 4; p++)
            for (int l = 0; l <= LAYERS; l++) pieces.part[p][l].rows = 3;
        pieces.stop = 2;
        CHECK_EQ(qkv_decoder_feed(d, logits, &t, &err), QKV_ERR_INTERRUPTED);
        CHECK_EQ(qkv_decoder_length(d, 0), 3);
        CHECK_EQ(qkv_decoder_observe(d, NULL, 0, NULL), QKV_OK);
        CHECK_EQ(qkv_decoder_feed(d, logits, &t, NULL), QKV_OK);
        CHECK_BITS(logits, want + (c.T - 1) * c.info.vocab, (size_t)c.info.vocab * sizeof *logits);
        qkv_decoder_free(d);
        qkv_model_close(c.model);
        free(want);
        free(logits);
    }
}

TEST(what_cannot_be_observed_is_refused)
{
    struct decoder_case c;
    case_open(&c, "gpt2", QKV_PRECISION_F32);
    qkv_decoder *d = case_decoder(&c, &(struct qkv_decoder_options){ .items = 2 });
    struct qkv_observer observer = { show, &pieces, false, request, false, false };
    qkv_error err = { 0 };
    CHECK_EQ(qkv_decoder_observe(NULL, &observer, 0, NULL), QKV_ERR_USAGE);
    CHECK_EQ(qkv_decoder_observe(d, &observer, 2, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "found item 2") != NULL);
    observer.probe.top_k = -1;
    CHECK_EQ(qkv_decoder_observe(d, &observer, 0, NULL), QKV_ERR_USAGE);
    qkv_decoder_free(d);
    qkv_model_close(c.model);
}

CHECK_MAIN(CASE(new_tokens_are_shown_as_in_a_run_of_the_whole),
           CASE(an_observer_that_stops_leaves_every_item_as_it_was),
           CASE(what_cannot_be_observed_is_refused))
