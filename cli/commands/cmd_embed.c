// SPDX-License-Identifier: MIT
// cmd_embed.c: implements `qkv embed`: computes vectors of lines of text.  Texts are read in
// chunks, so that the memory does not depend on the length of the input.
#include "frame/tokens.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_IDS = 1024, NPY_HEAD = 128 };
// in the order of enum qkv_pool, from QKV_POOL_MEAN on
static const char *const pools[] = { "mean", "cls", "max", "last", "mean-sqrt", "weighted", NULL };
enum form { FORM_LINES, FORM_JSONL, FORM_NPY };

static struct {
    const char *file, *output, *ids, *prompt;
    int pool;
    bool no_normalize, truncate, pad, strict, no_special;
    int64_t batch_tokens, max_length;
} o = { .pool = -1 };

static const struct opt opts[] = {
    OPT_INPUT('f', "file", &o.file, "FILE", "file with one text per line; '-' is standard input"),
    OPT_OUTPUT(
        'o', "output", &o.output, "FILE",
        "output file: FILE.npy (texts x width, float32) or FILE.jsonl (default, or '-': standard "
        "output, with one line of numbers per text; with --json one JSON object per text)"),
    OPT_CHOICE(
        0, "pool", &o.pool, pools, "KIND",
        "how the hidden states of tokens become one vector: mean, cls, max, last, mean-sqrt or "
        "weighted (default: as the model's files say)"),
    OPT_TEXT(
        0, "prompt", &o.prompt, "NAME",
        "put this prompt of the model's sentence-transformers settings before each text (default: "
        "their default_prompt_name)"),
    OPT_FLAG(0, "no-normalize", &o.no_normalize, "do not scale vectors to length 1"),
    OPT_INT(0, "batch-tokens", &o.batch_tokens, 1, 1 << 24, "N",
            "maximum number of tokens in a batch (default: 512 per thread, 1024 to 8192); does not "
            "change results"),
    OPT_INT(0, "max-length", &o.max_length, 1, 1 << 24, "N",
            "truncate texts to N tokens, including special tokens; a note on stderr says how many "
            "were truncated"),
    OPT_FLAG(0, "truncate", &o.truncate,
             "truncate longer texts to the model's length, instead of failing"),
    OPT_FLAG(0, "pad", &o.pad,
             "pad every text to the maximum length with padding tokens, which are masked; does not "
             "change "
             "results, but takes more time"),
    OPT_FLAG(
        0, "no-special", &o.no_special,
        "do not add special tokens such as [CLS]; text that spells a special token is plain text"),
    OPT_FLAG(0, "strict", &o.strict, "fail on invalid UTF-8 and on characters without a token"),
    OPT_INPUT(0, "ids", &o.ids, "N,N|FILE",
              "embed token ids instead of texts: a list, or a file with one list per line; no "
              "tokenizer is used"),
    OPT_END
};

// ---- outputs -----------------------------------------------------------------------------------
struct sink {
    enum form form;
    struct cmd_file file; // output file; file.to NULL: vectors are written to standard output
    FILE *to;
    // true: a .npy file is first written to an unnamed temporary file, and then copied to the pipe,
    // because its header contains the number of rows, which is only known at the end
    bool spool;
    int64_t width, rows;
};

