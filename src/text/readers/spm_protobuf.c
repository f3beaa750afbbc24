// SPDX-License-Identifier: MIT
// spm_protobuf.c: reads a SentencePiece model from its protobuf: the fields of ModelProto
// (sentencepiece_model.proto) that encoding and decoding need.
//
// A message is a sequence of fields.  A field begins with a varint, number << 3 | kind; its value
// is a varint (kind 0), 8 bytes (kind 1), a length and that many bytes (kind 2), or 4 bytes (kind
// 5).
#include <inttypes.h>
#include <string.h>
#include "text/readers/readers.h"

enum { VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 };

struct message {
    const uint8_t *data; // start of the file, for offsets in messages
    size_t at, end;
    const char *file;
    qkv_error *err;
};
struct field {
    uint64_t number, kind, value; // value: the varint; the length of kind BYTES; the 4 bytes
    size_t at;                    // offset of its value in the file
};

static bool fail_at(const struct message *m, size_t at, const char *what)
{
    qkv_fail(m->err, QKV_ERR_FORMAT,
             &(struct qkv_location){ .file = m->file, .has_offset = true, .offset = (int64_t)at },
             "file is not a SentencePiece model: %s", what);
    return false;
}

static bool varint(struct message *m, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < 10; i++) {
        if (m->at == m->end)
            return fail_at(m, m->at, "an integer is truncated, expected more bytes");
        const uint8_t b = m->data[m->at++];
        if (i == 9 && b > 1) break;
        *out |= (uint64_t)(b & 0x7F) << (7 * i);
        if (b < 0x80) return true;
    }
    return fail_at(m, m->at - 1, "an integer has more than 64 bits, expected at most 10 bytes");
}

// Reads the next field and skips its bytes; *more becomes false if there is no further field.
static bool next_field(struct message *m, struct field *f, bool *more)
{
    uint64_t tag;
    const size_t start = m->at;
    *more = m->at < m->end;
    if (!*more) return true;
    if (!varint(m, &tag)) return false;
    f->number = tag >> 3;
    f->kind = tag & 7;
    f->value = 0;
    if (f->number == 0 || f->number > 536870911)
        return fail_at(m, start, "the number of a field is out of range, expected 1 .. 536870911");
    if (f->kind == VARINT) {
        f->at = m->at;
        return varint(m, &f->value);
    }
    uint64_t bytes = f->kind == FIXED64 ? 8 : 4;
    if (f->kind == BYTES && !varint(m, &bytes)) return false;
    if (f->kind == GROUP || f->kind == GROUP_END || f->kind > FIXED32)
        return fail_at(m, start, "a field has an unknown wire type, expected 0, 1, 2 or 5");
    if (bytes > m->end - m->at)
        return fail_at(m, m->at, "a field is truncated, expected as many bytes as its length says");
    f->at = m->at;
    m->at += (size_t)bytes;
    if (f->kind == BYTES) f->value = bytes;
    if (f->kind == FIXED32)
        for (size_t i = 0; i < 4; i++) f->value |= (uint64_t)m->data[f->at + i] << (8 * i);
    return true;
}

static bool want(const struct message *m, const struct field *f, uint64_t kind)
{
    static const char *const what[] = { "a field has the wrong wire type, expected an integer",
                                        "",
                                        "a field has the wrong wire type, expected bytes",
                                        "",
                                        "",
                                        "a field has the wrong wire type, expected 4 bytes" };
    return f->kind == kind || fail_at(m, f->at, what[kind]);
}

static struct message inside(const struct message *m, const struct field *f)
{
    return (struct message){ m->data, f->at, f->at + (size_t)f->value, m->file, m->err };
}

// Reads a message SentencePiece, whose fields are piece = 1, score = 2, type = 3.
static bool read_piece(struct qkv_spm *s, struct message m)
{
    struct qkv_spm_piece p = { .type = QKV_SPM_NORMAL };
    struct field f;
    const size_t start = m.at;
    uint32_t raw = 0;
    for (bool more;;) {
        if (!next_field(&m, &f, &more)) return false;
        if (!more) break;
        if (f.number == 1) {
            if (!want(&m, &f, BYTES)) return false;
            p.text = (const char *)m.data + f.at;
            p.bytes = (size_t)f.value;
            for (size_t i = 0, n; i < p.bytes; i += n) {
                n = p.text[i] ? qkv_utf8_bytes(p.text + i, p.bytes - i) : 0;
                if (!n)
                    return fail_at(&m, f.at + i,
                                   "a piece is not valid UTF-8, expected a character");
            }
        } else if (f.number == 2) {
            if (!want(&m, &f, FIXED32)) return false;
            raw = (uint32_t)f.value;
            memcpy(&p.score, &raw, sizeof p.score);
            if (!(p.score - p.score == 0))
                return fail_at(&m, f.at,
                               "the score of a piece is not finite, expected a finite number");
        } else if (f.number == 3) {
            if (!want(&m, &f, VARINT)) return false;
            if (f.value < QKV_SPM_NORMAL || f.value > QKV_SPM_BYTE)
                return fail_at(&m, f.at, "a piece has an unknown type, expected 1 .. 6");
            p.type = (enum qkv_spm_type)f.value;
        }
    }
    if (!p.bytes) return fail_at(&m, start, "a piece is empty, expected at least one character");
    if (s->count == QKV_TOKEN_IDS) return fail_at(&m, start, "too many pieces");
    if (p.type == QKV_SPM_UNKNOWN) {
        if (s->unknown >= 0)
            return fail_at(&m, start, "there is a second unknown piece, expected one");
        s->unknown = s->count;
    }
    void *v = s->pieces;
    const bool reserved = qkv_reserve(&v, &s->capacity, s->count + 1, sizeof p);
    s->pieces = v;
    if (reserved) s->pieces[s->count++] = p;
    if (!reserved) qkv_fail_memory(m.err, m.file);
    return reserved;
}

