// SPDX-License-Identifier: MIT
// test_pattern.c: checks that the scanners of well-known expressions find the matches of PCRE2 in
// linear time, that PCRE2 stays within its limits, and that translated expressions keep their
// meaning.
#include "check.h"
#include <stdlib.h>
#include "text/regex/pattern.h"
#include "text/tiny_text.h"

// The scanners once more, counting the characters they look at.
static int64_t looked;
#define qkv_kind_at(...)           (looked++, qkv_kind_at(__VA_ARGS__))
#define qkv_code_at(...)           (looked++, qkv_code_at(__VA_ARGS__))
#define qkv_ascii_kind             counted_ascii
#define qkv_run_of                 counted_run_of
#define qkv_run_spaces             counted_run_spaces
#define qkv_pattern_find           counted_find
#define qkv_pattern_cuts_at_spaces counted_cuts
#define qkv_pattern_gpt2           counted_gpt2
#define qkv_pattern_cl100k         counted_cl100k
#define qkv_pattern_qwen2          counted_qwen2
#define qkv_pattern_qwen35         counted_qwen35
#define qkv_pattern_o200k          counted_o200k
#define qkv_pattern_o200k_digit    counted_o200k_digit
#define qkv_pattern_tekken         counted_tekken
#define qkv_pattern_deepseek3      counted_deepseek3
#define qkv_pattern_clip           counted_clip
#define qkv_pattern_clip_special   counted_clip_special
#define qkv_pattern_bloom          counted_bloom
#define qkv_pattern_line_end       counted_line_end
#define qkv_pattern_digit          counted_digit
#define qkv_pattern_digits_3       counted_digits_3
#define qkv_pattern_digits         counted_digits
#define qkv_pattern_ascii_digit    counted_ascii_digit
#define qkv_pattern_ascii_digits_3 counted_ascii_digits_3
#define qkv_pattern_spaces         counted_spaces
#define qkv_pattern_spaces_end     counted_spaces_end
#define qkv_pattern_blanks         counted_blanks
#define qkv_pattern_blanks_2       counted_blanks_2
#define qkv_pattern_letters        counted_letters
#define qkv_pattern_punctuation    counted_punctuation
#define qkv_pattern_han_or_kana    counted_han_or_kana
#define qkv_pattern_east           counted_east
extern const uint16_t qkv_ascii_kind[128];
int64_t qkv_run_of(const uint8_t *text, int64_t at, int64_t end, unsigned kind_bits);
int64_t qkv_run_spaces(const uint8_t *text, int64_t at, int64_t end, bool lines);
qkv_pattern_fn *qkv_pattern_find(const char *regex);
bool qkv_pattern_cuts_at_spaces(qkv_pattern_fn *fn);
#define QKV_PATTERN(name, regex) qkv_pattern_fn qkv_pattern_##name;
#include "text/tokenizer.def"
#include "text/regex/pattern.c"
#include "text/regex/pattern_runs.c"
#undef qkv_pattern_find

static const char *const regexes[] = {
#define QKV_PATTERN(name, regex) regex,
#include "text/tokenizer.def"
};

static struct qkv_expression expression(const char *regex)
{
    json_t *object = json_object();
    qkv_error err = { 0 };
    const struct qkv_json_at at = { object, "made", "$", &err };
    struct qkv_expression x;
    if (!qkv_expression_new(&x, &at, "Regex", regex)) fail_msg("%s: %s", regex, err.text);
    json_decref(object);
    return x;
}

// ---- texts -------------------------------------------------------------------------------------
static uint32_t pick(uint32_t below)
{
    return (uint32_t)((check_random() + 1) / 2 * below) % below;
}

// Makes a text of characters that the expressions distinguish, and others: text[4 * chars]; returns
// its bytes.
static int64_t random_text(uint8_t *text, int chars)
{
    static const uint32_t some[] = {
        ' ',   ' ',    '\n',   '\r',   '\t',    '\'',   's',    'S',    't',   'L',    'l',
        'v',   'E',    'r',    'd',    'm',     'a',    'Z',    '0',    '7',   '.',    '!',
        '/',   '(',    '|',    '$',    '+',     '_',    '<',    0x1C,   0x85,  0xA0,   0x2003,
        0x301, 0x903,  0x20DD, 0x1C5,  0x2B0,   0x4E00, 0x3042, 0xAC00, 0xE9,  0xC9,   0x17F,
        0xAA,  0x2160, 0x661,  0x20AC, 0x180E,  0x200B, 0x378,  0x897,  0xB2,  0x2026, 0x1E922,
        0x130, 0x149,  0xFB06, 0xDF,   0x105C0, 0x9FA5, 0x9FA6, 0x30FF, 0x800, 0xD7FB, 0xE000
    };
    int64_t n = 0;
    for (int i = 0; i < chars; i++) {
        uint32_t c = some[pick(sizeof some / sizeof some[0])];
        if (pick(8) == 0) c = pick(pick(2) ? 0x3000 : 0x110000);
        if (c >= 0xD800 && c < 0xE000) c = 'x';
        n += qkv_utf8_write(text + n, c);
    }
    return n;
}

