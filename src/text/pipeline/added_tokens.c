// SPDX-License-Identifier: MIT
// added_tokens.c: reads added tokens, checks them against the vocabulary, and finds them in a text:
// the leftmost match, and if several tokens match there, the longest of them.
#include "text/text_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *text_of(const struct qkv_added *a, const struct qkv_added_token *t)
{
    return a->pool + t->text;
}

// Appends text[bytes] and a NUL to the pool.  Returns the offset of the text in the pool, or -1 if
// memory is exhausted.
static int64_t pool_add(struct qkv_added *a, const char *text, size_t bytes)
{
    const int64_t at = a->pool_count;
    void *pool = a->pool;
    if (!qkv_reserve(&pool, &a->pool_capacity, at + (int64_t)bytes + 1, 1)) return -1;
    a->pool = pool;
    memcpy(a->pool + at, text, bytes);
    a->pool[at + (int64_t)bytes] = 0;
    a->pool_count += (int64_t)bytes + 1;
    return at;
}

// Checks that the vocabulary has this id for the token, or, if it does not contain the token, does
// not use the id.
static bool check_id(const qkv_tokenizer *t, const struct qkv_json_at *at, const char *text,
                     int32_t id)
{
    const int32_t known = qkv_trie_find(&t->vocab.trie, text, strlen(text));
    if (known >= 0 && known != id)
        return qkv_text_fail(
            at, "id", QKV_ERR_FORMAT,
            "wrong id of the added token \"%s\", expected its id in the vocabulary, %" PRId32
            ", found %" PRId32,
            text, known, id);
    return true;
}

static bool read_added_token(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_added *a = &t->added;
    struct qkv_added_token token = { 0 };
    const char *text = NULL;
    int64_t id = 0;
    if (!qkv_json_text(at, "content", true, &text)) return false;
    if (!json_is_integer(json_object_get(at->object, "id"))) {
        if (!qkv_json_int(at, "id", true, &id, 0, INT64_MAX)) return false;
    }
    id = json_integer_value(json_object_get(at->object, "id"));
    if (id < 0 || id >= QKV_TOKEN_IDS)
        return qkv_text_fail(at, "id", QKV_ERR_FORMAT,
                             "token id out of range, expected 0 .. %d, found %" PRId64,
                             QKV_TOKEN_IDS - 1, id);
    token.normalized = true;
    if (!qkv_json_bool(at, "special", false, &token.special)) return false;
    token.normalized = !token.special;
    if (!qkv_json_bool(at, "single_word", false, &token.single_word)) return false;
    if (!qkv_json_bool(at, "lstrip", false, &token.lstrip)) return false;
    if (!qkv_json_bool(at, "rstrip", false, &token.rstrip)) return false;
    if (!qkv_json_bool(at, "normalized", false, &token.normalized)) return false;
    const size_t bytes = strlen(text);
    if (!bytes)
        return qkv_text_fail(at, "content", QKV_ERR_FORMAT,
                             "empty added token, expected at least one character");
    if (bytes > QKV_ADDED_BYTES)
        return qkv_text_fail(at, "content", QKV_ERR_LIMIT,
                             "added token too long, expected at most %d bytes, found %zu",
                             QKV_ADDED_BYTES, bytes);
    if (!check_id(t, at, text, (int32_t)id)) return false;
    int32_t got;
    void *tokens = a->tokens;
    if (!qkv_trie_add(&a->names, text, bytes, (int32_t)a->count, &got)) goto memory;
    if (got != a->count)
        return qkv_text_fail(
            at, "content", QKV_ERR_FORMAT,
            "duplicate added token, expected each added token once, found \"%s\" again", text);
    const bool reserved = qkv_reserve(&tokens, &a->capacity, a->count + 1, sizeof *a->tokens);
    a->tokens = tokens;
    token.id = (int32_t)id;
    token.text = token.matched = reserved ? pool_add(a, text, bytes) : -1;
    token.bytes = token.matched_bytes = (uint32_t)bytes;
    if (token.text < 0) goto memory;
    a->tokens[a->count++] = token;
    return true;
memory:
    qkv_fail_memory(at->err, at->file);
    return false;
}

// Adds a token that is marked "normalized": it is matched in the normalized text, and decoded in
// its normalized spelling.
static bool add_normalized(qkv_tokenizer *t, int32_t index)
{
    struct qkv_added_token *token = &t->added.tokens[index];
    const char *text = text_of(&t->added, token);
    struct qkv_chars a = { 0 }, b = { 0 };
    char *out = NULL;
    int32_t got;
    bool ok = true;
    for (size_t i = 0; i < token->bytes && ok;) {
        uint32_t code;
        const int n = qkv_utf8_read((const uint8_t *)text + i, token->bytes - i, &code);
        i += (size_t)(n < 0 ? -n : n);
        ok = qkv_chars_add(&a, code, 0, 0);
    }
    ok = ok && qkv_normalize(&t->normalizer, &a, &b) &&
         (out = qkv_alloc((size_t)a.count * 4 + 1, 1)) != NULL;
    if (ok) {
        size_t bytes = 0;
        for (int64_t i = 0; i < a.count; i++)
            bytes += (size_t)qkv_utf8_write((uint8_t *)out + bytes, a.at[i].code);
        token->matched = pool_add(&t->added, out, bytes);
        token->matched_bytes = (uint32_t)bytes;
        // If two tokens have the same normalized spelling, the first token matches.
        ok = token->matched >= 0 &&
             (!bytes || qkv_trie_add(&t->added.normalized, out, bytes, index, &got));
    }
    qkv_free(a.at);
    qkv_free(b.at);
    qkv_free(out);
    return ok;
}

