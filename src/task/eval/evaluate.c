// SPDX-License-Identifier: MIT
// evaluate.c: evaluates a model. Opens the model and the text to evaluate it on (given files, or
// the validation text of its training run), and calls the measurement of its objective.
#define _GNU_SOURCE
#include "task/eval/eval_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

qkv_status eval_progress(const struct eval *e, const char *what, int64_t done, int64_t total,
                         qkv_error *err)
{
    const struct qkv_progress *p = &e->observer.progress;
    if (!p->step || !p->step(p->user, what, done, total)) return QKV_OK;
    return qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
}

// ---- model and objective ------------------------------------------------------------------------
// Determines the model folder. If the caller names the folder of a training run, the model is the
// run's newest checkpoint, and the options of the run are read.
static qkv_status find_model(struct eval *e, qkv_error *err)
{
    char path[QKV_PATH];
    const char *dir = e->o->dir;
    qkv_status status = qkv_path_join(path, dir, "run.json", err);
    if (status) return status;
    e->run = qkv_path_may_exist(path);
    if (!e->run) {
        snprintf(e->dir, sizeof e->dir, "%s", dir);
        return QKV_OK;
    }
    status = qkv_path_join(e->dir, dir, "model", err);
    if (!status && !qkv_path_may_exist(e->dir))
        status = qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = dir },
                          "run has no model yet, expected a checkpoint");
    const struct qkv_train_options as_it_is = { .run = dir, .resume = true };
    return status ? status : train_config_read(&e->config, &as_it_is, err);
}

// Returns the default objective of a model.
static enum qkv_objective objective_of(const struct qkv_model_info *is)
{
    if (is->can & QKV_CAN_LABELS && !(is->can & QKV_CAN_TOKENS)) return QKV_OBJECTIVE_CLASSIFY;
    if (is->kind == QKV_KIND_DECODER) return QKV_OBJECTIVE_CAUSAL;
    if (is->kind == QKV_KIND_ENCODER_DECODER) return QKV_OBJECTIVE_SEQ2SEQ;
    return is->can & QKV_CAN_LABELS ? QKV_OBJECTIVE_CLASSIFY : QKV_OBJECTIVE_MASKED;
}

// Describes, for an error message, the kind of model that an objective needs. Returns NULL if this
// model fits.
static const char *wanted_model(const struct qkv_model_info *is, enum qkv_objective o)
{
    const bool tokens = is->can & QKV_CAN_TOKENS;
    switch (o) {
    case QKV_OBJECTIVE_CAUSAL:
        return tokens && is->kind == QKV_KIND_DECODER ? NULL
                                                      : "a decoder with an output projection";
    case QKV_OBJECTIVE_MASKED:
        return tokens && is->kind == QKV_KIND_ENCODER ? NULL
                                                      : "an encoder with a head for masked tokens";
    case QKV_OBJECTIVE_SEQ2SEQ:
        return tokens && is->kind == QKV_KIND_ENCODER_DECODER ? NULL : "an encoder-decoder";
    case QKV_OBJECTIVE_CONTRASTIVE:
        return is->kind != QKV_KIND_ENCODER_DECODER ? NULL : "an encoder";
    case QKV_OBJECTIVE_CLASSIFY:
        return is->can & QKV_CAN_LABELS && is->kind != QKV_KIND_ENCODER_DECODER
                   ? NULL
                   : "an encoder or a decoder with a head for labels";
    }
    return "another model";
}

// Opens the model and its tokenizer. For an encoder-decoder, opens a translator, which contains
// both.
static qkv_status open_folder(struct eval *e, qkv_error *err)
{
    const char *precision = e->o->precision ? e->o->precision : "f32";
    const int64_t beams = qkv_min64(qkv_max64(e->o->beam ? e->o->beam : 4, 1), 1024);
    struct qkv_generator_options o = { .model = { .ablate = e->o->ablate,
                                                  .ablations = e->o->ablations },
                                       .items = EVAL_SOURCES * beams };
    if (!qkv_precision_parse(&o.model.precision, precision))
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "precision, found '%.80s'", precision);
    qkv_status status = qkv_model_open(&e->opened, e->dir, &o.model, err);
    if (status) return status;
    e->is = qkv_model_info(e->opened);
    if (e->is.kind != QKV_KIND_ENCODER_DECODER) {
        status = qkv_tokenizer_open(&e->read, e->dir, err);
        e->model = e->opened;
        e->tokenizer = e->read;
        return status;
    }
    qkv_model_close(e->opened);
    e->opened = NULL;
    status = qkv_translator_open(&e->translator, e->dir, &o, err);
    if (status) return status;
    e->model = qkv_translator_model(e->translator);
    e->tokenizer = qkv_translator_tokenizer(e->translator);
    e->is = qkv_model_info(e->model);
    return QKV_OK;
}

static qkv_status open_model(struct eval *e, qkv_error *err)
{
    const char *wanted = e->o->objective ? e->o->objective : e->config.o.objective;
    const int objective = wanted ? train_word(task_objectives, wanted) : -1;
    char all[200];
    if (wanted && objective < 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "unknown objective, expected one of %s, found '%.80s'",
                        train_words(all, task_objectives), wanted);
    const qkv_status status = open_folder(e, err);
    if (status) return status;
    e->objective = wanted ? (enum qkv_objective)objective : objective_of(&e->is);
    const char *other = wanted_model(&e->is, e->objective);
    if (other) return qkv_unfit(e->model, other, err);
    e->context = e->o->context         ? e->o->context
                 : e->config.o.context ? e->config.o.context
                                       : qkv_min64(1024, e->is.positions);
    const int64_t most = qkv_max64(2, e->is.positions - (e->objective == QKV_OBJECTIVE_SEQ2SEQ));
    if (e->o->context > most)
        return train_fail_context(e->dir, e->o->context, most, e->is.positions, err);
    e->context = qkv_max64(2, qkv_min64(e->context, most));
    return QKV_OK;
}

