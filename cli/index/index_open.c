// SPDX-License-Identifier: MIT
// index_open.c: opens an index: its store by the descriptor, its vectors mapped.
#include "index/index.h"
#include "engines/engine.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const struct store_engine *index_engine(const char *command, qkv_error *err)
{
    const struct engine x = { .name = "sqlite",
                              .command = command,
                              .package = "libsqlite3-dev",
                              .size = sizeof(struct store_engine) };
    return engine_open(&x, err);
}

qkv_status index_store_error(enum store_status status, const struct store_reason *why,
                             const char *path, qkv_error *err)
{
    switch (status) {
    case STORE_OK: return QKV_OK;
    case STORE_NONE:
        return cmd_error(err, QKV_ERR_FORMAT, path, "the index is malformed: a row is missing");
    case STORE_LATER:
        return cmd_error(err, QKV_ERR_UNSUPPORTED, path,
                         "a later version of qkv wrote the index, %s", why->text);
    case STORE_FULL:
        return cmd_error(err, cmd_io_status(why->code), path, "%s", strerror(why->code));
    case STORE_LINE: return cmd_error(err, QKV_ERR_FORMAT, path, "%s", why->text);
    default:
        return cmd_error(err, QKV_ERR_FORMAT, path, "no index, or a malformed one: %s", why->text);
    }
}

// Reads the sizes of the vectors and maps them.
static qkv_status open_vectors(struct index *x, qkv_error *err)
{
    static const struct {
        const char *name;
        qkv_dtype type;
    } types[] = { { "f32", QKV_F32 }, { "bf16", QKV_BF16 }, { "int8", QKV_I8 } };
    struct store_reason why;
    int64_t offset;
    x->vectors.type = QKV_DTYPE_COUNT;
    for (int i = 0; i < 3; i++)
        if (!strcmp(types[i].name, x->settings.value[INDEX_STORED]))
            x->vectors.type = types[i].type;
    if (x->vectors.type == QKV_DTYPE_COUNT ||
        !cmd_parse_int(x->settings.value[INDEX_WIDTH], &x->vectors.width) || x->vectors.width < 1 ||
        x->vectors.width > QKV_VECTOR_WIDTH_MAX)
        return cmd_error(err, QKV_ERR_FORMAT, x->path,
                         "the index is malformed: expected vectors of f32, bf16 or int8 and their "
                         "width, found '%.40s' and '%.40s'",
                         x->settings.value[INDEX_STORED], x->settings.value[INDEX_WIDTH]);
    enum store_status status = x->engine->count(x->store, &x->files, &x->vectors.count, &why);
    if (!status) status = x->engine->finish(x->store, &offset, &why);
    if (status) return index_store_error(status, &why, x->path, err);
    return qkv_vectors_open(&x->vectors, x->path, offset, err);
}

// Opens the file once.  *moved: the name belonged to another file when the vectors were mapped.
static qkv_status open_once(struct index *x, bool *moved, qkv_error *err)
{
    struct store_reason why;
    struct stat st, now;
    *moved = false;
    x->fd = open(x->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (x->fd < 0 || fstat(x->fd, &st) != 0)
        return cmd_error(err, cmd_io_status(errno), x->path, "cannot open: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return cmd_error(err, QKV_ERR_IO, x->path, "expected an index, found %s",
                         S_ISDIR(st.st_mode)    ? "a folder"
                         : S_ISFIFO(st.st_mode) ? "a FIFO"
                                                : "a device");
    const enum store_status status = x->engine->open(&x->store, x->fd, 0, &why);
    if (status) return index_store_error(status, &why, x->path, err);
    if (index_settings_read(&x->settings, x->engine, x->store, x->path, err)) return err->status;
    const qkv_status mapped = open_vectors(x, err);
    *moved = stat(x->path, &now) == 0 && (now.st_ino != st.st_ino || now.st_dev != st.st_dev);
    return mapped;
}

qkv_status index_open(struct index *x, const char *path, const char *command, qkv_error *err)
{
    const struct store_engine *engine = index_engine(command, err);
    bool moved = true;
    qkv_status status = engine ? QKV_OK : err->status;
    *x = (struct index){ .fd = -1 };
    // an index that `qkv index` replaces meanwhile is opened again
    for (int tries = 0; engine && moved && tries < 8; tries++) {
        qkv_error now = { 0 };
        index_close(x);
        *x = (struct index){ .path = path, .engine = engine, .fd = -1 };
        status = open_once(x, &moved, &now);
        if (status && !moved) *err = now;
    }
    if (!status && moved)
        status = cmd_error(err, QKV_ERR_IO, path, "the index changes while it is opened");
    if (status) index_close(x);
    return status;
}

void index_close(struct index *x)
{
    if (!x->engine) return;
    x->engine->close(x->store);
    qkv_vectors_close(&x->vectors);
    if (x->fd >= 0) close(x->fd);
    index_settings_free(&x->settings);
    *x = (struct index){ .fd = -1 };
}

bool index_is_finite(const struct qkv_vectors *v, int64_t row)
{
    // Words of several numbers without their signs: a sum with 1 in the exponent's lowest bit is
    // carried into the bit of the sign if all bits of the exponent are 1, so of NaN and infinity.
    enum { LANES = 4 };
    const bool half = v->type == QKV_BF16;
    const uint64_t sign = half ? 0x8000800080008000u : 0x8000000080000000u,
                   one = half ? 0x0080008000800080u : 0x0080000000800000u;
    const size_t bytes = (size_t)v->width * (half ? 2 : 4);
    uint64_t x[LANES], found[LANES] = { 0 };
    if (v->type == QKV_I8) return isfinite(v->scales[row]);
    const char *at = (const char *)v->rows + (size_t)row * bytes, *const end = at + bytes;
    for (; end - at >= (ptrdiff_t)sizeof x; at += sizeof x) {
        memcpy(x, at, sizeof x);
        for (int i = 0; i < LANES; i++) found[i] |= (x[i] & ~sign) + one;
    }
    memset(x, 0, sizeof x);
    memcpy(x, at, (size_t)(end - at));
    for (int i = 0; i < LANES; i++) found[i] |= (x[i] & ~sign) + one;
    return !((found[0] | found[1] | found[2] | found[3]) & sign);
}

qkv_status index_check_finite(const struct index *x, qkv_error *err)
{
    struct store_passage p;
    struct store_file f;
    int64_t n = 0;
    while (n < x->vectors.count && index_is_finite(&x->vectors, n)) n++;
    if (n == x->vectors.count || index_passage(x, n, &p, &f, err)) return err->status;
    return cmd_error(err, QKV_ERR_FORMAT, x->path,
                     "the index is damaged: the vector of passage %lld (%.*s, line %lld) is not "
                     "finite, expected finite numbers; qkv index --update computes it again",
                     (long long)n, (int)(f.name.bytes < 300 ? f.name.bytes : 300), f.name.at,
                     (long long)p.line);
}

qkv_status index_passage(const struct index *x, int64_t n, struct store_passage *p,
                         struct store_file *file, qkv_error *err)
{
    struct store_reason why;
    enum store_status status = x->engine->passage(x->store, n, p, &why);
    if (!status) status = x->engine->file(x->store, p->file, file, &why);
    return index_store_error(status, &why, x->path, err);
}
