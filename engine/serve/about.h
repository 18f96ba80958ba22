/* about.h: what the server tells about itself: /health, /metrics, /v1/models. */
#ifndef ENGINE_SERVE_ABOUT_H
#define ENGINE_SERVE_ABOUT_H

#include "serve/http/exchange.h"

void about_health(struct exchange *exchange);
void about_metrics(struct exchange *exchange);
void about_models(struct exchange *exchange);
void about_model(struct exchange *exchange); /* /v1/models/NAME */

#endif
