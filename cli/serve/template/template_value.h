// SPDX-License-Identifier: MIT
// template_value.h: declares the values of a chat template and the state of its rendering.
#ifndef QKV_CLI_TEMPLATE_VALUE_H
#define QKV_CLI_TEMPLATE_VALUE_H

#include "serve/template/chat_template.h"

enum value_kind {
    VALUE_UNDEFINED = 0,
    VALUE_NONE,
    VALUE_BOOLEAN,
    VALUE_INTEGER,
    VALUE_TEXT,
    VALUE_LIST,
    VALUE_OBJECT, // an object of the request
    VALUE_SPACE   // namespace() or loop: members by name
};
struct value {
    enum value_kind kind;
    int64_t number; // of a boolean or an integer; number of elements of a list
    const char *text;
    size_t bytes;
    const struct value *list;
    const qkv_json *object;
    struct space *space;
};
struct variable {
    char name[48];
    struct value value;
};
enum { SPACE_MEMBERS = 16, VARIABLES = 64, TEMPLATE_DEPTH = 32, TEMPLATE_OUT = 4 << 20 };
enum { TEMPLATE_BYTES = 1 << 20 };
#ifdef QKV_FUZZ
enum { TEMPLATE_MEMORY = 4 << 20, TEMPLATE_WORK = 1 << 20 };
#else
enum { TEMPLATE_MEMORY = 64 << 20, TEMPLATE_WORK = 1 << 26 }; // a second, about
#endif
struct space {
    struct variable member[SPACE_MEMBERS];
    int count;
};
struct template
{
    const char *source;
    size_t bytes, at;
    struct serve_bytes out;
    struct variable variable[VARIABLES];
    int variables, frame; // frame: first variable of the innermost loop
    int depth;
    size_t work; // steps, and bytes of the source and of values that were read
    struct block {
        struct block *next;
    } * blocks;    // memory of values, with
    size_t memory; // bytes
    qkv_error *err;
};

// Reports an error at the current line, once.  Returns an undefined value.
struct value template_fail(struct template *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
// Counts work.  Returns false after an error, also if this is too much.
bool template_work(struct template *t, size_t steps);
void *template_alloc(struct template *t, size_t bytes); // zeroed; NULL after an error
struct value value_text(struct template *t, const char *text, size_t bytes); // copies
struct value value_json(struct template *t, const qkv_json *v);
struct value value_boolean(bool b);
struct value value_integer(int64_t n);
bool value_true(const struct value *v);
bool value_equal(struct template *t, const struct value *a, const struct value *b);
// Adds the text of a value, as {{ value }} prints it.
void value_print(struct template *t, struct serve_bytes *to, const struct value *v);
struct value value_join(struct template *t, const struct value *a, const struct value *b);
struct value value_member(struct template *t, const struct value *of, const char *name);
struct value value_index(struct template *t, const struct value *of, const struct value *index);
// of[from:to:step]; NULL: not given.
struct value value_slice(struct template *t, const struct value *of, const struct value *from,
                         const struct value *to, const struct value *step);
bool value_contains(struct template *t, const struct value *in, const struct value *x);
struct value value_test(struct template *t, const struct value *v, const char *name);
struct value value_filter(struct template *t, const struct value *v, const char *name,
                          const struct value *argument);
// A method of a text, such as strip.
struct value value_method(struct template *t, const struct value *of, const char *name,
                          const struct value *argument);
struct space *space_new(struct template *t);
void space_set(struct template *t, struct space *s, const char *name, struct value v);
// Parses an expression; run false: only skips it.
struct value template_expression(struct template *t, bool run);
void template_skip_space(struct template *t);
// Skips white space; the next word, or "" (template_expression.c).
bool template_word(struct template *t, char word[48]);
bool template_take(struct template *t, const char *symbol);

// ---- texts, valid UTF-8, as in Python (template_text.c) -----------------------------------------
// Adds a character as UTF-8.  Returns false if there is no such character, or if it is NUL.
bool text_add_character(struct serve_bytes *to, int64_t code);
int64_t text_length(struct template *t, const struct value *v); // number of characters
struct value text_index(struct template *t, const struct value *v, int64_t index);
// Returns the first place of what in `in`; NULL: there is none.
const char *text_find(struct template *t, const struct value *in, const struct value *what);
// Removes white space, or the characters of `what`, at the start and the end.
struct value text_strip(struct template *t, const struct value *v, const struct value *what,
                        bool left, bool right);
struct value text_case(struct template *t, const struct value *v, bool upper);
struct value text_split(struct template *t, const struct value *v, const struct value *by);
#endif
