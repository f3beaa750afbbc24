// SPDX-License-Identifier: MIT
// tokens.c: reads the texts or token ids on the command line, and makes the input of a model from
// them.
#include "frame/tokens.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

const char *const cmd_pools[] = { "mean", "cls", "max", "last", "mean-sqrt", "weighted", NULL };

// the operands of the command, then the contents of the files of -f; valid until the process ends
static struct cmd_texts operands;
// operands.text[first + i] is the content of the file name[i]
static struct {
    const char *const *name;
    int64_t first, count;
} text_files;

// Prints a note for an operand that is the name of a file, because the name itself is the text.
static void note_file(const char *operand)
{
    struct stat s;
    if (strlen(operand) >= CMD_PATH || stat(operand, &s) || !S_ISREG(s.st_mode)) return;
    cmd_note("the text is '%s' itself: a file of that name exists; use -f to read it", operand);
}

static qkv_status read_text_file(const char *path, bool *stdin_read, qkv_error *err)
{
    const bool standard = strcmp(path, "-") == 0;
    char *text = NULL;
    size_t bytes = 0;
    if (standard && *stdin_read)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "-f -: standard input occurs twice, expected once");
    *stdin_read |= standard;
    qkv_status status = standard ? QKV_OK : cmd_input_add(path, err);
    if (!status) status = cmd_read_file(&text, &bytes, path, err);
    const char *name = standard ? "standard input" : path,
               *end = status ? NULL : memchr(text, 0, bytes);
    if (end)
        status =
            cmd_error(err, QKV_ERR_FORMAT, name, "at byte %lld: expected a text, found a NUL byte",
                      (long long)(end - text));
    else if (!status && !text[strspn(text, " \t\r\n")])
        status = cmd_error(err, QKV_ERR_USAGE, name, "the text is empty, expected words");
    else if (!status)
        cmd_texts_add(&operands, text, bytes);
    free(text);
    return status;
}

qkv_status tokens_operands(const struct token_options *o, int at, int most, int *argc, char ***argv,
                           qkv_error *err)
{
    bool stdin_read = false;
    const int64_t total = *argc + o->files.count;
    const int last = o->texts ? o->words + o->texts : *argc;
    for (int i = o->words; i < *argc && i < last; i++) note_file((*argv)[i]);
    if (!o->files.count) return QKV_OK;
    if (most >= 0 && total > most)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "too many texts, expected at most %d operands and files of -f, found %lld",
                         most, (long long)total);
    if (o->ids) return cmd_error(err, QKV_ERR_USAGE, NULL, "-f cannot be combined with --ids");
    qkv_status status = QKV_OK;
    for (int i = 0; i < at; i++) cmd_texts_add(&operands, (*argv)[i], strlen((*argv)[i]));
    text_files.name = o->files.text;
    text_files.first = at;
    text_files.count = o->files.count;
    for (int64_t i = 0; i < o->files.count && !status; i++)
        status = read_text_file(o->files.text[i], &stdin_read, err);
    for (int i = at; i < *argc; i++) cmd_texts_add(&operands, (*argv)[i], strlen((*argv)[i]));
    if (status) return status;
    *argc = (int)total;
    *argv = operands.text;
    return QKV_OK;
}

void tokens_note_dropped(int64_t dropped, int64_t at, int64_t number)
{
    char text[48] = "";
    if (number) snprintf(text, sizeof text, " of text %lld", (long long)number);
    cmd_note("%lld character%s left out, since the tokenizer has neither a token for %s nor an "
             "unknown token; the first is in the word at byte %lld%s",
             (long long)dropped, dropped == 1 ? " was" : "s were", dropped == 1 ? "it" : "them",
             (long long)at, text);
}

void tokens_notes(const struct qkv_embed_report *r, int64_t texts, int64_t limit)
{
    if (r->cut_texts && texts == 1)
        cmd_note("the text was cut to %lld tokens: %lld tokens were dropped", (long long)limit,
                 (long long)r->cut_tokens);
    else if (r->cut_texts)
        cmd_note("%lld of %lld texts were cut to %lld tokens: %lld tokens were dropped in total",
                 (long long)r->cut_texts, (long long)texts, (long long)limit,
                 (long long)r->cut_tokens);
    if (r->dropped)
        tokens_note_dropped(r->dropped, r->dropped_at, texts > 1 ? r->dropped_text + 1 : 0);
    if (!r->replaced) return;
    char text[48] = "";
    if (texts > 1) snprintf(text, sizeof text, " of text %lld", (long long)r->replaced_text + 1);
    cmd_note("invalid UTF-8 was replaced by U+FFFD in %lld place%s, the first at byte %lld%s",
             (long long)r->replaced, r->replaced == 1 ? "" : "s", (long long)r->replaced_at, text);
}

