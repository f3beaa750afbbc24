// SPDX-License-Identifier: MIT
// generate_print.c: prints outputs as text, during generation or at the end, or as JSON; also
// prints the alignments of translations.
#include "generate/generate_command.h"
#include "eval/eval_print.h"
#include "frame/tokens.h"
#include "view/model_run.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The tokens of one output and their log-probabilities, for --logprobs.
struct token_log {
    struct logged {
        int32_t id;
        float logprob;
        struct qkv_token_value *top;
        int64_t tops;
    } * at;
    int64_t n;
};

// ---- text ---------------------------------------------------------------------------------------
// Prints a token, without line breaks.
static void print_token(const struct generate_call *s, int32_t id)
{
    char text[256];
    tokens_spell(text, sizeof text, s->tokenizer, id, true);
    putchar('"');
    cmd_print_cell(stdout, text, strlen(text), 0, 30);
    putchar('"');
}

static void print_logged(const struct generate_call *s, const struct token_log *l)
{
    for (int64_t i = 0; i < l->n; i++) {
        const struct logged *t = &l->at[i];
        if (isfinite(t->logprob))
            printf("  %8.4f  ", (double)t->logprob);
        else
            fputs("         -  ", stdout);
        print_token(s, t->id);
        for (int64_t k = 0; k < t->tops; k++) {
            fputs(k ? ", " : "  of ", stdout);
            print_token(s, t->top[k].id);
            printf(" %.3f", exp((double)t->top[k].value));
        }
        putchar('\n');
    }
}

// ---- JSON ---------------------------------------------------------------------------------------
static void json_token(const struct generate_call *s, const char *name, int32_t id)
{
    const char *token = qkv_tokenizer_token(s->tokenizer, id);
    printf("{\"id\":%d,\"token\":", id);
    cmd_json_text(stdout, token ? token : "", token ? strlen(token) : 0);
    printf(",\"%s\":", name);
}

static void json_logged(const struct generate_call *s, const struct logged *t)
{
    json_token(s, "logprob", t->id);
    cmd_json_float(stdout, t->logprob);
    if (t->tops) fputs(",\"top\":[", stdout);
    for (int64_t k = 0; k < t->tops; k++) {
        if (k) putchar(',');
        json_token(s, "logprob", t->top[k].id);
        cmd_json_float(stdout, t->top[k].value);
        putchar('}');
    }
    fputs(t->tops ? "]}" : "}", stdout);
}

static void json_ids(const char *name, const int32_t *ids, int64_t n)
{
    printf(",\"%s\":[", name);
    for (int64_t i = 0; i < n; i++) printf(i ? ",%d" : "%d", ids[i]);
    putchar(']');
}

// Prints the tokens of a text, whose first one has no log-probability: null.
static void json_prompt(const struct generate_call *s, const struct token_log *l)
{
    fputs(",\"prompt_logprobs\":[", stdout);
    for (int64_t i = 0; i < l->n; i++) {
        if (i) putchar(',');
        json_logged(s, &l->at[i]);
    }
    putchar(']');
}

static void json_output(const struct generate_call *s, const struct qkv_generated *g,
                        const struct token_log *l)
{
    static const char *const endings[] = { "end", "stop", "tokens", "positions" };
    const struct cmd_texts *t = &s->texts;
    printf("{\"number\":%lld,\"rank\":%lld,\"prompt\":",
           (long long)(s->source.before + g->prompt) + 1, (long long)g->rank + 1);
    cmd_json_text(stdout, t->text[g->prompt], t->bytes[g->prompt]);
    fputs(",\"text\":", stdout);
    cmd_json_text(stdout, g->text, g->bytes);
    printf(",\"ending\":\"%s\",\"prompt_tokens\":%lld,\"cut\":%lld,\"score\":", endings[g->ending],
           (long long)g->prompt_tokens, (long long)g->cut);
    cmd_json_float(stdout, (float)g->score);
    json_ids("ids", g->ids, g->tokens);
    if (l) fputs(",\"logprobs\":[", stdout);
    for (int64_t i = 0; l && i < l->n; i++) {
        if (i) putchar(',');
        json_logged(s, &l->at[i]);
    }
    if (l) putchar(']');
    if (s->logs_prompts) json_prompt(s, &s->prompt_log[g->prompt]);
    const int64_t rows = g->tokens + (g->ending == QKV_END_TOKEN), n = g->source_tokens;
    if (g->alignment) json_ids("source_ids", g->source_ids, n);
    for (int64_t r = 0; g->alignment && r < rows; r++) {
        fputs(r ? "],[" : ",\"alignment\":[[", stdout);
        for (int64_t i = 0; i < n; i++) {
            if (i) putchar(',');
            cmd_json_float(stdout, g->alignment[r * n + i]);
        }
    }
    if (g->alignment) fputs(rows ? "]]" : ",\"alignment\":[]", stdout);
    putchar(',');
    cmd_json_computed(stdout);
    puts("}");
}

