#include "coordinator/scheduler/step_planner.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace paceline {

bool StepPlanner::Round::Has(const Choice* choice) const {
  return std::find(planned.members.begin(), planned.members.end(), choice) != planned.members.end();
}

std::optional<StepPlanner::Planned> StepPlanner::Make(const std::vector<Choice*>& running, bool drafts,
                                                      const PreemptFn& preempt) {
  Round round;
  round.rows_left = options_.max_num_batched_tokens;
  round.sequences_left = (running.size() + options_.num_slots - 1) / options_.num_slots;
  round.drafts = drafts && draft_length_.configured() > 0;
  round.preempt = &preempt;
  const std::vector<Choice*> order = running;  // a preemption changes the caller's list
  const bool still_starves = std::any_of(
      order.begin(), order.end(), [&](const Choice* choice) { return choice->arrival == starving_arrival_; });
  if (!still_starves) starving_arrival_ = kNobody;
  for (Choice* choice : order) {
    if (!round.full() && choice->running && CanDecode(*choice)) AddKnown(*choice, round);
  }
  for (Choice* choice : order) {
    if (round.full() || !choice->running || round.Has(choice) || !choice->prefilling()) continue;
    // P12: a chunk behind a chunk that is out is a continuation with an exact start.
    if (choice->end_min() == choice->end_max()) AddKnown(*choice, round);
  }
  if (round.planned.members.empty() && round.drafts) {
    for (size_t depth = 1; depth < options_.frames_in_flight_max; ++depth) {
      for (Choice* choice : order) {
        const bool fits = !round.full() && choice->running && choice->out.size() == depth;
        if (fits && !round.Has(choice)) AddRunAhead(*choice, round);  // one entry per step
      }
    }
  }
  if (round.planned.members.empty()) return std::nullopt;
  return std::move(round.planned);
}

bool StepPlanner::CanDecode(const Choice& choice) const {
  const bool one_left = choice.rows_end + 1 == choice.committed_len();
  if (options_.broken == ProtocolBreak::kP12PlansKnownIdsAgain && choice.out.size() == 1) return one_left;
  return choice.out.empty() && one_left;  // P12
}

Position StepPlanner::RowsLimit(const Choice& choice) const {
  if (options_.broken == ProtocolBreak::kP9PlansPastTheEnd) return choice.rows_limit() + 1000;
  return choice.rows_limit();
}

void StepPlanner::AddKnown(Choice& choice, Round& round) {
  SequencePlan plan;
  plan.continuation = !choice.out.empty() && !CanDecode(choice);
  plan.start = plan.continuation ? choice.end_min() : choice.rows_end;
  const uint32_t known = std::min(round.rows_left, choice.committed_len() - plan.start);
  const Position end = plan.start + known;
  if (!CoverKnown(choice, end, round)) return;
  plan.known_ids.assign(choice.ids.begin() + plan.start, choice.ids.begin() + end);
  plan.draws = end == choice.committed_len();
  round.rows_left -= known;
  if (round.drafts && plan.draws) {
    const uint32_t wanted = std::min(round.rows_left, draft_length_.For(end, RowsLimit(choice)));
    plan.draft_len_max = CoverDrafts(choice, end, wanted);
    plan.awaits_proposal = plan.draft_len_max > 0;
  }
  if (options_.broken == ProtocolBreak::kP10OmitsKnownIds && plan.awaits_proposal && known == 1) {
    plan.known_ids.clear();
  }
  Add(choice, std::move(plan), round);
}

void StepPlanner::AddRunAhead(Choice& choice, Round& round) {
  if (choice.run_ahead_paused || choice.prefilling() || !choice.out.back().draws) return;
  const Position end = choice.end_max();
  SequencePlan plan;
  plan.continuation = true;
  plan.start = choice.end_min();  // P11: only a bound; stage 0 knows the start
  const uint32_t wanted = std::min(round.rows_left, draft_length_.For(end, RowsLimit(choice)));
  plan.draft_len_max = CoverDrafts(choice, end, wanted);
  if (plan.draft_len_max == 0) return;
  plan.awaits_proposal = true;
  Add(choice, std::move(plan), round);
}

void StepPlanner::Add(Choice& choice, SequencePlan plan, Round& round) {
  plan.sequence = choice.sequence;
  plan.lineage = choice.lineage;
  plan.blocks.len_before = choice.blocks_confirmed;
  plan.blocks.appended.assign(choice.blocks.begin() + choice.blocks_confirmed, choice.blocks.end());
  round.rows_left -= plan.draft_len_max;
  --round.sequences_left;
  choice.out.push_back(
      {StepId(0), static_cast<uint32_t>(plan.known_ids.size()), plan.draft_len_max, plan.draws});
  round.planned.members.push_back(&choice);
  round.planned.plan.sequences.push_back(std::move(plan));
}

bool StepPlanner::Extend(Choice& choice, Position end) {
  const uint64_t need = (uint64_t{end} + options_.kv_block_size - 1) / options_.kv_block_size;
  if (need <= choice.blocks.size()) return true;
  if (!MayTakeBlocks(choice)) return false;
  const auto taken = kv_.Take(static_cast<uint32_t>(need - choice.blocks.size()));
  if (!taken) return false;
  choice.blocks.insert(choice.blocks.end(), taken->begin(), taken->end());
  return true;
}

bool StepPlanner::CoverKnown(Choice& choice, Position end, Round& round) {
  while (!Extend(choice, end)) {
    starving_arrival_ = std::min(starving_arrival_, choice.arrival);
    if (!MayTakeBlocks(choice)) return false;
    const uint64_t need = (uint64_t{end} + options_.kv_block_size - 1) / options_.kv_block_size;
    const uint64_t on_their_way = uint64_t{kv_.free()} + kv_.quarantined();
    if (need - choice.blocks.size() <= on_their_way) return false;  // verdicts will bring them
    if (!(*round.preempt)(choice, round.planned.members)) return false;
  }
  if (choice.arrival == starving_arrival_) starving_arrival_ = kNobody;
  return true;
}

uint32_t StepPlanner::CoverDrafts(Choice& choice, Position end, uint32_t wanted) {
  const uint32_t free = starving() ? 0 : kv_.free();
  const uint64_t reach = uint64_t{options_.kv_block_size} * (choice.blocks.size() + free);
  if (reach <= end) return 0;
  wanted = static_cast<uint32_t>(std::min<uint64_t>(wanted, reach - end));
  CHECK(Extend(choice, end + wanted)) << "(I3)";
  return wanted;
}

}  // namespace paceline
