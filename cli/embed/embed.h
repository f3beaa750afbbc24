// SPDX-License-Identifier: MIT
// embed.h: declares the outputs of `qkv embed` and its shards.
#ifndef QKV_CLI_EMBED_H
#define QKV_CLI_EMBED_H

#include "frame/cmd.h"
#include <sys/stat.h>

// ---- outputs (embed_sink.c) --------------------------------------------------------------------
enum embed_form { FORM_LINES, FORM_JSONL, FORM_NPY };
enum { NPY_HEAD = 128 }; // bytes of the header of a .npy file

struct embed_sink {
    enum embed_form form;
    const char *path;     // NULL: vectors are written to standard output
    bool ids;             // the texts are lists of token ids
    struct cmd_file file; // output file, if path is not NULL
    FILE *to;
    // true: a .npy file is first written to an unnamed temporary file, and then copied to the pipe,
    // because its header contains the number of rows, which is only known at the end
    bool spool;
    int64_t width, rows;
};
// Sets *form from the name of the output, or from --json if path is NULL.
qkv_status embed_form_of(enum embed_form *form, const char *path, qkv_error *err);
qkv_status embed_sink_open(struct embed_sink *s, int64_t width, qkv_error *err);
qkv_status embed_sink_put(struct embed_sink *s, const float *v, const struct cmd_texts *t,
                          qkv_error *err);
// Completes the header of a .npy file for s->rows rows.
qkv_status embed_sink_head(struct embed_sink *s, qkv_error *err);
qkv_status embed_sink_close(struct embed_sink *s, qkv_error *err);
void embed_sink_abort(struct embed_sink *s); // no effect after embed_sink_close()

// ---- shards (embed_shard.c, shard_choice.c, embed_join.c) --------------------------------------
// Sets *s from "I/N" or, if the text is "auto", from the variables that launchers of several
// processes set.
qkv_status embed_shard_choose(struct qkv_shard *s, const char *text, qkv_error *err);

enum { EMBED_MEMBERS = 16 };
struct embed_shard {
    struct qkv_part part;
    char path[QKV_PART_PATH]; // of the part
    const char *file;         // the input
    struct stat before;       // the input, before it is read
    struct qkv_shard_input input;
    struct qkv_part_member members[EMBED_MEMBERS];
    char model[65], ablated[1024], numbers[4][24];
    char *prompt;
};
// Options that determine the vectors and that only this command has.
struct embed_settings {
    const char *pool; // NULL: as the model's files say
    bool no_normalize, no_special, ids;
    enum embed_form form;
};
// Chooses the shard, and checks that a shard of this input to this output is possible.  operands:
// number of texts on the command line; ids: `file` is the value of --ids.
qkv_status embed_shard_open(struct embed_shard *s, const char *text, const char *output,
                            const char *file, int operands, bool ids, qkv_error *err);
// Finds the lines of the shard, and whether its part is complete.
qkv_status embed_shard_begin(struct embed_shard *s, bool *complete, const qkv_embedder *e,
                             const struct embed_settings *how, qkv_error *err);
// Writes the part, whose vectors are in the sink, with its manifest.
// Returns the status of creating the part, or QKV_OK with *complete if the part is refused because
// another process has completed it since embed_shard_begin looked.
qkv_status embed_shard_settle(const struct embed_shard *s, bool *complete, qkv_status status,
                              qkv_error *err);
qkv_status embed_shard_commit(struct embed_shard *s, struct embed_sink *sink, qkv_error *err);
void embed_shard_close(struct embed_shard *s); // a zeroed struct is allowed
// The word for a form in manifests.
const char *embed_form_name(enum embed_form form);

// Concatenates the parts of an output to the file that one run without shards writes.
qkv_status embed_join(const char *output, qkv_error *err);
#endif
