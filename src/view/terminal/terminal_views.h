// SPDX-License-Identifier: MIT
// terminal_views.h: declares the functions that the terminal views share:
//
//   terminal.c                the choice of the view and of the tokens, the header
//   terminal_heads.c          one layer: its heads, the matrix of weights, the marked row
//   terminal_model.c          all heads as small matrices
//   terminal_head_overview.c  a table of all heads, ablation effects
//   terminal_residual.c       the residual stream
//   terminal_compare.c        one query in two views: its weights and their changes
//   terminal_output.c         the output of the model
//   terminal_neuron.c         the view "neuron": the score of one query and one key
//   terminal_steps.c          the view "steps": the scores of one query and all keys
//   terminal_score.c          the parts that both share (terminal_score.h)
#ifndef QKV_VIEW_TERMINAL_VIEWS_H
#define QKV_VIEW_TERMINAL_VIEWS_H
#include "view/canvas/text_canvas.h"
#include "view/data/score_steps.h"

// Writes the header line, such as "qkv  MODEL  6 layers × 12 heads ...".
void terminal_header(struct text_canvas *s);
// Returns the glyph of a kind of head, in ASCII if the terminal lacks UTF-8.
const char *terminal_glyph(const struct text_canvas *s, enum view_kind kind);
bool terminal_is_selected(const struct text_canvas *s, int64_t head);
void terminal_head_overview(struct text_canvas *s);
void terminal_effects(struct text_canvas *s); // writes nothing if no ablation effects were measured

// A function that draws a view as lines of text. Returns QKV_OK even if memory is exhausted while
// drawing: s->t records this. The views "neuron" and "steps" return QKV_ERR_UNSUPPORTED for a layer
// without queries and keys.
typedef qkv_status terminal_draw(struct text_canvas *s, qkv_error *err);
#define QKV_VIEW(name, key, picture, terminal, needs, question) TERMINAL_DECLARE_##terminal(name)
#define TERMINAL_DECLARE_OWN(name)                              terminal_draw terminal_##name;
#define TERMINAL_DECLARE_HEADS(name)
#include <qkv/view.def>
#undef QKV_VIEW
#endif
