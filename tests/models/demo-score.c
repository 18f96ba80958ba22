/* demo-score.c: how many of a file's questions a model answers right, by skill.
 *
 * usage: demo-score [-v] QUESTIONS.tsv [BACKEND [MODEL.gguf]]      -v: also what it got wrong */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "demo-questions.h"

int main(int argc, char **argv)
{
    bool verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
    char **words = argv + verbose;
    int n_words = argc - verbose;
    if (n_words < 2) {
        fputs("usage: demo-score [-v] QUESTIONS.tsv [BACKEND [MODEL.gguf]]\n", stderr);
        return 2;
    }
    struct demo_questions questions;
    struct demo_model demo;
    const char *backend = n_words > 2 ? words[2] : "cpu";
    demo_questions_read(words[1], &questions);
    if (!demo_model_open(&demo, n_words > 3 ? words[3] : NULL, PLUGIN_DIR, backend)) {
        fprintf(stderr, "no device of %s here\n", backend);
        return 1;
    }
    size_t right = 0, of_skill = 0, right_of_skill = 0;
    for (size_t i = 0; i < questions.count; i++) { /* the file is sorted by skill */
        const struct demo_question *question = &questions.items[i];
        char *said;
        right_of_skill += demo_model_answers(&demo, question, &said);
        of_skill++;
        if (said && verbose)
            printf("%s: %s\n  said: %s; right: %s\n", question->skill, question->prompt, said,
                   question->answer);
        free(said);
        if (i + 1 < questions.count && strcmp(question[1].skill, question->skill) == 0) continue;
        printf("%-10s %3zu of %3zu\n", question->skill, right_of_skill, of_skill);
        right += right_of_skill;
        of_skill = right_of_skill = 0;
    }
    printf("%-10s %3zu of %3zu\n", "all", right, questions.count);
    demo_model_close(&demo);
    demo_questions_free(&questions);
    return 0;
}
