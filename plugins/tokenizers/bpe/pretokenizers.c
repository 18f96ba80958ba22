/* pretokenizers.c: the table of pre-tokenizers.
 *
 * The expressions are those that the models were trained with, as llama.cpp applies them, which in places
 * differs from the original: \p{Lu} and its like count as \p{L}, or letters are distinguished in ASCII alone.
 * An expression that would take quadratic time on some texts is replaced by an equivalent one that does
 * not. */
#include "bpe/pretokenizers.h"

#include <string.h>

/* "don't": the ends of English contractions. */
#define ENDS          "'(?:s|t|re|ve|m|ll|d)"
#define ENDS_ANY_CASE "'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"

/* White space: up to its last line break; otherwise all of it, except the last one if a word follows. */
#define SPACES       "\\s+(?!\\S)|\\s+"
#define LINES_SPACES "\\s*[\\r\\n]+|" SPACES

/* GPT-2's: letters, numbers or other characters, with a space before them. */
#define GPT_2 (ENDS "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)")

/* Llama 3's: letters with any one character in front that is not one of a word, numbers of NUMBERS, other
 * characters with line breaks after them. */
#define LLAMA_3(NUMBERS)                                                                                     \
    ENDS_ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" NUMBERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_SPACES

/* GPT-4o's: capital letters before small ones. Letters beyond ASCII count as both. MARKS: "\\p{M}" where
 * combining marks do the same. */
#define CAPITALS(MARKS) "[A-Z\\p{LX}" MARKS "]"
#define SMALL(MARKS)    "[a-z\\p{LX}" MARKS "]"
#define GPT_4O(MARKS, ENDS, NUMBERS)                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?" CAPITALS(MARKS) "*" SMALL(MARKS) "+" ENDS "|[^\\r\\n\\p{L}\\p{N}]?" CAPITALS(   \
        MARKS) "+" SMALL(MARKS) "*" ENDS "|" NUMBERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES_SPACES

/* DeepSeek 3's last one: an ASCII mark with letters after it, letters, other marks, white space. */
#define DEEPSEEK_3(AFTER_MARKS, LINES)                                                                       \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"      \
    "| ?[\\p{P}\\p{S}]+" AFTER_MARKS "|" LINES "|" SPACES

#define KANJI_KANA "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define CJK_HANGUL "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"
#define NUMBERS_3  "\\p{N}{1,3}"

/* Characters that are parts of no other script, and of words of their own. */
#define HAN                                                                                                  \
    "\\x{3400}-\\x{4DBF}\\x{4E00}-\\x{9FFF}\\x{F900}-\\x{FAFF}\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B73F}"    \
    "\\x{2B740}-\\x{2B81F}\\x{2B820}-\\x{2CEAF}\\x{2CEB0}-\\x{2EBEF}\\x{2F800}-\\x{2FA1F}"

/* Latin, Greek, Cyrillic and their like: letters that come in two cases. */
#define CASED_LETTERS                                                                                        \
    "A-Za-z\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}"          \
    "\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37B}-\\x{37D}\\x{37F}\\x{386}"                    \
    "\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}"          \
    "\\x{531}-\\x{556}\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"          \
    "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}\\x{1E00}-\\x{1F15}"        \
    "\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}"         \
    "\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}"         \
    "\\x{1FC6}-\\x{1FCC}\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}"        \
    "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}\\x{2124}"          \
    "\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}\\x{213C}-\\x{213F}"                   \
    "\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}\\x{2C7E}-\\x{2CE4}"                   \
    "\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}"         \
    "\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}"        \
    "\\x{FF21}-\\x{FF3A}\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}"                       \
    "\\x{104D8}-\\x{104FB}\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}"                   \
    "\\x{1E900}-\\x{1E943}"

