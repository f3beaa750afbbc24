// SPDX-License-Identifier: MIT
// pretokenize_spaces.c: treats white space as SentencePiece does: a mark character replaces each
// space, a mark is inserted before the text, and words begin with their marks.
#include <math.h>
#include <string.h>
#include "text/readers/readers.h"

static bool put_mark(const struct qkv_normalizer_step *s, struct qkv_chars *out, struct qkv_char at)
{
    for (int64_t k = 0; k < s->to_count; k++)
        if (!qkv_chars_add(out, s->to[k], at.begin, at.size)) return false;
    return true;
}

// Returns true if code counts as a space at the end of a text: a space, or a mark that the text
// itself contains.
static bool is_space(const struct qkv_normalizer_step *s, uint32_t code)
{
    return code == ' ' || (s->to_count == 1 && code == s->to[0]);
}

// Replaces spaces by marks; the mark that is inserted before the text has the offsets of the first
// character.
static bool run_spaces(const struct qkv_normalizer_step *s, struct qkv_chars *out,
                       const struct qkv_chars *in)
{
    int64_t i = 0, end = in->count;
    while (s->left && in->begins && i < end && in->at[i].code == ' ') i++;
    while (s->left && in->ends && end > i && is_space(s, in->at[end - 1].code)) end--;
    if (i < end && s->right && in->begins && !put_mark(s, out, in->at[i])) return false;
    for (bool space = false; i < end; i++) {
        const struct qkv_char c = in->at[i];
        const bool again = space && s->left;
        space = c.code == ' ';
        if (space && again) continue;
        if (space ? !put_mark(s, out, c) : !qkv_chars_add(out, c.code, c.begin, c.size))
            return false;
    }
    return true;
}

// Splits words before each mark or, if `prefix` is true, only before the first mark of a run of
// marks.
static bool run_marks(const struct qkv_pre_tokenizer_step *step, struct qkv_words *out,
                      const struct qkv_words *in, bool *rewrote)
{
    const int64_t n = (int64_t)step->bytes;
    *rewrote = false;
    for (int64_t i = 0; i < in->count; i++) {
        const struct qkv_range c = in->cuts[i];
        int64_t begin = c.begin, last = -1; // end of the preceding mark
        for (int64_t at = c.begin; step->cuts && at + n <= c.end;) {
            const uint8_t *p =
                memchr(in->bytes + at, (uint8_t)step->text[0], (size_t)(c.end - at - n + 1));
            if (!p) break;
            at = p - in->bytes;
            if (memcmp(p, step->text, step->bytes) != 0) {
                at++;
                continue;
            }
            if (!(step->prefix && last == at)) {
                if (!qkv_words_cut(out, begin, at)) return false;
                begin = at;
            }
            last = at += n;
        }
        if (!qkv_words_cut(out, begin, c.end)) return false;
    }
    return true;
}

bool qkv_spaces_add(qkv_tokenizer *t, const struct qkv_json_at *at, const struct qkv_spaces *s)
{
    struct qkv_normalizer_step step = {
        .run = run_spaces, .whole = true, .apart = true, .left = s->single, .right = s->prefix
    };
    const struct qkv_pre_tokenizer_step marks = { .run = run_marks,
                                                  .kind = QKV_PRE_TOKENIZER_MARKS,
                                                  .cuts = s->cut != QKV_SPACES_TOGETHER,
                                                  .prefix = s->cut == QKV_SPACES_RUNS };
    return qkv_text_characters(at, s->mark, &step.to, &step.to_count) &&
           qkv_normalizer_add(t, at, step) && qkv_pre_tokenizer_add(t, at, marks, s->mark);
}

enum qkv_spaces_cut qkv_spaces_cut_of(const qkv_tokenizer *t, const char *mark)
{
    const size_t n = strlen(mark);
    enum qkv_spaces_cut cut = QKV_SPACES_EACH;
    if (t->assembly.marks_inside) return QKV_SPACES_TOGETHER;
    for (int64_t i = 0; i < t->vocab.count; i++) {
        const struct qkv_token *token = &t->vocab.tokens[i];
        if (t->assembly.scores && t->assembly.scores[token->id] == -INFINITY) continue;
        const char *text = t->vocab.pool + token->text, *from = text;
        for (const char *p; (p = strstr(from, mark)) != NULL; from = p + n) {
            if (p == text) continue;
            if (p > from || from == text) return QKV_SPACES_TOGETHER;
            cut = QKV_SPACES_RUNS;
        }
    }
    return cut;
}
