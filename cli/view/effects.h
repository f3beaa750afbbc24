// SPDX-License-Identifier: MIT
// effects.h: declares ablation effects (qkv/ablate.h) for the commands that show them.
#ifndef QKV_EFFECTS_H
#define QKV_EFFECTS_H

#include "frame/tokens.h"

// A model, its text, and the ablation effects of its heads.  The caller zeroes it before the first
// use.
struct effects {
    char dir[CMD_PATH];
    qkv_model *model;
    qkv_tokenizer *tokenizer; // NULL with --ids
    struct qkv_model_info info;
    // read: tokens of the text; written: output tokens (encoder-decoder)
    struct tokens read, written;
    int64_t offsets[2], written_offsets[2];
    struct qkv_model_input in, source;
    enum qkv_pool pool; // pooling of an encoder, from its model folder
    enum qkv_ablation_kind kind;
    struct qkv_effects of;
};
extern const char *const effects_kind_names[]; // "zero", "mean", "uniform"
// Opens `model` (NULL: --model) and reads its tokens.  For a model with one stack, texts[2] are a
// text and the second text of a pair or NULL; for an encoder-decoder, the source and its output
// (NULL: the model generates the output).
qkv_status effects_open(struct effects *e, const char *model, const struct token_options *o,
                        const char *const *texts, qkv_error *err);
// Measures the effects: of every head; if --ablate is given and `every` is false, of the named
// heads together.
qkv_status effects_measure(struct effects *e, bool every, qkv_error *err);
void effects_close(struct effects *e);

// A head in the ranking of effects_rank, which sorts the heads by the absolute size of their
// effects, largest first; the caller frees the ranking.
struct effects_place {
    int64_t stack, layer, head;
    float effect;
};
struct effects_place *effects_rank(const struct effects *e, int64_t *count);
// Writes the name of a head, such as "L3.H5" or "cross.L0.H1".
char *effects_name(char out[48], const struct effects *e, const struct effects_place *p);
// Returns token number `token` of a stack as the tokenizer spells it.  number[16] is a buffer for
// an id such as "#101", if there is no tokenizer.
const char *effects_token(const struct effects *e, int64_t stack, int64_t token, char number[16]);
// Returns the token as the text spells it, without surrounding spaces; word[64] is a buffer.
const char *effects_word(const struct effects *e, int64_t stack, int64_t token, char word[64]);
const struct qkv_change *effects_changes(const struct effects *e, const struct effects_place *p);
void effects_print_json(FILE *to, const struct effects *e, bool every);
#endif
