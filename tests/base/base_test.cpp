// Errors, message building and exit codes.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>

#include "base/cat.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "base/fnv.h"
#include "base/format.h"

namespace glmtune {
namespace {

TEST(Cat, JoinsTextNumbersAndCharacters) {
  EXPECT_EQ(cat("layer ", 3, ": ", std::string("norm"), std::string_view(" is "), 0.5, '!'),
            "layer 3: norm is 0.5!");
  EXPECT_EQ(cat(-9223372036854775807LL, " ", 18446744073709551615ULL),
            "-9223372036854775807 18446744073709551615");
}

TEST(Cat, WritesNumbersTheSameInEveryLocaleOfTheProgram) {
  EXPECT_EQ(cat(1234567), "1234567");
  EXPECT_EQ(cat(1e-5), "1e-05");
}

TEST(Cat, LeavesNoFormatBehindForTheNextMessage) {
  EXPECT_EQ(cat(std::hex, 255), "ff");
  EXPECT_EQ(cat(255), "255");
}

TEST(Grouped, PutsACommaBetweenGroupsOfThreeDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(743377019904), "743,377,019,904");
  EXPECT_EQ(grouped(-999), "-999");
  EXPECT_EQ(grouped(-1000), "-1,000");
  EXPECT_EQ(grouped(std::numeric_limits<std::int64_t>::min()), "-9,223,372,036,854,775,808");
}

TEST(ShellWord, IsQuotedWhereAShellWouldTakeItApart) {
  EXPECT_EQ(shell_word("runs/a_1/epoch_0_step_4"), "runs/a_1/epoch_0_step_4");
  EXPECT_EQ(shell_word("my runs/$a"), "'my runs/$a'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

template <class E>
std::string message_of(void (*failing)()) {
  try {
    failing();
  } catch (const E& e) {
    return e.what();
  }
  return "nothing was thrown";
}

TEST(Error, CarriesItsMessageUnchanged) {
  EXPECT_EQ(message_of<Error>([] { fail("a.yaml:3: lr: found x, expected a number"); }),
            "a.yaml:3: lr: found x, expected a number");
}

// apps/main catches MachineError first: the order matters because it is an Error too.
TEST(Error, OfTheMachineIsAnErrorOfItsOwnKind) {
  const auto full_disk = [] { fail_machine("disk full"); };
  EXPECT_EQ(message_of<MachineError>(full_disk), "disk full");
  EXPECT_EQ(message_of<Error>(full_disk), "disk full");
  EXPECT_THROW(fail("user"), Error);
  try {
    fail("user");
  } catch (const MachineError&) {
    FAIL() << "a user's error must not count as the machine's";
  } catch (const Error&) {
  }
}

TEST(Check, ThrowsOnlyWhereTheConditionIsFalse) {
  EXPECT_NO_THROW(check(true, "fine"));
  EXPECT_EQ(
      message_of<Error>([] { check(false, std::string_view("weights: missing").substr(0, 7)); }),
      "weights");
}

// Scripts and schedulers depend on these numbers (README, distributed.md 6.3).
TEST(ExitCode, HasTheDocumentedNumbers) {
  EXPECT_EQ(exit_status(ExitCode::kOk), 0);
  EXPECT_EQ(exit_status(ExitCode::kUserError), 1);
  EXPECT_EQ(exit_status(ExitCode::kMachineError), 3);
  EXPECT_EQ(exit_status(ExitCode::kPeerFailed), 4);
  EXPECT_EQ(exit_status(ExitCode::kNonFinite), 5);
  EXPECT_EQ(exit_status(ExitCode::kInternalError), 70);
  EXPECT_EQ(exit_status(ExitCode::kPreempted), 75);
}

TEST(Fnv1a, HashesTextAsPublished) {
  const auto hash = [](const char* text) {
    Fnv1a h;
    h.add(text);
    return h.value();
  };
  EXPECT_EQ(hash(""), 0xCBF29CE484222325U);
  EXPECT_EQ(hash("a"), 0xAF63DC4C8601EC8CU);
  EXPECT_EQ(hash("foobar"), 0x85944171F73967E8U);
}

TEST(Fnv1a, EveryByteOfAWordReachesTheLowHalfOfTheValue) {
  const auto low_half = [](std::uint64_t word) {
    Fnv1a h;
    h.add(word);
    return h.value() & 0xFFFFFFFFU;
  };
  for (int byte = 0; byte < 8; ++byte)
    EXPECT_NE(low_half(std::uint64_t{1} << (8 * byte)), low_half(0)) << byte;
}

}  // namespace
}  // namespace glmtune
