// How long the GPU works and how long it waits inside the training steps of any program of this
// project, from CUPTI's record of every kernel, copy and fill:
//   CUDA_INJECTION64_PATH=build/cuda/bench/libgpu_busy.so build/cuda/glmtune RECIPE.yaml
// A step ends with the last kernel of the optimizer's update (name contains "adam"). When the
// program ends, a line per statistic goes to stderr: the median over the second half of the steps.
// GPU_BUSY_GAPS=N names the kernels before and after the N longest waits of a step.
#include <cupti.h>
#include <cxxabi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct Work {
  std::uint64_t begin = 0, end = 0;  // nanoseconds
  const char* name = "";             // CUPTI keeps kernel names alive
};

std::mutex mutex;
std::vector<Work> record;

constexpr std::size_t kBuffer = std::size_t{8} << 20;

void CUPTIAPI give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(8, kBuffer));
  *size = kBuffer;
  *most = 0;
}

void CUPTIAPI take_buffer(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t,
                          std::size_t used) {
  const std::lock_guard<std::mutex> lock(mutex);
  CUpti_Activity* a = nullptr;
  while (cuptiActivityGetNextRecord(buffer, used, &a) == CUPTI_SUCCESS) {
    if (a->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      const auto* k = reinterpret_cast<const CUpti_ActivityKernel10*>(a);
      record.push_back({k->start, k->end, k->name});
    } else if (a->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      const auto* m = reinterpret_cast<const CUpti_ActivityMemcpy6*>(a);
      record.push_back({m->start, m->end, "(copy)"});
    } else if (a->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      const auto* m = reinterpret_cast<const CUpti_ActivityMemset4*>(a);
      record.push_back({m->start, m->end, "(fill)"});
    }
  }
  std::free(buffer);
}

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

std::string readable(const char* name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string s = status == 0 ? text : name;
  std::free(text);
  for (const char* noise : {"(anonymous namespace)::", "glmtune::", "ops::", "void "})
    for (std::size_t at = s.find(noise); at != std::string::npos; at = s.find(noise))
      s.erase(at, std::string(noise).size());
  return s.substr(0, 60);
}

struct Gap {
  double us = 0;
  const char *before = "", *after = "";
};

struct Step {
  double total = 0, busy = 0;  // ms
  std::size_t launches = 0;
  std::vector<Gap> gaps;
};

// The union of the intervals [first, last) of the record, from the end of the step before.
Step measure(std::size_t first, std::size_t last, std::uint64_t begin) {
  Step s;
  std::uint64_t reached = begin, busy = 0;
  const char* before = "(step)";
  for (std::size_t i = first; i < last; ++i) {
    const Work& w = record[i];
    if (w.begin > reached) s.gaps.push_back({1e-3 * double(w.begin - reached), before, w.name});
    if (w.end > reached) {
      busy += w.end - std::max(reached, w.begin);
      reached = w.end;
      before = w.name;
    }
  }
  s.total = 1e-6 * double(reached - begin);
  s.busy = 1e-6 * double(busy);
  s.launches = last - first;
  return s;
}

bool ends_update(std::size_t i) {
  const auto is_adam = [](const Work& w) {
    return std::string_view(w.name).find("adam") != std::string_view::npos;
  };
  return is_adam(record[i]) && (i + 1 == record.size() || !is_adam(record[i + 1]));
}

void report() {
  cuptiActivityFlushAll(1);
  const std::lock_guard<std::mutex> lock(mutex);
  std::sort(record.begin(), record.end(),
            [](const Work& a, const Work& b) { return a.begin < b.begin; });
  std::vector<Step> steps;
  std::size_t first = 0;
  for (std::size_t i = 0; i < record.size(); ++i) {
    if (!ends_update(i)) continue;
    if (first > 0) steps.push_back(measure(first, i + 1, record[first - 1].end));
    first = i + 1;
  }
  if (steps.size() < 4) {
    std::fprintf(stderr, "gpu_busy: %zu whole steps seen, at least 4 are needed\n", steps.size());
    return;
  }
  steps.erase(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2));
  std::vector<double> total, idle, launches;
  std::map<std::pair<std::string, std::string>, double> gaps;
  for (const Step& s : steps) {
    total.push_back(s.total);
    idle.push_back(100 * (1 - s.busy / s.total));
    launches.push_back(double(s.launches));
    for (const Gap& g : s.gaps) gaps[{g.before, g.after}] += g.us / double(steps.size());
  }
  std::fprintf(
      stderr,
      "gpu_busy: %zu steps, %.2f ms each, idle %.2f %% (%.3f ms), %.0f kernels and copies\n",
      steps.size(), median(total), median(idle), median(idle) * median(total) / 100,
      median(launches));
  const char* wanted = std::getenv("GPU_BUSY_GAPS");
  std::vector<std::pair<double, std::pair<std::string, std::string>>> order;
  for (const auto& [names, us] : gaps) order.emplace_back(us, names);
  std::sort(order.rbegin(), order.rend());
  order.resize(std::min<std::size_t>(
      order.size(), wanted == nullptr ? 0 : static_cast<std::size_t>(std::atoi(wanted))));
  for (const auto& [us, names] : order)
    std::fprintf(stderr, "gpu_busy: %9.1f us a step between %s and %s\n", us,
                 readable(names.first.c_str()).c_str(), readable(names.second.c_str()).c_str());
}

}  // namespace

// CUDA calls this when it starts.
extern "C" int InitializeInjection() {
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET})
    if (const CUptiResult r = cuptiActivityEnable(kind); r != CUPTI_SUCCESS) {
      std::fprintf(stderr, "gpu_busy: CUPTI refused activity %d: error %d\n", int(kind), int(r));
      return 0;
    }
  cuptiActivityRegisterCallbacks(give_buffer, take_buffer);
  std::atexit(report);
  return 1;
}
