// Records a second from many collectors to one analyzer, over gRPC on loopback: a healthy training
// job of 512 ranks on 64 nodes, each with a stream of its own, batches as collectors send them,
// until the model has every record and the trace is written. Batches packed as they are sent, and
// the same batches plain; packed ones over TLS; and packed ones while 200 pages are open, each of
// which takes every event. Both ends are in this process and share its cores.
//
//   bench_ingest [STEPS [REPLICAS]]     default 10 and 4; 128 replicas make 2,048 nodes
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "analyzer/fleet/fleet_server.h"
#include "analyzer/web/gateway.h"
#include "bench/analyze/node_stream.h"
#include "bench/analyze/open_pages.h"
#include "cli/web/fleet_pages.h"
#include "common/log.h"
#include "common/packed_batch.h"
#include "common/record_block.h"
#include "testing/jobs/training_job.h"

namespace gordian::bench {
namespace {

constexpr size_t kBatch = 512;  // records: no more are added to a batch that has so many
constexpr size_t kSenders = 2;

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_ingest: %s\n", what.c_str());
  exit(1);
}

struct Job {
  std::vector<std::vector<v1::ToAnalyzer>> messages;  // by node, in order
  uint64_t records = 0;
};

Job Make(int steps, int replicas) {
  testing::TrainingShape shape;
  shape.data = replicas;
  shape.steps = steps;
  testing::TrainingJob training(shape);
  Job job;
  job.messages.resize(static_cast<size_t>(training.nodes()));
  const testing::TrainingJob::Sink send = [&](int node, std::vector<v1::Event> events) {
    std::vector<v1::ToAnalyzer>& to = job.messages[static_cast<size_t>(node)];
    size_t in_batch = kBatch;
    for (v1::Event& event : events) {
      if (in_batch >= kBatch) {
        to.emplace_back().mutable_batch()->set_number(to.size());
        in_batch = 0;
      }
      in_batch += RecordsIn(event.records());
      job.records += RecordsIn(event.records());
      *to.back().mutable_batch()->add_events() = std::move(event);
    }
  };
  training.Begin(send);
  for (int step = 0; step < steps; ++step) training.Step(step, send);
  return job;
}

class Collector {
 public:
  Collector(int port, size_t node, const Access& access) : node_(port, node, access) {}
  ~Collector() {
    node_.context.TryCancel();
    v1::ToCollector message;
    while (node_.stream->Read(&message)) {
    }
    (void)node_.stream->Finish();
  }
  void Send(const v1::ToAnalyzer& message) {
    if (!node_.stream->Write(message)) Fail("a stream broke");
  }

