// SPDX-License-Identifier: MIT
// decode_pieces.c: decodes the pieces of a SentencePiece model as SentencePiece does: marks become
// spaces except at the start of a text, byte pieces become characters, the unknown piece its
// surface.
#include <string.h>
#include "text/readers/readers.h"

// Passes on the characters that the pending bytes spell, and U+FFFD for each byte that belongs to
// none.  Bytes that may begin a character stay pending unless the run of byte pieces ends.
static bool pass_bytes(struct qkv_decoding *d, int64_t step, bool ends)
{
    struct qkv_text_buffer *b = &d->states[step].pending;
    int64_t i = 0;
    while (i < b->count) {
        const uint8_t *p = (const uint8_t *)b->bytes + i;
        uint32_t code;
        const int used = qkv_utf8_read(p, (size_t)(b->count - i), &code);
        if (used < 0 && !ends && i - used == b->count && *p >= 0xC2 && *p <= 0xF4) break;
        d->states[step].inside = true;
        if (!qkv_decode_feed(d, step + 1, used > 0 ? (const char *)p : "\xEF\xBF\xBD",
                             used > 0 ? used : 3, false))
            return false;
        i += used > 0 ? used : 1;
    }
    if (i < b->count) memmove(b->bytes, b->bytes + i, (size_t)(b->count - i));
    b->count -= i;
    return true;
}

static bool end_pieces(struct qkv_decoding *d, int64_t step)
{
    return pass_bytes(d, step, true);
}

// Decodes one piece.  `inside` is true once the text has a character or its first mark is removed.
static bool put_pieces(struct qkv_decoding *d, int64_t step, const char *text, int64_t n, bool ends)
{
    const struct qkv_decode_step *s = &d->t->decoder.steps[step];
    struct qkv_decode_state *st = &d->states[step];
    const int64_t mark = s->from_bytes;
    const int byte = s->bytes ? qkv_spelled_byte(text, n) : -1;
    (void)ends;
    if (byte >= 0 && d->raw) return qkv_decode_feed(d, step + 1, &(char){ (char)byte }, 1, false);
    if (byte >= 0) {
        qkv_text_append(&st->pending, &(char){ (char)byte }, 1);
        return !st->pending.failed && pass_bytes(d, step, false);
    }
    if (!pass_bytes(d, step, true)) return false;
    if (n == 1 && (uint8_t)*text == QKV_SPM_ABSENT) {
        st->inside = st->inside || s->to_bytes;
        return qkv_decode_feed(d, step + 1, s->to, s->to_bytes, false);
    }
    if (s->start && !st->inside && !d->raw && n >= mark &&
        memcmp(text, s->from, (size_t)mark) == 0) {
        st->inside = !s->cleanup;
        text += mark;
        n -= mark;
    }
    st->inside = st->inside || n;
    for (int64_t i = 0; i < n;) {
        const bool space = n - i >= mark && memcmp(text + i, s->from, (size_t)mark) == 0;
        int64_t end = i + (space ? mark : 1);
        while (!space && end < n && text[end] != *s->from) end++;
        if (!qkv_decode_feed(d, step + 1, space ? " " : text + i, space ? 1 : end - i, false))
            return false;
        i = end;
    }
    return true;
}

bool qkv_pieces_add_decoder(qkv_tokenizer *t, const struct qkv_json_at *at, const struct qkv_spm *m)
{
    char *surface = qkv_copy_text(m->surface, m->surface_bytes);
    if (!surface) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    const struct qkv_decode_step step = { .put = put_pieces,
                                          .end = end_pieces,
                                          .whole = true,
                                          .bytes = m->fallback,
                                          .cleanup = m->single,
                                          .start = m->prefix || m->single };
    const bool ok = qkv_decode_add(t, at, step, QKV_SPM_MARK, surface);
    qkv_free(surface);
    return ok;
}
