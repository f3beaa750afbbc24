// SPDX-License-Identifier: MIT
// compare_print.c: prints the comparison as tables or as JSON.
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "compare/compare.h"

enum { NAME = 13, CELL = 10, LINEAR = 7 }; // LINEAR: the row of compare_baselines

static const char *time_of(char out[16], double seconds)
{
    const double ms = 1e3 * seconds;
    snprintf(out, 16,
             ms >= 999.5  ? "%.2f s"
             : ms >= 99.5 ? "%.0f ms"
             : ms >= 9.95 ? "%.1f ms"
                          : "%.2f ms",
             ms >= 999.5 ? seconds : ms);
    return out;
}
static const char *count_of(char out[16], double x)
{
    static const char *const units[] = { "", " k", " M", " G", " T", " P" };
    int i = 0;
    for (; i < 5 && x >= 9999.5; i++) x /= 1000;
    snprintf(out, 16, "%.*f%s", x < 9.95 && i ? 1 : 0, x, units[i]);
    return out;
}

// Rounds a size to three digits, which is more than an interpolation between two sizes knows.
static double three_digits(double x)
{
    const double unit = pow(10, fmax(floor(log10(x)) - 2, 0));
    return floor(x / unit + .5) * unit;
}

static void machine(void)
{
    const char *const cpu = qkv_cpu_name();
    printf("f32, %s, %d thread%s%s%s", qkv_isa(), qkv_threads(), qkv_threads() == 1 ? "" : "s",
           *cpu ? ", " : "", cpu);
}

// Returns true if a formula of a kind that is shown contains this text.
static bool uses(const struct compare_job *job, const char *text)
{
    for (int kind = 0; kind < COMPARE_KINDS; kind++)
        if (job->wanted[kind] && (strstr(compare_baselines[kind].complexity, text) ||
                                  strstr(compare_baselines[kind].path, text)))
            return true;
    return false;
}

// Explains the letters and columns of the formulas that are shown.
static void legend(const struct compare_job *job)
{
    const bool k = uses(job, "/ k"), r = uses(job, "/ r");
    fputs("\nn tokens of d numbers", stdout);
    if (uses(job, "r")) printf("; r = %" PRId64 " keys per query", job->keys);
    if (uses(job, "k")) printf("; k = %" PRId64 " tokens wide", job->width);
    if (uses(job, "e")) fputs("; heads of e = 64 numbers", stdout);
    fputs("\noperations  multiplications and additions, according to the plan of the kernel\n"
          "path        layers between the two tokens that are farthest apart",
          stdout);
    if (k || r)
        printf(": a layer moves %s%s%s tokens,\n            without --causal", k ? "k/2" : "",
               k && r ? " or " : "", r ? "r/2" : "");
    puts(k ? "; dilated convolutions, which are not measured, need log_k n" : "");
}

static void formulas(const struct compare_report *r)
{
    const struct compare_job *job = r->job;
    const int64_t last = job->n_count - 1, d = job->d_count - 1;
    char ops[16], steps[16], path[16];
    printf("One layer: formulas, then their numbers at n = %" PRId64 ", d = %" PRId64 "\n\n",
           job->n[last], job->d[d]);
    printf("%-*s%-16s%-8s%-10s%12s%9s%8s\n", NAME, "kind", "per layer", "steps", "path",
           "operations", "steps", "path");
    for (int kind = 0; kind < COMPARE_KINDS; kind++) {
        const struct compare_point *p = compare_at(r->points, job, kind, d, last);
        if (!job->wanted[kind]) continue;
        printf("%-*s%-16s%-8s%-10s", NAME, compare_baselines[kind].name,
               compare_baselines[kind].complexity, compare_baselines[kind].steps,
               compare_baselines[kind].path);
        if (p)
            printf("%12s%9s%8s\n", count_of(ops, p->operations), count_of(steps, p->steps),
                   count_of(path, p->path));
        else
            printf("%12s%9s%8s\n", "-", "-", "-");
    }
    legend(job);
}

