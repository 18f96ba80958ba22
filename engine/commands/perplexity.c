/* perplexity.c: `engine perplexity`: how well a model predicts a text, and how far its predictions are from
 * those of another type or model. The text is cut into windows, which run one after another. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "commands/logits-file.h"
#include "commands/windows.h"
#include "io/display.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/npy.h"
#include "io/output.h"
#include "options/open.h"
#include "prompts/prompt.h"
#include "prompts/results.h"

/* ---- How far predictions are from those of a reference, over many positions ---------------------------- */

/* A mean over positions, and its standard error. */
struct mean {
    double sum, squares;
    uint64_t count;
};

struct divergence {
    double *kl; /* [n], room for [capacity]: Kullback-Leibler divergence at each position, in nats */
    uint64_t n, capacity;
    struct mean kl_mean;
    struct mean same_top; /* 1 where both find the same token most likely, else 0 */
    /* Of the negative log-probability of the actual token: the model's minus the reference's. */
    struct mean difference;
    struct mean reference; /* the reference's own */
};

static void mean_add(struct mean *mean, double value)
{
    mean->sum += value;
    mean->squares += value * value;
    mean->count++;
}

static double mean_value(const struct mean *mean)
{
    return mean->count > 0 ? mean->sum / (double)mean->count : NAN;
}

/* The sample's standard deviation divided by the root of the count; 0 for fewer than two values. */
static double mean_error(const struct mean *mean)
{
    if (mean->count < 2) return 0;
    double value = mean_value(mean), variance = mean->squares / (double)mean->count - value * value;
    return variance > 0 ? sqrt(variance / (double)(mean->count - 1)) : 0;
}

/* Room for n positions. Returns an enum engine_status, with command_error's message. */
static int divergence_create(struct divergence *d, uint64_t n)
{
    *d = (struct divergence){.capacity = n};
    d->kl = calloc(n > 0 ? n : 1, sizeof *d->kl);
    return d->kl ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (divergences)");
}

static void divergence_destroy(struct divergence *d)
{
    free(d->kl);
    *d = (struct divergence){0};
}

/* Adds a position: the sum over all tokens of p (log p - log q), p the reference's probabilities and q the
 * model's. Log-probabilities [n_vocab]; the actual token's; the most likely tokens. */
static void divergence_add(struct divergence *d, const float *reference, const float *model, uint32_t n_vocab,
                           double reference_actual, double model_actual, int same_top)
{
    double kl = 0;
    for (uint32_t i = 0; i < n_vocab; i++)
        kl += exp((double)reference[i]) * ((double)reference[i] - (double)model[i]);
    if (d->n < d->capacity) d->kl[d->n++] = kl;
    mean_add(&d->kl_mean, kl);
    mean_add(&d->same_top, same_top ? 1 : 0);
    mean_add(&d->difference, reference_actual - model_actual);
    mean_add(&d->reference, -reference_actual);
}

static int compare_values(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorts, then: the value that this share of the positions does not exceed, interpolated linearly. */
static void divergence_sort(struct divergence *d)
{
    if (d->n > 0) qsort(d->kl, d->n, sizeof *d->kl, compare_values);
}

static double divergence_percentile(const struct divergence *d, double share)
{
    if (d->n == 0) return NAN;
    double at = share * (double)(d->n - 1);
    uint64_t below = (uint64_t)at;
    if (below + 1 >= d->n) return d->kl[d->n - 1];
    double rest = at - (double)below;
    return (1 - rest) * d->kl[below] + rest * d->kl[below + 1];
}

/* ---- Measuring ----------------------------------------------------------------------------------------- */

struct measuring {
    const struct arguments *arguments;
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    struct engine_context_info info;
    struct token_list tokens; /* of the text */
    size_t n_window, stride, n_windows;
    int32_t bos; /* takes the place of each window's first token; -1: none does */

    float *logits;   /* [n_batch, n_vocab] */
    float *logprobs; /* [n_vocab] of a position */
    struct mean nll; /* the negative log-probabilities of the tokens that count */
    struct output output;
    struct logits_file saved;     /* --save-logits */
    struct logits_file reference; /* --kl */
    struct logits_row row;        /* of the reference */
    struct divergence divergence;
};

/* ---- The text and its windows ---- */

static int check_length(const struct measuring *m)
{
    size_t least = m->stride > 0 ? 2 : 4;
    if (m->n_window < least)
        return command_error(ENGINE_ERROR_ARGUMENT, "a window of %s has none to count: use -c %zu or more",
                             count_text(m->n_window, "token", "tokens").text, least);
    if (m->stride > m->n_window)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--stride %zu is more than a window of %zu tokens: tokens would be left out",
                             m->stride, m->n_window);
    if (m->n_windows > 0) return ENGINE_OK;
    if (m->stride > 0)
        return command_error(ENGINE_ERROR, "the text has %s: it takes two to predict one",
                             count_text(m->tokens.count, "token", "tokens").text);
    return command_error(
        ENGINE_ERROR,
        "the text has %s, too few for a window of %zu: use a longer text, smaller windows (-c) "
        "or --stride",
        count_text(m->tokens.count, "token", "tokens").text, m->n_window);
}

