// SPDX-License-Identifier: MIT
// test_net_ranks.c: ranks that share the rows of a batch have the loss and the gradients of one
// process in every bit, for every family of decoders.
#include "layer/ranks/thread_ranks.h"
#include "model/params/trainable.h"
#include "model/tiny.h"

// Sequences of several blocks, of less than one, and of one token.
static const int64_t lengths[] = { 1540, 1, QKV_FEW ? 40 : 500, 30, 90 };
enum { SEQUENCES = sizeof lengths / sizeof *lengths, ROWS = QKV_FEW ? 1701 : 2161 };
static int64_t offsets[SEQUENCES + 1];
static int32_t ids[ROWS], targets[ROWS];

static struct qkv_net_batch make_batch(int64_t V)
{
    for (int i = 0; i < SEQUENCES; i++) offsets[i + 1] = offsets[i] + lengths[i];
    CHECK_EQ(offsets[SEQUENCES], ROWS);
    for (int64_t r = 0; r < ROWS; r++) {
        ids[r] = (int32_t)((r * 7919 + r * r % 13) % V);
        targets[r] = r % 11 ? (int32_t)((r * 104729 + 3) % V) : -1;
    }
    return (struct qkv_net_batch){ .objective = QKV_OBJECTIVE_CAUSAL,
                                   .in = { SEQUENCES, offsets, ids, NULL },
                                   .targets = targets };
}

struct job {
    qkv_net *n;
    const struct qkv_net_batch *batch;
    size_t limit; // collect_limit
    struct qkv_loss loss, valid;
    qkv_status status;
};

// Runs the batch with gradients, then without.
static void body(const struct qkv_comm *comm, void *ctx)
{
    struct job *j = ctx;
    struct qkv_comm limited = *comm;
    qkv_error err = { 0 };
    limited.collect_limit = j->limit;
    j->loss = j->valid = (struct qkv_loss){ 0 };
    j->status = qkv_net_share(j->n, &limited, &err);
    if (!j->status) j->status = qkv_net_run(j->n, &j->loss, j->batch, true, 1, 3, 4, &err);
    if (!j->status) j->status = qkv_net_run(j->n, &j->valid, j->batch, false, 1, 3, 4, &err);
    qkv_net_share(j->n, NULL, NULL);
}

static void same_loss(const char *name, int64_t P, const struct qkv_loss *a,
                      const struct qkv_loss *b)
{
    if (a->sum != b->sum || a->rows != b->rows || a->right != b->right)
        fail_msg("%s, %lld ranks: loss %.17g, expected %.17g", name, (long long)P, a->sum, b->sum);
}

// Compares P ranks, each with a model of its own, with the model one->n.
static void compare(const char *name, const struct job *one, qkv_net *(*open)(const void *),
                    const void *how, int64_t P, size_t limit)
{
    struct job job[RANKS_MOST] = { 0 };
    void *user[RANKS_MOST];
    for (int64_t r = 0; r < P; r++) {
        job[r] = (struct job){ .n = open(how), .batch = one->batch, .limit = limit };
        user[r] = &job[r];
    }
    run_ranks(P, body, user, NULL);
    for (int64_t r = 0; r < P; r++) {
        if (job[r].status) fail_msg("%s: %s", name, qkv_status_name(job[r].status));
        same_loss(name, P, &job[r].loss, &one->loss);
        same_loss(name, P, &job[r].valid, &one->valid);
        for (int64_t i = 0; i < one->n->parameters; i++) {
            const struct qkv_parameter *a = &one->n->parameter[i], *b = &job[r].n->parameter[i];
            if (memcmp(a->grad, b->grad, (size_t)a->count * sizeof *a->grad) != 0)
                fail_msg("%s, %lld ranks: gradient of %s differs", name, (long long)P, a->name);
        }
        qkv_net_free(job[r].n);
    }
}

// Returns whether the kernels are too slow for every case.
static bool few(void)
{
    return QKV_FEW || strcmp(qkv_isa(), "scalar") == 0;
}

// Compares in blocks and with collected keys; slow kernels do one of both, in turn.
static void check_ranks(const char *name, qkv_net *(*open)(const void *), const void *how,
                        const int64_t *sizes)
{
    static int turn = 0;
    const bool both = !few(), blocks = turn++ % 2 == 0;
    struct job one = { .n = open(how) };
    const struct qkv_net_batch batch = make_batch(qkv_net_shape(one.n)->vocab);
    const struct qkv_comm alone = { .size = 1 };
    one.batch = &batch;
    qkv_net_zero_gradients(one.n);
    body(&alone, &one);
    if (one.status) fail_msg("%s: %s", name, qkv_status_name(one.status));
    CHECK(one.loss.rows > 0 && one.n->grad[0] != 0);
    if (both || blocks) compare(name, &one, open, how, *sizes, 1);
    for (; (both || !blocks) && *sizes; sizes++) compare(name, &one, open, how, *sizes, 0);
    qkv_net_free(one.n);
}

