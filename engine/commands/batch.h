/* batch.h: what the parts of `engine batch` share: the lines of its input, the batch, and a job for each line
 * whose result has not been written. batch-input.c reads lines; batch.c runs them, writes results, and
 * resumes after an earlier run. */
#ifndef ENGINE_COMMANDS_BATCH_H
#define ENGINE_COMMANDS_BATCH_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine.h"
#include "io/files.h"
#include "options/arguments.h"
#include "options/open.h"
#include "options/sampling.h"
#include "prompts/prompt.h"
#include "prompts/reasoning.h"
#include "prompts/text-options.h"

/* ---- batch-input.c: lines of a file, with any bytes in them ---- */

#define MAX_LINE ((size_t)64 << 20) /* bytes of a line */

/* A line, at most MAX_LINE bytes of it. Zeroed before the first one; the caller frees the text. */
struct line {
    char *text; /* [length], and a NUL; NULL: nothing has been read yet */
    size_t length, capacity;
    bool whole;    /* ends with a newline */
    bool too_long; /* text is only its beginning */
    uint64_t hash; /* of the whole line, without the newline (io/files.h) */
};

/* Reads the next line. False at the end of the file, or after a failure, which *status then says. */
bool line_read(FILE *file, struct line *line, int *status);

/* Whether a line has nothing but spaces. */
bool line_is_blank(const struct line *line);

/* ---- batch-input.c: what a line asks for: JSON, checked ---- */

struct batch_line {
    json_t *id; /* as given, or NULL */
    /* One of the two: */
    char *prompt; /* [prompt_size] */
    size_t prompt_size;
    int32_t *tokens; /* [n_tokens] */
    size_t n_tokens;
    struct text_options options;
    struct beam_options beams;
    const char *of_beams; /* a key of the line that needs beams; NULL: there is none */
    json_t *root;         /* what the texts above lie in; NULL: there are none */
};

/* Reads a line over the defaults that *line holds. False: *error says why, in one line; the id is there even
 * so if it could be read. batch_line_free in either case. */
bool batch_line_read(const char *text, size_t length, struct batch_line *line, char error[256]);
void batch_line_free(struct batch_line *line);

/* ---- The batch ---- */

struct batch;

/* A line of the input whose result has not been written yet. */
struct job {
    struct batch *batch;
    struct job *next;
    uint64_t index, key;
    json_t *id; /* NULL: none */
    struct engine_sampler_options sampler;
    struct token_list tokens; /* generated, with --ids */
    json_t *logprobs;         /* an array; NULL: not wanted */
    bool searches;            /* with beams */
    struct text_buffer text;
    json_t *result; /* NULL: not finished */
};

struct batch {
    const struct arguments *arguments;
    const char *in_path, *out_path; /* out_path NULL: standard output */
    FILE *in, *out;
    struct engine *engine;
    struct engine_model *model;
    struct vocabulary vocabulary;
    struct sampling sampling;
    struct beam_options beams;                     /* --beams and so on */
    struct text_list stop;                         /* --stop */
    struct constraint constraint, last_constraint; /* the command's, and that of the last line with its own */
    struct engine_grammar *grammar, *last_grammar; /* NULL: none */
    struct engine_context *context;
    uint32_t n_sequences; /* of the context */
    uint32_t n_longest;   /* positions of a text on any machine */
    uint32_t n_fitting;   /* if memory limits them here; 0: it doesn't */
    struct draft_model draft;
    struct engine_queue *queue;
    struct reasoning_limit reasoning; /* --reasoning-budget */
    uint64_t seed, fingerprint;       /* of the model and of the options that affect results */
    struct line line;
    struct job *first, *last; /* in the order of the input */
    size_t n_jobs, n_jobs_most;
    uint64_t n_read, n_total;           /* lines of the input that are not blank; n_total 0: not known */
    uint64_t n_written, n_found, n_bad; /* results: in total, from an earlier run, with errors */
    uint64_t n_tokens;
    bool told_of_bos; /* warn_of_bos, once for all lines */
    bool begun;       /* the first line of the input has been read */
    bool ended;       /* the input has no more lines */
    int status;
};

/* ---- batch.c ---- */

/* Makes the next line of the input that isn't blank the current one; false at the end, or after a failure
 * (status). */
bool batch_next_line(struct batch *b);

/* What the context is to be like. */
void batch_context_options(const struct batch *b, struct engine_context_options *wish, int32_t *offload);

/* ---- batch.c: results ---- */

/* The `event` of a job's request. A line's own failure is its result; a failure of the machine ends the
 * batch, which can be resumed later. */
void job_take_event(void *job, const struct engine_event *event);

/* Makes a message the job's result. */
void job_finish_with_error(struct job *job, const char *message);

/* Writes the results that are finished and whose turn it is, and frees their jobs. */
void batch_write_results(struct batch *b);

/* Takes the first job from the list and frees it. */
void batch_drop_first(struct batch *b);

/* ---- batch.c: resuming ---- */

/* Sets the fingerprint. Needs all that was read from the command line, and the model. */
int batch_take_fingerprint(struct batch *b);

/* A result belongs to its line, to the model and to the options: the key of the current line identifies
 * these. */
uint64_t batch_key(const struct batch *b);

/* Opens the output, and reads the results of an earlier run there along with the input. */
int batch_open_output(struct batch *b);

#endif
