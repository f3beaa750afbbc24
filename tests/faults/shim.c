// SPDX-License-Identifier: MIT
// shim.c: lets one call of a whole command fail: the N-th allocation, the N-th start of a thread or
// the N-th system call on files.  It also sends a signal to the command, or truncates one of its
// inputs, at such a call or at the N-th call that changes the disk, and records these changes.  It
// is preloaded (LD_PRELOAD) by walk.py, endings.py and power.py; x86-64 Linux with glibc.
//
// Before main, the process becomes a server: for each request on descriptor REQUESTS it forks a
// child that runs the command, and answers on ANSWERS with the child's process id, and with its
// wait status, the calls it made and the blocks of memory it held (held.c) when it has ended.
//
// System calls are caught by a seccomp filter, which sends SIGSYS, so that the calls inside libc
// and other libraries are counted too; the handler counts, and makes the call itself or returns an
// error.
#define _GNU_SOURCE
#include "shim.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { REQUESTS = 198, ANSWERS = 199 };
enum kind { MEMORY, THREADS, FILES, CHANGES, KINDS };
enum action {
    FAIL,   // the call fails
    SIGNAL, // the process sends `number` to itself before the call
    CUT     // the file of the variable QKV_FAULTS_CUT is truncated before the call
};
enum standard_output { TO_FILE, TO_CLOSED_PIPE, TO_FULL_PIPE };

struct request {
    int32_t kind;
    // FAIL: every later call fails too (files: every later call of the same name); SIGNAL: the
    // signal is sent again before the next call
    int32_t for_ever;
    int64_t n; // 1, 2, ...; 0: no call
    int32_t action, number;
    int32_t record, standard_output;
    int64_t file_size; // limit on the size of files (RLIMIT_FSIZE); 0: none
};
struct answer {
    int32_t status;
    int32_t failed; // the number of the first system call that failed, or -1
    int64_t calls[KINDS];
    int64_t held; // blocks of memory that qkv has not freed
};

// Shared by the server and its child
struct shared {
    atomic_llong calls[KINDS];
    atomic_int failed;
    atomic_llong held;
};
static struct shared *shared;
static struct request now = { .kind = KINDS };

// Counts a call of the kind; returns true if the action of the request is due.
static bool fails(enum kind kind, int call)
{
    if (!shared) return false;
    const int64_t n = atomic_fetch_add(&shared->calls[kind], 1) + 1;
    if (now.kind != (int)kind || !now.n) return false;
    if (n == now.n) {
        atomic_store(&shared->failed, call);
        return true;
    }
    if (now.action != FAIL) return now.for_ever && n == now.n + 1;
    return now.for_ever && n > now.n && atomic_load(&shared->failed) == call;
}

// ---- memory and threads ------------------------------------------------------------------------
static void *refuse(void)
{
    errno = ENOMEM;
    return NULL;
}
// The code that called the allocator
#define CALLER __builtin_return_address(0)

void *malloc(size_t bytes)
{
    return fails(MEMORY, 0) ? refuse() : shim_hold(__libc_malloc(bytes), CALLER);
}
void *calloc(size_t n, size_t bytes)
{
    return fails(MEMORY, 0) ? refuse() : shim_hold(__libc_calloc(n, bytes), CALLER);
}
void *realloc(void *p, size_t bytes)
{
    if (fails(MEMORY, 0)) return refuse();
    // Before the block is freed, since another thread may be given its address at once.
    shim_release(p);
    void *q = __libc_realloc(p, bytes);
    if (!q && bytes) shim_hold(p, CALLER); // the block stays
    return shim_hold(q, CALLER);
}
void *aligned_alloc(size_t alignment, size_t bytes)
{
    return fails(MEMORY, 0) ? refuse() : shim_hold(__libc_memalign(alignment, bytes), CALLER);
}
void *memalign(size_t alignment, size_t bytes)
{
    return fails(MEMORY, 0) ? refuse() : shim_hold(__libc_memalign(alignment, bytes), CALLER);
}
int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    void *p = fails(MEMORY, 0) ? NULL : shim_hold(__libc_memalign(alignment, bytes), CALLER);
    if (!p) return ENOMEM;
    *out = p;
    return 0;
}
void free(void *p)
{
    shim_release(p);
    __libc_free(p);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *ctx),
                   void *ctx)
{
    static int (*next)(pthread_t * thread, const pthread_attr_t *attributes,
                       void *(*body)(void *ctx), void *ctx);
    if (fails(THREADS, 0)) return EAGAIN;
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
    return next(thread, attributes, body, ctx);
}

