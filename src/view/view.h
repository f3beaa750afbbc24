// SPDX-License-Identifier: MIT
// view.h: the interface of module view. No other module of src/ calls it: the command uses the
// public headers <qkv/view.h>, <qkv/picture.h>, <qkv/chart.h> and <qkv/plot.h>. The folders, lowest
// first:
//
//   format_text   writes tokens and numbers for people, JSON and HTML
//   data/         the attention that a view was given: rows of weights, head statistics, comparison of two views
//   canvas/       a list of drawing operations that becomes SVG or PNG; the text canvas of the terminal
//   page/, web/   the HTML file: encoding of the numbers, metadata; its script and style
//   picture/      one view on a canvas              terminal/     one view as lines of text
//   chart/        numbers as charts, curves of training runs
#ifndef QKV_MODULE_VIEW_H
#define QKV_MODULE_VIEW_H

#include <qkv/chart.h>
#include <qkv/picture.h>
#include <qkv/plot.h>
#include <qkv/view.h>
#endif
