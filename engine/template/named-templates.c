/* named-templates.c: the templates that a model without one can be given by name (template.h). The formats
 * are those that the families of models were trained on, and the names llama.cpp's. bos_token is empty where
 * the tokenizer doesn't begin texts with one. */
#include "template/template.h"

#include <string.h>

/* A message's content: a text, parts with texts, or null. */
#define BEGIN                                                                                                \
    "{%- macro text(message) %}"                                                                             \
    "{%- if message.content is string %}{{ message.content }}"                                               \
    "{%- elif message.content %}{% for part in message.content %}{{ part.text }}{% endfor %}"                \
    "{%- endif %}"                                                                                           \
    "{%- endmacro %}"                                                                                        \
    "{{ bos_token }}"

#define EACH "{%- for message in messages %}"

/* The same for all messages, and what begins the answer. `content` is an expression. */
#define END(prompt) "{%- endfor %}{%- if add_generation_prompt %}{{ '" prompt "' }}{% endif %}"
#define TURNS(before, after, content, end, prompt)                                                           \
    BEGIN EACH "{{- '" before "' ~ message.role ~ '" after "' ~ " content " ~ '" end "' }}" END(prompt)

/* By roles; `content` is an expression, and so is `end`, which ends the assistant's turn. */
#define ROLES_OF(content, system, after_system, user, after_user, assistant, end, prompt)                    \
    BEGIN EACH "{%- if message.role == 'system' %}{{ '" system "' ~ " content " ~ '" after_system "' }}"     \
               "{%- elif message.role == 'assistant' %}{{ '" assistant "' ~ " content " ~ " end " }}"        \
               "{%- else %}{{ '" user "' ~ " content " ~ '" after_user "' }}"                                \
               "{%- endif %}" END(prompt)
#define ROLES(...)   ROLES_OF("text(message)", __VA_ARGS__)
#define TRIMMED(...) ROLES_OF("text(message) | trim", __VA_ARGS__)

/* Mistral's: the system's text before v7 is a part of the next question. */
#define MISTRAL(open, close, answer, trim)                                                                   \
    BEGIN "{%- set ns = namespace(system='') %}" EACH                                                        \
          "{%- if message.role == 'system' %}{% set ns.system = ns.system ~ text(message) ~ '\n\n' %}"       \
          "{%- elif message.role == 'assistant' %}{{ '" answer "' ~ text(message)" trim " ~ eos_token }}"    \
          "{%- else %}{{ '" open "' ~ ns.system ~ text(message) ~ '" close "' }}"                            \
          "{%- set ns.system = '' %}"                                                                        \
          "{%- endif %}{%- endfor %}"