/* A hash of what all tokens spell; 0 without a tokenizer. */
static uint64_t hash_vocabulary(struct engine_model *model, const struct vocabulary *vocabulary)
{
    uint64_t hash = HASH_BASIS;
    if (!vocabulary->api) return 0;
    for (uint32_t id = 0; id < vocabulary->info.n_tokens; id++) {
        struct engine_string text = prompt_token_text(model, (int32_t)id);
        hash = hash_bytes(hash, &text.length, sizeof text.length);
        hash = hash_bytes(hash, text.data, text.length);
    }
    return hash;
}

/* The reference says which text it is, and how it is cut. */
static int open_reference(struct measuring *m, uint64_t vocabulary)
{
    const struct arguments *a = m->arguments;
    struct logits_file *f = &m->reference;
    int status = logits_file_open(f, a->kl_file, &m->tokens.ids);
    if (status) return status;
    m->tokens.count = m->tokens.capacity = (size_t)f->header.n_tokens;
    m->n_window = f->header.n_window;
    m->stride = f->header.stride;
    m->bos = f->header.bos;
    if (f->header.vocabulary != vocabulary)
        return command_error(ENGINE_ERROR_DATA, "%s: made with another vocabulary than this model's",
                             a->kl_file);
    char stride[40] = "without --stride";
    if (m->stride > 0) snprintf(stride, sizeof stride, "--stride %zu", m->stride);
    if ((a->n_context > 0 && a->n_context != m->n_window) || (a->stride > 0 && a->stride != m->stride))
        return command_error(ENGINE_ERROR_ARGUMENT, "%s: made with -c %zu %s: leave these options out",
                             a->kl_file, m->n_window, stride);
    if (windows_scored(m->tokens.count, m->n_window, m->stride) != f->header.n_rows)
        return command_error(ENGINE_ERROR_DATA,
                             "%s: damaged: it has %" PRIu64 " predictions for another text", a->kl_file,
                             f->header.n_rows);
    return divergence_create(&m->divergence, f->header.n_rows);
}

static int prepare_text(struct measuring *m, uint64_t *vocabulary_hash)
{
    const struct arguments *a = m->arguments;
    struct vocabulary vocabulary = {0};
    int status = vocabulary_open(m->model, &vocabulary);
    if (status && !a->tokens_file && !a->kl_file) return status;
    if (status) vocabulary.api = NULL; /* tokens need no vocabulary */
    *vocabulary_hash = hash_vocabulary(m->model, &vocabulary);
    if (a->kl_file) {
        status = open_reference(m, *vocabulary_hash);
    } else {
        status = window_text_read(a, &vocabulary, &m->tokens);
        m->n_window = window_text_length(a, m->model);
        m->stride = a->stride;
        bool adds = vocabulary.api && vocabulary.info.add_bos && m->stride == 0;
        m->bos = adds ? vocabulary.info.bos : -1;
    }
    if (status) return status;
    m->n_windows = windows_count(m->tokens.count, m->n_window, m->stride);
    return check_length(m);
}

