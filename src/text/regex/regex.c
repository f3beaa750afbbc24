// SPDX-License-Identifier: MIT
// regex.c: runs regular expressions by PCRE2 within limits.
//
// All expressions that run on a text share a budget of PCRE2 steps: a constant number plus some
// steps per byte.  PCRE2 can limit the steps from each start position, but does not report how many
// it used.  So a search runs over a window of start positions with a low limit, then over the next,
// wider window.  When PCRE2 reaches the limit, the window shrinks to the position that needs more
// steps, and this position is retried with a higher limit as long as the budget lasts.  If the
// budget is used up, the text is refused with an error that names the expression.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/text_internal.h"
#include <inttypes.h>
#include <pcre2.h>
#include <stdio.h>
#include <string.h>

#ifdef QKV_FUZZ
enum { STEPS = 10000 }; // budget of a text; fuzz inputs are short
#else
enum { STEPS = 1000000 }; // budget of a text
#endif
enum {
    STEPS_PER_BYTE = 16,    // additional budget per byte
    FIRST_STEPS = 500,      // limit of the first try at a position
    FIRST_WINDOW = 64,      // bytes
    HEAP_KIBIBYTES = 262144 // backtracking memory of PCRE2
};

struct qkv_regex {
    pcre2_code *code;
    char *text; // as written in the file, for messages
};

static void *pcre_alloc(size_t size, void *unused)
{
    (void)unused;
    return qkv_alloc(size, 1);
}

static void pcre_free(void *p, void *unused)
{
    (void)unused;
    qkv_free(p);
}

static qkv_status compile_regex(pcre2_code **out, const char *text, size_t bytes, size_t *where,
                                char reason[128])
{
    qkv_status status = QKV_ERR_LIMIT;
    int error = 0;
    pcre2_general_context *memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    pcre2_compile_context *how = memory ? pcre2_compile_context_create(memory) : NULL;
    *out = NULL;
    *where = 0;
    reason[0] = 0;
    if (how) {
        pcre2_set_newline(how, PCRE2_NEWLINE_LF);
        *out = pcre2_compile((PCRE2_SPTR)text, bytes,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C |
                                 PCRE2_USE_OFFSET_LIMIT,
                             &error, where, how);
        status = *out ? QKV_OK : QKV_ERR_FORMAT;
        if (!*out && error == PCRE2_ERROR_HEAP_FAILED) status = QKV_ERR_LIMIT;
        if (!*out && error == PCRE2_ERROR_UNKNOWN_UNICODE_PROPERTY) status = QKV_ERR_UNSUPPORTED;
        if (status != QKV_OK && status != QKV_ERR_LIMIT)
            pcre2_get_error_message(error, (PCRE2_UCHAR *)reason, 128);
    }
    pcre2_compile_context_free(how);
    pcre2_general_context_free(memory);
    return status;
}

int qkv_regex_property(const char *name)
{
    char text[80], reason[128];
    size_t where;
    pcre2_code *code;
    const int n = snprintf(text, sizeof text, "\\p{%.64s}", name);
    const qkv_status status = compile_regex(&code, text, (size_t)n, &where, reason);
    pcre2_code_free(code);
    return status == QKV_OK ? 1 : status == QKV_ERR_LIMIT ? -1 : 0;
}

// ---- compiling ---------------------------------------------------------------------------------
static void regex_free(struct qkv_regex *r)
{
    if (!r) return;
    pcre2_code_free(r->code);
    qkv_free(r->text);
    qkv_free(r);
}

bool qkv_expression_new(struct qkv_expression *out, const struct qkv_json_at *at, const char *key,
                        const char *regex)
{
    struct qkv_syntax syntax = { 0 };
    struct qkv_regex_error syntax_error = { 0 };
    char reason[128] = "";
    memset(out, 0, sizeof *out);
    out->known = qkv_pattern_find(regex);
    if (out->known) return true;
    struct qkv_regex *r = qkv_alloc_zero(1, sizeof *r);
    if (r) r->text = qkv_copy_text(regex, strlen(regex));
    if (!r || !r->text) {
        syntax_error.status = QKV_ERR_LIMIT;
    } else if (qkv_syntax_read(&syntax, regex, &syntax_error)) {
        size_t where;
        syntax_error.status =
            compile_regex(&r->code, syntax.text, (size_t)syntax.bytes, &where, reason);
        syntax_error.offset = syntax.bytes > 0 && where < (size_t)syntax.bytes
                                  ? syntax.from[where]
                                  : (int64_t)strlen(regex);
        syntax_error.reason = syntax_error.status == QKV_ERR_LIMIT ? NULL : reason;
    }
    qkv_syntax_free(&syntax);
    if (syntax_error.status == QKV_OK) {
        out->regex = r;
        return true;
    }
    regex_free(r);
    if (!syntax_error.reason) {
        qkv_fail_memory(at->err, at->file);
        return false;
    }
    return qkv_text_fail(at, key, syntax_error.status,
                         "regular expression is malformed or not supported, at its byte %" PRId64
                         ": %s, found \"%.200s\"",
                         syntax_error.offset, syntax_error.reason, regex);
}

