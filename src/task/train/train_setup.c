// SPDX-License-Identifier: MIT
// train_setup.c: prepares the tokenizer, the dataset and the model of a run before its first step.
// A new run creates them; a resumed run opens them from its folder.
#include "task/train/train_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// ---- texts -------------------------------------------------------------------------------------
// The texts of the train and the valid source. They are opened when first needed, and only once,
// because standard input cannot be read twice.
struct texts {
    qkv_corpus *train, *valid;
};

static qkv_status texts_open(struct texts *x, const struct train *t, qkv_error *err)
{
    const struct qkv_text_source *valid = &t->o->valid;
    if (x->train) return QKV_OK;
    qkv_status status = qkv_corpus_open(&x->train, &t->o->train, t->objective, err);
    if (!status && valid->n) status = qkv_corpus_open(&x->valid, valid, t->objective, err);
    return status;
}

static void texts_close(struct texts *x)
{
    qkv_corpus_close(x->train);
    qkv_corpus_close(x->valid);
}

static bool all_there(const struct qkv_text_source *s)
{
    for (int64_t i = 0; i < s->n; i++)
        if (!strcmp(s->paths[i], "-") || !qkv_path_exists(s->paths[i])) return false;
    return true;
}

// ---- tokenizer ---------------------------------------------------------------------------------
// Returns the special tokens of a newly trained tokenizer. net.def lists them by architecture; a
// run without an architecture gets the tokens of the first one with its objective.
static struct qkv_tokenizer_training special_tokens(const struct train *t)
{
    const struct qkv_arch_training *row = qkv_arch_training(t->o->arch);
    if (!row) row = qkv_arch_training(qkv_arch_for(t->objective));
    struct qkv_tokenizer_training tokens = {
        .special = row->special, .unknown = row->unknown, .begin = row->begin, .end = row->end
    };
    while (row->special[tokens.specials]) tokens.specials++;
    return tokens;
}

// The texts of both corpora in one list. A text is copied if the corpus would overwrite it.
struct gathered {
    const char **text;
    size_t *bytes;
    char **copy;
    int64_t n, text_capacity, bytes_capacity, copies, copy_capacity;
};

static bool gather_one(struct gathered *g, const char *text, size_t bytes, bool borrowed)
{
    void *texts = g->text, *sizes = g->bytes, *copies = g->copy;
    bool ok = qkv_reserve(&texts, &g->text_capacity, g->n + 1, sizeof *g->text);
    g->text = texts;
    ok = ok && qkv_reserve(&sizes, &g->bytes_capacity, g->n + 1, sizeof *g->bytes);
    g->bytes = sizes;
    if (ok && !borrowed) {
        ok = qkv_reserve(&copies, &g->copy_capacity, g->copies + 1, sizeof *g->copy);
        g->copy = copies;
        char *copy = ok ? qkv_copy_text(text, bytes) : NULL;
        if (copy) g->copy[g->copies++] = copy;
        text = copy;
        ok = copy != NULL;
    }
    if (!ok) return false;
    g->text[g->n] = text;
    g->bytes[g->n++] = bytes;
    return true;
}

static qkv_status gather(struct gathered *g, const qkv_corpus *corpus, bool second, qkv_error *err)
{
    struct qkv_corpus_cursor c = { .corpus = corpus };
    struct qkv_example e;
    bool more = true;
    qkv_status status = QKV_OK;
    while (!status && !(status = qkv_corpus_next(&c, &e, &more, err)) && more)
        if (!gather_one(g, e.text, e.bytes, e.borrowed) ||
            (second && e.second && !gather_one(g, e.second, e.second_bytes, e.borrowed)))
            status = qkv_fail_memory(err, e.file);
    qkv_corpus_cursor_free(&c);
    return status;
}

