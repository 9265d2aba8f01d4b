#include "train/name_pattern.h"

#include <re2/re2.h>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::train {
namespace {

RE2::Options options() {
  RE2::Options o;
  o.set_log_errors(false);
  return o;
}

}  // namespace

struct NamePattern::Impl {
  RE2 expression;
};

NamePattern::NamePattern(const std::string& pattern)
    : impl_(new Impl{.expression = RE2(pattern, options())}) {
  if (impl_->expression.ok()) return;
  const std::string& part = impl_->expression.error_arg();
  const bool back = part.size() == 2 && part[0] == '\\' && part[1] >= '1' && part[1] <= '9';
  const bool perl = impl_->expression.error_code() == RE2::ErrorBadPerlOp || back;
  fail(cat("not a regular expression: ", impl_->expression.error(),
           perl ? "; look-around and back references are not known here" : ""));
}

NamePattern::NamePattern(NamePattern&&) noexcept = default;
NamePattern& NamePattern::operator=(NamePattern&&) noexcept = default;
NamePattern::~NamePattern() = default;

bool NamePattern::found_in(std::string_view name) const {
  return RE2::PartialMatch(re2::StringPiece(name.data(), name.size()), impl_->expression);
}

}  // namespace glmtune::train
