// SPDX-License-Identifier: MIT
// cmd_verify.c: `qkv verify`: every kernel of this machine against its formula in double.
#include "verify.h"
#include <string.h>
#include <time.h>

static struct {
    const char *isa, *precision;
    bool quick, cases;
    int64_t seed;
} o = { .seed = 1 };

static const struct opt opts[] = {
    OPT_TEXT(0, "isa", &o.isa, "NAME", "one instruction set (default: each that this machine has)"),
    OPT_TEXT(0, "precision", &o.precision, "P",
             "f32, f32-strict, f32-fast, bf16, f16 or int8 (default: each)"),
    OPT_FLAG(0, "quick", &o.quick, "a part of the grid, in about a tenth of the time"),
    OPT_FLAG(0, "cases", &o.cases,
             "print every case, not only those that fail, and all columns of the table"),
    OPT_INT(0, "seed", &o.seed, 0, INT64_MAX, "N", "other random numbers (default: 1)"),
    OPT_END
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static qkv_status check(struct verify_options *v, qkv_error *err)
{
    char names[256] = "";
    qkv_precision p;
    if (o.precision && !qkv_precision_parse(&p, o.precision)) {
        for (int i = 0; qkv_precision_name((qkv_precision)i); i++) {
            const size_t used = strlen(names);
            snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                     qkv_precision_name((qkv_precision)i));
        }
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--precision: unknown word, expected one of %s, found '%.100s'", names,
                         o.precision);
    }
    if (o.precision) v->precision = (int)p;
    const qkv_status s = o.isa ? qkv_isa_set(o.isa) : QKV_OK;
    if (!s) return QKV_OK;
    for (int i = 0; qkv_isa_supported(i); i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", qkv_isa_supported(i));
    }
    return cmd_error(err, s, NULL, "--isa: %s, expected one of %s, found '%.100s'",
                     s == QKV_ERR_USAGE ? "not an instruction set that qkv knows"
                                        : "an instruction set that this machine does not run",
                     names, o.isa);
}

static int run(int argc, char **argv)
{
    (void)argc, (void)argv;
    qkv_error err = { 0 };
    struct verify_options v = {
        .quick = o.quick, .cases = o.cases, .isa = o.isa, .precision = -1, .seed = (uint64_t)o.seed
    };
    const double begin = now();
    if (check(&v, &err) || verify_convert(&v, &err) || verify_linear(&v, &err) ||
        verify_dense(&v) || verify_attention(&v, &err) || verify_backward(&v, &err))
        return cmd_fail(&err);
    if (verify_report(&v, now() - begin)) return QKV_OK;
    cmd_error(&err, QKV_ERR_INTERNAL, NULL,
              "a kernel is past its limit: the cases are listed above");
    return cmd_fail(&err);
}

const struct cmd cmd_verify = {
    .name = "verify",
    .brief = "every kernel of this machine against its formula in double",
    .usage = "[options]",
    .about =
        "Runs each kernel of each instruction set and precision that this machine has on a grid of lengths, head "
        "widths, masks and score sizes, adversarial rows among them, and compares every number with the "
        "same formula in double; of backward, each of dq, dk and dv. Two limits are held. The bound of a number is derived from its own formula "
        "(docs/numerics.md) and holds for any data. And the largest error of a group of cases, which differ in size "
        "alone, is at most 1.5 times (f32) or 2 times (bf16, f16) that of the plain formula in the same type on the "
        "same data, plus 2 units in the last place. Conversions of halves are tried for every bit pattern.\n\n"
        "Exit code 1: something was past a limit; the case is printed. What this machine or version does "
        "not compute is a row that says so.",
    .opts = opts,
    .uses = USES_THREADS | USES_JSON,
    .max_args = 0,
    .examples = {
        { "qkv verify --quick", "half a minute of one core" },
        { "qkv verify --isa avx2 --precision f32 --cases", "all cases of one set of kernels" },
        { "qkv verify --json > verify.json", "for a program" },
    },
    .run = run,
};
