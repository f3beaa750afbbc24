// SPDX-License-Identifier: MIT
// corpus_work.h: what corpus.c (which files) and corpus_next.c (what is in them) share.
#ifndef QKV_TASK_CORPUS_WORK_H
#define QKV_TASK_CORPUS_WORK_H
#include "task/task.h"

enum corpus_format { CORPUS_TEXT = 0, CORPUS_JSONL, CORPUS_TSV };

struct corpus_file {
    char *name; // for messages
    struct qkv_map map;
    char *own; // standard input
    const char *data;
    size_t size, start; // start: behind a byte order mark
    enum corpus_format format;
    int column[2]; // of TSV, from 0
};
struct qkv_corpus {
    enum qkv_objective objective;
    bool two, per_line; // two: examples have a second part
    char *field[2];     // members of JSON
    struct corpus_file *files;
    int64_t count, capacity, bytes;
};
#endif
