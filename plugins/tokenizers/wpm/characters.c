/* characters.c: BERT's normalization of a character as llama.cpp does it: the first code point of its
 * canonical decomposition counts, in lower case, and the remaining accents are dropped. */
#include <string.h>
#include <utf8proc.h>

#include "common/memory.h"
#include "common/unicode.h"
#include "wpm/model.h"

/* As in BERT, except for one block that begins 256 code points late, as in HF tokenizers. */
static bool is_chinese(uint32_t code_point)
{
    static const uint32_t blocks[][2] = {{0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},
                                         {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F},
                                         {0x2B920, 0x2CEAF}, {0x2F800, 0x2FA1F}};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (code_point >= blocks[i][0] && code_point <= blocks[i][1]) return true;
    return false;
}

static enum wpm_role role_of(const struct wpm_model *model, uint32_t code_point, enum unicode_group group)
{
    if (unicode_is_space(code_point)) return WPM_SPACE;
    if (code_point == 0 || code_point == UNICODE_REPLACEMENT || group == UNICODE_CONTROL) return WPM_GONE;
    if (group == UNICODE_MARK && model->strip_accents) return WPM_GONE;
    if (group == UNICODE_PUNCTUATION || (group == UNICODE_SYMBOL && code_point < 0x80) ||
        is_chinese(code_point))
        return WPM_ALONE;
    return WPM_PART;
}

int wpm_assign_roles(struct wpm_model *model)
{
    model->roles = allocate(UNICODE_SIZE, 1);
    if (!model->roles) return fail_memory("vocabulary");
    for (size_t run = 0; run < n_unicode_runs; run++) {
        enum unicode_group group = unicode_runs[run] & 7;
        for (uint32_t code_point = unicode_runs[run] >> 3; code_point < unicode_run_end(run); code_point++)
            model->roles[code_point] = (uint8_t)role_of(model, code_point, group);
    }
    return ENGINE_OK;
}

/* The first code point of the canonical decomposition. */
static uint32_t without_accents(uint32_t code_point)
{
    utf8proc_int32_t parts[32];
    int last_class = 0;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)code_point, parts, 32,
                                                 UTF8PROC_STABLE | UTF8PROC_DECOMPOSE, &last_class);
    return n > 0 ? (uint32_t)parts[0] : code_point;
}

size_t wpm_read(const struct wpm_model *model, const char *text, size_t left, enum wpm_role *role,
                char out[4], size_t *out_length)
{
    uint32_t code_point;
    size_t length = unicode_read(text, left, &code_point);
    if (code_point >= 0x80 && model->strip_accents) code_point = without_accents(code_point);
    *role = model->roles[code_point];
    if (*role != WPM_PART && *role != WPM_ALONE) return length;
    if (model->lowercase) code_point = (uint32_t)utf8proc_tolower((utf8proc_int32_t)code_point);
    *out_length = (size_t)utf8proc_encode_char((utf8proc_int32_t)code_point, (utf8proc_uint8_t *)out);
    return length;
}
