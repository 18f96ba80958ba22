/* elsewhere.c: options with one dash and several letters that llama.cpp's programs have and this one doesn't. Without this
 * list, -fa would be -f with the file "a". */
#include "commands/options.h"

#include <string.h>

#define DEVICES "--backend, --offload and --place say what runs where"
#define HUB     "-m ORG/NAME takes a model from Hugging Face's cache, and -m DIRECTORY a download"
#define CACHE   "--cache-type sets the type of keys and values"
#define THREADS "-t sets the number of threads"

static const struct {
    const char *names; /* with a space around each */
    const char *instead;
} elsewhere[] = {
    {" -fa ", "leave it out"},
    {" -ctk -ctv -ctkd -ctvd ", CACHE},
    {" -ub ", "-b sets how many tokens of a prompt run at once"},
    {" -tb -td -tbd ", THREADS},
    {" -hf -hfr -hff -hft -hfd -hfrd -hfv -hfrv -hffv -mu -dr ", HUB},
    {" -mg -sm -ts -dev -devd -ot -otd -cmoe -ncmoe -cmoed -ncmoed -ngld -nkvo -nopo -dio -ndio ", DEVICES},
    {" -cnv -mli -st ", "engine chat holds a conversation"},
    {" -no-cnv ", "engine run continues a text"},
    {" -sysf ", "--system takes the text"},
    {" -bf ", "-f reads a file"},
    {" -if -ins -sp -to -co -lv -ptc -bs -kvu -no-kvu -cb -nocb -cd -dt -nr -rtr -mm -mmu -ns -fit -fitt "
     "-fitc -gan -gaw "
     "-ctxcp -cram -cpent -npp -ntg -npl -pps -tgs -lcs -lcd -rea -sps ",
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
