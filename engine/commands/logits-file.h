/* logits-file.h: what a model predicts at many positions of a text, in a file of `engine perplexity
 * --save-logits`.
 *
 * Little-endian, without padding:
 *
 *   char magic[8]      "ENGLOGIT"
 *   uint32 version     1
 *   uint32 n_vocab
 *   uint32 n_window    tokens of a window
 *   uint32 stride      from one window to the next; 0: whole windows, of which the second half counts
 *   int32  bos         takes the place of each window's first token; -1: none does
 *   uint32 reserved    0
 *   uint64 n_tokens    of the text
 *   uint64 n_rows      predictions
 *   uint64 vocabulary  FNV-1a of the texts of all tokens
 *   uint64 hash        FNV-1a of the 56 bytes before it and of the tokens
 *   int32 tokens[n_tokens]
 *   rows [n_rows], window by window, in the order of the text:
 *     float32 actual     the log-probability of the token that follows
 *     float32 highest    that of the most likely token
 *     float32 step
 *     uint16 codes[n_vocab]: a log-probability is highest - step * code; those below highest - 20 are at -20
 *     uint64 hash        FNV-1a of the row before it */
#ifndef ENGINE_COMMANDS_LOGITS_FILE_H
#define ENGINE_COMMANDS_LOGITS_FILE_H

#include <stdint.h>
#include <stdio.h>

struct logits_header {
    uint32_t n_vocab, n_window, stride;
    int32_t bos;
    uint64_t n_tokens, n_rows, vocabulary;
};

/* A row, decoded. */
struct logits_row {
    float actual;
    float *logprobs; /* [n_vocab]; their exponentials add up to 1 */
    int32_t best;    /* the most likely token; of equals, the lowest id */
};

struct logits_file {
    FILE *file;
    const char *path;
    struct logits_header header;
    unsigned char *row; /* encoded */
    uint64_t n_done;    /* rows written or read */
    int owned;          /* not 0: the file is closed with it */
};

/* Begins a file that is open for writing. `path` is for messages. These functions return an enum
 * engine_status, with command_error's message. logits_file_close in either case; it does not close a file
 * that was given. All zero: there is none. */
int logits_file_begin(struct logits_file *f, FILE *file, const char *path, const struct logits_header *header,
                      const int32_t *tokens);
/* Writes a row: log-probabilities [n_vocab], and that of the token that follows. */
int logits_file_write(struct logits_file *f, const float *logprobs, float actual);

/* Opens a file and checks its header, tokens and size. The caller frees *tokens [n_tokens]. */
int logits_file_open(struct logits_file *f, const char *path, int32_t **tokens);
/* Reads the next row, whose logprobs has room for n_vocab. */
int logits_file_read(struct logits_file *f, struct logits_row *row);
void logits_file_close(struct logits_file *f);

#endif
