/* listen.c: the sockets that the server listens on: those of systemd, else --unix, else --host and --port;
 * and TLS with a certificate that can be read again while the server runs. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/array.h"
#include "common/lock.h"
#include "io/files.h"
#include "io/messages.h"
#include "serve/http/internal.h"

#define FIRST_PASSED 3 /* systemd's sockets begin at this number (sd_listen_fds(3)) */

static struct listener *add_listener(struct http *http, int socket)
{
    if (!ARRAY_GROW(http->listeners, http->n_listeners)) {
        command_error(ENGINE_ERROR_MEMORY, "out of memory (sockets)");
        return NULL;
    }
    struct listener *added = &http->listeners[http->n_listeners++];
    *added = (struct listener){.socket = socket, .http = http};
    return added;
}

/* Fills in what a listener's address is. */
static void listen_describe(struct listener *listener)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char name[INET6_ADDRSTRLEN] = "";
    const char *scheme = listener->http->tls ? "https" : "http";
    getsockname(listener->socket, (struct sockaddr *)&address, &size);
    if (address.ss_family == AF_UNIX) {
        const struct sockaddr_un *local = (const struct sockaddr_un *)(const void *)&address;
        listener->is_unix = listener->is_loopback = true;
        snprintf(listener->address, sizeof listener->address, "unix:%s", local->sun_path);
    } else if (address.ss_family == AF_INET) {
        const struct sockaddr_in *inet = (const struct sockaddr_in *)(const void *)&address;
        inet_ntop(AF_INET, &inet->sin_addr, name, sizeof name);
        listener->is_loopback = ntohl(inet->sin_addr.s_addr) >> 24 == 127;
        snprintf(listener->address, sizeof listener->address, "%s://%s:%u", scheme, name,
                 ntohs(inet->sin_port));
    } else if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *inet = (const struct sockaddr_in6 *)(const void *)&address;
        inet_ntop(AF_INET6, &inet->sin6_addr, name, sizeof name);
        listener->is_loopback = IN6_IS_ADDR_LOOPBACK(&inet->sin6_addr);
        snprintf(listener->address, sizeof listener->address, "%s://[%s]:%u", scheme, name,
                 ntohs(inet->sin6_port));
    }
}

/* ---- systemd ------------------------------------------------------------------------------------------- */

/* The sockets that whoever started the program has opened for it (sd_listen_fds(3)): LISTEN_PID is this
 * process, LISTEN_FDS their number. */
