/* chat-commands.c: the lines of `engine chat` that begin with "/". */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "commands/chat.h"
#include "common/array.h"
#include "io/messages.h"
#include "prompts/prompt.h"

/* What a command does with the words after its name, which may be empty. *preset as in chat_command. */
typedef bool action(struct chat *chat, char *words, char **preset);

static action ask_again, take_back, edit, set_system, save, chat_load, show_stats, set, switch_adapters,
    chat_clear, help, leave;

static const struct chat_action {
    const char *name, *words, *help;
    action *run;
} actions[] = {
    {"/regenerate", "", "answers the last message once more", ask_again},
    {"/undo", "", "takes back the last message and its answer", take_back},
    {"/edit", "[TEXT]", "changes the last message, here in the line or to TEXT, and answers it", edit},
    {"/system", "[TEXT]", "shows the system message, or sets it; \"\" removes it", set_system},
    {"/save", "[-f] FILE", "writes the conversation to a file, as JSON; -f: over one that is there", save},
    {"/load", "FILE", "goes on with the conversation of a file", chat_load},
    {"/clear", "", "forgets the conversation, except the system message", chat_clear},
    {"/stats", "", "shows what the context holds, and how fast the last answer was", show_stats},
    {"/set", "OPTION VALUE", "changes how tokens are chosen: `/set temp 0.7`, `/set top-k 40`", set},
    {"/lora", "[N SCALE]", "shows the adapters of --lora, or scales number N; 0 turns it off",
     switch_adapters},
    {"/help", "", "shows this", help},
    {"/exit", "", "ends the chat, as Ctrl-D does", leave},
};
#define MAX_ADAPTERS 64 /* that /lora knows */
#define N_ACTIONS    (sizeof actions / sizeof *actions)

const char *const chat_command_names[] = {"/regenerate", "/undo",  "/edit",  "/system", "/save",
                                          "/load",       "/clear", "/stats", "/set",    "/lora",
                                          "/help",       "/exit",  NULL};

static bool chat_refuse(struct chat *chat, int status)
{
    if (status) chat_fail(chat);
    return true;
}

static bool has_words(const char *words)
{
    return words[0] != 0;
}

static bool ask_again(struct chat *chat, char *words, char **preset)
{
    (void)words, (void)preset;
    if (!conversation_question(&chat->conversation))
        return chat_refuse(chat, command_error(ENGINE_ERROR_ARGUMENT, "there is no message to answer yet"));
    chat_ask(chat, NULL, 0, true);
    return true;
}

static bool take_back(struct chat *chat, char *words, char **preset)
{
    (void)words, (void)preset;
    if (!conversation_undo(&chat->conversation, true))
        return chat_refuse(chat, command_error(ENGINE_ERROR_ARGUMENT, "there is no message to take back"));
    chat_forget_tokens(chat);
    const char *question = conversation_question(&chat->conversation);
    chat_note(question ? "(the last message is now: %.60s)" : "(the conversation is empty)", question);
    return true;
}

static bool edit(struct chat *chat, char *words, char **preset)
{
    const char *question = conversation_question(&chat->conversation);
    if (!question)
        return chat_refuse(chat, command_error(ENGINE_ERROR_ARGUMENT, "there is no message to change yet"));
    if (!has_words(words) && !chat_input_is_terminal(chat->input))
        return chat_refuse(chat,
                           command_error(ENGINE_ERROR_ARGUMENT, "/edit needs the new text here: /edit TEXT"));
    if (!has_words(words)) {
        *preset = strdup(question);
        return *preset ? true
                       : chat_refuse(chat, command_error(ENGINE_ERROR_MEMORY, "out of memory (message)"));
    }
    chat_ask(chat, words, strlen(words), true);
    return true;
}

static bool set_system(struct chat *chat, char *words, char **preset)
{
    (void)preset;
    if (has_words(words)) {
        const char *text = strcmp(words, "\"\"") == 0 ? "" : words;
        chat_forget_tokens(chat);
        int status = conversation_set_system(&chat->conversation, text);
        if (!status)
            chat_note(text[0] ? "(the system message is set)" : "(there is no system message from now on)");
        return chat_refuse(chat, status);
    }
    const char *text = conversation_system(&chat->conversation);
    chat_note("%s", text ? text : "(there is no system message)");
    return true;
}

/* The file that the words name, with "~/" for the home folder, as in a shell. NULL: out of memory. The caller
 * frees it. */
static char *file_name(const char *words)
{
    const char *home = getenv("HOME");
    bool at_home = home && words[0] == '~' && (words[1] == '/' || words[1] == 0);
    size_t size = strlen(words) + (at_home ? strlen(home) : 0) + 1;
    char *name = malloc(size);
    if (name) snprintf(name, size, "%s%s", at_home ? home : "", at_home ? words + 1 : words);
    return name;
}

