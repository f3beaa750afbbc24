// SPDX-License-Identifier: MIT
// data_make.c: makes a dataset: distributes the examples over the splits, writes the files, checks
// that there are enough examples, and writes index.json.
#include "task/data/data_build.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

const char *const data_split_names[DATA_SPLITS] = { "train", "valid" };
const char *const data_file_names[DATA_FILES] = { "tokens", "offsets", "bytes", "labels" };
const char *const task_objectives[QKV_OBJECTIVES + 1] = {
#define QKV_OBJECTIVE_ROW(ROW, NAME, ASKS) NAME,
#include <qkv/objective.def>
#undef QKV_OBJECTIVE_ROW
};

void data_hash(char hex[QKV_SHA256_TEXT], const struct qkv_data_info *info,
               const struct data_sum sums[DATA_SPLITS][DATA_FILES], const struct data_sum *labels)
{
    struct qkv_sha256 h;
    char line[192];
    qkv_sha256_begin(&h);
    int n = snprintf(line, sizeof line, "qkv-data %d %s %" PRId64 "\n", DATA_VERSION,
                     task_objectives[info->objective], info->context);
    qkv_sha256_add(&h, line, (size_t)n);
    for (int s = 0; s < DATA_SPLITS; s++)
        for (int f = 0; f < DATA_FILES; f++) {
            if (!data_has(info->objective, (enum data_file)f)) continue;
            n = snprintf(line, sizeof line, "%s.%s %" PRId64 " %s\n", data_split_names[s],
                         data_file_names[f], sums[s][f].bytes, sums[s][f].hash);
            qkv_sha256_add(&h, line, (size_t)n);
        }
    if (info->objective == QKV_OBJECTIVE_CLASSIFY) {
        n = snprintf(line, sizeof line, "%s %" PRId64 " %s\n", DATA_LABEL_LIST, labels->bytes,
                     labels->hash);
        qkv_sha256_add(&h, line, (size_t)n);
    }
    qkv_sha256_end(&h, hex);
}

// ---- files -------------------------------------------------------------------------------------
static qkv_status files_open(struct build *b, const char *dir, qkv_error *err)
{
    for (int s = 0; s < DATA_SPLITS; s++)
        for (int f = 0; f < DATA_FILES; f++) {
            char name[32], path[QKV_PATH];
            struct build_file *to = &b->file[s][f];
            if (!data_has(b->info.objective, (enum data_file)f)) continue;
            snprintf(name, sizeof name, "%s.%s", data_split_names[s], data_file_names[f]);
            qkv_status status = qkv_path_join(path, dir, name, err);
            if (!status) status = qkv_output_open(&to->out, path, true, err);
            if (status) return status;
            qkv_sha256_begin(&to->sum);
        }
    const int64_t zero = 0; // the first sequence begins at offset 0
    for (int s = 0; s < DATA_SPLITS; s++) {
        qkv_status status = build_put(b, s, DATA_OFFSETS, &zero, sizeof zero, err);
        if (!status && data_has(b->info.objective, DATA_BYTES))
            status = build_put(b, s, DATA_BYTES, &zero, sizeof zero, err);
        if (status) return status;
    }
    return QKV_OK;
}

static qkv_status files_commit(struct build *b, struct data_sum sums[DATA_SPLITS][DATA_FILES],
                               qkv_error *err)
{
    for (int s = 0; s < DATA_SPLITS; s++)
        for (int f = 0; f < DATA_FILES; f++) {
            struct build_file *from = &b->file[s][f];
            if (!from->out.path) continue;
            sums[s][f].bytes = (int64_t)from->sum.bytes;
            qkv_sha256_end(&from->sum, sums[s][f].hash);
            const qkv_status status = qkv_output_commit(&from->out, err);
            if (status) return status;
        }
    return QKV_OK;
}

// ---- index.json --------------------------------------------------------------------------------
static qkv_status say(struct qkv_output *o, qkv_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static qkv_status say(struct qkv_output *o, qkv_error *err, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= sizeof text)
        return qkv_fail(err, QKV_ERR_INTERNAL, NULL, "a line of index.json is too long");
    return qkv_output_write(o, text, (size_t)n, err);
}

