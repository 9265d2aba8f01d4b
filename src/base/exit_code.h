#pragma once
// What the program's exit status says. Under mpirun the code of the rank that failed first wins.

namespace glmtune {

enum class ExitCode : int {
  kOk = 0,
  kUserError = 1,       // recipe, data, checkpoint or arguments; also `verify` over its tolerance
  kMachineError = 3,    // this rank's machine: disk full, out of memory, CUDA, NCCL or MPI error
  kPeerFailed = 4,      // another rank failed first
  kNonFinite = 5,       // loss, gradient norm or weights not finite; such weights are not saved
  kInternalError = 70,  // a bug in the program (EX_SOFTWARE)
  kPreempted = 75,  // stopped by a signal; what could be saved is saved: start again (EX_TEMPFAIL)
};

constexpr int exit_status(ExitCode code) {
  return static_cast<int>(code);
}

}  // namespace glmtune
