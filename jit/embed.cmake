# SPDX-License-Identifier: Apache-2.0
# Device sources to one C table: cmake -DOUTPUT=FILE "-DSOURCES=A;B" -P embed.cmake
#
# Bytes, not string literals: C promises literals of 4095 characters only. The
# table is sorted by name, each text ends in a NUL that does not count, and its
# SHA-256 is taken here, so that a key costs no pass over the sources.
cmake_minimum_required(VERSION 3.25)

set(names "")
foreach(source IN LISTS SOURCES)
  get_filename_component(name ${source} NAME)
  list(APPEND names ${name})
  set(path_of_${name} ${source})
endforeach()
list(SORT names COMPARE STRING)

set(arrays "")
set(rows "")
set(index 0)
foreach(name IN LISTS names)
  file(READ ${path_of_${name}} hex HEX)
  file(SHA256 ${path_of_${name}} digest)
  string(LENGTH "${hex}" n_digits)
  math(EXPR n_bytes "${n_digits} / 2")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
  string(APPEND arrays
    "static const unsigned char text_${index}[] = {${hex}0};\n")
  string(APPEND rows
    "\t{\"${name}\", (const char *)text_${index}, ${n_bytes}, \"${digest}\"},\n")
  math(EXPR index "${index} + 1")
endforeach()

file(WRITE ${OUTPUT}
"/* Made by jit/embed.cmake from kernels/. */
#include \"jit/source.h\"

${arrays}
const struct hm_source hm_source_table[] = {
${rows}};
const size_t hm_source_table_count = ${index};
")
