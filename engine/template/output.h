/* output.h: what a template has written. */
#ifndef ENGINE_TEMPLATE_OUTPUT_H
#define ENGINE_TEMPLATE_OUTPUT_H

#include <stddef.h>

struct template_output {
    char *text;           /* [length] NUL-terminated */
    unsigned char *marks; /* [length] 1: it came from the user, 0: the template wrote it */
    size_t length;
};

#endif
