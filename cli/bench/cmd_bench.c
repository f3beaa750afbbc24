// SPDX-License-Identifier: MIT
// cmd_bench.c: implements `qkv bench`: measures speed, and compares it with the peak of the
// machine.
#include "bench/bench.h"
#include "ranks/ranks.h"
#include <math.h>
#include <string.h>

static struct {
    const char *shape, *isa;
    double seconds;
} o = { .seconds = 2 };

struct bench_given bench_given = { .rate = NAN };

static const struct opt opts[] = {
    OPT_TEXT('s', "shape", &o.shape, "SHAPE",
             "shapes to measure: sizes separated by commas; a ';' or a space separates several "
             "shapes (default: the shapes in the documentation)"),
    OPT_TEXT(0, "isa", &o.isa, "NAME",
             "instruction set, one that 'qkv info' lists (default: the value of QKV_ISA or, "
             "without it, the strongest)"),
    OPT_REAL(
        0, "seconds", &o.seconds, "S",
        "how many seconds each shape is measured (default: 2); a run that has begun is completed"),
    OPT_TEXT(0, "probe", &bench_given.probe, "LIST",
             "statistics that bench probe measures, as for qkv attn --probe (default: "
             "top=16,entropy,received; with stream top=16,tiles=256)"),
    OPT_OUTPUT('o', "output", &bench_given.output, "FILE",
               "output file of bench probe with the word stream (default: a temporary file)"),
    OPT_REAL(0, "predict", &bench_given.rate, "GFLOPS",
             "bench machines: compute the efficiency of 2 to 64 ranks that compute so many GFLOP/s "
             "each, and measure nothing"),
    OPT_INT(0, "collect-limit", &bench_given.collect_limit, 1, INT64_MAX, "BYTES",
            "bench machines: collect the keys and values on each rank only if they have at most so "
            "many bytes, or else receive them in blocks (default: no limit)"),
    OPT_END
};

static const struct bench_topic *const topics[] = { &bench_attention, &bench_attention_backward,
                                                    &bench_linear,    &bench_encoder,
                                                    &bench_decode,    &bench_memory,
                                                    &bench_probe,     &bench_search,
                                                    &bench_machines };
enum { TOPICS = sizeof topics / sizeof *topics };

// Returns the topic with this name. If there is no such topic, fills err and returns NULL.
static const struct bench_topic *topic_find(const char *name, qkv_error *err)
{
    const char *names[TOPICS + 1] = { NULL }, *near;
    char all[128] = "";
    for (int i = 0; i < TOPICS; i++) {
        names[i] = topics[i]->name;
        if (!strcmp(names[i], name)) return topics[i];
        const size_t used = strlen(all);
        snprintf(all + used, sizeof all - used, "%s%s", i ? ", " : "", names[i]);
    }
    if ((near = cmd_nearest(name, names)))
        cmd_error(err, QKV_ERR_USAGE, NULL,
                  "unknown topic '%.100s' of qkv bench; did you mean '%s'?", name, near);
    else
        cmd_error(err, QKV_ERR_USAGE, NULL,
                  "unknown topic '%.100s' of qkv bench, expected one of %s", name, all);
    return NULL;
}

static qkv_status isa_set(const char *name, qkv_error *err)
{
    const qkv_status status = qkv_isa_set(name);
    if (!status) return QKV_OK;
    char names[256] = "";
    for (int i = 0; qkv_isa_supported(i); i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", qkv_isa_supported(i));
    }
    return cmd_error(err, status, NULL, "--isa: %s, expected one of %s, found '%.100s'",
                     status == QKV_ERR_USAGE ? "unknown instruction set"
                                             : "this machine does not support the instruction set",
                     names, name);
}

