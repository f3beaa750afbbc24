// SPDX-License-Identifier: MIT
// cmd_attn.c: implements `qkv attn`: runs attention on q, k and v, or on inputs and projections.
#include "attn/attn.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUERIES, KEYS, VALUES, OUT, LSE, WEIGHTS, RESULTS };
enum { PROBES = RESULTS, OUTPUTS };
static const char *const layouts[] = { "bthe", "bhte", NULL };
static const char *const w_layouts[] = { "out,in", "in,out", NULL };
enum { TOP_LEFT, BOTTOM_RIGHT };
static const char *const diagonals[] = { "top-left", "bottom-right", NULL };

static struct {
    struct attn_files f;
    const char *bias, *mask, *lengths, *offsets, *k_offsets, *sinks, *window, *scale;
    const char *results[OUTPUTS], *probe;
    bool causal, causal_br, alibi, no_softmax, projections, sum, plan, native;
    int layout, w_layout, score, diagonal;
    int64_t heads, kv_heads, collect_limit;
    double softcap;
    // -1: the option is not given
} o = { .layout = -1, .w_layout = -1, .diagonal = -1 };

static const struct opt opts[] = {
    OPT_GROUP("Queries, keys and values"),
    OPT_INPUT('q', "query", &o.f.q, "FILE",
              "queries: an array (T, E), (B, T, E) or one with 4 axes (--layout)"),
    OPT_INPUT(
        'k', "key", &o.f.k, "FILE",
        "keys: an array (S, E), (B, S, E) or one with 4 axes; the number of its heads divides "
        "the number of query heads"),
    OPT_INPUT('v', "value", &o.f.v, "FILE",
              "values: an array (S, F), (B, S, F) or one with 4 axes"),
    OPT_CHOICE(0, "layout", &o.layout, layouts, "ORDER",
               "order of the 4 axes of arrays that are read and written: bthe (batch, token, head, "
               "width; the default) or bhte"),
    OPT_INPUT('i', "input", &o.f.all, "FILE",
              "one .safetensors file with tensors named q, k, v (or x, wq, wk, ...), bias, mask, "
              "lengths, sinks"),
    OPT_GROUP("From inputs"),
    OPT_INPUT('x', "inputs", &o.f.x, "FILE",
              "inputs: an array (T, D) or (B, T, D); without projections Q = K = V = X"),
    OPT_INPUT('c', "context", &o.f.context, "FILE",
              "inputs of keys and values, for cross-attention (default: the same as for queries)"),
    OPT_INPUT(0, "wq", &o.f.wq, "FILE",
              "query projection (outputs, inputs) or (heads, outputs, inputs)"),
    OPT_INPUT(0, "wk", &o.f.wk, "FILE", "key projection"),
    OPT_INPUT(0, "wv", &o.f.wv, "FILE", "value projection"),
    OPT_INPUT(0, "wo", &o.f.wo, "FILE", "output projection of the concatenated heads"),
    OPT_CHOICE(
        0, "w-layout", &o.w_layout, w_layouts, "ORDER",
        "axes of the projection matrices: out,in (the default, y = W x) or in,out (y = x W)"),
    OPT_INT(0, "heads", &o.heads, 1, 1 << 20, "H",
            "number of query heads (default: 1, or the first axis of wq)"),
    OPT_INT(0, "kv-heads", &o.kv_heads, 1, 1 << 20, "G",
            "number of key and value heads (default: the number of query heads)"),
    OPT_CHOICE(
        0, "score", &o.score, attn_scores, "KIND",
        "score function: dot (the default); bilinear: q Ws k; additive: wa . tanh(Waq q + Wak k)"),
    OPT_INPUT(0, "ws", &o.f.ws, "FILE",
              "Ws of --score bilinear: (d_k, d_k), or one matrix per head"),
    OPT_INPUT(0, "waq", &o.f.waq, "FILE",
              "Waq of --score additive: (d_a, d_k), or one matrix per head"),
    OPT_INPUT(0, "wak", &o.f.wak, "FILE",
              "Wak of --score additive: (d_a, d_k), or one matrix per head"),
    OPT_INPUT(0, "wa", &o.f.wa, "FILE", "wa of --score additive: (d_a,), or one vector per head"),
    OPT_GROUP("Scores and masks"),
    OPT_TEXT(0, "scale", &o.scale, "X|none",
             "factor by which scores are multiplied, or none (default: 1/sqrt(E); none for "
             "bilinear and additive scores)"),
    OPT_REAL(0, "softcap", &o.softcap, "C", "soft cap: a score becomes C tanh(score/C)"),
    OPT_INPUT(0, "bias", &o.bias, "FILE",
              "numbers that are added to the scores: (S,), (T, S), (H, T, S) ..., broadcast as by "
              "numpy; -inf masks a key"),
    OPT_INPUT(
        0, "mask", &o.mask, "FILE",
        "mask: true where a query may attend to a key, or a typed array of 0 and 1; shapes as "
        "for --bias"),
    OPT_FLAG(0, "causal", &o.causal, "let each query attend only to keys up to its own position"),
    OPT_FLAG(0, "causal-br", &o.causal_br,
             "like --causal, with the last query at the position of the last key"),
    OPT_TEXT(
        0, "window", &o.window, "L,R",
        "let each query attend to the keys from L before its position to R after it; -1: no limit"),
    OPT_CHOICE(0, "diagonal", &o.diagonal, diagonals, "CORNER",
               "where positions of queries and keys are aligned, for --causal, --window and "
               "--alibi: top-left (the default) or bottom-right"),
    OPT_INPUT(0, "lengths", &o.lengths, "FILE|N,N",
              "number of keys of each batch item, as a list, a typed array or a file; ./123 is a "
              "file with the "
              "name 123"),
    OPT_INPUT(
        0, "offsets", &o.offsets, "FILE|N,N",
        "packed sequences: index of the first token of each, then the number of tokens, such as "
        "0,3,8, or a file; ./123 is a file with the name 123"),
    OPT_INPUT(0, "k-offsets", &o.k_offsets, "FILE|N,N",
              "packed sequences: the offsets of their keys (default: the value of --offsets)"),
    OPT_FLAG(0, "alibi", &o.alibi,
             "lower the scores with the distance of query and key (ALiBi, with the slopes of Press "
             "et al.)"),
    OPT_INPUT(
        0, "sinks", &o.sinks, "FILE",
        "attention sinks: one logit per head, which is part of the softmax sum and has no value"),
    OPT_FLAG(0, "no-softmax", &o.no_softmax,
             "weight the values by the scores, without softmax; with --scale none: X X^T X"),
    OPT_GROUP("Computation"),
    OPT_FLAG(0, "native", &o.native,
             "fail if this CPU cannot compute in --precision, instead of converting to float"),
    OPT_INT(0, "collect-limit", &o.collect_limit, 1, INT64_MAX, "BYTES",
            "on several ranks: collect all keys and values on each only if they have at most so "
            "many bytes, or else receive them in blocks (default: half of the memory that is "
            "available to the rank with the least)"),
    OPT_GROUP("Results"),
    OPT_OUTPUT('o', "output", &o.results[OUT], "FILE.npy",
               "output file (default: print the output); '-': as .npy on standard output"),
    OPT_FLAG(0, "sum", &o.sum,
             "write the sum of the output's rows: one vector per sequence and head"),
    OPT_FLAG(0, "projections", &o.projections,
             "with -x, also print the queries, keys and values that are computed from the inputs"),
    OPT_OUTPUT(0, "lse", &o.results[LSE], "FILE.npy",
               "output file for the logarithm of each row's softmax sum; '-' prints it"),
    OPT_OUTPUT(
        0, "weights", &o.results[WEIGHTS], "FILE.npy",
        "output file for the attention weights (with --no-softmax: the scores), T x S floats "
        "per head; '-' prints them"),
    OPT_TEXT(0, "probe", &o.probe, "LIST", PROBES_HELP),
    OPT_OUTPUT(0, "probes", &o.results[PROBES], "FILE.safetensors",
               "output file for the statistics of --probe (default: print them)"),
    OPT_FLAG(0, "plan", &o.plan,
             "print the kernel, the memory and the tiles of the run, and do not run it"),
    OPT_END
};

