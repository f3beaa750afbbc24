// SPDX-License-Identifier: MIT
// train_options.c: combines the options of a run: the caller's options, those in run.json, and
// defaults.
//
// The rule for new and resumed runs: an option that the caller does not set has the value in
// run.json or, in a new run, its default. An option that the caller sets must equal the value in
// run.json, unless train_options.def says that it may change.
#include "task/train/train_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define RUN_FILE   "run.json"
#define RUN_FORMAT "qkv-run"
enum { RUN_VERSION = 1, RUN_MAX = 1 << 22 };

const char *const train_optimizers[] = { "adamw", "sgd", NULL };
const char *const train_schedules[] = { "cosine", "linear", "inverse-sqrt", "constant", NULL };
const char *const train_norms[] = { "post", "pre", "both", NULL };
const char *const train_activations[] = {
    "none", "relu", "gelu", "gelu-tanh", "silu", "tanh", NULL
};
const char *const train_kinds[] = { "bytes", "characters", "bpe", "wordpiece", "unigram", NULL };

const char *const *qkv_train_architectures(void)
{
    return qkv_net_architectures();
}

enum kind { KIND_TEXT, KIND_INT, KIND_REAL, KIND_FLAG };
static const struct row {
    const char *key;
    enum kind kind;
    bool free; // true: a resumed run may change the option
    size_t at; // offset of the member in struct qkv_train_options
} rows[] = {
#define QKV_OPTION(KIND, MEMBER, FREE)                                                             \
    { #MEMBER, KIND_##KIND, FREE, offsetof(struct qkv_train_options, MEMBER) },
#include "task/train/train_options.def"
#undef QKV_OPTION
};
enum { ROWS = sizeof rows / sizeof rows[0] };

int train_word(const char *const *names, const char *name)
{
    for (int i = 0; names[i]; i++)
        if (name && strcmp(names[i], name) == 0) return i;
    return -1;
}

const char *train_words(char text[200], const char *const *names)
{
    *text = 0;
    for (int i = 0; names[i]; i++) {
        const size_t used = strlen(text);
        snprintf(text + used, 200 - used, "%s%s", i ? ", " : "", names[i]);
    }
    return text;
}

// ---- to and from JSON --------------------------------------------------------------------------
// Returns the value of an option as JSON. *set becomes false if the caller did not set the option.
static json_t *value_of(const struct row *r, const struct qkv_train_options *o, bool *set)
{
    const void *at = (const char *)o + r->at;
    switch (r->kind) {
    case KIND_TEXT: {
        const char *text = *(const char *const *)at;
        *set = text != NULL;
        return text ? json_string(text) : NULL;
    }
    case KIND_INT: *set = *(const int64_t *)at != 0; return json_integer(*(const int64_t *)at);
    case KIND_REAL: *set = *(const double *)at != 0; return json_real(*(const double *)at);
    default: *set = *(const bool *)at; return json_boolean(*(const bool *)at);
    }
}

static bool put_text(json_t *to, const char *key, const char *text)
{
    return !text || json_object_set_new(to, key, json_string(text)) == 0;
}

static json_t *source_json(const struct qkv_text_source *s)
{
    json_t *to = json_object(), *paths = json_array();
    bool ok = to && paths;
    for (int64_t i = 0; i < s->n && ok; i++)
        ok = json_array_append_new(paths, json_string(s->paths[i])) == 0;
    ok = ok && json_object_set(to, "paths", paths) == 0 && put_text(to, "format", s->format) &&
         put_text(to, "field", s->field) && put_text(to, "field_b", s->field_b) &&
         (!s->per_line || json_object_set_new(to, "per_line", json_true()) == 0);
    json_decref(paths);
    if (ok) return to;
    json_decref(to);
    return NULL;
}

// Returns the options that are set, or all options if `all`, and the text sources as JSON. Returns
// NULL if memory is exhausted or a text is not UTF-8.
static json_t *options_json(const struct qkv_train_options *o, bool all)
{
    json_t *to = json_pack("{sssi}", "format", RUN_FORMAT, "version", (int)RUN_VERSION);
    bool ok = to != NULL;
    if (ok && o->train.n) ok = json_object_set_new(to, "train", source_json(&o->train)) == 0;
    if (ok && o->valid.n) ok = json_object_set_new(to, "valid", source_json(&o->valid)) == 0;
    for (int i = 0; i < ROWS && ok; i++) {
        bool set;
        json_t *v = value_of(&rows[i], o, &set);
        if (set || (all && v))
            ok = json_object_set_new(to, rows[i].key, v) == 0;
        else
            json_decref(v);
    }
    if (ok) return to;
    json_decref(to);
    return NULL;
}

static bool read_row(const struct row *r, struct qkv_train_options *o, const struct qkv_json_at *at)
{
    void *to = (char *)o + r->at;
    switch (r->kind) {
    case KIND_TEXT: return qkv_json_text(at, r->key, false, to);
    case KIND_INT: return qkv_json_int(at, r->key, false, to, INT64_MIN, INT64_MAX);
    case KIND_REAL: return qkv_json_real(at, r->key, false, to);
    default: return qkv_json_bool(at, r->key, false, to);
    }
}

static bool read_source(struct qkv_text_source *s, const char ***paths, const json_t *root,
                        const char *key, const char *file, qkv_error *err)
{
    const json_t *from = json_object_get(root, key), *list = json_object_get(from, "paths");
    const struct qkv_json_at at = { from, file, key, err };
    if (!from) return true;
    if (!json_is_array(list)) {
        qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file, .path = key },
                 "text source has the wrong type, expected an object with a list of paths");
        return false;
    }
    const size_t n = json_array_size(list);
    *paths = qkv_alloc(n + 1, sizeof **paths);
    if (!*paths) {
        qkv_fail_memory(err, file);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        (*paths)[i] = json_string_value(json_array_get(list, i));
        if ((*paths)[i]) continue;
        qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file, .path = key },
                 "path has the wrong type, expected a string");
        return false;
    }
    s->paths = *paths;
    s->n = (int64_t)n;
    return qkv_json_text(&at, "format", false, &s->format) &&
           qkv_json_text(&at, "field", false, &s->field) &&
           qkv_json_text(&at, "field_b", false, &s->field_b) &&
           qkv_json_bool(&at, "per_line", false, &s->per_line);
}

