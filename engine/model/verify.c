/* verify.c: see verify.h. A directory's small files come first, so that the index says which weights there
 * are. */
#include "model/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nettle/sha1.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/error.h"
#include "base/log.h"
#include "model/file.h"
#include "model/hf/directory.h"

#define PIECE     ((size_t)1 << 20) /* bytes read at once */
#define TEMPLATES "additional_chat_templates"

struct verification {
    const char *folder;
    struct checksums *checksums;
    int (*progress)(void *user, uint64_t done, uint64_t total); /* may be NULL */
    void *user;
    uint64_t done, total; /* bytes of weights */
    struct verified *verified;
};

/* ---- One file ---- */

struct hashes {
    struct sha256_ctx sha256;
    struct sha1_ctx git;
};

/* `size`: of the file, which Git's name contains. */
static void hashes_begin(struct hashes *hashes, uint64_t size)
{
    char header[32];
    int length = snprintf(header, sizeof header, "blob %" PRIu64, size);
    sha256_init(&hashes->sha256);
    sha1_init(&hashes->git);
    sha1_update(&hashes->git, (size_t)length + 1, (const uint8_t *)header);
}

static void write_digits(const uint8_t *digest, size_t size, char *digits)
{
    for (size_t i = 0; i < size; i++) snprintf(digits + 2 * i, 3, "%02x", digest[i]);
}

static void hashes_end(struct hashes *hashes, bool git, char digits[65])
{
    uint8_t digest[SHA256_DIGEST_SIZE];
    if (git)
#if NETTLE_VERSION_MAJOR < 4
        sha1_digest(&hashes->git, SHA1_DIGEST_SIZE, digest);
#else
        sha1_digest(&hashes->git, digest);
#endif
    else
        digest_sha256(&hashes->sha256, digest);
    write_digits(digest, git ? SHA1_DIGEST_SIZE : SHA256_DIGEST_SIZE, digits);
}

static bool has_kind(const struct checksum *expected, size_t n, bool git)
{
    for (size_t i = 0; i < n; i++)
        if (expected[i].is_git == git) return true;
    return false;
}

/* Reads an open file to its end. `counts`: its bytes are part of the progress. */
static int read_file(struct verification *work, int file, const char *path, bool counts, bool sha256,
                     bool git, struct hashes *hashes)
{
    uint8_t *piece = malloc(PIECE);
    int status = piece ? ENGINE_OK : error_memory("a file's bytes");
    for (ssize_t got = 1; !status && got > 0;) {
        got = read(file, piece, PIECE);
        if (got < 0 && errno == EINTR) {
            got = 1;
            continue;
        }
        if (got < 0) status = error_raise(ENGINE_ERROR, "cannot read %s: %s", path, strerror(errno));
        if (got <= 0) break;
        if (sha256) sha256_update(&hashes->sha256, (size_t)got, piece);
        if (git) sha1_update(&hashes->git, (size_t)got, piece);
        work->verified->n_bytes += (uint64_t)got;
        if (!counts) continue;
        work->done += (uint64_t)got;
        if (work->progress && work->progress(work->user, work->done, work->total))
            status = error_raise(ENGINE_ERROR, "verifying was interrupted");
    }
    free(piece);
    return status;
}

static int verify_compare(struct hashes *hashes, const char *path, const struct checksum *expected, size_t n)
{
    char found[2][65] = {"", ""};
    for (size_t i = 0; i < n; i++) {
        char *digits = found[expected[i].is_git];
        if (!*digits) hashes_end(hashes, expected[i].is_git, digits);
        if (strcmp(digits, expected[i].digits) != 0)
            return error_raise(ENGINE_ERROR_DATA,
                               "%s is damaged or another file: its %s is %s, but %s says %s", path,
                               expected[i].is_git ? "SHA-1 as a Git blob" : "SHA-256", digits,
                               expected[i].source, expected[i].digits);
    }
    return ENGINE_OK;
}

