// SPDX-License-Identifier: MIT
// test_multi_head_plan.c: what a plan of the public multi-head layer states: the scratch, and which
// members of the request it reads.
#include "check.h"
#include <qkv/layer.h>

#ifdef QKV_DOUBLE
int main(void)
{
    puts("skipped: this build computes in double, and the public layer is called with floats");
    return 77;
}
#else
static const enum qkv_score scores[] = { QKV_SCORE_DOT, QKV_SCORE_BILINEAR, QKV_SCORE_ADDITIVE };

TEST(scratch_grows_with_tokens_not_with_their_square)
{
    EACH(score, scores)
    {
        const float w = 0;
        const struct qkv_multi_head m = { .H = 2,
                                          .d_q = 8,
                                          .d_k = 4,
                                          .d_v = 4,
                                          .d_a = 4,
                                          .score = *score,
                                          .w_s = &w,
                                          .w_aq = &w,
                                          .w_ak = &w,
                                          .w_a = &w };
        size_t bytes[2];
        for (int i = 0; i < 2; i++) {
            const int64_t n = i ? 1 << 21 : 1 << 20;
            const struct qkv_attention_plan p =
                qkv_multi_head_plan(&m, &(struct qkv_attention){ .B = 1, .T = n, .S = n });
            CHECK_EQ(p.status, QKV_OK);
            bytes[i] = p.scratch;
        }
        CHECK(bytes[1] <= 2 * bytes[0]);
    }
}

// An input that is not projected is read where it is; heads that are the output are written there.
TEST(without_projections_the_layer_needs_the_scratch_of_attention)
{
    const struct qkv_multi_head m = { .H = 2, .d_q = 8, .d_k = 4, .d_v = 4 };
    const struct qkv_attention a = { .B = 1, .T = 4096, .S = 4096 };
    struct qkv_attention plain = a;
    plain.H = plain.G = 2;
    plain.E = plain.F = 4;
    const size_t bytes = qkv_multi_head_plan(&m, &a).scratch;
    CHECK(bytes <= qkv_attention_plan(&plain).scratch);
    // The output may not be the input, as in attention.
    float *x = qkv_alloc(4096 * 8, sizeof *x);
    void *scratch = qkv_alloc(bytes, 1);
    memset(x, 0, 4096 * 8 * sizeof *x);
    CHECK_EQ(qkv_multi_head_forward(x, NULL, x, NULL, &m, &a, scratch), QKV_ERR_USAGE);
    qkv_free(x);
    qkv_free(scratch);
}

// d_a belongs to additive scores: other scores do not read it.
TEST(a_member_of_another_score_is_not_read)
{
    const float w[32] = { 0 };
    struct qkv_multi_head m = {
        .H = 2, .d_q = 8, .d_k = 4, .d_v = 4, .score = QKV_SCORE_BILINEAR, .w_s = w
    };
    const struct qkv_attention a = { .B = 1, .T = 3, .S = 3 };
    const size_t forward = qkv_multi_head_plan(&m, &a).scratch;
    const size_t backward = qkv_multi_head_backward_plan(&m, &a, NULL).scratch;
    m.d_a = INT64_MAX;
    CHECK_EQ(qkv_multi_head_plan(&m, &a).scratch, forward);
    CHECK_EQ(qkv_multi_head_backward_plan(&m, &a, NULL).scratch, backward);
}

TEST(a_request_lacks_one_member_at_a_time)
{
    static const struct {
        size_t at;  // offset of a pointer, or of an integer
        int64_t to; // the integer; -1: the pointer becomes NULL
        bool additive;
        qkv_status status;
    } rows[] = {
#define NONE(member, additive)                                                                     \
    {                                                                                              \
        offsetof(struct qkv_multi_head, member), -1, additive, QKV_ERR_USAGE                       \
    }
#define SET(member, to, additive, status)                                                          \
    {                                                                                              \
        offsetof(struct qkv_multi_head, member), to, additive, status                              \
    }
        NONE(w_aq, true),
        NONE(w_ak, true),
        NONE(w_a, true),
        NONE(w_s, false),
        SET(d_a, 0, true, QKV_ERR_USAGE),
        SET(d_a, 1, true, QKV_OK),
        SET(d_a, 1 << 19, true, QKV_OK),
        SET(d_a, (1 << 19) + 1, true, QKV_ERR_LIMIT),
        SET(d_out, 0, true, QKV_ERR_USAGE),
        SET(d_out, 1 << 20, false, QKV_OK),
        SET(d_out, (1 << 20) + 1, false, QKV_ERR_LIMIT),
        SET(d_k, 0, false, QKV_ERR_USAGE),
        SET(d_v, (1 << 20) + 1, false, QKV_ERR_LIMIT),
        SET(H, 3, false, QKV_ERR_USAGE), // no multiple of G
        NONE(w_q, false),                // then d_q is H d_k, and d_kv is G d_k and G d_v
        NONE(w_k, true),
        NONE(w_v, true),
    };
    const struct qkv_attention a = { .B = 1, .T = 3, .S = 3 };
    EACH(row, rows)
    {
        const float w = 0;
        struct qkv_multi_head m = { .H = 4,
                                    .G = 2,
                                    .d_q = 5,
                                    .d_kv = 7,
                                    .d_k = 4,
                                    .d_v = 4,
                                    .d_a = 4,
                                    .d_out = 6,
                                    .w_q = &w,
                                    .w_k = &w,
                                    .w_v = &w,
                                    .w_o = &w,
                                    .w_s = &w,
                                    .w_aq = &w,
                                    .w_ak = &w,
                                    .w_a = &w,
                                    .score =
                                        row->additive ? QKV_SCORE_ADDITIVE : QKV_SCORE_BILINEAR };
        CHECK_EQ(qkv_multi_head_plan(&m, &a).status, QKV_OK);
        if (row->to < 0)
            memset((char *)&m + row->at, 0, sizeof(float *));
        else
            memcpy((char *)&m + row->at, &row->to, sizeof row->to);
        const qkv_status status = qkv_multi_head_plan(&m, &a).status;
        if (status != row->status)
            fail_msg("row %d: %d, expected %d", (int)(row - rows), (int)status, (int)row->status);
    }
}

CHECK_MAIN(CASE(scratch_grows_with_tokens_not_with_their_square),
           CASE(without_projections_the_layer_needs_the_scratch_of_attention),
           CASE(a_member_of_another_score_is_not_read), CASE(a_request_lacks_one_member_at_a_time))
#endif
