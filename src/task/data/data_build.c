// SPDX-License-Identifier: MIT
// data_build.c: splits examples into pieces of text, tokenizes the pieces in parallel, and passes
// their tokens on in the order of the text.
//
// How a text is split depends only on the text, so the tokens are the same for any number of
// threads.
#include "task/data/data_build.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PIECE = 1 << 20, // a long document is tokenized in pieces of this many bytes
    // pieces are tokenized when they have this many bytes together, or when there are PIECES of
    // them
    WAITING = 8 << 20,
    PIECES = 1 << 14
};

qkv_status build_put(struct build *b, int split, enum data_file f, const void *data, size_t bytes,
                     qkv_error *err)
{
    struct build_file *to = &b->file[split][f];
    qkv_sha256_add(&to->sum, data, bytes);
    return qkv_output_write(&to->out, data, bytes, err);
}

// Tokenizes a short text to find the special tokens that the tokenizer puts before and after every
// text.
static qkv_status learn_template(struct build_template *to, const qkv_tokenizer *t, qkv_error *err)
{
    static const char *const probes[] = { "a", "the", "1", ".", "\xC3\xA9", "\xE4\xB8\x80" };
    const int64_t most = (int64_t)(sizeof to->before / sizeof *to->before);
    qkv_encoding e = { 0 };
    qkv_status status = QKV_OK;
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++) {
        status = qkv_tokenizer_encode(t, &e, probes[i], strlen(probes[i]), NULL, 0, NULL, err);
        if (status) break;
        int64_t first = 0, last = e.count;
        while (first < e.count && e.text[first] == 2) first++;
        while (last > first && e.text[last - 1] == 2) last--;
        // all tokens of the text are special tokens: the text adds nothing to the dataset
        if (first == e.count) continue;
        if (first > most || e.count - last > most) {
            status = qkv_fail(
                err, QKV_ERR_LIMIT, NULL,
                "the tokenizer adds too many special tokens to a text, expected at most %" PRId64,
                most);
            break;
        }
        to->befores = first;
        to->afters = e.count - last;
        for (int64_t k = 0; k < to->befores; k++) to->before[k] = e.ids[k];
        for (int64_t k = 0; k < to->afters; k++) to->after[k] = e.ids[last + k];
        break;
    }
    qkv_encoding_free(&e);
    return status;
}

qkv_status build_begin(struct build *b, qkv_error *err)
{
    const struct qkv_data_options *o = b->options;
    qkv_status status = QKV_OK;
    b->info.objective = o->objective;
    b->info.context = o->context;
    b->info.vocab =
        qkv_max64(qkv_tokenizer_size(b->tokenizer[0]), qkv_tokenizer_size(b->tokenizer[1]));
    for (int t = 0; t < 2 && !status; t++)
        status = learn_template(&b->template[t], b -> tokenizer[t], err);
    const int64_t around = b->template[0].befores + b->template[0].afters;
    if (!status && o->context <= around)
        status = qkv_fail(err, QKV_ERR_USAGE, NULL,
                          "context is too short, expected more than the %" PRId64
                          " special tokens that the tokenizer adds to a text, found %" PRId64,
                          around, o->context);
    if (status) return status;
    b->threads = qkv_threads();
    b->encoding = qkv_alloc_zero((size_t)b->threads, sizeof *b->encoding);
    b->window.capacity = o->context + 2;
    b->window.ids = qkv_alloc(2 * (size_t)b->window.capacity, sizeof *b->window.ids);
    if (!b->encoding || !b->window.ids) return qkv_fail_memory(err, NULL);
    if (o->objective != QKV_OBJECTIVE_CLASSIFY) return QKV_OK;
    b->labels.ready = qkv_trie_init(&b->labels.ids, 64);
    return b->labels.ready ? QKV_OK : qkv_fail_memory(err, NULL);
}

void build_end(struct build *b)
{
    for (int s = 0; s < DATA_SPLITS; s++)
        for (int f = 0; f < DATA_FILES; f++) qkv_output_abort(&b->file[s][f].out);
    for (int64_t i = 0; i < b->pieces_made; i++) {
        qkv_free(b->piece[i].ids);
        qkv_free(b->piece[i].upto);
    }
    qkv_free(b->piece);
    qkv_free(b->copies);
    for (int i = 0; i < b->threads && b->encoding; i++) qkv_encoding_free(&b->encoding[i]);
    qkv_free(b->encoding);
    qkv_free(b->window.ids);
    if (b->labels.ready) qkv_trie_free(&b->labels.ids);
    qkv_free(b->labels.text);
}

