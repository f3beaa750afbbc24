// SPDX-License-Identifier: MIT
// view_print.c: prints the report of a view as text and as JSON, and writes the shown weights to
// CSV and .npy files.
#include "view_source.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t tokens_of(const struct source *s, int64_t stack, bool keys)
{
    return s->shown[keys ? s->stack[stack].keys : s->stack[stack].rows].tokens;
}

// Prints the number of padding tokens, and 0 for each masked key and 1 for each other key.
static void print_padding_json(const struct qkv_view_text *t)
{
    if (!t->padding) return;
    printf(",\"padding\":%lld,\"attention_mask\":[", (long long)t->padding);
    for (int64_t j = 0; j < t->tokens + t->padding; j++)
        printf("%s%d", j ? "," : "", j < t->tokens);
    fputs("]", stdout);
}

// Prints the mean distance of query and key of each layer and head, in tokens. In cross-attention a
// distance has no meaning.
static void print_distances_json(const struct source *s, int64_t stack)
{
    const struct qkv_view_stack *k = &s->stack[stack];
    if (k->rows != k->keys) return;
    fputs(",\"mean_distance\":[", stdout);
    for (int64_t l = 0; l < k->layers; l++) {
        fputs(l ? ",[" : "[", stdout);
        for (int64_t h = 0; h < k->heads; h++) {
            if (h) putchar(',');
            cmd_json_float(stdout, qkv_view_head(s->view, stack, l, h).distance);
        }
        putchar(']');
    }
    putchar(']');
}

void print_view_json(const struct source *s, const struct qkv_view_options *p, const char *path,
                     const struct qkv_view_report *r)
{
    const struct qkv_view_stack *k = &s->stack[p->stack];
    char sentence[4096];
    fputs("{\"file\":", stdout);
    if (path)
        cmd_json_text(stdout, path, strlen(path));
    else
        fputs("null", stdout);
    fputs(",\"model\":", stdout);
    cmd_json_text(stdout, s->model, strlen(s->model));
    if (!s->given) {
        printf(",\"precision\":\"%s\"", qkv_precision_name(s->of.info.precision));
        cmd_json_ablated(stdout);
    }
    if (strcmp(k->name, "attention") != 0) printf(",\"stack\":\"%s\"", k->name);
    printf(",\"tokens\":%lld,\"layers\":%lld,\"heads\":%lld",
           (long long)tokens_of(s, p->stack, false), (long long)k->layers, (long long)k->heads);
    print_padding_json(&s->shown[k->keys]);
    if (path) {
        printf(",\"bytes\":%lld,\"kind\":\"%s\",\"weights\":%lld,\"not_numbers\":%lld,"
               "\"not_one\":%lld,\"error\":",
               (long long)r->bytes, r->kind, (long long)r->weights, (long long)r->not_numbers,
               (long long)r->not_one);
        cmd_json_float(stdout, (float)r->error);
        if (r->top) {
            printf(",\"top\":%lld,\"kept\":", (long long)r->top);
            cmd_json_float(stdout, (float)r->kept);
        }
    }
    int64_t count;
    const struct qkv_view_divergence *m = qkv_view_divergence(s->view, &count);
    if (count) fputs(",\"moved\":[", stdout);
    for (int64_t i = 0; i < count; i++) {
        printf(
            "%s{\"stack\":\"%s\",\"layer\":%lld,\"head\":%lld,\"rows\":%lld,\"row\":%lld,\"bits\":",
            i ? "," : "", s->stack[m[i].stack].name, (long long)m[i].layer, (long long)m[i].head,
            (long long)m[i].rows, (long long)m[i].row);
        cmd_json_float(stdout, m[i].rows ? (float)m[i].bits : NAN);
        fputs("}", stdout);
    }
    if (count) fputs("]", stdout);
    print_distances_json(s, p->stack);
    print_output_json(s);
    fputs(",\"sentence\":", stdout);
    qkv_view_sentence(s->view, p, sentence, sizeof sentence);
    cmd_json_text(stdout, sentence, strlen(sentence));
    puts("}");
}

void print_view_report(const char *path, const struct qkv_view_report *r)
{
    const char *most = cmd_utf8() ? "≤" : "<=";
    char error[QKV_WEIGHT_BYTES];
    cmd_print_name(stdout, path);
    printf(": %.*f %s, ", r->bytes < 1000000 ? 0 : 1,
           (double)r->bytes / (r->bytes < 1000000 ? 1e3 : 1e6), r->bytes < 1000000 ? "kB" : "MB");
    if (r->top)
        printf("stores the %lld largest weights of each row (%.1f %% of all weight)",
               (long long)r->top, 100 * r->kept);
    else
        printf("stores all %lld weights", (long long)r->weights);
    if (r->not_numbers)
        printf("; %lld row%s NaN or infinity: damaged or very large weights of a model cause "
               "this\n",
               (long long)r->not_numbers, r->not_numbers == 1 ? " contains" : "s contain");
    else if (r->error <= 0)
        puts(", exact");
    else
        printf(", error %s %s\n", most, qkv_weight_text(error, ceil(r->error * 1e4) / 1e4, 4));
    if (r->top)
        cmd_note("the text is too long to store all its weights within the budget; --layers stores "
                 "some layers in full, --budget 64M allows a larger file");
    if (r->values_left)
        cmd_note("the values of %lld layers are not in the file: --values stores as many as the "
                 "budget allows",
                 (long long)r->values_left);
}

