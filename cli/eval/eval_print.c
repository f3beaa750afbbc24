// SPDX-License-Identifier: MIT
// eval_print.c: prints the results of an evaluation: numbers, examples (sources with their
// outputs), and alignments.
#include "eval/eval_print.h"
#include <math.h>
#include <string.h>
#include "frame/cmd.h"

// ---- numbers ------------------------------------------------------------------------------------
static void print_json(const struct qkv_eval_result *r)
{
    printf("{\"objective\":\"%s\",\"sequences\":%lld,\"targets\":%lld", r->objective,
           (long long)r->sequences, (long long)r->targets);
    cmd_json_number(stdout, "loss", r->loss);
    cmd_json_number(stdout, "perplexity", r->perplexity);
    cmd_json_number(stdout, "bits_per_byte", r->bits_per_byte);
    cmd_json_number(stdout, "accuracy", r->accuracy);
    cmd_json_number(stdout, "retrieval", r->retrieval);
    printf(",\"sources\":%lld", (long long)r->sources);
    cmd_json_number(stdout, "exact", r->exact);
    cmd_json_number(stdout, "token_errors", r->token_errors);
    cmd_json_number(stdout, "character_errors", r->character_errors);
    cmd_json_number(stdout, "seconds", r->seconds);
    puts("}");
}

static void row(const char *name, int digits, double x, const char *unit)
{
    if (isfinite(x)) printf("%-20s %.*f%s\n", name, digits, x, unit);
}

void eval_print_result(const struct qkv_eval_result *r)
{
    if (common.json) {
        print_json(r);
        return;
    }
    printf("%-20s %s, %lld sequence%s, %lld target%s\n", "objective", r->objective,
           (long long)r->sequences, r->sequences == 1 ? "" : "s", (long long)r->targets,
           r->targets == 1 ? "" : "s");
    if (!isfinite(r->loss)) printf("%-20s not finite\n", "loss");
    row("loss", 4, r->loss, "");
    row("perplexity", 3, r->perplexity, "");
    row("bits per byte", 4, r->bits_per_byte, "");
    row("correct", 2, 100 * r->accuracy, " %");
    row("retrieval accuracy", 2, 100 * r->retrieval, " %");
    if (r->sources) printf("%-20s %lld\n", "sources decoded", (long long)r->sources);
    row("exact matches", 2, 100 * r->exact, " %");
    row("token errors", 2, 100 * r->token_errors, " %");
    row("character errors", 2, 100 * r->character_errors, " %");
}

void eval_print_perplexity(const struct qkv_perplexity *p)
{
    if (common.json) {
        printf("{\"tokens\":%lld,\"targets\":%lld,\"windows\":%lld", (long long)p->tokens,
               (long long)p->targets, (long long)p->windows);
        cmd_json_number(stdout, "loss", p->loss);
        cmd_json_number(stdout, "perplexity", p->perplexity);
        cmd_json_number(stdout, "bits_per_byte", p->bits_per_byte);
        puts("}");
        return;
    }
    printf("%-20s %lld, %lld of them predicted in %lld window%s\n", "tokens", (long long)p->tokens,
           (long long)p->targets, (long long)p->windows, p->windows == 1 ? "" : "s");
    row("loss", 4, p->loss, "");
    row("perplexity", 3, p->perplexity, "");
    row("bits per byte", 4, p->bits_per_byte, "");
}

// ---- examples -----------------------------------------------------------------------------------
static void json_texts(const char *name, const char *const *texts, int64_t n)
{
    printf(",\"%s\":[", name);
    for (int64_t i = 0; i < n; i++) {
        const char *text = texts[i] ? texts[i] : "";
        if (i) putchar(',');
        cmd_json_text(stdout, text, strlen(text));
    }
    putchar(']');
}

static void example_json(const struct qkv_eval_example *e)
{
    fputs("{\"source\":", stdout);
    cmd_json_text(stdout, e->source, strlen(e->source));
    fputs(",\"output\":", stdout);
    cmd_json_text(stdout, e->output, strlen(e->output));
    json_texts("references", e->references, e->n_references);
    printf(",\"right\":%s", e->right ? "true" : "false");
    if (e->alignment) {
        json_texts("source_tokens", e->source_token, e->source_tokens);
        json_texts("output_tokens", e->out_token, e->out_tokens);
        fputs(",\"alignment\":[", stdout);
        for (int64_t t = 0; t < e->out_tokens; t++) {
            fputs(t ? ",[" : "[", stdout);
            for (int64_t s = 0; s < e->source_tokens; s++) {
                if (s) putchar(',');
                cmd_json_float(stdout, e->alignment[t * e->source_tokens + s]);
            }
            putchar(']');
        }
        putchar(']');
    }
    puts("}");
}

