#include "analyzer/stacks/source_book.h"

#include <utility>

#include "analyzer/ingest/graph_events.h"

namespace gordian::analyzer {
namespace {

// A node is asked for at most kMostExcerpts at a time, of some 1 KiB each, a few times in a job.
constexpr size_t kMostBytesOfNode = 512u << 10;
constexpr size_t kMostBytes = 16u << 20;
constexpr size_t kMostFunction = 1'024;
constexpr size_t kSmall = 64;  // of a string, and what the book adds to it

SourceExcerpt ExcerptOf(const v1::SitePlace& place) {
  SourceExcerpt excerpt{.path = place.file(),
                        .line = place.line(),
                        .first_line = place.first_line(),
                        .lines = {place.lines().begin(), place.lines().end()}};
  MakeHarmless(&excerpt);
  return excerpt;
}

size_t BytesOf(const SourceExcerpt& excerpt) {
  size_t bytes = 2 * (excerpt.path.size() + kSmall);
  for (const std::string& line : excerpt.lines) bytes += line.size() + kSmall;
  return bytes;
}

}  // namespace

void BoundPlaces(v1::StacksTaken* taken) {
  if (taken->sites_size() > static_cast<int>(kMostExcerpts)) {
    taken->mutable_sites()->DeleteSubrange(kMostExcerpts,
                                           taken->sites_size() - static_cast<int>(kMostExcerpts));
  }
  for (v1::SitePlace& place : *taken->mutable_sites()) {
    if (place.function().size() > kMostFunction) place.clear_function();
    SourceExcerpt excerpt = ExcerptOf(place);
    if (excerpt.path.empty()) place.clear_file();
    place.clear_lines();
    for (std::string& line : excerpt.lines) place.add_lines(std::move(line));
  }
}

void SourceBook::OnEvent(const v1::Event& event) {
  if (event.has_node_joined()) {
    const std::lock_guard lock(mutex_);
    on_nodes_ = true;
  }
  if (!event.has_stacks_taken()) return;
  const uint32_t node = event.stacks_taken().process() / kProcessesOfNode;
  size_t more = kMostExcerpts;  // a trace may be anybody's
  for (const v1::SitePlace& place : event.stacks_taken().sites()) {
    if (more-- == 0) break;
    SourceExcerpt excerpt = ExcerptOf(place);
    if (excerpt.lines.empty()) continue;
    const size_t bytes = BytesOf(excerpt);
    const std::lock_guard lock(mutex_);
    size_t& of_node = bytes_of_[node];
    if (of_node + bytes > kMostBytesOfNode || bytes_ + bytes > kMostBytes) break;
    // By the name as it was sent: that is how the site is known.
    if (excerpts_.try_emplace(Key(place.file(), place.line(), node), std::move(excerpt)).second) {
      of_node += bytes;
      bytes_ += bytes;
    }
  }
}

bool SourceBook::on_nodes() const {
  const std::lock_guard lock(mutex_);
  return on_nodes_;
}

SourceExcerpt SourceBook::Find(model::ProcessId process, const std::string& file, int line) const {
  const std::lock_guard lock(mutex_);
  auto found = excerpts_.find(Key(file, line, process / kProcessesOfNode));
  if (found == excerpts_.end()) found = excerpts_.lower_bound(Key(file, line, 0));
  if (found == excerpts_.end() || std::get<0>(found->first) != file ||
      std::get<1>(found->first) != line) {
    return {.path = file, .line = line};
  }
  return found->second;
}

}  // namespace gordian::analyzer