// ---- families ----------------------------------------------------------------------------------
static qkv_net *open_folder(const void *how)
{
    const char *name = how;
    const struct qkv_net_options o = { .row_blocks = true, .dropout = (real).1 };
    qkv_error err = { 0 };
    qkv_net *n = NULL;
    if (qkv_net_open(&n, tiny_path(name, ""), &o, 0, 1, &err))
        fail_msg("%s: %s %s", name, err.path, err.text);
    if (n->is.position != QKV_POSITION_LEARNED) n->shape.positions = ROWS;
    return n;
}

TEST(ranks_have_the_gradients_of_one_process_for_every_family)
{
    static const int64_t two[] = { 2, 0 }, three[] = { 3, 0 };
    int families = 0;
    EACH_TINY(name)
    {
        qkv_net *n = NULL;
        if (access(tiny_path(*name, "config.json"), R_OK) != 0 || strstr(*name, "labels")) continue;
        if (qkv_net_open(&n, tiny_path(*name, ""), NULL, 0, 1, NULL)) continue;
        const bool runs = n->kind == QKV_NET_DECODER && n->is.position != QKV_POSITION_LEARNED;
        qkv_net_free(n);
        if (runs) check_ranks(*name, open_folder, *name, families++ % 2 ? three : two);
        if (few() && families == 2) break;
    }
    CHECK(families >= 2);
}

// ---- options -----------------------------------------------------------------------------------
struct made {
    const char *arch;
    struct qkv_net_options o;
};
static qkv_net *make(const void *how)
{
    const struct made *m = how;
    struct qkv_net_shape s;
    qkv_error err = { 0 };
    qkv_net *n = NULL;
    CHECK(qkv_net_shape_default(&s, m->arch));
    s.layers = 3;
    s.heads = 4;
    s.kv_heads = strcmp(m->arch, "llama") ? 0 : 2;
    s.width = 32;
    s.vocab = 130;
    s.positions = ROWS;
    if (qkv_net_new(&n, &s, &m->o, 5, &err)) fail_msg("%s: %s", m->arch, err.text);
    return n;
}

TEST(ranks_have_the_gradients_of_one_process_for_every_option)
{
    static const int64_t all[] = { 2, 4, 7, 0 }, three[] = { 3, 0 };
    static const struct made made[] = {
        { "gpt", { .row_blocks = true, .dropout = (real).2 } }, // learned positions, tied output
        { "llama", { .row_blocks = true, .recompute = true, .smoothing = (real).1 } },
        { "llama", { .row_blocks = true, .precision = QKV_PRECISION_BF16, .dropout = (real).2 } },
        { "gpt", { .row_blocks = true, .precision = QKV_PRECISION_F16 } },
    };
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (qkv_precision_runs(made[i].o.precision))
            check_ranks(made[i].arch, make, &made[i], i || few() ? three : all);
}

static struct qkv_loss whole; // of ranks without an error

static void check_broken(int64_t rank, void *const *user)
{
    for (int64_t r = 0; r < 2; r++) {
        const struct job *j = user[r];
        CHECK(j->status || r != rank);
        if (!j->status) same_loss("gpt", 2, &j->valid, &whole);
    }
}

// The transport returns an error on one rank alone, at any of its messages.
TEST(no_rank_waits_for_a_broken_one)
{
    const struct made made = { "gpt", { .row_blocks = true } };
    const struct qkv_net_batch batch = make_batch(130);
    const size_t limits[] = { 0, 1 };
    EACH(limit, limits)
    {
        struct job job[2];
        void *user[2];
        for (int r = 0; r < 2; r++) {
            job[r] = (struct job){ .n = make(&made), .batch = &batch, .limit = *limit };
            user[r] = &job[r];
        }
        run_ranks(2, body, user, NULL);
        EACH(j, job) CHECK_EQ(j->status, QKV_OK);
        whole = job[0].valid;
        break_each(2, few() ? 499 : 23, body, user, check_broken);
        EACH(j, job) qkv_net_free(j->n);
    }
}

TEST(models_that_ranks_cannot_share_are_refused)
{
    static const char *const folders[] = { "bert", "t5", "gru-attention" };
    const struct qkv_comm two = { .size = 2 };
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        qkv_net *n = NULL;
        qkv_error err = { 0 };
        CHECK_EQ(qkv_net_open(&n, tiny_path(folders[i], ""), NULL, QKV_NET_TOKENS, 1, &err), 0);
        CHECK_EQ(qkv_net_share(n, &two, &err), QKV_ERR_UNSUPPORTED);
        CHECK(strstr(err.text, "decoders") != NULL);
        CHECK(n->comm == NULL);
        qkv_net_free(n);
    }
}

CHECK_MAIN(CASE(ranks_have_the_gradients_of_one_process_for_every_family),
           CASE(ranks_have_the_gradients_of_one_process_for_every_option),
           CASE(no_rank_waits_for_a_broken_one), CASE(models_that_ranks_cannot_share_are_refused))
