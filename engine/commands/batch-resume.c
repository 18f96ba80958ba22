/* batch-resume.c: how `engine batch` goes on after an earlier run: results that are in the output already are
 * recognised by their keys, and a torn last line is cut off. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/batch.h"
#include "common/json-read.h"
#include "io/files.h"
#include "io/messages.h"
#include "io/output.h"
#include "options/options.h"

uint64_t batch_key(const struct batch *b)
{
    return hash_bytes(b->fingerprint, &b->line.hash, sizeof b->line.hash);
}

static void hash_more(void *user, const void *bytes, size_t size)
{
    struct batch *b = user;
    b->fingerprint = hash_bytes(b->fingerprint, bytes, size);
}

/* What the model's metadata was told to be instead. */
static void hash_overrides(struct batch *b)
{
    const struct arguments *a = b->arguments;
    const float rope[] = {a->rope_scale,           a->rope_freq_base,  a->rope_freq_scale,
                          (float)a->yarn_orig_ctx, a->yarn_ext_factor, a->yarn_attn_factor,
                          a->yarn_beta_slow,       a->yarn_beta_fast};
    bool is_given = a->yarn_ext_factor_given;
    for (size_t i = 0; i < sizeof rope / sizeof *rope; i++) is_given |= rope[i] > 0;
    if (is_given) hash_more(b, rope, sizeof rope);
    if (a->rope_scaling) hash_more(b, a->rope_scaling, strlen(a->rope_scaling));
    for (size_t i = 0; i < a->override_kv.count; i++)
        hash_more(b, a->override_kv.items[i], strlen(a->override_kv.items[i]) + 1);
}

int batch_take_fingerprint(struct batch *b)
{
    const struct arguments *a = b->arguments;
    struct engine_model_info model = {.struct_size = sizeof model};
    char text[1024];
    struct engine_context_options wish;
    int32_t offload;
    uint32_t n_context;
    batch_context_options(b, &wish, &offload);
    int status = engine_context_length(b->model, &wish, &n_context);
    if (status) return status;
    const struct engine_sampler_options *o = &b->sampling.options;
    engine_model_get_info(b->model, &model);
    int n = snprintf(text, sizeof text,
                     "%s|%.200s|%" PRIu64 "|%" PRIu64 "|%u|%d|%g|%u|%g|%g|%g|%g|%g|%g|%u|%" PRIu64
                     "|%u|%s|%d|%d|%d",
                     model.architecture, model.name, model.file_size, model.n_parameters, a->n_predict,
                     a->n_predict_given, (double)o->temperature, o->top_k, (double)o->top_p, (double)o->min_p,
                     (double)o->typical_p, (double)o->penalty_repeat, (double)o->penalty_frequency,
                     (double)o->penalty_presence, o->penalty_last_n, b->seed, n_context,
                     a->cache_type ? a->cache_type : "", a->special, a->ids, a->ignore_end);
    b->fingerprint = hash_bytes(HASH_BASIS, text, (size_t)n < sizeof text ? (size_t)n : sizeof text);
    sampling_hash(&b->sampling, hash_more, b);
    if (a->load_type) hash_more(b, a->load_type, strlen(a->load_type));
    hash_overrides(b);
    if (b->arguments->n_logprobs > 0)
        hash_more(b, &b->arguments->n_logprobs, sizeof b->arguments->n_logprobs);
    if (a->reasoning_budget < UINT32_MAX) hash_more(b, &a->reasoning_budget, sizeof a->reasoning_budget);
    if (wants_beams(a)) hash_more(b, &b->beams, sizeof b->beams);
    for (size_t i = 0; i < b->stop.count; i++) {
        hash_more(b, "|stop", 5);
        hash_more(b, b->stop.items[i].data, b->stop.items[i].length);
    }
    if (b->constraint.kind) {
        hash_more(b, &b->constraint.kind, sizeof b->constraint.kind);
        hash_more(b, b->constraint.text, b->constraint.size);
    }
    status = hash_file(path_of_model(a, b->engine), &b->fingerprint);
    if (!status && a->tokenizer) status = hash_file(a->tokenizer, &b->fingerprint);
    return status ? status : hash_adapters(a, &b->fingerprint);
}

