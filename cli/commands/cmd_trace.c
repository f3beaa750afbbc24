// SPDX-License-Identifier: MIT
// cmd_trace.c: implements `qkv trace`: writes the activations of a model on a text, layer by layer,
// to a safetensors file.
#include "view/model_run.h"
#include "frame/probes.h"
#include "frame/tokens.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { EMBEDDINGS = 1, HIDDEN = 2, Q = 4, K = 8, V = 16, ATTENTION = 32, ALL = 63, PROBE = 64 };
// the kinds of arrays whose size is linear in the number of tokens
enum { LINEAR = ALL & ~ATTENTION };
enum { WORD_ALL = 128 }; // the word all: the arrays that the model has
static const char *const kinds[] = { "embeddings", "hidden",    "q",     "k",
                                     "v",          "attention", "probe", NULL };
static const int bits[] = { EMBEDDINGS, HIDDEN, Q, K, V, ATTENTION, PROBE };
static const char usual_probe[] = "top=16,received,entropy,distance";

static struct {
    const char *output, *what, *probe;
    struct token_options tokens;
} o = { 0 };

static const struct opt opts[] = {
    OPT_OUTPUT('o', "output", &o.output, "FILE",
               "the .safetensors file to write (required); '-' is standard output"),
    OPT_TEXT(0, "what", &o.what, "LIST",
             "which arrays to write: some of embeddings,hidden,q,k,v,attention,probe, or all, "
             "which means all except probe (default: all except probe and attention; attention is "
             "layers x heads x T x T floats: 75 MB for 512 tokens, 6 layers and 12 heads)"),
    OPT_TEXT(0, "probe", &o.probe, "LIST",
             "attention statistics for --what probe: " PROBES_HELP
             "; default: top=16,received,entropy,distance"),
    TOKEN_OPTIONS(o.tokens), OPT_END
};

// ---- the list of tensors, which is needed before the first one is written ----------------------
struct list {
    const qkv_model *model;
    struct qkv_tensor *t;
    char (*names)[96];
    int64_t count;
};

// A tensor name is first + number of the layer + second.
struct name {
    const char *before, *after;
};

static void list_add(struct list *l, qkv_dtype dtype, int rank, const int64_t *shape,
                     struct name name, int64_t layer)
{
    struct qkv_tensor *t = &l->t[l->count];
    char number[24] = "";
    if (layer >= 0) snprintf(number, sizeof number, "%lld", (long long)layer);
    snprintf(l->names[l->count], sizeof *l->names, "%s%s%s", name.before, number, name.after);
    *t = (struct qkv_tensor){ .name = l->names[l->count], .dtype = dtype, .rank = rank };
    memcpy(t->shape, shape, (size_t)rank * sizeof *shape);
    t->bytes = array_count(rank, shape) * qkv_dtype_size(dtype);
    l->count++;
}

// Lists the queries, keys or values of a layer. which: 'q', 'k' or 'v'.
static void list_states(struct list *l, const int64_t shape[3], enum qkv_attention_part part,
                        int64_t layer, char which)
{
    char name[sizeof *l->names];
    qkv_model_states_name(name, sizeof name, l->model, part, layer, which);
    list_add(l, QKV_F32, 3, shape, (struct name){ name, "" }, -1);
}

// The names of the other tensors of one kind of attention: that of a single stack, of the encoder,
// of the decoder, or cross-attention; the number of the layer follows.
struct titles {
    const char *attention;
    const char *probes; // prefix of the statistics; their name follows the number
    const char *hidden; // prefix of the hidden states; NULL: none are written for cross-attention
};

static const struct titles titles[] = {
    [QKV_PART_STACK] = { "attentions.", "probes.", "hidden_states." },
    [QKV_PART_ENCODER] = { "encoder_attentions.", "encoder_probes.", "encoder_hidden_states." },
    [QKV_PART_DECODER] = { "decoder_attentions.", "decoder_probes.", "decoder_hidden_states." },
    [QKV_PART_CROSS] = { "cross_attentions.", "cross_probes.", NULL },
};

// Lists the tensors of the statistics of one attention. Each statistic is a tensor, such as
// probes.3.entropy.
static void list_probes(struct list *l, const struct qkv_model_info *i,
                        const struct qkv_probe_request *request, const char *before, int64_t n,
                        int64_t T, int64_t S)
{
    struct probe_array arrays[PROBE_ARRAYS];
    struct qkv_probe p;
    probes_shape(&p, request, T, S);
    const int count = probes_list(arrays, &p, T, S);
    for (int k = 0; k < count; k++) {
        int64_t shape[4] = { 1, i->heads };
        char after[32];
        for (int r = 0; r < arrays[k].rank; r++) shape[2 + r] = arrays[k].shape[r];
        snprintf(after, sizeof after, ".%s", arrays[k].name);
        list_add(l, arrays[k].dtype, 2 + arrays[k].rank, shape, (struct name){ before, after }, n);
    }
}

