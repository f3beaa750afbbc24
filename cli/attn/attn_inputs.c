// SPDX-License-Identifier: MIT
// attn_inputs.c: reads the arrays of `qkv attn` and checks that their sizes agree.
#include "attn/attn.h"
#include <stdlib.h>
#include <string.h>

static struct qkv_strides strides_of(int64_t tokens, int64_t heads, int64_t width, int layout)
{
    if (layout != LAYOUT_BHTE) return (struct qkv_strides){ 0, 0, 0 };
    return (struct qkv_strides){ heads * tokens * width, width, tokens * width };
}

static qkv_status given(struct attn_job *j, const struct attn_files *f, qkv_error *err)
{
    qkv_status status;
    if ((status = array_find(&j->q, "q", f->q, j->all, j->all_path, err)) ||
        (status = array_find(&j->k, "k", f->k, j->all, j->all_path, err)) ||
        (status = array_find(&j->v, "v", f->v, j->all, j->all_path, err)))
        return status;
    const struct array *all[] = { &j->q, &j->k, &j->v };
    struct array_sizes s;
    for (int i = 0; i < 3; i++)
        if (!all[i]->tensor)
            return cmd_error(err, QKV_ERR_USAGE, j->all_path,
                             "%s is missing, expected -q, -k and -v (or -i with all three, or -x)",
                             all[i]->what);
    if (j->layout >= 0 && j->q.rank != 4)
        return array_misfit(err, &j->q, "4 axes, whose order --layout describes", NULL);
    status = array_sizes_of(&s, &j->q, &j->k, &j->v, j->layout == LAYOUT_BHTE, err);
    if (status) return status;
    if ((status = array_load(&j->q, err)) || (status = array_load(&j->k, err)) ||
        (status = array_load(&j->v, err)))
        return status;
    j->a.B = s.B;
    j->a.T = s.T;
    j->a.S = s.S;
    j->a.H = s.H;
    j->a.G = s.G;
    j->a.E = s.E;
    j->a.F = s.F;
    if (j->q.rank == 4) {
        j->a.q_strides = strides_of(s.T, s.H, s.E, j->layout);
        j->a.k_strides = strides_of(s.S, s.G, s.E, j->layout);
        j->a.v_strides = strides_of(s.S, s.G, s.F, j->layout);
        j->a.out_strides = strides_of(s.T, s.H, s.F, j->layout);
    }
    j->has_b = j->q.rank > 2;
    j->has_h = j->q.rank > 3;
    return QKV_OK;
}

// ---- q, k and v from inputs and projections ----------------------------------------------------
static void swap_axes(struct array *w)
{
    const int64_t in = w->shape[w->rank - 2];
    w->shape[w->rank - 2] = w->shape[w->rank - 1];
    w->shape[w->rank - 1] = in;
}

// Reads the elements of a projection whose shape is [out][in], or [heads][out][in].  If they are
// stored as [in][out], they are transposed.
static qkv_status load_projection(struct array *w, int w_layout, qkv_error *err)
{
    const int64_t in = w->shape[w->rank - 1], out = w->shape[w->rank - 2];
    const qkv_status status = array_load(w, err);
    if (status || w_layout != W_IN_OUT || !w->count) return status;
    float *t = cmd_alloc((size_t)w->count, sizeof *t);
    for (int64_t b = 0; b < w->count / (in * out); b++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t o = 0; o < out; o++)
                t[(b * out + o) * in + i] = w->at[(b * in + i) * out + o];
    free(w->own);
    w->own = t;
    w->at = t;
    return QKV_OK;
}

// Reads a projection matrix [out][in] or [heads][out][in].  In the second form, *heads is set.
// *width is set to the number of outputs of one head.
static qkv_status projection(struct attn_job *j, struct array *w, const char *name,
                             const char *path, int w_layout, const struct array *input,
                             int64_t *heads, int64_t *width, qkv_error *err)
{
    const qkv_status status = array_find(w, name, path, j->all, j->all_path, err);
    if (status) return status;
    const int64_t d = input->shape[input->rank - 1];
    if (!w->tensor) { // without a projection matrix, the input itself is the query, key or value
        if (!*heads) *heads = 1;
        if (d % *heads) {
            char text[96];
            snprintf(text, sizeof text, "a width that can be divided by the %lld heads (or %s)",
                     (long long)*heads, name);
            return array_misfit(err, input, text, NULL);
        }
        *width = d / *heads;
        return QKV_OK;
    }
    if (w->rank != 2 && w->rank != 3)
        return array_misfit(err, w, "2 axes, or 3 axes with the head first", NULL);
    if (w_layout == W_IN_OUT) swap_axes(w);
    if (w->shape[w->rank - 1] != d) {
        char text[96];
        snprintf(text, sizeof text, "a matrix with %lld inputs (--w-layout %s)", (long long)d,
                 w_layout == W_IN_OUT ? "in,out" : "out,in");
        return array_misfit(err, w, text, input);
    }
    if (w->rank == 3) {
        if (*heads && *heads != w->shape[0]) {
            char text[64];
            snprintf(text, sizeof text, "a matrix with %lld heads in its first axis",
                     (long long)*heads);
            return array_misfit(err, w, text, NULL);
        }
        *heads = w->shape[0];
    }
    if (!*heads) *heads = 1;
    const int64_t out = w->rank == 3 ? w->shape[0] * w->shape[1] : w->shape[0];
    if (!*heads || out % *heads) {
        char text[64];
        snprintf(text, sizeof text, "a number of outputs that can be divided by the %lld heads",
                 (long long)*heads);
        return array_misfit(err, w, text, NULL);
    }
    *width = out / *heads;
    return load_projection(w, w_layout, err);
}

