// SPDX-License-Identifier: MIT
// cmd_embed.c: implements `qkv embed`: computes vectors of lines of text.  Texts are read in
// chunks, so that the memory does not depend on the length of the input.
#include "embed/embed.h"
#include "frame/tokens.h"
#include "ranks/ranks.h"
#include <stdlib.h>
#include <string.h>

enum { CHUNK_IDS = 1024 };

static struct {
    const char *file, *output, *ids, *prompt, *shard, *join;
    int pool;
    bool no_normalize, truncate, pad, strict, no_special;
    int64_t batch_tokens, max_length;
} o = { .pool = -1 };

static const struct opt opts[] = {
    OPT_INPUT('f', "file", &o.file, "FILE",
              "file with one text per line, a blank line too; '-' is standard input"),
    OPT_OUTPUT(
        'o', "output", &o.output, "FILE",
        "output file: FILE.npy (texts x width, float32) or FILE.jsonl (default, or '-': standard "
        "output, with one line of numbers per text; with --json one JSON object per text)"),
    OPT_CHOICE(
        0, "pool", &o.pool, cmd_pools, "KIND",
        "how the hidden states of tokens become one vector: mean, cls, max, last, mean-sqrt or "
        "weighted (default: as the model's files say)"),
    OPT_TEXT(
        0, "prompt", &o.prompt, "NAME",
        "put this prompt of the model's sentence-transformers settings before each text (default: "
        "their default_prompt_name)"),
    OPT_FLAG(0, "no-normalize", &o.no_normalize, "do not scale vectors to length 1"),
    OPT_INT(
        0, "batch-tokens", &o.batch_tokens, 1, 1 << 24, "N",
        "maximum number of tokens in a batch (default: 1024 per thread, at most 8192); does not "
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
    OPT_GROUP("Shards, for several machines"),
    OPT_TEXT(0, "shard", &o.shard, "I/N|auto",
             "embed shard I of N, 0 <= I < N, of the lines of -f, to a part, whose name has "
             ".part-00003-of-00010 (for 3/10) before the ending, and its manifest. Of L lines, "
             "each shard has L/N consecutive lines, rounded down, and each of the first L mod N "
             "one more. A part that is complete is skipped. auto: I and N are RANK and WORLD_SIZE, "
             "or the variables of Slurm, Open MPI, MPICH or a Kubernetes indexed Job"),
    OPT_OUTPUT(0, "join", &o.join, "FILE",
               "check that all parts of FILE are there and belong to one run, and concatenate them "
               "to FILE: the bytes that one run without --shard writes. The parts remain"),
    OPT_END
};

// ---- inputs ------------------------------------------------------------------------------------
// Where the texts or, with --ids, the id sequences come from.
struct input {
    struct cmd_source texts;
    struct id_lists ids;
    int64_t at, end; // the next id sequence; the first that is not read
    int64_t first;   // number of texts before those that are read
};

static qkv_status input_open(struct input *in, int argc, char **argv, qkv_error *err)
{
    if (!o.ids) return cmd_source_open(&in->texts, argc, argv, o.file, err);
    if (argc || o.file)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "texts cannot be combined with --ids");
    const qkv_status status = id_lists_read(&in->ids, o.ids, err);
    in->texts.total = in->end = in->ids.count;
    return status;
}

