// SPDX-License-Identifier: MIT
// config_attention.c: reads the keys of config.json for rotary positions, their scaling, windows,
// and the layers that have a window.
//
//   rope_theta                  is at the top level, or inside one of the next two, which then wins
//   rope_parameters { rope_type, rope_theta, factor, ... }        is the current form
//   rope_scaling    { rope_type or type, factor, ... } or null    is the older form; if both forms
//                                                                 exist, the older one is used,
//                                                                 with its rope_theta; {}: absent
//
// Su et al. 2021 (arXiv 2104.09864); linear: Chen et al. 2023 (arXiv 2306.15595); yarn: Peng et al.
// 2023 (arXiv 2309.00071); llama3: Dubey et al. 2024 (arXiv 2407.21783); longrope: Ding et al. 2024
// (arXiv 2402.13753).
#include "model/family/description.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Reads the number under `key`, which must be in min .. max. If the key is absent, need true: this
// is an error; need false: *out does not change.
static bool number(const struct qkv_json_at *at, const char *key, bool need, double *out,
                   double min, double max)
{
    double x = *out;
    char path[256];
    if (!qkv_json_real(at, key, need, &x)) return false;
    if (json_is_number(json_object_get(at->object, key)) && !(x >= min && x <= max)) {
        snprintf(path, sizeof path, "%s.%s", at->path, key);
        qkv_fail(at->err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = at->file, .path = path },
                 "number out of range, expected %g .. %g, found %g", min, max, x);
        return false;
    }
    *out = x;
    return true;
}

static bool refuse(const struct qkv_json_at *at, qkv_status status, const char *key,
                   const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s.%s", at->path, key);
    qkv_fail(at->err, status, &(struct qkv_location){ .file = at->file, .path = path }, "%s", text);
    return false;
}

// Reads the key rope_type, or `type`, its older name. If the type is unsupported, the error names
// it.
static bool scaling_kind(struct qkv_rope_scaling *r, const struct qkv_json_at *at)
{
    static const struct {
        const char *name;
        enum qkv_rope_scaling_kind kind;
    } rows[] = { { "default", QKV_ROPE_PLAIN },
                 { "linear", QKV_ROPE_LINEAR },
                 { "llama3", QKV_ROPE_LLAMA3 },
                 { "yarn", QKV_ROPE_YARN },
                 { "longrope", QKV_ROPE_LONG } };
    const char *key = json_object_get(at->object, "rope_type") ? "rope_type" : "type";
    const char *text = NULL;
    if (!qkv_json_text(at, key, false, &text)) return false;
    if (!text) return true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(text, rows[i].name) == 0) {
            r->kind = rows[i].kind;
            return true;
        }
    char says[256];
    snprintf(says, sizeof says,
             "unsupported scaling of rotary positions, expected one of default, linear, llama3, "
             "yarn, longrope, found \"%.64s\"",
             text);
    return refuse(at, QKV_ERR_UNSUPPORTED, key, says);
}

// Refuses scaled positions, for families that have none.
static bool check_plain(const struct qkv_json_at *at)
{
    struct qkv_rope_scaling how = { 0 };
    if (!scaling_kind(&how, at)) return false;
    if (!how.kind) return true;
    const char *key = json_object_get(at->object, "rope_type") ? "rope_type" : "type";
    char says[256];
    snprintf(says, sizeof says,
             "unsupported rotary positions for this family, expected \"default\", found \"%.64s\"",
             json_string_value(json_object_get(at->object, key)));
    return refuse(at, QKV_ERR_UNSUPPORTED, key, says);
}

// Reads attention_factor, the factor of cosines and sines. If it is absent, it is 0.1 ln(factor) +
// 1 as in the paper, or, if mscale and mscale_all_dim are present, the quotient that transformers
// computes from them.
static bool yarn_attention(struct qkv_rope_scaling *r, const struct qkv_json_at *at)
{
    double part = 0, all = 0;
    if (!number(at, "mscale", false, &part, 0, 1e3) ||
        !number(at, "mscale_all_dim", false, &all, 0, 1e3))
        return false;
    const double grow = r->factor > 1 ? 0.1 * log(r->factor) : 0;
    r->attention = part > 0 && all > 0 ? (part * grow + 1) / (all * grow + 1) : grow + 1;
    return number(at, "attention_factor", false, &r->attention, 1e-6, 1e6);
}