// ---- printing during generation ----------------------------------------------------------------
static struct token_log *log_of(struct generate_call *s, int64_t prompt, int64_t rank)
{
    return s->log ? &s->log[prompt * s->draws + rank] : NULL;
}

static void log_token(struct token_log *l, const struct qkv_generated_token *t)
{
    if (!(l->n & (l->n - 1))) l->at = cmd_grow(l->at, l->n ? 2 * (size_t)l->n : 1, sizeof *l->at);
    struct logged *to = &l->at[l->n++];
    *to = (struct logged){ .id = t->id, .logprob = t->logprob, .tops = t->tops };
    if (!t->tops) return;
    to->top = cmd_alloc((size_t)t->tops, sizeof *to->top);
    memcpy(to->top, t->top, (size_t)t->tops * sizeof *to->top);
}

static int on_prompt_token(void *user, const struct qkv_generated_token *t)
{
    const struct generate_call *s = user;
    log_token(&s->prompt_log[t->prompt], t);
    return 0;
}

static void print_prompt(const struct generate_call *s, int64_t prompt)
{
    if (s->dim) fputs("\033[2m", stdout);
    cmd_print_text(stdout, s->texts.text[prompt], s->texts.bytes[prompt]);
    if (s->dim) fputs("\033[0m", stdout);
}

// With --echo, prints the text before its first output, unless that is done.
static void echo(struct generate_call *s, int64_t prompt)
{
    if (!s->echo || common.json || s->echoed > s->source.before + prompt) return;
    s->echoed = s->source.before + prompt + 1;
    print_prompt(s, prompt);
}

static int on_token(void *user, const struct qkv_generated_token *t)
{
    struct generate_call *s = user;
    struct token_log *l = log_of(s, t->prompt, t->rank);
    if (l && t->id >= 0) log_token(l, t);
    if (!s->streaming) return 0;
    if (common.json) {
        const struct logged one = { t->id, t->logprob, (struct qkv_token_value *)t->top, t->tops };
        printf("{\"number\":%lld,\"rank\":%lld,\"piece\":",
               (long long)(s->source.before + t->prompt) + 1, (long long)t->rank + 1);
        cmd_json_text(stdout, t->text, t->bytes);
        if (t->id >= 0) {
            fputs(",\"token\":", stdout);
            json_logged(s, &one);
        }
        puts("}");
    } else {
        echo(s, t->prompt);
        cmd_print_text(stdout, t->text, t->bytes);
    }
    return cmd_written(stdout, "standard output", s->err) ? 1 : 0;
}

// Prints the alignment of a translation, as the table that `qkv eval` prints.
static void print_alignment(const struct generate_call *s, const struct qkv_generated *g)
{
    const int64_t rows = g->tokens + (g->ending == QKV_END_TOKEN), n = g->source_tokens;
    const char **out = cmd_alloc((size_t)rows + 1, sizeof *out);
    const char **source = cmd_alloc((size_t)n + 1, sizeof *source);
    for (int64_t i = 0; i < rows; i++)
        out[i] = qkv_tokenizer_token(s->tokenizer, i < g->tokens ? g->ids[i] : g->end);
    for (int64_t i = 0; i < n; i++) source[i] = qkv_tokenizer_token(s->tokenizer, g->source_ids[i]);
    const struct qkv_model_info info = qkv_model_info(s->model);
    const bool one = cmd_is_recurrent(&info); // its only attention has one head
    const int64_t layer = s->how.alignment_layer ? *s->how.alignment_layer
                          : one                  ? 0
                                                 : info.decoder_layers - 1;
    eval_print_alignment(g->alignment, out, rows, source, n, layer, one ? 1 : info.heads);
    free(out);
    free(source);
}

// Prints the score of an output; before the first, the head of the column with the unit.
static void print_score(struct generate_call *s, double score)
{
    if (!s->scored)
        puts("    score  output (score: log-probability in nats / length^X, X: --length-penalty)");
    s->scored = true;
    printf("%9.4f  ", score);
}

