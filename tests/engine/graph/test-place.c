/* test-place.c: placement as a pure function: what goes where for which memory and options. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "graph/place.h"

/* A model of four layers: two tensors of 10 bytes and a cache of 5 each, an embedding and an output of 30,
 * which may be the same tensor. */
#define N_LAYERS  4
#define N_TENSORS (3 * N_LAYERS + 2)
#define EMBEDDING (N_TENSORS - 2)
#define OUTPUT    (N_TENSORS - 1)

static struct place_tensor tensors[N_TENSORS];
static char names[N_TENSORS][32];
static uint32_t device[N_TENSORS];
static uint64_t used[PLACE_MAX_DEVICES];

static void make_tensors(void)
{
    for (uint32_t i = 0; i < N_TENSORS; i++) {
        static const char *const parts[] = {"a.weight", "b.weight", "cache"};
        uint32_t bytes = i >= EMBEDDING ? 30 : i % 3 == 2 ? 5 : 10;
        snprintf(names[i], sizeof names[i], "blk.%u.%s", i / 3, parts[i % 3]);
        tensors[i] = (struct place_tensor){
            .name = i == EMBEDDING ? "token_embd.weight"
                    : i == OUTPUT  ? "output.weight"
                                   : names[i],
            .part = i == EMBEDDING ? PLACE_EMBEDDING
                    : i == OUTPUT  ? PLACE_OUTPUT
                                   : PLACE_LAYER,
            .layer = i / 3,
            .can = {7},
            .group = i,
            .leader = i,
            .next = PLACE_NONE,
        };
        for (int d = 0; d < PLACE_MAX_DEVICES; d++) tensors[i].bytes[d] = bytes;
    }
}

static double speeds[3]; /* of the devices */

static uint32_t place(uint32_t offload, uint64_t budget1, uint64_t budget2, const struct place_rule *rules,
                      size_t n_rules)
{
    struct place_device devices[] = {{"cpu", PLACE_NO_LIMIT, 0, speeds[0], 0, 0},
                                     {"gpu0", budget1, 2, speeds[1], 0, 0},
                                     {"gpu1", budget2, 2, speeds[2], 0, 0}};
    struct place_request request = {
        .devices = devices,
        .n_devices = budget2 ? 3 : 2,
        .tensors = tensors,
        .n_tensors = N_TENSORS,
        .rules = rules,
        .n_rules = n_rules,
        .n_layers = N_LAYERS,
        .offload = offload,
    };
    return place_tensors(&request, device, used);
}

Test(place, nothing_is_offloaded_by_default_of_zero)
{
    make_tensors();
    cr_assert_eq(place(0, 1000, 0, NULL, 0), 0);
    for (int i = 0; i < N_TENSORS; i++) cr_assert_eq(device[i], 0);
    cr_assert_eq(used[1], 0);
}

Test(place, the_last_layers_go_first_with_the_output)
{
    make_tensors();
    cr_assert_eq(place(2, PLACE_NO_LIMIT, 0, NULL, 0), 2);
    for (uint32_t i = 0; i < 3 * N_LAYERS; i++)
        cr_assert_eq(device[i], i / 3 >= 2, "tensor %s", tensors[i].name);
    cr_assert_eq(device[OUTPUT], 1);
    cr_assert_eq(device[EMBEDDING], 0);
    cr_assert_eq(used[1], 2 * 25 + 30 + 2);
}

Test(place, all_takes_the_embedding_too)
{
    make_tensors();
    cr_assert_eq(place(PLACE_ALL, PLACE_NO_LIMIT, 0, NULL, 0), N_LAYERS);
    for (int i = 0; i < N_TENSORS; i++) cr_assert_eq(device[i], 1);
    cr_assert_eq(used[0], 0);
}

Test(place, the_embedding_is_with_the_first_layer_if_there_is_room)
{
    static const struct place_rule rules[] = {{"blk.[01].*", 1}};
    make_tensors();
    cr_assert_eq(place(PLACE_ALL, 1000, 1000, rules, 1), N_LAYERS);
    cr_assert_eq(device[0], 1);
    cr_assert_eq(device[3 * 2], 2);
    cr_assert_eq(device[OUTPUT], 2);
    cr_assert_eq(device[EMBEDDING], 1);
    cr_assert_eq(place(PLACE_ALL, 60, 1000, rules, 1), N_LAYERS);
    cr_assert_eq(device[EMBEDDING], 2);
}

