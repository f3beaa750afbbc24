// SPDX-License-Identifier: MIT
// test_misuse.c: calls every exported function with invalid arguments: NULL, 0, negative,
// overflowing and contradictory sizes.  The function must return QKV_ERR_USAGE or do nothing; it
// must never crash.
//
// Each row runs in its own process, so that a crash fails one row and does not end the test.
#include "check.h"
#include <qkv/qkv.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const char bert[] = "tests/golden/bert"; // a small model with random weights
static const char nowhere[] = "/nonexistent/folder/file";

// Valid arguments, which the rows replace by invalid ones.
static float f[4096];
static int64_t i64[64];
static int32_t i32[64];
static _Alignas(64) char scratch[1 << 20];
static qkv_error err;
// attention of the last token of a cache
static const struct qkv_attention last = { .T = 1, .H = 2 };
static const struct qkv_attention small = { .B = 1, .T = 4, .S = 4, .H = 2, .E = 4 };
static const int64_t falling[] = { 0, 3, 2, 4 }, past[] = { 0, 2, 9 }, negative[] = { -1 },
                     sixteen[] = { 16 }, even[] = { 0, 2, 4 }, least[] = { 0, INT64_MIN, 4 },
                     begins_least[] = { INT64_MIN, 2, 4 };

static struct qkv_attention with(void (*change)(struct qkv_attention *))
{
    struct qkv_attention a = small;
    change(&a);
    return a;
}
static struct qkv_attention changed; // result of the last call of `attention`

