/* backend-types.h: former names of what check/formats.h has. */
#include "backend-fixture.h"
#define test_type  format_of
#define type_bytes format_bytes