static int on_output(void *user, const struct qkv_generated *g)
{
    struct generate_call *s = user;
    struct token_log *l = log_of(s, g->prompt, g->rank);
    const bool first = g->rank == 0;
    // a beam search does not emit tokens, so the log is filled when it has ended
    const bool fill = l && !l->n && g->logprobs;
    for (int64_t i = 0; fill && i < g->tokens; i++)
        log_token(l, &(struct qkv_generated_token){ .id = g->ids[i], .logprob = g->logprobs[i] });
    s->tokens += g->tokens;
    s->prompt_tokens += first ? g->prompt_tokens : 0;
    s->cut_texts += first && g->cut;
    s->cut += first ? g->cut : 0;
    if (first && g->replaced && !s->replaced) {
        s->replaced_text = s->source.before + g->prompt;
        s->replaced_at = g->replaced_at;
    }
    s->replaced += first ? g->replaced : 0;
    if (first && g->dropped && !s->dropped) {
        s->dropped_text = s->source.before + g->prompt;
        s->dropped_at = g->dropped_at;
    }
    s->dropped += first ? g->dropped : 0;
    cmd_progress_clear();
    if (common.json) {
        json_output(s, g, l);
    } else {
        if (s->streaming) {
            echo(s, g->prompt);
        } else {
            if (s->echo) print_prompt(s, g->prompt);
            if (s->how.n_best > 1 && isfinite(g->score)) print_score(s, g->score);
            cmd_print_text(stdout, g->text, g->bytes);
        }
        putchar('\n');
        if (s->logs_prompts) print_logged(s, &s->prompt_log[g->prompt]);
        if (l && l->n) print_logged(s, l);
        if (g->alignment) print_alignment(s, g);
    }
    return cmd_written(stdout, "standard output", s->err) ? 1 : 0;
}

void generate_set_callbacks(struct generate_call *s)
{
    s->begun = cmd_seconds();
    s->how.user = s;
    s->how.token = s->streaming || s->how.logprobs ? on_token : NULL;
    s->how.output = on_output;
    s->how.prompt_token = s->logs_prompts ? on_prompt_token : NULL;
}

static void free_logs(struct token_log **logs, int64_t n)
{
    for (int64_t i = 0; *logs && i < n; i++) {
        for (int64_t k = 0; k < (*logs)[i].n; k++) free((*logs)[i].at[k].top);
        free((*logs)[i].at);
    }
    free(*logs);
    *logs = NULL;
}

static void free_log(struct generate_call *s)
{
    free_logs(&s->log, s->texts.count * s->draws);
    free_logs(&s->prompt_log, s->texts.count);
}

static struct token_log *new_logs(int64_t n)
{
    struct token_log *logs = cmd_alloc((size_t)n + 1, sizeof *logs);
    memset(logs, 0, ((size_t)n + 1) * sizeof *logs);
    return logs;
}

// Replaces the texts by the next chunk.
static qkv_status next_chunk(struct generate_call *s, qkv_error *err)
{
    free_log(s);
    const qkv_status status = cmd_source_next(&s->source, &s->texts, err);
    if (status || !s->how.logprobs) return status;
    s->log = new_logs(s->texts.count * s->draws);
    if (s->logs_prompts) s->prompt_log = new_logs(s->texts.count);
    return QKV_OK;
}

void generate_free(struct generate_call *s)
{
    free_log(s);
    cmd_texts_free(&s->texts);
    cmd_source_close(&s->source);
    free(s->stop_text);
    free(s->bias);
}

static void print_notes(const struct generate_call *s)
{
    const double seconds = cmd_seconds() - s->begun;
    const int64_t texts = s->source.before;
    if (s->cut_texts)
        cmd_note("%lld of %lld texts were cut to the number of the model's positions: %lld tokens "
                 "were dropped",
                 (long long)s->cut_texts, (long long)texts, (long long)s->cut);
    if (s->dropped)
        tokens_note_dropped(s->dropped, s->dropped_at, texts > 1 ? s->dropped_text + 1 : 0);
    if (s->replaced) {
        char text[48] = "";
        if (texts > 1)
            snprintf(text, sizeof text, " of text %lld", (long long)s->replaced_text + 1);
        cmd_note("invalid UTF-8 was replaced by U+FFFD in %lld place%s, the first at byte %lld%s",
                 (long long)s->replaced, s->replaced == 1 ? "" : "s", (long long)s->replaced_at,
                 text);
    }
    if (generate_o.stats)
        cmd_note("%lld tokens of input, %lld tokens of output in %.2f s: %.1f tokens/s",
                 (long long)s->prompt_tokens, (long long)s->tokens, seconds,
                 (double)s->tokens / seconds);
}

void generate_run(struct generate_call *s,
                  qkv_status (*run)(void *model, const char *const *texts, const size_t *bytes,
                                    int64_t n, const struct qkv_generate_options *o,
                                    qkv_error *err),
                  void *model, qkv_error *err)
{
    qkv_status status = next_chunk(s, err);
    // an input without texts is run once, so that the options are checked
    for (bool first = true; !status && (first || s->texts.count); first = false) {
        s->how.first = s->source.before;
        cmd_progress_piece(s->source.before, s->source.total);
        if (s->streaming && s->texts.count) echo(s, 0);
        status = run(model, (const char *const *)s->texts.text, s->texts.bytes, s->texts.count,
                     &s->how, err);
        if (status && s->streaming && !common.json) putchar('\n');
        if (status) cmd_text_place(err, s->source.before, s->source.argc, s->source.file);
        if (!status) status = next_chunk(s, err);
    }
    cmd_progress_end();
    if (status)
        generate_name_options(err);
    else
        print_notes(s);
}
