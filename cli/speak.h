// SPDX-License-Identifier: MIT
// speak.h: what `qkv generate` and `qkv translate` share: how outputs are chosen and printed.
#ifndef QKV_SPEAK_H
#define QKV_SPEAK_H

#include "cmd.h"

// Options as they are given; NaN: not given.
struct speak_options {
    const char *file, *stop, *prefix, *bias;
    int64_t tokens, min_tokens, logprobs, beams, n_best, top_k, no_repeat, seed, batch;
    double temperature, top_p, min_p, repetition, presence, frequency, length_penalty;
    int early, cache;
    bool ignore_end, truncate, strict, no_special, stats;
};
extern struct speak_options speak_o;
extern const char *const speak_early[], *const speak_caches[];
#define SPEAK_OUTPUT_OPTIONS(beams_default)                                                        \
    OPT_TEXT('f', "file", &speak_o.file, "FILE", "a text a line; '-' is standard input"),          \
        OPT_INT('n', "tokens", &speak_o.tokens, 1, 1 << 30, "N",                                   \
                "tokens of an output at most (default: 256)"),                                     \
        OPT_INT(0, "min-tokens", &speak_o.min_tokens, 0, 1 << 30, "N",                             \
                "no end before N tokens (default: 0)"),                                            \
        OPT_TEXT(0, "stop", &speak_o.stop, "TEXT",                                                 \
                 "end where the output has TEXT, which is not shown; A|B: either; \\n, \\t, \\|, " \
                 "\\\\ as in C"),                                                                  \
        OPT_TEXT(0, "prefix", &speak_o.prefix, "TEXT", "what each output begins with"),            \
        OPT_FLAG(0, "ignore-end", &speak_o.ignore_end, "go on behind the token that ends a text"), \
        OPT_INT(0, "logprobs", &speak_o.logprobs, 1, 1000, "N",                                    \
                "log-probability of each token, and the N likeliest in its place"),                \
        OPT_GROUP("Search"),                                                                       \
        OPT_INT(0, "beam", &speak_o.beams, 1, 1024, "N",                                           \
                "hypotheses kept side by side; 1: none (default: " beams_default ")"),             \
        OPT_INT(0, "n-best", &speak_o.n_best, 1, 1024, "N",                                        \
                "outputs a text: the best of the search, or N draws (default: 1)"),                \
        OPT_REAL(0, "length-penalty", &speak_o.length_penalty, "X",                                \
                 "hypotheses are judged by log-probability / length^X (default: 1)"),              \
        OPT_CHOICE(0, "early", &speak_o.early, speak_early, "WORD",                                \
                   "when a search is over: likely (default), full, never; early_stopping of "      \
                   "transformers: False, True, \"never\"")
#define SPEAK_SAMPLING_OPTIONS                                                                     \
    OPT_GROUP("Choice of tokens, in this order"),                                                  \
        OPT_TEXT(0, "bias", &speak_o.bias, "ID=X,...",                                             \
                 "add X to the logit of a token; -inf: never"),                                    \
        OPT_REAL(0, "repetition", &speak_o.repetition, "X",                                        \
                 "divide what was said already by X (multiply below 0) (default: 1)"),             \
        OPT_REAL(0, "presence", &speak_o.presence, "X",                                            \
                 "subtract X from what the output has (default: 0)"),                              \
        OPT_REAL(0, "frequency", &speak_o.frequency, "X",                                          \
                 "... X for each time it has it (default: 0)"),                                    \
        OPT_INT(0, "no-repeat", &speak_o.no_repeat, 1, 1 << 30, "N",                               \
                "no N tokens in a row come twice"),                                                \
        OPT_REAL('t', "temperature", &speak_o.temperature, "X",                                    \
                 "draw of softmax(logits / X); 0: the likeliest (default: 0)"),                    \
        OPT_INT(0, "top-k", &speak_o.top_k, 1, 1 << 30, "N", "of the N likeliest"),                \
        OPT_REAL(0, "top-p", &speak_o.top_p, "P", "of the fewest that have probability P"),        \
        OPT_REAL(0, "min-p", &speak_o.min_p, "P", "of those of P times the likeliest one's"),      \
        OPT_INT(0, "seed", &speak_o.seed, 0, INT64_MAX, "N",                                       \
                "of the draws (default: 0); the same text for any threads")
#define SPEAK_RUN_OPTIONS                                                                          \
    OPT_GROUP("Run"),                                                                              \
        OPT_CHOICE(0, "cache", &speak_o.cache, speak_caches, "P",                                  \
                   "keys and values that stay: f32, bf16, f16, int8 (default: as the model's "     \
                   "precision stores them)"),                                                      \
        OPT_INT(0, "batch", &speak_o.batch, 1, 1 << 16, "N",                                       \
                "sequences that run at once, beams too (default: 8); changes no bit"),             \
        OPT_FLAG(0, "truncate", &speak_o.truncate,                                                 \
                 "cut a text past the model's positions instead of refusing"),                     \
        OPT_FLAG(0, "no-special", &speak_o.no_special,                                             \
                 "nothing before the text; what spells a special token is plain text"),            \
        OPT_FLAG(0, "strict", &speak_o.strict, "refuse invalid UTF-8 instead of U+FFFD for it"),   \
        OPT_FLAG(0, "stats", &speak_o.stats, "tokens, seconds and tokens a second, on stderr")

// A call: its options for the library, its texts, what it has printed.
struct speak {
    struct qkv_generate_options how;
    struct qkv_generator_options open;
    struct cmd_texts texts;
    char *stop_text;
    const char *stops[64];
    struct qkv_token_value *bias;
    const qkv_model *model;
    const qkv_tokenizer *tokenizer;
    bool streaming, echo, alignment;
    qkv_error *err;
    struct speak_log *log; // [texts][draws] tokens seen, where --logprobs asks for them
    int64_t draws;
    int64_t tokens, prompt_tokens, cut, cut_texts, replaced;
    int64_t replaced_text, replaced_at;
    double begun; // seconds of a clock
};
// Reads texts and options; QKV_ERR_USAGE names the option.
qkv_status speak_begin(struct speak *s, int argc, char **argv, qkv_error *err);
// Prints as outputs come; the handle is open (s->model, s->tokenizer).
void speak_watch(struct speak *s);
// The call ended so: what was cut or replaced, --stats; or what was refused.
void speak_over(struct speak *s, qkv_status status, qkv_error *err);
// Says what the library refused in the command's words: n_best is --n-best.
void speak_refused(qkv_error *err);
void speak_end(struct speak *s);
void speak_print_text(FILE *to, const char *text, size_t bytes); // no control bytes to a terminal
#endif
