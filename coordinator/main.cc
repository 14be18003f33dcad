// paceline-coordinator: HTTP API, scheduler, owner of committed tokens. Takes the configuration of `paceline
// serve`.

#include <csignal>

#include "common/actor/signals.h"
#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/version.h"
#include "common/cluster/program.h"
#include "common/cluster/served_model.h"
#include "common/cluster/worker_runtime.h"
#include "coordinator/api/api_server.h"
#include "coordinator/api_setup.h"
#include "coordinator/coordinator_shell.h"

namespace paceline {
namespace {

CoordinatorOptions MakeCoreOptions(const ServeConfig& config, const ServedModel& served) {
  CoordinatorOptions options;
  options.boot_nonce = RandomNonce();
  options.fingerprint = MakeFingerprint(config, served, "");
  options.num_stages = config.pipeline_size;
  options.num_slots = config.num_slots;
  options.launch_window = config.num_slots + 1;
  options.max_num_seqs = config.max_num_seqs;
  options.max_num_batched_tokens = config.max_batched_tokens;
  options.max_model_len = served.max_model_len;
  options.max_queued_requests = config.max_queued_requests;
  options.num_speculative_tokens = config.speculative.num_speculative_tokens;
  options.frames_in_flight_max = 1 + config.run_ahead;
  options.expects_drafter = config.speculative.enabled();
  return options;
}

// Runs until SIGTERM has drained, or a start-up error. The front starts at once and answers 503 until the
// group is there, so that clients and probes see what is missing.
int Serve(const ServeConfig& config) {
  BlockSignals({SIGTERM, SIGINT, SIGPIPE});
  StatusOr<ServedModel> served = OpenServedModel(config);
  if (!served.ok()) return RefuseStart(served.status());
  StatusOr<ApiOptions> api_options = MakeApiOptions(config, *served);
  if (!api_options.ok()) return RefuseStart(api_options.status());

  ServerMetrics metrics({.model_name = config.served_model_names[0],
                         .max_model_len = served->max_model_len,
                         .vllm_names = config.api.vllm_metric_names,
                         .version = std::string(kPacelineVersion),
                         .build = std::string(kBuildId),
                         .protocol = fmt::format("{}.{}", kProtocolMajor, kProtocolMinor)});
  CoordinatorShell shell(config, MakeCoreOptions(config, *served), metrics);
  if (const Status status = shell.Start(); !status.ok()) return RefuseStart(status);
  StatusOr<std::unique_ptr<ApiServer>> api = ApiServer::Start(*std::move(api_options), &shell, &metrics);
  if (!api.ok()) return RefuseStart(api.status());
  LogInfo("api_listening", "host={} port={} layers={} model={}", config.api.host, (*api)->port(),
          DescribePartition(served->stages), config.model);

  bool stopping = false;
  StatusOr<std::unique_ptr<SignalWatch>> signals =
      SignalWatch::Create(shell.loop(), {SIGTERM, SIGINT}, [&](int signal) {
        if (stopping) {
          LogWarn("stopping_now", "reason=\"second signal\"");
          shell.loop().Stop();
          return;
        }
        stopping = true;
        LogInfo("draining", "signal={} seconds={}", signal, config.shutdown_seconds);
        (*api)->BeginDrain();
        const auto grace =
            std::chrono::duration_cast<Duration>(std::chrono::duration<double>(config.shutdown_seconds));
        shell.Drain(MonotonicNow() + grace, [&] {
          shell.Shutdown("the server is stopping");
          // One more turn of the loop lets the goodbyes leave.
          shell.loop().After(100ms, [&] { shell.loop().Stop(); });
        });
      });
  if (!signals.ok()) return RefuseStart(signals.status());
  shell.loop().Run();
  (*api)->Stop(1s);
  return shell.exit_code();
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) {
  return paceline::RunProgram(
      {argv + 1, argv + argc}, "paceline-coordinator",
      [](const paceline::ServeConfig&) { return std::string("coordinator"); }, paceline::Serve);
}