// ---- an existing run ---------------------------------------------------------------------------
static bool is_free(const char *key)
{
    for (int i = 0; i < ROWS; i++)
        if (!strcmp(rows[i].key, key)) return rows[i].free;
    return false;
}

// Writes a value as text for an error message; a value that is too long becomes "...".
static void say_value(char *out, size_t size, const json_t *v)
{
    char *text = v ? json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (text && strlen(text) < size)
        memcpy(out, text, strlen(text) + 1);
    else
        snprintf(out, size, "%s", v ? "..." : "nothing");
    json_free_t give_back;
    json_get_alloc_funcs(NULL, &give_back);
    if (text) give_back(text);
}

// Returns true if two text sources differ only in their paths. The texts themselves are compared
// later, by their hash (text_changed in train_setup.c).
static bool moved(const json_t *has, const json_t *asked)
{
    if (!json_is_array(json_object_get(has, "paths"))) return false;
    json_t *a = json_copy((json_t *)(uintptr_t)has), *b = json_copy((json_t *)(uintptr_t)asked);
    const bool same =
        a && b && !json_object_del(a, "paths") && !json_object_del(b, "paths") && json_equal(a, b);
    json_decref(a);
    json_decref(b);
    return same;
}

// Copies the options in `asked` to root, the content of run.json. Fails with a list of the options
// that differ from run.json and may not be changed.
static qkv_status merge(json_t *root, const json_t *asked, const char *file, qkv_error *err)
{
    char list[600] = "";
    size_t used = 0;
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)asked, key, v)
    {
        const json_t *has = json_object_get(root, key);
        if (has && json_equal(has, v)) continue;
        if ((has || !strcmp(key, "valid")) && !is_free(key) && !moved(has, v)) {
            char one[2][80];
            say_value(one[0], sizeof one[0], has);
            say_value(one[1], sizeof one[1], v);
            const int n = snprintf(list + used, sizeof list - used, "%s%s %s (requested: %s)",
                                   used ? ", " : "", key, one[0], one[1]);
            if (n > 0) used = (size_t)qkv_min64((int64_t)used + n, sizeof list - 1);
        } else if (json_object_set(root, key, v) != 0) {
            return qkv_fail_memory(err, file);
        }
    }
    // The caller gives either steps or epochs: remove the other one, which is from the earlier run.
    if (json_object_get(asked, "epochs") && !json_object_get(asked, "steps"))
        json_object_del(root, "steps");
    if (json_object_get(asked, "steps") && !json_object_get(asked, "epochs"))
        json_object_del(root, "epochs");
    if (!used) return QKV_OK;
    return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = file },
                    "options differ from the options with which the run was started: %s; expected "
                    "the same options or a new folder",
                    list);
}