static qkv_status say_split(struct qkv_output *o, const struct build *b, int split,
                            const struct data_sum sums[DATA_FILES], qkv_error *err)
{
    const struct qkv_data_info *i = &b->info;
    const char *between = "";
    qkv_status status =
        say(o, err,
            " \"%s\": {\"sequences\": %" PRId64 ", \"tokens\": %" PRId64 ", \"bytes\": %" PRId64
            ", \"files\": {",
            data_split_names[split], i->sequences[split], i->tokens[split], i->bytes[split]);
    for (int f = 0; f < DATA_FILES && !status; f++) {
        if (!data_has(i->objective, (enum data_file)f)) continue;
        status = say(o, err, "%s\n  \"%s\": {\"bytes\": %" PRId64 ", \"sha256\": \"%s\"}", between,
                     data_file_names[f], sums[f].bytes, sums[f].hash);
        between = ",";
    }
    return status ? status : say(o, err, "}},\n");
}

// Writes the ids that the tokenizer calls special, which are never masked.
static qkv_status say_specials(struct qkv_output *o, const struct build *b, qkv_error *err)
{
    const char *between = "";
    qkv_status status = say(o, err, " \"specials\": [");
    for (int64_t id = 0; id < qkv_tokenizer_size(b->tokenizer[0]) && !status; id++)
        if (qkv_tokenizer_special(b->tokenizer[0], (int32_t)id)) {
            status = say(o, err, "%s%" PRId64, between, id);
            between = ", ";
        }
    return status ? status : say(o, err, "],\n");
}

// Computes a hash that identifies a tokenizer, from its kind and its tokens.
static void tokenizer_hash(char hex[QKV_SHA256_TEXT], const qkv_tokenizer *t)
{
    struct qkv_sha256 h;
    qkv_sha256_begin(&h);
    qkv_sha256_add(&h, qkv_tokenizer_kind(t), strlen(qkv_tokenizer_kind(t)) + 1);
    for (int64_t id = 0; id < qkv_tokenizer_size(t); id++) {
        const char *text = qkv_tokenizer_token(t, (int32_t)id);
        qkv_sha256_add(&h, text ? text : "", text ? strlen(text) + 1 : 1);
    }
    qkv_sha256_end(&h, hex);
}

static qkv_status write_index(struct build *b, const char *dir,
                              const struct data_sum sums[DATA_SPLITS][DATA_FILES],
                              const struct data_sum *labels, qkv_error *err)
{
    const struct qkv_data_info *i = &b->info;
    struct qkv_output o = { 0 };
    char path[QKV_PATH], tokenizer[2][QKV_SHA256_TEXT];
    for (int t = 0; t < 2; t++) tokenizer_hash(tokenizer[t], b->tokenizer[t]);
    qkv_status status = qkv_path_join(path, dir, DATA_INDEX, err);
    if (!status) status = qkv_output_open(&o, path, false, err);
    if (!status)
        status =
            say(&o, err,
                "{\n \"format\": \"qkv-data\",\n \"version\": %d,\n \"objective\": \"%s\",\n"
                " \"context\": %" PRId64 ",\n \"vocab\": %" PRId64 ",\n \"labels\": %" PRId64 ",\n",
                DATA_VERSION, task_objectives[i->objective], i->context, i->vocab, i->labels);
    if (!status)
        status = say(&o, err, " \"tokenizer\": \"%s\",\n \"tokenizer_b\": \"%s\",\n", tokenizer[0],
                     tokenizer[1]);
    if (!status)
        status = say(&o, err,
                     " \"cut\": %" PRId64 ",\n \"skipped\": %" PRId64 ",\n \"replaced\": %" PRId64
                     ",\n \"source\": \"%s\",\n",
                     i->cut, i->skipped, i->replaced, i->source_hash);
    if (!status) status = say_specials(&o, b, err);
    for (int split = 0; split < DATA_SPLITS && !status; split++)
        status = say_split(&o, b, split, sums[split], err);
    if (!status && i->objective == QKV_OBJECTIVE_CLASSIFY)
        status = say(&o, err, " \"label_list\": {\"bytes\": %" PRId64 ", \"sha256\": \"%s\"},\n",
                     labels->bytes, labels->hash);
    if (!status) status = say(&o, err, " \"hash\": \"%s\"\n}\n", i->hash);
    if (!status) status = qkv_output_commit(&o, err);
    qkv_output_abort(&o);
    return status;
}