static qkv_status train_tokenizer(const struct train *t, const char *path, struct texts *x,
                                  qkv_error *err)
{
    struct gathered g = { 0 };
    struct qkv_tokenizer_training how = special_tokens(t);
    const bool words =
        t->objective != QKV_OBJECTIVE_CAUSAL && t->objective != QKV_OBJECTIVE_SEQ2SEQ;
    how.kind = t->o->tokenizer ? t->o->tokenizer : words ? "wordpiece" : "bpe";
    how.vocab = t->o->vocab ? t->o->vocab : words ? 8192 : 4096;
    how.lowercase = t->o->lowercase || !strcmp(how.kind, "wordpiece");
    how.progress = t->observer.progress;
    qkv_status status = texts_open(x, t, err);
    if (!status) status = gather(&g, x->train, t->objective != QKV_OBJECTIVE_CLASSIFY, err);
    if (!status && !g.n)
        status =
            qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = t->o->train.paths[0] },
                     "no text to train on, expected at least one example, found none");
    if (!status)
        status =
            qkv_tokenizer_train(path, (const char *const *)g.text, g.bytes, g.n, &how, true, err);
    for (int64_t i = 0; i < g.copies; i++) qkv_free(g.copy[i]);
    qkv_free(g.copy);
    qkv_free((void *)g.text);
    qkv_free(g.bytes);
    return status;
}

// Returns true if the run trains its own tokenizer, false if it uses an existing one.
static bool trains_tokenizer(const struct qkv_train_options *o)
{
    return o->tokenizer ? train_word(train_kinds, o->tokenizer) >= 0 : !o->from;
}

static qkv_status setup_tokenizer(struct train *t, struct texts *x, qkv_error *err)
{
    char path[QKV_PATH], data[QKV_PATH];
    const struct qkv_train_options *o = t->o;
    qkv_status status = qkv_path_join(path, o->run, "tokenizer.json", err);
    if (!status) status = qkv_path_join(data, o->run, "data/index.json", err);
    // The dataset is made after the tokenizer. Where there is one, the files of the tokenizer, of
    // which another format than tokenizer.json has several, are complete.
    bool there = false, made = false;
    if (!status) status = qkv_path_find(&there, path, err);
    if (!status) status = qkv_path_find(&made, data, err);
    if (!status && !there && !made) {
        status =
            trains_tokenizer(o) ? train_tokenizer(t, path, x, err) : train_files_gather(o, err);
        if (!status) status = qkv_path_find(&there, path, err);
    }
    if (status) return status;
    return qkv_tokenizer_open(&t->tokenizer, there ? path : o->run, err);
}

// ---- data --------------------------------------------------------------------------------------
static qkv_status make_data(struct train *t, const char *dir, struct texts *x, qkv_error *err)
{
    const struct qkv_train_options *o = t->o;
    qkv_status status = texts_open(x, t, err);
    if (status) return status;
    struct qkv_data_options how = { .objective = t->objective,
                                    .train = o->train,
                                    .valid = o->valid,
                                    .train_opened = x->train,
                                    .valid_opened = x->valid,
                                    .valid_share = o->valid_share,
                                    .context = o->context,
                                    .seed = (uint64_t)o->seed,
                                    .progress = t->observer.progress };
    status = train_ends(t->tokenizer, t->ids.eos, &how, err);
    return status ? status : qkv_data_make(dir, &how, t->tokenizer, NULL, err);
}

// Sets *changed to true if the text files differ from the text that the dataset was made of. Sets
// it to false if a file no longer exists, since then the dataset is used as it is.
static qkv_status text_changed(struct train *t, struct texts *x, bool *changed, qkv_error *err)
{
    char hex[2][QKV_SHA256_TEXT], both[2 * QKV_SHA256_TEXT + 2];
    *changed = false;
    if (!all_there(&t->o->train) || !all_there(&t->o->valid)) return QKV_OK;
    const qkv_status status = texts_open(x, t, err);
    if (status) return status;
    qkv_corpus_hash(x->train, hex[0]);
    if (x->valid) {
        qkv_corpus_hash(x->valid, hex[1]);
        const int n = snprintf(both, sizeof both, "%s\n%s\n", hex[0], hex[1]);
        qkv_sha256(hex[0], both, (size_t)n);
    }
    *changed = strcmp(hex[0], t->info.source_hash) != 0;
    return QKV_OK;
}

static qkv_status fail_changed(const struct train *t, const char *what, qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = t->o->run },
                    "%s has changed since the run began, expected the same data; "
                    "--allow-data-change continues with the changed text",
                    what);
}

