/* batch-result.c: the results of `engine batch`: made from the events of a line's request, and written in the
 * order of the input. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/batch.h"
#include "io/json.h"
#include "io/messages.h"
#include "prompts/results.h"

static void set(json_t *object, const char *name, json_t *value)
{
    /* out of memory: noticed when it is written */
    if (object && json_object_set_new(object, name, value) != 0) json_object_clear(object);
}

static json_t *begin_result(const struct job *job)
{
    json_t *result = json_object();
    set(result, "index", json_count(job->index));
    if (job->id) json_object_set(result, "id", job->id);
    return result;
}

static void end_result(struct job *job, json_t *result)
{
    char key[17];
    snprintf(key, sizeof key, "%016" PRIx64, job->key);
    set(result, "key", json_string(key));
    job->result = result;
    if (!result) job->batch->status = command_error(ENGINE_ERROR_MEMORY, "out of memory (a result)");
}

void job_finish_with_error(struct job *job, const char *message)
{
    json_t *result = begin_result(job);
    set(result, "error", json_line(message));
    end_result(job, result);
}

static const char *reason_name(uint32_t reason)
{
    switch (reason) {
    case ENGINE_DONE_END:
    case ENGINE_DONE_STOP: return "stop";
    case ENGINE_DONE_LIMIT: return "length";
    default: return "context";
    }
}

static void finish(struct job *job, const struct engine_event *event)
{
    json_t *result = begin_result(job);
    if (job->batch->vocabulary.api) set(result, "text", json_buffer(&job->text));
    if (job->batch->arguments->ids && !job->searches) {
        json_t *ids = json_array();
        for (size_t i = 0; i < job->tokens.count; i++)
            json_array_append_new(ids, json_integer(job->tokens.ids[i]));
        set(result, "tokens", ids);
    }
    if (job->logprobs) set(result, "logprobs", json_incref(job->logprobs));
    if (job->searches)
        set(result, "beams",
            beam_results_json(event, job->batch->arguments->ids, "finish_reason", reason_name));
    set(result, "finish_reason", json_string(reason_name(event->reason)));
    if (event->incomplete) set(result, "incomplete", json_true());
    set(result, "prompt_tokens", json_count(event->n_prompt));
    set(result, "text_tokens", json_count(event->n_generated));
    if (job->sampler.temperature > 0) set(result, "seed", json_seed(job->sampler.seed));
    end_result(job, result);
    job->batch->n_tokens += event->n_generated;
}

void job_take_event(void *user, const struct engine_event *event)
{
    struct job *job = user;
    struct batch *b = job->batch;
    int status = text_add(&job->text, &event->text);
    if (!status && event->kind == ENGINE_EVENT_TOKEN && b->arguments->ids)
        status = token_list_add(&job->tokens, &event->token, 1);
    if (!status && event->kind == ENGINE_EVENT_TOKEN && job->logprobs &&
        json_array_append_new(job->logprobs, logprobs_json(b->model, event)) != 0)
        status = command_error(ENGINE_ERROR_MEMORY, "out of memory (probabilities)");
    if (status) b->status = status;
    if (b->status || interrupted) engine_queue_stop(b->queue, 1);
    if (event->kind != ENGINE_EVENT_DONE || event->reason == ENGINE_DONE_CANCELLED) return;
    if (event->reason != ENGINE_DONE_FAILED)
        finish(job, event);
    else if (event->status == ENGINE_ERROR_DATA)
        job_finish_with_error(job, event->message);
    else if (!b->status)
        b->status = command_error(event->status, "%s", event->message);
}

void batch_drop_first(struct batch *b)
{
    struct job *job = b->first;
    b->first = job->next;
    if (!b->first) b->last = NULL;
    b->n_jobs--;
    json_decref(job->result);
    json_decref(job->id);
    json_decref(job->logprobs);
    free(job->tokens.ids);
    free(job->text.data);
    free(job);
}

void batch_write_results(struct batch *b)
{
    struct job *job;
    while (!b->status && (job = b->first) && job->result) {
        if (json_object_get(job->result, "error")) b->n_bad++;
        char *text = json_dumps(job->result, JSON_REAL_PRECISION(7));
        if (!text || !json_object_get(job->result, "key"))
            b->status = command_error(ENGINE_ERROR_MEMORY, "out of memory (a result)");
        /* One write for each line, so that a kill leaves whole lines and at most one torn one. */
        else if (fprintf(b->out, "%s\n", text) < 0 || fflush(b->out) != 0)
            b->status = command_error(ENGINE_ERROR, "%s: %s", b->out_path ? b->out_path : "standard output",
                                      strerror(errno));
        free(text);
        b->n_written++;
        batch_drop_first(b);
    }
}