static qkv_status write_labels(struct build *b, const char *dir, struct data_sum *sum,
                               qkv_error *err)
{
    struct qkv_output o = { 0 };
    char path[QKV_PATH];
    sum->bytes = b->labels.used;
    qkv_sha256(sum->hash, b->labels.text, (size_t)b->labels.used);
    qkv_status status = qkv_path_join(path, dir, DATA_LABEL_LIST, err);
    if (!status) status = qkv_output_open(&o, path, true, err);
    if (!status) status = qkv_output_write(&o, b->labels.text, (size_t)b->labels.used, err);
    if (!status) status = qkv_output_commit(&o, err);
    qkv_output_abort(&o);
    return status;
}

// ---- distribution over the splits --------------------------------------------------------------
static qkv_status count_examples(int64_t *count, const qkv_corpus *c, qkv_error *err)
{
    struct qkv_corpus_cursor at = { .corpus = c, .skim = true };
    struct qkv_example e;
    bool more;
    *count = 0;
    for (;;) {
        const qkv_status status = qkv_corpus_next(&at, &e, &more, err);
        if (status || !more) {
            qkv_corpus_cursor_free(&at);
            return status;
        }
        ++*count;
    }
}

// Returns the offset at which a single document is cut; the text after the cut becomes the
// validation text. The cut is after a line end; if there is no line end, after a space; if there is
// no space, between two characters.
static size_t cut_document(const struct qkv_example *e, double share)
{
    const size_t want = (size_t)((double)e->bytes * (1 - share));
    static const char *const ends[] = { "\n", " " };
    for (int k = 0; k < 2; k++) {
        for (size_t i = want; i > e->bytes / 2; i--)
            if (e->text[i - 1] == *ends[k]) return i;
    }
    size_t at = want;
    while (at && at < e->bytes && qkv_utf8_continues(e->text[at])) at--;
    return at;
}

static qkv_status run_split(struct build *b, const qkv_corpus *c, double share, uint64_t seed,
                            qkv_error *err)
{
    int64_t n;
    qkv_status status = count_examples(&n, c, err);
    if (status) return status;
    const bool documents =
        data_parts(b->info.objective) == 1 && b->info.objective != QKV_OBJECTIVE_CLASSIFY;
    int64_t held = (int64_t)((double)n * share + .5);
    if (held < 1) held = 1;
    if (held > n - 1) held = n - 1;
    struct qkv_corpus_cursor at = { .corpus = c };
    struct qkv_example e;
    bool more;
    for (int64_t i = 0; !(status = qkv_corpus_next(&at, &e, &more, err)) && more; i++) {
        if (n == 1 && documents) {
            const size_t cut = cut_document(&e, share);
            struct qkv_example part = e;
            part.bytes = cut;
            if ((status = build_example(b, DATA_TRAIN, &part, err))) break;
            part.text = e.text + cut;
            part.bytes = e.bytes - cut;
            if ((status = build_example(b, DATA_VALID, &part, err))) break;
            continue;
        }
        const bool valid = n > 1 && qkv_shuffle(i, n, seed) < held;
        if ((status = build_example(b, valid ? DATA_VALID : DATA_TRAIN, &e, err))) break;
    }
    qkv_corpus_cursor_free(&at);
    return status;
}

static qkv_status run_whole(struct build *b, const qkv_corpus *c, int split, qkv_error *err)
{
    struct qkv_corpus_cursor at = { .corpus = c };
    struct qkv_example e;
    bool more;
    qkv_status status;
    while (!(status = qkv_corpus_next(&at, &e, &more, err)) && more)
        if ((status = build_example(b, split, &e, err))) break;
    qkv_corpus_cursor_free(&at);
    return status;
}

