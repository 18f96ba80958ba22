/* format.h: Python's two ways of formatting: '%s' % x and '{}'.format(x). */
#ifndef ENGINE_TEMPLATE_FORMAT_H
#define ENGINE_TEMPLATE_FORMAT_H

#include "template/machine.h"

/* `values`: a tuple, a dict for "%(name)s", or a single value. */
const struct text *format_percent(struct task *task, const struct text *format, struct value values);
const struct text *format_braces(struct machine *machine, const struct text *format,
                                 const struct arguments *arguments);

#endif
