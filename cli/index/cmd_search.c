// SPDX-License-Identifier: MIT
// cmd_search.c: implements `qkv search`: finds the passages of an index that are nearest to
// questions.
#include "index/search_parts.h"
#include "frame/tokens.h"
#include <stdlib.h>
#include <string.h>

static struct {
    const char *file, *rerank, *prompt;
    int64_t count, candidates, ef, sample;
    bool why, truncate, hnsw, check;
} o = { .count = 10 };

static const struct opt opts[] = {
    OPT_INPUT('f', "file", &o.file, "FILE",
              "file with one question per line; '-' is standard input"),
    OPT_INT('k', "count", &o.count, 1, 1000000, "N",
            "number of passages per question (default: 10)"),
    OPT_FLAG(0, "why", &o.why,
             "mark the words of each passage that contribute most to its cosine with the question, "
             "at most five"),
    OPT_TEXT(0, "rerank", &o.rerank, "DIR",
             "order the best passages by this cross-encoder, which reads question and passage "
             "together"),
    OPT_INT(
        0, "candidates", &o.candidates, 1, 1000000, "N",
        "with --rerank: number of passages that it orders (default: 50, or -k if that is more)"),
    OPT_FLAG(0, "hnsw", &o.hnsw,
             "find the passages with the graph of qkv index --hnsw, which compares a small part of "
             "the vectors and may miss some; worth it for many questions about many passages"),
    OPT_INT(0, "ef", &o.ef, 1, 1000000, "N",
            "with --hnsw or --check: number of vectors that the graph finds, of which the nearest "
            "are the result; more of them miss less and need more time (default: 100, or -k if "
            "that is more)"),
    OPT_FLAG(0, "check", &o.check,
             "compare --hnsw with the exact search: print which part of the -k nearest passages it "
             "finds, and the time of both, for passages of the index as questions"),
    OPT_INT(0, "sample", &o.sample, 1, 1000000, "N",
            "with --check: number of passages (default: 100)"),
    OPT_TEXT(0, "prompt", &o.prompt, "NAME",
             "put this prompt of the model's sentence-transformers settings before each question "
             "(default: query, if the model has it, otherwise default_prompt_name)"),
    OPT_FLAG(0, "truncate", &o.truncate,
             "truncate questions that exceed the model's length, instead of failing"),
    OPT_END
};

struct search {
    struct index x;
    struct index_graph graph; // with --hnsw
    qkv_embedder *e;
    struct reranker ranker;
    struct cmd_texts questions;
    int64_t asked; // number of passages to find: k, or the candidates of --rerank
};

static qkv_status open_model(struct search *s, qkv_error *err)
{
    char dir[CMD_PATH];
    qkv_status status = index_model_find(&s->x, dir, err);
    if (status) return status;
    struct qkv_embedder_options how = { .model = cmd_model_options(),
                                        .truncate = o.truncate,
                                        .prompt = o.prompt };
    status = o.prompt ? qkv_embedder_open(&s->e, dir, &how, err)
                      : index_embedder(&s->e, dir, &how, index_query_prompts, err);
    if (!status) status = index_model_check(&s->x, s->e, dir, err);
    if (status) return status;
    if (qkv_embedder_width(s->e) != s->x.vectors.width)
        return cmd_error(err, QKV_ERR_FORMAT, s->x.path,
                         "the index is malformed: expected vectors of width %lld, found %lld",
                         (long long)qkv_embedder_width(s->e), (long long)s->x.vectors.width);
    if (o.why && strcmp(qkv_embedder_prompt(s->e), s->x.settings.value[INDEX_PROMPT]) != 0)
        return cmd_error(err, QKV_ERR_UNSUPPORTED, NULL,
                         "--why: the model has different prompts for questions and passages, which "
                         "the split of the cosine does not support");
    return QKV_OK;
}

// Finds the passages of one question of a chunk among its matches, and prints them.
static qkv_status answer(const struct search *s, const struct cmd_source *source, int64_t question,
                         const struct qkv_match *matches, int64_t found, qkv_error *err)
{
    struct hit *hits = cmd_alloc((size_t)found + 1, sizeof *hits);
    qkv_status status = QKV_OK;
    memset(hits, 0, ((size_t)found + 1) * sizeof *hits);
    for (int64_t i = 0; i < found; i++)
        hits[i] = (struct hit){ .row = matches[i].row, .score = matches[i].score };
    if (o.rerank)
        status = reranker_run(&s->ranker, &s->x, s->questions.text[question],
                              s->questions.bytes[question], hits, found, err);
    const int64_t count = found < o.count ? found : o.count;
    for (int64_t i = 0; i < count && o.why && !status; i++) {
        struct store_passage p;
        struct store_file f;
        status = index_passage(&s->x, hits[i].row, &p, &f, err);
        if (!status)
            status = search_why(&hits[i].why, s->e, &s->questions, question, p.text.at,
                                p.text.bytes, err);
        hits[i].explained = true;
    }
    // the number of lines of a file is not known before its end
    const bool only = source->argc == 1 && !source->file;
    if (!status)
        status =
            search_print(&s->x, only ? -1 : source->before + question, s->questions.text[question],
                         s->questions.bytes[question], hits, count, err);
    free(hits);
    return status;
}

