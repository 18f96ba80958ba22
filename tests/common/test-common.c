/* test-common.c: what common/ has for the engine and its plugins: assertions, arrays that grow, texts, and
 * locks. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "common/array.h"
#include "common/assert.h"
#include "common/lock.h"
#include "common/text.h"

Test(common, an_assertion_that_holds_is_silent)
{
    ENGINE_ASSERT(1 + 1 == 2);
}

Test(common, an_assertion_that_fails_aborts, .signal = SIGABRT)
{
    ENGINE_ASSERT(1 + 1 == 3);
}

Test(common, an_array_keeps_its_elements_while_it_grows)
{
    int *items = NULL;
    size_t count = 0, capacity = 0, grown = 0;
    for (; count < 1000; count++) {
        size_t before = capacity;
        cr_assert(ARRAY_RESERVE(items, capacity, count + 1));
        grown += capacity > before;
        items[count] = (int)count;
    }
    for (size_t i = 0; i < count; i++) cr_assert_eq(items[i], (int)i);
    cr_assert_leq(grown, 8, "it has to at least double");
    cr_assert_geq(capacity, count);
    free(items);
}

Test(common, an_array_fits_exactly)
{
    double *items = NULL;
    size_t capacity = 0;
    cr_assert(ARRAY_FIT(items, capacity, 3));
    cr_assert_eq(capacity, 3);
    cr_assert(ARRAY_FIT(items, capacity, 2));
    cr_assert_eq(capacity, 3);
    free(items);
}

Test(common, an_array_grows_without_a_capacity)
{
    size_t *items = NULL, count = 0;
    for (; count < 100; count++) {
        cr_assert(ARRAY_GROW(items, count));
        items[count] = count;
    }
    for (size_t i = 0; i < count; i++) cr_assert_eq(items[i], i);
    free(items);
}

Test(common, what_does_not_fit_leaves_an_array_as_it_was)
{
    long *items = NULL;
    size_t capacity = 0;
    cr_assert(ARRAY_RESERVE(items, capacity, 1));
    long *before = items;
    size_t room = capacity;
    items[0] = 7;
    cr_assert_not(ARRAY_RESERVE(items, capacity, SIZE_MAX / 4)); /* overflows in bytes */
    cr_assert_not(ARRAY_FIT(items, capacity, SIZE_MAX / 2 + 1));
    cr_assert_not(ARRAY_GROW(items, (SIZE_MAX >> 1) + 1));
    cr_assert_eq(items, before);
    cr_assert_eq(capacity, room);
    cr_assert_eq(items[0], 7);
    free(items);
}

Test(common, a_text_is_what_was_added)
{
    struct text_buffer text = {0};
    cr_assert(text_buffer_add(&text, NULL, 0));
    cr_assert_null(text.data);
    cr_assert(text_buffer_add_string(&text, "one, "));
    cr_assert(text_buffer_add(&text, "two\0", 4));
    cr_assert_eq(text.size, 9);
    cr_assert_str_eq(text.data, "one, two");
    cr_assert_not(text_buffer_reserve(&text, SIZE_MAX));
    cr_assert_eq(text.size, 9);
    text_buffer_free(&text);
    cr_assert_null(text.data);
}

Test(common, a_lock_knows_who_holds_it)
{
    pthread_mutex_t lock;
    cr_assert_eq(lock_init(&lock), 0);
    pthread_mutex_lock(&lock);
    cr_assert(lock_is_mine(&lock));
    pthread_mutex_unlock(&lock);
    cr_assert_not(lock_is_mine(&lock)); /* takes it */
    pthread_mutex_unlock(&lock);
    pthread_mutex_destroy(&lock);
}
