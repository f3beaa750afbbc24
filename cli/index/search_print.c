// SPDX-License-Identifier: MIT
// search_print.c: prints passages that were found: for people, or as JSON.
#include "index/search_parts.h"
#include <stdlib.h>
#include <string.h>

// Copies a passage on one line: white space becomes one space, and marked words are in [brackets],
// or bold in a terminal with colors.
static char *one_line(const char *text, size_t bytes, const struct passage_why *why, bool bold)
{
    const char *const on = bold ? "\033[1;4m" : "[", *const off = bold ? "\033[0m" : "]";
    const size_t marks = why ? (size_t)why->count * (strlen(on) + strlen(off)) : 0;
    char *line = cmd_alloc(bytes + marks + 1, 1), *to = line;
    bool space = false;
    for (size_t i = 0; i <= bytes; i++) {
        for (int64_t w = 0; why && w < why->count; w++) // a mark ends before the next begins
            if (why->word[w].end == i) to = stpcpy(to, off);
        if (i == bytes) break;
        if (space && !strchr(" \t\r\n\f\v", text[i])) {
            *to++ = ' ';
            space = false;
        }
        for (int64_t w = 0; why && w < why->count; w++)
            if (why->word[w].begin == i) to = stpcpy(to, on);
        if (strchr(" \t\r\n\f\v", text[i]))
            space = to > line;
        else
            *to++ = text[i];
    }
    *to = 0;
    return line;
}

static void print_text(const struct store_passage *p, const struct hit *h)
{
    const bool bold = cmd_color(stdout);
    char *line = one_line(p->text.at, p->text.bytes, h->explained ? &h->why : NULL, bold);
    fputs("    ", stdout);
    if (h->explained && bold)
        // escapes of marks must reach the terminal, escapes of a text must not
        for (const char *c = line; *c; c++)
            (unsigned char)*c < 0x20 && *c != '\033' ? (void)printf("\\x%02X", (unsigned char)*c)
                                                     : (void)putchar(*c);
    else
        cmd_print_cell(stdout, line, strlen(line), 0, 0);
    putchar('\n');
    free(line);
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
    print_text(p, h);
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

qkv_status search_print(const struct index *x, const struct cmd_texts *questions, int64_t question,
                        const struct hit *hits, int64_t count, qkv_error *err)
{
    if (common.json) {
        fputs("{\"question\":", stdout);
        cmd_json_text(stdout, questions->text[question], questions->bytes[question]);
        fputs(",\"hits\":[", stdout);
    } else if (questions->count > 1) {
        if (question) putchar('\n');
        cmd_print_text(stdout, questions->text[question], questions->bytes[question]);
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
