// A picture of a loss curve.
#pragma once
#include <span>
#include <string>

namespace mote {

// An SVG document: every step's loss, faint, and a smoothed line, over axes with round ticks.
// Losses that are not finite are left out.
std::string loss_plot(std::span<const float> losses, const std::string& title);

}  // namespace mote
