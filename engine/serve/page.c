/* page.c: see page.h. */
#include "serve/page.h"

#include <string.h>
#include <strings.h>

#include "web/page-files.h"

static const struct page_file *find(const char *path)
{
    for (size_t i = 0; i < n_page_files; i++)
        if (strcmp(page_files[i].path, path) == 0) return &page_files[i];
    return NULL;
}

/* Whether a list in a header has a word; what follows it (";q=0") is looked at for a plain refusal only. */
static bool has_word(const char *list, const char *word)
{
    for (const char *at = list; at && (at = strcasestr(at, word)); at += strlen(word)) {
        const char *end = at + strlen(word);
        if (at > list && !strchr(" \t,", at[-1])) continue;
        if (*end && !strchr(" \t,;", *end)) continue;
        return strncmp(end, ";q=0", 4) != 0 || (end[4] == '.' && end[5 + strspn(end + 5, "0")] > '0');
    }
    return false;
}

void page_get(struct exchange *exchange)
{
    const char *path = exchange_path(exchange);
    const struct page_file *file = find(path);
    if (!file) {
        exchange_fail(exchange, 404, "invalid_request_error", "not_found", NULL, "there is no %s", path);
        return;
    }
    const char *known = exchange_request_header(exchange, "If-None-Match");
    exchange_header(exchange, "ETag", file->etag);
    exchange_header(exchange, "Cache-Control", "no-cache");
    exchange_header(exchange, "Vary", "Accept-Encoding");
    exchange_header(exchange, "Content-Security-Policy", file->policy);
    exchange_header(exchange, "Cross-Origin-Opener-Policy", "same-origin");
    exchange_header(exchange, "X-DNS-Prefetch-Control", "off");
    if (known && (strstr(known, file->etag) || strcmp(known, "*") == 0)) {
        exchange_answer_static(exchange, 304, NULL, "", 0);
    } else if (file->gzip && has_word(exchange_request_header(exchange, "Accept-Encoding"), "gzip")) {
        exchange_header(exchange, "Content-Encoding", "gzip");
        exchange_answer_static(exchange, 200, file->type, file->gzip, file->gzip_size);
    } else {
        exchange_answer_static(exchange, 200, file->type, file->data, file->size);
    }
}