static qkv_status open_data(struct train *t, const char *dir, qkv_error *err)
{
    qkv_data_close(t->data);
    t->data = NULL;
    const qkv_status status = qkv_data_open(&t->data, dir, err);
    if (!status) t->info = qkv_data_info(t->data);
    return status;
}

// Checks that a label has the same number in both datasets, because the model's output head is
// trained for these numbers.
static qkv_status same_labels(const qkv_data *a, const qkv_data *b, const char *run, qkv_error *err)
{
    for (int64_t i = 0; qkv_data_label(a, i) || qkv_data_label(b, i); i++) {
        const char *x = qkv_data_label(a, i), *y = qkv_data_label(b, i);
        if (x && y && !strcmp(x, y)) continue;
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = run },
                        "label %" PRId64
                        " of the changed text, expected \"%.80s\", found \"%.80s\" (labels are "
                        "numbered in the order of their first occurrence)",
                        i, x ? x : "none", y ? y : "none");
    }
    return QKV_OK;
}

// Removes a dataset, first its index, so that no kill or loss of power leaves an index without the
// other files: a folder without index is made again.
static bool remove_data(const char *dir)
{
    char index[QKV_PATH];
    if (qkv_path_join(index, dir, "index.json", NULL)) return false;
    return (qkv_disk_unlink(index) == 0 || errno == ENOENT) && qkv_disk_sync_folder(dir) == 0 &&
           qkv_disk_remove_folder(dir);
}

// Makes a dataset of the changed text. The old dataset is only removed when the new one is
// complete.
static qkv_status renew_data(struct train *t, const char *dir, struct texts *x, qkv_error *err)
{
    char fresh[QKV_PATH];
    qkv_data *made = NULL;
    qkv_status status = qkv_path_join(fresh, t->o->run, TRAIN_DATA_NEW, err);
    if (status) return status;
    qkv_disk_remove_folder(fresh);
    status = make_data(t, fresh, x, err);
    if (!status) status = qkv_data_open(&made, fresh, err);
    if (!status) status = same_labels(t->data, made, t->o->run, err);
    qkv_data_close(made);
    if (status) {
        qkv_disk_remove_folder(fresh);
        return status;
    }
    qkv_data_close(t->data);
    t->data = NULL;
    // If the process is killed between these two calls, the next run makes the dataset again.
    if (!remove_data(dir) || qkv_disk_rename(fresh, dir) != 0 ||
        qkv_disk_sync_folder(t->o->run) != 0)
        return qkv_fail_errno(err, dir, "cannot replace", errno);
    status = open_data(t, dir, err);
    if (!status) train_note(t, "the text has changed: it was tokenized again");
    return status;
}

static qkv_status setup_data(struct train *t, struct texts *x, qkv_error *err)
{
    char dir[QKV_PATH], index[QKV_PATH];
    bool changed = false;
    qkv_status status = qkv_path_join(dir, t->o->run, "data", err);
    if (!status) status = qkv_path_join(index, dir, "index.json", err);
    bool there = false;
    if (!status) status = qkv_path_find(&there, index, err);
    if (status) return status;
    if (!there) status = make_data(t, dir, x, err);
    if (!status) status = open_data(t, dir, err);
    if (!status && there) status = text_changed(t, x, &changed, err);
    if (status) return status;
    if (changed && !train_leads(t)) // rank 0 has made the dataset in this call or accepted its text
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "this rank has another text than rank 0, expected the same files on all "
                        "ranks");
    if (changed && !t->o->allow_data_change) return fail_changed(t, "the text", err);
    if (changed) status = renew_data(t, dir, x, err);
    if (status) return status;
    if (t->info.objective != t->objective)
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = dir },
                        "dataset of the run is for another objective, expected %s, found %s",
                        task_objectives[t->objective], task_objectives[t->info.objective]);
    if (*t->state.data && strcmp(t->state.data, t->info.hash) != 0) {
        if (!t->o->allow_data_change) return fail_changed(t, "data/", err);
        train_note(t, "data/ differs from the data on which the checkpoint was trained");
    }
    memcpy(t->state.data, t->info.hash, sizeof t->state.data);
    return QKV_OK;
}

