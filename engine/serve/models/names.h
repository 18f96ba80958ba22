/* names.h: the names that --model and --lora give. */
#ifndef ENGINE_SERVE_MODELS_NAMES_H
#define ENGINE_SERVE_MODELS_NAMES_H

/* Each returns an enum engine_status, with command_error's message. The caller frees the texts, also after an error. */

/* "NAME=PATH", or "PATH", whose name is that of the file without its ending, or of the directory. */
int model_name_split(const char *typed, char **name, char **path);

/* "[MODEL:]NAME=PATH[=SCALE]"; *model is NULL without it. */
int adapter_name_split(const char *typed, char **model, char **name, char **path, float *scale);

#endif
