// SPDX-License-Identifier: MIT
// template.c: renders a chat template: text, {{ expression }}, {# comment #}, and the statements
// for, if, elif, else and set, with white space handled as transformers does (trim_blocks,
// lstrip_blocks).
#include "serve/template/template_value.h"
#include <stdlib.h>
#include <string.h>

enum end { END_SOURCE, END_FOR, END_IF, END_ELIF, END_ELSE };
static enum end statements(struct template *t, bool run);

// ---- text ---------------------------------------------------------------------------------------
// Returns the position of the next tag, or the end of the source.
static size_t next_tag(struct template *t)
{
    size_t i = t->at;
    while (i + 1 < t->bytes && !(t->source[i] == '{' && strchr("{%#", t->source[i + 1]))) i++;
    if (i + 1 >= t->bytes) i = t->bytes;
    template_work(t, 1 + i - t->at);
    return i;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

// Prints the text before a tag, without the white space that the tag removes.
static void print_text(struct template *t, size_t end, bool run)
{
    size_t to = end;
    const char *s = t->source;
    if (end + 2 < t->bytes && s[end + 2] == '-') {
        while (to > t->at && strchr(" \t\r\n", s[to - 1])) to--;
    } else if (end + 1 < t->bytes && s[end + 1] != '{' &&
               !(end + 2 < t->bytes && s[end + 2] == '+')) {
        size_t line = end; // white space between the start of the line and a block is left out
        while (line > t->at && blank(s[line - 1])) line--;
        if (line == 0 || s[line - 1] == '\n') to = line;
    }
    if (run) {
        const struct value v = { .kind = VALUE_TEXT, .text = s + t->at, .bytes = to - t->at };
        value_print(t, &t->out, &v);
    }
    t->at = end;
}

// Reads the end of a tag, and the white space that it removes after it.
static void end_tag(struct template *t, const char *close)
{
    char strict[4];
    snprintf(strict, sizeof strict, "-%s", close);
    if (template_take(t, strict)) {
        template_skip_space(t);
    } else if (!template_take(t, close)) {
        template_fail(t, "expected '%s'", close);
    } else if (*close != '}' && t->at < t->bytes && t->source[t->at] == '\n') {
        t->at++;
    }
}

static void skip_comment(struct template *t)
{
    const size_t from = t->at;
    while (t->at + 1 < t->bytes && memcmp(t->source + t->at, "#}", 2) != 0) t->at++;
    template_work(t, t->at - from);
    if (t->at > 0 && t->source[t->at - 1] == '-') t->at--;
    end_tag(t, "#}");
}

// ---- variables ----------------------------------------------------------------------------------
static void set(struct template *t, const char *name, struct value v)
{
    for (int i = t->frame; i < t->variables; i++)
        if (strcmp(t->variable[i].name, name) == 0) {
            t->variable[i].value = v;
            return;
        }
    if (t->variables == VARIABLES) {
        template_fail(t, "too many variables");
        return;
    }
    snprintf(t->variable[t->variables].name, sizeof t->variable[0].name, "%s", name);
    t->variable[t->variables++].value = v;
}

static void run_set(struct template *t, bool run)
{
    char name[48], member[48] = "";
    if (!template_word(t, name)) {
        template_fail(t, "expected a name after 'set'");
        return;
    }
    t->at += strlen(name);
    if (template_take(t, ".") && template_word(t, member)) t->at += strlen(member);
    if (!template_take(t, "=")) {
        template_fail(t, "'set' without '=' is not supported");
        return;
    }
    const struct value v = template_expression(t, run);
    end_tag(t, "%}");
    if (!run || t->err->status) return;
    if (!*member) {
        set(t, name, v);
        return;
    }
    for (int i = t->variables; i-- > 0;)
        if (strcmp(t->variable[i].name, name) == 0 && t->variable[i].value.kind == VALUE_SPACE) {
            space_set(t, t->variable[i].value.space, member, v);
            return;
        }
    template_fail(t, "a member of %s is set, which is no namespace", name);
}

// ---- statements ---------------------------------------------------------------------------------
static void run_if(struct template *t, bool run)
{
    bool done = false; // a branch was taken
    struct value condition = template_expression(t, run);
    bool take = run && value_true(&condition);
    end_tag(t, "%}");
    while (!t->err->status) {
        const enum end e = statements(t, take);
        done = done || take;
        if (e == END_IF) break;
        if (e == END_ELIF) {
            condition = template_expression(t, run && !done);
            take = run && !done && value_true(&condition);
        } else if (e == END_ELSE) {
            take = run && !done;
        } else {
            template_fail(t, "'if' without 'endif'");
            return;
        }
        end_tag(t, "%}");
    }
    end_tag(t, "%}");
}

static void set_loop(struct template *t, struct space *s, const struct value *list, int64_t i)
{
    if (s) s->count = 0;
    space_set(t, s, "index0", value_integer(i));
    space_set(t, s, "index", value_integer(i + 1));
    space_set(t, s, "first", value_boolean(i == 0));
    space_set(t, s, "last", value_boolean(i + 1 == list->number));
    space_set(t, s, "length", value_integer(list->number));
    if (i > 0) space_set(t, s, "previtem", list->list[i - 1]);
    if (i + 1 < list->number) space_set(t, s, "nextitem", list->list[i + 1]);
    set(t, "loop", (struct value){ .kind = VALUE_SPACE, .space = s });
}

static void run_for(struct template *t, bool run)
{
    char name[48];
    if (!template_word(t, name)) {
        template_fail(t, "expected a name after 'for'");
        return;
    }
    t->at += strlen(name);
    if (!template_take(t, "in")) {
        template_fail(t, "'for' without 'in', or with two names, is not supported");
        return;
    }
    const struct value list = template_expression(t, run);
    end_tag(t, "%}");
    if (run && list.kind != VALUE_LIST) template_fail(t, "'for' over a value that is no list");
    const size_t begin = t->at;
    const int frame = t->frame, variables = t->variables;
    const int64_t n = run && !t->err->status ? list.number : 0;
    struct space *loop = n ? space_new(t) : NULL;
    for (int64_t i = 0; i < (n ? n : 1) && !t->err->status; i++) {
        t->at = begin;
        t->frame = variables;
        if (n) set(t, name, list.list[i]);
        if (n) set_loop(t, loop, &list, i);
        const enum end e = statements(t, n > 0);
        if (e != END_FOR) template_fail(t, "'for' without 'endfor', or with 'else'");
        t->variables = variables;
        t->frame = frame;
    }
    end_tag(t, "%}");
}

// Handles a statement.  Returns true if it ends the current block; the end of its tag is then not
// read.
static bool statement(struct template *t, bool run, enum end *e)
{
    static const struct {
        const char *word;
        enum end end;
    } ends[] = {
        { "endfor", END_FOR }, { "endif", END_IF }, { "elif", END_ELIF }, { "else", END_ELSE }
    };
    char word[48];
    if (!template_word(t, word)) {
        template_fail(t, "expected a statement");
        return true;
    }
    t->at += strlen(word);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strcmp(ends[i].word, word) == 0) {
            *e = ends[i].end;
            return true;
        }
    if (strcmp(word, "if") == 0)
        run_if(t, run);
    else if (strcmp(word, "for") == 0)
        run_for(t, run);
    else if (strcmp(word, "set") == 0)
        run_set(t, run);
    else
        template_fail(t, "the statement '%s' is not supported", word);
    return false;
}

