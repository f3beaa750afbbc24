// SPDX-License-Identifier: MIT
// cmd_train.c: implements `qkv train`: trains a model on text.  A run that is stopped and resumed
// has bit-identical results to a run without interruption.
#include "frame/cmd.h"
#include "train/train_vectors.h"
#include "ranks/ranks.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define QKV_OBJECTIVE_ROW(ROW, NAME, ASKS) NAME,
static const char *const objectives[] = {
#include <qkv/objective.def>
    "words", NULL
};
#undef QKV_OBJECTIVE_ROW
enum { WORDS = sizeof objectives / sizeof *objectives - 2 };
static const char *const norms[] = { "pre", "post", "both", NULL };
static const char *const activations[] = { "relu", "gelu", "gelu-tanh", "silu", "tanh", NULL };
static const char *const optimizers[] = { "adamw", "sgd", NULL };
static const char *const schedules[] = { "cosine", "linear", "inverse-sqrt", "constant", NULL };
static const char *const precisions[] = { "f32", "f32-strict", "f32-fast", "bf16", "f16", NULL };
static const char *const formats[] = { "text", "jsonl", "tsv", NULL };
static const char *const bad_steps[] = { "stop", "skip", NULL };
static const char *const types[] = { "f32", "bf16", "f16", NULL };

// Values of options, which mean "not given" before parsing: -1 for choices, NAN for numbers that
// may be 0.
static struct {
    const char *out, *resume, *valid, *probe, *keep;
    int objective, arch, norm, activation, optimizer, schedule, precision, format, on_nan, type;
    int64_t warmup, collect_limit;
    double decay, clip, dropout, smoothing, last, momentum;
} c = { .objective = -1,
        .arch = -1,
        .norm = -1,
        .activation = -1,
        .optimizer = -1,
        .schedule = -1,
        .precision = -1,
        .format = -1,
        .on_nan = -1,
        .type = -1,
        .warmup = -1,
        .decay = (double)NAN,
        .clip = (double)NAN,
        .dropout = (double)NAN,
        .smoothing = (double)NAN,
        .last = (double)NAN,
        .momentum = (double)NAN };
// Numbers for which the library reads 0 as "not given".  Before parsing they are NAN, so that a
// given 0 can be distinguished from an option that is not given.
static struct qkv_train_options o = { .valid_share = (double)NAN,
                                      .epochs = (double)NAN,
                                      .rate = (double)NAN,
                                      .beta1 = (double)NAN,
                                      .beta2 = (double)NAN,
                                      .eps = (double)NAN,
                                      .temperature = (double)NAN,
                                      .mask_share = (double)NAN };
static struct train_vectors vectors;
enum { MOST = 1 << 30 };

// Sets the choices of --arch, and writes them at the beginning of its help.
static void list_archs(struct opt *arch)
{
    static char help[256];
    size_t used = 0;
    arch->choices = qkv_train_architectures();
    for (int i = 0; arch->choices[i] && used < sizeof help; i++)
        used += (size_t)snprintf(help + used, sizeof help - used, "%s%s", i ? ", " : "",
                                 arch->choices[i]);
    if (used < sizeof help)
        snprintf(help + used, sizeof help - used, " (default: by the objective)");
    arch->help = help;
}