// Makes a temporary folder that only this user can read, since it will contain the user's texts.
static qkv_status make_folder(struct eval *e, char dir[QKV_PATH], qkv_error *err)
{
    const char *base = getenv("TMPDIR");
    char target[QKV_PATH];
    if (!base || !*base) base = "/tmp";
    const qkv_status status = qkv_path_join(target, base, "qkv-eval", err);
    if (status) return status;
    qkv_temporaries_clear(target);
    if (qkv_temporary_folder(dir, &e->slot, &e->lock, target, 0700)) return QKV_OK;
    *dir = 0;
    return qkv_fail_errno(err, base, "cannot create a temporary folder", errno);
}

// Makes a dataset of the texts to evaluate on, in a temporary folder.
static qkv_status make_data(struct eval *e, char dir[QKV_PATH], qkv_error *err)
{
    char data[QKV_PATH];
    qkv_status status = make_folder(e, dir, err);
    if (status) return status;
    struct qkv_data_options how = { .objective = e->objective,
                                    .context = e->context,
                                    .evaluation = true,
                                    .progress = e->observer.progress };
    status = qkv_path_join(data, dir, "data", err);
    if (!status) status = train_ends(e->tokenizer, e->ids.eos, &how, err);
    if (!status) status = qkv_corpus_open(&e->corpus, &e->o->texts, e->objective, err);
    // a dataset needs both splits; the evaluation reads only valid
    how.train = how.valid = e->o->texts;
    how.train_opened = how.valid_opened = e->corpus;
    if (!status) status = qkv_data_make(data, &how, e->tokenizer, NULL, err);
    if (!status) status = qkv_data_open(&e->data, data, err);
    return status;
}

static void remove_data(const struct eval *e, const char *dir)
{
    if (!*dir) return;
    qkv_disk_remove_tree(dir);
    if (e->lock >= 0) close(e->lock);
    qkv_temporary_drop(e->slot);
}

static qkv_status open_data(struct eval *e, char dir[QKV_PATH], qkv_error *err)
{
    char path[QKV_PATH];
    qkv_status status = QKV_OK;
    if (e->run) status = qkv_path_join(path, e->o->dir, "data", err);
    if (!status && e->o->texts.n) {
        status = make_data(e, dir, err);
        if (!status && e->run && e->objective == QKV_OBJECTIVE_CLASSIFY)
            status = qkv_data_open(&e->trained, path, err);
    } else if (!status && e->run) {
        status = qkv_data_open(&e->data, path, err);
        if (!status && qkv_data_info(e->data).objective == QKV_OBJECTIVE_CLASSIFY)
            status = qkv_data_open(&e->trained, path, err);
    } else if (!status) {
        status = qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = e->o->dir },
                          "no text to evaluate on, expected files, or a run with its own text");
    }
    if (status) return status;
    e->info = qkv_data_info(e->data);
    if (e->info.objective != e->objective)
        return qkv_fail(
            err, QKV_ERR_USAGE, &(struct qkv_location){ .file = e->o->dir },
            "validation text of the run is for objective %s, expected files for objective %s",
            task_objectives[e->info.objective], task_objectives[e->objective]);
    return QKV_OK;
}

// ---- numbers ------------------------------------------------------------------------------------
static qkv_status measure(struct eval *e, qkv_error *err)
{
    e->result->objective = task_objectives[e->objective];
    if (e->objective == QKV_OBJECTIVE_CLASSIFY) return eval_labels(e, err);
    if (e->objective == QKV_OBJECTIVE_CONTRASTIVE) return eval_vectors(e, err);
    const qkv_status status = eval_tokens(e, err);
    return status || e->objective != QKV_OBJECTIVE_SEQ2SEQ ? status : eval_pairs(e, err);
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
    return train_draw(&e->draw, &o, e->objective, &e->ids, e->tokenizer, e->info.vocab, err);
}

qkv_status qkv_evaluate(const struct qkv_eval_options *o, const struct qkv_eval_observer *observer,
                        struct qkv_eval_result *result, qkv_error *err)
{
    const double begun = qkv_seconds(), unknown = (double)NAN;
    char temp[QKV_PATH] = "";
    if (!o || !result || !o->dir)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_evaluate: expected a folder to evaluate and a struct for the result, found NULL");
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
    if (observer) e->observer = *observer;
    qkv_status status = find_model(e, err);
    if (!status) status = open_model(e, err);
    if (!status) status = train_ids_read(&e->ids, e->dir, e->objective, e->tokenizer, err);
    if (!status) status = open_data(e, temp, err);
    if (!status) status = draws(e, err);
    if (!status) status = measure(e, err);
    result->seconds = qkv_seconds() - begun;
    qkv_data_close(e->data);
    qkv_data_close(e->trained);
    qkv_corpus_close(e->corpus);
    qkv_translator_close(e->translator);
    qkv_tokenizer_close(e->read);
    qkv_model_close(e->opened);
    train_config_free(&e->config);
    remove_data(e, temp);
    qkv_free(e);
    return status;
}
