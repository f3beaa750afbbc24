// SPDX-License-Identifier: MIT
// train_bytes.c: compares the bytes that MPI sends for a training step and for a checkpoint, over
// ranks, with the formulas of docs/machines.md.
//
// usage: mpirun -n P env LD_PRELOAD=libcount_bytes-KIND.so train_bytes
#include <dlfcn.h>
#include <qkv/qkv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// BLOCK: weights of a block, which one rank updates; LOSS: bytes of the loss of a batch.
enum { BLOCK = 1 << 14, LOSS = 24, RANKS = 8, ARRAYS = 64, FEW = 2, MANY = 5 };
static const int64_t accumulates[] = { 4, 5, 1 };

static struct qkv_comm comm;
static const long long *sent;
static char folder[4096];

// ---- runs ---------------------------------------------------------------------------------------
// Trains a run and fills of[RANKS] with the bytes that each rank has sent.
static qkv_status train(long long of[RANKS], const char *name, int64_t accumulate, int64_t steps,
                        int64_t save_every, qkv_error *err)
{
    char text[sizeof folder + 16], run[sizeof folder + 32];
    const char *const texts[] = { text };
    size_t at[RANKS], n[RANKS];
    snprintf(text, sizeof text, "%s/text", folder);
    snprintf(run, sizeof run, "%s/%s", folder, name);
    const struct qkv_train_options o = { .run = run,
                                         .train = { .paths = texts, .n = 1 },
                                         .tokenizer = "bytes",
                                         .layers = 2,
                                         .heads = 2,
                                         .width = 64,
                                         .context = 32,
                                         .batch_tokens = 64,
                                         .accumulate = accumulate,
                                         .steps = steps,
                                         .eval_every = 1000,
                                         .save_every = save_every,
                                         .keep_last = -1,
                                         .ranks = &comm };
    const long long before = *sent;
    qkv_status status = qkv_train(&o, NULL, NULL, err);
    of[comm.rank] = *sent - before;
    for (int64_t r = 0; r < comm.size; r++) {
        at[r] = (size_t)r * sizeof *of;
        n[r] = sizeof *of;
    }
    if (!status && comm.size > 1) status = comm.gather(comm.ctx, of, at, n);
    return status;
}

// Fills name[] with the name of a folder that rank 0 has made, with a text.
static qkv_status make_folder(void)
{
    size_t at[RANKS] = { 0 }, n[RANKS] = { sizeof folder };
    if (comm.rank == 0) {
        const char *base = getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/qkv-train-XXXXXX", base ? base : "/tmp");
        if (!mkdtemp(folder)) return QKV_ERR_IO;
        char path[sizeof folder + 16];
        snprintf(path, sizeof path, "%s/text", folder);
        FILE *f = fopen(path, "w");
        for (int i = 0; f && i < 20000; i++) fputc(i % 50 ? 'a' + i * (i / 50) % 26 : '\n', f);
        if (!f || fclose(f) != 0) return QKV_ERR_IO;
    }
    return comm.size > 1 ? comm.gather(comm.ctx, folder, at, n) : QKV_OK;
}

// ---- what is expected ---------------------------------------------------------------------------
struct expected {
    int64_t count[ARRAYS]; // weights of each array
    int64_t arrays, weights, blocks;
};

static int by_place(const void *a, const void *b)
{
    const struct qkv_tensor *const *x = a, *const *y = b;
    return ((*x)->data > (*y)->data) - ((*x)->data < (*y)->data);
}

// Reads the sizes of all arrays of weights, in their order, from the moments in a checkpoint.
static qkv_status read_sizes(struct expected *e, qkv_error *err)
{
    char path[sizeof folder + 64];
    const struct qkv_tensor *tensor[ARRAYS];
    qkv_tensors *set = NULL;
    snprintf(path, sizeof path, "%s/first/model/optimizer.safetensors", folder);
    const qkv_status status = qkv_tensors_open(&set, path, NULL, err);
    *e = (struct expected){ .arrays = 0 };
    for (int64_t i = 0; i < qkv_tensors_count(set) && e->arrays < ARRAYS; i++) {
        const struct qkv_tensor *x = qkv_tensors_at(set, i);
        if (!strncmp(x->name, "exp_avg.", 8)) tensor[e->arrays++] = x;
    }
    qsort(tensor, (size_t)e->arrays, sizeof *tensor, by_place);
    for (int64_t i = 0; i < e->arrays; i++) {
        e->count[i] = qkv_tensor_count(tensor[i]);
        e->weights += e->count[i];
        e->blocks += (e->count[i] + BLOCK - 1) / BLOCK;
    }
    qkv_tensors_close(set);
    return status;
}

static int64_t share(int64_t all, int64_t rank)
{
    const int64_t more = all % comm.size;
    return all / comm.size * rank + (rank < more ? rank : more);
}

// Returns the weights that a rank updates: consecutive blocks.
static int64_t own_weights(const struct expected *e, int64_t rank)
{
    const int64_t from = share(e->blocks, rank), to = share(e->blocks, rank + 1);
    int64_t block = 0, weights = 0;
    for (int64_t i = 0; i < e->arrays; i++)
        for (int64_t left = e->count[i]; left > 0; left -= BLOCK, block++)
            if (block >= from && block < to) weights += left < BLOCK ? left : BLOCK;
    return weights;
}

