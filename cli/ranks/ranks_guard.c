// SPDX-License-Identifier: MIT
// ranks_guard.c: tells the other ranks of the host if a rank that mpiexec of MPICH started is
// killed.
//
// mpiexec notices that a rank has ended when the descriptors of the rank are closed, and then ends
// the others by SIGKILL, so that they can neither print nor end with an exit code. A guard, which
// is a process in a session of its own, has the same descriptors. If its rank is killed, it sends
// FOLLOW_SIGNAL to the other ranks of the host, waits until they have ended with the code of an
// error of input and output, and prints which rank was killed. Then it closes the descriptors, and
// mpiexec ends what is left: ranks of other hosts, which have no guard that tells them.
#include "ranks/ranks_guard.h"
#include "frame/cmd.h"
#include "frame/signals.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// FOLLOW_SIGNAL: mpiexec -disable-auto-cleanup sends it, too. PEERS: ranks of a host that a guard
// signals. SECONDS: how long a guard waits for ranks that end. MOMENT, in ms: until scripts in
// which ranks run have ended, too; LATER: until the line is printed; UNTIL_TOLD: until a guard has
// sent the signal.
enum {
    FOLLOW_SIGNAL = SIGUSR1,
    PEERS = 1024,
    SECONDS = 10,
    MOMENT = 1000,
    LATER = 500,
    UNTIL_TOLD = 2000
};

// What a rank tells its guard. ENDS: it ends by itself. FOLLOWS: it ends since another was
// killed.
enum kind { PEER, ENDS, FOLLOWS };
struct note {
    int64_t kind, rank, own, pid, start;
};
static int to_guard = -1;

// ---- processes ----------------------------------------------------------------------------------
bool ranks_process(int64_t pid, struct process *p)
{
    // fields of /proc/PID/stat, counted from 1, and a flag of a process that the system ends
    enum { STATE = 3, FLAGS = 9, START = 22, CODE = 52, EXITING = 4 };
    char path[48] = "/proc/", text[1024], digits[24], *d = digits + sizeof digits;
    *--d = 0;
    do {
        *--d = (char)('0' + pid % 10);
        pid /= 10;
    } while (pid > 0);
    memcpy(path + 6, d, strlen(d));
    memcpy(path + 6 + strlen(d), "/stat", 6);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    if (n <= 0) return false;
    text[n] = 0;
    const char *at = strrchr(text, ')'); // the name of the program may contain anything
    if (!at || at[1] != ' ' || !at[2]) return false;
    at += 2;
    *p = (struct process){ .state = *at };
    for (int field = STATE; *at; field++) {
        uint64_t x = 0;
        for (; *at && *at != ' ' && *at != '\n'; at++) x = x * 10 + (uint64_t)(*at - '0');
        if (field == FLAGS) p->ends = (x & EXITING) != 0;
        if (field == START) p->start = (int64_t)x;
        if (field == CODE) p->code = (int)x;
        while (*at == ' ' || *at == '\n') at++;
    }
    p->ends = p->ends || p->state == 'Z' || p->state == 'X';
    return true;
}

static void sleep_ms(long ms)
{
    const struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    nanosleep(&t, NULL);
}

// ---- the guard --------------------------------------------------------------------------------
// Ranks of the host. code: how it has ended; -1: it runs, or that is not known. told: the guard has
// told it while it ran.
static struct peer {
    int64_t rank, pid, start;
    int code;
    bool ended, told;
} peers[PEERS];
static int peer_count;

static void add_peer(int64_t rank, int64_t pid, int64_t start)
{
    if (peer_count < PEERS)
        peers[peer_count++] = (struct peer){ .rank = rank, .pid = pid, .start = start, .code = -1 };
}

static bool by_signal(const struct peer *x)
{
    return x->code > 0 && (x->code & 0x7f);
}

// Observes which ranks have ended, and how: a parent that asks for the exit code of a rank, such as
// mpiexec when the guard of the rank has ended, removes it. Returns how many run.
static int observe(void)
{
    struct process p;
    int running = 0;
    for (int i = 0; i < peer_count; i++) {
        struct peer *x = &peers[i];
        if (x->ended) continue;
        const bool there = ranks_process(x->pid, &p) && p.start == x->start;
        x->ended = !there || p.state == 'Z' || p.state == 'X';
        if (there && p.state == 'Z') x->code = p.code;
        running += !x->ended;
    }
    return running;
}

// Waits, at most SECONDS, until all ranks of the host have ended, then a moment.
static void wait_for_peers(void)
{
    const double end = cmd_seconds() + SECONDS;
    while (observe() && cmd_seconds() < end) sleep_ms(5);
    sleep_ms(MOMENT);
}

