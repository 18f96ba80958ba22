# Flags of every target of ours: target_link_libraries(TARGET PRIVATE engine-flags).
add_library(engine-flags INTERFACE)
target_compile_features(engine-flags INTERFACE c_std_11)
target_compile_definitions(engine-flags INTERFACE _GNU_SOURCE)
target_compile_options(engine-flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -fvisibility=hidden)
if(ENGINE_SANITIZE)
  target_compile_options(engine-flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all
                                                -fno-omit-frame-pointer -g)
  target_link_options(engine-flags INTERFACE -fsanitize=address,undefined)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
