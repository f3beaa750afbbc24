// SPDX-License-Identifier: MIT
// index_texts.c: reads the passages of a file: its lines, the texts of its JSON lines, or chunks of
// its sentences.
#include "index/index.h"
#include <stdlib.h>
#include <string.h>

static bool is_blank(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (!strchr(" \t\r\n\f\v", text[i]) || !text[i]) return false;
    return true;
}

static size_t skip_mark(const char *text, size_t bytes) // the byte order mark of a file
{
    return bytes >= 3 && !memcmp(text, "\xEF\xBB\xBF", 3) ? 3 : 0;
}

static qkv_status at_line(const struct index_file *f, int64_t line, qkv_error *err)
{
    if (!err->file[0]) qkv_escape(err->file, sizeof err->file, f->name);
    snprintf(err->path, sizeof err->path, "line %lld", (long long)line);
    return err->status;
}

// Replaces invalid UTF-8, and counts the places.  Returns a new text; NULL: `text` is valid.
static char *make_valid(struct index_build *b, const struct index_file *f, const char *text,
                        int64_t line)
{
    char *valid = cmd_valid_text(text);
    if (!strcmp(valid, text)) {
        free(valid);
        return NULL;
    }
    if (!b->report.replaced++) {
        free(b->replaced_file);
        b->replaced_file = strcpy(cmd_alloc(strlen(f->name) + 1, 1), f->name);
        b->replaced_line = line;
    }
    return valid;
}

static qkv_status refuse_invalid(const struct index_file *f, qkv_error *err)
{
    return cmd_error(err, QKV_ERR_FORMAT, f->name, "invalid UTF-8, which --strict refuses");
}

// Adds a text as one passage, or as chunks of its sentences.
static qkv_status add_text(struct index_build *b, const struct index_file *f, bool sentences,
                           const struct store_passage *p, qkv_error *err)
{
    struct chunker *c = &b->chunker;
    struct store_passage part = *p;
    const char *text = p->text.at;
    int64_t line = p->line;
    size_t counted = 0;
    if (is_blank(text, p->text.bytes)) return QKV_OK;
    if (!sentences) return index_add(b, f, p, err);
    // the texts of p are valid until the next call of the store, so they are copied
    char *copy[3] = { NULL };
    struct store_text *const at[] = { &part.text, &part.key, &part.metadata };
    for (int i = 0; i < 3; i++) {
        if (!at[i]->at) continue;
        copy[i] = cmd_grow(NULL, at[i]->bytes + 1, 1);
        memcpy(copy[i], at[i]->at, at[i]->bytes);
        at[i]->at = copy[i];
    }
    text = copy[0];
    qkv_status status = chunker_split(c, text, p->text.bytes, err);
    if (status) at_line(f, line, err);
    for (int64_t i = 0; i < c->count && !status; i++) {
        size_t begin = c->chunks[i].begin;
        if (begin < counted) { // it overlaps the preceding chunk
            counted = 0;
            line = p->line;
        }
        for (; !f->json && counted < begin; counted++) line += text[counted] == '\n';
        part.line = line;
        part.text = (struct store_text){ text + begin, c->chunks[i].end - begin };
        status = index_add(b, f, &part, err);
    }
    for (int i = 0; i < 3; i++) free(copy[i]);
    return status;
}

// Checks a line by the rules of every JSON that qkv reads; SQLite, which extracts the texts,
// accepts more.  Writes to *column the column of an error, in bytes from 1; 0: unknown.
static qkv_status check_json(const struct index_file *f, const char *line, size_t bytes,
                             int64_t *column, qkv_error *err)
{
    qkv_json *root = NULL;
    const qkv_status status = qkv_json_read(&root, line, bytes, err);
    qkv_json_free(root);
    *column = status && err->has_offset ? err->offset + 1 : 0;
    err->has_offset = false;
    if (status) qkv_escape(err->file, sizeof err->file, f->name);
    return status;
}