// Prints a table of the measured time, or memory, over n, at one d.
static void table(const struct compare_report *r, int64_t d, bool memory)
{
    const struct compare_job *job = r->job;
    char text[16];
    printf("\n%s, d = %" PRId64 "\n%-*s",
           memory ? "Memory in addition to inputs and outputs" : "Time", job->d[d], NAME, "n");
    for (int64_t n = 0; n < job->n_count; n++) printf("%*" PRId64, CELL, job->n[n]);
    putchar('\n');
    for (int kind = 0; kind < COMPARE_KINDS; kind++) {
        if (!job->wanted[kind]) continue;
        printf("%-*s", NAME, compare_baselines[kind].name);
        for (int64_t n = 0; n < job->n_count; n++) {
            const struct compare_point *p = compare_at(r->points, job, kind, d, n);
            printf("%*s", CELL,
                   !p       ? "-"
                   : memory ? cmd_bytes(text, p->grown, 1024)
                            : time_of(text, p->best));
        }
        putchar('\n');
    }
}

// Prints where the time of exact attention crosses the times of other kinds: along n at the
// `fixed`-th d or, if along_d, along d at the `fixed`-th n.
static void crossings_at(const struct compare_report *r, bool along_d, int64_t fixed)
{
    const struct compare_job *job = r->job;
    for (int kind = 1; kind < COMPARE_KINDS; kind++) {
        const struct compare_crossing c = compare_cross(r->points, job, kind, 0, along_d, fixed);
        if (!c.last) continue;
        const char *const grows = along_d ? "d" : "n";
        printf("  %s = %-6" PRId64 "%-*s%s ", along_d ? "n" : "d",
               along_d ? job->n[fixed] : job->d[fixed], NAME, compare_baselines[kind].name,
               c.faster ? "faster" : "slower");
        if (c.at > 0)
            printf("from %s = %.0f on", grows, three_digits(c.at));
        else
            printf("at every %s", grows);
        printf("; %.2g x the time at %s = %" PRId64 "\n", c.ratio, grows, c.last);
    }
}

static void crossings(const struct compare_report *r)
{
    const struct compare_job *job = r->job;
    if (!job->wanted[0] || (job->n_count < 2 && job->d_count < 2)) return;
    puts("\nFrom which n a kind is faster or slower than exact attention (interpolated between "
         "measured sizes)");
    for (int64_t d = 0; d < job->d_count && job->n_count > 1; d++) crossings_at(r, false, d);
    if (job->d_count > 1) crossings_at(r, true, job->n_count - 1);
}

static bool any(const struct compare_errors *e)
{
    for (int kind = 0; kind < COMPARE_KINDS; kind++)
        if (e->kind[kind].count) return true;
    return false;
}

// Prints an error in 9 columns, with two or three digits.
static void error_cell(double x)
{
    if (isfinite(x))
        printf(x == 0     ? "%9.0f"
               : x < .001 ? "%9.0e"
               : x < .1   ? "%9.3f"
               : x < 99.5 ? "%9.2f"
                          : "%9.1e",
               x);
    else
        printf("%9s", "overflow");
}

// Prints one line of a table of errors: of the mean of the values (kind -1) or of a kind. The
// columns are inputs, or the mean and the largest error over the heads of a model.
static void error_line(const struct compare_errors *e, int columns, int kind)
{
    printf("%-*s", NAME, kind < 0 ? "mean of v" : compare_baselines[kind].name);
    for (int i = 0; i < columns; i++)
        error_cell(kind < 0 ? e[i].average.mean : e[i].kind[kind].mean);
    if (columns == 1) error_cell(kind < 0 ? e->average.worst : e->kind[kind].worst);
    putchar('\n');
}

static void error_table(const struct compare_errors *e, int columns)
{
    printf("%-*s", NAME, "output 0");
    for (int i = 0; i < (columns == 1 ? 2 : columns); i++) error_cell(1);
    putchar('\n');
    error_line(e, columns, -1);
    for (int kind = 0; kind < COMPARE_KINDS; kind++)
        if (e->kind[kind].count) error_line(e, columns, kind);
}

