// SPDX-License-Identifier: MIT
// lean.c: script and style of the page without what only readers of the source need.
//
//   lean js  FILE...   comments and blanks go; names that the program declares itself get short
//   lean css FILE...   comments and blanks go
//
// A build tool, run on our own web/ only.  A variable is renamed everywhere or nowhere, each to a
// name of its own, so that scopes cannot mix.  Properties keep theirs: names after a dot, before a
// colon in the braces of an object, methods; { a } becomes { a: x }, { a = 1 } becomes { a: x = 1 }.
// Statements must end with semicolons.
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { NAME, NUMBER, TEXT, TEMPLATE, REGEX, MARK };
struct token {
    enum kind kind;
    const char *at;
    int size, name;           // name: its row in names
    bool property, shorthand; // { a }: both a property and a variable
};
struct name {
    const char *at;
    int size, count;
    bool declared;
    char lean[4];
};
static struct token *tokens;
static struct name *names;
static int token_count, name_count;

static void *must(void *p)
{
    if (!p) {
        fputs("lean: no memory\n", stderr);
        exit(5);
    }
    return p;
}

static char *read_all(int n, char **paths)
{
    size_t used = 0;
    char *all = must(calloc(1, 1));
    for (int i = 0; i < n; i++) {
        FILE *f = fopen(paths[i], "rb");
        if (!f) {
            perror(paths[i]);
            exit(6);
        }
        char piece[4096];
        for (size_t got; (got = fread(piece, 1, sizeof piece, f)) > 0; used += got) {
            all = must(realloc(all, used + got + 1));
            memcpy(all + used, piece, got);
        }
        fclose(f);
    }
    all[used] = 0;
    return all;
}

static bool name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}
static bool is(int t, const char *text)
{
    return t >= 0 && t < token_count && tokens[t].size == (int)strlen(text) &&
           !memcmp(tokens[t].at, text, (size_t)tokens[t].size);
}
static bool is_name(int t)
{
    return t >= 0 && t < token_count && tokens[t].kind == NAME;
}

static const char *add(enum kind kind, const char *at, const char *end)
{
    if (token_count % 1024 == 0)
        tokens = must(realloc(tokens, (size_t)(token_count + 1024) * sizeof *tokens));
    tokens[token_count++] = (struct token){ kind, at, (int)(end - at), -1, false, false };
    return end;
}

// After these a slash begins a regular expression.
static bool value_may_begin(void)
{
    const int t = token_count - 1;
    if (t < 0) return true;
    if (tokens[t].kind == NAME) return is(t, "return");
    return tokens[t].kind == MARK && !strchr(")]}", *tokens[t].at);
}

static const char *end_of_quoted(const char *p)
{
    const char quote = *p++;
    while (*p && *p != quote) p += *p == '\\' && p[1] ? 2 : 1;
    return p + 1;
}
static const char *end_of_regex(const char *p)
{
    bool set = false;
    for (p++; *p && (*p != '/' || set); p++) {
        if (*p == '\\' && p[1])
            p++;
        else if (*p == '[')
            set = true;
        else if (*p == ']')
            set = false;
    }
    for (p++; name_char(*p);) p++;
    return p;
}
// From ` or the } of a piece to the next ${ or the closing `.
static const char *end_of_template(const char *p, bool *closed)
{
    for (p++; *p && *p != '`'; p++) {
        if (*p == '\\' && p[1])
            p++;
        else if (p[0] == '$' && p[1] == '{') {
            *closed = false;
            return p + 2;
        }
    }
    *closed = true;
    return p + 1;
}

static void split(const char *p)
{
    int depth = 0, open[16], opened = 0; // braces of templates
    while (*p) {
        const char *from = p;
        bool closed = false;
        if (isspace((unsigned char)*p)) {
            p++;
        } else if (p[0] == '/' && p[1] == '/') {
            p += strcspn(p, "\n");
        } else if (p[0] == '/' && p[1] == '*') {
            p = strstr(p, "*/") + 2;
        } else if (*p == '"' || *p == '\'') {
            p = add(TEXT, p, end_of_quoted(p));
        } else if (*p == '`' || (*p == '}' && opened && open[opened - 1] == depth)) {
            if (*p == '}') opened--, depth--;
            p = add(TEMPLATE, from, end_of_template(p, &closed));
            if (!closed) open[opened++] = ++depth;
        } else if (*p == '/' && value_may_begin()) {
            p = add(REGEX, p, end_of_regex(p));
        } else if (isdigit((unsigned char)*p) || (*p == '.' && isdigit((unsigned char)p[1]))) {
            while (name_char(*p) || *p == '.') p++;
            add(NUMBER, from, p);
        } else if (name_char(*p)) {
            while (name_char(*p)) p++;
            add(NAME, from, p);
        } else {
            depth += *p == '{';
            depth -= *p == '}';
            p = add(MARK, p, p + 1);
        }
    }
}

