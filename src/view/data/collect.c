// SPDX-License-Identifier: MIT
// collect.c: stores the arrays of each layer from which the weights of every head can be computed.
// Their size is linear in the number of tokens.
#include "view/data/model_output.h"
#include "view/data/head_stats.h"
#include <math.h>
#include <string.h>

// ---- words --------------------------------------------------------------------------------------
// A hash table of tokens, with open addressing. It makes the search for earlier occurrences of a
// word linear in the number of tokens. The key is the token's raw text, which is in lower case if
// the model's tokenizer converts to lower case.
struct words {
    const struct qkv_view_token *token; // the tokens whose indices the table contains
    int64_t *slot, slots;
};

static int64_t find_word(const struct words *w, const char *raw)
{
    uint64_t hash = 1469598103934665603u; // FNV-1a
    for (const char *c = raw; *c; c++) hash = (hash ^ (unsigned char)*c) * 1099511628211u;
    int64_t at = (int64_t)(hash & (uint64_t)(w->slots - 1));
    while (w->slot[at] >= 0 && strcmp(w->token[w->slot[at]].raw, raw) != 0)
        at = (at + 1) & (w->slots - 1);
    return at;
}

// Finds the word of each row and key. The word is a number: the index of the first key with the
// same raw text. If no key has the text of a row, its word is S + the index of the first row with
// the text.
static qkv_status find_words(struct view_stack *v, qkv_error *err)
{
    const int64_t T = v->shape.tokens, S = v->shape.keys;
    struct words keys = { .token = v->shape.key, .slots = 16 }, rows = { .token = v->shape.token };
    qkv_status status = QKV_OK;
    while (keys.slots < 2 * qkv_max64(T, S)) keys.slots *= 2;
    rows.slots = keys.slots;
    keys.slot = qkv_alloc((size_t)keys.slots, sizeof *keys.slot);
    rows.slot = qkv_alloc((size_t)rows.slots, sizeof *rows.slot);
    if (!keys.slot || !rows.slot) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    for (int64_t i = 0; i < keys.slots; i++) keys.slot[i] = rows.slot[i] = -1;
    for (int64_t j = 0; j < S; j++) {
        v->key_word[j] = -1;
        if (v->shape.key[j].special) continue;
        const int64_t at = find_word(&keys, v->shape.key[j].raw);
        if (keys.slot[at] < 0) keys.slot[at] = j;
        v->key_word[j] = keys.slot[at];
    }
    for (int64_t i = 0; i < T; i++) {
        v->word[i] = -1;
        if (v->shape.token[i].special) continue;
        const int64_t known = keys.slot[find_word(&keys, v->shape.token[i].raw)];
        const int64_t at = find_word(&rows, v->shape.token[i].raw);
        if (rows.slot[at] < 0) rows.slot[at] = i;
        v->word[i] = known >= 0 ? known : S + rows.slot[at];
    }
done:
    qkv_free(keys.slot);
    qkv_free(rows.slot);
    return status;
}

// ---- new and free -------------------------------------------------------------------------------
static void free_layer(struct view_layer *l)
{
    float *const arrays[] = { l->q, l->kt,       l->lse,   l->weights, l->v,
                              l->x, l->relative, l->alibi, l->mean };
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) qkv_free(arrays[i]);
    view_probe_free(&l->probe);
    *l = (struct view_layer){ 0 };
}

static void free_effects(struct view_stack *v)
{
    qkv_free(v->effects.value);
    qkv_free(v->effects.unit);
    qkv_free(v->effects.change);
    v->effects.value = NULL;
    v->effects.unit = NULL;
    v->effects.change = NULL;
}

