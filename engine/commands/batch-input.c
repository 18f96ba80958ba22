/* batch-input.c: the input of `engine batch`: its lines, and what each asks for. See batch.h. */
#include "commands/batch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/json-read.h"
#include "io/files.h"
#include "io/json.h"
#include "io/messages.h"

/* ---- Lines --------------------------------------------------------------------------------------------- */

bool line_read(FILE *file, struct line *line, int *status)
{
    int c;
    line->length = 0;
    line->whole = line->too_long = false;
    line->hash = HASH_BASIS;
    while ((c = getc_unlocked(file)) != EOF) {
        unsigned char byte = (unsigned char)c;
        if ((line->whole = c == '\n')) break;
        line->hash = hash_bytes(line->hash, &byte, 1);
        if (line->length == MAX_LINE) line->too_long = true;
        if (line->too_long) continue;
        if (!ARRAY_RESERVE(line->text, line->capacity, line->length + 2)) {
            *status = command_error(ENGINE_ERROR_MEMORY, "out of memory (a line of the input)");
            return false;
        }
        line->text[line->length++] = (char)c;
    }
    if (line->text) line->text[line->length] = '\0';
    if (ferror(file)) *status = command_error(ENGINE_ERROR, "reading failed: %s", strerror(errno));
    return line->whole || line->length > 0 || line->too_long;
}

bool line_is_blank(const struct line *line)
{
    for (size_t i = 0; i < line->length; i++)
        if (!strchr(" \t\r", line->text[i]) || line->text[i] == '\0') return false;
    return !line->too_long;
}

/* ---- What a line asks for ------------------------------------------------------------------------------ */

static bool batch_wrong(char error[256], const char *key, const char *should)
{
    snprintf(error, 256, "\"%.40s\" should be %s", key, should);
    return false;
}

static bool read_tokens(const json_t *value, struct batch_line *line, char error[256])
{
    size_t count = json_array_size(value);
    if (count == 0) return batch_wrong(error, "tokens", "an array of token ids, one at least");
    free(line->tokens);
    line->tokens = calloc(count, sizeof *line->tokens);
    line->n_tokens = count;
    if (!line->tokens) return snprintf(error, 256, TEXT_OPTION_NO_MEMORY), false;
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(value, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return batch_wrong(error, "tokens", "an array of token ids");
        line->tokens[i] = (int32_t)json_integer_value(id);
    }
    return true;
}

static bool read_beams(const char *name, const json_t *value, struct batch_line *line, char error[256])
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > MAX_BEAMS)
        return batch_wrong(error, name, "a whole number from 1 to 1024");
    line->beams.n_beams = (uint32_t)number;
    return true;
}

static bool read_penalty(const char *name, const json_t *value, struct batch_line *line, char error[256])
{
    double number = json_number_value(value);
    line->of_beams = name;
    if (!json_is_number(value) || fabs(number) > MAX_BEAMS_PENALTY)
        return batch_wrong(error, name, "a number from -32 to 32");
    line->beams.length_penalty = (float)number;
    return true;
}

/* true, false or "never" */
static bool read_early(const char *name, const json_t *value, struct batch_line *line, char error[256])
{
    const char *word = json_is_true(value)    ? "true"
                       : json_is_false(value) ? "false"
                                              : json_string_value(value);
    line->of_beams = name;
    if (!word || (!json_is_boolean(value) && strcmp(word, "never") != 0))
        return batch_wrong(error, name, "true, false or \"never\"");
    line->beams.early_stopping = early_stopping_of(word);
    return true;
}

static bool read_id(const char *name, json_t *value, struct batch_line *line, char error[256])
{
    if (json_is_object(value) || json_is_array(value)) return batch_wrong(error, name, "a text or a number");
    line->id = value;
    return true;
}

static bool read_prompt(const char *name, json_t *value, struct batch_line *line, char error[256])
{
    if (!json_is_string(value)) return batch_wrong(error, name, "a text");
    line->prompt = (char *)(size_t)json_string_value(value);
    line->prompt_size = json_string_length(value);
    return true;
}

static bool is_id(const char *name)
{
    return !strcmp(name, "id") || !strcmp(name, "custom_id");
}

static bool read_value(const char *name, json_t *value, struct batch_line *line, char error[256])
{
    if (!strcmp(name, "prompt")) return read_prompt(name, value, line, error);
    if (!strcmp(name, "tokens")) return read_tokens(value, line, error);
    if (is_id(name)) return read_id(name, value, line, error);
    if (!strcmp(name, "beams") || !strcmp(name, "num_beams")) return read_beams(name, value, line, error);
    if (!strcmp(name, "length_penalty")) return read_penalty(name, value, line, error);
    if (!strcmp(name, "early_stopping")) return read_early(name, value, line, error);
    enum text_option_result result = text_option_read(&line->options, name, value, error);
    if (result == TEXT_OPTION_UNKNOWN) snprintf(error, 256, "\"%.100s\" is not known", name);
    return result == TEXT_OPTION_READ;
}

bool batch_line_read(const char *text, size_t length, struct batch_line *line, char error[256])
{
    json_error_t reason;
    const char *keyword = NULL;
    line->root = json_read_request(text, length, &keyword, &reason);
    if (!line->root && json_error_code(&reason) == json_error_out_of_memory)
        return snprintf(error, 256, "%s", TEXT_OPTION_NO_MEMORY), false;
    if (!line->root) return snprintf(error, 256, "not JSON: %.200s", reason.text), false;
    if (!json_is_object(line->root)) return snprintf(error, 256, "not a JSON object"), false;
    const char *name;
    json_t *value;
    bool good = true;
    json_object_foreach(line->root, name, value)
    {
        char later[256] = ""; /* of any mistake after the first */
        if ((good || is_id(name)) && !read_value(name, value, line, good ? error : later)) good = false;
    }
    if (good && keyword) {
        snprintf(error, 256, "\"%s\" of a schema " JSON_LONG_INTEGER, keyword);
        return false;
    }
    char where[JSON_NUL_WHERE];
    if (good && json_has_nul(line->root, where)) {
        snprintf(error, 256, "\"%s\" has a NUL", where);
        return false;
    }
    if (good && !line->prompt == !line->tokens) {
        snprintf(error, 256,
                 line->prompt ? "both \"prompt\" and \"tokens\"" : "neither \"prompt\" nor \"tokens\"");
        return false;
    }
    if (good && line->of_beams && line->beams.n_beams < 2) {
        snprintf(error, 256, "\"%s\" goes with \"beams\" of 2 or more", line->of_beams);
        return false;
    }
    return good;
}

void batch_line_free(struct batch_line *line)
{
    json_decref(line->root);
    free(line->tokens);
    text_options_free(&line->options);
    *line = (struct batch_line){0};
}
