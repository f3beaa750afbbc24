// SPDX-License-Identifier: MIT
// signals.c: handles signals (Ctrl-C, a mapped file that was truncated, a limit on the size of
// files), and standard descriptors that are closed.
#include "frame/signals.h"
#include "frame/cmd.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEMPS = 16 };
static char *volatile temps[TEMPS];
static volatile sig_atomic_t temp_count, graceful, interrupts;

void cmd_temps_add(const char *temp)
{
    if (temp_count >= TEMPS) return; // the list is full, which no command reaches
    char *copy = strdup(temp);
    if (!copy) return; // without memory for the name, a signal cannot remove this file
    temps[temp_count] = copy;
    temp_count = temp_count + 1;
}

void cmd_temps_remove(void)
{
    qkv_temporaries_remove();
    for (int i = 0; i < temp_count; i++) unlink(temps[i]);
}

bool cmd_interrupted(void)
{
    return interrupts != 0;
}

static void write_stderr(const char *text)
{
    for (size_t n = strlen(text); n;) {
        const ssize_t w = write(2, text, n);
        if (w <= 0) return;
        text += w;
        n -= (size_t)w;
    }
}

void (*cmd_interrupt_hook)(void);

static void on_interrupt(int number)
{
    (void)number;
    interrupts = interrupts + 1;
    if (graceful && interrupts < 2) return;
    if (cmd_interrupt_hook) cmd_interrupt_hook();
    cmd_temps_remove();
    write_stderr(common.json
                     ? "{\"status\":\"interrupted\",\"code\":130,\"text\":\"interrupted\"}\n"
                     : "qkv: interrupted\n");
    _exit(QKV_ERR_INTERRUPTED);
}

// Handles the signals of end_signals and, in a child process, SIGINT and CMD_PARENT_ENDED: removes
// temporary files, then lets the signal end the process.
static void on_end(int number)
{
    cmd_temps_remove();
    signal(number, SIG_DFL);
    raise(number);
}

// Prints a name with a question mark in place of each control character: qkv_escape() is not
// async-signal-safe.
static void write_name(const char *name)
{
    while (*name) {
        const size_t left = strnlen(name, 4), whole = qkv_utf8_bytes(name, left);
        const size_t control = cmd_control_bytes(name, left), n = whole ? whole : 1;
        char one[5] = "?";
        if (!control) memcpy(one, name, n);
        write_stderr(one);
        name += control ? control : n;
    }
}

// Handles SIGBUS: a page of a mapped file does not exist anymore, because the file was truncated.
// Only async-signal-safe calls are allowed here. With --json, a path with quotes
// or backslashes is not printed, because it would have to be escaped.
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    const char *file = qkv_mapped_file(info->si_addr);
    // the address is not in a file that the command has mapped: let the signal end the process
    if (!file) {
        cmd_temps_remove();
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    static atomic_flag told = ATOMIC_FLAG_INIT;
    while (atomic_flag_test_and_set(&told)) pause(); // another thread is already printing the error
    cmd_temps_remove();
    if (common.json) {
        bool plain = true;
        for (const char *p = file; *p; p++)
            plain = plain && *p >= 0x20 && *p != '"' && *p != '\\' && *p != 0x7f;
        write_stderr("{\"status\":\"io\",\"code\":6");
        if (plain) {
            write_stderr(",\"file\":\"");
            write_stderr(file);
            write_stderr("\"");
        }
        write_stderr(",\"text\":\"the file was truncated while it was read\"}\n");
    } else {
        write_stderr("qkv: ");
        write_name(file);
        write_stderr(": the file was truncated while it was read\n");
    }
    _exit(QKV_ERR_IO);
}

void cmd_signals_graceful(bool on)
{
    graceful = on;
}

void cmd_signals_child(void)
{
    struct sigaction a = { .sa_handler = on_end }, old;
    sigset_t ended;
    temp_count = 0; // the temporary files of the parent stay
    sigemptyset(&a.sa_mask);
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &a, NULL);
    sigaction(CMD_PARENT_ENDED, &a, NULL);
    sigemptyset(&ended);
    sigaddset(&ended, CMD_PARENT_ENDED);
    sigprocmask(SIG_UNBLOCK, &ended, NULL);
}

// Ctrl-\, a limit of CPU time, timers, and the signals that batch systems send before a limit of
// time end a process too.
static const int end_signals[] = { SIGTERM, SIGHUP,  SIGQUIT,   SIGXCPU, SIGALRM,
                                   SIGUSR1, SIGUSR2, SIGVTALRM, SIGPROF, SIGIO };

void cmd_signals_init(void)
{
    // If descriptor 0, 1 or 2 is closed, open it. Otherwise the next file that the command opens
    // would get this number, and output for stdout would be written to it. Reading or writing such
    // a descriptor is an error.
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) < 0)
            _exit(QKV_ERR_IO);
    struct sigaction a = { .sa_handler = on_interrupt };
    sigemptyset(&a.sa_mask);
    struct sigaction old;
    if (sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(SIGINT, &a, NULL);
    a.sa_handler = on_end;
    for (size_t i = 0; i < sizeof end_signals / sizeof *end_signals; i++)
        if (sigaction(end_signals[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
            sigaction(end_signals[i], &a, NULL);
    a.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &a, NULL);
    sigaction(SIGXFSZ, &a, NULL); // a file above the limit of the shell is then the error EFBIG
    struct sigaction b = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
    sigemptyset(&b.sa_mask);
    sigaction(SIGBUS, &b, NULL);
}