void qkv_view_free(qkv_view *v)
{
    if (!v) return;
    for (int64_t s = 0; v->stack && s < v->shape.stacks; s++) {
        struct view_stack *k = &v->stack[s];
        for (int64_t l = 0; k->layer && l < k->shape.layers; l++) free_layer(&k->layer[l]);
        free_effects(k);
        view_numbers_free(k);
        qkv_free(k->layer);
        qkv_free(k->stats);
        qkv_free(k->word);
        qkv_free(k->key_word);
        qkv_free(k->repeated);
        qkv_free(k->key_repeated);
    }
    view_compare_free(v);
    view_output_free(v->output);
    qkv_free(v->stack);
    qkv_free(v->frame);
    qkv_free(v);
}

static qkv_status check_stack(const struct qkv_view_shape *s, const struct qkv_view_stack *k,
                              qkv_error *err)
{
    const int64_t G = k->kv_heads ? k->kv_heads : k->heads;
    if (k->layers < 1 || k->heads < 1 || k->head_width < 0 || k->value_width < 0 || k->width < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid shape of a stack, expected layers and heads >= 1 and widths >= 0, "
                        "found %lld layers, %lld heads and the widths %lld, %lld and %lld",
                        (long long)k->layers, (long long)k->heads, (long long)k->head_width,
                        (long long)k->value_width, (long long)k->width);
    if (k->rows < 0 || k->rows >= s->texts || k->keys < 0 || k->keys >= s->texts)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "index of a stack's text is out of range, expected 0 to %lld, found %lld for "
            "the rows and %lld for the keys",
            (long long)s->texts - 1, (long long)k->rows, (long long)k->keys);
    if (G < 1 || k->heads % G)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "%lld heads cannot share %lld key/value heads, expected a multiple of the "
                        "key/value heads",
                        (long long)k->heads, (long long)G);
    if (k->causal && k->rows != k->keys)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "a stack is causal between two texts, expected rows and keys of the same text");
    return QKV_OK;
}

static qkv_status check_shape(const struct qkv_view_shape *s, qkv_error *err)
{
    if (s->texts < 1 || !s->text || s->stacks < 1 || !s->stack)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "the view is empty, expected at least one text and one stack");
    for (int64_t t = 0; t < s->texts; t++)
        if (s->text[t].tokens < 1 || !s->text[t].token || s->text[t].tokens > INT32_MAX)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "text %lld: expected an array of 1 to 2147483647 tokens, found %lld%s",
                            (long long)t, (long long)s->text[t].tokens,
                            s->text[t].token ? "" : " and no array");
    for (int64_t t = 0; t < s->texts; t++)
        if (s->text[t].padding < 0 || s->text[t].padding > INT32_MAX)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "text %lld: expected 0 to 2147483647 padding tokens, found %lld",
                            (long long)t, (long long)s->text[t].padding);
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < s->stacks && !status; i++) status = check_stack(s, &s->stack[i], err);
    return status;
}

static qkv_status init_stack(struct view_stack *v, const struct qkv_view_shape *s, int64_t index,
                             qkv_error *err)
{
    const struct qkv_view_stack *k = &s->stack[index];
    const struct qkv_view_text *rows = &s->text[k->rows], *keys = &s->text[k->keys];
    v->shape.model = s->model ? s->model : "";
    v->shape.name = k->name ? k->name : "attention";
    v->shape.tokens = rows->tokens;
    v->shape.keys = keys->tokens;
    v->shape.layers = k->layers;
    v->shape.heads = k->heads;
    v->shape.kv_heads = k->kv_heads ? k->kv_heads : k->heads;
    v->shape.head_width = k->head_width;
    v->shape.value_width = k->value_width ? k->value_width : k->head_width;
    v->shape.width = k->width;
    v->shape.token = rows->token;
    v->shape.key = keys->token;
    v->shape.row_padding = rows->padding;
    v->shape.key_padding = keys->padding;
    v->shape.row_text = k->rows;
    v->shape.key_text = k->keys;
    v->shape.causal = k->causal;
    size_t heads;
    v->layer = qkv_alloc_zero((size_t)k->layers, sizeof *v->layer);
    if (qkv_mul_size(&heads, (size_t)k->layers, (size_t)k->heads))
        v->stats = qkv_alloc_zero(heads, sizeof *v->stats);
    v->word = qkv_alloc((size_t)rows->tokens, sizeof *v->word);
    v->key_word = qkv_alloc((size_t)keys->tokens, sizeof *v->key_word);
    if (!v->layer || !v->stats || !v->word || !v->key_word) return qkv_fail_memory(err, NULL);
    bool part[2] = { false, false };
    for (int64_t i = 0; i < rows->tokens; i++) {
        if (rows->token[i].special) continue;
        v->visible++;
        part[rows->token[i].part != 0] = true;
    }
    for (int64_t i = 0; i < keys->tokens; i++) v->visible_keys += !keys->token[i].special;
    v->pair = part[0] && part[1] && k->rows == k->keys;
    const qkv_status status = view_names_find(v, err);
    return status ? status : find_words(v, err);
}

