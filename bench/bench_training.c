// SPDX-License-Identifier: MIT
// bench_training.c: measures forward and gradients of the linear layer, in GFLOP/s.
//
//   bench_training [R K N [THREADS]]     default: its own shapes; best of ROUNDS, GFLOP/s
//
// "packed" is the forward with weights packed in advance, as in inference: the reference for
// "forward".
#include "layer/layer.h"
#include <stdio.h>
#include <stdlib.h>

enum { ROUNDS = 7 };

static void *array(int64_t n, qkv_dtype type)
{
    float *x = qkv_alloc((size_t)n, sizeof *x);
    void *to = qkv_alloc((size_t)n, qkv_dtype_size(type));
    if (!x || !to) exit(QKV_ERR_LIMIT);
    for (int64_t i = 0; i < n; i++) x[i] = (float)((i * 2654435761u % 1000003) / 1000003.0 - 0.5);
    qkv_from_f32(to, type, x, n);
    qkv_free(x);
    return to;
}

struct problem {
    int64_t R, K, N;
    void *x, *y, *dx;
    real *w, *b, *dw, *db;
    struct qkv_linear packed;
    struct qkv_linear_once once;
    struct qkv_linear_back back;
    struct qkv_after after;
    struct qkv_linear_part part;
};

static void forward(struct problem *p)
{
    qkv_linear_once(p->y, p->N, p->x, p->K, p->R, p->K, &p->part, &p->after, &p->once);
}
static void packed(struct problem *p)
{
    qkv_linear_forward((void *[]){ p->y }, NULL, p->x, p->R, &p->packed, &p->after);
}
static void inputs(struct problem *p)
{
    qkv_linear_once_backward(p->dx, NULL, NULL, p->y, p->x, p->R, p->K, &p->part, &p->back);
}
static void weights(struct problem *p)
{
    qkv_linear_once_backward(NULL, p->dw, p->db, p->y, p->x, p->R, p->K, &p->part, &p->back);
}
static void step(struct problem *p)
{
    forward(p);
    qkv_linear_once_backward(p->dx, p->dw, p->db, p->y, p->x, p->R, p->K, &p->part, &p->back);
}

static double best(struct problem *p, void (*body)(struct problem *p), double products)
{
    double least = 1e9;
    for (int i = 0; i < ROUNDS; i++) {
        const double begin = qkv_seconds();
        body(p);
        const double took = qkv_seconds() - begin;
        if (took < least) least = took;
    }
    return products * 2 * (double)p->R * (double)p->K * (double)p->N / least * 1e-9;
}

static void run(int64_t R, int64_t K, int64_t N, int threads, qkv_precision precision)
{
    const qkv_dtype type = qkv_precision_type(precision);
    struct problem p = { .R = R, .K = K, .N = N };
    if (qkv_threads_set(threads)) exit(QKV_ERR_USAGE);
    p.x = array(R * K, type);
    p.dx = array(R * K, type);
    p.y = array(R * N, type);
    p.w = array(N * K, QKV_F32);
    p.b = array(N, QKV_F32);
    p.dw = array(N * K, QKV_F32);
    p.db = array(N, QKV_F32);
    p.part = (struct qkv_linear_part){ N, p.w, p.b, false };
    p.packed =
        (struct qkv_linear){ .K = K, .precision = precision, .parts = 1, .part = { p.part } };
    p.after = (struct qkv_after){ .x = type, .y = type };
    p.once = (struct qkv_linear_once){ .precision = precision, .threads = threads };
    p.back = (struct qkv_linear_back){
        .precision = precision, .threads = threads, .x = type, .y = type
    };
    p.once.scratch = qkv_alloc(qkv_linear_once_scratch(&p.once, K, N), 1);
    p.back.scratch = qkv_alloc(qkv_linear_once_backward_scratch(&p.back, R, K, N), 1);
    if (qkv_linear_pack(&p.packed) || !p.once.scratch || !p.back.scratch) exit(QKV_ERR_LIMIT);
    const double a = best(&p, packed, 1), f = best(&p, forward, 1), x = best(&p, inputs, 1);
    const double w = best(&p, weights, 1), all = best(&p, step, 3);
    printf("%-8s %5lld %5lld %5lld  %d  %7.1f  %7.1f %7.1f %7.1f  %7.1f\n",
           qkv_precision_name(precision), (long long)R, (long long)K, (long long)N, threads, a, f,
           x, w, all);
    fflush(stdout);
    qkv_linear_free(&p.packed);
    void *all_arrays[] = { p.x, p.dx, p.y, p.w, p.b, p.dw, p.db, p.once.scratch, p.back.scratch };
    for (size_t i = 0; i < sizeof all_arrays / sizeof *all_arrays; i++) qkv_free(all_arrays[i]);
}

int main(int argc, char **argv)
{
    static const int64_t shapes[][3] = {
        { 4096, 384, 1536 }, { 4096, 1536, 384 }, { 4096, 384, 384 },
        { 1024, 768, 3072 }, { 1024, 3072, 768 }, { 1024, 768, 768 },
    };
    printf("isa %s, GFLOP/s\n", qkv_isa());
    printf("%-8s %5s %5s %5s  %s  %7s  %7s %7s %7s  %7s\n", "type", "R", "K", "N", "T", "packed",
           "forward", "dx", "dw db", "all");
    const int threads = argc > 4 ? atoi(argv[4]) : 1;
    for (int i = 0; i < 2; i++) {
        const qkv_precision p = i ? QKV_PRECISION_BF16 : QKV_PRECISION_F32;
        if (argc > 3) {
            run(atoll(argv[1]), atoll(argv[2]), atoll(argv[3]), threads, p);
            continue;
        }
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            run(shapes[s][0], shapes[s][1], shapes[s][2], 1, p);
    }
    return 0;
}
