/* tls.c: TLS with a certificate that can be read again while the server runs. GnuTLS asks for the certificate
 * at each handshake (gnutls_certificate_retrieve_function3) and gets that of the last reading. */
#include "io/files.h"
#include "io/messages.h"
#include "serve/http/internal.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/lock.h"

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
