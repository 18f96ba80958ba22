/* named.c: what llama.cpp's templates make of conversations, as JSON on standard output: {NAME: [TEXT, …]}, a
 * text for each conversation on standard input. Each of these is a line: ROLE, TAB and hexadecimal content
 * for each message, separated by TAB, and "+" at its beginning if the answer begins. Names are those of the
 * command line. For tools/templates/record-named; compiled in the peers. */
#include <llama.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 100, MAX_MESSAGES = 50 };

static char *unhex(char *text)
{
    size_t length = strlen(text) / 2;
    for (size_t i = 0; i < length; i++) {
        unsigned byte;
        sscanf(text + 2 * i, "%2x", &byte);
        text[i] = (char)byte;
    }
    text[length] = '\0';
    return text;
}

static void print_hex(const char *text, int length)
{
    putchar('"');
    for (int i = 0; i < length; i++) printf("%02x", (unsigned char)text[i]);
    putchar('"');
}

int main(int argc, char **argv)
{
    static char lines[MAX_LINES][1 << 14], result[1 << 18];
    struct llama_chat_message messages[MAX_LINES][MAX_MESSAGES];
    size_t counts[MAX_LINES] = {0}, n_lines = 0;
    for (; n_lines < MAX_LINES && fgets(lines[n_lines], sizeof lines[0], stdin); n_lines++) {
        lines[n_lines][strcspn(lines[n_lines], "\n")] = '\0';
        char *at = lines[n_lines] + 1; /* after "+" or "-" */
        while (*at) {
            char *content = strchr(at, '\t');
            *content++ = '\0';
            char *end = content + strcspn(content, "\t"), *next = *end ? end + 1 : end;
            *end = '\0';
            messages[n_lines][counts[n_lines]++] = (struct llama_chat_message){at, unhex(content)};
            at = next;
        }
    }
    printf("{");
    for (int i = 1; i < argc; i++) {
        printf("%s\n\"%s\": [", i > 1 ? "," : "", argv[i]);
        for (size_t line = 0; line < n_lines; line++) {
            int n = llama_chat_apply_template(argv[i], messages[line], counts[line], lines[line][0] == '+',
                                              result, sizeof result);
            printf("%s", line > 0 ? ", " : "");
            if (n < 0)
                printf("null");
            else
                print_hex(result, n);
        }
        printf("]");
    }
    printf("}\n");
    return 0;
}
