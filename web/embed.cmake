# Writes OUTPUT, which defines the tables of page-files.h from FILES (paths relative to SOURCE). GZIP is the program.
#
# index.html is "/", other pages lose their ".html", everything else keeps its path. A page NAME.html is sent with the
# policy in NAME.policy: one directive a line; lines that begin with # are comments. What isn't a page needs none.
set(type_js "text/javascript; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_html "text/html; charset=utf-8")
set(type_svg "image/svg+xml")
set(arrays "")
set(rows "")
set(number 0)

# as_bytes(FILE VARIABLE SIZE): its bytes as "0x..,", and how many.
function(as_bytes file variable size)
  file(READ ${file} hex HEX)
  string(LENGTH "${hex}" length)
  math(EXPR length "${length} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," hex "${hex}")
  set(${variable} "${hex}" PARENT_SCOPE)
  set(${size} ${length} PARENT_SCOPE)
endfunction()

foreach(name ${FILES})
  string(REGEX REPLACE "^.*\\.([a-z]+)$" "\\1" extension ${name})
  if(NOT DEFINED type_${extension})
    message(FATAL_ERROR "${SOURCE}/${name}: no type is known for .${extension}; add it in web/embed.cmake")
  endif()

  set(path "/${name}")
  set(policy "default-src 'none'")
  if(extension STREQUAL html)
    string(REGEX REPLACE "\\.html$" "" path "${path}")
    file(STRINGS ${SOURCE}${path}.policy lines REGEX "^[^#]")
    list(JOIN lines "; " policy)
    if(path STREQUAL /index)
      set(path /)
    endif()
  endif()

  file(SHA256 ${SOURCE}/${name} hash)
  string(SUBSTRING ${hash} 0 16 hash)
  as_bytes(${SOURCE}/${name} bytes size)
  execute_process(COMMAND ${GZIP} -9nc ${SOURCE}/${name} OUTPUT_FILE ${OUTPUT}.gz COMMAND_ERROR_IS_FATAL ANY)
  as_bytes(${OUTPUT}.gz packed packed_size)
  file(REMOVE ${OUTPUT}.gz)
  string(APPEND arrays "static const unsigned char data_${number}[] = {${bytes}};\n")
  if(packed_size LESS size)
    string(APPEND arrays "static const unsigned char gzip_${number}[] = {${packed}};\n")
    set(packed gzip_${number})
  else()
    set(packed NULL)
    set(packed_size 0)
  endif()
  string(APPEND rows "    {\"${path}\", \"${type_${extension}}\", \"W/\\\"${hash}\\\"\", \"${policy}\", data_${number}, ${packed}, ${size}, ${packed_size}},\n")
  math(EXPR number "${number} + 1")
endforeach()

file(WRITE ${OUTPUT} "/* Made by CMake of the files in web/. */
#include \"web/page-files.h\"

${arrays}
const struct page_file page_files[] = {
${rows}};
const size_t n_page_files = ${number};
")