qkv_status qkv_view_new(qkv_view **out, const struct qkv_view_shape *s, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !s)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_new: expected a pointer for the view and a shape, found NULL");
    qkv_status status = check_shape(s, err);
    if (status) return status;
    qkv_view *v = qkv_alloc_zero(1, sizeof *v);
    if (!v) return qkv_fail_memory(err, NULL);
    v->shape = *s;
    v->stack = qkv_alloc_zero((size_t)s->stacks, sizeof *v->stack);
    if (!v->stack) status = qkv_fail_memory(err, NULL);
    for (int64_t i = 0; i < s->stacks && !status; i++) status = init_stack(&v->stack[i], s, i, err);
    if (status)
        qkv_view_free(v);
    else
        *out = v;
    return status;
}

// ---- one layer ----------------------------------------------------------------------------------
// Copies from[a][b][c] to a new array *to; if from is NULL, *to becomes NULL. Returns false if
// memory is exhausted.
static bool copy(float **to, const float *from, int64_t a, int64_t b, int64_t c)
{
    size_t n;
    if (!from) return true;
    if (!qkv_mul_size(&n, (size_t)a, (size_t)b) || !qkv_mul_size(&n, n, (size_t)c)) return false;
    *to = qkv_alloc(n, sizeof **to);
    if (*to) memcpy(*to, from, n * sizeof **to);
    return *to != NULL;
}

// Copies from[M][N][K] to a new array *to[N][M][K] or, with `across`, *to[N][K][M].
static bool turn(float **to, const float *from, int64_t N, int64_t M, int64_t K, bool across)
{
    size_t size;
    if (!from) return true;
    if (!qkv_mul_size(&size, (size_t)N, (size_t)M) || !qkv_mul_size(&size, size, (size_t)K))
        return false;
    float *out = *to = qkv_alloc(size, sizeof **to);
    if (!out) return false;
    for (int64_t n = 0; n < N; n++)
        for (int64_t m = 0; m < M; m++) {
            const float *x = from + (m * N + n) * K;
            if (!across)
                memcpy(out + (n * M + m) * K, x, (size_t)K * sizeof *out);
            else
                for (int64_t k = 0; k < K; k++) out[(n * K + k) * M + m] = x[k];
        }
    return true;
}

static qkv_status take_layer(struct view_layer *l, const struct view_stack *v,
                             const struct qkv_view_layer_data *s, qkv_error *err)
{
    const int64_t T = v->shape.tokens, S = v->shape.keys, H = v->shape.heads, G = v->shape.kv_heads,
                  E = v->shape.head_width;
    const bool products = s->q && s->k && s->lse && E > 0;
    l->left = s->window ? s->left : -1;
    l->right = s->window ? s->right : -1;
    l->scale = s->scale != 0 ? s->scale : E ? (float)(1 / sqrt((double)E)) : 1;
    l->softcap = s->softcap;
    l->reach = s->relative ? s->reach : 0;
    bool ok = copy(&l->weights, s->weights, H, T, S) && copy(&l->alibi, s->alibi, H, 1, 1) &&
              copy(&l->relative, s->relative, H, 2 * l->reach + 1, 1) &&
              (!v->shape.width || copy(&l->x, s->x, T, v->shape.width, 1)) &&
              (!v->shape.value_width || turn(&l->v, s->v, G, S, v->shape.value_width, false));
    if (ok && products)
        ok = turn(&l->q, s->q, H, T, E, false) && turn(&l->kt, s->k, G, S, E, true) &&
             copy(&l->lse, s->lse, H, T, 1);
    return ok ? QKV_OK : qkv_fail_memory(err, NULL);
}