// Adds all tokens to the tries, special tokens first, because if two tokens have the same text, the
// first of them matches.
static bool index_tokens(qkv_tokenizer *t, const struct qkv_json_at *root)
{
    struct qkv_added *a = &t->added;
    for (int special = 1; special >= 0; special--) {
        for (int32_t i = 0; i < a->count; i++) {
            const struct qkv_added_token *token = &a->tokens[i];
            int32_t got;
            if (token->special != (special == 1)) continue;
            if (a->languages && qkv_added_language((const uint8_t *)text_of(a, token),
                                                   token->bytes) == token->bytes)
                continue; // found by find_language
            if (token->normalized && t->assembly.verbatim
                    ? !qkv_trie_add(&a->normalized, text_of(a, token), token->bytes, i, &got)
                : token->normalized
                    ? !add_normalized(t, i)
                    : !qkv_trie_add(&a->raw, text_of(a, token), token->bytes, i, &got)) {
                qkv_fail_memory(root->err, root->file);
                return false;
            }
            if (!token->matched_bytes) {
                char path[64];
                snprintf(path, sizeof path, "$.added_tokens[%" PRId32 "]", i);
                return qkv_text_fail(&(struct qkv_json_at){ NULL, root->file, path, root->err },
                                     "content", QKV_ERR_FORMAT,
                                     "added token is empty after normalization, expected at least "
                                     "one character, found \"%s\"",
                                     text_of(a, token));
            }
            *(token->normalized ? &a->any_normalized : &a->any_raw) = true;
        }
    }
    return true;
}

bool qkv_added_read(qkv_tokenizer *t, const struct qkv_json_at *root)
{
    struct qkv_added *a = &t->added;
    const size_t count = json_array_size(json_object_get(root->object, "added_tokens"));
    if (!qkv_trie_init(&a->names, count) || !qkv_trie_init(&a->raw, count) ||
        !qkv_trie_init(&a->normalized, count)) {
        qkv_fail_memory(root->err, root->file);
        return false;
    }
    const json_t *list = json_object_get(root->object, "added_tokens");
    if (!list || json_is_null(list)) return true;
    if (!qkv_component_list(t, root, "added_tokens", read_added_token)) return false;
    // Tokens that the vocabulary does not contain are added to it.
    for (int64_t i = 0; i < a->count; i++) {
        const struct qkv_added_token *token = &a->tokens[i];
        if (qkv_trie_find(&t->vocab.trie, text_of(a, token), token->bytes) >= 0) continue;
        if (!qkv_vocab_add(&t->vocab, text_of(a, token), token->bytes, token->id, 0)) {
            qkv_fail_memory(root->err, root->file);
            return false;
        }
    }
    return index_tokens(t, root);
}

bool qkv_added_decode_as(struct qkv_added *a, int32_t id, const char *text)
{
    for (int64_t i = 0; i < a->count; i++) {
        if (a->tokens[i].id != id) continue;
        const int64_t at = pool_add(a, text, strlen(text));
        if (at < 0) return false;
        a->tokens[i].matched = at;
        a->tokens[i].matched_bytes = (uint32_t)strlen(text);
    }
    return true;
}

void qkv_added_free(struct qkv_added *a)
{
    qkv_free(a->tokens);
    qkv_free(a->pool);
    qkv_trie_free(&a->names);
    qkv_trie_free(&a->raw);
    qkv_trie_free(&a->normalized);
    memset(a, 0, sizeof *a);
}

int64_t qkv_added_language(const uint8_t *text, int64_t bytes)
{
    if (bytes < 4 || memcmp(text, ">>", 2) != 0) return 0;
    for (const uint8_t *p = text; (p = memchr(p, '<', (size_t)(text + bytes - 1 - p))); p++)
        if (p[1] == '<') return p + 2 - text;
    return 0;
}

// ---- finding -----------------------------------------------------------------------------------
// A text consists of bytes or, after normalization, of characters; the next four functions read
// both.

