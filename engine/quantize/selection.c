/* selection.c: see selection.h. */
#include "quantize/selection.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "model/types.h"
#include "quantize/encode.h"

/* ---- Patterns ---- */

static int read_wish(const char *text, struct mix_wish *wish)
{
    const char *equals = strrchr(text, '=');
    if (!equals || equals == text)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "'%s': expected PATTERN=TYPE, such as blk.*.ffn_down.*=Q6_K", text);
    if (!type_by_name(equals + 1, &wish->type) || !quantize_encoder(wish->type))
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "'%s': cannot write the type %s; choose F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, "
                           "Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL or IQ4_XS",
                           text, equals + 1);
    wish->pattern = strndup(text, (size_t)(equals - text));
    return wish->pattern ? ENGINE_OK : error_memory("patterns");
}

static int read_wishes(struct selection *selection, const char *const *only)
{
    size_t n = 0;
    while (only && only[n]) n++;
    selection->wishes = calloc(n + 1, sizeof *selection->wishes);
    if (!selection->wishes) return error_memory("patterns");
    for (; selection->n_wishes < n; selection->n_wishes++) {
        int status = read_wish(only[selection->n_wishes], &selection->wishes[selection->n_wishes]);
        if (status) return status;
    }
    return ENGINE_OK;
}

/* Whether one of the patterns names the tensor. */
static bool is_wished(const struct selection *selection, const struct model_tensor *tensor)
{
    for (size_t w = 0; w < selection->n_wishes; w++)
        if (mix_matches(&selection->wishes[w], tensor)) return true;
    return false;
}

/* A pattern that changes nothing is a mistake. */
static int check_wishes(const struct selection *selection)
{
    for (size_t w = 0; w < selection->n_wishes; w++) {
        size_t i = 0;
        while (i < selection->n && !(mix_may_quantize(selection->tensors[i]) &&
                                     mix_matches(&selection->wishes[w], selection->tensors[i])))
            i++;
        if (i == selection->n)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "'%s' matches no tensor that can be quantised (`engine info` lists the "
                               "tensors; norms and vectors are kept)",
                               selection->wishes[w].pattern);
    }
    return ENGINE_OK;
}

/* ---- Types ---- */

/* A table of other numbers than weights. */
static bool is_number(uint32_t type)
{
    return type == ENGINE_TYPE_F64 || (type >= ENGINE_TYPE_I8 && type <= ENGINE_TYPE_I64);
}

static bool is_plain(uint32_t type)
{
    return type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_F16 || type == ENGINE_TYPE_BF16;
}

/* A matrix that a directory has in blocks, which rounding again would only harm. */
static bool stays(const struct selection *selection, size_t i)
{
    const struct model_tensor *tensor = selection->tensors[i];
    if (is_plain(tensor->type) || is_wished(selection, tensor)) return false;
    return !is_plain(selection->types[i]) || tensor->type == ENGINE_TYPE_MXFP4;
}

/* What only directories need. */
static void adapt_to_directory(struct selection *selection)
{
    size_t n_kept = 0;
    for (size_t i = 0; i < selection->n; i++) {
        const struct model_tensor *tensor = selection->tensors[i];
        if (is_number(tensor->type)) continue;
        if (!mix_may_quantize(tensor) && is_plain(tensor->type)) selection->types[i] = ENGINE_TYPE_F32;
        if (!stays(selection, i)) continue;
        n_kept += selection->types[i] != tensor->type;
        selection->types[i] = tensor->type;
    }
    if (n_kept > 0)
        log_line(ENGINE_LOG_INFO, "%zu matrices stay as they are, because they are quantised already",
                 n_kept);
}

static int check_source(const struct model *model, const struct model_tensor *tensor, uint32_t type)
{
    if (type == tensor->type || is_plain(tensor->type) || (is_plain(type) && quantize_decodes(tensor->type)))
        return ENGINE_OK;
    return error_raise(
        ENGINE_ERROR_UNSUPPORTED,
        "%s: %s is already %s; only F32, F16 and BF16 can be quantised (start from the original model)",
        model_path(model), tensor->name, type_info(tensor->type)->name);
}

static int choose_types(const struct model *model, bool pure, struct selection *selection)
{
    mix_choose(selection->mix, pure, selection->wishes, selection->n_wishes, model_metadata(model),
               selection->tensors, selection->n, selection->types);
    for (size_t i = 0; i < selection->n; i++)
        if (is_number(selection->tensors[i]->type)) selection->types[i] = selection->tensors[i]->type;
    if (model_is_directory(model)) adapt_to_directory(selection);
    int status = ENGINE_OK;
    for (size_t i = 0; i < selection->n && !status; i++)
        status = check_source(model, selection->tensors[i], selection->types[i]);
    return status;
}

int selection_make(const struct model *model, const char *type, const char *const *only, bool pure,
                   struct selection *selection)
{
    *selection = (struct selection){.mix = mix_by_name(type)};
    if (!selection->mix)
        return error_raise(ENGINE_ERROR_ARGUMENT, "cannot write the type %s; choose one of %s", type,
                           mix_names());
    int status = read_wishes(selection, only);
    if (status) return status;
    size_t n = model_tensor_count(model);
    selection->tensors = calloc(n + 1, sizeof *selection->tensors);
    selection->types = calloc(n + 1, sizeof *selection->types);
    if (!selection->tensors || !selection->types) return error_memory("tensors");
    selection->n = n;
    for (size_t i = 0; i < n; i++) selection->tensors[i] = model_tensor_at(model, i);
    mix_sort(selection->tensors, n);
    status = check_wishes(selection);
    return status ? status : choose_types(model, pure, selection);
}

void selection_free(struct selection *selection)
{
    for (size_t w = 0; w < selection->n_wishes; w++) free((char *)(uintptr_t)selection->wishes[w].pattern);
    free(selection->wishes);
    free(selection->tensors);
    free(selection->types);
    *selection = (struct selection){0};
}