TEST(known_expressions_find_what_pcre2_finds)
{
    enum { TEXTS = 400, CHARS = 40 };
    uint8_t text[4 * CHARS];
    EACH(regex, regexes)
    {
        char group[1024]; // the same, but not known
        CHECK(snprintf(group, sizeof group, "(?:%s)", *regex) < (int)sizeof group);
        struct qkv_expression known = expression(*regex), other = expression(group);
        struct qkv_matches a, b;
        CHECK(known.known && !known.regex && other.regex && !other.known);
        CHECK(qkv_matches_open(&a, &known, sizeof text, NULL));
        CHECK(qkv_matches_open(&b, &other, sizeof text, NULL));
        for (int i = 0; i < TEXTS; i++) {
            const int64_t n = random_text(text, 1 + (int)pick(CHARS));
            qkv_matches_text(&a, text, n);
            qkv_matches_text(&b, text, n);
            for (int more = 1; more;) {
                int64_t at[2] = { 0 }, want[2] = { 0 };
                more = qkv_matches_next(&a, &at[0], &at[1]);
                const int found = qkv_matches_next(&b, &want[0], &want[1]);
                if (more != found || (more && memcmp(at, want, sizeof at) != 0))
                    fail_msg("%s on \"%.*s\": %d at %d..%d, PCRE2 %d at %d..%d", *regex, (int)n,
                             (const char *)text, more, (int)at[0], (int)at[1], found, (int)want[0],
                             (int)want[1]);
            }
        }
        qkv_matches_close(&a);
        qkv_matches_close(&b);
        qkv_expression_free(&known);
        qkv_expression_free(&other);
    }
}

// Each character is read by the call that passes it, by the preceding call that ends there, and by
// one failing try.
TEST(known_expressions_are_linear_in_the_text)
{
    enum { BYTES = 1 << 16, LOOKS = 3 };
    static const char *const fills[] = {
        "a",   "A",    " ",         "\n",       "\r",       "1",  "!",  "'",
        "/",   "\x01", "\xC3\xA9",  "\xCC\x81", "\xCA\xB0", "aA", "Aa", " \n",
        "\n ", "'s",   "a\xCC\x81", "! ",       "1a",       " a", "(a", "\xE4\xB8\x80"
    };
    uint8_t *text = malloc(BYTES + 8);
    EACH(regex, regexes)
    {
        qkv_pattern_fn *fn = counted_find(*regex);
        EACH(fill, fills)
        for (int edge = 0; edge < 3; edge++) { // alone, after a letter without case, before an x
            const size_t size = strlen(*fill);
            int64_t n = 0, at = 0;
            if (edge == 1) n = qkv_utf8_write(text, 0x3042);
            while (n < BYTES) {
                memcpy(text + n, *fill, size);
                n += (int64_t)size;
            }
            if (edge == 2) text[n++] = 'x';
            looked = 0;
            while (at < n) {
                int64_t begin = at;
                const int64_t end = fn(text, &begin, n);
                CHECK(begin >= at && end >= begin && end > at && end <= n);
                at = end;
            }
            if (looked > LOOKS * n)
                fail_msg("%s on %s: %lld looks at %lld bytes", *regex, *fill, (long long)looked,
                         (long long)n);
        }
    }
    free(text);
}

// ---- translation from Oniguruma to PCRE2 -------------------------------------------------------
static void finds(const char *regex, const char *text, const char *want)
{
    struct qkv_expression x = expression(regex);
    struct qkv_matches m;
    char found[256] = "";
    size_t used = 0;
    int64_t begin, end;
    CHECK(qkv_matches_open(&m, &x, (int64_t)strlen(text), NULL));
    qkv_matches_text(&m, (const uint8_t *)text, (int64_t)strlen(text));
    while (qkv_matches_next(&m, &begin, &end) > 0)
        used += (size_t)snprintf(found + used, sizeof found - used, "[%.*s]", (int)(end - begin),
                                 text + begin);
    if (strcmp(found, want) != 0) fail_msg("%s on %s: %s, expected %s", regex, text, found, want);
    qkv_matches_close(&m);
    qkv_expression_free(&x);
}