static int run_bench(int argc, char **argv)
{
    qkv_error err = { 0 };
    static struct bench_shape shapes[BENCH_SHAPES];
    const struct bench_topic *const topic = argc ? topic_find(argv[0], &err) : NULL;
    int count;
    if (!topic || (o.isa && isa_set(o.isa, &err))) return cmd_fail(&err);
    if (!(o.seconds > 0 && o.seconds <= 3600)) {
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "--seconds: expected a number above 0, at most 3600, found %g", o.seconds);
        return cmd_fail(&err);
    }
    if (topic != &bench_machines && ranks.size > 1)
        cmd_error(&err, QKV_ERR_UNSUPPORTED, NULL,
                  "bench %s is not supported over ranks, expected bench machines", topic->name);
    if (!isnan(bench_given.rate) && !(bench_given.rate > 0))
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--predict: expected a number above 0, found %g",
                  bench_given.rate);
    if (topic != &bench_machines && !isnan(bench_given.rate))
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--predict: expected bench machines, found %s",
                  topic->name);
    if (topic != &bench_machines && bench_given.collect_limit)
        cmd_error(&err, QKV_ERR_USAGE, NULL, "--collect-limit: expected bench machines, found %s",
                  topic->name);
    ranks_agree(&err);
    if (!err.status &&
        !bench_shapes(shapes, &count, o.shape ? o.shape : topic->shapes, &topic->grammar, &err))
        topic->run(shapes, count, o.seconds, &err);
    ranks_close();
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_bench = {
    .name = "bench",
    .brief = "measure speed, and compare it with the peak of the machine",
    .usage = "TOPIC [options]",
    .about = "TOPIC is attention, attention-backward, linear, encoder, decode, memory, probe, "
             "search or machines.\n"
             "\n"
             "Measures each shape and the peak of the machine alternately, for the same number of "
             "seconds. The peak is the rate of multiply-adds in registers, in the arithmetic of "
             "the kernel; for decode it is the rate of plain memory reads. Prints the best and the "
             "median time, the spread (interquartile range) of the times, the rate of the median "
             "round, this rate divided by the peak, the bytes that must be moved, and the largest "
             "error relative to the formula in double precision.\n"
             "\n"
             "attention: the attention operator. B1,H8,N2048,E64,causal is a batch of 1, with 8 "
             "heads of width 64 and 2048 tokens. T and S in place of N: numbers of queries and "
             "keys (the queries are the last tokens); G: number of key heads; F: width of the "
             "values; window4096: a query attends to the 4096 keys up to its own position; N20-54: "
             "B packed sequences of mixed lengths.\n"
             "\n"
             "attention-backward: the gradients of q, k and v, with the shapes of attention. With "
             ",forward appended, a run is the operator and its gradients.\n"
             "\n"
             "linear: 1024x384x1536, or R1024,K384,N1536, is rows x inputs x outputs of a product "
             "with packed weights. ,gelu appends an activation. With up to 8 rows, weights are "
             "read from memory, as when a model decodes, and compared with a plain read of as many "
             "bytes.\n"
             "\n"
             "encoder: a model (--model) on B sequences of N tokens, such as B128,N20-54, with "
             "random ids.\n"
             "\n"
             "decode: T new tokens (default 1) attend to a cache of S keys, such as "
             "H32,G8,S16384,E128; P8: the keys are split into 8 parts. The peak is a plain read of as "
             "many bytes, also where the arithmetic takes longer (int8, several tokens).\n"
             "\n"
             "memory: the scratch of the plan and the growth of the process, from 128 to 1,048,576 "
             "tokens.\n"
             "\n"
             "probe: the pass that computes attention statistics, compared with its forward pass, "
             "with the shapes of attention. L12,H12,N100000,E64,stream: the heads of 12 layers one "
             "by one; the statistics are written to a file, and the memory is reported.\n"
             "\n"
             "search: the exact search of N stored vectors of width E for the 10 best matches of B "
             "queries (default 1), such as N1000000,E384. --precision: how the vectors are stored, "
             "f32, bf16 or int8. The peak is a plain read of as many bytes.\n"
             "\n"
             "machines: attention over the ranks of mpirun, compared with one rank and with a model "
             "of its time (of collected keys); --predict computes that model for 2 to 64 ranks. "
             "Each pass runs three times: whole, without its messages, and its messages alone. "
             "overlap is the part of the time of the messages alone that is hidden by "
             "arithmetic: (without messages + messages alone - whole) / messages alone, from 0 to "
             "100 %. Keys that are collected are not hidden in the forward pass; those that travel "
             "in blocks (--collect-limit) can be.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_JSON | USES_OUTPUT | USES_RANKS,
    .min_args = 1,
    .max_args = 1,
    .examples = {
        { "qkv bench attention --precision bf16 --threads 1", "the shapes in the documentation, on one core" },
        { "qkv bench attention -s 'B1,H8,N4096,E64,causal' --isa avx2", "one shape, with a weaker instruction set" },
        { "qkv bench linear -s '1x768x2304;37x384x1536,gelu' --json", "two products, printed as JSON" },
        { "qkv bench probe -s 'H12,N4096,E64' --threads 1", "the cost of largest weights, entropy and received weights" },
        { "mpirun -n 2 qkv bench machines --threads 1", "two ranks, compared with one" },
        { "qkv bench memory -s 'N262144,H1,E64,window4096'", "the memory that a long text needs" },
    },
    .run = run_bench,
};
