// SPDX-License-Identifier: MIT
// family.c: finds the family that config.json of a folder names, and composes names of tensors.
#include "model/family/description.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define QKV_MODEL(name, type) extern const struct qkv_family qkv_family_##name;
#include "model/family/model.def"
#undef QKV_MODEL

static const struct {
    const char *model_type;
    const struct qkv_family *family;
} families[] = {
#define QKV_MODEL(name, type) { type, &qkv_family_##name },
#include "model/family/model.def"
#undef QKV_MODEL
};
enum { FAMILIES = sizeof families / sizeof families[0] };

// Writes the facts about a model of a type that is not read: the family that reads it under another
// name, or what it is and what would be needed; "" if nothing is known.
static void unread_hint(char *out, size_t size, const char *type)
{
    static const struct {
        const char *model_type, *family, *when;
    } aliases[] = {
#define QKV_ALIAS(type, family, when) { type, family, when },
#include "model/family/alias.def"
#undef QKV_ALIAS
    };
    static const struct {
        const char *model_type, *is, *needs;
    } unread[] = {
#define QKV_UNREAD(type, is, needs) { type, is, needs },
#include "model/family/unread.def"
#undef QKV_UNREAD
    };
    out[0] = 0;
    for (size_t i = 0; i < sizeof aliases / sizeof aliases[0]; i++)
        if (strcmp(aliases[i].model_type, type) == 0)
            snprintf(out, size, "; it is read with model_type \"%s\"%s%s", aliases[i].family,
                     aliases[i].when[0] ? " if " : "", aliases[i].when);
    for (size_t i = 0; i < sizeof unread / sizeof unread[0]; i++)
        if (strcmp(unread[i].model_type, type) == 0)
            snprintf(out, size, "; it is %s %s that needs %s", unread[i].is[0] == 'e' ? "an" : "a",
                     unread[i].is, unread[i].needs);
}

const struct qkv_family *qkv_family_find(const char *model_type, const char **row)
{
    for (int i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].model_type, model_type) == 0) {
            if (row) *row = families[i].model_type;
            return families[i].family;
        }
    return NULL;
}

// The classes whose head is known, by the ends of their names; needs: what a head needs that qkv
// does not run, NULL: nothing
static const struct class_end {
    const char *end;
    enum qkv_told_head head;
    const char *needs;
} class_ends[] = { { "ForSequenceClassification", QKV_TOLD_TEXTS, NULL },
                   { "ForTokenClassification", QKV_TOLD_TOKENS, NULL },
                   { "EncoderModel", QKV_TOLD_OTHER, NULL },
                   { "ForMultipleChoice", QKV_TOLD_OTHER, "one score for each text of a choice" },
                   { "ForNextSentencePrediction", QKV_TOLD_OTHER,
                     "two scores for a pair of texts" },
                   { "ForQuestionAnswering", QKV_TOLD_QUESTIONS,
                     "two scores for each token, of the begin and of the end of an answer" } };

// Returns the row of the class, or NULL.
static const struct class_end *class_end_of(const char *name)
{
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof class_ends / sizeof class_ends[0]; i++) {
        const size_t end = strlen(class_ends[i].end);
        if (n >= end && strcmp(name + n - end, class_ends[i].end) == 0) return &class_ends[i];
    }
    return NULL;
}

// Returns true if the name has the form of a class with an output head, such as BertForMaskedLM.
static bool names_head(const char *name)
{
    for (const char *at = name; (at = strstr(at, "For")); at++)
        if (at > name && at[3] >= 'A' && at[3] <= 'Z') return true;
    return false;
}

