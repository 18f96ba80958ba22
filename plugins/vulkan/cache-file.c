/* cache-file.c: compiled pipelines from run to run, in the host's cache folder, one file for each device. A file that
 * was made by another driver or version of the plugin, or that is damaged, is as good as none. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "device.h"

#define MOST_BYTES (64u << 20)

struct header {
    char magic[8];
    uint32_t vendor, device, driver_version, api_version;
    uint8_t device_uuid[VK_UUID_SIZE], cache_uuid[VK_UUID_SIZE];
    uint64_t size, checksum; /* of what follows */
};

/* FNV-1a */
static uint64_t checksum(const uint8_t *data, size_t size)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++) sum = (sum ^ data[i]) * 0x100000001b3u;
    return sum;
}

static struct header make_header(const struct physical_device *physical, const void *data, size_t size)
{
    const VkPhysicalDeviceProperties *properties = &physical->properties;
    struct header header;
    memset(&header, 0, sizeof header);
    memcpy(header.magic, "engvk-1", 8);
    header.vendor = properties->vendorID;
    header.device = properties->deviceID;
    header.driver_version = properties->driverVersion;
    header.api_version = properties->apiVersion;
    memcpy(header.device_uuid, physical->uuid, VK_UUID_SIZE);
    memcpy(header.cache_uuid, properties->pipelineCacheUUID, VK_UUID_SIZE);
    header.size = size;
    header.checksum = checksum(data, size);
    return header;
}

/* Puts the file's path into `path`; false where there is no folder. */
static bool make_path(const struct physical_device *physical, char *path, size_t size)
{
    const char *folder = vulkan_host->cache_folder();
    if (!folder) return false;
    int length = snprintf(path, size, "%s/vulkan-", folder);
    for (unsigned i = 0; i < VK_UUID_SIZE && length > 0 && (size_t)length < size; i++)
        length += snprintf(path + length, size - (size_t)length, "%02x", physical->uuid[i]);
    return length > 0 && (size_t)length < size;
}

static bool read_all(int file, void *data, size_t size)
{
    uint8_t *bytes = data;
    while (size > 0) {
        ssize_t got = read(file, bytes, size);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        bytes += got;
        size -= (size_t)got;
    }
    return true;
}

void *cache_file_read(const struct physical_device *physical, size_t *size)
{
    char path[4096];
    struct header header, expected;
    struct stat status;
    uint8_t *data = NULL;
    bool good = false;
    *size = 0;
    if (!make_path(physical, path, sizeof path)) return NULL;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (file < 0) return NULL;
    if (fstat(file, &status) || !S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
        !read_all(file, &header, sizeof header) || header.size == 0 || header.size > MOST_BYTES)
        goto cleanup;
    data = malloc(header.size);
    if (!data || !read_all(file, data, header.size)) goto cleanup;
    expected = make_header(physical, data, header.size);
    good = memcmp(&header, &expected, sizeof header) == 0;
    if (good) *size = header.size;

cleanup:
    close(file);
    if (!good) {
        free(data);
        data = NULL;
    }
    return data;
}

static bool write_all(int file, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    while (size > 0) {
        ssize_t written = write(file, bytes, size);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return false;
        bytes += written;
        size -= (size_t)written;
    }
    return true;
}

void cache_file_write(const struct physical_device *physical, const void *data, size_t size)
{
    char path[4096], made[4200];
    if (size > MOST_BYTES || !make_path(physical, path, sizeof path)) return;
    snprintf(made, sizeof made, "%s.XXXXXX", path);
    int file = mkostemp(made, O_CLOEXEC);
    if (file < 0) return;
    struct header header = make_header(physical, data, size);
    bool good = write_all(file, &header, sizeof header) && write_all(file, data, size);
    good = close(file) == 0 && good;
    if (!good || rename(made, path) != 0) unlink(made);
}