// Context of the parallel loop that measures the heads of a layer.
struct layer_job {
    struct view_stack *v;
    int64_t layer;
    size_t each;   // bytes of the scratch of a thread
    char *scratch; // [threads][each]
};
static void measure_head(void *ctx, int64_t head, int thread)
{
    struct layer_job *job = ctx;
    struct view_stats *out = job->v->stats + job->layer * job->v->shape.heads + head;
    char *scratch = job->scratch + (size_t)thread * job->each;
    if (job->v->layer[job->layer].probe.k)
        view_measure_head_top(out, job->v, job->layer, head, scratch);
    else
        view_measure_head(out, job->v, job->layer, head, scratch);
}

static qkv_status measure(struct view_stack *v, int64_t layer, qkv_error *err)
{
    struct layer_job job = { v, layer,
                             v->layer[layer].probe.k ? view_measure_head_top_scratch(v)
                                                     : view_measure_head_scratch(v),
                             NULL };
    const int threads = qkv_threads();
    qkv_free(v->layer[layer].mean);
    v->layer[layer].mean = qkv_alloc((size_t)(v->shape.heads * v->shape.keys), sizeof(float));
    if (!v->layer[layer].mean) return qkv_fail_memory(err, NULL);
    job.scratch = qkv_alloc((size_t)threads, job.each);
    if (!job.scratch) return qkv_fail_memory(err, NULL);
    qkv_parallel_for_most(v->shape.heads, threads, measure_head, &job);
    qkv_free(job.scratch);
    return QKV_OK;
}

static bool has_stack(const qkv_view *v, int64_t stack)
{
    return v && stack >= 0 && stack < v->shape.stacks;
}

qkv_status qkv_view_layer(qkv_view *v, int64_t stack, int64_t layer,
                          const struct qkv_view_layer_data *data, qkv_error *err)
{
    if (!v || !data)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_layer: expected a view and the output of a layer, found NULL");
    if (!has_stack(v, stack))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "index of a stack out of range, found %lld, expected 0 to %lld",
                        (long long)stack, (long long)v->shape.stacks - 1);
    struct view_stack *k = &v->stack[stack];
    if (layer < 0 || layer >= k->shape.layers)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "index of a layer out of range, found %lld, expected 0 to %lld",
                        (long long)layer, (long long)k->shape.layers - 1);
    if (!data->weights && !data->probe &&
        (!data->q || !data->k || !data->lse || !k->shape.head_width))
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "numbers of layer %lld are missing, expected q, k and lse, or weights, or a probe",
            (long long)layer);
    if (data->probe && (!data->probe->top_key || !data->probe->top_weight ||
                        data->probe->top_k < 1 || data->probe->top_k > k->shape.keys))
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "invalid probe of layer %lld, expected top_weight, top_key and a top_k of 1 "
            "to %lld, found a top_k of %lld%s",
            (long long)layer, (long long)k->shape.keys, (long long)data->probe->top_k,
            data->probe->top_key && data->probe->top_weight ? "" : " and no array");
    free_layer(&k->layer[layer]);
    struct view_layer l = { .filled = true };
    qkv_status status = take_layer(&l, k, data, err);
    if (!status && data->probe) status = view_probe_copy(&l.probe, data->probe, k, err);
    k->layer[layer] = l;
    if (!status) status = measure(k, layer, err);
    if (status) free_layer(&k->layer[layer]);
    return status;
}

