#include <ATen/TensorOperators.h>
#include <ATen/Parallel.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <vector>

#include "troupe/engine/fused/activation_operators.hpp"
#include "troupe/engine/fused/column_sums.hpp"
#include "troupe/engine/fused/layer_kernels.hpp"
#include "troupe/engine/fused/norm_operators.hpp"

using namespace troupe;
using fused::activation;

TEST_CASE("scratch"){
  for (auto* k: fused::usable_layers()) { fused::use_layers(k);
   for (auto w : {activation::gelu, activation::gelu_tanh, activation::silu}) {
     for (auto range : {std::pair(-13.,-6.),std::pair(-6.,-3.),std::pair(-3.,-1.),std::pair(-1.,0.),std::pair(0.,1.),std::pair(1.,3.),std::pair(3.,20.)}) {
     const auto x = at::linspace(range.first,range.second,100003);
     const auto y = fused::activate(x, w).to(at::kDouble);
     const auto g = fused::activate_backward(at::ones_like(x),x, w).to(at::kDouble);
     const auto X=x.to(at::kDouble);
     const auto o = at::ones_like(X);
     // exact by erfc
     at::Tensor e, s;
     if (w==activation::silu) { e=at::silu(X); s=at::silu_backward(o,X);}
     else if (w==activation::gelu) { e = X*0.5*(X*-0.7071067811865476).erfc(); s=e/X+X*(X*X*-.5).exp()*0.3989422804014327;}
     else { e = X/((X*-1.5957691216057308*(1+0.044715*X*X)).exp()+1); s=at::gelu_backward(o,X,"tanh");}
     const auto rel=((y-e)/e).abs(); const auto rs=((g-s).abs()/s.abs()); 
     fmt::print("{} {} [{},{}] value {:.2f} eps; slope {:.2f} eps abs {:.2f} (LibTorch value {:.2f})\n", k->name, int(w), range.first, range.second, rel.nan_to_num(0).max().item<double>()*16777216, rs.max().item<double>()*16777216, (g-s).abs().max().item<double>()*16777216,
       (((w==activation::silu?at::silu(x):at::gelu(x,w==activation::gelu?"none":"tanh")).to(at::kDouble)-e)/e).abs().nan_to_num(0).max().item<double>()*16777216);
     }
   }
   for (auto width: {7,64,1024}) for (double off: {0.,100.}) {
     auto x = at::randn({130,width})+off, wt=at::randn({width}), b=at::randn({width}), gr=at::randn({130,width}), ad=at::randn({130,width});
     auto d=[](auto t){return t.to(at::kDouble);};
     for (auto bb : {b, at::Tensor()}) {
     auto n=fused::normalize(x,wt,bb,1e-5); auto N=fused::normalize(d(x),d(wt),bb.defined()?d(bb):bb,1e-5);
     auto q=fused::normalize_backward(gr,x,n,wt,bb.defined(),ad); auto Q=fused::normalize_backward(d(gr),d(x),N,d(wt),bb.defined(),d(ad));
     auto err=[&](auto a, auto A){ return a.defined()? (d(a)-A).abs().max().template item<double>()/A.abs().max().template item<double>()*16777216:-1;};
     fmt::print("{} norm {} off {}: y {:.2f} mean {:.2f} scale {:.2f} dx {:.2f} dw {:.2f} db {:.2f}\n", k->name,width,off,err(n.output,N.output),err(n.mean,N.mean),err(n.scale,N.scale),err(q.x,Q.x),err(q.weight,Q.weight),err(q.bias,Q.bias));
     }
     at::Tensor s,S; fused::add_column_sums(s,x,at::kFloat); fused::add_column_sums(S,d(x),at::kDouble);
     fmt::print("sum {}\n", ((d(s)-S)/S.abs().max()).abs().max().item<double>()*16777216);
   }
  }
}
