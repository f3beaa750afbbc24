// SPDX-License-Identifier: MIT
// cmd_verify.c: implements `qkv verify`: compares every kernel that this machine can run with its
// formula, computed in double.
#include "verify/verify.h"
#include <string.h>

static struct {
    const char *isa, *precision;
    bool quick, cases;
    int64_t seed;
} o = { .seed = 1 };

static const struct opt opts[] = {
    OPT_TEXT(0, "isa", &o.isa, "NAME",
             "check only this instruction set (default: all that this machine supports)"),
    OPT_TEXT(
        0, "precision", &o.precision, "P",
        "check only this precision: f32, f32-strict, f32-fast, bf16, f16 or int8 (default: all)"),
    OPT_FLAG(0, "quick", &o.quick, "check about 1/18 of the cases"),
    OPT_FLAG(0, "cases", &o.cases,
             "print every case, not only failed cases, and all columns of the table"),
    OPT_INT(0, "seed", &o.seed, 0, INT64_MAX, "N", "seed of the random numbers (default: 1)"),
    OPT_END
};

static qkv_status check_options(struct verify_options *v, qkv_error *err)
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
                         "--precision: unknown value, expected one of %s, found '%.100s'", names,
                         o.precision);
    }
    if (o.precision) v->precision = (int)p;
    const qkv_status status = o.isa ? qkv_isa_set(o.isa) : QKV_OK;
    if (!status) return QKV_OK;
    for (int i = 0; qkv_isa_supported(i); i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", qkv_isa_supported(i));
    }
    return cmd_error(err, status, NULL, "--isa: %s, expected one of %s, found '%.100s'",
                     status == QKV_ERR_USAGE ? "unknown instruction set"
                                             : "instruction set not supported by this machine",
                     names, o.isa);
}

static int run_verify(int argc, char **argv)
{
    (void)argc, (void)argv;
    qkv_error err = { 0 };
    struct verify_options v = {
        .quick = o.quick, .cases = o.cases, .isa = o.isa, .precision = -1, .seed = (uint64_t)o.seed
    };
    const double begin = cmd_seconds();
    const bool complete = !check_options(&v, &err) && !verify_convert(&v, &err) &&
                          !verify_linear(&v, &err) && !verify_dense(&v) &&
                          !verify_attention(&v, &err) && !verify_backward(&v, &err);
    if (complete && !verify_report(&v, cmd_seconds() - begin))
        cmd_error(&err, QKV_ERR_INTERNAL, NULL,
                  "a check failed: an error exceeds its limit; the failed cases are listed above");
    verify_rows_free();
    return complete && !err.status ? QKV_OK : cmd_fail(&err);
}

const struct cmd cmd_verify = {
    .name = "verify",
    .brief = "compare every kernel of this machine with its formula in double",
    .usage = "[options]",
    .about =
        "Runs each kernel, in each instruction set and precision that this machine has, on a grid "
        "of lengths, head widths, masks and score sizes, including adversarial rows, and compares "
        "every number with the same formula computed in double; in the backward pass, each number "
        "of dq, dk and dv. An error has two limits. The bound of a number is derived from its own "
        "formula (docs/numerics.md) and holds for any data. The second limit concerns the largest "
        "error of a group of cases that differ only in size: it is at most 1.5 times (f32) or 2 "
        "times (bf16, f16) the error of the plain formula computed in the same type on the same "
        "data, plus 2 units in the last place. Conversions of 16-bit floats are tested for every "
        "bit pattern.\n"
        "\n"
        "Exit code 1: an error exceeds a limit; the case is printed. The table also has a row for "
        "what this machine or version cannot compute.",
    .opts = opts,
    .uses = USES_THREADS | USES_JSON,
    .max_args = 0,
    .examples = {
        { "qkv verify --quick", "takes less than a minute on one core" },
        { "qkv verify --isa avx2 --precision f32 --cases", "all cases of one instruction set" },
        { "qkv verify --json > verify.json", "the report as JSON" },
    },
    .run = run_verify,
};
