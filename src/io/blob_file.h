#pragma once
// A blob on its way into the hub cache: NAME.incomplete until it is whole and checked.
#include <atomic>
#include <cstdint>
#include <string>

#include "io/hub_client.h"
#include "io/sha256.h"

namespace glmtune::io {

class BlobFile : public HubClient::Sink {
 public:
  // Bytes of all blobs, for progress; `stop` ends transfers with HubStopped.
  struct Shared {
    std::atomic<std::int64_t> bytes{0};
    std::atomic<bool> stop{false};
  };
  // `blob`: the path it will have. What an earlier try left is kept, and hashed where the hash is
  // known.
  BlobFile(std::string blob, const HubFileHead& head, Shared& shared);
  BlobFile(const BlobFile&) = delete;
  BlobFile& operator=(const BlobFile&) = delete;
  ~BlobFile() override;

  std::uint64_t size() const override { return size_; }
  void begin(std::uint64_t offset) override;
  void add(const char* data, std::size_t bytes) override;

  // "" when size and hash are those of the head, else what is wrong.
  std::string difference();
  void publish();  // gives the blob its name, durably
  void discard();  // removes what is there

 private:
  void hash_what_is_there();

  std::string blob_, incomplete_;
  HubFileHead head_;
  Shared& shared_;
  int fd_ = -1;
  std::uint64_t size_ = 0;
  Sha256 sha_;
};

}  // namespace glmtune::io
