// SPDX-License-Identifier: MIT
// output_builder.c: assembles the tokens and the text of one output, token by token.
//
// The text of a decoder's output is the text of prompt and output together, without the prompt's
// text. This gives correct spaces between words, and correct handling of bytes that tokenizers drop
// at the start of a text.
#include "task/generate/output_builder.h"

void qkv_output_free(struct qkv_output_builder *b)
{
    qkv_free(b->ids);
    qkv_free(b->logprobs);
    qkv_decode_stream_free(b->stream);
    qkv_output_text_free(&b->text);
}

qkv_status qkv_output_begin(struct qkv_output_builder *b, const struct qkv_generation *g,
                            const int32_t *prompt, int64_t n, qkv_error *err)
{
    const char *text;
    size_t bytes;
    b->count = 0;
    b->skip = 0;
    b->counted = b->characters = 0;
    b->keep_logprobs = g->options.logprobs > 0;
    qkv_decode_stream_free(b->stream);
    b->stream = NULL;
    qkv_status status = qkv_decode_stream_new(&b->stream, g->tokenizer, true, err);
    if (!status && (!qkv_output_text_begin(&b->text, &g->stops) ||
                    (b->keep_logprobs && !qkv_reserve((void **)&b->logprobs, &b->logprobs_capacity,
                                                      1, sizeof *b->logprobs))))
        status = qkv_fail_memory(err, NULL);
    if (!status && n)
        status = qkv_tokenizer_decode(g->tokenizer, NULL, 0, &b->skip, prompt, n, true, err);
    for (int64_t i = 0; !status && i < n; i++) {
        status = qkv_decode_stream_put(b->stream, prompt[i], &text, &bytes, err);
        if (!status) b->skip -= bytes < b->skip ? bytes : b->skip;
    }
    return status;
}

static bool append_token(struct qkv_output_builder *b, int32_t id, float logprob)
{
    const int64_t need = b->count + 1;
    if (!qkv_reserve((void **)&b->ids, &b->ids_capacity, need, sizeof *b->ids)) return false;
    if (b->keep_logprobs) {
        if (!qkv_reserve((void **)&b->logprobs, &b->logprobs_capacity, need, sizeof *b->logprobs))
            return false;
        b->logprobs[b->count] = logprob;
    }
    b->ids[b->count++] = id;
    return true;
}

// Appends text from the stream to the output, without the bytes that belong to the prompt.
static bool append_text(struct qkv_output_builder *b, const char *text, size_t bytes, bool stop)
{
    const size_t skip = bytes < b->skip ? bytes : b->skip;
    size_t at = skip;
    b->skip -= skip;
    while (skip && at < bytes && qkv_utf8_continues(text[at])) at++;
    return qkv_output_text_add(&b->text, text + at, bytes - at, stop);
}

qkv_status qkv_output_end(struct qkv_output_builder *b, qkv_error *err)
{
    const char *text;
    size_t bytes;
    if (b->text.stopped) return QKV_OK;
    const qkv_status status = qkv_decode_stream_end(b->stream, &text, &bytes, err);
    if (status) return status;
    if (!append_text(b, text, bytes, true)) return qkv_fail_memory(err, NULL);
    // no token follows, so no stop string can be completed: all text is final
    b->text.safe = b->text.n;
    return QKV_OK;
}

qkv_status qkv_output_add(struct qkv_output_builder *b, const struct qkv_output_token *t,
                          qkv_error *err)
{
    const char *text;
    size_t bytes;
    for (; b->counted < b->text.n; b->counted++)
        b->characters += !qkv_utf8_continues(b->text.at[b->counted]);
    if (!append_token(b, t->id, t->logprob)) return qkv_fail_memory(err, NULL);
    const qkv_status status = qkv_decode_stream_put(b->stream, t->id, &text, &bytes, err);
    if (status) return status;
    if (!append_text(b, text, bytes, !t->forced)) return qkv_fail_memory(err, NULL);
    return t->last ? qkv_output_end(b, err) : QKV_OK;
}

size_t qkv_output_emit(struct qkv_output_builder *b, const char **text)
{
    const int64_t shown = b->text.shown, safe = qkv_max64(b->text.safe, shown);
    *text = b->text.at ? b->text.at + shown : "";
    b->text.shown = safe;
    return (size_t)(safe - shown);
}