// As the engine of the reference answers.
TEST(expressions_keep_their_meaning)
{
    finds("\\h+", "fg \t1", "[f][1]");
    finds("\\p{N}{1,3}+", "12345 67", "[12345][67]");
    finds("a{2}+b?", "aaaaab", "[aaaa]");
    finds("a{2}?", "aaaa", "[aa][aa]");
    finds("a{,2}b", "aaab b", "[aab][b]");
    finds("a{,}", "aa{,}", "[a{,}]");
    finds("a+*b", "aab", "[aab]");
    finds("a?*******b", "aab b", "[aab][b]");
    finds("(?:a|b)+**?c", "abc", "[abc]");
    finds("a{1,2}{2}", "aaaaa", "[aaaa]");
    finds("a$", "xa\nba", "[a][a]");
    finds("^.", "ab\nc\n", "[a][c]");
    finds("(?m:a.b)", "a\nb", "[a\nb]");
    finds("a(?i)B|c", "ab aC c", "[ab][aC]");
    finds("(?i)a(?-i)b|c", "Ab AB Ac", "[Ab][Ac]");
    finds("[a-z&&[^b]]+", "abcB", "[a][c]");
    finds("[^a-z&&[^b]]+", "abcB", "[b][B]");
    finds("[a[^\\x00-z]]+", "ab~", "[a][~]");
    finds("[]a]+", "]ab", "[]a]");
    finds("[+--]+", "a+,-.", "[+,-]");
    finds("\\Qa\\E+", "QaEE", "[QaEE]");
    finds("\\u0041|\\x42|\\x{43}|\\xC3\\xA9", "ABC\xC3\xA9", "[A][B][C][\xC3\xA9]");
    finds("a\\vb", "a\vb a\nb", "[a\vb]");
    finds("\\s", "\xE1\xA0\x8E\xC2\xA0", "[\xC2\xA0]");       // U+180E is none
    finds("\\b\\w+\\b", "\xE0\xA4\xA8\xE0\xA5\x8D x\xC2\xB2", // a mark belongs to the word
          "[\xE0\xA4\xA8\xE0\xA5\x8D][x\xC2\xB2]");
    finds("\\p{Letter}+", "a1\xF0\x90\x97\x80z", "[a][\xF0\x90\x97\x80z]"); // U+105C0
    finds("\\P{L}+", "a1\xF0\x90\x97\x80z", "[1]");
    finds("[^\\S\\n]+", "a \n\tb", "[ ][\t]");
    finds("[[:punct:][:digit:]]+", "a$1", "[$1]");
    finds("[[:^alpha:]]", "a1", "[1]");
    finds("\\p{Greek}+", "\xCE\xB1\xCD\x82", "[\xCE\xB1]"); // the script, not its extensions
    finds("x*", "axxb", "[][xx][]");                        // no empty match directly after a match
    finds("(?<=a)b", "ab b", "[b]");
    finds("(a)\\1(?<n>b)\\k<n>", "aabb", "[aabb]");
    finds("(?#note \\) )a", "a", "[a]");
    finds("{", "{", "[{]");
    // PCRE2 10.42 answers these otherwise when it has compiled them to machine code
    finds("(?>b+?)c", "abbc", "[bc]");
    finds("(?>\\s+|a+?)1", "aa1", "[a1]");
    finds("(?<x>a*+)\\g<x>|b", "defa", "[][][][a]");
}

TEST(characters_of_a_set_are_read_in_every_spelling)
{
    finds("[\\101\\60-\\62]+", "A012B", "[A012]"); // octal
    finds("[\\x4a\\x4A\\x{4b}\\u004C]+", "JKLj", "[JKL]");
    finds("[\\cA-\\cC]+", "\x01\x03\x04", "[\x01\x03]");
    finds("[\\n\\t\\r\\f\\a\\e\\v\\b]+", "\n\t\r\f\a\033\v\bb", "[\n\t\r\f\a\033\v\b]");
    finds("[\\xE1\\x80\\x80\\xF0\\x9F\\x98\\x80]+", "\xE1\x80\x80\xF0\x9F\x98\x80\xE1\x80\x81",
          "[\xE1\x80\x80\xF0\x9F\x98\x80]");
    finds("[\\]\\-x]+", "x]-y", "[x]-]");
    finds("[a-]+", "a-b", "[a-]");
    finds("[a-[b]]+", "ab-c", "[ab-]");
    finds("[+-A\xC3\xA9]+", "+5A\xC3\xA9x", "[+5A\xC3\xA9]");
    finds("[&x]+", "&x y", "[&x]");    // one & is a character
    finds("[[:x]]+", "[:x y", "[:x]"); // no class, but a nested set
}