// Appends the ids in one line to l.
static qkv_status line_of_ids(struct id_lists *l, int64_t *used, int64_t *capacity,
                              const char *line, const char *file, int64_t number, qkv_error *err)
{
    for (const char *p = line + strspn(line, ", \t"); *p; p += strspn(p, ", \t")) {
        const size_t bytes = strcspn(p, ", \t");
        char word[32];
        int64_t id;
        snprintf(word, sizeof word, "%.*s", (int)(bytes < 31 ? bytes : 31), p);
        if (!cmd_parse_int(word, &id) || id < 0 || id > INT32_MAX) {
            if (file)
                return cmd_error(
                    err, QKV_ERR_FORMAT, file,
                    "line %lld: not a token id, expected a number from 0 to %d, found '%s'",
                    (long long)number, INT32_MAX, word);
            return cmd_error(err, QKV_ERR_USAGE, NULL,
                             "not a token id, expected a number from 0 to %d, found '%s'",
                             INT32_MAX, word);
        }
        if (*used == *capacity) {
            *capacity = *capacity ? 2 * *capacity : 256;
            l->ids = cmd_grow(l->ids, (size_t)*capacity, sizeof *l->ids);
        }
        l->ids[(*used)++] = (int32_t)id;
        p += bytes;
    }
    if (*used == (l->count ? l->offsets[l->count] : 0)) {
        if (file)
            return cmd_error(err, QKV_ERR_FORMAT, file, "line %lld: expected token ids, found none",
                             (long long)number);
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--ids: expected token ids, found none");
    }
    l->offsets = cmd_grow(l->offsets, (size_t)l->count + 2, sizeof *l->offsets);
    l->offsets[0] = 0;
    l->offsets[++l->count] = *used;
    return QKV_OK;
}

qkv_status id_lists_read(struct id_lists *l, const char *text, qkv_error *err)
{
    int64_t used = 0, capacity = 0;
    qkv_status status;
    *l = (struct id_lists){ NULL, NULL, 0 };
    if (strcmp(text, "-") != 0 && text[strspn(text, "-0123456789, ")] == 0)
        return line_of_ids(l, &used, &capacity, text, NULL, 0, err);
    struct cmd_lines lines;
    status = cmd_lines_open(&lines, text, err);
    for (int64_t bytes = 0;
         !status && !(status = cmd_lines_next(&lines, &bytes, err)) && bytes >= 0;)
        status = line_of_ids(l, &used, &capacity, lines.line, lines.path, lines.number, err);
    cmd_lines_close(&lines);
    return status;
}

void id_lists_free(struct id_lists *l)
{
    free(l->ids);
    free(l->offsets);
    *l = (struct id_lists){ NULL, NULL, 0 };
}

static qkv_status from_ids(struct tokens *t, const struct token_options *o, int64_t positions,
                           qkv_error *err)
{
    struct id_lists l;
    qkv_status status = id_lists_read(&l, o->ids, err);
    if (!status && l.count != 1)
        status = cmd_error(err, QKV_ERR_USAGE, NULL,
                           "--ids: expected one sequence of token ids, found %lld sequences",
                           (long long)l.count);
    int64_t n = status ? 0 : l.offsets[1];
    if (!status && !n)
        status = cmd_error(err, QKV_ERR_USAGE, NULL, "--ids: expected token ids, found none");
    const int64_t limit = o->max_length ? o->max_length : positions;
    if (!status && limit > 0 && n > limit) {
        if (!o->truncate && !o->max_length) {
            status = cmd_error(err, QKV_ERR_USAGE, NULL,
                               "--ids: sequence too long, expected at most %lld tokens, found %lld "
                               "(--truncate cuts it)",
                               (long long)limit, (long long)n);
        } else {
            const struct qkv_embed_report r = { .cut_texts = 1, .cut_tokens = n - limit };
            tokens_notes(&r, 1, limit);
            n = limit;
        }
    }
    const int64_t padded = o->pad && limit > n ? limit : n;
    if (!status) {
        // the ids, followed by the token types, which are all 0
        t->own = cmd_alloc(2 * (size_t)padded, sizeof *t->own);
        memset(t->own, 0, 2 * (size_t)padded * sizeof *t->own);
        memcpy(t->own, l.ids, (size_t)n * sizeof *t->own);
        t->ids = t->own;
        t->types = t->own + padded;
        t->count = padded;
        t->length = n;
    }
    id_lists_free(&l);
    return status;
}