// Lists the tensors of the attention in one layer, which has T queries and S keys.
static void list_layer(struct list *l, const struct qkv_model_info *i, int what,
                       const struct qkv_probe_request *request, enum qkv_attention_part part,
                       int64_t n, int64_t T, int64_t S)
{
    const struct titles t = titles[part];
    const int64_t q[] = { 1, T, i->heads * i->head_width },
                  k[] = { 1, S, i->kv_heads * i->head_width },
                  v[] = { 1, S, i->kv_heads * i->value_width }, hidden[] = { 1, T, i->width };
    const int64_t weights[] = { 1, i->heads, T, S };
    if (what & Q) list_states(l, q, part, n, 'q');
    if (what & K) list_states(l, k, part, n, 'k');
    if (what & V) list_states(l, v, part, n, 'v');
    if (what & ATTENTION) list_add(l, QKV_F32, 4, weights, (struct name){ t.attention, "" }, n);
    if (what & PROBE) list_probes(l, i, request, t.probes, n, T, S);
    if (what & HIDDEN && t.hidden)
        list_add(l, QKV_F32, 3, hidden, (struct name){ t.hidden, "" }, n + 1);
}

// Lists the tensors of a stack that reads T tokens.  If S > 0, its layers also have cross-attention
// to S tokens of the encoder.
static void list_stack(struct list *l, const struct qkv_model_info *i, int what,
                       const struct qkv_probe_request *request, enum qkv_attention_part part,
                       int64_t layers, int64_t T, int64_t S)
{
    const struct titles t = titles[part];
    const int64_t hidden[] = { 1, T, i->width };
    if (what & (EMBEDDINGS | HIDDEN))
        list_add(l, QKV_F32, 3, hidden, (struct name){ t.hidden, "" }, 0);
    for (int64_t n = 0; n < layers; n++) {
        if (S) list_layer(l, i, what, request, QKV_PART_CROSS, n, T, S);
        list_layer(l, i, what, request, part, n, T, T);
    }
}

// Lists the tensors in the order in which a run computes them, so that the file can be written
// during the run.  S = 0: the model has one stack, which reads T tokens.  S > 0: the encoder reads
// S tokens, and the decoder T tokens.
static void list_make(struct list *l, const qkv_model *m, int what,
                      const struct qkv_probe_request *request, int64_t S, int64_t T)
{
    const struct qkv_model_info info = qkv_model_info(m), *i = &info;
    const int64_t most = 6 + (i->layers + 2 * i->decoder_layers) * (5 + PROBE_ARRAYS);
    const int64_t ids[] = { 1, S ? S : T }, written[] = { 1, T };
    *l = (struct list){ m, cmd_alloc((size_t)most, sizeof *l->t),
                        cmd_alloc((size_t)most, sizeof *l->names), 0 };
    list_add(l, QKV_I64, 2, ids, (struct name){ "input_ids", "" }, -1);
    list_add(l, QKV_I64, 2, ids, (struct name){ "token_type_ids", "" }, -1);
    list_add(l, QKV_I64, 2, ids, (struct name){ "attention_mask", "" }, -1);
    if (!S) {
        list_stack(l, i, what, request, QKV_PART_STACK, i->layers, T, 0);
        return;
    }
    list_add(l, QKV_I64, 2, written, (struct name){ "decoder_input_ids", "" }, -1);
    if (cmd_is_recurrent(i)) {
        struct qkv_model_info one = *i;
        one.heads = 1;
        list_layer(l, &one, what, request, QKV_PART_CROSS, 0, T, S);
        return;
    }
    list_stack(l, i, what, request, QKV_PART_ENCODER, i->layers, S, 0);
    list_stack(l, i, what, request, QKV_PART_DECODER, i->decoder_layers, T, S);
}

