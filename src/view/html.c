// SPDX-License-Identifier: MIT
// html.c: the page: one file that asks nobody for anything.
//
// page.html with its {{names}} filled in.  The policy names the SHA-256 of the one script and the
// one style; tokens stand in JSON and as escaped text, numbers
// in a packed block (view.h tells the kinds).
#include "view/view.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { BUDGET = 16000000, DENSE_TOKENS = 192, TABLE_TOKENS = 64, PIECE = 3 << 14 };

// What is being written.
struct page {
    const qkv_view *v;
    const struct qkv_view_options *o;
    struct view_state st;
    struct view_block block;
    uint8_t *packed;
    int64_t packed_size;
    struct view_text text; // of the name being filled in
};

static void say_integers(struct view_text *t, const int64_t *x, int64_t n)
{
    view_put(t, "[", 1);
    for (int64_t i = 0; i < n; i++) view_say(t, "%s%" PRId64, i ? "," : "", x[i]);
    view_put(t, "]", 1);
}

static void json_token(struct view_text *t, const struct qkv_view_token *k)
{
    struct view_text a = { 0 }, b = { 0 };
    view_token_text(&a, k, k->special);
    view_token_text(&b, k, true);
    t->failed |= a.failed || b.failed;
    if (!t->failed) {
        view_put(t, "[", 1);
        view_json_text(t, a.at ? a.at : "", (size_t)a.used);
        view_say(t, ",%d,%d", k->part != 0, k->special);
        if (a.used != b.used || (a.used && memcmp(a.at, b.at, (size_t)a.used) != 0)) {
            view_put(t, ",", 1);
            view_json_text(t, b.at ? b.at : "", (size_t)b.used);
        }
        view_put(t, "]", 1);
    }
    view_text_free(&a);
    view_text_free(&b);
}

static void json_pair(struct view_text *t, const struct view_pair *p)
{
    if (p->from < 0) {
        view_say(t, ",null");
        return;
    }
    view_say(t, ",[%" PRId64 ",%" PRId64 ",", p->from, p->to);
    view_number(t, p->weight, 4);
    view_put(t, "]", 1);
}

// [kind, strength, word, rows, keys, distance, focus, [shares], best, same]
static void json_stats(struct view_text *t, const struct view_stats *s)
{
    view_say(t, "[%d,", s->kind < VIEW_KINDS ? (int)s->kind : -1);
    view_number(t, s->strength, 4);
    view_say(t, ",%" PRId64 ",%" PRId64 ",", s->word, s->rows);
    view_number(t, s->keys, 3);
    view_put(t, ",", 1);
    view_number(t, s->distance, 3);
    view_put(t, ",", 1);
    view_number(t, s->focus, 4);
    for (int i = 0; i < 5; i++) {
        view_put(t, i ? "," : ",[", i ? 1 : 2);
        view_number(t, s->shares[i], 5);
    }
    view_put(t, "]", 1);
    json_pair(t, &s->best);
    json_pair(t, &s->same);
    view_put(t, "]", 1);
}

static void json_kinds(struct view_text *t)
{
    view_say(t, ",\n\"telling\":%d,\"kinds\":[", (int)VIEW_INDUCTION);
    for (int i = 0; i < VIEW_KINDS; i++) {
        const struct view_kind_row *k = &view_kinds[i];
        view_say(t, "%s[\"%s\",\"%s\",", i ? "," : "", k->name, k->glyph);
        view_number(t, k->threshold, 2);
        view_say(t, ",\"%s\",\"%s\"]", k->reads, k->rule);
    }
    view_put(t, "]", 1);
}

