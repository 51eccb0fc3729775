# SPDX-License-Identifier: Apache-2.0
# Compiler settings, outside libraries, and the two verbs the rest of the build speaks in:
# detour_layer() for a folder of the product and detour_test() for a test program.

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # glibc's process_vm_readv, memfd_create, accept4, ...
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/archive)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug or RelWithDebInfo" FORCE)
endif()
# Assertions are part of the product (base/check.h), so NDEBUG has nothing to switch off.
set(CMAKE_C_FLAGS_RELEASE "-O2 -g1")
# Only tests are C++; compiling them takes longer than running them.
set(CMAKE_CXX_FLAGS_RELEASE "-O0")

add_library(detour_options INTERFACE)
target_compile_definitions(detour_options INTERFACE _GNU_SOURCE
  $<$<CONFIG:Debug>:DETOUR_HOT_CHECKS>) # base/check.h
target_include_directories(detour_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
target_compile_options(detour_options INTERFACE
  -Wall -Wextra -Wshadow -Wpointer-arith -Wundef -Wvla -fno-common
  $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes -Wmissing-prototypes>
  $<$<BOOL:${DETOUR_WERROR}>:-Werror>)
# Link option of our libraries: nothing is left for the program that loads them to supply, but the symbols of a sanitizer.
set(DETOUR_NO_UNDEFINED LINKER:-z,defs)
if(DETOUR_SANITIZE)
  set(DETOUR_NO_UNDEFINED)
  # Lines and function names, which reports have; variables would take longer to compile and to link.
  set(CMAKE_C_FLAGS_DEBUG "-g1 -O1")
  set(CMAKE_CXX_FLAGS_DEBUG "-g1")
  target_compile_definitions(detour_options INTERFACE DETOUR_HOT_CHECKS)
  target_compile_options(detour_options INTERFACE
    -fsanitize=${DETOUR_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(detour_options INTERFACE -fsanitize=${DETOUR_SANITIZE})
  if(DETOUR_SANITIZE MATCHES undefined)
    # C++ is tests only. GoogleTest's templates under UBSan take half as long again to compile and are not ours.
    target_compile_options(detour_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-sanitize=undefined>)
  endif()
  if(DETOUR_SANITIZE MATCHES thread)
    # ThreadSanitizer does not follow fences. Ours order what devices see; threads meet at atomics.
    target_compile_options(detour_options INTERFACE $<$<C_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_path(VERBS_INCLUDE_DIR infiniband/verbs.h)
pkg_check_modules(JANSSON IMPORTED_TARGET jansson)
if(NOT VERBS_INCLUDE_DIR OR NOT JANSSON_FOUND)
  message(FATAL_ERROR "Detour needs the headers of libibverbs and libjansson.\n"
    "On Debian or Ubuntu: apt-get install libibverbs-dev libjansson-dev pkg-config\n"
    "(or run scripts/setup.sh demo, which does that)")
endif()

# detour_layer(NAME SOURCES file... [USES layer...] [LIBS library...])
# One folder of the product: a static, position-independent archive detour_NAME. Headers are reached
# as "NAME/file.h" from the source root.
function(detour_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;USES;LIBS" ${ARGN})
  add_library(detour_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(detour_${name} PUBLIC detour_options Threads::Threads)
  foreach(layer IN LISTS ARG_USES)
    target_link_libraries(detour_${name} PUBLIC detour_${layer})
  endforeach()
  target_link_libraries(detour_${name} PUBLIC ${ARG_LIBS})
endfunction()

# detour_test_program(NAME SOURCES file... [USES layer...] [LIBS library...] [LABEL quick|full])
# One GoogleTest program on the project's harness (tests/harness: unexpected warnings fail, chosen allocations fail on
# demand), for entries in ctest that the caller makes. The target `quick` builds those of the quick tests.
function(detour_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "LABEL" "SOURCES;USES;LIBS")
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE detour_harness ${ARG_LIBS})
  foreach(layer IN LISTS ARG_USES)
    target_link_libraries(${name} PRIVATE detour_${layer})
  endforeach()
  if(TARGET detour_precompiled AND NOT ARG_SOURCES MATCHES "[.]c(;|$)") # CMake asks for precompiled headers of C then
    target_precompile_headers(${name} REUSE_FROM detour_precompiled)
  endif()
  detour_quick(${name} "${ARG_LABEL}")
endfunction()

# detour_quick(TARGET LABEL): the target `quick` builds it, if tests of that label are run in this build (scripts/test_full.sh).
function(detour_quick target label)
  if(NOT TARGET quick)
    add_custom_target(quick)
  endif()
  if((DETOUR_SANITIZE AND label MATCHES "no-sanitizer") OR (DETOUR_SANITIZE MATCHES thread AND label MATCHES "no-tsan"))
    return()
  endif()
  if(NOT label MATCHES "full")
    add_dependencies(quick ${target})
  endif()
endfunction()

# detour_test(NAME SOURCES file... [USES layer...] [LIBS library...]
#             [LABEL quick|full] [COST seconds] [ARGS argument...])
# A test program and its one entry in ctest, both under NAME. How long a test may take is not its own
# affair: ctest's --timeout (Makefile, scripts/test_full.sh) ends a test that hangs, with room for a
# machine many times slower than this one. LABEL may be a list ("quick;no-tsan"). COST, some seconds: ctest starts what
# takes long first, so that nothing is left to wait for at the end.
function(detour_test name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "LABEL;COST" "SOURCES;USES;LIBS;ARGS")
  if(NOT ARG_LABEL)
    set(ARG_LABEL quick)
  endif()
  if(NOT ARG_COST)
    set(ARG_COST 0)
  endif()
  detour_test_program(${name} LABEL "${ARG_LABEL}" SOURCES ${ARG_SOURCES} USES ${ARG_USES} LIBS ${ARG_LIBS})
  add_test(NAME ${name} COMMAND ${name} ${ARG_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" COST ${ARG_COST} SKIP_RETURN_CODE 77)
endfunction()