// Reads the class that config.json names, and the output head of such a class.
static void read_class(struct qkv_description *d, const struct qkv_config *c)
{
    const json_t *names = json_object_get(c->root, "architectures");
    const char *name = json_string_value(json_array_get(names, 0));
    if (!name) return;
    size_t n = strlen(name);
    const bool whole = n < sizeof d->class_name;
    if (!whole) n = sizeof d->class_name - sizeof "...";
    while (!whole && n && ((unsigned char)name[n] & 0xc0) == 0x80) n--; // between two characters
    snprintf(d->class_name, sizeof d->class_name, "%.*s%s", (int)n, name, whole ? "" : "...");
    const struct class_end *row = class_end_of(name);
    d->class_has_head = names_head(name);
    if (!row) return;
    d->told = row->head;
    d->class_needs = row->needs;
}

// Reads is_causal. If it is false, a decoder is described as an encoder: each token attends to those
// before and after it, in local layers to sliding_window of them on each side, as in the reference.
static bool read_causal(struct qkv_description *d, const struct qkv_family *family,
                        const struct qkv_config *c)
{
    bool causal = true;
    if (d->kind == QKV_NET_ENCODER) return true; // these families do not use the key
    if (!qkv_config_flag(c, "is_causal", false, &causal)) return false;
    if (causal) return true;
    if (!family->names || family->names->decoder)
        return qkv_config_refuse(c, QKV_ERR_UNSUPPORTED, "is_causal",
                                 "this family has no decoders whose tokens attend to later ones, "
                                 "expected true, found false");
    d->kind = QKV_NET_ENCODER;
    d->label_pool = QKV_LABEL_LAST;
    d->window_left = d->window_right = d->window_left + 1;
    return true;
}

qkv_status qkv_describe_folder(struct qkv_description *d, const struct qkv_family **family,
                               const char **model_type, json_t **root, const char *dir,
                               qkv_error *err)
{
    struct qkv_config c;
    char known[512];
    size_t at = 0;
    for (int i = 0; i < FAMILIES && at < sizeof known; i++)
        at += (size_t)snprintf(known + at, sizeof known - at, "%s%s", i ? ", " : "",
                               families[i].model_type);
    // The caller's struct may already contain an error, so this function uses a struct of its own,
    // whose status it knows.
    qkv_error found = { 0 };
    qkv_status status = qkv_config_open(&c, dir, &found);
    if (status) goto done;
    const char *type = qkv_config_model_type(&c, known);
    if (type) *family = qkv_family_find(type, model_type);
    if (type && !*family) {
        char hint[192];
        unread_hint(hint, sizeof hint, type);
        qkv_config_refuse(&c, QKV_ERR_UNSUPPORTED, "model_type",
                          "unsupported model family, expected one of %s, found \"%.64s\"%s", known,
                          type, hint);
    }
    if (!found.status) {
        *d = (struct qkv_description){
            .bos = -1, .eos = -1, .mask = -1, .start = -1, .forced = -1, .size.pad = -1
        };
        read_class(d, &c);
        const bool described = (*family)->describe(d, &c) && read_causal(d, *family, &c);
        if (d->kind == QKV_NET_DECODER) d->label_pool = QKV_LABEL_LAST;
        if (d->kind == QKV_NET_ENCODER_DECODER) d->label_pool = QKV_LABEL_END;
        if (d->told == QKV_TOLD_TOKENS) d->label_pool = QKV_LABEL_EACH;
        if (described && qkv_described_positions(d) < 1)
            qkv_config_refuse(&c, QKV_ERR_FORMAT, "max_position_embeddings",
                              "too few positions, expected more than pad_token_id + 1 = %" PRId64
                              ", found %" PRId64,
                              d->size.pad + 1, d->size.positions);
    }
    status = found.status;
    if (!status && root) *root = json_incref(c.root);
    qkv_config_close(&c);
done:
    if (status && err && !err->status) *err = found;
    return status;
}

// ---- names of tensors --------------------------------------------------------------------------
// Returns the group whose weights pass i of n runs. The reference computes it in this way, with its
// roundings.
static int64_t group_of(const struct qkv_description *d, int64_t pass)
{
    const double passes = (double)(d->size.layers / d->shared.inner);
    return (int64_t)((double)pass / (passes / (double)d->shared.groups));
}