// ---- names -------------------------------------------------------------------------------------
static void collect_names(void)
{
    names = must(calloc((size_t)token_count + 1, sizeof *names));
    for (int t = 0; t < token_count; t++) {
        if (tokens[t].kind != NAME) continue;
        int n = 0;
        while (n < name_count && !(names[n].size == tokens[t].size &&
                                   !memcmp(names[n].at, tokens[t].at, (size_t)tokens[t].size)))
            n++;
        if (n == name_count)
            names[name_count++] = (struct name){ .at = tokens[t].at, .size = tokens[t].size };
        names[n].count++;
        tokens[t].name = n;
    }
}
static void declare(int t)
{
    if (is_name(t) && !tokens[t].property) names[tokens[t].name].declared = true;
}
// Names of a pattern or a list of parameters: those behind an opening mark or a comma.
static void declare_list(int from, int end)
{
    for (int t = from; t < end; t++)
        if (is_name(t) && tokens[t - 1].kind == MARK && strchr("([{,:.", *tokens[t - 1].at))
            declare(t);
}
static int closing(int t)
{
    int depth = 0;
    for (; t < token_count; t++) {
        if (tokens[t].kind != MARK) continue;
        depth += strchr("([{", *tokens[t].at) != NULL;
        depth -= strchr(")]}", *tokens[t].at) != NULL;
        if (!depth) break;
    }
    return t;
}
static int opening(int t)
{
    int depth = 0;
    for (; t > 0; t--) {
        if (tokens[t].kind != MARK) continue;
        depth += strchr(")]}", *tokens[t].at) != NULL;
        depth -= strchr("([{", *tokens[t].at) != NULL;
        if (!depth) break;
    }
    return t;
}
// const a = ..., [b, c] = ..., d;
static void declare_variables(int t)
{
    bool next = true; // a name or pattern comes now
    for (; t < token_count && !is(t, ";") && !is(t, "of") && !is(t, ")") && !is(t, "}"); t++) {
        const bool group = tokens[t].kind == MARK && strchr("([{", *tokens[t].at);
        const int end = group ? closing(t) : t;
        if (next && group) declare_list(t + 1, end);
        if (next && is_name(t)) declare(t);
        t = end;
        next = is(t, ",");
    }
}
// A brace that opens an object or a pattern, not statements.
static bool opens_object(int t)
{
    if (!is(t, "{") || t == 0) return false;
    if (is(t - 1, "const") || is(t - 1, "let") || is(t - 1, "return")) return true;
    return tokens[t - 1].kind == MARK && strchr("(,=:?[&|.", *tokens[t - 1].at);
}
static void find_properties(void)
{
    enum { STATEMENTS, OBJECT, CLASS, OTHER } open[64] = { STATEMENTS };
    int depth = 0;
    for (int t = 0; t < token_count; t++) {
        struct token *k = &tokens[t];
        const bool template_opens = k->kind == TEMPLATE && k->at[k->size - 1] == '{';
        if (k->kind == TEMPLATE && *k->at == '}') depth--;
        if (template_opens) open[++depth] = OTHER;
        if (k->kind == MARK && strchr("([{", *k->at))
            open[++depth] = opens_object(t)                    ? OBJECT
                            : is(t, "{") && is(t - 2, "class") ? CLASS
                            : is(t, "{")                       ? STATEMENTS
                                                               : OTHER;
        if (k->kind == MARK && strchr(")]}", *k->at)) depth--;
        if (k->kind != NAME) continue;
        const bool first = is(t - 1, "{") || is(t - 1, ",");
        k->property = (is(t - 1, ".") && !is(t - 2, ".")) || is(t - 1, "get") ||
                      (open[depth] == CLASS && is(t + 1, "(")) ||
                      (open[depth] == OBJECT && first && (is(t + 1, ":") || is(t + 1, "(")));
        k->shorthand =
            open[depth] == OBJECT && first && (is(t + 1, ",") || is(t + 1, "}") || is(t + 1, "="));
    }
}
static void find_variables(void)
{
    for (int t = 0; t < token_count; t++) {
        if (is(t, "const") || is(t, "let")) declare_variables(t + 1);
        if (is(t, "class")) declare(t + 1);
        if (is_name(t) && tokens[t].property && is(t + 1, "(") && is(closing(t + 1) + 1, "{"))
            declare_list(t + 2, closing(t + 1)); // a method's parameters
        if (is(t, "function")) {
            declare(t + 1);
            const int list = is(t + 1, "(") ? t + 1 : t + 2;
            declare_list(list + 1, closing(list));
        }
        if (is(t, "=") && is(t + 1, ">")) {
            if (is(t - 1, ")"))
                declare_list(opening(t - 1) + 1, t - 1);
            else
                declare(t - 1);
        }
    }
}
static bool taken(const char *lean)
{
    static const char *const reserved[] = { "do", "if", "in", "of", "as", "is" };
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (!strcmp(reserved[i], lean)) return true;
    for (int n = 0; n < name_count; n++)
        if (names[n].size == (int)strlen(lean) && !memcmp(names[n].at, lean, strlen(lean)))
            return true;
    return false;
}
static void shorten(void)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$";
    static const char other[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    int made = 0;
    for (;;) {
        int best = -1; // that saves most
        for (int n = 0; n < name_count; n++)
            if (names[n].declared && !*names[n].lean && names[n].size > 2 &&
                (best < 0 ||
                 names[n].count * (names[n].size - 1) > names[best].count * (names[best].size - 1)))
                best = n;
        if (best < 0) return;
        char lean[4];
        do {
            const int one = (int)sizeof first - 1;
            if (made < one)
                snprintf(lean, sizeof lean, "%c", first[made]);
            else
                snprintf(lean, sizeof lean, "%c%c", first[(made - one) / 62 % one],
                         other[(made - one) % 62]);
            made++;
        } while (taken(lean));
        memcpy(names[best].lean, lean, sizeof lean);
    }
}

