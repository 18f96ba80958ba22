// dot-of-bytes.glsl: OpSDot with words as vectors (format 0); GLSL has no name for it that all compilers
// support.
#extension GL_EXT_spirv_intrinsics : enable
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_of_bytes(int a, int b, spirv_literal int format);
