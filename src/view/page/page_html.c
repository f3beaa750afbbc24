// SPDX-License-Identifier: MIT
// page_html.c: writes the page of a view: one HTML file that needs no other file.
//
// page.html is a template: the writer replaces each {{name}} in it. The content security policy
// contains the SHA-256 of the script, of its loader and of the only style. Tokens are in JSON and
// in escaped text; numbers and the script are in compressed blocks (docs/formats.md).
#include "view/page/page_internal.h"
#include <qkv/json.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { TABLE_TOKENS = 64, WORDS = 4096, PIECE = 3 << 14 };

// The state of writing a page.
struct page {
    const qkv_view *v;
    const struct view_stack *k; // the stack that the page shows first
    const struct qkv_view_options *o;
    // [stacks] what is selected first in each stack; st[o->stack] is shown first
    struct view_selection *st;
    struct view_plan plan;
    // about: the description in JSON; text: the text that replaces the current {{name}}
    struct view_text about, text;
};

static void put_html(struct view_text *t, const struct view_text *plain)
{
    t->failed |= plain->failed;
    if (plain->at) view_html_text(t, plain->at, (size_t)plain->used);
}

// Writes the text that the page shows before its script has run, or if scripts are disabled: the
// beginning of the view's text.
static void fill_words(struct view_text *t, const struct page *p)
{
    struct view_text plain = { 0 };
    const int64_t n = qkv_min64(p->k->shape.tokens, WORDS);
    for (int64_t i = 0; i < n; i++) {
        if (!view_shown(p->k, p->st + p->o->stack, i)) continue;
        if (plain.used) view_put(&plain, " ", 1);
        view_token_text(&plain, &p->k->shape.token[i], p->k->shape.token[i].special);
    }
    if (n < p->k->shape.tokens) view_say(&plain, " …");
    put_html(t, &plain);
    view_text_free(&plain);
}

static void fill_sentence(struct view_text *t, const struct page *p)
{
    struct view_text plain = { 0 };
    view_sentence(&plain, p->k, p->st + p->o->stack);
    put_html(t, &plain);
    view_text_free(&plain);
}

// Writes a SHA-256 of 32 bytes as 'sha256-...', the form in a content security policy.
static void put_hash(struct view_text *t, const unsigned char *sum)
{
    char text[44];
    view_base64(text, sum, 32);
    view_say(t, "'sha256-%.44s'", text);
}

static void fill_policy(struct view_text *t, const struct page *p)
{
    view_say(t, "default-src 'none'; script-src ");
    put_hash(t, view_loader_sha256);
    view_say(t, " ");
    put_hash(t, view_script_sha256);
    view_say(t, "; style-src ");
    put_hash(t, view_style_sha256);
    view_say(t, " ");
    put_hash(t, view_view_style_sha256);
    if (p->o->server) view_say(t, "; connect-src 'self'");
    view_say(t, "; img-src data: blob:; base-uri 'none'; form-action 'none'");
}