static qkv_status check_format(const json_t *root, const char *file, qkv_error *err)
{
    const char *format = NULL;
    int64_t version = 0;
    const struct qkv_json_at at = { root, file, "$", err };
    if (!qkv_json_text(&at, "format", true, &format) ||
        !qkv_json_int(&at, "version", true, &version, 1, INT32_MAX))
        return QKV_ERR_FORMAT;
    if (strcmp(format, RUN_FORMAT) != 0)
        return qkv_fail(err, QKV_ERR_FORMAT,
                        &(struct qkv_location){ .file = file, .path = "$.format" },
                        "file is not the run.json of a run, expected format \"" RUN_FORMAT
                        "\", found \"%.80s\"",
                        format);
    if (version > RUN_VERSION)
        return qkv_fail(
            err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = file, .path = "$.version" },
            "format of run.json is too new, expected version %d or earlier, found %" PRId64,
            (int)RUN_VERSION, version);
    return QKV_OK;
}

qkv_status train_config_read(struct train_config *c, const struct qkv_train_options *given,
                             qkv_error *err)
{
    char path[QKV_PATH];
    memset(c, 0, sizeof *c);
    qkv_status status = qkv_path_join(path, given->run, RUN_FILE, err);
    if (status) return status;
    json_t *asked = options_json(given, false);
    if (!asked)
        return qkv_fail(err, QKV_ERR_LIMIT, NULL, "out of memory, or an option is not valid UTF-8");
    c->fresh = !qkv_path_may_exist(path);
    if (c->fresh) {
        c->root = json_incref(asked);
        if (!given->train.n)
            status = qkv_fail(err, QKV_ERR_USAGE, NULL,
                              "no text to train on, expected files, found none");
    } else {
        status = qkv_json_file(&c->root, path, RUN_MAX, err);
        if (!status) status = check_format(c->root, path, err);
        if (!status) status = merge(c->root, asked, path, err);
    }
    json_decref(asked);
    c->o = (struct qkv_train_options){ .run = given->run,
                                       .resume = given->resume,
                                       .skip_bad = given->skip_bad,
                                       .allow_data_change = given->allow_data_change,
                                       .export_dir = given->export_dir,
                                       .export_force = given->export_force,
                                       .export_type = given->export_type };
    const struct qkv_json_at at = { c->root, path, "$", err };
    for (int i = 0; i < ROWS && !status; i++)
        if (!read_row(&rows[i], &c->o, &at)) status = QKV_ERR_FORMAT;
    if (!status && (!read_source(&c->o.train, &c->paths[0], c->root, "train", path, err) ||
                    !read_source(&c->o.valid, &c->paths[1], c->root, "valid", path, err)))
        status = err && err->status ? err->status : QKV_ERR_FORMAT;
    if (status) train_config_free(c);
    return status;
}

qkv_status train_config_write(struct train_config *c, qkv_error *err)
{
    char path[QKV_PATH];
    qkv_status status = qkv_path_join(path, c->o.run, RUN_FILE, err);
    if (status) return status;
    json_t *root = options_json(&c->o, true), *there = NULL;
    const bool same = root && qkv_path_exists(path) &&
                      !qkv_json_file(&there, path, RUN_MAX, NULL) && json_equal(root, there);
    if (!same) status = qkv_json_write(path, root, true, err);
    json_decref(root);
    json_decref(there);
    return status;
}

void train_config_free(struct train_config *c)
{
    json_decref(c->root);
    for (int i = 0; i < 2; i++) qkv_free((void *)c->paths[i]);
    memset(c, 0, sizeof *c);
}

