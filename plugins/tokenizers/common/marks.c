/* marks.c: the meaning of tokens beyond their type. GGUF files name some special tokens by id; others are
 * known by their spelling alone, and files mistype them. The spellings, and the choice of those that end a
 * text, are llama.cpp's, because model files are made for it. */
#include <ctype.h>
#include <string.h>

#include "common/vocab.h"

/* Each list is ended by NULL; where a vocabulary has several of a list, the first in the list counts. */
static const char *const end_of_turn_pieces[] = {
    "<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>",         "<|endoftext|>",      "<|end_of_text|>",
    "<EOT>",      "_<EOT>",     "[EOT]",   "<｜end▁of▁sentence｜>", "<end_of_utterance>", NULL};
static const char *const end_of_message_pieces[] = {"<|eom_id|>", NULL};
static const char *const fill_prefix_pieces[] = {"<|fim_prefix|>",  "<fim-prefix>", "<fim_prefix>",
                                                 "<｜fim▁begin｜>", "<PRE>",        "▁<PRE>",
                                                 "<|code_prefix|>", "<|prefix|>",   NULL};
static const char *const fill_suffix_pieces[] = {"<|fim_suffix|>",  "<fim-suffix>", "<fim_suffix>",
                                                 "<｜fim▁hole｜>",  "<SUF>",        "▁<SUF>",
                                                 "<|code_suffix|>", "<|suffix|>",   NULL};
static const char *const fill_middle_pieces[] = {"<|fim_middle|>",  "<fim-middle>", "<fim_middle>",
                                                 "<｜fim▁end｜>",   "<MID>",        "▁<MID>",
                                                 "<|code_middle|>", "<|middle|>",   NULL};
static const char *const fill_padding_pieces[] = {"<|fim_pad|>", "<fim-pad>", "<fim_pad>",
                                                  "<PAD>",       "[PAD]",     NULL};
static const char *const fill_repository_pieces[] = {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>",
                                                     "<REPO>",       "<reponame>",    NULL};
static const char *const fill_separator_pieces[] = {"<|file_sep|>", NULL};

static const char *const end_pieces[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
    "<|ifm|im_end|>",
    "<|END_OF_TURN_TOKEN|>", /* Command-R's files name it; not llama.cpp's */
    NULL};

/* Marks of a message's parts (gpt-oss), which are text to be shown although files call them control
 * tokens. */
