/* test-isa.c: which instruction set the CPU plugin chooses on an ARM processor; TEST_ISA says what there
 * is. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "backend-fixture.h"
#include "cpu-settings.h"

static const char *best(void)
{
    const char *isa = getenv("TEST_ISA");
    cr_assert(isa, "TEST_ISA isn't set");
    return isa;
}

Test(arm64_isa, is_the_best_of_the_processor)
{
    struct fixture fixture;
    unsetenv("ENGINE_CPU_ISA");
    fixture_open(&fixture, "cpu", 0, 1, 0);
    cr_assert(cpu_uses(&fixture, best()));
    fixture_close(&fixture);
}

Test(arm64_isa, can_be_capped)
{
    bool usable = true;
    for (size_t i = 0; i < N_CPU_ISAS; i++) {
        struct fixture fixture;
        bool opened = cpu_open(&fixture, cpu_isas[i], 1);
        if (opened) fixture_close(&fixture);
        cr_expect_eq(opened, usable, "%s", cpu_isas[i]);
        if (strcmp(cpu_isas[i], best()) == 0) usable = false;
    }
}

Test(arm64_isa, of_another_architecture_is_refused)
{
    struct fixture fixture;
    fixture_load(&fixture, "cpu");
    setenv("ENGINE_CPU_ISA", "avx2", 1);
    struct engine_device_options options = {sizeof options, 1, 0};
    cr_assert_eq(fixture.api->device_open(0, &options, &fixture.device), ENGINE_ERROR_ARGUMENT);
    cr_assert(strstr(fixture_message(), "choose scalar, neon or neondot on this architecture"));
}
