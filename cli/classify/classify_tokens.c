// SPDX-License-Identifier: MIT
// classify_tokens.c: prints the labels of the tokens of each text, or the entities that they form.
#include "classify/classify_tokens.h"
#include <string.h>

// Prints the entities of a text as one line of JSON, with the members that the pipeline of
// transformers gives them; `bytes` is the range in bytes, which is unlike start and end if the text
// has characters of several bytes.
static void print_json(const struct qkv_entities *e, const struct classify_tokens *how,
                       const char *text, size_t bytes)
{
    fputs("{\"text\":", stdout);
    cmd_json_text(stdout, text, bytes);
    fputs(how->every ? ",\"tokens\":[" : ",\"entities\":[", stdout);
    for (int64_t i = 0; i < e->count; i++) {
        const struct qkv_entity *x = &e->entity[i];
        printf("%s{\"%s\":", i ? "," : "", how->aggregate ? "entity_group" : "entity");
        cmd_json_text(stdout, x->label, strlen(x->label));
        fputs(",\"score\":", stdout);
        cmd_json_float(stdout, x->score);
        if (!how->aggregate) printf(",\"index\":%lld", (long long)x->token);
        fputs(",\"word\":", stdout);
        cmd_json_text(stdout, x->word, strlen(x->word));
        printf(",\"start\":%lld,\"end\":%lld,\"bytes\":[%lld,%lld]}", (long long)x->first,
               (long long)x->last, (long long)x->begin, (long long)x->end);
    }
    fputs("],", stdout);
    cmd_json_computed(stdout);
    puts("}");
}

static int widest(int a, const char *text)
{
    const int b = cmd_width(text, strlen(text));
    return b > a ? b < 40 ? b : 40 : a;
}

static void print_table(const struct qkv_entities *e)
{
    int labels = 0, words = 0;
    for (int64_t i = 0; i < e->count; i++) {
        labels = widest(labels, e->entity[i].label);
        words = widest(words, e->entity[i].word);
    }
    for (int64_t i = 0; i < e->count; i++) {
        const struct qkv_entity *x = &e->entity[i];
        cmd_print_cell(stdout, x->word, strlen(x->word), words, 40);
        fputs("  ", stdout);
        cmd_print_cell(stdout, x->label, strlen(x->label), labels, 40);
        printf("  %.4f  %lld..%lld\n", (double)x->score, (long long)x->begin, (long long)x->end);
    }
}

struct labelling {
    const struct classify_tokens *how;
    struct qkv_entities_options options;
    qkv_model *model;
    qkv_tokenizer *tokenizer;
    struct qkv_entities e;
    int64_t printed; // number of tables that were printed
};

// Computes and prints the labels of a chunk of texts.
static qkv_status label_texts(struct labelling *l, const struct cmd_texts *texts, int64_t *cut,
                              qkv_error *err)
{
    for (int64_t i = 0; i < texts->count; i++) {
        const char *text = texts->text[i];
        const size_t bytes = texts->bytes[i];
        qkv_status status =
            qkv_entities_find(&l->e, l->model, l->tokenizer, text, bytes, &l->options, err);
        if (status && texts->count > 1 && !err->path[0])
            snprintf(err->path, sizeof err->path, "text %lld", (long long)i + 1);
        if (status) return status;
        *cut += l->e.cut;
        if (common.json) {
            print_json(&l->e, l->how, text, bytes);
        } else {
            if (l->printed++) putchar('\n');
            print_table(&l->e);
        }
        if ((status = cmd_written(stdout, "standard output", err))) return status;
    }
    return QKV_OK;
}

qkv_status classify_tokens(struct cmd_source *source, const struct classify_tokens *how,
                           int64_t *cut, qkv_error *err)
{
    const struct qkv_model_options options = cmd_model_options();
    struct labelling l = { .how = how,
                           .options = { .aggregate = how->aggregate,
                                        .outside = how->every,
                                        .truncate = how->truncate,
                                        .strict = how->strict } };
    struct cmd_texts texts = { 0 };
    char dir[CMD_PATH];
    qkv_status status = cmd_model_find_for(QKV_JOB_CLASSIFY_TOKENS, dir, NULL, err);
    if (!status) status = qkv_model_open(&l.model, dir, &options, err);
    if (!status) status = qkv_tokenizer_open(&l.tokenizer, dir, err);
    while (!status && !(status = cmd_source_next(source, &texts, err)) && texts.count) {
        status = label_texts(&l, &texts, cut, err);
        if (status) cmd_text_place(err, source->before, source->argc, source->file);
    }
    cmd_texts_free(&texts);
    qkv_entities_free(&l.e);
    qkv_tokenizer_close(l.tokenizer);
    qkv_model_close(l.model);
    return status;
}
