// SPDX-License-Identifier: MIT
// generate.c: generates the continuation of each prompt and prints it token by token.
//
//   cc generate.c $(pkg-config --cflags --libs qkv) -o generate
//   ./generate models/verse "In the beginning" "And it came to pass"
#include <qkv/qkv.h>
#include <stdio.h>
#include <string.h>

// Prints the text of a token: complete characters that later tokens cannot change.
static int print(void *user, const struct qkv_generated_token *t)
{
    (void)user;
    const int bad = fwrite(t->text, 1, t->bytes, stdout) != t->bytes || fflush(stdout) != 0;
    return bad; // a result other than 0 stops the call
}

static int finish(void *user, const struct qkv_generated *g)
{
    int64_t *tokens = user;
    *tokens += g->tokens;
    return putchar('\n') == EOF;
}

int main(int argc, char **argv)
{
    int64_t tokens = 0;
    char line[4096], found[1024];
    qkv_error err = { 0 };
    qkv_generator *g = NULL;
    const struct qkv_generate_options o = { .max_tokens = 24,
                                            .sampling = { .temperature = .7, .top_p = .9 },
                                            .token = print,
                                            .output = finish,
                                            .user = &tokens };
    if (qkv_model_find_for(QKV_JOB_GENERATE, found, sizeof found, NULL, 0,
                           argc > 1 ? argv[1] : NULL, &err) ||
        qkv_generator_open(&g, found, NULL, &err))
        goto done;
    for (int i = 2; argc < 3 || i < argc; i++) { // the arguments, or lines of standard input
        const char *prompt = i < argc ? argv[i] : fgets(line, sizeof line, stdin);
        if (!prompt) break;
        line[strcspn(line, "\n")] = 0;
        printf("%s", prompt);
        if (qkv_generate(g, &prompt, NULL, 1, &o, &err)) break;
    }
    printf("%lld tokens\n", (long long)tokens);
done:
    if (err.status) fprintf(stderr, "%s\n", qkv_error_line(line, sizeof line, &err));
    qkv_generator_close(g);
    return err.status;
}
