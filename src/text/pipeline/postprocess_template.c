// SPDX-License-Identifier: MIT
// postprocess_template.c: puts special tokens around the tokens of texts, truncates and pads.
#include "text/text_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SPECIALS_MAX = 1 << 16 }; // special tokens of all templates

static bool fail_memory(const struct qkv_json_at *at)
{
    qkv_fail_memory(at->err, at->file);
    return false;
}

static bool add_item(const struct qkv_json_at *at, struct qkv_template *p,
                     struct qkv_template_item item)
{
    void *v = p->items;
    const bool ok = qkv_reserve(&v, &p->capacity, p->count + 1, sizeof *p->items);
    p->items = v;
    if (!ok) return fail_memory(at);
    p->items[p->count++] = item;
    return true;
}

// Reads one id, checks that the vocabulary contains it, and appends it.
static bool add_id(qkv_tokenizer *t, const struct qkv_json_at *at, const char *key,
                   const json_t *value)
{
    struct qkv_post *post = &t->post;
    if (!json_is_integer(value))
        return qkv_text_fail(at, key, QKV_ERR_FORMAT,
                             "token id has the wrong type, expected an integer");
    const json_int_t id = json_integer_value(value);
    if (!qkv_vocab_token(&t->vocab, id))
        return qkv_text_fail(at, key, QKV_ERR_FORMAT,
                             "token id is not in the vocabulary, expected the id of a token, found "
                             "%" JSON_INTEGER_FORMAT,
                             id);
    if (post->ids_count >= SPECIALS_MAX)
        return qkv_text_fail(at, key, QKV_ERR_LIMIT, "too many special tokens, expected at most %d",
                             SPECIALS_MAX);
    void *v = post->ids;
    const bool ok = qkv_reserve(&v, &post->ids_capacity, post->ids_count + 1, sizeof *post->ids);
    post->ids = v;
    if (!ok) return fail_memory(at);
    post->ids[post->ids_count++] = (int32_t)id;
    return true;
}

// ---- BertProcessing: [CLS] A [SEP], [CLS] A [SEP] B [SEP] --------------------------------------
// Reads a token and its id, as ["[SEP]", 102].
static bool read_token(qkv_tokenizer *t, const struct qkv_json_at *at, const char *key)
{
    char path[256];
    bool ok;
    const json_t *pair = qkv_json_member(at, key, true, true, path, &ok);
    if (!pair) return false;
    if (json_array_size(pair) != 2 || !json_is_string(json_array_get(pair, 0)))
        return qkv_text_fail(at, key, QKV_ERR_FORMAT,
                             "malformed special token, expected [token, id], found %zu members",
                             json_array_size(pair));
    return add_id(t, at, key, json_array_get(pair, 1));
}

// Returns true if no post-processor of the sequence has set a template yet; a second template is an
// error.
static bool first_template(const qkv_tokenizer *t, const struct qkv_json_at *at)
{
    if (!t->post.one.count) return true;
    return qkv_text_fail(at, NULL, QKV_ERR_UNSUPPORTED,
                         "two post-processors add special tokens, expected at most one");
}

bool qkv_post_roberta(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    if (!first_template(t, at) || !read_token(t, at, "cls") || !read_token(t, at, "sep"))
        return false;
    const struct qkv_template_item cls = { -1, 0, 0, 1 }, a = { 0, 0, 0, 0 }, sep = { -1, 0, 1, 1 },
                                   b = { 1, 0, 0, 0 };
    const struct qkv_template_item two[] = { cls, a, sep, sep, b, sep };
    for (int i = 0; i < 6; i++)
        if ((i < 3 && !add_item(at, &t->post.one, two[i])) || !add_item(at, &t->post.two, two[i]))
            return false;
    return true;
}

bool qkv_post_processor_bert(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    if (!first_template(t, at)) return false;
    if (!read_token(t, at, "cls") || !read_token(t, at, "sep")) return false;
    const struct qkv_template_item cls = { -1, 0, 0, 1 }, a = { 0, 0, 0, 0 }, sep = { -1, 0, 1, 1 },
                                   b = { 1, 1, 0, 0 }, sep_b = { -1, 1, 1, 1 };
    return add_item(at, &t->post.one, cls) && add_item(at, &t->post.one, a) &&
           add_item(at, &t->post.one, sep) && add_item(at, &t->post.two, cls) &&
           add_item(at, &t->post.two, a) && add_item(at, &t->post.two, sep) &&
           add_item(at, &t->post.two, b) && add_item(at, &t->post.two, sep_b);
}

