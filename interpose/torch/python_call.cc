// A function of Python that calls another one, and the front end before and after it.
//
// A wrapper in Python would be a frame of its own in the tracebacks of the job; a function in C is
// none. The front end hands over the interpreter's functions, so that the shim needs no Python: those
// of its stable ABI, and from 3.11 on two that keep debuggers and profilers out of the front end.
#include <stddef.h>
#include <stdint.h>

#include "interpose/torch/torch_api.h"

namespace gordian::interpose {
namespace {

// As in interpose/python/gordian_torch/shim.py.
constexpr uint32_t kRunsOthers = UINT32_MAX;
constexpr uint32_t kOutsideOfPyTorch = UINT32_MAX - 1;

// As interpose/python/gordian_torch/shim.py fills it.
struct Python {
  void* (*tuple_item)(void* tuple, ptrdiff_t at);
  void* (*call)(void* callable, void* arguments, void* keywords);
  void* (*call_with)(void* callable, ...);
  void (*fetch)(void** type, void** value, void** traceback);
  void (*restore)(void* type, void* value, void* traceback);
  void (*clear)();
  void (*increase)(void* object);
  void (*decrease)(void* object);
  unsigned long long (*number)(void* object);  // modulo 2^64
  void* (*make_number)(unsigned long long number);
  void* (*type)(void* object);
  void* (*thread)();
  void (*enter_tracing)(void* thread);  // PyThreadState_EnterTracing; null: this Python has none
  void (*leave_tracing)(void* thread);
  void* none;
  void* long_type;
  void* failed;  // stands for the result of a function that raised
};

constinit Python g_python = {};

}  // namespace
}  // namespace gordian::interpose

// Before the first gordian_torch_call.
GORDIAN_API void gordian_torch_python(const gordian::interpose::Python* python) {
  gordian::interpose::g_python = *python;
}

namespace gordian::interpose {
namespace {

// While it lives, a debugger that steps through the job does not step through the front end.
class Untraced {
 public:
  Untraced() : thread_(g_python.enter_tracing != nullptr ? g_python.thread() : nullptr) {
    if (thread_ != nullptr) g_python.enter_tracing(thread_);
  }
  ~Untraced() {
    if (thread_ != nullptr) g_python.leave_tracing(thread_);
  }
  Untraced(const Untraced&) = delete;
  Untraced& operator=(const Untraced&) = delete;

 private:
  void* const thread_;
};

void* CallBefore(void* self, void* arguments, void* keywords) {
  const Untraced untraced;
  return g_python.call(g_python.tuple_item(self, 0), arguments, keywords);
}

bool IsNumber(void* object) {
  void* const type = g_python.type(object);
  if (type == nullptr) return false;
  g_python.decrease(type);
  return type == g_python.long_type;
}

// after(token, what the function has given). Gives that again, or null with its exception.
void* CallAfter(void* self, void* token, void* result) {
  const Python& python = g_python;
  void *type = nullptr, *value = nullptr, *traceback = nullptr;
  if (result == nullptr) python.fetch(&type, &value, &traceback);
  void* after;
  {
    const Untraced untraced;
    after = python.call_with(python.tuple_item(self, 2), token,
                             result != nullptr ? result : python.failed, nullptr);
  }
  if (after != nullptr) {
    python.decrease(after);
  } else if (result != nullptr) {
    python.decrease(result);
    return nullptr;
  } else {
    python.clear();
  }
  if (result == nullptr) python.restore(type, value, traceback);
  return result;
}

}  // namespace
}  // namespace gordian::interpose

// A PyCFunctionWithKeywords. `self` is the tuple (before, function, after): calls
// before(*args, **kwargs), the function with the same arguments, and, where `before` has returned
// anything but None, after(what that was, its result, or Python::failed if it raised). Passes on the
// function's result or exception; those of the other two are dropped, but for what is no Exception:
// before() may be interrupted from the keyboard, and then that is passed on.
GORDIAN_API void* gordian_torch_call(void* self, void* arguments, void* keywords) {
  using namespace gordian::interpose;
  const Python& python = g_python;
  void* const token = CallBefore(self, arguments, keywords);
  if (token == nullptr) return nullptr;
  void* result = python.call(python.tuple_item(self, 1), arguments, keywords);
  if (token != python.none) result = CallAfter(self, token, result);
  python.decrease(token);
  return result;
}

// The same for calls that C++ may see too (EnterTorchCall). A number from before() is the line of
// the job in its lower half, and the group in its upper one, or kRunsOthers: what the function does
// is then recorded where it is seen, and after() is not called. kOutsideOfPyTorch is the same, but
// within a call of PyTorch that one's line stands. Else the front end records it.
GORDIAN_API void* gordian_torch_method(void* self, void* arguments, void* keywords) {
  using namespace gordian::interpose;
  const Python& python = g_python;
  void* const token = CallBefore(self, arguments, keywords);
  if (token == nullptr) return nullptr;
  if (token == python.none) {
    python.decrease(token);
    return python.call(python.tuple_item(self, 1), arguments, keywords);
  }
  const bool only_line = IsNumber(token);
  const uint64_t number = only_line ? python.number(token) : 0;
  const uint64_t line = number & UINT32_MAX;
  const auto upper = static_cast<uint32_t>(number >> 32);
  if (upper == kOutsideOfPyTorch && WithinTorchCall()) {
    python.decrease(token);
    return python.call(python.tuple_item(self, 1), arguments, keywords);
  }
  const bool runs_others = upper == kRunsOthers || upper == kOutsideOfPyTorch;
  TorchCall outer = {};
  EnterTorchCall(runs_others ? gordian::ring::kNoId : upper,
                 line != 0 ? gordian::ring::kTextSite | line : 0, !only_line, runs_others, &outer);
  void* result = python.call(python.tuple_item(self, 1), arguments, keywords);
  LeaveTorchCall(result == nullptr, outer);
  if (!only_line) result = CallAfter(self, token, result);
  python.decrease(token);
  return result;
}

// The functions of torch_api.cc that each operation takes, for Python without ctypes, which takes a
// microsecond for each: PyCFunctions of a tuple of numbers.

namespace gordian::interpose {
namespace {

uint64_t Number(void* arguments, ptrdiff_t at) {
  return g_python.number(g_python.tuple_item(arguments, at));
}
template <typename T>
T Argument(void* arguments, ptrdiff_t at) {
  return static_cast<T>(Number(arguments, at));
}
void* None() {
  g_python.increase(g_python.none);
  return g_python.none;
}

}  // namespace
}  // namespace gordian::interpose

GORDIAN_API void* gordian_torch_py_operation(void*, void* arguments) {
  using namespace gordian::interpose;
  return g_python.make_number(gordian_torch_operation(
      Argument<uint32_t>(arguments, 0), Argument<uint32_t>(arguments, 1),
      Argument<int32_t>(arguments, 2), Number(arguments, 3), Argument<uint32_t>(arguments, 4),
      Number(arguments, 5), Number(arguments, 6)));
}
GORDIAN_API void* gordian_torch_py_wait(void*, void* arguments) {
  using namespace gordian::interpose;
  gordian_torch_wait(Argument<uint32_t>(arguments, 0), Argument<uint32_t>(arguments, 1),
                     Number(arguments, 2), Argument<uint32_t>(arguments, 3), Number(arguments, 4),
                     Number(arguments, 5));
  return None();
}
GORDIAN_API void* gordian_torch_py_waited(void*, void* arguments) {
  using namespace gordian::interpose;
  gordian_torch_waited(Argument<uint32_t>(arguments, 0), Argument<int32_t>(arguments, 1));
  return None();
}