static int foreign(const struct batch *b, uint64_t number)
{
    return command_error(ENGINE_ERROR_ARGUMENT,
                         "%s: line %" PRIu64
                         " is not the result of that line of %s with this model and these "
                         "options; give the output another name, or begin anew with --restart",
                         b->out_path, number + 1, b->in_path);
}

/* Whether a line of the output is the result of the current line of the input. */
static bool belongs(struct batch *b, const struct line *result)
{
    char key[17];
    json_t *json = json_read(result->text ? result->text : "", result->length, JSON_ALLOW_NUL, NULL);
    snprintf(key, sizeof key, "%016" PRIx64, batch_key(b));
    const char *theirs = json_string_value(json_object_get(json, "key"));
    const json_t *index = json_object_get(json, "index");
    bool same = theirs && strcmp(theirs, key) == 0 && json_is_integer(index) &&
                (uint64_t)json_integer_value(index) == b->n_read;
    if (same && json_object_get(json, "error")) b->n_bad++;
    json_decref(json);
    return same;
}

/* Whether an incomplete last line looks like a result; otherwise it belongs to something else. */
static bool is_torn(const struct batch *b, const struct line *result)
{
    char begin[64];
    size_t n = (size_t)snprintf(begin, sizeof begin, "{\"index\": %" PRIu64 ", ", b->n_read);
    return memcmp(result->text, begin, result->length < n ? result->length : n) == 0;
}

/* Reads the results of an earlier run along with the input, and cuts off a torn last line. */
static int go_on(struct batch *b)
{
    struct line result = {0};
    FILE *file = fdopen(dup(fileno(b->out)), "rb");
    off_t good = 0;
    if (!file) return command_error(ENGINE_ERROR, "%s: %s", b->out_path, strerror(errno));
    while (!b->status && line_read(file, &result, &b->status) && !b->status && result.whole) {
        if (!batch_next_line(b) || !belongs(b, &result)) {
            if (!b->status) b->status = foreign(b, b->n_read);
            break;
        }
        b->n_read++;
        b->n_written++;
        b->n_found++;
        good = ftello(file);
    }
    if (!b->status && result.length > 0 && !result.whole && !is_torn(b, &result))
        b->status = foreign(b, b->n_read);
    fclose(file);
    free(result.text);
    if (!b->status && (ftruncate(fileno(b->out), good) != 0 || fseeko(b->out, good, SEEK_SET) != 0))
        b->status = command_error(ENGINE_ERROR, "%s: %s", b->out_path, strerror(errno));
    return b->status;
}

int batch_open_output(struct batch *b)
{
    const struct arguments *a = b->arguments;
    const char *inputs[] = {b->in_path, path_of_model(a, b->engine), a->draft, a->tokenizer};
    if (!b->out_path) {
        b->out = stdout;
        return ENGINE_OK;
    }
    int status = output_check(b->out_path, b->engine, inputs, sizeof inputs / sizeof *inputs);
    if (!status) status = check_not_adapter(b->out_path, b->engine, a);
    if (status) return status;
    /* A pipe that is open for reading too would take results with nobody to read them. */
    struct stat info;
    bool is_file = stat(b->out_path, &info) != 0 || S_ISREG(info.st_mode);
    int file = open(b->out_path, (is_file ? O_RDWR | O_CREAT : O_WRONLY) | O_CLOEXEC, 0666);
    if (file < 0 || fstat(file, &info) != 0 || !(b->out = fdopen(file, is_file ? "r+b" : "wb")))
        return command_error(ENGINE_ERROR, "%s: %s", b->out_path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return ENGINE_OK;
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return command_error(ENGINE_ERROR, "%s: another engine is writing it", b->out_path);
    if (!a->restart) return go_on(b);
    if (ftruncate(file, 0) != 0) return command_error(ENGINE_ERROR, "%s: %s", b->out_path, strerror(errno));
    return ENGINE_OK;
}