bool qkv_post_default(qkv_tokenizer *t)
{
    qkv_error err = { 0 };
    const struct qkv_json_at at = { .err = &err };
    const struct qkv_template_item a = { 0, 0, 0, 0 }, b = { 1, 1, 0, 0 };
    return add_item(&at, &t->post.one, a) && add_item(&at, &t->post.two, a) &&
           add_item(&at, &t->post.two, b);
}

// ---- TemplateProcessing ------------------------------------------------------------------------
// Reads an item {"id": "[CLS]", "type_id": 0} of a template; the member "special_tokens" of the
// post-processor has the token ids of this name.
static bool read_special(qkv_tokenizer *t, const struct qkv_json_at *at,
                         const struct qkv_json_at *post, struct qkv_template_item *item)
{
    const char *name = NULL;
    char declared_path[256], path[256];
    bool ok;
    if (!qkv_json_text(at, "id", true, &name)) return false;
    const json_t *list = qkv_json_member(post, "special_tokens", true, false, declared_path, &ok);
    if (!list) return false;
    if (!json_object_get(list, name))
        return qkv_text_fail(at, "id", QKV_ERR_FORMAT,
                             "special token of a template is not declared, expected a key of "
                             "special_tokens, found \"%s\"",
                             name);
    const struct qkv_json_at in = { list, at->file, declared_path, at->err };
    const json_t *special = qkv_json_member(&in, name, true, false, path, &ok);
    if (!special) return false;
    const struct qkv_json_at here = { special, at->file, path, at->err };
    char ids_path[256], tokens_path[256];
    const json_t *ids = qkv_json_member(&here, "ids", true, true, ids_path, &ok);
    if (!ids) return false;
    const json_t *tokens = qkv_json_member(&here, "tokens", true, true, tokens_path, &ok);
    if (!tokens) return false;
    const size_t count = json_array_size(ids);
    if (count != json_array_size(tokens))
        return qkv_text_fail(&here, "tokens", QKV_ERR_FORMAT,
                             "special token has another number of tokens than of ids, expected %zu "
                             "tokens, found %zu",
                             count, json_array_size(tokens));
    item->sequence = -1;
    item->ids = t->post.ids_count;
    item->count = (int64_t)count;
    for (size_t i = 0; i < count; i++) {
        char key[48];
        snprintf(key, sizeof key, "ids[%zu]", i);
        if (!add_id(t, &here, key, json_array_get(ids, i))) return false;
    }
    return true;
}

static bool read_sequence(const struct qkv_json_at *at, bool pair, bool seen[2],
                          struct qkv_template_item *item)
{
    const char *name = NULL;
    if (!qkv_json_text(at, "id", true, &name)) return false;
    const bool a = strcmp(name, "A") == 0, b = strcmp(name, "B") == 0;
    if (!a && !(b && pair))
        return qkv_text_fail(at, "id", QKV_ERR_FORMAT,
                             "unknown sequence in a template, expected %s, found \"%s\"",
                             pair ? "A or B" : "A", name);
    if (seen[b])
        return qkv_text_fail(
            at, "id", QKV_ERR_UNSUPPORTED,
            "duplicate sequence in one template, expected each sequence once, found \"%s\" again",
            name);
    seen[b] = true;
    item->sequence = b;
    return true;
}

static bool read_template(qkv_tokenizer *t, const struct qkv_json_at *post, const char *key,
                          bool pair, struct qkv_template *p)
{
    char path[256];
    bool ok, seen[2] = { false, false };
    const json_t *list = qkv_json_member(post, key, true, true, path, &ok);
    if (!list) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const json_t *special = json_object_get(item, "SpecialToken");
        const json_t *sequence = json_object_get(item, "Sequence");
        char here_path[256];
        snprintf(here_path, sizeof here_path, "%.200s[%zu].%s", path, i,
                 special    ? "SpecialToken"
                 : sequence ? "Sequence"
                            : "");
        if (!json_is_object(special ? special : sequence)) {
            here_path[strcspn(here_path, "]") + 1] = 0;
            const struct qkv_json_at place = { NULL, post->file, here_path, post->err };
            return qkv_text_fail(&place, NULL, QKV_ERR_FORMAT,
                                 "unknown part of a template, expected SpecialToken or Sequence");
        }
        const struct qkv_json_at at = { special ? special : sequence, post->file, here_path,
                                        post->err };
        struct qkv_template_item entry = { 0 };
        int64_t type = 0;
        if (!qkv_json_limited(&at, "type_id", true, &type, 0, INT32_MAX)) return false;
        entry.type = (int32_t)type;
        if (special ? !read_special(t, &at, post, &entry) : !read_sequence(&at, pair, seen, &entry))
            return false;
        if (!add_item(&at, p, entry)) return false;
    }
    if (!seen[0] || (pair && !seen[1]))
        return qkv_text_fail(post, key, QKV_ERR_FORMAT,
                             "sequence is missing in a template, expected a Sequence %s",
                             pair ? "A and a Sequence B" : "A");
    return true;
}

