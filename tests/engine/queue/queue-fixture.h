/* queue-fixture.h: a small random model, a context and a queue for the tests of queues. */
#ifndef TESTS_QUEUE_FIXTURE_H
#define TESTS_QUEUE_FIXTURE_H

#include "engine.h"
#include "queue-requests.h"

#define N_VOCAB   320
#define N_CONTEXT 128
#define N_SAMPLES 64

extern struct engine *engine;
extern struct engine_model *model;
extern struct engine_context *alone; /* for results without the queue */
extern struct engine_context *context;
extern struct engine_queue *queue;
extern const char *more_plugins; /* a folder of them; NULL: none */
extern uint32_t n_batch;         /* of contexts opened from now on */
extern struct sample samples[N_SAMPLES];

/* Opens the engine with the text of an engine.conf, and a model with matrices of a type, or of Q8_0. */
void open_model_of(const char *settings, uint32_t type);
void open_model(const char *settings);

/* n_cache: positions of all sequences together; 0: enough for all. */
struct engine_context *open_context(uint32_t n_sequences, uint32_t n_cache, const char *backends);
void open_queue(uint32_t n_sequences, uint32_t n_cache, const struct engine_queue_options *options);

/* For .init: the model and the context `alone`. For .fini: closes everything that is open. */
void begin_queue(void);
void end_queue(void);

/* The first n samples, with their results alone. */
void create_samples(uint32_t n, uint32_t longest, uint32_t most);
void forget_results(uint32_t n);
/* Gives a sample one of three priorities, and take_and_cancel as callback, which cancels some after their
 * first tokens. */
void vary_sample(uint32_t i);
void take_and_cancel(void *user, const struct engine_event *event);
uint64_t submit(struct sample *sample);
void run(enum engine_queue_until until);
struct engine_queue_info info_of_queue(void);
/* The first n samples got what they get alone. */
void expect_agreement(uint32_t n);

#endif
