// SPDX-License-Identifier: MIT
// train.c: runs the training loop: batches, gradients and updates, and between them log lines,
// evaluations and checkpoints.
//
// The next step depends only on the weights, the moments and struct train_state: a batch is a
// function of its position, dropout a function of the step's number. Everything that belongs to
// step n (log line, probe, evaluation, checkpoint) is completed before the run can stop, so that a
// run that is interrupted and resumed has the same result as one without interruption.
#define _GNU_SOURCE
#include "task/train/train_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void train_note(const struct train *t, const char *format, ...)
{
    char text[1200];
    va_list list;
    if (!t->observer.note) return;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    t->observer.note(t->observer.user, text);
}

// ---- batches, prepared one step in advance -----------------------------------------------------
struct feed {
    const struct train *t;
    // position: position of the next batch; left: number of batches that must still be made
    int64_t position, left;
    struct qkv_drawn drawn[2];
    qkv_status status[2];
    qkv_error err[2];
};

static bool make_batch(void *ctx, int slot)
{
    struct feed *f = ctx;
    f->status[slot] =
        qkv_data_draw(f->t->data, &f->drawn[slot], f->position, &f->t->draw, &f->err[slot]);
    f->position = f->drawn[slot].next;
    return !f->status[slot] && --f->left > 0;
}

// ---- one step -----------------------------------------------------------------------------------
struct stepped {
    double loss, norm, rate;
    int64_t targets, rows;
    int64_t bad; // index of the first parameter with a nonfinite gradient; -1: all are finite
    bool finite;
};

// Returns the status of a part of the run in which the ranks of a group wait for each other. After
// an error of this rank they wait no longer.
static qkv_status leave_group(const struct train *t, qkv_status status)
{
    return t->ranks.share.size > 1 ? qkv_ranks_give_up(&t->comm, status) : status;
}

static qkv_status gradients(struct train *t, struct stepped *d, struct feed *f,
                            struct qkv_prefetch *a, qkv_error *err)
{
    struct qkv_loss *loss = t->ranks.loss;
    for (int64_t i = 0; i < t->o->accumulate; i++) {
        const int slot = qkv_prefetch_next(a);
        if (slot < 0) return qkv_fail(err, QKV_ERR_INTERNAL, NULL, "data has no batch to train on");
        const struct qkv_drawn *b = &f->drawn[slot];
        if (f->status[slot]) {
            if (err && !err->status) *err = f->err[slot];
            return f->status[slot];
        }
        loss[i] = (struct qkv_loss){ 0 };
        if (train_runs_batch(t, i)) {
            qkv_net_zero_gradients(t->net);
            qkv_status status =
                qkv_net_run(t->net, &loss[i], &b->batch, true, 1, (uint64_t)t->o->seed,
                            (uint64_t)(t->state.step * t->o->accumulate + i), err);
            if (!status) status = train_sum_batch(t, i, err);
            if (status) return status;
        }
        const struct qkv_sequences *source = &b->batch.source;
        d->rows += b->batch.in.offsets[b->batch.in.n];
        if (source->n) d->rows += source->offsets[source->n];
        t->state.position = b->next;
        t->state.epoch = b->epoch;
    }
    return QKV_OK;
}

// Adds up the gradients and losses of all batches, in an order that the number of ranks does not
// change.
static qkv_status add_up(struct train *t, struct stepped *d, qkv_error *err)
{
    double sum = 0;
    qkv_status status = train_sum_ranks(t, err);
    if (!status) status = train_collect_losses(t, err);
    if (status) return status;
    for (int64_t i = 0; i < t->o->accumulate; i++) {
        sum += t->ranks.loss[i].sum;
        d->targets += t->ranks.loss[i].rows;
    }
    d->loss = d->targets ? sum / (double)d->targets : 0;
    return QKV_OK;
}

// Updates the weights with the mean gradient over all targets. The gradient is clipped by its norm
// as in torch's clip_grad_norm_.
static qkv_status update(struct train *t, struct stepped *d, qkv_error *err)
{
    const double mean = d->targets ? 1 / (double)d->targets : 0;
    const double clip = train_real(t->o->clip, 0);
    d->rate = qkv_schedule_rate(&t->schedule, t->state.step);
    const qkv_status status = train_collect_squares(t, err);
    if (status) return status;
    d->norm = qkv_gradient_norm(t->ranks.squares, t->p, t->n, &d->bad) * mean;
    d->finite = isfinite(d->loss) && d->bad < 0;
    if (!d->finite || !d->targets) return QKV_OK;
    const double factor = clip > 0 && clip < d->norm + 1e-6 ? clip / (d->norm + 1e-6) : 1;
    qkv_optimizer_step(&t->optimizer, t->p, t->n, d->rate, factor * mean);
    return train_collect_weights(t, err);
}

