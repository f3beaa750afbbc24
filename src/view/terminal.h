// SPDX-License-Identifier: MIT
// terminal.h: what the terminal's views share.
//
//   terminal.c        heads, and which view       terminal_model.c  all heads as small matrices
//   terminal_atlas.c  layers x heads, effects
//   terminal_score.c  neuron and steps: one query taken apart
#ifndef QKV_VIEW_TERMINAL_H
#define QKV_VIEW_TERMINAL_H
#include "view/screen.h"
#include "view/score.h"

// "qkv  MODEL  6 layers × 12 heads ...".
void terminal_header(struct screen *s);
// The glyph of a kind of head in this terminal.
const char *terminal_glyph(const struct screen *s, enum view_kind kind);
// The lit head that reads most of the marked row, and the key it reads.
int64_t terminal_strongest(struct screen *s, int64_t *key);
bool terminal_is_lit(const struct screen *s, int64_t head);
void terminal_atlas(struct screen *s);
void terminal_effects(struct screen *s); // nothing where they were not measured
void terminal_model(struct screen *s);
// QKV_ERR_UNSUPPORTED: the layer has no q and k.
qkv_status terminal_neuron(struct screen *s, qkv_error *err);
qkv_status terminal_steps(struct screen *s, qkv_error *err);
#endif
