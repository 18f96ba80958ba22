/* categories.c: writes plugins/tokenizers/common/unicode-table.c: the general categories of Unicode 15.1, by
 * which models' vocabularies cut text (a later version of Unicode would cut some texts differently).
 *
 *   cc tools/unicode/categories.c -lutf8proc && ./a.out > plugins/tokenizers/common/unicode-table.c
 *
 * Needs utf8proc 2.8 (Unicode 15.0) or 2.9 (15.1); what 15.1 added is put in here. */
#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

#define LAST 0x10FFFF

/* The groups of unicode.h, by their names there. */
static const char *group_of(int code_point)
{
    if ((code_point >= 0x2FFC && code_point <= 0x2FFF) || code_point == 0x31EF) return "SYMBOL";
    if (code_point >= 0x2EBF0 && code_point <= 0x2EE5D) return "LETTER";
    switch (utf8proc_category(code_point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return "LETTER";
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME: return "MARK";
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO: return "NUMBER";
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return "PUNCTUATION";
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO: return "SYMBOL";
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return "SEPARATOR";
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: return "CONTROL";
    default: return "UNASSIGNED";
    }
}

int main(void)
{
    if (strncmp(utf8proc_unicode_version(), "15.", 3) != 0) {
        fprintf(stderr, "utf8proc knows Unicode %s; 15.0 or 15.1 is needed\n", utf8proc_unicode_version());
        return 1;
    }
    static const char *const groups[] = {"UNASSIGNED",  "LETTER", "NUMBER",    "MARK",
                                         "PUNCTUATION", "SYMBOL", "SEPARATOR", "CONTROL"};
    puts("/* unicode-table.c: made by tools/unicode/categories.c; do not edit.");
    puts(" *");
    puts(" * Each entry is the first code point of a run of one group << 3 | the group (enum unicode_group). "
         "*/");
    puts("#include \"common/unicode.h\"\n");
    puts("const uint32_t unicode_runs[] = {");
    const char *previous = "";
    int n = 0;
    for (int code_point = 0; code_point <= LAST; code_point++) {
        const char *group = group_of(code_point);
        if (strcmp(group, previous) == 0) continue;
        previous = group;
        unsigned index = 0;
        while (strcmp(groups[index], group) != 0) index++;
        printf("%s0x%06X,%s", n % 10 ? " " : "    ", (unsigned)code_point << 3 | index,
               n % 10 == 9 ? "\n" : "");
        n++;
    }
    printf("%s};\n", n % 10 ? "\n" : "");
    printf("const size_t n_unicode_runs = %d;\n", n);
    return 0;
}