// Writes the header of a .npy file of rows x width floats.  It always has NPY_HEAD bytes, so that
// it can be overwritten when the number of rows is known.
static void npy_head(FILE *to, int64_t rows, int64_t width)
{
    const uint16_t one = 1;
    char head[NPY_HEAD + 64];
    memcpy(head, "\x93NUMPY\1\0\x76\0", 10);
    int n = 10 + snprintf(head + 10, sizeof head - 10,
                          "{'descr': '%cf4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                          *(const char *)&one ? '<' : '>', (long long)rows, (long long)width);
    while (n < NPY_HEAD - 1) head[n++] = ' ';
    head[n] = '\n';
    fwrite(head, 1, NPY_HEAD, to);
}

static qkv_status sink_open(struct sink *s, int64_t width, qkv_error *err)
{
    s->width = width;
    s->to = stdout;
    if (!o.output) return QKV_OK;
    const qkv_status status = cmd_file_open(&s->file, o.output, err);
    if (status) return status;
    s->to = s->file.to;
    s->spool = s->form == FORM_NPY && cmd_output_direct(o.output);
    if (s->spool && !(s->to = tmpfile()))
        return cmd_error(err, cmd_io_status(errno), o.output, "cannot create a temporary file: %s",
                         strerror(errno));
    if (s->form == FORM_NPY) npy_head(s->to, 0, width);
    return QKV_OK;
}

static void put_json(FILE *to, const float *v, int64_t width, const char *text, size_t bytes)
{
    if (o.ids) {
        fprintf(to, "{\"ids\":[%s]", text);
    } else {
        fputs("{\"text\":", to);
        cmd_json_text(to, text, bytes);
    }
    fputs(",\"vector\":[", to);
    for (int64_t i = 0; i < width; i++) {
        if (i) fputc(',', to);
        cmd_json_float(to, v[i]);
    }
    fprintf(to, "],\"precision\":\"%s\"", qkv_precision_name(common.precision));
    cmd_json_ablated(to);
    fputs("}\n", to);
}

static qkv_status sink_put(struct sink *s, const float *v, const struct cmd_texts *t,
                           qkv_error *err)
{
    if (s->form == FORM_NPY) {
        fwrite(v, sizeof *v, (size_t)(t->count * s->width), s->to);
    } else {
        for (int64_t n = 0; n < t->count; n++, v += s->width) {
            if (s->form == FORM_JSONL) {
                put_json(s->to, v, s->width, t->text[n], t->bytes[n]);
                continue;
            }
            for (int64_t i = 0; i < s->width; i++)
                fprintf(s->to, i ? " %.9g" : "%.9g", (double)v[i]);
            fputc('\n', s->to);
        }
    }
    s->rows += t->count;
    const qkv_status status = cmd_written(s->to, o.output ? o.output : "standard output", err);
    if (status) return status;
    return QKV_OK;
}

static qkv_status sink_close(struct sink *s, qkv_error *err)
{
    if (!o.output) return QKV_OK;
    if (s->form == FORM_NPY) { // now the number of rows is known
        if (fseek(s->to, 0, SEEK_SET) != 0)
            return cmd_error(err, cmd_io_status(errno), o.output, "cannot write the header: %s",
                             strerror(errno));
        npy_head(s->to, s->rows, s->width);
    }
    if (s->spool) {
        static char block[1 << 16];
        rewind(s->to);
        for (size_t n; (n = fread(block, 1, sizeof block, s->to)) > 0;)
            // cmd_file_commit() will report this failed write
            if (fwrite(block, 1, n, s->file.to) != n) break;
        const bool bad = ferror(s->to);
        fclose(s->to);
        s->to = NULL;
        if (bad) return cmd_error(err, QKV_ERR_IO, o.output, "temporary file cannot be read");
    }
    return cmd_file_commit(&s->file, err);
}

static qkv_status form_of(enum form *form, qkv_error *err)
{
    *form = common.json ? FORM_JSONL : FORM_LINES;
    if (o.output && !strcmp(o.output, "-")) o.output = NULL;
    if (!o.output) return QKV_OK;
    const char *dot = strrchr(o.output, '.');
    if (dot && !strcmp(dot, ".npy"))
        *form = FORM_NPY;
    else if (dot && (!strcmp(dot, ".jsonl") || !strcmp(dot, ".json")))
        *form = FORM_JSONL;
    // a device or a pipe, to which vectors are written like to standard output
    else if (!cmd_output_direct(o.output))
        return cmd_error(
            err, QKV_ERR_USAGE, o.output,
            "unknown format of the output, expected a name that ends with .npy or .jsonl");
    return cmd_output_check(o.output, err);
}

// ---- inputs ------------------------------------------------------------------------------------
// Where the texts or, with --ids, the id sequences come from.
struct input {
    struct cmd_source texts;
    struct id_lists ids;
    int64_t at; // number of id sequences that have been read
};

static qkv_status input_open(struct input *in, int argc, char **argv, qkv_error *err)
{
    if (!o.ids) return cmd_source_open(&in->texts, argc, argv, o.file, err);
    if (argc || o.file)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "texts cannot be combined with --ids");
    const qkv_status status = id_lists_read(&in->ids, o.ids, err);
    in->texts.total = in->ids.count;
    return status;
}

// Appends id sequence n to t as text, such as "101,2051,102".
static void add_ids(struct cmd_texts *t, const struct id_lists *ids, int64_t n)
{
    const int64_t from = ids->offsets[n], to = ids->offsets[n + 1];
    const size_t capacity = 12 * (size_t)(to - from) + 1;
    char *text = cmd_alloc(capacity, 1);
    size_t used = 0;
    *text = 0;
    for (int64_t i = from; i < to; i++)
        used +=
            (size_t)snprintf(text + used, capacity - used, i > from ? ",%d" : "%d", ids->ids[i]);
    cmd_texts_add(t, text, used);
    free(text);
}

// Reads the texts of the next chunk into t.  At the end of the input, t has no texts.
static qkv_status input_next(struct input *in, struct cmd_texts *t, qkv_error *err)
{
    if (!o.ids) return cmd_source_next(&in->texts, t, err);
    in->texts.before += t->count;
    cmd_texts_free(t);
    for (; in->at < in->ids.count && t->count < CHUNK_IDS; in->at++) add_ids(t, &in->ids, in->at);
    return QKV_OK;
}

// ---- the run -----------------------------------------------------------------------------------
// Computes the vectors v[t->count][width]. With --ids, the texts are lists of token ids.
static qkv_status embed(const qkv_embedder *e, float *v, const struct input *in,
                        const struct cmd_texts *t, struct qkv_embed_report *report, qkv_error *err)
{
    if (!o.ids)
        return qkv_embed(e, v, (const char *const *)t->text, t->bytes, t->count, report, err);
    const int64_t *from = in->ids.offsets + in->at - t->count;
    int64_t *offsets = cmd_alloc((size_t)t->count + 1, sizeof *offsets);
    for (int64_t i = 0; i <= t->count; i++) offsets[i] = from[i] - from[0];
    const qkv_status status =
        qkv_embed_ids(e, v, in->ids.ids + from[0], offsets, t->count, report, err);
    free(offsets);
    return status;
}

