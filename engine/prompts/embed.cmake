# Writes OUTPUT, which defines the text of INPUT, attention-page.html, as attention_page. It must be ASCII.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "/* Made by CMake of attention-page.html. */\nextern const char attention_page[];\nconst char attention_page[] = {${bytes}0};\n")
