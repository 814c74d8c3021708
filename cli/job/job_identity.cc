#include "cli/job/job_identity.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>

namespace gordian::cli {
namespace {

constexpr uint64_t kMostNodes = 4096;
constexpr size_t kMostNameBytes = 200;

std::optional<std::string> Set(const Environment& environment, std::string_view name) {
  std::optional<std::string> value = environment(name);
  return value && !value->empty() ? value : std::nullopt;
}

std::optional<int32_t> Number(const Environment& environment, std::string_view name) {
  const std::optional<std::string> text = Set(environment, name);
  if (!text) {
    return std::nullopt;
  }
  const StatusOr<uint64_t> value = ParseUnsigned(name, *text);
  // gordian ignores a launcher's variable that is no number.
  return value.ok() && *value <= kMostNodes ? std::optional(static_cast<int32_t>(*value))
                                            : std::nullopt;
}

// One of several equal processes of a launcher, each with its own gordian.
struct Task {
  int32_t rank = 0;
  int32_t tasks = 0;
};

// Uses the order in which the shim finds ranks (interpose/state/ring_file.cc), and only variables
// that such a process alone has.
std::optional<Task> OwnTask(const Environment& environment) {
  struct Family {
    const char* needs;
    const char* rank;
    const char* tasks;
  };
  constexpr Family kFamilies[] = {
      {"TORCHELASTIC_RUN_ID", "RANK", "WORLD_SIZE"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
      {"PMI_RANK", "PMI_RANK", "PMI_SIZE"},
      // deepspeed starts ranks with torchrun's variables but without its run id. RANK and
      // WORLD_SIZE alone may number nodes, as Kubeflow's do.
      {"LOCAL_RANK", "RANK", "WORLD_SIZE"},
      {"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
      {"SLURM_STEP_ID", "SLURM_PROCID", "SLURM_NTASKS"}};
  for (const Family& family : kFamilies) {
    const auto rank = Number(environment, family.rank);
    const auto tasks = Number(environment, family.tasks);
    if (Set(environment, family.needs) && rank && tasks && *rank < *tasks) {
      return Task{*rank, *tasks};
    }
  }
  return std::nullopt;
}

// Returns the node's name in Slurm, which the user knows, and which differs between two nodes on
// one machine. MPICH's launcher, started by a batch script, gives the first node's to all ranks.
std::optional<std::string> SlurmNode(const Environment& environment) {
  const bool of_srun = Set(environment, "SLURM_STEP_ID") && !Set(environment, "PMI_RANK") &&
                       !Set(environment, "OMPI_COMM_WORLD_RANK");
  return of_srun ? Set(environment, "SLURMD_NODENAME") : std::nullopt;
}

Status CheckName(std::string_view name, const std::string& text) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
  if (text.empty() || text.size() > kMostNameBytes || !plain) {
    return Status::InvalidArgument(std::string(name) +
                                   " takes 1 to 200 printable characters without spaces");
  }
  return Status::Ok();
}

}  // namespace

StatusOr<JobIdentity> IdentifyJob(const JobIdentityFlags& flags, const Environment& environment,
                                  const std::string& host, int pid, uint64_t time_ns) {
  JobIdentity identity{.named = true};
  if (flags.job || Set(environment, "GORDIAN_JOB")) {
    identity.job = flags.job ? *flags.job : *Set(environment, "GORDIAN_JOB");
    GORDIAN_RETURN_IF_ERROR(CheckName(flags.job ? "--job" : "GORDIAN_JOB", identity.job));
  } else if (const auto mpi = Set(environment, "PMIX_NAMESPACE");
             mpi &&
             Set(environment, "OMPI_COMM_WORLD_RANK")) {  // there may be several in a Slurm job
    identity.job = "mpi-" + *mpi;
    GORDIAN_RETURN_IF_ERROR(CheckName("PMIX_NAMESPACE", *mpi));
  } else if (const auto slurm = Set(environment, "SLURM_JOB_ID")) {
    identity.job = "slurm-" + *slurm;
    if (const auto step = Set(environment, "SLURM_STEP_ID")) {
      identity.job += "." + *step;
    }
    // A requeued job keeps its id, but is another run.
    if (const auto restart = Set(environment, "SLURM_RESTART_COUNT"); restart && *restart != "0") {
      identity.job += "-" + *restart;
    }
  } else if (const auto elastic = Set(environment, "TORCHELASTIC_RUN_ID");
             elastic && *elastic != "none") {  // torchrun's default, the same for every job
    identity.job = "torch-" + *elastic;
  } else {
    identity.named = false;
    identity.job = host + "-" + std::to_string(pid) + "-" + std::to_string(time_ns / 1'000'000);
  }
  identity.node =
      flags.node ? *flags.node
                 : Set(environment, "GORDIAN_NODE").value_or(SlurmNode(environment).value_or(host));
  if (flags.node || Set(environment, "GORDIAN_NODE")) {
    GORDIAN_RETURN_IF_ERROR(CheckName(flags.node ? "--node" : "GORDIAN_NODE", identity.node));
  }
  if (flags.nodes || Set(environment, "GORDIAN_NODES")) {
    const std::string_view name = flags.nodes ? "--nodes" : "GORDIAN_NODES";
    const StatusOr<uint64_t> nodes =
        ParseUnsigned(name, flags.nodes ? *flags.nodes : *Set(environment, "GORDIAN_NODES"));
    GORDIAN_RETURN_IF_ERROR(nodes.status());
    if (*nodes == 0 || *nodes > kMostNodes) {
      return Status::InvalidArgument(std::string(name) + " takes 1 to 4096");
    }
    identity.nodes_expected = static_cast<uint32_t>(*nodes);
  } else {
    for (const char* name : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES", "SLURM_JOB_NUM_NODES"}) {
      if (const auto nodes = Number(environment, name); nodes && *nodes > 0) {
        identity.nodes_expected = static_cast<uint32_t>(*nodes);
        break;
      }
    }
  }
  // With more gordians than machines, each of them counts as a node.
  if (const auto task = OwnTask(environment);
      task && static_cast<uint32_t>(task->tasks) > identity.nodes_expected && !flags.nodes &&
      !Set(environment, "GORDIAN_NODES")) {
    identity.nodes_expected = static_cast<uint32_t>(task->tasks);
    identity.node_rank = task->rank;
    identity.one_of_tasks = true;
    if (!flags.node && !Set(environment, "GORDIAN_NODE")) {
      identity.node += ":" + std::to_string(task->rank);
    }
    return identity;
  }
  for (const char* name : {"SLURM_NODEID", "GROUP_RANK"}) {
    if (const auto rank = Number(environment, name)) {
      identity.node_rank = *rank;
      break;
    }
  }
  return identity;
}

Status CheckAddress(std::string_view name, std::string_view address, bool zero_port_allowed) {
  const auto bad = [&] {
    return Status::InvalidArgument(std::string(name) + " takes HOST:PORT, not '" +
                                   std::string(address) + "'");
  };
  const size_t colon = address.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    return bad();
  }
  const std::string_view host = address.substr(0, colon);
  // An IPv6 address holds colons itself, and so needs brackets.
  if (host.find(':') != std::string_view::npos && !(host.front() == '[' && host.back() == ']')) {
    return bad();
  }
  if (host.find_first_of("/ \t\n") != std::string_view::npos) {
    return bad();
  }
  const StatusOr<uint64_t> port = ParseUnsigned(name, address.substr(colon + 1));
  if (!port.ok() || *port > 65535 || (*port == 0 && !zero_port_allowed)) {
    return bad();
  }
  return Status::Ok();
}

bool IsLoopback(std::string_view address) {
  const std::string_view host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]") return true;
  in_addr number{};
  return inet_pton(AF_INET, std::string(host).c_str(), &number) == 1 &&
         ntohl(number.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool TrustsAnalyzer(const RunConfig& config) {
  // TLS proves who answers.
  return config.analyzer.empty() || config.trust_analyzer || !config.access.tls_ca.empty() ||
         IsLoopback(config.analyzer);
}

}  // namespace gordian::cli
