/* texts.c: see texts.h. */
#include "texts.h"

#include <string.h>

#include "gguf-writer.h"

/* A text in the making. */
struct writing {
    uint64_t *state;
    char *text; /* [TEXT_MAX] */
    size_t length;
};

static size_t below(struct writing *work, size_t n)
{
    return (size_t)(random_next(work->state) % n);
}

static bool one_in(struct writing *work, size_t n)
{
    return below(work, n) == 0;
}

static void put_bytes(struct writing *work, const char *bytes, size_t length)
{
    if (length > TEXT_MAX - work->length) return;
    memcpy(work->text + work->length, bytes, length);
    work->length += length;
}

static void put(struct writing *work, const char *text)
{
    put_bytes(work, text, strlen(text));
}

static void put_character(struct writing *work, uint32_t c)
{
    char bytes[4];
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; c >>= 6) bytes[i] = (char)(0x80 | (c & 0x3F));
    static const unsigned char leads[] = {0, 0, 0xC0, 0xE0, 0xF0};
    bytes[0] = (char)(leads[length] | c);
    put_bytes(work, bytes, length);
}

#define PICK(work, list) (list)[below((work), sizeof(list) / sizeof *(list))]

/* ---- What texts are made of ---- */

static const char *const words[] = {"the",
                                    "of",
                                    "and",
                                    "engine",
                                    "Time",
                                    "upon",
                                    "HTTP",
                                    "iPhone",
                                    "naïve",
                                    "coöperate",
                                    "a",
                                    "I",
                                    "x",
                                    "unbelievably",
                                    "straße",
                                    "Ärger",
                                    "garçon",
                                    "mañana",
                                    "żółć",
                                    "İstanbul",
                                    "ﬁnal",
                                    "don",
                                    "we",
                                    "it",
                                    "you",
                                    "McDonald",
                                    "XMLHttpRequest",
                                    "snake_case_name",
                                    "camelCaseName",
                                    "antidisestablishmentarianism",
                                    "Ωmega",
                                    "Ångström",
                                    "ǅ",
                                    "ﬃ",
                                    "№",
                                    "㎏"};

static const char *const joints[] = {" ",  " ",  " ", " ", " ",   " ",  "  ",   ", ",   ". ", "\n",
                                     "-",  "_",  "/", "'", "\"",  "\t", "\r\n", "\n\n", "; ", ": ",
                                     "? ", "! ", "…", "—", " – ", "",   "",     "(",    ") "};

static const char *const contractions[] = {"'s",  "'S", "'t", "'T",  "'re", "'RE", "'Re", "'ve",
                                           "'VE", "'m", "'M", "'ll", "'LL", "'lL", "'d",  "'D",
                                           "’s",  "’T", "'",  "''",  "'x",  "ʼs",  "'ſ",  "'K"};

static const char *const code[] = {"int ",
                                   "main",
                                   "(void)",
                                   " {\n",
                                   "}\n",
                                   "\treturn ",
                                   "x[i]",
                                   " != ",
                                   "== ",
                                   "->",
                                   "::",
                                   "<<",
                                   ">>=",
                                   "&&",
                                   "||",
                                   "0x1F",
                                   "1e-9",
                                   "3.14f",
                                   "/* ",
                                   " */",
                                   "// ",
                                   "#include <",
                                   "stdio.h>\n",
                                   "\"%d\\n\"",
                                   ";\n",
                                   "    ",
                                   "        ",
                                   "def ",
                                   "self.",
                                   "lambda x: ",
                                   "=>",
                                   "${",
                                   "}",
                                   "`",
                                   "~",
                                   "^",
                                   "%",
                                   "@",
                                   "<div class=\"",
                                   "</div>",
                                   "&amp;",
                                   "\\u00e9",
                                   "https://",
                                   "www.example.com/",
                                   "?q=1&r=",
                                   "user@",
                                   "SELECT * FROM ",
                                   "{\"key\": [1, 2]}",
                                   "|",
                                   "\\",
                                   "!=",
                                   "+=",
                                   "--"};

