// SPDX-License-Identifier: MIT
// shard_choice.c: chooses a shard from "I/N", or from the environment variables in which launchers
// tell a process its number and the number of processes.
#include "embed/embed.h"
#include <stdlib.h>
#include <string.h>

// The variables of the launchers.
struct source {
    const char *index, *count;
    const char *least, *step; // of the index; NULL: 0 and 1
    const char *alone;        // the number of processes if `count` is not set; NULL: an error
};
static const struct source sources[] = {
    { "RANK", "WORLD_SIZE", NULL, NULL, NULL }, // torchrun
    { "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL, NULL, NULL },
    { "PMI_RANK", "PMI_SIZE", NULL, NULL, NULL }, // MPICH
    // tasks of an array; a list such as 1,5,6 has no step
    { "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_COUNT", "SLURM_ARRAY_TASK_MIN",
      "SLURM_ARRAY_TASK_STEP", NULL },
    // srun; a batch script without --ntasks has no SLURM_NTASKS
    { "SLURM_PROCID", "SLURM_NTASKS", NULL, NULL, "1" },
    // Kubernetes sets the index only
    { "JOB_COMPLETION_INDEX", "JOB_COMPLETIONS", NULL, NULL, NULL },
};
enum { SOURCES = sizeof sources / sizeof *sources };

static qkv_status fail_number(const char *name, const char *text, int64_t least, int64_t most,
                              qkv_error *err)
{
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "--shard auto: invalid value of the variable %s, expected %lld to %lld, found "
                     "'%.100s'",
                     name, (long long)least, (long long)most, text);
}

// Reads the number in a variable; `standard` is its text if the variable is not set.
static qkv_status read_number(int64_t *out, const char *name, const char *standard, int64_t least,
                              int64_t most, qkv_error *err)
{
    const char *text = name ? getenv(name) : NULL;
    if (!text) text = standard;
    return cmd_parse_int(text, out) && *out >= least && *out <= most
               ? QKV_OK
               : fail_number(name, text, least, most, err);
}

// Reads the shard in the variables of a source; s->count is 0 if they are not set.
static qkv_status read_source(struct qkv_shard *s, const struct source *from, qkv_error *err)
{
    const char *index = getenv(from->index), *count = getenv(from->count);
    int64_t least = 0, step = 1;
    *s = (struct qkv_shard){ 0, 0 };
    if (!index && !(count && !from->alone)) return QKV_OK;
    if (!count) count = from->alone;
    if (!index || !count)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--shard auto: the variable %s is set without %s, expected both",
                         index ? from->index : from->count, index ? from->count : from->index);
    if (!cmd_parse_int(count, &s->count) || s->count < 1 || s->count > QKV_SHARD_COUNT_MAX)
        return fail_number(from->count, count, 1, QKV_SHARD_COUNT_MAX, err);
    qkv_status status = QKV_OK;
    if (from->least) status = read_number(&least, from->least, "0", 0, INT32_MAX, err);
    if (from->least && !status) status = read_number(&step, from->step, "1", 1, INT32_MAX, err);
    const int64_t most = least + step * (s->count - 1);
    if (!status && (!cmd_parse_int(index, &s->index) || s->index < least || s->index > most))
        status = fail_number(from->index, index, least, most, err);
    if (!status && (s->index - least) % step)
        status = cmd_error(err, QKV_ERR_USAGE, NULL,
                           "--shard auto: the variable %s is not in the array, expected a multiple "
                           "of %lld after %lld, found '%.100s'",
                           from->index, (long long)step, (long long)least, index);
    s->index = (s->index - least) / step;
    return status;
}

// Chooses the shard from the environment.  A source with one process is ignored if another one has
// more: a task of an array is one process of srun.
static qkv_status choose_auto(struct qkv_shard *s, qkv_error *err)
{
    const struct source *from = NULL;
    for (int i = 0; i < SOURCES; i++) {
        struct qkv_shard one;
        const qkv_status status = read_source(&one, &sources[i], err);
        if (status) return status;
        if (!one.count || (from && one.count == 1)) continue;
        if (from && s->count > 1 && (s->index != one.index || s->count != one.count))
            return cmd_error(
                err, QKV_ERR_USAGE, NULL,
                "--shard auto: the environment is ambiguous, expected one shard, found "
                "%lld/%lld in %s and %s, and %lld/%lld in %s and %s; choose with "
                "--shard I/N",
                (long long)s->index, (long long)s->count, from->index, from->count,
                (long long)one.index, (long long)one.count, sources[i].index, sources[i].count);
        *s = one;
        from = &sources[i];
    }
    if (from) {
        cmd_note("shard %lld/%lld, from %s and %s", (long long)s->index, (long long)s->count,
                 from->index, from->count);
        return QKV_OK;
    }
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "--shard auto: expected the variables of a launcher, such as RANK and "
                     "WORLD_SIZE, found none; choose with --shard I/N");
}

qkv_status embed_shard_choose(struct qkv_shard *s, const char *text, qkv_error *err)
{
    if (!strcmp(text, "auto")) return choose_auto(s, err);
    const char *slash = strchr(text, '/');
    char index[24] = "";
    if (slash && slash - text < (ptrdiff_t)sizeof index)
        memcpy(index, text, (size_t)(slash - text));
    if (!slash || !cmd_parse_int(index, &s->index) || !cmd_parse_int(slash + 1, &s->count) ||
        s->index < 0 || s->count < 1)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--shard: expected I/N, such as 0/10, or auto, found '%.100s'", text);
    if (s->count > QKV_SHARD_COUNT_MAX)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--shard: too many shards, expected at most %d, found %lld",
                         (int)QKV_SHARD_COUNT_MAX, (long long)s->count);
    if (s->index >= s->count)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--shard: shards are counted from 0, expected 0/%lld to %lld/%lld, found "
                         "'%.100s'",
                         (long long)s->count, (long long)s->count - 1, (long long)s->count, text);
    return QKV_OK;
}