static void errors(const struct compare_report *r)
{
    if (r->inputs && any(r->inputs)) {
        printf("\nError relative to exact attention, |out - exact| / |exact|, n = %" PRId64
               ", d = %" PRId64 ", by the structure of q, k and v\n%-*s",
               r->inputs_n, r->inputs_d, NAME, "kind");
        for (int i = 0; i < COMPARE_INPUTS; i++) printf("%9s", compare_inputs[i].name);
        putchar('\n');
        error_table(r->inputs, COMPARE_INPUTS);
        putchar('\n');
        for (int i = 0; i < COMPARE_INPUTS; i++)
            printf("%-8s%s; made for: %s\n", compare_inputs[i].name, compare_inputs[i].title,
                   compare_inputs[i].kinds);
        puts(
            "linear attention with elu(x) + 1 approximates no softmax: a model is trained with it");
    }
    if (!r->model || !any(r->model)) return;
    fputs("\nThe same on q, k and v of ", stdout);
    cmd_print_name(stdout, r->text->model);
    printf(", %" PRId64 " tokens, %" PRId64 " layers of %" PRId64
           " heads, r = a quarter of the tokens\n%-*s%9s%9s\n",
           r->text->tokens, r->text->layers, r->text->heads, NAME, "kind", "mean", "worst");
    error_table(r->model, 1);
}

void compare_print(const struct compare_report *r)
{
    formulas(r);
    if (r->job->counted) {
        errors(r);
        return;
    }
    printf("\nMeasured: shortest of several rounds, %s time; ",
           qkv_threads() == 1 ? "processor" : "wall clock");
    machine();
    putchar('\n');
    for (int64_t d = 0; d < r->job->d_count; d++) table(r, d, false);
    for (int64_t d = 0; d < r->job->d_count; d++) table(r, d, true);
    crossings(r);
    errors(r);
}

// ---- arrays of the caller ----------------------------------------------------------------------
static void arrays_line(const struct compare_report *r, const char *name,
                        const struct compare_point *p, const struct compare_error *e)
{
    char text[3][16];
    printf("%-*s%*s", NAME, name, CELL + 2, p ? count_of(text[0], p->operations) : "-");
    if (!r->job->counted)
        printf("%*s%*s", CELL, p ? time_of(text[1], p->best) : "-", CELL,
               p ? cmd_bytes(text[2], p->grown, 1024) : "-");
    if (e) {
        error_cell(e->mean);
        error_cell(e->worst);
        putchar('\n');
    } else
        printf("%9s%9s\n", "-", "-");
}

void compare_print_arrays(const struct compare_report *r)
{
    static const struct compare_error zero = { .mean = 1, .worst = 1 }, none = { 0 };
    const struct compare_job *job = r->job;
    const struct array *const all[] = { &job->arrays->q, &job->arrays->k, &job->arrays->v };
    char text[SHAPE_TEXT];
    for (int i = 0; i < 3; i++)
        printf("%s%s %s", i ? ", " : "", all[i]->what,
               array_shape(text, all[i]->rank, all[i]->shape));
    printf("%s; approximations may use r = %" PRId64 " keys per query\n\n",
           job->causal ? ", causal" : "", job->keys);
    printf("%-*s%*s", NAME, "kind", CELL + 2, "operations");
    if (!job->counted) printf("%*s%*s", CELL, "time", CELL, "memory");
    printf("%9s%9s\n", "error", "worst");
    arrays_line(r, "output 0", NULL, &zero);
    arrays_line(r, "mean of v", NULL, &r->arrays->average);
    for (int kind = 0; kind < COMPARE_KINDS; kind++) {
        const struct compare_point *p = compare_at(r->points, job, kind, 0, 0);
        const struct compare_error *e = kind ? &r->arrays->kind[kind] : &none;
        if (job->wanted[kind])
            arrays_line(r, compare_baselines[kind].name, p, p && (!kind || e->count) ? e : NULL);
    }
    printf("\nerror   |out - exact| / |exact|, the mean and the largest of %d head%s\n",
           r->arrays->average.count, r->arrays->average.count == 1 ? "" : "s");
    if (!job->counted) {
        printf("time    shortest of several rounds, %s time; ",
               qkv_threads() == 1 ? "processor" : "wall clock");
        machine();
        puts("\nmemory  in addition to inputs and outputs");
    }
    if (job->wanted[LINEAR])
        puts("linear attention with elu(x) + 1 approximates no softmax: a model is trained with "
             "it");
}