Test(place, the_embedding_stays_with_a_first_layer_on_the_cpu)
{
    static const struct place_rule rules[] = {{"blk.0.*", 0}};
    make_tensors();
    cr_assert_eq(place(PLACE_ALL, 1000, 1000, rules, 1), N_LAYERS);
    cr_assert_eq(device[EMBEDDING], 0);
    cr_assert_eq(device[3], 2);
    cr_assert_eq(device[OUTPUT], 2);
}

Test(place, the_output_is_with_the_last_layer_if_there_is_room)
{
    static const struct place_rule rules[] = {{"blk.[23].*", 1}};
    make_tensors();
    cr_assert_eq(place(PLACE_ALL, 1000, 1000, rules, 1), N_LAYERS);
    cr_assert_eq(device[0], 2);
    cr_assert_eq(device[OUTPUT], 1);
    cr_assert_eq(place(PLACE_ALL, 60, 1000, rules, 1), N_LAYERS);
    cr_assert_eq(device[OUTPUT], 2);
}

Test(place, more_layers_than_there_are_is_all_of_them)
{
    make_tensors();
    cr_assert_eq(place(99, PLACE_NO_LIMIT, 0, NULL, 0), N_LAYERS);
    cr_assert_eq(device[EMBEDDING], 0);
}

Test(place, every_budget_is_kept)
{
    make_tensors();
    uint32_t before = 0;
    for (uint64_t budget = 1; budget < 250; budget++) {
        uint32_t layers = place(PLACE_ALL, budget, 0, NULL, 0);
        cr_assert_leq(used[1], budget);
        cr_assert_geq(layers, before, "a larger budget of %u takes fewer layers", (unsigned)budget);
        before = layers;
    }
    cr_assert_eq(before, N_LAYERS);
}

Test(place, two_devices_share_in_the_order_of_the_layers)
{
    make_tensors();
    tensors[OUTPUT].bytes[2] = 20;
    cr_assert_eq(place(PLACE_ALL, 2 + 2 * 25 + 30, 2 + 2 * 25 + 20, NULL, 0), N_LAYERS);
    for (uint32_t i = 0; i < 3 * N_LAYERS; i++) cr_assert_eq(device[i], i / 3 >= 2 ? 2 : 1);
    cr_assert_eq(device[OUTPUT], 2);
    cr_assert_eq(device[EMBEDDING], 1);
}

Test(place, the_faster_device_is_filled_first)
{
    make_tensors();
    for (int faster = 1; faster <= 2; faster++) {
        speeds[faster] = 30, speeds[3 - faster] = 4;
        cr_assert_eq(place(PLACE_ALL, 85, 1000, NULL, 0), 4);
        uint32_t last = faster == 1 ? 1 : 2; /* gpu0 has room for three layers, gpu1 for all */
        for (uint32_t i = 0; i < EMBEDDING; i++)
            cr_assert_eq(device[i], faster == 1 && i / 3 == 0 ? 2 : last, "tensor %u on %u", i, device[i]);
        cr_assert_leq(used[1], 85);
    }
}

/* Of each of four devices, the layer that it has. */
static void expect_layers(const struct place_device devices[5], const uint32_t layers[5])
{
    make_tensors();
    for (int i = 0; i < N_TENSORS; i++) tensors[i].can[0] = 31;
    tensors[OUTPUT].can[0] = tensors[EMBEDDING].can[0] = 1;
    struct place_request request = {.devices = devices,
                                    .n_devices = 5,
                                    .tensors = tensors,
                                    .n_tensors = N_TENSORS,
                                    .n_layers = N_LAYERS,
                                    .offload = PLACE_ALL};
    cr_assert_eq(place_tensors(&request, device, used), N_LAYERS);
    for (uint32_t d = 1; d < 5; d++)
        for (uint32_t i = 0; i < EMBEDDING; i++)
            cr_expect_eq(device[i] == d, i / 3 == layers[d], "tensor %u on %u", i, device[i]);
}