static const char *const shown_pieces[] = {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>", NULL};

static int32_t marks_find(const struct vocab *vocab, const char *piece)
{
    return vocab_find(vocab, piece, strlen(piece));
}

/* If the metadata named no such token, looks for one by its spelling, and makes it a control token. */
static void find_special(struct vocab *vocab, int32_t *id, const char *const *pieces)
{
    for (; *id < 0 && *pieces; pieces++) {
        *id = marks_find(vocab, *pieces);
        if (*id >= 0) vocab->attributes[*id] |= ENGINE_TOKEN_CONTROL;
    }
}

static void mark_end(struct vocab *vocab, int32_t id)
{
    if (id >= 0) vocab->attributes[id] |= ENGINE_TOKEN_END;
}

static bool marks_ends(const struct vocab *vocab, const char *piece)
{
    int32_t id = marks_find(vocab, piece);
    return id >= 0 && (vocab->attributes[id] & ENGINE_TOKEN_END);
}

static void mark_ends(struct vocab *vocab)
{
    mark_end(vocab, vocab->fill_padding);
    mark_end(vocab, vocab->fill_repository);
    mark_end(vocab, vocab->fill_separator);
    for (const char *const *piece = end_pieces; *piece; piece++) {
        int32_t id = marks_find(vocab, *piece);
        if (id >= 0) vocab->attributes[id] |= ENGINE_TOKEN_END | ENGINE_TOKEN_CONTROL;
    }
    for (const char *const *piece = shown_pieces; *piece; piece++) {
        int32_t id = marks_find(vocab, *piece);
        if (id >= 0)
            vocab->attributes[id] = ENGINE_TOKEN_USER_DEFINED | (vocab->attributes[id] & ENGINE_TOKEN_END);
    }
    mark_end(vocab, vocab->eos);
    mark_end(vocab, vocab->end_of_turn);
    mark_end(vocab, vocab->end_of_message);

    /* In these families "<|end|>" ends a message, not the turn … */
    bool calls = marks_ends(vocab, "<|call|>") || marks_ends(vocab, "<|calls|>");
    if (calls && (marks_ends(vocab, "<|return|>") || marks_ends(vocab, "<|flush|>")) &&
        marks_ends(vocab, "<|end|>"))
        vocab->attributes[marks_find(vocab, "<|end|>")] = ENGINE_TOKEN_USER_DEFINED;
    /* … and in this one "</s>" is a mark-up tag. */
    if (marks_ends(vocab, "<|tool_response>") && marks_ends(vocab, "</s>"))
        vocab->attributes[marks_find(vocab, "</s>")] = VOCAB_NORMAL;
}

static void mark_unused(struct vocab *vocab)
{
    for (uint32_t id = 0; id < vocab->n_tokens; id++) {
        if (!(vocab->attributes[id] & ENGINE_TOKEN_CONTROL)) continue;
        struct engine_string piece = vocab->pieces[id];
        if (memmem(piece.data, piece.length, "unused", 6)) vocab->attributes[id] |= ENGINE_TOKEN_UNUSED;
    }
}

static bool contains(struct engine_string text, const char *part)
{
    size_t length = strlen(part);
    for (size_t i = 0; i + length <= text.length; i++) {
        size_t j = 0;
        while (j < length && tolower((unsigned char)text.data[i + j]) == part[j]) j++;
        if (j == length) return true;
    }
    return false;
}

static bool contains_any(struct engine_string text, const char *const *parts)
{
    for (; *parts; parts++)
        if (contains(text, *parts)) return true;
    return false;
}

/* The next of some pieces that are parted by spaces; `pieces` becomes the rest. False: there is none. */
static bool next_piece(struct engine_string *pieces, struct engine_string *piece)
{
    while (pieces->length > 0 && pieces->data[0] == ' ') pieces->data++, pieces->length--;
    const char *end = memchr(pieces->data, ' ', pieces->length);
    *piece = (struct engine_string){pieces->data, end ? (size_t)(end - pieces->data) : pieces->length};
    pieces->data += piece->length, pieces->length -= piece->length;
    return piece->length > 0;
}

static void strip_left(struct vocab *vocab, struct engine_string pieces)
{
    for (struct engine_string piece; next_piece(&pieces, &piece);) {
        int32_t id = vocab_find(vocab, piece.data, piece.length);
        if (id >= 0) vocab->attributes[id] |= VOCAB_STRIP_LEFT;
    }
}

/* All special tokens but these. */
static void strip_right_but(struct vocab *vocab, struct engine_string pieces)
{
    uint32_t special = ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_USER_DEFINED | ENGINE_TOKEN_UNKNOWN;
    for (uint32_t id = 0; id < vocab->n_tokens; id++)
        if (vocab->attributes[id] & special) vocab->attributes[id] |= VOCAB_STRIP_RIGHT;
    for (struct engine_string piece; next_piece(&pieces, &piece);) {
        int32_t id = vocab_find(vocab, piece.data, piece.length);
        if (id >= 0) vocab->attributes[id] &= ~(uint32_t)VOCAB_STRIP_RIGHT;
    }
}

/* Files don't say which special tokens take in the white space around them. The engine does for families of
 * models; for others the name of the pre-tokenizer tells. */
static void mark_strips(struct vocab *vocab, const struct engine_metadata *metadata)
{
    struct engine_string pre = {"", 0}, pieces;
    metadata->get_string(metadata->context, "tokenizer.ggml.pre", &pre);
    if (contains_any(pre, (const char *const[]){"jina-v2-de", "jina-v2-es", "jina-v2-code", NULL}))
        strip_left(vocab, (struct engine_string){"<mask>", 6});
    if (metadata->get_string(metadata->context, "engine.tokenizer.strip_left", &pieces) == ENGINE_OK)
        strip_left(vocab, pieces);
    if (metadata->get_string(metadata->context, "engine.tokenizer.strip_right_but", &pieces) == ENGINE_OK)
        strip_right_but(vocab, pieces);
}

void vocab_mark_special(struct vocab *vocab, const struct engine_metadata *metadata)
{
    find_special(vocab, &vocab->end_of_turn, end_of_turn_pieces);
    find_special(vocab, &vocab->end_of_message, end_of_message_pieces);
    find_special(vocab, &vocab->fill_prefix, fill_prefix_pieces);
    find_special(vocab, &vocab->fill_suffix, fill_suffix_pieces);
    find_special(vocab, &vocab->fill_middle, fill_middle_pieces);
    find_special(vocab, &vocab->fill_padding, fill_padding_pieces);
    find_special(vocab, &vocab->fill_repository, fill_repository_pieces);
    find_special(vocab, &vocab->fill_separator, fill_separator_pieces);
    mark_unused(vocab);
    mark_ends(vocab);
    mark_strips(vocab, metadata);
}
