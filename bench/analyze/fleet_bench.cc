// A large fleet on one server for a minute: a healthy training job whose nodes each send 1,000
// records a second, until one rank inverts an order and the job hangs. Each node is a gRPC client
// with a connection of its own, takes acknowledgements and answers rounds, as collectors do. The
// nodes are in one process and the server in another, on the same cores; the nodes' records are
// made and packed before, since on a real fleet other machines do that. Plain streams, the same
// while 200 pages are open (each takes every event; they are in the nodes' process), and TLS.
//
//   bench_fleet [NODES [SECONDS [RECORDS]]]     default 1000, 60, and 1,000 records a second
//
// A batch holds what a node has gathered in half a second, as the server asks of so many.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/fleet/fleet_server.h"
#include "analyzer/model/verdict/verdict.h"
#include "analyzer/web/gateway.h"
#include "bench/analyze/node_stream.h"
#include "bench/analyze/open_pages.h"
#include "cli/web/fleet_pages.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/packed_batch.h"
#include "common/record_block.h"
#include "testing/jobs/training_job.h"

namespace gordian::bench {
namespace {

constexpr double kGatherSeconds = 0.5;
constexpr size_t kPages = 200;
constexpr uint64_t kStartPauseNs = 500 * kNsPerMs;  // between the last Welcome and the first record

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_fleet: %s\n", what.c_str());
  exit(1);
}

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void SleepUntil(uint64_t mono_ns) {
  const uint64_t now = MonoNs();
  if (now < mono_ns) std::this_thread::sleep_for(std::chrono::nanoseconds(mono_ns - now));
}

// What one node sends. A batch without a message is the place of a round's answer between two
// steps; a node that was not asked sends it empty.
struct Batch {
  v1::ToAnalyzer message;
  uint64_t records_before = 0;  // of this node; they say when the batch is due
  bool round = false;
};
struct NodeProgram {
  std::vector<Batch> batches;
  std::vector<std::string> states;  // by step: the answer to a round after it, an event
  uint64_t records = 0;
};
struct Program {
  std::vector<NodeProgram> nodes;
  uint64_t records = 0;
};

testing::TrainingShape ShapeOf(int nodes) {
  testing::TrainingShape shape;
  // A node has the eight lanes of a stage, so stages times replicas make the nodes.
  shape.pipeline = 25;
  shape.data = nodes / shape.pipeline;
  shape.micro_batches = 1;
  shape.fault = testing::Fault::kInversion;
  return shape;
}

// A batch holds `gathered` records or a few more.
Program Make(int nodes, uint64_t records_of_node, uint64_t gathered) {
  testing::TrainingShape shape = ShapeOf(nodes);
  Program program;
  program.nodes.resize(static_cast<size_t>(nodes));
  struct Gathering {
    v1::ToAnalyzer message;
    uint64_t records = 0;
  };
  std::vector<Gathering> gathering(program.nodes.size());
  const auto flush = [&](size_t node) {
    Gathering& from = gathering[node];
    if (!from.message.has_batch()) return;
    NodeProgram& of = program.nodes[node];
    from.message.mutable_batch()->set_number(of.batches.size() + 1);
    of.batches.push_back({PackedMessage(from.message), of.records, false});
    of.records += from.records;
    from = {};
  };
  const testing::TrainingJob::Sink send = [&](int number, std::vector<v1::Event> events) {
    const auto node = static_cast<size_t>(number);
    Gathering& into = gathering[node];
    for (v1::Event& event : events) {
      into.records += RecordsIn(event.records());
      *into.message.mutable_batch()->add_events() = std::move(event);
      if (into.records >= gathered) flush(node);
    }
  };
  // The number of steps follows from what one has.
  uint64_t begin = 0, step = 0;
  {
    testing::TrainingShape one = shape;
    one.steps = 2;
    testing::TrainingJob probe(one);
    const testing::TrainingJob::Sink count = [&](int node, std::vector<v1::Event> events) {
      if (node != nodes / 2) return;
      for (const v1::Event& event : events) step += RecordsIn(event.records());
    };
    probe.Begin(count);
    begin = std::exchange(step, 0);
    probe.Step(0, count);
  }
  shape.steps = static_cast<int>(
      std::max<uint64_t>(2, (records_of_node - std::min(records_of_node, begin)) / step));
  testing::TrainingJob training(shape);
  const auto end_step = [&] {
    training.Sleep(1'000'000);
    for (size_t node = 0; node < program.nodes.size(); ++node) {
      flush(node);
      NodeProgram& of = program.nodes[node];
      of.states.push_back(training.Round(static_cast<int>(node), 0).SerializeAsString());
      Batch& batch = of.batches.emplace_back();
      batch.message.mutable_batch()->set_number(of.batches.size());
      batch.records_before = of.records;
      batch.round = true;
    }
  };
  training.Begin(send);
  for (int i = 0; i < shape.steps; ++i) {
    training.Step(i, send);
    end_step();
  }
  for (const NodeProgram& node : program.nodes) program.records += node.records;
  return program;
}

class Node {
 public:
  Node(const NodeProgram& program, size_t number, int port, const Access& access)
      : program_(program),
        number_(number),
        node_(port, number, access),
        written_ns_(program.batches.size()),
        latencies_ns_(program.batches.size()) {
    reader_ = std::thread([this] { Read(); });
  }

