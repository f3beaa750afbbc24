// SPDX-License-Identifier: MIT
// index_graph.c: writes and reads the graph of an index, FILE.qkvi.hnsw (docs/formats.md): 144
// bytes that say to which index it belongs, then what the engine writes.
#include "index/index.h"
#include "engines/engine.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS = 16, CANDIDATES = 200 };
static const char magic[8] = "qkvhnsw1";
struct header {
    char magic[8];
    uint64_t bytes; // after the header
    char index[64]; // SHA-256 of everything that determines the vectors of the index
    char graph[64]; // SHA-256 of the bytes after the header
};

const struct graph_engine *index_graph_engine(const char *command, qkv_error *err)
{
    const struct engine x = { .name = "hnsw",
                              .command = command,
                              .package = "libhnswlib-dev g++",
                              .size = sizeof(struct graph_engine) };
    return engine_open(&x, err);
}

qkv_status index_graph_path(char path[CMD_PATH], const char *index, qkv_error *err)
{
    const int n = snprintf(path, CMD_PATH, "%s.hnsw", index);
    if (n < 0 || n >= CMD_PATH)
        return cmd_error(err, QKV_ERR_USAGE, index, "the path of its graph is too long");
    return QKV_OK;
}

qkv_status index_graph_error(enum graph_status status, const struct graph_reason *why,
                             const char *index, qkv_error *err)
{
    switch (status) {
    case GRAPH_OK: return QKV_OK;
    case GRAPH_MEMORY: return cmd_error(err, QKV_ERR_LIMIT, NULL, "not enough memory for a graph");
    case GRAPH_STOPPED: // by an error of a callback, or Ctrl-C
        return err->status ? err->status : cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
    case GRAPH_BROKEN:
        cmd_error(err, QKV_ERR_FORMAT, index, "the graph is malformed: %s", why->text);
        break;
    case GRAPH_FAILED:
        cmd_error(err, QKV_ERR_FORMAT, index, "the graph cannot be used: %s", why->text);
        break;
    }
    return err->status;
}

// Computes the SHA-256 of all that determines the passages and their order: the settings, and name,
// size, SHA-256 and kind of operand of each file.  The vectors are determined by them.
static qkv_status index_digest(const struct index *x, char hex[QKV_DIGEST_TEXT], qkv_error *err)
{
    struct qkv_digest d;
    qkv_digest_begin(&d, QKV_DIGEST_SHA256);
    index_settings_digest(&x->settings, &d);
    for (int64_t id = 1; id <= x->files; id++) {
        struct store_file f;
        struct store_reason why;
        char numbers[100];
        const enum store_status status = x->engine->file(x->store, id, &f, &why);
        if (status) return index_store_error(status, &why, x->path, err);
        snprintf(numbers, sizeof numbers, "%lld %lld %lld %lld", (long long)f.bytes,
                 (long long)f.first, (long long)f.passages, (long long)f.folder);
        qkv_digest_add(&d, f.name.at, f.name.bytes + 1);
        qkv_digest_add(&d, f.sha256.at, f.sha256.bytes + 1);
        qkv_digest_add(&d, numbers, strlen(numbers) + 1);
    }
    qkv_digest_end(&d, hex);
    return QKV_OK;
}

static qkv_status graph_vectors(struct graph_vectors *out, const struct index *x, qkv_error *err)
{
    const struct qkv_vectors *v = &x->vectors;
    if (v->count > INT32_MAX - 1)
        return cmd_error(err, QKV_ERR_LIMIT, x->path,
                         "too many passages for a graph, expected at most %d, found %lld",
                         INT32_MAX - 1, (long long)v->count);
    *out = (struct graph_vectors){ .count = (size_t)v->count,
                                   .width = (size_t)v->width,
                                   .type = v->type == QKV_F32    ? GRAPH_F32
                                           : v->type == QKV_BF16 ? GRAPH_BF16
                                                                 : GRAPH_I8,
                                   .rows = v->rows,
                                   .scales = v->type == QKV_I8 ? v->scales : NULL };
    return QKV_OK;
}

// ---- reading -----------------------------------------------------------------------------------
// Compares the header with the file and the index.
static qkv_status check_header(const struct index *x, const char *path, const char *data,
                               size_t bytes, qkv_error *err)
{
    struct header h;
    struct qkv_digest d;
    char hex[QKV_DIGEST_TEXT];
    if (bytes < sizeof h || memcmp(data, magic, sizeof magic) != 0)
        return cmd_error(err, QKV_ERR_FORMAT, path,
                         "no graph of qkv index --hnsw, or a malformed "
                         "one");
    memcpy(&h, data, sizeof h);
    if (h.bytes != bytes - sizeof h)
        return cmd_error(err, QKV_ERR_FORMAT, path,
                         "the graph has another size, expected %llu bytes after the header, found "
                         "%zu",
                         (unsigned long long)h.bytes, bytes - sizeof h);
    if (index_digest(x, hex, err)) return err->status;
    if (memcmp(hex, h.index, sizeof h.index) != 0)
        return cmd_error(err, QKV_ERR_FORMAT, path,
                         "the graph belongs to another state of the index; qkv index --update "
                         "--hnsw makes it again");
    qkv_digest_begin(&d, QKV_DIGEST_SHA256);
    qkv_digest_add(&d, data + sizeof h, bytes - sizeof h);
    qkv_digest_end(&d, hex);
    if (memcmp(hex, h.graph, sizeof h.graph) != 0)
        return cmd_error(err, QKV_ERR_FORMAT, path,
                         "the graph is damaged: its bytes have another SHA-256; qkv index --update "
                         "--hnsw makes it again");
    return QKV_OK;
}