// ---- words and ranges --------------------------------------------------------------------------
static qkv_status check_word(const char *what, const char *const *names, const char *word,
                             qkv_error *err)
{
    char all[200];
    if (!word || train_word(names, word) >= 0) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, NULL, "unknown %s, expected one of %s, found '%.80s'", what,
                    train_words(all, names), word);
}

static qkv_status check_words(const struct qkv_train_options *o, qkv_error *err)
{
    const struct {
        const char *what, *word;
        const char *const *names;
    } words[] = { { "objective", o->objective, task_objectives },
                  { "architecture", o->arch, qkv_net_architectures() },
                  { "place of norms", o->norm, train_norms },
                  { "activation", o->activation, train_activations },
                  { "optimizer", o->optimizer, train_optimizers },
                  { "schedule", o->schedule, train_schedules } };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const qkv_status status = check_word(words[i].what, words[i].names, words[i].word, err);
        if (status) return status;
    }
    qkv_precision precision;
    if (!qkv_precision_parse(&precision, o->precision))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "unknown precision, expected one of f32, f32-strict, f32-fast, bf16, f16, "
                        "found '%.80s'",
                        o->precision);
    return QKV_OK;
}

static qkv_status check_ranges(const struct qkv_train_options *o, qkv_error *err)
{
    const int64_t most = (int64_t)1 << 40;
    const struct {
        const char *what;
        int64_t value, least, most;
    } whole[] = { { "number of steps", o->steps, 0, most },
                  { "length of the context", o->context, 0, 1 << 24 },
                  { "size of the vocabulary", o->vocab, 0, 1 << 24 },
                  { "number of tokens in a batch", o->batch_tokens, 1, (int64_t)1 << 31 },
                  { "number of sequences in a batch", o->batch_sequences, 0, (int64_t)1 << 31 },
                  { "number of batches per step", o->accumulate, 1, 1 << 20 },
                  { "number of warm-up steps", o->warmup, -1, most },
                  { "number of evaluations without improvement (patience)", o->patience, 0, most },
                  { "number of steps between evaluations", o->eval_every, 0, most },
                  { "number of steps between checkpoints", o->save_every, 0, most },
                  { "number of checkpoints to keep", o->keep_last, -1, most },
                  { "number of steps between checkpoints to keep", o->keep_every, -1, most },
                  { "number of steps between probes", o->probe_every, 0, most },
                  { "seed", o->seed, 0, INT64_MAX } };
    const struct {
        const char *what;
        double value, most;
    } reals[] = { { "fraction of the text for validation", o->valid_share, .9 },
                  { "number of epochs", o->epochs, 1e9 },
                  { "learning rate", o->rate, 1e38 },
                  { "final fraction of the learning rate", o->last, 1 },
                  { "weight decay", o->decay, 1e9 },
                  { "beta1", o->beta1, .999999999 },
                  { "beta2", o->beta2, .999999999999 },
                  { "momentum", o->momentum, .999999999 },
                  { "dropout", o->dropout, .999 },
                  { "label smoothing", o->smoothing, .999 },
                  { "temperature", o->temperature, 1e9 },
                  { "fraction of masked tokens", o->mask_share, 1 } };
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++)
        if (whole[i].value < whole[i].least || whole[i].value > whole[i].most)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "%s is out of range, expected %" PRId64 " .. %" PRId64
                            ", found %" PRId64,
                            whole[i].what, whole[i].least, whole[i].most, whole[i].value);
    for (size_t i = 0; i < sizeof reals / sizeof reals[0]; i++)
        if (!(reals[i].value <= reals[i].most))
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "%s is out of range, expected at most %g, found %g", reals[i].what,
                            reals[i].most, reals[i].value);
    return QKV_OK;
}

// ---- defaults ----------------------------------------------------------------------------------
static void set_text(const char **to, const char *text)
{
    if (!*to) *to = text;
}
static void set_int(int64_t *to, int64_t n)
{
    if (!*to) *to = n;
}
static void set_real(double *to, double x)
{
    if (*to == 0) *to = x;
}