// ---- net ---------------------------------------------------------------------------------------
enum qkv_objective train_objective_of(const qkv_net *n)
{
    const enum qkv_net_kind kind = qkv_net_kind(n);
    if (kind == QKV_NET_ENCODER)
        return qkv_net_shape(n)->labels ? QKV_OBJECTIVE_CLASSIFY : QKV_OBJECTIVE_MASKED;
    return kind == QKV_NET_DECODER ? QKV_OBJECTIVE_CAUSAL : QKV_OBJECTIVE_SEQ2SEQ;
}

static qkv_status check_objective(const struct train *t, const qkv_net *n,
                                  enum qkv_objective objective, qkv_error *err)
{
    const char *lacks = qkv_net_lacks(n, objective);
    if (!lacks) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = t->o->from },
                    "objective %s does not fit the model, expected %s, found %s",
                    task_objectives[objective], lacks, qkv_net_shape(n)->arch);
}

qkv_status train_fail_context(const char *model, int64_t asked, int64_t most, int64_t positions,
                              qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = model },
                    "context (--context) is too long, expected at most %" PRId64
                    " (the model has %" PRId64 " positions), found %" PRId64,
                    most, positions, asked);
}

// Fails if the vectors of the model are not those that contrastive training compares: means over
// the tokens, of length 1.
static qkv_status check_pooling(const char *from, qkv_error *err)
{
    struct qkv_modules m;
    qkv_status status = qkv_modules_read(&m, from, NULL, err);
    if (status) return status;
    if (m.pool_count != 1 || m.pools[0] != QKV_POOL_MEAN ||
        !qkv_steps_are(&m.steps, QKV_STEP_NORMALIZE))
        status = qkv_fail(err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = from },
                          "contrastive training of other modules than mean pooling and Normalize, "
                          "which modules.json names");
    qkv_modules_free(&m);
    return status;
}

// Returns true if the model is an encoder of sentence-transformers, and all texts are in .tsv
// files.
static bool trains_vectors(const struct qkv_train_options *o, const qkv_net *n)
{
    char path[QKV_PATH];
    for (int64_t i = 0; i < o->train.n; i++)
        if (!qkv_ends_with(o->train.paths[i], ".tsv")) return false;
    return train_objective_of(n) == QKV_OBJECTIVE_MASKED &&
           !qkv_path_join(path, o->from, "modules.json", NULL) && qkv_path_may_exist(path);
}

// Opens the model that training starts from, to find out its objective, architecture and positions.
static qkv_status inspect_initial_model(struct train *t, qkv_error *err)
{
    struct qkv_train_options *o = &t->config.o;
    qkv_net *n = NULL;
    if (!o->from || !t->config.fresh) return QKV_OK;
    qkv_status status = qkv_net_open(&n, o->from, &t->how, QKV_NET_TOKENS, 0, err);
    if (status) return status;
    if (!o->objective && trains_vectors(o, n)) {
        o->objective = task_objectives[QKV_OBJECTIVE_CONTRASTIVE];
        train_note(
            t, "objective contrastive, for pairs in .tsv files and a model of sentence vectors");
    }
    if (!o->objective) o->objective = task_objectives[train_objective_of(n)];
    // points to a constant, so it stays valid after the model is freed
    if (!o->arch) o->arch = qkv_net_shape(n)->arch;
    const enum qkv_objective objective =
        (enum qkv_objective)train_word(task_objectives, o->objective);
    // In a pair of texts, the token before the target (bos) needs a position of its own.
    const int64_t most =
        qkv_max64(2, qkv_net_shape(n)->positions - (objective == QKV_OBJECTIVE_SEQ2SEQ));
    if (o->context > most && !t->config.any_context)
        status = train_fail_context(o->from, o->context, most, qkv_net_shape(n)->positions, err);
    o->context = qkv_min64(o->context, most);
    if (!status && objective != QKV_OBJECTIVE_CLASSIFY)
        status = check_objective(t, n, objective, err);
    if (!status && objective == QKV_OBJECTIVE_CONTRASTIVE) status = check_pooling(o->from, err);
    qkv_net_free(n);
    return status;
}

static struct qkv_net_options net_options(const struct qkv_train_options *o)
{
    struct qkv_net_options how = { .dropout = (real)train_real(o->dropout, 0),
                                   .smoothing = (real)train_real(o->smoothing, 0),
                                   .temperature = (real)o->temperature,
                                   .recompute = o->recompute };
    qkv_precision_parse(&how.precision, o->precision);
    return how;
}