static void print_js(void)
{
    char last = '\n';
    for (int t = 0; t < token_count; t++) {
        const struct name *n = tokens[t].kind == NAME ? &names[tokens[t].name] : NULL;
        const bool lean = n && *n->lean && !tokens[t].property;
        const bool constant =
            is(t, "const") && !tokens[t].property; // nothing writes to one: let is as good
        const char *at = lean ? n->lean : constant ? "let" : tokens[t].at;
        const int size = lean ? (int)strlen(at) : constant ? 3 : tokens[t].size;
        const bool words = name_char(last) && name_char(*at) && tokens[t].kind != TEMPLATE;
        if (words || ((last == '+' || last == '-') && *at == last && tokens[t - 1].at + 1 != at))
            putchar(' ');
        if (lean && tokens[t].shorthand) printf("%.*s:", n->size, n->at);
        fwrite(at, 1, (size_t)size, stdout);
        last = at[size - 1];
        if (tokens[t].kind == TEMPLATE) last = '`'; // a name may follow ${ at once
    }
}

static void print_css(const char *p)
{
    char last = '{';
    while (*p) {
        if (p[0] == '/' && p[1] == '*') {
            p = strstr(p, "*/") + 2;
        } else if (*p == '"') {
            const char *end = end_of_quoted(p);
            fwrite(p, 1, (size_t)(end - p), stdout);
            last = '"';
            p = end;
        } else if (isspace((unsigned char)*p)) {
            while (isspace((unsigned char)*p)) p++;
            if (!strchr("{};:,", last) && !strchr("{};,", *p) && *p && strncmp(p, "/*", 2) != 0)
                putchar(last = ' ');
        } else {
            if (*p == ';') { // none is needed before }
                const char *next = p + 1;
                while (isspace((unsigned char)*next)) next++;
                if (*next == '}') {
                    p = next;
                    continue;
                }
            }
            putchar(last = *p++);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fputs("usage: lean js|css FILE...\n", stderr);
        return 2;
    }
    char *text = read_all(argc - 2, argv + 2);
    if (!strcmp(argv[1], "css")) {
        print_css(text);
    } else {
        split(text);
        collect_names();
        find_properties();
        find_variables();
        shorten();
        print_js();
    }
    free(names);
    free(tokens);
    free(text);
    return ferror(stdout) || fflush(stdout) ? 6 : 0;
}
