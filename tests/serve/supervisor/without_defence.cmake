# cmake -DPROGRAM=... -DROW=C8 -DDEFENCE=reap_at_once -P without_defence.cmake
# Runs the tests of a row with its defence taken away: every one must fail, by assertions that speak of
# the row, and not by a crash or a timeout of the test program itself.
execute_process(
    COMMAND ${CMAKE_COMMAND} -E env STRATA_TEST_WITHOUT=${DEFENCE} ${PROGRAM} "[${ROW}]"
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output TIMEOUT 100)
if(NOT result MATCHES "^[0-9]+$" OR result EQUAL 0)
    message(FATAL_ERROR "row ${ROW} without ${DEFENCE}: wanted failed assertions, got '${result}'\n${output}")
endif()
if(output MATCHES "fatal error condition|unexpected exception" OR NOT output MATCHES "row ${ROW}:")
    message(FATAL_ERROR "row ${ROW} without ${DEFENCE} failed for another reason\n${output}")
endif()
if(output MATCHES "test cases:[^\n]* [1-9][0-9]* passed")
    message(FATAL_ERROR "row ${ROW}: a test does not fail without ${DEFENCE}\n${output}")
endif()
message(STATUS "row ${ROW} fails without ${DEFENCE}, as it must")
