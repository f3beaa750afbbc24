// SPDX-License-Identifier: MIT
// test_paths.c: opens folders, links, devices and other paths in place of a file of tensors, and
// sharded files.
#include "base/faults.h"
#include "file/fixtures.h"
#include <signal.h>
#include <sys/wait.h>

static const char one[] = "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
static const char two[] = "{\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";

static void write_text(const char *name, const char *text)
{
    fixture_file(name, text, strlen(text));
}
static void folder(const char *name)
{
    CHECK(mkdir(fixture(name), 0755) == 0 || errno == EEXIST);
}
static void refused(const char *name, qkv_status status, const char *text)
{
    fixture_refused(fixture(name), status, -1, "", text);
}

TEST(a_folder_is_opened_by_its_contents) // S37
{
    folder("empty");
    refused("empty", QKV_ERR_IO,
            "folder without weights, expected model.safetensors or model.safetensors.index.json, "
            "found neither");
    folder("full");
    fixture_safetensors("full/model.safetensors", one, strlen(one), 4);
    qkv_tensors *t = fixture_open(fixture("full"), false);
    CHECK_EQ(qkv_tensors_count(t), 1);
    qkv_tensors_close(t);
    t = fixture_open(fixture("full/"), true);
    CHECK_EQ(qkv_tensors_count(t), 1);
    qkv_tensors_close(t);
    folder("nested");
    folder("nested/model.safetensors");
    refused("nested", QKV_ERR_IO, "is a directory, expected a regular file");
}

TEST(a_fifo_or_a_device_is_refused_at_once) // S38 S39
{
    CHECK_EQ(mkfifo(fixture("fifo.safetensors"), 0600), 0);
    alarm(20); // a hang ends the test
    refused("fifo.safetensors", QKV_ERR_IO, "is a FIFO, expected a regular file");
    fixture_refused("/dev/zero", QKV_ERR_IO, -1, "", "is a device, expected a regular file");
    fixture_refused("/dev/null", QKV_ERR_IO, -1, "", "is a device, expected a regular file");
    alarm(0);
}

TEST(a_link_is_followed_and_a_loop_is_an_error) // S40
{
    fixture_safetensors("real.safetensors", one, strlen(one), 4);
    CHECK_EQ(symlink("real.safetensors", fixture("link.safetensors")), 0);
    qkv_tensors *t = fixture_open(fixture("link.safetensors"), false);
    CHECK_EQ(fixture_walk(t), ((1 * 31 + 2) * 31 + 3) * 31 + 4);
    qkv_tensors_close(t);
    CHECK_EQ(symlink("loop.safetensors", fixture("loop.safetensors")), 0);
    refused("loop.safetensors", QKV_ERR_IO, "cannot open: Too many levels of symbolic links");
}

TEST(missing_or_forbidden_files_are_io_errors) // S41
{
    refused("missing.safetensors", QKV_ERR_IO, "cannot open: No such file or directory");
    fixture_safetensors("real.safetensors", one, strlen(one), 4);
    refused("real.safetensors/x", QKV_ERR_IO, "cannot open: Not a directory");
    char path[512];
    strcpy(path, fixture_safetensors("secret.safetensors", one, strlen(one), 4));
    CHECK_EQ(chmod(path, 0), 0);
    CHECK_EQ(chmod(fixture_dir, 0755), 0);
    const pid_t child = fork(); // as a user without permission
    if (child == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0)) _exit(77);
        const int fd = open(path, O_RDONLY);
        if (fd >= 0) _exit(77); // permissions do not count here
        qkv_tensors *t;
        qkv_error err = { 0 };
        const qkv_status s = qkv_tensors_open(&t, path, NULL, &err);
        _exit(s == QKV_ERR_IO && strcmp(err.text, "cannot open: Permission denied") == 0 ? 0 : 1);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        print_message("permissions cannot be tested here\n");
    else
        CHECK_EQ(WEXITSTATUS(status), 0);
}

static void name_the_file(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    const char *file = qkv_mapped_file(info->si_addr);
    if (!file) _exit(2);
    const size_t n = strlen(file);
    _exit(write(2, file, 0) == 0 && n > 6 && strcmp(file + n - 6, "shrunk") == 0 ? 6 : 3);
}

