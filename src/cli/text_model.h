// What a GPT by characters needs beside its weights, to and from the settings of a checkpoint.
#pragma once
#include <mote/data.h>
#include <mote/models.h>

#include "cli/settings.h"

namespace mote {

// What settings may say of a GPT.
constexpr Range kGptLayers = {1, 4096}, kGptWidth = {1, 1 << 20}, kGptContext = {1, 1 << 24},
                kGptDropout = {0, 1};
// The sizes that settings say, by default nanoGPT's for a CPU. An error where the device has no
// memory for such a network.
models::GptConfig gpt_config(Settings&, int64_t vocabulary);
// All characters in the order of their tokens, as text, and back.
std::string alphabet(const data::Characters&);
data::Characters characters_from(const std::string& alphabet);
// Puts the alphabet into the settings, so that a trained model speaks without the text it learned
// from. Where they have one of a checkpoint already, another is an error.
void keep_alphabet(Settings&, const data::Characters&, const std::string& path);
// So many characters after the prompt, which stands before them; by default a line begins. Fewer
// where a signal came (interrupt.h).
std::string write_text(models::Gpt&, const data::Characters&, const std::string& prompt,
                       int64_t count, const models::SamplerOptions&);

}  // namespace mote
