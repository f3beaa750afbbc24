// SPDX-License-Identifier: MIT
// test_checkpoint.c: stops or refuses a save at every call that changes the disk and checks that a
// complete checkpoint remains; incomplete, damaged or foreign checkpoints are reported.
#include "base/base_internal.h"
#include "base/faults.h"
#include "check.h"
#include "file/checkpoint_names.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char run[QKV_PATH];

static const char *in_run(const char *name)
{
    static char paths[4][2 * QKV_PATH];
    static int turn;
    char *p = paths[turn++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", run, name);
    return p;
}
static void remove_all(void)
{
    char line[QKV_PATH + 16];
    snprintf(line, sizeof line, "rm -rf '%s'", run);
    if (system(line) != 0) fail_msg("cannot remove %s", run);
}
static void new_run(void)
{
    const char *base = getenv("TMPDIR");
    if (!base) base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp"; // hundreds of fsyncs
    snprintf(run, sizeof run, "%s/qkv-checkpoint-XXXXXX", base);
    CHECK(mkdtemp(run) != NULL);
}

static qkv_status put(const char *dir, const char *name, const char *text, qkv_error *err)
{
    char path[QKV_PATH];
    struct qkv_output o;
    qkv_status status = qkv_path_join(path, dir, name, err);
    if (!status) status = qkv_output_open(&o, path, false, err);
    if (status) return status;
    status = qkv_output_write(&o, text, strlen(text), err);
    if (!status) return qkv_output_commit(&o, err);
    qkv_output_abort(&o);
    return status;
}

// A checkpoint of three files whose contents contain the step.
static qkv_status save(int64_t step, const char *keep, qkv_error *err)
{
    struct qkv_checkpoint c;
    char text[64], path[QKV_PATH];
    float numbers[2][3] = { { (float)step, 1, 2 }, { 3, 4, (float)step } };
    const struct qkv_tensor t[2] = {
        { .name = "a", .dtype = QKV_F32, .rank = 1, .shape = { 3 } },
        { .name = "b", .dtype = QKV_F32, .rank = 1, .shape = { 3 } },
    };
    qkv_safetensors_writer *w = NULL;
    snprintf(text, sizeof text, "{\"step\": %d}", (int)step);
    qkv_status status = qkv_checkpoint_begin(&c, run, step, err);
    if (status) return status;
    status = put(c.dir, "state.json", text, err);
    if (!status) status = put(c.dir, "tokenizer.json", "{}", err);
    if (!status) status = qkv_path_join(path, c.dir, "model.safetensors", err);
    if (!status) status = qkv_safetensors_create(&w, path, t, 2, NULL, false, err);
    if (!status) status = qkv_safetensors_append(w, numbers, sizeof numbers, err);
    if (!status) status = qkv_safetensors_finish(w, err);
    qkv_safetensors_close(w);
    if (!status) {
        status = qkv_checkpoint_commit(&c, err);
        const struct qkv_checkpoint_kept kept = { .name = keep };
        return status ? status : qkv_checkpoint_tidy(run, &kept, err);
    }
    qkv_checkpoint_abort(&c);
    return status;
}

static int64_t newest(void)
{
    struct qkv_checkpoint_found f;
    qkv_error err = { 0 };
    const qkv_status status = qkv_checkpoint_find(&f, run, &err);
    if (status) fail_msg("%s: %s", err.file, err.text);
    return f.step;
}
static bool there(const char *name)
{
    return access(in_run(name), F_OK) == 0;
}
static int entries(void)
{
    int n = 0;
    DIR *d = opendir(run);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}

TEST(the_last_two_stay_and_the_link_shows_the_newest)
{
    char target[QKV_PATH] = "";
    new_run();
    CHECK_EQ(newest(), -1);
    for (int step = 0; step <= 300; step += 100) CHECK_EQ(save(step, NULL, NULL), QKV_OK);
    CHECK_EQ(newest(), 300);
    CHECK(there("checkpoint-00000200") && there("checkpoint-00000300"));
    CHECK_EQ(entries(), 3);
    CHECK(readlink(in_run("model"), target, sizeof target - 1) > 0);
    CHECK_TEXT(target, "checkpoint-00000300");
    for (int step = 400; step <= 600; step += 100)
        CHECK_EQ(save(step, "checkpoint-00000300", NULL), QKV_OK);
    CHECK(there("checkpoint-00000300")); // the named one is kept in addition to the last two
    CHECK_EQ(entries(), 4);
    CHECK_EQ(save(600, NULL, NULL), QKV_OK); // the same step again replaces it
    CHECK_EQ(newest(), 600);
    CHECK_EQ(entries(), 3);
    CHECK_EQ(save(123456789, NULL, NULL), QKV_OK);
    CHECK_EQ(newest(), 123456789);
    CHECK_EQ(save(-1, NULL, NULL), QKV_ERR_USAGE);
    CHECK_EQ(save(INT64_MAX, NULL, NULL), QKV_ERR_USAGE);
    remove_all();
}

// ---- stopped or refused at every call -----------------------------------------------------------
struct stop {
    int at, calls;
    enum { KILLED, TORN, REFUSED, REFUSED_FOR_EVER } how;
};
static int stop_at(void *ctx, struct qkv_disk_call *call)
{
    struct stop *s = ctx;
    const int n = ++s->calls;
    switch (s->how) {
    case KILLED:
        if (n == s->at) _exit(9);
        return 0;
    case TORN: // half of a write, and then the end
        if (n == s->at) call->bytes /= 2;
        if (n == s->at + 1) _exit(9);
        return 0;
    case REFUSED: return n == s->at ? ENOSPC : 0;
    default: return n >= s->at ? ENOSPC : 0;
    }
}

// Saves checkpoint 300 after 100 and 200 in a process of its own.  Returns its exit code: 0 saved,
// 6 the save failed, 9 stopped; *calls: number of calls.
static int save_with(struct stop stop)
{
    const pid_t child = fork();
    if (child == 0) {
        qkv_error err = { 0 };
        qkv_disk_hook(stop_at, &stop);
        const qkv_status s = save(300, NULL, &err);
        qkv_disk_hook(NULL, NULL);
        if (s && (s != QKV_ERR_IO || !strstr(err.text, "No space left"))) _exit(1);
        _exit(stop.calls < stop.at ? 77 : s);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void stopped_everywhere(struct stop stop, int code)
{
    int points = 0, old = 0, young = 0;
    for (stop.at = 1;; stop.at++, points++) {
        new_run();
        CHECK_EQ(save(100, NULL, NULL), QKV_OK);
        CHECK_EQ(save(200, NULL, NULL), QKV_OK);
        const int got = save_with(stop);
        const int64_t step = newest(); // complete, every file as the manifest says
        CHECK(step == 200 || step == 300);
        step == 200 ? old++ : young++;
        if (got == 77) {
            CHECK_EQ(step, 300);
            remove_all();
            break;
        }
        CHECK(got == code || got == 0 || (got == 6 && code == 6));
        struct stat st;
        char inside[QKV_PATH]; // what the link shows is whole, too
        snprintf(inside, sizeof inside, "model/%s", QKV_MANIFEST);
        CHECK(stat(in_run(inside), &st) == 0);
        CHECK_EQ(save(400, NULL, NULL), QKV_OK); // and the next save finds its way
        CHECK_EQ(newest(), 400);
        if (step == 300) CHECK(there("checkpoint-00000300"));
        CHECK_EQ(entries(), 3);
        remove_all();
    }
    CHECK(points > 30 && young > 3);
    if (stop.how != REFUSED)
        CHECK(old > 20); // some refusals cost nothing: a folder that is not synced
}

TEST(killed_at_every_call_of_a_save_a_complete_one_is_there)
{
    stopped_everywhere((struct stop){ .how = KILLED }, 9);
}
TEST(killed_in_the_middle_of_every_write_a_complete_one_is_there)
{
    stopped_everywhere((struct stop){ .how = TORN }, 9);
}
TEST(refused_at_every_call_of_a_save_a_complete_one_is_there)
{
    stopped_everywhere((struct stop){ .how = REFUSED }, 6);
}
TEST(a_disk_that_stays_full_from_any_call_on_leaves_a_complete_one)
{
    stopped_everywhere((struct stop){ .how = REFUSED_FOR_EVER }, 6);
}

// ---- order: what a loss of power could undo is synced before it is built on ---------------------
enum { FILES = 64 };
static struct {
    char path[FILES][QKV_PATH]; // written and not synced
    int n;
    bool renamed, synced;
} order;

static int keep_order(void *ctx, struct qkv_disk_call *call)
{
    (void)ctx;
    const size_t end = strlen(call->path);
    if (!strcmp(call->name, "write")) {
        int i = 0;
        while (i < order.n && strcmp(order.path[i], call->path) != 0) i++;
        if (i == order.n && i < FILES) snprintf(order.path[order.n++], QKV_PATH, "%s", call->path);
    } else if (!strcmp(call->name, "fsync")) {
        for (int i = 0; i < order.n; i++)
            if (!strcmp(order.path[i], call->path))
                memmove(order.path[i], order.path[--order.n], QKV_PATH);
        if (order.renamed && !strcmp(call->path, run)) order.synced = true;
    } else if (!strcmp(call->name, "rename") && end > 4 && !strcmp(call->path + end - 4, ".tmp") &&
               strstr(call->to, "checkpoint-00000300")) {
        if (order.n) return EIO; // a file that is not on the disk yet
        order.renamed = true;
    } else if (!strcmp(call->name, "symlink") && !order.synced) {
        return EIO; // the link may not come before what it shows
    }
    return 0;
}

TEST(every_file_is_synced_before_the_folder_is_renamed_and_that_before_the_link)
{
    new_run();
    CHECK_EQ(save(200, NULL, NULL), QKV_OK);
    memset(&order, 0, sizeof order);
    qkv_disk_hook(keep_order, NULL);
    const qkv_status status = save(300, NULL, NULL);
    qkv_disk_hook(NULL, NULL);
    CHECK_EQ(status, QKV_OK);
    CHECK(order.renamed && order.synced);
    CHECK_EQ(newest(), 300);
    remove_all();
}

// ---- finding the newest -------------------------------------------------------------------------
TEST(unfinished_checkpoints_are_skipped_and_named)
{
    struct qkv_checkpoint_found f;
    new_run();
    CHECK_EQ(save(100, NULL, NULL), QKV_OK);
    CHECK_EQ(mkdir(in_run("checkpoint-00000200.tmp"), 0755), 0);
    CHECK_EQ(qkv_checkpoint_find(&f, run, NULL), QKV_OK);
    CHECK_EQ(f.step, 100);
    CHECK_EQ(f.passed, 1);
    CHECK_TEXT(f.passed_name, "checkpoint-00000200.tmp");
    CHECK_EQ(mkdir(in_run("checkpoint-00000300"), 0755), 0);
    CHECK_EQ(qkv_checkpoint_find(&f, run, NULL), QKV_OK);
    CHECK_EQ(f.step, 100);
    CHECK_EQ(f.passed, 2);
    CHECK_TEXT(f.passed_name, "checkpoint-00000300");
    static const char *const strange[] = { "checkpoint-",
                                           "checkpoint-1",
                                           "checkpoint-000000000009",
                                           "checkpoint-99999999x",
                                           "checkpoint-00000900.tmp.1",
                                           "checkpoint-9999999999999999999",
                                           "9" };
    EACH(p, strange) CHECK_EQ(mkdir(in_run(*p), 0755), 0);
    CHECK_EQ(qkv_checkpoint_find(&f, run, NULL), QKV_OK);
    CHECK_EQ(f.passed, 2);
    CHECK_EQ(mkdir(in_run("checkpoint-00000250.old"), 0755), 0);
    CHECK_EQ(save(300, NULL, NULL), QKV_OK); // the empty folder is replaced
    CHECK_EQ(newest(), 300);
    // the remains of a killed process are removed, too
    CHECK(access(in_run("checkpoint-00000250.old"), F_OK) != 0);
    CHECK(access(in_run("checkpoint-00000200.tmp"), F_OK) != 0);
    qkv_error err = { 0 };
    CHECK_EQ(qkv_checkpoint_find(&f, "/no/such/run", &err), QKV_ERR_IO);
    remove_all();
}

static void flip(const char *name, long at)
{
    const int fd = open(in_run(name), O_RDWR);
    char c = 0;
    CHECK(fd >= 0 && pread(fd, &c, 1, at) == 1);
    c ^= 1;
    CHECK(pwrite(fd, &c, 1, at) == 1);
    close(fd);
}

TEST(a_changed_file_is_named_with_its_tensor_and_the_preceding_checkpoint)
{
    struct qkv_checkpoint_found f;
    struct stat st;
    new_run();
    CHECK_EQ(save(100, NULL, NULL), QKV_OK);
    qkv_error err = { 0 };
    const char *weights = "checkpoint-00000100/model.safetensors";
    CHECK_EQ(stat(in_run(weights), &st), 0);
    flip(weights, st.st_size - 1);
    CHECK_EQ(qkv_checkpoint_find(&f, run, &err), QKV_ERR_FORMAT);
    CHECK(strstr(err.text, "in tensor \"b\"") &&
          strstr(err.text, "there is no earlier checkpoint to continue from"));
    CHECK(err.has_offset && err.offset == st.st_size - 12);
    CHECK_EQ(f.step, -1);
    CHECK_EQ(save(200, NULL, NULL), QKV_OK);
    CHECK_EQ(newest(), 200); // older ones are not examined
    flip("checkpoint-00000200/model.safetensors", 20);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_checkpoint_find(&f, run, &err), QKV_ERR_FORMAT);
    CHECK(err.has_offset && err.offset == 0);
    CHECK(
        strstr(err.text,
               "to continue from the checkpoint before it, checkpoint-00000100, remove this one"));
    CHECK_EQ(truncate(in_run("checkpoint-00000200/state.json"), 3), 0);
    flip("checkpoint-00000200/model.safetensors", 20);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_checkpoint_find(&f, run, &err), QKV_ERR_FORMAT);
    CHECK(strstr(err.file, "state.json") && strstr(err.text, "expected 13 bytes, found 3"));
    CHECK_EQ(unlink(in_run("checkpoint-00000200/state.json")), 0);
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_checkpoint_find(&f, run, &err), QKV_ERR_IO);
    remove_all();
}