/* ---- The context ---- */

static int check_ids(const struct measuring *m)
{
    int status = window_text_check(&m->tokens, m->info.n_vocab);
    if (status) return status;
    if (m->reference.file && m->reference.header.n_vocab != m->info.n_vocab)
        return command_error(ENGINE_ERROR_DATA, "%s: made with a vocabulary of %u tokens; this model has %u",
                             m->reference.path, m->reference.header.n_vocab, m->info.n_vocab);
    return ENGINE_OK;
}

static int open_measuring_context(struct measuring *m)
{
    struct engine_context_options options;
    int32_t offload;
    context_options(m->arguments, &options, &offload);
    options.n_context = options.n_needed = (uint32_t)m->n_window;
    int status = create_context(m->arguments, m->model, &options, &m->context);
    if (status) return status;
    m->info.struct_size = sizeof m->info;
    engine_context_get_info(m->context, &m->info);
    m->logits = malloc((size_t)m->info.n_batch * m->info.n_vocab * sizeof *m->logits);
    m->logprobs = malloc(m->info.n_vocab * sizeof *m->logprobs);
    m->row.logprobs = malloc(m->info.n_vocab * sizeof *m->row.logprobs);
    if (!m->logits || !m->logprobs || !m->row.logprobs)
        return command_error(ENGINE_ERROR_MEMORY, "out of memory (logits)");
    return check_ids(m);
}

static int open_saved(struct measuring *m, uint64_t vocabulary_hash)
{
    const struct arguments *a = m->arguments;
    const char *inputs[] = {path_of_model(a, m->engine), a->tokenizer, a->prompt_file, a->tokens_file,
                            a->kl_file};
    const struct logits_header header = {
        .n_vocab = m->info.n_vocab,
        .n_window = (uint32_t)m->n_window,
        .stride = (uint32_t)m->stride,
        .bos = m->bos,
        .n_tokens = m->tokens.count,
        .n_rows = windows_scored(m->tokens.count, m->n_window, m->stride),
        .vocabulary = vocabulary_hash,
    };
    int status = output_check(a->save_logits, m->engine, inputs, sizeof inputs / sizeof *inputs);
    if (!status) status = check_not_adapter(a->save_logits, m->engine, a);
    if (!status) status = output_open(&m->output, a->save_logits);
    return status ? status
                  : logits_file_begin(&m->saved, m->output.file, a->save_logits, &header, m->tokens.ids);
}

/* ---- Running ---- */

/* The logits after token `at` of the text, and the token that follows it. */
static int take_row(struct measuring *m, const float *logits, size_t at, int32_t actual)
{
    struct likely_token best = {0};
    struct likely likely = {.n_most = 1, .top = &best};
    int status = likely_read(&likely, logits, m->info.n_vocab, "token", at);
    if (status) return status;
    for (uint32_t i = 0; i < m->info.n_vocab; i++)
        m->logprobs[i] = (float)((double)logits[i] - likely.log_total);
    float logprob = m->logprobs[actual];
    if (!isfinite(logprob))
        return command_error(
            ENGINE_ERROR_DATA,
            "the model finds token %d impossible where it follows, so the perplexity is infinite", actual);
    mean_add(&m->nll, -(double)logprob);
    status = m->saved.file ? logits_file_write(&m->saved, m->logprobs, logprob) : ENGINE_OK;
    if (status || !m->reference.file) return status;
    status = logits_file_read(&m->reference, &m->row);
    if (!status)
        divergence_add(&m->divergence, m->row.logprobs, m->logprobs, m->info.n_vocab, (double)m->row.actual,
                       (double)logprob, m->row.best == best.id);
    return status;
}

/* Room for a batch of a window's tokens. */
struct piece {
    int32_t *tokens; /* [n_batch] */
    uint8_t *wanted; /* [n_batch] */
    size_t *at;      /* [n_batch] where each wanted token is in the text */
};

static bool piece_create(struct piece *piece, uint32_t n_batch)
{
    piece->tokens = malloc(n_batch * sizeof *piece->tokens);
    piece->wanted = malloc(n_batch);
    piece->at = malloc(n_batch * sizeof *piece->at);
    return piece->tokens && piece->wanted && piece->at;
}

