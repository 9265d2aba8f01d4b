// Several processes that want the same model at once, as the ranks of a run do.
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "fake_hub.h"
#include "io/files.h"
#include "io/hub_download.h"
#include "support/processes.h"

namespace glmtune::io {
namespace {

using namespace std::chrono_literals;
using test::Ended;
using test::Processes;

// Forked before the servers start their threads, because a fork takes only one thread along: where
// they are, each process learns from the file of its group.
class HubProcesses : public ::testing::Test {
 protected:
  void start_fetchers(int n, const std::string& group) {
    for (int i = 0; i < n; ++i)
      processes_.start([this, group] {
        test::wait_for_file(folder_ / group);
        const std::string where = read_file(folder_ / group);
        const std::size_t space = where.find(' ');
        const HubCache cache{.root = where.substr(space + 1), .endpoint = where.substr(0, space)};
        const auto got = fetch_repo("zai-org/GLM-5.2", RepoKind::kModel, cache, FakeHub::options());
        return read_file(got.folder + "/model-1.safetensors");
      });
  }
  void send_to(const FakeHub& hub, const std::string& group) const {
    write_file(folder_ / group, cat(hub.hub.url(), " ", hub.cache().root));
  }
  TempFolder folder_;
  Processes processes_;
};

TEST_F(HubProcesses, FourFetchEachFileOnce) {
  start_fetchers(4, "all");
  FakeHub hub;
  fill_with_a_model(hub);
  hub.on_cdn = [](const ServedRequest&) -> std::optional<ServedAnswer> {
    std::this_thread::sleep_for(30ms);
    return std::nullopt;
  };
  send_to(hub, "all");
  for (const Ended& process : processes_.wait()) {
    EXPECT_FALSE(process.failed) << process.said;
    EXPECT_TRUE(process.said == many_bytes(200'000, 2));
  }
  for (const char* name : {"/model-1", "/model-2", "/tokenizer"})
    EXPECT_EQ(hub.cdn.count("GET", name), 1U) << name;
}

TEST_F(HubProcesses, AnotherTakesOverFromOneThatIsKilled) {
  start_fetchers(1, "first");
  start_fetchers(3, "others");
  FakeHub hub;
  fill_with_a_model(hub);
  std::atomic<bool> is_asked{false}, goes_on{false};
  hub.on_cdn = [&](const ServedRequest& r) -> std::optional<ServedAnswer> {
    if (r.target.starts_with("/model-1") && !is_asked.exchange(true))
      for (int i = 0; i < 3000 && !goes_on; ++i) std::this_thread::sleep_for(10ms);
    return std::nullopt;
  };
  send_to(hub, "first");
  for (int i = 0; i < 3000 && !is_asked; ++i) std::this_thread::sleep_for(10ms);
  send_to(hub, "others");
  std::this_thread::sleep_for(200ms);
  processes_.kill(0);
  const std::vector<Ended> ended = processes_.wait();
  goes_on = true;
  EXPECT_EQ(ended[0].signal, SIGKILL);
  for (std::size_t i = 1; i < ended.size(); ++i)
    EXPECT_TRUE(ended[i].said == many_bytes(200'000, 2)) << ended[i].said.substr(0, 300);
  EXPECT_EQ(hub.cdn.count("GET", "/model-1"), 2U);
}

}  // namespace
}  // namespace glmtune::io