TEST(manifests_of_others_are_refused)
{
    static const struct {
        const char *text;
        qkv_status status;
    } bad[] = {
        { "", QKV_ERR_FORMAT },
        { "{}", QKV_ERR_FORMAT },
        { "[]", QKV_ERR_FORMAT },
        { "{\"format\":\"other\",\"version\":1,\"step\":100,\"files\":{}}", QKV_ERR_FORMAT },
        { "{\"format\":\"qkv-checkpoint\",\"version\":2}", QKV_ERR_UNSUPPORTED },
        { "{\"format\":\"qkv-checkpoint\",\"version\":0}", QKV_ERR_FORMAT },
        { "{\"format\":\"qkv-checkpoint\",\"version\":1,\"step\":7,\"files\":{}}", QKV_ERR_FORMAT },
        { "{\"format\":\"qkv-checkpoint\",\"version\":1,\"step\":100}", QKV_ERR_FORMAT },
        { "{\"format\":\"qkv-checkpoint\",\"version\":1,\"step\":100,\"files\":{}}",
          QKV_ERR_FORMAT },
        { "{\"format\":\"qkv-checkpoint\",\"version\":1,\"step\":100,\"files\":{\"x\":1}}",
          QKV_ERR_FORMAT },
        { "{\"format\":\"qkv-checkpoint\",\"version\":1,\"step\":100,\"files\":"
          "{\"../x\":{\"bytes\":0,\"sha256\":\"\"}}}",
          QKV_ERR_FORMAT },
        { "{\"format\":\"qkv-checkpoint\",\"version\":1,\"step\":100,\"files\":"
          "{\"state.json\":{\"bytes\":13,\"sha256\":\"00\",\"tensors\":{\"a\":[-1,99,\"\"]}}}}",
          QKV_ERR_FORMAT },
    };
    new_run();
    CHECK_EQ(save(100, NULL, NULL), QKV_OK);
    EACH(b, bad)
    {
        qkv_error err = { 0 };
        struct qkv_checkpoint_found f;
        const int fd =
            open(in_run("checkpoint-00000100/manifest.json"), O_WRONLY | O_TRUNC | O_CREAT, 0644);
        CHECK(write(fd, b->text, strlen(b->text)) == (ssize_t)strlen(b->text));
        close(fd);
        CHECK_EQ(qkv_checkpoint_find(&f, run, &err), b->status);
        CHECK(err.text[0] && f.step == -1);
    }
    remove_all();
}

