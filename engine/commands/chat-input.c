/* chat-input.c: see chat.h. libedit's wide functions, because a message is UTF-8 and its cursor moves
 * by characters. */
#include "commands/chat.h"

#include <errno.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <wchar.h>

#include "io/files.h"
#include "io/messages.h"
#include "io/signals.h"

#define MAX_HISTORY 1000
#define MAX_PATTERN 63 /* characters that Ctrl-R looks for */

static volatile sig_atomic_t resized; /* the terminal has another size */

struct chat_input {
    const char *const *completions;
    const char *prompt;
    EditLine *line;    /* NULL: no terminal */
    HistoryW *history; /* with `line` */
    char *file;        /* where it is kept; NULL: nowhere */
    bool interrupted;  /* Ctrl-C was typed */
    char *read;        /* without: what getline filled */
    size_t read_size;
    bool begun; /* the first line has been read */
};

static enum chat_input_result no_memory(void)
{
    command_error(ENGINE_ERROR_MEMORY, "out of memory (input)");
    return CHAT_INPUT_FAILED;
}

/* ---- Editing ------------------------------------------------------------------------------------------- */

static struct chat_input *input_of(EditLine *line)
{
    void *input = NULL;
    el_get(line, EL_CLIENTDATA, &input);
    return input;
}

static wchar_t *show_prompt(EditLine *line)
{
    static wchar_t shown[MAX_PATTERN + 32];
    swprintf(shown, sizeof shown / sizeof *shown, L"%s", input_of(line)->prompt);
    return shown;
}

static void on_resize(int signal_number)
{
    (void)signal_number;
    resized = 1;
}

/* The rows from the prompt to the cursor on a terminal of so many columns. */
static int rows_above(EditLine *line, int columns)
{
    const LineInfoW *info = el_wline(line);
    int row = 0, column = (int)wcslen(show_prompt(line));
    for (const wchar_t *c = info->buffer; c < info->cursor; c++) {
        int width = *c == L'\n' ? columns : wcwidth(*c);
        if (column + width > columns) row++, column = 0;
        if (*c != L'\n') column += width > 0 ? width : 0;
    }
    return row + (column == columns);
}

/* Draws the line anew over the old one, which the terminal has wrapped for its new size. */
static void redraw(EditLine *line)
{
    struct winsize size;
    resized = 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return;
    int rows = rows_above(line, size.ws_col);
    if (rows > 0) printf("\033[%dA", rows);
    fputs("\r\033[J", stdout);
    el_resize(line);
    el_set(line, EL_REFRESH);
}

/* Reads a character. libedit's own function takes no notice of a new size, unless libedit handles all
 * signals. */
static int read_key(EditLine *line, wchar_t *c)
{
    mbstate_t state = {0};
    size_t used = (size_t)-2;
    while (used == (size_t)-2) { /* the character goes on */
        char byte;
        signals_wait(true);
        ssize_t n = read(STDIN_FILENO, &byte, 1);
        int reason = errno;
        signals_wait(false);
        if (n < 0 && reason == EINTR && !interrupted) {
            if (resized) redraw(line);
            continue;
        }
        if (n <= 0) return (int)n;
        used = mbrtowc(c, &byte, 1, &state);
    }
    if (used == (size_t)-1) *c = 0xfffd;
    return 1;
}

/* Has the line hold this text instead, with the cursor behind its first `cursor` characters. False: no
 * memory. */
static bool replace_line(EditLine *line, const wchar_t *text, size_t cursor)
{
    const LineInfoW *info = el_wline(line);
    el_cursor(line, (int)(info->lastchar - info->cursor));
    el_wdeletestr(line, (int)(info->lastchar - info->buffer));
    if (el_winsertstr(line, text) != 0) return false;
    info = el_wline(line);
    el_cursor(line, (int)(info->buffer - info->cursor) + (int)cursor);
    return true;
}

/* The first message with the pattern, from number `from` on (0: the last one), and its number; NULL: none. It
 * is the history's. */