// Answers the questions of a chunk, in groups, so that the matches need little memory.
static qkv_status answer_all(struct search *s, const struct cmd_source *source, qkv_error *err)
{
    enum { TOGETHER = 16 };
    const int64_t width = s->x.vectors.width, n = s->questions.count;
    float *v = cmd_alloc((size_t)(n + 1) * (size_t)width, sizeof *v);
    struct qkv_match *matches = cmd_alloc(TOGETHER * (size_t)s->asked, sizeof *matches);
    struct qkv_embed_report report = { 0 };
    int64_t found[TOGETHER];
    qkv_status status = qkv_embed(s->e, v, (const char *const *)s->questions.text,
                                  s->questions.bytes, n, &report, err);
    if (!status) status = cmd_check_finite(v, n * width, "vector of a question", err);
    if (status) cmd_text_place(err, source->before, source->argc, source->file);
    if (!status) tokens_notes(&report, n, qkv_embedder_max_length(s->e));
    for (int64_t i = 0; i < n && !status; i += TOGETHER) {
        const int64_t some = n - i < TOGETHER ? n - i : TOGETHER;
        status =
            o.hnsw ? search_graph(matches, found, &s->x, &s->graph, v + i * width, some, s->asked,
                                  o.ef ? o.ef : 100, err)
                   : qkv_search(matches, found, &s->x.vectors, v + i * width, some, s->asked, err);
        for (int64_t q = 0; q < some && !status; q++)
            status = answer(s, source, i + q, matches + q * s->asked, found[q], err);
    }
    free(v);
    free(matches);
    return status;
}

static qkv_status check_options(int argc, qkv_error *err)
{
    if (o.candidates && !o.rerank)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--candidates requires --rerank");
    if (o.ef && !o.hnsw && !o.check)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--ef requires --hnsw or --check");
    if (o.sample && !o.check)
        return cmd_error(err, QKV_ERR_USAGE, NULL, "--sample requires --check");
    if (o.check && (argc > 1 || o.file || o.rerank || o.why))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--check takes passages of the index as questions: expected no question, "
                         "-f, --rerank or --why");
    return QKV_OK;
}

// Fails if a stored vector is not finite. The vectors of a large index are only checked with
// --check and for a file of questions: for one question a pass over them takes longer than the
// search.
static qkv_status check_vectors(const struct index *x, qkv_error *err)
{
    enum { SMALL = 64 << 20 };
    const struct qkv_vectors *v = &x->vectors;
    const int64_t row = v->width * (int64_t)qkv_dtype_size(v->type);
    if (!o.check && !o.file && v->count > SMALL / row) return QKV_OK;
    return index_check_finite(x, err);
}

static int run_search(int argc, char **argv)
{
    qkv_error err = { 0 };
    struct search s = { .x = { .fd = -1 } };
    struct cmd_source source = { .argc = 0 };
    if (check_options(argc, &err) || index_open(&s.x, argv[0], "qkv search", &err) ||
        check_vectors(&s.x, &err))
        goto done;
    if (o.check) {
        search_check(&s.x, o.sample ? o.sample : 100, o.count, o.ef ? o.ef : 100, &err);
        goto done;
    }
    if ((o.hnsw && index_graph_open(&s.graph, &s.x, "qkv search --hnsw", &err)) ||
        cmd_source_open(&source, argc - 1, argv + 1, o.file, &err) || open_model(&s, &err) ||
        (o.rerank && reranker_open(&s.ranker, o.rerank, &err)))
        goto done;
    s.asked = o.count;
    if (o.rerank && s.asked < (o.candidates ? o.candidates : 50))
        s.asked = o.candidates ? o.candidates : 50;
    if (s.asked > s.x.vectors.count) s.asked = s.x.vectors.count ? s.x.vectors.count : 1;
    while (!cmd_source_next(&source, &s.questions, &err) && s.questions.count)
        if (answer_all(&s, &source, &err)) break;
done:
    cmd_source_close(&source);
    cmd_texts_free(&s.questions);
    reranker_close(&s.ranker);
    qkv_embedder_close(s.e);
    index_graph_close(&s.graph);
    index_close(&s.x);
    return err.status ? cmd_fail(&err) : QKV_OK;
}

const struct cmd cmd_search = {
    .name = "search",
    .brief = "find the passages of an index that are nearest to a question",
    .usage = "FILE.qkvi QUESTION... [-f FILE] [options]\nFILE.qkvi --check [options]",
    .about = "Prints, of the passages of an index of qkv index, those whose vectors have the "
             "largest cosine with the vector of the question: rank, cosine, file and line, and the "
             "passage, cut after four lines (with --json it is whole). Every vector is compared, "
             "so no passage is missed. The model is that of the index; --model names its folder if "
             "it was moved. Another model is refused.\n"
             "\n"
             "With --why, the words of a passage that contribute most to the cosine are marked: the "
             "cosine is split exactly into terms of pairs of tokens, as qkv similar --why does, and "
             "the terms of each word are added up.",
    .opts = opts,
    .uses = USES_COMPUTE | USES_MODEL | USES_ABLATE | USES_JSON,
    .min_args = 1,
    .max_args = -1,
    .examples = {
        { "qkv search docs.qkvi \"how is the cache cleared?\"", "the ten nearest passages" },
        { "qkv search docs.qkvi \"how is the cache cleared?\" -k 3 --why", "with the words that matter most" },
        { "qkv search docs.qkvi -f questions.txt --json", "one JSON object per question" },
        { "qkv search docs.qkvi -f questions.txt --json --hnsw", "faster, with a graph of qkv index --hnsw" },
        { "qkv search docs.qkvi --check", "what the graph misses, and its time" },
        { "qkv search docs.qkvi \"who wrote it?\" --rerank ranker", "ordered by a cross-encoder" },
    },
    .run = run_search,
};
