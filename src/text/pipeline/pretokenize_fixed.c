// SPDX-License-Identifier: MIT
// pretokenize_fixed.c: splits texts by Unicode script or into words of a fixed number of
// characters.
#include <inttypes.h>
#include "text/text_internal.h"
#include "text/unicode/unicode_scripts.h"

// ---- scripts -----------------------------------------------------------------------------------
// Returns the script of a character, or 0 if it has no script (a space, an unassigned code) and so
// belongs to the script before it.
static uint32_t script_of(uint32_t code)
{
    // searches for the last run that begins at `code` or before it
    size_t low = 0, high = sizeof script_runs / sizeof script_runs[0];
    while (high - low > 1) { // at code or before
        const size_t mid = low + (high - low) / 2;
        if (script_runs[mid] >> 8 <= code)
            low = mid;
        else
            high = mid;
    }
    return code == ' ' ? 0 : script_runs[low] & 0xFF;
}

// Characters before the first character with a script belong to no word, as in Hugging Face
// tokenizers.
static bool run_scripts(const struct qkv_pre_tokenizer_step *step, struct qkv_words *out,
                        const struct qkv_words *in, bool *rewrote)
{
    (void)step;
    *rewrote = false;
    for (int64_t i = 0; i < in->count; i++) {
        const struct qkv_range c = in->cuts[i];
        int64_t begin = c.end;
        uint32_t last = 0;
        for (int64_t at = c.begin; at < c.end;) {
            uint32_t code;
            const int n = qkv_utf8_read(in->bytes + at, (size_t)(c.end - at), &code);
            const uint32_t script = script_of(code);
            if (script && script != last) {
                if (last && !qkv_words_cut(out, begin, at)) return false;
                begin = at;
                last = script;
            }
            at += n < 0 ? -n : n;
        }
        if (!qkv_words_cut(out, begin, c.end)) return false;
    }
    return true;
}

bool qkv_pre_tokenizer_scripts(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return qkv_pre_tokenizer_add(
        t, at,
        (struct qkv_pre_tokenizer_step){ .run = run_scripts, .kind = QKV_PRE_TOKENIZER_SPLIT }, "");
}

// ---- words of a fixed length -------------------------------------------------------------------
static bool run_fixed(const struct qkv_pre_tokenizer_step *step, struct qkv_words *out,
                      const struct qkv_words *in, bool *rewrote)
{
    *rewrote = false;
    for (int64_t i = 0; i < in->count; i++) {
        const struct qkv_range c = in->cuts[i];
        int64_t begin = c.begin, chars = 0;
        for (int64_t at = c.begin; at < c.end; at++) {
            if (qkv_utf8_continues(in->bytes[at]) || chars++ < step->chars) continue;
            if (!qkv_words_cut(out, begin, at)) return false;
            begin = at;
            chars = 1;
        }
        if (!qkv_words_cut(out, begin, c.end)) return false;
    }
    return true;
}

bool qkv_pre_tokenizer_fixed_length(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_pre_tokenizer_step s = { .run = run_fixed, .kind = QKV_PRE_TOKENIZER_SPLIT };
    if (!qkv_json_int(at, "length", true, &s.chars, 1, INT64_MAX)) return false;
    return qkv_pre_tokenizer_add(t, at, s, "");
}
