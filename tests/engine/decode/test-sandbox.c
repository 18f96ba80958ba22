/* test-sandbox.c: what a process can still do in the sandbox of engine-decode, and what ends it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "decode/sandbox.h"

#define MEMORY (UINT64_C(1) << 30)

/* waitpid's status of a process that does this in the sandbox and ends with 0 if it worked. */
static int in_sandbox(bool (*act)(void), uint64_t memory)
{
    int how;
    pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (pid == 0) {
        if (!sandbox_enter(memory, 1)) _exit(9);
        _exit(act() ? 0 : 1);
    }
    cr_assert_eq(waitpid(pid, &how, 0), pid);
    return how;
}

static bool nothing(void)
{
    return true;
}

static bool uses_memory(void)
{
    char *small = malloc(1000), *large = malloc(16 << 20);
    if (!small || !large) return false;
    memset(large, 1, 16 << 20);
    large = realloc(large, 64 << 20);
    bool all = large && large[12345] == 1;
    free(large);
    free(small);
    return all;
}

static bool lacks_memory(void)
{
    volatile size_t size = (size_t)2 << 30;
    char *large = malloc(size);
    bool lacks = !large;
    free(large);
    return lacks;
}

static bool computes(void)
{
    for (volatile uint64_t i = 0; i < UINT64_MAX; i++) continue;
    return true;
}

static bool opens(void)
{
    return open("/dev/null", O_RDONLY) < 0 && errno == EACCES;
}

static bool connects(void)
{
    return socket(AF_INET, SOCK_STREAM, 0) < 0;
}

static bool forks(void)
{
    return fork() < 0;
}

static bool writes_elsewhere(void)
{
    return write(2, "", 0) == 0;
}

static bool makes_code(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED;
}

static bool kills(void)
{
    return kill(getppid(), 0) == 0;
}

Test(sandbox, allowed)
{
    cr_expect_eq(in_sandbox(nothing, MEMORY), 0);
    cr_expect_eq(in_sandbox(uses_memory, MEMORY), 0);
}

Test(sandbox, time)
{
    int how = in_sandbox(computes, MEMORY);
    cr_expect(WIFSIGNALED(how) && WTERMSIG(how) == SIGXCPU, "%d", how);
}

#ifndef SANDBOX_OF_TIME
Test(sandbox, memory)
{
    cr_expect_eq(in_sandbox(lacks_memory, MEMORY), 0);
}
#endif

#if defined(SANDBOX_OF_CALLS) && !defined(SANDBOX_OF_TIME)
Test(sandbox, files)
{
    cr_expect_eq(in_sandbox(opens, MEMORY), 0);
}

Test(sandbox, forbidden)
{
    bool (*const acts[])(void) = {connects, forks, writes_elsewhere, makes_code, kills};
    for (size_t i = 0; i < sizeof acts / sizeof *acts; i++) {
        int how = in_sandbox(acts[i], MEMORY);
        cr_expect(WIFSIGNALED(how) && WTERMSIG(how) == SIGSYS, "%zu: %d", i, how);
    }
}
#else
Test(sandbox, unfiltered)
{
    cr_skip_test("with this processor, or AddressSanitizer, system calls are not filtered");
    (void)lacks_memory, (void)opens, (void)connects, (void)forks, (void)writes_elsewhere, (void)makes_code;
    (void)kills;
}
#endif
