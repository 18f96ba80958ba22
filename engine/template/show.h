/* show.h: values as text: Python's str(), repr() and json.dumps(). */
#ifndef ENGINE_TEMPLATE_SHOW_H
#define ENGINE_TEMPLATE_SHOW_H

#include "template/value.h"

/* str(): a text as it is, "" for an undefined value. */
const struct text *show_text(struct task *task, struct value value);
void show_into(struct builder *builder, struct value value);
/* repr(). */
void show_quoted(struct builder *builder, struct value value);

/* The shortest digits that give the same number, as Python writes it; returns the length. */
size_t show_float(double x, char text[40]);

struct show_json {
    const struct text *indent; /* NULL: all on one line */
    const struct text *item_separator, *key_separator;
    bool ascii, sorted;
};
void show_json(struct builder *builder, struct value value, const struct show_json *options);

#endif