// Adds to an error about a text the name of the file that -f has read it from.
static void name_file(qkv_error *err, const char *text)
{
    for (int64_t i = 0; i < text_files.count && !err->file[0]; i++)
        if (operands.text[text_files.first + i] == text)
            qkv_escape(err->file, sizeof err->file,
                       strcmp(text_files.name[i], "-") ? text_files.name[i] : "standard input");
}

// Returns the text of a pair that cannot be encoded: the first, if it cannot be encoded alone.
static const char *bad_text(const qkv_tokenizer *k, const char *const *texts,
                            const struct qkv_encode_options *how)
{
    qkv_encoding e = { 0 };
    qkv_error ignored = { 0 };
    const bool second = texts[1] && !qkv_tokenizer_encode(k, &e, texts[0], strlen(texts[0]), NULL,
                                                          0, how, &ignored);
    qkv_encoding_free(&e);
    return texts[second];
}

static qkv_status from_texts(struct tokens *t, const struct token_options *o, const char *dir,
                             int64_t positions, const char *const *texts, qkv_error *err)
{
    qkv_tokenizer *tokenizer = NULL;
    const struct qkv_encode_options how = { .max_length = o->max_length && o->max_length < positions
                                                              ? o->max_length
                                                              : positions,
                                            .truncate = true,
                                            .pad = o->pad,
                                            .no_special = o->no_special,
                                            .strict = o->strict };
    qkv_encoding *e = &t->encoding;
    qkv_status status = qkv_tokenizer_open(&tokenizer, dir, err);
    if (!status)
        status = qkv_tokenizer_encode(tokenizer, e, texts[0], strlen(texts[0]), texts[1],
                                      texts[1] ? strlen(texts[1]) : 0, &how, err);
    if (status && tokenizer && !err->file[0]) name_file(err, bad_text(tokenizer, texts, &how));
    qkv_tokenizer_close(tokenizer);
    if (status) return status;
    if (e->cut && !o->truncate && !o->max_length) {
        cmd_error(err, QKV_ERR_USAGE, NULL,
                  "text too long, expected at most %lld tokens, found %lld (--truncate cuts it)",
                  (long long)how.max_length, (long long)(e->count + e->cut));
        if (!texts[1]) name_file(err, texts[0]);
        return QKV_ERR_USAGE;
    }
    const struct qkv_embed_report r = { .cut_texts = e->cut > 0,
                                        .cut_tokens = e->cut,
                                        .replaced = e->replaced,
                                        .replaced_at = e->replaced_at,
                                        .dropped = e->dropped,
                                        .dropped_at = e->dropped_at };
    tokens_notes(&r, 1, how.max_length);
    t->ids = e->ids;
    t->types = e->types;
    t->count = t->length = e->count;
    while (t->length && !e->attend[t->length - 1]) t->length--;
    return QKV_OK;
}

qkv_status tokens_read(struct tokens *t, const struct token_options *o, const char *dir,
                       const qkv_model *m, const char *const *texts, qkv_error *err)
{
    const int64_t positions = qkv_model_info(m).positions;
    if (o->max_length > positions)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--max-length: number exceeds the model's positions, expected 1 to "
                         "%lld, found %lld",
                         (long long)positions, (long long)o->max_length);
    if (!texts[0] == !o->ids)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         o->ids ? "a text cannot be combined with --ids"
                                : "input is missing, expected a text or --ids");
    return o->ids ? from_ids(t, o, positions, err) : from_texts(t, o, dir, positions, texts, err);
}

