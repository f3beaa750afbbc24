// SPDX-License-Identifier: MIT
// llama2c.c: reads checkpoints of llama2.c as named tensors, and their header as the config of a
// Llama.
//
//   version 0   begins with seven sizes as int32: width, inner width, layers, heads, key heads,
//               vocabulary, positions; if the vocabulary is negative, the output projection has its
//               own weights; floats follow
//   version 1   begins with "24ka", int32 1, the seven sizes and a byte (1: no own weights of the
//               output projection), padded with 0 to 256 bytes; floats follow
//   version 2   begins as version 1, with an int32, the group size, after the byte; each matrix is
//               stored as bytes, followed by one float per group
//
// Tensors have the names and shapes of Llama in transformers.  For rotary positions llama2.c
// rotates the pairs (2i, 2i + 1) of a head of width E, but transformers the pairs (i, i + E/2), so
// the rows of the q and k weights are reordered in a copy.
// Source: export.py and run.c of karpathy/llama2.c.
#include "file/set.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NAME "model.bin"
enum { SIZES = 7, HEAD0 = 4 * SIZES, HEAD = 256, TEXT = 96, FIRST = 8, FLAG = 36, GROUP = 37 };
static const char magic[] = { '2', '4', 'k', 'a' };

struct checkpoint {
    const struct qkv_map *map;
    int version;
    int64_t D, M, L, H, G, V, P; // the seven sizes in their order
    bool own;                    // the output projection has its own weights
    int64_t group;               // version 2
    qkv_error *err;
};

enum what { NORM, MATRIX, TURNED };
// One kind of tensor in the file, with its name and shape.  If every layer has such a tensor, the
// tensors of all layers are stored one after another.
struct part {
    const char *name; // '#': the layer
    enum what what;
    int64_t rows, columns; // columns 0: a vector
    int64_t heads;         // of TURNED
    bool each;             // in every layer
};
enum { PARTS_MOST = 16 };
struct layout {
    struct part part[PARTS_MOST];
    int n;
};

static qkv_status fail_at(const struct checkpoint *c, qkv_status status, int64_t at,
                          const char *what, const char *want, int64_t found)
{
    return qkv_fail(
        c->err, status,
        &(struct qkv_location){ .file = c->map->path, .has_offset = true, .offset = at },
        "%s, expected %s, found %" PRId64, what, want, found);
}