// Reads a weight matrix of the score function, [rows][cols] for all heads or [H][rows][cols]. If
// cols < 0, it is a vector, [rows] or [H][rows].  The result always has weights for every head.
static qkv_status score_weight(struct attn_job *j, struct array *w, const char *name,
                               const char *path, int64_t H, int64_t *rows, int64_t cols,
                               qkv_error *err)
{
    qkv_status status = array_find(w, name, path, j->all, j->all_path, err);
    if (status) return status;
    if (!w->tensor)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--score: %s is missing, expected --%s FILE",
                         name, name);
    const int rank = cols < 0 ? 1 : 2, first = w->rank - rank;
    char text[96];
    if (*rows >= 0)
        cols < 0
            ? snprintf(text, sizeof text, "(%lld,) or (%lld, %lld)", (long long)*rows, (long long)H,
                       (long long)*rows)
            : snprintf(text, sizeof text, "(%lld, %lld) or (%lld, %lld, %lld)", (long long)*rows,
                       (long long)cols, (long long)H, (long long)*rows, (long long)cols);
    else
        snprintf(text, sizeof text, "(d_a, %lld) or (%lld, d_a, %lld)", (long long)cols,
                 (long long)H, (long long)cols);
    if ((first != 0 && first != 1) || (first && w->shape[0] != H) ||
        (*rows >= 0 && w->shape[first] != *rows) || (cols >= 0 && w->shape[first + 1] != cols))
        return array_misfit(err, w, text, NULL);
    *rows = w->shape[first];
    status = array_load(w, err);
    if (status || first || H == 1) return status;
    float *each = cmd_alloc(array_count(2, (int64_t[]){ H, w->count }), sizeof *each);
    for (int64_t h = 0; h < H; h++)
        memcpy(each + h * w->count, w->at, (size_t)w->count * sizeof *each);
    free(w->own);
    w->own = each;
    w->at = each;
    return QKV_OK;
}

static qkv_status score_weights(struct attn_job *j, const struct attn_files *f, qkv_error *err)
{
    struct qkv_multi_head *m = &j->m;
    qkv_status status = QKV_OK;
    int64_t rows = m->d_k, a = -1;
    if (m->score == QKV_SCORE_BILINEAR) {
        status = score_weight(j, &j->ws, "ws", f->ws, m->H, &rows, m->d_k, err);
        m->w_s = j->ws.at;
    } else if (m->score == QKV_SCORE_ADDITIVE) {
        if ((status = score_weight(j, &j->waq, "waq", f->waq, m->H, &a, m->d_k, err)) ||
            (status = score_weight(j, &j->wak, "wak", f->wak, m->H, &a, m->d_k, err)) ||
            (status = score_weight(j, &j->wa, "wa", f->wa, m->H, &a, -1, err)))
            return status;
        m->d_a = a;
        m->w_aq = j->waq.at;
        m->w_ak = j->wak.at;
        m->w_a = j->wa.at;
    }
    if (!status && m->score != QKV_SCORE_BILINEAR && f->ws)
        status = cmd_error(err, QKV_ERR_USAGE, NULL, "--ws requires --score bilinear");
    if (!status && m->score != QKV_SCORE_ADDITIVE && (f->waq || f->wak || f->wa))
        status =
            cmd_error(err, QKV_ERR_USAGE, NULL, "--waq, --wak and --wa require --score additive");
    return status;
}

static qkv_status read_inputs(struct attn_job *j, const struct attn_files *f, qkv_error *err)
{
    qkv_status status;
    if ((status = array_find(&j->x, "x", f->x, j->all, j->all_path, err)) ||
        (status = array_find(&j->c, "context", f->context, j->all, j->all_path, err)))
        return status;
    if (j->x.rank != 2 && j->x.rank != 3)
        return array_misfit(err, &j->x, "2 axes (tokens, width), or 3 axes with the batch first",
                            NULL);
    if (!j->c.tensor) return QKV_OK;
    if (j->c.rank != j->x.rank) return array_misfit(err, &j->c, "the same number of axes", &j->x);
    if (j->x.rank == 3 && j->c.shape[0] != j->x.shape[0])
        return array_misfit(err, &j->c, "the same batch size", &j->x);
    return QKV_OK;
}