// The arrays of mask, bias and lengths; this struct owns their memory.
struct masks {
    struct array bias, mask, lengths, offsets, k_offsets, sinks;
    uint8_t *mask_bytes;
    int64_t *length, *offset, *k_offset;
    float *slopes;
};

static void masks_free(struct masks *m)
{
    struct array *all[] = {
        &m->bias, &m->mask, &m->lengths, &m->offsets, &m->k_offsets, &m->sinks
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) array_free(all[i]);
    free(m->mask_bytes);
    free(m->length);
    free(m->offset);
    free(m->k_offset);
    free(m->slopes);
}

// Sets the strides *b, *h and *t of x over batch, head and query, as NumPy broadcasts. The axes of
// x are, from the end, S (keys), T, H and B; all but S have their size in j->a or 1, or are absent.
static qkv_status broadcast(const struct attn_job *j, const struct array *x, int64_t *b, int64_t *h,
                            int64_t *t, qkv_error *err)
{
    int64_t sizes[4], *strides[4], unused;
    int n = 0;
    if (j->has_b || x->rank == 4) {
        sizes[n] = j->a.B;
        strides[n++] = b;
    }
    if (j->has_h || x->rank == 4) {
        sizes[n] = j->a.H;
        strides[n++] = h;
    }
    sizes[n] = j->a.T;
    strides[n++] = t;
    sizes[n] = j->a.S;
    strides[n++] = &unused;
    char text[SHAPE_TEXT], expected[SHAPE_TEXT + 96];
    snprintf(expected, sizeof expected,
             "a shape that NumPy broadcasts to %s, with %lld numbers in the last axis (keys)",
             array_shape(text, n, sizes), (long long)j->a.S);
    if (x->rank < 1 || x->rank > n) return array_misfit(err, x, expected, NULL);
    int64_t step = 1;
    *b = *h = *t = 0;
    for (int i = 1; i <= x->rank; i++) {
        const int64_t have = x->shape[x->rank - i], want = sizes[n - i];
        if (have != want && (have != 1 || i == 1)) return array_misfit(err, x, expected, NULL);
        *strides[n - i] = have == 1 ? 0 : step;
        step *= have;
    }
    return QKV_OK;
}