TEST(sets_are_nested_negated_and_intersected)
{
    finds("[^a[^b]]", "abc", "[b]");
    finds("[^[a-c][x]]+", "axdyb", "[dy]");
    finds("[a-z&&[aeiou]&&[^e]]+", "aeioux", "[a][iou]");
    finds("[[^a]&&[^b]]", "abc", "[c]");
    finds("[[^a]b&&a-c]+", "abcd", "[bc]");
    finds("[[:^alpha:]a]+", "a1b", "[a1]");
    finds("[\\D&&\\S]+", "a 1b", "[a][b]");
    finds("[^\\d[^\\w]]+", "a1 b", "[a][b]");
}

TEST(classes_and_properties_have_their_characters)
{
    finds("[[:space:]]+", "a \t\vb", "[ \t\v]");
    finds("[[:word:]]+", "a_1-b", "[a_1][b]");
    finds("[[:xdigit:]]+", "0fFg", "[0fF]");
    finds("[[:alnum:]]+", "a1_", "[a1]");
    finds("[[:cntrl:]]+", "a\x01\x7F.", "[\x01\x7F]");
    finds("[[:ascii:]]+", "a\xC3\xA9z", "[a][z]");
    finds("[[:blank:]]+", "a \t\nb", "[ \t]");
    finds("[[:any:]]+", "a\xC3\xA9", "[a\xC3\xA9]");
    finds("[[:upper:]]+", "aABb", "[AB]");
    finds("[[:lower:]]+", "aABb", "[a][b]");
    finds("\\p{^L}+", "a1.b", "[1.]");
    finds("\\P{^L}+", "a1.b", "[a][b]");
    finds("\\p{Uppercase_Letter}+", "aABb", "[AB]");
    finds("\\p{Math Symbol}+", "1+2=$", "[+][=]");
    finds("\\p{Word}+", "a_1-", "[a_1]");
    finds("\\p{Punct}+", "a.!$", "[.!]"); // without symbols
    finds("\\p{Alpha}+", "ab1", "[ab]");
    finds("\\p{Cn}", "a\xCD\xB8", "[\xCD\xB8]"); // U+0378
    finds("\\P{Zs}+\\p{Z}", "ab c", "[ab ]");
    finds("\\H+\\W", "xyz-", "[xyz-]");
}

static void is_refused(const char *regex, qkv_status status, const char *text)
{
    json_t *object = json_object();
    qkv_error err = { 0 };
    const struct qkv_json_at at = { object, "made", "$", &err };
    struct qkv_expression x;
    char want[512];
    snprintf(want, sizeof want,
             "regular expression is malformed or not supported, at its byte %s, found \"%s\"", text,
             regex);
    CHECK(!qkv_expression_new(&x, &at, "Regex", regex));
    CHECK_EQ(err.status, status);
    CHECK_TEXT(err.path, "$.Regex");
    CHECK_TEXT(err.text, want);
    json_decref(object);
}

