#include "deploy/cli/api_client.h"

#include <curl/curl.h>

#include <memory>

#include "nlohmann/json.hpp"

namespace paceline {
namespace {

using nlohmann::json;

struct CurlDeleter {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};
struct SlistDeleter {
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
using CurlHandle = std::unique_ptr<CURL, CurlDeleter>;
using HeaderList = std::unique_ptr<curl_slist, SlistDeleter>;

// What one transfer needs in its callbacks.
struct Transfer {
  CURL* curl = nullptr;
  std::string text;  // what was received and not handed out
  const std::function<void(std::string_view)>* on_event = nullptr;
  const std::atomic<bool>* cancel = nullptr;
};

bool IsSuccess(CURL* curl) {
  long code = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
  return code >= 200 && code < 300;
}

// Hands out every whole event in `text`: lines "data: ..." ended by an empty line.
void HandOutEvents(Transfer& transfer) {
  size_t end = 0;
  while ((end = transfer.text.find("\n\n")) != std::string::npos) {
    std::string_view event(transfer.text.data(), end);
    while (event.starts_with('\n')) event.remove_prefix(1);
    if (event.starts_with("data: ") && event != "data: [DONE]") (*transfer.on_event)(event.substr(6));
    transfer.text.erase(0, end + 2);
  }
}

size_t OnBytes(char* data, size_t size, size_t count, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.text.append(data, size * count);
  if (transfer.on_event != nullptr && IsSuccess(transfer.curl)) HandOutEvents(transfer);
  return size * count;
}

int OnProgress(void* user, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& transfer = *static_cast<const Transfer*>(user);
  return transfer.cancel != nullptr && transfer.cancel->load() ? 1 : 0;
}

std::string ErrorText(const std::string& body) {
  const json parsed = json::parse(body, nullptr, false);
  if (parsed.is_object() && parsed.contains("error")) return parsed["error"].value("message", body);
  return body;
}

}  // namespace

ApiClient::ApiClient(std::string url, std::string unix_socket, std::string api_key)
    : url_(std::move(url)), unix_socket_(std::move(unix_socket)), api_key_(std::move(api_key)) {
  while (url_.ends_with('/')) url_.pop_back();
  if (url_.ends_with("/v1")) url_.resize(url_.size() - 3);
}

static Status Perform(const std::string& url, const std::string& unix_socket, const std::string& api_key,
                      const std::string* body, Transfer& transfer) {
  const CurlHandle curl(curl_easy_init());
  if (curl == nullptr) return InternalError("libcurl cannot be started");
  transfer.curl = curl.get();
  HeaderList headers(curl_slist_append(nullptr, "content-type: application/json"));
  if (!api_key.empty())
    curl_slist_append(headers.get(), fmt::format("authorization: Bearer {}", api_key).c_str());
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, 5L);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, OnBytes);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl.get(), CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl.get(), CURLOPT_XFERINFODATA, &transfer);
  if (!unix_socket.empty()) curl_easy_setopt(curl.get(), CURLOPT_UNIX_SOCKET_PATH, unix_socket.c_str());
  if (body != nullptr) {
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDS, body->c_str());
    curl_easy_setopt(curl.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body->size()));
  }
  const CURLcode code = curl_easy_perform(curl.get());
  if (code == CURLE_ABORTED_BY_CALLBACK) return CancelledError("cancelled");
  if (code != CURLE_OK) return UnavailableError("{}: {}", url, curl_easy_strerror(code));
  if (!IsSuccess(curl.get())) return InvalidArgumentError("{}", ErrorText(transfer.text));
  return OkStatus();
}

StatusOr<json> ApiClient::Get(const std::string& path) {
  Transfer transfer;
  RETURN_IF_ERROR(Perform(url_ + path, unix_socket_, api_key_, nullptr, transfer));
  json value = json::parse(transfer.text.empty() ? "null" : transfer.text, nullptr, false);
  if (value.is_discarded()) return InvalidArgumentError("{}{}: the answer is not JSON", url_, path);
  return value;
}

Status ApiClient::PostStream(const std::string& path, const json& body,
                             const std::function<void(std::string_view)>& on_event,
                             const std::atomic<bool>& cancel) {
  Transfer transfer;
  transfer.on_event = &on_event;
  transfer.cancel = &cancel;
  const std::string text = body.dump(-1, ' ', false, json::error_handler_t::replace);
  return Perform(url_ + path, unix_socket_, api_key_, &text, transfer);
}

}  // namespace paceline
