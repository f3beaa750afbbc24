// SPDX-License-Identifier: MIT
// effects.h: what each head does to a text (qkv/ablate.h), for the commands that show it.
#ifndef QKV_EFFECTS_H
#define QKV_EFFECTS_H

#include "tokens.h"

// A model, the text that goes through it, and what its heads do to it.  Zero before the first use.
struct effects {
    char dir[CMD_PATH];
    qkv_model *model;
    qkv_tokenizer *tokenizer; // NULL with --ids
    struct qkv_model_info info;
    struct tokens read, written; // written: of two stacks, what the decoder reads
    int64_t offsets[2], written_offsets[2];
    struct qkv_model_input in, source;
    enum qkv_pool pool; // of an encoder, as its folder says
    enum qkv_ablation_kind kind;
    struct qkv_effects of;
};
extern const char *const effects_kinds[]; // "zero", "mean", "uniform"
// Opens the model as the command line has it and reads its tokens.  texts[2]: of one stack text and
// pair or NULL; of two the source and what is written for it, NULL: what the model itself writes.
qkv_status effects_open(struct effects *e, const struct token_options *o, const char *const *texts,
                        qkv_error *err);
// Every head; or, with --ablate and not `every`, those heads together.
qkv_status effects_measure(struct effects *e, bool every, qkv_error *err);
void effects_close(struct effects *e);

// Heads by the size of their effects, largest first; free it.
struct effects_place {
    int64_t stack, layer, head;
    float effect;
};
struct effects_place *effects_rank(const struct effects *e, int64_t *count);
// "L3.H5", "cross.L0.H1"
char *effects_name(char out[48], const struct effects *e, const struct effects_place *p);
// The token of a stack's rows as the tokenizer has it; number[16] is room for "#101".
const char *effects_token(const struct effects *e, int64_t stack, int64_t token, char number[16]);
// The same as it stands in a text, without space around: room is word[64].
const char *effects_word(const struct effects *e, int64_t stack, int64_t token, char word[64]);
const struct qkv_change *effects_changes(const struct effects *e, const struct effects_place *p);
void effects_print_json(FILE *to, const struct effects *e, bool every);
#endif