// ---- JSON --------------------------------------------------------------------------------------
// Counts are the same on every machine: they are printed without it.
static void json_open(const char *what, bool counted)
{
    const char *const cpu = qkv_cpu_name();
    printf("{\"compare\":\"%s\",\"version\":\"%s\"", what, qkv_version());
    if (counted) return;
    fputs(",\"cpu\":", stdout);
    cmd_json_text(stdout, cpu, strlen(cpu));
    printf(",\"isa\":\"%s\",\"threads\":%d,\"clock\":\"%s\"", qkv_isa(), qkv_threads(),
           qkv_threads() == 1 ? "processor" : "wall");
}

static void json_measured(const struct compare_point *p)
{
    printf("\"rounds\":%d,\"seconds\":{\"best\":%.9g,\"median\":%.9g},\"operations\":%.9g,"
           "\"memory\":%.0f}",
           p->rounds, p->best, p->median, p->operations, p->grown);
}

static void json_error(const struct compare_error *e)
{
    fputs("\"mean\":", stdout);
    cmd_json_float(stdout, (float)e->mean);
    fputs(",\"worst\":", stdout);
    cmd_json_float(stdout, (float)e->worst);
    putchar('}');
}

static void json_errors(const struct compare_errors *e)
{
    bool first = true;
    fputs("\"mean_of_values\":{", stdout);
    json_error(&e->average);
    fputs(",\"errors\":[", stdout);
    for (int kind = 0; kind < COMPARE_KINDS; kind++) {
        if (!e->kind[kind].count) continue;
        printf("%s{\"kind\":\"%s\",\"heads\":%d,", first ? "" : ",", compare_baselines[kind].name,
               e->kind[kind].count);
        json_error(&e->kind[kind]);
        first = false;
    }
    putchar(']');
}

static void json_points(const struct compare_report *r)
{
    const struct compare_job *job = r->job;
    bool first = true;
    fputs(",\"results\":[", stdout);
    for (int kind = 0; kind < COMPARE_KINDS; kind++)
        for (int64_t i = 0; i < job->d_count * job->n_count; i++) {
            const struct compare_point *p =
                compare_at(r->points, job, kind, i / job->n_count, i % job->n_count);
            if (!p) continue;
            printf("%s{\"kind\":\"%s\",\"n\":%" PRId64 ",\"d\":%" PRId64
                   ",\"steps\":%.0f,\"path\":%.0f,",
                   first ? "" : ",", compare_baselines[kind].name, p->n, p->d, p->steps, p->path);
            if (job->counted)
                printf("\"operations\":%.9g}", p->operations);
            else
                json_measured(p);
            first = false;
        }
    putchar(']');
}

static void json_crossing(const struct compare_report *r, int kind, bool along_d, int64_t fixed,
                          bool *first)
{
    const struct compare_job *job = r->job;
    const struct compare_crossing c = compare_cross(r->points, job, kind, 0, along_d, fixed);
    if (!c.last) return;
    printf("%s{\"kind\":\"%s\",\"along\":\"%s\",\"%s\":%" PRId64 ",\"at\":", *first ? "" : ",",
           compare_baselines[kind].name, along_d ? "d" : "n", along_d ? "n" : "d",
           along_d ? job->n[fixed] : job->d[fixed]);
    if (c.at > 0)
        printf("%.6g", c.at);
    else
        fputs("null", stdout);
    printf(",\"faster_then\":%s,\"last\":%" PRId64 ",\"ratio\":%.4g}", c.faster ? "true" : "false",
           c.last, c.ratio);
    *first = false;
}

static void json_crossings(const struct compare_report *r)
{
    const struct compare_job *job = r->job;
    bool first = true;
    fputs(",\"crossings\":[", stdout);
    for (int kind = 1; kind < COMPARE_KINDS && job->wanted[0]; kind++) {
        for (int64_t d = 0; d < job->d_count; d++) json_crossing(r, kind, false, d, &first);
        for (int64_t n = 0; n < job->n_count; n++) json_crossing(r, kind, true, n, &first);
    }
    putchar(']');
}

