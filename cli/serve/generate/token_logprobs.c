// SPDX-License-Identifier: MIT
// token_logprobs.c: prints tokens with their log-probabilities in the forms of OpenAI.
#include "serve/generate/token_logprobs.h"
#include <stdlib.h>
#include <string.h>

void generate_fail_memory(struct generate_job *j)
{
    if (!j->err.status) cmd_no_memory(&j->err);
}

bool generate_close_memory(struct generate_job *j, FILE *to)
{
    const bool bad = !to || ferror(to);
    if ((!to || !fclose(to)) && !bad) return true;
    generate_fail_memory(j);
    return false;
}

struct token_bytes {
    char buffer[256], *at;
    size_t count;
};

static void read_token(struct token_bytes *b, struct generate_job *j, int32_t id)
{
    const qkv_tokenizer *tokenizer = j->job.model->tokenizer;
    b->at = b->buffer;
    bool ok =
        !qkv_tokenizer_token_bytes(tokenizer, b->buffer, sizeof b->buffer, &b->count, id, NULL);
    if (ok && b->count >= sizeof b->buffer) {
        b->at = malloc(b->count + 1);
        ok = b->at &&
             !qkv_tokenizer_token_bytes(tokenizer, b->at, b->count + 1, &b->count, id, NULL);
    }
    if (ok) return;
    generate_fail_memory(j);
    if (!b->at) b->at = b->buffer;
    b->count = 0;
}

static void free_token(struct token_bytes *b)
{
    if (b->at != b->buffer) free(b->at);
}

// Prints a token as text, in which U+FFFD is a byte that is no character on its own, and as bytes.
static void print_token(FILE *to, struct generate_job *j, int32_t id, float logprob)
{
    struct token_bytes b;
    read_token(&b, j, id);
    fputs("{\"token\":", to);
    cmd_json_text(to, b.at, b.count);
    fputs(",\"logprob\":", to);
    cmd_json_float(to, logprob);
    fputs(",\"bytes\":[", to);
    for (size_t i = 0; i < b.count; i++)
        fprintf(to, i ? ",%u" : "%u", (unsigned)(unsigned char)b.at[i]);
    putc(']', to);
    free_token(&b);
}

static void print_logprob(FILE *to, struct generate_job *j, const struct qkv_generated_token *t)
{
    print_token(to, j, t->id, t->logprob);
    fputs(",\"top_logprobs\":[", to);
    for (int64_t i = 0; i < t->tops && i < j->tops; i++) {
        if (i) putc(',', to);
        print_token(to, j, t->top[i].id, t->top[i].value);
        putc('}', to);
    }
    fputs("]}", to);
}

// Prints a token as the text of a completion's logprobs: "bytes:\xe2\x80" if it is no valid UTF-8.
static void print_name(FILE *to, const struct token_bytes *b)
{
    size_t valid = 0;
    for (size_t n = 1; n && valid < b->count; valid += n)
        n = qkv_utf8_bytes(b->at + valid, b->count - valid);
    if (valid == b->count) {
        cmd_json_text(to, b->at, b->count);
        return;
    }
    fputs("\"bytes:", to);
    for (size_t i = 0; i < b->count; i++) {
        const unsigned char c = (unsigned char)b->at[i];
        fprintf(to, c < ' ' || c > '~' || c == '"' || c == '\\' ? "\\\\x%02x" : "%c", c);
    }
    putc('"', to);
}

// Prints the most likely tokens of a completion as an object, and the token itself; null for the
// first token of a prompt.
static void print_tops(FILE *to, struct generate_job *j, const struct qkv_generated_token *t)
{
    struct token_bytes seen[TOPS_MOST + 1];
    int64_t n = 0, k;
    if (!t->tops) {
        fputs("null", to);
        return;
    }
    putc('{', to);
    for (int64_t i = 0; i <= j->tops; i++) {
        struct token_bytes *b = &seen[n];
        const bool top = i < j->tops && i < t->tops;
        read_token(b, j, top ? t->top[i].id : t->id);
        for (k = 0; k < n; k++)
            if (seen[k].count == b->count && !memcmp(seen[k].at, b->at, b->count)) break;
        if (k < n) { // a name occurs once, with the larger probability
            free_token(b);
            continue;
        }
        if (n++) putc(',', to);
        print_name(to, b);
        putc(':', to);
        cmd_json_float(to, top ? t->top[i].value : t->logprob);
    }
    while (n > 0) free_token(&seen[--n]);
    putc('}', to);
}

struct token_logprobs token_logprobs_print(char **text, struct generate_output *x,
                                           const struct qkv_generated_token *t, int64_t before)
{
    struct generate_job *j = x->job;
    struct token_logprobs l = { 0 };
    struct token_bytes name;
    size_t size = 0, begin[LOG_ARRAYS + 1] = { 0 };
    FILE *to = open_memstream(text, &size);
    for (int a = 0; to && a < LOG_ARRAYS; a++) {
        if (j->chat) {
            if (a == 0) print_logprob(to, j, t);
        } else if (a == LOG_TOKENS) {
            read_token(&name, j, t->id);
            print_name(to, &name);
            free_token(&name);
        } else if (a == LOG_VALUES) {
            cmd_json_float(to, t->logprob);
        } else if (a == LOG_TOPS) {
            print_tops(to, j, t);
        } else {
            fprintf(to, "%lld", (long long)(before + t->offset));
        }
        if (fflush(to)) generate_fail_memory(j);
        begin[a + 1] = size;
    }
    if (!generate_close_memory(j, to)) return l;
    for (int a = 0; a < LOG_ARRAYS; a++) {
        l.at[a] = *text + begin[a];
        l.bytes[a] = begin[a + 1] - begin[a];
    }
    return l;
}

void token_logprobs_join(FILE *to, const struct generate_job *j, const struct token_logprobs *l)
{
    static const char *const names[] = { "tokens", "token_logprobs", "top_logprobs",
                                         "text_offset" };
    for (int a = 0; a < (j->chat ? 1 : LOG_ARRAYS); a++) {
        fprintf(to, "%c\"%s\":[", a ? ',' : '{', j->chat ? "content" : names[a]);
        fwrite(l->at[a], 1, l->bytes[a], to);
        putc(']', to);
    }
    putc('}', to);
}