static int64_t layers_times_heads(const qkv_view *v)
{
    int64_t heads = 0;
    for (int64_t s = 0; s < v->shape.stacks; s++)
        heads += v->stack[s].shape.layers * v->stack[s].shape.heads;
    return heads;
}

int64_t view_block_side(const qkv_view *v, int64_t budget)
{
    int64_t side = 256;
    const double heads = (double)layers_times_heads(v);
    while (side > 16 && 2. * (double)(side * side) * heads > (double)budget / 6) side /= 2;
    return side;
}

bool qkv_view_probe_request(const qkv_view *v, int64_t budget, struct qkv_probe_request *request)
{
    enum { LONG = 1 << 20 };
    *request = (struct qkv_probe_request){ 0 };
    bool any = false;
    double rows = 0;
    for (int64_t s = 0; v && s < v->shape.stacks; s++) {
        const struct view_shape *k = &v->stack[s].shape;
        any |= (double)k->tokens * (double)k->keys > LONG;
        rows += (double)(k->layers * k->heads) * (double)k->tokens;
    }
    if (!any) return false;
    budget = view_budget(budget);
    // the largest number of weights per row that a page stores
    *request = (struct qkv_probe_request){ .top_k = 16,
                                           .received = true,
                                           .entropy = true,
                                           .distance = true,
                                           .side = view_block_side(v, budget) };
    while (request->top_k > 2 && rows * (double)(2 * request->top_k) > (double)budget)
        request->top_k = request->top_k > 4 ? request->top_k * 3 / 4 : request->top_k - 1;
    return true;
}

static bool has_head(const qkv_view *v, int64_t stack, int64_t layer, int64_t head)
{
    if (!has_stack(v, stack)) return false;
    const struct view_stack *k = &v->stack[stack];
    return layer >= 0 && layer < k->shape.layers && head >= 0 && head < k->shape.heads &&
           k->layer[layer].filled;
}

void qkv_view_row(const qkv_view *v, float *out, int64_t stack, int64_t layer, int64_t head,
                  int64_t row)
{
    if (!out || !has_head(v, stack, layer, head) || row < 0 || row >= v->stack[stack].shape.tokens)
        return;
    view_row(out, &v->stack[stack], layer, head, row);
}

struct qkv_view_head qkv_view_head(const qkv_view *v, int64_t stack, int64_t layer, int64_t head)
{
    if (!has_head(v, stack, layer, head)) return (struct qkv_view_head){ .kind = "", .word = -1 };
    const struct view_stats *s = view_stats(&v->stack[stack], layer, head);
    return (struct qkv_view_head){
        .kind = s->kind < VIEW_KINDS ? view_kind_table[s->kind].name : "",
        .strength = s->strength,
        .word = s->word,
        .effective_keys = s->keys,
        .distance = s->distance,
        .focus = s->focus,
        .special = s->shares[4],
    };
}

qkv_status qkv_view_effects(qkv_view *v, int64_t stack, const float *effect, const char *unit,
                            const struct qkv_view_change *changes, int64_t each, qkv_error *err)
{
    if (!has_stack(v, stack) || !effect || !unit || each < 0 || (each && !changes))
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_view_effects: invalid arguments, expected a stack, its effects and their unit");
    struct view_stack *k = &v->stack[stack];
    const size_t heads = (size_t)(k->shape.layers * k->shape.heads);
    size_t n;
    free_effects(k);
    k->effects.each = each;
    k->effects.value = qkv_alloc(heads, sizeof *effect);
    k->effects.unit = qkv_copy_text(unit, strlen(unit));
    if (each && qkv_mul_size(&n, heads, (size_t)each))
        k->effects.change = qkv_alloc(n, sizeof *changes);
    if (!k->effects.value || !k->effects.unit || (each && !k->effects.change)) {
        free_effects(k);
        return qkv_fail_memory(err, NULL);
    }
    memcpy(k->effects.value, effect, heads * sizeof *effect);
    if (each) memcpy(k->effects.change, changes, n * sizeof *changes);
    return QKV_OK;
}
