/* api.h: the handlers of the routes, for routes.c, and the JSON of requests to their parameters, for those
 * who test it apart from HTTP. docs/server-api.md describes what the APIs take and give. */
#ifndef ENGINE_SERVE_API_API_H
#define ENGINE_SERVE_API_API_H

#include "serve/http/http.h"
#include "serve/params/params.h"

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
void api_health(struct exchange *exchange);  /* GET /health */
void api_metrics(struct exchange *exchange); /* GET /metrics */
void api_models(struct exchange *exchange);  /* GET /v1/models */
void api_model(struct exchange *exchange);   /* GET /v1/models/NAME */
void api_props(struct exchange *exchange);   /* GET /props */

/* ---- From JSON to parameters. Each returns false with an error ---- */

struct served;

bool chat_read(struct params *params, json_t *body, struct api_error *error);
/* Prompts are encoded by the model's tokenizer, and its FIM tokens are used. */
bool completions_read(struct params *params, const struct served *served, json_t *body,
                      struct api_error *error);
bool infill_read(struct params *params, const struct served *served, json_t *body, struct api_error *error);
bool completion_read(struct params *params, const struct served *served, json_t *body,
                     struct api_error *error);
/* Items of the Responses API become chat's messages and tools; *made, to be kept as long as the parameters,
 * holds them. */
bool responses_read(struct params *params, json_t *body, json_t **made, struct api_error *error);
bool messages_read(struct params *params, json_t *body, json_t **made, struct api_error *error);

#endif