  void Begin(uint64_t begin_ns, double records_a_second) {
    writer_ = std::thread([=, this] { Write(begin_ns, records_a_second); });
  }
  // When this node wrote its last record; 0: not yet.
  uint64_t stalled_ns() const { return stalled_ns_; }
  uint64_t acked() const { return acked_; }
  uint64_t batches() const { return program_.batches.size(); }
  uint64_t most_late_ns() const { return most_late_ns_; }
  // When the batch that this node wrote last was due; 0: it has written none.
  uint64_t written_due_ns() const { return written_due_ns_; }
  // The server acknowledged each batch so long after this node wrote it. Valid after End().
  const std::vector<uint64_t>& latencies_ns() const { return latencies_ns_; }

  void End() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      changed_.notify_all();
    }
    writer_.join();
    node_.context.TryCancel();
    reader_.join();
    (void)node_.stream->Finish();
  }

 private:
  void Read() {
    v1::ToCollector message;
    while (node_.stream->Read(&message)) {
      if (message.has_ack()) {
        const uint64_t now = MonoNs(), upto = std::min(message.ack().number(), batches());
        for (uint64_t i = acked_; i < upto; ++i) latencies_ns_[i] = now - written_ns_[i];
        acked_ = message.ack().number();
      } else if (message.has_refused()) {
        Fail("node " + std::to_string(number_) + " is refused: " + message.refused().why());
      } else if (message.has_round()) {
        const std::lock_guard lock(mutex_);
        wanted_ = message.round().round();
        changed_.notify_all();
      }
    }
  }

  [[noreturn]] void FailBroken() {
    reader_.join();
    const grpc::Status status = node_.stream->Finish();
    Fail("the stream of node " + std::to_string(number_) + " broke: " + status.error_message());
  }

  // The answer to the round that is wanted, if there is one.
  void Answer(size_t step, v1::EventBatch* batch, uint64_t later_ns) {
    const uint64_t wanted = std::exchange(wanted_, 0);
    if (wanted == 0) return;
    v1::Event event;
    if (!event.ParseFromString(program_.states[step])) Fail("a state makes no sense");
    v1::Round* const round = event.mutable_round();
    round->set_round(wanted);
    round->set_begin_ns(round->begin_ns() + later_ns);
    round->set_end_ns(round->end_ns() + later_ns);
    *batch->add_events() = std::move(event);
  }

  void Write(uint64_t begin_ns, double records_a_second) {
    size_t step = 0;
    for (size_t i = 0; i < program_.batches.size(); ++i) {
      const Batch& batch = program_.batches[i];
      const uint64_t due =
          begin_ns +
          static_cast<uint64_t>(static_cast<double>(batch.records_before) * 1e9 / records_a_second);
      SleepUntil(due);
      written_ns_[i] = MonoNs();
      most_late_ns_ = std::max<uint64_t>(most_late_ns_, written_ns_[i] - due);
      bool fine = false;
      if (batch.round) {
        v1::ToAnalyzer message = batch.message;
        {
          const std::lock_guard lock(mutex_);
          Answer(step++, message.mutable_batch(), 0);
        }
        fine = node_.stream->Write(message);
      } else {
        fine = node_.stream->Write(batch.message);
      }
      if (!fine) FailBroken();
      written_due_ns_ = due;
    }
    const uint64_t stalled = MonoNs();
    stalled_ns_ = stalled;
    std::unique_lock lock(mutex_);
    for (uint64_t number = program_.batches.size() + 1;; ++number) {
      changed_.wait(lock, [this] { return ending_ || wanted_ != 0; });
      if (ending_) return;
      v1::ToAnalyzer message;
      message.mutable_batch()->set_number(number);
      Answer(step - 1, message.mutable_batch(), MonoNs() - stalled);
      lock.unlock();
      if (!node_.stream->Write(message)) FailBroken();
      lock.lock();
    }
  }

  const NodeProgram& program_;
  const size_t number_;
  NodeStream node_;
  std::vector<std::atomic<uint64_t>> written_ns_;  // by batch
  std::vector<uint64_t> latencies_ns_;             // by batch; the reader's
  std::thread reader_, writer_;
  std::atomic<uint64_t> stalled_ns_ = 0, acked_ = 0, most_late_ns_ = 0, written_due_ns_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t wanted_ = 0;
  bool ending_ = false;
};

