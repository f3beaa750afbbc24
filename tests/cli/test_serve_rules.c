// SPDX-License-Identifier: MIT
// test_serve_rules.c: the order of jobs and the limits of `qkv serve` on scripted arrivals, steps,
// bytes and times: no server, no model, no clock.
#include "check.h"
#include "serve/fair_queue.h"
#include "serve/limits.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { JOBS = 64 };
static const unsigned ALL = ~0u; // every kind of job

// A job of some parts, of `part` tokens each.
struct script {
    struct serve_job job;
    int parts;
    double part;
    int64_t began,
        ended; // the turn in which its first part began, its last part ended; -1: not yet
};
static struct fair_queue queue;
static int64_t turn; // parts that were computed

static void reset(void)
{
    queue = (struct fair_queue){ 0 };
    turn = 0;
}

static void arrive(struct script *s, int parts, double part, double finish)
{
    *s = (struct script){ .parts = parts, .part = part, .began = -1, .ended = -1 };
    fair_add(&queue, &s->job, finish);
}

// Computes the next part of the job that is next; returns it, NULL if none waits.
static struct script *next_part(void)
{
    struct script *s = (struct script *)fair_take(&queue, ALL, (double)INFINITY);
    if (!s) return NULL;
    fair_begin(&queue, &s->job);
    if (s->began < 0) s->began = turn;
    fair_use(&queue, &s->job, s->part);
    s->ended = ++turn;
    if (--s->parts)
        fair_return(&queue, &s->job);
    else
        fair_done(&queue);
    return s;
}

TEST(a_job_starts_now_whatever_others_have_used)
{
    struct script large, small;
    reset();
    arrive(&large, 3, 10000, 0);
    CHECK(next_part() == &large);
    arrive(&small, 1, 10, 0); // its client was idle: one part of the other, and no debt
    CHECK(next_part() == &large && next_part() == &small);
    const double finish = small.job.tag;
    CHECK(next_part() == &large && !next_part());
    arrive(&large, 1, 10, large.job.tag);
    arrive(&small, 1, 10, finish); // its client was idle again: no credit
    CHECK(small.job.tag > finish && small.job.tag == queue.now);
    CHECK_EQ(queue.jobs, 2);
}

TEST(a_new_job_waits_for_one_part_of_each_that_came_before)
{
    struct script before[JOBS], new;
    for (int n = 1; n <= JOBS; n *= 2) {
        reset();
        // jobs that have waited for long have small tags, while the virtual time has grown
        for (int i = 0; i < n; i++) arrive(&before[i], 1000, 1 + i % 7 * 100, 0);
        queue.now += 50000;
        arrive(&new, 1, 10, 0);
        while (new.began < 0 && next_part()) continue;
        CHECK_EQ(new.began, n);
    }
}

TEST(new_connections_without_end_do_not_keep_a_served_one_waiting)
{
    enum { FLOOD = 16, COST = 10 };
    struct script old, flood[FLOOD];
    reset();
    for (int i = 0; i < FLOOD; i++) arrive(&flood[i], 1, COST, 0);
    arrive(&old, 1, COST, 2000); // it has used 2,000 tokens more than the others
    while (old.began < 0) {
        struct script *s = next_part();
        CHECK(s != NULL);
        if (s != &old) arrive(s, 1, COST, 0); // on another connection
        // every other job gets as much until then, and one job of each may be before it
        CHECK(turn <= 2000 / COST * (FLOOD + 1) + FLOOD + 1);
    }
    CHECK(old.began > 2000 / COST);
}

TEST(jobs_of_other_kinds_are_left_in_the_queue)
{
    struct script a, b, c;
    struct serve_call call;
    memset(&call, 0, sizeof call);
    reset();
    arrive(&a, 1, 1, 5);
    arrive(&b, 1, 1, 3);
    arrive(&c, 1, 1, 4);
    a.job.kind = JOB_EMBED;
    c.job.call = &call;
    CHECK(!fair_take(&queue, 1u << JOB_EMBED, 4.5) && !fair_take(&queue, 1u << JOB_GENERATE, 9));
    CHECK(fair_take(&queue, 1u << JOB_EMBED, 5) == &a.job);
    CHECK(fair_remove(&queue, &call) == &c.job && !fair_remove(&queue, &call));
    CHECK(next_part() == &b && !next_part());
}

