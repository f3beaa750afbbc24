// SPDX-License-Identifier: MIT
// test_cpu_amx.c: checks that tiles are used only if the system permits them.  Every case is a
// process of its own: the CPU is examined once per process.
#include "check.h"
#include "base/base_internal.h"
#if defined(__x86_64__) && defined(__linux__)
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TILES = QKV_CPU_AMX_BF16 | QKV_CPU_AMX_INT8 };

// Makes the system call that requests tiles fail with `code` from now on; all others continue.
static bool deny(int code)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x1023, 0, 1), // ARCH_REQ_XCOMP_PERM
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)code),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = { sizeof steps / sizeof *steps, steps };
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// The result of a child process: is a case right, or not possible here?
enum { RIGHT = 0, WRONG = 1, NOT_HERE = 77 };
#define IN_CHILD(function, argument)                                                               \
    do {                                                                                           \
        const pid_t child_ = fork();                                                               \
        CHECK(child_ >= 0);                                                                        \
        if (child_ == 0) _exit(function(argument));                                                \
        int status_;                                                                               \
        CHECK_EQ(waitpid(child_, &status_, 0), child_);                                            \
        CHECK(WIFEXITED(status_));                                                                 \
        if (WEXITSTATUS(status_) == NOT_HERE) skip();                                              \
        CHECK_EQ(WEXITSTATUS(status_), RIGHT);                                                     \
    } while (0)

static int denied(int code)
{
    char want[128];
    if (!deny(code)) return NOT_HERE;
    qkv_cpu_pretend(TILES, 0);
    snprintf(want, sizeof want, "present, but the operating system refuses it (%s)",
             strerror(code));
    errno = 42;
    const bool right = !(qkv_cpu_features() & TILES) && !strcmp(qkv_cpu_amx(), want);
    return right && errno == 42 ? RIGHT : WRONG;
}

static int granted(int bits)
{
    qkv_cpu_pretend((unsigned)bits, (unsigned)bits);
    const bool right = (qkv_cpu_features() & TILES & (unsigned)bits) == (unsigned)bits &&
                       !strcmp(qkv_cpu_amx(), "present");
    return right ? RIGHT : WRONG;
}

// This machine: the bits and the name agree.
static int plain(int unused)
{
    (void)unused;
    const bool use = qkv_cpu_features() & TILES, present = !strcmp(qkv_cpu_amx(), "present");
    return use == present && (use || strstr(qkv_cpu_amx(), "present")) ? RIGHT : WRONG;
}

// On a machine without tiles whose CPU pretends to have them, the kernel refuses.
static int unknown(int unused)
{
    (void)unused;
    qkv_cpu_pretend(TILES, 0);
    if (qkv_cpu_features() & TILES) return NOT_HERE; // it has them
    return strstr(qkv_cpu_amx(), "the operating system refuses it (") ? RIGHT : WRONG;
}

TEST(tiles_that_the_system_refuses_are_no_feature_and_the_reason_is_reported)
{
    IN_CHILD(denied, EPERM);
    IN_CHILD(denied, EINVAL);
}

TEST(tiles_that_a_test_grants_are_features)
{
    IN_CHILD(granted, TILES);
    IN_CHILD(granted, QKV_CPU_AMX_INT8);
}

TEST(bits_and_words_agree_on_this_machine)
{
    IN_CHILD(plain, 0);
}

TEST(a_kernel_that_does_not_know_tiles_refuses_them)
{
    IN_CHILD(unknown, 0);
}

CHECK_MAIN(CASE(tiles_that_the_system_refuses_are_no_feature_and_the_reason_is_reported),
           CASE(tiles_that_a_test_grants_are_features), CASE(bits_and_words_agree_on_this_machine),
           CASE(a_kernel_that_does_not_know_tiles_refuses_them))
#else
int main(void)
{
    puts("skipped: AMX is of x86-64, and the question that is tested is Linux's");
    return 77;
}
#endif
