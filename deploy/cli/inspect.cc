#include "deploy/cli/inspect.h"

#include <algorithm>

#include "common/base/exit_code.h"
#include "common/config/layers.h"
#include "common/model/special_ids.h"
#include "common/model/weight_source.h"
#include "common/text/open_tokenizer.h"
#include "common/text/template/chat_template.h"
#include "deploy/cli/output.h"
#include "nlohmann/json.hpp"

namespace paceline {
namespace {

using Json = nlohmann::ordered_json;

Json ConfigJson(const ModelConfig& config) {
  return {{"architecture", config.architecture},
          {"name", config.name},
          {"vocab_size", config.vocab_size},
          {"hidden_size", config.hidden_size},
          {"intermediate_size", config.intermediate_size},
          {"num_layers", config.num_layers},
          {"num_heads", config.num_heads},
          {"num_kv_heads", config.num_kv_heads},
          {"head_dim", config.head_dim},
          {"context_len", config.context_len},
          {"rope_theta", config.rope_theta},
          {"tied_embeddings", config.tie_word_embeddings},
          {"dtype", Name(config.dtype)}};
}

// Why the model's template cannot be used, or empty.
std::string TemplateProblem(const std::string& source) {
  const StatusOr<ChatTemplate> parsed = ChatTemplate::Parse(source);
  const Status status = parsed.ok() ? CheckTemplate(source) : parsed.status();
  return status.ok() ? "" : std::string(Message(status));
}

Json TextJson(const std::string& model) {
  const StatusOr<ModelText> text = OpenTokenizer(model);
  if (!text.ok()) return {{"error", Message(text.status())}};
  Json out = {
      {"vocab_size", text->tokenizer->vocab_size()}, {"bos", text->bos_text}, {"eos", text->eos_text}};
  if (text->chat_template.empty()) {
    out["chat_template"] = "none";
  } else {
    const std::string problem = TemplateProblem(text->chat_template);
    out["chat_template"] = problem.empty() ? "ok" : problem;
  }
  return out;
}

Json ModelJson(const std::string& model, const WeightSource& source) {
  Json out = {
      {"config", ConfigJson(source.config())}, {"digest", source.Digest()}, {"text", TextJson(model)}};
  if (const StatusOr<ModelDefaults> defaults = LoadModelDefaults(model); defaults.ok())
    out["end_ids"] = defaults->ids.eos;
  for (const TensorEntry& entry : source.Entries()) {
    out["tensors"].push_back({{"name", entry.name},
                              {"file_name", entry.file_name},
                              {"dtype", Name(entry.dtype)},
                              {"rows", entry.rows},
                              {"cols", entry.cols},
                              {"bytes", entry.bytes},
                              {"ignored", entry.ignored}});
  }
  return out;
}

void PrintModel(const Json& json) {
  for (const auto& [key, value] : json["config"].items()) fmt::print("{:<20} {}\n", key, value.dump());
  for (const auto& [key, value] : json["text"].items()) fmt::print("{:<20} {}\n", key, value.dump());
  fmt::print("{:<20} {}\n{:<20} {}\n\n", "end_ids", json.value("end_ids", Json::array()).dump(), "digest",
             json["digest"].get<std::string>());
  fmt::print("{:<34} {:<7} {:>18} {:>12}\n", "tensor", "type", "rows x cols", "bytes");
  uint64_t bytes = 0;
  for (const Json& tensor : json["tensors"]) {
    const std::string shape =
        fmt::format("{} x {}", tensor["rows"].get<uint64_t>(), tensor["cols"].get<uint64_t>());
    fmt::print("{:<34} {:<7} {:>18} {:>12}{}\n", tensor["name"].get<std::string>(),
               tensor["dtype"].get<std::string>(), shape, tensor["bytes"].get<uint64_t>(),
               tensor["ignored"].get<bool>() ? "  (ignored)" : "");
    bytes += tensor["bytes"].get<uint64_t>();
  }
  fmt::print("\n{} tensors, {}\n", json["tensors"].size(), HumanBytes(bytes));
}

int InspectModel(const OutputArgs& args) {
  if (args.rest.size() != 1) {
    return PrintRefusal("paceline inspect model",
                        InvalidArgumentError("want one MODEL, found {} arguments", args.rest.size()));
  }
  const StatusOr<std::unique_ptr<WeightSource>> source = OpenModel(args.rest[0]);
  if (!source.ok()) return PrintRefusal("paceline inspect model", source.status());
  const Json json = ModelJson(args.rest[0], **source);
  if (args.json)
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  else
    PrintModel(json);
  return kExitOk;
}

int InspectConfig(OutputArgs args) {
  // Both words say what is shown anyway; they are taken so that the documented command works.
  std::erase_if(args.rest, [](const std::string& arg) { return arg == "--effective" || arg == "--origin"; });
  const StatusOr<ParsedSettings> parsed = ReadSettings({args.rest, ProcessEnvironment()});
  const Status status = parsed.ok() ? MakeServeConfig(*parsed).status() : parsed.status();
  if (!status.ok()) return PrintRefusal("paceline inspect config", status);
  if (!args.json) {
    fmt::print("{}", DescribeOrigins(parsed->settings));
    return kExitOk;
  }
  Json out = Json::object();
  for (const auto& [name, setting] : parsed->settings.values()) {
    out[name] = {{"value", name == "api-key" ? nlohmann::json("(hidden)") : setting.value},
                 {"origin", setting.origin}};
  }
  fmt::print("{}\n", out.dump(2));
  return kExitOk;
}

}  // namespace

int InspectCommand(const std::vector<std::string>& args) {
  const std::string what = args.empty() ? "" : args[0];
  StatusOr<OutputArgs> rest =
      TakeOutputFlag(args.empty() ? args : std::vector<std::string>(args.begin() + 1, args.end()));
  if (!rest.ok()) return PrintRefusal("paceline inspect", rest.status());
  if (what == "model") return InspectModel(*rest);
  if (what == "config") return InspectConfig(*std::move(rest));
  return PrintRefusal(
      "paceline inspect",
      InvalidArgumentError("want `inspect model MODEL` or `inspect config`, found '{}'", what));
}

}  // namespace paceline
