/* write-llama2c-chat.c: writes the files of llama2c-chat.h, for tools/llama2c/record. */
#include <stdio.h>

#include "llama2c-chat.h"

int main(int argc, char **argv)
{
    if (argc != 4)
        return fprintf(stderr, "usage: %s VOCABULARY.gguf CHECKPOINT.bin TOKENIZER.bin\n", argv[0]), 2;
    llama2c_chat_write(argv[1], argv[2], argv[3]);
    return 0;
}
