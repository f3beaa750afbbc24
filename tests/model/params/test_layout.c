// SPDX-License-Identifier: MIT
// test_layout.c: checks laws of the table of parameters, on the checkpoints of every family and on
// descriptions that differ in one field.
#include "model/model_internal.h"
#include "model/tiny.h"

struct table {
    struct qkv_parameter_row *row;
    int64_t count;
};
static struct table table_of(const struct qkv_description *d, const struct qkv_family *family)
{
    struct table t = { NULL, 0 };
    qkv_error err = { 0 };
    if (qkv_layout(&t.row, &t.count, d, family, &err)) fail_msg("%s", err.text);
    return t;
}
// Returns the first row of a role, matrix or bias; NULL: none.
static const struct qkv_parameter_row *row_of(const struct table *t, enum qkv_role role, bool bias)
{
    for (int64_t i = 0; i < t->count; i++)
        if (t->row[i].role == role && t->row[i].bias == bias) return &t->row[i];
    return NULL;
}
static int64_t count_numbers(const struct table *t)
{
    int64_t n = 0;
    for (int64_t i = 0; i < t->count; i++)
        n += t->row[i].rows * (t->row[i].columns ? t->row[i].columns : 1);
    return n;
}

TEST(each_row_is_a_tensor_of_the_checkpoint_with_its_shape)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        const qkv_model *m = t.model;
        int64_t tensors = 0;
        struct table all = table_of(&m->is, m->family);
        for (int64_t i = 0, parts; i < all.count; i += parts) {
            const struct qkv_parameter_row *row = &all.row[i];
            const struct qkv_tensor *found = NULL;
            qkv_error err = { 0 };
            parts = qkv_tensor_rows(row, all.count - i);
            if (row->group == QKV_PACK_TOKENS && !m->tokens.out.K) continue;
            if (row->optional && !qkv_row_find(m->file, m->prefix, row)) continue;
            if (qkv_row_tensor(&found, m->file, m->prefix, row, parts, false, *name, &err))
                fail_msg("%s: %s: %s", *name, err.path, err.text);
            tensors++;
        }
        CHECK_EQ(tensors, t.info.tensors - t.info.unused_tensors);
        qkv_free(all.row);
        close_tiny(&t);
    }
}

TEST(parts_of_a_layer_are_adjacent_matrices_before_biases_and_no_parameter_repeats)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        struct table all = table_of(&t.model->is, t.model->family);
        for (int64_t i = 0, n; i < all.count; i += n) {
            const struct qkv_parameter_row *row = &all.row[i];
            n = qkv_layer_rows(row, all.count - i);
            CHECK(!row->bias || row->role == QKV_ROLE_TOKENS_BIAS);
            for (int64_t k = 1; k < n; k++) {
                CHECK(row[k].bias >= row[k - 1].bias);
                CHECK_EQ(row[k].part, row[k].bias > row[k - 1].bias ? 0 : row[k - 1].part + 1);
            }
            for (int64_t k = i + n; k < all.count; k++)
                CHECK(all.row[k].role != row->role || all.row[k].stack != row->stack ||
                      all.row[k].layer != row->layer);
        }
        qkv_free(all.row);
        close_tiny(&t);
    }
}

TEST(buffers_come_after_all_that_is_trained)
{
    EACH_TINY(name)
    {
        struct tiny t = open_tiny(*name, QKV_PRECISION_F32);
        struct table all = table_of(&t.model->is, t.model->family);
        for (int64_t i = 1; i < all.count; i++)
            CHECK(all.row[i].buffer >= all.row[i - 1].buffer ||
                  all.row[i].group == QKV_PACK_LABELS);
        qkv_free(all.row);
        close_tiny(&t);
    }
}

