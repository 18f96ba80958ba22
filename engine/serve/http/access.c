/* access.c: who may use the server: API keys, and web pages of other sites. */
#include "io/files.h"
#include "io/messages.h"
#include "serve/http/internal.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/array.h"
#include "common/lock.h"

struct access {
    const struct arguments *arguments;
    pthread_mutex_t lock; /* of what follows */
    char **keys;          /* [n_keys] */
    size_t n_keys;
};

/* ---- Keys ---------------------------------------------------------------------------------------------- */

static void free_keys(char **keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        explicit_bzero(keys[i], strlen(keys[i]));
        free(keys[i]);
    }
    free(keys);
}

static int add_key(char ***keys, size_t *n, const char *text, size_t length, const char *where)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return command_error(ENGINE_ERROR_ARGUMENT, "%s: a key has a character that no header may have",
                                 where);
    char *key = ARRAY_GROW(*keys, *n) ? strndup(text, length) : NULL;
    if (!key) return command_error(ENGINE_ERROR_MEMORY, "out of memory (keys)");
    (*keys)[(*n)++] = key;
    return ENGINE_OK;
}

/* A key a line; blank lines and those that begin with # count for nothing. */
static int read_key_file(const char *path, char ***keys, size_t *n)
{
    char *text;
    size_t size, before = *n;
    int status = read_text_file(path, &text, &size);
    if (status) return status;
    for (char *line = text; line < text + size && !status;) {
        char *end = line + strcspn(line, "\n");
        char *next = end < text + size ? end + 1 : end;
        while (end > line && strchr(" \t\r", end[-1])) end--;
        while (line < end && strchr(" \t", *line)) line++;
        if (line < end && *line != '#') status = add_key(keys, n, line, (size_t)(end - line), path);
        line = next;
    }
    explicit_bzero(text, size);
    free(text);
    if (!status && *n == before) status = command_error(ENGINE_ERROR_DATA, "%s: there is no key in it", path);
    return status;
}

int access_reload(struct access *access)
{
    const struct arguments *arguments = access->arguments;
    char **keys = NULL;
    size_t n = 0;
    int status = ENGINE_OK;
    for (size_t i = 0; i < arguments->api_keys.count && !status; i++) {
        const char *key = arguments->api_keys.items[i];
        status = *key ? add_key(&keys, &n, key, strlen(key), "--api-key")
                      : command_error(ENGINE_ERROR_ARGUMENT, "--api-key: the key is empty");
    }
    if (!status && arguments->api_key_file) status = read_key_file(arguments->api_key_file, &keys, &n);
    if (status) {
        free_keys(keys, n);
        return status;
    }
    pthread_mutex_lock(&access->lock);
    char **old = access->keys;
    size_t n_old = access->n_keys;
    access->keys = keys;
    access->n_keys = n;
    pthread_mutex_unlock(&access->lock);
    free_keys(old, n_old);
    return ENGINE_OK;
}

/* "*", or a scheme, a host and perhaps a port, as browsers send it. */
static bool is_origin(const char *text)
{
    size_t scheme = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    if (strcmp(text, "*") == 0) return true;
    return scheme > 0 && strncmp(text + scheme, "://", 3) == 0 && text[scheme + 3] &&
           !strpbrk(text + scheme + 3, "/?#@ \t");
}

int access_create(const struct arguments *arguments, struct access **out)
{
    struct access *access = calloc(1, sizeof *access);
    if (!access) return command_error(ENGINE_ERROR_MEMORY, "out of memory (keys)");
    access->arguments = arguments;
    lock_init(&access->lock);
    int status = access_reload(access);
    for (size_t i = 0; i < arguments->cors.count && !status; i++)
        if (!is_origin(arguments->cors.items[i]))
            status = command_error(
                ENGINE_ERROR_ARGUMENT,
                "--cors %s: not an origin, such as https://example.org or http://localhost:3000, "
                "nor *",
                arguments->cors.items[i]);
    if (status) {
        access_destroy(access);
        return status;
    }
    *out = access;
    return ENGINE_OK;
}

void access_destroy(struct access *access)
{
    if (!access) return;
    free_keys(access->keys, access->n_keys);
    pthread_mutex_destroy(&access->lock);
    free(access);
}

bool access_needs_key(struct access *access)
{
    pthread_mutex_lock(&access->lock);
    bool needs = access->n_keys > 0;
    pthread_mutex_unlock(&access->lock);
    return needs;
}

