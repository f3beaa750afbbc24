// SPDX-License-Identifier: MIT
// vocab.c: maps tokens to ids with a trie, and ids to tokens with a sorted list.
#include "text/text_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool qkv_vocab_add(struct qkv_vocab *v, const char *text, size_t bytes, int32_t id, uint8_t flags)
{
    void *tokens = v->tokens, *pool = v->pool;
    const bool ok = qkv_reserve(&tokens, &v->capacity, v->count + 1, sizeof *v->tokens) &&
                    qkv_reserve(&pool, &v->pool_capacity, v->pool_count + (int64_t)bytes + 1, 1);
    v->tokens = tokens;
    if (!ok) return false;
    v->pool = pool;
    memcpy(v->pool + v->pool_count, text, bytes);
    v->pool[v->pool_count + (int64_t)bytes] = 0;
    v->tokens[v->count++] =
        (struct qkv_token){ (uint32_t)v->pool_count, (uint32_t)bytes, id, flags };
    v->pool_count += (int64_t)bytes + 1;
    return true;
}

bool qkv_vocab_read(struct qkv_vocab *v, const struct qkv_json_at *at, const char *key)
{
    char path[256];
    bool ok;
    if (v->scanned) return true;
    json_t *list = (json_t *)qkv_json_member(at, key, true, false, path, &ok);
    if (!list) return false;
    const size_t count = json_object_size(list);
    if (count > QKV_TOKEN_IDS)
        return qkv_text_fail(at, key, QKV_ERR_LIMIT,
                             "too many tokens, expected at most %d, found %zu", QKV_TOKEN_IDS,
                             count);
    if (!qkv_trie_init(&v->trie, count)) goto memory;
    for (void *i = json_object_iter(list); i; i = json_object_iter_next(list, i)) {
        const char *text = json_object_iter_key(i);
        const json_t *value = json_object_iter_value(i);
        const size_t bytes = strlen(text);
        const struct qkv_json_at here = { list, at->file, path, at->err };
        if (!json_is_integer(value))
            return qkv_text_fail(&here, text, QKV_ERR_FORMAT,
                                 "token id has the wrong type, expected an integer");
        const json_int_t id = json_integer_value(value);
        if (id < 0 || id >= QKV_TOKEN_IDS)
            return qkv_text_fail(
                &here, text, QKV_ERR_FORMAT,
                "token id out of range, expected 0 .. %d, found %" JSON_INTEGER_FORMAT,
                QKV_TOKEN_IDS - 1, id);
        int32_t got;
        if (!qkv_vocab_add(v, text, bytes, (int32_t)id, 0)) goto memory;
        if (!qkv_trie_add(&v->trie, text, bytes, (int32_t)id, &got)) goto memory;
    }
    return true;
memory:
    qkv_fail_memory(at->err, at->file);
    return false;
}

static void sink_down(struct qkv_token *t, int64_t at, int64_t count)
{
    for (;;) {
        int64_t big = at * 2 + 1;
        if (big >= count) return;
        if (big + 1 < count && t[big + 1].id > t[big].id) big++;
        if (t[at].id >= t[big].id) return;
        const struct qkv_token swap = t[at];
        t[at] = t[big];
        t[big] = swap;
        at = big;
    }
}

void qkv_vocab_finish(struct qkv_vocab *v, int64_t *twice)
{
    struct qkv_token *t = v->tokens;
    bool sorted = true;
    for (int64_t i = 1; i < v->count; i++) sorted = sorted && t[i - 1].id <= t[i].id;
    if (!sorted) { // heap sort: in place, n log n for every input
        for (int64_t i = v->count / 2; i-- > 0;) sink_down(t, i, v->count);
        for (int64_t n = v->count; n-- > 1;) {
            const struct qkv_token swap = t[0];
            t[0] = t[n];
            t[n] = swap;
            sink_down(t, 0, n);
        }
    }
    *twice = -1;
    for (int64_t i = 1; i < v->count && *twice < 0; i++)
        if (t[i - 1].id == t[i].id) *twice = t[i].id;
}

const struct qkv_token *qkv_vocab_token(const struct qkv_vocab *v, int64_t id)
{
    if (id < 0) return NULL;
    if (id < v->count && v->tokens[id].id == id)
        return &v->tokens[id]; // the usual case: no unused ids below
    int64_t low = 0, high = v->count;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (v->tokens[mid].id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return low < v->count && v->tokens[low].id == id ? &v->tokens[low] : NULL;
}

void qkv_vocab_free(struct qkv_vocab *v)
{
    qkv_trie_free(&v->trie);
    qkv_free(v->tokens);
    qkv_free(v->pool);
    memset(v, 0, sizeof *v);
}