static qkv_status numbers(struct attn_job *j, qkv_error *err)
{
    double scale;
    if (o.scale && !strcmp(o.scale, "none")) {
        j->a.scale = 1;
    } else if (o.scale) {
        if (!cmd_parse_real(o.scale, &scale) || (float)scale == 0)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--scale: expected a number other than 0, or none, found '%.100s'",
                             o.scale);
        j->a.scale = (float)scale;
    }
    if (o.softcap < 0 || (o.softcap > 0 && (float)o.softcap == 0))
        return cmd_error(
            err, QKV_ERR_USAGE, NULL,
            "--softcap: expected a number above 0 that a float32 can represent, found %g",
            o.softcap);
    j->a.softcap = (float)o.softcap;
    if (o.causal && o.causal_br)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--causal cannot be combined with --causal-br");
    if (o.causal_br && o.diagonal == TOP_LEFT)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--causal-br cannot be combined with --diagonal "
                         "top-left");
    if (o.diagonal >= 0 && !o.causal && !o.causal_br && !o.window && !o.alibi)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--diagonal requires --causal, --window or "
                         "--alibi");
    j->a.causal = o.causal || o.causal_br;
    j->a.diagonal = o.causal_br || o.diagonal == BOTTOM_RIGHT ? QKV_BOTTOM_RIGHT : QKV_TOP_LEFT;
    j->a.no_softmax = o.no_softmax;
    j->a.precision = common.precision;
    j->a.native = o.native;
    if (o.window) {
        int64_t *sides, n;
        const qkv_status status =
            cmd_parse_ints("--window", o.window, -1, INT64_MAX / 4, &sides, &n, err);
        if (status) return status;
        j->a.window.on = true;
        j->a.window.left = sides[0];
        j->a.window.right = n == 2 ? sides[1] : 0;
        free(sides);
        if (n != 2)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--window: expected two numbers L,R, found '%.100s'", o.window);
    }
    return QKV_OK;
}

enum { SEQUENCES = 1 << 24 }; // the most packed sequences

