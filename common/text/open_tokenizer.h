// Everything about a model that is text: its tokenizer, its chat templates, the texts of BOS and EOS.
//
// Called once at start by the process that talks to people; the result is immutable. A GGUF file carries all
// of it in its metadata. A Hugging Face folder has tokenizer.json (preferred) or tokenizer.model, with
// tokenizer_config.json; templates lie in chat_template.jinja, else chat_template.json, else
// tokenizer_config.json, and more of them in additional_chat_templates/. NotFound when there is no tokenizer,
// InvalidArgument with the file's name otherwise.
//
//   ASSIGN_OR_RETURN(ModelText text, OpenTokenizer("model.gguf"));
//   if (const std::string* t = text.Template("tool_use")) ...
#pragma once

#include <map>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/text/tokenizer.h"

namespace paceline {

struct ModelText {
  std::unique_ptr<Tokenizer> tokenizer;
  std::string chat_template;                           // empty: the model has none
  std::map<std::string, std::string> named_templates;  // others, such as tool_use
  std::string bos_text;                                // empty: no such token
  std::string eos_text;

  // The named template, else the default one, else nullptr.
  const std::string* Template(const std::string& name) const;
};

// MODEL of the command line (common/model/model_path.h).
StatusOr<ModelText> OpenTokenizer(const std::string& model);

}  // namespace paceline
