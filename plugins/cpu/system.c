/* system.c: reads /proc, /sys and the control group of the process. */
#include "system.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_TEXT 16384

/* The beginning of a file as a string, up to `size` - 1 bytes; false if there is none. Reads without stdio,
 * which allocates: where memory runs out, the machine is still described as it is. */
static bool read_text(const char *path, char *text, size_t size)
{
    size_t length = 0;
    ssize_t got = 1;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    while (got != 0 && length < size - 1) {
        got = read(file, text + length, size - 1 - length);
        if (got < 0 && errno != EINTR) break;
        if (got > 0) length += (size_t)got;
    }
    close(file);
    text[length] = 0;
    return length > 0;
}

/* The first line of a file; false if there is none. */
static bool read_line(const char *path, char *line, size_t size)
{
    bool got = read_text(path, line, size);
    if (got) line[strcspn(line, "\n")] = 0;
    return got;
}

/* The value of the first line "key: value" or "key value" of a file; false if there is none. */
static bool find_value(const char *path, const char *key, char *value, size_t size)
{
    char text[MAX_TEXT];
    size_t length = strlen(key);
    if (!read_text(path, text, sizeof text)) return false;
    for (char *save, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, key, length) != 0 || !line[length] || !strchr(" :\t", line[length])) continue;
        snprintf(value, size, "%s", line + length + strspn(line + length, " :\t"));
        return true;
    }
    return false;
}

/* The folder of the process's control group, under cgroup v2 (controller NULL) or a v1 controller; false if
 * there is none. */
static bool control_group(const char *controller, char *folder, size_t size)
{
    char text[MAX_TEXT];
    if (!read_text("/proc/self/cgroup", text, sizeof text)) return false;
    for (char *next, *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        char *controllers = strchr(line, ':'); /* number:controllers:path */
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path) continue;
        *path++ = 0;
        controllers++;
        if (!controller && *controllers == 0) {
            snprintf(folder, size, "/sys/fs/cgroup%s", path);
            return true;
        }
        for (char *save, *name = strtok_r(controllers, ",", &save); controller && name;
             name = strtok_r(NULL, ",", &save))
            if (strcmp(name, controller) == 0) {
                snprintf(folder, size, "/sys/fs/cgroup/%s%s", controller, path);
                return true;
            }
    }
    return false;
}

/* Where a file of the process's control group is: in the group's own folder or, as within a container, at the
 * root of what is mounted. */
static bool control_group_file(const char *controller, const char *file, char *path, size_t size)
{
    char folder[1100];
    if (!control_group(controller, folder, sizeof folder)) return false;
    snprintf(path, size, "%s/%s", folder, file);
    if (access(path, R_OK) == 0) return true;
    snprintf(path, size, "/sys/fs/cgroup/%s/%s", controller ? controller : "", file);
    return access(path, R_OK) == 0;
}

static bool control_group_line(const char *controller, const char *file, char *line, size_t size)
{
    char path[1200];
    return control_group_file(controller, file, path, sizeof path) && read_line(path, line, size);
}

unsigned system_processors(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0) return (unsigned)CPU_COUNT(&allowed);
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (unsigned)n : 1;
}

/* Processor time in whole processors, rounded up; 0: no limit. */
static unsigned control_group_processors(void)
{
    char line[128], other[128];
    long long quota = 0, period = 0;
    if (control_group_line(NULL, "cpu.max", line, sizeof line)) {
        if (sscanf(line, "%lld %lld", &quota, &period) != 2) return 0; /* "max" */
    } else if (control_group_line("cpu", "cpu.cfs_quota_us", line, sizeof line) &&
               control_group_line("cpu", "cpu.cfs_period_us", other, sizeof other)) {
        quota = atoll(line);
        period = atoll(other);
    }
    if (quota <= 0 || period <= 0) return 0;
    return (unsigned)((quota + period - 1) / period);
}

unsigned system_cores(void)
{
    cpu_set_t allowed;
    unsigned n = 0;
    if (sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET((size_t)cpu, &allowed)) continue;
            /* A core counts at its first sibling that may be used: "0,64" or "0-1" or "0". */
            char path[96], line[256];
            snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
            bool first = true;
            if (read_line(path, line, sizeof line))
                for (char *save, *range = strtok_r(line, ",", &save); range && first;
                     range = strtok_r(NULL, ",", &save)) {
                    int low = 0, high = 0;
                    if (sscanf(range, "%d-%d", &low, &high) < 2) high = low;
                    for (int sibling = low; sibling <= high && sibling < cpu; sibling++)
                        if (sibling >= 0 && CPU_ISSET((size_t)sibling, &allowed)) first = false;
                }
            n += first;
        }
    if (n == 0) n = system_processors();
    unsigned granted = control_group_processors();
    return granted > 0 && granted < n ? granted : n;
}

static bool parse_bytes(const char *text, uint64_t *bytes)
{
    return sscanf(text, "%" SCNu64, bytes) == 1; /* not "max" */
}

/* The control group's limit and its use, without files that are merely cached; false: no limit. */
static bool control_group_memory(uint64_t *limit, uint64_t *used)
{
    char line[256], path[1200];
    bool v2 = control_group_line(NULL, "memory.max", line, sizeof line);
    const char *controller = v2 ? NULL : "memory";
    if (!v2 && !control_group_line(controller, "memory.limit_in_bytes", line, sizeof line)) return false;
    if (!parse_bytes(line, limit)) return false;
    if (!control_group_line(controller, v2 ? "memory.current" : "memory.usage_in_bytes", line, sizeof line) ||
        !parse_bytes(line, used))
        return false;
    static const char *const cached[2][2] = {{"total_active_file", "total_inactive_file"},
                                             {"active_file", "inactive_file"}};
    uint64_t bytes;
    for (int i = 0; i < 2; i++)
        if (control_group_file(controller, "memory.stat", path, sizeof path) &&
            find_value(path, cached[v2][i], line, sizeof line) && parse_bytes(line, &bytes))
            *used = bytes < *used ? *used - bytes : 0;
    return true;
}

void system_memory(uint64_t *available, uint64_t *total)
{
    char line[256];
    uint64_t kib, limit, used;
    *available = *total = 0;
    if (find_value("/proc/meminfo", "MemTotal", line, sizeof line) && parse_bytes(line, &kib))
        *total = kib * 1024;
    if (find_value("/proc/meminfo", "MemAvailable", line, sizeof line) && parse_bytes(line, &kib))
        *available = kib * 1024;
    if (!control_group_memory(&limit, &used) || limit >= *total) return;
    *total = limit;
    uint64_t left = limit > used ? limit - used : 0;
    if (left < *available) *available = left;
}

void system_processor_name(char *name, size_t size)
{
    if (!find_value("/proc/cpuinfo", "model name", name, size)) snprintf(name, size, "processor");
}
