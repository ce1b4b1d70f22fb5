// Compiled plans on disk, in the compile cache: a program that an earlier process ran is neither
// scheduled nor lowered again. An entry is named by all that a plan follows from: the build, the
// flags, the devices and the graph.
#pragma once
#include "engine/plan.h"
#include "ir/target.h"

namespace mote {

// "" where plans are not kept: the cache is off, a pass is to be shown or checked, or loops are
// chosen by what searches found.
std::string plan_key(const Flat& flat);

// Null: there is none. Places of the user's program are those of `flat`.
std::shared_ptr<const CompiledPlan> stored_plan(const std::string& key, const Flat& flat);
void store_plan(const std::string& key, const Flat& flat, const CompiledPlan& plan);

}  // namespace mote