static qkv_status new_net(struct train *t, qkv_error *err)
{
    const struct qkv_train_options *o = &t->config.o;
    struct qkv_net_shape s;
    qkv_net_shape_default(&s, o->arch);
    s.layers = o->layers;
    s.decoder_layers = o->decoder_layers;
    s.heads = o->heads;
    s.kv_heads = o->kv_heads;
    s.width = o->width;
    s.d_k = o->d_k;
    s.d_v = o->d_v;
    s.inner = o->inner;
    s.vocab = qkv_tokenizer_size(t->tokenizer);
    // + 1 for bos before the target
    s.positions = o->context + (t->objective == QKV_OBJECTIVE_SEQ2SEQ);
    s.pad = t->ids.pad;
    s.bos = t->ids.bos;
    s.eos = t->ids.eos;
    s.mask = t->ids.mask;
    if (o->norm) s.norm = train_word(train_norms, o->norm);
    if (o->activation) s.act = train_word(train_activations, o->activation);
    if (t->objective == QKV_OBJECTIVE_CLASSIFY) s.labels = (int)t->info.labels;
    return qkv_net_new(&t->net, &s, &t->how, (uint64_t)o->seed, err);
}

// Stores the names of the labels in the model.
static qkv_status name_labels(struct train *t, qkv_error *err)
{
    if (t->objective != QKV_OBJECTIVE_CLASSIFY) return QKV_OK;
    const char **names = qkv_alloc((size_t)t->info.labels, sizeof *names);
    bool ok = names != NULL;
    for (int64_t i = 0; ok && i < t->info.labels; i++) names[i] = qkv_data_label(t->data, i);
    ok = ok && qkv_net_name_labels(t->net, names);
    qkv_free((void *)names);
    return ok ? QKV_OK : qkv_fail_memory(err, NULL);
}

static qkv_status setup_net(struct train *t, const struct qkv_checkpoint_found *found,
                            qkv_error *err)
{
    const struct qkv_train_options *o = t->o;
    const char *dir = found->step >= 0 ? found->dir : o->from;
    const int labels = t->objective == QKV_OBJECTIVE_CLASSIFY ? (int)t->info.labels
                       : t->objective == QKV_OBJECTIVE_MASKED ? QKV_NET_TOKENS
                                                              : 0;
    t->how.row_blocks = o->context > QKV_ROW_BLOCK_MOST;
    qkv_status status =
        dir ? qkv_net_open(&t->net, dir, &t->how, labels, (uint64_t)o->seed, err) : new_net(t, err);
    if (!status) status = check_objective(t, t->net, t->objective, err);
    if (!status && dir && qkv_net_new_end(t->net))
        train_note(t, "%s has no %s: training begins with a new one", dir, qkv_net_new_end(t->net));
    if (!status) status = name_labels(t, err);
    if (status) return status;
    if (found->step < 0 && o->from && trains_tokenizer(o) &&
        !qkv_net_name_tokens(t->net, t->ids.bos, t->ids.eos, t->ids.mask))
        return qkv_fail_memory(err, NULL);
    t->ids.vocab = qkv_net_shape(t->net)->vocab;
    status = train_draw(&t->draw, o, t->objective, &t->ids, t->tokenizer, t->info.vocab, err);
    if (status) return status;
    t->p = qkv_net_parameters(t->net, &t->n);
    t->optimizer = (struct qkv_optimizer){ .kind = (enum qkv_optimizer_kind)train_word(
                                               train_optimizers, o->optimizer),
                                           .beta1 = train_real(o->beta1, .9),
                                           .beta2 = train_real(o->beta2, .999),
                                           .eps = o->eps,
                                           .decay = train_real(o->decay, 0),
                                           .momentum = train_real(o->momentum, 0) };
    status = train_ranks_begin(t, err);
    if (!status) status = qkv_optimizer_init(&t->optimizer, t->p, t->n, err);
    if (!status && found->step >= 0) status = train_moments_read(t, found->dir, err);
    return status;
}

