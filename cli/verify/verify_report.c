// SPDX-License-Identifier: MIT
// verify_report.c: summarizes the cases of each kernel as a table or as JSON, with the verdict.
//
// A kernel must satisfy two rules. First, each number must be within its bound, which
// docs/numerics.md derives for any data; a kernel that exceeds the bound is wrong. Second, the
// kernel must be about as accurate as a program that follows the formula: error <= factor * error
// of the plain formula + 2 ulp, in the same type on the same data. Both errors of the second rule
// are random, and in a short case a single row decides. So this rule compares the largest errors of
// a group, which is all cases that differ only in their sizes. A single case may reach twice the
// factor.
#include "verify/verify.h"
#include <stdlib.h>
#include <string.h>

static struct verify_row **rows; // [count]; a row stays where it is
static int count;
static bool json_begun;

double verify_unit(qkv_dtype type)
{
    return type == QKV_BF16 ? VERIFY_U_BF16 : type == QKV_F16 ? VERIFY_U_F16 : VERIFY_U_F32;
}

double verify_ulp(qkv_dtype type, double x)
{
    int exponent = 0;
    const int least = type == QKV_F16 ? -14 : -126; // exponent of the smallest normal number
    if (isfinite(x)) frexp(x, &exponent);
    return ldexp(2 * verify_unit(type), (exponent - 1 > least ? exponent - 1 : least));
}

void verify_one_of(struct verify_measure *m, double got, double exact, double bound, double given)
{
    double error = fabs(got - exact);
    // two infinities of the same sign are equal too
    if (got == exact || (isnan(got) && isnan(exact))) error = 0;
    if (isnan(error)) error = INFINITY;
    m->n++;
    if (error > m->largest) m->largest = error;
    if (error - given > m->own) m->own = error - given;
    m->squares += error * error;
    if (isfinite(exact) && fabs(exact) > m->size) m->size = fabs(exact);
    const double share = error == 0 ? 0 : error / bound;
    if (!(share <= m->share)) m->share = isnan(share) ? (double)INFINITY : share;
}

static bool same(const char *a, const char *b)
{
    return !strcmp(a ? a : "", b ? b : "");
}

struct verify_row *verify_row(const char *kernel, const char *isa, const char *precision,
                              const char *arithmetic, qkv_dtype type, double factor)
{
    for (int i = 0; i < count; i++)
        if (same(rows[i]->kernel, kernel) && same(rows[i]->isa, isa) &&
            same(rows[i]->precision, precision) && same(rows[i]->arithmetic, arithmetic))
            return rows[i];
    struct verify_row *const row = cmd_alloc(1, sizeof *row);
    rows = cmd_grow(rows, (size_t)count + 1, sizeof *rows);
    rows[count++] = row;
    *row = (struct verify_row){ .kernel = kernel,
                                .isa = isa,
                                .precision = precision,
                                .arithmetic = arithmetic,
                                .type = type,
                                .factor = factor };
    return row;
}

void verify_rows_free(void)
{
    for (int i = 0; i < count; i++) free(rows[i]);
    free(rows);
    rows = NULL;
    count = 0;
}

// Returns true if errors are counted in ulps. For int8 they are counted in steps of its
// quantization.
static bool in_ulps(const struct verify_row *r)
{
    return strcmp(r->precision, qkv_precision_name(QKV_PRECISION_INT8)) != 0;
}