// clang-format off
static const struct opt opts[] = {
    OPT_TEXT('o', "out", &c.out, "RUN", "folder of the run; it is created if missing, and continued if it contains a run"),
    OPT_INPUT(0, "resume", &c.resume, "RUN", "continue this run with its options; name the files only if they have moved"),
    OPT_GROUP("Text"),
    OPT_INPUT(0, "valid", &c.valid, "FILE", "files with the validation text (default: a part of the text)"),
    OPT_REAL(0, "valid-share", &o.valid_share, "X", "fraction of the text that is used only for validation (default: 0.01)"),
    OPT_CHOICE(0, "format", &c.format, formats, "WORD", "format of the files: text, jsonl or tsv (default: by the ending of each name)"),
    OPT_TEXT(0, "field", &o.train.field, "NAME", "JSON member, or column of a table, that has the text (default: member text, column 1)"),
    OPT_TEXT(0, "field-b", &o.train.field_b, "NAME", "JSON member, or column of a table, that has the second text or the label (default: member text_b or label, column 2)"),
    OPT_FLAG(0, "per-line", &o.train.per_line, "each line is a document (default: a blank line ends a document)"),
    OPT_INPUT(0, "tokenizer", &o.tokenizer, "WHAT", "file of a tokenizer in any format (tokenizer.json, FILE.model, vocab.txt, ...) or its folder, or the kind of tokenizer to train on the text: bytes, characters, bpe, wordpiece or unigram (default: bpe; wordpiece for encoders)"),
    OPT_INT(0, "vocab", &o.vocab, 1, 1 << 24, "N", "size of the vocabulary of a tokenizer that is trained (default: 4096; wordpiece 8192)"),
    OPT_FLAG(0, "lowercase", &o.lowercase, "convert the text to lower case without accents, for a tokenizer that is trained"),
    OPT_INT(0, "context", &o.context, 2, 1 << 24, "N", "maximum length of a sequence in tokens (default: 256; for pairs and encoders 128)"),
    OPT_GROUP("Model"),
    OPT_CHOICE(0, "objective", &c.objective, objectives, "WORD", "what to learn: causal, masked, seq2seq, contrastive or classify; words: word vectors (default: by the architecture; contrastive for .tsv files and a model with modules.json)"),
    OPT_INPUT(0, "from", &o.from, "DIR", "model folder with which training starts (default: from scratch)"),
    OPT_CHOICE_LISTED(0, "arch", &c.arch, list_archs, "WORD"),
    OPT_INT(0, "layers", &o.layers, 1, 1000, "N", "number of layers (default: 4; vaswani 6, gru-attention 1)"),
    OPT_INT(0, "decoder-layers", &o.decoder_layers, 1, 1000, "N", "number of decoder layers of an encoder-decoder (default: the value of --layers)"),
    OPT_INT(0, "heads", &o.heads, 1, 1000, "N", "number of heads (default: width / 64; vaswani 8)"),
    OPT_INT(0, "kv-heads", &o.kv_heads, 1, 1000, "N", "number of key and value heads, a divisor of --heads (default: the value of --heads)"),
    OPT_INT(0, "width", &o.width, 1, 1 << 20, "N", "width of hidden states (default: 256; vaswani 512)"),
    OPT_INT(0, "d-k", &o.d_k, 1, 1 << 20, "N", "width of the queries and keys of a head (default: width / heads)"),
    OPT_INT(0, "d-v", &o.d_v, 1, 1 << 20, "N", "width of the values of a head (default: width / heads)"),
    OPT_INT(0, "inner", &o.inner, 1, 1 << 20, "N", "inner width of the feed-forward network (default: by the architecture)"),
    OPT_CHOICE(0, "norm", &c.norm, norms, "WORD", "where the norms are: pre, post or both (default: by the architecture)"),
    OPT_CHOICE(0, "activation", &c.activation, activations, "WORD", "activation function: relu, gelu, gelu-tanh, silu or tanh (default: by the architecture)"),
    OPT_GROUP("Learning"),
    OPT_INT(0, "steps", &o.steps, 1, MOST, "N", "number of training steps, that is, of weight updates (default: 1000)"),
    OPT_REAL(0, "epochs", &o.epochs, "X", "number of passes over the text, in place of --steps"),
    OPT_INT(0, "batch-tokens", &o.batch_tokens, 1, MOST, "N", "maximum number of tokens in a batch (default: 4096)"),
    OPT_INT(0, "batch-sequences", &o.batch_sequences, 1, MOST, "N", "maximum number of sequences or pairs in a batch (default: no limit; contrastive 64)"),
    OPT_INT(0, "accumulate", &o.accumulate, 1, 1 << 20, "N", "number of batches whose gradients are added up in a step (default: 1)"),
    OPT_REAL(0, "rate", &o.rate, "X", "maximum of the learning rate (default: 1e-3 up to width 256, for larger widths proportional to 1/sqrt(width); 2e-5 with --from; sgd 0.1)"),
    OPT_INT(0, "warmup", &c.warmup, 0, MOST, "N", "number of steps until the learning rate has its maximum (default: a twentieth of all steps, at most 4000)"),
    OPT_CHOICE(0, "schedule", &c.schedule, schedules, "WORD", "schedule of the learning rate: cosine, linear, inverse-sqrt or constant (default: cosine; vaswani inverse-sqrt; linear with --from)"),
    OPT_REAL(0, "last-rate", &c.last, "X", "learning rate at the end of cosine and linear, as a fraction of the maximum (default: 0.1; 0 with --from)"),
    OPT_CHOICE(0, "optimizer", &c.optimizer, optimizers, "WORD", "optimizer: adamw or sgd (default: adamw)"),
    OPT_REAL(0, "decay", &c.decay, "X", "weight decay of matrices (default: 0.1 for decoders, 0.01 for encoders and with --from, otherwise 0)"),
    OPT_REAL(0, "beta1", &o.beta1, "X", "decay rate of AdamW's first moment (default: 0.9)"),
    OPT_REAL(0, "beta2", &o.beta2, "X", "decay rate of AdamW's second moment (default: 0.999; decoders 0.95, vaswani 0.98)"),
    OPT_REAL(0, "eps", &o.eps, "X", "epsilon of AdamW, added to the divisor (default: 1e-8; vaswani 1e-9)"),
    OPT_REAL(0, "momentum", &c.momentum, "X", "momentum of SGD (default: 0.9)"),
    OPT_REAL(0, "clip", &c.clip, "X", "maximum norm of the gradient: a larger gradient is scaled down; 0: no limit (default: 1)"),
    OPT_REAL(0, "dropout", &c.dropout, "P", "dropout probability (default: 0.1 for vaswani and bert from scratch, otherwise 0)"),
    OPT_REAL(0, "smoothing", &c.smoothing, "X", "label smoothing (default: 0.1 for vaswani, otherwise 0)"),
    OPT_REAL(0, "temperature", &o.temperature, "X", "temperature of contrastive learning, by which cosines are divided (default: 0.05)"),
    OPT_REAL(0, "mask-share", &o.mask_share, "X", "fraction of the tokens that masked training predicts (default: 0.15)"),
    OPT_CHOICE(0, "precision", &c.precision, precisions, "P", "precision of products: f32, f32-strict, f32-fast, bf16 or f16 (default: f32); the weights are f32"),
    OPT_FLAG(0, "recompute", &o.recompute, "recompute activations in the backward pass: needs less memory and more time"),
    OPT_INT(0, "seed", &o.seed, 0, INT64_MAX, "N", "seed of the initial weights, the order of the text, the masks and dropout (default: 0)"),
    OPT_INT(0, "context-ranks", &o.context_ranks, 1, MOST, "C", "number of ranks (mpirun -n P) that share the rows of each batch, for a context that needs more memory than one rank has; divides P (default: 1)"),
    OPT_INT(0, "collect-limit", &c.collect_limit, 1, INT64_MAX, "BYTES", "with --context-ranks: collect the keys and values of a layer on each rank only if they have at most BYTES bytes, or else receive them in blocks (default: an eighth of the memory that is available to the rank with the least)"),
    OPT_GROUP("Word vectors (--objective words)"),
    OPT_FLAG(0, "cbow", &vectors.cbow, "train a continuous bag of words (default: skip-gram)"),
    OPT_INT(0, "window", &vectors.window, 1, 1000, "N", "maximum number of context words on each side (default: 5)"),
    OPT_INT(0, "negative", &vectors.negative, 1, 1000, "N", "number of noise words per context word (default: 5)"),
    OPT_INT(0, "least", &vectors.least, 1, MOST, "N", "how often a word must occur to get a vector (default: 5)"),
    OPT_GROUP("The run"),
    OPT_INT(0, "eval-every", &o.eval_every, 1, MOST, "N", "number of steps between evaluations (default: a twentieth of all steps)"),
    OPT_INT(0, "save-every", &o.save_every, 1, MOST, "N", "number of steps between checkpoints (default: the value of --eval-every)"),
    OPT_TEXT(0, "keep", &c.keep, "N|all|every=K", "which checkpoints stay: the last N, all, or the last two and one every K steps; 'qkv view --training' shows each (default: the last two)"),
    OPT_INT(0, "patience", &o.patience, 1, MOST, "N", "stop after this number of evaluations without improvement; RUN/best has the best model (default: never)"),
    OPT_TEXT(0, "probe", &c.probe, "every=N", "every N steps, write the entropy and the top keys of every head to RUN/probes.jsonl"),
    OPT_TEXT(0, "probe-text", &o.probe_text, "TEXT", "text on which --probe computes its statistics (default: the first validation text)"),
    OPT_CHOICE(0, "on-nan", &c.on_nan, bad_steps, "WORD", "what to do if a loss or gradient is not finite: stop the run, or skip the step (default: stop)"),
    OPT_FLAG(0, "allow-data-change", &o.allow_data_change, "continue although the text has changed: read it again"),
    OPT_OUTPUT(0, "export", &o.export_dir, "DIR", "also write the final model to the folder DIR, which may not be or contain an input, such as the folder of --from"),
    OPT_CHOICE(0, "export-type", &c.type, types, "WORD", "type of the exported weights: f32, bf16 or f16 (default: f32)"),
    OPT_END
};
// clang-format on

