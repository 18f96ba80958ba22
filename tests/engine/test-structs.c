/* test-structs.c: every function of engine.h that takes a struct which begins with its size refuses one whose
 * size was forgotten, or ends within the fields of the first version, and takes one of a later version. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "files.h"
#include "gguf-writer.h"

static char *folder;
static struct engine *engine;
static struct engine_model *model;
static struct engine_context *context;
static struct engine_queue *queue;

static void begin(void)
{
    folder = files_folder();
    files_write_text(files_path(folder, "engine.conf"), "");
}

static void end(void)
{
    engine_queue_destroy(queue);
    engine_context_destroy(context);
    engine_model_close(model);
    engine_close(engine);
    files_remove(folder);
    free(folder);
}

TestSuite(structs, .init = begin, .fini = end);

static int write_nowhere(void *user, const void *data, size_t size)
{
    (void)user, (void)data, (void)size;
    return ENGINE_OK;
}

static void no_row(void *user, const struct engine_check_row *row)
{
    (void)user, (void)row;
}

/* What lies after the struct as it is today: the fields of a later version. Nothing is written there. */
#define LATER 64

union any {
    size_t struct_size;
    struct engine_options engine;
    struct engine_check_options check;
    struct engine_checked_plugin checked;
    struct engine_model_info model;
    struct engine_verify_options verify;
    struct engine_verified verified;
    struct engine_quantize_options quantize;
    struct engine_context_options context;
    struct engine_context_info info;
    struct engine_plan_phase phase;
    struct engine_plan_share share;
    struct engine_batch batch;
    struct engine_grammar_options grammar;
    struct engine_sampler_options sampler;
    struct engine_queue_options queue;
    struct engine_queue_info queue_info;
    struct engine_request request;
};

struct storage {
    union any any;
    unsigned char later[LATER];
};

static int call_open(union any *any)
{
    static const char *dirs[] = {TEST_PLUGIN_DIR, NULL};
    any->engine.plugin_dirs = dirs;
    any->engine.config_file = files_path(folder, "engine.conf");
    return engine_open(&any->engine, &engine);
}

static int call_check(union any *any)
{
    struct engine_checked_plugin plugin = {.struct_size = sizeof plugin};
    any->check.row = no_row;
    return engine_check_plugin(TEST_PLUGIN_DIR "/rwkv.so", &any->check, &plugin);
}

static int call_checked(union any *any)
{
    struct engine_check_options options = {.struct_size = sizeof options, .row = no_row};
    return engine_check_plugin(TEST_PLUGIN_DIR "/rwkv.so", &options, &any->checked);
}

static int call_model_info(union any *any)
{
    return engine_model_get_info(model, &any->model);
}

/* Both come to a file that is not there. */
static int call_verify(union any *any)
{
    int status = engine_model_verify("/nowhere", NULL, &any->verify, NULL);
    return status == ENGINE_ERROR ? ENGINE_OK : status;
}

static int call_verified(union any *any)
{
    int status = engine_model_verify("/nowhere", NULL, NULL, &any->verified);
    return status == ENGINE_ERROR ? ENGINE_OK : status;
}

static int call_quantize(union any *any)
{
    any->quantize.type = "Q8_0";
    any->quantize.write = write_nowhere;
    return engine_model_quantize(model, &any->quantize);
}

static int call_plan(union any *any)
{
    struct engine_plan *plan = NULL;
    int status = engine_plan_create(model, &any->context, &plan);
    engine_plan_destroy(plan);
    return status;
}

static int call_length(union any *any)
{
    uint32_t n_context;
    return engine_context_length(model, &any->context, &n_context);
}

static int call_context(union any *any)
{
    struct engine_context *created = NULL;
    int status = engine_context_create(model, &any->context, &created);
    engine_context_destroy(created);
    return status;
}

static int call_context_info(union any *any)
{
    return engine_context_get_info(context, &any->info);
}

static int call_phase(union any *any)
{
    return engine_plan_get_phase(engine_context_plan(context), ENGINE_DECODE, &any->phase);
}

static int call_share(union any *any)
{
    return engine_plan_get_share(engine_context_plan(context), ENGINE_DECODE, 0, &any->share);
}

static int call_decode(union any *any)
{
    static const int32_t token = 1;
    any->batch.n_tokens = 1;
    any->batch.tokens = &token;
    return engine_decode(context, &any->batch, NULL);
}

static int call_grammar(union any *any)
{
    struct engine_grammar *grammar = NULL;
    any->grammar.kind = ENGINE_GRAMMAR_GBNF;
    any->grammar.text = "root ::= [a-z]*";
    any->grammar.length = strlen(any->grammar.text);
    int status = engine_grammar_create_with(model, &any->grammar, &grammar);
    engine_grammar_destroy(grammar);
    return status;
}

static int call_sampler(union any *any)
{
    struct engine_sampler *sampler = NULL;
    int status = engine_sampler_create(&any->sampler, 8, &sampler);
    engine_sampler_destroy(sampler);
    return status;
}

static int call_queue(union any *any)
{
    struct engine_queue *created = NULL;
    engine_sequence_truncate(context, 0, 0);
    int status = engine_queue_create(context, &any->queue, &created);
    engine_queue_destroy(created);
    return status;
}

static int call_queue_info(union any *any)
{
    return engine_queue_get_info(queue, &any->queue_info);
}

