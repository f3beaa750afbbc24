// SPDX-License-Identifier: MIT
// corpus_internal.h: declares the structs shared by corpus.c, which finds files, and corpus_next.c,
// which reads them.
#ifndef QKV_TASK_CORPUS_WORK_H
#define QKV_TASK_CORPUS_WORK_H
#include "task/data/data.h"

enum corpus_format { CORPUS_TEXT = 0, CORPUS_JSONL, CORPUS_TSV };

struct corpus_file {
    char *name; // shown in messages
    struct qkv_map map;
    char *own; // content of standard input; NULL: a mapped file
    const char *data;
    size_t size, start; // start: first byte after a byte order mark
    enum corpus_format format;
    int column[2]; // columns of TSV, from 0
};
struct qkv_corpus {
    enum qkv_objective objective;
    bool two, per_line; // examples have two texts; each line is an example
    char *field[2];     // names of members in JSON
    struct corpus_file *files;
    int64_t count, capacity, bytes;
};
#endif
