/* attention-page.h: the text of attention-page.html, which the build makes a string of. */
#ifndef ENGINE_COMMANDS_ATTENTION_PAGE_H
#define ENGINE_COMMANDS_ATTENTION_PAGE_H

extern const char attention_page[];

#endif
