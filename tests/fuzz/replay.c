/* replay.c: calls a fuzzing target with each file of the folders and files that the command line names, so
 * that every compiler and sanitizer sees what the fuzzer once found. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tokenizers.h"

static int replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat about;
    if (!file || fstat(fileno(file), &about) || about.st_size < 0) return perror(path), 0;
    size_t size = (size_t)about.st_size;
    uint8_t *data = malloc(size ? size : 1); /* of just that size, so that reading past it shows */
    if (!data || fread(data, 1, size, file) != size) return perror(path), 0;
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    return 1;
}

static int replay_folder(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        char name[512];
        if (*entry->d_name == '.') continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        if (!replay_file(name)) return 0;
        count++;
    }
    if (folder) closedir(folder);
    return count;
}

int main(int argc, char **argv)
{
    int total = 0;
    for (int i = 1; i < argc; i++) {
        struct stat about;
        int count = stat(argv[i], &about) == 0 && S_ISDIR(about.st_mode) ? replay_folder(argv[i])
                                                                         : replay_file(argv[i]);
        if (!count) return fprintf(stderr, "%s: nothing to replay\n", argv[i]), 1;
        total += count;
    }
    printf("%d inputs replayed\n", total);
    return total ? 0 : 1;
}
