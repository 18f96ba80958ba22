/* plan-predict.h: what `engine plan` predicts: messages and their bytes, tokens per second, and what limits them. */
#ifndef ENGINE_COMMANDS_PLAN_PREDICT_H
#define ENGINE_COMMANDS_PLAN_PREDICT_H

#include <jansson.h>
#include <stdbool.h>

#include "engine.h"

/* Both after engine_plan_predict; with_time: with seconds. */
int predict_print(const struct engine_plan *plan, bool with_time);
json_t *predict_json(const struct engine_plan *plan, bool with_time);

#endif