qkv_status index_graph_open(struct index_graph *g, const struct index *x, const char *command,
                            qkv_error *err)
{
    char path[CMD_PATH], *data = NULL;
    size_t bytes = 0;
    struct graph_vectors v;
    struct graph_reason why = { "" };
    struct stat st;
    *g = (struct index_graph){ .engine = index_graph_engine(command, err) };
    if (!g->engine || index_graph_path(path, x->path, err) || graph_vectors(&v, x, err))
        return err->status;
    if (stat(path, &st) != 0 && errno == ENOENT)
        return cmd_error(
            err, QKV_ERR_IO, path,
            "the index has no graph; 'qkv index FILE... -o NAME --update --hnsw' builds it");
    if (!cmd_read_file(&data, &bytes, path, err) && !check_header(x, path, data, bytes, err))
        index_graph_error(g->engine->read(&g->graph, &v, data + sizeof(struct header),
                                          bytes - sizeof(struct header), &why),
                          &why, path, err);
    free(data);
    return err->status;
}

void index_graph_close(struct index_graph *g)
{
    if (g->graph) g->engine->close(g->graph);
    g->graph = NULL;
}

// ---- writing -----------------------------------------------------------------------------------
struct output {
    struct cmd_file file;
    struct qkv_digest digest;
    struct header header;
};

static int put(void *user, const void *data, size_t bytes)
{
    struct output *o = user;
    qkv_digest_add(&o->digest, data, bytes);
    o->header.bytes += bytes;
    return fwrite(data, 1, bytes, o->file.to) != bytes;
}

static int step(void *user, size_t done)
{
    const struct qkv_progress *p = user;
    return done % 64 == 0 && p->step(p->user, NULL, (int64_t)done, -1);
}

// Writes the graph after a header of zeros, then the header.
static qkv_status write_graph(const struct index_graph *g, const char *path, const char index[65],
                              int64_t *bytes, qkv_error *err)
{
    struct output o = { .header = { .bytes = 0 } };
    struct graph_reason why = { "" };
    char hex[QKV_DIGEST_TEXT];
    qkv_digest_begin(&o.digest, QKV_DIGEST_SHA256);
    if (cmd_file_open(&o.file, path, err)) return err->status;
    if (fwrite(&o.header, sizeof o.header, 1, o.file.to) == 1) {
        const enum graph_status status = g->engine->write(g->graph, put, &o, &why);
        if (status && status != GRAPH_STOPPED) index_graph_error(status, &why, path, err);
    }
    qkv_digest_end(&o.digest, hex);
    memcpy(o.header.magic, magic, sizeof magic);
    memcpy(o.header.index, index, sizeof o.header.index);
    memcpy(o.header.graph, hex, sizeof o.header.graph);
    if (!err->status && !ferror(o.file.to)) {
        if (fseek(o.file.to, 0, SEEK_SET) != 0)
            cmd_error(err, cmd_io_status(errno), path, "cannot write the header: %s",
                      strerror(errno));
        else
            (void)!fwrite(&o.header, sizeof o.header, 1, o.file.to);
    }
    // commit reports what could not be written
    if (!err->status) cmd_file_commit(&o.file, err);
    cmd_file_abort(&o.file);
    *bytes = (int64_t)(o.header.bytes + sizeof o.header);
    return err->status;
}

qkv_status index_graph_make(const char *path, const char *command, bool *kept, int64_t *bytes,
                            qkv_error *err)
{
    struct index x = { .fd = -1 };
    struct index_graph g = { NULL, NULL };
    struct graph_vectors v;
    struct graph_reason why = { "" };
    char graph[CMD_PATH], hex[QKV_DIGEST_TEXT];
    qkv_error found = { 0 };
    struct stat st;
    if (index_open(&x, path, command, err) || index_graph_path(graph, path, err) ||
        graph_vectors(&v, &x, err) || index_digest(&x, hex, err))
        goto done;
    *kept = stat(graph, &st) == 0 && !index_graph_open(&g, &x, command, &found);
    *bytes = *kept ? (int64_t)st.st_size : 0;
    if (*kept || !(g.engine = index_graph_engine(command, err))) goto done;
    struct qkv_progress progress = cmd_progress_begin("vertices of the graph");
    cmd_progress_piece(0, (int64_t)v.count);
    const enum graph_status status =
        g.engine->build(&g.graph, &v, LINKS, CANDIDATES, step, &progress, &why);
    cmd_progress_end();
    if (!index_graph_error(status, &why, graph, err)) write_graph(&g, graph, hex, bytes, err);
done:
    index_graph_close(&g);
    index_close(&x);
    return err->status;
}
