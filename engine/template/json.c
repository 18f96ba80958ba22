/* json.c: see json.h. */
#include "template/json.h"

#include <string.h>

static bool is_word(const char *text)
{
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return length > 0 && !text[length];
}

static struct value convert(struct task *task, const json_t *json, const char *word_key, int level);

static struct value convert_object(struct task *task, const json_t *json, const char *word_key, int level)
{
    struct dict *dict = dict_create(task);
    json_t *object =
        (json_t *)(size_t)json; /* Jansson's iterators, which keep the file's order, take no const */
    task_enter(task);
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        const char *key = json_object_iter_key(at);
        const json_t *item = json_object_iter_value(at);
        struct value name = value_text(text_make(task, key, json_object_iter_key_len(at), true));
        struct value value = convert(task, item, word_key, level + 1);
        if (word_key && level == 1 && json_is_string(item) && strcmp(key, word_key) == 0 &&
            json_string_length(item) == strlen(json_string_value(item)) && is_word(json_string_value(item)))
            value = value_text(text_make(task, json_string_value(item), json_string_length(item), false));
        dict_set(task, dict, name, value);
    }
    task_leave(task);
    return value_dict(dict);
}

static struct value convert(struct task *task, const json_t *json, const char *word_key, int level)
{
    struct list *list;
    size_t index;
    json_t *item;
    switch (json_typeof(json)) {
    case JSON_TRUE: return value_boolean(true);
    case JSON_FALSE: return value_boolean(false);
    case JSON_INTEGER: return value_integer(json_integer_value(json));
    case JSON_REAL: return value_float(json_real_value(json));
    case JSON_STRING:
        return value_text(text_make(task, json_string_value(json), json_string_length(json), true));
    case JSON_ARRAY:
        list = list_create(task, json_array_size(json));
        task_enter(task);
        json_array_foreach(json, index, item) list_add(task, list, convert(task, item, word_key, level + 1));
        task_leave(task);
        return value_list(VALUE_LIST, list);
    case JSON_OBJECT: return convert_object(task, json, word_key, level);
    default: return value_none();
    }
}

struct value json_to_value(struct task *task, const json_t *json, const char *word_key)
{
    return convert(task, json, word_key, 0);
}