// ---- options ------------------------------------------------------------------------------------
static const char *word(const char *const *names, int i)
{
    return i < 0 ? NULL : names[i];
}
// Converts the value of an option for the library, which reads 0 as "not given" and -1 as the value
// 0: NAN becomes 0, and 0 becomes -1.
static double or_none(double x)
{
    return isnan(x) ? 0 : x == 0 ? -1 : x;
}

static qkv_status read_probe(qkv_error *err)
{
    if (!c.probe) return QKV_OK;
    const char *digits = strncmp(c.probe, "every=", 6) ? "" : c.probe + 6;
    if (cmd_parse_int(digits, &o.probe_every) && o.probe_every > 0 && o.probe_every <= MOST)
        return QKV_OK;
    return cmd_error(err, QKV_ERR_USAGE, NULL,
                     "--probe: expected every=N with N of 1 to %d, found '%.80s'", MOST, c.probe);
}

// Reads --keep: N, all, or every=K with the last two.
static qkv_status read_keep(qkv_error *err)
{
    if (!c.keep) return QKV_OK;
    const bool every = strncmp(c.keep, "every=", 6) == 0;
    int64_t n = -1;
    const bool all = strcmp(c.keep, "all") == 0;
    if (!all && (!cmd_parse_int(every ? c.keep + 6 : c.keep, &n) || n < 1 || n > MOST))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--keep: expected a number from 1 to %d, all, or every=K with such a "
                         "number K, found '%.80s'",
                         MOST, c.keep);
    o.keep_last = every ? 2 : n;
    o.keep_every = every ? n : -1;
    return QKV_OK;
}