static void json_kinds(const struct compare_job *job)
{
    bool first = true;
    printf(",\"keys\":%" PRId64 ",\"width\":%" PRId64 ",\"causal\":%s,\"kinds\":[", job->keys,
           job->width, job->causal ? "true" : "false");
    for (int kind = 0; kind < COMPARE_KINDS; kind++) {
        const struct compare_kind *k = &compare_baselines[kind];
        if (!job->wanted[kind]) continue;
        printf("%s{\"kind\":\"%s\",\"title\":\"%s\",\"complexity\":\"%s\",\"steps\":\"%s\","
               "\"path\":\"%s\"}",
               first ? "" : ",", k->name, k->title, k->complexity, k->steps, k->path);
        first = false;
    }
    putchar(']');
}

void compare_json_arrays(const struct compare_report *r)
{
    const struct compare_arrays *a = r->job->arrays;
    const struct array *const all[] = { &a->q, &a->k, &a->v };
    json_open("arrays", r->job->counted);
    for (int i = 0; i < 3; i++) {
        printf(",\"%s\":[", all[i]->what);
        for (int axis = 0; axis < all[i]->rank; axis++)
            printf("%s%" PRId64, axis ? "," : "", all[i]->shape[axis]);
        putchar(']');
    }
    json_kinds(r->job);
    json_points(r);
    printf(",\"heads\":%d,", r->arrays->average.count);
    json_errors(r->arrays);
    puts("}");
}

void compare_json(const struct compare_report *r)
{
    const struct compare_job *job = r->job;
    json_open("kinds", job->counted);
    json_kinds(job);
    json_points(r);
    if (!job->counted) json_crossings(r);
    if (r->inputs) {
        printf(",\"inputs\":{\"n\":%" PRId64 ",\"d\":%" PRId64 ",\"cases\":[", r->inputs_n,
               r->inputs_d);
        for (int i = 0; i < COMPARE_INPUTS; i++) {
            printf("%s{\"name\":\"%s\",", i ? "," : "", compare_inputs[i].name);
            json_errors(&r->inputs[i]);
            putchar('}');
        }
        fputs("]}", stdout);
    }
    if (r->model) {
        fputs(",\"model\":{\"name\":", stdout);
        cmd_json_text(stdout, r->text->model, strlen(r->text->model));
        printf(",\"tokens\":%" PRId64 ",\"layers\":%" PRId64 ",\"heads\":%" PRId64 ",",
               r->text->tokens, r->text->layers, r->text->heads);
        json_errors(r->model);
        putchar('}');
    }
    puts("}");
}

// ---- dense and fused attention -----------------------------------------------------------------
void compare_print_memory(const struct compare_job *job, const struct compare_point *fused,
                          const struct compare_point *dense)
{
    char text[6][16];
    printf("Attention with one head of width %" PRId64
           ": by how much the peak memory of the process grows, and time; ",
           job->d[0]);
    machine();
    printf("\n\n%10s%14s%14s%14s%12s%12s\n", "n", "n x n floats", "dense grows", "fused grows",
           "dense", "fused");
    for (int64_t i = 0; i < job->n_count; i++) {
        const double n = (double)job->n[i];
        const bool fits = dense[i].status == QKV_OK;
        printf("%10" PRId64 "%14s%14s%14s%12s%12s\n", job->n[i],
               cmd_bytes(text[0], 4 * n * n, 1024),
               fits ? cmd_bytes(text[1], dense[i].grown, 1024) : "does not fit",
               cmd_bytes(text[2], fused[i].grown, 1024),
               fits ? time_of(text[3], dense[i].best) : "-", time_of(text[4], fused[i].best));
    }
    puts(
        "\ndense  softmax(q k^T) as a matrix, then its product with v\nfused  "
        "qkv_attention_forward: tiles of scores, which are used and discarded\nThe memory does not "
        "include q, k, v and out. \"does not fit\": it is more than 70 % of this machine's memory");
}

void compare_json_memory(const struct compare_job *job, const struct compare_point *fused,
                         const struct compare_point *dense)
{
    json_open("memory", false);
    printf(",\"d\":%" PRId64 ",\"results\":[", job->d[0]);
    for (int64_t i = 0; i < job->n_count; i++) {
        printf("%s{\"n\":%" PRId64 ",\"fused\":{", i ? "," : "", job->n[i]);
        json_measured(&fused[i]);
        if (dense[i].status == QKV_OK) {
            fputs(",\"dense\":{", stdout);
            json_measured(&dense[i]);
            putchar('}');
        } else
            fputs(",\"dense\":null}", stdout);
    }
    puts("]}");
}