// Reports why the validation split is empty: there was no example for it, or its text is too short
// for a target.
static qkv_status fail_no_valid(const struct build *b, const struct qkv_location *at,
                                qkv_error *err)
{
    const struct qkv_data_options *o = b->options;
    const struct qkv_data_info *i = &b->info;
    if (o->valid.n > 0)
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = o->valid.paths[0] },
                        "too little validation text, expected an example of two tokens or more "
                        "that fits the context of %" PRId64 ", found none among %" PRId64
                        " examples",
                        i->context, b->seen[DATA_VALID]);
    if (!b->seen[DATA_VALID])
        return qkv_fail(err, QKV_ERR_FORMAT, at,
                        "no example is left for validation, expected a second document or pair, or "
                        "a validation file (--valid), found one example");
    return qkv_fail(err, QKV_ERR_FORMAT, at,
                    "validation text is too short, expected two tokens or more in the fraction %g "
                    "of the text, found fewer, and %" PRId64
                    " tokens to train on: use more text, a larger fraction (--valid-share) or a "
                    "validation file (--valid)",
                    o->valid_share > 0 ? o->valid_share : .01, i->tokens[DATA_TRAIN]);
}

// Checks that the train split and the valid split both have text.
static qkv_status check_content(const struct build *b, const char *file, qkv_error *err)
{
    const struct qkv_data_info *i = &b->info;
    const struct qkv_location at = { .file = file };
    const bool evaluation = b->options->evaluation, windows = i->objective <= QKV_OBJECTIVE_MASKED;
    const char *use = evaluation ? "evaluate" : "train";
    if (!b->seen[DATA_TRAIN])
        return qkv_fail(err, QKV_ERR_FORMAT, &at,
                        "no text to %s on, expected at least one example, found none", use);
    if (!i->sequences[DATA_TRAIN])
        return qkv_fail(err, QKV_ERR_FORMAT, &at,
                        "too little text to %s on, expected an example of two tokens or more "
                        "that fits the context of %" PRId64 ", found none among %" PRId64
                        " examples",
                        use, i->context, b->seen[DATA_TRAIN]);
    if (windows && !evaluation && i->tokens[DATA_TRAIN] <= i->context)
        return qkv_fail(err, QKV_ERR_FORMAT, &at,
                        "the text is shorter than the context, expected more than %" PRId64
                        " tokens, found %" PRId64 " (use a smaller context)",
                        i->context, i->tokens[DATA_TRAIN]);
    if (!i->sequences[DATA_VALID]) return fail_no_valid(b, &at, err);
    if (i->objective == QKV_OBJECTIVE_CLASSIFY && i->labels < 2 && !evaluation)
        return qkv_fail(err, QKV_ERR_FORMAT, &at,
                        "too few labels, expected at least two different labels, found %" PRId64,
                        i->labels);
    return QKV_OK;
}

// ---- a whole dataset ---------------------------------------------------------------------------
static qkv_status check_options(const struct qkv_data_options *o, const char *dir, qkv_error *err)
{
    char path[QKV_PATH];
    const bool two_stdin = o->valid.n > 0 && o->train.n > 0 && !o->valid_opened &&
                           !o->train_opened && o->train.paths[0] && o->valid.paths[0] &&
                           !strcmp(o->train.paths[0], "-") && !strcmp(o->valid.paths[0], "-");
    if ((int)o->objective < 0 || o->objective > QKV_OBJECTIVE_CLASSIFY)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "objective of a dataset is out of range, expected 0 to %d (enum "
                        "qkv_objective), found %d",
                        QKV_OBJECTIVE_CLASSIFY, (int)o->objective);
    if (o->context < 2 || o->context > INT32_MAX)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "context is out of range, expected 2 to %d tokens, found %" PRId64,
                        INT32_MAX, o->context);
    if (!(o->valid_share >= 0 && o->valid_share < 1))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid fraction of the text for validation, expected 0 or more and less "
                        "than 1, found %g",
                        o->valid_share);
    if (two_stdin)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "standard input can be read only once, expected a file for validation");
    const qkv_status status = qkv_path_join(path, dir, DATA_INDEX, err);
    struct stat st;
    if (status) return status;
    if (stat(path, &st) != 0)
        return errno == ENOENT ? QKV_OK : qkv_fail_errno(err, path, "cannot stat", errno);
    return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = dir },
                    "folder already contains a dataset, expected a new folder");
}