// Reads one factor of each rotated pair of a head.
static bool read_factors(double *out, int64_t pairs, const struct qkv_json_at *at, const char *key)
{
    const json_t *list = json_object_get(at->object, key);
    char text[128];
    if (!json_is_array(list) || (int64_t)json_array_size(list) != pairs) {
        snprintf(text, sizeof text,
                 "wrong number of factors, expected a list of %" PRId64
                 ", one per rotated pair of a head, found %zu",
                 pairs, json_array_size(list));
        return refuse(at, QKV_ERR_FORMAT, key, text);
    }
    for (int64_t i = 0; i < pairs; i++) {
        out[i] = json_number_value(json_array_get(list, (size_t)i));
        if (!(out[i] >= 1e-6 && out[i] <= 1e6))
            return refuse(at, QKV_ERR_FORMAT, key,
                          "factor out of range, expected numbers of 1e-06 .. 1e+06");
    }
    return true;
}

// Reads the lists of factors of longrope, and the factor of cosines and sines, which is
// sqrt(1 + ln(factor) / ln(original)) if config.json does not have it.
static bool long_factors(struct qkv_description *d, const struct qkv_json_at *at, int64_t pairs)
{
    struct qkv_rope_scaling *r = &d->rope;
    if (pairs > QKV_ROPE_PAIRS_MAX)
        return refuse(at, QKV_ERR_UNSUPPORTED, "long_factor",
                      "too many rotated pairs of a head, expected at most 256");
    if (!read_factors(r->lengths[0], pairs, at, "short_factor") ||
        !read_factors(r->lengths[1], pairs, at, "long_factor"))
        return false;
    r->attention =
        r->factor > 1 && r->original > 1 ? sqrt(1 + log(r->factor) / log((double)r->original)) : 1;
    return number(at, "attention_factor", false, &r->attention, 1e-6, 1e6);
}

// Reads a scaling of rotary positions. pairs: rotated pairs of dimensions of a head.
static bool scaling(struct qkv_description *d, const struct qkv_config *c,
                    const struct qkv_json_at *at, int64_t pairs)
{
    struct qkv_rope_scaling *r = &d->rope;
    if (!scaling_kind(r, at)) return false;
    if (r->kind == QKV_ROPE_PLAIN) return true;
    r->original = d->size.positions;
    if (r->kind != QKV_ROPE_LINEAR && !qkv_json_limited(at, "original_max_position_embeddings",
                                                        false, &r->original, 1, QKV_POSITIONS_MAX))
        return false;
    // the key at the top level, of Phi-3, comes first
    if (r->kind != QKV_ROPE_LINEAR && !qkv_config_int(c, "original_max_position_embeddings", false,
                                                      &r->original, 1, QKV_POSITIONS_MAX))
        return false;
    // for yarn and longrope `factor` may be absent: it is then the ratio of the two numbers of
    // positions
    const bool given = json_is_number(json_object_get(at->object, "factor"));
    const bool may = r->kind == QKV_ROPE_YARN || r->kind == QKV_ROPE_LONG;
    if (may && !given) r->factor = (double)d->size.positions / (double)r->original;
    if (!number(at, "factor", !may, &r->factor, 1e-3, 1e6)) return false;
    if (r->kind == QKV_ROPE_LONG) return long_factors(d, at, pairs);
    if (r->kind == QKV_ROPE_LLAMA3) {
        if (!number(at, "low_freq_factor", true, &r->low, 1e-6, 1e6) ||
            !number(at, "high_freq_factor", true, &r->high, 1e-6, 1e6))
            return false;
        return r->high > r->low ||
               refuse(at, QKV_ERR_FORMAT, "high_freq_factor",
                      "number out of range, expected more than low_freq_factor");
    }
    if (r->kind != QKV_ROPE_YARN) return true;
    r->high = 32;
    r->low = 1;
    r->whole = true;
    if (!number(at, "beta_fast", false, &r->high, 1e-6, 1e6) ||
        !number(at, "beta_slow", false, &r->low, 1e-6, 1e6) ||
        !qkv_json_bool(at, "truncate", false, &r->whole))
        return false;
    if (r->high < r->low)
        return refuse(at, QKV_ERR_FORMAT, "beta_fast",
                      "number out of range, expected at least beta_slow");
    return yarn_attention(r, at);
}

// Sets *out to the object under `key` in config.json. If the key is absent or null, out->object is
// NULL. Returns false if the value has another type.
static bool object_at(struct qkv_json_at *out, const struct qkv_config *c, const char *key)
{
    const json_t *value = json_object_get(c->root, key);
    *out = (struct qkv_json_at){ .file = c->file, .err = c->err };
    if (!value || json_is_null(value)) return true;
    if (!json_is_object(value))
        return qkv_config_refuse(c, QKV_ERR_FORMAT, key,
                                 "value of the wrong type, expected an object");
    out->object = value;
    return true;
}

// Sets *out to the object with the keys of rotary positions: rope_scaling, unless it is absent, null
// or empty, else rope_parameters.
static bool rope_object(struct qkv_json_at *out, const struct qkv_config *c)
{
    struct qkv_json_at once;
    if (!object_at(out, c, "rope_parameters") || !object_at(&once, c, "rope_scaling")) return false;
    const bool older = json_object_size(once.object) > 0;
    if (older) *out = once;
    out->path = older ? "$.rope_scaling" : "$.rope_parameters";
    return true;
}