static int verify_file(struct verification *work, const char *path, bool counts,
                       const struct checksum *expected, size_t n)
{
    struct hashes hashes;
    struct stat info;
    bool sha256 = has_kind(expected, n, false), git = has_kind(expected, n, true);
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), status;
    if (file < 0 || fstat(file, &info) != 0)
        status = error_raise(ENGINE_ERROR, "cannot read %s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode))
        status = error_raise(ENGINE_ERROR_DATA, "%s is not a regular file", path);
    else {
        posix_fadvise(file, 0, 0, POSIX_FADV_SEQUENTIAL);
        hashes_begin(&hashes, (uint64_t)info.st_size);
        status = read_file(work, file, path, counts, sha256, git, &hashes);
        if (!status) status = verify_compare(&hashes, path, expected, n);
    }
    if (file >= 0) close(file);
    if (!status) work->verified->n_files++;
    return status;
}

/* ---- A folder ---- */

static char *verify_join(const char *folder, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", folder, name) >= 0) return path;
    error_memory("model");
    return NULL;
}

/* A file that may be missing, unless it has a checksum. */
static int verify_small(struct verification *work, const char *name)
{
    struct checksum expected[CHECKSUMS_MAX];
    struct stat info;
    size_t n;
    int status = checksums_find(work->checksums, name, expected, &n);
    char *path = status ? NULL : verify_join(work->folder, name);
    if (!path) return status ? status : ENGINE_ERROR_MEMORY;
    bool exists = stat(path, &info) == 0;
    if (n && !exists) {
        status = error_raise(ENGINE_ERROR_DATA, "%s is missing, though %s has its checksum", path,
                             expected[0].source);
    } else if (n) {
        status = verify_file(work, path, false, expected, n);
    } else if (exists) {
        log_line(ENGINE_LOG_WARNING, "%s has no checksum: not verified", path);
        work->verified->n_unknown++;
    }
    free(path);
    return status;
}

static int is_template(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return end && strcmp(end, ".jinja") == 0;
}

