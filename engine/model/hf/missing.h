/* missing.h: what is said of folders that are no model, or not all of one. */
#ifndef ENGINE_MODEL_HF_MISSING_H
#define ENGINE_MODEL_HF_MISSING_H

/* Raise an error that says what the folder seems to be instead, and what to do; return its status. */
int hf_no_config(const char *folder);
int hf_no_weights(const char *folder);

#endif