void print_view_moved(const struct source *s, int64_t most)
{
    int64_t count;
    const struct qkv_view_divergence *m = qkv_view_divergence(s->view, &count);
    if (!count) return;
    printf("\nHeads that changed most, Jensen-Shannon divergence in bits (0: equal weights, 1: no "
           "key in\ncommon), mean of %lld rows: those whose token is the same in both texts\n",
           (long long)m[0].rows);
    for (int64_t i = 0; i < count && i < most; i++) {
        char name[64];
        const bool one = s->shape.stacks == 1;
        snprintf(name, sizeof name, "%s%sL%lld.H%lld", one ? "" : s->stack[m[i].stack].name,
                 one ? "" : ".", (long long)m[i].layer, (long long)m[i].head);
        const struct qkv_view_head h = qkv_view_head(s->view, m[i].stack, m[i].layer, m[i].head);
        if (m[i].rows)
            printf("  %-16s %.4f  %s\n", name, m[i].bits, h.kind);
        else
            printf("  %-16s !       every row contains NaN in one of the two\n", name);
    }
}

// ---- CSV and .npy ------------------------------------------------------------------------------
// Writes the text of a token as a cell.  A spreadsheet evaluates a cell that begins with one of
// = + - @, a tab or a carriage return as a formula: an apostrophe makes it a text.
static void csv_token(FILE *to, const struct qkv_view_token *k)
{
    const char *text = k->text && k->text_bytes ? k->text : k->raw;
    const size_t n = k->text && k->text_bytes ? k->text_bytes : strlen(k->raw);
    fputs(",\"", to);
    if (n && *text && strchr("=+-@\t\r", *text)) fputc('\'', to);
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '"') fputc('"', to);
        fputc(text[i] ? text[i] : ' ', to);
    }
    fputc('"', to);
}

// Writes a float for CSV, with a decimal point in any locale; empty if it is not a number.
static void csv_number(FILE *to, float x)
{
    char digits[40];
    if (!isfinite(x)) return;
    snprintf(digits, sizeof digits, "%.9g", (double)x);
    for (char *c = digits; *c; c++)
        if (*c == ',') *c = '.';
    fputs(digits, to);
}

// The rows of weights that are written: the marked row or, if none is marked, all shown rows.
struct extent {
    struct qkv_view_chosen first;
    int64_t from, end, S;
};

static qkv_status write_csv(const struct source *s, const struct qkv_view_options *p,
                            const struct extent *x, const char *path, qkv_error *err)
{
    const struct qkv_view_token *rows = s->shown[s->stack[p->stack].rows].token,
                                *keys = s->shown[s->stack[p->stack].keys].token;
    struct cmd_file f = { 0 };
    float *w = cmd_alloc((size_t)x->S, sizeof *w);
    qkv_status status = cmd_file_open(&f, path, err);
    if (!status) fputs("layer,head,query,query_token,key,key_token,weight\n", f.to);
    for (int64_t h = 0; h < x->first.head_count && !status; h++)
        for (int64_t i = x->from; i < x->end; i++) {
            qkv_view_row(s->view, w, p->stack, x->first.layer, x->first.heads[h], i);
            for (int64_t j = 0; j < x->S; j++) {
                fprintf(f.to, "%lld,%lld,%lld", (long long)x->first.layer,
                        (long long)x->first.heads[h], (long long)i);
                csv_token(f.to, &rows[i]);
                fprintf(f.to, ",%lld", (long long)j);
                csv_token(f.to, &keys[j]);
                fputc(',', f.to);
                csv_number(f.to, w[j]);
                fputc('\n', f.to);
            }
        }
    if (!status) status = cmd_written(f.to, path, err);
    if (!status) status = cmd_file_commit(&f, err);
    cmd_file_abort(&f);
    free(w);
    return status;
}

static qkv_status write_npy(const struct source *s, const struct qkv_view_options *p,
                            const struct extent *x, const char *path, qkv_error *err)
{
    struct array a = { 0 };
    const int64_t shape[] = { x->first.head_count, x->end - x->from, x->S };
    array_new(&a, "weights", 3, shape);
    for (int64_t h = 0; h < shape[0]; h++)
        for (int64_t i = x->from; i < x->end; i++)
            qkv_view_row(s->view, a.own + (h * shape[1] + i - x->from) * x->S, p->stack,
                         x->first.layer, x->first.heads[h], i);
    const qkv_status status = array_write(&a, path, err);
    array_free(&a);
    return status;
}

qkv_status export_view(const struct source *s, const struct qkv_view_options *p, const char *path,
                       qkv_error *err)
{
    struct extent x = { .end = tokens_of(s, p->stack, false), .S = tokens_of(s, p->stack, true) };
    const qkv_status status = qkv_view_choose(s->view, p, &x.first, err);
    if (status) return status;
    if (p->token) {
        x.from = *p->token;
        x.end = x.from + 1;
    }
    return cmd_ends_with(path, ".npy") ? write_npy(s, p, &x, path, err)
                                       : write_csv(s, p, &x, path, err);
}