TEST(a_file_that_shrinks_is_named_where_it_is_read) // S42
{
    enum { BYTES = 1 << 20, OTHERS = 600 }; // a model may have more than 256 files that are mapped
    char header[200], path[512];
    snprintf(header, sizeof header,
             "{\"a\":{\"dtype\":\"U8\",\"shape\":[%d],\"data_offsets\":[0,%d]}}", BYTES, BYTES);
    strcpy(path, fixture_safetensors("shrunk", header, strlen(header), BYTES));
    const pid_t child = fork();
    if (child == 0) {
        struct sigaction act = { .sa_sigaction = name_the_file, .sa_flags = SA_SIGINFO };
        sigaction(SIGBUS, &act, NULL);
        static qkv_tensors *other[OTHERS];
        qkv_tensors *t;
        const char *small = fixture_safetensors("small", "{}", 2, 0);
        for (int i = 0; i < OTHERS; i++)
            if (qkv_tensors_open(&other[i], small, NULL, NULL) != QKV_OK) _exit(8);
        if (qkv_tensors_open(&t, path, NULL, NULL) != QKV_OK) _exit(4);
        if (truncate(path, 4096) != 0) _exit(5);
        volatile uint64_t sum = fixture_walk(t); // is not optimized away
        _exit(sum == 0 ? 7 : 0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK(WIFEXITED(status));
    CHECK_EQ(WEXITSTATUS(status), 6);
    strcpy(path, fixture_safetensors("shrunk", header, strlen(header), BYTES));
    qkv_tensors *t = fixture_open(path, true); // read into memory: later changes have no effect
    const uint64_t before = fixture_walk(t);
    CHECK_EQ(truncate(path, 0), 0);
    CHECK(fixture_walk(t) == before);
    CHECK(qkv_mapped_file(qkv_tensors_at(t, 0)->data) == NULL);
    qkv_tensors_close(t);
}

static void sharded(const char *index, const char *a, const char *b)
{
    folder("m");
    write_text("m/model.safetensors.index.json", index);
    if (a)
        fixture_safetensors("m/model-1.safetensors", a, strlen(a), 4);
    else
        unlink(fixture("m/model-1.safetensors"));
    if (b)
        fixture_safetensors("m/model-2.safetensors", b, strlen(b), b == one ? 4 : 2);
    else
        unlink(fixture("m/model-2.safetensors"));
}
static void refused_shards(qkv_status status, const char *place, const char *text)
{
    fixture_refused(fixture("m"), status, -1, place, text);
    fixture_refused(fixture("m/model.safetensors.index.json"), status, -1, place, text);
}
#define MAP(rest) "{\"metadata\":{\"total_size\":6},\"weight_map\":{" rest "}}"
#define BOTH      MAP("\"b\":\"model-2.safetensors\",\"a\":\"model-1.safetensors\"")

TEST(shards_are_one_set_of_tensors)
{
    sharded(BOTH, one, two);
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        qkv_tensors *t = fixture_open(fixture("m"), no_mmap);
        CHECK_EQ(qkv_tensors_count(t), 2);
        CHECK_TEXT(qkv_tensors_at(t, 0)->name, "a");
        CHECK_TEXT(qkv_tensors_at(t, 1)->name, "b");
        CHECK_EQ(((const uint8_t *)qkv_tensors_find(t, "a")->data)[3], 4);
        CHECK_EQ(((const uint8_t *)qkv_tensors_find(t, "b")->data)[1], 2);
        qkv_tensors_close(t);
    }
    sharded("{\"weight_map\":{\"a\":\"model-1.safetensors\"}}", one,
            NULL); // a missing total is allowed
    qkv_tensors_close(fixture_open(fixture("m"), false));
    sharded("{\"metadata\":{\"total_size\":4.0},\"weight_map\":{\"a\":\"./model-1.safetensors\"}}",
            one, NULL);
    qkv_tensors_close(fixture_open(fixture("m"), false));
}

TEST(metadata_of_the_first_shard_counts)
{
    static const char a[] = "{\"__metadata__\":{\"k\":\"first\",\"x\":\"1\"},"
                            "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
    static const char b[] = "{\"__metadata__\":{\"k\":\"second\",\"y\":\"2\"},"
                            "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}";
    sharded(BOTH, a, b);
    qkv_tensors *t = fixture_open(fixture("m"), false);
    CHECK_TEXT(qkv_tensors_metadata(t, "k"), "first");
    CHECK_TEXT(qkv_tensors_metadata(t, "x"), "1");
    CHECK_TEXT(qkv_tensors_metadata(t, "y"), "2");
    CHECK(qkv_tensors_metadata(t, "z") == NULL);
    qkv_tensors_close(t);
}

TEST(no_shard_is_outside_its_folder) // S43
{
    static const char *const bad[] = { "../../etc/x", "/etc/passwd", "x/../../y", "..", "",
                                       "a//b",        "x/",          "a\\\\b" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char index[200], text[200];
        snprintf(index, sizeof index, "{\"weight_map\":{\"a\":\"%s\"}}", bad[i]);
        snprintf(text, sizeof text,
                 "shard outside model directory, expected a file in it, found \"%s\"",
                 i == 7 ? "a\\b" : bad[i]);
        sharded(index, one, NULL);
        refused_shards(QKV_ERR_FORMAT, "$.weight_map.a", text);
    }
}

TEST(shards_match_their_index) // S44
{
    sharded(BOTH, one, NULL);
    refused_shards(QKV_ERR_IO, "", "cannot open: No such file or directory");
    sharded(MAP("\"a\":\"model-1.safetensors\",\"b\":\"model-1.safetensors\""), one, NULL);
    refused_shards(
        QKV_ERR_FORMAT, "$.weight_map.b",
        "tensor is missing, expected it in shard model-1.safetensors, found it in no shard");
    sharded(MAP("\"a\":\"model-2.safetensors\",\"b\":\"model-1.safetensors\""), one, two);
    qkv_tensors *t;
    qkv_error err = { 0 };
    CHECK_EQ(qkv_tensors_open(&t, fixture("m"), NULL, &err), QKV_ERR_FORMAT);
    CHECK_TEXT(err.path, "$.weight_map.a");
    CHECK_TEXT(err.text,
               "tensor is in another shard, expected it in shard model-2.safetensors, found "
               "it in model-1.safetensors");
    sharded("{\"metadata\":{\"total_size\":7},\"weight_map\":{\"a\":\"model-1.safetensors\",\"b\":"
            "\"model-2.safetensors\"}}",
            one, two);
    refused_shards(
        QKV_ERR_FORMAT, "$.metadata.total_size",
        "total size of the tensors is wrong, expected 6 bytes as in the shards, found 7");
    sharded(BOTH, one, one); // a is in both
    memset(&err, 0, sizeof err);
    CHECK_EQ(qkv_tensors_open(&t, fixture("m"), NULL, &err), QKV_ERR_FORMAT);
    CHECK(strstr(err.text, "duplicate tensor \"a\", expected it in one shard, found it also in ") ==
          err.text);
    CHECK(strstr(err.file, "model-2.safetensors") != NULL);
    CHECK_EQ(err.offset, 9);
}

TEST(an_index_is_checked_before_it_is_used)
{
    static const struct {
        const char *text, *place, *says;
    } bad[] = {
        { "", "1:1", "not a JSON object, expected '{', found the end" },
        { "[]", "1:1", "not a JSON object, expected '{', found '['" },
        { "{\n \"a\":1,}", "2:8", "malformed JSON, expected a text in quotes, found '}'" },
        { "{}", "$.weight_map",
          "value of the wrong type, expected an object that maps tensors to files, found none" },
        { "{\"weight_map\":[]}", "$.weight_map",
          "value of the wrong type, expected an object that maps tensors to files, found another "
          "type" },
        { "{\"weight_map\":{\"a\":1}}", "$.weight_map.a",
          "value of the wrong type, expected the file name of a shard, found none" },
        { "{\"weight_map\":{\"a\":\"x\",\"a\":\"x\"}}", "1:24",
          "duplicate key in a JSON object, expected each key once, found \"a\"" },
        { "{\"metadata\":[],\"weight_map\":{}}", "$.metadata",
          "value of the wrong type, expected an object, found another type" },
        { "{\"metadata\":{\"total_size\":\"6\"},\"weight_map\":{}}", "$.metadata.total_size",
          "value of the wrong type, expected a number, found another type" },
    };
    EACH(b, bad)
    {
        sharded(b->text, NULL, NULL);
        refused_shards(QKV_ERR_FORMAT, b->place, b->says);
    }
    sharded("{\"weight_map\":{}}", NULL, NULL);
    qkv_tensors *t = fixture_open(fixture("m"), false);
    CHECK_EQ(qkv_tensors_count(t), 0);
    qkv_tensors_close(t);
}

TEST(unsupported_formats_are_recognized_by_content_and_by_name) // S45
{
    static const char pickle[] = "PyTorch and pickle files are never loaded (convert them with "
                                 "safetensors.torch.save_file), expected .safetensors or .npy, "
                                 "found a PyTorch or pickle file";
    static const char gguf[] = "GGUF files are not supported (use the .safetensors files of the "
                               "model), expected .safetensors or .npy, found a GGUF file";
    fixture_file("pytorch_model.bin", "\x80\2}q\0.", 6);
    refused("pytorch_model.bin", QKV_ERR_UNSUPPORTED, pickle);
    fixture_file("zip.pt", "PK\3\4............", 16);
    refused("zip.pt", QKV_ERR_UNSUPPORTED, pickle);
    fixture_file("renamed.safetensors", "PK\3\4............", 16);
    refused("renamed.safetensors", QKV_ERR_UNSUPPORTED, pickle);
    fixture_file("x.pkl", "", 0);
    refused("x.pkl", QKV_ERR_UNSUPPORTED, pickle);
    fixture_file("no_suffix", "\x80\4\x95\x10\0\0\0\0\0\0\0}", 12);
    refused("no_suffix", QKV_ERR_UNSUPPORTED, pickle);
    fixture_file("m.gguf", "GGUF\3\0\0\0", 8);
    refused("m.gguf", QKV_ERR_UNSUPPORTED, gguf);
    fixture_file("model.bin", "GGUF\3\0\0\0", 8);
    refused("model.bin", QKV_ERR_UNSUPPORTED, gguf);
    folder("torch");
    fixture_file("torch/pytorch_model.bin", "x", 1);
    refused("torch", QKV_ERR_UNSUPPORTED, pickle);
    fixture_file("picture", "\x89PNG\r\n\x1a\n", 8);
    refused("picture", QKV_ERR_FORMAT,
            "unknown type of file, expected .safetensors, .safetensors.index.json or .npy, found "
            "neither their content nor their name");
    // The content decides, not the name.
    fixture_safetensors("weights.bin", one, strlen(one), 4);
    qkv_tensors *t = fixture_open(fixture("weights.bin"), false);
    CHECK_EQ(qkv_tensors_count(t), 1);
    qkv_tensors_close(t);
    char tricky[700]; // 0x0280 bytes of header: the file begins as a pickle of protocol 2 does
    memset(tricky, ' ', sizeof tricky);
    memcpy(tricky, one, strlen(one));
    fixture_safetensors("tricky", tricky, 0x280, 4);
    t = fixture_open(fixture("tricky"), false);
    CHECK_EQ(qkv_tensors_count(t), 1);
    qkv_tensors_close(t);
}

static qkv_status open_close(void *ctx, qkv_error *err)
{
    qkv_tensors *t = NULL;
    const struct qkv_tensors_options how = { .no_mmap = true };
    const qkv_status status = qkv_tensors_open(&t, ctx, &how, err);
    qkv_tensors_close(t);
    return status;
}

TEST(every_failed_allocation_of_shards_is_survived)
{
    sharded(BOTH, one, two);
    char path[512];
    strcpy(path, fixture("m"));
    CHECK(faults_walk(open_close, path, true) >= 30);
}

CHECK_MAIN(CASE(a_folder_is_opened_by_its_contents), CASE(a_fifo_or_a_device_is_refused_at_once),
           CASE(a_link_is_followed_and_a_loop_is_an_error),
           CASE(missing_or_forbidden_files_are_io_errors),
           CASE(a_file_that_shrinks_is_named_where_it_is_read), CASE(shards_are_one_set_of_tensors),
           CASE(metadata_of_the_first_shard_counts), CASE(no_shard_is_outside_its_folder),
           CASE(shards_match_their_index), CASE(an_index_is_checked_before_it_is_used),
           CASE(unsupported_formats_are_recognized_by_content_and_by_name),
           CASE(every_failed_allocation_of_shards_is_survived))
