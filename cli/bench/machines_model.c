// SPDX-License-Identifier: MIT
// machines_model.c: computes how long attention over ranks takes, from the rate of a rank and the
// rate of its link. docs/machines.md has the formulas.
#include "bench/machines.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Bytes of sums of dk and dv, which are floats.
static double bytes_of_sums(const struct qkv_attention *a)
{
    return 4.0 * (double)a->B * (double)a->S * (double)a->G * (double)(a->E + a->F);
}

// Seconds until all ranks have all parts of an array, or one rank has given all others their parts.
static double collecting(double bytes, double P, const struct machines_rates *r)
{
    return (P - 1) * r->latency + bytes * (P - 1) / P / r->bandwidth;
}

// Returns the cuts of the keys in a backward pass: each writes its shares of dq of all rows.
static double cuts_of(const struct qkv_attention *a, int64_t units)
{
    const double pairs = (double)a->B * (double)a->G;
    return pairs > 0 ? (double)units / pairs : 0;
}

// Seconds that a rank needs to write the shares of dq of its rows in the cuts that one rank does
// not have, and to read and add them.
static double shares_of_dq(const struct qkv_attention *a, double P, int64_t units,
                           const struct machines_rates *r)
{
    const struct qkv_comm alone = { .size = 1 };
    const double one = cuts_of(a, qkv_ranks_backward_plan(a, NULL, &alone).units);
    const double rows = (double)a->B * (double)a->T * (double)a->H / P;
    const double bytes = (cuts_of(a, units) - one) * rows * (double)a->E * sizeof(float);
    return bytes > 0 ? 2 * bytes / r->memory : 0;
}

// Returns the seconds of one thread to copy the sums of dk and dv that a rank sends in a pass. The
// transport copies each message, and one to the own rank twice. With causal masks one rank sends
// twice: to another rank, and to itself.
static double copies(const struct qkv_attention *a, const struct machines_rates *r)
{
    return 2 * (a->causal ? 3 : 1) * bytes_of_sums(a) / r->copying;
}

qkv_status machines_model(struct machines_time of[2], const struct qkv_attention *a, int64_t ranks,
                          const struct machines_rates *r, qkv_error *err)
{
    const double P = (double)ranks;
    double most[2] = { 0, 0 }, all[2] = { 0, 0 };
    int64_t units = 1;
    of[0] = of[1] = (struct machines_time){ 0 };
    for (int64_t rank = 0; rank < ranks; rank++) {
        const struct qkv_comm c = { .rank = rank, .size = ranks };
        const struct qkv_ranks_plan p[2] = { qkv_ranks_plan(a, &c),
                                             qkv_ranks_backward_plan(a, NULL, &c) };
        for (int i = 0; i < 2; i++) {
            if (p[i].status) return cmd_error(err, p[i].status, NULL, "%s", p[i].reason);
            if (p[i].flops > most[i]) most[i] = p[i].flops;
            if ((double)p[i].sent > of[i].bytes) of[i].bytes = (double)p[i].sent;
            all[i] = p[i].all;
        }
        units = p[1].units > 1 ? p[1].units : 1;
    }
    const double parts = bytes_of_sums(a) / 4 * (double)bench_size(a->precision);
    const double collect = ranks > 1 ? collecting(parts, P, r) : 0;
    of[0].one = all[0] / r->flops[0];
    of[0].link = collect;
    of[0].many = collect + most[0] / r->flops[0];
    // A batch has a pair of units for each thread; with causal masks a rank has two runs.
    const double batches = ceil((double)units / (2.0 * qkv_threads()));
    const double own = a->causal ? 2 : 1, steps = batches + own * P - 1;
    const double compute = most[1] / r->flops[1] / batches;
    // If there are two ranks, one of the two runs of each sends to its own rank. Messages count in
    // full, although some move while ranks compute.
    const double sends = own < P - 1 ? own : P - 1;
    const double message = sends * (bytes_of_sums(a) / batches / r->bandwidth + r->latency);
    // Sums are on their way in all steps: a thread of the rank moves them while the others compute.
    const double moving = compute / (1 - fmin(r->moving / qkv_threads(), .99)) - compute;
    const double step = compute + moving + message + copies(a, r) / batches;
    of[1].one = all[1] / r->flops[1];
    of[1].units = units;
    of[1].steps = (int64_t)steps;
    of[1].link = 2 * collect + steps * (step - compute);
    of[1].many = of[1].one;
    if (ranks > 1) of[1].many = 2 * collect + steps * step + shares_of_dq(a, P, units, r);
    for (int i = 0; i < 2; i++) of[i].efficiency = of[i].one / (P * of[i].many);
    return QKV_OK;
}