// Checks that numbers are not negative, and not 0 if 0 has no meaning. Converts them for the
// library as described at or_none().
static qkv_status read_numbers(qkv_error *err)
{
    const struct {
        const char *name;
        double given, *to;
        bool zero; // true: the option may be 0
    } rows[] = { { "--valid-share", o.valid_share, &o.valid_share, false },
                 { "--epochs", o.epochs, &o.epochs, false },
                 { "--rate", o.rate, &o.rate, false },
                 { "--eps", o.eps, &o.eps, false },
                 { "--temperature", o.temperature, &o.temperature, false },
                 { "--mask-share", o.mask_share, &o.mask_share, false },
                 { "--beta1", o.beta1, &o.beta1, true },
                 { "--beta2", o.beta2, &o.beta2, true },
                 { "--decay", c.decay, &o.decay, true },
                 { "--clip", c.clip, &o.clip, true },
                 { "--dropout", c.dropout, &o.dropout, true },
                 { "--smoothing", c.smoothing, &o.smoothing, true },
                 { "--last-rate", c.last, &o.last, true },
                 { "--momentum", c.momentum, &o.momentum, true } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].given < 0 || (rows[i].given == 0 && !rows[i].zero))
            return cmd_error(err, QKV_ERR_USAGE, NULL, "%s: expected a number %s 0, found %g",
                             rows[i].name, rows[i].zero ? "of at least" : "above", rows[i].given);
        *rows[i].to = or_none(rows[i].given);
    }
    if (o.steps && o.epochs > 0)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--steps cannot be combined with --epochs");
    return QKV_OK;
}