static const struct named_template templates[] = {
    {"alpaca", BEGIN
     "{%- if not messages or messages[0].role != 'system' %}"
     "{{- 'Below is an instruction that describes a task. Write a response that appropriately completes the "
     "request.\n\n' }}"
     "{%- endif %}" EACH "{%- if message.role == 'system' %}{{ text(message) ~ '\n\n' }}"
     "{%- elif message.role == 'assistant' %}{{ '### Response:\n' ~ text(message) ~ eos_token ~ '\n\n' }}"
     "{%- else %}{{ '### Instruction:\n' ~ text(message) ~ '\n\n' }}"
     "{%- endif %}" END("### Response:\n")},
    {"chatglm3", BEGIN "{{- '[gMASK]sop' }}" EACH
                       "{{- '<|' ~ message.role ~ '|>\n ' ~ text(message) }}" END("<|assistant|>")},
    {"chatglm4", BEGIN "{{- '[gMASK]<sop>' }}" EACH
                       "{{- '<|' ~ message.role ~ '|>\n' ~ text(message) }}" END("<|assistant|>\n")},
    {"chatml", TURNS("<|im_start|>", "\n", "text(message)", "<|im_end|>\n", "<|im_start|>assistant\n")},
    {"command-r", TRIMMED("<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>", "<|END_OF_TURN_TOKEN|>",
                          "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>", "<|END_OF_TURN_TOKEN|>",
                          "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>", "'<|END_OF_TURN_TOKEN|>'",
                          "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>")},
    {"deepseek",
     ROLES("", "", "### Instruction:\n", "\n", "### Response:\n", "'\n<|EOT|>\n'", "### Response:\n")},
    {"deepseek2", ROLES("", "\n\n", "User: ", "\n\n", "Assistant: ", "eos_token", "Assistant:")},
    {"deepseek3", ROLES("", "\n\n", "<｜User｜>", "", "<｜Assistant｜>", "eos_token", "<｜Assistant｜>")},
    {"exaone3", TRIMMED("[|system|]", "[|endofturn|]\n", "[|user|]", "\n", "[|assistant|]",
                        "'[|endofturn|]\n'", "[|assistant|]")},
    {"falcon3", TURNS("<|", "|>\n", "text(message)", "\n", "<|assistant|>\n")},
    {"gemma",
     BEGIN "{%- set ns = namespace(system='') %}" EACH
           "{%- if message.role == 'system' %}{% set ns.system = text(message) | trim %}"
           "{%- else %}"
           "{{- '<start_of_turn>' ~ ('model' if message.role == 'assistant' else message.role) ~ '\n' }}"
           "{{- (ns.system ~ '\n\n' if ns.system) ~ text(message) | trim ~ '<end_of_turn>\n' }}"
           "{%- set ns.system = '' %}"
           "{%- endif %}" END("<start_of_turn>model\n")},
    {"gpt-oss",
     BEGIN EACH "{{- '<|start|>' ~ message.role ~ '<|channel|>final' * (message.role == 'assistant') ~ "
                "'<|message|>' ~ text(message) ~ '<|end|>' }}" END("<|start|>assistant")},
    {"granite", TURNS("<|start_of_role|>", "<|end_of_role|>", "text(message)", "<|end_of_text|>\n",
                      "<|start_of_role|>assistant<|end_of_role|>")},
    {"kimi-k2", ROLES("<|im_system|>system<|im_middle|>", "<|im_end|>", "<|im_user|>user<|im_middle|>",
                      "<|im_end|>", "<|im_assistant|>assistant<|im_middle|>", "'<|im_end|>'",
                      "<|im_assistant|>assistant<|im_middle|>")},
    /* A BOS before each question, as the model's own chats have it. */
    {"llama2",
     "{%- macro text(message) %}"
     "{%- if message.content is string %}{{ message.content }}"
     "{%- elif message.content %}{% for part in message.content %}{{ part.text }}{% endfor %}"
     "{%- endif %}"
     "{%- endmacro %}"
     "{%- set system = '' %}"
     "{%- if messages and messages[0].role == 'system' %}"
     "{%- set system = '<<SYS>>\n' ~ text(messages[0]) ~ '\n<</SYS>>\n\n' %}"
     "{%- set messages = messages[1:] %}"
     "{%- endif %}" EACH
     "{%- if message.role == 'assistant' %}{{ ' ' ~ text(message) | trim ~ ' ' ~ eos_token }}"
     "{%- else %}"
     "{{- bos_token ~ '[INST] ' ~ (system if loop.first else '') ~ text(message) | trim ~ ' [/INST]' }}"
     "{%- endif %}"
     "{%- endfor %}"},
    {"llama3", TURNS("<|start_header_id|>", "<|end_header_id|>\n\n", "text(message) | trim", "<|eot_id|>",
                     "<|start_header_id|>assistant<|end_header_id|>\n\n")},
    {"llama4", TURNS("<|header_start|>", "<|header_end|>\n\n", "text(message) | trim", "<|eot|>",
                     "<|header_start|>assistant<|header_end|>\n\n")},
    {"minicpm", TRIMMED("", "", "<用户>", "<AI>", "", "''", "")},
    {"mistral", MISTRAL("[INST] ", " [/INST]", " ", " | trim")},
    {"mistral-v1", MISTRAL(" [INST] ", " [/INST]", " ", "")},
    {"mistral-v3", MISTRAL("[INST] ", "[/INST]", " ", " | trim")},
    {"mistral-v3-tekken", MISTRAL("[INST]", "[/INST]", "", "")},
    {"mistral-v7", ROLES("[SYSTEM_PROMPT] ", "[/SYSTEM_PROMPT]", "[INST] ", "[/INST]", " ", "eos_token", "")},
    {"mistral-v7-tekken",
     ROLES("[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[INST]", "[/INST]", "", "eos_token", "")},
    /* The first turn begins with the text's own BOS. */
    {"monarch",
     BEGIN EACH "{{- '<s>' * (not loop.first) ~ message.role ~ '\n' ~ text(message) ~ '</s>\n' }}" END(
         "<s>assistant\n")},
    {"openchat", ROLES("", "<|end_of_turn|>", "GPT4 Correct User: ", "<|end_of_turn|>",
                       "GPT4 Correct Assistant: ", "'<|end_of_turn|>'", "GPT4 Correct Assistant:")},
    {"orion", BEGIN
     "{%- set ns = namespace(system='') %}" EACH
     "{%- if message.role == 'system' %}{% set ns.system = ns.system ~ text(message) %}"
     "{%- elif message.role == 'assistant' %}{{ text(message) ~ '</s>' }}"
     "{%- else %}{{ 'Human: ' ~ (ns.system ~ '\n\n' if ns.system) ~ text(message) ~ '\n\nAssistant: </s>' }}"
     "{%- set ns.system = '' %}"
     "{%- endif %}{%- endfor %}"},
    {"phi3", TURNS("<|", "|>\n", "text(message)", "<|end|>\n", "<|assistant|>\n")},
    {"phi4",
     TURNS("<|im_start|>", "<|im_sep|>", "text(message)", "<|im_end|>", "<|im_start|>assistant<|im_sep|>")},
    {"plain", BEGIN EACH "{%- if message.role == 'system' %}{{ text(message) ~ '\n\n' }}"
                         "{%- else %}{{ message.role | capitalize ~ ': ' ~ text(message) ~ '\n' }}"
                         "{%- endif %}" END("Assistant:")},
    {"redpajama", ROLES("", "\n", "<human>: ", "\n", "<bot>: ", "'\n'", "<bot>:")},
    {"rwkv-world", TRIMMED("System: ", "\n\n", "User: ", "\n\n", "Assistant: ", "'\n\n'", "Assistant:")},
    {"seed_oss",
     TURNS("<seed:bos>", "\n", "(text(message) | trim if message.role == 'assistant' else text(message))",
           "<seed:eos>", "<seed:bos>assistant\n")},
    {"vicuna", ROLES("", "\n\n", "USER: ", "\n", "ASSISTANT: ", "eos_token ~ '\n'", "ASSISTANT:")},
    {"vicuna-orca", ROLES("SYSTEM: ", "\n", "USER: ", "\n", "ASSISTANT: ", "eos_token ~ '\n'", "ASSISTANT:")},
    {"zephyr", BEGIN EACH
     "{{- '<|' ~ message.role ~ '|>\n' ~ text(message) ~ eos_token ~ '\n' }}" END("<|assistant|>\n")},
};

const struct named_template *named_template_at(size_t index)
{
    return index < sizeof templates / sizeof *templates ? &templates[index] : NULL;
}

const struct named_template *named_template_find(const char *name)
{
    for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
        if (strcmp(templates[i].name, name) == 0) return &templates[i];
    return NULL;
}
