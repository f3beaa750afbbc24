// SPDX-License-Identifier: MIT
// test_run_counts.c: checks that clocks that jump and counts near the end of their range do not
// change the result of a run, and that invalid counts are refused.
#include "check.h"
#include "task/train/train_internal.h"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static char folder[400];

// ---- the clock of this program: if it jumps, by years forth and back from one call to the next
// ---
static bool jumps;
static int64_t calls;

int clock_gettime(clockid_t clock, struct timespec *t)
{
    const int code = (int)syscall(SYS_clock_gettime, clock, t);
    if (jumps && __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED) % 3) t->tv_sec += 1000000000;
    return code;
}

static const char *path_of(const char *run, const char *name)
{
    static char paths[4][1000];
    static int turn;
    char *p = paths[turn++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s/%s", folder, run, name);
    return p;
}

static qkv_status train(const char *run, const struct qkv_train_observer *observer, int64_t steps,
                        qkv_error *err)
{
    char text[500], dir[500];
    const char *const texts[] = { text };
    snprintf(text, sizeof text, "%s/text.txt", folder);
    snprintf(dir, sizeof dir, "%s/%s", folder, run);
    const struct qkv_train_options o = { .run = dir,
                                         .train = { .paths = texts, .n = 1 },
                                         .tokenizer = "bytes",
                                         .layers = 1,
                                         .heads = 1,
                                         .width = 8,
                                         .context = 8,
                                         .batch_tokens = 16,
                                         .steps = steps,
                                         .eval_every = 2,
                                         .save_every = 2,
                                         .dropout = .1 };
    return qkv_train(&o, observer, NULL, err);
}

static void same_file(const char *name)
{
    char line[2200];
    snprintf(line, sizeof line, "cmp -s '%s' '%s'", path_of("steady", name),
             path_of("jumping", name));
    if (system(line) != 0) fail_msg("%s differs", name);
}

static int observe(void *user, const struct qkv_train_step *seen)
{
    int64_t *steps = user;
    CHECK(isfinite(seen->left) && seen->left >= 0);
    CHECK(isfinite(seen->tokens_second) && seen->tokens_second >= 0);
    ++*steps;
    return 0;
}

TEST(a_clock_that_jumps_changes_nothing_that_is_learnt_or_logged)
{
    int64_t steps = 0;
    const struct qkv_train_observer observer = { .step = observe, .user = &steps };
    qkv_error err = { 0 };
    if (train("steady", NULL, 6, &err)) fail_msg("%s", err.text);
    jumps = true;
    const qkv_status status = train("jumping", &observer, 6, &err);
    jumps = false;
    if (status) fail_msg("%s", err.text);
    CHECK_EQ(steps, 6);
    CHECK(calls > 6); // the clock is read in every step
    static const char *const kept[] = { "model/model.safetensors", "model/optimizer.safetensors",
                                        "model/state.json", "log.jsonl" };
    EACH(name, kept) same_file(*name);
}

// ---- counts -------------------------------------------------------------------------------------
static qkv_status read_state(struct train_state *s, const char *step, const char *position,
                             qkv_error *err)
{
    FILE *f = fopen(path_of("", "state.json"), "w");
    CHECK(f != NULL);
    fprintf(f,
            "{\"version\": 1, \"data\": \"x\", \"step\": %s, \"position\": %s, \"targets\": 0, "
            "\"updates\": 0, \"bad_steps\": 0, \"bad_evaluations\": 0, \"best_step\": -1, "
            "\"log_bytes\": 0, \"probe_bytes\": 0}",
            step, position);
    CHECK_EQ(fclose(f), 0);
    memset(err, 0, sizeof *err);
    return train_state_read(s, folder, err);
}

TEST(a_count_that_not_every_reader_of_json_knows_exactly_is_refused)
{
    struct train_state s;
    qkv_error err;
    CHECK_EQ(read_state(&s, "9007199254740992", "9007199254740992", &err), QKV_OK); // 2^53
    CHECK_EQ(s.step, (int64_t)1 << 53);
    static const char *const bad[] = { "9007199254740993",
                                       "9223372036854775807",
                                       "9223372036854775808",
                                       "18446744073709551616",
                                       "-1",
                                       "1e3",
                                       "0.5",
                                       "\"1\"",
                                       "null" };
    EACH(count, bad)
    {
        const qkv_status one = read_state(&s, *count, "0", &err);
        if (one != QKV_ERR_FORMAT && one != QKV_ERR_LIMIT)
            fail_msg("step %s: %d", *count, (int)one);
        CHECK(strstr(err.file, "state.json"));
        const qkv_status two = read_state(&s, "0", *count, &err);
        if (two != QKV_ERR_FORMAT && two != QKV_ERR_LIMIT)
            fail_msg("place %s: %d", *count, (int)two);
    }
}

TEST(steps_past_what_a_checkpoint_can_be_named_by_are_refused)
{
    struct qkv_checkpoint c;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_checkpoint_begin(&c, folder, INT64_MAX, &err), QKV_ERR_USAGE);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_checkpoint_begin(&c, folder, -1, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "expected 0 .. 10^18 - 1, found -1"));
    char deep[QKV_PATH + 1];
    memset(deep, 'x', QKV_PATH);
    deep[QKV_PATH] = 0;
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_checkpoint_begin(&c, deep, 1, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "path of the run folder is too long"));
    memset(&err, 0, sizeof err);
    CHECK_EQ(train("many", NULL, INT64_MAX, &err), QKV_ERR_USAGE);
    CHECK(strstr(err.text, "number of steps is out of range, expected 0 .. 1099511627776"));
    CHECK(access(path_of("many", "run.json"), F_OK) != 0);
}

