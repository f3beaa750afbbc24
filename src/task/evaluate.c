// SPDX-License-Identifier: MIT
// evaluate.c: how good a model is: on the validation text of its run, or on files.
#define _GNU_SOURCE
#include "task/eval_work.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

qkv_status eval_progress(const struct eval *e, const char *what, int64_t done, int64_t total,
                         qkv_error *err)
{
    const struct qkv_progress *p = &e->watch.progress;
    if (!p->step || !p->step(p->user, what, done, total)) return QKV_OK;
    return qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
}

// ---- what is evaluated --------------------------------------------------------------------------
// A run's folder: its newest model, its options.
static qkv_status find_model(struct eval *e, qkv_error *err)
{
    char path[QKV_PATH];
    const char *dir = e->o->dir;
    qkv_status s = qkv_path_join(path, dir, "run.json", err);
    if (s) return s;
    e->run = qkv_path_exists(path);
    if (!e->run) {
        snprintf(e->model, sizeof e->model, "%s", dir);
        return QKV_OK;
    }
    s = qkv_path_join(e->model, dir, "model", err);
    if (!s && !qkv_path_exists(e->model))
        s = qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = dir },
                     "the run has no model yet, expected a checkpoint");
    const struct qkv_train_options as_it_is = { .run = dir, .resume = true };
    return s ? s : train_config_read(&e->config, &as_it_is, err);
}

static qkv_status open_model(struct eval *e, qkv_error *err)
{
    const char *wanted = e->o->objective ? e->o->objective : e->config.o.objective;
    const char *precision = e->o->precision ? e->o->precision : "f32";
    const int objective = wanted ? train_word(task_objectives, wanted) : -1;
    char all[200];
    if (wanted && objective < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "objective, expected one of %s, found '%.80s'",
                        train_words(all, task_objectives), wanted);
    if (!qkv_precision_parse(&e->how.precision, precision))
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "precision, found '%.80s'", precision);
    if (e->run) e->how.temperature = (real)train_real(e->config.o.temperature, 0);
    const int labels = 0;
    qkv_status s = qkv_net_open(&e->net, e->model, &e->how, labels, 0, err);
    if (!s) s = qkv_net_ablate(e->net, e->o->ablate, e->o->ablations, err);
    if (!s) s = qkv_tokenizer_open(&e->tokenizer, e->model, err);
    if (s) return s;
    const struct qkv_net_shape *shape = qkv_net_shape(e->net);
    e->objective = wanted ? (enum qkv_objective)objective : train_objective_of(e->net);
    e->context = e->o->context         ? e->o->context
                 : e->config.o.context ? e->config.o.context
                                       : qkv_min64(1024, shape->positions);
    const int64_t most = qkv_max64(2, shape->positions - (e->objective == QKV_OBJECTIVE_SEQ2SEQ));
    if (e->o->context > most) return train_fail_context(e->model, e->o->context, most, e->net, err);
    e->context = qkv_max64(2, qkv_min64(e->context, most));
    return QKV_OK;
}

// The texts as a dataset, in a folder that goes with it.
static qkv_status make_data(struct eval *e, char dir[QKV_PATH], qkv_error *err)
{
    const char *base = getenv("TMPDIR");
    char data[QKV_PATH];
    const int n = snprintf(dir, QKV_PATH, "%s/qkv-eval-XXXXXX", base && *base ? base : "/tmp");
    if (n < 0 || n >= QKV_PATH || !mkdtemp(dir)) {
        const int code = errno;
        *dir = 0;
        return qkv_fail_errno(err, base ? base : "/tmp", "cannot make a folder", code);
    }
    qkv_corpus *corpus = NULL;
    struct qkv_data_options how = { .objective = e->objective,
                                    .context = e->context,
                                    .any_length = true,
                                    .progress = e->watch.progress };
    qkv_status s = qkv_path_join(data, dir, "data", err);
    if (!s) s = train_ends(e->tokenizer, &how, err);
    if (!s) s = qkv_corpus_open(&corpus, &e->o->texts, e->objective, err);
    how.train = how.valid = e->o->texts; // both splits: only the second is looked at
    how.train_opened = how.valid_opened = corpus;
    if (!s) s = qkv_data_make(data, &how, e->tokenizer, NULL, err);
    if (!s) s = qkv_data_open(&e->data, data, err);
    qkv_corpus_close(corpus);
    return s;
}

static void remove_data(const char *dir)
{
    char data[QKV_PATH];
    if (!*dir) return;
    if (!qkv_path_join(data, dir, "data", NULL)) qkv_disk_remove_folder(data);
    qkv_disk_rmdir(dir);
}