// ---- tokenising --------------------------------------------------------------------------------
static struct qkv_encode_options how(const struct build *b)
{
    return (struct qkv_encode_options){ .strict = b->options->strict };
}

// Copies the tokens of e, without the template's special tokens, to p. upto[i] is the number of
// bytes up to the end of token i; all tokens of one character end with the character, so it never
// decreases.
static qkv_status keep_tokens(struct build *b, struct build_piece *p, const qkv_encoding *e)
{
    const struct build_template *around = &b->template[p->which];
    const int64_t first = around->befores, n = e->count - first - around->afters;
    p->count = 0;
    p->replaced = e->replaced;
    if (n <= 0) return QKV_OK;
    void *ids = p->ids, *upto = p->upto;
    const bool causal = b->info.objective == QKV_OBJECTIVE_CAUSAL;
    if (!qkv_reserve(&ids, &p->ids_capacity, n, sizeof *p->ids)) return QKV_ERR_LIMIT;
    p->ids = ids;
    if (causal && !qkv_reserve(&upto, &p->upto_capacity, n, sizeof *p->upto)) return QKV_ERR_LIMIT;
    p->upto = upto;
    memcpy(p->ids, e->ids + first, (size_t)n * sizeof *p->ids);
    p->count = n;
    int64_t end = 0;
    for (int64_t i = 0; causal && i < n; i++) {
        end = qkv_max64(end, e->end[first + i]);
        // the last token also counts trailing bytes that have no token
        p->upto[i] = i == n - 1 ? (int64_t)p->bytes : end;
    }
    return QKV_OK;
}

static void tokenize_one(void *ctx, int64_t i, int thread)
{
    struct build *b = ctx;
    struct build_piece *p = &b->piece[i];
    const struct qkv_encode_options o = how(b);
    const char *text = p->text ? p->text : b->copies + p->at;
    p->status = qkv_tokenizer_encode(b->tokenizer[p->which], &b->encoding[thread], text, p->bytes,
                                     NULL, 0, &o, NULL);
    if (!p->status) p->status = keep_tokens(b, p, &b->encoding[thread]);
}

// Tokenizes a piece that failed a second time, to get the error message.
static qkv_status fail_piece(struct build *b, struct build_piece *p, qkv_error *err)
{
    const struct qkv_encode_options o = how(b);
    const char *text = p->text ? p->text : b->copies + p->at;
    qkv_error found = { 0 };
    qkv_status status = qkv_tokenizer_encode(b->tokenizer[p->which], &b->encoding[0], text,
                                             p->bytes, NULL, 0, &o, &found);
    if (!status) status = qkv_fail_memory(&found, p->file);
    if (!found.file[0]) qkv_escape(found.file, sizeof found.file, p->file);
    if (!found.path[0]) snprintf(found.path, sizeof found.path, "line %" PRId64, p->line);
    // remove the byte offset, which counts from the start of the piece, not of the file
    found.has_offset = false;
    if (err && !err->status) *err = found;
    return status;
}

qkv_status build_flush(struct build *b, qkv_error *err)
{
    const struct qkv_progress *progress = &b->options->progress;
    if (!b->pieces) return QKV_OK;
    qkv_parallel_for_most(b->pieces, b->threads, tokenize_one, b);
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < b->pieces && !status; i++) {
        struct build_piece *p = &b->piece[i];
        b->info.replaced += p->replaced;
        b->done += (int64_t)p->bytes;
        status = p->status ? fail_piece(b, p, err) : build_take(b, p, err);
    }
    b->pieces = b->copied = b->waiting = 0;
    if (!status && progress->step &&
        progress->step(progress->user, "tokenise", qkv_min64(b->done, b->total), b->total))
        status = qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
    return status;
}

// Returns the length of the next piece, at most PIECE bytes. The piece ends after its last line
// end; if it has no line end, after its last space; if it has no space, after its last whole
// character.
static size_t piece_end(const char *text, size_t bytes)
{
    if (bytes <= PIECE) return bytes;
    static const char ends[] = { '\n', ' ' };
    for (size_t k = 0; k < sizeof ends; k++)
        for (size_t i = PIECE; i > PIECE / 2; i--)
            if (text[i - 1] == ends[k]) return i;
    size_t at = PIECE;
    while (at > PIECE - 4 && qkv_utf8_continues(text[at])) at--;
    return at;
}

