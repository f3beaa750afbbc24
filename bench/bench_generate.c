// SPDX-License-Identifier: MIT
// bench_generate.c: measures how fast a decoder generates the most likely tokens one at a time.
//
//   bench_generate MODEL PRECISION STEPS THREADS     prints tokens/s after the first token
//
// MODEL: a folder or a checkpoint of llama2.c.  The time is measured as llama2.c does: from the
// second step on, including the choice of the token.
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int fail(const qkv_error *err)
{
    char line[2048];
    fprintf(stderr, "%s\n", qkv_error_line(line, sizeof line, err));
    return 1;
}

int main(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct qkv_model_options how = { 0 };
    const struct qkv_decoder_options one = { .items = 1 };
    qkv_model *m = NULL;
    qkv_decoder *d = NULL;
    if (argc != 5 || !qkv_precision_parse(&how.precision, argv[2])) return 2;
    const int steps = atoi(argv[3]);
    if (qkv_threads_set(atoi(argv[4])) || qkv_model_open(&m, argv[1], &how, &err) ||
        qkv_decoder_new(&d, m, &one, &err))
        return fail(&err);
    const int64_t V = qkv_model_info(m).vocab;
    float *logits = malloc((size_t)V * sizeof *logits);
    int32_t id = 1;
    double begin = 0;
    if (!logits) return 5;
    for (int i = 0; i < steps; i++) {
        const struct qkv_decoder_tokens t = { .n = 1, .ids = &id };
        if (qkv_decoder_feed(d, logits, &t, &err)) return fail(&err);
        for (int64_t v = id = 0; v < V; v++)
            if (logits[v] > logits[id]) id = (int32_t)v;
        if (i == 0) begin = now();
    }
    printf("%.9g %d\n", (steps - 1) / (now() - begin), (int)id);
    free(logits);
    qkv_decoder_free(d);
    qkv_model_close(m);
    return 0;
}
