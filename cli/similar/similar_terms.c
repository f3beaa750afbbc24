// SPDX-License-Identifier: MIT
// similar_terms.c: splits the cosine of two texts into a sum of terms, one per pair of their
// tokens, and draws the terms as a matrix of signed numbers.
#include "similar/similar_terms.h"
#include "frame/tokens.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS = 8, COLUMNS = 4 };

struct pair {
    int64_t row, column;
    double term;
};

struct similar_terms {
    struct qkv_why w;
    char **label[2]; // labels of the tokens of each text
    float *grid;     // [rows][columns] terms of the cosine; rows: tokens of the first text
    struct pair pairs[PAIRS];
    int64_t count;
    char cell[PAIRS + 1][COLUMNS][96], sentence[512];
};

static int64_t tokens(const struct similar_terms *y, int text)
{
    return text ? y->w.columns : y->w.rows;
}

// Makes the labels of the tokens.  The label is the part of the prompt and text that a token
// covers; for a token that covers nothing, such as [CLS], it is the token's name.
static void make_labels(struct similar_terms *y, const struct cmd_texts *t,
                        const qkv_embedder *embedder)
{
    const qkv_tokenizer *tokenizer = qkv_embedder_tokenizer(embedder);
    const char *prompt = qkv_embedder_prompt(embedder);
    const size_t before = strlen(prompt);
    for (int k = 0; k < 2; k++) {
        const qkv_encoding *e = &y->w.text[k];
        char *source = cmd_alloc(before + t->bytes[k] + 1, 1);
        memcpy(source, prompt, before);
        memcpy(source + before, t->text[k], t->bytes[k]);
        y->label[k] = cmd_alloc((size_t)e->count + 1, sizeof *y->label[k]);
        for (int64_t i = 0; i < e->count; i++) {
            const int64_t bytes = e->end[i] - e->begin[i];
            const char *raw = qkv_tokenizer_token(tokenizer, e->ids[i]);
            const bool found = e->text[i] == 0 && bytes > 0;
            const size_t n = found ? (size_t)bytes : strlen(raw ? raw : "?");
            char *to = y->label[k][i] = cmd_alloc(n + 1, 1);
            memcpy(to, found ? source + e->begin[i] : raw ? raw : "?", n);
            to[n] = 0;
        }
        free(source);
    }
}

// Finds the pairs of tokens with the largest terms by absolute value.
static void find_pairs(struct similar_terms *y)
{
    for (int64_t i = 0; i < y->w.rows * y->w.columns; i++) {
        const struct pair p = { i / y->w.columns, i % y->w.columns, y->w.terms[i] };
        int64_t at = y->count;
        while (at > 0 && fabs(y->pairs[at - 1].term) < fabs(p.term)) at--;
        if (at == PAIRS) continue;
        const int64_t last = y->count < PAIRS ? y->count++ : PAIRS - 1;
        memmove(y->pairs + at + 1, y->pairs + at, (size_t)(last - at) * sizeof p);
        y->pairs[at] = p;
    }
}

static void describe_finding(struct similar_terms *y)
{
    const struct pair *p = y->pairs;
    double below = 0;
    for (int64_t i = 0; i < y->w.rows * y->w.columns; i++)
        if (y->w.terms[i] < 0) below += y->w.terms[i];
    size_t n = (size_t)snprintf(y->sentence, sizeof y->sentence,
                                "The cosine %.4f is the sum of %lld x %lld terms", y->w.cosine,
                                (long long)y->w.rows, (long long)y->w.columns);
    if (y->count)
        n += (size_t)snprintf(y->sentence + n, sizeof y->sentence - n,
                              "; the largest, %.4f, belongs to “%.40s” and “%.40s”", p->term,
                              y->label[0][p->row], y->label[1][p->column]);
    if (below <= -0.00005) // with four decimals, the value is not 0
        snprintf(y->sentence + n, sizeof y->sentence - n, "; the terms below 0 add up to %.4f.",
                 below);
    else
        snprintf(y->sentence + n, sizeof y->sentence - n, "%s",
                 below < 0 ? "." : "; no term is below 0.");
    for (int64_t i = 0; i < y->count; i++) {
        snprintf(y->cell[i + 1][0], sizeof y->cell[0][0], "%.90s", y->label[0][p[i].row]);
        snprintf(y->cell[i + 1][1], sizeof y->cell[0][0], "%.90s", y->label[1][p[i].column]);
        snprintf(y->cell[i + 1][2], sizeof y->cell[0][0], "%.4f", p[i].term);
        snprintf(y->cell[i + 1][3], sizeof y->cell[0][0], "%.1f %%",
                 y->w.cosine != 0 ? 100 * p[i].term / y->w.cosine : 0);
    }
}