static qkv_status attention(void (*change)(struct qkv_attention *))
{
    changed = with(change);
    const struct qkv_attention_plan p = qkv_attention_plan(&changed);
    const qkv_status status =
        qkv_attention_forward(f + 1024, NULL, NULL, f, f, f, &changed, scratch);
    return p.status == status && p.reason[0]
               ? status
               : QKV_ERR_INTERNAL; // the plan must return the same status as forward, and a reason
}
// Checks that backward refuses the same arguments as forward, and its plan too.  Arrays: dq, dk,
// dv, dout, q, k, v, out, lse from f, 64 apart.
static qkv_status backward(void (*change)(struct qkv_attention *))
{
    changed = with(change);
    const struct qkv_attention_plan p = qkv_attention_backward_plan(&changed, NULL);
    const qkv_status status =
        qkv_attention_backward(f, f + 64, f + 128, NULL, f + 192, f + 256, f + 320, f + 384,
                               f + 448, f + 512, &changed, scratch);
    return p.status == status && p.reason[0] ? status : QKV_ERR_INTERNAL;
}
// Runs backward with array `which` replaced by `at`; NULL: missing.
static qkv_status backward_with(int which, void *at)
{
    void *x[10] = { f,       f + 64,  f + 128, f + 192, f + 256,
                    f + 320, f + 384, f + 448, f + 512, scratch };
    x[which] = at;
    return qkv_attention_backward(x[0], x[1], x[2], NULL, x[3], x[4], x[5], x[6], x[7], x[8],
                                  &small, x[9]);
}
static qkv_status search_with(struct qkv_vectors v, int64_t n, int64_t k)
{
    static struct qkv_match matches[4];
    return qkv_search(matches, i64, &v, f, n, k, &err);
}
static qkv_status gradients_of(struct qkv_attention_gradients g)
{
    return qkv_attention_backward_plan(&small, &g).status;
}
static void minus_b(struct qkv_attention *a)
{
    a->B = -1;
}
static void minus_t(struct qkv_attention *a)
{
    a->T = -1;
}
static void minus_s(struct qkv_attention *a)
{
    a->S = -1;
}
static void zero_h(struct qkv_attention *a)
{
    a->H = 0;
}
static void zero_e(struct qkv_attention *a)
{
    a->E = 0;
}
static void minus_f(struct qkv_attention *a)
{
    a->F = -1;
}
static void odd_groups(struct qkv_attention *a)
{
    a->H = 3, a->G = 2;
}
static void minus_groups(struct qkv_attention *a)
{
    a->G = -1;
}
static void scale_nan(struct qkv_attention *a)
{
    a->scale = NAN;
}
static void softcap_minus(struct qkv_attention *a)
{
    a->softcap = -1;
}
static void softcap_nan(struct qkv_attention *a)
{
    a->softcap = NAN;
}
static void window_minus(struct qkv_attention *a)
{
    a->window.on = true, a->window.left = -2;
}
static void no_diagonal(struct qkv_attention *a)
{
    a->diagonal = (enum qkv_diagonal)7;
}
static void lengths_minus(struct qkv_attention *a)
{
    a->k_lengths = negative;
}
static void lengths_past(struct qkv_attention *a)
{
    a->k_lengths = sixteen;
}
static void offsets_missing(struct qkv_attention *a)
{
    a->sequences = 2;
}
static void offsets_falling(struct qkv_attention *a)
{
    a->sequences = 3, a->q_offsets = falling;
}
static void offsets_past(struct qkv_attention *a)
{
    a->sequences = 2, a->q_offsets = past;
}
static void offsets_least(struct qkv_attention *a)
{
    a->sequences = 2, a->q_offsets = least;
}
static void key_offsets_least(struct qkv_attention *a)
{
    a->sequences = 2, a->q_offsets = even, a->k_offsets = least;
}
static void offsets_begin_least(struct qkv_attention *a)
{
    a->sequences = 2, a->q_offsets = begins_least;
}
static void sequences_minus(struct qkv_attention *a)
{
    a->sequences = -1, a->q_offsets = falling;
}
static void huge(struct qkv_attention *a)
{
    a->B = a->T = a->S = INT64_MAX / 2;
}
static void huge_heads(struct qkv_attention *a)
{
    a->H = INT64_MAX / 2, a->E = 1 << 20;
}
static void huge_width(struct qkv_attention *a)
{
    a->E = INT64_MAX;
}
static void rows_of_out_meet(struct qkv_attention *a)
{
    a->out_strides = (struct qkv_strides){ 32, 0, 4 };
}
static void rows_of_k_meet(struct qkv_attention *a)
{
    a->k_strides = (struct qkv_strides){ 32, 0, 4 };
}
static void without_softmax(struct qkv_attention *a)
{
    a->no_softmax = true;
}
static void int8(struct qkv_attention *a)
{
    a->precision = QKV_PRECISION_INT8;
}
static void drops_all(struct qkv_attention *a)
{
    a->dropout.p = 1;
}
static void drops_nan(struct qkv_attention *a)
{
    a->dropout.p = NAN;
}
static void minus_reach(struct qkv_attention *a)
{
    a->relative.at = f;
    a->relative.reach = -1;
}
static void no_precision(struct qkv_attention *a)
{
    a->precision = (qkv_precision)77;
}
static void stride_overflow(struct qkv_attention *a)
{
    a->q_strides = (struct qkv_strides){ INT64_MAX, INT64_MAX, INT64_MAX };
}

static const struct qkv_tensor good = {
    .name = "a", .dtype = QKV_F32, .rank = 1, .shape = { 4 }, .data = f, .bytes = 16
};
static struct qkv_tensor broken(int what)
{
    struct qkv_tensor t = good;
    if (what == 0) t.rank = -1;
    if (what == 1) t.rank = QKV_RANK_MAX + 1;
    if (what == 2) t.shape[0] = -1;
    if (what == 3) t.rank = 2, t.shape[0] = t.shape[1] = INT64_MAX;
    if (what == 4) t.dtype = QKV_DTYPE_COUNT;
    if (what == 5) t.data = NULL;
    if (what == 6) t.dtype = (qkv_dtype)-1;
    return t;
}
static qkv_status write_broken(int what)
{
    const struct qkv_tensor t = broken(what);
    return qkv_npy_write(nowhere, &t, false, &err);
}
static qkv_status create_broken(int what)
{
    const struct qkv_tensor t = broken(what);
    qkv_safetensors_writer *w = NULL;
    return qkv_safetensors_create(&w, nowhere, &t, 1, NULL, false, &err);
}

static qkv_model *model;
static qkv_tokenizer *tokenizer;
static qkv_encoding encoding;
static qkv_view *view;
static qkv_tensors *tensors;
static qkv_safetensors_writer *writer;
static qkv_embedder *embedder;
static struct qkv_view_token token = { .raw = "a" };