// Checks that a head can be rotated: its dimensions are pairs.
static bool even_heads(const struct qkv_description *d, const struct qkv_config *c)
{
    const int64_t E = qkv_head_keys(d);
    if (E > 0 && E % 2 == 0) return true;
    return qkv_config_refuse(
        c, QKV_ERR_FORMAT, "head_dim",
        "rotary positions require pairs of dimensions, expected an even head width, found %" PRId64,
        E);
}

bool qkv_describe_head_width(struct qkv_description *d, const struct qkv_config *c)
{
    if (!qkv_config_int(c, "head_dim", false, &d->d_k, 1, QKV_WIDTH_MAX)) return false;
    d->d_v = d->d_k;
    return d->d_k || d->size.width % d->size.heads == 0 ||
           qkv_config_refuse(
               c, QKV_ERR_FORMAT, "num_attention_heads",
               "number of heads does not divide the width, expected a divisor of %" PRId64
               ", found %" PRId64,
               d->size.width, d->size.heads);
}

static bool read_partial(double *part, const struct qkv_config *c)
{
    struct qkv_json_at now;
    *part = 1;
    if (!qkv_config_real(c, "partial_rotary_factor", false, part, 1e-6, 1) || !rope_object(&now, c))
        return false;
    return !now.object || number(&now, "partial_rotary_factor", false, part, 1e-6, 1);
}

bool qkv_describe_partial(struct qkv_description *d, const struct qkv_config *c)
{
    double part;
    if (!read_partial(&part, c)) return false;
    const int64_t E = qkv_head_keys(d), n = (int64_t)((double)E * part);
    d->rotated = part < 1 ? part : 0;
    return (n > 0 && n % 2 == 0) ||
           qkv_config_refuse(c, QKV_ERR_FORMAT, "partial_rotary_factor",
                             "rotary positions require pairs of dimensions, expected an even "
                             "number of a head's %" PRId64 " dimensions, found %" PRId64,
                             E, n);
}

// Reads partial_rotary_factor. The reference rotates whole heads in most families, whatever the
// factor is, but fails if the positions are also scaled. The others (d->rotated > 0) call
// qkv_describe_partial.
static bool check_partial(const struct qkv_description *d, const struct qkv_config *c)
{
    double part;
    if (!read_partial(&part, c)) return false;
    if (part == 1 || d->rotated > 0 || d->rope.kind == QKV_ROPE_PLAIN) return true;
    return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, "partial_rotary_factor",
                             "unsupported rotation of a part of each head by scaled positions, "
                             "expected 1, found %g",
                             part);
}

bool qkv_describe_rotation(struct qkv_description *d, const struct qkv_config *c)
{
    struct qkv_json_at how;
    if (!d->theta) d->theta = 10000;
    if (!qkv_config_real(c, "rope_theta", false, &d->theta, 1e-3, 1e12) || !rope_object(&how, c))
        return false;
    if (how.object && !number(&how, "rope_theta", false, &d->theta, 1e-3, 1e12)) return false;
    double part = 1;
    if (d->rotated > 0 && !read_partial(&part, c)) return false;
    if (how.object && !scaling(d, c, &how, (int64_t)((double)qkv_head_keys(d) * part) / 2))
        return false;
    return check_partial(d, c) && even_heads(d, c);
}

// Returns the keys of one kind of layers: the object `one` of rope_parameters, or the default, with
// the members of rope_scaling over it, as in the reference; the caller calls json_decref. NULL: memory
// is exhausted.
static json_t *merge_keys(const json_t *one, const json_t *once)
{
    json_t *all = json_object();
    const bool ok = all && (one ? json_object_update(all, (json_t *)one) == 0
                                : qkv_put_text(all, "rope_type", "default"));
    if (ok && (!once || json_object_update(all, (json_t *)once) == 0)) return all;
    json_decref(all);
    return NULL;
}

// Reads the base and the scaling of one kind of layers. scaled: positions may be scaled.
static bool describe_kind(struct qkv_description *d, const struct qkv_config *c,
                          const struct qkv_json_at *at, double *theta, bool scaled)
{
    if (!number(at, "rope_theta", false, theta, 1e-3, 1e12)) return false;
    return scaled ? scaling(d, c, at, qkv_head_keys(d) / 2) : check_plain(at);
}

