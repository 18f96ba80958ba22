/* recognise.h: the format of the replies that a chat template is for. */
#ifndef ENGINE_REPLY_RECOGNISE_H
#define ENGINE_REPLY_RECOGNISE_H

#include <stdbool.h>
#include <stdint.h>

#include "reply/layout.h"
#include "template/template.h"

struct reply_style {
    uint32_t format; /* enum engine_reply_format */
    bool calls;      /* the template writes calls, or says how; else the format is that of its texts */
    /* Of ENGINE_REPLY_TEMPLATE; of others, at most the marks around reasoning. */
    struct reply_layout layout;
};

/* The format in which calls that the template writes are read back as those calls. Takes a tenth of a second
 * at most for any template. */
struct reply_style reply_recognise(const struct template *template);

/* The same for a template of a model, found once and kept. */
struct reply_style reply_style_of(const struct engine_template *template);

#endif
