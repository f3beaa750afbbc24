// SPDX-License-Identifier: MIT
// checkpoint_names.c: recognises by its name whether a folder of a run is a checkpoint.
#include "file/checkpoint_names.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { DIGITS_MOST = 18 }; // digits of a step: they fit 63 bits

void qkv_checkpoint_name(char out[QKV_CHECKPOINT_NAME], int64_t step)
{
    snprintf(out, QKV_CHECKPOINT_NAME, "checkpoint-%08" PRId64, step);
}

enum qkv_checkpoint_kind qkv_checkpoint_kind(const char *name, int64_t *step)
{
    static const char prefix[] = "checkpoint-";
    const size_t before = sizeof prefix - 1;
    char same[QKV_CHECKPOINT_NAME];
    if (strncmp(name, prefix, before) != 0) return QKV_NOT_A_CHECKPOINT;
    const char *p = name + before;
    int digits = 0;
    for (*step = 0; *p >= '0' && *p <= '9' && digits < DIGITS_MOST; p++, digits++)
        *step = 10 * *step + (*p - '0');
    qkv_checkpoint_name(same, *step);
    if (!digits || strncmp(same, name, strlen(same)) != 0 || strlen(same) != (size_t)(p - name))
        return QKV_NOT_A_CHECKPOINT; // leading zeros: a step has only one name
    if (!*p) return QKV_CHECKPOINT_WHOLE;
    return !strcmp(p, ".tmp")   ? QKV_CHECKPOINT_UNFINISHED
           : !strcmp(p, ".old") ? QKV_CHECKPOINT_REPLACED
                                : QKV_NOT_A_CHECKPOINT;
}

static bool has_manifest(const char *run, const char *name)
{
    char dir[QKV_PATH], path[QKV_PATH];
    return !qkv_path_join(dir, run, name, NULL) && !qkv_path_join(path, dir, QKV_MANIFEST, NULL) &&
           qkv_path_may_exist(path);
}

qkv_status qkv_checkpoint_list(struct qkv_checkpoint_list *l, const char *run,
                               enum qkv_checkpoint_kind kind, bool with_manifest, qkv_error *err)
{
    qkv_status status = QKV_OK;
    DIR *d = opendir(run);
    l->n = 0;
    if (!d) return qkv_fail_errno(err, run, "cannot open", errno);
    for (const struct dirent *e; !status && (e = qkv_disk_entry(d, run, &status, err));) {
        int64_t step = 0;
        if (qkv_checkpoint_kind(e->d_name, &step) != kind ||
            (kind == QKV_CHECKPOINT_WHOLE && has_manifest(run, e->d_name) != with_manifest))
            continue;
        if (!qkv_reserve((void **)&l->steps, &l->capacity, l->n + 1, sizeof *l->steps)) {
            status = qkv_fail_memory(err, run);
            break;
        }
        int64_t i = l->n++;
        for (; i > 0 && l->steps[i - 1] > step; i--) l->steps[i] = l->steps[i - 1];
        l->steps[i] = step;
    }
    closedir(d);
    return status;
}

uint64_t qkv_sum64(const void *data, size_t bytes)
{
    const uint8_t *p = data;
    uint64_t sum = 0x9e3779b97f4a7c15u ^ (uint64_t)bytes;
    while (bytes) {
        uint64_t word = 0;
        const size_t n = bytes < sizeof word ? bytes : sizeof word;
        memcpy(&word, p, n);
        sum = (sum ^ word) * 0xff51afd7ed558ccdu;
        sum ^= sum >> 32;
        p += n;
        bytes -= n;
    }
    return sum;
}
