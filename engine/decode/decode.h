/* decode.h: what the program engine-decode and whoever starts it say to each other.
 *
 * It decodes one picture, whose bytes it reads from its standard input to their end, and writes an answer to
 * its standard output. It has no other files, no sockets, and little memory and time: a picture that takes it
 * over, or makes it crash, harms nobody else. Its arguments are numbers, in this order: the picture's bytes,
 * the most pixels that it may have, the most bytes of address space, the most seconds of the processor.
 *
 * The answer is a struct decode_answer, and behind it either `length` bytes of a message (status is not 0),
 * or width * height * 3 bytes of red, green and blue. */
#ifndef ENGINE_DECODE_DECODE_H
#define ENGINE_DECODE_DECODE_H

#include <stdint.h>

#define DECODE_PROGRAM "engine-decode" /* in the folder of engine-serve */

struct decode_answer {
    uint32_t status; /* enum engine_status */
    uint32_t width, height;
    uint32_t length;
};

#endif