static bool save(struct chat *chat, char *words, char **preset)
{
    const struct arguments *a = &chat->arguments;
    const char *inputs[] = {path_of_model(a, chat->engine), a->tokenizer, a->draft, a->chat_template};
    (void)preset;
    bool over = strncmp(words, "-f", 2) == 0 && (!words[2] || words[2] == ' ' || words[2] == '\t');
    if (over) words += 2 + strspn(words + 2, " \t");
    if (!has_words(words))
        return chat_refuse(chat, command_error(ENGINE_ERROR_ARGUMENT, "/save needs a file: /save [-f] FILE"));
    char *path = file_name(words);
    if (!path) return chat_refuse(chat, command_error(ENGINE_ERROR_MEMORY, "out of memory (file name)"));
    int status = check_not_adapter(path, chat->engine, a);
    struct stat info;
    if (!status && !over && stat(path, &info) == 0 && S_ISREG(info.st_mode))
        status = command_error(ENGINE_ERROR_ARGUMENT, "%s is there already: /save -f %s writes over it", path,
                               words);
    if (!status)
        status = conversation_save(&chat->conversation, path, chat->engine, inputs,
                                   sizeof inputs / sizeof *inputs);
    if (!status)
        chat_note("(%s written to %s)",
                  count_text(json_array_size(chat->conversation.messages), "message", "messages").text, path);
    free(path);
    return chat_refuse(chat, status);
}

static bool chat_load(struct chat *chat, char *words, char **preset)
{
    (void)preset;
    if (!has_words(words))
        return chat_refuse(chat, command_error(ENGINE_ERROR_ARGUMENT, "/load needs a file: /load FILE"));
    char *path = file_name(words);
    if (!path) return chat_refuse(chat, command_error(ENGINE_ERROR_MEMORY, "out of memory (file name)"));
    int status = conversation_load(&chat->conversation, path);
    if (!status) chat_forget_tokens(chat);
    if (!status)
        chat_note("(%s read from %s)%s",
                  count_text(json_array_size(chat->conversation.messages), "message", "messages").text, path,
                  conversation_is_open(&chat->conversation) ? " The last one has no answer yet: /regenerate"
                                                            : "");
    free(path);
    return chat_refuse(chat, status);
}

static bool chat_clear(struct chat *chat, char *words, char **preset)
{
    (void)words, (void)preset;
    conversation_clear(&chat->conversation);
    chat_forget_tokens(chat);
    chat_note(conversation_system(&chat->conversation) ? "(only the system message is left)"
                                                       : "(the conversation is empty)");
    return true;
}

static bool show_stats(struct chat *chat, char *words, char **preset)
{
    const struct engine_event *last = &chat->last;
    size_t n_tokens;
    (void)words, (void)preset;
    int status = chat_count_tokens(chat, &n_tokens);
    if (status) return chat_refuse(chat, status);
    chat_note("%s; %zu of %u tokens of the context%s",
              count_text(conversation_turns(&chat->conversation), "turn", "turns").text, n_tokens,
              chat->info.n_context,
              n_tokens > chat->info.n_context ? ": the next answer leaves out the oldest turns" : "");
    if (chat->grammar) chat_note("%s constrains each answer", chat->constraint.option);
    if (last->n_prompt == 0) return true;
    uint32_t n_read = last->n_prompt - last->n_reused;
    chat_note("last prompt: %s, %u of them kept from before, %.1f tokens/s",
              count_text(last->n_prompt, "token", "tokens").text, last->n_reused,
              n_read && last->prompt_seconds > 0 ? n_read / last->prompt_seconds : 0.0);
    chat_note("last answer: %s, %.1f tokens/s; seed: %" PRIu64,
              count_text(chat->n_written, "token", "tokens").text,
              chat->n_written && chat->seconds > 0 ? chat->n_written / chat->seconds : 0.0, chat->last_seed);
    if (wants_guesses(&chat->arguments))
        chat_note("guessed: %s, %u of them right", count_text(last->n_guessed, "token", "tokens").text,
                  last->n_accepted);
    return true;
}