// ---- prediction ---------------------------------------------------------------------------------
static const double links[] = { 10, 100, 400 }; // Gbit/s
enum { LINKS = sizeof links / sizeof *links };
// Rates that --predict assumes. The rate of arithmetic is an option, and the table above has links.
static const struct machines_rates assumed = {
    .latency = 20e-6, .memory = 200e9, .copying = 20e9, .moving = .06
};

static qkv_status predict_one(const struct bench_shape *shape, double gflops, bool first,
                              qkv_error *err)
{
    struct qkv_attention a;
    int64_t *offsets = NULL;
    qkv_status status = bench_attention_of(&a, &offsets, shape, err);
    if (!common.json) printf("%s%s\n  ranks", first ? "" : "\n", shape->name);
    for (int l = 0; l < LINKS && !common.json; l++) printf("  %4.0f Gbit/s  ", links[l]);
    if (!common.json) puts("    steps");
    for (int64_t P = 2; P <= 64 && !status; P *= 2) {
        struct machines_time t[2];
        if (!common.json) printf("%7lld", (long long)P);
        for (int l = 0; l < LINKS && !status; l++) {
            struct machines_rates r = assumed;
            r.flops[0] = r.flops[1] = gflops * 1e9;
            r.bandwidth = links[l] * 1e9 / 8;
            status = machines_model(t, &a, P, &r, err);
            if (status) break;
            const double forward = 100 * t[0].efficiency, backward = 100 * t[1].efficiency;
            if (!common.json) {
                printf("  %4.0f%% %4.0f%%  ", forward, backward);
                continue;
            }
            fputs(first && P == 2 && !l ? "{\"shape\":" : ",{\"shape\":", stdout);
            cmd_json_text(stdout, shape->name, strlen(shape->name));
            printf(",\"ranks\":%lld,\"gbit\":%.0f,\"forward\":%.4f,\"backward\":%.4f,"
                   "\"steps\":%lld,\"units\":%lld}",
                   (long long)P, links[l], t[0].efficiency, t[1].efficiency, (long long)t[1].steps,
                   (long long)t[1].units);
        }
        if (!status && !common.json) printf("  %7lld\n", (long long)t[1].steps);
    }
    free(offsets);
    return status;
}

qkv_status machines_predict(const struct bench_shape *shapes, int count, double gflops,
                            qkv_error *err)
{
    qkv_status status = QKV_OK;
    if (common.json)
        printf("{\"bench\":\"machines\",\"predicted\":true,\"gflops\":%.6g,\"threads\":%d,"
               "\"precision\":\"%s\",\"results\":[",
               gflops, qkv_threads(), qkv_precision_name(common.precision));
    else
        printf(
            "Efficiency of ranks, computed: forward, backward. %s, %.0f GFLOP/s and %d thread%s "
            "a rank,\n%.0f us a message, %.0f GB/s of memory, %.0f GB/s of copies by one thread, "
            "%.0f %% of a core to move messages.\n\n",
            qkv_precision_name(common.precision), gflops, qkv_threads(),
            qkv_threads() == 1 ? "" : "s", assumed.latency * 1e6, assumed.memory * 1e-9,
            assumed.copying * 1e-9, 100 * assumed.moving);
    for (int i = 0; i < count && !status; i++)
        status = predict_one(&shapes[i], gflops, i == 0, err);
    if (common.json) puts("]}");
    return status;
}