// Returns x for a message. A NaN is returned without sign, so that it is printed as "nan", not
// "-nan".
static double unsigned_nan(double x)
{
    return isnan(x) ? (double)NAN : x;
}

// Ends the run after a step whose loss or gradient is nonfinite. If the weights are finite, saves
// them with the state before the step.
static qkv_status fail_bad(struct train *t, const struct train_state *before,
                           const struct stepped *d, qkv_error *err)
{
    const int64_t weights = qkv_parameter_bad(t->p, t->n), bad = weights >= 0 ? weights : d->bad;
    char tensor[300] = "no tensor with a nonfinite number is known",
         kept[200] = "no checkpoint with finite weights is saved";
    t->state = *before;
    if (weights < 0) train_save(t);
    if (t->saved_step >= 0)
        snprintf(kept, sizeof kept,
                 "the last finite weights are saved in the checkpoint of step %" PRId64,
                 t->saved_step);
    if (bad >= 0)
        snprintf(tensor, sizeof tensor, "the first nonfinite tensor is %s\"%.200s\"",
                 weights >= 0 ? "" : "the gradient of ", t->p[bad].name);
    return qkv_fail(err, QKV_ERR_INTERNAL, NULL,
                    "step %" PRId64
                    ": loss or gradient is not finite (loss %g, gradient norm %g); %s; %s",
                    before->step + 1, unsigned_nan(d->loss), unsigned_nan(d->norm), tensor, kept);
}

// ---- logs and checkpoints -----------------------------------------------------------------------
static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

// If the last line of the log could not be written, reports it. The first such error becomes the
// result of the run.
static void check_line(struct train *t, struct train_log *l)
{
    char line[1024];
    if (!l->status) return;
    train_note(t, "line of the log could not be written: %s",
               qkv_error_line(line, sizeof line, &l->err));
    if (!t->log_error.status) t->log_error = l->err;
}

static void log_step(struct train *t, const struct stepped *d)
{
    json_t *line = json_pack("{sIsosososIso}", "step", (json_int_t)t->state.step, "loss",
                             number(d->loss), "rate", number(d->rate), "norm", number(d->norm),
                             "tokens", (json_int_t)d->targets, "epoch", number(t->state.epoch));
    if (line && !d->finite) json_object_set_new(line, "skipped", json_true());
    train_log_line(&t->log, line);
    json_decref(line);
    check_line(t, &t->log);
}

static qkv_status evaluate(struct train *t, qkv_error *err)
{
    struct train_valid v;
    struct train_state *s = &t->state;
    const qkv_status status =
        train_validate(&v, t->net, &t->how, t->data, &t->draw, &t->valid, NULL, err);
    if (status) return status;
    s->valid_loss = v.loss.rows ? v.loss.sum / (double)v.loss.rows : (double)NAN;
    json_t *line =
        json_pack("{sIsososI}", "step", (json_int_t)s->step, "valid_loss", number(s->valid_loss),
                  "valid_accuracy", number((double)v.loss.right / (double)v.loss.rows),
                  "valid_tokens", (json_int_t)v.loss.rows);
    if (line && v.bytes)
        json_object_set_new(line, "bits_per_byte", number(v.loss.sum / log(2.0) / (double)v.bytes));
    train_log_line(&t->log, line);
    json_decref(line);
    check_line(t, &t->log);
    if (isfinite(s->valid_loss) && (s->best_step < 0 || !(s->valid_loss >= s->best_loss))) {
        s->best_loss = s->valid_loss;
        s->best_step = s->step;
        s->bad_evaluations = 0;
    } else {
        s->bad_evaluations++;
    }
    return QKV_OK;
}

static bool stopped_early(const struct train *t)
{
    return t->o->patience > 0 && t->state.bad_evaluations >= t->o->patience;
}

// Does what the options request after this step: probe, evaluation, checkpoint.
static qkv_status after_step(struct train *t, qkv_error *err)
{
    const struct qkv_train_options *o = t->o;
    const int64_t n = t->state.step;
    const bool last = n == o->steps;
    qkv_status status = QKV_OK;
    if (train_leads(t) && o->probe_every && n % o->probe_every == 0) status = train_probe(t, err);
    check_line(t, &t->probes);
    if (!status && (last || n % o->eval_every == 0)) status = leave_group(t, evaluate(t, err));
    status = train_agree(t, status, err);
    if (status) return status;
    const bool best = o->patience > 0 && t->state.best_step == n;
    const bool kept = o->keep_every > 0 && n % o->keep_every == 0;
    if (last || best || kept || stopped_early(t) || n % o->save_every == 0) train_save(t);
    return QKV_OK;
}

// ---- the loop -----------------------------------------------------------------------------------
struct clock {
    // begin: time of the start of the run; last: time of the last step; rate: rows per second of
    // recent steps
    double begin, last, rate;
    int64_t first; // step at which this process began
};