// Sets the sizes of a model that is trained from scratch: the sizes of the architecture's
// reference, or smaller sizes, for a desktop computer.
static void default_sizes(struct qkv_train_options *o)
{
    struct qkv_net_shape reference = { 0 };
    const struct qkv_arch_training *row = qkv_arch_training(o->arch);
    if (row && row->reference_sizes) qkv_net_shape_default(&reference, o->arch);
    set_int(&o->width, reference.width ? reference.width : 256);
    set_int(&o->layers, reference.layers ? reference.layers : 4);
    if (!o->heads) o->heads = reference.heads;
    if (!o->heads) o->heads = o->width % 64 || o->width < 128 ? 4 : o->width / 64;
}

static void default_learning(struct qkv_train_options *o)
{
    static const struct qkv_arch_training none;
    const struct qkv_arch_training *row = qkv_arch_training(o->arch);
    const bool pairs = o->objective && !strcmp(o->objective, "seq2seq");
    if (!row) row = &none;
    set_text(&o->optimizer, "adamw");
    set_text(&o->schedule, row->schedule ? row->schedule : o->from ? "linear" : "cosine");
    set_real(&o->last, o->from ? -1 : .1);
    const bool sgd = !strcmp(o->optimizer, "sgd");
    // Rate from scratch: 1e-3 for a width of at most 256; for larger widths, 1e-3 / sqrt(width /
    // 256).
    const double wide = o->width > 256 ? (double)o->width / 256 : 1;
    set_real(&o->rate, sgd ? .1 : o->from ? 2e-5 : 1e-3 / sqrt(wide));
    set_real(&o->decay, row->decay > 0 ? row->decay : o->from ? .01 : -1);
    set_real(&o->clip, 1);
    set_real(&o->beta1, .9);
    set_real(&o->beta2, row->beta2 > 0 ? row->beta2 : .999);
    set_real(&o->eps, row->eps > 0 ? row->eps : 1e-8);
    set_real(&o->momentum, sgd ? .9 : -1);
    set_real(&o->dropout, row->dropout > 0 ? row->dropout : -1);
    set_real(&o->smoothing, row->smoothing > 0 ? row->smoothing : -1);
    set_real(&o->temperature, .05);
    set_real(&o->mask_share, .15);
    set_int(&o->batch_tokens, 4096);
    if (o->objective && !strcmp(o->objective, "contrastive")) set_int(&o->batch_sequences, 64);
    set_int(&o->accumulate, 1);
    set_int(&o->context, row->context ? row->context : pairs ? 128 : 256);
}

// Checks that the run.json of a resumed run contains every option that has no default.
static qkv_status check_whole(const struct qkv_train_options *o, qkv_error *err)
{
    const char *lost = !o->objective           ? "objective"
                       : !o->arch              ? "arch"
                       : !o->optimizer         ? "optimizer"
                       : !o->schedule          ? "schedule"
                       : !o->context           ? "context"
                       : !(o->eps > 0)         ? "eps"
                       : !(o->temperature > 0) ? "temperature"
                                               : NULL;
    char path[64];
    if (!lost) return QKV_OK;
    snprintf(path, sizeof path, "$.%s", lost);
    return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = o->run, .path = path },
                    RUN_FILE " has lost a required member, expected \"%s\", found none", lost);
}

qkv_status train_config_defaults(struct train_config *c, qkv_error *err)
{
    struct qkv_train_options *o = &c->o;
    set_text(&o->precision, "f32");
    qkv_status status = check_words(o, err);
    if (status) return status;
    if (c->fresh && o->from &&
        (o->arch || o->layers || o->decoder_layers || o->heads || o->kv_heads || o->width ||
         o->d_k || o->d_v || o->inner || o->norm || o->activation))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "options of a model that is trained from scratch cannot be combined with "
                        "--from, a model to start from");
    if (c->fresh && !o->from) {
        if (!o->arch)
            o->arch = qkv_arch_for(o->objective ? train_word(task_objectives, o->objective)
                                                : QKV_OBJECTIVE_CAUSAL);
        if (!o->objective) o->objective = task_objectives[qkv_arch_training(o->arch)->objective];
        default_sizes(o);
    }
    c->any_context = c->fresh && !o->context;
    if (c->fresh) default_learning(o);
    if (!c->fresh && (status = check_whole(o, err)) != QKV_OK) return status;
    return check_ranges(o, err);
}