bool qkv_post_processor_template(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    return first_template(t, at) && read_template(t, at, "single", false, &t->post.one) &&
           read_template(t, at, "pair", true, &t->post.two);
}

void qkv_post_free(struct qkv_post *p)
{
    qkv_free(p->one.items);
    qkv_free(p->two.items);
    qkv_free(p->ids);
    memset(p, 0, sizeof *p);
}

// ---- applying ----------------------------------------------------------------------------------
void qkv_template_layout_init(struct qkv_template_layout *l, const struct qkv_template *p,
                              bool no_special)
{
    memset(l, 0, sizeof *l);
    for (int64_t i = 0; i < p->count; i++) {
        const struct qkv_template_item *x = &p->items[i];
        if (x->sequence < 0) {
            if (!no_special) l->specials[l->texts] += x->count;
        } else {
            l->which[l->texts] = (uint8_t)x->sequence;
            l->type[l->texts++] = x->type;
        }
    }
}

static void move_tokens(qkv_encoding *e, int64_t to, int64_t from, int64_t count)
{
    if (to == from || !count) return;
    const size_t n = (size_t)count;
    memmove(e->ids + to, e->ids + from, n * sizeof *e->ids);
    memmove(e->types + to, e->types + from, n * sizeof *e->types);
    memmove(e->begin + to, e->begin + from, n * sizeof *e->begin);
    memmove(e->end + to, e->end + from, n * sizeof *e->end);
    memmove(e->text + to, e->text + from, n);
    memmove(e->attend + to, e->attend + from, n);
}

static void put_token(qkv_encoding *e, int64_t at, int32_t id, int32_t type, uint8_t text)
{
    e->ids[at] = id;
    e->types[at] = type;
    e->begin[at] = e->end[at] = 0;
    e->text[at] = text;
    e->attend[at] = text != 3;
}

// Computes how many tokens of each text remain after truncation: keep[i] of the l->count[i] tokens
// of text i; keep[0] + keep[1] is at most `space`.
static qkv_status shorten(int64_t keep[2], const struct qkv_template_layout *l, int64_t space,
                          enum qkv_cut cut, qkv_error *err)
{
    const int64_t over = l->count[0] + l->count[1] - space;
    keep[0] = l->count[0];
    keep[1] = l->count[1];
    if (over <= 0) return QKV_OK;
    if (cut == QKV_CUT_LONGEST) {
        if (l->texts < 2) {
            keep[0] = space;
            return QKV_OK;
        }
        // Only the longer text is truncated until both texts are equally long; then each text gets
        // half of the space, and the second text gets an odd token.
        const int small = l->count[0] > l->count[1];
        const int64_t n = l->count[small];
        int64_t big = n > space ? n : qkv_max64(n, space - n);
        int64_t little = n;
        if (little + big > space) {
            little = space / 2;
            big = little + space % 2;
        }
        keep[small] = little;
        keep[!small] = big;
        return QKV_OK;
    }
    const int want = cut == QKV_CUT_SECOND;
    const int i = l->which[0] == want ? 0 : 1;
    if (i >= l->texts || l->count[i] <= over)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "text %s is too short to be truncated, expected more than the %" PRId64
                        " tokens that must be removed from it, found %" PRId64,
                        want ? "B" : "A", over, i < l->texts ? l->count[i] : 0);
    keep[i] -= over;
    return QKV_OK;
}

