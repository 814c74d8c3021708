#include "analyzer/stacks/call_symbols.h"

#include <string_view>
#include <unordered_map>

#include "proto/ring/calls.h"

namespace gordian::analyzer {
namespace {

bool StripSuffix(std::string_view* symbol, std::string_view suffix) {
  if (!symbol->ends_with(suffix)) return false;
  symbol->remove_suffix(suffix.size());
  return true;
}

// The symbol's row, or that of the symbol whose twin it is: twins are for per-thread default
// streams, and versioned driver symbols of other releases. Null: there is none.
const ring::CallInfo* FindRow(std::string_view symbol) {
  using Rows = std::unordered_map<std::string_view, const ring::CallInfo*>;
  static const Rows& rows = *[] {
    auto* const made = new Rows;  // of the process's lifetime
    for (const ring::CallInfo& row : ring::kCalls) made->try_emplace(row.name, &row);
    for (const ring::CallInfo& row : ring::effects::kTorchCalls) made->try_emplace(row.name, &row);
    return made;
  }();
  const auto find = [](std::string_view name) -> const ring::CallInfo* {
    const auto row = rows.find(name);
    return row == rows.end() ? nullptr : row->second;
  };
  if (const ring::CallInfo* const row = find(symbol); row != nullptr) return row;
  std::string_view base = symbol;
  if (StripSuffix(&base, "_ptsz") || StripSuffix(&base, "_ptds") || StripSuffix(&base, "_v2") ||
      StripSuffix(&base, "_v3")) {
    return find(base);
  }
  return nullptr;
}

}  // namespace

model::Call CallFromSymbol(std::string_view symbol) {
  const ring::CallInfo* const row = FindRow(symbol);
  return row == nullptr ? model::Call::kOther : row->meaning;
}

ring::PayloadKind PayloadFromSymbol(std::string_view symbol) {
  const ring::CallInfo* const row = FindRow(symbol);
  return row == nullptr ? ring::PayloadKind::kNone : row->payload;
}

}  // namespace gordian::analyzer
