// SPDX-License-Identifier: MIT
// test_train_ranks.c: a transport returns an error on one of the ranks of a training run, at any of
// its messages. All ranks return, and one process continues the run to the same files.
#include "file/fixtures.h"
#include "layer/ranks/thread_ranks.h"
#include <qkv/train.h>

static char text[1024], whole[1024], broken[1024];
static const struct setting {
    int64_t ranks, context_ranks, context, accumulate;
    int64_t every; // of so many messages one breaks
} settings[] = { { 3, 1, 8, 4, 1 }, { 4, 2, 800, 2, 61 } }, *setting;

static qkv_status train(const struct qkv_comm *comm, const char *run)
{
    const char *const texts[] = { text };
    qkv_error err = { 0 };
    const struct qkv_train_options o = { .run = run,
                                         .train = { .paths = texts, .n = 1 },
                                         .tokenizer = "bytes",
                                         .layers = 1,
                                         .heads = 1,
                                         .width = 8,
                                         .context = setting->context,
                                         .batch_tokens = setting->context,
                                         .accumulate = setting->accumulate,
                                         .steps = 2,
                                         .eval_every = 1,
                                         .save_every = 1,
                                         .ranks = comm,
                                         .context_ranks = comm ? setting->context_ranks : 0 };
    return qkv_train(&o, NULL, NULL, &err);
}

static void body(const struct qkv_comm *comm, void *ctx)
{
    *(qkv_status *)ctx = train(comm, broken);
}

static void remove_run(const char *run)
{
    nftw(run, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void check_broken(int64_t rank, void *const *user)
{
    static const char *const files[] = { "model/model.safetensors", "model/optimizer.safetensors",
                                         "model/state.json", "log.jsonl" };
    CHECK(*(const qkv_status *)user[rank]);
    CHECK_EQ(train(NULL, broken), QKV_OK);
    EACH(file, files)
    {
        char line[2200];
        snprintf(line, sizeof line, "cmp -s '%s/%s' '%s/%s'", whole, *file, broken, *file);
        if (system(line) != 0) fail_msg("rank %d: %s differs", (int)rank, *file);
    }
    remove_run(broken);
}

TEST(no_rank_waits_for_a_broken_one_and_the_run_continues)
{
    enum { BYTES = 12800 };
    char lines[BYTES];
    qkv_status status[RANKS_MOST];
    void *user[RANKS_MOST];
    for (int r = 0; r < RANKS_MOST; r++) user[r] = &status[r];
    for (int i = 0; i < BYTES; i++) lines[i] = i % 32 ? (char)('a' + i * i % 23) : '\n';
    snprintf(text, sizeof text, "%s", fixture_file("text.txt", lines, sizeof lines));
    snprintf(whole, sizeof whole, "%s", fixture("whole"));
    snprintf(broken, sizeof broken, "%s", fixture("broken"));
    EACH(s, settings)
    {
        setting = s;
        CHECK_EQ(train(NULL, whole), QKV_OK);
        break_each(s->ranks, s->every, body, user, check_broken);
        remove_run(whole);
        remove_run(broken);
    }
}

CHECK_MAIN(CASE(no_rank_waits_for_a_broken_one_and_the_run_continues))
