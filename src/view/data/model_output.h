// SPDX-License-Identifier: MIT
// model_output.h: declares the output of the model in a view (qkv_view_output_add), and what its
// drawings show of it.
#ifndef QKV_VIEW_MODEL_OUTPUT_H
#define QKV_VIEW_MODEL_OUTPUT_H

#include "view/data/initial_selection.h"

enum { VIEW_OUTPUT_UNIT = 100000 }; // numbers are stored as multiples of 1 / VIEW_OUTPUT_UNIT
struct view_output {
    enum qkv_view_output_kind kind;
    int64_t stack; // the stack whose rows are the positions
    int64_t positions, rows, top, names;
    int64_t all; // positions that the text has; more than `positions` if some were left out
    int64_t *at; // [positions] rows of the stack, ascending
    char **name; // [names]
    int32_t *entry, *value; // [positions][rows][top] index of a name, and the number in units
    int32_t *target;        // [positions] index of a name; -1: none
    int32_t *target_value;  // [positions][rows] in units
    int64_t *target_rank;   // [positions][rows]
    char *detail;           // the pooling; "": none
};
// Returns true for tokens after each layer: the logit lens.
bool view_output_is_lens(const struct view_output *o);
// Returns true for one list of numbers with names: shares or labels of a text.
bool view_output_is_list(const struct view_output *o);
// Returns true if the rows of a stack are the positions of its output. In an encoder-decoder these
// are the decoder (row i reads a token) and the cross-attention (row i writes the next one).
bool view_output_maps(const struct view_stack *v);
// Returns the index of the position that is shown: that of the marked row, if `told`; otherwise the
// last of a decoder, the first mask, or the first.
int64_t view_output_place(const struct view_stack *v, const struct view_selection *st, bool told);
// Checks that the view has the output of the model. Returns QKV_ERR_UNSUPPORTED if not.
qkv_status view_output_check(const struct view_stack *v, qkv_error *err);
// Writes a number: ".421", "1.000", "−.012".
void view_output_number(struct view_text *t, int32_t units);
// Writes the name of row l of the lens: "embeddings", "layer 0", ..., "output".
void view_output_row(struct view_text *t, const struct view_output *o, int64_t l);
// Writes the name of a position, as the rows of the stack name it: “it”.
void view_output_name(struct view_text *t, const struct view_stack *v, int64_t place);
// Writes the sentence about the position with index `place`.
void view_output_sentence(struct view_text *t, const struct view_stack *v, int64_t place);
// Writes the entries of a list (view_output_is_list) that are drawn, at most `most`: those with the
// largest numbers, in the order of the text. Returns their number; *rest is the sum of the others.
int64_t view_output_list(int64_t *to, int64_t most, const struct view_output *o, int64_t *rest);
static inline int64_t view_output_cell(const struct view_output *o, int64_t place, int64_t l)
{
    return (place * o->rows + l) * o->top;
}
void view_output_free(struct view_output *o);
#endif
