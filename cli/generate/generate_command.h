// SPDX-License-Identifier: MIT
// generate_command.h: declares what `qkv generate` and `qkv translate` share: options and the
// printing of outputs.
#ifndef QKV_GENERATE_COMMAND_H
#define QKV_GENERATE_COMMAND_H

#include "frame/cmd.h"

// The values of the options. NAN: the option is not given.
struct generate_options {
    const char *file, *stop, *prefix, *bias;
    int64_t tokens, min_tokens, logprobs, beams, n_best, top_k, no_repeat, seed, batch;
    double temperature, top_p, min_p, repetition, presence, frequency, length_penalty;
    int early, cache;
    bool ignore_end, truncate, strict, no_special, stats;
};
extern struct generate_options generate_o;
extern const char *const generate_early[], *const generate_caches[];
// least: the smallest number of tokens; zero: what 0 tokens mean.
#define GENERATE_OUTPUT_OPTIONS(beams_default, least, zero)                                        \
    OPT_INPUT('f', "file", &generate_o.file, "FILE",                                               \
              "read one text per line; '-' is standard input"),                                    \
        OPT_INT('n', "tokens", &generate_o.tokens, least, 1 << 30, "N",                            \
                "largest number of tokens of an output" zero                                       \
                " (default: the model's, otherwise 256)"),                                         \
        OPT_INT(0, "min-tokens", &generate_o.min_tokens, 0, 1 << 30, "N",                          \
                "smallest number of tokens of an output (default: the model's, otherwise 0)"),     \
        OPT_TEXT(                                                                                  \
            0, "stop", &generate_o.stop, "TEXT",                                                   \
            "end an output before TEXT; A|B ends it before A or B; escapes: \\n, \\t, \\|, \\\\"), \
        OPT_TEXT(0, "prefix", &generate_o.prefix, "TEXT", "begin each output with TEXT"),          \
        OPT_FLAG(0, "ignore-end", &generate_o.ignore_end,                                          \
                 "do not end an output at the token that ends a text"),                            \
        OPT_INT(                                                                                   \
            0, "logprobs", &generate_o.logprobs, 1, 1000, "N",                                     \
            "print the log-probability of each token, and at its position the N most probable "    \
            "tokens with their probabilities"),                                                    \
        OPT_GROUP("Search"),                                                                       \
        OPT_INT(                                                                                   \
            0, "beam", &generate_o.beams, 1, 1024, "N",                                            \
            "number of hypotheses of a beam search; 1: no beam search (default: " beams_default    \
            ")"),                                                                                  \
        OPT_INT(0, "n-best", &generate_o.n_best, 1, 1024, "N",                                     \
                "outputs per text: the N best of the beam search, or N samples (default: 1)"),     \
        OPT_REAL(0, "length-penalty", &generate_o.length_penalty, "X",                             \
                 "compare hypotheses by log-probability / length^X (default: the model's, "        \
                 "otherwise 1)"),                                                                  \
        OPT_CHOICE(0, "early", &generate_o.early, generate_early, "WORD",                          \
                   "when a beam search ends: likely, full or never, as early_stopping False, "     \
                   "True or \"never\" of transformers (default: the model's, otherwise likely)")
#define GENERATE_SAMPLING_OPTIONS                                                                  \
    OPT_GROUP("Sampling, applied in this order"),                                                  \
        OPT_TEXT(0, "bias", &generate_o.bias, "ID=X,...",                                          \
                 "add X to the logit of token ID; -inf: never generate it"),                       \
        OPT_REAL(0, "repetition", &generate_o.repetition, "X",                                     \
                 "for tokens that occurred, divide positive logits by X, multiply negative by X "  \
                 "(default: the model's, otherwise 1)"),                                           \
        OPT_REAL(0, "presence", &generate_o.presence, "X",                                         \
                 "subtract X from the logits of tokens that are in the output (default: 0)"),      \
        OPT_REAL(0, "frequency", &generate_o.frequency, "X",                                       \
                 "subtract X times its count in the output from each token's logit (default: 0)"), \
        OPT_INT(0, "no-repeat", &generate_o.no_repeat, 0, 1 << 30, "N",                            \
                "never generate the same N consecutive tokens twice; 0: no limit (default: the "   \
                "model's)"),                                                                       \
        OPT_REAL('t', "temperature", &generate_o.temperature, "X",                                 \
                 "sample from softmax(logits / X); 0: the most probable token (default: the "      \
                 "model's with do_sample, otherwise 0)"),                                          \
        OPT_INT(0, "top-k", &generate_o.top_k, -1, 1 << 30, "N",                                   \
                "sample from the N most probable tokens; 0 or -1: no limit (default: the model's " \
                "with do_sample)"),                                                                \
        OPT_REAL(0, "top-p", &generate_o.top_p, "P",                                               \
                 "sample from the fewest most probable tokens whose probabilities sum to P "       \
                 "(default: the model's with do_sample)"),                                         \
        OPT_REAL(0, "min-p", &generate_o.min_p, "P",                                               \
                 "sample from tokens with at least P times the largest probability; 0 or -1: no "  \
                 "limit (default: the model's with do_sample)"),                                   \
        OPT_INT(0, "seed", &generate_o.seed, 0, INT64_MAX, "N",                                    \
                "seed of the samples (default: 0); the output does not depend on the number of "   \
                "threads")
