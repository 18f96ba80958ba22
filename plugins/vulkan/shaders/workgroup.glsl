// workgroup.glsl: sums and maxima over a workgroup of SIZE invocations, a multiple of 4; all of them call
// these together and get the result. With SUBGROUPS defined, the device adds within subgroups and shared
// memory just joins those.
shared vec4 partial[SIZE / 4];

#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_arithmetic : require
#define OVER_SUBGROUP(operation, value) operation(value)
#define PLACE                           gl_SubgroupID
#define PLACES                          gl_NumSubgroups
#define IS_FIRST                        subgroupElect()
#else
#define OVER_SUBGROUP(operation, value) value
#define PLACE                           gl_LocalInvocationID.x
#define PLACES                          SIZE
#define IS_FIRST                        true
#endif

// Shows every invocation the values of all places; vectors of `fill` after the last place.
void share(float mine, float fill)
{
    barrier(); // the previous contents have been used
    if (IS_FIRST) partial[PLACE / 4][PLACE % 4] = mine;
    if (gl_LocalInvocationID.x == 0)
        for (uint i = PLACES; i % 4 != 0; i++) partial[i / 4][i % 4] = fill;
    barrier();
}

float workgroup_sum(float mine)
{
    share(OVER_SUBGROUP(subgroupAdd, mine), 0);
    vec4 sums = partial[0];
    for (uint i = 1; i < (PLACES + 3) / 4; i++) sums += partial[i];
    return (sums.x + sums.y) + (sums.z + sums.w);
}

float workgroup_max(float mine)
{
    share(OVER_SUBGROUP(subgroupMax, mine), -3e38);
    vec4 best = partial[0];
    for (uint i = 1; i < (PLACES + 3) / 4; i++) best = max(best, partial[i]);
    return max(max(best.x, best.y), max(best.z, best.w));
}