static void piece_free(struct piece *piece)
{
    free(piece->tokens);
    free(piece->wanted);
    free(piece->at);
}

/* Runs tokens `from` … of a window, as many as a batch takes. */
static int run_piece(struct measuring *m, const struct piece *piece, const struct window *window, size_t from)
{
    const int32_t *ids = m->tokens.ids + window->first;
    size_t n = 0, n_wanted = 0;
    for (size_t i = from; i < window->length && n < m->info.n_batch; i++, n++) {
        piece->tokens[n] = i == 0 && m->bos >= 0 ? m->bos : ids[i];
        piece->wanted[n] = i + 1 >= window->counted && i + 1 < window->length;
        if (piece->wanted[n]) piece->at[n_wanted++] = window->first + i;
    }
    struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = n, .tokens = piece->tokens, .wanted = piece->wanted};
    int status = engine_decode(m->context, &batch, n_wanted > 0 ? m->logits : NULL);
    for (size_t i = 0; i < n_wanted && !status; i++)
        status = take_row(m, m->logits + i * m->info.n_vocab, piece->at[i], m->tokens.ids[piece->at[i] + 1]);
    return status;
}

static int run_window(struct measuring *m, const struct piece *piece, size_t number)
{
    struct window window = windows_at(m->tokens.count, m->n_window, m->stride, number);
    int status = engine_sequence_truncate(m->context, 0, 0);
    for (size_t from = 0; from < window.length && !status && !interrupted; from += m->info.n_batch)
        status = run_piece(m, piece, &window, from);
    return status;
}

static int run_windows(struct measuring *m)
{
    struct piece piece = {0};
    char items[80] = "windows";
    int status = piece_create(&piece, m->info.n_batch)
                     ? ENGINE_OK
                     : command_error(ENGINE_ERROR_MEMORY, "out of memory (windows)");
    for (size_t i = 0; i < m->n_windows && !status && !interrupted; i++) {
        count_progress("perplexity", i, m->n_windows, items);
        status = run_window(m, &piece, i);
        snprintf(items, sizeof items, "windows, %.4f so far", exp(mean_value(&m->nll)));
    }
    count_progress("perplexity", m->n_windows, m->n_windows, items);
    piece_free(&piece);
    return status;
}

/* ---- Results ---- */

static const struct {
    const char *name, *key;
    double share;
} percentiles[] = {
    {"median", "median", 0.5}, {"90 %", "p90", 0.9},       {"95 %", "p95", 0.95},
    {"99 %", "p99", 0.99},     {"99.9 %", "p99.9", 0.999}, {"maximum", "max", 1},
};
enum { N_PERCENTILES = sizeof percentiles / sizeof *percentiles };

static void add_estimate(struct table *table, const char *name, double value, double error, const char *unit)
{
    table_add(table, "%s", name);
    table_add(table, "%.6g%s", value, unit);
    table_add(table, "± %.2g%s", error, unit);
}

static int print_table(struct measuring *m)
{
    struct table table = {.n_columns = 3, .alignment = "lrl"};
    struct divergence *d = &m->divergence;
    double perplexity = exp(mean_value(&m->nll)), ratio = exp(mean_value(&d->difference)),
           reference = exp(mean_value(&d->reference));
    table_add(&table, " ");
    table_add(&table, "VALUE");
    table_add(&table, "ERROR");
    add_estimate(&table, "perplexity", perplexity, perplexity * mean_error(&m->nll), "");
    if (m->reference.file) {
        add_estimate(&table, "reference's perplexity", reference, reference * mean_error(&d->reference), "");
        add_estimate(&table, "ratio", ratio, ratio * mean_error(&d->difference), "");
        add_estimate(&table, "same most likely token", 100 * mean_value(&d->same_top),
                     100 * mean_error(&d->same_top), " %");
        add_estimate(&table, "KL divergence, mean", mean_value(&d->kl_mean), mean_error(&d->kl_mean), "");
        for (size_t i = 0; i < N_PERCENTILES; i++) {
            table_add(&table, "KL divergence, %s", percentiles[i].name);
            table_add(&table, "%.6g", divergence_percentile(d, percentiles[i].share));
            table_add(&table, " ");
        }
    }
    int status = table_print(&table, "", stdout);
    printf("%s of %zu in windows of %zu", count_text(m->nll.count, "token", "tokens").text, m->tokens.count,
           m->n_window);
    if (m->stride > 0) printf(", one every %zu", m->stride);
    printf("\n");
    return status;
}

