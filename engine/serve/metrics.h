/* metrics.h: what /metrics tells, in Prometheus' text format. Any thread may add to it. */
#ifndef ENGINE_SERVE_METRICS_H
#define ENGINE_SERVE_METRICS_H

#include <stddef.h>
#include <stdint.h>

struct exchange;
struct metrics;
struct server;

/* NULL: out of memory. */
struct metrics *metrics_create(void);
void metrics_destroy(struct metrics *metrics);

void metrics_exchange(struct metrics *metrics, const struct exchange *exchange);
void metrics_first_token(struct metrics *metrics, double seconds);
void metrics_between_tokens(struct metrics *metrics, double seconds);
void metrics_tokens(struct metrics *metrics, uint64_t n_prompt, uint64_t n_reused, uint64_t n_generated);

/* All of it as text, for the caller to free; NULL: out of memory. */
char *metrics_text(struct server *server, size_t *size);

#endif
