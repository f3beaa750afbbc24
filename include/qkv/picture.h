// SPDX-License-Identifier: MIT
/** picture.h: writes one view of attention as an SVG or PNG file without scripts, for papers and
 *  web pages.
 *
 *  Views, geometry and colours are the same as in the page that qkv_view_html writes.  The
 *  description of the picture in the file is the sentence of that page.
 *
 *  PNG is painted by cairo and fontconfig in the calling process, in a library that the first PNG
 *  opens.  Where malloc fails inside them, they may end the process: `qkv` therefore writes PNG in
 *  a child process, and a program that must survive does the same or writes SVG, which needs
 *  neither.
 */
#ifndef QKV_PICTURE_H
#define QKV_PICTURE_H

#include <qkv/model.h>
#include <qkv/view.h>

QKV_BEGIN_DECLS

/** Returns the i-th view name that qkv_view_picture accepts in o->view: "heads", "model", "neuron",
 *  "steps", "residual", "matrix", "compare", "output"; NULL if i is past the last. */
QKV_API const char *qkv_view_picture_name(int i);

/** Writes the view o->view (NULL: "heads") completely or not at all, in the format given by the
 *  ending of path: .svg, or .png with 2 pixels per unit (/dev/stdout: SVG).  Equal pictures give
 *  equal bytes (PNG: with the same fonts).
 *  key   points to the key that the views "neuron" and "steps" explain together with the marked
 *        row; NULL: the key with the largest weight in that row
 *  o     may be NULL; o->theme AUTO means the theme of the reader's system in SVG, light in PNG
 *  For a long text, the view "heads" shows only the rows around the marked row and the keys that
 *  these rows attend to, and the views "model" and "matrix" merge several weights into one cell;
 *  the picture contains a note about it.
 *  Returns: QKV_OK; QKV_ERR_USAGE (the file exists and force is false; unknown ending; no such
 *           view, stack, layer, head, token or key); QKV_ERR_UNSUPPORTED (views "neuron" and
 *           "steps" of a layer without q and k, "residual" of a layer without residual stream);
 *           QKV_ERR_LIMIT (memory; a PNG over 32,767 pixels); QKV_ERR_IO. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_picture(const qkv_view *v, const char *path, bool force,
                                                   const struct qkv_view_options *o,
                                                   const int64_t *key, qkv_error *err);

/* ---- block diagrams of a Transformer --------------------------------------------------------- */
/** Returns the i-th name of a block diagram; NULL if i is past the last.  Diagrams are figures 1
 *  and 2 of Vaswani et al. 2017 (arXiv 1706.03762) with the parts and sizes of a given Transformer:
 *  "scaled" (scaled dot-product attention), "heads" (multi-head attention), "layer" (one layer; of
 *  an encoder-decoder, one of each stack), "model" (the whole model), "bare" (X X^T X, without
 *  projections, next to "scaled"). */
QKV_API const char *qkv_diagram_name(int i);

/** Draws the diagram `name` completely or not at all, in the format given by the ending of path:
 *  .svg, or .png with 2 pixels per unit (/dev/stdout: SVG).  Sizes of *m that are 0 are drawn as 0.
 *  Returns: QKV_OK; QKV_ERR_USAGE (NULL; unknown name or ending; the file exists and force is
 *           false); QKV_ERR_UNSUPPORTED (PNG, whose library is missing); QKV_ERR_LIMIT;
 *           QKV_ERR_IO. */
QKV_API QKV_MUST_CHECK qkv_status qkv_diagram_file(const struct qkv_structure *m, const char *name,
                                                   const char *path, bool force,
                                                   enum qkv_view_theme theme, qkv_error *err);

QKV_END_DECLS
#endif
