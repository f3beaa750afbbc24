// SPDX-License-Identifier: MIT
// corpus_internal.h: declares the structs that corpus.c, which finds the files of a corpus, shares
// with corpus_next.c, which reads the files.
#ifndef QKV_TASK_CORPUS_INTERNAL_H
#define QKV_TASK_CORPUS_INTERNAL_H
#include "task/data/data.h"

enum corpus_format { CORPUS_TEXT = 0, CORPUS_JSONL, CORPUS_TSV };

struct corpus_file {
    char *name; // name of the file in messages
    struct qkv_map map;
    char *own; // content of standard input; NULL if the data is a mapped file
    const char *data;
    size_t size, start; // start: offset of the first byte after a byte order mark
    enum corpus_format format;
    int column[2]; // TSV: the columns of an example's two texts, counted from 0
};
struct qkv_corpus {
    enum qkv_objective objective;
    bool two, per_line; // two: an example has two texts; per_line: each line is an example
    char *field[2];     // JSONL: names of the members with an example's two texts
    struct corpus_file *files;
    int64_t count, capacity, bytes;
};
#endif
