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

CHECK_MAIN(CASE(scratch_grows_with_tokens_not_with_their_square),
           CASE(without_projections_the_layer_needs_the_scratch_of_attention),
           CASE(a_member_of_another_score_is_not_read))
#endif
