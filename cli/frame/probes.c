// SPDX-License-Identifier: MIT
// probes.c: parses the value of --probe, and allocates arrays for the statistics that it requests.
#include "frame/probes.h"
#include <stdlib.h>
#include <string.h>

enum { WORD = 256, ROWS_MOST = 1 << 20, SIDE_MOST = 1 << 16 };

// ---- words -------------------------------------------------------------------------------------
static bool number(const char *text, int64_t least, int64_t most, int64_t *out)
{
    return cmd_parse_int(text, out) && *out >= least && *out <= most;
}

// Parses a list of row numbers, such as "0+5+8-10". Returns false if it is invalid; the numbers
// must ascend.
static bool rows(struct qkv_probe_request *w, int64_t **to, char *text)
{
    int64_t *at = NULL, n = 0;
    for (char *part = text; part;) {
        char *next = strchr(part, '+'), *dash = strchr(part, '-');
        int64_t from, end;
        if (next) *next++ = 0;
        if (dash && next && dash > next) dash = NULL;
        if (dash) *dash++ = 0;
        if (!number(part, n ? at[n - 1] + 1 : 0, INT32_MAX, &from) ||
            !(dash ? number(dash, from, INT32_MAX, &end) : (end = from, true)) ||
            n + end - from >= ROWS_MOST) {
            free(at);
            return false;
        }
        at = cmd_grow(at, (size_t)(n + end - from + 1), sizeof *at);
        while (from <= end) at[n++] = from++;
        part = next;
    }
    *to = at;
    w->row = at;
    w->rows = n;
    return true;
}

static bool one_word(struct qkv_probe_request *w, int64_t **row, char *word)
{
    char *value = strchr(word, '=');
    if (value) *value++ = 0;
    bool *const flags[] = { &w->received, &w->entropy, &w->distance };
    static const char *const names[] = { "received", "entropy", "distance" };
    for (int i = 0; i < 3 && !value; i++)
        if (!strcmp(word, names[i])) return !*flags[i] && (*flags[i] = true);
    if (!value) return false;
    if (!strcmp(word, "top")) return !w->top_k && number(value, 1, INT32_MAX, &w->top_k);
    if (!strcmp(word, "rows")) return !w->rows && rows(w, row, value);
    if (!strcmp(word, "tiles")) return !w->side && number(value, 1, SIDE_MOST, &w->side);
    if (!strcmp(word, "offsets"))
        return !w->offsets && (w->offsets = number(value, 0, INT32_MAX, &w->reach));
    return false;
}

qkv_status probes_parse(struct qkv_probe_request *w, int64_t **row, const char *option,
                        const char *text, qkv_error *err)
{
    *w = (struct qkv_probe_request){ 0 };
    *row = NULL;
    for (const char *p = text; p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL) {
        char word[WORD], shown[WORD];
        const size_t n = strcspn(p, ",");
        snprintf(word, sizeof word, "%.*s", (int)(n < WORD ? n : WORD), p);
        memcpy(shown, word, sizeof shown);
        if (n < WORD && one_word(w, row, word)) continue;
        free(*row);
        *row = NULL;
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "%s: unknown, invalid or repeated statistic, expected top=K, "
                         "rows=0+5+8-10 (ascending), received, entropy, distance, offsets=R or "
                         "tiles=N (N to %d), found '%.100s'",
                         option, SIDE_MOST, shown);
    }
    return QKV_OK;
}

// ---- arrays ------------------------------------------------------------------------------------
int probes_list(struct probe_array to[PROBE_ARRAYS], const struct qkv_probe *p, int64_t T,
                int64_t S)
{
    const int64_t line = 2 * p->reach + 1, side = p->side;
    const struct probe_array all[PROBE_ARRAYS] = {
        { "top_weight", QKV_F32, 2, { T, p->top_k }, p->top_weight, T * p->top_k },
        { "top_key", QKV_I32, 2, { T, p->top_k }, p->top_key, T * p->top_k },
        { "rows", QKV_F32, 2, { p->rows, S }, p->row_weights, p->rows * S },
        { "received", QKV_F32, 1, { S }, p->received, S },
        { "entropy", QKV_F32, 1, { T }, p->entropy, T },
        { "distance", QKV_F32, 1, { T }, p->distance, T },
        { "offsets", QKV_F32, 1, { line }, p->offsets, line },
        { "tile_max", QKV_F32, 2, { side, side }, p->tile_max, side * side },
        { "tile_mean", QKV_F32, 2, { side, side }, p->tile_mean, side * side },
    };
    int n = 0;
    for (int i = 0; i < PROBE_ARRAYS; i++)
        if (all[i].at) to[n++] = all[i];
    return n;
}

// Allocates an array of 4-byte numbers if it is `wanted`. If memory is exhausted, the command ends.
static void *numbers(bool wanted, int64_t heads, int64_t rows_of, int64_t each)
{
    if (!wanted) return NULL;
    return cmd_alloc(array_count(3, (int64_t[]){ heads, rows_of, each }), sizeof(float));
}

void probes_shape(struct qkv_probe *p, const struct qkv_probe_request *w, int64_t T, int64_t S)
{
    static float some;
    static int32_t one;
    *p = (struct qkv_probe){ .top_k = w->top_k < S ? w->top_k : S,
                             .top_weight = w->top_k ? &some : NULL,
                             .top_key = w->top_k ? &one : NULL,
                             .row = w->row,
                             .received = w->received ? &some : NULL,
                             .entropy = w->entropy ? &some : NULL,
                             .distance = w->distance ? &some : NULL,
                             .reach = w->reach,
                             .offsets = w->offsets ? &some : NULL,
                             .side = w->side,
                             .tile_max = w->side ? &some : NULL,
                             .tile_mean = w->side ? &some : NULL };
    while (p->rows < w->rows && w->row[p->rows] < T) p->rows++;
    p->row_weights = p->rows ? &some : NULL;
}

void probes_new(struct qkv_probe *p, const struct qkv_probe_request *w, int64_t heads, int64_t T,
                int64_t S)
{
    probes_shape(p, w, T, S);
    p->top_weight = numbers(w->top_k, heads, T, p->top_k);
    p->top_key = numbers(w->top_k, heads, T, p->top_k);
    p->row_weights = numbers(p->rows, heads, p->rows, S);
    p->received = numbers(w->received, heads, 1, S);
    p->entropy = numbers(w->entropy, heads, 1, T);
    p->distance = numbers(w->distance, heads, 1, T);
    p->offsets = numbers(w->offsets, heads, 2, w->reach + 1);
    p->tile_max = numbers(w->side, heads, w->side, w->side);
    p->tile_mean = numbers(w->side, heads, w->side, w->side);
}

void probes_free(struct qkv_probe *p)
{
    void *const all[] = { p->top_weight, p->top_key, p->row_weights, p->received, p->entropy,
                          p->distance,   p->offsets, p->tile_max,    p->tile_mean };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    *p = (struct qkv_probe){ 0 };
}