// Writes how many weights of the first stack are stored, and with which error, such as "all 12,168
// weights stored · exact" or "... · error ≤ .0040".
static void fill_kept(struct view_text *t, const struct page *p)
{
    const struct view_kept *kept = &p->plan.stack[p->o->stack];
    const struct view_encoding *how = &kept->how[p->st[p->o->stack].layer];
    int64_t not_numbers = 0, not_one = 0;
    if (kept->code == VIEW_TOP) {
        view_say(t, "stored: the %" PRId64 " largest weights of each row, ",
                 qkv_min64(how->top, p->k->shape.keys));
        view_weight(t, kept->loss.rows ? kept->loss.kept / (double)kept->loss.rows : 1, 3);
        view_say(t, " of all weight");
    } else {
        view_say(t, "all ");
        view_count(t,
                   p->k->shape.layers * p->k->shape.heads * p->k->shape.tokens * p->k->shape.keys);
        view_say(t,
                 kept->code == VIEW_DENSE ? " weights stored"
                                          : " weights stored as %d-bit queries and keys",
                 kept->code == VIEW_QK16 ? 16 : 8);
    }
    if (kept->loss.error <= 0) {
        view_say(t, " · exact");
    } else {
        view_say(t, " · error ≤ ");
        view_weight(t, ceil(kept->loss.error * 1e4) / 1e4, 4);
    }
    for (int64_t s = 0; s < p->v->shape.stacks; s++)
        view_count_invalid_rows(&p->v->stack[s], &not_numbers, &not_one);
    if (not_numbers) {
        view_say(t, " · ");
        view_count(t, not_numbers);
        view_say(t, not_numbers == 1 ? " row contains NaN or Inf (!)"
                                     : " rows contain NaN or Inf (!)");
    }
    if (not_one) {
        view_say(t, " · ");
        view_count(t, not_one);
        view_say(t, not_one == 1 ? " row does not sum to 1" : " rows do not sum to 1");
    }
}

// Returns the selected head with the highest strength. {{table}} shows its weights to readers
// without script.
static int64_t strongest(const struct page *p)
{
    const struct view_selection *st = p->st + p->o->stack;
    int64_t head = st->head[0];
    for (int64_t i = 1; i < st->selected; i++)
        if (view_stats(p->k, st->layer, st->head[i])->strength >
            view_stats(p->k, st->layer, head)->strength)
            head = st->head[i];
    return head;
}

static void put_name(struct view_text *t, const struct qkv_view_token *k)
{
    struct view_text plain = { 0 };
    view_token_text(&plain, k, k->special);
    view_say(t, "<th>");
    put_html(t, &plain);
    view_text_free(&plain);
}