static const struct pretokenizer table[] = {
    {"default", 0, {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT_2, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de jina-v1-en jina-v2-code roberta-bpe gigachat a.x-4.0 "
     "mellum modern-bert mpt olmo jais trillion granite-docling exaone4",
     0,
     {GPT_2}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", 0, {"\\p{N}", GPT_2}},
    {"falcon", 0, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT_2, "[0-9][0-9][0-9]"}},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
     PRE_WHOLE_WORDS | PRE_ADD_BOS,
     {LLAMA_3(NUMBERS_3)}},
    {"dbrx smaug-bpe", 0, {LLAMA_3(NUMBERS_3)}},
    {"glm4 glm5", PRE_WHOLE_WORDS | PRE_NO_BOS, {LLAMA_3(NUMBERS_3)}},
    {"chatglm-bpe", PRE_NO_BOS, {LLAMA_3(NUMBERS_3)}},
    {"k2-horizon",
     0,
     {ENDS_ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}\\x{200C}\\x{200D}]+|\\p{N}{1,3}"
                    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_SPACES}},
    {"minicpm5", PRE_WHOLE_WORDS, {NUMBERS_3, LLAMA_3("\\p{N}+")}},
    {"qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
     0,
     {LLAMA_3("\\p{N}")}},
    {"laguna", 0, {"[^\\n]+|[\\n]+", LLAMA_3("\\p{N}")}},
    {"qwen35",
     0,
     {ENDS_ANY_CASE
      "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" LINES_SPACES}},
    {"ufakzeka", 0, {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_SPACES}},
    {"seed-coder",
     0,
     {ENDS_ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" LINES_SPACES}},
    {"bailingmoe bailingmoe2 llada-moe",
     0,
     {ENDS_ANY_CASE
      "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|" SPACES}},
    {"exaone-moe",
     0,
     {ENDS_ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}[\\p{L}\\p{M}]*+(?: \\p{L}[\\p{L}\\p{M}]*+)*+|\\p{N}"
                    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|" SPACES}},
    {"jais-2",
     0,
     {ENDS_ANY_CASE
      "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+"
      "|\\s{512}(?!\\S)|\\s{256}(?!\\S)|\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)"
      "|\\s{8}(?!\\S)|\\s{4}(?!\\S)|\\s{1,2}(?!\\S)|\\s"}},
    {"tekken", PRE_WHOLE_WORDS | PRE_ADD_BOS, {GPT_4O("", "", "\\p{N}")}},
    {"gpt-4o llama4 kanana2 talkie minimax-m2", 0, {GPT_4O("", "(?:" ENDS_ANY_CASE ")?", NUMBERS_3)}},
    {"granite-embed-multi-97m", PRE_WHOLE_WORDS, {GPT_4O("\\p{M}", "(?:" ENDS_ANY_CASE ")?", NUMBERS_3)}},
    {"tiny_aya cohere2moe",
     0,
     {CUT_NUMBERS, "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+(?:" ENDS_ANY_CASE ")?|" NUMBERS_3
                   "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES_SPACES}},
    {"youtu",
     PRE_WHOLE_WORDS,
     {"[\\x{AC00}-\\x{D7A3}\\x{3131}-\\x{318E}]+|[\\x{FF01}\\x{2026}\\x{201C}\\x{201D}\\x{2018}\\x{2019}\\x{"
      "2014}\\x{FF1A}\\x{FF1B}\\x{FF0C}\\x{3001}-\\x{303F}\\x{FE30}-\\x{FE4F}]+|[\\x{3105}-\\x{312F}]+"
      "|" KANJI_KANA,
      "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+(?:" ENDS_ANY_CASE
      ")?|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" LINES_SPACES}},
    {"deepseek-llm",
     0,
     {"[\\r\\n]", "\\s?[" CASED_LETTERS "]+",
      "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+",
      "(?<!\\s)\\s++$", CJK_HANGUL, "\\p{N}+"}},
    {"deepseek-coder", 0, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", CJK_HANGUL, "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense joyai-llm hy_v4",
     0,
     {NUMBERS_3, KANJI_KANA, DEEPSEEK_3("[\\r\\n]*", "\\s*[\\r\\n]+")}},
    {"spark2_5", 0, {NUMBERS_3, KANJI_KANA, DEEPSEEK_3("", "[\\r\\n]"), "\\p{N}"}},
    {"afmoe",
     0,
     {CUT_NUMBERS,
      "[\\x{4E00}-\\x{9FFF}\\x{3400}-\\x{4DBF}\\x{8C48}-\\x{FAFF}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}\\x{"
      "FF65}-\\x{FF9F}\\x{2F00}-\\x{2FDF}\\x{E40}-\\x{E7F}\\x{E80}-\\x{EFF}\\x{1780}-\\x{17FF}\\x{1000}-\\x{"
      "109F}\\x{AA60}-\\x{AA7F}\\x{A9E0}-\\x{A9FF}\\x{AC00}-\\x{D7AF}\\x{1100}-\\x{11FF}]+",
      DEEPSEEK_3("[\\r\\n]*", "\\s*[\\r\\n]+")}},
    {"kimi-k2",
     0,
     {"[" HAN "]+|(?:[^\\r\\n\\p{L}\\p{N}" HAN "]?(?:(?![" HAN "])\\p{L})++(?:" ENDS_ANY_CASE ")?)|" NUMBERS_3
      "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" LINES_SPACES}},
    {"poro-chat bloom gpt3-finnish",
     0,
     {" ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+"}},
    {"viking", 0, {" ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{FF0C}\\x{3001}\\x{964}\\x{6D4}\\x{60C})]+", "\\p{N}"}},
    {"chameleon",
     PRE_ADD_BOS,
     {"<sentinel:[0-9]+>", "(?:IMGIMG)[A-I]{1,4}Z", "[\\t\\n]|    |  ", "\\p{N}", "[\\p{P}!-/:-@\\[-`{-~]",
      GPT_2}},
    {"gemma4 granite-embed-multi-311m", PRE_CHARACTERS | PRE_ALWAYS_BOS | PRE_WHOLE_BREAKS, {NULL}},
    {"sarvam-moe", PRE_CHARACTERS, {NULL}},
    {"mmbert", PRE_CHARACTERS | PRE_WHOLE_BREAKS | PRE_MARKED_WORDS, {NULL}},
    {"superbpe", 0, {"\\p{N}+", CUT_DIGITS}},
};

const struct pretokenizer *pretokenizer_find(struct engine_string name)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        for (const char *at = table[i].names; *at;) {
            size_t length = strcspn(at, " ");
            if (length == name.length && memcmp(at, name.data, length) == 0) return &table[i];
            at += length;
            at += *at == ' ';
        }
    }
    return NULL;
}

const struct pretokenizer *pretokenizer_at(size_t index)
{
    return index < sizeof table / sizeof *table ? &table[index] : NULL;
}