 private:
  NodeStream node_;
};

// Of all threads.
double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

struct Spent {
  double seconds = 0;    // by the clock
  double processor = 0;  // seconds, of both ends
};

struct How {
  bool tls = false;
  size_t viewers = 0;
};

// From the first batch until the model has all records.
Spent Measure(const Job& job, const How& how = {}) {
  std::string folder = (std::filesystem::temp_directory_path() / "bench_ingest.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) Fail("cannot make a temporary folder");
  Spent spent;
  {
    analyzer::FleetServer server;
    analyzer::FleetOptions options;
    options.listen = "127.0.0.1:0";
    options.sessions_dir = folder + "/sessions";
    if (how.tls) options.tls = MakeCertificate(folder);
    const Access access = AccessTo(options.tls.cert);
    web::Gateway gateway;
    options.on_verdict = [&](const analyzer::FleetVerdict&) {
      if (how.viewers > 0) gateway.Wake();
    };
    if (const Status status = server.Start(std::move(options)); !status.ok()) {
      Fail(status.ToString());
    }
    std::vector<std::unique_ptr<Collector>> collectors;
    for (size_t node = 0; node < job.messages.size(); ++node) {
      collectors.push_back(std::make_unique<Collector>(server.port(), node, access));
    }
    std::unique_ptr<OpenPages> viewers;
    auto pages = std::make_shared<cli::FleetPages>(&server);
    if (how.viewers > 0) {
      const Status status = gateway.Start({.listen = "127.0.0.1:0", .jobs = pages});
      if (!status.ok()) Fail(status.message());
      viewers = std::make_unique<OpenPages>(gateway.port(), how.viewers);
      viewers->AwaitFirst();
    }
    const double before = CpuSeconds();
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> senders;
    for (size_t sender = 0; sender < kSenders; ++sender) {
      senders.emplace_back([&, sender] {
        bool more = true;
        for (size_t i = 0; more; ++i) {  // as time goes by at all nodes
          more = false;
          for (size_t node = sender; node < job.messages.size(); node += kSenders) {
            if (i >= job.messages[node].size()) continue;
            collectors[node]->Send(job.messages[node][i]);
            more = true;
          }
        }
      });
    }
    for (std::thread& sender : senders) sender.join();
    while (server.jobs().at(0).records < job.records) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    spent.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    spent.processor = CpuSeconds() - before;
    if (server.jobs().at(0).dropped_events != 0) Fail("events were dropped");
    viewers.reset();
    gateway.Stop();
    pages->Stop();
    collectors.clear();
    server.Stop();
  }
  std::filesystem::remove_all(folder);
  return spent;
}

int Main(int argc, char** argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 10;
  const int replicas = argc > 2 ? atoi(argv[2]) : 4;
  if (steps < 1 || steps > 1000 || replicas < 1 || replicas > 128 ||
      (replicas > testing::kReplicasOfPod && replicas % testing::kReplicasOfPod != 0)) {
    std::fprintf(stderr,
                 "usage: bench_ingest [STEPS [REPLICAS]]   (1 to 1000; 1 to 8, 16, 24 ... 128)\n");
    return 2;
  }
  SilenceLog();
  const Job plain = Make(steps, replicas);
  Job packed = plain;
  for (std::vector<v1::ToAnalyzer>& messages : packed.messages) {
    for (v1::ToAnalyzer& message : messages) message = PackedMessage(message);
  }
  constexpr size_t kViewers = 200;
  // Twice, and the quicker one: the machine does other things, too.
  const auto best = [&](const Job& job, const How& how) {
    const Spent first = Measure(job, how), second = Measure(job, how);
    return first.seconds < second.seconds ? first : second;
  };
  const Spent packed_s = best(packed, {}), plain_s = best(plain, {});
  const Spent tls_s = best(packed, {.tls = true});
  const Spent viewed_s = best(packed, {.viewers = kViewers});
  const auto rate = [&](const Spent& spent) {
    return static_cast<double>(plain.records) / spent.seconds / 1e6;
  };
  const auto each = [&](const Spent& spent) {
    return spent.processor / static_cast<double>(plain.records) * 1e6;
  };
  std::printf("ingest: packed %.2f times as fast as plain over loopback\n",
              plain_s.seconds / packed_s.seconds);
  std::printf("  packed %.2f M records/s, plain %.2f M records/s   (goal: 1)\n", rate(packed_s),
              rate(plain_s));
  std::printf("TLS: %.2f of the records/s without it\n", packed_s.seconds / tls_s.seconds);
  std::printf("  with TLS %.2f M records/s\n", rate(tls_s));
  std::printf("%zu open pages: %.2f of the records/s without them   (goal: 0.95)\n", kViewers,
              packed_s.seconds / viewed_s.seconds);
  std::printf("  with the pages %.2f M records/s\n", rate(viewed_s));
  std::printf(
      "  processor time a record, both ends: packed %.2f us, plain %.2f us, TLS %.2f us, with "
      "pages "
      "%.2f us\n",
      each(packed_s), each(plain_s), each(tls_s), each(viewed_s));
  std::printf("  %llu records of %zu nodes, both ends in one process\n",
              static_cast<unsigned long long>(plain.records), plain.messages.size());
  return 0;
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) { return gordian::bench::Main(argc, argv); }
