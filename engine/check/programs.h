/* programs.h: the part of check-streams.c about recordings, for files that only make them. */
#ifndef ENGINE_CHECK_PROGRAMS_H
#define ENGINE_CHECK_PROGRAMS_H

#include "check/suite.h"

/* Unclaimed if the plugin has no recordings. */
void programs_claim_recordings(struct suite *suite);
/* Records some operations; the tensors belong to the fixture. */
void programs_record_and_destroy(struct fixture *fixture);

#endif
