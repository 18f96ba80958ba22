/* tables.c: the tables of model families in docs/, printed from their descriptors (engine/arch/arch.h).
 *
 * family-tables [--check] FILE…
 *
 * Replaces what stands in each file between a line <!-- families: TABLE --> and the next <!-- families:
 * end -->, with TABLE one of decoders, encoders, both, types and missing. --check writes nothing: status 1
 * if a file would change. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arch/arch.h"

#define BEGIN "<!-- families: "
#define END   BEGIN "end -->\n"

/* ---- Tables -------------------------------------------------------------------------------------------- */

static void print_families(FILE *out, enum arch_kind kind)
{
    const struct architecture *architecture;
    fprintf(out, "| family | models |\n| --- | --- |\n");
    for (size_t i = 0; (architecture = arch_at(i)); i++)
        if (architecture->read && architecture->kind == kind)
            fprintf(out, "| `%s` | %s |\n", architecture->name, architecture->models);
}

/* The model types of a family that share a condition; NULL: that have none. */
static void print_types(FILE *out, const struct hf_type *types, const char *when)
{
    const char *comma = "";
    for (const struct hf_type *type = types; type->name; type++) {
        bool is_same = when && type->when ? strcmp(type->when, when) == 0 : type->when == when;
        if (!is_same || type->refusal) continue;
        fprintf(out, "%s`%s`", comma, type->name);
        comma = ", ";
    }
    if (when) fprintf(out, " %s", when);
}

/* Whether no earlier type of the list has the condition of this one. */
static bool is_first(const struct hf_type *types, const struct hf_type *type)
{
    for (const struct hf_type *other = types; other < type; other++)
        if (other->when == type->when || (other->when && type->when && !strcmp(other->when, type->when)))
            return false;
    return true;
}

static void print_all_types(FILE *out)
{
    const struct architecture *architecture;
    fprintf(out, "| `model_type` | runs as the family |\n| --- | --- |\n");
    for (size_t i = 0; (architecture = arch_at(i)); i++) {
        const struct hf_type *types = architecture->hf.types;
        if (!architecture->read || !types || types->refusal) continue;
        fprintf(out, "| ");
        for (const struct hf_type *type = types; type->name; type++) {
            if (!is_first(types, type)) continue;
            fprintf(out, "%s", type > types ? "; " : "");
            print_types(out, types, type->when);
        }
        fprintf(out, " | `%s` |\n", architecture->name);
    }
}

static void print_missing(FILE *out)
{
    const struct architecture *architecture;
    fprintf(out, "| family | missing fact | taken from | if unknown |\n| --- | --- | --- | --- |\n");
    for (size_t i = 0; (architecture = arch_at(i)); i++)
        for (const struct arch_missing *row = architecture->missing; row && row->fact; row++)
            fprintf(out, "| `%s` | %s | %s | %s%s|\n", architecture->name, row->fact, row->taken,
                    row->unknown, row->unknown[0] ? " " : "");
}

/* False: there is no such table. */
static bool print_table(FILE *out, const char *name)
{
    static const struct {
        const char *name;
        enum arch_kind kind;
    } tables[] = {{"decoders", ARCH_DECODER}, {"encoders", ARCH_ENCODER}, {"both", ARCH_ENCODER_DECODER}};
    size_t n = strcspn(name, " ");
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (strncmp(tables[i].name, name, n) == 0 && !tables[i].name[n])
            return print_families(out, tables[i].kind), true;
    bool is_types = strncmp(name, "types ", n + 1) == 0, is_missing = strncmp(name, "missing ", n + 1) == 0;
    if (is_types) print_all_types(out);
    if (is_missing) print_missing(out);
    return is_types || is_missing;
}

/* ---- Files --------------------------------------------------------------------------------------------- */

/* A whole file in new memory; NULL with a message. */
static char *read_file(const char *path)
{
    FILE *in = fopen(path, "rb");
    char *text = NULL;
    size_t room = 0;
    if (!in || getdelim(&text, &room, '\0', in) < 0) {
        perror(path);
        free(text);
        text = NULL;
    }
    if (in) fclose(in);
    return text;
}

/* The text with its tables printed anew, in new memory; NULL with a message. */
static char *renew(const char *path, const char *text)
{
    char *renewed = NULL;
    size_t size;
    FILE *out = open_memstream(&renewed, &size);
    for (const char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        next += *next == '\n';
        fwrite(line, 1, (size_t)(next - line), out);
        if (strncmp(line, BEGIN, strlen(BEGIN)) != 0) continue;
        const char *end = strstr(next, END);
        if (!end || !print_table(out, line + strlen(BEGIN))) {
            fprintf(stderr, "%s: no such table, or no end: %.60s\n", path, line);
            fclose(out);
            free(renewed);
            return NULL;
        }
        fputs(END, out);
        next = end + strlen(END);
    }
    fclose(out);
    return renewed;
}

/* The status of the program: 1 for a failure, and with `checks` for a file that would change. */
static int treat(const char *path, bool checks)
{
    char *text = read_file(path), *renewed = text ? renew(path, text) : NULL;
    bool is_same = renewed && strcmp(text, renewed) == 0;
    int status = renewed && (is_same || !checks) ? 0 : 1;
    if (renewed && !is_same && checks)
        fprintf(stderr, "%s differs from the families' descriptors: run family-tables %s\n", path, path);
    FILE *out = renewed && !is_same && !checks ? fopen(path, "wb") : NULL;
    if (out && (fputs(renewed, out) < 0) + (fclose(out) != 0) > 0) {
        perror(path);
        status = 1;
    }
    free(text);
    free(renewed);
    return status;
}

int main(int argc, char **argv)
{
    bool checks = argc > 1 && strcmp(argv[1], "--check") == 0;
    int status = 0, first = checks ? 2 : 1;
    if (first >= argc) return fprintf(stderr, "usage: %s [--check] FILE…\n", argv[0]), 2;
    for (int i = first; i < argc; i++) status |= treat(argv[i], checks);
    return status;
}
