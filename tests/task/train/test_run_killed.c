// SPDX-License-Identifier: MIT
// test_run_killed.c: checks that a run that is killed, or refused, at any call that changes the
// disk, or stopped at any step, resumes to the same bits.
#include "base/base_internal.h"
#include "check.h"
#include "task/eval/eval_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 6, SAVE_EVERY = 2 };
static char folder[400];
static const char *const kept[] = { "model/model.safetensors", "model/optimizer.safetensors",
                                    "model/state.json", "log.jsonl", "probes.jsonl" };

static const char *path_of(const char *run, const char *name)
{
    static char paths[4][1000];
    static int turn;
    char *p = paths[turn++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s/%s", folder, run, name);
    return p;
}

static void remove_run(const char *run)
{
    char line[1000];
    snprintf(line, sizeof line, "rm -rf '%s/%s'", folder, run);
    if (system(line) != 0) fail_msg("cannot remove %s", run);
}

static struct qkv_train_options options(const char *run)
{
    static char paths[4][1000], text[500];
    static int turn;
    static const char *texts[1];
    char *p = paths[turn++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", folder, run);
    snprintf(text, sizeof text, "%s/text.txt", folder);
    texts[0] = text;
    return (struct qkv_train_options){ .run = p,
                                       .train = { .paths = texts, .n = 1 },
                                       .tokenizer = "bytes",
                                       .layers = 1,
                                       .heads = 1,
                                       .width = 8,
                                       .context = 8,
                                       .batch_tokens = 16,
                                       .steps = STEPS,
                                       .eval_every = 3,
                                       .save_every = SAVE_EVERY,
                                       .patience = 100,
                                       .probe_every = 3,
                                       .dropout = .1 };
}

static qkv_status train(const char *run, const struct qkv_train_observer *observer, qkv_error *err)
{
    const struct qkv_train_options o = options(run);
    return qkv_train(&o, observer, NULL, err);
}

static void must_train(const char *run)
{
    qkv_error err = { 0 };
    if (train(run, NULL, &err)) fail_msg("%s: %s: %s", run, err.file, err.text);
}

static char *read_all(const char *run, const char *name, size_t *bytes)
{
    struct stat st;
    const int fd = open(path_of(run, name), O_RDONLY);
    if (fd < 0 || fstat(fd, &st) != 0) fail_msg("%s/%s is not there", run, name);
    char *data = malloc((size_t)st.st_size + 1);
    if (!data || read(fd, data, (size_t)st.st_size) != st.st_size) fail_msg("cannot read %s", name);
    close(fd);
    *bytes = (size_t)st.st_size;
    return data;
}

static void same_as_whole(const char *run, int at)
{
    EACH(name, kept)
    {
        size_t n[2];
        char *a = read_all("whole", *name, &n[0]), *b = read_all(run, *name, &n[1]);
        if (n[0] != n[1] || memcmp(a, b, n[0]) != 0)
            fail_msg("stopped at call %d: %s differs from the run that never stopped", at, *name);
        free(a);
        free(b);
    }
}

// ---- every call that changes the disk -----------------------------------------------------------
struct stop {
    int at, calls;
    // torn: half of the write, then the process ends; refuse: fail with ENOSPC, once
    bool torn, refuse;
};
static int stop_at(void *ctx, struct qkv_disk_call *call)
{
    struct stop *s = ctx;
    s->calls++;
    if (s->refuse) return s->calls == s->at ? ENOSPC : 0;
    if (s->calls != s->at) return 0;
    if (!s->torn) _exit(9);
    if (!call->bytes) _exit(9);
    call->bytes /= 2;
    s->at++;
    s->torn = false;
    return 0;
}

// Trains in a process of its own, which may be killed. Returns its exit code; 77: there were fewer
// calls.
static int train_with(struct stop stop)
{
    const pid_t child = fork();
    if (child == 0) {
        const int at = stop.at;
        qkv_error err = { 0 };
        qkv_disk_hook(stop_at, &stop);
        const qkv_status s = train("stopped", NULL, &err);
        qkv_disk_hook(NULL, NULL);
        _exit(stop.calls < at ? 77 : (int)s);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void stopped_everywhere(bool torn, bool refuse, int stride)
{
    int at = 1;
    for (;; at += stride) {
        remove_run("stopped");
        const int code = train_with((struct stop){ .at = at, .torn = torn, .refuse = refuse });
        if (code == 77) break;
        CHECK(code == 9 || code == 0 || (refuse && code == QKV_ERR_IO));
        must_train("stopped");
        same_as_whole("stopped", at);
    }
    CHECK(at > 150); // beginning, six lines of log, three saves
}

TEST(killed_at_every_call_it_ends_with_the_same_bits)
{
    stopped_everywhere(false, false, 1);
}
TEST(killed_in_the_middle_of_writes_it_ends_with_the_same_bits)
{
    stopped_everywhere(true, false, 3);
}

// A refused save does not end the training; a lost log line is an error of the run.
TEST(refused_at_any_call_it_goes_on_or_can_be_gone_on_with)
{
    for (int at = 1;; at += 3) {
        remove_run("stopped");
        const int code = train_with((struct stop){ .at = at, .refuse = true });
        if (code == 77) break;
        CHECK(code == 0 || code == QKV_ERR_IO);
        qkv_error err = { 0 };
        CHECK_EQ(train("stopped", NULL, &err), QKV_OK);
        size_t n[2]; // except for a lost line the files are as without a failure
        char *a = read_all("whole", kept[0], &n[0]), *b = read_all("stopped", kept[0], &n[1]);
        CHECK(n[0] == n[1] && !memcmp(a, b, n[0]));
        free(a);
        free(b);
    }
}

// ---- every step ---------------------------------------------------------------------------------
static int stop_after(void *user, const struct qkv_train_step *seen)
{
    return seen->step == *(const int64_t *)user;
}

TEST(interrupted_after_any_step_it_is_saved_and_goes_on_to_the_same_bits)
{
    for (int64_t step = 1; step < STEPS; step++) {
        const struct qkv_train_observer observer = { .step = stop_after, .user = &step };
        qkv_error err = { 0 };
        remove_run("stopped");
        CHECK_EQ(train("stopped", &observer, &err), QKV_ERR_INTERRUPTED);
        CHECK(strstr(err.text, "its checkpoint is saved"));
        must_train("stopped");
        same_as_whole("stopped", (int)step);
    }
}

TEST(two_trainers_of_one_process_do_not_meet)
{
    struct train_lock a, b;
    int64_t stale;
    qkv_error err = { 0 };
    const struct qkv_train_options o = options("locked");
    CHECK_EQ(train_lock_take(&a, o.run, &stale, &err), QKV_OK);
    CHECK_EQ(train_lock_take(&b, o.run, &stale, &err), QKV_ERR_IO);
    CHECK(strstr(err.text, "another trainer is running in this folder"));
    train_lock_leave(&a);
    CHECK_EQ(train_lock_take(&b, o.run, &stale, NULL), QKV_OK);
    CHECK_EQ(stale, 0);
    train_lock_leave(&b);
    remove_run("locked");
}

TEST(edits_are_counted_by_tokens_and_by_characters)
{
    struct eval {
        const char *output, *reference;
        int64_t tokens, token_length, characters, character_length;
    } rows[] = {
        { "", "", 0, 0, 0, 0 },           { "a b c", "a b c", 0, 3, 0, 5 },
        { "a b", "a b c", 1, 3, 2, 5 },   { "kitten", "sitting", 1, 1, 3, 7 },
        { "  x  y ", "x y", 0, 2, 4, 3 }, { "\xC3\xA9t\xC3\xA9", "ete", 1, 1, 2, 3 },
        { "", "a b", 2, 2, 3, 3 },
    };
    EACH(r, rows)
    {
        struct eval_distance d;
        CHECK(eval_distance(&d, r->output, r->reference));
        CHECK_EQ(d.tokens, r->tokens);
        CHECK_EQ(d.token_length, r->token_length);
        CHECK_EQ(d.characters, r->characters);
        CHECK_EQ(d.character_length, r->character_length);
    }
}

static int begin(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    // the tests make many fsync calls
    if (!base) base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(folder, sizeof folder, "%s/qkv-train-XXXXXX", base);
    if (!mkdtemp(folder)) return -1;
    char path[500];
    snprintf(path, sizeof path, "%s/text.txt", folder);
    FILE *f = fopen(path, "w");
    for (int i = 0; f && i < 12; i++) fprintf(f, "text number %d of a few\n\n", i);
    // one thread, because the program forks
    if (!f || fclose(f) != 0 || qkv_threads_set(1)) return -1;
    must_train("whole");
    return 0;
}
static int end(void **state)
{
    (void)state;
    remove_run("");
    return 0;
}

int main(void)
{
    const struct CMUnitTest cases[] = {
        CASE(killed_at_every_call_it_ends_with_the_same_bits),
        CASE(killed_in_the_middle_of_writes_it_ends_with_the_same_bits),
        CASE(refused_at_any_call_it_goes_on_or_can_be_gone_on_with),
        CASE(interrupted_after_any_step_it_is_saved_and_goes_on_to_the_same_bits),
        CASE(two_trainers_of_one_process_do_not_meet),
        CASE(edits_are_counted_by_tokens_and_by_characters)
    };
    return cmocka_run_group_tests(cases, begin, end);
}