// Returns the nodes of the tree over the batches lo .. hi-1 whose leaves are all within from ..
// to-1, without the nodes below them.
static int64_t nodes_of(int64_t lo, int64_t hi, int64_t from, int64_t to)
{
    int64_t left = 1;
    if (hi <= from || to <= lo) return 0;
    if (from <= lo && hi <= to) return 1;
    while (2 * left < hi - lo) left *= 2;
    return nodes_of(lo, lo + left, from, to) + nodes_of(lo + left, hi, from, to);
}

// Returns the bytes that all ranks send in a step: gradients, weights, losses, squared norms.
static long long step_bytes(const struct expected *e, int64_t accumulate)
{
    const int64_t P = comm.size;
    long long bytes = (P - 1) * (4 * e->weights + LOSS * accumulate + 8 * e->blocks);
    for (int64_t r = 0; r < P; r++) {
        const int64_t from = share(accumulate, r), to = share(accumulate, r + 1);
        bytes += nodes_of(0, accumulate, from, to) * 4 * (e->weights - own_weights(e, r));
    }
    return bytes;
}

// ---- comparisons --------------------------------------------------------------------------------
static bool equal(const char *what, int64_t accumulate, long long expected, long long found)
{
    if (expected == found) return true;
    if (comm.rank == 0)
        printf("%lld ranks, %lld batches a step, %s: expected %lld bytes, found %lld\n",
               (long long)comm.size, (long long)accumulate, what, expected, found);
    return false;
}

// Two runs differ by steps only: returns whether each step sends what is expected.
static bool check_steps(const struct expected *e, int64_t accumulate, qkv_error *err)
{
    char name[2][32];
    long long of[2][RANKS] = { { 0 } }, all[2] = { 0, 0 };
    qkv_status status = QKV_OK;
    for (int i = 0; i < 2 && !status; i++) {
        snprintf(name[i], sizeof name[i], "run-%lld-%d", (long long)accumulate, i);
        status = train(of[i], name[i], accumulate, i ? MANY : FEW, 1000, err);
        for (int64_t r = 0; r < comm.size; r++) all[i] += of[i][r];
    }
    const long long expected = step_bytes(e, accumulate);
    if (comm.rank == 0 && !status)
        printf(
            "%lld ranks, %lld batches a step, %lld weights: %lld bytes a step, %.3f times (P - 1) "
            "8 bytes a weight\n",
            (long long)comm.size, (long long)accumulate, (long long)e->weights, expected,
            comm.size > 1 ? (double)expected / (8.0 * (double)((comm.size - 1) * e->weights))
                          : 0.0);
    return !status && equal("step", accumulate, (MANY - FEW) * expected, all[1] - all[0]);
}

// Two runs differ by one checkpoint: returns whether each rank sends its two moments, of about 1/P
// of the weights, and rank 0 nothing.
static bool check_moments(const struct expected *e, const long long first[RANKS], qkv_error *err)
{
    long long of[RANKS] = { 0 };
    bool good = !train(of, "saved", accumulates[0], FEW, 1, err);
    for (int64_t r = 0; r < comm.size; r++) {
        const int64_t own = own_weights(e, r), arrays = e->arrays;
        good = equal("moments", accumulates[0], r ? 8 * own : 0, of[r] - first[r]) && good;
        // an array has at most one block that is not full
        if (own > (e->weights + arrays * BLOCK) / comm.size + BLOCK) {
            printf("rank %lld has %lld of %lld weights\n", (long long)r, (long long)own,
                   (long long)e->weights);
            good = false;
        }
    }
    return good;
}

int main(void)
{
    qkv_error err = { 0 };
    long long first[RANKS] = { 0 };
    struct expected e = { .arrays = 0 };
    int64_t wrong = 0;
    sent = dlsym(RTLD_DEFAULT, "count_bytes_sent");
    if (!sent || qkv_ranks_open(&comm, &err) || comm.size > RANKS) {
        fprintf(stderr, "train_bytes: %s\n", sent ? err.text : "the counting library is missing");
        return QKV_ERR_USAGE;
    }
    qkv_status status = make_folder();
    if (!status) status = train(first, "first", accumulates[0], FEW, 1000, &err);
    if (!status) status = read_sizes(&e, &err);
    if (!status && !check_moments(&e, first, &err)) wrong++;
    for (size_t i = 0; i < sizeof accumulates / sizeof *accumulates && !status; i++)
        wrong += !check_steps(&e, accumulates[i], &err);
    if (status) printf("train_bytes: %s: %s\n", qkv_status_name(status), err.text);
    wrong += status != QKV_OK;
    if (comm.size > 1 && comm.reduce(comm.ctx, &wrong, 1)) wrong = 1;
    char remove[sizeof folder + 16];
    snprintf(remove, sizeof remove, "rm -rf '%s'", folder);
    if (comm.rank == 0 && *folder && system(remove) != 0) wrong++;
    qkv_ranks_close(&comm);
    return wrong ? QKV_ERR_INTERNAL : QKV_OK;
}
