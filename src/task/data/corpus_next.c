// SPDX-License-Identifier: MIT
// corpus_next.c: reads the examples of a corpus one by one.
#include "task/data/corpus_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// A line of text without its line end.
struct line {
    const char *text;
    size_t bytes;
};

static struct line next_line(struct qkv_corpus_cursor *c, const struct corpus_file *f)
{
    const char *begin = f->data + c->at;
    const char *end = memchr(begin, '\n', f->size - c->at);
    struct line l = { begin, end ? (size_t)(end - begin) : f->size - c->at };
    c->at += l.bytes + (end != NULL);
    c->line++;
    if (l.bytes && l.text[l.bytes - 1] == '\r') l.bytes--;
    return l;
}

// Refuses the line that was read last if it is longer than a line that is an example may be.
static qkv_status check_line(const struct qkv_corpus_cursor *c, const struct corpus_file *f,
                             const struct line *l, qkv_error *err)
{
    char at[32];
    if (l->bytes <= QKV_LINE_BYTES) return QKV_OK;
    snprintf(at, sizeof at, "line %" PRId64, c->line);
    return qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_location){ .file = f->name, .path = at },
                    "line too long, expected at most %d bytes, found %zu", (int)QKV_LINE_BYTES,
                    l->bytes);
}

static bool is_blank(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!strchr(" \t\r\n\v\f", text[i]) || !text[i]) return false;
    return true;
}

static qkv_status fail_line(qkv_error *err, const struct qkv_example *e, const char *what,
                            const char *found)
{
    char at[32];
    snprintf(at, sizeof at, "line %" PRId64, e->line);
    return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = e->file, .path = at },
                    "%s, found %s", what, found);
}

// Reads the lines up to the next blank line as one document, or a single line if each line is an
// example. Sets *more to false if only blank lines are left.
static qkv_status next_document(struct qkv_corpus_cursor *c, const struct corpus_file *f,
                                struct qkv_example *out, bool *more, qkv_error *err)
{
    *more = false;
    while (c->at < f->size) {
        const struct line l = next_line(c, f);
        if (is_blank(l.text, l.bytes)) {
            if (*more) return QKV_OK;
            continue;
        }
        if (!*more) {
            out->text = l.text;
            out->line = c->line;
        }
        *more = true;
        out->bytes = (size_t)(l.text + l.bytes - out->text);
        if (c->corpus->per_line) return check_line(c, f, &l, err);
    }
    return QKV_OK;
}

static qkv_status next_row(struct qkv_corpus_cursor *c, const struct corpus_file *f,
                           struct qkv_example *out, bool *more, qkv_error *err)
{
    const struct qkv_corpus *corpus = c->corpus;
    *more = false;
    while (c->at < f->size && !*more) {
        const struct line l = next_line(c, f);
        const qkv_status status = check_line(c, f, &l, err);
        if (status) return status;
        if (is_blank(l.text, l.bytes)) continue;
        struct line part[2] = { { NULL, 0 }, { NULL, 0 } };
        const char *p = l.text, *end = l.text + l.bytes;
        int columns = 0;
        for (;; columns++) {
            const char *tab = memchr(p, '\t', (size_t)(end - p));
            for (int i = 0; i < 1 + corpus->two; i++)
                if (f->column[i] == columns)
                    part[i] = (struct line){ p, (size_t)((tab ? tab : end) - p) };
            if (!tab) break;
            p = tab + 1;
        }
        out->line = c->line;
        for (int i = 0; i < 1 + corpus->two; i++) {
            char found[48];
            if (part[i].text) continue;
            if (!columns)
                return fail_line(err, out, "line has no tab, expected columns separated by tabs",
                                 "none");
            snprintf(found, sizeof found, "%d", columns + 1);
            return fail_line(err, out, "too few columns in this line, expected the chosen columns",
                             found);
        }
        if (is_blank(part[0].text, part[0].bytes)) continue;
        if (corpus->two && is_blank(part[1].text, part[1].bytes))
            return fail_line(err, out, "second column of this line is empty, expected text",
                             "none");
        out->text = part[0].text;
        out->bytes = part[0].bytes;
        out->second = part[1].text;
        out->second_bytes = part[1].bytes;
        *more = true;
    }
    return QKV_OK;
}

