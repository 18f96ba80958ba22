/* rerank.c: `engine rerank`: documents in the order in which they fit a query. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "commands/ranking.h"
#include "io/json.h"
#include "io/messages.h"
#include "prompts/embedding.h"

/* A line: the score, the document's number, and its text with line breaks as spaces. */
static void print_line(const struct embed_text *document, const struct ranked *ranked)
{
    struct engine_string text = document->text;
    printf("%.6f\t%zu\t", (double)ranked->score, ranked->index);
    for (size_t i = 0; i < text.length; i++) {
        unsigned char byte = (unsigned char)text.data[i];
        putchar(byte < ' ' || byte == 127 ? ' ' : byte);
    }
    putchar('\n');
}

static void print_json(const struct embed_text *document, const struct ranked *ranked)
{
    json_t *json = json_pack("{s:o, s:o, s:o, s:o}", "index", json_count(ranked->index), "relevance_score",
                             json_real((double)ranked->score), "tokens", json_count(document->ids.count),
                             "document", json_text(document->text.data, document->text.length));
    if (document->id) json_object_set(json, "id", document->id);
    json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(json);
}

static int print(const struct arguments *arguments, const struct ranking *r, uint32_t label)
{
    size_t count = r->texts.count,
           n = arguments->n_top > 0 && arguments->n_top < count ? arguments->n_top : count;
    struct ranked *ranked = malloc(count * sizeof *ranked);
    if (!ranked) return command_error(ENGINE_ERROR_MEMORY, "out of memory (scores)");
    for (size_t i = 0; i < count; i++) {
        const float *scores = r->scores + i * r->info.n_labels;
        ranked[i] = (struct ranked){i, relevance_of(scores, r->info.n_labels, label)};
    }
    if (!arguments->in_order) ranked_sort(ranked, count);
    end_text();
    for (size_t i = 0; i < n; i++) {
        const struct embed_text *document = &r->texts.items[ranked[i].index];
        if (arguments->json)
            print_json(document, &ranked[i]);
        else
            print_line(document, &ranked[i]);
    }
    free(ranked);
    if (fflush(stdout) == 0 && !ferror(stdout)) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "cannot write the scores: %s", strerror(errno));
}

int command_rerank(const struct arguments *arguments)
{
    struct ranking r;
    uint32_t label = 0;
    bool tokens = arguments->tokens_file != NULL;
    if (!arguments->query && !tokens)
        return command_usage("rerank: there is no query: give one with -q QUERY");
    if (arguments->query && tokens)
        return command_usage("rerank: --tokens-file has the tokens of query and document, so there is no -q");
    int status = ranking_open(arguments, &r);
    r.texts.pairs = true;
    if (!status) status = relevance_label(r.model, &r.info, &label);
    if (!status) status = ranking_run(arguments, &r);
    if (!status && !interrupted) status = print(arguments, &r, label);
    int exit_status = status && !interrupted ? command_fail() : 0;
    ranking_close(&r);
    return exit_status;
}