// Checks that the weights of one layer, which a run has in memory at once, fit into the memory of
// this machine.
static qkv_status check_weights(const struct list *l, qkv_error *err)
{
    const double have = .7 * (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    double need = 0;
    int64_t tokens = 0;
    for (int64_t i = 0; i < l->count; i++) {
        if (!strstr(l->names[i], "attentions.") || (double)l->t[i].bytes <= need) continue;
        need = (double)l->t[i].bytes;
        tokens = l->t[i].shape[3];
    }
    if (need <= have || have <= 0) return QKV_OK;
    return cmd_error(err, QKV_ERR_LIMIT, NULL,
                     "--what attention: the weights of a layer for %lld tokens require %.3g GB, "
                     "expected at most %.3g GB (seven tenths of this machine's memory); --what "
                     "probe writes statistics of any number of tokens, and --max-length N cuts the "
                     "text",
                     (long long)tokens, 1e-9 * need, 1e-9 * have);
}

// ---- the run -----------------------------------------------------------------------------------
struct job {
    qkv_safetensors_writer *writer;
    const struct list *list;
    int64_t next;      // the tensor of the list that is written next
    int64_t nonfinite; // number of tensors that contain NaN or infinity, and the first of them
    const char *first;
    int what;
    int64_t width, layers;
    struct qkv_progress progress;
    qkv_error err; // error of writing the safetensors file
};

static bool write_array(struct job *j, bool wanted, const float *data, int64_t count)
{
    if (!wanted) return true;
    const struct qkv_tensor *t = &j->list->t[j->next++];
    int64_t finite = 0;
    while (t->dtype == QKV_F32 && finite < count && isfinite(data[finite])) finite++;
    if (t->dtype == QKV_F32 && finite < count && !j->nonfinite++) j->first = t->name;
    return qkv_safetensors_append(j->writer, data, (size_t)count * sizeof *data, &j->err) == QKV_OK;
}

static void print_note(const struct job *j)
{
    if (j->nonfinite)
        cmd_note("%lld array%s NaN or infinity, the first is %s: damaged or very large weights of "
                 "a model cause this",
                 (long long)j->nonfinite, j->nonfinite == 1 ? " contains" : "s contain", j->first);
}

static bool write_probes(struct job *j, const struct qkv_layer_output *s)
{
    struct probe_array arrays[PROBE_ARRAYS];
    const int count = s->probe ? probes_list(arrays, s->probe, s->R, s->S) : 0;
    for (int k = 0; k < count; k++) // all of these arrays have elements of 4 bytes
        if (!write_array(j, true, arrays[k].at, s->H * arrays[k].count)) return false;
    return true;
}

static int layer(void *user, const struct qkv_layer_output *s)
{
    struct job *j = user;
    const int64_t hidden = s->R * j->width, q = s->R * s->H * s->E, k = s->S * s->G * s->E,
                  v = s->S * s->G * s->F;
    if (j->progress.step(j->progress.user, "run", s->layer + 1, j->layers)) return 1;
    if (s->layer < 0) return !write_array(j, j->what & (EMBEDDINGS | HIDDEN), s->hidden, hidden);
    return !(write_array(j, j->what & Q, s->q, q) && write_array(j, j->what & K, s->k, k) &&
             write_array(j, j->what & V, s->v, v) &&
             write_array(j, j->what & ATTENTION, s->weights, s->H * s->R * s->S) &&
             write_probes(j, s) &&
             write_array(j, j->what & HIDDEN && s->hidden, s->hidden, hidden));
}

static qkv_status parse_what(int *what, qkv_error *err)
{
    *what = o.what ? 0 : LINEAR;
    for (const char *p = o.what; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        char word[32];
        int i = 0;
        snprintf(word, sizeof word, "%.*s", (int)(strcspn(p, ",") < 31 ? strcspn(p, ",") : 31), p);
        while (kinds[i] && strcmp(kinds[i], word) != 0) i++;
        if (!kinds[i] && strcmp(word, "all") != 0)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--what: unknown word, expected some of "
                             "embeddings,hidden,q,k,v,attention,probe, or all, found '%s'",
                             word);
        const int asked = kinds[i] ? bits[i] : ALL | WORD_ALL;
        if (*what & asked)
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--what: word '%s' is given twice, expected each word once", word);
        *what |= asked;
    }
    if (o.probe && !(*what & PROBE))
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--probe requires the word probe in --what");
    return QKV_OK;
}

// Checks that the model has the arrays of --what. A recurrent encoder-decoder has one attention,
// whose weights are the default, and the meaning of the word all.
static qkv_status check_what(int *what, const char *dir, const struct qkv_model_info *i,
                             qkv_error *err)
{
    const bool usual = !o.what || *what & WORD_ALL;
    *what &= ALL | PROBE;
    if (!cmd_is_recurrent(i)) return QKV_OK;
    if (usual) *what = ATTENTION | (*what & PROBE);
    if (!(*what & LINEAR)) return QKV_OK;
    return cmd_error(err, QKV_ERR_UNSUPPORTED, dir,
                     "--what embeddings, hidden, q, k and v require a Transformer, expected "
                     "attention or probe for a %s, which has one additive attention",
                     i->family);
}

