// SPDX-License-Identifier: MIT
// test_template.c: renders chat templates as Jinja2 does (golden/templates.json), and refuses
// templates that are too large, too deep or take too many steps.
#include "check.h"
#include "serve/template/chat_template.h"
#include <stdlib.h>
#include <string.h>

const struct cmd *const cmd_table[] = { NULL }; // frame/ is linked without commands

static const qkv_json *messages;

static qkv_status render(char **out, const char *source, qkv_error *err)
{
    const struct template_input in = { messages, "<s>", "</s>" };
    *err = (qkv_error){ 0 };
    return template_render(out, source, strlen(source), &in, err);
}

static void check_refused(const char *source, const char *says)
{
    qkv_error err;
    char *out;
    const qkv_status status = render(&out, source, &err);
    if (!status || out || !strstr(err.text, says))
        fail_msg("%.80s: status %d, expected '%s', found '%s'", source, (int)status, says,
                 out ? out : err.text);
}

static void check_golden(void **state)
{
    const char *path = "tests/golden/templates.json";
    qkv_json *root;
    qkv_error err = { 0 };
    (void)state;
    if (qkv_json_read_file(&root, path, 1 << 20, &err)) fail_msg("%s: %s", path, err.text);
    messages = qkv_json_lookup(root, "messages");
    const qkv_json *cases = qkv_json_lookup(root, "cases");
    CHECK(qkv_json_length(cases) > 40);
    for (int64_t i = 0; i < qkv_json_length(cases); i++) {
        const qkv_json *one = qkv_json_element(cases, i);
        const char *source = qkv_json_get_string(qkv_json_lookup(one, "template"), NULL);
        const char *prompt = qkv_json_get_string(qkv_json_lookup(one, "prompt"), NULL);
        char *out = NULL;
        if (!prompt) {
            check_refused(source, qkv_json_get_string(qkv_json_lookup(one, "says"), NULL));
            continue;
        }
        if (render(&out, source, &err)) fail_msg("%s: %s", source, err.text);
        CHECK_TEXT(out, prompt);
        free(out);
    }
    messages = NULL;
    qkv_json_free(root);
}

// Returns n copies of a text between two others.
static char *repeated(const char *before, const char *text, size_t n, const char *after)
{
    const size_t a = strlen(before), b = strlen(text), c = strlen(after);
    char *all = malloc(a + n * b + c + 1);
    CHECK(all);
    memcpy(all, before, a);
    for (size_t i = 0; i < n; i++) memcpy(all + a + i * b, text, b);
    memcpy(all + a + n * b, after, c + 1);
    return all;
}

static void refuse_repeated(const char *before, const char *text, size_t n, const char *after,
                            const char *says)
{
    char *all = repeated(before, text, n, after);
    check_refused(all, says);
    free(all);
}

// Each of these took all of the stack, or minutes.
static void check_hostile(void **state)
{
    (void)state;
    qkv_error err;
    qkv_json *list;
    char *many = repeated("[", "{\"role\":\"user\",\"content\":\"abc\"},", 4095, "{\"a\":1}]"),
         *out;
    CHECK(!qkv_json_read(&list, many, strlen(many), &err));
    messages = list;
    refuse_repeated("{{ ", "(", 1000000, "1 }}", "nested too deep");
    refuse_repeated("{{ ", "[", 1000000, "1 }}", "nested too deep");
    refuse_repeated("", "{% if 1 %}", 100000, "", "nested too deep");
    refuse_repeated("", "x", (1 << 20) + 1, "", "expected at most 1048576");
    refuse_repeated("{% for m in messages %}", "x", 1000000, "{% endfor %}", "prompt is too long");
    refuse_repeated("{% for m in messages %}{% if false %}", "x", 1000000,
                    "{% endif %}{% endfor %}", "too many steps");
    refuse_repeated("{% for m in messages %}{{ '", "x", 1000000, "' | length }}{% endfor %}",
                    "too many steps");
    refuse_repeated("{% for m in messages %}{% if false %}", "{{ 1 }}", 100000,
                    "{% endif %}{% endfor %}", "too many steps");
    refuse_repeated("{% for m in messages %}{{ 1", "+1", 400000, "}}{% endfor %}",
                    "too many steps");
    refuse_repeated("{% set n = namespace(a=[1], b=[1]) %}",
                    "{% set n.a = [n.a, n.a] %}{% set n.b = [n.b, n.b] %}", 60, "{{ n.a == n.b }}",
                    "too many steps");
    refuse_repeated("{% set n = namespace(a=[1], b=[1]) %}",
                    "{% set n.a = [n.a] %}{% set n.b = [n.b] %}", 200, "{{ n.a == n.b }}",
                    "nested too deep");
    // signs and `not` are no nesting
    char *signs = repeated("{{ ", "-", 100000, "1 }}"),
         *nots = repeated("{{ ", "not ", 100001, "1 }}");
    if (render(&out, signs, &err)) fail_msg("%s", err.text);
    CHECK_TEXT(out, "1");
    free(out);
    if (render(&out, nots, &err)) fail_msg("%s", err.text);
    CHECK_TEXT(out, "False");
    free(out);
    // 4,096 messages with a usual template are no problem
    if (render(&out,
               "{% for m in messages %}{% if m.role not in ['user', 'system'] and loop.index < 9 %}"
               "{{ raise_exception('role') }}{% elif m.content %}{{ m.content ~ '\\n' }}{% endif %}"
               "{% if false %}{{ raise_exception('a') }}{{ raise_exception('b') }}{% endif %}"
               "{% endfor %}",
               &err))
        fail_msg("%s", err.text);
    CHECK_EQ(strlen(out), 4095 * 4);
    free(out);
    free(signs);
    free(nots);
    free(many);
    messages = NULL;
    qkv_json_free(list);
}

static void check_encoding(void **state)
{
    (void)state;
    check_refused("a\xff", "invalid UTF-8");
    check_refused("\n\n\xed\xa0\x80", "line 3: invalid UTF-8");
}

CHECK_MAIN(CASE(golden), CASE(hostile), CASE(encoding))
