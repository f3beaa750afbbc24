// SPDX-License-Identifier: MIT
// cmd_bench.c: `qkv bench`: how fast, and how much of what this core can do.
#include <string.h>
#include "bench.h"

static struct {
    const char *shape, *isa;
    double seconds;
} o = { .seconds = 2 };

struct bench_given bench_given;

static const struct opt opts[] = {
    OPT_TEXT('s', "shape", &o.shape, "SHAPE",
             "what to run, sizes with commas between them; ';' or a space separates several "
             "(default: those of the documentation)"),
    OPT_TEXT(0, "isa", &o.isa, "NAME",
             "instruction set, one that 'qkv info' names (default: QKV_ISA, else the strongest)"),
    OPT_REAL(0, "seconds", &o.seconds, "S",
             "time for a shape (default: 2); a run that has begun is finished"),
    OPT_TEXT(0, "probe", &bench_given.probe, "LIST",
             "what bench probe looks for, as qkv attn --probe has it (default: "
             "top=16,entropy,received; with stream top=16,tiles=256)"),
    OPT_TEXT('o', "output", &bench_given.output, "FILE",
             "where bench probe with stream writes (default: a temporary file)"),
    OPT_END
};

static const struct bench_topic *const topics[] = { &bench_attention, &bench_attention_backward,
                                                    &bench_linear,    &bench_encoder,
                                                    &bench_decode,    &bench_memory,
                                                    &bench_probe };
enum { TOPICS = sizeof topics / sizeof *topics };

// NULL: there is none of that name, and err says so.
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
        cmd_error(err, QKV_ERR_USAGE, NULL, "unknown bench '%.100s', did you mean '%s'?", name,
                  near);
    else
        cmd_error(err, QKV_ERR_USAGE, NULL, "unknown bench '%.100s', expected one of %s", name,
                  all);
    return NULL;
}

static qkv_status isa_set(const char *name, qkv_error *err)
{
    const qkv_status s = qkv_isa_set(name);
    if (!s) return QKV_OK;
    char names[256] = "";
    for (int i = 0; qkv_isa_supported(i); i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", qkv_isa_supported(i));
    }
    return cmd_error(err, s, NULL, "--isa: %s, expected one of %s, found '%.100s'",
                     s == QKV_ERR_USAGE ? "not an instruction set that qkv knows"
                                        : "an instruction set that this machine does not run",
                     names, name);
}

static int run(int argc, char **argv)
{
    qkv_error err = { 0 };
    static struct bench_shape shapes[BENCH_SHAPES];
    const struct bench_topic *const topic = argc ? topic_find(argv[0], &err) : NULL;
    int count;
    if (!topic || (o.isa && isa_set(o.isa, &err))) return cmd_fail(&err);
    if (!(o.seconds > 0 && o.seconds <= 3600)) {
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "--seconds: expected more than 0, at most 3600, found %g", o.seconds);
        return cmd_fail(&err);
    }
    if (!bench_shapes(shapes, &count, o.shape ? o.shape : topic->shapes, &topic->grammar, &err))
        topic->run(shapes, count, o.seconds, &err);
    if (err.status && !err.text[0]) return err.status; // the process that met it has said it
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_bench = {
    .name = "bench",
    .brief = "how fast, and how near to what this core can do",
    .usage = "attention|attention-backward|linear|encoder|decode|memory|probe [options]",
    .about = "Work and the peak of the machine are measured in turns, for the same seconds: multiply-adds in "
             "registers, in the arithmetic that ran, or for decode a plain read of as many bytes. Printed are the best "
             "and the median time, how far the middle half of the rounds lies apart, the rate of the median, its share "
             "of the peak, the bytes that must move, and the largest error against the formula in double.\n\n"
             "attention: the operator; B1,H8,N2048,E64,causal has a batch of 1, 8 heads of 64, 2048 tokens; T and S "
             "instead of N for queries and keys (the queries are the last tokens), G key heads, F value width, "
             "window4096: the 4096 keys up to the query's own; N20-54 packs B sequences of mixed lengths.\n\n"
             "attention-backward: the gradients of q, k and v, shapes as for attention; with ,forward behind it a turn is "
             "the operator and its gradients.\n\n"
             "linear: 1024x384x1536, or R1024,K384,N1536, is rows x inputs x outputs, weights packed before; with ,gelu behind it GELU is applied. "
             "Up to 8 rows: weights out of memory, as when a model decodes, beside a plain read of as many bytes.\n\n"
             "encoder: a model (--model) on B sequences of N tokens, B128,N20-54; random ids.\n\n"
             "decode: T new tokens (1) against a cache of S keys, H32,G8,S16384,E128; peak is a read of as many bytes.\n\n"
             "memory: scratch by the plan and growth of the process, from 128 to 1,048,576 tokens.\n\n"
             "probe: the pass that finds what an attention looked at, beside its forward, shapes as for attention; "
             "L12,H12,N100000,E64,stream: the heads of 12 layers one by one, what is found to a file, the memory of it.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_JSON | USES_OUTPUT,
    .min_args = 1,
    .max_args = 1,
    .examples = {
        { "qkv bench attention --precision bf16 --threads 1", "the shapes of the documentation, one core" },
        { "qkv bench attention -s 'B1,H8,N4096,E64,causal' --isa avx2", "one shape by weaker kernels" },
        { "qkv bench linear -s '1x768x2304;37x384x1536,gelu' --json", "two products, for a program" },
        { "qkv bench probe -s 'H12,N4096,E64' --threads 1", "largest weights, entropy and received mass beside forward" },
        { "qkv bench memory -s 'N262144,H1,E64,window4096'", "what a long text takes beside its arrays" },
    },
    .run = run,
};