static int take_passed(struct http *http)
{
    const char *process = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
    if (!process || !count || strtol(process, NULL, 10) != (long)getpid()) return ENGINE_OK;
    long n = strtol(count, NULL, 10);
    for (int socket = FIRST_PASSED; socket < FIRST_PASSED + n; socket++) {
        int type = 0, listens = 0;
        socklen_t size = sizeof type;
        if (getsockopt(socket, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_STREAM ||
            getsockopt(socket, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || !listens)
            return command_error(
                ENGINE_ERROR, "socket %d, which systemd passed, is not one that listens (Accept=no)", socket);
        fcntl(socket, F_SETFD, FD_CLOEXEC);
        struct listener *added = add_listener(http, socket);
        if (!added) return ENGINE_ERROR_MEMORY;
        listen_describe(added);
    }
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_FDNAMES");
    return ENGINE_OK;
}

/* ---- Unix sockets -------------------------------------------------------------------------------------- */

/* A socket that nobody listens on any more was left by a process that was killed. */
static int remove_left(const char *path, const struct sockaddr_un *address)
{
    struct stat info;
    if (lstat(path, &info) != 0) return ENGINE_OK;
    if (!S_ISSOCK(info.st_mode))
        return command_error(ENGINE_ERROR, "--unix %s: the file is not a socket", path);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int answered = probe < 0 ? -1 : connect(probe, (const struct sockaddr *)address, sizeof *address);
    int reason = errno;
    if (probe >= 0) close(probe);
    if (answered == 0 || reason != ECONNREFUSED)
        return command_error(ENGINE_ERROR, "--unix %s: another process listens there", path);
    return unlink(path) == 0 ? ENGINE_OK
                             : command_error(ENGINE_ERROR, "--unix %s: %s", path, strerror(errno));
}

static int open_unix(struct http *http, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return command_error(ENGINE_ERROR_ARGUMENT, "--unix %s: the path of a socket has at most %zu bytes",
                             path, sizeof address.sun_path - 1);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int status = remove_left(path, &address);
    if (status) return status;
    int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The owner and the group may connect; the folder decides who else gets here. */
    mode_t before = umask(0117);
    int bound = made < 0 ? -1 : bind(made, (const struct sockaddr *)&address, sizeof address);
    int reason = errno;
    umask(before);
    if (bound != 0 || listen(made, SOMAXCONN) != 0) {
        if (bound == 0) reason = errno;
        if (made >= 0) close(made);
        return command_error(ENGINE_ERROR, "--unix %s: %s", path, strerror(reason));
    }
    struct listener *added = add_listener(http, made);
    if (!added) {
        close(made);
        return ENGINE_ERROR_MEMORY;
    }
    listen_describe(added);
    return ENGINE_OK;
}

/* ---- Addresses ----------------------------------------------------------------------------------------- */

/* The address "::" alone stands for those of IPv4 too. Beside others, 0.0.0.0 has the port already. */
static bool is_for_all(const struct addrinfo *found, bool is_only)
{
    const struct sockaddr_in6 *address = (const struct sockaddr_in6 *)(const void *)found->ai_addr;
    return is_only && found->ai_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&address->sin6_addr);
}

static int open_address(struct http *http, const struct addrinfo *found, bool is_only)
{
    int on = 1, v6_only = !is_for_all(found, is_only);
    int made = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (made < 0) return -1;
    setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (found->ai_family == AF_INET6) setsockopt(made, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
    if (bind(made, found->ai_addr, found->ai_addrlen) != 0 || listen(made, SOMAXCONN) != 0) {
        int reason = errno;
        close(made);
        errno = reason;
        return -1;
    }
    struct listener *added = add_listener(http, made);
    if (!added) {
        close(made);
        errno = ENOMEM;
        return -1;
    }
    listen_describe(added);
    return 0;
}

/* All addresses of the host's name. One that the machine doesn't have (IPv6 that is off) is left out. */
static int open_host(struct http *http)
{
    const struct arguments *arguments = http->server->arguments;
    struct addrinfo wish = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *found;
    char port[16];
    int reason = 0;
    size_t before = http->n_listeners;
    bool lacks_v6 = false;
    snprintf(port, sizeof port, "%u", arguments->port);
    int failed = getaddrinfo(arguments->host, port, &wish, &found);
    if (failed)
        return command_error(ENGINE_ERROR_ARGUMENT, "--host %s: %s", arguments->host, gai_strerror(failed));
    for (const struct addrinfo *one = found; one; one = one->ai_next) {
        if (open_address(http, one, found->ai_next == NULL) == 0) continue;
        lacks_v6 = lacks_v6 || (errno == EAFNOSUPPORT && one->ai_family == AF_INET6);
        if (errno == EADDRNOTAVAIL || errno == EAFNOSUPPORT) continue;
        reason = errno;
        break;
    }
    freeaddrinfo(found);
    if (!reason && http->n_listeners > before) return ENGINE_OK;
    if (reason == EADDRINUSE)
        return command_error(ENGINE_ERROR, "port %u is in use; choose another one with --port",
                             arguments->port);
    if (!reason && lacks_v6)
        return command_error(ENGINE_ERROR,
                             "cannot listen on %s: this machine has no IPv6; --host 0.0.0.0 listens on all "
                             "addresses of IPv4",
                             arguments->host);
    return command_error(ENGINE_ERROR, "cannot listen on %s, port %u: %s", arguments->host, arguments->port,
                         strerror(reason ? reason : EADDRNOTAVAIL));
}

/* ---- Opening and closing ------------------------------------------------------------------------------- */

/* Whoever reaches the machine could use the model. */
static int check_reach(const struct http *http)
{
    const struct arguments *arguments = http->server->arguments;
    for (size_t i = 0; i < http->n_listeners; i++)
        if (!http->listeners[i].is_loopback && !access_needs_key(http->access) && !arguments->insecure)
            return command_error(
                ENGINE_ERROR_ARGUMENT,
                "%s can be reached from other machines: give a key with --api-key-file, or say "
                "--insecure",
                http->listeners[i].address);
    return ENGINE_OK;
}

int listen_open(struct http *http)
{
    const struct arguments *arguments = http->server->arguments;
    int status = take_passed(http);
    if (!status && http->n_listeners == 0) {
        if (arguments->unix_path) status = open_unix(http, arguments->unix_path);
        if (!status && (!arguments->unix_path || arguments->host_given)) status = open_host(http);
    }
    return status ? status : check_reach(http);
}

void listen_close(struct http *http)
{
    const char *path = http->server->arguments->unix_path;
    for (size_t i = 0; i < http->n_listeners; i++) {
        if (path && http->listeners[i].is_unix && strcmp(http->listeners[i].address + 5, path) == 0)
            unlink(path);
        if (!http->listeners[i].daemon) close(http->listeners[i].socket);
    }
    free(http->listeners);
    http->listeners = NULL;
    http->n_listeners = 0;
}

/* ---- TLS ----------------------------------------------------------------------------------------------- */

/* GnuTLS asks for the certificate at each handshake (gnutls_certificate_retrieve_function3) and gets that of
 * the last reading. */

#define MAX_CHAIN 16

/* A certificate with its chain and its key. GnuTLS doesn't tell when it is done with one, so all are kept
 * until the end: one for each SIGHUP after which the files had changed. */
struct certificate {
    struct certificate *next;
    gnutls_pcert_st chain[MAX_CHAIN]; /* [n] */
    unsigned n;
    gnutls_privkey_t key;
};

struct tls {
    const struct arguments *arguments;
    pthread_mutex_t lock;
    struct certificate *current; /* the newest first */
};

static struct tls *active;

static void free_certificate(struct certificate *certificate)
{
    for (unsigned i = 0; i < certificate->n; i++) gnutls_pcert_deinit(&certificate->chain[i]);
    if (certificate->key) gnutls_privkey_deinit(certificate->key);
    free(certificate);
}

static int read_chain(struct certificate *certificate, const char *path)
{
    char *text;
    size_t size;
    unsigned n = MAX_CHAIN;
    int status = read_text_file(path, &text, &size);
    if (status) return status;
    gnutls_datum_t data = {(unsigned char *)text, (unsigned)size};
    int failed = gnutls_pcert_list_import_x509_raw(certificate->chain, &n, &data, GNUTLS_X509_FMT_PEM, 0);
    free(text);
    if (failed) return command_error(ENGINE_ERROR_DATA, "%s: %s", path, gnutls_strerror(failed));
    certificate->n = n;
    return n > 0 ? ENGINE_OK : command_error(ENGINE_ERROR_DATA, "%s: there is no certificate in it", path);
}

static int tls_read_key(struct certificate *certificate, const char *path)
{
    char *text;
    size_t size;
    int status = read_text_file(path, &text, &size);
    if (status) return status;
    gnutls_datum_t data = {(unsigned char *)text, (unsigned)size};
    int failed = gnutls_privkey_init(&certificate->key);
    if (!failed)
        failed = gnutls_privkey_import_x509_raw(certificate->key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
    explicit_bzero(text, size);
    free(text);
    return failed ? command_error(ENGINE_ERROR_DATA, "%s: %s", path, gnutls_strerror(failed)) : ENGINE_OK;
}

/* Whether the key is that of the certificate. */
static int check_pair(const struct certificate *certificate, const struct arguments *arguments)
{
    unsigned char of_certificate[64], of_key[64];
    size_t size = sizeof of_certificate, key_size = sizeof of_key;
    gnutls_pubkey_t key = NULL;
    int failed = gnutls_pubkey_init(&key);
    if (!failed) failed = gnutls_pubkey_import_privkey(key, certificate->key, 0, 0);
    if (!failed) failed = gnutls_pubkey_get_key_id(key, GNUTLS_KEYID_USE_SHA256, of_key, &key_size);
    if (!failed)
        failed = gnutls_pubkey_get_key_id(certificate->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256,
                                          of_certificate, &size);
    if (key) gnutls_pubkey_deinit(key);
    if (failed)
        return command_error(ENGINE_ERROR_DATA, "%s: %s", arguments->ssl_key_file, gnutls_strerror(failed));
    if (size == key_size && memcmp(of_certificate, of_key, size) == 0) return ENGINE_OK;
    return command_error(ENGINE_ERROR_DATA, "%s is not the key of the certificate in %s",
                         arguments->ssl_key_file, arguments->ssl_cert_file);
}

int tls_reload(struct tls *tls)
{
    const struct arguments *arguments = tls->arguments;
    struct certificate *read = calloc(1, sizeof *read);
    if (!read) return command_error(ENGINE_ERROR_MEMORY, "out of memory (certificate)");
    int status = read_chain(read, arguments->ssl_cert_file);
    if (!status) status = tls_read_key(read, arguments->ssl_key_file);
    if (!status) status = check_pair(read, arguments);
    if (status) {
        free_certificate(read);
        return status;
    }
    pthread_mutex_lock(&tls->lock);
    read->next = tls->current;
    tls->current = read;
    pthread_mutex_unlock(&tls->lock);
    return ENGINE_OK;
}

int tls_create(const struct arguments *arguments, struct tls **out)
{
    *out = NULL;
    if (!arguments->ssl_cert_file && !arguments->ssl_key_file) return ENGINE_OK;
    if (!arguments->ssl_cert_file || !arguments->ssl_key_file)
        return command_error(ENGINE_ERROR_ARGUMENT, "TLS needs both --ssl-cert-file and --ssl-key-file");
    if (MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK2) != MHD_YES)
        return command_error(ENGINE_ERROR_UNSUPPORTED, "this system's libmicrohttpd has no TLS");
    struct tls *tls = calloc(1, sizeof *tls);
    if (!tls) return command_error(ENGINE_ERROR_MEMORY, "out of memory (certificate)");
    tls->arguments = arguments;
    lock_init(&tls->lock);
    int status = tls_reload(tls);
    if (status) {
        tls_destroy(tls);
        return status;
    }
    active = *out = tls;
    return ENGINE_OK;
}

void tls_destroy(struct tls *tls)
{
    if (!tls) return;
    while (tls->current) {
        struct certificate *next = tls->current->next;
        free_certificate(tls->current);
        tls->current = next;
    }
    pthread_mutex_destroy(&tls->lock);
    if (active == tls) active = NULL;
    free(tls);
}

static int give_certificate(gnutls_session_t session, const struct gnutls_cert_retr_st *info,
                            gnutls_pcert_st **certificates, unsigned *n, gnutls_ocsp_data_st **ocsp,
                            unsigned *n_ocsp, gnutls_privkey_t *key, unsigned *flags)
{
    (void)session, (void)info;
    pthread_mutex_lock(&active->lock);
    struct certificate *current = active->current;
    pthread_mutex_unlock(&active->lock);
    *certificates = current->chain;
    *n = current->n;
    *ocsp = NULL;
    *n_ocsp = 0;
    *key = current->key;
    *flags = 0;
    return 0;
}

unsigned tls_options(struct tls *tls, struct MHD_OptionItem options[4])
{
    (void)tls;
    options[0] =
        (struct MHD_OptionItem){MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, (void *)(uintptr_t)give_certificate};
    options[1] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
    return MHD_USE_TLS;
}