qkv_status tokens_written(struct tokens *t, const struct token_options *o, const char *dir,
                          const qkv_model *m, const char *text, qkv_error *err)
{
    const struct qkv_model_info i = qkv_model_info(m);
    const char *const texts[2] = { text, NULL };
    struct token_options how = { .strict = o->strict, .truncate = o->truncate };
    if (i.start < 0)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "the decoder of this model has no start token, so that no second text can "
                         "be given to it");
    const qkv_status status = tokens_read(t, &how, dir, m, texts, err);
    if (status) return status;
    int64_t n = t->length;
    for (int64_t k = 0; n && k < i.stop_count; k++)
        if (t->ids[n - 1] == i.stops[k]) {
            n--;
            break;
        }
    if (n + 1 > i.positions) n = i.positions - 1;
    t->own = cmd_alloc((size_t)n + 1, sizeof *t->own);
    t->own[0] = i.start;
    memcpy(t->own + 1, t->ids, (size_t)n * sizeof *t->own);
    t->ids = t->own;
    t->count = t->length = n + 1;
    return QKV_OK;
}

// Receives the text that a model generates.
struct writing {
    struct tokens *to;
    int32_t start, end;
    char *text;
};

static int keep_output(void *user, const struct qkv_generated *g)
{
    struct writing *w = user;
    struct tokens *t = w->to;
    t->own = cmd_alloc((size_t)g->tokens + 2, sizeof *t->own);
    t->own[0] = w->start;
    memcpy(t->own + 1, g->ids, (size_t)g->tokens * sizeof *t->own);
    t->ids = t->own;
    t->count = t->length = g->tokens + 1;
    w->end = g->end;
    w->text = cmd_alloc(g->bytes + 1, 1);
    memcpy(w->text, g->text, g->bytes);
    w->text[g->bytes] = 0;
    return 0;
}

// Returns the length of the part of a source that its tokens have: --max-length or --truncate may
// have cut it.
static size_t read_bytes(const struct tokens *read, const char *source)
{
    const qkv_encoding *e = &read->encoding;
    int64_t end = 0;
    if (!e->cut) return strlen(source);
    for (int64_t i = 0; i < e->count; i++)
        if (e->text[i] == 0 && e->end[i] > end) end = e->end[i];
    return (size_t)end;
}

qkv_status tokens_generated(struct tokens *t, char **text, int32_t *end,
                            const struct token_options *o, const char *dir, const qkv_model *m,
                            const struct tokens *read, const char *source, qkv_error *err)
{
    const struct qkv_generator_options how = { .model = cmd_model_options() };
    struct writing w = { .to = t, .start = qkv_model_info(m).start, .end = -1 };
    const struct qkv_generate_options options = { .truncate = o->truncate,
                                                  .output = keep_output,
                                                  .user = &w };
    qkv_translator *translator = NULL;
    if (!source)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--ids is not supported for an encoder-decoder, expected texts");
    const size_t bytes = read_bytes(read, source);
    qkv_status status = qkv_translator_open(&translator, dir, &how, err);
    if (!status) status = qkv_translate(translator, &source, &bytes, 1, &options, err);
    qkv_translator_close(translator);
    if (end) *end = w.end;
    if (text)
        *text = w.text;
    else
        free(w.text);
    return status;
}

void tokens_free(struct tokens *t)
{
    qkv_encoding_free(&t->encoding);
    free(t->own);
    *t = (struct tokens){ 0 };
}

void tokens_spell(char *out, size_t size, const qkv_tokenizer *t, int32_t id, bool inside)
{
    const char *raw = t ? qkv_tokenizer_token(t, id) : NULL;
    size_t need = 0;
    snprintf(out, size, "#%ld", (long)id);
    if (!raw) return;
    const qkv_status status = inside
                                  ? qkv_tokenizer_token_bytes(t, out, size, &need, id, NULL)
                                  : qkv_tokenizer_decode(t, out, size, &need, &id, 1, false, NULL);
    bool valid = !status && strlen(out) == (need < size ? need : strlen(out));
    for (size_t n, i = 0; out[i] && valid; i += n)
        valid =
            (n = qkv_utf8_bytes(out + i, strlen(out + i))) && strncmp(out + i, "\xef\xbf\xbd", 3);
    if (!valid) snprintf(out, size, "%s", raw);
}