static qkv_status packed(struct attn_job *j, struct masks *m, qkv_error *err)
{
    qkv_status status;
    if ((status = array_find_ints(&m->offsets, &m->offset, "offsets", o.offsets, j->all,
                                  j->all_path, err)) ||
        (status = array_find_ints(&m->k_offsets, &m->k_offset, "k-offsets", o.k_offsets, j->all,
                                  j->all_path, err)))
        return status;
    const bool of_keys = m->k_offset || m->k_offsets.tensor;
    if (!m->offset && !m->offsets.tensor)
        return of_keys ? cmd_error(err, QKV_ERR_USAGE, NULL, "--k-offsets requires --offsets")
                       : QKV_OK;
    if (m->offsets.rank != 1 || m->offsets.count < 2)
        return array_misfit(err, &m->offsets, "(sequences + 1,)", NULL);
    // before a file is copied into 64-bit numbers: a file of zeros is sequences without tokens
    if (m->offsets.count - 1 > SEQUENCES)
        return cmd_error(err, QKV_ERR_LIMIT, m->offsets.source,
                         "offsets: expected at most %d sequences, found %lld", SEQUENCES,
                         (long long)(m->offsets.count - 1));
    if (of_keys && (m->k_offsets.rank != 1 || m->k_offsets.count != m->offsets.count))
        return array_misfit(err, &m->k_offsets, "as many numbers", &m->offsets);
    status = array_load_ints(&m->offsets, &m->offset, err);
    if (!status) status = array_load_ints(&m->k_offsets, &m->k_offset, err);
    j->a.sequences = m->offsets.count - 1;
    j->a.q_offsets = m->offset;
    j->a.k_offsets = m->k_offset;
    return status;
}

static qkv_status masks_read(struct attn_job *j, struct masks *m, qkv_error *err)
{
    const qkv_tensors *all = j->all;
    const char *from = j->all_path;
    qkv_status status;
    if ((status = numbers(j, err)) || (status = packed(j, m, err)) ||
        (status = array_find(&m->bias, "bias", o.bias, all, from, err)) ||
        (status = array_find(&m->mask, "mask", o.mask, all, from, err)) ||
        (status = array_find_ints(&m->lengths, &m->length, "lengths", o.lengths, all, from, err)) ||
        (status = array_find(&m->sinks, "sinks", o.sinks, all, from, err)))
        return status;
    if (m->bias.tensor) {
        if ((status = broadcast(j, &m->bias, &j->a.bias.b, &j->a.bias.h, &j->a.bias.t, err)) ||
            (status = array_load(&m->bias, err)))
            return status;
        j->a.bias.at = m->bias.at;
    }
    if (m->mask.tensor) {
        if ((status = broadcast(j, &m->mask, &j->a.mask.b, &j->a.mask.h, &j->a.mask.t, err)) ||
            (status = array_load_bools(&m->mask, &m->mask_bytes, err)))
            return status;
        j->a.mask.at = m->mask_bytes;
    }
    const int64_t items = j->a.sequences ? j->a.sequences : j->a.B;
    if (m->length || m->lengths.tensor) {
        char text[64];
        snprintf(text, sizeof text, "(%lld,), one length per sequence", (long long)items);
        if (m->lengths.rank != 1 || m->lengths.count != items)
            return array_misfit(err, &m->lengths, text, NULL);
        if ((status = array_load_ints(&m->lengths, &m->length, err))) return status;
        for (int64_t i = 0; i < items; i++)
            if (m->length[i] < 0 || m->length[i] > j->a.S)
                return cmd_error(err, QKV_ERR_USAGE, m->lengths.source,
                                 "length %lld of item %lld is out of range, expected 0 to %lld",
                                 (long long)m->length[i], (long long)i, (long long)j->a.S);
        j->a.k_lengths = m->length;
    }
    if (m->sinks.tensor) {
        char text[64];
        snprintf(text, sizeof text, "(%lld,), one logit per head", (long long)j->a.H);
        if ((m->sinks.rank != 1 && !m->sinks.typed) || m->sinks.count != j->a.H) // typed: one row
            return array_misfit(err, &m->sinks, text, NULL);
        if ((status = array_load(&m->sinks, err))) return status;
        j->a.sinks = m->sinks.at;
    }
    if (o.alibi) {
        m->slopes = cmd_alloc((size_t)j->a.H, sizeof *m->slopes);
        qkv_alibi_slopes(m->slopes, j->a.H);
        j->a.alibi = m->slopes;
    }
    return QKV_OK;
}

