// SPDX-License-Identifier: MIT
// store.h: declares the engine libqkv_sqlite: the texts, files and settings of an index, which are
// a SQLite database at the beginning of an open file.
//
// Every function returns STORE_OK or fills the reason.  Texts that a function returns are valid
// until the next call with the same store.
#ifndef QKV_CLI_STORE_H
#define QKV_CLI_STORE_H

#include <stddef.h>
#include <stdint.h>

enum store_status {
    STORE_OK = 0,
    STORE_NONE,   // there is no such row
    STORE_BROKEN, // the file is no store, or a malformed one
    STORE_LATER,  // a later version of qkv wrote the file
    STORE_FULL,   // the file cannot be written, or memory is exhausted: see `code`
    STORE_LINE    // the line is no JSON object with such a text
};
enum { STORE_REASON = 400 };
struct store_reason {
    int code; // errno of a failed system call; 0: none
    char text[STORE_REASON];
};

struct store_text {
    const char *at; // NULL: absent
    size_t bytes;
};
struct store_file {
    int64_t id;
    struct store_text name;
    int64_t bytes; // size of the file
    struct store_text sha256;
    int64_t first, passages; // number of the first passage, from 0; number of passages
    int64_t folder;          // 1: it was found in a folder, 0: it was given by its name
};
struct store_passage {
    int64_t file; // id of its file
    int64_t line; // number of the line on which it begins, from 1
    struct store_text text;
    struct store_text key;      // the "id" of a JSON line, as JSON; absent: none
    struct store_text metadata; // the other members of a JSON line, as JSON; absent: none
};

struct store;
struct store_engine {
    size_t size;
    const char *(*version)(void); // of SQLite
    // Opens a store in the file of a descriptor, which stays the caller's; create: makes a new one
    // in an empty file.
    enum store_status (*open)(struct store **out, int fd, int create, struct store_reason *why);
    void (*close)(struct store *s); // s may be NULL
    // Completes a new store.  *bytes: its size in the file, a multiple of 4096
    enum store_status (*finish)(struct store *s, int64_t *bytes, struct store_reason *why);
    enum store_status (*set)(struct store *s, const char *name, const char *value,
                             struct store_reason *why);
    enum store_status (*get)(struct store *s, const char *name, struct store_text *value,
                             struct store_reason *why);
    // Files and passages are added in order; passages are counted from 0.
    enum store_status (*add_file)(struct store *s, const struct store_file *f,
                                  struct store_reason *why);
    enum store_status (*add_passage)(struct store *s, int64_t n, const struct store_passage *p,
                                     struct store_reason *why);
    enum store_status (*file_named)(struct store *s, const char *name, struct store_file *f,
                                    struct store_reason *why);
    enum store_status (*file)(struct store *s, int64_t id, struct store_file *f,
                              struct store_reason *why);
    enum store_status (*passage)(struct store *s, int64_t n, struct store_passage *p,
                                 struct store_reason *why);
    // Counts the rows of both tables.
    enum store_status (*count)(struct store *s, int64_t *files, int64_t *passages,
                               struct store_reason *why);
    // Reads a line of JSON: an object whose member `field` is the text, and whose member "id", if
    // it is a text or a number, is the key.
    enum store_status (*parse)(struct store *s, const char *line, size_t bytes, const char *field,
                               struct store_passage *p, struct store_reason *why);
};
#endif