// {{about}}: shape, tokens, what each head does, where the numbers lie in the block.
static void fill_about(struct view_text *t, const struct page *p)
{
    const struct qkv_view_shape *s = &p->v->shape;
    const struct view_block *b = &p->block;
    view_say(t,
             "{\"format\":\"qkv-view 1\",\"layers\":%" PRId64 ",\"heads\":%" PRId64
             ",\"kv\":%" PRId64 ",\"width\":%" PRId64 ",\"causal\":%s,\"kind\":\"%s\",\"error\":",
             s->layers, s->heads, s->kv_heads, s->head_width, s->causal ? "true" : "false",
             b->kind);
    view_number(t, ceil(b->error * 1e7) / 1e7, 7);
    view_say(t,
             ",\n\"start\":{\"layer\":%" PRId64 ",\"token\":%" PRId64 ",\"special\":%s,\"heads\":",
             p->st.layer, p->st.token, p->st.special ? "true" : "false");
    say_integers(t, p->st.head, p->st.lit);
    view_say(t, "},\n\"tokens\":[");
    for (int64_t i = 0; i < s->tokens; i++) {
        if (i) view_put(t, ",", 1);
        json_token(t, &s->token[i]);
    }
    view_put(t, "]", 1);
    json_kinds(t);
    view_say(t, ",\n\"stats\":[");
    for (int64_t l = 0; l < s->layers; l++) {
        for (int64_t h = 0; h < s->heads; h++) {
            view_put(t, h ? "," : "\n[", h ? 1 : 2);
            json_stats(t, view_stats(p->v, l, h));
        }
        view_put(t, l + 1 < s->layers ? "]," : "]", l + 1 < s->layers ? 2 : 1);
    }
    view_say(t, "],\n\"packed\":%" PRId64 ",\"bytes\":%" PRId64 ",\"rows\":[", p->packed_size,
             b->size);
    for (int64_t i = 0; i < b->count; i++) {
        const struct view_array *a = &b->array[i];
        view_say(t, "%s[\"%s\",\"%s\",%" PRId64 ",", i ? "," : "", a->name, a->kind, a->layer);
        say_integers(t, a->shape, 3);
        view_say(t, ",%" PRId64 ",%" PRId64 ",%" PRIu32 "]", a->offset, a->bytes, a->crc);
    }
    view_say(t, "]}");
}

static void put_html(struct view_text *t, const struct view_text *plain)
{
    t->failed |= plain->failed;
    if (plain->at) view_html_text(t, plain->at, (size_t)plain->used);
}

static void fill_words(struct view_text *t, const struct page *p)
{
    struct view_text plain = { 0 };
    for (int64_t i = 0; i < p->v->shape.tokens; i++) {
        if (!view_shown(p->v, &p->st, i)) continue;
        if (plain.used) view_put(&plain, " ", 1);
        view_token_text(&plain, &p->v->shape.token[i], p->v->shape.token[i].special);
    }
    put_html(t, &plain);
    view_text_free(&plain);
}

static void fill_sentence(struct view_text *t, const struct page *p)
{
    struct view_text plain = { 0 };
    view_sentence(&plain, p->v, &p->st);
    put_html(t, &plain);
    view_text_free(&plain);
}

// 'sha256-...' of 32 bytes, as a policy wants it.
static void put_hash(struct view_text *t, const unsigned char *sum)
{
    char text[44];
    view_base64(text, sum, 32);
    view_say(t, "'sha256-%.44s'", text);
}

static void fill_policy(struct view_text *t, const struct page *p)
{
    (void)p;
    view_say(t, "default-src 'none'; script-src ");
    put_hash(t, view_script_sha256);
    view_say(t, "; style-src ");
    put_hash(t, view_style_sha256);
    view_say(t, "; img-src data: blob:; base-uri 'none'; form-action 'none'");
}

static void fill_kept(struct view_text *t, const struct page *p)
{
    const struct qkv_view_shape *s = &p->v->shape;
    const bool dense = !strcmp(p->block.kind, "dense");
    view_say(t, "all ");
    view_count(t, s->layers * s->heads * s->tokens * s->tokens);
    view_say(t, dense ? " weights kept" : " weights kept, as %d-bit queries and keys",
             strcmp(p->block.kind, "qk16") ? 8 : 16);
    view_say(t, " · error ≤ ");
    view_weight(t, ceil(p->block.error * 1e4) / 1e4, 4);
    if (!p->block.not_numbers) return;
    view_say(t, " · ");
    view_count(t, p->block.not_numbers);
    view_say(t,
             p->block.not_numbers == 1 ? " row is not a number (!)" : " rows are not numbers (!)");
}

