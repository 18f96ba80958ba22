/* page.h: the page for people: the files of web/. */
#ifndef ENGINE_SERVE_PAGE_H
#define ENGINE_SERVE_PAGE_H

#include "serve/http/exchange.h"

/* Answers with the file of the request's path, or 304 if the client has it. */
void page_get(struct exchange *exchange);

#endif
