// activation.cl: the functions of enum engine_activation, by their numbers in plugin-api.h, of one number
// and, with vectors, of 16.

#define ACTIVATION_NONE           0
#define ACTIVATION_SILU           1
#define ACTIVATION_GELU_ERF       2
#define ACTIVATION_GELU_TANH      3
#define ACTIVATION_RELU           4
#define ACTIVATION_RELU_SQUARED   5
#define ACTIVATION_SIGMOID        6
#define ACTIVATION_TANH           7
#define ACTIVATION_SOFTPLUS       8
#define ACTIVATION_CLAMP          9
#define ACTIVATION_SOFTCAP        10
#define ACTIVATION_SWIGLU_CLAMPED 11
#define ACTIVATION_EXP            12

// GELU_TANH is x * sigmoid(2 y), where y is the argument of tanh. NAME_factor turns a factor into the
// number that the result is multiplied by.
#define DEFINE_ACTIVATION(name, type)                                                                        \
    type name(uint kind, type x, float limit, float alpha)                                                   \
    {                                                                                                        \
        type positive = fmax(x, (type)(0));                                                                  \
        switch (kind) {                                                                                      \
        case ACTIVATION_SILU: return x / (1 + exp(-x));                                                      \
        case ACTIVATION_GELU_ERF: return 0.5f * x * (1 + erf(x * 0.70710678118654752f));                     \
        case ACTIVATION_GELU_TANH: return x / (1 + exp(-1.5957691216057308f * (x + 0.044715f * (x * x * x)))); \
        case ACTIVATION_RELU: return positive;                                                               \
        case ACTIVATION_RELU_SQUARED: return positive * positive;                                            \
        case ACTIVATION_SIGMOID: return 1 / (1 + exp(-x));                                                   \
        case ACTIVATION_TANH: return tanh(x);                                                                \
        case ACTIVATION_SOFTPLUS: return positive + log(1 + exp(-fabs(x)));                                  \
        case ACTIVATION_CLAMP: return fmin(fmax(x, (type)(-limit)), (type)(limit));                          \
        case ACTIVATION_SOFTCAP: return limit * tanh(x / limit);                                             \
        case ACTIVATION_SWIGLU_CLAMPED: x = fmin(x, (type)(limit)); return x / (1 + exp(-alpha * x));        \
        case ACTIVATION_EXP: return exp(x);                                                                  \
        default: return x;                                                                                   \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    type name##_factor(uint kind, type u, float limit)                                                       \
    {                                                                                                        \
        return kind == ACTIVATION_SWIGLU_CLAMPED ? 1 + fmin(fmax(u, (type)(-limit)), (type)(limit)) : u;     \
    }

DEFINE_ACTIVATION(activate, float)
#ifdef VECTORS
DEFINE_ACTIVATION(activate16, float16)
#endif
