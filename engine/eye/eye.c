/* eye.c: see eye.h. A picture is read or taken, cut by the family, and each piece goes through the eye; the
 * rows are kept under a hash of the pixels, so the same picture is encoded once. */
#include "eye/eye.h"

#include <stdlib.h>
#include <string.h>

#include "arch/sight.h"
#include "base/digest.h"
#include "base/error.h"
#include "common/lock.h"
#include "context/context.h"
#include "engine/internal.h"
#include "model/model.h"
#include "picture/picture.h"

/* ---- The eye ------------------------------------------------------------------------------------------- */

static int open_own(struct engine_eye *eye, const char *path)
{
    const struct model *model = eye->model->model;
    if (path) return engine_model_open(eye->model->engine, path, NULL, &eye->own);
    if (model_is_directory(model))
        return engine_model_open_eye(eye->model->engine, model_path(model), &eye->own);
    return error_raise(ENGINE_ERROR_NOT_FOUND, "%s: the model's eye is in a file of its own (mmproj-….gguf)",
                       model_path(model));
}

/* What a model's family tells of it. */
static int read_info(const struct engine_model *model, struct arch_info *info)
{
    const struct architecture *architecture = arch_of(model->model);
    void *hparams = architecture ? calloc(1, architecture->size) : NULL;
    *info = (struct arch_info){0};
    if (!architecture) return ENGINE_ERROR_UNSUPPORTED;
    if (!hparams) return error_memory("eye");
    int status = arch_read(architecture, model->model, hparams, info);
    free(hparams);
    return status;
}

/* Whether the text model takes what the eye makes. */
static int check_fit(const struct engine_eye *eye)
{
    struct arch_info info;
    int status = read_info(eye->model, &info);
    const uint32_t width = eye->context->plan->info.n_embd;
    if (!status && info.row_width != width)
        status = error_raise(
            ENGINE_ERROR_DATA, "%s gives rows of %u numbers, but %s takes %u: an eye of another model?",
            model_path(eye->own->model), width, model_path(eye->model->model), info.row_width);
    return status;
}

struct one_token {
    int32_t id;
    size_t n;
};

static int take_one(void *user, const int32_t *ids, size_t count)
{
    struct one_token *one = user;
    if (count > 0) one->id = ids[0];
    one->n += count;
    return 0;
}

/* The one token that a text is; -1: it is several. */
static int find_token(struct engine_model *model, const char *text, int32_t *id)
{
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct one_token one = {0};
    int status = engine_model_tokenizer(model, &api, &tokenizer);
    if (!status) status = api->encode(tokenizer, text, strlen(text), ENGINE_ENCODE_SPECIAL, take_one, &one);
    *id = one.n == 1 ? one.id : -1;
    return status;
}

/* Lets the eye take the largest piece of a picture in one batch. */
static int create_context(struct engine_eye *eye, const struct engine_context_options *given)
{
    struct engine_context_options options;
    int status = plan_read_context_options(given, &options);
    if (status) return status;
    eye->architecture = arch_of(eye->own->model);
    if (!eye->architecture) return ENGINE_ERROR_UNSUPPORTED;
    if (eye->architecture->kind != ARCH_EYE)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%s is a text model, not an eye",
                           model_path(eye->own->model));
    struct arch_info info;
    status = read_info(eye->own, &info);
    const struct engine_context_options own = {
        .struct_size = sizeof own,
        .n_context = info.n_context,
        .n_batch = info.n_context,
        .backends = options.backends,
        .offload = options.offload,
        .memory = options.memory,
        .n_threads = options.n_threads,
    };
    return status ? status : engine_context_create(eye->own, &own, &eye->context);
}

