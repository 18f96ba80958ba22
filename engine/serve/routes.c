/* routes.c: the table of all requests. See routes.h. */
#include "serve/routes.h"

#include "serve/about.h"
#include "serve/api/api.h"
#include "serve/page.h"

const struct route all_routes[] = {
    {"GET", "/health", about_health, ROUTE_OPEN | ROUTE_QUICK},
    {"GET", "/v1/health", about_health, ROUTE_OPEN | ROUTE_QUICK},
    {"GET", "/metrics", about_metrics, ROUTE_QUICK},
    {"GET", "/models", about_models, ROUTE_QUICK},
    {"GET", "/v1/models", about_models, ROUTE_QUICK},
    {"GET", "/models/*", about_model, ROUTE_QUICK},
    {"GET", "/v1/models/*", about_model, ROUTE_QUICK},
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