// Restricts the input to the lines of a shard.
static qkv_status input_range(struct input *in, const struct qkv_shard_input *lines, qkv_error *err)
{
    in->first = lines->first;
    if (!o.ids) return cmd_source_range(&in->texts, lines->offset, lines->first, lines->rows, err);
    if (lines->lines != in->ids.count)
        return cmd_error(err, QKV_ERR_IO, o.ids, "the input changed while it was read");
    in->at = in->texts.before = lines->first;
    in->end = lines->first + lines->rows;
    in->texts.total = lines->rows;
    return QKV_OK;
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
    for (; in->at < in->end && t->count < CHUNK_IDS; in->at++) add_ids(t, &in->ids, in->at);
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

static qkv_status embed_all(struct embed_sink *sink, struct input *in, const qkv_embedder *e,
                            qkv_error *err)
{
    const struct cmd_source *texts = &in->texts;
    struct cmd_texts t = { 0 };
    struct qkv_embed_report sum = { 0 };
    float *v = NULL;
    qkv_status status = QKV_OK;
    while (!(status = input_next(in, &t, err)) && t.count) {
        struct qkv_embed_report one = { 0 };
        cmd_progress_piece(texts->before - in->first, texts->total);
        v = cmd_grow(v, array_count(2, (int64_t[]){ t.count, sink->width }), sizeof *v);
        status = embed(e, v, in, &t, &one, err);
        if (!status) status = check_vectors(v, &t, sink->width, err);
        if (status) cmd_text_place(err, texts->before, texts->argc, texts->file);
        if (status || (status = embed_sink_put(sink, v, &t, err))) break;
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

// Joins parts; refuses every option of a run that embeds texts.
static int run_join(int argc)
{
    static const char *const allowed[] = { "join", "force", "json", "quiet", NULL };
    const char *other = cmd_option_besides(allowed);
    qkv_error err = { 0 };
    if (argc || other)
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "--join reads parts only, expected no text and no option but --force, --json and "
                  "--quiet, found %s%s",
                  other ? "--" : "a text", other ? other : "");
    if (!err.status) embed_join(o.join, &err);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

// Opens the output of a run; for a shard, finds its lines first.  *complete: the part is there.
static qkv_status open_output(struct embed_sink *sink, struct embed_shard *shard, struct input *in,
                              const qkv_embedder *e, bool *complete, qkv_error *err)
{
    *complete = false;
    if (o.shard) {
        const struct embed_settings how = { .pool = o.pool < 0 ? NULL : cmd_pools[o.pool],
                                            .no_normalize = o.no_normalize,
                                            .no_special = o.no_special,
                                            .ids = o.ids != NULL,
                                            .form = sink->form };
        const qkv_status status = embed_shard_begin(shard, complete, e, &how, err);
        if (status || *complete) return status;
        if (input_range(in, &shard->input, err)) return err->status;
        sink->path = shard->path;
    }
    const qkv_status status = embed_sink_open(sink, qkv_embedder_width(e), err);
    return o.shard ? embed_shard_settle(shard, complete, status, err) : status;
}

static int run_embed(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct embed_sink sink = { .ids = o.ids != NULL };
    struct embed_shard shard = { .file = NULL };
    struct input in = { 0 };
    qkv_embedder *e = NULL;
    bool complete;
    char dir[CMD_PATH];
    if (!o.shard || o.join)
        ranks_refuse(o.join ? "embed --join" : "embed", "expected --shard auto, or one process");
    if (o.join) return run_join(argc);
    if (o.shard &&
        embed_shard_open(&shard, o.shard, o.output, o.ids ? o.ids : o.file, argc, o.ids, &err))
        goto done;
    if (o.output && strcmp(o.output, "-") != 0) sink.path = o.output;
    if (embed_form_of(&sink.form, sink.path, &err) ||
        (sink.path && !o.shard && cmd_output_check(sink.path, &err)) ||
        input_open(&in, argc, argv, &err) || cmd_model_find(dir, &err))
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
        !open_output(&sink, &shard, &in, e, &complete, &err) && !complete &&
        !embed_all(&sink, &in, e, &err)) {
        if (o.shard)
            embed_shard_commit(&shard, &sink, &err);
        else
            embed_sink_close(&sink, &err);
    }
    cmd_progress_end();
done:
    embed_sink_abort(&sink);
    embed_shard_close(&shard);
    qkv_embedder_close(e);
    cmd_source_close(&in.texts);
    id_lists_free(&in.ids);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_embed = {
    .name = "embed",
    .brief = "embed texts as vectors",
    .usage = "[TEXT...] [-f FILE] [-o FILE] [options]\n"
             "--join FILE",
    .about = "Prints one vector per text, pooled and normalized as the model's files say, so that "
             "the dot product of two vectors is their cosine. Texts come from the operands and "
             "from the lines of -f; if there are neither, from standard input. Texts of different "
             "lengths are packed without padding. A text that is longer than the model's positions "
             "is an error, unless --truncate or --max-length is given.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON | USES_OUTPUT | USES_PROCESSES,
    .max_args = -1,
    .examples = {
        { "qkv embed \"hello\"", "384 numbers on one line (with all-MiniLM-L6-v2)" },
        { "qkv embed -f lines.txt --truncate -o vectors.npy", "one vector per line of a file, for numpy.load" },
        { "cut -f2 table.tsv | qkv embed -f - --json", "texts from standard input; one JSON object per line" },
        { "qkv embed -f lines.txt -o v.npy --shard 0/4", "the first quarter of the lines, to v.part-00000-of-00004.npy" },
        { "qkv embed --join v.npy", "v.npy from its 4 parts" },
    },
    .run = run_embed,
};
