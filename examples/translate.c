// SPDX-License-Identifier: MIT
// translate.c: translates texts with an encoder-decoder and prints which token of the source the
// first output token attends to.
//
//   cc translate.c $(pkg-config --cflags --libs qkv) -o translate
//   ./translate models/dates "the third of May 1987" "12 Jan 2031"
#include <qkv/qkv.h>
#include <stdio.h>

struct job {
    const qkv_tokenizer *tokenizer;
    char **sources;
};

static int print(void *user, const struct qkv_generated *g)
{
    const struct job *j = user;
    int64_t best = 0;
    for (int64_t i = 1; i < g->source_tokens && g->tokens; i++)
        if (g->alignment[i] > g->alignment[best]) best = i;
    printf("%s: %s (%.4f), first read: '%s'\n", j->sources[g->prompt], g->text, g->score,
           qkv_tokenizer_token(j->tokenizer, g->source_ids[best]));
    return 0;
}

int main(int argc, char **argv)
{
    char line[1024];
    char *plain[] = { "the third of May 1987", "12 Jan 2031" };
    const int64_t n = argc > 2 ? argc - 2 : 2;
    struct job job = { .sources = argc > 2 ? argv + 2 : plain };
    qkv_error err = { 0 };
    qkv_translator *t = NULL;
    const struct qkv_generate_options o = {
        .beams = 4, .alignment = true, .output = print, .user = &job
    };
    if (!qkv_model_find_for(QKV_JOB_TRANSLATE, line, sizeof line, NULL, 0,
                            argc > 1 ? argv[1] : NULL, &err) &&
        !qkv_translator_open(&t, line, NULL, &err)) {
        job.tokenizer = qkv_translator_tokenizer(t);
        if (qkv_translate(t, (const char *const *)job.sources, NULL, n, &o, &err) == QKV_OK)
            printf("%lld translated\n", (long long)n);
    }
    if (err.status) fprintf(stderr, "%s\n", qkv_error_line(line, sizeof line, &err));
    qkv_translator_close(t);
    return err.status;
}
