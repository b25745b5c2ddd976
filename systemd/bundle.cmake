# SPDX-License-Identifier: Apache-2.0
# Target `bundle`: ${build}/bundle with the programs and, in lib/, every shared
# library that they need and the C library does not bring. Copied anywhere with
# the same architecture and a C library as new as the build's, it runs; NVRTC and
# the CUDA driver are looked for there as usual.
#
# The file is included by the top CMakeLists.txt, and is the script that copies.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GET_RUNTIME_DEPENDENCIES
    EXECUTABLES ${PROGRAMS}
    RESOLVED_DEPENDENCIES_VAR libraries
    PRE_EXCLUDE_REGEXES "^ld-linux" "^lib(c|m|dl|rt|pthread)\\.so")
  file(REMOVE_RECURSE ${BUNDLE})
  file(MAKE_DIRECTORY ${BUNDLE}/lib)
  file(COPY ${PROGRAMS} DESTINATION ${BUNDLE})
  foreach(library ${libraries})
    get_filename_component(name ${library} NAME)
    # The name is the one that programs ask for; the file behind it is copied.
    file(REAL_PATH ${library} file)
    file(COPY_FILE ${file} ${BUNDLE}/lib/${name})
  endforeach()
  return()
endif()

# tests/gpu's program that starts a replica; it needs the client library only.
add_executable(humming-replica EXCLUDE_FROM_ALL
  ${PROJECT_SOURCE_DIR}/tests/gpu/replica.c)
target_link_libraries(humming-replica PRIVATE hm_client hm_flags hm_sanitize)

set(bundle_programs
  hummingd humming-worker hummingctl humming-gemm-demo humming-replica)
set(bundle_files)
foreach(program ${bundle_programs})
  # Not BUILD_RPATH: that ends in an empty entry, which ld.so takes for the
  # folder that the program was started in.
  set_target_properties(${program} PROPERTIES
    INSTALL_RPATH "$ORIGIN/lib" BUILD_WITH_INSTALL_RPATH ON)
  list(APPEND bundle_files $<TARGET_FILE:${program}>)
endforeach()
add_custom_target(bundle
  COMMAND ${CMAKE_COMMAND} -DBUNDLE=${PROJECT_BINARY_DIR}/bundle
    "-DPROGRAMS=${bundle_files}" -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${bundle_programs}
  COMMENT "Copying programs and libraries into ${PROJECT_BINARY_DIR}/bundle"
  VERBATIM)