static void use_file_limits(struct qkv_encode_options *o, const struct qkv_limits *limits,
                            int64_t *pad_to)
{
    o->truncate = limits->truncates;
    o->max_length = limits->truncates ? limits->max_length : 0;
    o->cut = limits->cut;
    o->cut_left = limits->cut_left;
    o->pad = limits->pads;
    o->pad_left = limits->pad_left;
    *pad_to = limits->pad_length;
}

static qkv_status pad_tokens(const qkv_tokenizer *t, qkv_encoding *e, int64_t to, bool left,
                             qkv_error *err)
{
    const int64_t n = to - e->count;
    if (n <= 0) return QKV_OK;
    if (n > QKV_PADDING_MOST)
        return qkv_fail(err, QKV_ERR_LIMIT, NULL,
                        "too much padding, expected at most %d tokens of padding, found %" PRId64,
                        QKV_PADDING_MOST, n);
    if (t->limits.pad_id < 0)
        return qkv_fail(
            err, QKV_ERR_USAGE, &(struct qkv_location){ .file = t->file },
            "tokenizer has no padding token, expected a padding section, [PAD] or <pad>");
    if (!qkv_encoding_reserve(e, to)) return qkv_fail_memory(err, NULL);
    if (left) move_tokens(e, n, 0, e->count);
    for (int64_t i = 0; i < n; i++)
        put_token(e, left ? i : e->count + i, t->limits.pad_id, t->limits.pad_type, 3);
    e->count = to;
    return QKV_OK;
}

qkv_status qkv_template_apply(const qkv_tokenizer *t, qkv_encoding *e, const struct qkv_template *p,
                              const struct qkv_template_layout *l,
                              const struct qkv_encode_options *asked, qkv_error *err)
{
    struct qkv_encode_options o = *asked;
    int64_t pad_to = o.max_length, keep[2], multiple = 0;
    if (o.file_limits) {
        use_file_limits(&o, &t->limits, &pad_to);
        multiple = t->limits.pad_multiple;
    }
    const int64_t specials = l->specials[0] + l->specials[1] + l->specials[2];
    const int64_t total = specials + l->count[0] + l->count[1];
    int64_t space = INT64_MAX;
    if (o.max_length > 0 && total > o.max_length) {
        if (!o.truncate)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "text too long, expected at most %" PRId64 " tokens, found %" PRId64,
                            o.max_length, total);
        space = o.max_length - specials;
        if (space < 0)
            return qkv_fail(err, QKV_ERR_USAGE, NULL,
                            "the maximum length leaves no space for the special tokens, expected "
                            "at least %" PRId64 " tokens, found %" PRId64,
                            specials, o.max_length);
    }
    keep[0] = l->count[0];
    keep[1] = l->count[1];
    if (space != INT64_MAX) {
        const qkv_status status = shorten(keep, l, space, o.cut, err);
        if (status) return status;
    }
    e->cut = l->count[0] + l->count[1] - keep[0] - keep[1];
    int64_t to = l->specials[0], from = l->specials[0];
    for (int i = 0; i < l->texts; i++) { // moves to lower indices only
        move_tokens(e, to, from + (o.cut_left ? l->count[i] - keep[i] : 0), keep[i]);
        to += keep[i] + l->specials[i + 1];
        from += l->count[i] + l->specials[i + 1];
    }
    if (!qkv_encoding_reserve(e, to)) return qkv_fail_memory(err, NULL);
    int64_t at = 0;
    for (int64_t i = 0, text = 0; i < p->count; i++) {
        const struct qkv_template_item *x = &p->items[i];
        if (x->sequence >= 0) {
            if (t->post.trims)
                qkv_trim_offsets(t, e, at, keep[text], l->text[text], l->bytes[text]);
            at += keep[text++];
        } else if (!o.no_special && !o.no_template) {
            for (int64_t k = 0; k < x->count; k++)
                put_token(e, at++, t->post.ids[x->ids + k], x->type, 2);
        }
    }
    e->count = at;
    if (!o.pad) return QKV_OK;
    pad_to = qkv_max64(pad_to, e->count);
    if (multiple > 0 && pad_to % multiple) {
        if (pad_to > INT64_MAX - multiple) return qkv_fail_memory(err, NULL);
        pad_to += multiple - pad_to % multiple;
    }
    return pad_tokens(t, e, pad_to, o.pad_left, err);
}

