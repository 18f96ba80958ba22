/* guesses.c: see guesses.h. */
#include "commands/guesses.h"

#include "commands/common.h"

bool wants_guesses(const struct arguments *arguments)
{
    return arguments->lookup || arguments->draft;
}

int guesses_check(const struct arguments *arguments)
{
    if (!wants_guesses(arguments) && (arguments->draft_min || arguments->draft_max))
        return command_error(ENGINE_ERROR_ARGUMENT, "--draft-min and --draft-max need --lookup or --draft");
    if (arguments->draft_max && arguments->draft_min > arguments->draft_max)
        return command_error(ENGINE_ERROR_ARGUMENT, "--draft-min %u is above --draft-max %u",
                             arguments->draft_min, arguments->draft_max);
    return ENGINE_OK;
}

int guesses_open(const struct arguments *arguments, struct engine *engine,
                 const struct engine_context_options *options, struct draft_model *draft,
                 struct engine_queue_options *queue)
{
    queue->lookup = arguments->lookup;
    queue->n_guess_least = arguments->draft_min;
    queue->n_guess_most = arguments->draft_max;
    if (!arguments->draft) return ENGINE_OK;
    int status = open_model_file(arguments, engine, arguments->draft, NULL, &draft->model);
    if (!status) status = engine_context_create(draft->model, options, &draft->context);
    queue->draft = draft->context;
    return status;
}

void guesses_close(struct draft_model *draft)
{
    engine_context_destroy(draft->context);
    engine_model_close(draft->model);
}
