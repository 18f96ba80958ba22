/* internal.h: what the files of this folder share that read the weights of a directory. Rows of a tensor
 * may lie elsewhere, or in another order, than GGUF has them: split, permuted, transposed, put together
 * from several. They are made from the mapped files when they are loaded. */
#ifndef ENGINE_MODEL_HF_INTERNAL_H
#define ENGINE_MODEL_HF_INTERNAL_H

#include "model/hf/config.h"
#include "model/hf/names.h"
#include "model/model.h"
#include "model/safetensors.h"

/* ---- Rows that lie elsewhere, see forms.c -------------------------------------------------------------- */

/* A stored tensor, and how to read it. */
struct hf_source {
    const uint8_t *data;
    uint64_t size;
    uint32_t type; /* of the values that are read, enum engine_type */
    /* Writes values at … at + n - 1 of a row in that type, whole blocks; NULL: they are stored as they
     * are. */
    void (*decode)(const struct hf_source *source, uint64_t at, uint64_t n, uint8_t *values);
};

/* Values of a source: value (i, j, k, l) is number start + the sum of index times stride. With types
 * of blocks, stride[0] is 1. */
struct hf_piece {
    const struct hf_source *source;
    uint64_t start, ne[4], stride[4];
    float factor; /* multiplied into the values, which are floats; 0: none */
    /* A row's values are chunks of so many, those of a group in a row, of which it takes the first of each
     * group, then the second, and so on; 0: they are taken as they are. */
    uint64_t chunk, n_groups;
};

/* Sets the tensor's type, shape and size, and its data if the one piece has them as they are, otherwise its
 * maker. The pieces follow each other, have the same ne[0], and live as long as `metadata`, which allocates
 * memory. ENGINE_ERROR_MEMORY. */
int hf_assemble(struct metadata *metadata, const struct hf_piece *pieces, size_t n_pieces,
                const uint64_t ne[4], struct model_tensor *tensor);

/* ---- Forms of stored matrices, see forms.c ------------------------------------------------------------- */

/* A stored tensor under the name of the one that it becomes or belongs to. */
struct hf_entry {
    struct hf_name name; /* of the tensor; a bias has its own */
    const struct safetensors_tensor *stored;
    bool is_bias, is_quantised;
};

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

/* How to read a stored tensor, except for its source. ENGINE_ERROR_DATA. */
int hf_view_matrices(const struct hf_form_input *of, const struct hf_entry *entry, bool is_transposed,
                     struct hf_matrices *m);
/* The same of a quantised matrix; dims from the last on. */
void hf_view_quantised(const uint64_t dims[3], struct hf_matrices *m);

#define HF_MAX_PARTS 3 /* tensors that a stored one becomes */

/* The pieces of up to three tensors that come from stored ones of the same name. */
struct hf_output {
    struct hf_piece *pieces; /* [n], room for [room]: hf_most_pieces of each stored tensor */
    size_t n, room;
    uint64_t ne[3]; /* of what one stored tensor gives */
};

/* Whether config.json has factors for a tensor's rows. */
bool hf_has_factors(const struct hf_form_input *of, const struct hf_name *name);

/* The most pieces that a stored tensor gives one output. */
size_t hf_most_pieces(const struct hf_form_input *of, const struct hf_form *form);

/* Adds the pieces of one stored tensor. ENGINE_ERROR_DATA. */
int hf_add_pieces(const struct hf_form_input *of, const struct hf_entry *entry, const struct hf_form *form,
                  const struct hf_matrices *m, struct hf_output outputs[HF_MAX_PARTS]);

/* ---- Matrices in fewer bits, see quantised.c ----------------------------------------------------------- */

/* Reads quantization_config. */
void hf_read_quantisation(struct hf_config *config);

/* The suffix of a stored tensor's name if it has the codes of a quantised matrix (".qweight", "_blocks"),
 * "" if it is a matrix by its type (FP8), NULL if it is none of those. */
const char *hf_quantised_suffix(const struct hf_config *config, const struct safetensors_tensor *stored);
/* Whether it belongs to a quantised matrix, with scales and the like. */
bool hf_is_companion(const struct model *model, const struct hf_config *config, const char *name);

/* Reads a quantised matrix. *source lives as long as the metadata; dims: values of a row, rows, matrices.
 * ENGINE_ERROR_DATA: companions are missing or have other shapes. */
int hf_quantised_read(const struct model *model, const struct hf_config *config,
                      const struct safetensors_tensor *stored, struct hf_source **source, uint64_t dims[3]);
/* Makes a source from hf_quantised_read give float32. False: it is MXFP4, which stays as it is. */
bool hf_quantised_as_float(struct hf_source *source);

/* ---- Tensors, see tensors.c ---------------------------------------------------------------------------- */

/* Fills model->tensors from model->shards. ENGINE_ERROR_DATA or ENGINE_ERROR_UNSUPPORTED. */
int hf_list_tensors(struct model *model, struct hf_config *config);

/* ---- What sentence-transformers adds, see sentence.c --------------------------------------------------- */

/* Adds GGUF's key pooling_type (1 mean, 2 first token, 3 last token) to the metadata if the folder has a
 * modules.json, and for each Dense engine.dense_N.activation, from dense_2 on; counts these in the
 * configuration. Refuses steps that the engine does not have. Records an error in the configuration, and
 * returns it. */
int hf_read_pooling(struct hf_config *config, const char *folder);

/* Adds the files with the weights of the steps of the type Dense, FOLDER/model.safetensors, to names of
 * files, with the next numbers (see hf_list_shards). */
int hf_list_dense(const char *folder, json_t *names);

/* Adds engine.text_length (max_seq_length of sentence_bert_config.json), and of
 * config_sentence_transformers.json engine.prompts.names, engine.prompts.texts and engine.prompts.default
 * to the metadata. Records an error in the configuration, and returns it. */
int hf_read_sentence(struct hf_config *config, const char *folder);

/* Whether sentence_bert_config.json asks for lower case (do_lower_case). */
int hf_lowers_case(const char *folder, bool *lowers);

/* Gives a model that is a reranker of its type (struct hf_reranker), by its name (general.name) or by the
 * title of the folder's README.md, the tensor cls.output.weight, labels, and the published prompt as
 * tokenizer.chat_template.rerank. Call it after the tensors, the name and the tokenizer have been read;
 * there must be room for a tensor. ENGINE_ERROR_DATA: a token is missing; ENGINE_ERROR_UNSUPPORTED:
 * modules.json scores by logits, but it is another model. */
int hf_add_reranker(struct model *model, struct hf_config *config, const char *folder);

/* ---- The directory, see describe.c --------------------------------------------------------------------- */

/* Raise an error that says what the folder seems to be instead, and what to do; return its status. */
int hf_no_config(const char *folder);
int hf_no_weights(const char *folder);

/* Adds general.type, general.name and general.size_label to the metadata of a model whose tensors are listed.
 * `given`: config.json's _name_or_path, or NULL; `folder`: the model's directory. ENGINE_ERROR_MEMORY. */
int hf_describe(struct model *model, const char *given, const char *folder);

#endif
