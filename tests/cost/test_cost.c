// SPDX-License-Identifier: MIT
// test_cost.c: checks that the work of every row of cost.def grows at most in proportion to the
// size of its input, with a margin: from n to 2 n and from 2 n to 4 n by a factor below 2.5.
// (n log n grows by less than 2.2 at these sizes, a square by 4.)
//
// Work is the number of basic blocks of qkv that run, and the number of bytes that it allocates.
// All work runs on one thread: an idle worker polls for work, and these blocks would count as well.
// With the argument `time` it is the CPU time of the process, at larger sizes, which also counts
// libraries: the smallest of five rounds of the three sizes, since other programs only add to it;
// both factors together are below 2.5^2, since one of them is larger where the work leaves a cache.
// Further arguments are parts of names of rows.
#include "cost/cost.h"
#include <qkv/base.h>
#include <stdarg.h>
#include <time.h>

static const double most = 2.5;
enum { ROUNDS = 5 };

// Called at each basic block of the counted modules.
void __sanitizer_cov_trace_pc(void);
static uint64_t blocks, allocated;
static bool counting;
void __sanitizer_cov_trace_pc(void)
{
    blocks++;
}

static void *counted_alloc(void *user, size_t bytes)
{
    (void)user;
    if (counting) allocated += bytes;
    return malloc(bytes);
}

static void counted_free(void *user, void *p)
{
    (void)user;
    free(p);
}

static uint64_t blocks_before;
static clock_t clock_before;
static struct work {
    double blocks, bytes, seconds;
} done;

void cost_begin(void)
{
    counting = true;
    clock_before = clock();
    blocks_before = blocks;
}

void cost_end(void)
{
    done.blocks += (double)(blocks - blocks_before);
    done.seconds += (double)(clock() - clock_before) / CLOCKS_PER_SEC;
    done.bytes = (double)allocated;
    counting = false;
}

void cost_add(struct cost_text *b, const char *text, size_t bytes)
{
    if (b->bytes + bytes + 1 > b->capacity) {
        b->capacity = (b->bytes + bytes + 1) * 2;
        b->at = realloc(b->at, b->capacity);
        if (!b->at) abort();
    }
    memcpy(b->at + b->bytes, text, bytes);
    b->bytes += bytes;
    b->at[b->bytes] = 0;
}

void cost_repeat(struct cost_text *b, const char *text, int64_t times)
{
    const size_t bytes = strlen(text);
    for (int64_t i = 0; i < times; i++) cost_add(b, text, bytes);
}

void cost_printf(struct cost_text *b, const char *format, ...)
{
    char text[1024];
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (n < 0 || (size_t)n >= sizeof text) abort();
    cost_add(b, text, (size_t)n);
}

static struct work work_of(cost_row *row, int64_t n)
{
    done = (struct work){ 0, 0, 0 };
    allocated = 0;
    row(n);
    return done;
}

// Prints the work of a row; returns the number of ratios that are too large.
static int report(const char *name, const char *what, const double w[3], double least,
                  bool together)
{
    const double first = w[1] / fmax(w[0], least), second = w[2] / fmax(w[1], least);
    const int bad = together ? first * second >= most * most : (first >= most) + (second >= most);
    printf("%-6s %-8s %12.6g  x %.2f  x %.2f  %s\n", bad ? "grows" : "ok", what, w[0], first,
           second, name);
    return bad;
}

static const struct {
    const char *name;
    cost_row *run;
    int64_t n;
} rows[] = {
#define COST_ROW(name, function, n) { name, cost_##function, n },
#include "cost/cost.def"
};

static bool is_wanted(int argc, char **argv, const char *name)
{
    for (int i = 0; i < argc; i++)
        if (strstr(name, argv[i])) return true;
    return argc == 0;
}

int main(int argc, char **argv)
{
    static const struct qkv_allocator ours = { counted_alloc, counted_free, NULL };
    const bool timed = argc > 1 && strcmp(argv[1], "time") == 0;
    const int64_t scale = timed ? 16 : 1;
    int bad = 0;
    qkv_allocator_set(&ours);
    if (qkv_threads_set(1)) abort();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double count[3], bytes[3], seconds[3] = { INFINITY, INFINITY, INFINITY };
        if (!is_wanted(argc - 1 - timed, argv + 1 + timed, rows[i].name)) continue;
        for (int m = 0; m < 3 * (timed ? ROUNDS : 1); m++) { // counts are equal in every round
            const int k = m % 3;
            const struct work w = work_of(rows[i].run, rows[i].n * scale << k);
            count[k] = w.blocks;
            bytes[k] = w.bytes;
            seconds[k] = fmin(seconds[k], w.seconds);
        }
        // below these amounts, constant costs and the resolution of the clock decide
        bad += timed ? report(rows[i].name, "seconds", seconds, 0.02, true)
                     : report(rows[i].name, "blocks", count, 1000, false) +
                           report(rows[i].name, "bytes", bytes, 4096, false);
        if (!timed && count[2] < 10)
            bad += printf("grows  nothing was counted: %s\n", rows[i].name) > 0;
    }
    printf("%d ratios too large, expected below %.1f\n", bad, most);
    return bad != 0;
}
