// SPDX-License-Identifier: MIT
// search.c: prints the lines of a file whose meaning is closest to the query.
//
//   cc search.c $(pkg-config --cflags --libs qkv) -o search
//   ./search README.md how much memory does it need
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 100000, LINE = 4096, BEST = 5 };

int main(int argc, char **argv)
{
    static char *lines[LINES];
    static char line[LINE], question[LINE];
    int64_t n = 0;
    if (argc < 3) return fprintf(stderr, "usage: search FILE WORDS...\n"), 2;
    FILE *f = fopen(argv[1], "r");
    if (!f) return perror(argv[1]), 6;
    for (int i = 2, used = 0; i < argc && used < LINE; i++)
        used += snprintf(question + used, (size_t)(LINE - used), "%s ", argv[i]);
    while (n < LINES && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] && !(lines[n++] = strdup(line))) return 5;
    }
    fclose(f);
    qkv_error err = { 0 };
    qkv_embedder *e = NULL;
    float *rows = NULL, *want = NULL;
    char model[1024], text[1024];
    const struct qkv_embedder_options o = { .truncate = true };
    if (qkv_model_find(model, sizeof model, NULL, 0, NULL, &err) ||
        qkv_embedder_open(&e, model, &o, &err))
        goto done;
    const int64_t D = qkv_embedder_width(e);
    rows = malloc((size_t)(n * D + 1) * sizeof *rows);
    want = malloc((size_t)D * sizeof *want);
    const char *const asked = question;
    if (!rows || !want) err = (qkv_error){ .status = QKV_ERR_LIMIT, .text = "out of memory" };
    if (err.status || qkv_embed(e, want, &asked, NULL, 1, NULL, &err) ||
        qkv_embed(e, rows, (const char *const *)lines, NULL, n, NULL, &err))
        goto done;
    for (int k = 0; k < BEST && k < n; k++) { // print the best of the remaining lines
        int64_t best = 0;
        for (int64_t i = 1; i < n; i++)
            if (qkv_cosine(want, rows + i * D, D) > qkv_cosine(want, rows + best * D, D)) best = i;
        printf("%.3f  %s\n", (double)qkv_cosine(want, rows + best * D, D), lines[best]);
        memset(rows + best * D, 0, (size_t)D * sizeof *rows);
    }
done:
    if (err.status) fprintf(stderr, "%s\n", qkv_error_line(text, sizeof text, &err));
    for (int64_t i = 0; i < n; i++) free(lines[i]);
    free(rows);
    free(want);
    qkv_embedder_close(e);
    return err.status;
}
