/* pieces.h: a text cut into pieces, and the ways to cut them further. */
#ifndef TOKENIZERS_HF_PIECES_H
#define TOKENIZERS_HF_PIECES_H

#include <stdbool.h>
#include <stddef.h>

#include "hf/characters.h"
#include "plugin-api.h"

struct piece {
    size_t start, end; /* bytes of the text; never empty */
    size_t first;      /* bytes from its start on that come from the first character of the whole text */
};

struct pieces {
    struct engine_string text;
    struct piece *list; /* [count] in order */
    size_t count, capacity;
    struct piece *cut; /* [n_cut] what becomes `list` next */
    size_t n_cut, cut_capacity;
    struct text_buffer texts[2]; /* `text`, if a step wrote it, and the one to write next */
    unsigned into;
};
void pieces_free(struct pieces *pieces);

/* A text as one piece; `first`: see struct piece. */
int pieces_begin(struct pieces *pieces, struct engine_string text, size_t first);

/* What becomes of matches: tokenizer.json's "behavior". */
enum behavior {
    BEHAVIOR_REMOVED,
    BEHAVIOR_ISOLATED,
    BEHAVIOR_MERGED_WITH_PREVIOUS,
    BEHAVIOR_MERGED_WITH_NEXT,
    BEHAVIOR_CONTIGUOUS
};

/* Cuts one piece: receives its matches and the texts between them, in order, as ranges of its bytes. */
struct cutter {
    struct pieces *pieces;
    struct piece piece;
    enum behavior behavior;
    bool invert;
    bool last_matched; /* the last range was a match */
    bool pending;      /* a range waits for more to join it */
    size_t start, end; /* of the pending one */
};
void cutter_begin(struct cutter *cutter, struct pieces *pieces, struct piece piece, enum behavior behavior,
                  bool invert);
int cutter_add(struct cutter *cutter, size_t start, size_t end, bool matched);
int cutter_end(struct cutter *cutter);

/* Cuts at single characters. */
int cutter_split_at(struct cutter *cutter, bool (*matches)(uint32_t character, uint32_t user), uint32_t user);

/* `cut` becomes `list`. */
void pieces_turn(struct pieces *pieces);

#endif
