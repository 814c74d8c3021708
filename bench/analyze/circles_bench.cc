// Compares how fast programs find a cycle in a wait-for graph: gordian's decider and witness
// search, Boost.Graph (strong_components; a depth-first search that stops at the first back edge),
// and NetworkX's find_cycle, which dl2 uses (find_cycle.py, in a process of its own). The graphs
// are the model's own, of training jobs (training_job.h) in which one rank calls two collectives in
// the wrong order, and of their twins, in which one rank never comes: there too all other ranks
// wait, but without a cycle.
//
//   bench_circles [MAX_RANKS]        default 4096
//
// Seconds are of processor time, medians, of one run, without making the graphs. The other programs
// have less to do: they find any cycle, and gordian the shortest one among waits that cannot end,
// which it decides by AND and OR. Exits with 1 if they do not agree on whether there is a cycle.
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <boost/graph/strong_components.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analyzer/ingest/graph_events.h"
#include "analyzer/model/verdict/job_model.h"
#include "analyzer/model/waits/cycle_finder.h"
#include "analyzer/model/waits/wait_for_graph.h"
#include "testing/jobs/training_job.h"

namespace gordian::bench {
namespace {

using model::LeafMask;
using model::WaitForGraph;
using testing::Fault;
using testing::TrainingJob;
using testing::TrainingShape;

// The first dozens also pay for what made the graph: glibc sorts up to 10,000 freed blocks in each
// large allocation.
constexpr int kRepetitions = 201;
constexpr int kLimitSeconds = 10;  // for NetworkX, whose search grows with the square of the graph

[[noreturn]] void Fail(const std::string& what) {
  std::fprintf(stderr, "bench_circles: %s\n", what.c_str());
  exit(1);
}

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

template <typename Function>
double MedianSeconds(Function function) {
  std::vector<double> seconds;
  for (int i = 0; i < kRepetitions; ++i) {
    const double begin = CpuSeconds();
    function();
    seconds.push_back(CpuSeconds() - begin);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// A job that stands still, and its wait-for graph.
class Stuck {
 public:
  explicit Stuck(const TrainingShape& shape) {
    TrainingJob job(shape);
    model::JobModel unused;
    analyzer::GraphEvents events(&unused);
    events.Tell([this](const model::ProcessInfo& info) { execution_.Start(info); },
                [this](const model::CallRecord& record) { execution_.Record(record); });
    events.TellRounds([this](const model::Round& round) {
      execution_.TakeRound(round);
      waits_ = std::make_unique<WaitForGraph>(execution_, matcher_, options_, round.begin_ns);
    });
    const TrainingJob::Sink feed = [&](int node, std::vector<v1::Event> all) {
      for (v1::Event& event : all) {
        TrainingJob::MakeUnique(node, &event);
        if (!events.OnEvent(event)) Fail("an event was dropped");
      }
    };
    job.Begin(feed);
    for (int step = 0; step < shape.steps; ++step) job.Step(step, feed);
    job.Sleep(50'000'000);
    if (!events.OnEvent(job.WholeRound(1))) Fail("the round was dropped");
  }

  const WaitForGraph& waits() const { return *waits_; }

 private:
  const model::ModelOptions options_;
  model::Matcher matcher_;
  model::ExecutionGraph execution_{&matcher_};
  std::unique_ptr<WaitForGraph> waits_;
};

using Edges = std::vector<std::pair<uint32_t, uint32_t>>;

Edges EdgesOf(const WaitForGraph& waits) {
  Edges edges;
  for (uint32_t n = 0; n < waits.nodes().size(); ++n) {
    for (const model::WaitNode::Edge& edge : waits.nodes()[n].out) edges.emplace_back(n, edge.to);
  }
  return edges;
}

using Csr = boost::compressed_sparse_row_graph<boost::directedS>;

struct BackEdge {};
struct StopAtBackEdge : boost::default_dfs_visitor {
  template <typename Edge, typename Graph>
  void back_edge(const Edge&, const Graph&) const {
    throw BackEdge();  // as Boost's documentation advises: a visitor cannot stop otherwise
  }
};

struct Measured {
  int ranks = 0;
  bool circle = false;  // there is one, in truth
  size_t nodes = 0, edges = 0, witness = 0;
  double ours = 0, components = 0, search = 0;
  std::string path;
};

void Write(const std::string& path, size_t nodes, const Edges& edges) {
  std::ofstream file(path, std::ios::binary);
  const auto put = [&file](uint32_t number) {
    const char bytes[4] = {static_cast<char>(number), static_cast<char>(number >> 8),
                           static_cast<char>(number >> 16), static_cast<char>(number >> 24)};
    file.write(bytes, sizeof(bytes));
  };
  put(static_cast<uint32_t>(nodes));
  put(static_cast<uint32_t>(edges.size()));
  for (const auto& [from, to] : edges) {
    put(from);
    put(to);
  }
  file.close();
  if (!file) Fail("cannot write " + path);
}

Measured Measure(int ranks, Fault fault, const std::string& folder) {
  TrainingShape shape;
  shape.tensor = ranks >= 64 ? 8 : 2;
  shape.pipeline = ranks >= 512 ? 16 : ranks >= 16 ? 4 : 2;
  shape.data = ranks / (shape.tensor * shape.pipeline);
  shape.fault = fault;
  const Stuck job(shape);
  const WaitForGraph& waits = job.waits();
  const Edges edges = EdgesOf(waits);
  Measured m;
  m.ranks = ranks;
  m.circle = fault == Fault::kInversion;
  m.nodes = waits.nodes().size();
  m.edges = edges.size();
  const std::string what =
      std::to_string(ranks) + (m.circle ? " ranks, a circle" : " ranks, no circle");
  m.ours =
      MedianSeconds([&] { m.witness = FindWitness(waits, waits.Decide(~LeafMask{0})).size(); });
  if ((m.witness != 0) != m.circle) Fail(what + ": ours is wrong");

  const Csr csr(boost::edges_are_unsorted_multi_pass, edges.begin(), edges.end(), m.nodes);
  std::vector<size_t> component(m.nodes);
  size_t components = 0;
  const auto of =
      boost::make_iterator_property_map(component.begin(), boost::get(boost::vertex_index, csr));
  m.components = MedianSeconds([&] { components = boost::strong_components(csr, of); });
  bool loop = false;
  for (const auto& [from, to] : edges) loop |= from == to;
  if ((components < m.nodes || loop) != m.circle) Fail(what + ": strong_components disagrees");

  std::vector<boost::default_color_type> colour(m.nodes);
  bool found = false;
  m.search = MedianSeconds([&] {
    std::fill(colour.begin(), colour.end(), boost::white_color);
    found = false;
    try {
      boost::depth_first_search(
          csr, StopAtBackEdge(),
          boost::make_iterator_property_map(colour.begin(), boost::get(boost::vertex_index, csr)));
    } catch (const BackEdge&) {
      found = true;
    }
  });
  if (found != m.circle) Fail(what + ": depth_first_search disagrees");

  m.path = folder + "/" + std::to_string(ranks) + (m.circle ? ".circle" : ".none");
  Write(m.path, m.nodes, edges);
  return m;
}

struct Slow {
  double seconds = 0;
  bool whole = true;  // false: it was broken off
};

// NetworkX's time for each.
std::vector<Slow> NetworkX(const std::vector<Measured>& all) {
  std::string command =
      std::string(GORDIAN_SYSTEM_PYTHON " " GORDIAN_FIND_CYCLE " ") + std::to_string(kLimitSeconds);
  for (const Measured& m : all) command += " '" + m.path + "'";
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) Fail("cannot start " + command);
  std::vector<Slow> times;
  for (const Measured& m : all) {
    Slow& one = times.emplace_back();
    long length = 0;
    if (std::fscanf(pipe, "%lf %ld", &one.seconds, &length) != 2) {
      Fail("find_cycle.py failed (it needs Debian's python3-networkx): " + command);
    }
    one.whole = length >= 0;
    if (one.whole && (length != 0) != m.circle)
      Fail(std::to_string(m.ranks) + " ranks: find_cycle disagrees");
  }
  const int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) Fail("find_cycle.py failed");
  return times;
}

int Main(int argc, char** argv) {
  const int most = argc > 1 ? atoi(argv[1]) : 4096;
  std::string folder = (std::filesystem::temp_directory_path() / "bench_circles.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) Fail("cannot make a temporary folder");
  std::vector<Measured> all;
  for (const int ranks : {8, 64, 512, 4096}) {
    if (ranks > most) break;
    all.push_back(Measure(ranks, Fault::kInversion, folder));
    all.push_back(Measure(ranks, Fault::kMissing, folder));
  }
  const std::vector<Slow> networkx = NetworkX(all);
  std::filesystem::remove_all(folder);
  for (size_t i = 0; i < all.size(); ++i) {
    const Measured& m = all[i];
    const double slow = networkx[i].seconds;
    const char* const least = networkx[i].whole ? "" : "more than ";
    std::printf(
        "circles, %4d ranks, %s: %s%.3g times as fast as NetworkX's find_cycle; Boost.Graph takes "
        "%.2f (components) and "
        "%.2f (depth first) of our time\n",
        m.ranks, m.circle ? "deadlock" : "its twin", least, slow / m.ours, m.components / m.ours,
        m.search / m.ours);
    std::printf(
        "  gordian %.3f ms, NetworkX %s%.3f ms, strong_components %.3f ms, depth_first_search %.3f "
        "ms; %zu nodes, %zu "
        "edges; %s\n",
        1e3 * m.ours, least, 1e3 * slow, 1e3 * m.components, 1e3 * m.search, m.nodes, m.edges,
        networkx[i].whole ? "all agree" : "the others agree");
  }
  return 0;
}

}  // namespace
}  // namespace gordian::bench

int main(int argc, char** argv) { return gordian::bench::Main(argc, argv); }
