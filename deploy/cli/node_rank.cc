#include "deploy/cli/node_rank.h"

#include <cctype>
#include <charconv>
#include <optional>

namespace paceline {
namespace {

std::optional<uint32_t> Number(std::string_view text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

StatusOr<NodeRank> Checked(std::string_view text, std::string source, uint32_t num_nodes) {
  const std::optional<uint32_t> rank = Number(text);
  if (!rank.has_value() || *rank >= num_nodes) {
    return InvalidArgumentError("{}={}: want a node number in 0..{}", source, text, num_nodes - 1);
  }
  return NodeRank{*rank, std::move(source)};
}

// "web-12" -> "12"; empty when there is none.
std::string_view TrailingNumber(std::string_view name) {
  size_t begin = name.size();
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(name[begin - 1])) != 0) --begin;
  return name.substr(begin);
}

}  // namespace

StatusOr<NodeRank> ResolveNodeRank(const std::string& setting, uint32_t num_nodes,
                                   const std::string& host_name,
                                   const std::function<const char*(const char*)>& getenv) {
  if (setting != "auto") return Checked(setting, "--node-rank", num_nodes);
  if (num_nodes == 1) return NodeRank{0, "one node"};
  for (const char* name :
       {"LWS_WORKER_INDEX", "POD_INDEX", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* value = getenv(name)) return Checked(value, name, num_nodes);
  }
  const char* world = getenv("WORLD_SIZE");
  if (const char* rank = getenv("RANK"); rank != nullptr && world != nullptr && Number(world) == num_nodes) {
    return Checked(rank, "RANK", num_nodes);
  }
  const std::string_view digits = TrailingNumber(host_name);
  const std::string_view before = std::string_view(host_name).substr(0, host_name.size() - digits.size());
  if (digits.empty()) {
    return InvalidArgumentError(
        "--node-rank auto: no launcher variable is set and host name '{}' ends in no number; "
        "give --node-rank",
        host_name);
  }
  if (before.ends_with('-') && !TrailingNumber(before.substr(0, before.size() - 1)).empty()) {
    return InvalidArgumentError(
        "--node-rank auto: host name '{}' ends in two numbers, which is ambiguous; give --node-rank",
        host_name);
  }
  return Checked(digits, "host name", num_nodes);
}

}  // namespace paceline