static void print_case(const struct verify_row *r, const char *name, const struct verify_measure *m,
                       double ulp, bool failed, bool one_line)
{
    const double n = m->n ? (double)m->n : 1;
    if (common.json) {
        printf("%s{\"kernel\":\"%s\",\"isa\":\"%s\",\"precision\":\"%s\",\"case\":",
               json_begun ? "," : "{\"cases\":[", r->kernel, r->isa, r->precision);
        json_begun = true;
        cmd_json_text(stdout, name, strlen(name));
        fputs(",\"max\":", stdout);
        cmd_json_float(stdout, (float)m->largest);
        fputs(",\"rms\":", stdout);
        cmd_json_float(stdout, (float)sqrt(m->squares / n));
        fputs(",\"ulp\":", stdout);
        cmd_json_float(stdout, (float)(m->largest / ulp));
        fputs(",\"plain\":", stdout);
        cmd_json_float(stdout, (float)m->plain);
        fputs(",\"of_bound\":", stdout);
        cmd_json_float(stdout, (float)m->share);
        printf(",\"ok\":%s}", failed ? "false" : "true");
        return;
    }
    printf("%-4s %s %s %s, %s:%smax %.3g, rms %.3g, ", failed ? "FAIL" : "ok", r->kernel, r->isa,
           r->precision, name, one_line ? " " : "\n     ", m->largest, sqrt(m->squares / n));
    if (in_ulps(r)) printf("%.2f ulp, ", m->largest / ulp);
    if (!isnan(m->plain)) printf("plain formula %.3g, ", m->plain);
    printf("%.3g%% of the bound\n", 100 * m->share);
}

static struct verify_group *group_of(struct verify_row *r, const char *name)
{
    const char *const common_part = strstr(name, ": ");
    const char *const key = common_part ? common_part + 2 : "all";
    int i = 0;
    while (i < VERIFY_GROUPS - 1 && r->groups[i].name[0] &&
           strncmp(r->groups[i].name, key, sizeof r->groups[i].name - 1) != 0)
        i++;
    snprintf(r->groups[i].name, sizeof r->groups[i].name, "%s", key);
    return &r->groups[i];
}

// Returns an error minus 2 ulp, divided by the error of the plain formula.
static double ratio_of(double error, double plain)
{
    return error <= 2 ? 0 : (error - 2) / plain;
}

void verify_add(struct verify_row *r, const char *name, const struct verify_measure *m,
                const struct verify_options *o)
{
    const double ulp = verify_ulp(r->type, m->size), error = m->largest / ulp;
    const bool ruled = r->factor > 0 && !isnan(m->plain);
    const double ratio = ruled ? ratio_of(m->own / ulp, m->plain / ulp) : 0;
    const bool failed = !(m->share <= 1) || (ruled && !(ratio <= 2 * r->factor));
    const double near = fmax(m->share, ruled ? ratio / (2 * r->factor) : 0);
    r->cases++;
    r->failed += failed;
    r->numbers += m->n;
    r->rms += m->squares / (ulp * ulp);
    r->ulp = fmax(r->ulp, error);
    if (m->size > 0) r->largest = fmax(r->largest, m->largest / m->size);
    r->share = fmax(r->share, m->share);
    if (ruled) {
        struct verify_group *const g = group_of(r, name);
        g->error = fmax(g->error, m->own / ulp);
        g->plain = fmax(g->plain, m->plain / ulp);
    }
    if (ruled && m->largest > 0 && m->in_order > 0 && isfinite(m->in_order) && isfinite(error)) {
        r->logs += log(m->largest / m->in_order);
        r->both++;
    }
    if (!r->worst[0] || near > r->nearest) {
        snprintf(r->worst, sizeof r->worst, "%s", name);
        r->nearest = near;
    }
    if (failed || o->cases) print_case(r, name, m, ulp, failed, o->cases);
}

// Returns the largest ratio (see ratio_of) of all groups. Prints and counts the groups that exceed
// the limit.
static double judge_groups(struct verify_row *r)
{
    double most = 0;
    for (int i = 0; i < VERIFY_GROUPS && r->groups[i].name[0]; i++) {
        const struct verify_group *g = &r->groups[i];
        const double ratio = ratio_of(g->error, g->plain);
        most = fmax(most, ratio);
        if (ratio <= r->factor) continue;
        r->failed++;
        if (!common.json)
            printf("FAIL %s %s %s, %s, all sizes:\n     %.2f ulp, plain formula %.2f ulp, (error - "
                   "2) / plain is %.2f\n",
                   r->kernel, r->isa, r->precision, g->name, g->error, g->plain, ratio);
    }
    return most;
}