// ---- truncation and padding sections of the file -----------------------------------------------
static bool read_direction(const struct qkv_json_at *at, bool *left)
{
    const char *text = "Right";
    if (!qkv_json_text(at, "direction", false, &text)) return false;
    *left = strcmp(text, "Left") == 0;
    if (*left || strcmp(text, "Right") == 0) return true;
    return qkv_text_fail(
        at, "direction", QKV_ERR_FORMAT,
        "unknown direction of truncation or padding, expected Left or Right, found \"%s\"", text);
}

static bool read_truncation(struct qkv_limits *l, const struct qkv_json_at *at)
{
    const char *strategy = "LongestFirst";
    if (!qkv_json_int(at, "max_length", true, &l->max_length, INT64_MIN, INT64_MAX)) return false;
    if (l->max_length < 1)
        return qkv_text_fail(at, "max_length", QKV_ERR_FORMAT,
                             "number out of range, expected at least 1, found %" PRId64,
                             l->max_length);
    if (!qkv_json_int(at, "stride", false, &l->stride, INT64_MIN, INT64_MAX)) return false;
    if (l->stride < 0 || l->stride >= l->max_length)
        return qkv_text_fail(at, "stride", QKV_ERR_FORMAT,
                             "number out of range, expected 0 .. max_length - 1 = %" PRId64
                             ", found %" PRId64,
                             l->max_length - 1, l->stride);
    if (!qkv_json_text(at, "strategy", false, &strategy)) return false;
    if (strcmp(strategy, "LongestFirst") == 0)
        l->cut = QKV_CUT_LONGEST;
    else if (strcmp(strategy, "OnlyFirst") == 0)
        l->cut = QKV_CUT_FIRST;
    else if (strcmp(strategy, "OnlySecond") == 0)
        l->cut = QKV_CUT_SECOND;
    else
        return qkv_text_fail(at, "strategy", QKV_ERR_FORMAT,
                             "unknown strategy of truncation, expected LongestFirst, OnlyFirst or "
                             "OnlySecond, found \"%s\"",
                             strategy);
    l->truncates = true;
    return read_direction(at, &l->cut_left);
}

static bool read_padding(qkv_tokenizer *t, const struct qkv_json_at *at)
{
    struct qkv_limits *l = &t->limits;
    int64_t id = 0, type = 0;
    const json_t *strategy = json_object_get(at->object, "strategy");
    const json_t *fixed = json_object_get(strategy, "Fixed");
    const char *text = json_string_value(strategy);
    if (json_is_integer(fixed) && json_integer_value(fixed) >= 0) {
        l->pad_length = json_integer_value(fixed);
    } else if (!text || strcmp(text, "BatchLongest") != 0) {
        return qkv_text_fail(
            at, "strategy", QKV_ERR_FORMAT,
            "unknown strategy of padding, expected \"BatchLongest\" or {\"Fixed\": length}");
    }
    if (!qkv_json_int(at, "pad_id", true, &id, 0, INT64_MAX)) return false;
    if (!qkv_vocab_token(&t->vocab, id))
        return qkv_text_fail(
            at, "pad_id", QKV_ERR_FORMAT,
            "token id is not in the vocabulary, expected the id of a token, found %" PRId64, id);
    if (!qkv_json_limited(at, "pad_type_id", false, &type, 0, INT32_MAX)) return false;
    if (!qkv_json_limited(at, "pad_to_multiple_of", false, &l->pad_multiple, 0, INT32_MAX))
        return false;
    l->pad_id = (int32_t)id;
    l->pad_type = (int32_t)type;
    l->pads = true;
    return read_direction(at, &l->pad_left);
}

bool qkv_limits_read(qkv_tokenizer *t, const struct qkv_json_at *root)
{
    char path[256];
    bool ok;
    const json_t *section = qkv_json_member(root, "truncation", false, false, path, &ok);
    if (!ok) return false;
    if (section) {
        const struct qkv_json_at at = { section, root->file, path, root->err };
        if (!read_truncation(&t->limits, &at)) return false;
    }
    t->limits.pad_id = qkv_tokenizer_id(t, "[PAD]");
    if (t->limits.pad_id < 0) t->limits.pad_id = qkv_tokenizer_id(t, "<pad>");
    section = qkv_json_member(root, "padding", false, false, path, &ok);
    if (!ok) return false;
    if (!section) return true;
    const struct qkv_json_at at = { section, root->file, path, root->err };
    return read_padding(t, &at);
}
