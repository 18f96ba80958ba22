/* op-args.h: the argument struct of any operation of plugin-api.h. The host builds graphs of them;
 * plugins copy their arguments into one. */
#ifndef COMMON_OP_ARGS_H
#define COMMON_OP_ARGS_H

#include "plugin-api.h"

union op_args {
    size_t struct_size; /* the first field of each */
    struct engine_op_matmul matmul;
    struct engine_op_attention attention;
    struct engine_op_cache_write cache_write;
    struct engine_op_rope rope;
    struct engine_op_norm norm;
    struct engine_op_get_rows get_rows;
    struct engine_op_binary binary;
    struct engine_op_activate activate;
    struct engine_op_route route;
    struct engine_op_concat concat;
    struct engine_op_conv conv;
    struct engine_op_scan scan;
};

#endif