static qkv_status open_data(struct eval *e, char dir[QKV_PATH], qkv_error *err)
{
    char path[QKV_PATH];
    qkv_status s = QKV_OK;
    if (e->run) s = qkv_path_join(path, e->o->dir, "data", err);
    if (!s && e->o->texts.n) {
        s = make_data(e, dir, err);
        if (!s && e->run && e->objective == QKV_OBJECTIVE_CLASSIFY)
            s = qkv_data_open(&e->trained, path, err);
    } else if (!s && e->run) {
        s = qkv_data_open(&e->data, path, err);
        if (!s && qkv_data_info(e->data).objective == QKV_OBJECTIVE_CLASSIFY)
            s = qkv_data_open(&e->trained, path, err);
    } else if (!s) {
        s = qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = e->o->dir },
                     "no text to evaluate on, expected files, or a run with its own");
    }
    if (s) return s;
    e->info = qkv_data_info(e->data);
    if (e->info.objective != e->objective)
        return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = e->o->dir },
                        "the run's text is for %s, expected files for %s",
                        task_objectives[e->info.objective], task_objectives[e->objective]);
    return QKV_OK;
}

// ---- numbers ------------------------------------------------------------------------------------
static qkv_status measure_loss(struct eval *e, qkv_error *err)
{
    struct train_valid v;
    struct qkv_drawn room = { 0 };
    struct qkv_eval_result *r = e->result;
    const qkv_status s =
        train_validate(&v, e->net, &e->how, e->data, &e->draw, &room, &e->watch.progress, err);
    qkv_drawn_free(&room);
    if (s) return s;
    r->sequences = v.sequences;
    r->targets = v.loss.rows;
    r->loss = v.loss.sum / (double)v.loss.rows;
    r->perplexity = exp(r->loss);
    r->accuracy = (double)v.loss.right / (double)v.loss.rows;
    if (v.bytes) r->bits_per_byte = v.loss.sum / log(2.0) / (double)v.bytes;
    return QKV_OK;
}

static qkv_status measure(struct eval *e, qkv_error *err)
{
    e->result->objective = task_objectives[e->objective];
    if (e->objective == QKV_OBJECTIVE_CLASSIFY) return eval_labels(e, err);
    qkv_status s = measure_loss(e, err);
    if (!s && e->objective == QKV_OBJECTIVE_SEQ2SEQ) s = eval_pairs(e, err);
    if (!s && e->objective == QKV_OBJECTIVE_CONTRASTIVE) {
        e->result->perplexity = (double)NAN;
        s = eval_retrieval(e, err);
    }
    return s;
}

static qkv_status draws(struct eval *e, qkv_error *err)
{
    const struct qkv_train_options *run = &e->config.o;
    const struct qkv_train_options o = {
        .run = e->o->dir,
        .batch_tokens = e->o->batch_tokens ? e->o->batch_tokens : 4096,
        .batch_sequences = e->run                                      ? run->batch_sequences
                           : e->objective == QKV_OBJECTIVE_CONTRASTIVE ? 64
                                                                       : 0,
        .seed = train_int(e->o->seed, run->seed),
        .mask_share = run->mask_share > 0 ? run->mask_share : .15
    };
    return train_draw(&e->draw, &o, e->objective, e->net, e->tokenizer, e->info.vocab, err);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

qkv_status qkv_evaluate(const struct qkv_eval_options *o, const struct qkv_eval_watch *watch,
                        struct qkv_eval_result *result, qkv_error *err)
{
    const double begun = now(), unknown = (double)NAN;
    char temp[QKV_PATH] = "";
    if (!o || !result || !o->dir)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "nothing to evaluate, or no place for the result");
    struct eval *e = qkv_alloc_zero(1, sizeof *e);
    if (!e) return qkv_fail_memory(err, o->dir);
    *result = (struct qkv_eval_result){ .loss = unknown,
                                        .perplexity = unknown,
                                        .bits_per_byte = unknown,
                                        .accuracy = unknown,
                                        .retrieval = unknown,
                                        .exact = unknown,
                                        .token_errors = unknown,
                                        .character_errors = unknown };
    e->o = o;
    e->result = result;
    if (watch) e->watch = *watch;
    qkv_status s = find_model(e, err);
    if (!s) s = open_model(e, err);
    if (!s) s = open_data(e, temp, err);
    if (!s) s = draws(e, err);
    if (!s) s = measure(e, err);
    result->seconds = now() - begun;
    qkv_data_close(e->data);
    qkv_data_close(e->trained);
    qkv_net_free(e->net);
    qkv_tokenizer_close(e->tokenizer);
    train_config_free(&e->config);
    remove_data(temp);
    qkv_free(e);
    return s;
}