static void remove_shards(const char *dir)
{
    char name[32], path[QKV_PATH];
    for (int s = 0; s < DATA_SPLITS; s++)
        for (int f = 0; f < DATA_FILES; f++) {
            snprintf(name, sizeof name, "%s.%s", data_split_names[s], data_file_names[f]);
            if (!qkv_path_join(path, dir, name, NULL)) qkv_disk_unlink(path);
        }
    if (!qkv_path_join(path, dir, DATA_LABEL_LIST, NULL)) qkv_disk_unlink(path);
}

// Adds the examples of both corpora. Without `valid`, the examples of `train` are distributed over
// both splits.
static qkv_status fill(struct build *b, const qkv_corpus *train, const qkv_corpus *valid,
                       const struct qkv_data_options *o, qkv_error *err)
{
    qkv_status status;
    char hex[2][QKV_SHA256_TEXT];
    qkv_corpus_hash(train, hex[0]);
    memcpy(b->info.source_hash, hex[0], QKV_SHA256_TEXT);
    b->total = qkv_corpus_bytes(train);
    if (valid) {
        char both[2 * QKV_SHA256_TEXT + 2];
        qkv_corpus_hash(valid, hex[1]);
        const int n = snprintf(both, sizeof both, "%s\n%s\n", hex[0], hex[1]);
        qkv_sha256(b->info.source_hash, both, (size_t)n);
        b->total += qkv_corpus_bytes(valid);
        status = run_whole(b, train, DATA_TRAIN, err);
        if (!status) status = build_flush(b, err);
        // from here on, a label that the training text does not have is an error
        b->labels.closed = true;
        if (!status) status = run_whole(b, valid, DATA_VALID, err);
    } else {
        status = run_split(b, train, o->valid_share > 0 ? o->valid_share : .01, o->seed, err);
    }
    return status ? status : build_flush(b, err);
}

qkv_status qkv_data_make(const char *dir, const struct qkv_data_options *o,
                         const qkv_tokenizer *tokenizer, const qkv_tokenizer *tokenizer_b,
                         qkv_error *err)
{
    qkv_corpus *own[2] = { NULL, NULL };
    struct build b = { .options = o, .tokenizer = { tokenizer, tokenizer_b } };
    struct data_sum sums[DATA_SPLITS][DATA_FILES] = { 0 }, labels = { 0 };
    bool made = false, touched = false;
    if (!dir || !tokenizer)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_data_make: expected a folder and a tokenizer, found NULL");
    if (!tokenizer_b) b.tokenizer[1] = tokenizer;
    qkv_status status = check_options(o, dir, err);
    const qkv_corpus *train = o->train_opened, *valid = o->valid_opened;
    if (!status && !train) {
        status = qkv_corpus_open(&own[0], &o->train, o->objective, err);
        train = own[0];
    }
    if (!status && !valid && o->valid.n > 0) {
        status = qkv_corpus_open(&own[1], &o->valid, o->objective, err);
        valid = own[1];
    }
    if (!status) status = build_begin(&b, err);
    if (status) goto done;
    made = qkv_disk_mkdir(dir, 0777) == 0;
    if (!made && errno != EEXIST) {
        status = qkv_fail_errno(err, dir, "cannot create", errno);
        goto done;
    }
    touched = true;
    status = files_open(&b, dir, err);
    if (!status) status = fill(&b, train, valid, o, err);
    b.info.labels = b.labels.count;
    if (!status) status = check_content(&b, o->train.n > 0 ? o->train.paths[0] : NULL, err);
    if (!status) status = files_commit(&b, sums, err);
    if (!status && o->objective == QKV_OBJECTIVE_CLASSIFY)
        status = write_labels(&b, dir, &labels, err);
    data_hash(b.info.hash, &b.info, (const struct data_sum(*)[DATA_FILES])sums, &labels);
    if (!status)
        status = write_index(&b, dir, (const struct data_sum(*)[DATA_FILES])sums, &labels, err);
done:
    build_end(&b);
    if (status && touched) remove_shards(dir);
    if (status && made) qkv_disk_rmdir(dir);
    for (int i = 0; i < 2; i++) qkv_corpus_close(own[i]);
    return status;
}
