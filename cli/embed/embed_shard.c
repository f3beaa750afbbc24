// SPDX-License-Identifier: MIT
// embed_shard.c: computes one shard of an input, as a part with a manifest.
#include "embed/embed.h"
#include <stdlib.h>
#include <string.h>

// Returns what is wrong with the input or the output for a shard; NULL: nothing.
static const char *wrong_with(const char *output, const char *file, int operands, bool ids)
{
    if (!output || !strcmp(output, "-")) return "expected an output file, -o FILE";
    if (cmd_output_direct(output)) return "expected an output file, found a pipe or a device";
    if (operands) return "expected the lines of a file, -f FILE, found texts as operands";
    if (ids && file[strspn(file, "-0123456789, ")] == 0)
        return "expected a file of token ids, found a list or standard input";
    if (!file || !strcmp(file, "-")) return "expected a file, -f FILE, found standard input";
    return NULL;
}

qkv_status embed_shard_open(struct embed_shard *s, const char *text, const char *output,
                            const char *file, int operands, bool ids, qkv_error *err)
{
    *s = (struct embed_shard){ .file = file };
    qkv_status status = embed_shard_choose(&s->part.shard, text, err);
    if (status) return status;
    const char *wrong = wrong_with(output, file, operands, ids);
    if (wrong) return cmd_error(err, QKV_ERR_USAGE, NULL, "--shard: %s", wrong);
    s->part.output = output;
    status = qkv_part_path(s->path, output, &s->part.shard, err);
    // an input that cannot be read is an error when it is opened
    if (!status && stat(file, &s->before) != 0) memset(&s->before, 0, sizeof s->before);
    return status ? status : cmd_output_add(s->path, err);
}

static const char *number(char to[24], int64_t n)
{
    snprintf(to, 24, "%lld", (long long)n);
    return to;
}

// Describes the run: everything that the bytes of its parts depend on.  The options --truncate and
// --strict only decide whether a run fails.
static qkv_status describe(struct embed_shard *s, const qkv_embedder *e,
                           const struct embed_settings *how, qkv_error *err)
{
    const qkv_status status = qkv_embedder_digest(e, s->model, err);
    if (status) return status;
    s->prompt = cmd_valid_text(qkv_embedder_prompt(e));
    const struct qkv_part_member members[] = {
        { "version", qkv_version() },
        { "instruction_set", qkv_isa() },
        { "model", s->model },
        { "precision", qkv_precision_name(common.precision) },
        { "ablate", cmd_ablated(s->ablated, sizeof s->ablated) },
        { "pool", how->pool ? how->pool : "model" },
        { "normalize", how->no_normalize ? "no" : "model" },
        { "prompt", s->prompt },
        { "max_length", number(s->numbers[0], qkv_embedder_max_length(e)) },
        { "special_tokens", how->no_special ? "no" : "model" },
        { "output", embed_form_name(how->form) },
        { "width", number(s->numbers[1], qkv_embedder_width(e)) },
        { "input", how->ids ? "ids" : "texts" },
        { "input_sha256", s->input.sha256 },
        { "input_bytes", number(s->numbers[2], s->input.bytes) },
        { "input_lines", number(s->numbers[3], s->input.lines) },
    };
    _Static_assert(sizeof members == sizeof s->members, "EMBED_MEMBERS is the number of members");
    memcpy(s->members, members, sizeof members);
    s->part.members = s->members;
    s->part.count = EMBED_MEMBERS;
    s->part.first = s->input.first;
    s->part.rows = s->input.rows;
    return QKV_OK;
}

static void note_complete(const struct embed_shard *s)
{
    cmd_note("%s is complete: skipped", s->path);
}

static int interrupted(void *user, const char *what, int64_t done, int64_t total)
{
    (void)user;
    (void)what;
    (void)done;
    (void)total;
    return cmd_interrupted();
}

qkv_status embed_shard_settle(const struct embed_shard *s, bool *complete, qkv_status status,
                              qkv_error *err)
{
    qkv_error none = { 0 };
    if (status != QKV_ERR_USAGE || common.force) return status;
    if (qkv_part_check(complete, &s->part, &none) || !*complete) return status;
    *err = none;
    note_complete(s);
    return QKV_OK;
}

qkv_status embed_shard_begin(struct embed_shard *s, bool *complete, const qkv_embedder *e,
                             const struct embed_settings *how, qkv_error *err)
{
    const struct qkv_progress progress = { interrupted, NULL };
    *complete = false;
    qkv_status status = qkv_shard_scan(&s->input, &s->part.shard, s->file, &progress, err);
    if (!status) status = describe(s, e, how, err);
    if (status) return status;
    if (!common.force) status = qkv_part_check(complete, &s->part, err);
    if (*complete) note_complete(s);
    if (status || *complete) return status;
    return embed_shard_settle(s, complete, cmd_output_check(s->path, err), err);
}

// Checks that the input is the file that it was when the command began to read it.
static qkv_status check_input(const struct embed_shard *s, int64_t rows, qkv_error *err)
{
    struct stat now;
    const struct stat *old = &s->before;
    const bool same = stat(s->file, &now) == 0 && now.st_dev == old->st_dev &&
                      now.st_ino == old->st_ino && now.st_size == old->st_size &&
                      now.st_mtim.tv_sec == old->st_mtim.tv_sec &&
                      now.st_mtim.tv_nsec == old->st_mtim.tv_nsec && rows == s->input.rows;
    return same ? QKV_OK
                : cmd_error(err, QKV_ERR_IO, s->file, "the input changed while it was read");
}

qkv_status embed_shard_commit(struct embed_shard *s, struct embed_sink *sink, qkv_error *err)
{
    qkv_status status = check_input(s, sink->rows, err);
    if (!status) status = embed_sink_head(sink, err);
    if (!status) status = cmd_file_finish(&sink->file, err);
    if (status) return status;
    qkv_writer *w = sink->file.writer;
    sink->file.writer = NULL;
    status = qkv_part_commit(w, &s->part, err);
    bool complete;
    return embed_shard_settle(s, &complete, status, err);
}

void embed_shard_close(struct embed_shard *s)
{
    free(s->prompt);
    s->prompt = NULL;
}
