/* page-files.h: the files of the page, as the build embeds them (embed.cmake). The server answers GET and
 * HEAD of these paths with them, without asking for a key: they hold nothing but the page itself. */
#ifndef ENGINE_WEB_PAGE_FILES_H
#define ENGINE_WEB_PAGE_FILES_H

#include <stddef.h>

struct page_file {
    const char *path;          /* of the request, to be compared byte by byte: "/", "/app/main.js" */
    const char *type;          /* Content-Type */
    const char *etag;          /* of the contents, weak, with W/ and quotes: the same for both forms */
    const char *policy;        /* Content-Security-Policy */
    const unsigned char *data; /* size bytes */
    const unsigned char *gzip; /* gzip_size bytes, for Content-Encoding: gzip; NULL if that is no smaller */
    size_t size, gzip_size;
};

extern const struct page_file page_files[];
extern const size_t n_page_files;

#endif
