/* tls.h: TLS with a certificate that can be read again while the server runs. */
#ifndef ENGINE_SERVE_HTTP_TLS_H
#define ENGINE_SERVE_HTTP_TLS_H

#include <microhttpd.h>

#include "commands/arguments.h"

struct tls;

/* Reads --ssl-cert-file and --ssl-key-file; *tls is NULL without them. Returns an enum engine_status, with command_error's
 * message. Only one at a time: libmicrohttpd gives its callback no context. */
int tls_create(const struct arguments *arguments, struct tls **tls);
/* Reads the files again. Connections that are open keep the certificate that they have; after an error, the one before is
 * used on. */
int tls_reload(struct tls *tls);
void tls_destroy(struct tls *tls);

/* Returns the flags for a daemon, and fills in its options. */
unsigned tls_options(struct tls *tls, struct MHD_OptionItem options[4]);

#endif
