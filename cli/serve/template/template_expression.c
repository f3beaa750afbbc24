// SPDX-License-Identifier: MIT
// template_expression.c: parses and evaluates the expressions of a chat template, with the
// precedence of Jinja: if-else, or, and, not, comparisons, + -, ~, %, the sign, members and calls,
// filters and tests.
#include "serve/template/template_value.h"
#include <string.h>

void template_skip_space(struct template *t)
{
    const size_t from = t->at;
    while (t->at < t->bytes && strchr(" \t\r\n", t->source[t->at])) t->at++;
    template_work(t, 1 + t->at - from);
}

static bool is_name(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

bool template_word(struct template *t, char word[48])
{
    template_skip_space(t);
    size_t n = 0;
    while (t->at + n < t->bytes && is_name(t->source[t->at + n], !n)) n++;
    if (n >= 48) template_fail(t, "a name that is too long");
    snprintf(word, 48, "%.*s", (int)(n < 48 ? n : 0), t->source + t->at);
    return n > 0 && n < 48;
}

// Skips a symbol or a word if it is next.
bool template_take(struct template *t, const char *symbol)
{
    const size_t n = strlen(symbol);
    char word[48];
    template_skip_space(t);
    if (is_name(*symbol, true)) {
        if (!template_word(t, word) || strcmp(word, symbol) != 0) return false;
    } else if (t->bytes - t->at < n || memcmp(t->source + t->at, symbol, n) != 0) {
        return false;
    }
    t->at += n;
    return true;
}

static void need(struct template *t, const char *symbol)
{
    if (!template_take(t, symbol)) template_fail(t, "expected '%s'", symbol);
}

static struct value any(struct template *t, bool run);

// ---- values -------------------------------------------------------------------------------------
// Returns the value of n hexadecimal digits of the source and skips them; -1: there are fewer.
static int64_t hexadecimal(struct template *t, int n)
{
    int64_t x = 0;
    for (int i = 0; i < n; i++) {
        const char c = t->at < t->bytes ? t->source[t->at] : 0;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        x = x * 16 + digit;
        t->at++;
    }
    return x;
}

// Adds the character of an escape; its backslash was read.
static void add_escape(struct template *t, struct serve_bytes *to)
{
    static const char plain[] = "\\'\"ntr", meaning[] = "\\'\"\n\t\r";
    const char c = t->source[t->at++];
    const char *at = strchr(plain, c);
    if (at) {
        serve_bytes_add(to, &meaning[at - plain], 1);
        return;
    }
    const int64_t code = hexadecimal(t, c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0);
    if (!strchr("xuU", c) || !text_add_character(to, code))
        template_fail(t, "the escape '\\%c' is not supported", c);
}

static struct value text_literal(struct template *t, bool run)
{
    const size_t from = t->at;
    const char quote = t->source[t->at++];
    struct serve_bytes b = { 0 };
    while (t->at < t->bytes && t->source[t->at] != quote && !t->err->status) {
        const char *c = &t->source[t->at++];
        if (*c == '\\' && t->at < t->bytes)
            add_escape(t, &b);
        else
            serve_bytes_add(&b, c, 1);
    }
    template_work(t, t->at - from);
    if (t->at == t->bytes || b.failed)
        template_fail(t, "a text without its end");
    else
        t->at++;
    const struct value v = run ? value_text(t, b.at ? b.at : "", b.count) : (struct value){ 0 };
    serve_bytes_free(&b);
    return v;
}

static struct value integer_literal(struct template *t)
{
    int64_t n = 0;
    while (t->at < t->bytes && t->source[t->at] >= '0' && t->source[t->at] <= '9') {
        if (n > 100000000) return template_fail(t, "a number that is too large");
        n = n * 10 + (t->source[t->at++] - '0');
    }
    return value_integer(n);
}

static struct value list_literal(struct template *t, bool run)
{
    struct value *list = run ? template_alloc(t, 16 * sizeof *list) : NULL;
    int64_t n = 0;
    while (!t->err->status && !template_take(t, "]")) {
        const struct value v = any(t, run);
        if (n == 16) return template_fail(t, "a list of more than 16 values");
        if (list) list[n] = v;
        n++;
        if (!template_take(t, ",")) {
            need(t, "]");
            break;
        }
    }
    return (struct value){ .kind = VALUE_LIST, .number = list ? n : 0, .list = list };
}

// Calls a function by name; the opening parenthesis was read.
static struct value call_function(struct template *t, const char *name, bool run)
{
    const bool makes_space = strcmp(name, "namespace") == 0;
    struct space *s = run && makes_space ? space_new(t) : NULL;
    struct value first = { 0 };
    char key[48];
    while (!t->err->status && !template_take(t, ")")) {
        const size_t begin = t->at;
        if (template_word(t, key) && (t->at += strlen(key), template_skip_space(t), true) &&
            t->at + 1 < t->bytes && t->source[t->at] == '=' && t->source[t->at + 1] != '=') {
            t->at++;
            const struct value v = any(t, run);
            if (s) space_set(t, s, key, v);
        } else {
            t->at = begin;
            first = any(t, run);
        }
        if (!template_take(t, ",")) {
            need(t, ")");
            break;
        }
    }
    if (!run || t->err->status) return (struct value){ 0 };
    if (makes_space) return (struct value){ .kind = VALUE_SPACE, .space = s };
    if (strcmp(name, "raise_exception") == 0 && first.kind == VALUE_TEXT) {
        cmd_error(t->err, QKV_ERR_FORMAT, NULL, "the chat template refuses the messages: %s",
                  first.text);
        return first;
    }
    return template_fail(t, "the function '%s' is not supported", name);
}

static struct value named(struct template *t, const char *name, bool run)
{
    if (strcmp(name, "true") == 0 || strcmp(name, "True") == 0) return value_boolean(true);
    if (strcmp(name, "false") == 0 || strcmp(name, "False") == 0) return value_boolean(false);
    if (strcmp(name, "none") == 0 || strcmp(name, "None") == 0)
        return (struct value){ .kind = VALUE_NONE };
    if (template_take(t, "(")) return call_function(t, name, run);
    for (int i = t->variables; i-- > 0;)
        if (strcmp(t->variable[i].name, name) == 0) return t->variable[i].value;
    return (struct value){ 0 };
}

static struct value primary(struct template *t, bool run)
{
    char word[48];
    template_skip_space(t);
    const char c = t->at < t->bytes ? t->source[t->at] : 0;
    if (c == '\'' || c == '"') return text_literal(t, run);
    if (c >= '0' && c <= '9') return integer_literal(t);
    if (template_take(t, "[")) return list_literal(t, run);
    if (template_take(t, "(")) {
        const struct value v = any(t, run);
        need(t, ")");
        return v;
    }
    if (!template_word(t, word)) return template_fail(t, "expected an expression");
    t->at += strlen(word);
    return named(t, word, run);
}

// ---- operators ----------------------------------------------------------------------------------
// Reads the argument of a filter or a method, if there is one.
static bool argument(struct template *t, struct value *v, bool run)
{
    if (template_take(t, ")")) return false;
    *v = any(t, run);
    need(t, ")");
    return true;
}

static struct value subscript(struct template *t, const struct value *of, bool run)
{
    struct value part[3];
    const struct value *given[3] = { NULL, NULL, NULL };
    int n = 0;
    bool slice = false;
    while (!t->err->status && !template_take(t, "]")) {
        if (template_take(t, ":")) {
            slice = true;
            if (++n == 3) return template_fail(t, "a slice with more than three parts");
            continue;
        }
        if (given[n]) return template_fail(t, "expected ']'");
        part[n] = any(t, run);
        given[n] = &part[n];
    }
    if (!run || t->err->status) return (struct value){ 0 };
    if (slice) return value_slice(t, of, given[0], given[1], given[2]);
    return given[0] ? value_index(t, of, given[0]) : template_fail(t, "an empty index");
}

// Evaluates the indexes, members and methods that follow a value.
static struct value postfix(struct template *t, struct value v, bool run)
{
    struct value a = { 0 };
    char word[48];
    while (!t->err->status) {
        if (template_take(t, "[")) {
            v = subscript(t, &v, run);
        } else if (template_take(t, ".")) {
            if (!template_word(t, word)) return template_fail(t, "expected a name after '.'");
            t->at += strlen(word);
            if (template_take(t, "(")) {
                const bool given = argument(t, &a, run);
                if (run) v = value_method(t, &v, word, given ? &a : NULL);
            } else if (run) {
                v = value_member(t, &v, word);
            }
        } else {
            break;
        }
    }
    return v;
}

// Evaluates the filters and tests that follow a value.
static struct value filters(struct template *t, struct value v, bool run)
{
    struct value a = { 0 };
    char word[48];
    while (!t->err->status) {
        const bool filter = template_take(t, "|");
        if (!filter && !template_take(t, "is")) break;
        const bool opposite = !filter && template_take(t, "not");
        if (!template_word(t, word))
            return template_fail(t, "expected the name of a filter or a test");
        t->at += strlen(word);
        const bool given = filter && template_take(t, "(") && argument(t, &a, run);
        if (!run) continue;
        v = filter ? value_filter(t, &v, word, given ? &a : NULL) : value_test(t, &v, word);
        if (opposite) v = value_boolean(!v.number);
    }
    return v;
}

// Returns true if the tag ends here: "-%}" and "-}}" are no minus, "%}" is no remainder.
static bool at_end(struct template *t)
{
    template_skip_space(t);
    const size_t left = t->bytes - t->at;
    const char *s = t->source + t->at;
    return (left >= 2 && s[0] == '%' && s[1] == '}') ||
           (left >= 3 && s[0] == '-' && (s[1] == '%' || s[1] == '}'));
}

static struct value out_of_range(struct template *t)
{
    return template_fail(t, "a number that is too large");
}

// The sign binds more than filters, and less than members and calls.
static struct value sign(struct template *t, bool run)
{
    bool any = false, negative = false;
    while (!at_end(t) && template_take(t, "-")) {
        any = true;
        negative = !negative;
    }
    struct value v = postfix(t, primary(t, run), run);
    if (any && run && !t->err->status) {
        if (v.kind != VALUE_INTEGER) return template_fail(t, "- of a value that is no integer");
        if (negative && __builtin_sub_overflow(0, v.number, &v.number)) return out_of_range(t);
    }
    return filters(t, v, run);
}

// Returns the remainder with the sign of b, as in Python.
static struct value remainder_of(struct template *t, int64_t a, int64_t b)
{
    if (!b) return template_fail(t, "a division by 0");
    const int64_t rest = b == -1 ? 0 : a % b;
    return value_integer(rest && (rest < 0) != (b < 0) ? rest + b : rest);
}

static struct value product(struct template *t, bool run)
{
    struct value v = sign(t, run);
    while (!t->err->status && !at_end(t) && template_take(t, "%")) {
        const struct value w = sign(t, run);
        if (!run) continue;
        if (v.kind != VALUE_INTEGER || w.kind != VALUE_INTEGER)
            return template_fail(t, "%% of values that are no integers");
        v = remainder_of(t, v.number, w.number);
    }
    return v;
}

static struct value concatenation(struct template *t, bool run)
{
    struct value v = product(t, run);
    while (!t->err->status && template_take(t, "~")) {
        const struct value w = product(t, run);
        if (run) v = value_join(t, &v, &w);
    }
    return v;
}

static struct value sum(struct template *t, bool run)
{
    struct value v = concatenation(t, run);
    while (!t->err->status && !at_end(t)) {
        const bool plus = template_take(t, "+");
        if (!plus && !template_take(t, "-")) break;
        const struct value w = concatenation(t, run);
        if (!run) continue;
        if (v.kind == VALUE_INTEGER && w.kind == VALUE_INTEGER) {
            if (plus ? __builtin_add_overflow(v.number, w.number, &v.number)
                     : __builtin_sub_overflow(v.number, w.number, &v.number))
                return out_of_range(t);
        } else if (plus && v.kind == VALUE_TEXT && w.kind == VALUE_TEXT) {
            v = value_join(t, &v, &w);
        } else {
            return template_fail(t, "+ or - of values that are not both texts or both integers");
        }
    }
    return v;
}

static struct value comparison(struct template *t, bool run)
{
    static const char *const signs[] = { "==", "!=", "<=", ">=", "<", ">" };
    struct value v = sum(t, run);
    for (int i = 0; i < 6; i++) {
        if (!template_take(t, signs[i])) continue;
        const struct value w = sum(t, run);
        const int64_t a = v.number, b = w.number;
        if (!run) return v;
        if (i < 2) return value_boolean(value_equal(t, &v, &w) == (i == 0));
        if (v.kind != VALUE_INTEGER || w.kind != VALUE_INTEGER)
            return template_fail(t, "%s of values that are no integers", signs[i]);
        return value_boolean(i == 2 ? a <= b : i == 3 ? a >= b : i == 4 ? a < b : a > b);
    }
    const size_t begin = t->at;
    const bool opposite = template_take(t, "not");
    if (template_take(t, "in")) {
        const struct value w = sum(t, run);
        return run ? value_boolean(value_contains(t, &w, &v) != opposite) : v;
    }
    t->at = begin;
    return v;
}

static struct value negation(struct template *t, bool run)
{
    bool any = false, negative = false;
    while (template_take(t, "not")) {
        any = true;
        negative = !negative;
    }
    const struct value v = comparison(t, run);
    return any ? value_boolean(value_true(&v) != negative) : v;
}

static struct value conjunction(struct template *t, bool run)
{
    struct value v = negation(t, run);
    while (!t->err->status && template_take(t, "and")) {
        const bool decides = value_true(&v);
        const struct value w = negation(t, run && decides);
        if (decides) v = w;
    }
    return v;
}

static struct value disjunction(struct template *t, bool run)
{
    struct value v = conjunction(t, run);
    while (!t->err->status && template_take(t, "or")) {
        const bool decided = value_true(&v);
        const struct value w = conjunction(t, run && !decided);
        if (!decided) v = w;
    }
    return v;
}

// A if CONDITION else B.  A is parsed first and evaluated when the condition is known.
static struct value any(struct template *t, bool run)
{
    if (++t->depth > TEMPLATE_DEPTH) {
        t->depth--;
        return template_fail(t, "an expression that is nested too deep");
    }
    const size_t begin = t->at;
    struct value v = disjunction(t, false);
    if (template_take(t, "if")) {
        const struct value condition = disjunction(t, run);
        const size_t after = t->at;
        const bool yes = run && value_true(&condition);
        if (yes) {
            t->at = begin;
            v = disjunction(t, run);
            t->at = after;
        }
        if (template_take(t, "else")) {
            const struct value w = any(t, run && !yes);
            if (!yes) v = w;
        } else if (!yes) {
            v = (struct value){ 0 };
        }
    } else if (run) {
        t->at = begin;
        v = disjunction(t, true);
    }
    t->depth--;
    return v;
}

struct value template_expression(struct template *t, bool run)
{
    return any(t, run);
}
