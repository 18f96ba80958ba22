/* Tests of the page as the build embeds it (web/embed.cmake): nothing that it names is missing, and each file
 * can be sent as it is. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "web/page-files.h"

static const struct page_file *find(const char *path)
{
    for (size_t i = 0; i < n_page_files; i++)
        if (strcmp(page_files[i].path, path) == 0) return &page_files[i];
    return NULL;
}

Test(page_files, can_be_sent)
{
    cr_assert_gt(n_page_files, 5);
    for (size_t i = 0; i < n_page_files; i++) {
        const struct page_file *file = &page_files[i];
        cr_assert_eq(find(file->path), file, "%s is there twice", file->path);
        cr_assert_eq(file->path[0], '/');
        cr_assert(strncmp(file->etag, "W/\"", 3) == 0 && strlen(file->etag) == 20, "%s: %s", file->path,
                  file->etag);
        cr_assert(strncmp(file->type, "text/", 5) != 0 || strstr(file->type, "; charset=utf-8"), "%s: %s",
                  file->path, file->type);
        cr_assert_not_null(strstr(file->policy, "default-src 'none'"), "%s: %s", file->path, file->policy);
        cr_assert_null(strpbrk(file->policy, "\r\n"));
        cr_assert_gt(file->size, 0, "%s is empty", file->path);
        if (!file->gzip) continue;
        cr_assert(file->gzip_size < file->size && file->gzip[0] == 0x1f && file->gzip[1] == 0x8b, "%s",
                  file->path);
        /* gzip ends with the size of what it holds */
        const unsigned char *end = file->gzip + file->gzip_size - 4;
        cr_assert_eq((size_t)(end[0] | end[1] << 8 | end[2] << 16), file->size, "%s", file->path);
    }
}

Test(page_files, pages_have_policies)
{
    const struct page_file *page = find("/"), *frame = find("/attention-frame");
    cr_assert(page && frame);
    cr_assert_not_null(strstr(page->policy, "script-src 'self';"));
    cr_assert_null(strstr(page->policy, "unsafe"));
    cr_assert_not_null(strstr(frame->policy, "sandbox allow-scripts;"));
}

/* Fails if the text names a file after `before` that is not embedded. `folder` is where such names begin. */
static size_t check_names(const struct page_file *file, const char *before, const char *folder)
{
    char text[1 << 17], path[256];
    size_t found = 0;
    cr_assert_lt(file->size, sizeof text);
    memcpy(text, file->data, file->size);
    text[file->size] = '\0';
    for (const char *at = text; (at = strstr(at, before)); found++) {
        at += strlen(before);
        int length = (int)strcspn(at, "\"");
        snprintf(path, sizeof path, "%s%.*s", folder, length, at);
        cr_assert_not_null(find(path), "%s names %s, which is not embedded", file->path, path);
    }
    return found;
}

Test(page_files, what_they_name_is_there)
{
    cr_assert_geq(check_names(find("/"), "href=\"style/", "/style/"), 5);
    cr_assert_geq(check_names(find("/"), "src=\"app/", "/app/"), 2);
    size_t imports = 0;
    for (size_t i = 0; i < n_page_files; i++)
        if (strncmp(page_files[i].path, "/app/", 5) == 0)
            imports += check_names(&page_files[i], "from \"./", "/app/");
    cr_assert_geq(imports, 20);
}