// ---- results -----------------------------------------------------------------------------------
static int leading(const struct attn_job *j, int64_t *shape)
{
    int n = 0;
    if (j->has_b) shape[n++] = j->a.B;
    if (j->has_h) shape[n++] = j->a.H;
    return n;
}

static void results_new(const struct attn_job *j, struct array *r)
{
    int64_t shape[4], n = 0;
    if (j->has_b) shape[n++] = j->a.B;
    if (j->inputs) {
        shape[n++] = j->a.T;
        shape[n++] = j->m.d_out;
    } else {
        if (j->has_h && j->layout == LAYOUT_BHTE) shape[n++] = j->a.H;
        shape[n++] = j->a.T;
        if (j->has_h && j->layout != LAYOUT_BHTE) shape[n++] = j->a.H;
        shape[n++] = j->a.F;
    }
    array_new(&r[OUT], "out", (int)n, shape);
    if (o.projections)
        for (int i = QUERIES; i <= VALUES; i++) { // as the members of struct qkv_multi_head_keep
            n = 0;
            if (j->has_b) shape[n++] = j->a.B;
            shape[n++] = i == QUERIES ? j->a.T : j->a.S;
            if (j->has_h) shape[n++] = i == QUERIES ? j->a.H : j->a.G;
            shape[n++] = i == VALUES ? j->a.F : j->a.E;
            array_new(&r[i], i == QUERIES ? "q" : i == KEYS ? "k" : "v", (int)n, shape);
        }
    n = leading(j, shape);
    shape[n++] = j->a.T;
    if (o.results[LSE]) array_new(&r[LSE], "lse", (int)n, shape);
    shape[n++] = j->a.S;
    if (o.results[WEIGHTS]) array_new(&r[WEIGHTS], "weights", (int)n, shape);
}

// Sums the output over its token axis.
static void sum_rows(const struct attn_job *j, struct array *out)
{
    const int axis = j->inputs || j->layout != LAYOUT_BHTE || !j->has_h ? j->has_b : j->has_b + 1;
    int64_t before = 1, after = 1, shape[QKV_RANK_MAX] = { 0 };
    const int64_t T = out->shape[axis];
    struct array sum;
    int n = 0;
    for (int i = 0; i < out->rank; i++) {
        if (i == axis) continue;
        *(i < axis ? &before : &after) *= out->shape[i];
        shape[n++] = out->shape[i];
    }
    array_new(&sum, "out", n, shape);
    for (int64_t b = 0; b < before; b++)
        for (int64_t e = 0; e < after; e++) {
            double s = 0;
            for (int64_t t = 0; t < T; t++) s += (double)out->at[(b * T + t) * after + e];
            sum.own[b * after + e] = (float)s;
        }
    array_free(out);
    *out = sum;
}

static qkv_status results_give(const struct attn_job *j, struct array *r, qkv_error *err)
{
    const char *const names[] = {
        "q", "k", "v", "out", "lse", o.no_softmax ? "scores" : "weights"
    };
    bool first = true;
    qkv_status status;
    for (int i = 0; i < RESULTS; i++) {
        const char *path = o.results[i];
        if (path && strcmp(path, "-") != 0 && (status = array_write(&r[i], path, err)))
            return status;
        if (!r[i].at || (path && strcmp(path, "-") != 0)) continue;
        if (common.json) {
            printf("%s\"%s\":", first ? "{" : ",", names[i]);
            array_print_json(stdout, &r[i]);
        } else {
            if (!first) putchar('\n');
            array_print(stdout, &r[i], names[i]);
        }
        first = false;
    }
    if ((status = attn_probe_give(j, o.results[PROBES], &first, err))) return status;
    if (common.json && !first) puts("}");
    return QKV_OK;
}

// ---- 16-bit precisions: files contain floats, which are converted for the operator -------------
static void *stored(const struct array *x, qkv_dtype type)
{
    void *to = cmd_alloc((size_t)x->count, qkv_dtype_size(type));
    qkv_from_f32(to, type, x->at, x->count);
    return to;
}

static qkv_status run_stored(const struct attn_job *j, struct array *r, void *scratch)
{
    const qkv_dtype type = qkv_precision_type(j->a.precision);
    void *const q = stored(&j->q, type), *const k = stored(&j->k, type),
                *const v = stored(&j->v, type);
    void *const out = cmd_alloc((size_t)r[OUT].count, qkv_dtype_size(type));
    const qkv_status status =
        qkv_attention_forward(out, r[LSE].own, r[WEIGHTS].own, q, k, v, &j->a, scratch);
    if (!status) qkv_to_f32(r[OUT].own, out, type, r[OUT].count);
    free(q);
    free(k);
    free(v);
    free(out);
    return status;
}

