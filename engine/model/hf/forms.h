/* forms.h: how stored matrices become GGUF's: cut, put together, transposed, and their rows in another order. */
#ifndef ENGINE_MODEL_HF_FORMS_H
#define ENGINE_MODEL_HF_FORMS_H

#include "model/hf/config.h"
#include "model/hf/names.h"
#include "model/hf/pieces.h"
#include "model/safetensors.h"

/* A stored tensor under the name of the one that it becomes or belongs to. */
struct hf_entry {
    struct hf_name name; /* of the tensor; a bias has its own */
    const struct safetensors_tensor *stored;
    bool is_bias, is_quantised;
};

/* The form of a family's tensor; never NULL. */
const struct hf_form *hf_find_form(const struct hf_family *family, const struct hf_name *name);

/* A stored tensor as matrices: value (i, row, m) is number i * step + row * row_step + m * matrix_step. A
 * bias has rows of one value. */
struct hf_matrices {
    struct hf_source *source;
    uint64_t k, n_rows, n;
    uint64_t step, row_step, matrix_step;
};

/* What forms depend on besides the tensor. */
struct hf_form_input {
    const char *path; /* of the model, for messages */
    const struct hf_config *config;
};

/* How to read a stored tensor, but for its source. ENGINE_ERROR_DATA. */
int hf_view_matrices(const struct hf_form_input *of, const struct hf_entry *entry, bool is_transposed,
                     struct hf_matrices *m);
/* The same of a quantised matrix; dims from the last on. */
void hf_view_quantised(const uint64_t dims[3], struct hf_matrices *m);

#define HF_MAX_PARTS 3 /* tensors that a stored one becomes */

/* The pieces of up to three tensors that come from stored ones of the same name. */
struct hf_output {
    struct hf_piece *pieces; /* [n], with room for hf_most_pieces of each stored tensor */
    size_t n;
    uint64_t ne[3]; /* of what one stored tensor gives */
};

/* Whether config.json has factors for a tensor's rows. */
bool hf_has_factors(const struct hf_form_input *of, const struct hf_name *name);

/* The most pieces that a stored tensor gives one output. */
size_t hf_most_pieces(const struct hf_form_input *of, const struct hf_form *form);

/* Adds the pieces of one stored tensor. ENGINE_ERROR_DATA. */
int hf_add_pieces(const struct hf_form_input *of, const struct hf_entry *entry, const struct hf_form *form,
                  const struct hf_matrices *m, struct hf_output outputs[HF_MAX_PARTS]);

#endif