static int call_request(union any *any)
{
    static const int32_t token = 1;
    any->request.tokens = &token;
    any->request.n_tokens = 1;
    any->request.flags = ENGINE_REQUEST_NO_TEXT;
    return engine_queue_submit(queue, &any->request, NULL);
}

/* The options of a sampler within a request have a size of their own. */
static int call_request_sampler(union any *any)
{
    static const int32_t token = 1;
    struct engine_request request = {.struct_size = sizeof request,
                                     .tokens = &token,
                                     .n_tokens = 1,
                                     .flags = ENGINE_REQUEST_NO_TEXT,
                                     .sampler = &any->sampler};
    return engine_queue_submit(queue, &request, NULL);
}

/* `first` is where the fields of the first version end: it stays when others are appended. */
#define FIRST(type, last)                                                                                    \
#type, offsetof(struct type, last) + sizeof(((struct type *)NULL)->last), sizeof(struct type)
static const struct row {
    const char *function;
    const char *type;
    size_t first, size;
    int (*call)(union any *any);
    bool without_engine; /* must be called before an engine is open */
} rows[] = {
    {"engine_check_plugin", FIRST(engine_check_options, user), call_check, true},
    {"engine_check_plugin", FIRST(engine_checked_plugin, n_devices), call_checked, true},
    {"engine_open", FIRST(engine_options, user), call_open, true},
    {"engine_model_get_info", FIRST(engine_model_info, n_parameters), call_model_info, false},
    {"engine_model_verify", FIRST(engine_verify_options, user), call_verify, false},
    {"engine_model_verify", FIRST(engine_verified, n_bytes), call_verified, false},
    {"engine_model_quantize", FIRST(engine_quantize_options, user), call_quantize, false},
    {"engine_plan_create", FIRST(engine_context_options, user), call_plan, false},
    {"engine_context_length", FIRST(engine_context_options, user), call_length, false},
    {"engine_context_create", FIRST(engine_context_options, user), call_context, false},
    {"engine_context_get_info", FIRST(engine_context_info, n_threads), call_context_info, false},
    {"engine_plan_get_phase", FIRST(engine_plan_phase, seconds), call_phase, false},
    {"engine_plan_get_share", FIRST(engine_plan_share, message_bytes), call_share, false},
    {"engine_decode", FIRST(engine_batch, wanted), call_decode, false},
    {"engine_grammar_create_with", FIRST(engine_grammar_options, user), call_grammar, false},
    {"engine_sampler_create", FIRST(engine_sampler_options, seed), call_sampler, false},
    {"engine_queue_create", FIRST(engine_queue_options, n_chunk), call_queue, false},
    {"engine_queue_get_info", FIRST(engine_queue_info, n_generated), call_queue_info, false},
    {"engine_queue_submit", FIRST(engine_request, user), call_request, false},
    {"engine_queue_submit", FIRST(engine_sampler_options, seed), call_request_sampler, false},
};

static int call_with(const struct row *row, size_t size, struct storage *storage)
{
    memset(storage, 0, sizeof *storage);
    memset((char *)storage + row->size, 0xa5, sizeof *storage - row->size);
    storage->any.struct_size = size;
    return row->call(&storage->any);
}

static void refused(const struct row *row, size_t size)
{
    struct storage storage;
    cr_assert_eq(call_with(row, size, &storage), ENGINE_ERROR_ARGUMENT, "%s with a %s of %zu bytes",
                 row->function, row->type, size);
    const char *message = engine_error_message();
    cr_assert(strstr(message, row->type) && strstr(message, "struct_size"), "%s with a %s of %zu bytes: %s",
              row->function, row->type, size, message);
}

static void try_row(const struct row *row)
{
    struct storage storage;
    refused(row, 0);
    refused(row, sizeof(size_t));
    refused(row, row->first - 1);
    cr_assert_eq(call_with(row, row->size + LATER, &storage), ENGINE_OK, "%s with a later %s: %s",
                 row->function, row->type, engine_error_message());
    for (size_t i = row->size; i < row->size + LATER; i++)
        cr_assert_eq(((unsigned char *)&storage)[i], 0xa5, "%s wrote past the %s that it knows",
                     row->function, row->type);
}

static void open_context(void)
{
    const char *path = files_path(folder, "model.gguf");
    cr_assert(write_tiny_llama(path, &(struct tiny_llama){.seed = 1}));
    cr_assert_eq(engine_model_open(engine, path, NULL, &model), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_context_create(model, NULL, &context), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_queue_create(context, NULL, &queue), ENGINE_OK, "%s", engine_error_message());
}

Test(structs, a_forgotten_size_is_refused)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!rows[i].without_engine && !context) open_context();
        try_row(&rows[i]);
    }
}

/* What has run is told by the length of the sequence: nothing. */
Test(structs, a_batch_without_its_size_runs_nothing)
{
    static const int32_t tokens[] = {1, 2, 3};
    struct engine_batch batch = {.n_tokens = 3, .tokens = tokens};
    struct storage options;
    cr_assert_eq(call_with(&rows[2], sizeof(struct engine_options), &options), ENGINE_OK, "%s",
                 engine_error_message());
    open_context();
    cr_assert_eq(engine_decode(context, &batch, NULL), ENGINE_ERROR_ARGUMENT);
    cr_assert_eq(engine_sequence_length(context, 0), 0);
    batch.struct_size = sizeof batch;
    cr_assert_eq(engine_decode(context, &batch, NULL), ENGINE_OK, "%s", engine_error_message());
    cr_assert_eq(engine_sequence_length(context, 0), 3);
}
