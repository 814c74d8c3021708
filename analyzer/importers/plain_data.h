// Plain data from an untrusted file: numbers, text, lists and dictionaries, as in pickles and JSON.
// Values lie in one arena and refer to each other by index, so a value that the file names twice
// exists once, and a list that contains itself is harmless.
//
// Do not walk it as a tree without a bound: it may be shared, deep or cyclic. Not thread-safe.
// Never throws.
#ifndef GORDIAN_ANALYZER_IMPORTERS_PLAIN_DATA_H_
#define GORDIAN_ANALYZER_IMPORTERS_PLAIN_DATA_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/budget.h"
#include "common/status.h"

namespace gordian::importers {

class PlainData {
 public:
  using Index = uint32_t;
  enum class Kind : uint8_t { kNull, kBool, kInt, kFloat, kText, kList, kDict };

  // Small: a hostile pickle makes one of each byte. Texts, lists and dictionaries lie in pools.
  struct Node {
    Kind kind = Kind::kNull;
    uint32_t length = 0;  // of a text
    union {
      uint64_t place = 0;  // of a text, list or dictionary in its pool
      bool boolean;
      int64_t integer;
      double number;
    };
  };
  using List = std::vector<Index>;                     // of tuples, lists, sets
  using Items = std::vector<std::pair<Index, Index>>;  // of dictionaries, in the file's order

  // A value and its data. Cheap to copy; valid as long as the data.
  class View {
   public:
    View() = default;
    View(const PlainData* data, Index at) : data_(data), at_(at) {}

    // A view of nothing is null, and so is everything in it: one check covers a chain of look-ups.
    Kind kind() const { return data_ == nullptr ? Kind::kNull : node().kind; }
    bool is_null() const { return kind() == Kind::kNull; }
    std::optional<int64_t> AsInt() const;  // also of digits in a text, as some JSON writers emit
    std::optional<bool> AsBool() const;
    std::string_view AsText() const;              // "" for other kinds
    size_t size() const;                          // of a list or dictionary
    View operator[](size_t i) const;              // of a list
    View operator[](std::string_view key) const;  // of a dictionary whose keys are text
    // The i-th entry of a dictionary: its key as text (numbers in decimal), and its value.
    std::pair<std::string, View> Item(size_t i) const;

   private:
    const Node& node() const { return data_->nodes_[at_]; }
    const List& list() const { return data_->lists_[node().place]; }
    const Items& items() const { return data_->dicts_[node().place]; }
    const PlainData* data_ = nullptr;
    Index at_ = 0;
  };

  View root() const { return nodes_.empty() ? View() : View(this, root_); }

  Index Add(Node node) {
    nodes_.push_back(node);
    return static_cast<Index>(nodes_.size() - 1);
  }
  Index AddBool(bool value);
  Index AddInt(int64_t value);
  Index AddFloat(double value);
  Index AddText(std::string_view value);
  Index AddList(List list = {});
  Index AddDict();
  Kind KindOf(Index i) const { return nodes_[i].kind; }
  // Of one that is.
  void Append(Index list, const List& values);
  void Append(Index dict, Index key, Index value);
  size_t nodes() const { return nodes_.size(); }
  // Memory that it takes, roughly.
  uint64_t bytes() const { return nodes_.size() * sizeof(Node) + texts_.size() + pooled_; }
  void SetRoot(Index root) { root_ = root; }

 private:
  std::vector<Node> nodes_;
  std::string texts_;
  std::vector<List> lists_;
  std::vector<Items> dicts_;
  uint64_t pooled_ = 0;  // bytes of lists and dictionaries
  Index root_ = 0;
};

// Reads Python's pickle, protocols 0 to 5, as far as it builds plain data. Refuses, by name, any
// opcode that imports, calls, builds an object or reaches outside of the file: reading never runs
// code. Facts: CPython's pickletools. Errors give the offset.
StatusOr<PlainData> ReadPickle(std::string_view bytes);

// Reads JSON, RFC 8259.
StatusOr<PlainData> ReadJson(std::string_view bytes);

}  // namespace gordian::importers

#endif  // GORDIAN_ANALYZER_IMPORTERS_PLAIN_DATA_H_
