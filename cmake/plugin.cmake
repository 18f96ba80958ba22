# engine_plugin(NAME SOURCE...): a plugin, built into the folder where the build tree's engine looks for plugins and
# installed where the installed one does. It sees plugin-api.h and its own folder.
function(engine_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "" OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${ENGINE_BUILD_PLUGIN_DIR})
  target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/.. ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE engine-flags)
  add_custom_command(TARGET ${name} POST_BUILD COMMAND chmod go-w $<TARGET_FILE:${name}> VERBATIM)
  install(TARGETS ${name} LIBRARY DESTINATION ${ENGINE_PLUGIN_DIR})
endfunction()