static json_t *divergence_json(struct measuring *m)
{
    struct divergence *d = &m->divergence;
    double ratio = exp(mean_value(&d->difference)), reference = exp(mean_value(&d->reference));
    json_t *json = json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "mean", mean_value(&d->kl_mean),
                             "error", mean_error(&d->kl_mean), "same_top", mean_value(&d->same_top),
                             "same_top_error", mean_error(&d->same_top), "reference_perplexity", reference,
                             "ratio", ratio, "ratio_error", ratio * mean_error(&d->difference),
                             "reference_error", reference * mean_error(&d->reference));
    for (size_t i = 0; i < N_PERCENTILES; i++)
        json_object_set_new(json, percentiles[i].key,
                            json_real(divergence_percentile(d, percentiles[i].share)));
    return json;
}

static int print_json(struct measuring *m)
{
    double nll = mean_value(&m->nll), perplexity = exp(nll);
    json_t *json =
        json_pack("{s:f, s:f, s:f, s:o, s:o, s:o, s:o, s:o}", "perplexity", perplexity, "error",
                  perplexity * mean_error(&m->nll), "nll", nll, "tokens", json_count(m->nll.count),
                  "text_tokens", json_count(m->tokens.count), "windows", json_count(m->n_windows), "window",
                  json_count(m->n_window), "stride", m->stride > 0 ? json_count(m->stride) : json_null());
    if (m->reference.file) json_object_set_new(json, "kl", divergence_json(m));
    return json_print(json);
}

static int print_results(struct measuring *m)
{
    divergence_sort(&m->divergence);
    return m->arguments->json ? print_json(m) : print_table(m);
}

/* ---- The command ---- */

static int check_inputs(const struct arguments *a)
{
    int n_given = !!a->prompt_file + !!a->tokens_file + !!a->kl_file;
    if (n_given == 0)
        return command_error(ENGINE_ERROR_ARGUMENT, "no text: name one with -f, --tokens-file or --kl");
    if (a->kl_file && n_given > 1)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--kl has its own text: leave out --file and --tokens-file");
    if (n_given > 1) return command_error(ENGINE_ERROR_ARGUMENT, "use either --file or --tokens-file");
    return ENGINE_OK;
}

int command_perplexity(const struct arguments *arguments)
{
    struct measuring m = {.arguments = arguments, .bos = -1};
    uint64_t vocabulary_hash = 0;
    int exit_status = 0, status = check_inputs(arguments);
    if (!status) status = open_engine(arguments, &m.engine);
    if (!status) status = open_model(arguments, m.engine, &m.model);
    if (!status) status = refuse_source(m.model, "perplexity");
    if (!status) status = refuse_encoder(m.model);
    if (!status) status = prepare_text(&m, &vocabulary_hash);
    if (!status) status = open_measuring_context(&m);
    if (!status && arguments->save_logits) status = open_saved(&m, vocabulary_hash);
    if (!status) status = run_windows(&m);
    if (m.output.file) {
        int closed = output_close(&m.output, !status && !interrupted);
        if (!status) status = closed;
    }
    if (!status && !interrupted) exit_status = print_results(&m);
    if (status && !interrupted) exit_status = command_fail();
    logits_file_close(&m.saved);
    logits_file_close(&m.reference);
    divergence_destroy(&m.divergence);
    engine_context_destroy(m.context);
    engine_model_close(m.model);
    engine_close(m.engine);
    free(m.tokens.ids);
    free(m.logits);
    free(m.logprobs);
    free(m.row.logprobs);
    return exit_status;
}