static int tell(const struct train *t, const struct stepped *d, struct clock *c)
{
    const double at = qkv_seconds(), took = at - c->last;
    const int64_t done = t->state.step - c->first;
    // if the clock did not advance, the speed is unknown: use the previous one
    const double one = took > 0 ? (double)d->rows / took : c->rate;
    c->rate = done > 1 ? .9 * c->rate + .1 * one : one;
    c->last = at;
    if (!t->observer.step) return 0;
    const struct qkv_train_step seen = { .step = t->state.step,
                                         .steps = t->o->steps,
                                         .epoch = t->state.epoch,
                                         .tokens = d->targets,
                                         .tokens_second = c->rate,
                                         .loss = unsigned_nan(d->loss),
                                         .valid_loss = t->state.valid_loss,
                                         .rate = d->rate,
                                         .norm = unsigned_nan(d->norm),
                                         .left = fmax(0, at - c->begin) / (double)done *
                                                 (double)(t->o->steps - t->state.step) };
    return t->observer.step(t->observer.user, &seen);
}

static qkv_status one_step(struct train *t, struct feed *f, struct qkv_prefetch *a, struct clock *c,
                           qkv_error *err)
{
    const struct train_state before = t->state;
    struct stepped d = { .bad = -1 };
    qkv_status status = gradients(t, &d, f, a, err);
    status = train_agree(t, leave_group(t, status), err);
    if (!status) status = add_up(t, &d, err);
    if (!status) status = update(t, &d, err);
    if (status) return status;
    if (!d.finite && !t->o->skip_bad) return fail_bad(t, &before, &d, err);
    t->state.step++;
    t->state.targets += d.targets;
    t->state.bad_steps += !d.finite;
    t->state.loss = d.loss;
    log_step(t, &d);
    status = after_step(t, err);
    bool stop = !status && tell(t, &d, c);
    if (!status) status = train_any(t, &stop, err);
    if (status || !stop) return status;
    train_save(t);
    return qkv_fail(err, QKV_ERR_INTERRUPTED, NULL,
                    "training was interrupted after step %" PRId64 "%s", t->state.step,
                    t->saved_step == t->state.step ? "; its checkpoint is saved" : "");
}

static qkv_status loop(struct train *t, qkv_error *err)
{
    struct qkv_prefetch ahead;
    struct clock clock = { .begin = qkv_seconds(), .first = t->state.step };
    qkv_status status = QKV_OK;
    clock.last = clock.begin;
    if (t->state.step >= t->o->steps || stopped_early(t)) return QKV_OK;
    struct feed *f = qkv_alloc_zero(1, sizeof *f);
    if (!f) return qkv_ranks_give_up(&t->comm, qkv_fail_memory(err, NULL));
    f->t = t;
    f->position = t->state.position;
    f->left = (t->o->steps - t->state.step) * t->o->accumulate;
    qkv_prefetch_begin(&ahead, make_batch, f);
    if (train_leads(t) && t->o->probe_every && !t->state.step) status = train_probe(t, err);
    status = train_agree(t, status, err);
    while (!status && t->state.step < t->o->steps && !stopped_early(t))
        status = one_step(t, f, &ahead, &clock, err);
    qkv_prefetch_end(&ahead);
    for (int i = 0; i < 2; i++) qkv_drawn_free(&f->drawn[i]);
    qkv_free(f);
    return status;
}

// ---- a run --------------------------------------------------------------------------------------
// Prepares the run and its folder, on rank 0.
static qkv_status lead(struct train *t, const struct qkv_train_options *o, qkv_error *err)
{
    int64_t stale = 0;
    struct train_config *c = &t->config;
    if (!o->run)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "no folder given for the run, expected a path");
    qkv_status status = train_folder_check(o->run, o->resume, err);
    if (!status) status = train_lock_take(&t->lock, o->run, &stale, err);
    if (status) return status;
    if (stale)
        train_note(t,
                   "the previous trainer (process %" PRId64
                   ") was killed: training continues from its last checkpoint",
                   stale);
    train_folder_tidy(o->run);
    const bool fresh = !train_folder_is_run(o->run);
    status = train_config_read(c, o, err);
    if (!status) status = train_config_defaults(c, err);
    if (!status) status = train_export_check(&c->o, err);
    // Writing run.json makes a new folder a run. The run.json of an existing run is not changed
    // until all checks have passed.
    if (!status && fresh) status = train_config_write(c, err);
    if (!status) status = train_setup(t, err);
    // Write run.json again, now with the values that depend on the data and the model.
    if (!status) status = train_config_write(c, err);
    if (!status) status = train_log_open(&t->log, o->run, "log.jsonl", t->state.log_bytes, err);
    if (!status && c->o.probe_every)
        status = train_log_open(&t->probes, o->run, "probes.jsonl", t->state.probe_bytes, err);
    // If a new run fails here, remove its files, so that a corrected command can use the folder.
    if (status && fresh) train_folder_clear(o->run);
    if (!status && t->log.bytes < t->state.log_bytes)
        train_note(t,
                   "log.jsonl is shorter than at the last checkpoint: the missing lines are lost");
    return status;
}

