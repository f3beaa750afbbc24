// SPDX-License-Identifier: MIT
// effects.h: declares how commands measure ablation effects (qkv/ablate.h).
#ifndef QKV_EFFECTS_H
#define QKV_EFFECTS_H

#include "frame/tokens.h"

// A model, its text, and the ablation effects of its heads.  The caller zeroes the struct before
// its first use.
struct effects {
    char dir[CMD_PATH];
    qkv_model *model;
    qkv_tokenizer *tokenizer; // NULL if --ids replaces the text
    struct qkv_model_info info;
    // read: the tokens of the text; written: the tokens of the output (only of an encoder-decoder)
    struct tokens read, written;
    int64_t offsets[2], written_offsets[2];
    struct qkv_model_input in, source;
    char (*read_word)[64], (*written_word)[64]; // the tokens as text, without spaces around them
    enum qkv_pool pool;                         // how the hidden states of an encoder are pooled
    enum qkv_ablation_kind kind;
    struct qkv_effects of;
};
extern const char *const effects_kind_names[]; // the names "zero", "mean" and "uniform"
// Opens a model and tokenizes its text. model NULL: the model of --model.  For a model with one
// stack, texts[2] are a text and the second text of a pair, or NULL. For an encoder-decoder they
// are the source and its output; output NULL: the model generates it.
qkv_status effects_open(struct effects *e, const char *model, const struct token_options *o,
                        const char *const *texts, qkv_error *err);
// Measures the effect of every head. If --ablate is given and `every` is false, measures the effect
// of the heads of --ablate together.
qkv_status effects_measure(struct effects *e, bool every, qkv_error *err);
void effects_close(struct effects *e);

// A head in the list of effects_rank(), which sorts the heads by the absolute value of their
// effects, largest first. The caller frees the list.
struct effects_place {
    int64_t stack, layer, head;
    float effect;
};
struct effects_place *effects_rank(const struct effects *e, int64_t *count);
// Writes the name of a head to `out`, such as "L3.H5" or "cross.L0.H1".
char *effects_name(char out[48], const struct effects *e, const struct effects_place *p);
// Returns a token of a stack as the tokenizer spells it. If there is no tokenizer, writes its id,
// such as "#101", to number[16] and returns it.
const char *effects_token(const struct effects *e, int64_t stack, int64_t token, char number[16]);
// Writes a token of a stack as the text spells it, without spaces around it, and returns it. A word
// that occurs more than once carries its place: "flies₂".
enum { EFFECTS_WORD = 64 + CMD_SUBSCRIPT };
const char *effects_word(const struct effects *e, int64_t stack, int64_t token,
                         char out[EFFECTS_WORD]);
const struct qkv_change *effects_changes(const struct effects *e, const struct effects_place *p);
void effects_print_json(FILE *to, const struct effects *e, bool every);
#endif