int engine_eye_create(struct engine_model *model, const char *path,
                      const struct engine_context_options *options, struct engine_eye **out)
{
    if (model->eye) return error_raise(ENGINE_ERROR_ARGUMENT, "the model's eye is open already");
    struct engine_eye *eye = calloc(1, sizeof *eye);
    if (!eye) return error_memory("eye");
    if (lock_init(&eye->lock) != 0) {
        free(eye);
        return error_memory("eye");
    }
    eye->model = model;
    int status = open_own(eye, path);
    if (!status) status = create_context(eye, options);
    if (!status) status = check_fit(eye);
    if (!status) status = find_token(model, eye->architecture->eye->mark, &eye->mark);
    if (!status) status = find_token(model, eye->architecture->eye->row, &eye->row);
    if (!status && eye->row < 0)
        status =
            error_raise(ENGINE_ERROR_DATA, "%s: the vocabulary lacks %s, which stands for a row of a picture",
                        model_path(model->model), eye->architecture->eye->row);
    if (!status && !model->pictures && !(model->pictures = pictures_create())) status = error_memory("eye");
    if (status) {
        engine_eye_destroy(eye);
        return status;
    }
    model->eye = eye;
    *out = eye;
    return ENGINE_OK;
}

void engine_eye_destroy(struct engine_eye *eye)
{
    if (!eye) return;
    if (eye->model->eye == eye) eye->model->eye = NULL;
    engine_context_destroy(eye->context);
    engine_model_close(eye->own);
    pthread_mutex_destroy(&eye->lock);
    free(eye);
}

int engine_eye_get_info(const struct engine_eye *eye, struct engine_eye_info *info)
{
    int status = SIZED_CHECK(info, engine_eye_info, row_token);
    if (status) return status;
    const struct engine_eye_info known = {
        .mark = eye->architecture->eye->mark, .mark_token = eye->mark, .row_token = eye->row};
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}

/* ---- Pictures ------------------------------------------------------------------------------------------ */

/* The pixels of a source, as an image of our own. */
static int take_image(const struct engine_picture_source *source, struct image *image)
{
    if (!source->pixels) return image_read(source->bytes, source->size, &IMAGE_LIMITS, image);
    if (source->width == 0 || source->height == 0)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a picture of %u x %u pixels", source->width,
                           source->height);
    if (source->width > IMAGE_MAX_SIDE || source->height > IMAGE_MAX_SIDE ||
        (uint64_t)source->width * source->height > IMAGE_LIMITS.pixels)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a picture of %u x %u pixels is too large", source->width,
                           source->height);
    int status = image_create(source->width, source->height, image);
    if (!status) memcpy(image->pixels, source->pixels, (size_t)3 * source->width * source->height);
    return status;
}

/* Of the pixels, and of the eye, which may be closed and another one opened. */
static void hash_image(const struct engine_eye *eye, const struct image *image, uint8_t hash[PICTURE_HASH])
{
    struct sha256_ctx context;
    const uint32_t size[2] = {image->width, image->height};
    const char *path = model_path(eye->own->model);
    sha256_init(&context);
    sha256_update(&context, strlen(path) + 1, (const uint8_t *)path);
    sha256_update(&context, sizeof size, (const uint8_t *)size);
    sha256_update(&context, (size_t)3 * image->width * image->height, image->pixels);
    digest_sha256(&context, hash);
}

/* Runs the pieces of a picture, and keeps the rows. */
static int encode(struct engine_eye *eye, const struct sight *sight, struct picture *picture,
                  const struct picture **kept)
{
    const uint32_t width = eye->context->plan->info.n_embd;
    uint64_t n_rows = 0, done = 0;
    for (uint32_t i = 0; i < sight->n_pieces; i++) n_rows += sight->pieces[i].n_rows;
    picture->rows = n_rows <= INT32_MAX ? malloc((size_t)n_rows * width * sizeof *picture->rows) : NULL;
    if (!picture->rows) return error_memory("picture");
    picture->n_rows = (uint32_t)n_rows;
    picture->width = width;
    memcpy(picture->grid, sight->grid, sizeof picture->grid);
    int status = ENGINE_OK;
    for (uint32_t i = 0; i < sight->n_pieces && !status; i++) {
        status = context_see(eye->context, &sight->pieces[i], picture->rows + done * width);
        done += sight->pieces[i].n_rows;
    }
    if (status) {
        free(picture->rows);
        return status;
    }
    *kept = pictures_add(eye->model->pictures, picture);
    return *kept ? ENGINE_OK : ENGINE_ERROR_MEMORY;
}