// ---- chart --------------------------------------------------------------------------------------
static qkv_status draw(struct similar_terms *y, const struct chart_output *to, const char *model,
                       qkv_error *err)
{
    static const char *const heads[COLUMNS] = { "first", "second", "term", "term of the cosine" };
    const char *cells[(PAIRS + 1) * COLUMNS];
    for (int64_t i = 0; i <= y->count; i++)
        for (int64_t k = 0; k < COLUMNS; k++) cells[i * COLUMNS + k] = i ? y->cell[i][k] : heads[k];
    const struct qkv_chart_grid grid = { .value = y->grid,
                                         .rows = y->w.rows,
                                         .columns = y->w.columns,
                                         .row_label = (const char *const *)y->label[0],
                                         .column_label = (const char *const *)y->label[1],
                                         .ramp = QKV_CHART_SIGNED,
                                         .digits = 3 };
    const struct qkv_chart_panel panel = { .grid = &grid,
                                           .x = { .name = "second text" },
                                           .y = { .name = "first text" } };
    const struct qkv_chart_table table = {
        .name = "the largest terms", .cell = cells, .rows = y->count + 1, .columns = COLUMNS
    };
    const struct qkv_chart c = { .title = "Which tokens make these texts alike?",
                                 .sentence = y->sentence,
                                 .panel = &panel,
                                 .panels = 1,
                                 .table = &table,
                                 .view = "Why",
                                 .subject = model };
    // With --json, this file prints the terms, so the chart must not print its numbers.
    const struct qkv_chart_options how = { .theme = (enum qkv_view_theme)to->theme };
    if (!common.json) return chart_print(&c, to, err);
    return to->path ? cmd_chart_file(&c, to->path, &how, err) : QKV_OK;
}

// ---- JSON --------------------------------------------------------------------------------------
static void json_sums(const char *name, const struct similar_terms *y, bool columns)
{
    printf(",\"%s\":[", name);
    for (int64_t i = 0; i < tokens(y, columns); i++) {
        double sum = 0;
        for (int64_t k = 0; k < tokens(y, !columns); k++)
            sum += columns ? y->w.terms[k * y->w.columns + i] : y->w.terms[i * y->w.columns + k];
        if (i) putchar(',');
        cmd_json_float(stdout, (float)sum);
    }
    putchar(']');
}

static void print_json(const struct similar_terms *y, const struct cmd_texts *t)
{
    putchar('{');
    cmd_json_computed(stdout);
    fputs(",\"texts\":[", stdout);
    for (int k = 0; k < 2; k++) {
        if (k) putchar(',');
        cmd_json_text(stdout, t->text[k], t->bytes[k]);
    }
    fputs("],\"cosine\":", stdout);
    cmd_json_float(stdout, (float)y->w.cosine);
    fputs(",\"tokens\":[", stdout);
    for (int k = 0; k < 2; k++) {
        fputs(k ? ",[" : "[", stdout);
        for (int64_t i = 0; i < tokens(y, k); i++) {
            if (i) putchar(',');
            cmd_json_text(stdout, y->label[k][i], strlen(y->label[k][i]));
        }
        putchar(']');
    }
    fputs("],\"terms\":[", stdout);
    for (int64_t i = 0; i < y->w.rows; i++) {
        fputs(i ? ",[" : "[", stdout);
        for (int64_t j = 0; j < y->w.columns; j++) {
            if (j) putchar(',');
            cmd_json_float(stdout, (float)y->w.terms[i * y->w.columns + j]);
        }
        putchar(']');
    }
    putchar(']');
    json_sums("first", y, false);
    json_sums("second", y, true);
    puts("}");
}

qkv_status similar_why(const struct cmd_texts *t, const char *dir, bool truncate,
                       const struct chart_output *to, qkv_error *err)
{
    const struct qkv_embedder_options how = { .model = cmd_model_options(), .truncate = truncate };
    struct similar_terms *y = cmd_alloc(1, sizeof *y);
    qkv_embedder *e = NULL;
    memset(y, 0, sizeof *y);
    qkv_status status = qkv_embedder_open(&e, dir, &how, err);
    if (!status) status = qkv_why(&y->w, e, t->text[0], t->bytes[0], t->text[1], t->bytes[1], err);
    if (!status)
        status = cmd_check_finite(&(float){ (float)y->w.cosine }, 1, "cosine of the texts", err);
    if (status) goto done;
    const int64_t before = (int64_t)strlen(qkv_embedder_prompt(e));
    for (int k = 0; k < 2; k++) {
        const struct qkv_embed_report cut = { .cut_texts = y->w.text[k].cut > 0,
                                              .cut_tokens = y->w.text[k].cut,
                                              .replaced = y->w.text[k].replaced,
                                              .replaced_at = y->w.text[k].replaced_at - before };
        tokens_notes(&cut, 1, qkv_embedder_max_length(e));
    }
    const int64_t cells = y->w.rows * y->w.columns;
    if (!cells) {
        status =
            cmd_error(err, QKV_ERR_USAGE, NULL, "--why: expected texts with tokens, found none");
        goto done;
    }
    y->grid = cmd_alloc((size_t)cells, sizeof *y->grid);
    for (int64_t i = 0; i < cells; i++) y->grid[i] = (float)y->w.terms[i];
    make_labels(y, t, e);
    find_pairs(y);
    describe_finding(y);
    status = draw(y, to, qkv_model_info(qkv_embedder_model(e)).name, err);
    if (!status && common.json && !chart_takes_stdout(to)) print_json(y, t);
done:
    for (int k = 0; k < 2; k++) {
        for (int64_t i = 0; y->label[k] && i < tokens(y, k); i++) free(y->label[k][i]);
        free(y->label[k]);
    }
    free(y->grid);
    qkv_why_free(&y->w);
    free(y);
    qkv_embedder_close(e);
    return status;
}
