// SPDX-License-Identifier: MIT
// index.h: declares an index (.qkvi), one file: a SQLite database with texts, files and settings,
// then the vectors of the texts (docs/formats.md).  `qkv index` writes it, `qkv search` reads it.
#ifndef QKV_CLI_INDEX_H
#define QKV_CLI_INDEX_H

#include "frame/cmd.h"
#include "index/graph.h"
#include "index/store.h"

// ---- the store (index_open.c) ------------------------------------------------------------------
// Opens the engine of the store.  `command`, such as "qkv index", is named if it is missing.
const struct store_engine *index_engine(const char *command, qkv_error *err);
// Fills err from a failed call of the store; STORE_NONE is a row that is missing.  Returns its
// status.
qkv_status index_store_error(enum store_status status, const struct store_reason *why,
                             const char *path, qkv_error *err);

// ---- settings: everything that passages and vectors depend on (index_settings.c) ---------------
enum index_setting_id {
    INDEX_MODEL,     // qkv_embedder_digest
    INDEX_PRECISION, // of the computation
    INDEX_ABLATE,
    INDEX_PROMPT, // text that is put before each passage
    INDEX_LENGTH, // the most tokens of a passage
    INDEX_WIDTH,
    INDEX_STORED, // f32, bf16 or int8
    INDEX_SPLIT,
    INDEX_CHUNK,
    INDEX_OVERLAP,
    INDEX_FIELD,
    // not compared: where the model was, and its files with sizes and times, which tell whether the
    // digest has to be computed again
    INDEX_FOLDER,
    INDEX_FILES,
    INDEX_SETTINGS
};
struct index_settings {
    char *value[INDEX_SETTINGS];
};
void index_setting(struct index_settings *s, enum index_setting_id id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void index_settings_free(struct index_settings *s);
qkv_status index_settings_write(const struct index_settings *s, const struct store_engine *engine,
                                struct store *store, const char *path, qkv_error *err);
qkv_status index_settings_read(struct index_settings *s, const struct store_engine *engine,
                               struct store *store, const char *path, qkv_error *err);
// Fails if `other` would make other passages or vectors than the index at `path`: err names the
// option.
qkv_status index_settings_same(const struct index_settings *s, const struct index_settings *other,
                               const char *path, qkv_error *err);
// Adds the settings that are compared to a digest.
void index_settings_digest(const struct index_settings *s, struct qkv_digest *d);

// ---- an index that is open for reading (index_open.c) ------------------------------------------
struct index {
    const char *path;
    const struct store_engine *engine;
    struct store *store;
    int fd;
    struct qkv_vectors vectors; // vectors.count: number of passages
    int64_t files;
    struct index_settings settings;
};
qkv_status index_open(struct index *x, const char *path, const char *command, qkv_error *err);
void index_close(struct index *x); // a zeroed struct is allowed
// Reads passage n and its file, whose texts are valid until the next call.
qkv_status index_passage(const struct index *x, int64_t n, struct store_passage *p,
                         struct store_file *file, qkv_error *err);
// Returns true if the numbers of a stored vector (int8: its scale) are finite.
bool index_is_finite(const struct qkv_vectors *v, int64_t row);
// Fails with QKV_ERR_FORMAT, and names the passage, if a vector is not finite.
qkv_status index_check_finite(const struct index *x, qkv_error *err);

// Prints what an index is (index_info.c).
qkv_status index_describe(const char *path, qkv_error *err);

// ---- the graph of an index, a file next to it (index_graph.c) ----------------------------------
struct index_graph {
    const struct graph_engine *engine;
    struct graph *graph;
};
// Writes the path of the graph of an index.
qkv_status index_graph_path(char path[CMD_PATH], const char *index, qkv_error *err);
// Reads the graph of an open index; fails if it is missing, malformed, or of another index.
qkv_status index_graph_open(struct index_graph *g, const struct index *x, const char *command,
                            qkv_error *err);
// Opens the index at `path` and writes its graph; a graph that belongs to it stays.  *kept: it
// stayed.  *bytes: its size
qkv_status index_graph_make(const char *path, const char *command, bool *kept, int64_t *bytes,
                            qkv_error *err);
void index_graph_close(struct index_graph *g); // a zeroed struct is allowed
// Fails if the engine is missing.
const struct graph_engine *index_graph_engine(const char *command, qkv_error *err);
// Fills err from a failed call of the engine.  Returns its status.
qkv_status index_graph_error(enum graph_status status, const struct graph_reason *why,
                             const char *index, qkv_error *err);

// ---- models (index_model.c) --------------------------------------------------------------------
// Opens the embedder of a folder with the first prompt of `names` that the model has; the list ends
// with NULL, for its default prompt.
qkv_status index_embedder(qkv_embedder **out, const char *dir, struct qkv_embedder_options *how,
                          const char *const *names, qkv_error *err);
extern const char *const index_document_prompts[], *const index_query_prompts[];
// Writes the absolute path of a model folder, valid UTF-8.  The caller frees it.
qkv_status index_model_folder(char **out, const char *dir, qkv_error *err);
// Describes the files of a model folder: a line per file, with its size and the time of its last
// change; of a link, size and time of its target.  The caller frees *out, also after an error.
qkv_status index_model_files(char **out, const char *dir, qkv_error *err);
// Finds the folder of the model of an index: --model, or the folder in which it was.
qkv_status index_model_find(const struct index *x, char dir[CMD_PATH], qkv_error *err);
// Fails unless the embedder has the model of the index.
qkv_status index_model_check(const struct index *x, const qkv_embedder *e, const char *dir,
                             qkv_error *err);

// ---- input files (index_files.c) ---------------------------------------------------------------
enum index_split { SPLIT_AUTO, SPLIT_LINES, SPLIT_SENTENCES };
struct index_files {
    struct index_file {
        char *name;
        char *real;  // path without links, "." and ".."; NULL: of a model
        bool json;   // .jsonl or .ndjson
        bool folder; // found in a folder
    } * at;
    int64_t count;
};
// Finds the files of the operands, in folders too, sorted by name and each once.  Hidden files,
// links in folders and indexes are left out.
qkv_status index_files_find(struct index_files *f, int argc, char **argv, qkv_error *err);
// Finds the files below the folder of a model, sorted by name; links are followed.
qkv_status index_files_model(struct index_files *f, const char *dir, qkv_error *err);
void index_files_free(struct index_files *f);

// ---- passages of a text (index_chunks.c) -------------------------------------------------------
struct chunk {
    size_t begin, end; // bytes of the text
};
struct chunker {
    const qkv_tokenizer *tokenizer;
    int64_t size, overlap; // tokens
    struct chunk *chunks;  // the result
    int64_t count;
    struct sentence {
        size_t begin, end;
        int64_t tokens;
        bool heading;
    } * sentences;
    int64_t sentence_count;
    qkv_encoding e;
};
// Splits a text into chunks of whole sentences, of at most `size` tokens each; a sentence with more
// is split between words.  Each chunk begins with the last sentences of the previous one that have
// at most `overlap` tokens.
qkv_status chunker_split(struct chunker *c, const char *text, size_t bytes, qkv_error *err);
void chunker_free(struct chunker *c);

// ---- writing an index (index_build.c) ----------------------------------------------------------
struct index_build {
    const char *path;
    const struct store_engine *engine;
    const struct index_settings *settings;
    const qkv_embedder *embedder;
    struct index *old; // index whose unchanged files are reused; NULL: none
    enum index_split split;
    struct chunker chunker;
    const char *field;
    bool strict;
    qkv_dtype stored;
    struct store *store;
    int fd;
    int64_t *source; // [passages] number of the passage in `old`; -1: a new text
    int64_t passages;
    struct { // of files
        int64_t added, changed, unchanged, removed, skipped;
    } count;
    int64_t embedded, bytes; // texts that were embedded; bytes of the index
    struct qkv_embed_report report;
    char *skipped_file;  // the first file that was skipped
    char *replaced_file; // of the first invalid UTF-8
    int64_t replaced_line;
};
// Writes the index to the descriptor b->fd, an empty file.
qkv_status index_build(struct index_build *b, const struct index_files *files, qkv_error *err);
// Adds the passages of one file, and its bytes to a digest (index_texts.c).
qkv_status index_texts(struct index_build *b, const struct index_file *f, int64_t id,
                       struct qkv_digest *d, qkv_error *err);
// Adds one passage, whose text is made valid UTF-8.
qkv_status index_add(struct index_build *b, const struct index_file *f,
                     const struct store_passage *p, qkv_error *err);
#endif