// A blocked SIGSYS would end the process.
static int set_mask(int how, const sigset_t *set, sigset_t *old)
{
    sigset_t most;
    if (set && how != SIG_UNBLOCK) {
        most = *set;
        sigdelset(&most, SIGSYS);
        set = &most;
    }
    return (int)syscall(SYS_rt_sigprocmask, how, set, old, 8) < 0 ? errno : 0;
}
int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
    return set_mask(how, set, old);
}
int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
    const int code = set_mask(how, set, old);
    if (code) errno = code;
    return code ? -1 : 0;
}

// ---- system calls ------------------------------------------------------------------------------
extern char shim_call_end[];
__asm__(".text\n"
        ".globl shim_call, shim_call_end\n"
        ".hidden shim_call, shim_call_end\n"
        ".type shim_call, @function\n"
        "shim_call:\n"
        "    mov %rdi, %rax\n"
        "    mov %rsi, %rdi\n"
        "    mov %rdx, %rsi\n"
        "    mov %rcx, %rdx\n"
        "    mov %r8, %r10\n"
        "    mov %r9, %r8\n"
        "    mov 8(%rsp), %r9\n"
        "    syscall\n"
        "shim_call_end:\n"
        "    ret\n"
        ".size shim_call, . - shim_call\n");

// The calls that are counted, and the error with which each fails; 0: it does not fail
static const struct {
    uint32_t number;
    int code;
} counted[] = {
    { SYS_open, EACCES },    { SYS_openat, EMFILE },    { SYS_creat, EACCES },
    { SYS_read, EIO },       { SYS_pread64, EIO },      { SYS_readv, EIO },
    { SYS_write, ENOSPC },   { SYS_pwrite64, ENOSPC },  { SYS_writev, ENOSPC },
    { SYS_fsync, EIO },      { SYS_fdatasync, EIO },    { SYS_ftruncate, EIO },
    { SYS_rename, EACCES },  { SYS_renameat, EACCES },  { SYS_renameat2, EACCES },
    { SYS_mmap, ENOMEM },    { SYS_lseek, EIO },        { SYS_stat, EACCES },
    { SYS_lstat, EACCES },   { SYS_fstat, EIO },        { SYS_newfstatat, EACCES },
    { SYS_statx, EACCES },   { SYS_getdents64, EIO },   { SYS_mkdir, EACCES },
    { SYS_mkdirat, EACCES }, { SYS_link, EACCES },      { SYS_linkat, EACCES },
    { SYS_symlink, EACCES }, { SYS_readlink, EACCES },  { SYS_copy_file_range, EIO },
    { SYS_sendfile, EIO },   { SYS_fallocate, ENOSPC }, { SYS_unlink, 0 },
    { SYS_unlinkat, 0 },     { SYS_rmdir, 0 },          { SYS_truncate, 0 },
    { SYS_symlinkat, 0 },
};
enum { COUNTED = sizeof counted / sizeof *counted };

// Performs the action of the request; *result becomes the result of a call that fails.  Returns
// false if the call must be made.
static bool act(int call, long *result)
{
    const char *cut = getenv("QKV_FAULTS_CUT");
    if (now.action == SIGNAL) shim_call(SYS_kill, getpid(), now.number, 0, 0, 0, 0);
    if (now.action == CUT && cut) shim_call(SYS_truncate, (long)cut, 0, 0, 0, 0, 0);
    *result = -EIO;
    for (int i = 0; i < COUNTED; i++)
        if (counted[i].number == (uint32_t)call) *result = -counted[i].code;
    return now.action == FAIL;
}

static void caught(int signal, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const int call = info->si_syscall;
    const long a[6] = { r[REG_RDI], r[REG_RSI], r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9] };
    const bool change = shim_changes(call, a);
    long result;
    (void)signal;
    bool due = false;
    for (int i = 0; i < COUNTED; i++)
        if (counted[i].number == (uint32_t)call && counted[i].code) due = fails(FILES, call);
    if (change && fails(CHANGES, call)) due = true;
    if (due && act(call, &result)) {
        r[REG_RAX] = result;
        return;
    }
    const long at = change && now.record ? shim_record_begin(call, a) : 0;
    r[REG_RAX] = shim_call(call, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (change && now.record) shim_record(call, a, at, r[REG_RAX]);
}

