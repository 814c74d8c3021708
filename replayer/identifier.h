// Names for generated programs.
#ifndef GORDIAN_REPLAYER_IDENTIFIER_H_
#define GORDIAN_REPLAYER_IDENTIFIER_H_

#include <set>
#include <string>

namespace gordian::replayer {

// What of it C++ and Python take as an identifier, in lower case: "dp", "tensor_parallel",
// "comm_3". Nothing of it: "comm". Keywords and what generated programs use themselves get a
// trailing "_".
std::string Identifier(const std::string& name);

// Gives names out once.
class UniqueNames {
 public:
  // `name`, or with a number behind it.
  std::string Take(const std::string& name);

 private:
  std::set<std::string> taken_;
};

}  // namespace gordian::replayer

#endif  // GORDIAN_REPLAYER_IDENTIFIER_H_
