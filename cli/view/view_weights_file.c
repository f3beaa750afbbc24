// SPDX-License-Identifier: MIT
// view_weights_file.c: opens attention weights that another program computed and stored in a file.
//
// A .npy file has the axes (layer, batch, head, row, key), as BertViz expects, or (layer, head,
// row, key), or (head, row, key).  A .safetensors file has one such tensor, or one per layer with
// the names that `qkv trace` uses.
#include "view_source.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LAYERS = 1000 };
struct kind {
    const char *stack, *prefix;
    int64_t rows, keys;
};
static const struct kind stack_kind[] = { { "attention", "attentions.", 0, 0 },
                                          { "encoder", "encoder_attentions.", 0, 0 },
                                          { "decoder", "decoder_attentions.", 1, 1 },
                                          { "cross", "cross_attentions.", 1, 0 } };

// Sizes of the weights: layers x heads x T rows x S keys.
struct sizes {
    int64_t layers, heads, T, S;
};

static qkv_status sizes_of(struct sizes *z, const struct qkv_tensor *t, const char *path,
                           qkv_error *err)
{
    const int r = t->rank;
    char shape[SHAPE_TEXT];
    if (r < 3 || r > 5)
        return cmd_error(
            err, QKV_ERR_FORMAT, path,
            "attention weights have the shape %s, expected (layer, batch, head, row, key)",
            array_shape(shape, r, t->shape));
    const int64_t *n = t->shape;
    *z = (struct sizes){ r > 3 ? n[0] : 1, n[r - 3], n[r - 2], n[r - 1] };
    if (r == 5 && n[1] != 1)
        return cmd_error(
            err, QKV_ERR_FORMAT, path,
            "attention weights have the shape %s, expected the size 1 for the axis batch",
            array_shape(shape, r, n));
    if (z->layers < 1 || z->heads < 1 || z->T < 1 || z->S < 1)
        return cmd_error(err, QKV_ERR_FORMAT, path,
                         "attention weights have the shape %s, expected no axis of size 0",
                         array_shape(shape, r, n));
    return QKV_OK;
}

// Reads the lines of a file, which are the tokens of a text.
static qkv_status read_tokens(struct source_text *x, const char *path, qkv_error *err)
{
    size_t bytes;
    qkv_status status = cmd_read_file(&x->made, &bytes, path, err);
    if (status) return status;
    int64_t n = 0;
    for (size_t i = 0; i < bytes; i++) n += x->made[i] == '\n' || i + 1 == bytes;
    if (!n)
        return cmd_error(err, QKV_ERR_FORMAT, path,
                         "the file contains no tokens, expected one token per line");
    x->token = cmd_alloc((size_t)n, sizeof *x->token);
    char *at = x->made, *end = x->made + bytes;
    for (int64_t i = 0; i < n; i++) {
        char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) stop = end;
        char *cut = stop > at && stop[-1] == '\r' ? stop - 1 : stop;
        const size_t length = (size_t)(cut - at);
        const bool special =
            length > 2 && ((at[0] == '[' && cut[-1] == ']') || (at[0] == '<' && cut[-1] == '>'));
        x->token[i] = (struct qkv_view_token){ .raw = at, .special = special };
        *cut = 0; // the buffer has one more byte than the file
        at = stop + 1;
    }
    x->text = (struct qkv_view_text){ .token = x->token, .tokens = n };
    return QKV_OK;
}

static qkv_status check_tokens(const struct source_text *x, int64_t n, const char *what,
                               const char *path, const char *tokens, qkv_error *err)
{
    if (x->text.tokens == n) return QKV_OK;
    return cmd_error(
        err, QKV_ERR_USAGE, tokens,
        "wrong number of tokens: found %lld, expected one for each of the %lld %s of %s",
        (long long)x->text.tokens, (long long)n, what, path);
}

// Refuses negative weights, which usually are scores before the softmax.
static qkv_status check_weights(const float *w, const struct sizes *z, int64_t layer,
                                const char *path, qkv_error *err)
{
    const int64_t n = z->heads * z->T * z->S;
    for (int64_t i = 0; i < n; i++)
        if (w[i] < 0 || isinf(w[i]))
            return cmd_error(err, QKV_ERR_FORMAT, path,
                             "attention weight of layer %lld, head %lld, row %lld, key %lld: "
                             "expected a finite number of at least 0, found %g",
                             (long long)layer, (long long)(i / z->S / z->T),
                             (long long)(i / z->S % z->T), (long long)(i % z->S), (double)w[i]);
    return QKV_OK;
}

