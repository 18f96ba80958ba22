// types.glsl: the weight types, by their numbers in plugin-api.h. A shader that reads weights is compiled for each, with
// TYPE defined.
#define TYPE_F32  0
#define TYPE_F16  1
#define TYPE_Q4_0 2
#define TYPE_Q8_0 8
#define TYPE_BF16 30

// Values in one uvec4 of the types without scales.
#if TYPE == TYPE_F32
#define UNIT 4
#else
#define UNIT 8
#endif
