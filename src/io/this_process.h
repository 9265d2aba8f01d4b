#pragma once
// Who this process is and what time it is, for messages that other processes show.
#include <string>

namespace glmtune::io {

// "2026-11-30T17:20:05.123Z"
std::string timestamp_now();

// "process 7 on host node1, since 2026-11-30T17:20:05.123Z": since the call.
std::string this_process();

}  // namespace glmtune::io