static const wchar_t *find_message(struct chat_input *input, const wchar_t *pattern, size_t from,
                                   size_t *number)
{
    HistEventW event;
    int status = history_w(input->history, &event, H_FIRST);
    for (*number = 0; status != -1; ++*number, status = history_w(input->history, &event, H_NEXT))
        if (*number >= from && wcsstr(event.str, pattern)) return event.str;
    return NULL;
}

/* Ctrl-R: shows the last message that has what is typed now; Ctrl-R again, an earlier one. Backspace shortens
 * the pattern, Ctrl-G goes back to the line as it was, and any other key takes the message. libedit's own
 * search takes time by the square of a message's length. */
static unsigned char search_history(EditLine *line, wint_t c)
{
    struct chat_input *input = input_of(line);
    const LineInfoW *info = el_wline(line);
    const char *prompt = input->prompt;
    char shown[4 * MAX_PATTERN + 32];
    wchar_t pattern[MAX_PATTERN + 1] = L"", key = 0,
                                  *before =
                                      calloc((size_t)(info->lastchar - info->buffer) + 1, sizeof *before);
    size_t length = 0, number = 0, tried = 0, cursor = (size_t)(info->cursor - info->buffer);
    (void)c;
    if (!before) return CC_ERROR;
    wmemcpy(before, info->buffer, (size_t)(info->lastchar - info->buffer));
    for (bool found = true, ended = false; !ended;) {
        int size = snprintf(shown, sizeof shown, "(%s: %ls) ", found ? "search" : "not found", pattern);
        if (size < 0 || (size_t)size >= sizeof shown) break;
        input->prompt = shown;
        el_set(line, EL_REFRESH);
        if (el_wgetc(line, &key) != 1) break;
        tried = number;
        if (key == L'\022')
            tried = number + (length > 0 && found);
        else if ((key == L'\177' || key == L'\b') && length > 0)
            pattern[--length] = 0, tried = 0;
        else if (key >= 0x20 && key != 0x7f && length < MAX_PATTERN)
            pattern[length++] = key, pattern[length] = 0;
        else
            ended = true;
        if (ended || length == 0) continue;
        size_t at;
        const wchar_t *text = find_message(input, pattern, tried, &at);
        found = text != NULL;
        if (found && replace_line(line, text, (size_t)(wcsstr(text, pattern) - text))) number = at;
    }
    input->prompt = prompt;
    wchar_t again[2] = {key, 0};
    if (key == L'\a')
        replace_line(line, before, cursor);
    else if (key)
        el_wpush(line, again);
    free(before);
    return CC_REFRESH;
}

/* Alt-Enter. */
static unsigned char begin_line(EditLine *line, wint_t c)
{
    (void)c;
    return el_winsertstr(line, L"\n") == 0 ? CC_REFRESH : CC_ERROR;
}

/* Ctrl-C: a key while a line is edited, so that it cannot get lost just before the terminal is read. */
static unsigned char interrupt(EditLine *line, wint_t c)
{
    (void)c;
    input_of(line)->interrupted = true;
    return CC_EOF;
}

/* The terminal puts ESC [ 200 ~ before what is pasted, and ESC [ 201 ~ after it. */
static unsigned char paste(EditLine *line, wint_t c)
{
    static const wchar_t end[] = L"\033[201~";
    wchar_t text[256], next;
    size_t n = 0, matched = 0;
    (void)c;
    while (matched < wcslen(end) && el_wgetc(line, &next) == 1) {
        if (next == end[matched]) {
            matched++;
            continue;
        }
        matched = next == end[0] ? 1 : 0;
        if (matched) continue;
        if (next == L'\r') next = L'\n';
        if (next != L'\n' && next != L'\t' && (next < 0x20 || next == 0x7f)) continue;
        text[n++] = next;
        if (n + 1 < sizeof text / sizeof *text) continue;
        text[n] = 0;
        if (el_winsertstr(line, text) != 0) return CC_ERROR;
        n = 0;
    }
    text[n] = 0;
    if (n > 0 && el_winsertstr(line, text) != 0) return CC_ERROR;
    return CC_REFRESH;
}