// The tensors of one stack: a single tensor with all layers, or a tensor per layer.
struct found {
    const struct kind *kind;
    const struct qkv_tensor *tensor[MOST_LAYERS];
    int64_t layers; // number of tensors, one per layer; 0: tensor[0] has all layers
    struct sizes size;
};

static qkv_status find_stack(struct found *f, const qkv_tensors *all, const struct kind *kind,
                             const char *path, qkv_error *err)
{
    *f = (struct found){ .kind = kind };
    char name[96];
    for (int64_t l = 0; l < MOST_LAYERS; l++) {
        struct sizes z;
        snprintf(name, sizeof name, "%s%lld", kind->prefix, (long long)l);
        const struct qkv_tensor *t = qkv_tensors_find(all, name);
        if (!t) break;
        const qkv_status status = sizes_of(&z, t, path, err);
        if (status) return status;
        if (z.layers != 1)
            return cmd_error(err, QKV_ERR_FORMAT, path,
                             "%s has the weights of %lld layers, expected the weights of one layer",
                             name, (long long)z.layers);
        if (l && (z.heads != f->size.heads || z.T != f->size.T || z.S != f->size.S))
            return cmd_error(err, QKV_ERR_FORMAT, path,
                             "%s has %lld heads, %lld rows and %lld keys, expected %lld, %lld and "
                             "%lld as in the first layer",
                             name, (long long)z.heads, (long long)z.T, (long long)z.S,
                             (long long)f->size.heads, (long long)f->size.T, (long long)f->size.S);
        f->size = z;
        f->tensor[f->layers++] = t;
    }
    f->size.layers = f->layers;
    return QKV_OK;
}

// Finds the stacks of which the file has weights, at most 3. *count 0: the file has none.
static qkv_status find_stacks(struct found *found, int64_t *count, const qkv_tensors *all,
                              const char *path, qkv_error *err)
{
    *count = 0;
    if (qkv_tensors_count(all) == 1) {
        found[0] = (struct found){ .kind = &stack_kind[0], .tensor = { qkv_tensors_at(all, 0) } };
        *count = 1;
        return sizes_of(&found[0].size, found[0].tensor[0], path, err);
    }
    for (size_t k = 0; k < sizeof stack_kind / sizeof *stack_kind && *count < 3; k++) {
        const qkv_status status = find_stack(&found[*count], all, &stack_kind[k], path, err);
        if (status) return status;
        *count += found[*count].layers > 0;
    }
    if (*count) return QKV_OK;
    return cmd_error(err, QKV_ERR_FORMAT, path,
                     "the file contains %lld tensors, expected one tensor, or the tensors "
                     "attentions.0, attentions.1, ... that `qkv trace --what attention` writes",
                     (long long)qkv_tensors_count(all));
}

static qkv_status fill_stack(struct source *s, int64_t stack, const struct found *f,
                             const char *path, qkv_error *err)
{
    const struct sizes *z = &f->size;
    const int64_t each = z->heads * z->T * z->S;
    const int64_t counts[] = { f->layers ? 1 : z->layers, each };
    const size_t capacity = array_count(2, counts);
    float *w = cmd_alloc(capacity, sizeof *w);
    qkv_status status = QKV_OK;
    if (!f->layers) qkv_tensor_to_f32(w, f->tensor[0]);
    for (int64_t l = 0; l < z->layers && !status; l++) {
        if (f->layers) qkv_tensor_to_f32(w, f->tensor[l]);
        const struct qkv_view_layer_data seen = { .weights = w + (f->layers ? 0 : l * each) };
        status = check_weights(seen.weights, z, l, path, err);
        if (!status) status = qkv_view_layer(s->view, stack, l, &seen, err);
    }
    free(w);
    return status;
}

