// User objects: destructors of the application that run after the last graph, executable graph and
// launch that needs them.
#include <utility>

#include "emulator/engine/graph/graphs_impl.h"

namespace gordian::emu {

GraphsImpl::UserObjectEntry* GraphsImpl::FindUserObject(void* handle) {
  const auto at = objects_.find(handle);
  if (at == objects_.end()) return nullptr;
  if (!at->second.object.expired()) return &at->second;
  objects_.erase(at);
  return nullptr;
}

int GraphsImpl::CreateUserObject(void* data, void (*destroy)(void*), unsigned references,
                                 unsigned flags, void** object) {
  if (const int status = engine_.Initialize()) return status;
  // The only flag must be given: nothing synchronises with the destructor.
  if (object == nullptr || destroy == nullptr || flags != 1 || references == 0 ||
      references > INT32_MAX) {
    return kInvalidValue;
  }
  auto made = std::make_shared<UserObject>();
  made->data = data;
  made->destroy = destroy;
  Scheduler::Section section(*engine_.scheduler_);
  *object = made.get();
  objects_[made.get()] = {made, made, references};
  return kSuccess;
}

int GraphsImpl::RetainUserObject(void* handle, unsigned count) {
  if (!engine_.Ready()) return engine_.Initialize();
  Scheduler::Section section(*engine_.scheduler_);
  UserObjectEntry* const entry = FindUserObject(handle);
  if (entry == nullptr || count == 0 || count > INT32_MAX) return kInvalidValue;
  entry->references += count;
  entry->held = entry->object.lock();
  return kSuccess;
}

int GraphsImpl::ReleaseUserObject(void* handle, unsigned count) {
  if (!engine_.Ready()) return engine_.Initialize();
  std::shared_ptr<UserObject> dropped;
  Scheduler::Section section(*engine_.scheduler_);
  UserObjectEntry* const entry = FindUserObject(handle);
  // CUDA leaves releasing more references than one has undefined; the emulator refuses it.
  if (entry == nullptr || count == 0 || count > entry->references) return kInvalidValue;
  entry->references -= count;
  if (entry->references == 0) dropped = std::move(entry->held);
  return kSuccess;
}

int GraphsImpl::GraphRetainUserObject(void* graph_handle, void* handle, unsigned count, bool move) {
  if (!engine_.Ready()) return engine_.Initialize();
  std::shared_ptr<UserObject> dropped;
  Scheduler::Section section(*engine_.scheduler_);
  Graph* const graph = FindGraph(graph_handle);
  UserObjectEntry* const entry = FindUserObject(handle);
  if (graph == nullptr || entry == nullptr || count == 0 || count > INT32_MAX) return kInvalidValue;
  if (move && count > entry->references) return kInvalidValue;
  graph->user_objects[entry->object.lock()] += count;
  if (move) {
    entry->references -= count;
    if (entry->references == 0) dropped = std::move(entry->held);
  }
  return kSuccess;
}

int GraphsImpl::GraphReleaseUserObject(void* graph_handle, void* handle, unsigned count) {
  if (!engine_.Ready()) return engine_.Initialize();
  std::shared_ptr<UserObject> dropped;
  Scheduler::Section section(*engine_.scheduler_);
  Graph* const graph = FindGraph(graph_handle);
  UserObjectEntry* const entry = FindUserObject(handle);
  if (graph == nullptr || entry == nullptr || count == 0) return kInvalidValue;
  const auto at = graph->user_objects.find(entry->object.lock());
  if (at == graph->user_objects.end() || at->second < count) return kInvalidValue;
  at->second -= count;
  if (at->second == 0) {
    dropped = at->first;
    graph->user_objects.erase(at);
  }
  return kSuccess;
}

}  // namespace gordian::emu