// {{table}}: for readers without script, the strongest head of the first picture.
static void fill_table(struct view_text *t, const struct page *p)
{
    const qkv_view *v = p->v;
    const int64_t T = v->shape.tokens;
    view_say(
        t,
        "<p class=\"note\">This page draws with its own script, which is switched off here.</p>");
    if (T > TABLE_TOKENS || !p->st.lit) return;
    int64_t head = p->st.head[0];
    for (int64_t i = 1; i < p->st.lit; i++)
        if (view_stats(v, p->st.layer, p->st.head[i])->strength >
            view_stats(v, p->st.layer, head)->strength)
            head = p->st.head[i];
    float *row = qkv_alloc((size_t)T, sizeof *row);
    if (!row) {
        t->failed = true;
        return;
    }
    view_say(t,
             "<table><caption>Layer %" PRId64 ", head %" PRId64
             ": row asks, column is read, in hundredths</caption><tr><th></th>",
             p->st.layer, head);
    for (int64_t i = -1; i < T; i++) {
        if (i >= 0) {
            view_say(t, "<tr>");
            qkv_view_row(v, row, p->st.layer, head, i);
        }
        for (int64_t j = i < 0 ? 0 : -1; j < T; j++) {
            if (i >= 0 && j >= 0) {
                view_say(t, "<td>");
                view_number(t, 100 * (double)row[j], 0);
                continue;
            }
            struct view_text plain = { 0 };
            const struct qkv_view_token *k = &v->shape.token[i < 0 ? j : i];
            view_token_text(&plain, k, k->special);
            view_say(t, "<th>");
            put_html(t, &plain);
            view_text_free(&plain);
        }
        view_say(t, "\n");
    }
    view_say(t, "</table>");
    qkv_free(row);
}

static void fill_theme(struct view_text *t, const struct page *p)
{
    if (p->o->theme == QKV_THEME_LIGHT) view_say(t, " data-theme=\"light\"");
    if (p->o->theme == QKV_THEME_DARK) view_say(t, " data-theme=\"dark\"");
}

static void fill_model(struct view_text *t, const struct page *p)
{
    const char *name = p->v->shape.model ? p->v->shape.model : "";
    view_html_text(t, name, strlen(name));
}

static void fill_title(struct view_text *t, const struct page *p)
{
    struct view_text plain = { 0 };
    for (int64_t i = 0; i < p->v->shape.tokens && plain.used < 60; i++) {
        if (p->v->shape.token[i].special) continue;
        if (plain.used) view_put(&plain, " ", 1);
        view_token_text(&plain, &p->v->shape.token[i], false);
    }
    put_html(t, &plain);
    view_text_free(&plain);
    view_say(t, " · attention · qkv");
}

static void fill_shape(struct view_text *t, const struct page *p)
{
    const struct qkv_view_shape *s = &p->v->shape;
    view_say(t, "%" PRId64 " layer%s × %" PRId64 " head%s × %" PRId64, s->layers,
             s->layers == 1 ? "" : "s", s->heads, s->heads == 1 ? "" : "s", s->head_width);
}

static void fill_loading(struct view_text *t, const struct page *p)
{
    view_say(t, "unpacking ");
    view_number(t, (double)p->packed_size / (p->packed_size < 1000000 ? 1e3 : 1e6),
                p->packed_size < 1000000 ? 0 : 1);
    view_say(t, p->packed_size < 1000000 ? " kB" : " MB");
}

static void fill_style(struct view_text *t, const struct page *p)
{
    (void)p;
    view_put(t, (const char *)view_style, view_style_size);
}
static void fill_script(struct view_text *t, const struct page *p)
{
    (void)p;
    view_put(t, (const char *)view_script, view_script_size);
}

static const struct {
    const char *name;
    void (*fill)(struct view_text *t, const struct page *p);
} names[] = {
    { "theme", fill_theme }, { "policy", fill_policy },     { "title", fill_title },
    { "style", fill_style }, { "script", fill_script },     { "model", fill_model },
    { "shape", fill_shape }, { "sentence", fill_sentence }, { "loading", fill_loading },
    { "words", fill_words }, { "kept", fill_kept },         { "table", fill_table },
    { "about", fill_about },
};

static qkv_status write_packed(struct qkv_output *out, const struct page *p, qkv_error *err)
{
    char *piece = qkv_alloc(PIECE / 3 * 4, 1);
    if (!piece) return qkv_fail_memory(err, out->path);
    qkv_status status = QKV_OK;
    for (int64_t at = 0; at < p->packed_size && !status; at += PIECE) {
        const int64_t n = qkv_min64(PIECE, p->packed_size - at);
        view_base64(piece, p->packed + at, n);
        status = qkv_output_write(out, piece, (size_t)((n + 2) / 3 * 4), err);
    }
    qkv_free(piece);
    return status;
}

