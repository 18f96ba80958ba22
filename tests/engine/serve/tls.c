/* tls.c: the server with TLS: a certificate that is read again while connections are open, wrong files,
 * clients that speak plain HTTP or leave in the middle of a handshake. A plain program, so that it runs under
 * ThreadSanitizer.
 *
 * usage: serve-tls SCRATCH_FOLDER */
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "http-fixture.h"
#include "serve/http/http.h"

static void tell(struct exchange *exchange)
{
    exchange_answer(exchange, 200, json_pack("{s:s}", "route", "tell"));
}

const struct route all_routes[] = {{"GET", "/tell", tell, 0}, {NULL, NULL, NULL, 0}};

/* ---- Certificates -------------------------------------------------------------------------------------- */

static void must(int status, const char *what)
{
    if (status >= 0) return;
    fprintf(stderr, "serve-tls: %s: %s\n", what, gnutls_strerror(status));
    exit(1);
}

static void write_file(const char *path, const gnutls_datum_t *data)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data->data, 1, data->size, file) != data->size || fclose(file)) exit(1);
}

/* A certificate for this name, signed by its own key. */
static void make_certificate(const char *name, const char *certificate_path, const char *key_path)
{
    static unsigned char serial;
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    gnutls_datum_t text;
    serial++;
    must(gnutls_x509_privkey_init(&key), "key");
    must(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1),
                                      0),
         "key");
    must(gnutls_x509_crt_init(&certificate), "certificate");
    must(gnutls_x509_crt_set_version(certificate, 3), "version");
    must(gnutls_x509_crt_set_serial(certificate, &serial, 1), "serial");
    must(gnutls_x509_crt_set_activation_time(certificate, time(NULL) - 60), "time");
    must(gnutls_x509_crt_set_expiration_time(certificate, time(NULL) + 3600), "time");
    must(gnutls_x509_crt_set_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, name,
                                       (unsigned)strlen(name)),
         "name");
    must(gnutls_x509_crt_set_key(certificate, key), "key");
    must(gnutls_x509_crt_sign2(certificate, certificate, key, GNUTLS_DIG_SHA256, 0), "signature");
    must(gnutls_x509_crt_export2(certificate, GNUTLS_X509_FMT_PEM, &text), "certificate");
    write_file(certificate_path, &text);
    gnutls_free(text.data);
    must(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &text), "key");
    write_file(key_path, &text);
    gnutls_free(text.data);
    gnutls_x509_crt_deinit(certificate);
    gnutls_x509_privkey_deinit(key);
}

/* ---- A client ------------------------------------------------------------------------------------------ */

struct client {
    int connection;
    gnutls_session_t session;
    gnutls_certificate_credentials_t credentials;
    char name[64]; /* of the server's certificate */
};

/* Whether there is a TLS connection. */
static bool client_open(struct client *client, const struct fixture *fixture)
{
    client->connection = fixture_connect(fixture);
    client->name[0] = '\0';
    must(gnutls_certificate_allocate_credentials(&client->credentials), "credentials");
    must(gnutls_init(&client->session, GNUTLS_CLIENT), "session");
    must(gnutls_set_default_priority(client->session), "priority");
    must(gnutls_credentials_set(client->session, GNUTLS_CRD_CERTIFICATE, client->credentials), "credentials");
    gnutls_transport_set_int(client->session, client->connection);
    gnutls_handshake_set_timeout(client->session, 20000);
    if (gnutls_handshake(client->session) < 0) return false;
    unsigned n;
    const gnutls_datum_t *chain = gnutls_certificate_get_peers(client->session, &n);
    gnutls_x509_crt_t certificate;
    size_t size = sizeof client->name;
    must(gnutls_x509_crt_init(&certificate), "certificate");
    must(gnutls_x509_crt_import(certificate, chain, GNUTLS_X509_FMT_DER), "certificate");
    must(gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, client->name, &size),
         "name");
    gnutls_x509_crt_deinit(certificate);
    return true;
}