static qkv_status add_json(struct index_build *b, const struct index_file *f, const char *line,
                           size_t bytes, struct store_passage *p, qkv_error *err)
{
    struct store_reason why;
    struct store_passage found;
    char *fixed = NULL;
    int64_t column = 0;
    qkv_status status = QKV_OK;
    if (is_blank(line, bytes)) return QKV_OK;
    if (memchr(line, 0, bytes))
        status = cmd_error(err, QKV_ERR_FORMAT, f->name, "expected a text, found a byte 0");
    else if ((fixed = make_valid(b, f, line, p->line)) != NULL && b->strict)
        status = refuse_invalid(f, err);
    if (!status)
        status = check_json(f, fixed ? fixed : line, fixed ? strlen(fixed) : bytes, &column, err);
    if (!status)
        status = index_store_error(b->engine->parse(b->store, fixed ? fixed : line,
                                                    fixed ? strlen(fixed) : bytes, b->field, &found,
                                                    &why),
                                   &why, f->name, err);
    if (status) {
        at_line(f, p->line, err);
        const size_t n = strlen(err->path);
        if (column)
            snprintf(err->path + n, sizeof err->path - n, ", column %lld", (long long)column);
    } else {
        found.file = p->file;
        found.line = p->line;
        status = add_text(b, f, b->split == SPLIT_SENTENCES, &found, err);
    }
    free(fixed);
    return status;
}

static qkv_status add_lines(struct index_build *b, const struct index_file *f, int64_t id,
                            struct qkv_digest *d, qkv_error *err)
{
    struct cmd_lines l;
    int64_t n = 0;
    qkv_status status = cmd_lines_open(&l, f->name, err);
    if (status) return status;
    l.digest = d;
    while (!status && !(status = cmd_lines_next(&l, &n, err)) && n >= 0) {
        const size_t mark = l.number == 1 ? skip_mark(l.line, (size_t)n) : 0;
        struct store_passage p = { .file = id, .line = l.number };
        p.text = (struct store_text){ l.line + mark, (size_t)n - mark };
        status = f->json ? add_json(b, f, p.text.at, p.text.bytes, &p, err)
                         : add_text(b, f, false, &p, err);
    }
    cmd_lines_close(&l);
    return status;
}

// Adds the sentences of a whole file.  A file of a folder that is no text, because it contains a
// byte 0, is skipped.
static qkv_status add_sentences(struct index_build *b, const struct index_file *f, int64_t id,
                                struct qkv_digest *d, qkv_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    qkv_status status = cmd_read_file(&text, &bytes, f->name, err);
    if (!status) qkv_digest_add(d, text, bytes);
    if (!status && f->folder && memchr(text, 0, bytes)) {
        b->count.skipped++;
        if (!b->skipped_file) b->skipped_file = strcpy(cmd_alloc(strlen(f->name) + 1, 1), f->name);
    } else if (!status) {
        const size_t mark = skip_mark(text, bytes);
        const struct store_passage p = { .file = id,
                                         .line = 1,
                                         .text = { text + mark, bytes - mark } };
        status = add_text(b, f, true, &p, err);
    }
    free(text);
    return status;
}

qkv_status index_texts(struct index_build *b, const struct index_file *f, int64_t id,
                       struct qkv_digest *d, qkv_error *err)
{
    const bool sentences = b->split == SPLIT_SENTENCES || (b->split == SPLIT_AUTO && f->folder);
    return f->json || !sentences ? add_lines(b, f, id, d, err) : add_sentences(b, f, id, d, err);
}

qkv_status index_add(struct index_build *b, const struct index_file *f,
                     const struct store_passage *p, qkv_error *err)
{
    struct store_reason why;
    struct store_passage valid = *p;
    if (memchr(p->text.at, 0, p->text.bytes)) {
        cmd_error(err, QKV_ERR_FORMAT, f->name, "expected a text, found a byte 0");
        return at_line(f, p->line, err);
    }
    char *copy = cmd_grow(NULL, p->text.bytes + 1, 1);
    memcpy(copy, p->text.at, p->text.bytes);
    copy[p->text.bytes] = 0;
    char *fixed = make_valid(b, f, copy, p->line);
    const char *text = fixed ? fixed : copy;
    valid.text = (struct store_text){ text, strlen(text) };
    qkv_status status = QKV_OK;
    if (fixed && b->strict) {
        status = refuse_invalid(f, err);
        at_line(f, p->line, err);
    }
    if (!status)
        status = index_store_error(b->engine->add_passage(b->store, b->passages, &valid, &why),
                                   &why, b->path, err);
    if (!status) {
        if (!(b->passages & (b->passages - 1)))
            b->source =
                cmd_grow(b->source, b->passages ? 2 * (size_t)b->passages : 1, sizeof *b->source);
        b->source[b->passages++] = -1;
    }
    free(fixed);
    free(copy);
    return status;
}