/* Compares in a time that depends on the length of what was sent only. */
static bool same_key(const char *sent, const char *key)
{
    size_t n_sent = strlen(sent), n_key = strlen(key);
    volatile unsigned char differs = n_sent != n_key;
    for (size_t i = 0; i < n_sent; i++)
        differs = (unsigned char)(differs | (sent[i] ^ key[n_key > 0 ? i % n_key : 0]));
    return !differs;
}

bool access_has_key(struct access *access, const struct exchange *exchange)
{
    const char *sent = exchange_request_header(exchange, "Authorization");
    if (sent && strncasecmp(sent, "Bearer ", 7) == 0)
        sent += 7 + strspn(sent + 7, " \t");
    else
        sent = exchange_request_header(exchange, "x-api-key");
    pthread_mutex_lock(&access->lock);
    bool has = access->n_keys == 0;
    for (size_t i = 0; sent && i < access->n_keys; i++)
        if (same_key(sent, access->keys[i])) has = true;
    pthread_mutex_unlock(&access->lock);
    return has;
}

/* ---- Web pages ----------------------------------------------------------------------------------------- */

/* The name in "name:port" or "[address]:port". */
static void without_port(const char *host, char name[256])
{
    size_t length = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
    snprintf(name, 256, "%.*s", (int)(length < 255 ? length : 255), host);
}

static bool is_this_machine(const struct arguments *arguments, const char *host)
{
    char name[256];
    unsigned char address[16];
    without_port(host, name);
    size_t length = strlen(name);
    if (strcasecmp(name, "localhost") == 0 || (arguments->host && strcasecmp(name, arguments->host) == 0))
        return true;
    if (length > 10 && strcasecmp(name + length - 10, ".localhost") == 0) return true;
    /* An address is no name that somebody could point elsewhere. */
    if (inet_pton(AF_INET, name, address) == 1) return true;
    if (name[0] != '[' || length < 3 || name[length - 1] != ']') return false;
    name[length - 1] = '\0';
    return inet_pton(AF_INET6, name + 1, address) == 1;
}

/* "http://HOST" or "https://HOST": the page that this server sent. */
static bool is_own(const char *origin, const char *host)
{
    if (strncasecmp(origin, "http://", 7) == 0) return strcasecmp(origin + 7, host) == 0;
    return strncasecmp(origin, "https://", 8) == 0 && strcasecmp(origin + 8, host) == 0;
}

static bool is_allowed(const struct arguments *arguments, const char *origin)
{
    for (size_t i = 0; i < arguments->cors.count; i++)
        if (strcmp(arguments->cors.items[i], "*") == 0 || strcasecmp(arguments->cors.items[i], origin) == 0)
            return true;
    return false;
}

static bool access_deny(struct exchange *exchange, const char *message)
{
    exchange_header(exchange, "Connection", "close");
    exchange_fail(exchange, 403, "invalid_request_error", "forbidden", NULL, "%s", message);
    return true;
}

bool access_refuse(struct access *access, struct exchange *exchange, const struct listener *listener)
{
    const struct arguments *arguments = access->arguments;
    const char *origin = exchange_request_header(exchange, "Origin"),
               *host = exchange_request_header(exchange, "Host");
    if (host && listener->is_loopback && !listener->is_unix && !access_needs_key(access) &&
        !is_this_machine(arguments, host))
        return access_deny(exchange, "the request is for another host; behind a proxy, use an API key");
    if (arguments->cors.count > 0) exchange_header(exchange, "Vary", "Origin");
    if (!origin || (host && is_own(origin, host))) return false;
    if (!is_allowed(arguments, origin))
        return access_deny(exchange, "pages of other sites may not use this server; --cors allows one");
    exchange_header(exchange, "Access-Control-Allow-Origin", origin);
    exchange_header(exchange, "Access-Control-Expose-Headers", "Retry-After");
    if (strcmp(exchange_method(exchange), "OPTIONS") != 0) return false;
    const char *wanted = exchange_request_header(exchange, "Access-Control-Request-Headers");
    exchange_header(exchange, "Access-Control-Allow-Methods", "GET, POST");
    exchange_header(exchange, "Access-Control-Allow-Headers", wanted ? wanted : "*");
    exchange_header(exchange, "Access-Control-Max-Age", "3600");
    exchange_answer_static(exchange, 204, NULL, "", 0);
    return true;
}
