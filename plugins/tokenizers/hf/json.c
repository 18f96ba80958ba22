/* json.c: see json.h. */
#include "hf/json.h"

#include <stdio.h>
#include <string.h>

#include "common/memory.h"
#include "common/unicode.h"

/* Writes "PLACE/NAME", cut where the room ends. */
static void extend_place(const char *place, const char *name, char *extended)
{
    size_t length = strnlen(place, JSON_PLACE_SIZE - 1), more = strlen(name);
    memcpy(extended, place, length);
    if (length < JSON_PLACE_SIZE - 1) extended[length++] = '/';
    if (more > JSON_PLACE_SIZE - 1 - length) more = JSON_PLACE_SIZE - 1 - length;
    memcpy(extended + length, name, more);
    extended[length + more] = '\0';
}

struct json_at json_member(const struct json_at *object, const char *name)
{
    struct json_at member = {json_object_get(object->value, name), "", object->depth, object->spent};
    extend_place(object->place, name, member.place);
    return member;
}

struct json_at json_element(const struct json_at *array, size_t index)
{
    struct json_at element = {json_array_get(array->value, index), "", array->depth + 1, array->spent};
    char name[24];
    snprintf(name, sizeof name, "%zu", index);
    extend_place(array->place, name, element.place);
    return element;
}

bool json_absent(const struct json_at *at)
{
    return !at->value || json_is_null(at->value);
}

const char *json_type_of(const struct json_at *object)
{
    const char *type = json_string_value(json_object_get(object->value, "type"));
    return type ? type : "";
}

bool json_is(const struct json_at *object, const char *type)
{
    return strcmp(json_type_of(object), type) == 0;
}

int json_unknown(const struct json_at *object, const char *what)
{
    return host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: no tokenizer plugin knows the %s \"%.60s\"",
                      object->place, what, json_type_of(object));
}

int json_wrong(const struct json_at *at, const char *what)
{
    return host->fail(ENGINE_ERROR_DATA, "%s is not %s", at->place, what);
}

int json_boolean_member(const struct json_at *object, const char *name, bool preset, bool *value)
{
    struct json_at member = json_member(object, name);
    *value = json_absent(&member) ? preset : json_is_true(member.value);
    if (!json_absent(&member) && !json_is_boolean(member.value)) return json_wrong(&member, "true or false");
    return ENGINE_OK;
}

int json_string_member(const struct json_at *object, const char *name, const char *preset,
                       struct engine_string *value)
{
    struct json_at member = json_member(object, name);
    if (json_absent(&member) && preset) {
        *value = (struct engine_string){preset, strlen(preset)};
        return ENGINE_OK;
    }
    if (!json_is_string(member.value)) return json_wrong(&member, "a string");
    *value = (struct engine_string){json_string_value(member.value), json_string_length(member.value)};
    return ENGINE_OK;
}

int json_character_member(const struct json_at *object, const char *name, uint32_t *character)
{
    struct json_at member = json_member(object, name);
    struct engine_string text;
    int status = json_string_member(object, name, NULL, &text);
    if (status) return status;
    if (!text.length || unicode_read(text.data, text.length, character) != text.length)
        return json_wrong(&member, "a single character");
    return ENGINE_OK;
}

int json_copy_member(const struct json_at *object, const char *name, const char *preset, char **copy,
                     size_t *length)
{
    struct engine_string text;
    *copy = NULL;
    *length = 0;
    int status = json_string_member(object, name, preset, &text);
    if (status || !text.length) return status;
    *copy = allocate(text.length, 1);
    if (!*copy) return fail_memory("tokenizer");
    memcpy(*copy, text.data, text.length);
    *length = text.length;
    return ENGINE_OK;
}

int json_integer_member(const struct json_at *object, const char *name, int64_t preset, int64_t *value)
{
    struct json_at member = json_member(object, name);
    *value = json_absent(&member) ? preset : json_integer_value(member.value);
    if (!json_absent(&member) && !json_is_integer(member.value)) return json_wrong(&member, "an integer");
    return ENGINE_OK;
}

int json_each(const struct json_at *object, const char *name, json_visit visit, void *user)
{
    struct json_at list = json_member(object, name);
    if (!json_is_array(list.value)) return json_wrong(&list, "an array");
    if (list.depth >= JSON_MAX_DEPTH)
        return host->fail(ENGINE_ERROR_UNSUPPORTED, "%s: more than %d sequences in each other", list.place,
                          JSON_MAX_DEPTH);
    int status = ENGINE_OK;
    for (size_t i = 0; !status && i < json_array_size(list.value); i++) {
        struct json_at element = json_element(&list, i);
        status = json_is_object(element.value) ? visit(user, &element) : json_wrong(&element, "an object");
    }
    return status;
}

int json_pattern(const struct json_at *object, struct engine_string *text, bool *regex)
{
    struct json_at pattern = json_member(object, "pattern");
    *regex = json_object_get(pattern.value, "Regex") != NULL;
    if (json_is_string(pattern.value)) { /* older files */
        *text = (struct engine_string){json_string_value(pattern.value), json_string_length(pattern.value)};
        return ENGINE_OK;
    }
    return json_string_member(&pattern, *regex ? "Regex" : "String", NULL, text);
}