/* The picture's text, and its rows, found or encoded. */
static int see(struct engine_eye *eye, const struct image *image, struct engine_picture *picture)
{
    struct picture found = {0};
    struct sight sight = {0};
    hash_image(eye, image, found.hash);
    int status = eye->architecture->eye->look(eye->context->plan->hparams, image, &sight);
    if (!status) {
        picture->text = sight.text;
        sight.text = NULL;
        picture->rows = pictures_find(eye->model->pictures, found.hash);
    }
    if (!status && !picture->rows) status = encode(eye, &sight, &found, &picture->rows);
    sight_free(&sight);
    return status;
}

int engine_picture_create(struct engine_eye *eye, const struct engine_picture_source *source,
                          struct engine_picture **out)
{
    struct engine_picture_source known;
    struct image image = {0};
    int status = SIZED_CHECK(source, engine_picture_source, height);
    if (status) return status;
    sized_read(&known, sizeof known, source);
    if (!known.pixels == !known.bytes)
        return error_raise(ENGINE_ERROR_ARGUMENT, "a picture needs either the bytes of a file or pixels");
    struct engine_picture *picture = calloc(1, sizeof *picture);
    if (!picture) return error_memory("picture");
    picture->model = eye->model;
    status = take_image(&known, &image);
    if (!status) {
        pthread_mutex_lock(&eye->lock);
        status = see(eye, &image, picture);
        pthread_mutex_unlock(&eye->lock);
    }
    image_free(&image);
    if (status) {
        engine_picture_destroy(picture);
        return status;
    }
    *out = picture;
    return ENGINE_OK;
}

void engine_picture_destroy(struct engine_picture *picture)
{
    if (!picture) return;
    if (picture->rows) pictures_release(picture->model->pictures, picture->rows);
    free(picture->text);
    free(picture);
}

int engine_picture_get_info(const struct engine_picture *picture, struct engine_picture_info *info)
{
    int status = SIZED_CHECK(info, engine_picture_info, rows);
    if (status) return status;
    const struct engine_picture_info known = {.text = picture->text,
                                              .n_rows = picture->rows->n_rows,
                                              .n_embd = picture->rows->width,
                                              .rows = picture->rows->rows};
    sized_write(info, &known, sizeof known);
    return ENGINE_OK;
}

int engine_pictures_fill(const struct engine_eye *eye, const struct engine_picture *const *pictures,
                         size_t n_pictures, int32_t *tokens, size_t n_tokens)
{
    size_t n_wanted = 0, n_found = 0;
    for (size_t i = 0; i < n_pictures; i++) {
        if (pictures[i]->model != eye->model)
            return error_raise(ENGINE_ERROR_ARGUMENT, "picture %zu was shown to another model", i);
        n_wanted += pictures[i]->rows->n_rows;
    }
    for (size_t i = 0; i < n_tokens; i++) n_found += tokens[i] == eye->row;
    if (n_found != n_wanted)
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "the prompt has %zu times the token %s, but %zu pictures have %zu rows", n_found,
                           eye->architecture->eye->row, n_pictures, n_wanted);
    for (size_t i = 0, picture = 0, row = 0; i < n_tokens; i++) {
        if (tokens[i] != eye->row) continue;
        while (row == pictures[picture]->rows->n_rows) picture++, row = 0;
        tokens[i] = pictures[picture]->rows->first - (int32_t)row++;
    }
    return ENGINE_OK;
}