static qkv_status add_piece(struct build *b, const struct build_piece *like, bool borrowed,
                            qkv_error *err)
{
    void *capacity = b->piece;
    if (!qkv_reserve(&capacity, &b->piece_capacity, b->pieces + 1, sizeof *b->piece))
        return qkv_fail_memory(err, like->file);
    b->piece = capacity;
    struct build_piece *p = &b->piece[b->pieces];
    if (b->pieces == b->pieces_made) {
        memset(p, 0, sizeof *p);
        b->pieces_made++;
    }
    const struct build_piece kept = *p; // the element's old memory, which the new piece reuses
    *p = *like;
    p->ids = kept.ids;
    p->upto = kept.upto;
    p->ids_capacity = kept.ids_capacity;
    p->upto_capacity = kept.upto_capacity;
    p->count = 0;
    if (!borrowed) {
        void *copies = b->copies;
        if (!qkv_reserve(&copies, &b->copies_capacity, b->copied + (int64_t)p->bytes + 1, 1))
            return qkv_fail_memory(err, like->file);
        b->copies = copies;
        if (p->bytes) memcpy(b->copies + b->copied, like->text, p->bytes);
        p->text = NULL;
        p->at = b->copied;
        b->copied += (int64_t)p->bytes;
    }
    b->pieces++;
    b->waiting += (int64_t)p->bytes;
    return QKV_OK;
}

// Finds the number of an example's label. A label that is not in the list gets the next number.
static qkv_status find_label(struct build *b, const struct qkv_example *e, int *out, qkv_error *err)
{
    struct build_labels *l = &b->labels;
    char at[32];
    const struct qkv_location place = { .file = e->file, .path = at };
    snprintf(at, sizeof at, "line %" PRId64, e->line);
    if (!e->second_bytes || e->second_bytes > DATA_LABEL_BYTES ||
        memchr(e->second, '\n', e->second_bytes) || memchr(e->second, 0, e->second_bytes))
        return qkv_fail(err, QKV_ERR_FORMAT, &place,
                        "invalid label, expected a line of 1 to %d bytes, found %zu bytes%s",
                        (int)DATA_LABEL_BYTES, e->second_bytes,
                        e->second_bytes && e->second_bytes <= DATA_LABEL_BYTES
                            ? " with a line break or NUL"
                            : "");
    int32_t id = qkv_trie_find(&l->ids, e->second, e->second_bytes);
    if (id < 0) {
        if (l->closed)
            return qkv_fail(
                err, QKV_ERR_FORMAT, &place,
                "label of the validation text does not occur in the training text, found \"%.*s\"",
                (int)qkv_min64((int64_t)e->second_bytes, 80), e->second);
        if (l->count == DATA_LABELS)
            return qkv_fail(err, QKV_ERR_LIMIT, &place, "too many labels, expected at most %d",
                            DATA_LABELS);
        void *text = l->text;
        if (!qkv_reserve(&text, &l->capacity, l->used + (int64_t)e->second_bytes + 1, 1))
            return qkv_fail_memory(err, e->file);
        l->text = text;
        if (!qkv_trie_add(&l->ids, e->second, e->second_bytes, l->count, &id))
            return qkv_fail_memory(err, e->file);
        memcpy(l->text + l->used, e->second, e->second_bytes);
        l->used += (int64_t)e->second_bytes;
        l->text[l->used++] = '\n';
        l->count++;
    }
    *out = id;
    return QKV_OK;
}

static qkv_status flush_when_full(struct build *b, qkv_error *err)
{
    return b->waiting >= WAITING || b->pieces >= PIECES ? build_flush(b, err) : QKV_OK;
}

qkv_status build_example(struct build *b, int split, const struct qkv_example *e, qkv_error *err)
{
    struct build_piece p = { .split = split, .file = e->file, .line = e->line, .begin = true };
    qkv_status status = QKV_OK;
    b->seen[split]++;
    if (b->info.objective <= QKV_OBJECTIVE_MASKED) {
        for (size_t at = 0; at < e->bytes && !status;) {
            p.text = e->text + at;
            p.bytes = piece_end(p.text, e->bytes - at);
            at += p.bytes;
            p.end = at == e->bytes;
            status = add_piece(b, &p, e->borrowed, err);
            if (!status) status = flush_when_full(b, err);
            p.begin = false;
        }
        return status;
    }
    if (b->info.objective == QKV_OBJECTIVE_CLASSIFY) status = find_label(b, e, &p.label, err);
    p.end = true;
    p.text = e->text;
    p.bytes = e->bytes;
    if (!status) status = add_piece(b, &p, e->borrowed, err);
    if (!status && data_parts(b->info.objective) == 2) {
        p.part = 1;
        p.which = 1;
        p.text = e->second;
        p.bytes = e->second_bytes;
        status = add_piece(b, &p, e->borrowed, err);
    }
    return status ? status : flush_when_full(b, err);
}