static const char *const spaces[] = {" ",
                                     "  ",
                                     "   ",
                                     "\t",
                                     "\n",
                                     "\r",
                                     "\r\n",
                                     "\v",
                                     "\f",
                                     "\xC2\x85",
                                     "\xC2\xA0",
                                     "\xE1\x9A\x80",
                                     "\xE2\x80\x83",
                                     "\xE2\x80\x89",
                                     "\xE2\x80\xA8",
                                     "\xE2\x80\xA9",
                                     "\xE2\x80\xAF",
                                     "\xE2\x81\x9F",
                                     "\xE3\x80\x80",
                                     "\xE2\x80\x8B",
                                     "\xEF\xBB\xBF",
                                     "\xE1\xA0\x8E",
                                     "\xE2\x96\x81",
                                     "\xE2\x81\xA0"};

static const char *const tokens[] = {"<s>",
                                     "</s>",
                                     "<unk>",
                                     "<pad>",
                                     "<mask>",
                                     "<0x0A>",
                                     "<0xE9>",
                                     "<|endoftext|>",
                                     "<|im_start|>",
                                     "<|im_end|>",
                                     "<|end|>",
                                     "<|user|>",
                                     "<|assistant|>",
                                     "<|system|>",
                                     "<|placeholder1|>",
                                     "<|padding|>",
                                     "<|",
                                     "|>",
                                     "<|im_",
                                     "[CLS]",
                                     "[SEP]",
                                     "[PAD]",
                                     "[UNK]",
                                     "[MASK]",
                                     "[EMPTY_5]",
                                     "<fim_prefix>",
                                     "<fim_suffix>",
                                     "<fim_middle>",
                                     "<filename>",
                                     "<gh_stars>",
                                     "<issue_start>",
                                     "<repo_name>",
                                     "<file_sep>",
                                     ">>TITLE<<",
                                     ">>SUFFIX<<",
                                     "<sentinel:12>",
                                     "IMGIMGABCZ",
                                     "<｜begin▁of▁sentence｜>",
                                     "<｜end▁of▁sentence｜>",
                                     "<|EOT|>",
                                     "▁the",
                                     "Ġthe",
                                     "##ing",
                                     "õ",
                                     "÷",
                                     "ÿ",
                                     "                        ",
                                     "<empty_output>",
                                     "<commit_before>"};

static const char *const emoji[] = {"😀",
                                    "👍🏽",
                                    "👩‍👩‍👧‍👦",
                                    "🇩🇪",
                                    "❤️",
                                    "☺",
                                    "🏴󠁧󠁢󠁥󠁮󠁧󠁿",
                                    "1️⃣",
                                    "\xE2\x80\x8D",
                                    "\xEF\xB8\x8F",
                                    "🤷🏾‍♀️",
                                    "™",
                                    "©",
                                    "∑",
                                    "≠",
                                    "→"};

static const struct {
    uint32_t first, last;
} scripts[] = {
    {0x41, 0x5A},       {0x61, 0x7A},       {0xC0, 0xFF},       {0x100, 0x24F},     {0x250, 0x2AF},
    {0x370, 0x3FF},     {0x400, 0x52F},     {0x530, 0x58F},     {0x590, 0x5FF},     {0x600, 0x6FF},
    {0x700, 0x74F},     {0x780, 0x7BF},     {0x900, 0x97F},     {0x980, 0x9FF},     {0xA00, 0xA7F},
    {0xB80, 0xBFF},     {0xC00, 0xC7F},     {0xD00, 0xD7F},     {0xE00, 0xE7F},     {0xE80, 0xEFF},
    {0xF00, 0xFFF},     {0x1000, 0x109F},   {0x10A0, 0x10FF},   {0x1100, 0x11FF},   {0x1200, 0x137F},
    {0x13A0, 0x13FF},   {0x1780, 0x17FF},   {0x1800, 0x18AF},   {0x1C90, 0x1CBF},   {0x1D00, 0x1D7F},
    {0x1E00, 0x1EFF},   {0x1F00, 0x1FFF},   {0x2C00, 0x2C5F},   {0x3040, 0x309F},   {0x30A0, 0x30FF},
    {0x3100, 0x312F},   {0x3130, 0x318F},   {0x3400, 0x34FF},   {0x4E00, 0x9FFF},   {0xA640, 0xA69F},
    {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFB00, 0xFB4F},   {0xFF00, 0xFFEF},
    {0x10400, 0x1044F}, {0x1D400, 0x1D7FF}, {0x1E900, 0x1E95F}, {0x20000, 0x200FF}, {0x2F800, 0x2FA1D}};

