#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <memory>
#include <mutex>

#include "nlohmann/json.hpp"

namespace paceline {
namespace {

struct LogState {
  std::shared_ptr<spdlog::logger> logger;
  std::string entity = "paceline";
  bool json = false;
};

LogState& State() {
  static LogState* state = [] {
    auto* s = new LogState;
    s->logger =
        std::make_shared<spdlog::logger>("paceline", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    s->logger->flush_on(spdlog::level::debug);
    return s;
  }();
  return *state;
}

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string_view Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarn:
      return "warn";
    case LogLevel::kError:
      return "error";
  }
  return "info";
}

}  // namespace

void InitLog(std::string_view entity, LogFormat format, LogLevel level) {
  LogState& state = State();
  state.entity = entity;
  state.json = format == LogFormat::kJson || (format == LogFormat::kAuto && isatty(STDERR_FILENO) == 0);
  // In JSON mode the payload is already a whole object but for the time, which spdlog knows.
  state.logger->set_pattern(state.json ? "{\"ts\":\"%Y-%m-%dT%H:%M:%S.%e%z\",%v}"
                                       : "%Y-%m-%d %H:%M:%S.%e %L %v");
  SetLogLevel(level);
}

void SetLogLevel(LogLevel level) { State().logger->set_level(ToSpdlog(level)); }

bool LogEnabled(LogLevel level) { return State().logger->should_log(ToSpdlog(level)); }

void LogLine(LogLevel level, std::string_view event, std::string_view fields) {
  LogState& state = State();
  if (!state.json) {
    state.logger->log(ToSpdlog(level), "{} {}{}{}", state.entity, event, fields.empty() ? "" : " ", fields);
    return;
  }
  const auto dump = [](std::string_view s) {
    return nlohmann::json(s).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  state.logger->log(ToSpdlog(level), "\"level\":\"{}\",\"entity\":{},\"event\":{},\"fields\":{}", Name(level),
                    dump(state.entity), dump(event), dump(fields));
}

}  // namespace paceline
