// Promotion, broadcasting, operators and the place an error names.
#include <doctest/doctest.h>
#include <mote/mote.h>

#include <source_location>
#include <string>
#include <vector>

#include "test/error_of.h"

using namespace mote;

namespace {

Tensor of(DType d, const Sizes& shape = {2}) { return zeros(shape, {d, "INTERP"}); }

}  // namespace

TEST_SUITE("tensor elementwise") {
  TEST_CASE("promotion: a number or a rank-0 tensor never widens within its category") {
    CHECK((of(int8) + 1000).dtype() == int8);
    CHECK((of(int32) + 0.5).dtype() == float32);
    CHECK((of(float16) + 0.5).dtype() == float16);
    CHECK((of(DType::boolean) + 1).dtype() == int64);
    CHECK((of(DType::boolean) + true).dtype() == DType::boolean);
    CHECK((of(float16) + of(float64, {})).dtype() == float16);
    CHECK((of(int32) + of(float64, {})).dtype() == float64);
    CHECK((of(int32, {}) + of(float16, {})).dtype() == float16);
    CHECK((of(float16) + of(bfloat16)).dtype() == float32);
    CHECK((of(uint8) + of(int8)).dtype() == int16);
    CHECK((of(int64) / of(int64)).dtype() == float32);
    CHECK((of(int64) < 0.5).dtype() == DType::boolean);
    CHECK(result_type(of(uint8), 3) == uint8);
  }

  TEST_CASE("operators take numbers on either side") {
    Tensor a = tensor({1.0, 2.0, 4.0}, {float32, "INTERP"});
    CHECK((2 - a).to_vector<float>() == std::vector<float>{1, 0, -2});
    CHECK((4 / a).to_vector<float>() == std::vector<float>{4, 2, 1});
    CHECK((-a * 2 + 1).to_vector<float>() == std::vector<float>{-1, -3, -7});
    CHECK((a >= 2).to_vector<bool>() == std::vector<bool>{false, true, true});
    CHECK((!(a == 2)).to_vector<bool>() == std::vector<bool>{true, false, true});
    CHECK((1 << a.to_int()).to_vector<int>() == std::vector<int>{2, 4, 16});
  }

  TEST_CASE("shapes broadcast from the right") {
    CHECK((of(float32, {3, 1}) + of(float32, {2, 1, 4})).shape() == std::vector<int64_t>{2, 3, 4});
    CHECK((of(float32, {0, 1}) + of(float32, {3})).shape() == std::vector<int64_t>{0, 3});
  }

  TEST_CASE("an error names the call, the shapes and the user's line") {
    Tensor a = of(float32, {2, 3}), b = of(float32, {4});
    auto here = [](std::source_location at = std::source_location::current()) {
      return std::string(at.file_name()) + ":" + std::to_string(at.line());
    };
    std::string place;
    std::string text = error_of([&] { place = here(), a + b; });
    CHECK(text ==
          "[add] shapes (2, 3) and (4) cannot be broadcast together: sizes 3 and 4 differ (" +
              place + ")");
    text = error_of([&] { place = here(), a.log_softmax(2); });
    CHECK(text ==
          "[log_softmax] axis 2 is out of range, expected -2 to 1 for a tensor with 2 axes (" +
              place + ")");
    CHECK(error_of([&] { Tensor() + 1; }).find("[add] the tensor is undefined") == 0);
    Tensor other = zeros({2, 3}, {float32, "CPU:1"});
    CHECK(error_of([&] { a* other; }).find("[mul] tensors are on the devices INTERP and CPU:1") ==
          0);
  }
}
