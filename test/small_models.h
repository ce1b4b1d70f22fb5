// Models that are small enough to run in a test, and what they are given.
#pragma once
#include <mote/models.h>
#include <mote/mote.h>

namespace mote::test {

// clang-format off
inline models::LlamaConfig small_llama(int64_t context = 8) {
  return {.features = 16, .layers = 2, .heads = 4, .kv_heads = 2, .hidden = 32, .vocabulary = 11,
          .context = context};
}
inline models::BertConfig small_bert(int64_t features) {
  return {.layers = 1, .heads = 2, .features = features, .hidden = 2 * features, .vocabulary = 13,
          .positions = 6, .dropout = 0};
}
inline models::Bert::Batch small_bert_batch() {
  return {tensor({{1, 2, 3, 4, 5, 6}}), tensor({{1, 1, 1, 1, 1, 0}}), tensor({{0, 0, 0, 1, 1, 1}}),
          tensor({{1, 4}}), tensor({{7, 8}}), tensor({1})};
}
// clang-format on

}  // namespace mote::test