struct qkv_layer_number qkv_layer_number(const struct qkv_description *d, int64_t layer)
{
    const int64_t inner = d->shared.inner;
    if (!d->shared.groups) return (struct qkv_layer_number){ layer, 0 };
    return (struct qkv_layer_number){ group_of(d, layer / inner), layer % inner };
}

int64_t qkv_layer_call(const struct qkv_description *d, int64_t layer)
{
    int64_t call = 0, pass = d->shared.groups ? layer / d->shared.inner : 0;
    while (pass > call && group_of(d, pass - call - 1) == group_of(d, pass)) call++;
    return call;
}

int64_t qkv_layer_source(const struct qkv_description *d, int64_t layer)
{
    return layer - qkv_layer_call(d, layer) * d->shared.inner;
}

void qkv_tensor_name(char out[QKV_TENSOR_NAME], const char *prefix, const char *name,
                     struct qkv_layer_number number, const char *suffix)
{
    size_t at = (size_t)snprintf(out, QKV_TENSOR_NAME, "%s", prefix);
    for (; *name && at < QKV_TENSOR_NAME; name++) {
        if (*name == '#' || *name == '@')
            at += (size_t)snprintf(out + at, QKV_TENSOR_NAME - at, "%" PRId64,
                                   *name == '#' ? number.first : number.second);
        else
            out[at++] = *name;
    }
    if (at < QKV_TENSOR_NAME) snprintf(out + at, QKV_TENSOR_NAME - at, "%s", suffix);
    out[QKV_TENSOR_NAME - 1] = 0;
}

const struct qkv_tensor *qkv_tensor_named(const qkv_tensors *file, const char *name)
{
    static const struct {
        const char *now, *once;
    } rows[] = { { "LayerNorm.weight", "LayerNorm.gamma" },
                 { "LayerNorm.bias", "LayerNorm.beta" } };
    const struct qkv_tensor *t = qkv_tensors_find(file, name);
    const size_t n = strlen(name);
    for (size_t i = 0; !t && i < sizeof rows / sizeof rows[0]; i++) {
        const size_t tail = strlen(rows[i].now);
        char old[QKV_TENSOR_NAME];
        if (n < tail || strcmp(name + n - tail, rows[i].now) != 0) continue;
        snprintf(old, sizeof old, "%.*s%s", (int)(n - tail), name, rows[i].once);
        t = qkv_tensors_find(file, old);
    }
    return t;
}

void qkv_shape_text(char text[160], const int64_t *shape, int rank)
{
    size_t at = 1;
    text[0] = '[';
    for (int i = 0; i < rank && at < 150; i++)
        at += (size_t)snprintf(text + at, 160 - at, "%s%" PRId64, i ? ", " : "", shape[i]);
    snprintf(text + (at < 158 ? at : 158), 2, "]");
}

// Returns true if any name in the file begins with the prefix.
static bool any_prefixed(const qkv_tensors *file, const char *prefix)
{
    const size_t n = strlen(prefix);
    for (int64_t i = 0; i < qkv_tensors_count(file); i++)
        if (strncmp(qkv_tensors_at(file, i)->name, prefix, n) == 0) return true;
    return false;
}

const char *qkv_tensor_prefix(const qkv_tensors *file, const struct qkv_family *family)
{
    const char *const words[] = { family->names->word, family->names->own_word };
    const char *other = family->ends ? family->ends->other_prefix : NULL;
    char with[QKV_TENSOR_NAME];
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!words[i]) continue;
        qkv_tensor_name(with, family->prefix, words[i], (struct qkv_layer_number){ 0, 0 }, "");
        if (qkv_tensors_find(file, words[i])) return "";
        if (qkv_tensors_find(file, with)) return family->prefix;
    }
    // A class with the other prefix, or a file without the token embeddings: returns the prefix that
    // any tensor has.
    if (other && any_prefixed(file, other)) return other;
    return any_prefixed(file, family->prefix) ? family->prefix : "";
}
