// Logging: one line, event first, then key=value with ids. The only place that names spdlog.
//
//   LogInfo("step_done", "step={} accepted={}/{} us={}", step, 4, 5, 913);
//   -> 2026-01-01 12:00:00.123 I stage-1 step_done step=812 accepted=4/5 us=913
//
// info = state changes an operator would draw on a timeline; debug = per step; warn = degraded, says what we
// did about it; error = someone must act. Never prompt text, never keys. Thread-safe. Text on a terminal,
// JSON lines elsewhere (`LogFormat`).
#pragma once

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ostr.h>

#include <string>
#include <string_view>

namespace paceline {

enum class LogLevel { kDebug, kInfo, kWarn, kError };
enum class LogFormat { kAuto, kText, kJson };

// Called once at start-up. `entity` is the prefix of each line: "coordinator", "stage-1", "draft".
void InitLog(std::string_view entity, LogFormat format, LogLevel level);
void SetLogLevel(LogLevel level);
bool LogEnabled(LogLevel level);
// Writes one line to stderr.
void LogLine(LogLevel level, std::string_view event, std::string_view fields);

template <typename... Args>
void LogAt(LogLevel level, std::string_view event, fmt::format_string<Args...> format, Args&&... args) {
  if (!LogEnabled(level)) return;
  LogLine(level, event, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
void LogDebug(std::string_view event, fmt::format_string<Args...> format = "", Args&&... args) {
  LogAt(LogLevel::kDebug, event, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogInfo(std::string_view event, fmt::format_string<Args...> format = "", Args&&... args) {
  LogAt(LogLevel::kInfo, event, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogWarn(std::string_view event, fmt::format_string<Args...> format = "", Args&&... args) {
  LogAt(LogLevel::kWarn, event, format, std::forward<Args>(args)...);
}
template <typename... Args>
void LogError(std::string_view event, fmt::format_string<Args...> format = "", Args&&... args) {
  LogAt(LogLevel::kError, event, format, std::forward<Args>(args)...);
}

}  // namespace paceline