TEST(bad_expressions_are_refused_with_their_byte) // T20
{
    is_refused("ab(", QKV_ERR_FORMAT, "3: a group without its closing )");
    is_refused("ab)", QKV_ERR_FORMAT, "2: a ) without an open group");
    is_refused("ab[c", QKV_ERR_FORMAT, "3: a character set without its closing ]");
    is_refused("a|*", QKV_ERR_FORMAT, "2: quantifier does not follow a repeatable item");
    is_refused("\\s[z-a]", QKV_ERR_FORMAT, "3: a character range that ends before it begins");
    is_refused("[a-\\d]", QKV_ERR_FORMAT, "1: a character set as the end of a range");
    is_refused("a\\", QKV_ERR_FORMAT, "1: a backslash without a following character");
    is_refused("\\x80", QKV_ERR_FORMAT, "0: consecutive \\x bytes are not a UTF-8 character");
    is_refused("a{100001}", QKV_ERR_FORMAT, "1: a quantifier has more than 100000 repeats");
    is_refused("a(?s:b)", QKV_ERR_FORMAT, "1: unknown group option");
    is_refused("\\x{110000}", QKV_ERR_FORMAT, "0: invalid code point");
    is_refused("[\\x{D800}]", QKV_ERR_FORMAT, "1: invalid code point");
    is_refused("[\\x{DFFF}]", QKV_ERR_FORMAT, "1: invalid code point");
    is_refused("\\x{}", QKV_ERR_FORMAT, "0: invalid code point");
    is_refused("\\x{41", QKV_ERR_FORMAT, "0: invalid code point");
    is_refused("\\u12", QKV_ERR_FORMAT, "0: invalid code point");
    is_refused("\\xE1\\x80z", QKV_ERR_FORMAT, "0: consecutive \\x bytes are not a UTF-8 character");
    is_refused("[a&&]", QKV_ERR_FORMAT, "2: empty character set");
    is_refused("[]", QKV_ERR_FORMAT, "0: empty character set");
    is_refused("\\pL", QKV_ERR_FORMAT, "0: \\p without {name}");
    is_refused("\\p{}", QKV_ERR_FORMAT, "0: a character property without a name");
    is_refused("\\p{L", QKV_ERR_FORMAT, "0: a character property without a name");
    is_refused("\\p{L!}", QKV_ERR_FORMAT, "0: invalid name of a character property");
    is_refused("\\p{aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa}", QKV_ERR_FORMAT,
               "0: invalid name of a character property");
    is_refused("[[:nope:]]", QKV_ERR_UNSUPPORTED, "1: unknown POSIX class");
    is_refused("\\p{Zq}", QKV_ERR_UNSUPPORTED, "0: unknown character property");
    is_refused("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
               QKV_ERR_UNSUPPORTED, "32: character sets are nested too deep");
    is_refused("\\p{Nonsense}", QKV_ERR_UNSUPPORTED, "0: unknown character property");
    is_refused("a(?~b)", QKV_ERR_UNSUPPORTED, "1: absent operator");
    is_refused("(*LIMIT_MATCH=9)a", QKV_ERR_UNSUPPORTED, "0: a callout");
}

// Each \\b becomes a few thousand bytes.
TEST(an_expression_that_would_grow_too_much_is_refused)
{
    enum { EDGES = 20000 };
    char *regex = malloc(2 * EDGES + 1);
    for (int i = 0; i < EDGES; i++) memcpy(regex + 2 * i, "\\b", 3);
    json_t *object = json_object();
    qkv_error err = { 0 };
    const struct qkv_json_at at = { object, "made", "$", &err };
    struct qkv_expression x;
    CHECK(!qkv_expression_new(&x, &at, "Regex", regex));
    CHECK_EQ(err.status, QKV_ERR_UNSUPPORTED);
    CHECK(strstr(err.text, "a character set is too large"));
    json_decref(object);
    free(regex);
}

#define SPLIT(regex)                                                                               \
    "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"" regex "\"},\"behavior\":\"Isolated\","         \
    "\"invert\":false}"

// It would need 2^28 steps.
TEST(a_text_that_takes_an_expression_too_long_is_refused_by_its_name) // T19
{
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaab";
    char *json = tiny_with("{\"type\":\"Digits\",\"individual_digits\":true}", SPLIT("(a+)+$"));
    qkv_tokenizer *t = tiny_open(json);
    qkv_encoding e = { 0 };
    qkv_error err = { 0 };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, strlen(text), NULL, 0, NULL, &err), QKV_ERR_LIMIT);
    CHECK_TEXT(err.text,
               "regular expression of tiny exceeded its step limit, expected one that matches "
               "in few steps, found \"(a+)+$\"");
    CHECK_EQ(e.count, 0);
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, 28, NULL, 0, NULL, NULL), QKV_OK);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    free(json);
}

// It would need 2^40 steps, none of which is a repetition.
TEST(alternatives_count_as_steps)
{
    enum { GROUPS = 40 };
    char regex[GROUPS * 5 + 2] = "", text[64] = "", split[512];
    for (int i = 0; i < GROUPS; i++) strcat(regex, "(a|a)");
    strcat(regex, "!");
    memset(text, 'a', 50);
    strcat(text, " !"); // PCRE2 looks first whether the last character occurs
    snprintf(split, sizeof split,
             "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"%s\"},\"behavior\":\"Isolated\","
             "\"invert\":false}",
             regex);
    char *json = tiny_with(TINY_SPLIT, split);
    qkv_tokenizer *t = tiny_open(json);
    qkv_encoding e = { 0 };
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, strlen(text), NULL, 0, NULL, NULL), QKV_ERR_LIMIT);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    free(json);
}