static qkv_status put_inputs(struct job *j, const struct tokens *t, const struct tokens *written)
{
    int64_t *row = cmd_alloc((size_t)t->count, sizeof *row);
    qkv_status status = QKV_OK;
    for (int kind = 0; !status && kind < 3; kind++) {
        for (int64_t i = 0; i < t->count; i++)
            row[i] = kind == 0 ? t->ids[i] : kind == 1 ? t->types[i] : i < t->length;
        status = qkv_safetensors_append(j->writer, row, (size_t)t->count * sizeof *row, &j->err);
        j->next++;
    }
    free(row);
    if (status || !written) return status;
    row = cmd_alloc((size_t)written->count, sizeof *row);
    for (int64_t i = 0; i < written->count; i++) row[i] = written->ids[i];
    status = qkv_safetensors_append(j->writer, row, (size_t)written->count * sizeof *row, &j->err);
    j->next++;
    free(row);
    return status;
}

// Writes the whole file. `written` has the tokens of the decoder; NULL: the model has one stack.
// texts: the text and the second text, which `generated` says that the model generated.
static qkv_status write_all(const qkv_model *m, const struct tokens *t,
                            const struct tokens *written, const char *const *texts, bool generated,
                            int what, const struct qkv_probe_request *request, qkv_error *err)
{
    const struct qkv_model_info i = qkv_model_info(m);
    struct list l = { 0 };
    struct job j = { .list = &l, .what = what, .width = i.width, .layers = i.layers };
    char heads[1024];
    const char *given[] = { texts[0], texts[1], i.name };
    char *valid[3];
    for (int n = 0; n < 3; n++) valid[n] = given[n] ? cmd_valid_text(given[n]) : NULL;
    const char *metadata[13] = { "format", "pt", "model", valid[2] };
    int pairs = 4; // number of strings in `metadata`; the entries that are not NULL are appended
    const char *const more[][2] = { { "text", valid[0] },
                                    { "text_pair", valid[1] },
                                    { "text_pair_from", generated ? "model" : NULL },
                                    { "ablate", common.ablations ? cmd_ablated(heads, sizeof heads)
                                                                 : NULL } };
    for (int n = 0; n < 4; n++)
        if (more[n][1]) {
            metadata[pairs++] = more[n][0];
            metadata[pairs++] = more[n][1];
        }
    const struct tokens *last = written ? written : t;
    list_make(&l, m, what, request, written ? t->count : 0, last->count);
    float *hidden =
        cmd_is_recurrent(&i)
            ? NULL
            : cmd_alloc(array_count(2, (int64_t[]){ last->count, i.width }), sizeof *hidden);
    const int64_t offsets[] = { 0, t->count }, written_offsets[] = { 0, last->count };
    const struct qkv_model_input read = {
        .sequences = 1, .offsets = offsets, .lengths = &t->length, .ids = t->ids, .types = t->types
    };
    const struct qkv_model_input both = {
        .sequences = 1, .offsets = written_offsets, .ids = last->ids, .source = &read
    };
    const struct qkv_model_input in = written ? both : read;
    const struct qkv_observer observer = { .layer = layer,
                                           .user = &j,
                                           .weights = what & ATTENTION,
                                           .probe = *request,
                                           .skip_qkv = !(what & (Q | K | V)) };
    j.progress = cmd_progress_begin("layers");
    qkv_status status = what & ATTENTION ? check_weights(&l, err) : QKV_OK;
    if (!status)
        status = qkv_safetensors_create(&j.writer, o.output, l.t, l.count, metadata, common.force,
                                        &j.err);
    if (!status) status = put_inputs(&j, t, written);
    if (!status) status = cmd_model_run(m, hidden, &in, &observer, err);
    cmd_progress_end();
    if (!status) status = qkv_safetensors_finish(j.writer, &j.err);
    if (!status) print_note(&j);
    // report the error of writing, because the run only reports that its observer stopped it
    if (j.err.status) {
        *err = j.err;
        status = err->status;
    }
    qkv_safetensors_close(j.writer);
    for (int n = 0; n < 3; n++) free(valid[n]);
    free(hidden);
    free(l.t);
    free(l.names);
    return status;
}