// Runs the job and stores its results in r[]. With --plan, only prints the plan.
static qkv_status compute(struct attn_job *j, struct array *r, qkv_error *err)
{
    const struct qkv_attention_plan p =
        j->inputs ? qkv_multi_head_plan(&j->m, &j->a) : qkv_attention_plan(&j->a);
    qkv_status status = p.status;
    if (status) return cmd_error(err, status, NULL, "%s", p.reason);
    if (o.plan) {
        attn_plan_print(j, &p);
        return QKV_OK;
    }
    results_new(j, r);
    if (ranks.size > 1) {
        status = attn_ranks_run(j, r[OUT].own, r[LSE].own, r[WEIGHTS].own, err);
        if (!status && o.sum) sum_rows(j, &r[OUT]);
        return status;
    }
    void *workspace = cmd_alloc(p.scratch, 1);
    float *lse = r[LSE].own, *weights = r[WEIGHTS].own;
    if (j->inputs) {
        const struct qkv_multi_head_keep keep = { .q = r[QUERIES].own,
                                                  .k = r[KEYS].own,
                                                  .v = r[VALUES].own,
                                                  .lse = lse,
                                                  .weights = weights };
        status =
            qkv_multi_head_forward(r[OUT].own, &keep, j->x.at, j->c.at, &j->m, &j->a, workspace);
    } else if (qkv_precision_type(j->a.precision) != QKV_F32) {
        status = run_stored(j, r, workspace);
    } else {
        status = qkv_attention_forward(r[OUT].own, lse, weights, j->q.at, j->k.at, j->v.at, &j->a,
                                       workspace);
    }
    free(workspace);
    if (status)
        return cmd_error(err, status, NULL, "this attention cannot run: %s",
                         qkv_status_name(status));
    if (o.sum) sum_rows(j, &r[OUT]);
    return QKV_OK;
}

static qkv_status check_outputs(qkv_error *err)
{
    const char *inputs[] = { o.f.q,  o.f.k,  o.f.v,     o.f.all,   o.f.x,       o.f.context, o.f.wq,
                             o.f.wk, o.f.wv, o.f.wo,    o.f.ws,    o.f.waq,     o.f.wak,     o.f.wa,
                             o.bias, o.mask, o.lengths, o.offsets, o.k_offsets, o.sinks };
    enum { COUNT = sizeof inputs / sizeof *inputs };
    int stdins = 0;
    for (int i = 0; i < COUNT; i++) stdins += inputs[i] && !strcmp(inputs[i], "-");
    if (stdins > 1)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "standard input can be read only once, expected a single '-', found %d",
                         stdins);
    if (o.no_softmax && o.results[LSE])
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--lse cannot be combined with --no-softmax");
    if (o.projections && !o.f.x && !o.f.all)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--projections requires -x");
    if (o.projections && o.plan)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--projections cannot be combined with --plan");
    if (o.results[PROBES] && !o.probe)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--probes requires --probe LIST");
    if (o.results[PROBES] && !strcmp(o.results[PROBES], "-")) o.results[PROBES] = NULL;
    if (o.results[OUT] && !strcmp(o.results[OUT], "-")) {
        // with --json or on a terminal, also print what was written to the file
        if (common.json || isatty(1))
            o.results[OUT] = NULL;
        else if ((o.results[LSE] && !strcmp(o.results[LSE], "-")) ||
                 (o.results[WEIGHTS] && !strcmp(o.results[WEIGHTS], "-")))
            return cmd_error(
                err, QKV_ERR_USAGE, NULL,
                "standard output can receive only one .npy result, expected a single '-'");
        else
            o.results[OUT] = "/dev/stdout";
    }
    for (int i = 0; i < OUTPUTS && !o.plan; i++) {
        if (!o.results[i] || !strcmp(o.results[i], "-")) continue;
        const qkv_status status = cmd_output_check(o.results[i], err);
        if (status) return status;
    }
    return QKV_OK;
}