// It takes 10 million steps, 100 for each byte of the text.
TEST(the_steps_of_an_expression_are_limited_by_the_size_of_the_text)
{
    enum { BYTES = 100002 };
    char *json = tiny_with(TINY_SPLIT, SPLIT("(\\\\w+\\\\s?)*$"));
    char *text = malloc(BYTES);
    for (int i = 0; i < BYTES; i++) text[i] = i % 11 < 9 ? "abcdefgh,"[i % 11] : ' ';
    memcpy(text + BYTES - 2, "!!", 2);
    qkv_tokenizer *t = tiny_open(json);
    qkv_encoding e = { 0 };
    CHECK(qkv_effort_for(BYTES, NULL, NULL).steps <= 20 * BYTES + 1000000);
    CHECK_EQ(qkv_tokenizer_encode(t, &e, text, BYTES, NULL, 0, NULL, NULL), QKV_ERR_LIMIT);
    qkv_encoding_free(&e);
    qkv_tokenizer_close(t);
    free(text);
    free(json);
}

struct shared {
    const qkv_tokenizer *t;
    const qkv_encoding *want;
    bool same[64];
};
static const char shared_text[] = "hello a1b22 he\xC3\xA9 333 lloa";

static void encode_one(void *ctx, int64_t i, int thread)
{
    struct shared *s = ctx;
    qkv_encoding e = { 0 };
    (void)thread;
    s->same[i] = qkv_tokenizer_encode(s->t, &e, shared_text, sizeof shared_text - 1, NULL, 0, NULL,
                                      NULL) == QKV_OK &&
                 e.count == s->want->count &&
                 memcmp(e.ids, s->want->ids, (size_t)e.count * sizeof *e.ids) == 0;
    qkv_encoding_free(&e);
}

TEST(threads_share_an_expression)
{
    char *json =
        tiny_with("{\"type\":\"Digits\",\"individual_digits\":true}", SPLIT("(?<=[a-z])\\\\d|h|"));
    qkv_tokenizer *t = tiny_open(json);
    qkv_encoding want = { 0 };
    struct shared s = { .t = t, .want = &want };
    CHECK_EQ(
        qkv_tokenizer_encode(t, &want, shared_text, sizeof shared_text - 1, NULL, 0, NULL, NULL),
        QKV_OK);
    CHECK(want.count > 8);
    qkv_parallel_for(64, encode_one, &s);
    for (int i = 0; i < 64; i++) CHECK(s.same[i]);
    qkv_encoding_free(&want);
    qkv_tokenizer_close(t);
    free(json);
}

// A search of 1 MB that finds nothing, and one whose matches are all far apart.
TEST(long_texts_are_within_the_limits)
{
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES);
    memset(text, 'a', BYTES);
    for (int i = BYTES / 4; i < BYTES; i += BYTES / 4) text[i] = '7';
    static const char *const list[] = { "b\\d+", "(?:[^\\d]|x)\\d", "\\d(?=a)", "(?:a|b)+7" };
    static const int want[] = { 0, 3, 3, 3 };
    for (int i = 0; i < 4; i++) {
        struct qkv_expression x = expression(list[i]);
        struct qkv_matches m;
        int64_t begin, end;
        int found, count = 0;
        CHECK(qkv_matches_open(&m, &x, BYTES, NULL));
        qkv_matches_text(&m, (const uint8_t *)text, BYTES);
        while ((found = qkv_matches_next(&m, &begin, &end)) > 0) count++;
        CHECK_EQ(found, 0);
        CHECK_EQ(count, want[i]);
        qkv_matches_close(&m);
        qkv_expression_free(&x);
    }
    free(text);
}

CHECK_MAIN(CASE(known_expressions_find_what_pcre2_finds),
           CASE(known_expressions_are_linear_in_the_text), CASE(expressions_keep_their_meaning),
           CASE(characters_of_a_set_are_read_in_every_spelling),
           CASE(sets_are_nested_negated_and_intersected),
           CASE(classes_and_properties_have_their_characters),
           CASE(bad_expressions_are_refused_with_their_byte),
           CASE(an_expression_that_would_grow_too_much_is_refused),
           CASE(a_text_that_takes_an_expression_too_long_is_refused_by_its_name),
           CASE(alternatives_count_as_steps),
           CASE(the_steps_of_an_expression_are_limited_by_the_size_of_the_text),
           CASE(threads_share_an_expression), CASE(long_texts_are_within_the_limits))
