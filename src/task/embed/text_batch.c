// SPDX-License-Identifier: MIT
// text_batch.c: makes batches of tokens from texts or ids. A batch packs as many whole texts as fit
// into a budget of tokens.
#include "task/embed/embed_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// Appends the tokens of a text, ids[count], to the batch, padded to `capacity` tokens. types NULL:
// all token types are 0.
static bool append(struct qkv_batch *b, const int32_t *ids, const int32_t *types, int64_t count,
                   int64_t capacity)
{
    const int64_t at = b->texts ? b->offsets[b->texts] : 0, end = at + capacity;
    if (!qkv_reserve((void **)&b->offsets, &b->offsets_capacity, b->texts + 2,
                     sizeof *b->offsets) ||
        !qkv_reserve((void **)&b->lengths, &b->lengths_capacity, b->texts + 1,
                     sizeof *b->lengths) ||
        !qkv_reserve((void **)&b->ids, &b->ids_capacity, end, sizeof *b->ids) ||
        !qkv_reserve((void **)&b->types, &b->types_capacity, end, sizeof *b->types))
        return false;
    b->offsets[0] = 0;
    if (capacity) { // Padding tokens have id 0. Their hidden states are never read.
        memset(b->ids + at, 0, (size_t)capacity * sizeof *b->ids);
        memset(b->types + at, 0, (size_t)capacity * sizeof *b->types);
    }
    if (count) memcpy(b->ids + at, ids, (size_t)count * sizeof *b->ids);
    if (count && types) memcpy(b->types + at, types, (size_t)count * sizeof *b->types);
    b->lengths[b->texts] = count;
    b->offsets[++b->texts] = end;
    return true;
}

// The tokens of one text that is in no batch yet.
struct tokens {
    const int32_t *ids, *types;
    int64_t count;
};

bool qkv_join_prompt(struct qkv_feed *f, const char **text, size_t *bytes)
{
    const size_t before = strlen(f->prompt);
    if (!qkv_reserve((void **)&f->joined, &f->joined_capacity, (int64_t)(before + *bytes + 1), 1))
        return false;
    memcpy(f->joined, f->prompt, before);
    memcpy(f->joined + before, *text, *bytes);
    *text = f->joined;
    *bytes += before;
    return true;
}

static qkv_status encode(struct qkv_feed *f, struct tokens *t, qkv_error *err)
{
    const int64_t i = f->at;
    if (!f->waiting) {
        const char *text = f->texts[i];
        const int64_t before = f->prompt ? (int64_t)strlen(f->prompt) : 0;
        size_t bytes = f->bytes ? f->bytes[i] : strlen(text);
        if (f->prompt && !qkv_join_prompt(f, &text, &bytes)) return qkv_fail_memory(err, NULL);
        const qkv_status status =
            qkv_tokenizer_encode(f->tokenizer, &f->encoding, text, bytes, NULL, 0, &f->how, err);
        if (status) return status;
        const qkv_encoding *e = &f->encoding;
        f->counted.tokens += e->count;
        f->counted.cut_texts += e->cut > 0;
        f->counted.cut_tokens += e->cut;
        if (e->replaced && !f->counted.replaced) {
            f->counted.replaced_text = i;
            f->counted.replaced_at = e->replaced_at - before;
        }
        f->counted.replaced += e->replaced;
        if (e->dropped && !f->counted.dropped) {
            f->counted.dropped_text = i;
            f->counted.dropped_at = qkv_max64(e->dropped_at - before, 0);
        }
        f->counted.dropped += e->dropped;
        f->waiting = true;
    }
    *t = (struct tokens){ f->encoding.ids, f->encoding.types, f->encoding.count };
    return QKV_OK;
}

static qkv_status take_ids(struct qkv_feed *f, struct tokens *t, qkv_error *err)
{
    const int64_t i = f->at, most = f->how.max_length;
    int64_t count = f->offsets[i + 1] - f->offsets[i];
    if (count < 0 || f->offsets[0] != 0)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "invalid offsets of texts, expected ascending numbers from 0");
    if (count > most && !f->how.truncate)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "text too long, expected at most %" PRId64 " tokens, found %" PRId64, most,
                        count);
    if (!f->waiting) {
        f->counted.cut_texts += count > most;
        f->counted.cut_tokens += count > most ? count - most : 0;
        f->counted.tokens += qkv_min64(count, most);
        f->waiting = true;
    }
    *t = (struct tokens){ f->ids + f->offsets[i], NULL, qkv_min64(count, most) };
    return QKV_OK;
}

static qkv_status fill(struct qkv_feed *f, struct qkv_batch *b, qkv_error *err)
{
    for (; f->at < f->n; f->at++) {
        struct tokens t = { 0 };
        if (f->ahead && qkv_prefetch_stopped(f->ahead))
            return QKV_OK; // the caller of the feed has stopped and needs no further batch
        const qkv_status status = f->texts ? encode(f, &t, err) : take_ids(f, &t, err);
        if (status) {
            if (f->n > 1 && !err->path[0]) // name the text that failed in the error
                snprintf(err->path, sizeof err->path, "text %" PRId64, f->at + 1);
            return status;
        }
        const int64_t capacity =
            f->pad && t.count ? qkv_max64(t.count, f->how.max_length) : t.count;
        if (b->texts && b->offsets[b->texts] + capacity > f->budget) return QKV_OK;
        if (!append(b, t.ids, t.types, t.count, capacity)) return qkv_fail_memory(err, NULL);
        f->waiting = false;
    }
    return QKV_OK;
}

bool qkv_batch_next(void *ctx, int slot)
{
    struct qkv_feed *f = ctx;
    struct qkv_batch *b = &f->batch[slot];
    b->first = f->at;
    b->texts = 0;
    b->err = (qkv_error){ 0 };
    b->status = fill(f, b, &b->err);
    return !b->status && f->at < f->n;
}

void qkv_feed_free(struct qkv_feed *f)
{
    for (int i = 0; i < 2; i++) {
        qkv_free(f->batch[i].offsets);
        qkv_free(f->batch[i].lengths);
        qkv_free(f->batch[i].ids);
        qkv_free(f->batch[i].types);
    }
    qkv_free(f->joined);
    qkv_encoding_free(&f->encoding);
}