static bool catch_system_calls(void)
{
    const uint64_t passes = (uint64_t)(uintptr_t)shim_call_end;
    const struct sigaction act = { .sa_sigaction = caught,
                                   .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART };
    struct sock_filter code[16 + COUNTED];
    unsigned short n = 0;
    const struct sock_filter begin[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)passes, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(passes >> 32), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        // memory without a file belongs to malloc, stacks and so on
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++) code[n++] = begin[i];
    for (unsigned i = 0; i < COUNTED; i++)
        code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, counted[i].number,
                                                 (unsigned char)(COUNTED - i), 0);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP);
    const struct sock_fprog program = { n, code };
    return sigaction(SIGSYS, &act, NULL) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// ---- the server --------------------------------------------------------------------------------
static bool transfer(int fd, void *p, size_t bytes, bool out)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = out ? write(fd, (char *)p + done, bytes - done)
                              : read(fd, (char *)p + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 1) return false;
        done += (size_t)n;
    }
    return true;
}

// Replaces a descriptor of the child by the file that a variable names.
static bool redirect(int fd, const char *variable)
{
    const char *path = getenv(variable);
    const int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    return file >= 0 && dup2(file, fd) == fd && close(file) == 0;
}

// Replaces the standard output of the child by a pipe without a reader or, if `closed` is false,
// by a full pipe that does not block.
static bool redirect_to_pipe(bool closed)
{
    static const char block[1 << 12];
    int ends[2];
    if (pipe2(ends, closed ? 0 : O_NONBLOCK) != 0 || dup2(ends[1], 1) != 1) return false;
    close(ends[1]);
    if (closed) return close(ends[0]) == 0;
    while (write(1, block, sizeof block) > 0) continue;
    return fcntl(ends[0], F_DUPFD, ANSWERS) >= 0 && close(ends[0]) == 0;
}

// A library that never ends without memory is ended after QKV_FAULTS_SECONDS of processor time.
static bool limit_time(void)
{
    const char *seconds = getenv("QKV_FAULTS_SECONDS");
    struct rlimit limit;
    if (!seconds) return true;
    if (getrlimit(RLIMIT_CPU, &limit) != 0) return false;
    limit.rlim_cur = (rlim_t)atoi(seconds);
    return setrlimit(RLIMIT_CPU, &limit) == 0;
}

static void begin_child(const struct request *r)
{
    close(REQUESTS);
    close(ANSWERS);
    const struct rlimit limit = { (rlim_t)r->file_size, (rlim_t)r->file_size };
    if (!redirect(1, "QKV_FAULTS_OUT") || !redirect(2, "QKV_FAULTS_ERR") ||
        (r->record && !redirect(SHIM_RECORD, "QKV_FAULTS_RECORD")) ||
        (r->standard_output != TO_FILE &&
         !redirect_to_pipe(r->standard_output == TO_CLOSED_PIPE)) ||
        (r->file_size && setrlimit(RLIMIT_FSIZE, &limit) != 0) || !limit_time() ||
        !catch_system_calls())
        _exit(99);
    unsetenv("LD_PRELOAD");
    now = *r;
    for (int i = 0; i < KINDS; i++) atomic_store(&shared->calls[i], 0);
    shim_hold_begin(&shared->held, getenv("QKV_FAULTS_TRACE") != NULL);
}

__attribute__((constructor)) static void serve(void)
{
    struct request r;
    void *page;
    if (!getenv("QKV_FAULTS_OUT")) return;
    page = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) _exit(99);
    while (transfer(REQUESTS, &r, sizeof r, false)) {
        struct answer a = { 0 };
        struct shared *s = page;
        memset(page, 0, sizeof *s);
        atomic_store(&s->failed, -1);
        int32_t child = (int32_t)fork();
        if (child == 0) {
            shared = s;
            begin_child(&r);
            return;
        }
        if (child < 0 || !transfer(ANSWERS, &child, sizeof child, true)) _exit(99);
        while (waitpid(child, &a.status, 0) < 0 && errno == EINTR) continue;
        for (int i = 0; i < KINDS; i++) a.calls[i] = atomic_load(&s->calls[i]);
        a.failed = atomic_load(&s->failed);
        a.held = atomic_load(&s->held);
        if (!transfer(ANSWERS, &a, sizeof a, true)) _exit(99);
    }
    _exit(0);
}
