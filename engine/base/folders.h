/* folders.h: where the engine is installed, and the user's folders. */
#ifndef ENGINE_BASE_FOLDERS_H
#define ENGINE_BASE_FOLDERS_H

/* The folder of libengine.so, or of the program that libengine is linked into, with symbolic links resolved.
 * The caller frees it; NULL if it is unknown. */
char *folders_own(void);

/* The model installed with libengine, or the one in its build tree, if the file is readable. The caller frees
 * it; NULL if there is none. */
char *folders_installed_model(void);

/* $VARIABLE/engine, or ~/FALLBACK/engine if the variable is not set or not an absolute path (XDG Base
 * Directory Specification). The caller frees it; NULL if there is no home folder either. */
char *folders_user(const char *variable, const char *fallback);

/* `path` with a leading ~/ replaced by the home folder. The caller frees it; NULL if there is no home folder
 * or no memory. */
char *folders_expand_home(const char *path);

#endif