TEST(schedules_and_batches_are_defined_at_the_last_count)
{
    const int64_t most = (int64_t)1 << 53;
    for (int kind = 0; kind <= QKV_SCHEDULE_CONSTANT; kind++) {
        const struct qkv_schedule all[] = {
            { (enum qkv_schedule_kind)kind, 1e-3, .1, 0, 1 },
            { (enum qkv_schedule_kind)kind, 1e-3, .1, most, most },
            { (enum qkv_schedule_kind)kind, 1e-3, .1, 10, (int64_t)1 << 40 },
        };
        EACH(s, all)
        {
            const double rate = qkv_schedule_rate(s, most);
            if (!(rate >= 0 && rate <= 1e-3)) fail_msg("kind %d: rate %g", kind, rate);
        }
    }
    qkv_error err = { 0 };
    qkv_data *d = NULL;
    struct qkv_drawn one = { 0 };
    const struct qkv_draw how = {
        .tokens = 16, .seed = 1, .bos = -1, .eos = -1, .pad = -1, .mask = -1, .vocab = 256
    };
    if (qkv_data_open(&d, path_of("steady", "data"), &err)) fail_msg("%s", err.text);
    CHECK_EQ(qkv_data_draw(d, &one, most, &how, &err), QKV_OK);
    CHECK(one.sequences > 0 && one.next == most + one.sequences && one.epoch > 1e12);
    qkv_drawn_free(&one);
    qkv_data_close(d);
}

static int begin(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    if (!base) base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/qkv-counts-XXXXXX", base);
    if (!mkdtemp(folder)) return -1;
    FILE *f = fopen(path_of("", "text.txt"), "w");
    for (int i = 0; f && i < 12; i++) fprintf(f, "text number %d of a few\n\n", i);
    return !f || fclose(f) != 0;
}
static int end(void **state)
{
    char line[500];
    (void)state;
    snprintf(line, sizeof line, "rm -rf '%s'", folder);
    return system(line);
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(a_clock_that_jumps_changes_nothing_that_is_learnt_or_logged),
        CASE(a_count_that_not_every_reader_of_json_knows_exactly_is_refused),
        CASE(steps_past_what_a_checkpoint_can_be_named_by_are_refused),
        CASE(schedules_and_batches_are_defined_at_the_last_count)
    };
    return cmocka_run_group_tests(cases, begin, end);
}
