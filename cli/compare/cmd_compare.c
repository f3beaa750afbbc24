// SPDX-License-Identifier: MIT
// cmd_compare.c: implements `qkv compare`: compares the cost of attention with convolution,
// recurrence and approximations of attention, by formula and by measurement.
#include <stdlib.h>
#include <string.h>
#include "frame/child.h"
#include "compare/compare.h"

static struct {
    const char *n, *d, *kinds, *output;
    int64_t keys, width;
    double seconds;
    bool memory, causal, count;
} o = { .width = 3, .seconds = 0.03 };

static const struct opt opts[] = {
    OPT_TEXT('n', "n", &o.n, "N,N",
             "numbers of tokens (default: 128,512,2048,4096; with --memory 1024 to 32768)"),
    OPT_TEXT('d', "d", &o.d, "D,D",
             "widths of a token (default: 128,512; with --memory one head of width 64)"),
    OPT_TEXT(
        'k', "kinds", &o.kinds, "LIST",
        "kinds of layers, separated by commas: attention, multi-head, convolution, elman, gru, "
        "window, block-sparse, linear, performer, linformer, nystrom (default: all)"),
    OPT_INT('r', "keys", &o.keys, 1, 1 << 20, "R",
            "number of keys that each query of an approximation may use (default: 256)"),
    OPT_INT(0, "width", &o.width, 2, 1 << 10, "K",
            "width of the convolution, in tokens (default: 3)"),
    OPT_FLAG(0, "causal", &o.causal, "let no token attend to later tokens"),
    OPT_FLAG(0, "count", &o.count,
             "count operations, steps and path, without measuring (--seconds has no effect)"),
    OPT_FLAG(
        0, "memory", &o.memory,
        "compare the memory of dense attention, which stores n x n scores, with fused attention"),
    OPT_OUTPUT('o', "output", &o.output, "FILE", "also write a chart: .svg, .png or .html"),
    OPT_REAL(0, "seconds", &o.seconds, "S",
             "how many seconds a layer of one size is measured (default: 0.03); a run that has "
             "begun is completed"),
    OPT_END
};

static int by_size(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

// Parses a list of sizes, sorts it in ascending order, and removes duplicates.
static qkv_status sizes(const char *option, const char *text, int64_t most, int64_t **out,
                        int64_t *count, qkv_error *err)
{
    const qkv_status status = cmd_parse_ints(option, text, 1, most, out, count, err);
    int64_t n = 0;
    if (status) return status;
    if (*count > COMPARE_SIZES) {
        const int64_t found = *count;
        free(*out);
        *out = NULL;
        return cmd_error(err, QKV_ERR_USAGE, NULL, "%s: expected at most %d sizes, found %lld",
                         option, COMPARE_SIZES, (long long)found);
    }
    qsort(*out, (size_t)*count, sizeof **out, by_size);
    for (int64_t i = 0; i < *count; i++)
        if (!n || (*out)[i] != (*out)[n - 1]) (*out)[n++] = (*out)[i];
    *count = n;
    return QKV_OK;
}

static qkv_status parse_kinds(bool wanted[COMPARE_KINDS], qkv_error *err)
{
    for (int i = 0; i < COMPARE_KINDS; i++) wanted[i] = !o.kinds;
    for (const char *p = o.kinds; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        const size_t bytes = strcspn(p, ",");
        int i = 0;
        while (i < COMPARE_KINDS && (strlen(compare_baselines[i].name) != bytes ||
                                     memcmp(compare_baselines[i].name, p, bytes) != 0))
            i++;
        if (i < COMPARE_KINDS) {
            wanted[i] = true;
            continue;
        }
        char word[32];
        const char *names[COMPARE_KINDS + 1] = { NULL }, *near;
        for (i = 0; i < COMPARE_KINDS; i++) names[i] = compare_baselines[i].name;
        snprintf(word, sizeof word, "%.*s", (int)(bytes < 31 ? bytes : 31), p);
        near = cmd_nearest(word, names);
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--kinds: unknown kind '%s'%s%s%s", word,
                         near ? "; did you mean '"
                              : ", expected kinds of layers that 'qkv help compare' lists",
                         near ? near : "", near ? "'?" : "");
    }
    return QKV_OK;
}

// Returns the number of tokens n at which errors are measured. At this n every kind of layer is
// fast, and every approximation differs from exact attention.
static int64_t error_tokens(const struct compare_job *job)
{
    const int64_t most = job->n[job->n_count - 1];
    return most < 2048 ? most : 2048;
}

// The comparison of errors on a model. It runs first, so that errors in the model or the text are
// reported before the long measurements, and in a child process, so that this process has no thread
// yet when the layers are measured.
struct model_part {
    qkv_error err;
    struct compare_text t;
    struct compare_errors errors;
};
struct model_task {
    const struct compare_job *job;
    const char *text;
};
static void model_work(void *answer, void *ctx)
{
    struct model_part *m = answer;
    const struct model_task *t = ctx;
    m->t.text = t->text;
    compare_model(&m->errors, &m->t, t->job, &m->err);
}

