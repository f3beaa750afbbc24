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
//
// mpiexec also looks for ranks that have ended whenever one prints, and UCX prints if it reads the
// memory of a killed rank. So a guard copies what its rank prints, and once a rank has ended it
// holds that until its own rank has ended, too.
#include "ranks/ranks_guard.h"
#include "frame/cmd.h"
#include "frame/signals.h"
#include "ranks/ranks_streams.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// FOLLOW_SIGNAL: mpiexec -disable-auto-cleanup sends it, too. PEERS: ranks of a host that a guard
// signals. SECONDS: how long a guard waits for ranks that end, and holds an output. MOMENT, in ms:
// until scripts in which ranks run have ended, too; LATER: until the line is printed; UNTIL_TOLD:
// until a guard has sent the signal; HELD: between two looks at the time while an output is held.
enum {
    FOLLOW_SIGNAL = SIGUSR1,
    PEERS = 1024,
    SECONDS = 10,
    MOMENT = 1000,
    LATER = 500,
    UNTIL_TOLD = 2000,
    HELD = 50
};

// What a rank tells its guard. ENDS: it ends by itself. FOLLOWS: it ends since another was
// killed.
enum kind { PEER, ENDS, FOLLOWS };
struct note {
    int64_t kind, rank, own, pid, start;
};
static int to_guard = -1, from_guard = -1; // notes; a byte when an output that was told is written

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
    streams_drain(true);
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

// Returns whether a rank of the host has begun to end.
static bool peer_ends(void)
{
    struct process p;
    for (int i = 0; i < peer_count; i++)
        if (!ranks_process(peers[i].pid, &p) || p.ends) return true;
    return false;
}

// What a guard knows of its rank.
struct ward {
    int from, to; // its notes, and the answers to them
    int64_t own;  // its rank
    bool ends, follows;
};

// Reads a note. Returns false if the rank has ended.
static bool read_note(struct ward *w)
{
    struct note note;
    if (read(w->from, &note, sizeof note) != (ssize_t)sizeof note) return false;
    w->follows = w->follows || note.kind == FOLLOWS;
    if (note.kind == PEER) {
        w->own = note.own;
        add_peer(note.rank, note.pid, note.start);
    }
    if (note.kind == ENDS) {
        w->ends = true;
        streams_drain(false);
        if (write(w->to, "", 1) < 0) return true; // the rank does not wait for it any more
    }
    return true;
}

// Reads what the rank tells, and copies what it prints, until it has ended.
static void observe_rank(struct ward *w)
{
    struct pollfd asked[1 + STREAMS];
    double held = 0; // when an output that is held is written at the latest
    for (;;) {
        const bool holds = held > 0 && !w->ends && cmd_seconds() < held;
        asked[0] = (struct pollfd){ .fd = w->from, .events = POLLIN };
        streams_ask(asked + 1, holds);
        const int answered = poll(asked, 1 + STREAMS, holds ? HELD : -1);
        if (answered < 0 && errno != EINTR) return;
        if (answered <= 0) continue;
        if (asked[0].revents && !read_note(w)) return;
        if (streams_copy(asked + 1) && held <= 0 && peer_ends()) held = cmd_seconds() + SECONDS;
    }
}

static _Noreturn void guard(struct ward *w, pid_t rank)
{
    observe_rank(w);
    if (w->ends || !peer_count) {
        streams_drain(true);
        _exit(0);
    }
    // its descriptors are closed before it has ended
    const double end = cmd_seconds() + SECONDS;
    struct process p;
    bool there;
    while ((there = ranks_process(rank, &p)) && p.state != 'Z' && p.state != 'X' &&
           cmd_seconds() < end)
        sleep_ms(1);
    if (w->follows) {
        wait_for_peers();
        sleep_ms(LATER);
    } else if (!there || (p.code & 0x7f)) { // not there: its parent, a script, has its code
        tell_peers(w->own);
    }
    streams_drain(true);
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
    if (peer_ends()) {
        sleep_ms(UNTIL_TOLD);
        on_follow(number);
    }
    signal(number, SIG_DFL);
    raise(number);
}

void ranks_guard_end(void)
{
    const int from = from_guard;
    char answer;
    tell(&(struct note){ .kind = ENDS });
    if (from < 0) return;
    from_guard = -1; // a signal handler that calls this again does not wait
    while (read(from, &answer, 1) < 0 && errno == EINTR) continue;
    streams_end();
}

void ranks_guard_peer(int64_t rank, int64_t own_rank, int64_t pid, int64_t start)
{
    tell(&(struct note){ .kind = PEER, .rank = rank, .own = own_rank, .pid = pid, .start = start });
    add_peer(rank, pid, start);
}

void ranks_guard(void)
{
    int notes[2], answers[2];
    // variables that mpiexec of MPICH sets for each rank, of which srun sets the first alone
    if (!getenv("PMI_FD") || !getenv("MPI_LOCALRANKID") || getenv("OMPI_COMM_WORLD_SIZE")) return;
    if (pipe(notes) != 0) return;
    if (pipe(answers) != 0) {
        close(notes[0]);
        close(notes[1]);
        return;
    }
    streams_open();
    struct sigaction a = { .sa_handler = on_follow };
    sigemptyset(&a.sa_mask);
    const pid_t rank = getpid(), child = fork();
    if (child == 0) {
        close(notes[1]);
        close(answers[0]);
        close(0);
        streams_keep();
        setsid(); // mpiexec signals the process group of a rank
        static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, FOLLOW_SIGNAL };
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) signal(ignored[i], SIG_IGN);
        guard(&(struct ward){ .from = notes[0], .to = answers[1] }, rank);
    }
    close(notes[0]);
    close(answers[1]);
    streams_begin();
    if (child < 0) {
        close(notes[1]);
        close(answers[0]);
        streams_end();
        return;
    }
    to_guard = notes[1];
    from_guard = answers[0];
    fcntl(to_guard, F_SETFD, FD_CLOEXEC);
    fcntl(from_guard, F_SETFD, FD_CLOEXEC);
    sigaction(FOLLOW_SIGNAL, &a, NULL);
    a.sa_handler = on_abort;
    sigaction(SIGABRT, &a, NULL);
    // what UCX prints of a killed rank would let mpiexec end the others before their guards do
    setenv("UCX_LOG_LEVEL", "fatal", 0);
    setenv("UCX_HANDLE_ERRORS", "none", 0);
    cmd_interrupt_hook = ranks_guard_end;
    atexit(ranks_guard_end);
}