/* Tab: completes a command at the beginning of the line, and lists them if several remain. */
static unsigned char complete(EditLine *line, wint_t c)
{
    const struct chat_input *input = input_of(line);
    const LineInfoW *info = el_wline(line);
    char typed[64], common[64] = "";
    size_t n = (size_t)(info->cursor - info->buffer), count = 0;
    (void)c;
    if (n + 1 > sizeof typed) return CC_ERROR;
    for (size_t i = 0; i < n; i++) {
        if (info->buffer[i] >= 0x80) return CC_ERROR;
        typed[i] = (char)info->buffer[i];
    }
    for (const char *const *name = input->completions; *name; name++) {
        if (strncmp(*name, typed, n) != 0 || n == 0) continue;
        size_t same = 0;
        while (count > 0 && common[same] && common[same] == (*name)[same]) same++;
        if (count++ == 0) same = (size_t)snprintf(common, sizeof common, "%s", *name);
        common[same] = 0;
    }
    if (count == 0) return CC_ERROR;
    if (strlen(common) > n) {
        wchar_t rest[65];
        swprintf(rest, sizeof rest / sizeof *rest, L"%s", common + n);
        return el_winsertstr(line, rest) == 0 ? CC_REFRESH : CC_ERROR;
    }
    if (count == 1) return CC_ERROR;
    putchar('\n');
    for (const char *const *name = input->completions; *name; name++)
        if (strncmp(*name, typed, n) == 0) printf("%s ", *name);
    putchar('\n');
    return CC_REDISPLAY;
}

/* Adds a message to the history in memory. Also the function of chat_history_read. */
static void input_enter(void *user, const char *text)
{
    struct chat_input *input = user;
    HistEventW event;
    size_t n = mbstowcs(NULL, text, 0);
    if (n == SIZE_MAX || n == 0) return;
    wchar_t *wide = calloc(n + 1, sizeof *wide);
    if (!wide) return; /* a history with a gap is no failure */
    mbstowcs(wide, text, n + 1);
    history_w(input->history, &event, H_ENTER, wide);
    free(wide);
}

static void open_history(struct chat_input *input)
{
    const char *why;
    input->file = chat_history_path(&why);
    if (input->file)
        chat_history_read(input->file, input_enter, input);
    else if (why)
        command_warn("what you type is not kept for the next chat: %s (--no-history turns this off)", why);
}

static bool open_terminal(struct chat_input *input)
{
    HistEventW event;
    input->line = el_init("engine", stdin, stdout, stderr);
    input->history = history_winit();
    if (!input->line || !input->history) return false;
    el_set(input->line, EL_CLIENTDATA, input);
    history_w(input->history, &event, H_SETSIZE, MAX_HISTORY);
    history_w(input->history, &event, H_SETUNIQUE, 1);
    el_wset(input->line, EL_HIST, history_w, input->history);
    el_wset(input->line, EL_PROMPT, show_prompt);
    el_wset(input->line, EL_GETCFN, read_key);
    el_wset(input->line, EL_EDITOR, L"emacs");
    el_wset(input->line, EL_ADDFN, L"chat-begin-line", L"Begins a new line", begin_line);
    el_wset(input->line, EL_ADDFN, L"chat-interrupt", L"Discards the line", interrupt);
    el_wset(input->line, EL_ADDFN, L"chat-paste", L"Inserts what is pasted", paste);
    el_wset(input->line, EL_ADDFN, L"chat-complete", L"Completes a command", complete);
    el_wset(input->line, EL_ADDFN, L"chat-search", L"Searches what was typed before", search_history);
    el_wset(input->line, EL_SETTY, L"-d", L"intr=", NULL);
    el_wset(input->line, EL_BIND, L"^C", L"chat-interrupt", NULL);
    el_wset(input->line, EL_BIND, L"\033\r", L"chat-begin-line", NULL);
    el_wset(input->line, EL_BIND, L"\033\n", L"chat-begin-line", NULL);
    el_wset(input->line, EL_BIND, L"\033[200~", L"chat-paste", NULL);
    el_wset(input->line, EL_BIND, L"\t", L"chat-complete", NULL);
    el_wset(input->line, EL_BIND, L"^R", L"chat-search", NULL);
    el_wset(input->line, EL_BIND, L"\033[1;5D", L"ed-prev-word", NULL);
    el_wset(input->line, EL_BIND, L"\033[1;5C", L"em-next-word", NULL);
    return true;
}