// Tells the other ranks that this one was killed, and prints its number if any of them has ended
// because it was told. Of ranks that are killed at once, the guard of the first prints; if all
// are, none does.
static void tell_peers(int64_t own)
{
    char line[160];
    bool follows = false;
    struct process p;
    for (int i = 0; i < peer_count; i++) {
        struct peer *x = &peers[i];
        if (x->rank == own || !ranks_process(x->pid, &p) || p.start != x->start || p.ends) continue;
        x->told = kill((pid_t)x->pid, FOLLOW_SIGNAL) == 0;
    }
    wait_for_peers();
    for (int i = 0; i < peer_count; i++) {
        const struct peer *x = &peers[i];
        if (x->rank < own && by_signal(x)) return;
        follows = follows || x->code == QKV_ERR_IO << 8 || (x->told && x->ended && !by_signal(x));
    }
    if (!follows) return;
    const int n = snprintf(line, sizeof line, "%srank %lld has ended before the others%s",
                           common.json ? "{\"status\":\"io\",\"code\":6,\"text\":\"" : "qkv: ",
                           (long long)own, common.json ? "\"}\n" : "\n");
    if (write(2, line, (size_t)n) < 0) return;
}

// Reads what the rank tells until it has ended.
static _Noreturn void guard(int from, pid_t rank)
{
    struct note note;
    bool ends = false, follows = false;
    int64_t own = 0;
    while (read(from, &note, sizeof note) == (ssize_t)sizeof note) {
        ends = ends || note.kind == ENDS;
        follows = follows || note.kind == FOLLOWS;
        if (note.kind != PEER) continue;
        own = note.own;
        add_peer(note.rank, note.pid, note.start);
    }
    if (ends || !peer_count) _exit(0);
    // its descriptors are closed before it has ended
    const double end = cmd_seconds() + SECONDS;
    struct process p;
    bool there;
    while ((there = ranks_process(rank, &p)) && p.state != 'Z' && p.state != 'X' &&
           cmd_seconds() < end)
        sleep_ms(1);
    if (follows) {
        wait_for_peers();
        sleep_ms(LATER);
    } else if (!there || (p.code & 0x7f)) { // not there: its parent, a script, has its code
        tell_peers(own);
    }
    _exit(0);
}

// ---- the rank -----------------------------------------------------------------------------------
static void tell(const struct note *note)
{
    // without its guard the rank is as without this file
    if (to_guard >= 0 && write(to_guard, note, sizeof *note) < 0) to_guard = -1;
}

static void on_follow(int number)
{
    (void)number;
    cmd_temps_remove();
    tell(&(struct note){ .kind = FOLLOWS });
    _exit(QKV_ERR_IO);
}

// Handles SIGABRT, by which UCX under MPICH ends a rank that reads the memory of a killed one. The
// guard of that one is about to send FOLLOW_SIGNAL, and prints only if it reached a rank: this one
// stays until then.
static void on_abort(int number)
{
    struct process p;
    bool ended = false;
    for (int i = 0; i < peer_count; i++)
        ended = ended || !ranks_process(peers[i].pid, &p) || p.ends;
    if (ended) {
        sleep_ms(UNTIL_TOLD);
        on_follow(number);
    }
    signal(number, SIG_DFL);
    raise(number);
}

void ranks_guard_end(void)
{
    tell(&(struct note){ .kind = ENDS });
}

void ranks_guard_peer(int64_t rank, int64_t own_rank, int64_t pid, int64_t start)
{
    tell(&(struct note){ .kind = PEER, .rank = rank, .own = own_rank, .pid = pid, .start = start });
    add_peer(rank, pid, start);
}

void ranks_guard(void)
{
    int ends[2];
    // variables that mpiexec of MPICH sets for each rank, of which srun sets the first alone
    if (!getenv("PMI_FD") || !getenv("MPI_LOCALRANKID") || getenv("OMPI_COMM_WORLD_SIZE")) return;
    if (pipe(ends) != 0) return;
    struct sigaction a = { .sa_handler = on_follow };
    sigemptyset(&a.sa_mask);
    const pid_t rank = getpid(), child = fork();
    if (child == 0) {
        close(ends[1]);
        close(0);
        setsid(); // mpiexec signals the process group of a rank
        static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, FOLLOW_SIGNAL };
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
        guard(ends[0], rank);
    }
    close(ends[0]);
    if (child < 0) {
        close(ends[1]);
        return;
    }
    to_guard = ends[1];
    fcntl(to_guard, F_SETFD, FD_CLOEXEC);
    sigaction(FOLLOW_SIGNAL, &a, NULL);
    a.sa_handler = on_abort;
    sigaction(SIGABRT, &a, NULL);
    // what UCX prints of a killed rank would let mpiexec end the others before their guards do
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    setenv("UCX_HANDLE_ERRORS", "none", 0);
    cmd_interrupt_hook = ranks_guard_end;
    atexit(ranks_guard_end);
}