// Opens the run that rank 0 has prepared.
static qkv_status follow(struct train *t, const struct qkv_train_options *o, qkv_error *err)
{
    struct train_config *c = &t->config;
    qkv_status status = train_config_read(c, o, err);
    if (!status && c->fresh)
        status = qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = o->run },
                          "run of rank 0 is not in this folder, expected a folder that all ranks "
                          "share");
    if (!status) status = train_config_defaults(c, err);
    return status ? status : train_setup(t, err);
}

static qkv_status begin(struct train *t, const struct qkv_train_options *o, qkv_error *err)
{
    t->o = &t->config.o;
    t->state = (struct train_state){
        .best_step = -1, .loss = (double)NAN, .valid_loss = (double)NAN, .best_loss = (double)NAN
    };
    t->saved_step = -1;
    qkv_status status = train_groups(t, o->context_ranks, err);
    if (status) return status;
    status = train_agree(t, train_leads(t) ? lead(t, o, err) : QKV_OK, err);
    if (status || t->comm.size == 1) return status;
    status = train_agree(t, train_leads(t) ? QKV_OK : follow(t, o, err), err);
    if (!status) status = train_same(t, err);
    const int64_t groups = train_group_count(t);
    if (!status && t->o->accumulate < groups)
        train_note(t,
                   "a step has fewer batches than there are %s (%" PRId64 " of %" PRId64
                   "): the others wait; --accumulate %" PRId64 " gives each one",
                   t->ranks.share.size > 1 ? "groups of ranks" : "ranks", t->o->accumulate, groups,
                   groups);
    return status;
}

static void report(const struct train *t, double begun, struct qkv_train_result *r)
{
    memset(r, 0, sizeof *r);
    for (int64_t i = 0; i < t->n; i++) r->parameters += t->p[i].count;
    r->steps = t->state.step;
    r->from_step = t->from_step;
    r->loss = unsigned_nan(t->state.loss);
    r->valid_loss = t->state.valid_loss;
    r->best_loss = t->state.best_loss;
    r->best_step = t->state.best_step;
    r->tokens = t->state.targets;
    r->bad_steps = t->state.bad_steps;
    r->seconds = qkv_seconds() - begun;
    r->stopped_early = stopped_early(t);
    if (t->saved_step >= 0)
        snprintf(r->model, sizeof r->model, "%s/checkpoint-%08" PRId64, t->o->run, t->saved_step);
}

static void end(struct train *t)
{
    train_log_close(&t->log);
    train_log_close(&t->probes);
    qkv_drawn_free(&t->valid);
    qkv_optimizer_free(&t->optimizer);
    train_ranks_end(t);
    qkv_net_free(t->net);
    qkv_data_close(t->data);
    qkv_tokenizer_close(t->tokenizer);
    train_config_free(&t->config);
    train_lock_leave(&t->lock);
}

// Completes the files of a run that has done all its steps.
static qkv_status finish(struct train *t, qkv_error *err)
{
    train_save(t); // if the last save failed, try again
    const bool unsaved = t->save_error.status && t->saved_step != t->state.step;
    if (unsaved) *err = t->save_error;
    if (!unsaved && t->log_error.status) *err = t->log_error;
    if (unsaved || t->log_error.status) return err->status;
    return train_leads(t) ? train_export(t, err) : QKV_OK;
}

qkv_status qkv_train(const struct qkv_train_options *o, const struct qkv_train_observer *observer,
                     struct qkv_train_result *result, qkv_error *err)
{
    const double begun = qkv_seconds();
    qkv_error own = { 0 };
    if (!o) return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_train: expected options, found NULL");
    if (!err) err = &own; // functions that save checkpoints need a struct for their errors
    struct train *t = qkv_alloc_zero(1, sizeof *t);
    if (!t) {
        const qkv_status lost = qkv_fail_memory(err, NULL);
        return o->ranks ? qkv_ranks_give_up(o->ranks, lost) : lost;
    }
    t->comm = o->ranks ? *o->ranks : (struct qkv_comm){ .size = 1 };
    if (observer && train_leads(t)) t->observer = *observer;
    qkv_status status = begin(t, o, err);
    if (!status) status = loop(t, err);
    if (!status) status = train_agree(t, finish(t, err), err);
    if (result) report(t, begun, result);
    end(t);
    qkv_free(t);
    return status;
}
