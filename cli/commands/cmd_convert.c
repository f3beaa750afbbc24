// SPDX-License-Identifier: MIT
// cmd_convert.c: implements `qkv convert`: writes a model folder with its weights converted to
// another type.
#include "frame/cmd.h"
#include <string.h>
#include <sys/stat.h>

static const char *const words[] = { "f32", "f16", "bf16", "int8", NULL };
static const qkv_precision precisions[] = { QKV_PRECISION_F32, QKV_PRECISION_F16,
                                            QKV_PRECISION_BF16, QKV_PRECISION_INT8 };
static struct {
    int precision;
    const char *shard;
} o = { .precision = -1 };

// clang-format off
static const struct opt opts[] = {
    OPT_CHOICE(0, "precision", &o.precision, words, "P", "type of the weights: f32, f16, bf16, int8 (required)"),
    OPT_TEXT(0, "shard-size", &o.shard, "N", "maximum size of a file with weights, such as 500MB, 2GB or 1GiB (default: one file)"),
    OPT_END
};
// clang-format on

// Parses a size in bytes such as "2000000", "500MB" or "2GiB".
static qkv_status read_size(int64_t *bytes, qkv_error *err)
{
    static const struct {
        const char *end;
        int64_t factor;
    } units[] = { { "KB", 1000 },          { "MB", 1000000 },  { "GB", 1000000000 },
                  { "KiB", 1024 },         { "MiB", 1 << 20 }, { "GiB", 1 << 30 },
                  { "TB", 1000000000000 }, { "B", 1 },         { "", 1 } };
    char digits[24];
    int64_t n = 0;
    *bytes = 0;
    if (!o.shard) return QKV_OK;
    const size_t k = strspn(o.shard, "0123456789");
    if (k < sizeof digits) {
        memcpy(digits, o.shard, k);
        digits[k] = 0;
        for (size_t i = 0; cmd_parse_int(digits, &n) && n > 0 && i < sizeof units / sizeof *units;
             i++)
            if (!strcmp(o.shard + k, units[i].end) && n <= INT64_MAX / units[i].factor) {
                *bytes = n * units[i].factor;
                return QKV_OK;
            }
    }
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "--shard-size: expected a size such as 500MB, 2GB or 1GiB, found '%.80s'",
                     o.shard);
}

static void print_report(const char *out, const struct qkv_convert_report *r)
{
    if (common.json) {
        printf("{\"folder\":");
        cmd_json_text(stdout, out, strlen(out));
        printf(",\"precision\":\"%s\",\"tensors\":%lld,\"files\":%lld,\"eight_bits\":%lld,"
               "\"bytes_in\":%lld,\"bytes_out\":%lld,\"left_out\":%lld,\"links\":%lld}\n",
               words[o.precision], (long long)r->tensors, (long long)r->files,
               (long long)r->eight_bits, (long long)r->bytes_in, (long long)r->bytes_out,
               (long long)r->left_out, (long long)r->links);
        return;
    }
    printf("%lld tensors in %lld file%s, %lld bytes, %.3g of the original size\n",
           (long long)r->tensors, (long long)r->files, r->files == 1 ? "" : "s",
           (long long)r->bytes_out, r->bytes_in ? (double)r->bytes_out / (double)r->bytes_in : 1.0);
    if (r->eight_bits)
        printf("%lld of the tensors are 8-bit weights with a scale for each output\n",
               (long long)r->eight_bits);
}

// Checks that the output folder may be written.  The library checks this too, but its message does
// not mention the option --force.
static qkv_status check_out(const char *out, qkv_error *err)
{
    struct stat st;
    if (common.force || stat(out, &st) != 0 || !S_ISDIR(st.st_mode)) return QKV_OK;
    return cmd_error(err, QKV_ERR_USAGE, out,
                     "output exists already, expected a new name, or --force to replace it");
}

static int run_convert(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct qkv_convert_options how = { .force = common.force };
    struct qkv_convert_report report;
    (void)argc;
    if (o.precision < 0)
        cmd_error(&err, QKV_ERR_USAGE, NULL,
                  "--precision is missing, expected f32, f16, bf16 or int8");
    else if (!read_size(&how.shard_bytes, &err)) {
        char folder[CMD_PATH];
        const char *in = argv[0];
        how.precision = precisions[o.precision];
        if (cmd_model_path(&in, folder, &err)) return cmd_fail(&err);
        if (check_out(argv[1], &err)) return cmd_fail(&err);
        how.progress = cmd_progress_begin("bytes");
        const qkv_status status = qkv_convert(in, argv[1], &how, &report, &err);
        cmd_progress_end();
        if (!status) {
            cmd_output_complete(argv[1]);
            print_report(argv[1], &report);
            if (report.left_out)
                cmd_note("%lld file%s of %s not copied: weights in other formats, or large files",
                         (long long)report.left_out, report.left_out == 1 ? "" : "s", argv[0]);
            if (report.links)
                cmd_note("%lld link%s of %s not copied: only links to files inside the folder are",
                         (long long)report.links, report.links == 1 ? "" : "s", argv[0]);
        }
    }
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_convert = {
    .name = "convert",
    .brief = "convert the weights of a model folder to another type",
    .usage = "DIR OUT --precision P",
    .about = "Writes OUT, a model folder with the weights of DIR in f32, f16 or bf16, or as 8-bit "
             "integers with a scale for each output (int8). Every small file is copied; of the links in "
             "DIR, only those to files inside DIR. With int8, "
             "norms, biases and embeddings keep their type, and the new folder computes the same "
             "bits as the original with --precision int8. DIR may also be a checkpoint of "
             "llama2.c, FILE.bin; OUT is then a folder with config.json and safetensors.\n"
             "\nOUT is written under a temporary name, and renamed when it is complete.",
    .opts = opts,
    .uses = USES_OUTPUT | USES_JSON | USES_THREADS,
    .min_args = 2,
    .max_args = 2,
    .examples = {
        { "qkv convert models/verse verse-int8 --precision int8", "linear layers with one byte per weight" },
        { "qkv convert stories15M.bin stories15M --precision bf16", "a checkpoint of llama2.c becomes a model folder" },
        { "qkv convert big big-bf16 --precision bf16 --shard-size 2GB", "files of at most 2 GB" },
    },
    .run = run_convert,
};
