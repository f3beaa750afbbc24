// SPDX-License-Identifier: MIT
// data_dump.c: batches as one safetensors file, for another program that is to learn from the same.
#include "task/data_work.h"
#include <string.h>

// Arrays that grow batch by batch.
struct dump {
    int32_t *ids, *targets, *source_ids;
    int64_t *offsets, *source_offsets, *batches, *bytes;
    int64_t ids_room, targets_room, source_ids_room, offsets_room, source_offsets_room;
    int64_t batches_room, bytes_room;
    int64_t rows, target_count, sequences, source_rows, source_sequences, count;
};

// a[used] grows by n of `from`, each plus `add`.
static bool append_ids(int32_t **a, int64_t *room, int64_t used, const int32_t *from, int64_t n)
{
    void *p = *a;
    if (!qkv_reserve(&p, room, used + n, sizeof **a)) return false;
    *a = p;
    if (n) memcpy(*a + used, from, (size_t)n * sizeof **a);
    return true;
}
static bool append_places(int64_t **a, int64_t *room, int64_t used, const int64_t *from, int64_t n,
                          int64_t add)
{
    void *p = *a;
    if (!qkv_reserve(&p, room, used + n, sizeof **a)) return false;
    *a = p;
    for (int64_t i = 0; i < n; i++) (*a)[used + i] = from[i] + add;
    return true;
}

static bool append(struct dump *x, const struct qkv_drawn *b)
{
    const struct qkv_sequences *in = &b->batch.in, *source = &b->batch.source;
    const int64_t rows = in->offsets[in->n], zero = 0;
    const int64_t targets = b->batch.objective == QKV_OBJECTIVE_CONTRASTIVE ? 0
                            : b->batch.objective == QKV_OBJECTIVE_CLASSIFY  ? in->n
                                                                            : rows;
    if (!x->count && (!append_places(&x->offsets, &x->offsets_room, 0, &zero, 1, 0) ||
                      !append_places(&x->source_offsets, &x->source_offsets_room, 0, &zero, 1, 0) ||
                      !append_places(&x->batches, &x->batches_room, 0, &zero, 1, 0)))
        return false;
    if (!append_ids(&x->ids, &x->ids_room, x->rows, in->ids, rows) ||
        !append_ids(&x->targets, &x->targets_room, x->target_count, b->batch.targets, targets) ||
        !append_places(&x->offsets, &x->offsets_room, x->sequences + 1, in->offsets + 1, in->n,
                       x->rows))
        return false;
    if (source->n) {
        const int64_t n = source->offsets[source->n];
        if (!append_ids(&x->source_ids, &x->source_ids_room, x->source_rows, source->ids, n) ||
            !append_places(&x->source_offsets, &x->source_offsets_room, x->source_sequences + 1,
                           source->offsets + 1, source->n, x->source_rows))
            return false;
        x->source_rows += n;
        x->source_sequences += source->n;
    }
    x->rows += rows;
    x->target_count += targets;
    x->sequences += in->n;
    if (!append_places(&x->batches, &x->batches_room, x->count + 1, &x->sequences, 1, 0) ||
        !append_places(&x->bytes, &x->bytes_room, x->count, &b->bytes, 1, 0))
        return false;
    x->count++;
    return true;
}

static qkv_status write(const struct dump *x, const char *path, bool source, bool force,
                        qkv_error *err)
{
    const struct {
        const char *name;
        qkv_dtype type;
        int64_t n;
        const void *data;
    } rows[] = {
        { "batches", QKV_I64, x->count + 1, x->batches },
        { "bytes", QKV_I64, x->count, x->bytes },
        { "offsets", QKV_I64, x->sequences + 1, x->offsets },
        { "source_offsets", QKV_I64, x->source_sequences + 1, x->source_offsets },
        { "ids", QKV_I32, x->rows, x->ids },
        { "targets", QKV_I32, x->target_count, x->targets },
        { "source_ids", QKV_I32, x->source_rows, x->source_ids },
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    struct qkv_tensor t[ROWS];
    int64_t n = 0;
    qkv_safetensors_writer *w = NULL;
    for (int i = 0; i < ROWS; i++) {
        if (!source && !strncmp(rows[i].name, "source", 6)) continue;
        t[n++] = (struct qkv_tensor){
            .name = rows[i].name, .dtype = rows[i].type, .rank = 1, .shape = { rows[i].n }
        };
    }
    qkv_status s = qkv_safetensors_create(&w, path, t, n, NULL, force, err);
    for (int i = 0; i < ROWS && !s; i++) {
        if (!source && !strncmp(rows[i].name, "source", 6)) continue;
        const size_t bytes = (size_t)rows[i].n * qkv_dtype_size(rows[i].type);
        if (bytes) s = qkv_safetensors_append(w, rows[i].data, bytes, err);
    }
    if (!s) s = qkv_safetensors_finish(w, err);
    qkv_safetensors_close(w);
    return s;
}

qkv_status qkv_data_dump(const qkv_data *d, const char *path, int64_t position, int64_t batches,
                         bool valid, const struct qkv_draw *how, bool force, qkv_error *err)
{
    struct dump x = { 0 };
    struct qkv_drawn b = { 0 };
    qkv_status s = QKV_OK;
    if (batches < 0 || (!valid && batches < 1))
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "batches to write, expected 1 or more");
    for (int64_t i = 0; !s && (i < batches || (valid && !batches)); i++) {
        s = valid ? qkv_data_valid(d, &b, position, how, err)
                  : qkv_data_draw(d, &b, position, how, err);
        if (s || !b.sequences) break;
        if (!append(&x, &b)) s = qkv_fail_memory(err, path);
        position = b.next;
    }
    if (!s && !x.count)
        s = qkv_fail(err, QKV_ERR_USAGE, NULL, "no batch is left from that position on");
    if (!s) s = write(&x, path, d->info.objective == QKV_OBJECTIVE_SEQ2SEQ, force, err);
    qkv_drawn_free(&b);
    qkv_free(x.ids);
    qkv_free(x.targets);
    qkv_free(x.source_ids);
    qkv_free(x.offsets);
    qkv_free(x.source_offsets);
    qkv_free(x.batches);
    qkv_free(x.bytes);
    return s;
}
