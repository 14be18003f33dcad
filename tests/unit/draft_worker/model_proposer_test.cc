// The draft model as a proposer: its drafts are the model's own greedy continuation, whatever was cut before.

#include "draft_worker/model_proposer.h"

#include <gtest/gtest.h>

#include "common/base/check.h"
#include "tests/support/local_generator.h"
#include "tests/support/local_model.h"
#include "tests/support/tiny_llama.h"

namespace paceline::testing {
namespace {

using Ids = std::vector<TokenId>;
const SequenceKey kKey{SequenceId(5), 1};

class ModelProposerTest : public ::testing::Test {
 protected:
  ModelProposerTest() : source_(OpenTinyLlama({})) {
    auto generator = LocalGenerator::Make(OpenTinyLlama({}), {});
    CHECK_OK(generator.status()) << "generator";
    generator_ = *std::move(generator);
  }

  std::unique_ptr<ModelProposer> Make(ModelProposerOptions options) {
    options.target_vocab_size = source_->config().vocab_size;
    auto made = ModelProposer::Create(*source_, options);
    CHECK_OK(made.status()) << "proposer";
    return *std::move(made);
  }

  static ModelProposerOptions Options() {
    ModelProposerOptions options;
    options.positions_max = 128;
    options.rows_max = 16;  // prompts go in chunks
    options.kv_blocks = 32;
    options.kv_block_size = 8;
    return options;
  }

  static void Admit(Proposer& proposer, const SequenceKey& key, const Ids& ids) {
    Admission admission;
    admission.sequence = key.sequence;
    admission.lineage = {key.counter, 0};
    admission.ids = ids;
    admission.prompt_len = static_cast<uint32_t>(ids.size());
    proposer.Admit(admission);
  }

  static Ids Propose(Proposer& proposer, const SequenceKey& key, Position keep, Ids append,
                     uint32_t len_max) {
    const ProposeItem item{key, keep, append, static_cast<Position>(keep + append.size()), len_max};
    return proposer.Propose(std::vector<ProposeItem>{item})[0];
  }

  Ids Greedy(const Ids& prompt, uint32_t count) {
    SamplingParams params;
    params.temperature = 0;
    params.max_tokens = count;
    auto generated = generator_->Generate(prompt, params);
    CHECK_OK(generated.status()) << "generate";
    return generated->ids;
  }

  static Ids Prompt(uint32_t len) {
    Ids ids;
    for (uint32_t i = 0; i < len; ++i) ids.push_back(static_cast<TokenId>(10 + (i * 7) % 50));
    return ids;
  }

  std::unique_ptr<WeightSource> source_;
  std::unique_ptr<LocalGenerator> generator_;
};

TEST_F(ModelProposerTest, DraftsItsOwnGreedyContinuation) {
  const auto proposer = Make(Options());
  Admit(*proposer, kKey, Prompt(40));

  EXPECT_EQ(Propose(*proposer, kKey, 40, {}, 6), Greedy(Prompt(40), 6));
}

TEST_F(ModelProposerTest, GoesOnFromItsGuess) {
  const auto proposer = Make(Options());
  Admit(*proposer, kKey, Prompt(20));
  const Ids eight = Greedy(Prompt(20), 8);

  const Ids first = Propose(*proposer, kKey, 20, {}, 4);
  const Ids second = Propose(*proposer, kKey, 24, {}, 4);

  EXPECT_EQ(first, Ids(eight.begin(), eight.begin() + 4));
  EXPECT_EQ(second, Ids(eight.begin() + 4, eight.end()));
}

TEST_F(ModelProposerTest, RollsBackAfterARefusal) {
  const auto proposer = Make(Options());
  Admit(*proposer, kKey, Prompt(20));
  const Ids guess = Propose(*proposer, kKey, 20, {}, 5);
  const TokenId other = guess[2] == 3 ? 4 : 3;

  const Ids after = Propose(*proposer, kKey, 22, {other}, 4);

  Ids ids = Prompt(20);
  ids.insert(ids.end(), {guess[0], guess[1], other});
  EXPECT_EQ(after, Greedy(ids, 4));
}

TEST_F(ModelProposerTest, SequencesDoNotShowInOneAnother) {
  const auto proposer = Make(Options());
  const SequenceKey other{SequenceId(6), 1};
  Admit(*proposer, kKey, Prompt(9));
  Admit(*proposer, other, Prompt(33));

  const auto both = proposer->Propose(std::vector<ProposeItem>{{kKey, 9, {}, 9, 3}, {other, 33, {}, 33, 5}});

  EXPECT_EQ(both[0], Greedy(Prompt(9), 3));
  EXPECT_EQ(both[1], Greedy(Prompt(33), 5));
}

// B018, B058: the draft's context is shorter than the target's; beyond it there are no drafts.
TEST_F(ModelProposerTest, B058_EndsAtItsOwnContext) {
  ModelProposerOptions options = Options();
  options.positions_max = 24;
  const auto proposer = Make(options);
  Admit(*proposer, kKey, Prompt(22));

  EXPECT_EQ(Propose(*proposer, kKey, 22, {}, 8).size(), 2u);
  EXPECT_TRUE(Propose(*proposer, kKey, 24, {}, 8).empty());
}

TEST_F(ModelProposerTest, WithoutFreeBlocksItDraftsNothingUntilSomeAreReleased) {
  ModelProposerOptions options = Options();
  options.kv_blocks = 4;  // 32 ids
  const auto proposer = Make(options);
  const SequenceKey other{SequenceId(6), 1};
  Admit(*proposer, kKey, Prompt(20));
  Admit(*proposer, other, Prompt(20));

  EXPECT_EQ(Propose(*proposer, kKey, 20, {}, 4).size(), 4u);
  EXPECT_TRUE(Propose(*proposer, other, 20, {}, 4).empty());
  proposer->Release(kKey);
  EXPECT_EQ(Propose(*proposer, other, 20, {}, 4), Greedy(Prompt(20), 4));
}

}  // namespace
}  // namespace paceline::testing