/* Whether a request is answered with status 200. */
static bool client_asks(struct client *client)
{
    char answer[2048];
    const char *request = "GET /tell HTTP/1.1\r\nHost: localhost\r\n\r\n";
    if (gnutls_record_send(client->session, request, strlen(request)) < 0) return false;
    size_t used = 0;
    while (used < sizeof answer - 1) {
        ssize_t got = gnutls_record_recv(client->session, answer + used, sizeof answer - 1 - used);
        if (got <= 0) break;
        used += (size_t)got;
        answer[used] = '\0';
        if (strstr(answer, "\"tell\"}")) return strncmp(answer, "HTTP/1.1 200", 12) == 0;
    }
    return false;
}

static void client_close(struct client *client)
{
    gnutls_bye(client->session, GNUTLS_SHUT_WR);
    gnutls_deinit(client->session);
    gnutls_certificate_free_credentials(client->credentials);
    close(client->connection);
}

/* ---- Tests --------------------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    struct fixture fixture;
    struct client before, after;
    char certificate[512], key[512], other_key[512], other[512];
    if (argc != 2) {
        fprintf(stderr, "usage: serve-tls SCRATCH_FOLDER\n");
        return 2;
    }
    mkdir(argv[1], 0777);
    snprintf(certificate, sizeof certificate, "%s/certificate.pem", argv[1]);
    snprintf(key, sizeof key, "%s/key.pem", argv[1]);
    snprintf(other, sizeof other, "%s/other.pem", argv[1]);
    snprintf(other_key, sizeof other_key, "%s/other-key.pem", argv[1]);
    make_certificate("first", certificate, key);
    make_certificate("other", other, other_key);

    EXPECT(!fixture_start(&fixture, (const char *[]){"--ssl-cert-file", certificate, NULL}),
           "no key is needed");
    fixture_stop(&fixture);
    EXPECT(!fixture_start(&fixture, (const char *[]){"--ssl-cert-file", certificate, "--ssl-key-file",
                                                     other_key, NULL}) &&
               strstr(fixture.message, "is not the key"),
           "%s", fixture.message);
    fixture_stop(&fixture);
    EXPECT(!fixture_start(&fixture, (const char *[]){"--ssl-cert-file", key, "--ssl-key-file", key, NULL}),
           "a key was taken for a certificate");
    fixture_stop(&fixture);

    EXPECT(fixture_start(&fixture,
                         (const char *[]){"--ssl-cert-file", certificate, "--ssl-key-file", key, NULL}),
           "%s", fixture.message);
    EXPECT(strncmp(http_address(fixture.server.http, 0), "https://", 8) == 0, "%s",
           http_address(fixture.server.http, 0));
    EXPECT(client_open(&before, &fixture) && client_asks(&before), "no answer");
    EXPECT(strcmp(before.name, "first") == 0, "%s", before.name);
    /* Plain HTTP gets nothing, and neither does half a handshake. */
    char *plain = fixture_ask(&fixture, "GET /tell HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    EXPECT(!strstr(plain, "tell"), "%s", plain);
    free(plain);
    int half = fixture_connect(&fixture);
    fixture_send(half, "\x16\x03\x01\x02");
    close(half);

    make_certificate("second", certificate, key);
    EXPECT(http_reload(fixture.server.http) == 0, "the certificate cannot be read again");
    EXPECT(client_open(&after, &fixture) && client_asks(&after), "no answer");
    EXPECT(strcmp(after.name, "second") == 0, "%s", after.name);
    EXPECT(client_asks(&before), "a connection was lost");
    client_close(&after);
    /* Files that don't fit each other change nothing. */
    unlink(key);
    EXPECT(rename(other_key, key) == 0 && http_reload(fixture.server.http) != 0, "a wrong key was taken");
    EXPECT(client_open(&after, &fixture) && client_asks(&after) && strcmp(after.name, "second") == 0,
           "no answer");
    client_close(&after);
    client_close(&before);
    fixture_stop(&fixture);
    if (fixture_failures) fprintf(stderr, "serve-tls: %d failed\n", fixture_failures);
    return fixture_failures > 0;
}
