/* recognise.h: the format of the replies that a chat template is for. */
#ifndef ENGINE_REPLY_RECOGNISE_H
#define ENGINE_REPLY_RECOGNISE_H

#include <stdbool.h>
#include <stdint.h>

#include "template/template.h"

/* An enum engine_reply_format: the one in which a call that the template writes is read back as that call.
 * *calls: there is one; else the format is that of the template's texts. Takes a tenth of a second at most
 * for any template. */
uint32_t reply_recognise(const struct template *template, bool *calls);

#endif
