/* failing-allocations.c: a library for LD_PRELOAD under which allocations fail as
 * tests/tools/failing-allocations asks for: FAIL_AT=N is the N-th of the process from its start, with
 * FAIL_ALL=1 all after it too; FAIL_COUNT=FILE gets the number of those that there were. FAIL_CONTROL=FILE
 * holds a struct control that says so while the process runs. FAIL_TRAP=1 stops there, for a debugger. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Three integers of 64 bits, little-endian as the machine's own. */
struct control {
    _Atomic int64_t count; /* allocations since somebody last wrote 0 */
    _Atomic int64_t at;    /* the one that fails; 0: none */
    _Atomic int64_t all;   /* not 0: all after it too */
};

static struct control own, *control = &own;
static bool has_begun;

static void *(*real_malloc)(size_t);
static void *(*real_calloc)(size_t, size_t);
static void *(*real_realloc)(void *, size_t);
static int (*real_memalign)(void **, size_t, size_t);

static void find(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof found);
}

static void find_all(void)
{
    find("calloc", &real_calloc);
    find("realloc", &real_realloc);
    find("posix_memalign", &real_memalign);
    find("malloc", &real_malloc);
}

static int64_t number(const char *name)
{
    const char *text = getenv(name);
    return text ? atoll(text) : 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("FAIL_CONTROL");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *shared = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED) control = shared;
        close(file);
    } else {
        control->at = number("FAIL_AT");
        control->all = number("FAIL_ALL");
    }
    has_begun = true;
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("FAIL_COUNT");
    int64_t count = control->count;
    int file = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (file < 0) return;
    dprintf(file, "%lld\n", (long long)count);
    close(file);
}

static bool fails(void)
{
    if (!real_malloc) find_all();
    if (!has_begun) return false;
    int64_t nth = atomic_fetch_add(&control->count, 1) + 1, at = control->at;
    if (at == 0 || nth < at || (nth > at && !control->all)) return false;
    if (nth == at && getenv("FAIL_TRAP")) raise(SIGTRAP);
    errno = ENOMEM;
    return true;
}

/* Instead of the C library's. */
#pragma GCC visibility push(default)

void *malloc(size_t size)
{
    return fails() ? NULL : real_malloc(size);
}

void *calloc(size_t count, size_t size)
{
    return fails() ? NULL : real_calloc(count, size);
}

void *realloc(void *block, size_t size)
{
    return fails() ? NULL : real_realloc(block, size);
}

void *reallocarray(void *block, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(block, bytes);
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    return fails() ? ENOMEM : real_memalign(block, alignment, size);
}

static void *aligned(size_t alignment, size_t size)
{
    void *block;
    errno = posix_memalign(&block, alignment < sizeof block ? sizeof block : alignment, size);
    return errno ? NULL : block;
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return aligned(alignment, size);
}

void *memalign(size_t alignment, size_t size);
void *memalign(size_t alignment, size_t size)
{
    return aligned(alignment, size);
}

#pragma GCC visibility pop
