// SPDX-License-Identifier: MIT
// view.h: the interface of module view for other modules. It is empty, since no module of src/
// calls view: the command uses the public headers <qkv/view.h>, <qkv/picture.h>, <qkv/chart.h> and
// <qkv/plot.h>. The folders of this module, lowest first:
//
//   format_text   tokens and numbers for people, in JSON and in HTML
//   data/         the data of a view: rows of weights, head statistics, comparison of two views
//   canvas/       drawing operations that become SVG or PNG; the text canvas of the terminal
//   page/, web/   the HTML file: encoded numbers and metadata; its script and style
//   picture/      one view on a canvas              terminal/     one view as lines of text
//   chart/        charts of numbers, curves of training runs
#ifndef QKV_MODULE_VIEW_H
#define QKV_MODULE_VIEW_H

#include <qkv/chart.h>
#include <qkv/picture.h>
#include <qkv/plot.h>
#include <qkv/view.h>
#endif
