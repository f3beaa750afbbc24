// SPDX-License-Identifier: MIT
// print.c: prints cells of tables, and texts and numbers in JSON.
#include "frame/cmd.h"
#include <langinfo.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

// ---- terminal ----------------------------------------------------------------------------------
int cmd_columns(void)
{
    int64_t n = 0;
    const char *text = getenv("COLUMNS");
    struct winsize w;
    if (!text || !cmd_parse_int(text, &n)) n = 0;
    if (n <= 0 && ioctl(1, TIOCGWINSZ, &w) == 0) n = w.ws_col;
    if (n <= 0) n = 80;
    return n < 20 ? 20 : n > 500 ? 500 : (int)n;
}

bool cmd_color(FILE *to)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(to)) && !(no && *no) && term && *term && strcmp(term, "dumb") != 0;
}

bool cmd_utf8(void)
{
    return !strcmp(nl_langinfo(CODESET), "UTF-8");
}

bool cmd_dark(void)
{
    const char *c = getenv("COLORFGBG"); // for example "15;0": the colors of text and of background
    const char *ground = c ? strrchr(c, ';') : NULL;
    return !ground || (strcmp(ground, ";7") != 0 && strcmp(ground, ";15") != 0);
}

size_t cmd_control_bytes(const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    const size_t n = qkv_utf8_bytes(text, bytes);
    if (!n) return p[0] < 0xA0;
    if (n == 1) return p[0] < 0x20 || p[0] == 0x7f;
    if (n == 2) return (p[0] == 0xC2 && p[1] < 0xA0) || (p[0] == 0xD8 && p[1] == 0x9C) ? 2 : 0;
    if (n != 3 || p[0] != 0xE2) return 0;
    const bool mark = p[1] == 0x80 && (p[2] == 0x8E || p[2] == 0x8F);
    const bool line = p[1] == 0x80 && p[2] >= 0xA8 && p[2] <= 0xAE;
    const bool isolate = p[1] == 0x81 && p[2] >= 0xA6 && p[2] <= 0xA9;
    return mark || line || isolate ? 3 : 0;
}

// Returns the length in bytes of the first character of text[bytes], bytes > 0, and sets *columns
// to its width. A byte that is printed as \xNN has 4 columns.
static size_t character(const char *text, size_t bytes, int *columns)
{
    const size_t control = cmd_control_bytes(text, bytes);
    *columns = control ? (int)(4 * control) : 1;
    if (control) return control;
    if ((unsigned char)*text < 0x80 || !cmd_utf8()) return 1;
    wchar_t w;
    mbstate_t state = { 0 };
    const size_t n = mbrtowc(&w, text, bytes, &state);
    if (n == (size_t)-1 || n == (size_t)-2 || n == 0) {
        *columns = 4;
        return 1;
    }
    const int width = wcwidth(w);
    *columns = width < 0 ? (int)(4 * n) : width;
    return n;
}

static void put_bytes(FILE *to, const char *text, size_t n, bool plain)
{
    for (size_t i = 0; i < n; i++)
        plain ? (void)fputc(text[i], to) : (void)fprintf(to, "\\x%02x", (unsigned char)text[i]);
}

void cmd_print_text(FILE *to, const char *text, size_t bytes)
{
    const bool raw = !isatty(fileno(to));
    for (size_t n; bytes; text += n, bytes -= n) {
        const size_t control = cmd_control_bytes(text, bytes);
        n = control ? control : 1;
        put_bytes(to, text, n, raw || !control || *text == '\n' || *text == '\t');
    }
}

void cmd_print_name(FILE *to, const char *name)
{
    if (isatty(fileno(to)))
        cmd_print_cell(to, name, strlen(name), 0, 0);
    else
        fputs(name, to);
}

int cmd_width(const char *text, size_t bytes)
{
    int64_t sum = 0;
    for (int w; bytes && sum < 1 << 20;) {
        const size_t n = character(text, bytes, &w);
        sum += w;
        text += n;
        bytes -= n;
    }
    return (int)sum;
}