// Saves a checkpoint whose weights, `n` floats in two tensors, are longer than the files of which
// qkv_checkpoint_check compares the SHA-256. Returns the index of their last byte.
static int64_t save_long(int64_t n)
{
    struct qkv_checkpoint c;
    char path[QKV_PATH];
    struct stat st;
    const struct qkv_tensor t[2] = {
        { .name = "a", .dtype = QKV_F32, .rank = 1, .shape = { n - 2 } },
        { .name = "b", .dtype = QKV_F32, .rank = 1, .shape = { 2 } },
    };
    float *numbers = calloc((size_t)n, sizeof *numbers);
    qkv_safetensors_writer *w = NULL;
    qkv_error err = { 0 };
    const bool failed = qkv_checkpoint_begin(&c, run, 100, &err) ||
                        put(c.dir, "state.json", "{}", &err) ||
                        qkv_path_join(path, c.dir, "model.safetensors", &err) ||
                        qkv_safetensors_create(&w, path, t, 2, NULL, false, &err) ||
                        qkv_safetensors_append(w, numbers, (size_t)n * sizeof *numbers, &err) ||
                        qkv_safetensors_finish(w, &err);
    qkv_safetensors_close(w);
    free(numbers);
    if (failed || qkv_checkpoint_commit(&c, &err)) fail_msg("%s: %s", err.file, err.text);
    CHECK_EQ(stat(in_run("checkpoint-00000100/model.safetensors"), &st), 0);
    return st.st_size - 1;
}

