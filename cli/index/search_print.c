// SPDX-License-Identifier: MIT
// search_print.c: prints passages that were found: for people, or as JSON.
#include "index/search_parts.h"
#include <stdlib.h>
#include <string.h>

enum { LINES = 4 };

// Prints a passage on one line: white space becomes one space, and marked words are in [brackets],
// or bold in a terminal with colors. A passage that fills more than LINES lines of the terminal is
// cut after them, or after its last marked word.
static void print_text(const struct store_passage *p, const struct passage_why *why)
{
    const bool bold = cmd_color(stdout);
    const char *text = p->text.at;
    char *part = cmd_alloc(p->text.bytes + 1, 1); // the characters that are not yet printed
    const size_t most = (size_t)LINES * (size_t)(cmd_columns() - 4);
    size_t n = 0, shown = 0, last = 0; // characters so far; end of the last marked word
    bool space = false, begun = false;
    for (int64_t w = 0; w < why->count; w++)
        if (why->word[w].end > last) last = why->word[w].end;
    fputs("    ", stdout);
    for (size_t i = 0; i <= p->text.bytes; i++) {
        const bool blank = i == p->text.bytes || strchr(" \t\r\n\f\v", text[i]) != NULL;
        bool begins = false, ends = false;
        for (int64_t w = 0; w < why->count; w++) {
            begins = begins || why->word[w].begin == i;
            ends = ends || why->word[w].end == i;
        }
        if (n && ends) cmd_print_cell(stdout, part, n, 0, 0), n = 0;
        if (ends) fputs(bold ? "\033[0m" : "]", stdout);
        if (i == p->text.bytes) break;
        // after a word, or within one that is very long or of a script without spaces
        if (i > last && shown >= most && !qkv_utf8_continues(text[i]) &&
            (blank || shown >= most + 30)) {
            if (n) cmd_print_cell(stdout, part, n, 0, 0), n = 0;
            fputs(cmd_utf8() ? "…" : "...", stdout);
            break;
        }
        shown += !qkv_utf8_continues(text[i]) && (!blank || !space);
        if (!blank && space) part[n++] = ' ';
        if (n && begins) cmd_print_cell(stdout, part, n, 0, 0), n = 0;
        if (begins) fputs(bold ? "\033[1;4m" : "[", stdout);
        space = blank && (space || begun);
        begun = begun || !blank;
        if (!blank) part[n++] = text[i];
    }
    if (n) cmd_print_cell(stdout, part, n, 0, 0);
    putchar('\n');
    free(part);
}

static void print_hit(int64_t rank, const struct hit *h, const struct store_passage *p,
                      const struct store_file *f)
{
    printf("%3lld  %.4f  ", (long long)rank, (double)h->score);
    if (h->reranked) printf("(rerank %.4f)  ", (double)h->rerank);
    cmd_print_name(stdout, f->name.at);
    printf(":%lld", (long long)p->line);
    if (p->key.at) {
        fputs("  id ", stdout);
        cmd_print_cell(stdout, p->key.at, p->key.bytes, 0, 60);
    }
    putchar('\n');
    print_text(p, &h->why);
}

// Prints a member whose value is JSON.
static void json_member(const char *name, const struct store_text *value)
{
    if (!value->at) return;
    char *valid = cmd_valid_text(value->at);
    printf(",\"%s\":%s", name, valid);
    free(valid);
}

static void json_hit(int64_t rank, const struct hit *h, const struct store_passage *p,
                     const struct store_file *f)
{
    printf("%s{\"rank\":%lld,\"score\":", rank > 1 ? "," : "", (long long)rank);
    cmd_json_float(stdout, h->score);
    if (h->reranked) {
        fputs(",\"rerank\":", stdout);
        cmd_json_float(stdout, h->rerank);
    }
    printf(",\"passage\":%lld,\"file\":", (long long)h->row);
    cmd_json_text(stdout, f->name.at, f->name.bytes);
    printf(",\"line\":%lld,\"text\":", (long long)p->line);
    cmd_json_text(stdout, p->text.at, p->text.bytes);
    json_member("id", &p->key);
    json_member("metadata", &p->metadata);
    if (h->explained) {
        fputs(",\"cosine\":", stdout);
        cmd_json_float(stdout, (float)h->why.cosine);
        fputs(",\"why\":[", stdout);
        for (int64_t w = 0; w < h->why.count; w++) {
            const struct word_share *s = &h->why.word[w];
            fputs(w ? ",{\"word\":" : "{\"word\":", stdout);
            cmd_json_text(stdout, p->text.at + s->begin, s->end - s->begin);
            printf(",\"begin\":%zu,\"end\":%zu,\"term\":", s->begin, s->end);
            cmd_json_float(stdout, (float)s->term);
            putchar('}');
        }
        putchar(']');
    }
    putchar('}');
}

qkv_status search_print(const struct index *x, int64_t number, const char *question, size_t bytes,
                        const struct hit *hits, int64_t count, qkv_error *err)
{
    if (common.json) {
        fputs("{\"question\":", stdout);
        cmd_json_text(stdout, question, bytes);
        fputs(",\"hits\":[", stdout);
    } else if (number >= 0) {
        if (number) putchar('\n');
        cmd_print_text(stdout, question, bytes);
        putchar('\n');
    }
    for (int64_t i = 0; i < count; i++) {
        struct store_passage p;
        struct store_file f;
        const qkv_status status = index_passage(x, hits[i].row, &p, &f, err);
        if (status) return status;
        (common.json ? json_hit : print_hit)(i + 1, &hits[i], &p, &f);
    }
    if (common.json) puts("]}");
    return cmd_written(stdout, "standard output", err);
}