/* libedit decodes what is typed by the locale. */
static void use_utf8(void)
{
    if (setlocale(LC_CTYPE, "") && strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return;
    setlocale(LC_CTYPE, "C.UTF-8");
}

int chat_input_open(const char *const *completions, bool keeps, struct chat_input **input)
{
    struct chat_input *made = calloc(1, sizeof *made);
    if (!made) return command_error(ENGINE_ERROR_MEMORY, "out of memory (input)");
    made->completions = completions;
    if (isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)) {
        use_utf8();
        terminal_state_keep();
        if (!open_terminal(made)) {
            chat_input_close(made);
            return command_error(ENGINE_ERROR, "the terminal cannot be used");
        }
        if (keeps) open_history(made);
    }
    *input = made;
    return ENGINE_OK;
}

void chat_input_close(struct chat_input *input)
{
    if (!input) return;
    if (input->line) el_end(input->line);
    terminal_state_restore();
    if (input->history) history_wend(input->history);
    free(input->read);
    free(input->file);
    free(input);
}

unsigned chat_input_columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool chat_input_is_terminal(const struct chat_input *input)
{
    return input->line != NULL;
}

/* ---- Lines --------------------------------------------------------------------------------------------- */

/* Types a text as if the user had, so that it can be edited. */
static bool type_text(struct chat_input *input, const char *text)
{
    size_t n = mbstowcs(NULL, text, 0), used = 0;
    if (n == SIZE_MAX) return false;
    wchar_t *wide = calloc(n + 1, sizeof *wide), *keys = calloc(2 * n + 1, sizeof *keys);
    if (wide && keys) {
        mbstowcs(wide, text, n + 1);
        for (size_t i = 0; i < n; i++) {
            if (wide[i] == L'\n') keys[used++] = L'\033';
            if (wide[i] == L'\n' || wide[i] >= 0x20) keys[used++] = wide[i] == L'\n' ? L'\r' : wide[i];
        }
        el_wpush(input->line, keys); /* copied */
    }
    bool good = wide && keys;
    free(wide);
    free(keys);
    return good;
}

static void control(const char *sequence)
{
    fputs(sequence, stdout);
    fflush(stdout);
}

/* A line without its end. */
static enum chat_input_result read_terminal(struct chat_input *input, const char *preset, char **text,
                                            size_t *length)
{
    int n = 0;
    const struct sigaction resize = {.sa_handler = on_resize};
    struct sigaction earlier;
    if (preset && !type_text(input, preset)) return no_memory();
    /* libedit changes the terminal only once it has shown its prompt; what is typed before that must be
     * keys, too, Ctrl-C among them. */
    struct termios terminal, plain;
    bool known = tcgetattr(STDIN_FILENO, &terminal) == 0;
    if (known) {
        plain = terminal;
        plain.c_cc[VINTR] = plain.c_cc[VEOF] = _POSIX_VDISABLE;
        plain.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &plain);
    }
    input->interrupted = interrupted;
    control("\033[?2004h");
    sigaction(SIGWINCH, &resize, &earlier);
    el_resize(input->line); /* it may have changed during the answer */
    const wchar_t *wide = input->interrupted ? NULL : el_wgets(input->line, &n);
    sigaction(SIGWINCH, &earlier, NULL);
    control("\033[?2004l");
    if (known) tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
    terminal_state_hide_typing(); /* until the next line is read */
    if (input->interrupted || interrupted) {
        putchar('\n');
        return CHAT_INPUT_INTERRUPTED;
    }
    if (!wide || n <= 0) {
        putchar('\n');
        return CHAT_INPUT_END;
    }
    size_t bytes = wcstombs(NULL, wide, 0);
    *text = malloc((bytes == SIZE_MAX ? 0 : bytes) + 1);
    if (!*text) return no_memory();
    (*text)[0] = 0;
    if (bytes != SIZE_MAX) wcstombs(*text, wide, bytes + 1);
    *length = bytes == SIZE_MAX ? 0 : bytes;
    if (*length > 0 && (*text)[*length - 1] == '\n') (*text)[--*length] = 0;
    return CHAT_INPUT_TEXT;
}