static qkv_status check_as_model(qkv_error *err)
{
    const char *dir = in_run("checkpoint-00000100");
    qkv_tensors *weights = NULL;
    memset(err, 0, sizeof *err);
    if (qkv_tensors_open(&weights, dir, NULL, err)) fail_msg("%s: %s", err->file, err->text);
    const qkv_status status = qkv_checkpoint_check(dir, weights, err);
    qkv_tensors_close(weights);
    return status;
}

TEST(a_checkpoint_opened_as_a_model_is_compared_by_the_sums_of_its_tensors)
{
    qkv_error err;
    new_run();
    const char *weights = "checkpoint-00000100/model.safetensors";
    const int64_t last = save_long(300000);
    CHECK_EQ(check_as_model(&err), QKV_OK);
    flip(weights, last);
    CHECK_EQ(check_as_model(&err), QKV_ERR_FORMAT);
    CHECK(strstr(err.text, "in tensor \"b\"") && err.has_offset && err.offset == last - 7);
    flip(weights, last - 100000);
    CHECK_EQ(check_as_model(&err), QKV_ERR_FORMAT);
    CHECK(strstr(err.text, "in tensor \"a\"")); // the first of two that differ
    flip(weights, last);
    flip(weights, last - 100000);
    CHECK_EQ(check_as_model(&err), QKV_OK);
    flip("checkpoint-00000100/state.json", 0); // a small file
    CHECK_EQ(check_as_model(&err), QKV_ERR_FORMAT);
    CHECK(strstr(err.file, "state.json"));
    CHECK_EQ(unlink(in_run("checkpoint-00000100/state.json")), 0);
    CHECK_EQ(check_as_model(&err), QKV_OK); // a folder without state.json is no checkpoint
    remove_all();
}