static void fill_table(struct view_text *t, const struct page *p)
{
    const struct view_stack *v = p->k;
    const struct view_selection *st = p->st + p->o->stack;
    const int64_t T = v->shape.tokens, S = v->shape.keys;
    view_say(
        t,
        "<p class=\"note\">This page draws with a script, but scripts are switched off here.</p>");
    if (T > TABLE_TOKENS || S > TABLE_TOKENS || !st->selected) return;
    const int64_t head = strongest(p);
    float *row = qkv_alloc((size_t)S, sizeof *row);
    if (!row) {
        t->failed = true;
        return;
    }
    view_say(t,
             "<table><caption>Layer %" PRId64 ", head %" PRId64
             ": weights in hundredths; rows: queries, columns: keys</caption><tr><th></th>",
             st->layer, head);
    for (int64_t j = 0; j < S; j++) put_name(t, &v->shape.key[j]);
    view_say(t, "\n");
    for (int64_t i = 0; i < T; i++) {
        view_say(t, "<tr>");
        view_row(row, v, st->layer, head, i);
        put_name(t, &v->shape.token[i]);
        for (int64_t j = 0; j < S; j++) {
            view_say(t, "<td>");
            view_number(t, 100 * (double)row[j], 0);
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
    for (int64_t i = 0; i < p->k->shape.tokens && plain.used < 60; i++) {
        if (p->k->shape.token[i].special) continue;
        if (plain.used) view_put(&plain, " ", 1);
        view_token_text(&plain, &p->k->shape.token[i], false);
    }
    put_html(t, &plain);
    view_text_free(&plain);
    view_say(t, " · attention · qkv");
}

static void fill_shape(struct view_text *t, const struct page *p)
{
    const struct view_stack *v = p->k;
    view_say(t, "%" PRId64 " layer%s × %" PRId64 " head%s", v->shape.layers,
             v->shape.layers == 1 ? "" : "s", v->shape.heads, v->shape.heads == 1 ? "" : "s");
    if (v->shape.head_width) view_say(t, " × %" PRId64, v->shape.head_width);
}

static void fill_about(struct view_text *t, const struct page *p)
{
    t->failed |= p->about.failed;
    if (p->about.at) view_put(t, p->about.at, (size_t)p->about.used);
}

static void fill_loading(struct view_text *t, const struct page *p)
{
    const int64_t n = p->plan.packed.size;
    view_say(t, "unpacking ");
    view_number(t, (double)n / (n < 1000000 ? 1e3 : 1e6), n < 1000000 ? 0 : 1);
    view_say(t, n < 1000000 ? " kB" : " MB");
}

static void fill_style(struct view_text *t, const struct page *p)
{
    (void)p;
    view_put(t, (const char *)view_style, view_style_size);
}
static void fill_loader(struct view_text *t, const struct page *p)
{
    (void)p;
    view_put(t, (const char *)view_loader, view_loader_size);
}
static void fill_code_bytes(struct view_text *t, const struct page *p)
{
    (void)p;
    view_say(t, "%u", view_script_length);
}

static const struct {
    const char *name;
    void (*fill)(struct view_text *t, const struct page *p);
} names[] = {
    { "theme", fill_theme },     { "policy", fill_policy }, { "title", fill_title },
    { "style", fill_style },     { "loader", fill_loader }, { "code_bytes", fill_code_bytes },
    { "model", fill_model },     { "shape", fill_shape },   { "sentence", fill_sentence },
    { "loading", fill_loading }, { "words", fill_words },   { "kept", fill_kept },
    { "table", fill_table },     { "about", fill_about },
};

static qkv_status write_base64(struct qkv_output *out, const uint8_t *bytes, int64_t size,
                               qkv_error *err)
{
    char *piece = qkv_alloc(PIECE / 3 * 4, 1);
    if (!piece) return qkv_fail_memory(err, out->path);
    qkv_status status = QKV_OK;
    for (int64_t at = 0; at < size && !status; at += PIECE) {
        const int64_t n = qkv_min64(PIECE, size - at);
        view_base64(piece, bytes + at, n);
        status = qkv_output_write(out, piece, (size_t)((n + 2) / 3 * 4), err);
    }
    qkv_free(piece);
    return status;
}

// Writes the text that replaces one {{name}} of page.html.
static qkv_status write_name(struct qkv_output *out, struct page *p, const char *name, size_t n,
                             qkv_error *err)
{
    if (n == 6 && !memcmp(name, "packed", 6))
        return write_base64(out, p->plan.packed.bytes, p->plan.packed.size, err);
    if (n == 4 && !memcmp(name, "code", 4))
        return write_base64(out, view_script, view_script_size, err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i].name) != n || memcmp(names[i].name, name, n) != 0) continue;
        p->text.used = 0;
        names[i].fill(&p->text, p);
        if (p->text.failed) return qkv_fail_memory(err, out->path);
        return p->text.used ? qkv_output_write(out, p->text.at, (size_t)p->text.used, err) : QKV_OK;
    }
    return qkv_fail(err, QKV_ERR_INTERNAL, NULL, "unknown name in page.html: %.*s", (int)n, name);
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

// Chooses what is selected first in every stack. The options apply to stack o->stack. The view
// output shows its own position, such as the last of a decoder, unless an option names the token.
static qkv_status choose(struct page *p, qkv_error *err)
{
    const struct qkv_view_options plain = { .special = p->o->special };
    qkv_status status = QKV_OK;
    p->st = qkv_alloc_zero((size_t)p->v->shape.stacks, sizeof *p->st);
    if (!p->st) return qkv_fail_memory(err, NULL);
    const bool output = p->o->view && strcmp(p->o->view, "output") == 0;
    for (int64_t s = 0; s < p->v->shape.stacks && !status; s++) {
        status =
            view_select(&p->st[s], &p->v->stack[s], s == p->o->stack ? p->o : &plain, false, err);
        if (!status && output && p->st[s].offered) p->st[s].token = -1;
    }
    return status;
}