static qkv_status read_options(int argc, char **argv, qkv_error *err)
{
    o.run = c.resume ? c.resume : c.out;
    o.resume = c.resume != NULL;
    if (!o.run)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "no folder is given for the run, expected --out RUN");
    if (c.resume && c.out)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--out cannot be combined with --resume");
    o.train.paths = (const char *const *)argv;
    o.train.n = argc;
    o.train.format = word(formats, c.format);
    if (c.valid) {
        o.valid = o.train;
        o.valid.paths = &c.valid;
        o.valid.n = 1;
    }
    o.objective = word(objectives, c.objective);
    o.arch = word(qkv_train_architectures(), c.arch);
    o.norm = word(norms, c.norm);
    o.activation = word(activations, c.activation);
    o.optimizer = word(optimizers, c.optimizer);
    o.schedule = word(schedules, c.schedule);
    o.precision = word(precisions, c.precision);
    o.export_type = word(types, c.type);
    o.warmup = c.warmup < 0 ? 0 : c.warmup ? c.warmup : -1;
    o.skip_bad = c.on_nan == 1;
    qkv_status status = read_numbers(err);
    if (!status) status = read_keep(err);
    return status ? status : read_probe(err);
}

// Checks options against --objective words: options that training word vectors does not use may not
// be given with it, and options that only word vectors have may not be given without it.
static qkv_status only_words(qkv_error *err)
{
    const struct {
        const char *option;
        bool given;
    } unused[] = {
        { "--layers", o.layers != 0 },
        { "--decoder-layers", o.decoder_layers != 0 },
        { "--heads", o.heads != 0 },
        { "--kv-heads", o.kv_heads != 0 },
        { "--d-k", o.d_k != 0 },
        { "--d-v", o.d_v != 0 },
        { "--inner", o.inner != 0 },
        { "--norm", o.norm },
        { "--activation", o.activation },
        { "--context", o.context != 0 },
        { "--lowercase", o.lowercase },
        { "--batch-tokens", o.batch_tokens != 0 },
        { "--batch-sequences", o.batch_sequences != 0 },
        { "--accumulate", o.accumulate != 0 },
        { "--context-ranks", o.context_ranks != 0 },
        { "--collect-limit", c.collect_limit != 0 },
        { "--warmup", o.warmup != 0 },
        { "--schedule", o.schedule },
        { "--last-rate", o.last != 0 },
        { "--optimizer", o.optimizer },
        { "--decay", o.decay != 0 },
        { "--beta1", o.beta1 != 0 },
        { "--beta2", o.beta2 != 0 },
        { "--eps", o.eps > 0 },
        { "--momentum", o.momentum != 0 },
        { "--clip", o.clip != 0 },
        { "--dropout", o.dropout != 0 },
        { "--smoothing", o.smoothing != 0 },
        { "--temperature", o.temperature > 0 },
        { "--mask-share", o.mask_share > 0 },
        { "--precision", o.precision },
        { "--recompute", o.recompute },
        { "--eval-every", o.eval_every != 0 },
        { "--save-every", o.save_every != 0 },
        { "--keep", c.keep },
        { "--patience", o.patience != 0 },
        { "--probe", o.probe_every != 0 },
        { "--probe-text", o.probe_text },
        { "--on-nan", c.on_nan >= 0 },
        { "--allow-data-change", o.allow_data_change },
        { "--export", o.export_dir },
        { "--export-type", o.export_type },
        { "--valid", o.valid.n != 0 },
        { "--valid-share", o.valid_share > 0 },
    };
    for (size_t i = 0; i < sizeof unused / sizeof *unused; i++)
        if (unused[i].given)
            return cmd_error(
                err, QKV_ERR_USAGE, NULL,
                "%s has no effect on word vectors, expected only --vocab, --width, --epochs, "
                "--rate, --seed, --cbow, --window, --negative, --least and the options of the text",
                unused[i].option);
    return QKV_OK;
}

