// SPDX-License-Identifier: MIT
// fuzz_lines.c: reads any bytes as the file of an option -f: its lines, all texts, a range of its
// lines, the whole file, and lists of token ids.  The first byte selects the size of the reads and
// the number of operands before the lines; every text is the line of the file at its place.
// Inputs have up to 1200 bytes.
#include "fuzz/fuzz.h"
#include "frame/tokens.h"

enum { OPERANDS = 3, LIST = 512 };
static const char path[] = MEMORY_FOLDER "/lines";
const struct cmd *const cmd_table[] = { NULL };
static char *operands[OPERANDS] = { (char[]){ "a" }, (char[]){ "" }, (char[]){ "b c" } };

// The lines of the input, found without the reader.
struct expected {
    const char *at;
    size_t left;
    int64_t number;
};
static bool next_line(struct expected *x, struct fuzz_part *line)
{
    if (!x->left) return false;
    const char *end = memchr(x->at, '\n', x->left);
    const size_t bytes = end ? (size_t)(end - x->at) : x->left;
    *line = (struct fuzz_part){ x->at, bytes - (bytes && x->at[bytes - 1] == '\r') };
    x->at += bytes + (end != NULL);
    x->left -= bytes + (end != NULL);
    x->number++;
    return true;
}

static void check_line(struct expected *x, const char *text, size_t bytes)
{
    struct fuzz_part line;
    FUZZ_CHECK(next_line(x, &line) && line.bytes == bytes && !text[bytes]);
    FUZZ_CHECK(!bytes || !memcmp(line.at, text, bytes));
}

static void read_lines(struct expected x)
{
    struct cmd_lines l;
    qkv_error err = { 0 };
    fuzz_success(cmd_lines_open(&l, path, &err), &err);
    FUZZ_CHECK(l.size == (int64_t)x.left);
    for (int64_t n = 0;;) {
        bool ready = false;
        if (x.number & 1) fuzz_success(cmd_lines_ready(&l, &ready, &err), &err);
        fuzz_success(cmd_lines_next(&l, &n, &err), &err);
        if (n < 0) break;
        check_line(&x, l.line, (size_t)n);
        FUZZ_CHECK(l.number == x.number);
    }
    FUZZ_CHECK(!x.left);
    cmd_lines_close(&l);
}

// Reads the texts of a source in chunks, from the text with this number on.
static void read_chunks(struct cmd_source *s, struct expected x)
{
    struct cmd_texts t = { 0 };
    qkv_error err = { 0 };
    int64_t n = s->before, total = 0;
    const int64_t most = s->left, argc = s->argc;
    do {
        fuzz_success(cmd_source_next(s, &t, &err), &err);
        FUZZ_CHECK(s->before == n);
        for (int64_t i = 0; i < t.count; i++, n++, total++) {
            if (total < argc)
                FUZZ_CHECK(!strcmp(t.text[i], operands[total]));
            else
                check_line(&x, t.text[i], t.bytes[i]);
        }
    } while (t.count);
    FUZZ_CHECK(most < 0 ? !x.left && total == x.number + argc : total <= most);
    if (most >= 0) FUZZ_CHECK(total == most || !x.left);
    cmd_source_close(s);
}

static void read_source(struct expected x, int argc, unsigned skip)
{
    struct cmd_source s;
    struct cmd_texts all;
    qkv_error err = { 0 };
    fuzz_success(cmd_source_open(&s, argc, operands, path, &err), &err);
    read_chunks(&s, x);
    fuzz_success(cmd_texts_read(&all, argc, operands, path, &err), &err);
    struct expected again = x;
    for (int64_t i = argc; i < all.count; i++) check_line(&again, all.text[i], all.bytes[i]);
    FUZZ_CHECK(!again.left && all.count == again.number + argc && all.operands == argc);
    cmd_texts_free(&all);
    // the lines from one on, as a shard of the file has them
    struct fuzz_part line;
    const char *begin = x.at;
    for (unsigned i = 0; i < skip && next_line(&x, &line);) i++;
    fuzz_success(cmd_source_open(&s, 0, NULL, path, &err), &err);
    fuzz_success(cmd_source_range(&s, x.at - begin, x.number, 2, &err), &err);
    read_chunks(&s, (struct expected){ x.at, x.left, 0 });
}

static void read_whole(const struct expected *x)
{
    char *text = NULL;
    size_t bytes = 0;
    qkv_error err = { 0 };
    fuzz_success(cmd_read_file(&text, &bytes, path, &err), &err);
    FUZZ_CHECK(bytes == x->left && !text[bytes] && (!bytes || !memcmp(text, x->at, bytes)));
    free(text);
}

// Reads lists of ids; a list that is written in one line is read as the same ids.
static void read_ids(struct expected x)
{
    struct id_lists l, again;
    struct fuzz_part line;
    qkv_error err = { 0 };
    const qkv_status status = id_lists_read(&l, path, &err);
    FUZZ_CHECK(status == err.status);
    if (status) fuzz_refusal(status, &err);
    for (int64_t i = 0; !status && i < l.count; i++) {
        char text[LIST] = "";
        size_t used = 0;
        const int64_t n = l.offsets[i + 1] - l.offsets[i];
        FUZZ_CHECK(next_line(&x, &line) && n > 0 && l.offsets[0] == 0);
        for (int64_t k = l.offsets[i]; k < l.offsets[i + 1]; k++) {
            FUZZ_CHECK(l.ids[k] >= 0);
            if (used + 16 < sizeof text)
                used += (size_t)snprintf(text + used, sizeof text - used, "%d,", (int)l.ids[k]);
        }
        fuzz_success(id_lists_read(&again, text, &err), &err);
        FUZZ_CHECK(again.count == 1 && again.offsets[1] <= n);
        for (int64_t k = 0; k < again.offsets[1]; k++)
            FUZZ_CHECK(again.ids[k] == l.ids[l.offsets[i] + k]);
        id_lists_free(&again);
    }
    if (!status) FUZZ_CHECK(!x.left);
    id_lists_free(&l);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    fuzz_file("lines", data + 1, size - 1);
    const struct expected x = { (const char *)data + 1, size - 1, 0 };
    common.quiet = true;
    memory_read_most(data[0] & 64 ? 1 + (size_t)data[0] % 8 : SIZE_MAX);
    read_lines(x);
    read_source(x, data[0] % (OPERANDS + 1), data[0] >> 4);
    read_whole(&x);
    read_ids(x);
    memory_read_most(SIZE_MAX);
    return 0;
}
