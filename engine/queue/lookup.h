/* lookup.h: guesses how a text goes on from what it has said before: where its last tokens stood earlier,
 * what followed them then. After Saxena, Prompt Lookup Decoding (2023), with the chains of hashes that
 * LZ77 compressors use. */
#ifndef ENGINE_QUEUE_LOOKUP_H
#define ENGINE_QUEUE_LOOKUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOKUP_LEAST 2  /* tokens that have to agree */
#define LOOKUP_MOST  32 /* more of them don't count */

struct lookup;

/* NULL: out of memory. */
struct lookup *lookup_create(void);
void lookup_destroy(struct lookup *lookup);

/* Indexes `tokens` [n_tokens], which begin with those indexed before: a constant time for each new one,
 * about 12 bytes. False: out of memory; what was indexed stays. */
bool lookup_extend(struct lookup *lookup, const int32_t *tokens, size_t n_tokens);

/* Guesses `n` tokens after `tokens` [n_tokens], which have been indexed: what followed the longest of the
 * earlier passages that agree with their end, of equally long ones the last. It may overlap with the end:
 * what repeats is then continued. Returns how many tokens agree, at most LOOKUP_MOST; below LOOKUP_LEAST
 * (then 0) nothing is guessed. */
size_t lookup_guess(const struct lookup *lookup, const int32_t *tokens, size_t n_tokens, size_t n,
                    int32_t *guess);

#endif
