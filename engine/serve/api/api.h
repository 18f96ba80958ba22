/* api.h: the handlers of the APIs' routes, for routes.c. docs/server-api.md describes what they take and give. */
#ifndef ENGINE_SERVE_API_API_H
#define ENGINE_SERVE_API_API_H

#include "serve/http/exchange.h"

/* OpenAI's. With ROUTE_JSON | ROUTE_MODEL: */
void api_chat(struct exchange *exchange);        /* POST /v1/chat/completions */
void api_completions(struct exchange *exchange); /* POST /v1/completions */
void api_responses(struct exchange *exchange);   /* POST /v1/responses */
void api_embeddings(struct exchange *exchange);  /* POST /v1/embeddings */
void api_rerank(struct exchange *exchange);      /* POST /v1/rerank */
/* Anthropic's, with ROUTE_ANTHROPIC too. */
void api_messages(struct exchange *exchange);     /* POST /v1/messages */
void api_count_tokens(struct exchange *exchange); /* POST /v1/messages/count_tokens */

/* Of llama.cpp's server, and our own. With ROUTE_JSON | ROUTE_MODEL: */
void api_infill(struct exchange *exchange);         /* POST /infill */
void api_completion(struct exchange *exchange);     /* POST /completion */
void api_tokenize(struct exchange *exchange);       /* POST /tokenize */
void api_detokenize(struct exchange *exchange);     /* POST /detokenize */
void api_apply_template(struct exchange *exchange); /* POST /apply-template */
void api_score(struct exchange *exchange);          /* POST /score */
void api_attention(struct exchange *exchange);      /* POST /attention */

/* With ROUTE_QUICK: */
void api_props(struct exchange *exchange); /* GET /props */

#endif
