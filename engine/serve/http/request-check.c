/* request-check.c: see request-check.h. The rules are those of RFC 9112, section 6.3, and RFC 9110, section 5.1; where these
 * leave a choice, a request is refused: a proxy in front may have chosen otherwise (request smuggling). */
#include "serve/http/request-check.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "serve/http/internal.h"

static bool is_token(const char *text)
{
    if (!*text) return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("!#$%&'*+-.^_`|~", *text)) return false;
    return true;
}

static bool is_whole(const char *text)
{
    return *text && strlen(text) <= 18 && text[strspn(text, "0123456789")] == '\0';
}

static bool refuse(struct exchange *exchange, unsigned status, const char *message)
{
    exchange_header(exchange, "Connection", "close");
    exchange_fail(exchange, status, "invalid_request_error", "bad_request", NULL, "%s", message);
    return true;
}

bool request_check(struct exchange *exchange, const char *version)
{
    const char *length = NULL, *coding = NULL;
    size_t n_hosts = 0;
    bool is_1_1 = strcmp(version, "HTTP/1.1") == 0;
    if (!is_1_1 && strcmp(version, "HTTP/1.0") != 0)
        return refuse(exchange, 505, "the server speaks HTTP/1.1");
    for (size_t i = 0; i < exchange->n_headers; i++) {
        const char *name = exchange->headers[i].name, *value = exchange->headers[i].value;
        if (!is_token(name))
            return refuse(exchange, 400, "a header's name has a character that it may not have");
        if (strcasecmp(name, "Host") == 0) n_hosts++;
        if (strcasecmp(name, "Content-Length") == 0) {
            if (length) return refuse(exchange, 400, "the request has two lengths");
            length = value;
        }
        if (strcasecmp(name, "Transfer-Encoding") == 0) {
            if (coding) return refuse(exchange, 400, "the request has two transfer codings");
            coding = value;
        }
    }
    if (length && coding) return refuse(exchange, 400, "the request has a length and is chunked");
    if (length && !is_whole(length))
        return refuse(exchange, 400, "the length of the request is not a number");
    if (coding && (strcasecmp(coding, "chunked") != 0 || !is_1_1))
        return refuse(exchange, 501, "the only transfer coding is chunked, with HTTP/1.1");
    if (n_hosts > 1 || (n_hosts == 0 && is_1_1)) return refuse(exchange, 400, "the request needs one host");
    return false;
}
