/* terminal-state.c: see terminal-state.h. */
#include "commands/terminal-state.h"

#include <signal.h>
#include <termios.h>
#include <unistd.h>

static struct termios kept;
static volatile sig_atomic_t is_kept;

void terminal_state_keep(void)
{
    if (!is_kept && tcgetattr(STDIN_FILENO, &kept) == 0) is_kept = 1;
}

void terminal_state_hide_typing(void)
{
    struct termios now;
    if (!is_kept || tcgetattr(STDIN_FILENO, &now) != 0) return;
    now.c_lflag &= ~(tcflag_t)(ECHO | ECHOCTL | ECHONL);
    tcsetattr(STDIN_FILENO, TCSANOW, &now);
}

void terminal_state_restore(void)
{
    if (is_kept) tcsetattr(STDIN_FILENO, TCSANOW, &kept);
    is_kept = 0;
}
