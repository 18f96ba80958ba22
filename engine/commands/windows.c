/* windows.c: see windows.h. */
#include "commands/windows.h"

size_t windows_count(size_t n_tokens, size_t n_window, size_t stride)
{
    if (stride == 0) return n_tokens / n_window;
    if (n_tokens < 2) return 0;
    return n_tokens <= n_window ? 1 : 1 + (n_tokens - n_window + stride - 1) / stride;
}

struct window windows_at(size_t n_tokens, size_t n_window, size_t stride, size_t number)
{
    if (stride == 0) return (struct window){number * n_window, n_window, n_window / 2 + 1};
    size_t first = number * stride, end = first + n_window < n_tokens ? first + n_window : n_tokens;
    /* Where the window before it ended. Nothing predicts the first token of a window. */
    size_t seen = number > 0 && stride < n_window ? first - stride + n_window : first + 1;
    return (struct window){first, end - first, seen - first};
}

uint64_t windows_scored(size_t n_tokens, size_t n_window, size_t stride)
{
    uint64_t scored = 0;
    for (size_t i = 0; i < windows_count(n_tokens, n_window, stride); i++) {
        struct window window = windows_at(n_tokens, n_window, stride, i);
        scored += window.length - window.counted;
    }
    return scored;
}
