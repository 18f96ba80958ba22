/* routes.c: the table of all requests, and the page for people, whose files (web/) the build embeds. Tests
 * have tables of their own, so nothing else is here. */
#include <string.h>
#include <strings.h>

#include "serve/api/api.h"
#include "serve/http/http.h"
#include "web/page-files.h"

/* ---- The page ---- */

static const struct page_file *page_find(const char *path)
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

/* Answers with the file of the request's path, or 304 if the client has it. */
static void page_get(struct exchange *exchange)
{
    const char *path = exchange_path(exchange);
    const struct page_file *file = page_find(path);
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

/* ---- The table ---- */

const struct route all_routes[] = {
    {"GET", "/health", api_health, ROUTE_OPEN | ROUTE_QUICK},
    {"GET", "/v1/health", api_health, ROUTE_OPEN | ROUTE_QUICK},
    {"GET", "/metrics", api_metrics, ROUTE_QUICK},
    {"GET", "/models", api_models, ROUTE_QUICK},
    {"GET", "/v1/models", api_models, ROUTE_QUICK},
    {"GET", "/models/*", api_model, ROUTE_QUICK},
    {"GET", "/v1/models/*", api_model, ROUTE_QUICK},
    {"GET", "/", page_get, ROUTE_OPEN | ROUTE_QUICK},
    {"GET", "/app/*", page_get, ROUTE_OPEN | ROUTE_QUICK},
    {"GET", "/style/*", page_get, ROUTE_OPEN | ROUTE_QUICK},
    {"GET", "/icon.svg", page_get, ROUTE_OPEN | ROUTE_QUICK},
    {"GET", "/attention-frame", page_get, ROUTE_OPEN | ROUTE_QUICK},
    {"POST", "/v1/chat/completions", api_chat, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/chat/completions", api_chat, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/v1/completions", api_completions, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/completions", api_completions, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/v1/responses", api_responses, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/v1/embeddings", api_embeddings, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/embeddings", api_embeddings, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/v1/rerank", api_rerank, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/v2/rerank", api_rerank, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/rerank", api_rerank, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/v1/messages", api_messages, ROUTE_JSON | ROUTE_MODEL | ROUTE_ANTHROPIC},
    {"POST", "/v1/messages/count_tokens", api_count_tokens, ROUTE_JSON | ROUTE_MODEL | ROUTE_ANTHROPIC},
    {"POST", "/completion", api_completion, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/infill", api_infill, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/tokenize", api_tokenize, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/detokenize", api_detokenize, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/apply-template", api_apply_template, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/score", api_score, ROUTE_JSON | ROUTE_MODEL},
    {"POST", "/attention", api_attention, ROUTE_JSON | ROUTE_MODEL},
    {"GET", "/props", api_props, ROUTE_QUICK},
    {NULL, NULL, NULL, 0},
};