void verify_refused(struct verify_row *r, const char *reason)
{
    r->refused++;
    snprintf(r->reason, sizeof r->reason, "%s", reason);
}

// ---- the table ---------------------------------------------------------------------------------
static void json_rows(bool good, const double *ratios, double seconds,
                      const struct verify_options *o)
{
    printf("%s,\"rows\":[", json_begun ? "]" : "{\"cases\":[]");
    for (int i = 0; i < count; i++) {
        const struct verify_row *r = rows[i];
        printf("%s{\"kernel\":\"%s\",\"isa\":\"%s\",\"precision\":\"%s\",\"arithmetic\":",
               i ? "," : "", r->kernel, r->isa, r->precision);
        cmd_json_text(stdout, r->arithmetic ? r->arithmetic : "",
                      strlen(r->arithmetic ? r->arithmetic : ""));
        printf(",\"cases\":%lld,\"failed\":%lld,\"refused\":%lld", (long long)r->cases,
               (long long)r->failed, (long long)r->refused);
        if (r->as) printf(",\"as\":\"%s\"", r->as);
        if (r->refused) {
            fputs(",\"reason\":", stdout);
            cmd_json_text(stdout, r->reason, strlen(r->reason));
        }
        if (r->cases) {
            const struct {
                const char *key;
                double value;
            } numbers[] = { { "max", r->largest },
                            { "ulp", r->ulp },
                            { "rms_ulp", sqrt(r->rms / (double)(r->numbers ? r->numbers : 1)) },
                            { "ratio_typical", r->both ? exp(r->logs / (double)r->both) : NAN },
                            { "ratio_worst", r->factor > 0 ? ratios[i] : NAN },
                            { "ratio_limit", r->factor > 0 ? r->factor : NAN },
                            { "of_bound", r->share } };
            for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
                printf(",\"%s\":", numbers[k].key);
                cmd_json_float(stdout, (float)numbers[k].value);
            }
            fputs(",\"worst_case\":", stdout);
            cmd_json_text(stdout, r->worst, strlen(r->worst));
        }
        putchar('}');
    }
    printf("],\"seed\":%llu,\"seconds\":%.1f,\"ok\":%s}\n", (unsigned long long)o->seed, seconds,
           good ? "true" : "false");
}

// ---- in 80 columns: one line per row, and its worst case if it failed --------------------------
// Shortens the name of an arithmetic, because the heading of the column is "products": "bf16 pairs"
// of bf16 becomes "pairs", "six bf16 products" becomes "six bf16".
static const char *products(char out[32], const struct verify_row *r)
{
    const char *text = r->arithmetic ? r->arithmetic : "";
    const size_t own = strlen(r->precision);
    if (!strncmp(text, r->precision, own) && text[own] == ' ') text += own + 1;
    snprintf(out, 32, "%s", text);
    char *const last = strstr(out, " products");
    if (last) *last = 0;
    return out;
}

// Writes a positive number in at most five characters.
static const char *short_number(char out[16], double x)
{
    snprintf(out, 16, x < 9.995 ? "%.2f" : x < 999.5 ? "%.1f" : x < 99999.5 ? "%.0f" : "%.0e", x);
    return out;
}

