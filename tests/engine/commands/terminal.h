/* terminal.h: runs the program `engine` on a pseudo-terminal, types, and waits for what it should print. */
#ifndef TESTS_TERMINAL_H
#define TESTS_TERMINAL_H

#include <stddef.h>
#include <sys/types.h>

struct terminal {
    pid_t child;
    int fd;
    char *text; /* all that came, NUL-terminated */
    size_t size, capacity;
    size_t seen; /* what earlier expectations have matched */
};

/* Arguments without the program's name, ended by NULL. */
void terminal_start(struct terminal *terminal, const char *const *arguments);
void terminal_resize(struct terminal *terminal, unsigned short columns);
void terminal_type(struct terminal *terminal, const char *keys);
/* Waits until this text comes after what was expected before; ends the test if the program ends or hangs. */
void terminal_expect(struct terminal *terminal, const char *text);
/* Waits for the program's end; ends the test unless this is its exit status, or 128 + the signal. */
void terminal_expect_end(struct terminal *terminal, int expected);

#endif
