/* scale.c: images in other sizes, by separable filters. See image.h.
 *
 * A pixel of the result is a weighted mean of those pixels of the source that the filter, centred on it,
 * covers: first of a row's, then of a column's. The filters and the way that their weights are rounded are
 * those of Pillow and of PyTorch's separable kernels for the CPU, so that the results are theirs to the last
 * bit. */
#include "image/image.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/error.h"
#include "common/assert.h"

#define PI 3.14159265358979323846

/* How one side of a source becomes one side of a result. */
struct scale_axis {
    uint32_t size;    /* of the result */
    uint32_t taps;    /* most weights of a pixel */
    uint32_t *first;  /* [size]: the first pixel of the source with a weight */
    uint32_t *count;  /* [size]: how many there are, at most `taps` */
    double *weights;  /* (size, taps): their sum is 1 */
    int32_t *rounded; /* (size, taps): weights * 2^bits, for 8 bits */
    unsigned bits;
};

static double scale_triangle(double x)
{
    x = fabs(x);
    return x < 1 ? 1 - x : 0;
}

static double scale_cubic(double x)
{
    const double a = -0.5;
    x = fabs(x);
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

static double scale_sinc(double x)
{
    return x == 0 ? 1 : sin(x * PI) / (x * PI);
}

static double scale_lanczos(double x)
{
    return x >= -3 && x < 3 ? scale_sinc(x) * scale_sinc(x / 3) : 0;
}

static const struct {
    double (*at)(double);
    double support;
} scale_filters[] = {
    [IMAGE_BILINEAR] = {scale_triangle, 1},
    [IMAGE_BICUBIC] = {scale_cubic, 2},
    [IMAGE_LANCZOS] = {scale_lanczos, 3},
};

static void scale_axis_free(struct scale_axis *axis)
{
    free(axis->first);
    free(axis->count);
    free(axis->weights);
    free(axis->rounded);
    *axis = (struct scale_axis){0};
}

static int scale_axis_create(struct scale_axis *axis, uint32_t from, uint32_t to, enum image_filter filter)
{
    double scale = (double)from / to, widened = scale < 1 ? 1 : scale;
    double support = scale_filters[filter].support * widened;
    *axis = (struct scale_axis){.size = to, .taps = (uint32_t)fmin(ceil(support) * 2 + 1, from)};
    axis->first = calloc(to, sizeof *axis->first);
    axis->count = calloc(to, sizeof *axis->count);
    uint64_t n, bytes;
    if (!checked_mul(to, axis->taps, &n) && !checked_mul(n, sizeof *axis->weights, &bytes) &&
        bytes <= PTRDIFF_MAX)
        axis->weights = calloc((size_t)n, sizeof *axis->weights);
    if (!axis->first || !axis->count || !axis->weights) {
        scale_axis_free(axis);
        return error_memory("weights of an image's filter");
    }
    for (uint32_t i = 0; i < to; i++) {
        double center = (i + 0.5) * scale, sum = 0, *weights = axis->weights + (size_t)i * axis->taps;
        int64_t begin = (int64_t)(center - support + 0.5), end = (int64_t)(center + support + 0.5);
        if (begin < 0) begin = 0;
        if (end > from) end = from;
        ENGINE_ASSERT(begin < end && end - begin <= axis->taps);
        axis->first[i] = (uint32_t)begin;
        axis->count[i] = (uint32_t)(end - begin);
        for (uint32_t k = 0; k < axis->count[i]; k++) {
            weights[k] = scale_filters[filter].at(((double)k + (double)begin - center + 0.5) * (1 / widened));
            sum += weights[k];
        }
        for (uint32_t k = 0; k < axis->count[i] && sum != 0; k++) weights[k] /= sum;
    }
    return ENGINE_OK;
}

/* Torch takes as many bits as leave the largest weight within 16 with its sign. */
static unsigned scale_torch_bits(const struct scale_axis *axis)
{
    double most = 0;
    unsigned bits = 0;
    for (size_t i = 0; i < (size_t)axis->size * axis->taps; i++) most = fmax(most, axis->weights[i]);
    while (bits < 22 && (int)(0.5 + most * (1 << (bits + 1))) < 1 << 15) bits++;
    return bits;
}

static int scale_axis_round(struct scale_axis *axis, enum image_rounding rounding)
{
    size_t n = (size_t)axis->size * axis->taps;
    axis->rounded = malloc(n * sizeof *axis->rounded);
    if (!axis->rounded) return error_memory("weights of an image's filter");
    axis->bits = rounding == IMAGE_AS_PIL ? 22 : scale_torch_bits(axis);
    for (size_t i = 0; i < n; i++) {
        double weight = axis->weights[i] * (1 << axis->bits);
        axis->rounded[i] = (int32_t)(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
    return ENGINE_OK;
}

static uint8_t scale_to_byte(int32_t sum, unsigned bits)
{
    int32_t value = sum >> bits;
    return value < 0 ? 0 : value > 255 ? 255 : (uint8_t)value;
}

/* Each of the `height` rows of `source` (height, width, 3) to axis->size pixels. */
static void scale_rows(const struct scale_axis *axis, const uint8_t *source, uint32_t width, uint32_t height,
                       uint8_t *scaled)
{
    const int32_t half = axis->bits > 0 ? 1 << (axis->bits - 1) : 0;
    for (uint32_t y = 0; y < height; y++) {
        const uint8_t *row = source + (size_t)y * width * 3;
        for (uint32_t x = 0; x < axis->size; x++) {
            const int32_t *weights = axis->rounded + (size_t)x * axis->taps;
            const uint8_t *pixel = row + (size_t)axis->first[x] * 3;
            int32_t red = half, green = half, blue = half;
            for (uint32_t k = 0; k < axis->count[x]; k++, pixel += 3) {
                red += weights[k] * pixel[0];
                green += weights[k] * pixel[1];
                blue += weights[k] * pixel[2];
            }
            *scaled++ = scale_to_byte(red, axis->bits);
            *scaled++ = scale_to_byte(green, axis->bits);
            *scaled++ = scale_to_byte(blue, axis->bits);
        }
    }
}

/* `source` (…, row) to (axis->size, row), with `sums` (row) to add in. */
static void scale_columns(const struct scale_axis *axis, const uint8_t *source, size_t row, int32_t *sums,
                          uint8_t *scaled)
{
    const int32_t half = axis->bits > 0 ? 1 << (axis->bits - 1) : 0;
    for (uint32_t y = 0; y < axis->size; y++, scaled += row) {
        const int32_t *weights = axis->rounded + (size_t)y * axis->taps;
        const uint8_t *from = source + axis->first[y] * row;
        for (size_t i = 0; i < row; i++) sums[i] = half;
        for (uint32_t k = 0; k < axis->count[y]; k++, from += row) {
            const int32_t weight = weights[k];
            for (size_t i = 0; i < row; i++) sums[i] += weight * from[i];
        }
        for (size_t i = 0; i < row; i++) scaled[i] = scale_to_byte(sums[i], axis->bits);
    }
}

static int scale_side(const struct image *image, uint32_t width, uint32_t height, enum image_filter filter,
                      enum image_rounding rounding, struct image *scaled)
{
    const bool rows = width != image->width; /* one side alone changes */
    struct scale_axis axis;
    int32_t *sums = NULL;
    int status = rows ? scale_axis_create(&axis, image->width, width, filter)
                      : scale_axis_create(&axis, image->height, height, filter);
    if (status) return status;
    if ((status = scale_axis_round(&axis, rounding))) goto cleanup;
    if ((status = image_create(width, height, scaled))) goto cleanup;
    if (rows) {
        scale_rows(&axis, image->pixels, image->width, height, scaled->pixels);
        goto cleanup;
    }
    sums = malloc((size_t)width * 3 * sizeof *sums);
    if (!sums) {
        image_free(scaled);
        status = error_memory("a row of an image");
        goto cleanup;
    }
    scale_columns(&axis, image->pixels, (size_t)width * 3, sums, scaled->pixels);
cleanup:
    free(sums);
    scale_axis_free(&axis);
    return status;
}

int image_scale(const struct image *image, uint32_t width, uint32_t height, enum image_filter filter,
                enum image_rounding rounding, struct image *scaled)
{
    ENGINE_ASSERT(image->pixels && width > 0 && height > 0);
    *scaled = (struct image){0};
    if (width == image->width && height == image->height)
        return image_cut(image, 0, 0, width, height, scaled);
    if (width == image->width || height == image->height)
        return scale_side(image, width, height, filter, rounding, scaled);
    struct image between;
    int status = scale_side(image, width, image->height, filter, rounding, &between);
    if (status) return status;
    status = scale_side(&between, width, height, filter, rounding, scaled);
    image_free(&between);
    return status;
}

int image_scale_floats(const float *source, uint32_t source_width, uint32_t source_height, uint32_t n,
                       uint32_t width, uint32_t height, enum image_filter filter, float *scaled)
{
    struct scale_axis across = {0}, down = {0};
    float *between = NULL;
    uint64_t row, all;
    int status = scale_axis_create(&across, source_width, width, filter);
    if (!status) status = scale_axis_create(&down, source_height, height, filter);
    if (status) goto cleanup;
    if (checked_mul((uint64_t)width * n, sizeof *between, &row) || checked_mul(row, source_height, &all) ||
        all > PTRDIFF_MAX || !(between = calloc((size_t)all, 1))) {
        status = error_memory("a grid that is scaled");
        goto cleanup;
    }
    for (uint32_t y = 0; y < source_height; y++)
        for (uint32_t x = 0; x < width; x++) {
            float *to = between + ((size_t)y * width + x) * n;
            for (uint32_t k = 0; k < across.count[x]; k++) {
                const float weight = (float)across.weights[(size_t)x * across.taps + k];
                const float *from = source + ((size_t)y * source_width + across.first[x] + k) * n;
                for (uint32_t i = 0; i < n; i++) to[i] += weight * from[i];
            }
        }
    const size_t length = (size_t)width * n;
    for (uint32_t y = 0; y < height; y++) {
        float *to = scaled + y * length;
        for (size_t i = 0; i < length; i++) to[i] = 0;
        for (uint32_t k = 0; k < down.count[y]; k++) {
            const float weight = (float)down.weights[(size_t)y * down.taps + k];
            const float *from = between + (down.first[y] + k) * length;
            for (size_t i = 0; i < length; i++) to[i] += weight * from[i];
        }
    }
cleanup:
    free(between);
    scale_axis_free(&across);
    scale_axis_free(&down);
    return status;
}
