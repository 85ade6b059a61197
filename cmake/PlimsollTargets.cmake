# plimsoll_library(NAME [COLD] [DEPENDS lib...] [LINK external...] [ALONE file...])
#   One folder of src/ = one library: every *.cpp of the current folder (not of its subfolders). With PLIMSOLL_UNITY
#   several files are compiled as one, so that the headers that they share are read once.
#   Those after ALONE are not: names of theirs are also names of other files. COLD: no time of a run is spent there, so
#   that it is optimised less, in two thirds of the time to compile.
# plimsoll_test(NAME [BUSY] [LONG] [WITHOUT file...] [ALONE file...] [DEPENDS lib...] [LINK external...])
#   One folder of test/ = one GoogleTest program test_NAME from its *.cpp files, but for those of a library beside it,
#   and one ctest test NAME.1, NAME.2, ... per core. ALONE as for a library; tests are always COLD, and with
#   PLIMSOLL_UNITY not optimised at all but for those that say BUSY: they compute more than they took to compile (a test
#   that is not optimised slows the library down, too: the linker takes its copies of inline functions). LONG ones begin
#   first, so that none of them is waited for at the end.

add_library(plimsoll_flags INTERFACE)
set(plimsoll_options -Wall -Wextra -Wshadow -Wnon-virtual-dtor)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps in string concatenation that are not there (GCC bug 105651).
  list(APPEND plimsoll_options -Wno-restrict)
endif()
# Files that are compiled as one see each other's unnamed namespaces; the target that is compiled is asked.
set(plimsoll_in_unity "$<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>")
list(APPEND plimsoll_options "$<${plimsoll_in_unity}:-Wno-shadow>")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  list(APPEND plimsoll_options "$<${plimsoll_in_unity}:-Wno-subobject-linkage>")
endif()
if(PLIMSOLL_WERROR)
  list(APPEND plimsoll_options -Werror)
  target_compile_options(plimsoll_flags INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 takes a store whose address is in an index register alone for one to address 0, and a function that stores in
  # no other way for one without effects, whose calls it removes (test/base/compiler_test.cpp).
  list(APPEND plimsoll_options -fno-delete-null-pointer-checks)
  target_compile_options(plimsoll_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fno-delete-null-pointer-checks>)
endif()
# Fused multiply-adds only where the source asks for them: results must not depend on the compiler's mood.
list(APPEND plimsoll_options -ffp-contract=off)
target_compile_options(plimsoll_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${plimsoll_options}>"
  $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>)
target_include_directories(plimsoll_flags INTERFACE "${CMAKE_SOURCE_DIR}/src")
if(PLIMSOLL_SANITIZE)
  target_compile_options(plimsoll_flags INTERFACE -fsanitize=${PLIMSOLL_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all
    # What sanitizers insert makes g++ see uninitialised values where there are none (its manual says so).
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-error=maybe-uninitialized>)
  target_link_options(plimsoll_flags INTERFACE -fsanitize=${PLIMSOLL_SANITIZE})
endif()

function(plimsoll_cold target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# Compiles `batch` files at a time, but those after it one by one.
function(plimsoll_unity target batch)
  if(ARGN)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${PLIMSOLL_UNITY} UNITY_BUILD_BATCH_SIZE ${batch})
endfunction()

function(plimsoll_library name)
  cmake_parse_arguments(ARG "COLD" "" "DEPENDS;LINK;ALONE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  list(TRANSFORM ARG_DEPENDS PREPEND plimsoll_)
  if(sources)
    add_library(plimsoll_${name} STATIC ${sources})
    set(batch 12)
    if(ARG_COLD)
      set(batch 20)
      plimsoll_cold(plimsoll_${name})
    endif()
    plimsoll_unity(plimsoll_${name} ${batch} ${ARG_ALONE})
    target_link_libraries(plimsoll_${name} PUBLIC plimsoll_flags ${ARG_DEPENDS} ${ARG_LINK})
  else()
    add_library(plimsoll_${name} INTERFACE)
    target_link_libraries(plimsoll_${name} INTERFACE plimsoll_flags ${ARG_DEPENDS} ${ARG_LINK})
  endif()
endfunction()

# A test program runs whole, in as many shards as there are cores: cases are short beside the start of a process. Each
# shard writes a line per case to its tally, which scripts/test.sh counts.
cmake_host_system_information(RESULT PLIMSOLL_TEST_SHARDS QUERY NUMBER_OF_LOGICAL_CORES)
set(PLIMSOLL_TEST_TALLIES "${CMAKE_BINARY_DIR}/Testing/tallies")
file(MAKE_DIRECTORY "${PLIMSOLL_TEST_TALLIES}")
function(plimsoll_test name)
  cmake_parse_arguments(ARG "BUSY;LONG" "" "DEPENDS;LINK;WITHOUT;ALONE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/*.cpp")
  list(REMOVE_ITEM sources ${ARG_WITHOUT})
  if(NOT sources)
    return()
  endif()
  list(TRANSFORM ARG_DEPENDS PREPEND plimsoll_)
  add_executable(test_${name} ${sources})
  target_link_libraries(test_${name} PRIVATE plimsoll_flags plimsoll_test_harness ${ARG_DEPENDS} ${ARG_LINK}
    GTest::gtest GTest::gmock)
  target_include_directories(test_${name} PRIVATE "${CMAKE_SOURCE_DIR}/test")
  plimsoll_cold(test_${name})
  if(PLIMSOLL_UNITY AND NOT ARG_BUSY)
    target_compile_options(test_${name} PRIVATE -O0)
  endif()
  plimsoll_unity(test_${name} 12 ${ARG_ALONE})
  set(timeout 1500)
  if(PLIMSOLL_SANITIZE)
    set(timeout 7200)  # some ten times slower
    # What is freed would stay resident, up to 256 MB a process, and tests plan within budgets.
    set(sanitizer ";ASAN_OPTIONS=quarantine_size_mb=8")
  endif()
  foreach(index RANGE 1 ${PLIMSOLL_TEST_SHARDS})
    math(EXPR shard "${index} - 1")
    set(tally "${PLIMSOLL_TEST_TALLIES}/${name}.${index}")
    add_test(NAME ${name}.${index} COMMAND test_${name})
    if(ARG_LONG)
      set_tests_properties(${name}.${index} PROPERTIES COST 100)
    endif()
    set_tests_properties(${name}.${index} PROPERTIES TIMEOUT ${timeout} ENVIRONMENT  # GOMP_SPINCOUNT as the program itself: see src/cli/main
      "GOMP_SPINCOUNT=2000;GTEST_TOTAL_SHARDS=${PLIMSOLL_TEST_SHARDS};GTEST_SHARD_INDEX=${shard};PLIMSOLL_TEST_TALLY=${tally}${sanitizer}")
  endforeach()
endfunction()