// Refuses what ranks do not compute.
static qkv_status check_ranks(const struct attn_job *j, qkv_error *err)
{
    const struct {
        bool given;
        const char *what;
    } others[] = { { j->inputs, "projection of inputs (-x)" },
                   { o.no_softmax && o.results[LSE], "--lse without softmax" },
                   { j->has_h && j->layout == LAYOUT_BHTE, "--layout bhte" } };
    for (size_t i = 0; i < sizeof others / sizeof *others && ranks.size > 1; i++)
        if (others[i].given)
            return cmd_error(err, QKV_ERR_UNSUPPORTED, NULL, "%s is not supported over ranks",
                             others[i].what);
    return QKV_OK;
}

static int run_attn(int argc, char **argv)
{
    (void)argc;
    (void)argv;
    qkv_error err = { 0 };
    struct attn_job j = { .layout = o.layout };
    struct masks m = { .slopes = NULL };
    struct array r[RESULTS] = { 0 };
    ranks.collect_limit = ranks_collect_limit(o.collect_limit, 2); // half: q, out and the rest
    j.limit_given = o.collect_limit != 0;
    if (check_outputs(&err) ||
        attn_inputs(&j, &o.f, o.w_layout, o.score, o.heads, o.kv_heads, &err) ||
        masks_read(&j, &m, &err) || attn_probe_new(&j, o.probe, &err) || check_ranks(&j, &err)) {
    }
    ranks_agree(&err);
    if (!err.status) compute(&j, r, &err);
    ranks_agree(&err);
    if (!err.status && !o.plan && ranks.rank == 0) {
        attn_note_nonfinite(&j, &m.bias, &m.sinks, &r[OUT]);
        results_give(&j, r, &err);
    }
    ranks_agree(&err);
    for (int i = 0; i < RESULTS; i++) array_free(&r[i]);
    masks_free(&m);
    attn_probe_free(&j);
    attn_inputs_free(&j);
    ranks_close();
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_attn = {
    .name = "attn",
    .brief = "run attention on .npy and .safetensors files",
    .usage = "-q FILE -k FILE -v FILE [options]\n-x FILE [--wq FILE --wk FILE --wv FILE --wo FILE] [options]\n"
             "-i FILE.safetensors [options]",
    .about = "Computes out = softmax(scale Q K^T + bias) V exactly, in memory linear in the number "
             "of tokens, with any combination of masks. An array with 2 axes is one sequence of "
             "one head, an array with 3 axes is a batch of such sequences. If k and v have fewer "
             "heads than q, several query heads share a key head (grouped-query attention). With "
             "-x, queries, keys and values are computed from inputs, with or without projections. "
             "Arrays of float64 are converted to float32, with a note. In place of a FILE, numbers in "
             "brackets are an array with 2 axes: '[1 0; 0 1; 1 1]' has 3 rows. Without -o, the "
             "output is printed.\n"
             "\n"
             "The operator computes in this order: score, scale, soft cap, bias and ALiBi, masks, "
             "softmax. Masked keys are never read, so a NaN in them has no effect. The output of a "
             "row whose keys are all masked is 0. Started as 'mpirun -n P qkv attn ...' with Open MPI "
             "or MPICH, each of P processes computes some rows, and the result is bit-identical. With --precision bf16 or f16, q, k, v and the "
             "output are rounded to that type.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_JSON | USES_OUTPUT | USES_RANKS,
    .max_args = 0,
    .examples = {
        { "qkv attn -q q.npy -k k.npy -v v.npy --causal -o out.npy", "causal attention on arrays that numpy saved" },
        { "qkv attn -x '[1 0; 0 1; 1 1]' --no-softmax --scale none --weights -",
          "X X^T X and the scores of three tokens with two numbers each, from the command line" },
        { "qkv attn -x x.npy --wq wq.npy --wk wk.npy --wv wv.npy --weights -",
          "one head, from inputs and projections; prints output and weights" },
        { "qkv attn -x x.npy --no-softmax --scale none --sum", "attention in its simplest form, X X^T X, summed over rows" },
        { "qkv attn -i all.safetensors --window 128,0 --causal --plan", "the plan of attention with a sliding window" },
        { "qkv attn -x x.npy --probe top=4,entropy,received", "statistics of each row, without the T x S weights" },
    },
    .run = run_attn,
};