static qkv_status from_inputs(struct attn_job *j, const struct attn_files *f, int w_layout,
                              int score, int64_t heads, int64_t kv_heads, qkv_error *err)
{
    struct qkv_multi_head *m = &j->m;
    int64_t d_k = 0, d_k2 = 0, G = kv_heads;
    qkv_status status = read_inputs(j, f, err);
    if (status) return status;
    const struct array *c = j->c.tensor ? &j->c : &j->x;
    if ((status = projection(j, &j->wq, "wq", f->wq, w_layout, &j->x, &heads, &d_k, err)))
        return status;
    if (!G) G = heads;
    if ((status = projection(j, &j->wk, "wk", f->wk, w_layout, c, &G, &d_k2, err)) ||
        (status = projection(j, &j->wv, "wv", f->wv, w_layout, c, &G, &m->d_v, err)))
        return status;
    if (d_k != d_k2) {
        char text[96];
        snprintf(text, sizeof text, "keys with the same head width, %lld", (long long)d_k);
        return array_misfit(err, j->wk.tensor ? &j->wk : c, text, j->wq.tensor ? &j->wq : &j->x);
    }
    if (G < 1 || heads % G)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--kv-heads: expected a divisor of the %lld heads, found %lld",
                         (long long)heads, (long long)G);
    if ((status = array_load(&j->x, err)) || (status = array_load(&j->c, err))) return status;
    m->H = heads;
    m->G = G;
    m->d_k = d_k;
    m->d_q = j->x.shape[j->x.rank - 1];
    m->d_kv = c->shape[c->rank - 1];
    m->score = (enum qkv_score)score;
    m->w_q = j->wq.at;
    m->w_k = j->wk.at;
    m->w_v = j->wv.at;
    m->d_out = m->H * m->d_v;
    if ((status = array_find(&j->wo, "wo", f->wo, j->all, j->all_path, err))) return status;
    if (j->wo.tensor) {
        if (j->wo.rank != 2) return array_misfit(err, &j->wo, "2 axes", NULL);
        if (w_layout == W_IN_OUT) swap_axes(&j->wo);
        if (j->wo.shape[1] != m->H * m->d_v) {
            char text[96];
            snprintf(text, sizeof text, "a matrix with %lld inputs (%lld heads of width %lld)",
                     (long long)(m->H * m->d_v), (long long)m->H, (long long)m->d_v);
            return array_misfit(err, &j->wo, text, NULL);
        }
        if ((status = load_projection(&j->wo, w_layout, err))) return status;
        m->w_o = j->wo.at;
        m->d_out = j->wo.shape[0];
    }
    if (w_layout >= 0 && !m->w_q && !m->w_k && !m->w_v && !m->w_o)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--w-layout requires a projection: --wq, --wk, --wv or --wo");
    j->has_b = j->x.rank == 3;
    j->has_h = m->H > 1 || j->wq.rank == 3;
    j->a.B = j->has_b ? j->x.shape[0] : 1;
    j->a.T = j->x.shape[j->x.rank - 2];
    j->a.S = c->shape[c->rank - 2];
    j->a.H = m->H;
    j->a.G = m->G;
    j->a.E = m->d_k;
    j->a.F = m->d_v;
    return score_weights(j, f, err);
}

qkv_status attn_inputs(struct attn_job *j, const struct attn_files *f, int w_layout, int score,
                       int64_t heads, int64_t kv_heads, qkv_error *err)
{
    if (f->all) {
        const qkv_status status = array_open(&j->all, f->all, false, err);
        if (status) return status;
        j->all_path = f->all;
    }
    const bool heads_given = f->q || f->k || f->v;
    if (f->x && heads_given)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "-x cannot be combined with -q, -k and -v, which it computes");
    j->inputs = f->x || (j->all && !heads_given && !qkv_tensors_find(j->all, "q") &&
                         qkv_tensors_find(j->all, "x"));
    if (j->inputs && j->layout >= 0)
        return cmd_error(
            err, QKV_ERR_USAGE, NULL,
            "--layout cannot be combined with -x: it describes -q, -k and -v with 4 axes");
    if (j->inputs) return from_inputs(j, f, w_layout, score, heads, kv_heads, err);
    const struct {
        const char *option;
        bool given;
    } projecting[] = {
        { "--score", score != 0 },
        { "--heads", heads != 0 },
        { "--kv-heads", kv_heads != 0 },
        { "--w-layout", w_layout >= 0 },
        { "-c", f->context },
        { "--wq", f->wq },
        { "--wk", f->wk },
        { "--wv", f->wv },
        { "--wo", f->wo },
        { "--ws", f->ws },
        { "--waq", f->waq },
        { "--wak", f->wak },
        { "--wa", f->wa },
    };
    for (size_t i = 0; i < sizeof projecting / sizeof *projecting; i++)
        if (projecting[i].given)
            return cmd_error(err, QKV_ERR_USAGE, NULL, "%s requires -x FILE, the inputs to project",
                             projecting[i].option);
    return given(j, f, err);
}

void attn_inputs_free(struct attn_job *j)
{
    struct array *all[] = { &j->q,  &j->k,  &j->v,  &j->x,   &j->c,   &j->wq, &j->wk,
                            &j->wv, &j->wo, &j->ws, &j->waq, &j->wak, &j->wa };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) array_free(all[i]);
    qkv_tensors_close(j->all);
    *j = (struct attn_job){ 0 };
}