// Returns a token as it is printed: without the mark for a leading space; a token that is only a
// space is printed as a middle dot.
static const char *plain(const char *token, char out[64])
{
    static const struct {
        const char *mark, *to;
    } marks[] = { { "\xC4\xA0", " " }, { "\xE2\x96\x81", " " }, { "\xC4\x8A", "\xE2\x8F\x8E" } };
    size_t n = 0;
    for (const char *p = token ? token : ""; *p && n + 8 < 64;) {
        size_t i = 0;
        while (i < 3 && strncmp(p, marks[i].mark, strlen(marks[i].mark)) != 0) i++;
        const char *from = i < 3 ? marks[i].to : p;
        const size_t bytes = i < 3 ? strlen(from) : 1;
        memcpy(out + n, from, bytes);
        n += bytes;
        p += i < 3 ? strlen(marks[i].mark) : 1;
    }
    out[n] = 0;
    const char *p = out + (out[0] == ' ');
    if (!*p) return n ? "\xC2\xB7" : ""; // a middle dot for a token that is only a space
    return p;
}

// Prints what the tables of alignments show, before the first of them.
static void print_legend(int64_t layer, int64_t heads)
{
    static bool printed;
    if (printed) return;
    printed = true;
    layer < 0 ? (void)fputs("last layer", stdout) : (void)printf("layer %lld", (long long)layer);
    if (heads < 0)
        fputs(", mean of its heads", stdout);
    else if (heads > 1)
        printf(", mean of %lld heads", (long long)heads);
    puts("; weights in hundredths, \".\": below 5");
    puts("rows: written tokens; columns: source tokens; <: the largest weight of a row");
}

// Prints an alignment as a table: a row for each output token, a column for each source token.  If
// it is wider than the terminal, it is split into several tables.
void eval_print_alignment(const float *weights, const char *const *out, int64_t outs,
                          const char *const *source, int64_t sources, int64_t layer, int64_t heads)
{
    enum { LEFT = 12, NARROW = 3, WIDE = 8 };
    char text[64];
    print_legend(layer, heads);
    int name_width = NARROW; // width of the column of output tokens; at least NARROW, and limited
    for (int64_t s = 0; s < sources; s++) {
        const char *t = plain(source[s], text);
        const int w = cmd_width(t, strlen(t));
        if (w > name_width) name_width = w < WIDE ? w : WIDE;
    }
    const int cell = name_width + 1;
    const int64_t most = (cmd_columns() - LEFT - 1) / cell;
    for (int64_t from = 0; from < sources; from += most) {
        const int64_t to = from + most < sources ? from + most : sources;
        printf("%*s", LEFT, "");
        for (int64_t s = from; s < to; s++) {
            const char *t = plain(source[s], text);
            cmd_print_cell(stdout, t, strlen(t), cell, name_width);
        }
        putchar('\n');
        for (int64_t t = 0; t < outs; t++) {
            const float *w = weights + t * sources;
            const char *name = plain(out[t], text);
            int64_t best = 0;
            for (int64_t s = 1; s < sources; s++)
                if (w[s] > w[best]) best = s;
            cmd_print_cell(stdout, name, strlen(name), LEFT - 1, LEFT - 1);
            putchar(' ');
            for (int64_t s = from; s < to; s++) {
                char number[8] = ".";
                if (w[s] >= .05F) snprintf(number, sizeof number, "%d", (int)(100 * w[s] + .5F));
                printf("%3s%s%*s", number, s == best ? "<" : " ", cell - 4, "");
            }
            putchar('\n');
        }
    }
}

void eval_print_example(const struct qkv_eval_example *e)
{
    if (common.json) {
        example_json(e);
        return;
    }
    const int wide = cmd_columns() - 12;
    fputs("source      ", stdout);
    cmd_print_cell(stdout, e->source, strlen(e->source), 0, wide);
    fputs("\noutput      ", stdout);
    cmd_print_cell(stdout, e->output, strlen(e->output), 0, wide);
    for (int64_t i = 0; i < e->n_references; i++) {
        printf("\n%-12s", i ? "" : e->right ? "correct" : "expected");
        cmd_print_cell(stdout, e->references[i], strlen(e->references[i]), 0, wide);
    }
    putchar('\n');
    if (e->alignment)
        eval_print_alignment(e->alignment, e->out_token, e->out_tokens, e->source_token,
                             e->source_tokens, -1, -1);
    puts("");
}
