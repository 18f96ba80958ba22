/* backend-cases.h: a former name of backend-fixture.h. */
#include "backend-fixture.h"