int64_t view_code_bytes(void)
{
    return (int64_t)view_style_size + view_loader_size + ((int64_t)view_script_size + 2) / 3 * 4;
}

// Computes the size of the page without its numbers: text, style, script, and the JSON without the
// list of arrays.
static qkv_status measure_frame(struct page *p, int64_t *bytes, qkv_error *err)
{
    *bytes = (int64_t)view_page_size + view_code_bytes() + 20000;
    for (int64_t s = 0; s < p->v->shape.stacks; s++) {
        const struct view_shape *k = &p->v->stack[s].shape;
        *bytes += 120 * k->layers * k->heads;
    }
    struct view_text t = { 0 };
    view_texts(&t, &p->v->shape);
    if (p->v->against) view_texts(&t, &p->v->against->shape);
    fill_words(&t, p);
    *bytes += t.used;
    const bool failed = t.failed;
    view_text_free(&t);
    return failed ? qkv_fail_memory(err, NULL) : QKV_OK;
}

// Checks that the options' member `server` is a JSON object.
static qkv_status check_server(const char *server, qkv_error *err)
{
    qkv_json *value = NULL;
    qkv_status status = server ? qkv_json_read(&value, server, strlen(server), err) : QKV_OK;
    if (server && !status && qkv_json_kind_of(value) != QKV_JSON_OBJECT)
        status = qkv_fail(err, QKV_ERR_USAGE, NULL,
                          "server of struct qkv_view_options: expected a JSON object, found %s",
                          qkv_json_kind_name(value));
    qkv_json_free(value);
    return status;
}

static void report_of(struct qkv_view_report *r, const struct page *p, int64_t bytes)
{
    const struct view_kept *kept = &p->plan.stack[p->o->stack];
    const struct view_shape *k = &p->k->shape;
    *r = (struct qkv_view_report){ .kind = view_code_names[kept->code],
                                   .error = kept->loss.error,
                                   .kept = 1,
                                   .bytes = bytes,
                                   .weights = k->layers * k->heads * k->tokens * k->keys,
                                   .values_left = p->plan.values_left };
    if (kept->code == VIEW_TOP) {
        r->kept = kept->loss.rows ? kept->loss.kept / (double)kept->loss.rows : 1;
        for (int64_t l = 0; l < k->layers; l++)
            if (kept->how[l].code == VIEW_TOP) r->top = qkv_min64(kept->how[l].top, k->keys);
    }
    for (int64_t s = 0; s < p->v->shape.stacks; s++)
        view_count_invalid_rows(&p->v->stack[s], &r->not_numbers, &r->not_one);
}

qkv_status qkv_view_html(const qkv_view *v, const char *path, bool force,
                         const struct qkv_view_options *o, struct qkv_view_report *report,
                         qkv_error *err)
{
    if (!v || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_html: expected a view and a path, found NULL");
    static const struct qkv_view_options none;
    struct page p = { .v = v, .o = o ? o : &none };
    struct qkv_output out = { .fd = -1 };
    int64_t frame = 0;
    qkv_status status = check_server(p.o->server, err);
    if (!status) status = view_select_stack(&p.k, v, p.o, err);
    if (!status) status = choose(&p, err);
    if (!status) // first, so that an existing file is reported before the long computation
        status = qkv_output_open(&out, path, force, err);
    if (!status) status = measure_frame(&p, &frame, err);
    if (!status) status = view_plan_make(&p.plan, v, p.o, frame, err);
    if (status) goto done;
    view_page_metadata(&p.about, v, &p.plan, p.st, p.o);
    status = write_page(&out, &p, err);
    if (status) goto done;
    const int64_t bytes = out.written + (int64_t)out.used;
    status = qkv_output_commit(&out, err);
    if (!status && report) report_of(report, &p, bytes);
done:
    qkv_output_abort(&out);
    view_plan_free(&p.plan);
    qkv_free(p.st);
    view_text_free(&p.about);
    view_text_free(&p.text);
    return status;
}
