/* request-check.c: requests whose end two programs could see in different places. The rules are those of RFC
 * 9112, section 6.3, and RFC 9110, section 5.1; where these leave a choice, a request is refused: a proxy in
 * front may have chosen otherwise (request smuggling). */
#include "serve/http/internal.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_token(const char *text)
{
    if (!*text) return false;
    for (; *text; text++)
        if (!isalnum((unsigned char)*text) && !strchr("!#$%&'*+-.^_`|~", *text)) return false;
    return true;
}

/* Without control characters: some take a CR alone for the end of a line. */
static bool is_value(const char *text)
{
    for (; *text; text++)
        if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f) return false;
    return true;
}

static bool request_is_whole(const char *text)
{
    return *text && strlen(text) <= 18 && text[strspn(text, "0123456789")] == '\0';
}

bool request_refuse(struct exchange *exchange, unsigned status, const char *message)
{
    exchange_header(exchange, "Connection", "close");
    exchange_fail(exchange, status, "invalid_request_error", "bad_request", NULL, "%s", message);
    return true;
}

/* Walks over the headers as they came. */
struct walk {
    const char *at; /* the end of the line before, without its line break */
    bool broken;    /* what follows is not the next header */
};

/* A line break is CR LF or LF, which libmicrohttpd has made NULs. */
static enum MHD_Result walk_header(void *user, enum MHD_ValueKind kind, const char *name, const char *value)
{
    struct walk *walk = user;
    (void)kind;
    walk->broken = !name || !value || (name != walk->at + 1 && name != walk->at + 2);
    if (walk->broken) return MHD_NO;
    walk->at = value + strlen(value);
    return MHD_YES;
}

/* Whether nothing but an empty line ends the headers. libmicrohttpd before 1.0 also ends them at a line that
 * begins with a colon or a NUL, and what follows would be taken for another request; and it reads lines that
 * go on in the next one wrong. It leaves the headers where it has read them, from `method` on, so they can be
 * looked at again: the last one is followed by CR LF CR LF or by LF LF. LF CR LF could be such a line as
 * well; it is refused. What still gets through, because it leaves the same four NULs as CR LF CR LF, is a
 * line of nothing but a colon or a NUL, one of it and the line before with CR LF and the other with LF alone:
 * no proxy passes that on. */
static bool ends_properly(struct MHD_Connection *connection, const char *method, const char *version)
{
    if (strncmp(MHD_get_version(), "0.", 2) != 0) return true;
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    struct walk walk = {.at = version + strlen(version)};
    MHD_get_connection_values(connection, MHD_HEADER_KIND, walk_header, &walk);
    if (walk.broken || !info) return false;
    const char *end = method + info->header_size;
    return (end == walk.at + 4 && memcmp(walk.at, "\0\0\0", 4) == 0) ||
           (end == walk.at + 2 && memcmp(walk.at, "\0", 2) == 0);
}

bool request_check(struct exchange *exchange, struct MHD_Connection *connection, const char *method,
                   const char *version)
{
    const char *length = NULL, *coding = NULL;
    size_t n_hosts = 0;
    bool is_1_1 = strcmp(version, "HTTP/1.1") == 0;
    if (!is_1_1 && strcmp(version, "HTTP/1.0") != 0)
        return request_refuse(exchange, 505, "the server speaks HTTP/1.1");
    if (!ends_properly(connection, method, version))
        return request_refuse(exchange, 400, "the headers are not lines of a name, a colon and a value");
    for (size_t i = 0; i < exchange->n_headers; i++) {
        const char *name = exchange->headers[i].name, *value = exchange->headers[i].value;
        if (!is_token(name))
            return request_refuse(exchange, 400, "a header's name has a character that it may not have");
        if (!is_value(value))
            return request_refuse(exchange, 400, "a header's value has a character that it may not have");
        if (strcasecmp(name, "Host") == 0) n_hosts++;
        if (strcasecmp(name, "Content-Length") == 0) {
            if (length) return request_refuse(exchange, 400, "the request has two lengths");
            length = value;
        }
        if (strcasecmp(name, "Transfer-Encoding") == 0) {
            if (coding) return request_refuse(exchange, 400, "the request has two transfer codings");
            coding = value;
        }
    }
    if (length && coding) return request_refuse(exchange, 400, "the request has a length and is chunked");
    if (length && !request_is_whole(length))
        return request_refuse(exchange, 400, "the length of the request is not a number");
    if (coding && (strcasecmp(coding, "chunked") != 0 || !is_1_1))
        return request_refuse(exchange, 501, "the only transfer coding is chunked, with HTTP/1.1");
    /* Where chunks and what follows them end is libmicrohttpd's reading alone, so nothing may follow. */
    if (coding) exchange_header(exchange, "Connection", "close");
    if (n_hosts > 1 || (n_hosts == 0 && is_1_1))
        return request_refuse(exchange, 400, "the request needs one host");
    return false;
}