TEST(a_queue_keeps_its_order_when_jobs_leave_it_anywhere)
{
    struct script a, b, c, d;
    struct serve_call call[4];
    struct script *const all[] = { &a, &b, &c, &d };
    memset(call, 0, sizeof call);
    for (int gone = 0; gone < 4; gone++) { // the first, one between others, the last
        reset();
        for (int i = 0; i < 4; i++) {
            arrive(all[i], 1, 1, 0);
            all[i]->job.call = &call[i];
        }
        CHECK(fair_remove(&queue, &call[gone]) == &all[gone]->job);
        fair_return(&queue, &all[gone]->job); // equal tags: now the last
        for (int i = 0; i < 4; i++)
            if (i != gone) CHECK(fair_take(&queue, ALL, 9) == &all[i]->job);
        CHECK(fair_take(&queue, ALL, 9) == &all[gone]->job && !fair_take(&queue, ALL, 9));
        fair_return(&queue, &b.job); // a queue that was empty
        CHECK(fair_remove(&queue, &call[1]) == &b.job && !queue.first);
    }
}

// Jobs by a plain rule: of the smallest tags the one that was added first.
TEST(random_arrivals_leave_in_the_order_of_their_tags)
{
    struct script jobs[JOBS];
    struct script *waits[JOBS];
    unsigned seed = 1;
    for (int round = 0; round < 200; round++) {
        int n = 0, free = 0;
        reset();
        for (int step = 0; step < 300; step++) {
            seed = seed * 1664525 + 1013904223;
            const unsigned draw = seed >> 16;
            if (n < JOBS / 2 && draw % 3) {
                struct script *s = &jobs[free++ % JOBS];
                bool used = false;
                for (int i = 0; i < n; i++) used = used || waits[i] == s;
                if (used) continue;
                arrive(s, 1, 1, draw / 3 % 4); // few tags: many are equal
                waits[n++] = s;
            } else if (n) {
                int best = 0;
                for (int i = 1; i < n; i++)
                    if (waits[i]->job.tag < waits[best]->job.tag) best = i;
                struct script *const s = waits[best];
                memmove(&waits[best], &waits[best + 1], (size_t)(n - best - 1) * sizeof *waits);
                n--;
                CHECK(fair_take(&queue, ALL, (double)INFINITY) == &s->job);
                if (draw % 5) continue;
                fair_return(&queue, &s->job);
                waits[n++] = s;
            }
        }
        while (n--) CHECK(fair_take(&queue, ALL, (double)INFINITY) != NULL);
        CHECK(!queue.first);
    }
}

// One step of a model that generates: other jobs get their share.  Returns their tokens.
static double generating_step(struct fair_share *share)
{
    double used = 0;
    fair_share_step(share, true);
    while (share->left > 0) {
        const struct script *s = next_part();
        if (!s) break;
        share->left -= s->part;
        used += s->part;
    }
    return used;
}

TEST(while_outputs_are_generated_other_jobs_get_a_share_of_each_step)
{
    struct fair_share share = { 0 };
    struct script large, small;
    double used = 0;
    reset();
    fair_share_step(&share, false);
    CHECK(isinf(share.left));
    arrive(&large, 1000, 200, 0);
    for (int i = 0; i < 100; i++) used += generating_step(&share);
    // the last part may exceed the share of its step
    CHECK(used >= 100 * FAIR_STEP - 200 && used < 100 * FAIR_STEP + 200);
    arrive(&small, 1, 10, 0);
    int steps = 0;
    while (small.ended < 0 && steps++ < 1000) generating_step(&share);
    CHECK(steps <= 1 + 2 * 200 / FAIR_STEP + 1); // after what large has used, and one more part
}

TEST(a_request_waits_a_bounded_number_of_steps_for_a_generation)
{
    enum { BEFORE = 5, MOST = FAIR_DEBT / FAIR_STEP };
    struct fair_share share = { 0 };
    struct script before[BEFORE], small;
    reset();
    // parts that are larger than all steps of the generation together
    for (int i = 0; i < BEFORE; i++) arrive(&before[i], 1000, 1e6, 0);
    for (int i = 0; i < 1000; i++) generating_step(&share);
    arrive(&small, 1, 1, 0);
    int steps = 0;
    while (small.ended < 0 && steps++ < 1000) generating_step(&share);
    CHECK(small.ended >= 0 && steps <= (BEFORE + 1) * (MOST + 1));
    // without other requests it joins at the next step, however long there was none
    reset();
    for (int i = 0; i < 1000; i++) generating_step(&share);
    CHECK(share.left <= FAIR_STEP);
    arrive(&small, 1, 1, 0);
    generating_step(&share);
    CHECK(small.ended >= 0);
}

