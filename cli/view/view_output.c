// SPDX-License-Identifier: MIT
// view_output.c: computes the output of the model on the text of a view: tokens after each layer,
// labels, or shares of tokens in the vector of the text; adds it to the view; prints it as JSON.
#include "frame/tokens.h"
#include "view_source.h"
#include "view/model_run.h"
#include "view/token_text.h"
#include <errno.h>
#include <qkv/lens.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TOP = 5, TOP_LABELS = 10, ENTRIES_MOST = 8192 };
static const double operations_most = 1e11; // of the output head, for all positions and layers

static void name_add(struct source_output *o, char *name)
{
    o->names = cmd_grow(o->names, (size_t)o->of.names + 1, sizeof *o->names);
    o->names[o->of.names++] = name;
    o->of.name = (const char *const *)o->names;
}

static int by_id(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

// Returns the index of an id in the ascending list ids[n].
static int32_t index_of(const int32_t *ids, int64_t n, int32_t id)
{
    const int32_t *at = bsearch(&id, ids, (size_t)n, sizeof *ids, by_id);
    return at ? (int32_t)(at - ids) : -1;
}

// ---- tokens after each layer -------------------------------------------------------------------
// Fills o->of from o->lens: names of all tokens that occur, and their indices.
static qkv_status lens_fill(struct source_output *o, const struct source *s, int32_t mask,
                            qkv_error *err)
{
    qkv_status status = QKV_OK;
    const struct qkv_lens *x = &o->lens;
    const int64_t P = x->positions, cells = P * x->rows * x->top;
    int32_t *ids = cmd_alloc((size_t)(cells + P), sizeof *ids);
    int64_t n = 0, used = 0;
    for (int64_t i = 0; i < cells; i++) ids[n++] = x->tokens[i].id;
    for (int64_t p = 0; p < P; p++)
        if (x->target[p] >= 0) ids[n++] = x->target[p];
    qsort(ids, (size_t)n, sizeof *ids, by_id);
    for (int64_t i = 0; i < n; i++)
        if (!used || ids[used - 1] != ids[i]) ids[used++] = ids[i];
    for (int64_t i = 0; i < used && !status; i++) {
        char *name = token_text(s->of.tokenizer, ids[i]);
        if (name)
            name_add(o, name);
        else
            status = cmd_no_memory(err);
    }
    o->entry = cmd_alloc((size_t)cells, sizeof *o->entry);
    o->value = cmd_alloc((size_t)cells, sizeof *o->value);
    o->target = cmd_alloc((size_t)P, sizeof *o->target);
    for (int64_t i = 0; i < cells; i++) {
        o->entry[i] = index_of(ids, used, x->tokens[i].id);
        o->value[i] = x->tokens[i].value;
    }
    for (int64_t p = 0; p < P; p++)
        o->target[p] =
            x->target[p] < 0 || x->target[p] == mask ? -1 : index_of(ids, used, x->target[p]);
    o->of.positions = P;
    o->of.rows = x->rows;
    o->of.top = x->top;
    o->of.at = x->at;
    o->of.target = o->target;
    o->of.target_value = x->target_probability;
    o->of.target_rank = x->target_rank;
    free(ids);
    return status;
}

// Chooses the positions: of an encoder the masks, if there are any; else of a decoder the last
// `most`, of others the first. `token` (-1: none) is always one of them. Returns their number.
static int64_t choose(int64_t *at, const struct source *s, int64_t T, int64_t most, int64_t token,
                      int32_t mask, int64_t *all)
{
    const enum qkv_model_kind kind = s->of.info.kind;
    int64_t n = 0, masks = 0;
    for (int64_t i = 0; i < T && kind == QKV_KIND_ENCODER; i++) masks += s->of.in.ids[i] == mask;
    *all = masks ? masks : T;
    for (int64_t i = 0; i < T; i++) {
        const bool fits = masks                      ? s->of.in.ids[i] == mask && n < most
                          : kind == QKV_KIND_DECODER ? i >= T - most
                                                     : i < most;
        if (fits || i == token) at[n++] = i;
    }
    return n;
}

static qkv_status lens_make(struct source_output *o, const struct source *s, int64_t token,
                            qkv_error *err)
{
    const struct qkv_model_info *info = &s->of.info;
    const bool two = s->of.in.source != NULL;
    const int64_t T = s->shown[two ? 1 : 0].tokens, top = info->vocab < TOP ? info->vocab : TOP;
    const int64_t rows = cmd_is_recurrent(info) ? 1
                         : two                  ? 1 + info->decoder_layers
                                                : 1 + info->layers;
    const double each = 2.0 * (double)rows * (double)info->width * (double)info->vocab;
    const int32_t mask =
        info->kind == QKV_KIND_ENCODER ? qkv_mask_id(s->of.model, s->of.tokenizer) : -1;
    int64_t most = ENTRIES_MOST / (rows * top), all;
    if ((double)most * each > operations_most) most = (int64_t)(operations_most / each);
    int64_t *at = cmd_alloc((size_t)T + 1, sizeof *at);
    const int64_t n = choose(at, s, T, most > 1 ? most : 1, token, mask, &all);
    const qkv_status status = qkv_lens(&o->lens, s->of.model, &s->of.in, at, n, top, err);
    free(at);
    if (status) return status;
    o->stack = s->shape.stacks - 1; // of an encoder-decoder cross-attention, whose rows are written
    o->of.kind = two                              ? QKV_VIEW_OUTPUT_WRITTEN
                 : info->kind == QKV_KIND_ENCODER ? QKV_VIEW_OUTPUT_MASKED
                                                  : QKV_VIEW_OUTPUT_NEXT;
    o->of.all = all;
    return lens_fill(o, s, mask, err);
}

// ---- labels ------------------------------------------------------------------------------------
static qkv_status labels_make(struct source_output *o, const struct source *s, qkv_error *err)
{
    const int64_t L = s->of.info.labels;
    const bool each = (s->of.info.can & QKV_CAN_TOKEN_LABELS) != 0;
    const int64_t T = s->shown[0].tokens, P = each ? T : 1;
    const int64_t most = each ? TOP : TOP_LABELS, top = L < most ? L : most;
    const int64_t rows = each ? s->of.in.offsets[1] : 1;
    float *p = cmd_alloc((size_t)(rows * L), sizeof *p);
    struct cmd_ranked *order = cmd_alloc((size_t)L, sizeof *order);
    qkv_status status = each ? qkv_model_classify_tokens(s->of.model, p, &s->of.in, err)
                             : qkv_model_classify(s->of.model, p, &s->of.in, err);
    if (!status) status = qkv_label_probabilities(p, p, P, s->of.model, err);
    if (!status) {
        o->of.kind = each ? QKV_VIEW_OUTPUT_TOKEN_LABELS : QKV_VIEW_OUTPUT_LABELS;
        o->of.positions = P;
        o->of.rows = 1;
        o->of.top = top;
        o->entry = cmd_alloc((size_t)(P * top), sizeof *o->entry);
        o->value = cmd_alloc((size_t)(P * top), sizeof *o->value);
        o->at = cmd_alloc((size_t)P, sizeof *o->at);
        o->of.at = each ? o->at : NULL;
        for (int64_t l = 0; l < L; l++) {
            const char *name = qkv_model_label(s->of.model, l);
            char *copy = cmd_alloc(strlen(name) + 1, 1);
            strcpy(copy, name);
            name_add(o, copy);
        }
    }
    for (int64_t i = 0; i < P && !status; i++) {
        o->at[i] = i;
        cmd_rank(order, p + i * L, L);
        for (int64_t k = 0; k < top; k++) {
            o->entry[i * top + k] = (int32_t)order[k].index;
            o->value[i * top + k] = order[k].value;
        }
    }
    free(p);
    free(order);
    return status;
}

// ---- shares ------------------------------------------------------------------------------------
static qkv_status shares_make(struct source_output *o, const struct source *s, qkv_error *err)
{
    const struct qkv_embedder_options how = { .opened = s->of.model, .no_tokenizer = true };
    const int64_t T = s->shown[0].tokens;
    double *share = cmd_alloc((size_t)T, sizeof *share);
    qkv_embedder *e = NULL;
    qkv_status status = qkv_embedder_open(&e, s->of.dir, &how, err);
    if (!status) status = qkv_shares_hidden(share, NULL, e, s->hidden, T, err);
    if (!status) {
        char *name = cmd_alloc(8, 1);
        strcpy(name, "share");
        name_add(o, name);
        o->of.kind = QKV_VIEW_OUTPUT_SHARES;
        o->of.positions = T;
        o->of.rows = o->of.top = 1;
        o->of.detail = cmd_pools[qkv_embedder_pool(e) - QKV_POOL_MEAN];
        o->entry = cmd_alloc((size_t)T, sizeof *o->entry);
        o->value = cmd_alloc((size_t)T, sizeof *o->value);
        o->at = cmd_alloc((size_t)T, sizeof *o->at);
        o->of.at = o->at;
        for (int64_t i = 0; i < T; i++) {
            o->entry[i] = 0;
            o->at[i] = i;
            o->value[i] = (float)share[i];
        }
    }
    qkv_embedder_close(e);
    free(share);
    return status;
}

// ---- the output --------------------------------------------------------------------------------
// *is becomes true if the folder has the settings of sentence-transformers.
static qkv_status is_embedder(bool *is, const struct source *s, qkv_error *err)
{
    char path[CMD_PATH + 16];
    snprintf(path, sizeof path, "%s/modules.json", s->of.dir);
    struct stat st;
    *is = stat(path, &st) == 0;
    return *is || errno == ENOENT || errno == ENOTDIR
               ? QKV_OK
               : cmd_error(err, QKV_ERR_IO, path, "cannot open: %s", strerror(errno));
}

static bool has_mask(const struct source *s)
{
    const int32_t mask = qkv_mask_id(s->of.model, s->of.tokenizer);
    for (int64_t i = 0; mask >= 0 && i < s->shown[0].tokens; i++)
        if (s->of.in.ids[i] == mask) return true;
    return false;
}

qkv_status source_output(struct source *s, int64_t token, qkv_error *err)
{
    const struct qkv_model_info *info = &s->of.info;
    struct source_output *o = &s->output;
    bool embeds = false;
    if (s->given || !s->of.model)
        return cmd_error(err, QKV_ERR_UNSUPPORTED, NULL,
                         "--view output requires a model; weights from a file have no output");
    const bool tokens = (info->can & QKV_CAN_TOKENS) != 0;
    const bool two = info->kind == QKV_KIND_ENCODER_DECODER;
    qkv_status status = is_embedder(&embeds, s, err);
    if (status) return status;
    if (!two && (info->can & (QKV_CAN_LABELS | QKV_CAN_TOKEN_LABELS)))
        status = labels_make(o, s, err);
    else if (tokens && (two || !embeds || (info->kind == QKV_KIND_ENCODER && has_mask(s))))
        status = lens_make(o, s, token, err);
    else if (!two)
        status = shares_make(o, s, err);
    else
        status = cmd_error(err, QKV_ERR_UNSUPPORTED, s->of.dir,
                           "--view output requires a model with an output head for tokens; "
                           "this model is %s",
                           info->family);
    o->of.entry = o->entry;
    o->of.value = o->value;
    if (!status) status = qkv_view_output_add(s->view, o->stack, &o->of, err);
    return status;
}

void source_output_close(struct source_output *o)
{
    for (int64_t i = 0; i < o->of.names; i++) free(o->names[i]);
    free(o->names);
    free(o->entry);
    free(o->value);
    free(o->target);
    free(o->at);
    qkv_lens_free(&o->lens);
    *o = (struct source_output){ 0 };
}

// ---- JSON --------------------------------------------------------------------------------------
static void json_name(const struct source_output *o, int32_t name)
{
    cmd_json_text(stdout, o->names[name], strlen(o->names[name]));
}

static void json_position(const struct source_output *o, int64_t p)
{
    const struct qkv_view_output *of = &o->of;
    const bool target = of->target && of->target[p] >= 0;
    printf("%s{", p ? "," : "");
    if (of->at) printf("\"token\":%lld,", (long long)of->at[p]);
    if (target) {
        fputs("\"target\":", stdout);
        json_name(o, of->target[p]);
        putchar(',');
    }
    fputs("\"rows\":[", stdout);
    for (int64_t l = 0; l < of->rows; l++) {
        const int64_t row = p * of->rows + l;
        fputs(l ? ",{" : "{", stdout);
        if (target) {
            fputs("\"target_probability\":", stdout);
            cmd_json_float(stdout, of->target_value[row]);
            printf(",\"target_place\":%lld,", (long long)of->target_rank[row] + 1);
        }
        fputs("\"top\":[", stdout);
        for (int64_t k = 0; k < of->top; k++) {
            fputs(k ? ",[" : "[", stdout);
            json_name(o, of->entry[row * of->top + k]);
            putchar(',');
            cmd_json_float(stdout, of->value[row * of->top + k]);
            putchar(']');
        }
        fputs("]}", stdout);
    }
    fputs("]}", stdout);
}

void print_output_json(const struct source *s)
{
    static const char *const kinds[] = { "next",   "written", "masked",
                                         "shares", "labels",  "token labels" };
    const struct source_output *o = &s->output;
    if (!o->of.positions) return;
    printf(",\"output\":{\"kind\":\"%s\",\"positions\":[", kinds[o->of.kind]);
    for (int64_t p = 0; p < o->of.positions; p++) json_position(o, p);
    fputs("]}", stdout);
}
