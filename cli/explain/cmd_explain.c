// SPDX-License-Identifier: MIT
// cmd_explain.c: implements `qkv explain`: shows one topic of the course on self-attention with
// real numbers, as a picture and a sentence.
#include "explain/explain.h"
#include <stdlib.h>
#include <string.h>

struct explain_options explain_options = { .layer = -1, .head = -1, .seed = -1 };

#define TOPIC(name, run, least, most, options, help) TOPIC_##name,
enum {
#include "explain/explain.def"
    TOPICS
};
#undef TOPIC
static bool asked[TOPICS];
static struct chart_output output;

static const struct topic topics[] = {
#define TOPIC(name, run, least, most, options, help) { #name, help, least, most, options, run },
#include "explain/explain.def"
#undef TOPIC
};

// clang-format off
static const struct opt opts[] = {
    OPT_GROUP("Topics"),
#define TOPIC(name, run, least, most, options, help) OPT_FLAG(0, #name, &asked[TOPIC_##name], help),
#include "explain/explain.def"
#undef TOPIC
    OPT_GROUP("Where"),
    OPT_INT(0, "layer", &explain_options.layer, 0, 100000, "L", "layer (default: the layer that qkv view opens on)"),
    OPT_INT(0, "head", &explain_options.head, 0, 100000, "H", "head (default: the head that qkv view opens on)"),
    OPT_TEXT('t', "token", &explain_options.token, "WORD", "the query: a word of the text, or the index of a token (default: the token that qkv view opens on)"),
    OPT_INT(0, "d", &explain_options.width, 2, 4096, "D", "number of dimensions for --positions, even (default: 64)"),
    OPT_TEXT(0, "sizes", &explain_options.sizes, "N,...", "sizes for --shapes (tokens,d,d_k,d_v), --mask (tokens,d_k), --norm (tokens,d; 3 tokens or more), --independence (tokens,d) and --paths (tokens, odd width of the convolution), each from 2 to 32"),
    OPT_INT(0, "seed", &explain_options.seed, 0, INT64_MAX, "N", "seed of the random numbers (default: 1)"),
    CHART_OPTIONS(output),
    TOKEN_OPTIONS(explain_options.tokens),
    OPT_END
};
// clang-format on

qkv_status explain_sizes(int64_t *size, int64_t n, const char *names, qkv_error *err)
{
    int64_t *list = NULL, count = 0;
    if (!explain_options.sizes) return QKV_OK;
    qkv_status status = cmd_parse_ints("--sizes", explain_options.sizes, 2, 32, &list, &count, err);
    if (!status && count > n)
        status = cmd_error(err, QKV_ERR_USAGE, NULL,
                           "--sizes: expected at most %lld numbers, %s, found %lld", (long long)n,
                           names, (long long)count);
    for (int64_t i = 0; i < count && !status; i++) size[i] = list[i];
    free(list);
    return status;
}

// Refuses an option that the topic does not use, and names the topics that use it.
static qkv_status refuse_options(const struct topic *t, qkv_error *err)
{
    const struct explain_options *o = &explain_options;
    const struct {
        const char *name;
        unsigned option;
        bool given;
    } all[] = { { "layer", TOPIC_PLACE, o->layer >= 0 }, { "head", TOPIC_PLACE, o->head >= 0 },
                { "token", TOPIC_WORD, o->token },       { "d", TOPIC_WIDTH, o->width },
                { "sizes", TOPIC_SIZES, o->sizes },      { "seed", TOPIC_SEED, o->seed >= 0 } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char users[256] = "";
        if (!all[i].given || t->options & all[i].option) continue;
        for (int k = 0; k < TOPICS; k++)
            if (topics[k].options & all[i].option) {
                const size_t n = strlen(users);
                snprintf(users + n, sizeof users - n, "%s--%s", n ? ", " : "", topics[k].name);
            }
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--%s cannot be combined with --%s, expected one of %s", all[i].name,
                         t->name, users);
    }
    if (o->seed < 0) explain_options.seed = 1;
    return QKV_OK;
}