/* The values of options stay where the user typed them, so they are kept. */
static bool set(struct chat *chat, char *words, char **preset)
{
    size_t name = strcspn(words, " =");
    char *value = words + name + strspn(words + name, " =");
    (void)preset;
    if (name == 0 || !value[0])
        return chat_refuse(chat,
                           command_error(ENGINE_ERROR_ARGUMENT,
                                         "/set needs an option of engine chat and a value: /set temp 0.7"));
    char *copy = strdup(value);
    if (!copy || !ARRAY_GROW(chat->values, chat->n_values)) {
        free(copy);
        return chat_refuse(chat, command_error(ENGINE_ERROR_MEMORY, "out of memory (option)"));
    }
    chat->values[chat->n_values++] = copy;
    words[name] = 0;
    struct arguments changed = chat->arguments;
    if (!arguments_set(&changed, words, copy))
        return chat_refuse(chat, command_error(ENGINE_ERROR_ARGUMENT, "%s", changed.error));
    /* Two names of one thing: the later one counts. */
    if (changed.samplers == copy) changed.sampler_seq = NULL;
    if (changed.sampler_seq == copy) changed.samplers = NULL;
    struct sampling tried;
    int status = sampling_read(&changed, &tried);
    sampling_free(&tried);
    if (status) return chat_refuse(chat, status);
    sampling_free(&chat->sampling);
    status = sampling_read(&changed, &chat->sampling);
    if (!status) status = sampling_adopt(&changed, chat->model, &chat->sampling);
    if (!status) chat_note("(%s is %s from the next answer on)", words, copy);
    if (strcmp(words, "seed") == 0) chat->seed = changed.seed_given ? changed.seed : new_seed();
    chat->arguments = changed;
    return chat_refuse(chat, status);
}

static void show_adapters(const struct chat *chat)
{
    const struct engine_adapter *adapter;
    float scale;
    for (size_t i = 0; (adapter = engine_context_adapter(chat->context, i, &scale)); i++) {
        struct engine_adapter_info info = {.struct_size = sizeof info};
        engine_adapter_get_info(adapter, &info);
        chat_note("%zu  %s: scale %g; %s, rank %" PRIu64 ", %s", i + 1, info.path, (double)scale,
                  count_text(info.n_tensors, "matrix", "matrices").text, info.rank,
                  size_text(info.size).text);
    }
}

/* The conversation stays, and is read again with the next answer. */
static bool switch_adapters(struct chat *chat, char *words, char **preset)
{
    char *end;
    float scales[MAX_ADAPTERS], scale;
    size_t n = 0;
    (void)preset;
    while (n < MAX_ADAPTERS && engine_context_adapter(chat->context, n, &scales[n])) n++;
    if (n == 0)
        return chat_refuse(chat,
                           command_error(ENGINE_ERROR_ARGUMENT,
                                         "there are no adapters: name them with engine chat --lora FILE"));
    if (!has_words(words)) {
        show_adapters(chat);
        return true;
    }
    unsigned long long number = strtoull(words, &end, 10);
    const char *value = end + strspn(end, " =");
    scale = strtof(value, &end);
    if (value == words || end == value || *end)
        return chat_refuse(chat,
                           command_error(ENGINE_ERROR_ARGUMENT,
                                         "/lora takes the number of an adapter and its scale: /lora 1 0.5"));
    if (number < 1 || number > n)
        return chat_refuse(
            chat, command_error(ENGINE_ERROR_ARGUMENT, "there is no adapter %llu; /lora lists them", number));
    scales[number - 1] = scale;
    int status = engine_context_set_adapter_scales(chat->context, scales, n);
    if (!status) show_adapters(chat);
    return chat_refuse(chat, status);
}

static bool help(struct chat *chat, char *words, char **preset)
{
    (void)words, (void)preset;
    for (size_t i = 0; i < N_ACTIONS; i++) {
        char typed[32];
        snprintf(typed, sizeof typed, "%s %s", actions[i].name, actions[i].words);
        chat_note("%-20s %s", typed, actions[i].help);
    }
    chat_note("//TEXT               a message that begins with a slash");
    if (chat->grammar)
        chat_note("%s constrains each answer, as long as the chat lasts.", chat->constraint.option);
    if (chat_input_is_terminal(chat->input))
        chat_note(
            "Alt-Enter, or \\ at the end of a line, begins a new line; so do all lines between two \"\"\".");
    return true;
}

static bool leave(struct chat *chat, char *words, char **preset)
{
    (void)chat, (void)words, (void)preset;
    return false;
}

bool chat_command(struct chat *chat, char *line, char **preset)
{
    size_t name = strcspn(line, " \t");
    char *words = line + name + strspn(line + name, " \t"), *end = words + strlen(words);
    while (end > words && (end[-1] == ' ' || end[-1] == '\t')) *--end = 0;
    line[name] = 0;
    for (size_t i = 0; i < N_ACTIONS; i++) {
        if (strcmp(actions[i].name, line) != 0 && (strcmp(line, "/quit") != 0 || actions[i].run != leave))
            continue;
        if (has_words(words) && !actions[i].words[0])
            return chat_refuse(chat, command_error(ENGINE_ERROR_ARGUMENT, "%s takes nothing after it", line));
        return actions[i].run(chat, words, preset);
    }
    return chat_refuse(
        chat, command_error(ENGINE_ERROR_ARGUMENT,
                            "unknown command %.40s; /help lists them, and // begins a message with /", line));
}