static int verify_templates(struct verification *work)
{
    struct dirent **entries;
    char *path = verify_join(work->folder, TEMPLATES);
    if (!path) return ENGINE_ERROR_MEMORY;
    int n = scandir(path, &entries, is_template, alphasort), status = ENGINE_OK;
    free(path);
    for (int i = 0; i < n; i++) {
        char *name = status ? NULL : verify_join(TEMPLATES, entries[i]->d_name);
        if (name) status = verify_small(work, name);
        if (!name && !status) status = ENGINE_ERROR_MEMORY;
        free(name);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    return status;
}

/* What a directory's readers open, except for the weights. */
static const char *const small_files[] = {
    "config.json",
    "adapter_config.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "tokenizer.model",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "chat_template.jinja",
    "chat_template.json",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
    "2_Dense/config.json",
    "3_Dense/config.json",
};

static int verify_small_files(struct verification *work)
{
    int status = ENGINE_OK;
    for (size_t i = 0; i < sizeof small_files / sizeof *small_files && !status; i++)
        status = verify_small(work, small_files[i]);
    return status ? status : verify_templates(work);
}

/* Weights, whose checksums are `n` of `expected`. */
static int require(const struct verification *work, const char *name, struct checksum expected[CHECKSUMS_MAX],
                   size_t *n)
{
    int status = checksums_find(work->checksums, name, expected, n);
    if (status || *n) return status;
    return error_raise(
        ENGINE_ERROR_DATA,
        "%s/%s has no checksum: there is no SHA256SUMS that lists it, and it is not as Hugging "
        "Face's programs download files",
        work->folder, name);
}

static int verify_weights(struct verification *work, const char *name)
{
    struct checksum expected[CHECKSUMS_MAX];
    size_t n;
    int status = require(work, name, expected, &n);
    char *path = status ? NULL : verify_join(work->folder, name);
    if (!path) return status ? status : ENGINE_ERROR_MEMORY;
    status = verify_file(work, path, true, expected, n);
    free(path);
    return status;
}

/* All weights have a checksum; adds their sizes up. */
static int survey_weights(struct verification *work, json_t *names)
{
    const char *name;
    json_t *value;
    json_object_foreach(names, name, value)
    {
        struct checksum expected[CHECKSUMS_MAX];
        struct stat info;
        size_t n;
        int status = require(work, name, expected, &n);
        char *path = status ? NULL : verify_join(work->folder, name);
        if (!path) return status ? status : ENGINE_ERROR_MEMORY;
        if (stat(path, &info) != 0)
            status = error_raise(ENGINE_ERROR, "cannot read %s: %s", path, strerror(errno));
        else
            work->total += (uint64_t)info.st_size;
        free(path);
        if (status) return status;
    }
    return ENGINE_OK;
}

static bool has_file(const struct verification *work, const char *name)
{
    char *path = verify_join(work->folder, name);
    bool there = path && access(path, F_OK) == 0;
    free(path);
    return there;
}

/* The files with weights, as keys: a model's, or those of a folder of PEFT. */
static int list_weights(const struct verification *work, json_t **names)
{
    if (!has_file(work, "adapter_config.json") || has_file(work, "config.json"))
        return hf_list_shards(work->folder, names);
    *names = json_pack("{s:i}", "adapter_model.safetensors", 0);
    return *names ? ENGINE_OK : error_memory("model");
}

static int verify_directory(struct verification *work)
{
    const char *name;
    json_t *names, *value;
    int listed = list_weights(work, &names);
    if (listed) { /* the index may be damaged; if it isn't, the message stands */
        int status = verify_small_files(work);
        return status ? status : listed;
    }
    int status = survey_weights(work, names);
    if (!status) status = verify_small_files(work);
    json_object_foreach(names, name, value)
    {
        if (!status) status = verify_weights(work, name);
    }
    json_decref(names);
    return status;
}

/* ---- All of it ---- */

/* The folder of a file, and its name in it. */
static char *split(const char *path, const char **name)
{
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    return slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");
}

/* `name`: a file with weights; NULL: all files of the directory. */
static int verify_in(struct verification *work, const char *folder, const char *name)
{
    work->folder = folder;
    if (!folder) return error_memory("model");
    int status = checksums_open(folder, &work->checksums);
    if (status) return status;
    status = name ? verify_weights(work, name) : verify_directory(work);
    checksums_close(work->checksums);
    return status;
}

/* Adds up the sizes of a file's parts, of which it is one or the only one. */
static int survey_parts(struct verification *work, const char *path, int64_t n)
{
    int status = ENGINE_OK;
    work->done = work->total = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        struct stat info;
        char *part = n > 1 ? gguf_part_path(path, i, n) : strdup(path);
        if (!part) return error_memory("model");
        if (stat(part, &info) != 0)
            status = error_raise(ENGINE_ERROR, "cannot open %s: %s", part, strerror(errno));
        else
            work->total += (uint64_t)info.st_size;
        free(part);
    }
    return status;
}

/* A file, with the other parts of a split GGUF model. */
static int verify_single(struct verification *work, const char *path)
{
    const char *name;
    int64_t n = gguf_count_parts(path);
    int status = survey_parts(work, path, n);
    if (status) return status;
    char *folder = split(path, &name);
    for (int64_t i = 0; i < n && !status; i++) {
        char *part = n > 1 ? gguf_part_path(name, i, n) : strdup(name);
        status = part ? verify_in(work, folder, part) : error_memory("model");
        free(part);
    }
    free(folder);
    return status;
}

int model_verify(const char *path, const char *tokenizer_path,
                 int (*progress)(void *user, uint64_t done, uint64_t total), void *user,
                 struct verified *verified)
{
    *verified = (struct verified){0};
    struct verification work = {.progress = progress, .user = user, .verified = verified};
    char *found;
    int status = hf_hub_find(path, &found);
    if (!status && !found && !(found = strdup(path))) status = error_memory("model");
    if (!status && hf_is_directory(found)) {
        char *folder = hf_folder(found);
        status = verify_in(&work, folder, NULL);
        free(folder);
    } else if (!status) {
        status = verify_single(&work, found);
    }
    if (!status && tokenizer_path) status = verify_single(&work, tokenizer_path);
    free(found);
    return status;
}
