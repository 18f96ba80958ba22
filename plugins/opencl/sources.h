/* sources.h: the kernels' sources; CMake makes this table from kernels/. */
#ifndef OPENCL_SOURCES_H
#define OPENCL_SOURCES_H

extern const char source_common[], source_activation[], source_unpack[], source_matmul[], source_experts[],
    source_inputs[], source_get_rows[], source_attention[], source_rows[], source_states[];

#endif
