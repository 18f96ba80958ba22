/* elsewhere.c: options with one dash and several letters that llama.cpp's programs have and this one doesn't. Without this
 * list, -fa would be -f with the file "a". */
#include "commands/options.h"

#include <string.h>

#define DEVICES  "--backend, --offload and --place say what runs where"
#define HUB      "-m ORG/NAME takes a model from Hugging Face's cache, and -m DIRECTORY a download"
#define CACHE    "--cache-type sets the type of keys and values"
#define THREADS  "-t sets the number of threads"
#define NEEDLESS "leave it out"

static const struct {
    const char *names; /* with a space around each */
    const char *instead;
} elsewhere[] = {
    {" -fa -cb -nocb -kvu -no-kvu -dt -nr -rtr -bs -lm -lzm -dio -ndio -mmp -fit -fitt -fitc ", NEEDLESS},
    {" -ctk -ctv -ctkd -ctvd ", CACHE},
    {" -ub ", "-b sets how many tokens of a prompt run at once"},
    {" -tb -td -tbd ", THREADS},
    {" -hf -hfr -hff -hft -hfd -hfrd -hfv -hfrv -hffv -mu -dr -cl ", HUB},
    {" -mg -sm -ts -dev -devd -ot -otd -cmoe -ncmoe -cmoed -ncmoed -ncffn -ngld -kvo -nkvo -nopo ", DEVICES},
    {" -cnv -no-cnv -st -ins -if -mli ", "engine chat holds a conversation, and engine run continues a text"},
    {" -sysf ", "engine chat --system takes the text"},
    {" -bf ", "-f reads a file"},
    {" -lv ", "-v reports more"},
    {" -lcs -lcd ", "--lookup guesses from the text itself"},
    {" -co -sp -to -ptc -cd -mm -mmu -mmdev -mv -ns -gan -gaw -ctxcp -cram -cms -cpent -npp -ntg -npl -pps "
     "-tgs -pg -rea -sps -ag -no-ag ",
     NULL},
};

bool option_elsewhere(const char *name, size_t length, const char **instead)
{
    char word[16];
    if (length + 3 > sizeof word) return false;
    word[0] = ' ';
    memcpy(word + 1, name, length);
    memcpy(word + 1 + length, " ", 2);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++) {
        if (!strstr(elsewhere[i].names, word)) continue;
        *instead = elsewhere[i].instead;
        return true;
    }
    return false;
}
