/* forms.h: Unicode's normalization forms. */
#ifndef TOKENIZERS_HF_FORMS_H
#define TOKENIZERS_HF_FORMS_H

#include "hf/characters.h"
#include "plugin-api.h"

enum form { FORM_NFC, FORM_NFD, FORM_NFKC, FORM_NFKD };

struct forms_workspace {
    int32_t *characters; /* [count] decomposed, */
    int32_t *sorted;     /* [count] and those of a run of marks */
    size_t count, capacity, sorted_capacity;
};
void forms_workspace_free(struct forms_workspace *workspace);

/* Appends the form of a text. Bytes that aren't UTF-8 stay as they are. */
int forms_apply(enum form form, struct engine_string text, struct forms_workspace *workspace,
                struct text_buffer *out);

#endif