#define GENERATE_RUN_OPTIONS                                                                       \
    OPT_GROUP("Run"),                                                                              \
        OPT_CHOICE(0, "cache", &generate_o.cache, generate_caches, "P",                            \
                   "precision of the KV cache: f32, bf16, f16, int8 (default: follows from the "   \
                   "precision of the model)"),                                                     \
        OPT_INT(0, "batch", &generate_o.batch, 1, 1 << 16, "N",                                    \
                "sequences decoded at once, including beams (default: 8, with 'translate' 8 "      \
                "times the "                                                                       \
                "beams, at most 64); does not change outputs"),                                    \
        OPT_FLAG(                                                                                  \
            0, "truncate", &generate_o.truncate,                                                   \
            "cut a text that has more tokens than the model has positions, instead of failing"),   \
        OPT_FLAG(0, "no-special", &generate_o.no_special,                                          \
                 "do not add a token before the text; read text such as '</s>' as plain text"),    \
        OPT_FLAG(0, "strict", &generate_o.strict,                                                  \
                 "fail on invalid UTF-8 and on characters without a token"),                       \
        OPT_FLAG(0, "stats", &generate_o.stats,                                                    \
                 "print the number of tokens, seconds and tokens per second on stderr")

// The state of one call of the command: options for the library, texts, and what has been printed.
struct generate_call {
    struct qkv_generate_options how;
    struct qkv_generator_options open;
    struct cmd_source source;
    struct cmd_texts texts; // the texts of the current chunk
    int64_t echoed;         // number of texts that --echo has printed
    char *stop_text;
    const char *stops[64];
    struct qkv_token_value *bias;
    const qkv_model *model;
    const qkv_tokenizer *tokenizer;
    bool streaming, echo, alignment;
    bool logs_prompts; // with --echo and --logprobs: the tokens of texts are printed, too
    bool dim;          // the prompts of --echo are printed in a dim color
    bool scored;       // the head of the column of scores has been printed
    qkv_error *err;
    // [texts of the chunk] tokens of each text; [texts of the chunk][draws] tokens of each output
    struct token_log *prompt_log, *log;
    int64_t draws;
    int64_t tokens, prompt_tokens, cut, cut_texts, replaced;
    int64_t replaced_text, replaced_at;
    int64_t dropped, dropped_text, dropped_at;
    double begun; // when the call began, in seconds
};
// Checks the options and opens the texts.  Returns QKV_ERR_USAGE if an option is invalid; err names
// it.
qkv_status generate_begin(struct generate_call *s, int argc, char **argv, qkv_error *err);
// Checks the options of sampling, and prints a note if the model's own settings sample.  usual: how
// the model samples by default; NULL: it does not.
qkv_status generate_check_sampling(const struct generate_call *s, const struct qkv_sampling *usual,
                                   qkv_error *err);
// Sets the callbacks that print outputs during generation. s->model and s->tokenizer must be open.
void generate_set_callbacks(struct generate_call *s);
// Runs the texts, chunk by chunk, and reports the end of the call: its error or, after success,
// notes about truncated texts and invalid UTF-8, and the statistics of --stats.  run: calls the
// library.
void generate_run(struct generate_call *s,
                  qkv_status (*run)(void *model, const char *const *texts, const size_t *bytes,
                                    int64_t n, const struct qkv_generate_options *o,
                                    qkv_error *err),
                  void *model, qkv_error *err);
// In an error of the library, replaces the names of struct members by the names of options: n_best
// becomes --n-best.
void generate_name_options(qkv_error *err);
// Prints a note with the names of the keys that qkv_generator_ignored returned; NULL: no note.
void generate_note_ignored(const char *keys);
void generate_free(struct generate_call *s);
#endif
