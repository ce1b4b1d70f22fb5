// What programs of `mote bench wide` may call: functions of numbers and orders. Names and keywords
// are PyTorch's, so that the other side needs few lines of its own.
#include <mote/tensor.h>

#include "base/error.h"
#include "cli/bench_wide.h"
#include "ir/dtype.h"

namespace mote::wide {

namespace {

using Functions = std::map<std::string, Function, std::less<>>;

Value pair(const ValuesIndices& v) { return std::vector<Tensor>{v.values, v.indices}; }

DType dtype_of_argument(const Args& a, size_t place) {
  DType out = DType::none;
  check(parse_dtype(a.text(place, "dtype", ""), &out), "[bench] ", a.callee(), "() needs a dtype");
  return out;
}

void add_elementwise(Functions& f) {
#define MOTE_ADD(name) f[#name] = [](const Args& a) { return a.tensor(0).name(); };
  MOTE_UNARY(MOTE_ADD)
#undef MOTE_ADD
#define MOTE_ADD(name) f[#name] = [](const Args& a) { return a.tensor(0).name(a.operand(1)); };
  MOTE_BINARY(MOTE_ADD)
#undef MOTE_ADD
  f["add"] = [](const Args& a) { return a.tensor(0) + a.operand(1); };
  f["sub"] = [](const Args& a) { return a.tensor(0) - a.operand(1); };
  f["mul"] = [](const Args& a) { return a.tensor(0) * a.operand(1); };
  f["div"] = [](const Args& a) { return a.tensor(0) / a.operand(1); };
  f["clamp"] = [](const Args& a) { return a.tensor(0).clamp(a.operand(1), a.operand(2)); };
  f["lerp"] = [](const Args& a) { return a.tensor(0).lerp(a.tensor(1), a.operand(2)); };
  f["where"] = [](const Args& a) { return a.tensor(1).where(a.tensor(0), a.operand(2)); };
  f["addcmul"] = [](const Args& a) { return a.tensor(0).addcmul(a.tensor(1), a.tensor(2)); };
  f["masked_fill"] = [](const Args& a) {
    return a.tensor(0).masked_fill(a.tensor(1), a.operand(2));
  };
  f["gelu"] = [](const Args& a) {
    return a.tensor(0).gelu(a.text(1, "approximate", "none") == "tanh" ? "tanh" : "none");
  };
  f["elu"] = [](const Args& a) { return a.tensor(0).elu(); };
  f["leaky_relu"] = [](const Args& a) { return a.tensor(0).leaky_relu(); };
  f["softplus"] = [](const Args& a) { return a.tensor(0).softplus(); };
  f["glu"] = [](const Args& a) { return a.tensor(0).glu(a.integer(1, "dim", -1)); };
  f["to"] = [](const Args& a) { return a.tensor(0).to(dtype_of_argument(a, 1)); };
}

using Reduce = Tensor (Tensor::*)(const Axes&, bool, Loc) const;
using ReduceTo = Tensor (Tensor::*)(const Axes&, bool, DType, Loc) const;
Function reduction(Reduce f) {
  return [f](const Args& a) {
    return (a.tensor(0).*f)(a.ints(1, "dim", {}), a.flag(2, "keepdim"), Loc::current());
  };
}
Function reduction(ReduceTo f) {
  return [f](const Args& a) {
    return (a.tensor(0).*f)(a.ints(1, "dim", {}), a.flag(2, "keepdim"), DType::none,
                            Loc::current());
  };
}

void add_reductions(Functions& f) {
  f["sum"] = reduction(&Tensor::sum);
  f["mean"] = reduction(&Tensor::mean);
  f["prod"] = reduction(&Tensor::prod);
  f["amax"] = reduction(&Tensor::amax);
  f["amin"] = reduction(&Tensor::amin);
  f["any"] = reduction(&Tensor::any);
  f["all"] = reduction(&Tensor::all);
  f["logsumexp"] = reduction(&Tensor::logsumexp);
  f["var"] = [](const Args& a) { return a.tensor(0).var(a.ints(1, "dim", {})); };
  f["std"] = [](const Args& a) { return a.tensor(0).std(a.ints(1, "dim", {})); };
  f["norm"] = [](const Args& a) {
    return a.tensor(0).norm(a.number(1, "p", 2), a.ints(2, "dim", {}));
  };
  f["count_nonzero"] = [](const Args& a) {
    return a.tensor(0).count_nonzero(a.ints(1, "dim", {}));
  };
  f["argmax"] = [](const Args& a) {
    return a.count() > 1 ? a.tensor(0).argmax(a.integer(1, "dim")) : a.tensor(0).argmax();
  };
  f["argmin"] = [](const Args& a) {
    return a.count() > 1 ? a.tensor(0).argmin(a.integer(1, "dim")) : a.tensor(0).argmin();
  };
  f["max"] = [](const Args& a) { return pair(a.tensor(0).max(a.integer(1, "dim"))); };
  f["cumsum"] = [](const Args& a) { return a.tensor(0).cumsum(a.integer(1, "dim")); };
  f["cumprod"] = [](const Args& a) { return a.tensor(0).cumprod(a.integer(1, "dim")); };
  f["cummax"] = [](const Args& a) { return a.tensor(0).cummax(a.integer(1, "dim")).values; };
  f["logcumsumexp"] = [](const Args& a) { return a.tensor(0).logcumsumexp(a.integer(1, "dim")); };
}

void add_orders(Functions& f) {
  f["sort"] = [](const Args& a) {
    return a.tensor(0).sort(a.integer(1, "dim", -1), a.flag(2, "descending")).values;
  };
  f["argsort"] = [](const Args& a) { return a.tensor(0).argsort(a.integer(1, "dim", -1)); };
  f["topk"] = [](const Args& a) {
    return a.tensor(0).topk(a.integer(1, "k"), a.integer(2, "dim", -1)).values;
  };
  f["kthvalue"] = [](const Args& a) {
    return a.tensor(0).kthvalue(a.integer(1, "k"), a.integer(2, "dim", -1)).values;
  };
  f["median"] = [](const Args& a) { return a.tensor(0).median(a.integer(1, "dim")).values; };
}

void add_counts(Functions& f) {
  f["mode"] = [](const Args& a) { return a.tensor(0).mode(a.integer(1, "dim", -1)).values; };
  f["nanmedian"] = [](const Args& a) { return a.tensor(0).nanmedian(a.integer(1, "dim")).values; };
  f["quantile"] = [](const Args& a) {
    return a.tensor(0).quantile(a.number(1, "q", 0.5), a.ints(2, "dim", {}));
  };
  f["histc"] = [](const Args& a) { return a.tensor(0).histc(a.integer(1, "bins", 100)); };
  f["searchsorted"] = [](const Args& a) { return searchsorted(a.tensor(0), a.tensor(1)); };
  f["isin"] = [](const Args& a) { return isin(a.tensor(0), a.tensor(1)); };
  f["diff"] = [](const Args& a) { return a.tensor(0).diff(1, a.integer(1, "dim", -1)); };
}

void add_places(Functions& f) {
  f["gather"] = [](const Args& a) { return a.tensor(0).gather(a.integer(1, "dim"), a.tensor(2)); };
  f["index_select"] = [](const Args& a) {
    return a.tensor(0).index_select(a.integer(1, "dim"), a.tensor(2));
  };
  f["embedding"] = [](const Args& a) { return a.tensor(0).embedding(a.tensor(1)); };
  f["one_hot"] = [](const Args& a) { return a.tensor(0).one_hot(a.integer(1, "num_classes")); };
  f["scatter"] = [](const Args& a) {
    return a.tensor(0).scatter(a.integer(1, "dim"), a.tensor(2), a.operand(3));
  };
  f["scatter_add"] = [](const Args& a) {
    return a.tensor(0).scatter_add(a.integer(1, "dim"), a.tensor(2), a.tensor(3));
  };
  f["scatter_reduce"] = [](const Args& a) {
    return a.tensor(0).scatter_reduce(a.integer(1, "dim"), a.tensor(2), a.tensor(3),
                                      a.text(4, "reduce", "").c_str());
  };
  f["index_add"] = [](const Args& a) {
    return a.tensor(0).index_add(a.integer(1, "dim"), a.tensor(2), a.tensor(3));
  };
  f["index_copy"] = [](const Args& a) {
    return a.tensor(0).index_copy(a.integer(1, "dim"), a.tensor(2), a.tensor(3));
  };
}

void add_movement(Functions& f) {
  f["cat"] = [](const Args& a) { return cat(a.tensors(0), a.integer(1, "dim", 0)); };
  f["stack"] = [](const Args& a) { return stack(a.tensors(0), a.integer(1, "dim", 0)); };
  f["t"] = [](const Args& a) { return a.tensor(0).t(); };
  f["transpose"] = [](const Args& a) {
    return a.tensor(0).transpose(a.integer(1, "dim0"), a.integer(2, "dim1"));
  };
  f["permute"] = [](const Args& a) { return a.tensor(0).permute(a.ints(1, "dims", {})); };
  f["reshape"] = [](const Args& a) { return a.tensor(0).reshape(a.ints(1, "shape", {}).list); };
  f["contiguous"] = [](const Args& a) { return a.tensor(0).contiguous(); };
  f["flip"] = [](const Args& a) { return a.tensor(0).flip(a.ints(1, "dims", {})).contiguous(); };
  f["pad"] = [](const Args& a) {
    return a.tensor(0).pad(a.ints(1, "pad", {}), a.text(2, "mode", "constant").c_str());
  };
  f["roll"] = [](const Args& a) {
    return a.tensor(0).roll(a.ints(1, "shifts", {}), a.ints(2, "dims", {}));
  };
  f["tile"] = [](const Args& a) { return a.tensor(0).tile(a.ints(1, "dims", {})); };
  f["repeat_interleave"] = [](const Args& a) {
    return a.tensor(0).repeat_interleave(a.integer(1, "repeats"), a.integer(2, "dim"));
  };
  f["narrow"] = [](const Args& a) {
    return a.tensor(0).narrow(a.integer(1, "dim"), a.integer(2, "start"), a.integer(3, "length"));
  };
  f["every"] = [](const Args& a) {  // every(x, 2): along the last axis
    return a.tensor(0)(Ellipsis, Slice(None, None, a.integer(1, "step")));
  };
  f["tril"] = [](const Args& a) { return a.tensor(0).tril(); };
  f["pixel_shuffle"] = [](const Args& a) {
    return a.tensor(0).pixel_shuffle(a.integer(1, "factor"));
  };
  f["unfold"] = [](const Args& a) {  // along one axis
    return a.tensor(0)
        .unfold(a.integer(1, "dim"), a.integer(2, "size"), a.integer(3, "step"))
        .contiguous();
  };
}

void add_random(Functions& f) {
  f["rand"] = [](const Args& a) { return rand(a.all_integers()); };
  f["randn"] = [](const Args& a) { return randn(a.all_integers()); };
  f["randint"] = [](const Args& a) {
    return randint(a.integer(0, "low"), a.integer(1, "high"), a.ints(2, "size", {}).list);
  };
  f["randperm"] = [](const Args& a) { return randperm(a.integer(0, "n")); };
  f["dropout"] = [](const Args& a) { return a.tensor(0).dropout(a.number(1, "p", 0.5)); };
  f["bernoulli"] = [](const Args& a) { return a.tensor(0).bernoulli(); };
  f["multinomial"] = [](const Args& a) {
    return a.tensor(0).multinomial(a.integer(1, "num_samples"), true);
  };
}

Functions all_functions() {
  Functions f;
  add_elementwise(f);
  add_reductions(f);
  add_counts(f);
  add_orders(f);
  add_places(f);
  add_movement(f);
  add_random(f);
  add_layer_functions(f);
  return f;
}

}  // namespace

const Function* find_function(std::string_view name) {
  static const Functions all = all_functions();
  auto it = all.find(name);
  return it == all.end() ? nullptr : &it->second;
}

}  // namespace mote::wide