static qkv_json *json;
static qkv_scheduler *scheduler;
static void open_json(void)
{
    if (!json && qkv_json_read(&json, "[1]", 3, NULL) != QKV_OK) abort();
}
static void open_tensors(void)
{
    if (qkv_tensors_open(&tensors, bert, NULL, NULL) != QKV_OK) abort();
}
static void open_model(void)
{
    if (qkv_model_open(&model, bert, NULL, NULL) != QKV_OK) abort();
}
static qkv_status run(struct qkv_model_input in)
{
    open_model();
    return qkv_model_run(model, f, &in, NULL, &err);
}
static qkv_packed *packed; // [3][4]
static void open_packed(void)
{
    if (qkv_packed_open(&packed, f, f, 4, 3, QKV_PRECISION_F32) != QKV_OK) abort();
}
static qkv_status product(struct qkv_packed_call c)
{
    open_packed();
    return qkv_packed_linear(f, f + 1024, 5, packed, &c);
}
static qkv_cache *cache; // 2 items of 3 tokens, 2 heads of 4, at most 8 tokens
static const struct qkv_comm alone = { .size = 1 };
static const struct qkv_cache_shape shape = { .B = 2, .G = 2, .E = 4, .capacity = 8 };
static void new_cache(void)
{
    if (qkv_cache_new(&cache, &shape, NULL) != QKV_OK ||
        qkv_cache_append(cache, QKV_CACHE_ALL, f, f, 3, NULL, NULL, NULL) != QKV_OK)
        abort();
}
static qkv_status new_cache_of(int64_t B, int64_t G, int64_t E, int64_t F, int precision)
{
    const struct qkv_cache_shape s = {
        .B = B, .G = G, .E = E, .F = F, .precision = (qkv_precision)precision
    };
    qkv_cache *c = (qkv_cache *)(void *)f;
    const qkv_status status = qkv_cache_new(&c, &s, &err);
    return c ? QKV_ERR_INTERNAL : status;
}
static qkv_status new_split_cache(int64_t parts, int64_t first, int64_t own)
{
    const struct qkv_cache_shape s = {
        .B = 2, .G = 2, .E = 4, .parts = parts, .first_part = first, .own_parts = own
    };
    qkv_cache *c = NULL;
    return qkv_cache_new(&c, &s, &err);
}
static qkv_status append(int64_t b, const void *k, const void *v, int64_t n)
{
    new_cache();
    const qkv_status status = qkv_cache_append(cache, b, k, v, n, NULL, NULL, &err);
    // the refused call must not change the cache
    return qkv_cache_length(cache, 0) == 3 ? status : QKV_ERR_INTERNAL;
}
static qkv_status decode(void *out, const void *q, struct qkv_attention a, void *workspace)
{
    new_cache();
    return qkv_cache_forward(out, NULL, NULL, q, cache, &a, workspace);
}
static void open_tokenizer(void)
{
    if (qkv_tokenizer_open(&tokenizer, bert, NULL) != QKV_OK) abort();
}
static qkv_status encode(const char *words, size_t n, struct qkv_encode_options o)
{
    open_tokenizer();
    return qkv_tokenizer_encode(tokenizer, &encoding, words, n, NULL, 0, &o, &err);
}
static const struct qkv_view_layer_data seen_all = { .q = f, .k = f, .lse = f, .scale = 1 },
                                        seen_no_q = { .k = f, .lse = f },
                                        seen_no_k = { .q = f, .lse = f },
                                        seen_no_lse = { .q = f, .k = f };
static const float *const no_stream[3];
static void new_view(void)
{
    static const struct qkv_view_text text = { .token = &token, .tokens = 1 };
    static const struct qkv_view_stack stack = { .layers = 1, .heads = 1, .head_width = 4 };
    const struct qkv_view_shape s = {
        .model = "m", .text = &text, .texts = 1, .stack = &stack, .stacks = 1
    };
    if (qkv_view_new(&view, &s, NULL) != QKV_OK) abort();
}
static qkv_status view_of(int64_t tokens, int64_t layers, int64_t heads, int64_t kv_heads,
                          int64_t width)
{
    const struct qkv_view_text text = { .token = &token, .tokens = tokens };
    const struct qkv_view_stack stack = {
        .layers = layers, .heads = heads, .kv_heads = kv_heads, .head_width = width
    };
    const struct qkv_view_shape s = {
        .model = "m", .text = &text, .texts = 1, .stack = &stack, .stacks = 1
    };
    return qkv_view_new(&view, &s, &err);
}
static qkv_status multi_head(struct qkv_multi_head m, struct qkv_attention a)
{
    const struct qkv_attention_plan p = qkv_multi_head_plan(&m, &a);
    const qkv_status status = qkv_multi_head_forward(f, NULL, f, NULL, &m, &a, scratch);
    return p.scratch == 0 && p.reason[0] && p.status == status ? status : QKV_ERR_INTERNAL;
}

