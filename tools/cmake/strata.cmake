# What every target of the house has in common: the language, the warnings, the sanitizers, and the
# three functions by which rooms, programs and tests are declared.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release)
endif()
find_program(STRATA_CCACHE ccache)
if(STRATA_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${STRATA_CCACHE})
endif()
find_package(Threads REQUIRED)

add_library(strata_flags INTERFACE)
target_compile_options(strata_flags INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Werror -Wmissing-declarations -Wswitch-enum>)
# GCC 12 reports "restrict" for `"text" + std::string` (GCC bug 105651): a false alarm.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(strata_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
# Float results must not depend on the compiler's contraction choices: the kernels fuse explicitly.
target_compile_options(strata_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
target_include_directories(strata_flags INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
if(STRATA_SANITIZE)
    target_compile_options(strata_flags INTERFACE
        -fsanitize=${STRATA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(strata_flags INTERFACE -fsanitize=${STRATA_SANITIZE})
endif()
# ThreadSanitizer does not see fences; asio's scheduler orders handlers by its mutex as well.
if(STRATA_SANITIZE MATCHES thread)
    target_compile_definitions(strata_flags INTERFACE BOOST_ASIO_DISABLE_FENCED_BLOCK)
endif()
if(STRATA_COVERAGE)
    target_compile_options(strata_flags INTERFACE --coverage -fprofile-update=atomic)
    target_link_options(strata_flags INTERFACE --coverage)
endif()
if(STRATA_FUZZ)
    target_compile_options(strata_flags INTERFACE -fsanitize=fuzzer-no-link,address,undefined)
    target_link_options(strata_flags INTERFACE -fsanitize=address,undefined)
endif()

# strata_room(NAME SOURCES a.cpp ... [LINK targets ...]): a room is a static library; what it does not
# name after LINK it cannot use.
function(strata_room name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
    if(ARG_SOURCES)
        add_library(${name} STATIC ${ARG_SOURCES})
        target_link_libraries(${name} PUBLIC strata_flags ${ARG_LINK})
    else()
        add_library(${name} INTERFACE)
        target_link_libraries(${name} INTERFACE strata_flags ${ARG_LINK})
    endif()
endfunction()

# strata_program(NAME SOURCES ... LINK ...): a binary in build/bin.
function(strata_program name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE strata_flags ${ARG_LINK})
endfunction()

# strata_test(NAME LABEL fast|process|model SOURCES ... LINK ... [TIMEOUT seconds]): one Catch2 program;
# each TEST_CASE becomes a CTest test of its own, named NAME.<test case>.
function(strata_test name)
    cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
    if(NOT ARG_TIMEOUT)
        set(ARG_TIMEOUT 120)
        if(ARG_LABEL STREQUAL "process")
            set(ARG_TIMEOUT 300)  # many starts of processes, on a loaded machine
        endif()
    endif()
    add_executable(${name} ${ARG_SOURCES})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
    target_link_libraries(${name} PRIVATE strata_flags strata_catch_main ${ARG_LINK})
    # What is tested is optimised in its rooms; the tests' own sources only cost build time.
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    target_compile_definitions(${name} PRIVATE
        STRATA_SOURCE_DIR="${PROJECT_SOURCE_DIR}" STRATA_BIN_DIR="${CMAKE_BINARY_DIR}/bin"
        STRATA_TEST_BIN_DIR="${CMAKE_BINARY_DIR}/tests")
    # Tests of real processes measure deadlines: nothing else runs beside them.
    set(serial FALSE)
    if(ARG_LABEL STREQUAL "process")
        set(serial TRUE)
    endif()
    catch_discover_tests(${name} TEST_PREFIX "${name}."
        PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} RUN_SERIAL ${serial})
endfunction()

# strata_fuzzer(NAME SOURCES ... LINK ...): a libFuzzer target (preset fuzz).
function(strata_fuzzer name)
    cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
    add_executable(${name} ${ARG_SOURCES})
    target_link_libraries(${name} PRIVATE strata_flags ${ARG_LINK})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
