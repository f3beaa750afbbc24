// SPDX-License-Identifier: MIT
// training_axis.c: computes the axes of training charts (the scales, and the bins that join
// neighbouring points), and writes the sentence that describes the curves.
#include "view/chart/training_chart.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

int training_bins(struct training_bin out[TRAINING_BINS], const struct training_series *s,
                  int64_t first, int64_t last, int most)
{
    int n = 0, at = -1;
    int64_t count = 0;
    const double width = (double)(last - first + 1) / (double)most;
    for (int64_t i = 0; i < s->n; i++) {
        const double x = s->at[i].value, step = (double)s->at[i].step;
        const int bin = (int)((step - (double)first) / width);
        if (bin != at || !n) {
            at = bin;
            count = 0;
            out[n++] = (struct training_bin){ .low = x, .high = x };
        }
        struct training_bin *b = &out[n - 1];
        count++;
        b->mean += (x - b->mean) / (double)count;
        b->step += (step - b->step) / (double)count;
        b->low = fmin(b->low, x);
        b->high = fmax(b->high, x);
    }
    return n;
}

struct chart_scale training_scale_of(const struct qkv_plot *p, enum training_kind kind)
{
    struct training_bin bins[TRAINING_BINS];
    double low = INFINITY, high = -INFINITY;
    const int last = kind == TRAINING_LOSS ? TRAINING_VALID : (int)kind;
    for (int64_t r = 0; r < p->runs; r++)
        for (int k = (int)kind; k <= last; k++) {
            const struct training_series *s = &p->run[r].series[k];
            const int n = training_bins(bins, s, p->first, p->last, TRAINING_BINS);
            for (int i = 0; i < n; i++) {
                low = fmin(low, bins[i].mean);
                high = fmax(high, bins[i].mean);
            }
        }
    if (!(low <= high)) return (struct chart_scale){ 0, 1, false };
    struct chart_scale s = { low, high, false };
    if (kind == TRAINING_RATE) s.low = 0;
    // A wide range of values gets a logarithmic scale, so that the end of the curve can be seen.
    s.log = kind != TRAINING_RATE && low > 0 && high / low > (kind == TRAINING_NORM ? 8 : 3);
    if (s.log) {
        s.low = low / 1.1;
        s.high = high * 1.1;
        return s;
    }
    const double capacity = (s.high - s.low) * .06;
    if (kind != TRAINING_RATE) s.low = s.low >= 0 ? fmax(0, s.low - capacity) : s.low - capacity;
    s.high += capacity;
    if (!(s.high > s.low)) { // the curve is constant
        s.low -= fabs(s.low) * .5 + 1e-12;
        s.high += fabs(s.high) * .5 + 1e-12;
    }
    return s;
}

const char *training_question(const struct qkv_plot *p)
{
    return p->probes ? "When do heads concentrate on few keys?" : "How far has the model learnt?";
}

static void say_steps(struct view_text *t, int64_t n)
{
    view_count(t, n);
    view_say(t, n == 1 ? " step" : " steps");
}

static void say_run(struct view_text *t, const struct qkv_plot_info *i)
{
    view_say(t, "After ");
    say_steps(t, i->steps);
    if (isfinite(i->valid)) {
        view_say(t, " the validation loss is ");
        view_number(t, i->valid, 3);
        if (i->best < i->valid) {
            view_say(t, "; its minimum, ");
            view_number(t, i->best, 3);
            view_say(t, ", was at step ");
            view_count(t, i->best_step);
        } else {
            view_say(t, ", its minimum so far");
        }
        if (isfinite(i->last)) view_say(t, "; ");
    }
    if (isfinite(i->last)) {
        view_say(t, isfinite(i->valid) ? "the training loss went from "
                                       : " the training loss went from ");
        view_number(t, i->first, 3);
        view_say(t, " to ");
        view_number(t, i->last, 3);
    }
    view_say(t, ".");
}

// Writes how an entropy changed, with at least two digits after the point, and as many as tell both
// numbers apart.  A change of less than 1e-6 bits is none.
static void say_change(struct view_text *t, double from, double to, const char *verb)
{
    int digits = 2;
    while (digits < 6 && round(from * pow(10, digits)) == round(to * pow(10, digits))) digits++;
    if (round(from * 1e6) == round(to * 1e6)) {
        view_say(t, " stayed at ");
        view_number(t, to, 2);
    } else {
        view_say(t, "%s", verb);
        view_number(t, from, digits);
        view_say(t, " to ");
        view_number(t, to, digits);
    }
    view_say(t, " bits");
}

static void say_probes(struct view_text *t, const struct training_run *run)
{
    int64_t best = -1, sharp = 0;
    double most = 0;
    const int64_t n = run->layers * run->heads;
    for (int64_t h = 0; h < n; h++) {
        const struct training_series *s = &run->head[h];
        if (!s->n) continue;
        const double fell = s->at[0].value - s->at[s->n - 1].value;
        sharp += s->at[s->n - 1].value < 1;
        if (best < 0 || fell > most) {
            most = fell;
            best = h;
        }
    }
    if (best < 0) return;
    const struct training_series *s = &run->head[best];
    view_say(t, "In ");
    say_steps(t, s->at[s->n - 1].step);
    view_say(t, " the entropy of head L%" PRId64 ".H%" PRId64, best / run->heads,
             best % run->heads);
    say_change(t, s->at[0].value, s->at[s->n - 1].value,
               most > 0 ? " fell most, from " : " went from ");
    view_say(t,
             "; the weights of %" PRId64 " of %" PRId64
             " heads are now concentrated on less than two keys.",
             sharp, n);
}

void training_sentence(struct view_text *t, const struct qkv_plot *p)
{
    if (p->probes) {
        say_probes(t, &p->run[0]);
        return;
    }
    if (p->runs == 1) {
        const struct qkv_plot_info i = qkv_plot_info(p, 0);
        say_run(t, &i);
        return;
    }
    int64_t best = -1;
    double least = INFINITY;
    bool valid = false;
    for (int64_t r = 0; r < p->runs; r++) valid |= p->run[r].series[TRAINING_VALID].n > 0;
    for (int64_t r = 0; r < p->runs; r++) {
        const struct qkv_plot_info i = qkv_plot_info(p, r);
        const double x = valid ? i.best : i.last;
        if (x < least) {
            least = x;
            best = r;
        }
    }
    if (best < 0) return;
    const struct qkv_plot_info i = qkv_plot_info(p, best);
    view_say(t, "Of %" PRId64 " runs “%s” has the lowest %s loss: ", p->runs, i.name,
             valid ? "validation" : "training");
    view_number(t, least, 3);
    view_say(t, valid ? ", at step " : ", after ");
    if (valid) {
        view_count(t, i.best_step);
    } else {
        say_steps(t, i.steps);
    }
    view_say(t, ".");
}

char *qkv_plot_sentence(const qkv_plot *p, char *out, size_t size)
{
    struct view_text t = { 0 };
    if (!out || !size) return out;
    out[0] = 0;
    if (!p) return out;
    training_sentence(&t, p);
    view_text_copy(out, size, &t);
    view_text_free(&t);
    return out;
}
