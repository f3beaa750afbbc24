// SPDX-License-Identifier: MIT
// file.h: declares the interface of module file, which reads and writes checkpoints and model
// folders.
#ifndef QKV_MODULE_FILE_H
#define QKV_MODULE_FILE_H
#include "base/base.h"
#include "file/config.h"

// ---- checkpoints of a run (checkpoint.c, checkpoint_find.c) -------------------------------------
// The folder RUN/checkpoint-00000100/ contains the files of a model folder, the state of training,
// and manifest.json, which is written last and has the size and SHA-256 of every file.  The folder
// is written as checkpoint-00000100.tmp/, synced and renamed; RUN/model is a link to the newest
// checkpoint.  The last two checkpoints are kept.  See docs/formats.md.
enum { QKV_CHECKPOINT_NAME = 48 };
struct qkv_checkpoint {
    char run[QKV_PATH], dir[QKV_PATH]; // dir: folder for its files
    char name[QKV_CHECKPOINT_NAME];    // "checkpoint-00000100"
    int64_t step;
    bool open;
};
// Begins a checkpoint: removes the folders of unfinished checkpoints and makes a new folder.
// Returns QKV_OK; QKV_ERR_USAGE (an invalid step); QKV_ERR_IO.
qkv_status qkv_checkpoint_begin(struct qkv_checkpoint *c, const char *run, int64_t step,
                                qkv_error *err);
// Completes a checkpoint: writes the manifest, syncs, renames the folder and links it.  On error
// the older checkpoints are unchanged and the new checkpoint is removed.
qkv_status qkv_checkpoint_commit(struct qkv_checkpoint *c, qkv_error *err);
// The checkpoints of a run that stay.
struct qkv_checkpoint_kept {
    const char *name; // the checkpoint of this name; NULL: none
    int64_t last;     // the last ones; negative: all; 0: two
    int64_t every;    // > 0: every step that is a multiple of `every`
};
// Removes the other checkpoints of a run, and what an interrupted save or removal has left.
qkv_status qkv_checkpoint_tidy(const char *run, const struct qkv_checkpoint_kept *kept,
                               qkv_error *err);
void qkv_checkpoint_abort(struct qkv_checkpoint *c); // no effect after commit or on a zeroed struct
// Makes RUN/name a link to `target`; an existing link is replaced atomically.
qkv_status qkv_checkpoint_link(const char *run, const char *name, const char *target,
                               qkv_error *err);

struct qkv_checkpoint_found {
    int64_t step; // -1: there is none
    char dir[QKV_PATH], name[QKV_CHECKPOINT_NAME];
    int64_t passed;                            // names skipped: unfinished or without manifest
    char passed_name[QKV_CHECKPOINT_NAME + 8]; // the newest skipped name
};
// Finds the newest checkpoint of the run that has a manifest, and checks every file against the
// manifest.
// Returns QKV_OK; QKV_ERR_FORMAT: a file differs (the message names the file, the tensor, the
// offset and the preceding checkpoint); QKV_ERR_UNSUPPORTED: a later version of qkv wrote the
// checkpoint; QKV_ERR_IO; QKV_ERR_LIMIT.
qkv_status qkv_checkpoint_find(struct qkv_checkpoint_found *f, const char *run, qkv_error *err);
// Checks the folder of a model, whose weights the caller has opened, against its manifest, if it is
// a checkpoint (if it has manifest.json and state.json): the size of every file, the SHA-256 of
// files of at most 1 MiB, and the sum of every tensor of the weights, which costs as much as
// reading them once.  Returns QKV_OK, also for other folders; otherwise as qkv_checkpoint_find.
qkv_status qkv_checkpoint_check(const char *dir, const qkv_tensors *weights, qkv_error *err);

// ---- sets of tensors (tensors.c) ----------------------------------------------------------------
// Returns the path of the file that contains the tensor t of the set.
const char *qkv_tensors_file(const qkv_tensors *set, const struct qkv_tensor *t);

// ---- weights of 8 bits (docs/formats.md) --------------------------------------------------------
#define QKV_EIGHT_SCALE  ".scale"       // suffix of a tensor's name: its scales
#define QKV_EIGHT_BITS   "quantization" // key of a file's __metadata__: "int8"
#define QKV_EIGHT_METHOD "qkv-int8"     // quant_method of quantization_config in config.json
// name, without its ending, of a file of weights with row scales
#define QKV_EIGHT_NAME "model.qkv-int8"

// ---- folder.c: a folder written whole or not at all ---------------------------------------------
struct qkv_folder {
    char path[QKV_PATH], dir[QKV_PATH]; // final path; folder for the files until commit
    // lock: descriptor of dir, locked as long as this process writes it, or -1; slot: index of dir
    // in the table of temporary files
    int lock, slot;
    bool force, replaces, open;
};
// Begins a folder, which qkv_folder_commit renames to path, and removes the temporary folders of
// processes that were killed while they wrote path.  Returns QKV_OK; QKV_ERR_USAGE (path
// exists and force is false; path exists and is not a model folder); QKV_ERR_IO.
qkv_status qkv_folder_begin(struct qkv_folder *f, const char *path, bool force, qkv_error *err);
// path: relative to the folder that is copied
typedef bool qkv_folder_wanted(const void *user, const char *path, int64_t bytes);
// Copies files from the folder `from`, and from folders in it down to `depth` levels, to the new
// folder.  It copies the files for which `wanted`, called with `user`, returns true and that the
// new folder does not contain yet; names that begin with a dot are skipped.  *left_out counts the
// files for which `wanted` returns false; *links the links that are not copied, because they lead
// to a folder, to nothing, or to a file outside of `from` (in the cache of the Hugging Face hub:
// outside of `from` and its blobs).
qkv_status qkv_folder_copy(const struct qkv_folder *f, const char *from, qkv_folder_wanted *wanted,
                           const void *user, int depth, int64_t *left_out, int64_t *links,
                           qkv_error *err);
// Returns how many of the files from which weights were read, with their index, the new folder does
// not have.
int64_t qkv_folder_weights_gone(const struct qkv_folder *f, const qkv_tensors *weights);
// Returns true if path is inside folder; both are as realpath() writes them. Nothing is inside "".
bool qkv_path_is_inside(const char *path, const char *folder);
// Checks that the file at path, which is in the model folder dir, is not a link to a file outside
// of dir (in the cache of the Hugging Face hub: outside of dir and its blobs).  Every file that is
// written to a folder for others has to pass this check.  A file that does not exist is accepted.
// Returns QKV_OK; QKV_ERR_FORMAT; QKV_ERR_IO.
qkv_status qkv_folder_has(const char *dir, const char *path, qkv_error *err);
// Does so for every file of the weights, which the caller has opened from dir.
qkv_status qkv_folder_has_weights(const char *dir, const qkv_tensors *weights, qkv_error *err);
// Renames the new folder to its final path; on error a folder that existed at that path is
// unchanged.
qkv_status qkv_folder_commit(struct qkv_folder *f, qkv_error *err);
// Removes the new folder; no effect after commit or on a zeroed struct.  err: NULL, or an error: if
// it is about a file of the new folder, it then names the file's final path.
void qkv_folder_abort(struct qkv_folder *f, qkv_error *err);
#endif