// One {{name}} of the markup.
static qkv_status write_name(struct qkv_output *out, struct page *p, const char *name, size_t n,
                             qkv_error *err)
{
    if (n == 6 && !memcmp(name, "packed", 6)) return write_packed(out, p, err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i].name) != n || memcmp(names[i].name, name, n) != 0) continue;
        p->text.used = 0;
        names[i].fill(&p->text, p);
        if (p->text.failed) return qkv_fail_memory(err, out->path);
        return p->text.used ? qkv_output_write(out, p->text.at, (size_t)p->text.used, err) : QKV_OK;
    }
    return qkv_fail(err, QKV_ERR_INTERNAL, NULL, "no such name in page.html: %.*s", (int)n, name);
}

static qkv_status write_page(struct qkv_output *out, struct page *p, qkv_error *err)
{
    const char *at = (const char *)view_page, *end = at + view_page_size;
    qkv_status status = QKV_OK;
    while (at < end && !status) {
        const char *open = at;
        while (open + 1 < end && !(open[0] == '{' && open[1] == '{')) open++;
        if (open + 1 >= end) open = end;
        status = qkv_output_write(out, at, (size_t)(open - at), err);
        at = open;
        if (status || at == end) break;
        const char *name = at + 2, *close = name;
        while (close < end && *close != '}') close++;
        status = write_name(out, p, name, (size_t)(close - name), err);
        at = close + 2;
    }
    return status;
}

// The finest kind that fits the budget, encoded and packed.
static qkv_status pack(struct page *p, qkv_error *err)
{
    const int64_t budget = p->o->budget > 0 ? p->o->budget : BUDGET;
    const int64_t frame = (int64_t)view_page_size + view_style_size + view_script_size + 20000;
    int64_t needed = -1;
    for (int code = p->v->shape.tokens <= DENSE_TOKENS ? VIEW_DENSE : VIEW_QK16; code < VIEW_CODES;
         code++) {
        const int64_t raw = view_block_bytes(p->v, (enum view_code)code);
        if (raw < 0 || raw / 2 > budget) continue; // no packing halves noise
        qkv_status status = view_encode(&p->block, p->v, (enum view_code)code, err);
        if (!status)
            status = view_deflate(&p->packed, &p->packed_size, p->block.bytes, p->block.size,
                                  code == VIEW_DENSE, err);
        if (status) return status;
        needed =
            frame + (p->packed_size + 2) / 3 * 4 + 200 * p->v->shape.layers * p->v->shape.heads;
        if (needed <= budget) return QKV_OK;
        qkv_free(p->packed);
        p->packed = NULL;
        view_block_free(&p->block);
    }
    if (needed < 0) needed = frame + view_block_bytes(p->v, VIEW_QK8) / 3 * 4;
    return qkv_fail(err, QKV_ERR_LIMIT, NULL,
                    "the picture needs about %" PRId64
                    " bytes, expected at most the budget of %" PRId64
                    ": give a larger budget or fewer tokens",
                    needed, budget);
}

qkv_status qkv_view_html(const qkv_view *v, const char *path, bool force,
                         const struct qkv_view_options *o, struct qkv_view_report *report,
                         qkv_error *err)
{
    if (!v || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_html, expected a view and a path, found NULL");
    static const struct qkv_view_options none;
    struct page p = { .v = v, .o = o ? o : &none };
    struct qkv_output out = { .fd = -1 };
    qkv_status status = view_choose(&p.st, v, o, false, err);
    if (status) goto done;
    status = qkv_output_open(&out, path, force,
                             err); // before the work: a name that is taken is told at once
    if (status) goto done;
    status = pack(&p, err);
    if (status) goto done;
    status = write_page(&out, &p, err);
    if (status) goto done;
    const int64_t bytes = out.written + (int64_t)out.used;
    status = qkv_output_commit(&out, err);
    if (status) goto done;
    if (report)
        *report = (struct qkv_view_report){
            .kind = p.block.kind,
            .error = p.block.error,
            .bytes = bytes,
            .weights = v->shape.layers * v->shape.heads * v->shape.tokens * v->shape.tokens,
            .not_numbers = p.block.not_numbers,
        };
done:
    qkv_output_abort(&out);
    qkv_free(p.packed);
    view_block_free(&p.block);
    view_text_free(&p.text);
    return status;
}