static qkv_status only_models(qkv_error *err)
{
    if (c.objective == WORDS) return QKV_OK;
    if (vectors.cbow || vectors.window || vectors.negative || vectors.least)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--cbow, --window, --negative and --least require --objective words");
    if (o.export_type && !o.export_dir)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--export-type requires --export");
    if (c.collect_limit && !o.context_ranks)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--collect-limit requires --context-ranks");
    return QKV_OK;
}

// If the folder already contains a model, requires --force.
static qkv_status check_folder(const char *dir, const char *file, qkv_error *err)
{
    char path[CMD_PATH];
    if (!dir) return QKV_OK;
    const int n = snprintf(path, sizeof path, "%s/%s", dir, file);
    if (n < 0 || n >= CMD_PATH)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "name of the folder is too long, expected a shorter name");
    FILE *there = fopen(path, "rbe");
    if (!there) return QKV_OK;
    fclose(there);
    if (common.force) return QKV_OK;
    return cmd_error(
        err, QKV_ERR_USAGE, path,
        "folder contains a model already, expected a new folder, or --force to replace it");
}

// Fails if the name of a folder is that of a file.
static qkv_status check_no_file(const char *option, const char *dir, qkv_error *err)
{
    struct stat st;
    if (!dir || stat(dir, &st) != 0 || S_ISDIR(st.st_mode)) return QKV_OK;
    return cmd_error(err, QKV_ERR_USAGE, dir, "--%s: expected the name of a folder, found a file",
                     option);
}

// ---- progress and report ------------------------------------------------------------------------
static int on_step(void *user, const struct qkv_train_step *now)
{
    (void)user;
    const bool shown = cmd_progress_due();
    if (shown || cmd_progress_log_due()) {
        char left[32], valid[32] = "", line[200];
        cmd_duration(left, sizeof left, now->left);
        if (isfinite(now->valid_loss))
            snprintf(valid, sizeof valid, " valid %.4f", now->valid_loss);
        snprintf(line, sizeof line,
                 "step %lld/%lld %.*f tok/s loss %.4f%s lr %.2e norm %.2f, %s left",
                 (long long)now->step, (long long)now->steps, now->tokens_second < 10,
                 now->tokens_second, now->loss, valid, now->rate, now->norm, left);
        if (shown)
            cmd_progress_line(line);
        else
            cmd_note("%s", line);
    }
    return cmd_interrupted();
}

static void on_note(void *user, const char *text)
{
    (void)user;
    cmd_note("%s", text);
}

static void print_result(const struct qkv_train_result *r)
{
    char took[32];
    if (common.json) {
        printf("{\"steps\":%lld,\"from_step\":%lld", (long long)r->steps, (long long)r->from_step);
        printf(",\"parameters\":%lld,\"tokens\":%lld", (long long)r->parameters,
               (long long)r->tokens);
        cmd_json_number(stdout, "loss", r->loss);
        cmd_json_number(stdout, "valid_loss", r->valid_loss);
        cmd_json_number(stdout, "best_loss", r->best_loss);
        printf(",\"best_step\":%lld,\"bad_steps\":%lld,\"stopped_early\":%s",
               (long long)r->best_step, (long long)r->bad_steps,
               r->stopped_early ? "true" : "false");
        cmd_json_number(stdout, "seconds", r->seconds);
        fputs(",\"model\":", stdout);
        cmd_json_text(stdout, r->model, strlen(r->model));
        puts("}");
        return;
    }
    cmd_duration(took, sizeof took, r->seconds);
    printf("%lld step%s%s, loss %.4f", (long long)r->steps, r->steps == 1 ? "" : "s",
           r->stopped_early ? " (stopped early)" : "", r->loss);
    if (isfinite(r->valid_loss)) printf(", validation %.4f", r->valid_loss);
    if (isfinite(r->best_loss) && r->best_step != r->steps)
        printf(" (best %.4f at step %lld)", r->best_loss, (long long)r->best_step);
    printf("\n%lld parameters, %lld tokens read, %s", (long long)r->parameters,
           (long long)r->tokens, took);
    if (r->from_step) printf(" from step %lld on", (long long)r->from_step);
    if (r->bad_steps)
        printf(", %lld nonfinite step%s skipped", (long long)r->bad_steps,
               r->bad_steps == 1 ? "" : "s");
    putchar('\n');
    cmd_print_name(stdout, r->model);
    putchar('\n');
}