static int run_trace(int argc, char **argv)
{
    qkv_error err = { 0 };
    qkv_model *model = NULL;
    struct tokens t = { 0 }, written = { 0 };
    char dir[CMD_PATH];
    int what;
    struct qkv_probe_request request = { 0 };
    int64_t *rows = NULL;
    const char *texts[2];
    char *output = NULL; // the text that the model generates
    const struct qkv_model_options options = cmd_model_options();
    if (!o.output)
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "no output file is given, expected -o FILE.safetensors");
    if (err.status || tokens_operands(&o.tokens, 0, 2, &argc, &argv, &err)) goto done;
    for (int i = 0; i < 2; i++) texts[i] = argc > i ? argv[i] : NULL;
    if (parse_what(&what, &err) ||
        (what & PROBE &&
         probes_parse(&request, &rows, "--probe", o.probe ? o.probe : usual_probe, &err)) ||
        cmd_output_stdout(&o.output, &err) || cmd_output_check(o.output, &err) ||
        cmd_model_find(dir, &err) || qkv_model_open(&model, dir, &options, &err))
        goto done;
    const struct qkv_model_info info = qkv_model_info(model);
    const bool two = info.kind == QKV_KIND_ENCODER_DECODER, generates = two && !texts[1];
    if (check_what(&what, dir, &info, &err)) goto done;
    const char *first[2] = { texts[0], two ? NULL : texts[1] };
    if (tokens_read(&t, &o.tokens, dir, model, first, &err)) goto done;
    if (generates &&
        tokens_generated(&written, &output, NULL, &o.tokens, dir, model, &t, texts[0], &err))
        goto done;
    if (generates) {
        texts[1] = output;
        cmd_note("the model generated the text of the decoder: %s", output);
    } else if (two && tokens_written(&written, &o.tokens, dir, model, texts[1], &err)) {
        goto done;
    }
    write_all(model, &t, two ? &written : NULL, texts, generates, what, &request, &err);
done:
    free(output);
    free(rows);
    tokens_free(&t);
    tokens_free(&written);
    qkv_model_close(model);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_trace = {
    .name = "trace",
    .brief = "write the activations of a run, and optionally its attention, as safetensors",
    .usage = "TEXT [TEXT_B] -o FILE.safetensors [options]\n--ids N,N,... -o FILE.safetensors [options]",
    .about = "Runs the model on a text, or on a pair of texts, and writes its activations, with "
             "the names and shapes of transformers (including a leading batch of 1): input_ids, "
             "token_type_ids, attention_mask; hidden_states.0 (after the embeddings) to "
             "hidden_states.L; attentions.N (heads, queries, keys). The q, k and v of each layer "
             "have the name of the module whose output they are, such as "
             "encoder.layer.N.attention.self.query in BERT. If one module computes all three, or "
             "if q and k are normed or rotated, they have the name of the attention's module and "
             "query_states, key_states or value_states, such as layers.N.self_attn.query_states "
             "in Llama. For an encoder-decoder, the second "
             "text is the input of the decoder (without it, the output that 'qkv translate' "
             "generates, which a note on stderr and the metadata text_pair state), and the names are "
             "encoder_hidden_states.N, decoder_hidden_states.N, encoder_attentions.N, "
             "decoder_attentions.N, cross_attentions.N and decoder_input_ids; row i of "
             "cross_attentions.N is the step that reads token i of decoder_input_ids and writes "
             "the next one. Of a recurrent "
             "encoder-decoder (gru-attention) cross_attentions.0 is written, with one head, also "
             "with --what all. The file is written while the model runs.\n"
             "\n"
             "With --what probe, the tensors probes.N.entropy and so on (encoder_probes, "
             "decoder_probes, cross_probes) are statistics of each attention. They need no T x T "
             "weights: memory and file are linear in the number of tokens.\n"
             "\n"
             "Attention weights grow with the square of the number of tokens, so they are written "
             "only with --what attention or all.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON | USES_OUTPUT,
    .max_args = 2,
    .examples = {
        { "qkv trace \"time flies like an arrow\" -o flies.safetensors", "hidden states, and q, k, v of every layer" },
        { "qkv trace \"time flies\" --what all -o flies.safetensors", "also the attention of every layer and head" },
        { "qkv trace \"who?\" \"the cat\" --what attention -o pair.safetensors", "only the attention, for a pair of texts" },
        { "qkv trace \"time flies\" --what probe --probe top=4,rows=1 -o probes.safetensors",
          "the largest weights of every row, and all weights of one row" },
        { "qkv trace --ids 101,2051,10029,102 --what hidden -o ids.safetensors",
          "from token ids, for a model without a readable tokenizer" },
    },
    .run = run_trace,
};