void qkv_expression_free(struct qkv_expression *x)
{
    regex_free(x->regex);
    memset(x, 0, sizeof *x);
}

// ---- matches -----------------------------------------------------------------------------------
struct qkv_effort qkv_effort_for(int64_t bytes, const char *file, qkv_error *err)
{
    const int64_t most = INT64_MAX / STEPS_PER_BYTE - STEPS;
    return (struct qkv_effort){ err, qkv_min64(bytes, most) * STEPS_PER_BYTE + STEPS, file };
}

bool qkv_matches_open(struct qkv_matches *m, const struct qkv_expression *x, int64_t bytes,
                      struct qkv_effort *effort)
{
    *m = (struct qkv_matches){ .expression = x, .effort = effort, .last = -1 };
    if (!x->regex) return true;
    m->own = qkv_effort_for(bytes, NULL, NULL);
    if (!effort) m->effort = &m->own;
    pcre2_general_context *memory = pcre2_general_context_create(pcre_alloc, pcre_free, NULL);
    if (memory) {
        m->context = pcre2_match_context_create(memory);
        m->data = pcre2_match_data_create(1, memory);
    }
    pcre2_general_context_free(memory);
    if (m->context && m->data) {
        pcre2_set_heap_limit(m->context, HEAP_KIBIBYTES);
        return true;
    }
    qkv_matches_close(m);
    return false;
}

void qkv_matches_close(struct qkv_matches *m)
{
    pcre2_match_context_free(m->context);
    pcre2_match_data_free(m->data);
    m->context = m->data = NULL;
}

void qkv_matches_text(struct qkv_matches *m, const uint8_t *text, int64_t size)
{
    m->text = text;
    m->size = size;
    m->at = 0;
    m->last = -1;
}

// Reports an expression that cannot be matched. The message has the name of the tokenizer's file,
// since the location of the error is the place of the text.
static int refuse_match(struct qkv_matches *m, const char *what)
{
    char name[256] = "";
    const char *file = m->effort->file, *slash = file ? strrchr(file, '/') : NULL;
    if (file) qkv_escape(name, sizeof name, slash ? slash + 1 : file);
    qkv_fail(m->effort->err, QKV_ERR_LIMIT, NULL,
             "regular expression%s%s %s, expected one that matches in few steps, found \"%.200s\"",
             file ? " of " : "", name, what, m->expression->regex->text);
    return -1;
}

// Runs pcre2_match from m->at on, with as many steps as the match needs but no more than the budget
// has left.
static int search(struct qkv_matches *m)
{
    int64_t from = m->at, window = FIRST_WINDOW, limit = FIRST_STEPS;
    for (;;) {
        const bool all = window > m->size - from;
        limit = qkv_min64(limit, qkv_min64(m->effort->steps, UINT32_MAX));
        pcre2_set_match_limit(m->context, (uint32_t)limit);
        pcre2_set_depth_limit(m->context, (uint32_t)limit);
        pcre2_set_offset_limit(m->context, all ? PCRE2_UNSET : (size_t)(from + window - 1));
        const int rc = pcre2_match(m->expression->regex->code, m->text, (size_t)m->size,
                                   (size_t)from, PCRE2_NO_UTF_CHECK, m->data, m->context);
        if (rc == PCRE2_ERROR_NOMATCH && !all) {
            from += window;
            while (from < m->size && qkv_utf8_continues(m->text[from])) from++;
            window *= 2;
            limit = FIRST_STEPS;
            continue;
        }
        if (rc != PCRE2_ERROR_MATCHLIMIT && rc != PCRE2_ERROR_DEPTHLIMIT) return rc;
        m->effort->steps -= limit;
        if (m->effort->steps <= 0) return rc;
        if (window == 1 || m->size == from)
            limit *= 2;
        else
            window = qkv_max64(qkv_min64(window, m->size - from) / 8, 1);
    }
}

int qkv_matches_next(struct qkv_matches *m, int64_t *begin, int64_t *end)
{
    if (m->expression->known) {
        if (m->at >= m->size) return 0;
        *begin = m->at;
        m->at = *end = m->expression->known(m->text, begin, m->size);
        return *begin < m->size;
    }
    while (m->at <= m->size) {
        const int rc = search(m);
        if (rc == PCRE2_ERROR_NOMATCH) return 0;
        if (rc == PCRE2_ERROR_NOMEMORY) return -1;
        if (rc == PCRE2_ERROR_HEAPLIMIT) return refuse_match(m, "exceeded its memory limit");
        if (rc < 0) return refuse_match(m, "exceeded its step limit");
        const size_t *found = pcre2_get_ovector_pointer(m->data);
        *begin = (int64_t)found[0];
        *end = (int64_t)found[1];
        if (*begin < m->at || *end < *begin)
            return refuse_match(m, "matched a range that ends before it begins");
        if (*begin < *end || *end != m->last) {
            m->at = m->last = *end;
            return 1;
        }
        // An empty match directly after the preceding match does not count; the search continues
        // one character later.
        uint32_t code;
        const int n =
            m->at < m->size ? qkv_utf8_read(m->text + m->at, (size_t)(m->size - m->at), &code) : 1;
        m->at += n < 0 ? -n : n;
    }
    return 0;
}