static enum end statements(struct template *t, bool run)
{
    enum end e = END_SOURCE;
    if (++t->depth > TEMPLATE_DEPTH) template_fail(t, "statements that are nested too deep");
    while (!t->err->status) {
        const size_t tag = next_tag(t);
        print_text(t, tag, run);
        if (tag == t->bytes) break;
        const char kind = t->source[tag + 1];
        t->at = tag + 2;
        if (t->at < t->bytes && (t->source[t->at] == '-' || t->source[t->at] == '+')) t->at++;
        if (kind == '#') {
            skip_comment(t);
        } else if (kind == '{') {
            const struct value v = template_expression(t, run);
            if (run) value_print(t, &t->out, &v);
            end_tag(t, "}}");
        } else if (statement(t, run, &e)) {
            break;
        }
    }
    t->depth--;
    return e;
}

// Copies the source as Jinja reads it: line ends become "\n", and one at the end is left out.
static void read_source(struct template *t, const char *source, size_t bytes)
{
    char *copy = NULL;
    t->source = source;
    t->bytes = bytes;
    if (bytes > TEMPLATE_BYTES)
        template_fail(t, "the template has %zu bytes, expected at most %d", bytes, TEMPLATE_BYTES);
    for (size_t n = 1; t->at < bytes && !t->err->status; t->at += n)
        if (!(n = qkv_utf8_bytes(source + t->at, bytes - t->at)) || !source[t->at])
            template_fail(t, "invalid UTF-8, or a NUL");
    if (!t->err->status) copy = template_alloc(t, bytes + 1);
    t->at = t->bytes = 0;
    for (size_t i = 0; copy && i < bytes; i++)
        if (source[i] != '\r' || i + 1 == bytes || source[i + 1] != '\n')
            copy[t->bytes++] = (char)(source[i] == '\r' ? '\n' : source[i]);
    if (t->bytes && copy[t->bytes - 1] == '\n') t->bytes--;
    t->source = copy;
}

qkv_status template_render(char **out, const char *source, size_t bytes,
                           const struct template_input *in, qkv_error *err)
{
    struct template *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t) return cmd_no_memory(err);
    t->err = err;
    read_source(t, source, bytes);
    set(t, "messages", value_json(t, in->messages));
    set(t, "bos_token", value_text(t, in->bos, strlen(in->bos)));
    set(t, "eos_token", value_text(t, in->eos, strlen(in->eos)));
    set(t, "add_generation_prompt", value_boolean(true));
    if (!err->status && statements(t, true) != END_SOURCE)
        template_fail(t, "the end of a statement that has no beginning");
    serve_bytes_add(&t->out, "", 1);
    if (t->out.failed && !err->status) cmd_no_memory(err);
    if (err->status)
        serve_bytes_free(&t->out);
    else
        *out = t->out.at;
    for (struct block *b = t->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(t);
    return err->status;
}
