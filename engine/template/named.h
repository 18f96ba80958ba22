/* named.h: the templates that a model without one can be given by name. */
#ifndef ENGINE_TEMPLATE_NAMED_H
#define ENGINE_TEMPLATE_NAMED_H

#include <stddef.h>

struct named_template {
    const char *name;
    const char *source;
};

/* NULL: there is none. */
const struct named_template *named_template_find(const char *name);
/* NULL past the last. */
const struct named_template *named_template_at(size_t index);

#endif