// Chooses the topic, and adds the texts of -f to the operands: before them, or after them if the
// first operand is no text but a word or a query.
static qkv_status choose(int *argc, char ***argv, const struct topic **out, qkv_error *err)
{
    int n = 0, at = 0;
    for (int i = 0; i < TOPICS; i++)
        if (asked[i]) {
            n++;
            at = i;
        }
    if (n > 1)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--%s cannot be combined with another topic",
                         topics[at].name);
    const struct topic *t = *out = &topics[at];
    if (refuse_options(t, err)) return err->status;
    const bool after = at == TOPIC_context || at == TOPIC_lookup;
    struct token_options *const tokens = &explain_options.tokens;
    if (at == TOPIC_context) tokens->words = 1;
    if (at == TOPIC_reads) tokens->texts = 1;
    if (at == TOPIC_reads && tokens->files.count) tokens->words = *argc;
    const qkv_status status = tokens_operands(tokens, after ? *argc : 0, -1, argc, argv, err);
    if (status) return status;
    if (*argc < t->least)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--%s: expected %d operands or more, found %d",
                         t->name, t->least, *argc);
    if (*argc > t->most)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--%s: expected at most %d operand%s, found %d",
                         t->name, t->most, t->most == 1 ? "" : "s", *argc);
    return QKV_OK;
}

static int run_explain(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct page *p = cmd_alloc(1, sizeof *p);
    *p = (struct page){ .view = "Explain" };
    const struct topic *t = topics;
    if (choose(&argc, &argv, &t, &err) || chart_output_check(&output, &err)) goto done;
    if (t->run(p, argc, argv, &err)) goto done;
    const struct qkv_chart c = { .title = p->title,
                                 .sentence = p->sentence,
                                 .panel = p->panel,
                                 .panels = p->panels,
                                 .across = p->across,
                                 .table = p->table.rows ? &p->table : NULL,
                                 .view = p->view,
                                 .subject = p->subject };
    struct qkv_chart_table brief = p->table;
    const struct qkv_chart told = { .title = p->title,
                                    .sentence = p->sentence,
                                    .table = page_brief(p, &brief) };
    if (p->brief) output.told = &told;
    (void)(p->picture ? page_print_picture(p, &output, &err) : chart_print(&c, &output, &err));
done:
    page_free(p);
    free(p);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_explain = {
    .name = "explain",
    .brief = "explain self-attention with real numbers",
    .usage = "[TEXT] [options]\n--reads TEXT WORD... --token WORD [options]\n--scaling | --positions | --norm | --shapes | --mask\n--selection | --scores | --independence | --paths\n--diagonal | --geometry | --dense [TEXT]\n"
             "--context WORD TEXT...\n--lookup [QUERY TEXT...]",
    .about = "Without a topic, shows the six steps from one token to the output of a head, with "
             "the numbers of a model: project (q, k and v), score, scale and mask, softmax, weigh "
             "the values, sum. It is the view 'steps' of 'qkv view', for the head with the largest "
             "weight on another word; its weights are compared with those that the attention kernel "
             "computes. Without TEXT it uses a sentence of its own. A topic shows one idea by an "
             "experiment: a question, the answer with its numbers, and a picture in the terminal; "
             "-o also writes the picture to a file. --json prints every number "
             "that is drawn.\n\nLayers, heads and tokens are counted from 0.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_JSON | USES_OUTPUT | USES_ABLATE,
    .max_args = -1,
    .examples = {
        { "qkv explain --token it \"The animal didn't cross because it was too tired\"", "the six steps for one word" },
        { "qkv explain --reads \"The animal was tired: it slept\" animal tired --token it",
          "the heads that attend from it to the two words" },
        { "qkv explain --scaling -o scaling.svg", "why scores are divided by sqrt(d_k)" },
        { "qkv explain --context bear \"I love bears\" \"She bears the pain\"", "two vectors of one word" },
    },
    .run = run_explain,
};
