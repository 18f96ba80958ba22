/* answers.h: prompts with the answers that `engine score` compares, from the command line or from a file of
 * JSON lines, as tokens. */
#ifndef ENGINE_PROMPTS_ANSWERS_H
#define ENGINE_PROMPTS_ANSWERS_H

#include <jansson.h>
#include <stdbool.h>

#include "engine.h"
#include "options/arguments.h"
#include "prompts/prompt.h"

/* A token of an answer, scored. */
struct scored_token {
    int32_t id;
    float logprob;
    json_t *top; /* the most likely tokens, with --logprobs; else NULL */
};

struct answer {
    char *text;                  /* as given, or what its tokens spell; NUL-terminated */
    size_t n_bytes;              /* of the text */
    struct token_list ids;       /* the prompt's tokens, then its own */
    struct scored_token *tokens; /* [n_tokens] its own; room for all, [n_scored] are set */
    size_t n_tokens, n_scored;
    bool done;
    double logprob, probability; /* see question_finish */
};

/* A prompt and its answers. */
struct question {
    json_t *id;                   /* as in the file; NULL: none */
    char *prompt;                 /* NULL: given as tokens */
    size_t prompt_size, n_prompt; /* bytes, tokens */
    uint64_t line;                /* of -f, from 1; 0: from the command line */
    struct answer *answers;       /* [n_answers] */
    size_t n_answers, n_done;
};

struct questions {
    struct question *items; /* [count] */
    size_t count, capacity;
    size_t n_longest;  /* tokens of the longest prompt with its answer */
    size_t n_requests; /* answers in all */
};

/* Reads what the options ask for: -p or --tokens-file with --answer and --answer-tokens-file, or the lines of
 * -f. questions_free in either case. Returns an enum engine_status, with command_error's message. */
int questions_read(const struct arguments *arguments, struct engine_model *model,
                   struct questions *questions);
/* Reads one from a JSON object, as a line of -f has it. questions_free in either case. */
int question_read(const struct arguments *arguments, struct engine_model *model, json_t *object,
                  struct questions *questions);
void questions_free(struct questions *questions);

/* Once all answers are scored: the sum of each answer's log-probabilities, and the softmax of these sums over
 * the answers, which is NAN if no answer is possible. */
void question_finish(struct question *question);
/* A finished question with its answers, as `engine score --json` prints it; a new reference. */
json_t *question_json(struct engine_model *model, const struct question *question);

#endif