// Copies the text of member number i of the JSON object to the cursor's memory.
static qkv_status take_member(struct qkv_corpus_cursor *c, const json_t *root, int i,
                              const struct qkv_example *e, struct line *out, qkv_error *err)
{
    const char *key = c->corpus->field[i];
    const json_t *v = json_object_get(root, key);
    const bool label = i == 1 && c->corpus->objective == QKV_OBJECTIVE_CLASSIFY;
    char number[32], what[160];
    const char *text = json_string_value(v);
    size_t bytes = text ? json_string_length(v) : 0;
    if (label && json_is_integer(v)) {
        bytes =
            (size_t)snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
        text = number;
    }
    if (!text) {
        snprintf(what, sizeof what, "member \"%.64s\" has no text, expected a string%s", key,
                 label ? " or an integer" : "");
        return fail_line(err, e, what, v ? "another type" : "none");
    }
    void *capacity = c->texts[i];
    if (!qkv_reserve(&capacity, &c->capacity[i], (int64_t)bytes + 1, 1))
        return qkv_fail_memory(err, e->file);
    c->texts[i] = capacity;
    memcpy(c->texts[i], text, bytes);
    c->texts[i][bytes] = 0;
    *out = (struct line){ c->texts[i], bytes };
    return QKV_OK;
}

static qkv_status next_object(struct qkv_corpus_cursor *c, const struct corpus_file *f,
                              struct qkv_example *out, bool *more, qkv_error *err)
{
    *more = false;
    while (c->at < f->size && !*more) {
        const int64_t base = (int64_t)c->at;
        const struct line l = next_line(c, f);
        struct line part[2] = { { "", 0 }, { NULL, 0 } };
        qkv_status status = check_line(c, f, &l, err);
        if (status) return status;
        if (is_blank(l.text, l.bytes)) continue;
        out->line = c->line;
        if (c->skim) {
            *more = true;
            return QKV_OK;
        }
        json_t *root = NULL;
        qkv_error found = { 0 };
        status = qkv_json_parse(&root, l.text, l.bytes, out->file, base, &found);
        if (status && !found.path[0])
            snprintf(found.path, sizeof found.path, "line %" PRId64, out->line);
        for (int i = 0; i < 1 + c->corpus->two && !status; i++)
            status = take_member(c, root, i, out, &part[i], &found);
        json_decref(root);
        if (status) {
            if (err && !err->status) *err = found;
            return status;
        }
        out->text = part[0].text;
        out->bytes = part[0].bytes;
        out->second = part[1].text;
        out->second_bytes = part[1].bytes;
        out->borrowed = false;
        *more = true;
    }
    return QKV_OK;
}

qkv_status qkv_corpus_next(struct qkv_corpus_cursor *c, struct qkv_example *out, bool *more,
                           qkv_error *err)
{
    const struct qkv_corpus *corpus = c->corpus;
    *more = false;
    for (; c->file < corpus->count; c->file++, c->at = 0, c->line = 0) {
        const struct corpus_file *f = &corpus->files[c->file];
        qkv_status status = QKV_OK;
        if (c->at < f->start) c->at = f->start;
        memset(out, 0, sizeof *out);
        out->file = f->name;
        out->borrowed = true;
        switch (f->format) {
        case CORPUS_TEXT: status = next_document(c, f, out, more, err); break;
        case CORPUS_TSV: status = next_row(c, f, out, more, err); break;
        case CORPUS_JSONL: status = next_object(c, f, out, more, err); break;
        }
        if (status || *more) return status;
    }
    return QKV_OK;
}

void qkv_corpus_cursor_free(struct qkv_corpus_cursor *c)
{
    for (int i = 0; i < 2; i++) {
        qkv_free(c->texts[i]);
        c->texts[i] = NULL;
        c->capacity[i] = 0;
    }
}