static void narrow_row(const struct verify_row *r, double ratio)
{
    char text[3][32], number[16];
    printf("%-10s %-10s %-10s %-13s", r->kernel, r->isa, r->precision, products(text[0], r));
    if (!r->cases) {
        if (r->as) {
            printf(" as %s\n", r->as);
        } else {
            fputs(" not computed\n    ", stdout);
            cmd_print_cell(stdout, r->reason, strlen(r->reason), 0, 76);
            putchar('\n');
        }
        return;
    }
    strcpy(text[1], "-");
    strcpy(text[2], "-");
    if (r->both) snprintf(text[1], sizeof text[1], "%.2f", exp(r->logs / (double)r->both));
    if (r->factor > 0) snprintf(text[2], sizeof text[2], "%.2f/%.1f", ratio, r->factor);
    printf(" %5lld %5s %5s %8s %5.1f%%\n", (long long)r->cases,
           in_ulps(r) ? short_number(number, r->ulp) : "-", text[1], text[2], 100 * r->share);
    if (r->failed) printf("    FAILED, worst: %s\n", r->worst);
}

static void narrow(const double *ratios)
{
    printf("%-10s %-10s %-10s %-13s %5s %5s %5s %8s %6s\n", "kernel", "isa", "precision",
           "products", "cases", "ulp", "usual", "worst", "bound");
    for (int i = 0; i < count; i++) narrow_row(rows[i], ratios[i]);
    puts("\nulp    largest error, in units in the last place of its case's largest result\n"
         "usual  error / error of the plain formula in the same type, geometric mean\n"
         "worst  A/B: A = largest (error - 2 ulp) / plain formula's error, B = its limit\n"
         "bound  largest error / bound derived for the same number (docs/numerics.md)");
}

// ---- with --cases: all columns -----------------------------------------------------------------
static void wide_row(const struct verify_row *r, double ratio)
{
    printf("%-10s %-10s %-10s %-16s ", r->kernel, r->isa, r->precision,
           r->arithmetic ? r->arithmetic : "");
    if (!r->cases) {
        printf(r->as ? "as %s\n" : "not computed: %s\n", r->as ? r->as : r->reason);
        return;
    }
    printf("%6lld %8.1e ", (long long)r->cases, r->largest);
    if (in_ulps(r))
        printf("%9.3g %6.2g ", r->ulp, sqrt(r->rms / (double)(r->numbers ? r->numbers : 1)));
    else
        printf("%9s %6s ", "-", "-");
    if (r->both)
        printf("%6.2fx ", exp(r->logs / (double)r->both));
    else
        printf("%7s ", "-");
    if (r->factor > 0)
        printf("%5.2fx of %.1f ", ratio, r->factor);
    else
        printf("%13s ", "-");
    printf("%6.2f%%  %s%s\n", 100 * r->share, r->failed ? "FAILED: " : "", r->worst);
}

static void wide(const double *ratios)
{
    printf("%-10s %-10s %-10s %-16s %6s %8s %9s %6s %7s %12s %7s  %s\n", "kernel", "isa",
           "precision", "arithmetic", "cases", "max", "max ulp", "rms", "usual", "worst", "bound",
           "case nearest to a limit");
    for (int i = 0; i < count; i++) wide_row(rows[i], ratios[i]);
    puts("\n"
         "max: largest error / largest result of its case; max ulp, rms: the error in units in the "
         "last place (ulp) of that result\n"
         "usual: error / error of the plain formula in the same type, geometric mean of the cases; "
         "worst: (error - 2 ulp) / error of the plain formula, for the worst group, and its limit\n"
         "bound: largest error / bound derived for the same number (docs/numerics.md)");
}

bool verify_report(const struct verify_options *o, double seconds)
{
    int64_t cases = 0, failed = 0;
    double *const ratios = cmd_alloc((size_t)count + 1, sizeof *ratios);
    for (int i = 0; i < count; i++) {
        ratios[i] = judge_groups(rows[i]);
        cases += rows[i]->cases;
        failed += rows[i]->failed;
    }
    if (common.json) {
        json_rows(!failed, ratios, seconds, o);
        free(ratios);
        return !failed;
    }
    (o->cases ? wide : narrow)(ratios);
    free(ratios);
    printf("%lld cases, %lld failed, seed %llu, %.1f s\n", (long long)cases, (long long)failed,
           (unsigned long long)o->seed, seconds);
    return !failed;
}
