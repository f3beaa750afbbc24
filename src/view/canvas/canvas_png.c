// SPDX-License-Identifier: MIT
// canvas_png.c: writes a canvas as a PNG file with the painter of libqkv_png, which it opens
// (png/png_painter.h).
#include "view/canvas/canvas.h"
#include "view/page/compress.h"
#include "view/png/png_painter.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { SIDE_MOST = 32767 };

// ---- the painter --------------------------------------------------------------------------------
static struct {
    pthread_mutex_t lock;
    const struct png_painter *painter; // NULL: not opened yet
} png = { .lock = PTHREAD_MUTEX_INITIALIZER };

static qkv_status open_painter(qkv_error *err)
{
    static const struct qkv_library painter = {
        .name = QKV_PNG_LIBRARY,
        .what = "PNG",
        .hint = "; SVG needs no library",
        .none = "a command without shared libraries writes no PNG, expected .svg",
    };
    static const struct png_host host = { qkv_alloc_zero, qkv_free, palette_rgb,
                                          canvas_link_opacity, canvas_right_to_left };
    png_painter_function *function = NULL;
    void *library = NULL;
    const qkv_status status = qkv_library_open(&library, &painter, err);
    if (status) return status;
    *(void **)&function = qkv_library_function(library, PNG_PAINTER_NAME);
    if (function) png.painter = function(PNG_PAINTER_VERSION, &host);
    if (png.painter) return QKV_OK;
    return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                    "PNG needs the library %s of the same version of qkv, found another version",
                    QKV_PNG_LIBRARY);
}

// Opens the painter unless it is open. After a failure the next call tries again.
static qkv_status need_painter(qkv_error *err)
{
    pthread_mutex_lock(&png.lock);
    const qkv_status status = png.painter ? QKV_OK : open_painter(err);
    pthread_mutex_unlock(&png.lock);
    return status;
}

struct canvas_fonts *canvas_fonts_new(bool *missing)
{
    const qkv_status status = need_painter(NULL);
    *missing = status && status != QKV_ERR_LIMIT;
    return status ? NULL : png.painter->fonts_new();
}

void canvas_fonts_free(struct canvas_fonts *f)
{
    if (f) png.painter->fonts_free(f);
}

double canvas_fonts_width(struct canvas_fonts *f, const char *text, size_t n, int size,
                          unsigned how)
{
    return png.painter->fonts_width(f, text, n, size, how);
}

// ---- the file -----------------------------------------------------------------------------------
static void put_u32(struct view_text *t, uint32_t x)
{
    const char bytes[4] = { (char)(x >> 24), (char)(x >> 16), (char)(x >> 8), (char)x };
    view_put(t, bytes, 4);
}

// Writes a chunk, of which c has the type and the data, and frees c.
static void put_chunk(struct view_text *t, struct view_text *c)
{
    t->failed |= c->failed;
    if (!c->failed) {
        put_u32(t, (uint32_t)(c->used - 4));
        view_put(t, c->at, (size_t)c->used);
        put_u32(t, view_crc32((const uint8_t *)c->at, c->used));
    }
    view_text_free(c);
}

// Writes an iTXt chunk with a keyword and a text, not compressed and without a language.
static void put_words(struct view_text *t, const char *keyword, const struct view_text *words)
{
    struct view_text c = { 0 };
    view_put(&c, "iTXt", 4);
    view_put(&c, keyword, strlen(keyword) + 1);
    view_put(&c, "\0\0\0\0", 4);
    if (words->at) view_plain_text(&c, words->at, (size_t)words->used, 1 << 16);
    put_chunk(t, &c);
}

// Writes a pHYs chunk: the pixels per metre of the printed width.
static void put_density(struct view_text *t, const struct canvas *s)
{
    const uint32_t n = (uint32_t)(ceil(s->width) * canvas_scale(s) / s->mm * 1000 + .5);
    struct view_text c = { 0 };
    view_put(&c, "pHYs", 4);
    put_u32(&c, n);
    put_u32(&c, n);
    view_put(&c, "\1", 1); // the unit is the metre
    put_chunk(t, &c);
}

struct stream {
    struct view_text *t;
    const struct canvas *s;
    int64_t bytes;
};
enum { HEADER = 33 }; // bytes of the signature and the IHDR chunk; our text chunks follow

static bool store(void *ctx, const void *data, size_t n)
{
    struct stream *to = ctx;
    for (size_t i = 0; i < n;) {
        const size_t left = to->bytes < HEADER ? (size_t)(HEADER - to->bytes) : n - i;
        const size_t part = left < n - i ? left : n - i;
        view_put(to->t, (const char *)data + i, part);
        i += part;
        to->bytes += (int64_t)part;
        if (to->bytes == HEADER) {
            if (to->s->mm > 0) put_density(to->t, to->s);
            put_words(to->t, "Title", &to->s->title);
            put_words(to->t, "Description", &to->s->sentence);
        }
    }
    return !to->t->failed;
}

qkv_status canvas_png(struct view_text *t, const struct canvas *s, const char *path,
                      enum qkv_view_theme theme, qkv_error *err)
{
    const double w = ceil(s->width) * canvas_scale(s), h = ceil(s->height) * canvas_scale(s);
    const qkv_status status = canvas_failed(s) ? QKV_OK : need_painter(err);
    if (status) return status;
    if (canvas_failed(s)) return qkv_fail_memory(err, path);
    if (!s->fonts)
        return qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = path },
                        "the library %s could not be read when the picture began", QKV_PNG_LIBRARY);
    if (!(w >= 1 && h >= 1 && w <= SIDE_MOST && h <= SIDE_MOST))
        return qkv_fail(err, QKV_ERR_LIMIT, NULL,
                        "picture too large for PNG, expected at most %d pixels a side, found %.0f "
                        "x %.0f (.svg has no such limit)",
                        SIDE_MOST, w, h);
    struct stream to = { t, s, 0 };
    const char *why = png.painter->paint(s, theme == QKV_THEME_DARK, store, &to);
    if (!why) return QKV_OK;
    if (t->failed) return qkv_fail_memory(err, path);
    // cairo also says that memory is exhausted if it cannot read a font
    return qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_location){ .file = path },
                    "cairo cannot paint the picture with the fonts of this machine: %s", why);
}
