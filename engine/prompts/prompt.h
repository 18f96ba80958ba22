/* prompt.h: prompts as tokens: texts, ids from the command line or a file, and the chat template that a
 * conversation is written with. */
#ifndef ENGINE_PROMPTS_PROMPT_H
#define ENGINE_PROMPTS_PROMPT_H

#include "engine.h"
#include "options/arguments.h"

struct token_list {
    int32_t *ids;
    size_t count, capacity;
    bool had_bos; /* a text brought BOS itself, where the model's tokenizer adds one */
};

int token_list_add(struct token_list *list, const int32_t *ids, size_t count);
/* The same as an engine_token_sink, whose `user` is the list. */
int token_list_sink(void *user, const int32_t *ids, size_t count);

/* Shortens a text to n tokens at its end, but keeps those that the tokenizer puts `around` a text (what it
 * makes of none). */
void token_list_cut(struct token_list *tokens, const struct token_list *around, size_t n);

/* The model's tokenizer, opened once. */
struct vocabulary {
    const struct engine_tokenizer_api *api; /* NULL: it cannot be read, see vocabulary_open_for_ids */
    struct engine_tokenizer *tokenizer;
    struct engine_tokenizer_info info;
    bool has_source; /* the model's encoder reads the prompt, and the decoder begins its own text */
};
int vocabulary_open(struct engine_model *model, struct vocabulary *vocabulary);

/* Refuses models with an encoder and a decoder, which the command doesn't support. */
int refuse_source(struct engine_model *model, const char *command);

/* Refuses an encoder before anything else is asked for, where the command needs a model that writes. */
int refuse_encoder(struct engine_model *model);

/* The same where tokens may be given and shown as ids: if the vocabulary cannot be read, a warning says why,
 * and it has all ids, none of them special. */
int vocabulary_open_for_ids(struct engine_model *model, struct vocabulary *vocabulary);

/* The bytes of a token, none if there is no such token or no vocabulary. Ends the program if memory runs out
 * for them. */
struct engine_string prompt_token_text(struct engine_model *model, int32_t token);

/* The one token that a text is read as, special tokens included; -1: it takes several. */
int32_t vocabulary_token(const struct vocabulary *vocabulary, const char *text);

/* The id of a token as a text. */
struct id_text {
    char text[12];
};
struct engine_string id_string(int32_t id, struct id_text *room);

/* Appends the tokens of a prompt, with the special tokens in front that the model wants, but one BOS at most;
 * `special`: those spelled in the text are taken for what they are. Only a source text also gets those at its
 * end. An empty text becomes the token that begins texts, or nothing if there is none. */
int prompt_encode(const struct vocabulary *vocabulary, const char *text, size_t size, bool special,
                  struct token_list *tokens);

/* A text that brings its own BOS, such as a template's, got a second one if the model wants BOS in front:
 * leaves one of the two at index `first`, and notes it in had_bos. The tokens behind `first` are what the
 * tokenizer makes of a text with ENGINE_ENCODE_BOS_EOS; an EOS that it adds may have the same id. */
void token_list_drop_bos(const struct engine_tokenizer_info *info, struct token_list *tokens, size_t first);
/* A warning for people if that has happened; *told: once for several texts. NULL: there is one text. */
void warn_of_bos(const struct token_list *tokens, bool *told);
/* The same in words. */
#define PROMPT_HAD_BOS                                                                                       \
    "the prompt begins with BOS (the token that begins texts) itself, so the model gets one, not two"

/* How many tokens to add to a prompt of so many at most: -n (UINT32_MAX: no limit), else what makes a text of
 * a few paragraphs. */
uint32_t predict_limit(const struct arguments *arguments, const struct vocabulary *vocabulary,
                       size_t n_prompt);

/* A seed that no other run has had, short enough to type: the nanoseconds of the current time. */
uint32_t new_seed(void);

/* ---- The tokens that `engine logits` and `engine attention` run ---- */

/* Reads --tokens or --tokens-file. If neither is given, `tokens` stays empty. More than one of these, and of
 * -p and -f, is an error. */
int token_input_ids(const struct arguments *arguments, struct token_list *tokens);

/* If `tokens` is still empty: those of -p (`-`: standard input) or -f, with the special tokens that the model
 * wants. An error if there are none in the end. */
int token_input_text(const struct arguments *arguments, struct engine_model *model,
                     struct token_list *tokens);

/* The text of a token; empty if it has none. */
struct engine_string token_input_piece(struct engine_model *model, const struct token_list *tokens, size_t i);

/* Whether --token or --token-text is given. */
static inline bool token_input_chooses(const struct arguments *arguments)
{
    return arguments->token || arguments->token_text;
}

/* The token that --token chooses by its number, from 0, or --token, unless it is a number, and --token-text
 * by a text: the one with which its last occurrence ends. Without these options the last one. */
int token_input_choose(const struct arguments *arguments, struct engine_model *model,
                       const struct token_list *tokens, size_t *chosen);

/* ---- Chat templates ---- */

/* What messages about the model's own template end with. */
#define CHAT_TEMPLATE_HINT "(--chat-template NAME or FILE takes another one)"

/* The template of --chat-template, else the model's. A word with a '/' or '.', or that no template has as its
 * name, is a file. */
int chat_template_open(const struct arguments *arguments, struct engine_model *model,
                       struct engine_template **template);

/* Refuses a conversation, with tools or without, for which the model's own template has a mistake. */
int chat_template_check(const struct engine_template *template, bool tools);

/* The variables of --template-arg and --chat-template-kwargs as a JSON object, NULL if there are none. The
 * caller frees it. */
int chat_template_variables(const struct arguments *arguments, char **json);

#endif
