#include "io/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;
using test::message_of;

TEST(Files, WhatIsNoRegularFileIsRefusedAndNeverWaitedFor) {
  const TempFolder folder;
  fs::create_directory(folder / "d");
  ASSERT_EQ(::mkfifo((folder / "f").c_str(), 0600), 0);
  fs::create_symlink("loop", folder / "loop");
  EXPECT_EQ(message_of([&] { read_file(folder / "d"); }),
            folder / "d" + ": is a folder; expected a file");
  EXPECT_EQ(message_of([&] { read_file(folder / "f"); }), folder / "f" + ": is not a regular file");
  const std::string loop = message_of([&] { read_file(folder / "loop"); });
  EXPECT_NE(loop.find("leads back to itself"), std::string::npos) << loop;
}

TEST(Files, NoRoomAndNoHandleAreTheMachinesFault) {
  for (const int error : {ENOSPC, EDQUOT, EMFILE, ENFILE, EIO}) {
    EXPECT_FALSE(is_users_error(error)) << error;
    EXPECT_THROW(fail_errno("a", "creating", error), MachineError) << error;
  }
  for (const int error : {EACCES, ENOENT, ELOOP, EISDIR, ENAMETOOLONG}) {
    EXPECT_TRUE(is_users_error(error)) << error;
    try {
      fail_errno("a", "creating", error);
    } catch (const MachineError&) {
      ADD_FAILURE() << error;
    } catch (const Error&) {
    }
  }
}

}  // namespace
}  // namespace glmtune::io