static int run_train(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct qkv_train_result result;
    char folder[CMD_PATH];
    if (read_options(argc, argv, &err) || cmd_model_path(&o.from, folder, &err) ||
        check_no_file(o.resume ? "resume" : "out", o.run, &err) ||
        check_no_file("export", o.export_dir, &err) ||
        check_folder(o.export_dir, "model.safetensors", &err) || only_models(&err))
        ranks_agree(&err);
    if (err.status) return cmd_fail(&err);
    o.ranks = &ranks;
    // an eighth: the gradients of collected keys and values, and activations need memory too
    ranks.collect_limit =
        o.context_ranks > 1 ? ranks_collect_limit(c.collect_limit, 8) : (size_t)c.collect_limit;
    o.export_force = common.force;
    if (c.objective == WORDS) {
        if (ranks.size > 1)
            cmd_error(&err, QKV_ERR_UNSUPPORTED, NULL,
                      "--objective words is not supported over ranks, expected one process");
        else if (!only_words(&err) && !check_folder(o.run, "config.json", &err))
            if (!train_vectors(&o, &vectors, &err)) cmd_output_complete(o.run);
    } else {
        const struct qkv_train_observer observer = { .step = on_step,
                                                     .note = on_note,
                                                     .progress = cmd_progress_begin("bytes") };
        const qkv_status status = qkv_train(&o, &observer, &result, &err);
        cmd_progress_end();
        if (!status) {
            cmd_output_complete(o.run);
            if (o.export_dir) cmd_output_complete(o.export_dir);
            print_result(&result);
            if (result.from_step && result.from_step == result.steps)
                cmd_note("the run was complete already; --steps N with N > %lld continues it",
                         (long long)result.steps);
        }
    }
    ranks_agree(&err);
    ranks_close();
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_train = {
    .name = "train",
    .brief = "train a model on text: decoder, encoder, encoder-decoder",
    .usage = "FILE... --out RUN [options]\n--resume RUN [options]",
    .about = "The operands are files, folders (with all files below them), or - for standard "
             "input; pairs of texts are lines of a .tsv or .jsonl file. RUN is a folder for the "
             "tokenizer, the tokens, a log and checkpoints. At any time, RUN/model is a model "
             "folder that the other commands open. After an interruption (Ctrl-C, kill, power "
             "failure), the same command, or --resume, continues from the last checkpoint. The "
             "result is bit-identical to a run without interruption, with any number of threads. "
             "Options that are not given again keep their values.\n"
             "\n"
             "mpirun -n P qkv train ... trains with P processes, which share the batches of "
             "--accumulate and see the same folder; the result is bit-identical for any P, and a "
             "run continues with another P.\n"
             "\n"
             "RUN/log.jsonl has one line per step; 'qkv plot RUN' draws it, and 'qkv eval RUN' "
             "evaluates the model.",
    .opts = opts,
    .uses = USES_THREADS | USES_JSON | USES_OUTPUT | READS_OPERANDS | USES_RANKS,
    .max_args = -1,
    .examples = {
        { "qkv train book.txt --out run", "a small decoder" },
        { "qkv train pairs.tsv --arch vaswani --out run --epochs 10", "an encoder-decoder" },
        { "qkv train --resume run", "continue an interrupted run" },
        { "qkv train text/ --objective words --out vectors", "word vectors for 'qkv analogy --model vectors'" },
        { "qkv train text/ --arch llama --width 512 --layers 8 --precision bf16 --out run",
          "a larger decoder, trained in bf16" },
    },
    .run = run_train,
};