static const struct {
    uint32_t first, last;
} digits[] = {{'0', '9'},       {'0', '9'},       {'0', '9'},         {0x660, 0x669},
              {0x966, 0x96F},   {0xFF10, 0xFF19}, {0xB2, 0xB3},       {0x2160, 0x2188},
              {0x2460, 0x249B}, {0x3021, 0x3029}, {0x1D7CE, 0x1D7FF}, {0xBC, 0xBE}};

static const struct {
    uint32_t first, last;
} odd[] = {{0x300, 0x36F},   {0x483, 0x489},     {0x64B, 0x65F},     {0x93E, 0x94D},     {0x1AB0, 0x1ACE},
           {0x20D0, 0x20F0}, {0x01, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},       {0x200B, 0x200F},
           {0x202A, 0x202E}, {0x2060, 0x206F},   {0xFFF9, 0xFFFD},   {0xE000, 0xE0FF},   {0x2000, 0x206F},
           {0x20A0, 0x20C0}, {0x2190, 0x23FF},   {0x2500, 0x27BF},   {0x3000, 0x303F},   {0xFE00, 0xFE6F},
           {0x21, 0x2F},     {0x3A, 0x40},       {0x5B, 0x60},       {0x7B, 0x7E},       {0xA1, 0xBF},
           {0xFFFE, 0xFFFF}, {0xE0001, 0xE007F}, {0x1F000, 0x1FAFF}, {0x12000, 0x1247F}, {0xA7, 0xB6}};

#define PUT_FROM(work, ranges)                                                                               \
    do {                                                                                                     \
        size_t range_ = below((work), sizeof(ranges) / sizeof *(ranges));                                    \
        uint32_t first_ = (ranges)[range_].first;                                                            \
        put_character((work), first_ + (uint32_t)below((work), (ranges)[range_].last - first_ + 1));         \
    } while (0)

/* ---- Kinds of texts ---- */

static void put_words(struct writing *work, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put(work, PICK(work, words));
        if (one_in(work, 6)) put(work, PICK(work, contractions));
        put(work, PICK(work, joints));
    }
}

static void put_script(struct writing *work, size_t n)
{
    size_t script = below(work, sizeof scripts / sizeof *scripts);
    for (size_t i = 0; i < n; i++) {
        uint32_t first = scripts[script].first;
        put_character(work, first + (uint32_t)below(work, scripts[script].last - first + 1));
        if (one_in(work, 7)) put(work, PICK(work, joints));
        if (one_in(work, 40)) PUT_FROM(work, odd);
    }
}

static void put_numbers(struct writing *work, size_t n)
{
    static const char *const between[] = {" ", ",", ".", "-",  ":", "/", "e", "E+",
                                          "%", "$", "€", "\n", "",  "x", "_", "°"};
    size_t kind = one_in(work, 3) ? below(work, sizeof digits / sizeof *digits) : 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 1 + below(work, one_in(work, 4) ? 20 : 5); j > 0; j--) {
            uint32_t first = digits[kind].first;
            put_character(work, first + (uint32_t)below(work, digits[kind].last - first + 1));
        }
        if (one_in(work, 8)) PUT_FROM(work, digits);
        put(work, PICK(work, between));
    }
}

