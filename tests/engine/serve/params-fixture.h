/* params-fixture.h: reads requests of the APIs as JSON, with the demo model, for tests of their
 * parameters. */
#ifndef ENGINE_TESTS_SERVE_PARAMS_FIXTURE_H
#define ENGINE_TESTS_SERVE_PARAMS_FIXTURE_H

#include "serve/api/api.h"
#include "serve/models/models.h"
#include "serve/params/api-error.h"

enum api { CHAT, COMPLETIONS, INFILL, RESPONSES, MESSAGES };

struct read {
    struct params params;
    struct api_error error;
    json_t *body, *made;
    bool good;
};

#define HI "'messages': [{'role': 'user', 'content': 'hi'}]"

extern struct served fixture_served; /* the demo model, between the next two */
void fixture_begin(void);
void fixture_end(void);

/* Quotes are written as '. */
json_t *fixture_json(const char *text);
/* Reads a request; unknown fields are noted in `lenient`, or refused if it is NULL. The last one read is
 * overwritten. */
struct read *fixture_read(struct lenient *lenient, enum api api, const char *text);
void fixture_done(struct read *read);
/* Expects 400 for it, with this `param`, and one line with these words. */
void params_are_refused(struct lenient *lenient, enum api api, const char *text, const char *param,
                        const char *words);

#endif