// Reads a message TrainerSpec, whose fields are model_type = 3, treat_whitespace_as_suffix = 24,
// byte_fallback = 35, unk_surface = 44.
static bool read_trainer(struct qkv_spm *s, struct message m)
{
    struct field f;
    for (bool more;;) {
        if (!next_field(&m, &f, &more)) return false;
        if (!more) return true;
        if (f.number == 44) {
            if (!want(&m, &f, BYTES)) return false;
            s->surface = (const char *)m.data + f.at;
            s->surface_bytes = (size_t)f.value;
            for (size_t i = 0, n; i < s->surface_bytes; i += n) {
                n = s->surface[i] ? qkv_utf8_bytes(s->surface + i, s->surface_bytes - i) : 0;
                if (!n)
                    return fail_at(&m, f.at + i,
                                   "the text of the unknown piece is not valid UTF-8, expected a "
                                   "character");
            }
        }
        if (f.number != 3 && f.number != 24 && f.number != 35) continue;
        if (!want(&m, &f, VARINT)) return false;
        if (f.number == 3) s->model = f.value > 4 ? 0 : (int64_t)f.value;
        if (f.number == 24) s->suffix = f.value != 0;
        if (f.number == 35) s->fallback = f.value != 0;
    }
}

// Reads a message NormalizerSpec, whose fields are precompiled_charsmap = 2, add_dummy_prefix = 3,
// remove_extra_whitespaces = 4, escape_whitespaces = 5.
static bool read_normalizer(struct qkv_spm *s, struct message m)
{
    struct field f;
    for (bool more;;) {
        if (!next_field(&m, &f, &more)) return false;
        if (!more) return true;
        if (f.number < 2 || f.number > 5) continue;
        if (!want(&m, &f, f.number == 2 ? BYTES : VARINT)) return false;
        if (f.number == 2) {
            s->charsmap = f.value ? m.data + f.at : NULL;
            s->charsmap_size = (size_t)f.value;
        }
        if (f.number == 3) s->prefix = f.value != 0;
        if (f.number == 4) s->single = f.value != 0;
        if (f.number == 5) s->escape = f.value != 0;
    }
}

static bool read_all(struct qkv_spm *s, struct message m)
{
    struct field f;
    for (bool more;;) {
        if (!next_field(&m, &f, &more)) return false;
        if (!more) break;
        if (f.number < 1 || f.number > 3) continue;
        if (!want(&m, &f, BYTES)) return false;
        if (f.number == 1 && !read_piece(s, inside(&m, &f))) return false;
        if (f.number == 2 && !read_trainer(s, inside(&m, &f))) return false;
        if (f.number == 3 && !read_normalizer(s, inside(&m, &f))) return false;
    }
    if (!s->count) return fail_at(&m, m.end, "there are no pieces, expected at least one");
    return s->unknown >= 0 || fail_at(&m, m.end, "the unknown piece is missing, expected one");
}

qkv_status qkv_spm_read(struct qkv_spm *s, const uint8_t *data, size_t size, const char *file,
                        qkv_error *err)
{
    qkv_error own = { 0 };
    *s = (struct qkv_spm){ .unknown = -1,
                           .model = 1,
                           .prefix = true,
                           .single = true,
                           .escape = true,
                           .surface = " \xE2\x81\x87 ",
                           .surface_bytes = 5 };
    if (read_all(s, (struct message){ data, 0, size, file, &own })) return QKV_OK;
    qkv_spm_free(s);
    if (err && !err->status) *err = own;
    return own.status;
}

void qkv_spm_free(struct qkv_spm *m)
{
    qkv_free(m->pieces);
    memset(m, 0, sizeof *m);
}