Test(place, devices_of_a_machine_follow_each_other)
{
    struct place_device devices[5] = {{"cpu", PLACE_NO_LIMIT, 0, 0, 0, 0},
                                      {"mpi1.0", 30, 0, 10.0, 1, 1},
                                      {"mpi2.0", 30, 0, 10.2, 2, 1},
                                      {"mpi1.1", 30, 0, 9.9, 1, 1},
                                      {"mpi2.1", 30, 0, 9.8, 2, 1}};
    expect_layers(devices, (uint32_t[5]){0, 1, 3, 0, 2}); /* the last layers are placed first */
    devices[2].reach = devices[4].reach = 3;              /* a slower link */
    expect_layers(devices, (uint32_t[5]){0, 3, 1, 2, 0});
    devices[2].speed = devices[4].speed = 20; /* to faster devices */
    expect_layers(devices, (uint32_t[5]){0, 1, 2, 0, 3});
    devices[1].speed = 19; /* of a machine whose other device is slow, but reached fast */
    expect_layers(devices, (uint32_t[5]){0, 3, 1, 0, 2});
}

Test(place, an_output_that_fits_nowhere_leaves_the_devices_to_the_layers)
{
    make_tensors();
    for (int d = 0; d < PLACE_MAX_DEVICES; d++) tensors[OUTPUT].bytes[d] = 1000;
    cr_assert_eq(place(PLACE_ALL, 60, 0, NULL, 0), 2);
    cr_assert_eq(device[OUTPUT], 0);
}

Test(place, a_layer_that_rules_have_placed_is_passed_over)
{
    make_tensors();
    const struct place_rule rules[] = {{"blk.3.*", 0}, {"blk.1.*", 1}};
    cr_assert_eq(place(PLACE_ALL, PLACE_NO_LIMIT, 0, rules, 2), N_LAYERS);
    for (uint32_t i = 0; i < EMBEDDING; i++)
        cr_assert_eq(device[i], i / 3 != 3, "tensor %s", tensors[i].name);
    cr_assert_eq(place(2, PLACE_NO_LIMIT, 0, rules, 1), 2);
    for (uint32_t i = 0; i < EMBEDDING; i++)
        cr_assert_eq(device[i], i / 3 == 2, "tensor %s", tensors[i].name);
}

Test(place, the_first_rule_that_matches_wins)
{
    make_tensors();
    struct place_rule rules[] = {{"blk.1.a.*", 0}, {"blk.[12].*", 1}, {"blk.2.b.weight", 0}, {"*embd*", 1}};
    cr_assert_eq(place(0, PLACE_NO_LIMIT, 0, rules, 4), 0);
    cr_assert_eq(device[3], 0, "blk.1.a.weight");
    cr_assert_eq(device[4], 1, "blk.1.b.weight");
    cr_assert_eq(device[5], 1, "blk.1.cache");
    cr_assert_eq(device[7], 1, "blk.2.b.weight");
    cr_assert_eq(device[EMBEDDING], 1);
    cr_assert_eq(device[0], 0);
}

Test(place, what_a_device_cannot_run_stays_on_the_cpu)
{
    make_tensors();
    for (int layer = 0; layer < N_LAYERS; layer++) tensors[3 * layer + 2].can[0] = 1;
    struct place_rule rule = {"blk.0.cache", 1};
    cr_assert_eq(place(PLACE_ALL, PLACE_NO_LIMIT, 0, &rule, 1), N_LAYERS);
    for (int i = 0; i < 3 * N_LAYERS; i++) cr_assert_eq(device[i], i % 3 != 2);
}

