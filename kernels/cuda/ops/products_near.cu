// Products of rows, segments and columns of floats by walking along them in two doubles.
#include "kernels/cuda/pass/product_walk.cuh"
#include "kernels/cuda/pass/walk_near.cuh"

namespace rk {

WalkFn near_product_kernel(int dtype, NearShape shape)
{
    switch (dtype) {
    case RP_F16:
        return near_walk<ProductWalk<RP_F16>>(shape);
    case RP_BF16:
        return near_walk<ProductWalk<RP_BF16>>(shape);
    case RP_F32:
        return near_walk<ProductWalk<RP_F32>>(shape);
    default:
        return near_walk<ProductWalk<RP_F64>>(shape);
    }
}

} // namespace rk
