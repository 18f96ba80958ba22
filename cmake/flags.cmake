# Flags of every target of ours: target_link_libraries(TARGET PRIVATE engine-flags).
add_library(engine-flags INTERFACE)
target_compile_features(engine-flags INTERFACE c_std_11)
target_compile_definitions(engine-flags INTERFACE _GNU_SOURCE)
target_compile_options(engine-flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -fvisibility=hidden)

# ENGINE_SANITIZE: OFF; address (ON means the same), with undefined behaviour; or thread.
set(ENGINE_SANITIZE OFF CACHE STRING "Build with sanitizers: OFF, address (and undefined), thread")
set_property(CACHE ENGINE_SANITIZE PROPERTY STRINGS OFF address thread)
if(ENGINE_SANITIZE STREQUAL "thread")
  set(sanitizers -fsanitize=thread)
elseif(ENGINE_SANITIZE MATCHES "^(address|ON|on|TRUE|1)$")
  set(sanitizers -fsanitize=address,undefined)
elseif(ENGINE_SANITIZE)
  message(FATAL_ERROR "ENGINE_SANITIZE is '${ENGINE_SANITIZE}': it can be OFF, address or thread")
endif()
if(ENGINE_SANITIZE)
  # -O2 -g takes twice as long to compile, more than the tests gain by it.
  if(NOT ENGINE_FUZZ)
    add_compile_options(-O1 -g1)
  endif()
  target_compile_options(engine-flags INTERFACE ${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(engine-flags INTERFACE ${sanitizers})
  # Programs that the tests load our libraries into need one runtime for all of them, which gcc has anyway.
  if(CMAKE_C_COMPILER_ID MATCHES Clang AND NOT ENGINE_FUZZ)
    execute_process(COMMAND ${CMAKE_C_COMPILER} -print-runtime-dir OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE)
    target_link_options(engine-flags INTERFACE -shared-libsan -Wl,-rpath,${runtime})
  endif()
endif()

# Instruments everything for libFuzzer, under ASan and UBSan or under TSan, and makes tests/fuzz/ its programs.
option(ENGINE_FUZZ "Build the fuzzers (needs clang)" OFF)
if(ENGINE_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES Clang OR NOT ENGINE_SANITIZE)
    message(FATAL_ERROR "ENGINE_FUZZ needs -DCMAKE_C_COMPILER=clang and -DENGINE_SANITIZE=address or thread")
  endif()
  target_compile_options(engine-flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# The conditions of ENGINE_ASSERT (common/assert.h) run in builds with tests, in debug builds and under sanitizers.
if(ENGINE_TESTS OR ENGINE_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_compile_definitions(engine-flags INTERFACE ENGINE_ASSERTIONS)
endif()

set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
