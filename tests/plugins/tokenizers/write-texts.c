/* write-texts.c: writes texts (texts.h), each ended by a NUL: write-texts SEED COUNT [invalid] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "texts.h"

int main(int argc, char **argv)
{
    if (argc < 3) return fputs("usage: write-texts SEED COUNT [invalid]\n", stderr), 2;
    uint64_t state = strtoull(argv[1], NULL, 10);
    bool invalid = argc > 3 && strcmp(argv[3], "invalid") == 0;
    char text[TEXT_MAX];
    for (unsigned long i = strtoul(argv[2], NULL, 10); i > 0; i--) {
        fwrite(text, 1, make_text(&state, invalid, text), stdout);
        putchar(0);
    }
    return ferror(stdout) != 0;
}
