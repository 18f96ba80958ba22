/* folders.h: where the engine itself lies on the disk, and the user's folders. */
#ifndef ENGINE_BASE_FOLDERS_H
#define ENGINE_BASE_FOLDERS_H

/* The folder of libengine.so, or of the program that libengine is a part of, symbolic links resolved. The
 * caller frees it; NULL if it can't be found out. */
char *folders_own(void);

/* The model that was installed with libengine, or lies in its build tree: a file that can be read. The caller frees it;
 * NULL if there is none. */
char *folders_installed_model(void);

/* $VARIABLE/engine, or ~/FALLBACK/engine if the variable isn't set (XDG Base Directory Specification: what is
 * not an absolute path counts as not set). The caller frees it; NULL where there is no home either. */
char *folders_user(const char *variable, const char *fallback);

/* `path` with a leading ~/ replaced by the home folder. The caller frees it; NULL without a home or memory. */
char *folders_expand_home(const char *path);

#endif