// Returns the length, in bytes or in characters, of the longest token that starts at `at`, or 0 if
// no token starts there.
static int64_t match_longest(const struct qkv_added_walk *w, int64_t at, int32_t *index)
{
    uint32_t node = QKV_TRIE_ROOT;
    int64_t longest = 0;
    for (int64_t i = at; i < w->n; i++) {
        uint8_t bytes[4];
        int n = 1;
        if (w->bytes)
            bytes[0] = w->bytes[i];
        else
            n = qkv_utf8_write(bytes, w->chars[i].code);
        for (int k = 0; k < n && node; k++) node = qkv_trie_step(w->trie, node, bytes[k]);
        if (!node) break;
        if (w->trie->value[node] >= 0) {
            longest = i + 1 - at;
            *index = w->trie->value[node];
        }
    }
    return longest;
}

static uint32_t next_char(const struct qkv_added_walk *w, int64_t at, int64_t *size)
{
    uint32_t code;
    *size = 1;
    if (!w->bytes) return w->chars[at].code;
    const int n = qkv_utf8_read(w->bytes + at, (size_t)(w->n - at), &code);
    *size = n < 0 ? -n : n;
    return code;
}

static uint32_t last_char(const struct qkv_added_walk *w, int64_t end, int64_t *size)
{
    *size = 1;
    if (!w->bytes) return w->chars[end - 1].code;
    for (int64_t n = 1; n <= 4 && n <= end; n++) {
        uint32_t code;
        if (qkv_utf8_read(w->bytes + end - n, (size_t)n, &code) == n) {
            *size = n;
            return code;
        }
    }
    return 0xFFFD;
}

// Returns the first position from `at` on at which the first byte of a token occurs.
static int64_t candidate(const struct qkv_added_walk *w, int64_t at)
{
    if (w->bytes) {
        while (at < w->n && !w->trie->first[w->bytes[at]]) at++;
        return at;
    }
    for (; at < w->n; at++) {
        uint8_t bytes[4];
        qkv_utf8_write(bytes, w->chars[at].code);
        if (w->trie->first[bytes[0]]) break;
    }
    return at;
}

static bool is_class(uint32_t code, unsigned class)
{
    return qkv_unicode_class(code, class) != 0;
}

// Finds the next token whose flags allow it to match, with the white space that it includes.
// Returns false if there is no further token.
static bool find_token(struct qkv_added_walk *w, struct qkv_added_match *out)
{
    for (int64_t at; (at = candidate(w, w->search)) < w->n;) {
        int32_t index = -1;
        const int64_t size = match_longest(w, at, &index);
        if (!size) {
            w->search = at + 1;
            continue;
        }
        const struct qkv_added_token *t = &w->added->tokens[index];
        int64_t begin = at, end = at + size, n;
        w->search = end; // also when the token is not allowed: matches do not overlap
        if (w->no_special && t->special) continue;
        if (t->single_word && begin > 0 && is_class(last_char(w, begin, &n), QKV_CLASS_WORD))
            continue;
        if (t->single_word && end < w->n && is_class(next_char(w, end, &n), QKV_CLASS_WORD))
            continue;
        while (t->lstrip && begin > w->at && is_class(last_char(w, begin, &n), QKV_CLASS_SPACE))
            begin -= n;
        while (t->rstrip && end < w->n && is_class(next_char(w, end, &n), QKV_CLASS_SPACE))
            end += n;
        // the token before may include white space of this one, or all of it
        if (t->lstrip && begin < w->at) begin = qkv_min64(w->at, end);
        *out = (struct qkv_added_match){ begin, end, index };
        return true;
    }
    return false;
}

// Splits *out, the text between added tokens, after the language with which it begins, if any. A
// language that is no token is the unknown token.
static void find_language(struct qkv_added_walk *w, struct qkv_added_match *out)
{
    const uint8_t *text = w->bytes + out->begin;
    const int64_t n = qkv_added_language(text, out->end - out->begin);
    if (!n) return;
    out->token = qkv_trie_find(&w->added->names, (const char *)text, (size_t)n);
    if (out->token < 0) out->token = qkv_trie_find(&w->added->names, "<unk>", 5);
    w->rest = (struct qkv_added_match){ out->begin + n, out->end, -1 };
    out->end = w->rest.begin;
}

static bool next_range(struct qkv_added_walk *w, struct qkv_added_match *out)
{
    if (w->has_next) {
        *out = w->next;
        w->has_next = false;
        w->at = out->end;
        return true;
    }
    if (w->trie && find_token(w, &w->next)) {
        if (w->next.begin <= w->at) {
            *out = w->next;
            w->at = out->end;
            return true;
        }
        *out = (struct qkv_added_match){ w->at, w->next.begin, -1 };
        w->has_next = true;
        return true;
    }
    if (w->at >= w->n) return false;
    *out = (struct qkv_added_match){ w->at, w->n, -1 };
    w->at = w->n;
    return true;
}

bool qkv_added_next(struct qkv_added_walk *w, struct qkv_added_match *out)
{
    if (w->rest.end > w->rest.begin) {
        *out = w->rest;
        w->rest = (struct qkv_added_match){ 0 };
        return true;
    }
    if (!next_range(w, out)) return false;
    if (out->token < 0 && w->added->languages && w->bytes && !w->no_special) find_language(w, out);
    return true;
}
