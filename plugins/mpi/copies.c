/* copies.c: see copies.h. */
#include "copies.h"

#include <string.h>

void info_add(struct bytes *bytes, const struct engine_device_info *info)
{
    bytes_add_text(bytes, info->description);
    bytes_add_u32(bytes, info->kind);
    bytes_add_u64(bytes, info->memory_free);
    bytes_add_u64(bytes, info->memory_total);
    bytes_add_u64(bytes, info->max_buffer);
    bytes_add_u32(bytes, info->alignment);
    bytes_add_u32(bytes, info->flags);
}

void info_read(struct reader *reader, struct engine_device_info *info)
{
    read_text(reader, info->description, sizeof info->description);
    info->kind = read_u32(reader);
    info->memory_free = read_u64(reader);
    info->memory_total = read_u64(reader);
    info->max_buffer = read_u64(reader);
    info->alignment = read_u32(reader);
    info->flags = read_u32(reader);
    if (info->alignment & (info->alignment - 1) || info->alignment > 1 << 20) reader->failed = true;
}

static void add_short_text(struct bytes *bytes, const char *text)
{
    char start[256] = "";
    if (text) strncpy(start, text, sizeof start - 1);
    bytes_add_text(bytes, start);
}

void weight_add(struct bytes *bytes, const struct engine_weight_desc *desc)
{
    add_short_text(bytes, desc->name);
    add_short_text(bytes, desc->type_name);
    bytes_add_u32(bytes, desc->type);
    bytes_add_u32(bytes, desc->uses);
    bytes_add(bytes, desc->ne, sizeof desc->ne);
    bytes_add_u64(bytes, desc->data_size);
    bytes_add_u32(bytes, desc->exact_inputs);
}

void weight_read(struct reader *reader, struct engine_weight_desc *desc, char texts[2][256])
{
    *desc = (struct engine_weight_desc){.struct_size = sizeof *desc, .name = texts[0], .type_name = texts[1]};
    read_text(reader, texts[0], 256);
    read_text(reader, texts[1], 256);
    desc->type = read_u32(reader);
    desc->uses = read_u32(reader);
    for (int d = 0; d < 4; d++) desc->ne[d] = read_u64(reader);
    desc->data_size = read_u64(reader);
    desc->exact_inputs = read_u32(reader);
}