static qkv_status compare(const struct compare_job *job, const char *text, qkv_error *err)
{
    struct compare_errors inputs[COMPARE_INPUTS];
    struct model_part *model = cmd_alloc(1, sizeof *model);
    struct model_task task = { job, text };
    struct compare_report r = { .job = job, .text = &model->t };
    struct compare_point *points =
        cmd_alloc((size_t)(COMPARE_KINDS * job->n_count * job->d_count), sizeof *points);
    qkv_status status = QKV_OK;
    if (text) {
        status = child_run(model, sizeof *model, model_work, &task, "the model", err);
        if (!status && (status = model->err.status)) *err = model->err;
    }
    if (!status) status = compare_measure(points, job, err);
    r.points = points;
    r.inputs_n = error_tokens(job);
    r.inputs_d = job->d[job->d_count - 1];
    if (!status) status = compare_on_inputs(inputs, job, r.inputs_n, r.inputs_d, err);
    if (!status) {
        r.inputs = inputs;
        if (text) r.model = &model->errors;
        if (o.output) status = (o.count ? compare_chart_counts : compare_chart)(o.output, &r, err);
        if (!status) (common.json ? compare_json : compare_print)(&r);
        if (!status) status = cmd_written(stdout, "standard output", err);
    }
    free(points);
    free(model);
    return status;
}

static qkv_status memory(const struct compare_job *job, qkv_error *err)
{
    struct compare_point fused[COMPARE_SIZES], dense[COMPARE_SIZES];
    qkv_status status = compare_memory(fused, dense, job, err);
    if (!status && o.output) status = compare_chart_memory(o.output, job, fused, dense, err);
    if (status) return status;
    (common.json ? compare_json_memory : compare_print_memory)(job, fused, dense);
    return cmd_written(stdout, "standard output", err);
}

static int run_compare(int argc, char **argv)
{
    qkv_error err = { 0 };
    int64_t *n = NULL, *d = NULL;
    const char *const all_n = o.memory ? "1024,2048,4096,8192,16384,32768" : "128,512,2048,4096";
    const char *const all_d = o.memory ? "64" : "128,512";
    struct compare_job job = { .keys = o.keys ? o.keys : 256,
                               .width = o.width,
                               .causal = o.causal,
                               .counted = o.count,
                               .seconds = o.seconds };
    if (!(o.seconds > 0 && o.seconds <= 3600))
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "--seconds: expected a number above 0, at most 3600, found %g", o.seconds);
    if (o.memory && (o.kinds || o.causal || o.count || argc))
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "--memory compares dense with fused attention, and cannot be combined with %s",
                  o.kinds    ? "--kinds"
                  : o.causal ? "--causal"
                  : o.count  ? "--count"
                             : "text");
    if (err.status || parse_kinds(job.wanted, &err) ||
        sizes("--n", o.n ? o.n : all_n, 1 << 24, &n, &job.n_count, &err) ||
        sizes("--d", o.d ? o.d : all_d, 1 << 16, &d, &job.d_count, &err))
        goto done;
    if (o.output && cmd_output_check(o.output, &err)) goto done;
    job.n = n;
    job.d = d;
    if (o.keys > n[0] && !o.memory) {
        int64_t at = 0;
        while (at + 1 < job.n_count && n[at + 1] < o.keys) at++;
        cmd_note("--keys %lld is limited to n: at most %lld keys at n = %lld", (long long)o.keys,
                 (long long)n[at], (long long)n[at]);
    }
    if (o.memory && job.d_count > 1) {
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "--d: expected a single width with --memory, found %lld", (long long)job.d_count);
        goto done;
    }
    if (compare_fits(&job, &err)) goto done;
    if (o.memory)
        memory(&job, &err);
    else
        compare(&job, argc ? argv[0] : NULL, &err);
done:
    free(n);
    free(d);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_compare = {
    .name = "compare",
    .brief = "compare attention with convolution, recurrence and efficient attention",
    .usage = "[TEXT] [options]\n--memory [options]",
    .about = "Compares one layer of each kind. First the number of operations, the sequential "
             "steps and the longest path between two tokens, as formulas and numbers. Then the "
             "measured time and memory over n tokens of width d, and from which n a kind is faster "
             "than exact attention. Then the errors of the approximations on the same queries, "
             "keys and values: on random numbers, on inputs with the structure that an "
             "approximation uses (local scores, smooth rows, small scores) and, with TEXT, on the "
             "numbers in every layer of a model; an output of 0 has error 1, and the error of the "
             "mean of the values is printed too. Linear attention with elu(x) + 1 approximates no "
             "softmax: it is for models that are trained with it. Every layer runs in a process of its own. The shortest time "
             "of several rounds is printed, since other programs use the machine too; with "
             "--threads 1, times are processor times.\n"
             "\n"
             "Attention is compared without its projections, as in the formulas, and with them as "
             "'multi-head'. No kind is trained: Linformer projects keys to means of segments; "
             "Nystrom and Performer follow their papers. An approximation may use --keys keys per "
             "query: as a window, as eight blocks of an eighth each, as random features or "
             "projected rows, or, for Nystrom, as a quarter as many landmarks.\n"
             "\n"
             "--count omits the measurements: the numbers that are left, and the chart of them, do not "
             "depend on the machine, but for rounding.\n"
             "\n"
             "--memory compares softmax(q k^T) v with a stored matrix of scores with the fused "
             "operator, for all n that fit into memory.",
    .opts = opts,
    .uses = USES_THREADS | USES_MODEL | USES_JSON | USES_OUTPUT,
    .max_args = 1,
    .examples = {
        { "qkv compare", "all kinds of layers, 128 to 4096 tokens" },
        { "qkv compare -k attention,convolution,elman -n 64,256 -d 64,256 --json",
          "three kinds of layers at two sizes, as JSON" },
        { "qkv compare --count -k attention,elman -n 64,512,4096 -o count.svg",
          "numbers of operations, and a chart of them" },
        { "qkv compare \"The animal didn't cross the street because it was too tired.\"",
          "also the errors on the activations of a model" },
        { "qkv compare --memory -o memory.svg", "dense attention compared with fused attention, and a chart" },
    },
    .run = run_compare,
};
