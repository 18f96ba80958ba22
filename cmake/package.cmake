# What is installed beside programs and plugins: headers, pkg-config files, the CMake packages engine and engine-plugin, pages and examples, manual pages,
# completions. The version of engine-plugin is that of the border, read from plugin-api.h.
include(CMakePackageConfigHelpers)
file(STRINGS ${PROJECT_SOURCE_DIR}/plugin-api.h abi REGEX "^#define ENGINE_ABI_(MAJOR|MINOR) [0-9]+$")
string(REGEX REPLACE "[^0-9;]" "" abi "${abi}")
string(REPLACE ";" "." ENGINE_ABI "${abi}")

file(RELATIVE_PATH PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" PREFIX_FROM_PC "${PREFIX_FROM_PC}")
foreach(name engine engine-plugin)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
endforeach()

# The plugin package holds no code, but names the folder of plugins, which differs between architectures.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/engine-plugin)
configure_package_config_file(cmake/engine-plugin-config.cmake.in engine-plugin-config.cmake
  INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/engine-plugin-config-version.cmake
  VERSION ${ENGINE_ABI} COMPATIBILITY SameMajorVersion ARCH_INDEPENDENT)

# For programs that use libengine.
get_target_property(LIBENGINE_SOVERSION libengine SOVERSION)
set(library_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/engine)
configure_package_config_file(cmake/engine-config.cmake.in engine-config.cmake
  INSTALL_DESTINATION ${library_package_dir} PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/engine-config-version.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMajorVersion)

install(FILES plugin-api.h plugin-types.h plugin-type-grids.h include/engine.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${PROJECT_BINARY_DIR}/engine.pc ${PROJECT_BINARY_DIR}/engine-plugin.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(FILES ${PROJECT_BINARY_DIR}/engine-plugin-config.cmake ${PROJECT_BINARY_DIR}/engine-plugin-config-version.cmake
        DESTINATION ${package_dir})
install(FILES ${PROJECT_BINARY_DIR}/engine-config.cmake ${PROJECT_BINARY_DIR}/engine-config-version.cmake
        DESTINATION ${library_package_dir})
# Where pages lie depends on the packages; headers and examples are elsewhere than in the sources. Links become plain names
# unless they lead to another of these pages.
set(doc_pages plugins types embedding)
list(JOIN doc_pages "|" doc_page_names)
foreach(page ${doc_pages})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/${page}.md)
  file(READ ${PROJECT_SOURCE_DIR}/docs/${page}.md text)
  string(REGEX REPLACE "\\]\\((${doc_page_names})\\.md" "](=\\1.md" text "${text}")
  string(REGEX REPLACE "\\[([^]\n]*)\\]\\([a-z./][^:)\n]*\\)" "\\1" text "${text}")
  string(REPLACE "](=" "](" text "${text}")
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/docs/${page}.md CONTENT "@text@" @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/docs/${page}.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
endforeach()
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Manual pages and completions, written by the program itself. A program for another machine can't be asked.
if(NOT CMAKE_CROSSCOMPILING)
  set(pages ${PROJECT_BINARY_DIR}/pages)
  add_custom_command(OUTPUT ${pages}/engine.fish COMMAND ${PROJECT_SOURCE_DIR}/cmake/make-pages $<TARGET_FILE:engine> ${pages}
    DEPENDS engine ${PROJECT_SOURCE_DIR}/cmake/make-pages VERBATIM)
  add_custom_target(pages ALL DEPENDS ${pages}/engine.fish)
  install(DIRECTORY ${pages}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  install(FILES ${pages}/engine.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME engine)
  install(FILES ${pages}/_engine DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
  install(FILES ${pages}/engine.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
install(FILES docs/man/engine.conf.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)
install(FILES docs/man/engine-plugin.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
