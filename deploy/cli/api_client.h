// ApiClient: the HTTP client of `chat`: one server, by URL or unix socket, over libcurl.
//
// Threading: one thread. Failure: Unavailable when the server cannot be reached, else the server's own
// message.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "nlohmann/json_fwd.hpp"

namespace paceline {

class ApiClient {
 public:
  // `url` as "http://127.0.0.1:8000", with or without /v1; `unix_socket` empty or a path to connect through.
  ApiClient(std::string url, std::string unix_socket, std::string api_key);

  StatusOr<nlohmann::json> Get(const std::string& path);

  // POSTs `body` and calls `on_event` with the JSON text of each event of the stream, [DONE] left out. Ends
  // early with Cancelled once `*cancel` is true; the closed connection cancels the request at the server.
  Status PostStream(const std::string& path, const nlohmann::json& body,
                    const std::function<void(std::string_view)>& on_event, const std::atomic<bool>& cancel);

 private:
  std::string url_;
  std::string unix_socket_;
  std::string api_key_;
};

}  // namespace paceline
