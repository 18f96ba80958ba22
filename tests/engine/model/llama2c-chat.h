/* llama2c-chat.h: a llama2.c checkpoint to chat with: Llama 2's vocabulary from a GGUF file, and random
 * weights whose answers at temperature 0 are words. For test-llama2c-chat.c, and for tools/llama2c/record,
 * which asks llama2.c's run.c about the same files. */
#ifndef TESTS_LLAMA2C_CHAT_H
#define TESTS_LLAMA2C_CHAT_H

/* Writes a checkpoint of version 0 and its tokenizer.bin. Aborts if it cannot. */
void llama2c_chat_write(const char *vocabulary, const char *checkpoint, const char *tokenizer);

#endif