static void put_run(struct writing *work, size_t n)
{
    static const char *const runs[] = {"a", "A", " ",  "\n", "\r\n",     "\t", "0",        "!",   "'",  "=",
                                       "-", "é", "中", "ا",  "\xCC\x81", "ab", "aB",       " \n", " a", "1a",
                                       "…", "😀", "한", "。", "/*",       "<|", "\xC2\xA0", "the"};
    const char *run = PICK(work, runs);
    for (size_t i = below(work, 12 * n); i > 0; i--) put(work, run);
    if (one_in(work, 2)) put(work, PICK(work, words));
}

static void put_any(struct writing *work, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t c = 1 + (uint32_t)below(work, one_in(work, 3)   ? 0x10FFFF
                                               : one_in(work, 2) ? 0xFFFF
                                                                 : 0x2FFF);
        if (c < 0xD800 || c > 0xDFFF) put_character(work, c);
    }
}

static void put_wrong(struct writing *work, size_t n)
{
    static const char *const wrong[] = {"\xFF",         "\x80",
                                        "\xC3",         "\xE2\x96",
                                        "\xF0\x9F\x98", "\xC0\xAF",
                                        "\xE0\x80\x80", "\xF5\x80\x80\x80",
                                        "\xED\xA0\x80", "\xF4\x90\x80\x80",
                                        "\xE2",         "\xBF\xBF"};
    for (size_t i = 0; i < n; i++) {
        if (one_in(work, 2)) {
            put(work, PICK(work, wrong));
        } else if (one_in(work, 2)) {
            char byte = (char)(1 + below(work, 255));
            put_bytes(work, &byte, 1);
        } else {
            put_words(work, 1);
        }
    }
}

static void put_part(struct writing *work, size_t kind, size_t n)
{
    switch (kind) {
    case 0: put_words(work, n); break;
    case 1: put_script(work, n); break;
    case 2: put_numbers(work, n); break;
    case 3: put_run(work, n); break;
    case 4: put_any(work, n); break;
    case 5:
        for (size_t i = 0; i < n; i++) put(work, PICK(work, code));
        break;
    case 6:
        for (size_t i = 0; i < n; i++) put(work, one_in(work, 3) ? PICK(work, words) : PICK(work, spaces));
        break;
    case 7:
        for (size_t i = 0; i < n; i++) put(work, one_in(work, 3) ? PICK(work, joints) : PICK(work, tokens));
        break;
    case 8:
        for (size_t i = 0; i < n; i++) put(work, one_in(work, 3) ? PICK(work, words) : PICK(work, emoji));
        break;
    case 9:
        for (size_t i = 0; i < n; i++) PUT_FROM(work, odd);
        break;
    case 10:
        for (size_t i = 0; i < n; i++) {
            PUT_FROM(work, scripts);
            if (one_in(work, 2)) PUT_FROM(work, odd);
        }
        break;
    case 11:
        for (size_t i = 0; i < n; i++) {
            put(work, PICK(work, words));
            put(work, PICK(work, contractions));
        }
        break;
    default: put_wrong(work, n); break;
    }
}

#define N_KINDS 12 /* and one of bytes that are no UTF-8 */

size_t make_text(uint64_t *state, bool invalid, char text[TEXT_MAX])
{
    struct writing work = {state, text, 0};
    size_t kinds = N_KINDS + invalid, n = 1 + below(&work, one_in(&work, 8) ? 60 : 14);
    if (one_in(&work, 3)) /* a mixture */
        for (size_t i = 0; i < n; i++) {
            size_t length = 1 + below(&work, 4); /* before the kind, as the recorded texts have it */
            put_part(&work, below(&work, kinds), length);
        }
    else
        put_part(&work, below(&work, kinds), n);
    if (!work.length) put(&work, "x");
    return work.length;
}