static qkv_status check_vectors(const float *v, const struct cmd_texts *t, int64_t width,
                                qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < t->count && !status; i++) {
        status = cmd_check_finite(v + i * width, width, "vector of the text", err);
        if (status && t->count > 1)
            snprintf(err->path, sizeof err->path, "text %lld", (long long)i + 1);
    }
    return status;
}

// Adds the report of a chunk to the report of all texts. before: number of earlier texts.
static void add_report(struct qkv_embed_report *sum, const struct qkv_embed_report *one,
                       int64_t before)
{
    sum->cut_texts += one->cut_texts;
    sum->cut_tokens += one->cut_tokens;
    if (one->replaced && !sum->replaced) {
        sum->replaced_text = before + one->replaced_text;
        sum->replaced_at = one->replaced_at;
    }
    sum->replaced += one->replaced;
    if (one->dropped && !sum->dropped) {
        sum->dropped_text = before + one->dropped_text;
        sum->dropped_at = one->dropped_at;
    }
    sum->dropped += one->dropped;
}

static qkv_status embed_all(struct sink *sink, struct input *in, const qkv_embedder *e,
                            qkv_error *err)
{
    const struct cmd_source *texts = &in->texts;
    struct cmd_texts t = { 0 };
    struct qkv_embed_report sum = { 0 };
    float *v = NULL;
    qkv_status status = QKV_OK;
    while (!(status = input_next(in, &t, err)) && t.count) {
        struct qkv_embed_report one = { 0 };
        cmd_progress_piece(texts->before, texts->total);
        v = cmd_grow(v, array_count(2, (int64_t[]){ t.count, sink->width }), sizeof *v);
        status = embed(e, v, in, &t, &one, err);
        if (!status) status = check_vectors(v, &t, sink->width, err);
        if (status) cmd_text_place(err, texts->before, texts->argc, texts->file);
        if (status || (status = sink_put(sink, v, &t, err))) break;
        add_report(&sum, &one, texts->before);
    }
    if (!status) tokens_notes(&sum, sink->rows, qkv_embedder_max_length(e));
    cmd_texts_free(&t);
    free(v);
    return status;
}

static qkv_status check_length(const qkv_embedder *e, qkv_error *err)
{
    // the limit of --max-length or, without this option, the model's limit
    const int64_t most = qkv_embedder_max_length(e);
    if (o.max_length <= most) return QKV_OK;
    return cmd_error(
        err, QKV_ERR_USAGE, NULL,
        "--max-length: number exceeds the model's positions, expected 1 to %lld, found %lld",
        (long long)most, (long long)o.max_length);
}

static int run_embed(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct sink sink = { 0 };
    struct input in = { 0 };
    qkv_embedder *e = NULL;
    char dir[CMD_PATH];
    if (form_of(&sink.form, &err) || input_open(&in, argc, argv, &err) || cmd_model_find(dir, &err))
        goto done;
    const struct qkv_embedder_options how = { .model = cmd_model_options(),
                                              .pool = (enum qkv_pool)(o.pool + 1),
                                              .no_normalize = o.no_normalize,
                                              .batch_tokens = o.batch_tokens,
                                              .max_length = o.max_length,
                                              .truncate = o.truncate || o.max_length,
                                              .pad = o.pad,
                                              .strict = o.strict,
                                              .no_special = o.no_special,
                                              .no_tokenizer = o.ids != NULL,
                                              .prompt = o.prompt,
                                              .progress = cmd_progress_begin("texts") };
    if (!qkv_embedder_open(&e, dir, &how, &err) && !check_length(e, &err) &&
        !sink_open(&sink, qkv_embedder_width(e), &err) && !embed_all(&sink, &in, e, &err))
        sink_close(&sink, &err);
    cmd_progress_end();
done:
    if (sink.spool && sink.to) fclose(sink.to);
    cmd_file_abort(&sink.file);
    qkv_embedder_close(e);
    cmd_source_close(&in.texts);
    id_lists_free(&in.ids);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_embed = {
    .name = "embed",
    .brief = "embed texts as vectors",
    .usage = "[TEXT...] [-f FILE] [-o FILE] [options]",
    .about = "Prints one vector per text, pooled and normalized as the model's files say, so that "
             "the dot product of two vectors is their cosine. Texts come from the operands and "
             "from the lines of -f; if there are neither, from standard input. Texts of different "
             "lengths are packed without padding. A text that is longer than the model's positions "
             "is an error, unless --truncate or --max-length is given.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON | USES_OUTPUT,
    .max_args = -1,
    .examples = {
        { "qkv embed \"hello\"", "384 numbers on one line (with all-MiniLM-L6-v2)" },
        { "qkv embed -f lines.txt --truncate -o vectors.npy", "one vector per line of a file, for numpy.load" },
        { "cut -f2 table.tsv | qkv embed -f - --json", "texts from standard input; one JSON object per line" },
    },
    .run = run_embed,
};