// Between the two processes, over pipes. Both read CLOCK_MONOTONIC.
struct Begin {
  int port = 0;
  int http_port = 0;  // 0: no pages
  char ca[512] = {};  // a file; empty: no TLS
};
struct Told {
  uint64_t begin_ns = 0, stalled_ns = 0, records = 0, batches = 0, unacknowledged = 0;
  uint64_t most_late_ns = 0, most_apart_ns = 0;
  uint64_t median_ack_ns = 0, most_ack_ns = 0;  // the latter: of 99 in 100 batches
  uint64_t page_bytes = 0;
  double processor = 0;
};

template <typename T>
void Put(int fd, const T& value) {
  if (write(fd, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) Fail("a pipe broke");
}
template <typename T>
bool Get(int fd, T* value) {
  return read(fd, value, sizeof *value) == static_cast<ssize_t>(sizeof *value);
}

// Until each node has written its last record. Says how late the nodes are when they are not done
// `seconds` and a half after their begin, and then every ten seconds. Returns the most that one node
// was ahead of another, in the job's own time.
uint64_t AwaitStall(const std::vector<std::unique_ptr<Node>>& nodes, uint64_t begin_ns,
                    int seconds) {
  uint64_t most_apart_ns = 0;
  uint64_t say_ns = begin_ns + static_cast<uint64_t>(seconds) * kNsPerSecond * 3 / 2;
  while (true) {
    uint64_t first_ns = UINT64_MAX, last_ns = 0;
    size_t done = 0;
    for (const auto& node : nodes) {
      if (node->stalled_ns() != 0) ++done;
      const uint64_t due_ns = node->written_due_ns();
      first_ns = std::min(first_ns, due_ns);
      last_ns = std::max(last_ns, due_ns);
    }
    if (first_ns != 0) most_apart_ns = std::max(most_apart_ns, last_ns - first_ns);
    if (done == nodes.size()) return most_apart_ns;
    const uint64_t now = MonoNs();
    if (now >= say_ns && first_ns != 0) {
      say_ns = now + 10 * kNsPerSecond;
      std::fprintf(stderr,
                   "bench_fleet: the server falls behind: the slowest node is %llu s late, the "
                   "quickest %llu s ahead of it\n",
                   static_cast<unsigned long long>((now - first_ns) / kNsPerSecond),
                   static_cast<unsigned long long>((last_ns - first_ns) / kNsPerSecond));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

void BeTheNodes(int nodes, int seconds, double records_a_second, int in, int out) {
  const Program program = Make(nodes, static_cast<uint64_t>(seconds * records_a_second),
                               static_cast<uint64_t>(kGatherSeconds * records_a_second));
  Put(out, program.records);
  Begin begin;
  while (Get(in, &begin)) {
    const Access access = AccessTo(begin.ca);
    std::vector<std::unique_ptr<Node>> all;
    for (size_t i = 0; i < program.nodes.size(); ++i) {
      all.push_back(std::make_unique<Node>(program.nodes[i], i, begin.port, access));
    }
    std::unique_ptr<OpenPages> pages;
    if (begin.http_port != 0) {
      pages = std::make_unique<OpenPages>(begin.http_port, kPages);
      pages->AwaitFirst();
    }
    Told told;
    told.records = program.records;
    told.begin_ns = MonoNs() + kStartPauseNs;
    const double before = CpuSeconds();
    for (const auto& node : all) node->Begin(told.begin_ns, records_a_second);
    told.most_apart_ns = AwaitStall(all, told.begin_ns, seconds);
    for (const auto& node : all) {
      told.stalled_ns = std::max(told.stalled_ns, node->stalled_ns());
      told.most_late_ns = std::max(told.most_late_ns, node->most_late_ns());
      told.batches += node->batches();
    }
    told.processor = CpuSeconds() - before;
    Put(out, told);
    bool ignored;
    if (!Get(in, &ignored)) return;  // the verdict is there
    // The server acknowledges what is in the trace, a little later.
    const uint64_t patience = MonoNs() + 10 * kNsPerSecond;
    for (const auto& node : all) {
      while (node->acked() < node->batches() && MonoNs() < patience) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      told.unacknowledged += node->batches() - std::min(node->batches(), node->acked());
    }
    if (pages != nullptr) told.page_bytes = pages->bytes();
    pages.reset();
    std::vector<uint64_t> latencies;
    for (const auto& node : all) {
      node->End();
      const std::vector<uint64_t>& more = node->latencies_ns();
      latencies.insert(latencies.end(), more.begin(), more.end());
    }
    std::sort(latencies.begin(), latencies.end());
    told.median_ack_ns = latencies[latencies.size() / 2];
    told.most_ack_ns = latencies[latencies.size() * 99 / 100];
    Put(out, told);
  }
}

struct Measured {
  Told told;
  double seconds = 0, verdict_s = 0, processor = 0;
  long resident_mib = 0;
};

long ResidentMib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

struct How {
  const char* name;
  bool tls = false;
  bool pages = false;
};

Measured Measure(const How& how, int in, int out) {
  std::string folder = (std::filesystem::temp_directory_path() / "bench_fleet.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) Fail("cannot make a temporary folder");
  Measured measured;
  {
    std::atomic<uint64_t> proven_ns = 0;
    analyzer::FleetServer server;
    analyzer::FleetOptions options;
    options.listen = "127.0.0.1:0";
    options.sessions_dir = folder + "/sessions";
    Begin begin;
    web::Gateway gateway;
    if (how.tls) {
      options.tls = MakeCertificate(folder);
      std::snprintf(begin.ca, sizeof begin.ca, "%s", options.tls.cert.c_str());
    }
    options.on_verdict = [&](const analyzer::FleetVerdict& verdict) {
      if (how.pages) gateway.Wake();
      const model::Finding& main = verdict.update.verdict.main;
      if (main.verdict != model::VerdictKind::kDeadlock ||
          main.confidence != model::Confidence::kConfirmed) {
        return;
      }
      uint64_t none = 0;
      proven_ns.compare_exchange_strong(none, MonoNs());
    };
    if (const Status status = server.Start(std::move(options)); !status.ok()) {
      Fail(status.ToString());
    }
    begin.port = server.port();
    auto pages = std::make_shared<cli::FleetPages>(&server);
    if (how.pages) {
      if (const Status status = gateway.Start({.listen = "127.0.0.1:0", .jobs = pages});
          !status.ok()) {
        Fail(status.ToString());
      }
      begin.http_port = gateway.port();
    }
    const double before = CpuSeconds();
    Put(out, begin);
    if (!Get(in, &measured.told)) Fail("the nodes ended");
    measured.processor = CpuSeconds() - before;
    while (proven_ns == 0) {
      if (MonoNs() - measured.told.stalled_ns > 120 * kNsPerSecond) {
        std::string said;
        (void)server.LookAt(server.jobs().at(0).folder, [&](analyzer::Analysis& analysis) {
          said = analysis.Current().main.summary;
        });
        Fail("no confirmed deadlock within two minutes: " + said);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (proven_ns < measured.told.stalled_ns) {
      // The inversion stands a few records before the end, so a proof may come a little before it.
      measured.verdict_s = 0;
    } else {
      measured.verdict_s = static_cast<double>(proven_ns - measured.told.stalled_ns) * 1e-9;
    }
    measured.seconds =
        static_cast<double>(measured.told.stalled_ns - measured.told.begin_ns) * 1e-9;
    Put(out, true);
    if (!Get(in, &measured.told)) Fail("the nodes ended");
    const analyzer::FleetServer::JobStatus job = server.jobs().at(0);
    if (job.records != measured.told.records || job.dropped_events != 0) {
      Fail("of " + std::to_string(measured.told.records) + " records the server has " +
           std::to_string(job.records) + ", and dropped " + std::to_string(job.dropped_events) +
           " events");
    }
    if (measured.told.unacknowledged != 0) {
      Fail(std::to_string(measured.told.unacknowledged) + " batches were not acknowledged");
    }
    measured.resident_mib = ResidentMib();
    gateway.Stop();
    pages->Stop();
    server.Stop();
  }
  std::filesystem::remove_all(folder);
  return measured;
}

int Main(int argc, char** argv) {
  const int nodes = argc > 1 ? atoi(argv[1]) : 1000;
  const int seconds = argc > 2 ? atoi(argv[2]) : 60;
  const int rate = argc > 3 ? atoi(argv[3]) : 1000;
  const bool fits = nodes >= 50 && nodes <= 4000 && nodes % 25 == 0 &&
                    (nodes <= 200 || nodes % (25 * testing::kReplicasOfPod) == 0);
  if (!fits || seconds < 1 || seconds > 3600 || rate < 1 || rate > 1'000'000) {
    std::fprintf(stderr,
                 "usage: bench_fleet [NODES [SECONDS [RECORDS]]]   (50, 75 ... 200, 400 ... 4000; "
                 "to 3600; records a second of a node, to 1000000)\n");
    return 2;
  }
  SilenceLog();
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &files);
  int to_nodes[2], from_nodes[2];
  if (pipe(to_nodes) != 0 || pipe(from_nodes) != 0) Fail("no pipe");
  // Before gRPC has threads.
  const pid_t child = fork();
  if (child < 0) Fail("cannot fork");
  if (child == 0) {
    close(to_nodes[1]);
    close(from_nodes[0]);
    BeTheNodes(nodes, seconds, rate, to_nodes[0], from_nodes[1]);
    _exit(0);
  }
  close(to_nodes[0]);
  close(from_nodes[1]);
  std::fprintf(stderr, "bench_fleet: making the records of %d nodes\n", nodes);
  uint64_t records = 0;
  if (!Get(from_nodes[0], &records)) Fail("the nodes ended");
  std::vector<Measured> all;
  std::vector<std::string> lines;
  const std::string with_pages = fmt::format("{} pages", kPages);
  // Plain streams and pages alternate, since a machine's speed changes within minutes.
  const How hows[] = {{.name = "plain"},
                      {.name = with_pages.c_str(), .pages = true},
                      {.name = with_pages.c_str(), .pages = true},
                      {.name = "plain"},
                      {.name = "TLS", .tls = true}};
  for (const How& how : hows) {
    std::fprintf(stderr, "bench_fleet: %s, %llu records, about %d s\n", how.name,
                 static_cast<unsigned long long>(records), seconds);
    const Measured& m = all.emplace_back(Measure(how, from_nodes[0], to_nodes[1]));
    const auto sent = static_cast<double>(m.told.records);
    lines.push_back(fmt::format(
        "  {}: {} nodes, {:.0f} records/s of each over {:.1f} s (asked {}): {:.2f} M records/s in "
        "all, {:.0f} batches/s; none lost\n"
        "    a batch acknowledged after {:.1f} ms (median), {:.1f} ms (99 of 100); verdict {:.2f} "
        "s "
        "after the last record (goal 2); a batch at most {:.2f} s late, nodes at most {:.2f} s "
        "apart\n"
        "    processor time {:.3f} us a record at the server, {:.3f} us at the nodes; server at "
        "most {} MiB; {:.1f} KiB to each page\n",
        how.name, nodes, sent / m.seconds / nodes, m.seconds, rate, sent / m.seconds / 1e6,
        static_cast<double>(m.told.batches) / m.seconds,
        static_cast<double>(m.told.median_ack_ns) * 1e-6,
        static_cast<double>(m.told.most_ack_ns) * 1e-6, m.verdict_s,
        static_cast<double>(m.told.most_late_ns) * 1e-9,
        static_cast<double>(m.told.most_apart_ns) * 1e-9, m.processor / sent * 1e6,
        m.told.processor / sent * 1e6, m.resident_mib,
        static_cast<double>(m.told.page_bytes) / 1024 / kPages));
    std::fprintf(stderr, "%s", lines.back().c_str());
  }
  close(to_nodes[1]);
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) Fail("the nodes failed");
  const double plain_cpu = (all[0].processor + all[3].processor) / 2;
  const auto latency = [&](size_t a, size_t b) {
    return static_cast<double>(all[a].told.median_ack_ns + all[b].told.median_ack_ns) / 2e6;
  };
  std::printf(
      "fleet: %zu pages change the nodes' latency to %.3f times (goal: 1.05), %.1f ms to "
      "%.1f ms, and the server's processor time to %.3f times\n",
      kPages, latency(1, 2) / latency(0, 3), latency(0, 3), latency(1, 2),
      (all[1].processor + all[2].processor) / 2 / plain_cpu);
  std::printf("fleet: TLS costs the server %.2f times the processor time of plain streams\n",
              all[4].processor / plain_cpu);
  for (const std::string& line : lines) std::printf("%s", line.c_str());
  return 0;
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) { return gordian::bench::Main(argc, argv); }