// Checks for a baseline layer that the plan returns the same status and reason as forward.
static qkv_status planned(struct qkv_baseline_plan p, qkv_status s)
{
    return s == QKV_OK || (p.status == QKV_OK && s == QKV_ERR_USAGE) ||
                   (p.status == s && p.reason[0])
               ? s
               : QKV_ERR_INTERNAL;
}
static qkv_status convolution(struct qkv_convolution c, void *workspace)
{
    return planned(qkv_convolution_plan(&c), qkv_convolution_forward(f, f + 64, &c, workspace));
}
static qkv_status recurrence(struct qkv_recurrence r)
{
    return planned(qkv_recurrence_plan(&r), qkv_recurrence_forward(f, f + 64, NULL, &r, scratch));
}
static qkv_status sparse(struct qkv_block_sparse s)
{
    return planned(qkv_block_sparse_plan(&s),
                   qkv_block_sparse_forward(f, NULL, f + 64, f + 128, f + 192, &s, scratch));
}
static qkv_status linear(struct qkv_linear_attention a)
{
    return planned(qkv_linear_attention_plan(&a),
                   qkv_linear_attention_forward(f, NULL, f + 64, f + 128, f + 192, &a, scratch));
}
static qkv_status linformer(struct qkv_linformer l)
{
    return planned(qkv_linformer_plan(&l),
                   qkv_linformer_forward(f, f + 64, f + 128, f + 192, &l, scratch));
}
static qkv_status nystrom(struct qkv_nystrom n)
{
    return planned(qkv_nystrom_plan(&n),
                   qkv_nystrom_forward(f, f + 64, f + 128, f + 192, &n, scratch));
}

enum answer {
    NOTHING = 0,
    USAGE = QKV_ERR_USAGE,
    UNSUPPORTED = QKV_ERR_UNSUPPORTED,
    LIMIT = QKV_ERR_LIMIT,
    USAGE_OR_LIMIT = 1000
};

// Returns the text and the expected status of the n-th row, and runs it unless dry; false: no such
// row.
static bool row(int n, bool dry, const char **what, enum answer *want, int *got)
{
    int at = 0;
#define ROW(answer, expr)                                                                          \
    if (n == at++) {                                                                               \
        *what = #expr;                                                                             \
        *want = answer;                                                                            \
        if (!dry) *got = (int)(expr);                                                              \
        return true;                                                                               \
    }
#include "api/misuse.def"
#undef ROW
    return false;
}

TEST(every_call_survives_its_misuse)
{
    const char *what = NULL;
    enum answer want = NOTHING;
    int rows = 0, bad = 0;
    for (; row(rows, true, &what, &want, &(int){ 0 }); rows++) {
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            int got = 99;
            alarm(60);
            row(rows, false, &what, &want, &got);
            if (want == USAGE_OR_LIMIT) want = got == LIMIT ? LIMIT : USAGE;
            if ((want == USAGE || want == LIMIT) && err.status != QKV_OK &&
                err.status != (qkv_status)got)
                got = 98;
            _exit(got == (int)want ? 0 : 100 + (got & 63));
        }
        int status = 0;
        CHECK_EQ(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
        bad++;
        if (WIFSIGNALED(status))
            print_message("%s: signal %d\n", what, WTERMSIG(status));
        else
            print_message("%s: answered %d\n", what, WEXITSTATUS(status) - 100);
    }
    print_message("%d rows\n", rows);
    CHECK(rows > 100);
    CHECK_EQ(bad, 0);
}

CHECK_MAIN(CASE(every_call_survives_its_misuse))