static enum chat_input_result read_line(struct chat_input *input, char **text, size_t *length)
{
    errno = 0;
    signals_wait(true);
    ssize_t n = getline(&input->read, &input->read_size, stdin);
    int reason = errno;
    signals_wait(false);
    if (interrupted) return CHAT_INPUT_INTERRUPTED;
    if (n < 0) {
        if (feof(stdin) && !ferror(stdin)) return CHAT_INPUT_END;
        command_error(ENGINE_ERROR, "standard input: %s", strerror(reason));
        return CHAT_INPUT_FAILED;
    }
    if (n > 0 && input->read[n - 1] == '\n') n--;
    if (n > 0 && input->read[n - 1] == '\r') n--;
    size_t mark = 0;
    if (!input->begun && text_mark("standard input", input->read, (size_t)n, &mark) != ENGINE_OK)
        return CHAT_INPUT_FAILED;
    input->begun = true;
    n -= (ssize_t)mark;
    *text = malloc((size_t)n + 1);
    if (!*text) return no_memory();
    memcpy(*text, input->read + mark, (size_t)n);
    (*text)[n] = 0;
    *length = (size_t)n;
    return CHAT_INPUT_TEXT;
}

/* ---- Messages ------------------------------------------------------------------------------------------ */

/* Keeps a message in the file, too; what begins with a blank is kept for this chat only. */
static void remember(struct chat_input *input, const char *text)
{
    if (!input->line || !*text) return;
    input_enter(input, text);
    if (!input->file || *text == ' ' || chat_history_add(input->file, text)) return;
    command_warn("what you type is not kept for the next chat: %s: %s", input->file, strerror(errno));
    free(input->file);
    input->file = NULL;
}

enum chat_input_result chat_input_read(struct chat_input *input, const char *preset, char **text,
                                       size_t *length)
{
    struct text_buffer message = {0};
    bool quoted = false, closed = false; /* between the marks; after them */
    input->prompt = "> ";
    for (;;) {
        char *line = NULL;
        size_t n = 0;
        enum chat_input_result result =
            input->line ? read_terminal(input, preset, &line, &n) : read_line(input, &line, &n);
        preset = NULL;
        if (result == CHAT_INPUT_END && message.size > 0) break;
        if (result != CHAT_INPUT_TEXT) {
            free(message.data);
            return result;
        }
        bool mark = input->line && strcmp(line, "\"\"\"") == 0;
        bool more = mark ? !quoted : quoted || (n > 0 && line[n - 1] == '\\');
        if (more && !mark && !quoted) line[n - 1] = '\n';
        if (more && quoted && !mark) line[n++] = '\n'; /* over the NUL; the length counts */
        if (mark) n = 0;
        if (mark && quoted && message.size > 0) message.size--; /* the newline before the closing mark */
        closed = mark && quoted;
        quoted = mark ? !quoted : quoted;
        int status = text_add(&message, &(struct engine_string){line, n});
        free(line);
        if (status) {
            free(message.data);
            return CHAT_INPUT_FAILED;
        }
        if (!more) break;
        input->prompt = ". ";
    }
    if (text_add(&message, &(struct engine_string){"", 1}) != ENGINE_OK) {
        free(message.data);
        return CHAT_INPUT_FAILED;
    }
    *text = message.data;
    *length = message.size - 1;
    /* What is pasted often has the end of its last line, too. */
    while (input->line && !closed && *length > 0 && (*text)[*length - 1] == '\n') (*text)[--*length] = 0;
    remember(input, *text);
    return CHAT_INPUT_TEXT;
}
