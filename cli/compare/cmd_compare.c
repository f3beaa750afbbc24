// SPDX-License-Identifier: MIT
// cmd_compare.c: implements `qkv compare`: compares the cost of attention with convolution,
// recurrence and approximations of attention, by formula and by measurement.
#include <stdlib.h>
#include <string.h>
#include "frame/child.h"
#include "compare/compare.h"

enum { QUERIES, KEYS, VALUES };

static struct {
    const char *n, *d, *kinds, *output, *arrays[3];
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
        0, "kinds", &o.kinds, "LIST",
        "kinds of layers, separated by commas: attention, multi-head, convolution, elman, gru, "
        "window, block-sparse, linear, performer, linformer, nystrom (default: all, or with -q "
        "attention and the approximations of it, which begin with window)"),
    OPT_INT('r', "keys", &o.keys, 1, 1 << 20, "R",
            "number of keys that each query of an approximation may use (default: 256, or with -q "
            "a quarter of the keys if these are fewer). With at most R tokens they may use every "
            "key, so window and Linformer are exact there"),
    OPT_INPUT('q', "query", &o.arrays[QUERIES], "FILE",
              "queries, as 'qkv attn' reads them: an array (T, E), (B, T, E) or (B, T, H, E)"),
    OPT_INPUT('k', "key", &o.arrays[KEYS], "FILE",
              "keys: an array (S, E), (B, S, E) or (B, S, G, E); G divides H"),
    OPT_INPUT('v', "value", &o.arrays[VALUES], "FILE",
              "values: an array (S, F), (B, S, F) or (B, S, G, F)"),
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

// Returns true if a kind of layer consists of q, k and v, and has no weights.
static bool reads_arrays(int kind)
{
    return !kind || compare_baselines[kind].scalable;
}

static qkv_status parse_kinds(bool wanted[COMPARE_KINDS], qkv_error *err)
{
    const bool arrays = o.arrays[QUERIES];
    for (int i = 0; i < COMPARE_KINDS; i++) wanted[i] = !o.kinds && (!arrays || reads_arrays(i));
    for (const char *p = o.kinds; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        const size_t bytes = strcspn(p, ",");
        int i = 0;
        while (i < COMPARE_KINDS && (strlen(compare_baselines[i].name) != bytes ||
                                     memcmp(compare_baselines[i].name, p, bytes) != 0))
            i++;
        if (i < COMPARE_KINDS && arrays && !reads_arrays(i))
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "--kinds: '%s' has weights, expected with -q attention or its "
                             "approximations, from window on",
                             compare_baselines[i].name);
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
    r.inputs_n = compare_error_tokens(job);
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

// The errors on the arrays of the caller, in a child process for the same reasons.
struct arrays_part {
    qkv_error err;
    struct compare_errors errors;
};
static void arrays_work(void *answer, void *ctx)
{
    struct arrays_part *a = answer;
    compare_on_arrays(&a->errors, ctx, &a->err);
}

// Compares on the arrays of the caller.
static qkv_status on_arrays(struct compare_job *job, qkv_error *err)
{
    struct arrays_part part;
    struct compare_point points[COMPARE_KINDS];
    struct compare_report r = { .job = job, .points = points, .arrays = &part.errors };
    qkv_status status = child_run(&part, sizeof part, arrays_work, job, "the arrays", err);
    if (!status && (status = part.err.status)) *err = part.err;
    if (!status) status = compare_measure(points, job, err);
    if (!status && o.output) status = compare_chart_arrays(o.output, &r, err);
    if (status) return status;
    (common.json ? compare_json_arrays : compare_print_arrays)(&r);
    return cmd_written(stdout, "standard output", err);
}

// Reads the arrays of the caller, and compares on them.
static qkv_status arrays(struct compare_job *job, const char *text, qkv_error *err)
{
    static const char *const options[] = { "-q", "-k", "-v" };
    struct compare_arrays a = { 0 };
    const char *const other = text       ? "text"
                              : o.memory ? "--memory"
                              : o.n      ? "-n, since the arrays have a size"
                              : o.d      ? "-d, since the arrays have a width"
                                         : NULL;
    for (int i = 0; i < 3; i++)
        if (!o.arrays[i])
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "%s FILE is missing, expected -q, -k and -v (and --kinds LIST for "
                             "kinds of layers)",
                             options[i]);
    if (other) return cmd_error(err, QKV_ERR_USAGE, NULL, "-q cannot be combined with %s", other);
    if (o.output && cmd_output_check(o.output, err)) return err->status;
    qkv_status status = compare_arrays_read(&a, o.arrays, err);
    const int64_t n = a.s.T, S = a.s.S, d = a.s.H * a.s.E;
    job->arrays = &a;
    job->n = &n;
    job->d = &d;
    job->n_count = job->d_count = 1;
    job->keys = o.keys ? o.keys < S ? o.keys : S : compare_few_keys(S);
    if (!status && o.keys > S)
        cmd_note("--keys %lld is limited to the %lld keys of the arrays", (long long)o.keys,
                 (long long)S);
    if (!status) status = compare_fits(job, err);
    if (!status) status = on_arrays(job, err);
    compare_arrays_free(&a);
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
    if (err.status || parse_kinds(job.wanted, &err)) goto done;
    if (o.arrays[QUERIES] || o.arrays[KEYS] || o.arrays[VALUES]) {
        arrays(&job, argc ? argv[0] : NULL, &err);
        goto done;
    }
    if (sizes("--n", o.n ? o.n : all_n, 1 << 24, &n, &job.n_count, &err) ||
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
    .usage = "[TEXT] [options]\n-q FILE -k FILE -v FILE [options]\n--memory [options]",
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
             "With -q, -k and -v, exact attention and each approximation run on your own arrays "
             "(.npy, .safetensors, '-', or typed numbers such as '[1 0; 0 1]'). Their operations, "
             "time, memory and errors are printed, the errors as the mean and the largest over the heads of "
             "all sequences, with the same baselines: an output of 0, and the mean of the values. "
             "The arrays have the sizes that 'qkv attn' accepts, without empty ones and with finite "
             "numbers. If they have not as many queries as keys, block-sparse is omitted and, with "
             "--causal, linear and performer.\n"
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
        { "qkv compare --kinds attention,convolution,elman -n 64,256 -d 64,256 --json",
          "three kinds of layers at two sizes, as JSON" },
        { "qkv compare --count --kinds attention,elman -n 64,512,4096 -o count.svg",
          "numbers of operations, and a chart of them" },
        { "qkv compare \"The animal didn't cross the street because it was too tired.\"",
          "also the errors on the activations of a model" },
        { "qkv compare -q q.npy -k k.npy -v v.npy --keys 64",
          "exact attention and approximations that may use 64 keys, on your own arrays" },
        { "qkv compare --memory -o memory.svg", "dense attention compared with fused attention, and a chart" },
    },
    .run = run_compare,
};