// Returns how many rows the table of Llama gains if one field changes.
static int64_t gain(const struct tiny *t, void (*change)(struct qkv_description *d))
{
    struct qkv_description d = t->model->is;
    struct table before = table_of(&d, t->model->family);
    change(&d);
    struct table after = table_of(&d, t->model->family);
    const int64_t numbers = count_numbers(&after) - count_numbers(&before);
    qkv_free(before.row);
    qkv_free(after.row);
    return numbers;
}
static void bias_qkv(struct qkv_description *d)
{
    d->biases = QKV_BIAS_QKV;
}
static void bias_mlp(struct qkv_description *d)
{
    d->biases = QKV_BIAS_MLP;
}
static void head_norms(struct qkv_description *d)
{
    d->norm_q = d->norm_k = true;
}
static void tie(struct qkv_description *d)
{
    d->untied = false;
}
static void untie(struct qkv_description *d)
{
    d->untied = true;
}
static void drop_first_norm(struct qkv_description *d)
{
    d->first_norm_missing = true;
}
static void layer_norms(struct qkv_description *d)
{
    d->norm_kind = QKV_NORM_LAYER;
}
static void layer_norms_unbiased(struct qkv_description *d)
{
    d->norm_kind = QKV_NORM_LAYER;
    d->norm_unbiased = true;
}

TEST(a_field_changes_the_rows_that_it_says)
{
    struct tiny t = open_tiny("llama", QKV_PRECISION_F32);
    const struct qkv_description *d = &t.model->is;
    const int64_t L = d->size.layers, D = d->size.width, E = qkv_head_keys(d);
    const int64_t q = d->size.heads * E, k = d->size.kv_heads * E;
    const int64_t v = d->size.kv_heads * qkv_head_values(d);
    CHECK_EQ(gain(&t, bias_qkv), L * (q + k + v));
    CHECK_EQ(gain(&t, bias_mlp), L * (2 * d->size.inner + D));
    CHECK_EQ(gain(&t, head_norms), L * 2 * E);
    CHECK_EQ(gain(&t, untie) - gain(&t, tie), d->size.vocab * D);
    CHECK_EQ(gain(&t, drop_first_norm), -D);
    CHECK_EQ(gain(&t, layer_norms), (2 * L + 1) * D);
    CHECK_EQ(gain(&t, layer_norms_unbiased), 0);
    close_tiny(&t);
}

TEST(joined_rows_share_one_tensor_and_buffers_are_stored_as_one_row)
{
    int64_t shape[2];
    struct tiny gpt = open_tiny("gpt2", QKV_PRECISION_F32),
                bart = open_tiny("bart", QKV_PRECISION_F32);
    struct table g = table_of(&gpt.model->is, gpt.model->family),
                 b = table_of(&bart.model->is, bart.model->family);
    const int64_t D = gpt.model->is.size.width;
    const struct qkv_parameter_row *in = row_of(&g, QKV_ROLE_HEADS_IN, false);
    CHECK(in != NULL && in->transposed);
    CHECK_EQ(qkv_tensor_rows(in, 3), 3);
    CHECK_EQ(qkv_row_shape(shape, in, 3), 2);
    CHECK_EQ(shape[0], D);
    CHECK_EQ(shape[1], 3 * D);
    const struct qkv_parameter_row *bias = row_of(&b, QKV_ROLE_TOKENS_BIAS, true);
    CHECK(bias != NULL && bias->buffer && bias->optional);
    CHECK_EQ(qkv_row_shape(shape, bias, 1), 2);
    CHECK_EQ(shape[0], 1);
    CHECK_EQ(shape[1], bart.model->is.size.vocab);
    qkv_free(g.row);
    qkv_free(b.row);
    close_tiny(&gpt);
    close_tiny(&bart);
}

CHECK_MAIN(CASE(each_row_is_a_tensor_of_the_checkpoint_with_its_shape),
           CASE(parts_of_a_layer_are_adjacent_matrices_before_biases_and_no_parameter_repeats),
           CASE(buffers_come_after_all_that_is_trained),
           CASE(a_field_changes_the_rows_that_it_says),
           CASE(joined_rows_share_one_tensor_and_buffers_are_stored_as_one_row))