static int64_t int_at(const struct checkpoint *c, int64_t at)
{
    const uint8_t *p = c->map->data + at;
    const uint32_t bits =
        (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return (int64_t)bits - (bits >> 31 ? (int64_t)1 << 32 : 0);
}

// ---- header ------------------------------------------------------------------------------------
static qkv_status read_sizes(struct checkpoint *c)
{
    const struct {
        const char *what;
        int64_t *to, most;
    } rows[SIZES] = {
        { "invalid width", &c->D, QKV_WIDTH_MAX },
        { "invalid inner width", &c->M, QKV_INNER_MAX },
        { "invalid number of layers", &c->L, QKV_LAYERS_MAX },
        { "invalid number of heads", &c->H, QKV_HEADS_MAX },
        { "invalid number of key/value heads", &c->G, QKV_HEADS_MAX },
        { "invalid size of the vocabulary", &c->V, QKV_VOCAB_MAX },
        { "invalid number of positions", &c->P, QKV_POSITIONS_MAX },
    };
    const int64_t from = c->version ? FIRST : 0;
    for (int i = 0; i < SIZES; i++) {
        char want[48];
        const int64_t at = from + 4 * i, n = int_at(c, at);
        // in version 0, the sign of the vocabulary says whether the output projection has its own
        // weights
        const bool sign = !c->version && rows[i].to == &c->V;
        *rows[i].to = sign && n < 0 ? -n : n;
        if (sign) c->own = n < 0;
        snprintf(want, sizeof want, "1 .. %" PRId64 "%s", rows[i].most,
                 sign ? " or minus such a number" : "");
        if (*rows[i].to < 1) return fail_at(c, QKV_ERR_FORMAT, at, rows[i].what, want, n);
        if (*rows[i].to > rows[i].most) return fail_at(c, QKV_ERR_LIMIT, at, rows[i].what, want, n);
    }
    char want[96];
    if (c->D % c->H || c->D / c->H % 2) {
        snprintf(want, sizeof want,
                 "a divisor of the width %" PRId64 " for which the head width is even", c->D);
        return fail_at(c, QKV_ERR_FORMAT, from + 12, "invalid number of heads", want, c->H);
    }
    snprintf(want, sizeof want, "a divisor of the %" PRId64 " query heads", c->H);
    return c->H % c->G == 0 ? QKV_OK
                            : fail_at(c, QKV_ERR_FORMAT, from + 16,
                                      "invalid number of key/value heads", want, c->G);
}

static qkv_status read_header(struct checkpoint *c)
{
    const int64_t size = (int64_t)c->map->size;
    if (size >= 4 && memcmp(c->map->data, magic, sizeof magic) == 0) {
        if (size < HEAD)
            return fail_at(c, QKV_ERR_FORMAT, 0, "file of llama2.c too short",
                           "a header of 256 bytes", size);
        const int64_t version = int_at(c, 4);
        if (version != 1 && version != 2)
            return fail_at(c, QKV_ERR_UNSUPPORTED, 4,
                           "unsupported version of a llama2.c checkpoint", "1 or 2", version);
        c->version = (int)version;
        const uint8_t shared = c->map->data[FLAG];
        if (shared > 1)
            return fail_at(c, QKV_ERR_FORMAT, FLAG, "invalid flag of the shared output projection",
                           "0 or 1", shared);
        c->own = !shared;
    } else if (size < HEAD0) {
        return fail_at(c, QKV_ERR_FORMAT, 0, "file of llama2.c too short",
                       "a checkpoint header of 28 bytes", size);
    }
    qkv_status status = read_sizes(c);
    if (status || c->version < 2) return status;
    char want[64];
    c->group = int_at(c, GROUP);
    snprintf(want, sizeof want, "a divisor of the width %" PRId64, c->D);
    return c->group > 0 && c->D % c->group == 0
               ? QKV_OK
               : fail_at(c, QKV_ERR_FORMAT, GROUP, "invalid size of a quantization group", want,
                         c->group);
}

// ---- layout of the file ------------------------------------------------------------------------
static void add_rows(struct layout *l, const char *name, enum what what, int64_t rows,
                     int64_t columns, int64_t heads)
{
    l->part[l->n++] = (struct part){ .name = name,
                                     .what = what,
                                     .rows = rows,
                                     .columns = columns,
                                     .heads = heads,
                                     .each = name && strchr(name, '#') };
}

static void add_attention(struct layout *l, const struct checkpoint *c)
{
    const int64_t D = c->D, E = D / c->H;
    add_rows(l, "model.layers.#.self_attn.q_proj.weight", TURNED, D, D, c->H);
    add_rows(l, "model.layers.#.self_attn.k_proj.weight", TURNED, c->G * E, D, c->G);
    add_rows(l, "model.layers.#.self_attn.v_proj.weight", MATRIX, c->G * E, D, 0);
    add_rows(l, "model.layers.#.self_attn.o_proj.weight", MATRIX, D, D, 0);
}

static void lay_out(struct layout *l, const struct checkpoint *c)
{
    static const char word[] = "model.embed_tokens.weight", norm[] = "model.norm.weight",
                      input_norm[] = "model.layers.#.input_layernorm.weight",
                      attention_norm[] = "model.layers.#.post_attention_layernorm.weight";
    const int64_t D = c->D, M = c->M;
    l->n = 0;
    if (!c->version) add_rows(l, word, MATRIX, c->V, D, 0);
    add_rows(l, input_norm, NORM, D, 0, 0);
    if (c->version) {
        add_rows(l, attention_norm, NORM, D, 0, 0);
        add_rows(l, norm, NORM, D, 0, 0);
        add_rows(l, word, MATRIX, c->V, D, 0);
    }
    add_attention(l, c);
    if (!c->version) add_rows(l, attention_norm, NORM, D, 0, 0);
    add_rows(l, "model.layers.#.mlp.gate_proj.weight", MATRIX, M, D, 0);
    add_rows(l, "model.layers.#.mlp.down_proj.weight", MATRIX, D, M, 0);
    add_rows(l, "model.layers.#.mlp.up_proj.weight", MATRIX, M, D, 0);
    if (!c->version) {
        add_rows(l, norm, NORM, D, 0, 0);
        // the file contains sines and cosines for every position, which qkv does not use
        add_rows(l, NULL, NORM, c->P, D / c->H, 0);
    }
    if (c->own) add_rows(l, "lm_head.weight", MATRIX, c->V, D, 0);
}

static int64_t numbers(const struct part *p)
{
    return p->rows * qkv_max64(p->columns, 1); // 2^46 at most, by the limits of the sizes
}
// Returns the number of bytes that one tensor of this kind (of one layer) has in the file.
static int64_t stored(const struct checkpoint *c, const struct part *p)
{
    const int64_t n = numbers(p);
    return c->group && p->what != NORM ? n + n / c->group * 4 : n * 4;
}
// Returns true if the tensor must be converted to a copy, false if it is used in the file.
static bool formed(const struct checkpoint *c, const struct part *p)
{
    return p->what == TURNED || (c->group && p->what == MATRIX);
}

// Compares the size of the file with the sizes in its header.  *tensors receives the number of
// tensors, *copy the number of bytes of the tensors that are converted to a copy.
static qkv_status check_layout(const struct checkpoint *c, const struct layout *l, int64_t *tensors,
                               int64_t *copy)
{
    const int64_t size = (int64_t)c->map->size;
    int64_t end = c->version ? HEAD : HEAD0;
    *tensors = *copy = 0;
    for (int i = 0; i < l->n; i++) {
        const struct part *p = &l->part[i];
        const int64_t times = p->each ? c->L : 1, begin = end; // 2^10 times 2^48 bytes
        end += times * stored(c, p);
        if (formed(c, p)) *copy += times * numbers(p) * 4;
        if (p->name) *tensors += times;
        if (end > size) {
            const struct qkv_location at = { .file = c->map->path,
                                             .has_offset = true,
                                             .offset = size };
            return qkv_fail(c->err, QKV_ERR_FORMAT, &at,
                            "truncated checkpoint of llama2.c, expected %s at bytes %" PRId64
                            "..%" PRId64 ", found the end of the file",
                            p->name ? p->name : "the table of rotary positions", begin, end);
        }
    }
    if (end == size) return QKV_OK;
    const struct qkv_location at = { .file = c->map->path, .has_offset = true, .offset = end };
    const bool projection = !c->own && size - end == c->V * c->D * 4 && !c->group;
    return qkv_fail(
        c->err, QKV_ERR_FORMAT, &at,
        "bytes after the last tensor, expected the end of the file, found %" PRId64 " more bytes%s",
        size - end,
        projection ? ", which is the size of an output projection that the header does not announce"
                   : "");
}

// ---- tensors -----------------------------------------------------------------------------------
static float float_at(const uint8_t *p)
{
    float x;
    memcpy(&x, p, sizeof x);
    return x;
}

// Converts n elements of a matrix, from element `first` on, to floats in to[n].
static void widen(float *to, const struct checkpoint *c, const uint8_t *from, int64_t all,
                  int64_t first, int64_t n)
{
    if (!c->group) {
        memcpy(to, from + first * 4, (size_t)n * sizeof *to);
        return;
    }
    const uint8_t *scale = from + all;
    for (int64_t i = first; i < first + n; i++)
        to[i - first] = (float)(int8_t)from[i] * float_at(scale + i / c->group * 4);
}

static void form(float *to, const struct checkpoint *c, const struct part *p, const uint8_t *from)
{
    const int64_t all = numbers(p), D = p->columns;
    if (p->what != TURNED) {
        widen(to, c, from, all, 0, all);
        return;
    }
    const int64_t E = p->rows / p->heads;
    for (int64_t r = 0; r < p->rows; r++) {
        const int64_t e = r % E, row = r - e + e % 2 * (E / 2) + e / 2;
        widen(to + row * D, c, from, all, r * D, D);
    }
}

static void fill_tensors(struct qkv_tensors *t, struct qkv_source *src, const struct checkpoint *c,
                         const struct layout *l)
{
    const uint8_t *from = c->map->data + (c->version ? HEAD : HEAD0);
    float *copy = src->copy;
    char *text = src->text;
    for (int i = 0; i < l->n; i++) {
        const struct part *p = &l->part[i];
        const char *mark = p->each ? strchr(p->name, '#') : NULL;
        for (int64_t layer = 0; layer < (p->each ? c->L : 1); layer++, from += stored(c, p)) {
            if (!p->name) continue;
            struct qkv_tensor *x = &t->all[t->n++];
            *x = (struct qkv_tensor){ .name = text,
                                      .dtype = QKV_F32,
                                      .rank = p->columns ? 2 : 1,
                                      .shape = { p->rows, p->columns },
                                      .data = from,
                                      .bytes = (size_t)numbers(p) * sizeof(float) };
            if (mark)
                snprintf(text, TEXT, "%.*s%" PRId64 "%s", (int)(mark - p->name), p->name, layer,
                         mark + 1);
            else
                snprintf(text, TEXT, "%s", p->name);
            text += TEXT;
            if (!formed(c, p)) continue;
            form(copy, c, p, from);
            x->data = copy;
            copy += numbers(p);
        }
    }
    src->n = t->n - src->first;
}

qkv_status qkv_llama2c_read(struct qkv_tensors *t, struct qkv_source *src, qkv_error *err)
{
    struct checkpoint c = { .map = &src->map, .err = err };
    struct layout l;
    int64_t tensors, copy;
    qkv_status status = read_header(&c);
    if (status) return status;
    lay_out(&l, &c);
    status = check_layout(&c, &l, &tensors, &copy);
    if (status) return status;
    src->first = t->n;
    src->text = qkv_alloc((size_t)tensors, TEXT);
    src->copy = qkv_alloc((size_t)copy, 1);
    if (!src->text || !src->copy ||
        !qkv_reserve((void **)&t->all, &t->capacity, t->n + tensors, sizeof *t->all))
        return qkv_fail_memory(err, src->map.path);
    fill_tensors(t, src, &c, &l);
    return QKV_OK;
}

// ---- config ------------------------------------------------------------------------------------
bool qkv_llama2c_is(const struct qkv_map *m)
{
    const char *slash = strrchr(m->path, '/'), *name = slash ? slash + 1 : m->path;
    const size_t n = strlen(name);
    if (m->size >= sizeof magic && memcmp(m->data, magic, sizeof magic) == 0) return true;
    return n > 4 && strcmp(name + n - 4, ".bin") == 0 && strncmp(name, "pytorch_model", 13) != 0;
}

bool qkv_llama2c_find(char path[QKV_PATH], const char *place)
{
    const size_t n = strlen(place);
    if (n > 4 && n < QKV_PATH && strcmp(place + n - 4, ".bin") == 0) {
        memcpy(path, place, n + 1);
        return true;
    }
    char other[QKV_PATH];
    static const char *const first[] = { "config.json", "model.safetensors",
                                         "model.safetensors.index.json",
                                         QKV_EIGHT_NAME ".safetensors",
                                         QKV_EIGHT_NAME ".safetensors.index.json" };
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        if (qkv_path_join(other, place, first[i], NULL) || qkv_path_may_exist(other)) return false;
    return !qkv_path_join(path, place, NAME, NULL) && qkv_path_may_exist(path);
}

qkv_status qkv_llama2c_config(json_t **out, const char *path, qkv_error *err)
{
    struct qkv_map m = { 0 };
    struct checkpoint c = { .map = &m, .err = err };
    *out = NULL;
    qkv_status status = qkv_map_open(&m, path, false, err);
    if (status) return status;
    status = read_header(&c);
    if (!status)
        *out = json_pack("{ss si si si si si si si si sf sf ss sb si si}", "model_type", "llama",
                         "hidden_size", (int)c.D, "intermediate_size", (int)c.M,
                         "num_hidden_layers", (int)c.L, "num_attention_heads", (int)c.H,
                         "num_key_value_heads", (int)c.G, "head_dim", (int)(c.D / c.H),
                         "vocab_size", (int)c.V, "max_position_embeddings", (int)c.P,
                         "rms_norm_eps", 1e-5, "rope_theta", 10000.0, "hidden_act", "silu",
                         "tie_word_embeddings", !c.own, "bos_token_id", 1, "eos_token_id", 2);
    if (!status && !*out) status = qkv_fail_memory(err, path);
    qkv_map_close(&m);
    return status;
}