// Returns true if no row in any layer attends to a later key. The view then leaves out the upper
// triangle.
static bool looks_causal(const struct found *f)
{
    const struct sizes *z = &f->size;
    const int64_t counts[] = { f->layers ? 1 : z->layers, z->heads * z->T * z->S };
    if (z->T != z->S || z->T < 2) return false;
    float *w = cmd_alloc(array_count(2, counts), sizeof *w);
    bool causal = true;
    for (int64_t t = 0; t < (f->layers ? f->layers : 1) && causal; t++) {
        qkv_tensor_to_f32(w, f->tensor[t]);
        for (int64_t h = 0; h < counts[0] * z->heads && causal; h++)
            for (int64_t i = 0; i < z->T && causal; i++)
                for (int64_t j = i + 1; j < z->S && causal; j++)
                    causal = !(w[(h * z->T + i) * z->S + j] != 0);
    }
    free(w);
    return causal;
}

static qkv_status name_tokens(struct source *s, const struct found *found, int64_t count,
                              const char *path, const char *tokens, const char *keys,
                              qkv_error *err)
{
    const bool two = count > 1 || keys; // text 0 has the keys, text 1 has the rows
    if (!two) {
        qkv_status status = read_tokens(&s->text[0], tokens, err);
        if (!status) status = check_tokens(&s->text[0], found->size.T, "rows", path, tokens, err);
        if (!status && found->size.S != found->size.T)
            status = cmd_error(err, QKV_ERR_USAGE, NULL,
                               "--key-tokens is missing, expected a file with the %lld keys of %s",
                               (long long)found->size.S, path);
        return status;
    }
    if (!keys)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--key-tokens is missing, expected a file with the tokens of the encoder "
                         "of %s; --tokens names the tokens of its decoder",
                         path);
    qkv_status status = read_tokens(&s->text[0], keys, err);
    if (!status) status = read_tokens(&s->text[1], tokens, err);
    for (int64_t n = 0; n < count && !status; n++) {
        const struct kind *k = found[n].kind;
        const bool one = count == 1;
        status = check_tokens(&s->text[one || k->rows], found[n].size.T, "rows", path,
                              one || k->rows ? tokens : keys, err);
        if (!status)
            status = check_tokens(&s->text[one ? 0 : k->keys], found[n].size.S, "keys", path,
                                  one || !k->keys ? keys : tokens, err);
    }
    return status;
}

qkv_status source_given(struct source *s, const char *path, const char *tokens, const char *keys,
                        qkv_error *err)
{
    struct found *found = cmd_alloc(4, sizeof *found);
    qkv_tensors *all = NULL;
    int64_t count = 0;
    s->given = true;
    qkv_status status =
        tokens ? QKV_OK
               : cmd_error(err, QKV_ERR_USAGE, NULL,
                           "--attention requires --tokens FILE with one token per line");
    if (!status) status = array_open(&all, path, true, err);
    if (!status) status = find_stacks(found, &count, all, path, err);
    if (!status) status = name_tokens(s, found, count, path, tokens, keys, err);
    if (!status) status = qkv_tensors_convert(all, err); // after all shapes are checked
    if (status) goto done;
    const bool one_across = count == 1 && keys;
    for (int64_t n = 0; n < count; n++)
        s->stack[n] = (struct qkv_view_stack){ .name = one_across ? "cross" : found[n].kind->stack,
                                               .rows = one_across || found[n].kind->rows,
                                               .keys = one_across ? 0 : found[n].kind->keys,
                                               .layers = found[n].size.layers,
                                               .heads = found[n].size.heads };
    for (int64_t n = 0; n < count; n++)
        s->stack[n].causal = s->stack[n].rows == s->stack[n].keys && looks_causal(&found[n]);
    const char *slash = strrchr(path, '/');
    snprintf(s->model, sizeof s->model, "%s", slash ? slash + 1 : path);
    s->shown[0] = s->text[0].text;
    s->shown[1] = s->text[1].text;
    s->shape = (struct qkv_view_shape){ .model = s->model,
                                        .text = s->shown,
                                        .texts = s->text[1].token ? 2 : 1,
                                        .stack = s->stack,
                                        .stacks = count };
    status = qkv_view_new(&s->view, &s->shape, err);
    for (int64_t n = 0; n < count && !status; n++) status = fill_stack(s, n, &found[n], path, err);
done:
    qkv_tensors_close(all);
    free(found);
    return status;
}