// Reads `rate` bytes per millisecond of an endless answer until the connection ends, at most some
// windows.  Returns the number of windows.
static int windows_read(double rate, int most)
{
    int n = 0;
    size_t read = 0;
    for (int64_t ms = 1; n < most; ms++) { // the deadline is looked at every millisecond
        read = (size_t)(rate * (double)ms);
        if (reads_fast_enough(read, ms) && ms < LIMIT_READ_MS) continue;
        if (!reads_fast_enough(read, ms)) return n;
        n++;
        ms = 0;
    }
    return n;
}

TEST(a_client_reads_512_KiB_in_30_seconds)
{
    CHECK_EQ(LIMIT_READ_BYTES, 524288);
    CHECK_EQ(LIMIT_READ_MS, 30000);
    const double least = (double)LIMIT_READ_BYTES / LIMIT_READ_MS;
    CHECK_EQ(windows_read(least * 1.001, 50), 50);
    CHECK_EQ(windows_read(least * .999, 50), 0);
    CHECK_EQ(windows_read(0, 50), 0);
    CHECK(reads_fast_enough(0, LIMIT_READ_MS - 1) && !reads_fast_enough(0, LIMIT_READ_MS));
    CHECK(reads_fast_enough(LIMIT_READ_BYTES, INT64_MAX) &&
          !reads_fast_enough(LIMIT_READ_BYTES - 1, LIMIT_READ_MS));
}

static struct kept_bytes kept[JOBS];

static void *grown(int64_t n, int64_t at)
{
    return kept_too_much(kept, n, at);
}

TEST(the_largest_answer_ends_if_answers_keep_too_much)
{
    static const char *const peers[] = { "a", "b", "c", "d", "e" };
    enum { MIB = 1 << 20, EACH_OF = 8 };
    for (int i = 0; i < 5 * EACH_OF; i++)
        kept[i] = (struct kept_bytes){ peers[i / EACH_OF], MIB, &kept[i] };
    CHECK(!grown(40, 0));
    // one answer
    kept[3].bytes = LIMIT_KEPT;
    CHECK(!grown(40, 3));
    kept[3].bytes++;
    CHECK(grown(40, 3) == &kept[3]);
    // one address: not the job that has grown, but the largest of the address
    kept[3].bytes = MIB;
    for (int i = 0; i < EACH_OF; i++) kept[i].bytes = LIMIT_KEPT_OF_ONE / EACH_OF;
    CHECK(!grown(40, 2));
    kept[5].bytes += 2 * MIB;
    CHECK(grown(40, 2) == &kept[5]);
    CHECK(!grown(40, 20)); // another address, whose jobs keep little
    // all: the largest of the address that keeps the most, also if another job is larger
    for (int i = 0; i < 5 * EACH_OF; i++) kept[i].bytes = LIMIT_KEPT_OF_ALL / (5 * EACH_OF);
    CHECK(!grown(40, 30));
    kept[9].bytes += MIB;                                   // of b
    for (int i = 16; i < 24; i++) kept[i].bytes += MIB / 2; // of c
    kept[17].bytes++;
    CHECK(grown(40, 30) == &kept[17]);
    CHECK(grown(40, 9) == &kept[17]);
}

CHECK_MAIN(CASE(a_job_starts_now_whatever_others_have_used),
           CASE(a_new_job_waits_for_one_part_of_each_that_came_before),
           CASE(new_connections_without_end_do_not_keep_a_served_one_waiting),
           CASE(jobs_of_other_kinds_are_left_in_the_queue),
           CASE(a_queue_keeps_its_order_when_jobs_leave_it_anywhere),
           CASE(random_arrivals_leave_in_the_order_of_their_tags),
           CASE(while_outputs_are_generated_other_jobs_get_a_share_of_each_step),
           CASE(a_request_waits_a_bounded_number_of_steps_for_a_generation),
           CASE(a_client_reads_512_KiB_in_30_seconds),
           CASE(the_largest_answer_ends_if_answers_keep_too_much))
