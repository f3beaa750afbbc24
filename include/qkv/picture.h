// SPDX-License-Identifier: MIT
/** picture.h: one view of attention as a picture without script: SVG or PNG, for papers and pages.
 *
 *  The same views, geometry and colours as the page that qkv_view_html writes, and the same
 *  sentence, which the file carries as its description.
 */
#ifndef QKV_PICTURE_H
#define QKV_PICTURE_H

#include <qkv/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The names that o->view may have here: "heads", "model", "neuron", "steps", "matrix"; NULL
 *  past the last. */
QKV_API const char *qkv_view_picture_name(int i);

/** The view o->view (NULL: "heads") as a file of the kind its name ends with: .svg, or .png with 2
 *  pixels a unit (/dev/stdout: SVG); written whole or not at all.  The same picture gives the same
 *  bytes (PNG: with the same fonts).
 *  key   of the pair that neuron and steps take apart; NULL: the key that the row reads most
 *  o     NULL: the default; o->theme AUTO: the reader's system (SVG), light (PNG)
 *  Long texts: heads shows the rows around the marked one and the keys they read, model and matrix
 *  join weights to points; each says so.
 *  Returns: QKV_OK; QKV_ERR_USAGE (exists and not force; another ending; no such view, stack,
 *  layer, head, token or key); QKV_ERR_UNSUPPORTED (neuron and steps of a layer without q and k);
 *  QKV_ERR_LIMIT (memory; a PNG over 32,767 pixels); QKV_ERR_IO. */
QKV_API QKV_MUST_CHECK qkv_status qkv_view_picture(const qkv_view *v, const char *path, bool force,
                                                   const struct qkv_view_options *o,
                                                   const int64_t *key, qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