// ---- number of steps ---------------------------------------------------------------------------
// Counts how many steps `epochs` passes over the data take, by drawing all batches.
static qkv_status count_steps(struct train *t, double epochs, int64_t *steps, qkv_error *err)
{
    struct qkv_drawn d = { 0 };
    int64_t batches = 0, position = 0;
    qkv_status status = QKV_OK;
    const int64_t target =
        // number of sequences (or pairs) in all epochs
        (int64_t)(epochs * (double)t->info.sequences[0] + .5);
    while (!status && position < qkv_max64(target, 1)) {
        status = qkv_data_draw(t->data, &d, position, &t->draw, err);
        if (status) break;
        position = d.next;
        batches++;
        const struct qkv_progress *p = &t->observer.progress;
        if (p->step && batches % 1024 == 0 && p->step(p->user, "sequences", position, target))
            status = qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
    }
    qkv_drawn_free(&d);
    *steps = qkv_ceil_div(batches, t->o->accumulate);
    return status;
}

static qkv_status setup_steps(struct train *t, qkv_error *err)
{
    struct qkv_train_options *o = &t->config.o;
    qkv_status status = QKV_OK;
    if (!o->steps && o->epochs > 0) status = count_steps(t, o->epochs, &o->steps, err);
    if (status) return status;
    if (!o->steps) o->steps = 1000;
    if (!o->warmup) o->warmup = qkv_min64(4000, o->steps / (o->from ? 10 : 20));
    if (!o->warmup) o->warmup = -1;
    if (!o->eval_every) o->eval_every = qkv_max64(1, o->steps / 20);
    if (!o->save_every) o->save_every = o->eval_every;
    t->schedule = (struct qkv_schedule){ .kind = (enum qkv_schedule_kind)train_word(train_schedules,
                                                                                    o->schedule),
                                         .rate = o->rate,
                                         .last = train_real(o->last, 0),
                                         .warmup = train_int(o->warmup, 0),
                                         .steps = o->steps };
    return QKV_OK;
}

// Creates the link `name` to the checkpoint `target`, if an earlier run was killed before it could.
static qkv_status relink(const char *run, const char *name, const char *target, qkv_error *err)
{
    char path[QKV_PATH], there[QKV_CHECKPOINT_NAME] = "";
    const qkv_status status = qkv_path_join(path, run, name, err);
    if (status) return status;
    const ssize_t n = readlink(path, there, sizeof there - 1);
    if (n >= 0) there[n] = 0;
    return strcmp(there, target) ? qkv_checkpoint_link(run, name, target, err) : QKV_OK;
}

qkv_status train_setup(struct train *t, qkv_error *err)
{
    struct qkv_checkpoint_found found;
    struct texts x = { 0 };
    t->o = &t->config.o;
    t->how = net_options(t->o);
    qkv_status status = qkv_checkpoint_find(&found, t->o->run, err);
    if (status) return status;
    if (found.passed)
        train_note(
            t,
            "%s is not a complete checkpoint and is ignored; number of such checkpoints: %" PRId64,
            found.passed_name, found.passed);
    if (found.step >= 0) status = train_state_read(&t->state, found.dir, err);
    if (!status) status = inspect_initial_model(t, err);
    if (status) return status;
    t->objective = (enum qkv_objective)train_word(task_objectives, t->o->objective);
    status = setup_tokenizer(t, &x, err);
    if (!status)
        status = train_ids_read(&t->ids,
                                found.step >= 0          ? found.dir
                                : trains_tokenizer(t->o) ? NULL
                                                         : t->o->from,
                                t->objective, t->tokenizer, err);
    if (!status) status = setup_data(t, &x, err);
    if (!status) status = setup_net(t, &found, err);
    if (!status) status = train_share(t, err);
    if (!status) status = setup_steps(t, err);
    texts_close(&x);
    if (!status && found.step >= 0) status = relink(t->o->run, "model", found.name, err);
    if (!status && t->o->patience > 0 && found.step >= 0 && found.step == t->state.best_step)
        status = relink(t->o->run, "best", found.name, err);
    if (!status && found.step >= 0) status = train_tidy(t, err);
    t->saved_step = found.step;
    t->from_step = found.step >= 0 ? found.step : 0;
    return status;
}
