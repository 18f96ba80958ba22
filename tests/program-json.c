/* program-json.c: see program-json.h. */
#include "program-json.h"

#include <criterion/criterion.h>

json_t *program_json(struct program_result result)
{
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_str_empty(result.err);
    json_error_t error;
    json_t *json = json_loadb(result.out, result.out_size, 0, &error);
    cr_assert(json, "%s: %s", error.text, result.out);
    program_free(&result);
    return json;
}
