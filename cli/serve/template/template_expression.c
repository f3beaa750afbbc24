// SPDX-License-Identifier: MIT
// template_expression.c: parses and evaluates the expressions of a chat template, with the
// precedence of Jinja: if-else, or, and, not, comparisons, + - ~, postfix and filters.
#include "serve/template/template_value.h"
#include <string.h>

static void skip_space(struct template *t)
{
    while (t->at < t->bytes && strchr(" \t\r\n", t->source[t->at])) t->at++;
}

static bool is_name(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

bool template_word(struct template *t, char word[48])
{
    skip_space(t);
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
    skip_space(t);
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
static struct value text_literal(struct template *t)
{
    const char quote = t->source[t->at++];
    struct serve_bytes b = { 0 };
    while (t->at < t->bytes && t->source[t->at] != quote) {
        char c = t->source[t->at++];
        if (c == '\\' && t->at < t->bytes) {
            c = t->source[t->at++];
            c = (char)(c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c);
        }
        serve_bytes_add(&b, &c, 1);
    }
    if (t->at == t->bytes || b.failed)
        template_fail(t, "a text without its end");
    else
        t->at++;
    const struct value v = value_text(t, b.at ? b.at : "", b.count);
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
    struct value *list = template_alloc(t, 16 * sizeof *list);
    int64_t n = 0;
    while (!t->err->status && !template_take(t, "]")) {
        const struct value v = any(t, run);
        if (n == 16) return template_fail(t, "a list of more than 16 values");
        if (list) list[n++] = v;
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
    struct space *s = space_new(t);
    struct value first = { 0 };
    char key[48];
    while (!t->err->status && !template_take(t, ")")) {
        const size_t begin = t->at;
        if (template_word(t, key) && (t->at += strlen(key), skip_space(t), true) &&
            t->at + 1 < t->bytes && t->source[t->at] == '=' && t->source[t->at + 1] != '=') {
            t->at++;
            const struct value v = any(t, run);
            if (run) space_set(t, s, key, v);
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
    if (strcmp(name, "namespace") == 0) return (struct value){ .kind = VALUE_SPACE, .space = s };
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
    skip_space(t);
    const char c = t->at < t->bytes ? t->source[t->at] : 0;
    if (c == '\'' || c == '"') return text_literal(t);
    if (c >= '0' && c <= '9') return integer_literal(t);
    if (template_take(t, "[")) return list_literal(t, run);
    if (template_take(t, "(")) {
        const struct value v = any(t, run);
        need(t, ")");
        return v;
    }
    if (template_take(t, "-")) {
        struct value v = primary(t, run);
        v.number = -v.number;
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

static struct value postfix(struct template *t, bool run)
{
    struct value v = primary(t, run), a = { 0 };
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
        } else if (template_take(t, "|")) {
            if (!template_word(t, word)) return template_fail(t, "expected a filter");
            t->at += strlen(word);
            const bool given = template_take(t, "(") && argument(t, &a, run);
            if (run) v = value_filter(t, &v, word, given ? &a : NULL);
        } else {
            break;
        }
    }
    return v;
}

// Returns true if the tag ends here: "-%}" and "-}}" are no minus.
static bool at_end(struct template *t)
{
    skip_space(t);
    return t->bytes - t->at >= 3 && t->source[t->at] == '-' &&
           (t->source[t->at + 1] == '%' || t->source[t->at + 1] == '}');
}

static struct value sum(struct template *t, bool run)
{
    struct value v = postfix(t, run);
    while (!t->err->status && !at_end(t)) {
        const bool plus = template_take(t, "+"), tilde = !plus && template_take(t, "~");
        const bool rest = !plus && !tilde && template_take(t, "%");
        if (rest && t->at < t->bytes && t->source[t->at] == '}') { // the end of the tag
            t->at--;
            break;
        }
        if (!plus && !tilde && !rest && !template_take(t, "-")) break;
        const struct value w = postfix(t, run);
        const bool numbers = v.kind == VALUE_INTEGER && w.kind == VALUE_INTEGER;
        if (!run) continue;
        if (tilde || (plus && v.kind == VALUE_TEXT && w.kind == VALUE_TEXT))
            v = value_join(t, &v, &w);
        else if (numbers && rest)
            v = w.number ? value_integer(v.number % w.number) : template_fail(t, "a division by 0");
        else if (numbers)
            v = value_integer(plus ? v.number + w.number : v.number - w.number);
        else
            v = template_fail(t, "+ of values that are not both texts or both integers");
    }
    return v;
}

static struct value comparison(struct template *t, bool run)
{
    static const char *const signs[] = { "==", "!=", "<=", ">=", "<", ">" };
    struct value v = sum(t, run);
    char word[48];
    for (int i = 0; i < 6; i++) {
        if (!template_take(t, signs[i])) continue;
        const struct value w = sum(t, run);
        const int64_t a = v.number, b = w.number;
        if (i < 2) return value_boolean(value_equal(&v, &w) == (i == 0));
        if (run && (v.kind != VALUE_INTEGER || w.kind != VALUE_INTEGER))
            return template_fail(t, "%s of values that are no integers", signs[i]);
        return value_boolean(i == 2 ? a <= b : i == 3 ? a >= b : i == 4 ? a < b : a > b);
    }
    if (template_take(t, "is")) {
        const bool not = template_take(t, "not");
        if (!template_word(t, word)) return template_fail(t, "expected a test after 'is'");
        t->at += strlen(word);
        if (!run) return v;
        v = value_test(t, &v, word);
        return value_boolean((v.number != 0) != not );
    }
    const size_t begin = t->at;
    const bool not = template_take(t, "not");
    if (template_take(t, "in")) {
        const struct value w = sum(t, run);
        return run ? value_boolean(value_contains(t, &w, &v) != not ) : v;
    }
    t->at = begin;
    return v;
}

static struct value negation(struct template *t, bool run)
{
    if (!template_take(t, "not")) return comparison(t, run);
    const struct value v = negation(t, run);
    return value_boolean(!value_true(&v));
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
    if (++t->depth > TEMPLATE_DEPTH || ++t->steps > TEMPLATE_STEPS) {
        t->depth--;
        return template_fail(t, "an expression that is nested too deep, or too many steps");
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