bool qkv_describe_rotations(struct qkv_description *d, const struct qkv_config *c,
                            const char *const keys[2], bool scaled)
{
    static const struct {
        const char *kind, *path;
    } rows[] = { { "full_attention", "$.rope_parameters.full_attention" },
                 { "sliding_attention", "$.rope_parameters.sliding_attention" } };
    double *const out[] = { &d->theta, &d->theta_local };
    struct qkv_json_at both, once;
    if (!object_at(&both, c, "rope_parameters") || !object_at(&once, c, "rope_scaling"))
        return false;
    both.path = "$.rope_parameters";
    d->rope_local_plain = scaled;
    for (int i = 0; i < 2; i++) {
        const json_t *one = json_object_get(both.object, rows[i].kind);
        // rope_scaling is of the layers whose positions may be scaled; if none may, of all layers
        const json_t *over = i == 0 || !scaled ? once.object : NULL;
        if (!qkv_config_real(c, keys[i], false, out[i], 1e-3, 1e12)) return false;
        if (one && !json_is_null(one) && !json_is_object(one))
            return refuse(&both, QKV_ERR_FORMAT, rows[i].kind,
                          "value of the wrong type, expected an object");
        json_t *all = merge_keys(json_is_object(one) ? one : NULL, over);
        if (!all) {
            qkv_fail_memory(c->err, c->file);
            return false;
        }
        const struct qkv_json_at at = { .object = all,
                                        .file = c->file,
                                        .path = json_object_size(over) > 0 ? "$.rope_scaling"
                                                                           : rows[i].path,
                                        .err = c->err };
        const bool ok = describe_kind(d, c, &at, out[i], scaled && i == 0);
        json_decref(all);
        if (!ok) return false;
    }
    if (d->rope.kind == QKV_ROPE_LONG)
        return qkv_config_refuse(
            c, QKV_ERR_UNSUPPORTED, "rope_parameters",
            "unsupported rotary positions for this family, expected "
            "\"default\", \"linear\", \"llama3\" or \"yarn\", found \"longrope\"");
    return even_heads(d, c);
}

bool qkv_describe_layer_types(struct qkv_description *d, const struct qkv_config *c, bool *found)
{
    const json_t *list = json_object_get(c->root, "layer_types");
    char key[64];
    *found = list && !json_is_null(list);
    if (!*found) return true;
    if (!json_is_array(list))
        return qkv_config_refuse(c, QKV_ERR_FORMAT, "layer_types",
                                 "value of the wrong type, expected an array");
    if ((int64_t)json_array_size(list) != d->size.layers)
        return qkv_config_refuse(c, QKV_ERR_FORMAT, "layer_types",
                                 "wrong number of layer types, expected %" PRId64
                                 ", one per layer, found %" PRId64,
                                 d->size.layers, (int64_t)json_array_size(list));
    for (int64_t i = 0; i < d->size.layers; i++) {
        const char *text = json_string_value(json_array_get(list, (size_t)i));
        const bool local = text && strcmp(text, "sliding_attention") == 0;
        snprintf(key, sizeof key, "layer_types[%" PRId64 "]", i);
        if (!text)
            return qkv_config_refuse(c, QKV_ERR_FORMAT, key,
                                     "value of the wrong type, expected a text");
        if (!local && strcmp(text, "full_attention") != 0)
            return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, key,
                                     "unknown layer type, expected one of full_attention, "
                                     "sliding_attention, found \"%.64s\"",
                                     text);
        if (local) qkv_layer_add(d->local, i);
    }
    return true;
}

void qkv_describe_local(struct qkv_description *d, int64_t from, int64_t every, int64_t but)
{
    for (int64_t i = from; i < d->size.layers; i++)
        if (!every || i % every != but) qkv_layer_add(d->local, i);
}

bool qkv_describe_window(struct qkv_description *d, const struct qkv_config *c, int64_t usual)
{
    const json_t *value = json_object_get(c->root, "sliding_window");
    int64_t window = value && json_is_null(value) ? 0 : usual;
    bool any = false;
    if (usual && !qkv_config_int(c, "sliding_window", false, &window, 1, QKV_POSITIONS_MAX))
        return false;
    for (int64_t i = 0; i < d->size.layers; i++) any = any || qkv_described_local(d, i);
    if (!any) return true;
    if (!window)
        return qkv_config_refuse(
            c, QKV_ERR_FORMAT, "sliding_window",
            "required member is missing, expected the window of the local layers, found none");
    d->window_left = window - 1; // sliding_window counts the token itself, window_left does not
    // A window of at least as many tokens as the model has positions masks no key, but local layers
    // may have other rotary positions.
    if (window >= d->size.positions && !d->theta_local) memset(d->local, 0, sizeof d->local);
    return true;
}

bool qkv_describe_window_of_all(struct qkv_description *d, const struct qkv_config *c)
{
    const json_t *value = json_object_get(c->root, "sliding_window");
    if (!value || json_is_null(value)) return true;
    qkv_describe_local(d, 0, 0, 0);
    return qkv_describe_window(d, c, d->size.positions);
}
