// SPDX-License-Identifier: MIT
// index_build.c: writes an index: first all texts, then their vectors.  Texts of files that an old
// index has unchanged keep their vectors; since the vector of a text does not depend on the other
// texts, the result has the bytes of an index that is made from all files.
#include "index/index.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 1024 };

// ---- texts -------------------------------------------------------------------------------------
// Copies the passages of an unchanged file from the old index.
static qkv_status copy_passages(struct index_build *b, const struct index_file *f, int64_t id,
                                int64_t first, int64_t passages, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < passages && !status; i++) {
        struct store_passage p;
        struct store_reason why;
        const enum store_status got = b->engine->passage(b->old->store, first + i, &p, &why);
        if (got) return index_store_error(got, &why, b->path, err);
        p.file = id;
        status = index_add(b, f, &p, err);
        // a vector that damage has made nonfinite is computed again
        if (!status && index_is_finite(&b->old->vectors, first + i))
            b->source[b->passages - 1] = first + i;
    }
    return status;
}

// What the old index has of a file.
struct old_file {
    bool found;
    bool same; // the same bytes and the same kind of operand, so that its passages are the same
    int64_t first, passages;
};

// Looks for a file in the old index.  Fills `in` if it is there.
static qkv_status find_old(const struct index_build *b, const struct index_file *f,
                           struct old_file *old, struct qkv_shard_input *in, qkv_error *err)
{
    struct store_reason why = { 0 };
    struct store_file row;
    *old = (struct old_file){ .found = false };
    const enum store_status status =
        b->old ? b->engine->file_named(b->old->store, f->name, &row, &why) : STORE_NONE;
    if (status == STORE_NONE) return QKV_OK;
    if (status) return index_store_error(status, &why, b->path, err);
    if (qkv_shard_scan(in, &(struct qkv_shard){ 0, 1 }, f->name, NULL, err)) return err->status;
    const int64_t count = b->old->vectors.count;
    *old = (struct old_file){ .found = true, .first = row.first, .passages = row.passages };
    old->same = row.bytes == in->bytes && row.sha256.bytes == 64 &&
                !memcmp(row.sha256.at, in->sha256, 64) && row.folder == f->folder &&
                row.first <= count && row.passages <= count - row.first;
    return QKV_OK;
}

// Adds one file.
static qkv_status add_file(struct index_build *b, const struct index_file *f, int64_t id,
                           qkv_error *err)
{
    struct store_reason why = { 0 };
    struct qkv_shard_input in = { .bytes = 0 };
    struct old_file old;
    struct qkv_digest d;
    const int64_t first = b->passages;
    qkv_status status = find_old(b, f, &old, &in, err);
    if (!status && old.same) {
        b->count.unchanged++;
        status = copy_passages(b, f, id, old.first, old.passages, err);
    } else if (!status) {
        if (old.found)
            b->count.changed++;
        else
            b->count.added++;
        // the digest of the bytes that are read here: a file may change at any time
        qkv_digest_begin(&d, QKV_DIGEST_SHA256);
        status = index_texts(b, f, id, &d, err);
        in.bytes = (int64_t)d.bytes;
        qkv_digest_end(&d, in.sha256);
    }
    if (status) return status;
    const struct store_file row = { .id = id,
                                    .name = { f->name, strlen(f->name) },
                                    .bytes = in.bytes,
                                    .sha256 = { in.sha256, 64 },
                                    .first = first,
                                    .passages = b->passages - first,
                                    .folder = f->folder };
    return index_store_error(b->engine->add_file(b->store, &row, &why), &why, b->path, err);
}

static qkv_status add_files(struct index_build *b, const struct index_files *files, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < files->count && !status; i++) {
        if (cmd_interrupted()) return cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
        status = add_file(b, &files->at[i], i + 1, err);
    }
    if (b->old) b->count.removed = b->old->files - b->count.unchanged - b->count.changed;
    return status;
}

// ---- vectors -----------------------------------------------------------------------------------
// Vectors of a block of passages.
struct block {
    struct cmd_texts texts; // the texts to embed
    int64_t *place;         // [texts.count] their places in the block
    float *made;            // [texts.count][width]
    char *rows;             // [BLOCK][width] as they are stored
    float *scales;          // [passages]
};

