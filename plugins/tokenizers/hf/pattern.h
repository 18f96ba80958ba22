/* pattern.h: what Replace and Split look for: a literal text or a regular expression. */
#ifndef TOKENIZERS_HF_PATTERN_H
#define TOKENIZERS_HF_PATTERN_H

#include "hf/json.h"
#include "hf/regex.h"

struct pattern {
    char *literal; /* [length], NULL for an expression */
    size_t length;
    struct regex regex;
};

/* The member "pattern" of a step. A zeroed or failed one may be destroyed. */
int pattern_create(struct pattern *pattern, const struct json_at *step);
void pattern_destroy(struct pattern *pattern);

/* As regex_visit_all. Nothing matches an empty literal. */
int pattern_visit_all(const struct pattern *pattern, struct regex_workspace *workspace,
                      struct engine_string text, regex_visit visit, void *user);

#endif
