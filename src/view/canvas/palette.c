// SPDX-License-Identifier: MIT
// palette.c: contains the palette, which page.css has too, and maps numbers to darkness in the same
// way as the page.
#include "view/canvas/canvas.h"
#include <math.h>

const uint32_t view_ramp_rgb[2][9] = {
    { 0xfbfaf6, 0xc8ddef, 0x99c0e5, 0x6da1da, 0x4a82c8, 0x3563aa, 0x2a4781, 0x222f4f, 0x0f1733 },
    { 0x101319, 0x16294d, 0x204278, 0x2e5e9e, 0x457dbd, 0x649dd6, 0x8bbce9, 0xb9dbf7, 0xeff8ff },
};
const uint32_t view_heads_rgb[2][16] = {
    { 0x1b64d0, 0xaa730a, 0x7f0411, 0x034670, 0x5f309f, 0x05643d, 0x0c8c97, 0x853f04, 0xa23e99,
      0x0fa47e, 0xdb5f6a, 0x90960d, 0xc961ac, 0x577106, 0x3c1494, 0x73105f },
    { 0x5a96f4, 0xfed195, 0xfe8b83, 0x8fcbfe, 0x8d6bca, 0x0e9c61, 0x83f2fe, 0xc36317, 0xdd86d3,
      0x58e9bc, 0xd87076, 0xe2eb68, 0xb963a0, 0xaece6f, 0xaba5fe, 0xfca4e3 },
};
static const uint32_t plain_rgb[2][PALETTE_HEAD] = {
    { 0, 0xfbfaf6, 0xf4f2eb, 0xffffff, 0x1b1c20, 0x565860, 0x6b6d75, 0xdfdcd3, 0xffe9a8, 0x2b62b4,
      0xb8541a, 0xb3261e, 0x3564ac },
    { 0, 0x101319, 0x171b23, 0x1d222c, 0xe9e7e1, 0xa6a9b1, 0x858993, 0x2a2f39, 0x4a3d10, 0x7fb0ff,
      0xf0995a, 0xff8b7a, 0x82b4e4 },
};

static uint32_t mix(uint32_t a, uint32_t b, double f)
{
    uint32_t out = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        const double x = a >> shift & 255, y = b >> shift & 255;
        out |= (uint32_t)floor(x + f * (y - x) + .5) << shift;
    }
    return out;
}

// Returns the relative luminance of a colour as defined by WCAG.
static double luminance(uint32_t rgb)
{
    static const double share[3] = { .2126, .7152, .0722 };
    double sum = 0;
    for (int k = 0; k < 3; k++) {
        const double c = (rgb >> (16 - 8 * k) & 255) / 255.0;
        sum += share[k] * (c <= .04045 ? c / 12.92 : pow((c + .055) / 1.055, 2.4));
    }
    return sum;
}

// Returns shade i of the ramp of a head kind: from paper to the colour of the kind at .75, then
// halfway to the colour of text. heatmap.js has the same.
static uint32_t kind_rgb(int at, bool dark)
{
    const double x = at % (PALETTE_SHADES + 1) / (double)PALETTE_SHADES;
    const uint32_t color = palette_rgb(palette_kind(at / (PALETTE_SHADES + 1)), dark);
    return x < .75 ? mix(plain_rgb[dark][PALETTE_PAPER], color, x / .75)
                   : mix(color, plain_rgb[dark][PALETTE_TEXT], (x - .75) / .25 * .5);
}

uint32_t palette_rgb(int color, bool dark)
{
    if (color >= PALETTE_KIND) return kind_rgb(color - PALETTE_KIND, dark);
    if (color < PALETTE_HEAD) return plain_rgb[dark][color < 0 ? 0 : color];
    if (color < PALETTE_RAMP) return view_heads_rgb[dark][color - PALETTE_HEAD];
    if (color < PALETTE_PLUS) {
        const double at = (color - PALETTE_RAMP) * 8.0 / PALETTE_STEPS;
        const int k = at >= 8 ? 7 : (int)at;
        return mix(view_ramp_rgb[dark][k], view_ramp_rgb[dark][k + 1], at - k);
    }
    if (color < PALETTE_OVER) {
        const bool plus = color < PALETTE_MINUS;
        const int tone = color - (plus ? PALETTE_PLUS : PALETTE_MINUS);
        return mix(plain_rgb[dark][PALETTE_PAPER],
                   plain_rgb[dark][plus ? PALETTE_POS : PALETTE_NEG], (double)tone / PALETTE_TONES);
    }
    // at luminance .179, black and white text have the same contrast
    return luminance(palette_rgb(color - PALETTE_OVER + PALETTE_RAMP, dark)) > .179 ? 0x000000
                                                                                    : 0xffffff;
}

int palette_ramp(double darkness)
{
    const double x = darkness != darkness ? 0 : fmin(1, fmax(0, darkness));
    return PALETTE_RAMP + (int)floor(x * PALETTE_STEPS + .5);
}
int palette_weight(double w)
{
    return palette_ramp(w > 0 ? pow(w, .7) : 0);
}
int palette_signed(double x)
{
    const double a = x != x ? 0 : fmin(1, fabs(x));
    return (x < 0 ? PALETTE_MINUS : PALETTE_PLUS) + (int)floor(a * PALETTE_TONES + .5);
}
int palette_kind(int kind)
{
    static const int color[] = { 0, 6, 1, 5, 8, 7, 4, 2 }; // palette.js has the same
    enum { KINDS = sizeof color / sizeof *color };
    return kind >= 0 && kind < KINDS ? PALETTE_HEAD + color[kind] : PALETTE_TEXT2;
}
int palette_over(int color)
{
    return color >= PALETTE_RAMP && color < PALETTE_OVER ? color - PALETTE_RAMP + PALETTE_OVER
                                                         : PALETTE_TEXT;
}

double canvas_link_opacity(double t, bool dark, bool pale)
{
    const double x = fmin(1, fmax(0, t));
    if (dark) return (.14 + .86 * pow(x, .60)) * (pale ? .07 : 1);
    return (.05 + .95 * pow(x, .72)) * (pale ? .11 : 1);
}
double canvas_link_width(double t)
{
    return .6 + 3.6 * sqrt(fmin(1, fmax(0, t)));
}