static qkv_status put(const struct index_build *b, const void *data, int64_t bytes, int64_t at,
                      qkv_error *err)
{
    for (const char *from = data; bytes > 0;) {
        const ssize_t n = pwrite(b->fd, from, (size_t)bytes, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return cmd_error(err, n < 0 ? cmd_io_status(errno) : QKV_ERR_IO, b->path, "%s",
                             strerror(n < 0 ? errno : ENOSPC));
        from += n;
        at += n;
        bytes -= n;
    }
    return QKV_OK;
}

// Names the file and the line of a text of a block in an error that says "text N".
static void place_error(const struct index_build *b, const struct block *k, int64_t from,
                        qkv_error *err)
{
    long long n = 1;
    struct store_passage p;
    struct store_file f;
    struct store_reason why;
    if (err->file[0] || (sscanf(err->path, "text %lld", &n) != 1 && k->texts.count != 1) || n < 1 ||
        n > k->texts.count)
        return;
    if (b->engine->passage(b->store, from + k->place[n - 1], &p, &why)) return;
    snprintf(err->path, sizeof err->path, "line %lld", (long long)p.line);
    if (b->engine->file(b->store, p.file, &f, &why)) return;
    qkv_escape(err->file, sizeof err->file, f.name.at);
}

// Reads the texts of passages from .. from+n-1 that have no vector, and copies the other vectors.
static qkv_status read_block(struct index_build *b, struct block *k, int64_t from, int64_t n,
                             qkv_error *err)
{
    const int64_t width = qkv_embedder_width(b->embedder);
    const size_t row = (size_t)width * qkv_dtype_size(b->stored);
    cmd_texts_free(&k->texts);
    for (int64_t i = 0; i < n; i++) {
        const int64_t old = b->source[from + i];
        struct store_passage p;
        struct store_reason why;
        if (old >= 0) {
            memcpy(k->rows + (size_t)i * row,
                   (const char *)b->old->vectors.rows + (size_t)old * row, row);
            if (b->old->vectors.scales) k->scales[from + i] = b->old->vectors.scales[old];
            continue;
        }
        const enum store_status got = b->engine->passage(b->store, from + i, &p, &why);
        if (got) return index_store_error(got, &why, b->path, err);
        k->place[k->texts.count] = i;
        cmd_texts_add(&k->texts, p.text.at, p.text.bytes);
    }
    return QKV_OK;
}

static qkv_status embed_block(struct index_build *b, struct block *k, int64_t from, qkv_error *err)
{
    const int64_t width = qkv_embedder_width(b->embedder), n = k->texts.count;
    const size_t row = (size_t)width * qkv_dtype_size(b->stored);
    struct qkv_embed_report one = { 0 };
    if (!n) return QKV_OK;
    qkv_status status = qkv_embed(b->embedder, k->made, (const char *const *)k->texts.text,
                                  k->texts.bytes, n, &one, err);
    for (int64_t i = 0; i < n && !status; i++) {
        status = cmd_check_finite(k->made + i * width, width, "vector of the text", err);
        if (status) snprintf(err->path, sizeof err->path, "text %lld", (long long)i + 1);
    }
    if (status) {
        place_error(b, k, from, err);
        return status;
    }
    b->report.cut_texts += one.cut_texts;
    b->report.cut_tokens += one.cut_tokens;
    b->embedded += n;
    for (int64_t i = 0; i < n && !status; i++)
        status =
            qkv_vectors_convert(k->rows + (size_t)k->place[i] * row, k->scales + from + k->place[i],
                                b->stored, k->made + i * width, 1, width);
    return status ? cmd_error(err, status, b->path, "vectors cannot be stored") : QKV_OK;
}

static qkv_status write_blocks(struct index_build *b, struct block *k, int64_t offset,
                               qkv_error *err)
{
    const int64_t row = qkv_embedder_width(b->embedder) * (int64_t)qkv_dtype_size(b->stored);
    int64_t to_embed = 0, bytes = 0, scales = 0;
    qkv_status status =
        qkv_vectors_bytes(&bytes, &scales, b->stored, b->passages, qkv_embedder_width(b->embedder));
    if (status) return cmd_error(err, status, b->path, "too many vectors");
    for (int64_t i = 0; i < b->passages; i++) to_embed += b->source[i] < 0;
    for (int64_t from = 0; from < b->passages && !status; from += BLOCK) {
        const int64_t n = b->passages - from < BLOCK ? b->passages - from : BLOCK;
        cmd_progress_piece(b->embedded, to_embed);
        if ((status = read_block(b, k, from, n, err)) || (status = embed_block(b, k, from, err)))
            return status;
        status = put(b, k->rows, n * row, offset + from * row, err);
    }
    if (!status && b->stored == QKV_I8 && b->passages) {
        static const char zeros[64] = { 0 };
        const int64_t rows = b->passages * row;
        if (!(status = put(b, zeros, scales - rows, offset + rows, err)))
            status =
                put(b, k->scales, b->passages * (int64_t)sizeof *k->scales, offset + scales, err);
    }
    b->bytes = offset + bytes;
    return status;
}

static qkv_status write_vectors(struct index_build *b, int64_t offset, qkv_error *err)
{
    const size_t width = (size_t)qkv_embedder_width(b->embedder);
    struct block k = { .place = cmd_grow(NULL, BLOCK, sizeof *k.place),
                       .made = cmd_grow(NULL, BLOCK * width, sizeof *k.made),
                       .rows = cmd_grow(NULL, BLOCK * width, sizeof(float)),
                       .scales = cmd_grow(NULL, (size_t)b->passages + 1, sizeof *k.scales) };
    const qkv_status status = write_blocks(b, &k, offset, err);
    cmd_texts_free(&k.texts);
    free(k.place);
    free(k.made);
    free(k.rows);
    free(k.scales);
    return status;
}

qkv_status index_build(struct index_build *b, const struct index_files *files, qkv_error *err)
{
    struct store_reason why;
    int64_t offset = 0;
    qkv_status status =
        index_store_error(b->engine->open(&b->store, b->fd, 1, &why), &why, b->path, err);
    if (!status) status = index_settings_write(b->settings, b->engine, b->store, b->path, err);
    if (!status) status = add_files(b, files, err);
    if (!status)
        status = index_store_error(b->engine->finish(b->store, &offset, &why), &why, b->path, err);
    if (!status) status = write_vectors(b, offset, err);
    b->engine->close(b->store);
    b->store = NULL;
    free(b->source);
    b->source = NULL;
    return status;
}
