# cmake -DPROGRAM=<file> -DOUT=<folder> -P bundle_libraries.cmake
# Copies the shared libraries a program needs beside it, so that it runs on another machine of the same or a
# newer glibc: everything but what each Linux has (C and C++ run time, loader) and what comes with CUDA.
# What an earlier link left there would be found beside the system's and count as a conflict.
file(REMOVE_RECURSE ${OUT})
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAM} RESOLVED_DEPENDENCIES_VAR found
     UNRESOLVED_DEPENDENCIES_VAR missing
     PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread|stdc\\+\\+|gcc_s)\\.so" "^ld-linux" "^lib(cuda|cublas|cudnn|nccl|nvrtc|nvJitLink)"
     POST_EXCLUDE_REGEXES "/cuda")
if(missing)
  message(FATAL_ERROR "${PROGRAM} needs ${missing}, which this machine does not have: the bundle would not run")
endif()
file(MAKE_DIRECTORY ${OUT})
foreach(library IN LISTS found)
  file(COPY ${library} DESTINATION ${OUT} FOLLOW_SYMLINK_CHAIN)
endforeach()
