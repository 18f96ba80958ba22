/* sandbox.c: see sandbox.h. */
#include "decode/sandbox.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define PROCESSOR AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define PROCESSOR AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define PROCESSOR AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define PROCESSOR AUDIT_ARCH_PPC64LE
#endif

#ifdef SANDBOX_OF_CALLS
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
/* If the loaded value is this one, allows the call. */
#define ALLOW_IF(value)                                                                                      \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* If the loaded value is this one, the call fails. */
#define FAIL_IF(value, error)                                                                                \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (error))
#define KILL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)

/* Only the lower half of an argument is loaded: descriptors and protections are ints. */
static bool sandbox_filter(void)
{
    struct sock_filter rules[] = {
        LOAD(arch),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PROCESSOR, 1, 0),
        KILL,
        LOAD(nr),
        /* Calls that are allowed with one descriptor. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_read, 0, 4),
        LOAD(args[0]),
        ALLOW_IF(0),
        KILL,
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_write, 0, 4),
        LOAD(args[0]),
        ALLOW_IF(1),
        KILL,
        /* Memory, unless it is to be executed. */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mmap, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_mprotect, 0, 4),
        LOAD(args[2]),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, PROT_EXEC, 0, 1),
        KILL,
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        ALLOW_IF(__NR_munmap),
        ALLOW_IF(__NR_mremap),
        ALLOW_IF(__NR_brk),
        ALLOW_IF(__NR_madvise),
        /* What glibc's malloc and locks use besides. */
        ALLOW_IF(__NR_futex),
        ALLOW_IF(__NR_getrandom),
        ALLOW_IF(__NR_exit),
        ALLOW_IF(__NR_exit_group),
        /* libjpeg-turbo looks into /proc/cpuinfo on some processors, and can do without. */
        FAIL_IF(__NR_openat, EACCES),
#ifdef __NR_open
        FAIL_IF(__NR_open, EACCES),
#endif
        KILL,
    };
    const struct sock_fprog program = {sizeof rules / sizeof *rules, rules};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}
#else
static bool sandbox_filter(void)
{
    return true;
}
#endif

/* Lowers a limit. The system call itself, because C libraries don't agree on the type of a resource. */
static bool sandbox_limit(int resource, uint64_t soft, uint64_t hard)
{
    struct {
        uint64_t soft, hard; /* UINT64_MAX: none */
    } limit;
    if (syscall(SYS_prlimit64, 0, resource, NULL, &limit) != 0) return false;
    if (limit.hard > hard) limit.hard = hard;
    limit.soft = limit.hard < soft ? limit.hard : soft;
    return syscall(SYS_prlimit64, 0, resource, &limit, NULL) == 0;
}

bool sandbox_enter(uint64_t memory, uint64_t seconds)
{
    /* With equal limits, the kernel sends SIGKILL, which says nothing. */
    if (!sandbox_limit(RLIMIT_CPU, seconds, seconds + 1) || !sandbox_limit(RLIMIT_CORE, 0, 0)) return false;
#ifdef SANDBOX_OF_TIME
    (void)memory;
    (void)sandbox_filter;
    return true;
#else
    return sandbox_limit(RLIMIT_AS, memory, memory) && sandbox_limit(RLIMIT_FSIZE, 0, 0) &&
           sandbox_limit(RLIMIT_NOFILE, 0, 0) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           sandbox_filter();
#endif
}
