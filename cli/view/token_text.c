// SPDX-License-Identifier: MIT
// token_text.c: writes a token that a model predicts for people.
#include "view/token_text.h"
#include <stdlib.h>
#include <string.h>

// Writes the text of one token, decoded alone, to out[size]: "" if it has none, or a longer one.
// Returns false if memory is exhausted.
static bool decode(char *out, size_t size, const qkv_tokenizer *k, int32_t id)
{
    qkv_decode_stream *stream = NULL;
    const char *text = NULL;
    size_t bytes = 0, all = 0;
    qkv_status status = qkv_decode_stream_new(&stream, k, true, NULL);
    for (int end = 0; end < 2 && !status; end++) {
        status = end ? qkv_decode_stream_end(stream, &text, &bytes, NULL)
                     : qkv_decode_stream_put(stream, id, &text, &bytes, NULL);
        if (!status && all + bytes < size && bytes) memcpy(out + all, text, bytes);
        all += status ? 0 : bytes;
    }
    qkv_decode_stream_free(stream);
    out[status || all >= size ? 0 : all] = 0;
    return status != QKV_ERR_LIMIT;
}

char *token_text(const qkv_tokenizer *k, int32_t id)
{
    const char *raw = k ? qkv_tokenizer_token(k, id) : NULL;
    char number[16], text[512] = "", first[2] = "";
    snprintf(number, sizeof number, "#%ld", (long)id);
    if (!raw) raw = number;
    const bool plain = !k || raw == number || qkv_tokenizer_special(k, id);
    if (!plain && (!decode(text, sizeof text, k, id) ||
                   qkv_tokenizer_token_bytes(k, first, sizeof first, NULL, id, NULL)))
        return NULL;
    const size_t skip = *text == ' ';
    // a token that is spelled as its text marks no space, even if the decoder puts one before it
    const bool space = skip || (*first == ' ' && strcmp(text, raw) != 0);
    // bytes that are no character on their own keep the spelling of the vocabulary
    const bool shown = *text && (text[skip] || space) && !strstr(text, "\xef\xbf\xbd");
    const char *word = shown ? text + skip : raw;
    const size_t size = strlen(word) + 4;
    char *out = malloc(size);
    if (out) snprintf(out, size, "%s%s", shown && space ? "\xe2\x90\xa3" : "", word);
    return out;
}
