// CHECK: a broken invariant of our own ends the process, in release builds too.
//
// Never for outside input (that is a Status). The streamed text names the rule: CHECK_GE(pos, len) << "P8".
#pragma once

#include <sstream>
#include <string>

namespace paceline::base_internal {

// Prints file, line, condition and message to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const std::string& message);

class CheckMessage {
 public:
  CheckMessage(const char* file, int line, const char* condition) : file_(file), line_(line) {
    stream_ << "CHECK failed: " << condition << " ";
  }
  [[noreturn]] ~CheckMessage() { CheckFailed(file_, line_, stream_.str()); }
  std::ostream& stream() { return stream_; }

 private:
  const char* file_;
  int line_;
  std::ostringstream stream_;
};

// Turns the stream expression into void, so that CHECK is one statement.
struct Voidify {
  void operator&(std::ostream&) {}
};

}  // namespace paceline::base_internal

#define CHECK(cond)                               \
  (cond) ? (void)0                                \
         : ::paceline::base_internal::Voidify() & \
               ::paceline::base_internal::CheckMessage(__FILE__, __LINE__, #cond).stream()

#define PACELINE_CHECK_OP(a, op, b) CHECK((a)op(b)) << "(" << (a) << " vs " << (b) << ") "
#define CHECK_EQ(a, b) PACELINE_CHECK_OP(a, ==, b)
#define CHECK_NE(a, b) PACELINE_CHECK_OP(a, !=, b)
#define CHECK_LT(a, b) PACELINE_CHECK_OP(a, <, b)
#define CHECK_LE(a, b) PACELINE_CHECK_OP(a, <=, b)
#define CHECK_GT(a, b) PACELINE_CHECK_OP(a, >, b)
#define CHECK_GE(a, b) PACELINE_CHECK_OP(a, >=, b)
#define CHECK_OK(expr)                                               \
  if (absl::Status check_ok_status = (expr); check_ok_status.ok()) { \
  } else /* NOLINT */                                                \
    CHECK(false) << #expr << " = " << check_ok_status.ToString() << " "
