// SPDX-License-Identifier: MIT
// attn_probe.c: implements `qkv attn --probe`: prints the attention statistics, or writes them as
// safetensors.
#include "attn/attn.h"
#include <stdlib.h>
#include <string.h>

qkv_status attn_probe_new(struct attn_job *j, const char *list, qkv_error *err)
{
    if (!list) return QKV_OK;
    const qkv_status status = probes_parse(&j->request, &j->rows, "--probe", list, err);
    if (status) return status;
    if (j->request.rows && j->request.row[j->request.rows - 1] >= j->a.T)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--probe: row %lld is out of range, expected a row below %lld",
                         (long long)j->request.row[j->request.rows - 1], (long long)j->a.T);
    probes_new(&j->probe, &j->request, j->a.B * j->a.H, j->a.T, j->a.S);
    j->a.probe = &j->probe;
    return QKV_OK;
}

void attn_probe_free(struct attn_job *j)
{
    probes_free(&j->probe);
    free(j->rows);
}

// Writes the shape of an array of statistics to `shape`. It begins with the axes batch and heads,
// if the results have them.  Returns the number of axes.
static int axes(const struct attn_job *j, const struct probe_array *x, int64_t *shape)
{
    int n = 0;
    if (j->has_b) shape[n++] = j->a.B;
    if (j->has_h) shape[n++] = j->a.H;
    for (int i = 0; i < x->rank; i++) shape[n++] = x->shape[i];
    return n;
}

static qkv_status write_file(const struct attn_job *j, const struct probe_array *list, int n,
                             const char *path, qkv_error *err)
{
    struct qkv_tensor t[PROBE_ARRAYS];
    qkv_safetensors_writer *w = NULL;
    for (int i = 0; i < n; i++) {
        t[i] = (struct qkv_tensor){ .name = list[i].name, .dtype = list[i].dtype };
        t[i].rank = axes(j, &list[i], t[i].shape);
    }
    qkv_status status = qkv_safetensors_create(&w, path, t, n, NULL, common.force, err);
    for (int i = 0; !status && i < n; i++)
        status = qkv_safetensors_append(
            w, list[i].at, (size_t)(j->a.B * j->a.H * list[i].count) * sizeof(float), err);
    if (!status) status = qkv_safetensors_finish(w, err);
    qkv_safetensors_close(w);
    return status;
}

// Prints an array of statistics like the other results, as floats. Indices of keys are integers
// that a float represents exactly.
static void print_one(const struct attn_job *j, const struct probe_array *x)
{
    int64_t shape[4];
    struct array a;
    const int rank = axes(j, x, shape);
    array_new(&a, x->name, rank, shape);
    for (int64_t i = 0; i < a.count; i++)
        a.own[i] =
            x->dtype == QKV_I32 ? (float)((const int32_t *)x->at)[i] : ((const float *)x->at)[i];
    if (common.json)
        array_print_json(stdout, &a);
    else
        array_print(stdout, &a, x->name);
    array_free(&a);
}

qkv_status attn_probe_give(const struct attn_job *j, const char *path, bool *first, qkv_error *err)
{
    struct probe_array list[PROBE_ARRAYS];
    if (!j->a.probe) return QKV_OK;
    const int n = probes_list(list, &j->probe, j->a.T, j->a.S);
    if (path) return write_file(j, list, n, path, err);
    for (int i = 0; i < n; i++) {
        if (common.json)
            printf("%s\"%s\":", *first ? "{" : ",", list[i].name);
        else if (!*first)
            putchar('\n');
        print_one(j, &list[i]);
        *first = false;
    }
    return QKV_OK;
}