void cmd_print_cell(FILE *to, const char *text, size_t bytes, int width, int most)
{
    int full = cmd_width(text, bytes), limit = most && full > most ? most - 3 : full, used = 0;
    const int shown = most && full > most ? most : full;
    for (int pad = shown; width < 0 && pad < -width; pad++) fputc(' ', to);
    for (int w; bytes;) {
        const size_t n = character(text, bytes, &w);
        if (used + w > limit) break;
        put_bytes(to, text, n, w != (int)(4 * n));
        used += w;
        text += n;
        bytes -= n;
    }
    if (limit < full) {
        fputs("...", to);
        used += 3;
    }
    for (int pad = used; width > 0 && pad < width; pad++) fputc(' ', to);
    for (int pad = used; width < 0 && pad < shown; pad++) fputc(' ', to);
}

const char *cmd_bytes(char out[CMD_BYTES], double x, int unit)
{
    static const char *const units[2][5] = { { "B", "kB", "MB", "GB", "TB" },
                                             { "B", "KiB", "MiB", "GiB", "TiB" } };
    int i = 0;
    for (; i < 4 && x >= 999.5; i++) x /= unit;
    snprintf(out, CMD_BYTES, "%.*f %s", x < 9.95 && i ? 1 : 0, x, units[unit == 1024][i]);
    return out;
}

// ---- JSON --------------------------------------------------------------------------------------
char *cmd_valid_text(const char *text)
{
    size_t left = strlen(text), n;
    char *copy = cmd_alloc(3 * left + 1, 1), *out = copy;
    for (; left; text += n, left -= n) {
        n = qkv_utf8_bytes(text, left);
        if (n)
            memcpy(out, text, n);
        else
            memcpy(out, "\xEF\xBF\xBD", 3);
        out += n ? n : 3;
        n += !n;
    }
    *out = 0;
    return copy;
}

char *cmd_subscript(char out[CMD_SUBSCRIPT], int64_t n)
{
    char digits[24], *at = out;
    snprintf(digits, sizeof digits, "%lld", (long long)n);
    for (const char *d = digits; *d; d++) { // U+2080 is the subscript 0
        memcpy(at, (char[]){ '\xE2', '\x82', (char)(0x80 + *d - '0') }, 3);
        at += 3;
    }
    *at = 0;
    return out;
}

void cmd_json_text(FILE *to, const char *text, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)text;
    fputc('"', to);
    while (bytes) {
        const size_t n = qkv_utf8_bytes((const char *)p, bytes);
        if (!n)
            fputs("\\ufffd", to);
        else if (*p == '"' || *p == '\\')
            fprintf(to, "\\%c", *p);
        else if (*p == '\n')
            fputs("\\n", to);
        else if (*p == '\t')
            fputs("\\t", to);
        else if (cmd_control_bytes((const char *)p, bytes))
            fprintf(to, "\\u%04x",
                    n == 1   ? p[0]
                    : n == 2 ? (p[0] & 0x1F) << 6 | (p[1] & 0x3F)
                             : (p[0] & 0xF) << 12 | (p[1] & 0x3F) << 6 | (p[2] & 0x3F));
        else
            fwrite(p, 1, n, to);
        p += n ? n : 1;
        bytes -= n ? n : 1;
    }
    fputc('"', to);
}

void cmd_json_float(FILE *to, float x)
{
    char text[32];
    if (!isfinite(x)) {
        fputs("null", to);
        return;
    }
    for (int d = 6; d <= 9; d++) {
        snprintf(text, sizeof text, "%.*g", d, (double)x);
        if (strtof(text, NULL) == x) break;
    }
    fputs(text, to);
}

void cmd_json_number(FILE *to, const char *name, double x)
{
    fprintf(to, ",\"%s\":", name);
    isfinite(x) ? (void)fprintf(to, "%.9g", x) : (void)fputs("null", to);
}

static int by_rank(const void *a, const void *b)
{
    const struct cmd_ranked *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

void cmd_rank(struct cmd_ranked *r, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) r[i] = (struct cmd_ranked){ x[i], i };
    qsort(r, (size_t)n, sizeof *r, by_rank);
}
