// SPDX-License-Identifier: MIT
// fuzz_view.c: draws attention between any tokens, with any weights, as pictures (SVG), as a page
// and in the terminal: each output is well-formed.  The input is four bytes of settings, then the
// tokens, separated by zero bytes.
// Inputs have up to 128 bytes.
#include "fuzz/fuzz_outputs.h"
#include <math.h>
#include <qkv/picture.h>

enum { TOKENS = 6, HEADS = 2, LAYERS = 2, WIDTH = 2 };

static float number(uint8_t b)
{
    static const float values[] = { 0, NAN, INFINITY, -INFINITY, 1e30f, 1e-30f, 1, -1 };
    return b < 200 ? (float)b / 64 : values[b & 7];
}

static void draw(const qkv_view *v, const uint8_t *set)
{
    static const char *const svg = MEMORY_FOLDER "/v.svg", *const html = MEMORY_FOLDER "/v.html";
    const int64_t key = 0, head[1] = { 0 };
    qkv_error err = { 0 };
    struct qkv_view_options o = { .special = set[0] & 1,
                                  .columns = 20 + set[1],
                                  .color = set[0] & 2,
                                  .utf8 = set[0] & 4,
                                  .truecolor = set[0] & 8,
                                  .all = set[0] & 16,
                                  .heads = set[0] & 64 ? head : NULL,
                                  .head_count = set[0] >> 7 };
    int names = 0;
    while (qkv_view_picture_name(names)) names++;
    o.view = qkv_view_picture_name(set[2] % names);
    qkv_status status = qkv_view_picture(v, svg, true, &o, set[0] & 32 ? &key : NULL, &err);
    if (status == QKV_ERR_USAGE || status == QKV_ERR_UNSUPPORTED)
        err = (qkv_error){ 0 };
    else
        fuzz_success(status, &err), fuzz_svg(svg);
    char *text = NULL;
    status = qkv_view_terminal(v, &text, &o, NULL);
    if (!status) fuzz_utf8(text);
    qkv_view_text_free(text);
    if (set[3] % 16) return; // a page is large
    o.view = NULL;
    fuzz_success(qkv_view_html(v, html, true, &o, NULL, &err), &err);
    fuzz_page(html, "about");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 8) return 0;
    struct fuzz_part part[TOKENS];
    struct qkv_view_token token[TOKENS] = { 0 };
    char *raw[TOKENS];
    const int64_t T = 1 + data[0] % TOKENS;
    fuzz_split(part, TOKENS, data + 4, size - 4);
    for (int i = 0; i < TOKENS; i++) {
        raw[i] = fuzz_string(&part[i]);
        FUZZ_CHECK(raw[i]);
        token[i] = (struct qkv_view_token){ .raw = raw[i],
                                            .text = i & 1 ? raw[i] : NULL,
                                            .text_bytes = i & 1 ? strlen(raw[i]) : 0,
                                            .special = !i,
                                            .part = i > 3 };
    }
    const struct qkv_view_text text = { .token = token, .tokens = T };
    const struct qkv_view_stack stack = { .name = "attention",
                                          .layers = LAYERS,
                                          .heads = HEADS,
                                          .head_width = WIDTH,
                                          .causal = data[1] & 1 };
    const struct qkv_view_shape shape = { raw[0], &text, 1, &stack, 1 };
    float q[TOKENS * HEADS * WIDTH], k[TOKENS * HEADS * WIDTH], weights[HEADS * TOKENS * TOKENS];
    for (size_t i = 0; i < sizeof q / sizeof q[0]; i++) {
        q[i] = number(data[i % size]);
        k[i] = number(data[(i * 3 + 1) % size]);
    }
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++)
        weights[i] = data[1] & 2 ? number(data[i % size]) : 1 / (float)T;
    qkv_view *v = NULL;
    qkv_error err = { 0 };
    fuzz_success(qkv_view_new(&v, &shape, &err), &err);
    qkv_status status = QKV_OK;
    for (int l = 0; l < LAYERS && !status; l++) {
        const struct qkv_view_layer_data seen = {
            .weights = weights, .q = q, .k = k, .scale = number(data[2])
        };
        status = qkv_view_layer(v, 0, l, &seen, &err);
    }
    FUZZ_CHECK(status == QKV_OK || status == QKV_ERR_USAGE);
    if (!status) draw(v, data);
    qkv_view_free(v);
    for (int i = 0; i < TOKENS; i++) free(raw[i]);
    return 0;
}
