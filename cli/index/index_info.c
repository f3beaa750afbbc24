// SPDX-License-Identifier: MIT
// index_info.c: describes an index for `qkv info`.
#include "index/index.h"
#include <string.h>
#include <sys/stat.h>

static void print_json(const struct index *x, int64_t bytes, const char *graph)
{
    char *const *const value = x->settings.value;
    static const struct {
        const char *name;
        enum index_setting_id id;
    } texts[] = { { "vectors", INDEX_STORED },     { "split", INDEX_SPLIT },
                  { "field", INDEX_FIELD },        { "prompt", INDEX_PROMPT },
                  { "model", INDEX_FOLDER },       { "digest", INDEX_MODEL },
                  { "precision", INDEX_PRECISION } };
    fputs("{\"index\":", stdout);
    cmd_json_text(stdout, x->path, strlen(x->path));
    printf(",\"files\":%lld,\"passages\":%lld,\"width\":%lld,\"bytes\":%lld", (long long)x->files,
           (long long)x->vectors.count, (long long)x->vectors.width, (long long)bytes);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        printf(",\"%s\":", texts[i].name);
        cmd_json_text(stdout, value[texts[i].id], strlen(value[texts[i].id]));
    }
    fputs(",\"graph\":", stdout);
    if (graph)
        cmd_json_text(stdout, graph, strlen(graph));
    else
        fputs("null", stdout);
    puts("}");
}

static void print_row(const char *label, const char *text)
{
    printf("%-10s ", label);
    cmd_print_name(stdout, *text ? text : "none");
    putchar('\n');
}

static void print_text(const struct index *x, int64_t bytes, const char *graph)
{
    char *const *const value = x->settings.value;
    cmd_print_name(stdout, x->path);
    printf("\nindex of %lld passage%s of %lld file%s, %lld x %s, %.1f MB\n",
           (long long)x->vectors.count, x->vectors.count == 1 ? "" : "s", (long long)x->files,
           x->files == 1 ? "" : "s", (long long)x->vectors.width, value[INDEX_STORED],
           (double)bytes / 1e6);
    print_row("model", value[INDEX_FOLDER]);
    print_row("digest", value[INDEX_MODEL]);
    print_row("prompt", value[INDEX_PROMPT]);
    printf("passages   split %s, at most %s tokens with an overlap of %s, field ",
           value[INDEX_SPLIT], value[INDEX_CHUNK], value[INDEX_OVERLAP]);
    cmd_print_name(stdout, value[INDEX_FIELD]);
    putchar('\n');
    print_row("graph", graph ? graph : "");
}

qkv_status index_describe(const char *path, qkv_error *err)
{
    struct index x;
    struct stat st, graph;
    char name[CMD_PATH];
    if (index_graph_path(name, path, err)) return err->status;
    const qkv_status status = index_open(&x, path, "qkv info", err);
    if (status) return status;
    const int64_t bytes = fstat(x.fd, &st) == 0 ? (int64_t)st.st_size : 0;
    (common.json ? print_json : print_text)(&x, bytes, stat(name, &graph) == 0 ? name : NULL);
    index_close(&x);
    return QKV_OK;
}
