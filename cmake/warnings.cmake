# Warnings are errors in the project's own C++ code.
function(glmtune_warnings target)
  target_compile_options(
    ${target}
    PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall
            -Wextra
            -Wpedantic
            -Werror
            -Wshadow
            -Wmissing-field-initializers
            -Wnon-virtual-dtor>)
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # A hint to vectorise that clang does not follow is no fault of the code's.
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-pass-failed>)
  endif()
  if(GLMTUNE_SANITIZE)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
endfunction()
