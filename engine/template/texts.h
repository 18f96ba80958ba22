/* texts.h: what methods and filters on texts share. */
#ifndef ENGINE_TEMPLATE_TEXTS_H
#define ENGINE_TEMPLATE_TEXTS_H

#include "template/value.h"

/* Without the characters of `set` at its sides; NULL: without white space. */
const struct text *texts_strip(struct task *task, const struct text *text, const struct text *set, bool left,
                               bool right);
/* With `old` replaced, at most `limit` times; negative: everywhere. */
const struct text *texts_replace(struct task *task, const struct text *text, const struct text *old,
                                 const struct text *new, int64_t limit);
/* Parts between `separator`, or between white space if it is NULL; at most `limit` cuts, negative: any number. */
struct list *texts_split(struct task *task, const struct text *text, const struct text *separator,
                         int64_t limit);
struct list *texts_split_right(struct task *task, const struct text *text, const struct text *separator,
                               int64_t limit);
struct list *texts_lines(struct task *task, const struct text *text, bool keep);

enum texts_change { TEXTS_LOWER, TEXTS_UPPER, TEXTS_CAPITALIZE, TEXTS_TITLE, TEXTS_SWAP, TEXTS_FOLD };
const struct text *texts_change(struct task *task, const struct text *text, enum texts_change change);

/* In the middle of `width` characters, as str.center does it. */
const struct text *texts_center(struct task *task, const struct text *text, int64_t width, uint32_t fill);
/* With a capital at the beginning of each word, as Jinja's filter title sees them: after white space, "-" and opening
 * brackets. */
const struct text *texts_title_words(struct task *task, const struct text *text);

/* The same text as HTML (see struct text), or not. */
const struct text *texts_as_html(struct task *task, const struct text *text, bool html);
/* As HTML, with its special characters escaped unless it is HTML already. */
const struct text *texts_escape(struct task *task, const struct text *text);

#endif
