// SPDX-License-Identifier: MIT
// text_width.c: measures characters for SVG, which is shown with fonts that the writer does not
// know: with the widest of the fonts that browsers use on Linux, so that no text is cut off.
#include "view/canvas/canvas.h"
#include <math.h>
#include <utf8proc.h>

// Widths in 1/1000 of the font size: sans-serif, its bold, serif, its bold.
static const struct {
    uint16_t first, last, width[4];
} ranges[] = {
#define W(first, last, sans, sans_bold, serif, serif_bold)                                         \
    { first, last, { sans, sans_bold, serif, serif_bold } },
#include "view/canvas/text_widths.def"
#undef W
};

// Width of a character that these fonts lack: of a full-width one (Chinese, Japanese, Korean), of
// an emoji, and of any other, for which a browser draws a box or uses a font of another script.
static const double full = 1, emoji = 1.3, other = 1;

double text_width(int32_t c, unsigned how)
{
    size_t low = 0, high = sizeof ranges / sizeof *ranges;
    const int style = (how & CANVAS_SERIF ? 2 : 0) + (how & CANVAS_BOLD ? 1 : 0);
    const int cells = utf8proc_charwidth(c);
    while (low < high) { // find the first range that ends at or after the character
        const size_t mid = (low + high) / 2;
        if (ranges[mid].last < c)
            low = mid + 1;
        else
            high = mid;
    }
    if (low < sizeof ranges / sizeof *ranges && ranges[low].first <= c)
        return fmax(ranges[low].width[style] / 1000.0, cells > 1 ? full : 0);
    return c >= 0x1f000 ? emoji : cells > 1 ? full : cells > 0 ? other : 0;
}