Test(place, one_tensor_in_two_roles_counts_once_on_a_device)
{
    make_tensors();
    tensors[OUTPUT].group = EMBEDDING;
    for (int d = 0; d < PLACE_MAX_DEVICES; d++) tensors[EMBEDDING].bytes[d] = 20; /* as rows it takes less */
    cr_assert_eq(place(PLACE_ALL, PLACE_NO_LIMIT, 0, NULL, 0), N_LAYERS);
    cr_assert_eq(used[1], N_LAYERS * 25 + 30 + 2);
    cr_assert_eq(place_bytes(tensors, device, EMBEDDING), 20);
    cr_assert_eq(place_bytes(tensors, device, OUTPUT), 10);
    cr_assert_eq(place(1, PLACE_NO_LIMIT, 0, NULL, 0), 1);
    cr_assert_eq(place_bytes(tensors, device, EMBEDDING), 20);
    cr_assert_eq(place_bytes(tensors, device, OUTPUT), 30);
}

Test(place, sizes_that_overflow_do_not_fit)
{
    make_tensors();
    for (int i = 0; i < 3; i++) tensors[9 + i].bytes[1] = UINT64_MAX / 2;
    cr_assert_eq(place(PLACE_ALL, UINT64_MAX - 1, 0, NULL, 0), 0);
    cr_assert_eq(device[9], 0);
}

/* ---- Followers and experts ---- */

static bool experts_stay;

static uint32_t place_by_experts(uint32_t offload, uint64_t budget)
{
    struct place_device devices[] = {{"cpu", PLACE_NO_LIMIT, 0, 0, 0, 0}, {"gpu0", budget, 2, 0, 0, 0}};
    struct place_request request = {.devices = devices,
                                    .n_devices = 2,
                                    .tensors = tensors,
                                    .n_tensors = N_TENSORS,
                                    .n_layers = N_LAYERS,
                                    .offload = offload,
                                    .experts_stay = experts_stay};
    return place_tensors(&request, device, used);
}

/* b.weight of each layer goes with a.weight. */
static void make_followers(void)
{
    make_tensors();
    for (size_t i = 0; i < EMBEDDING; i += 3) {
        tensors[i].next = i + 1;
        tensors[i + 1].leader = i;
    }
}

Test(place, followers_go_where_their_leader_goes_and_count_with_it)
{
    make_followers();
    for (uint64_t budget = 1; budget < 250; budget++) {
        place(PLACE_ALL, budget, 0, NULL, 0);
        cr_assert_leq(used[1], budget);
        for (size_t i = 0; i < EMBEDDING; i += 3) cr_assert_eq(device[i], device[i + 1]);
    }
    struct place_rule rules[] = {{"blk.1.a.*", 1},
                                 {"blk.2.b.*", 1}}; /* a rule for a follower alone means nothing */
    place(0, 1000, 0, rules, 2);
    for (uint32_t i = 0; i < EMBEDDING; i++) cr_assert_eq(device[i], i == 3 || i == 4, "tensor %u", i);
}

Test(place, experts_stay_on_the_cpu_where_memory_is_short)
{
    make_tensors();
    for (size_t i = 1; i < EMBEDDING; i += 3) {
        tensors[i].experts = true;
        tensors[i].bytes[0] = tensors[i].bytes[1] = 100;
    }
    experts_stay = false;
    cr_assert_eq(place_by_experts(PLACE_ALL, 2 + 4 * 15 + 30), 0); /* not one whole layer */
    experts_stay = true;
    cr_assert_eq(place_by_experts(PLACE_ALL, 2 + 4 * 15 + 30), N_LAYERS);
    for (uint32_t i = 0; i < EMBEDDING; i++) cr_assert_eq(device[i], i % 3 != 1, "%s", tensors[i].name);
    cr_assert_eq(device[OUTPUT], 1);
    /* With room for the experts of two layers, those of the last two go along; with room for all, all of
     * them. */
    place_by_experts(PLACE_ALL, 2 + 4 * 15 + 30 + 30 + 200);
    for (uint32_t i = 0; i < EMBEDDING; i++) cr_assert_eq(device[i], i % 3 != 1 || i / 3 >= N_LAYERS - 2);
    place_by_experts(PLACE_ALL, PLACE_NO_LIMIT);
    for (uint32_t i = 0; i < N_TENSORS; i++) cr_assert_eq(device[i], 1);
}