static qkv_status save_and_find(void *ctx, qkv_error *err)
{
    struct qkv_checkpoint_found f;
    qkv_status status = save(300, NULL, err);
    (void)ctx;
    return status ? status : qkv_checkpoint_find(&f, run, err);
}

TEST(every_failed_allocation_is_survived)
{
    new_run();
    CHECK_EQ(save(100, NULL, NULL), QKV_OK);
    CHECK_EQ(save(200, NULL, NULL), QKV_OK);
    CHECK(faults_walk(save_and_find, NULL, true) > 30);
    remove_all();
}

CHECK_MAIN(CASE(the_last_two_stay_and_the_link_shows_the_newest),
           CASE(killed_at_every_call_of_a_save_a_complete_one_is_there),
           CASE(killed_in_the_middle_of_every_write_a_complete_one_is_there),
           CASE(refused_at_every_call_of_a_save_a_complete_one_is_there),
           CASE(a_disk_that_stays_full_from_any_call_on_leaves_a_complete_one),
           CASE(every_file_is_synced_before_the_folder_is_renamed_and_that_before_the_link),
           CASE(unfinished_checkpoints_are_skipped_and_named),
           CASE(a_changed_file_is_named_with_its_tensor_and_the_preceding_checkpoint),
           CASE(manifests_of_others_are_refused),
           CASE(a_checkpoint_opened_as_a_model_is_compared_by_the_sums_of_its_tensors),
           CASE(every_failed_allocation_is_survived))
