#include "launch.h"

#include <vector>

namespace surgeon
{

namespace
{

constexpr int kElementwisePacks = 4, kElementwiseThreads = 256;

template <class T>
int64_t elementwise_blocks(int64_t elements)
{
    return ceil_div(elements, int64_t(kElementwiseThreads * kElementwisePacks * kVectorBytes / sizeof(T)));
}

template <class U>
SlopeGeometry<U> slope_geometry(Tensor const& x, Tensor const& slope)
{
    struct Axis
    {
        int64_t extent, stride;
    };
    std::vector<Axis> axes; // innermost first
    int64_t stride = 1;
    for (int i = x.rank - 1; i >= 0; --i)
    {
        int const j = i - (x.rank - slope.rank);
        int64_t const own = j >= 0 ? slope.dims[j] : 1;
        Axis const axis{x.dims[i], own == 1 ? 0 : stride};
        stride *= own;
        if (axis.extent == 1)
            continue;
        if (!axes.empty() && axis.stride == axes.back().stride * (axis.stride ? axes.back().extent : 1)
            && (axis.stride != 0) == (axes.back().stride != 0))
            axes.back().extent *= axis.extent;
        else
            axes.push_back(axis);
    }
    if (axes.empty())
        axes.push_back(Axis{1, 0});
    SlopeGeometry<U> g{};
    g.rank = int(axes.size());
    for (int i = 0; i < g.rank; ++i)
    {
        g.extents[i] = FastDiv<U>(U(axes[i].extent));
        g.strides[i] = U(axes[i].stride);
    }
    return g;
}

} // namespace

cudaError_t leaky_relu(Attributes const& a, Tensor const& x, Tensor const& y, cudaStream_t on)
{
    int64_t const elements = x.elements();
    bool const stream = streams(2 * elements * size_of(x.type));
    return with_type(x.type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch_kernel(leaky_relu_kernel<T, kElementwisePacks>, elementwise_blocks<T>(elements),
            kElementwiseThreads, 0, on, static_cast<T const*>(x.data), static_cast<T*>(y.data), elements, a.alpha,
            stream);
    });
}

cudaError_t prelu(Tensor const& x, Tensor const& slope, Tensor const& y, cudaStream_t on)
{
    int64_t const elements = x.elements();
    bool const stream = streams(2 * elements * size_of(x.type));
    auto const launch = [&](auto tag, auto offset) {
        using T = typename decltype(tag)::type;
        using U = typename decltype(offset)::type;
        return launch_kernel(prelu_kernel<T, U, kElementwisePacks>, elementwise_blocks<T>(elements),
            kElementwiseThreads, 0, on, static_cast<T const*>(x.data), scalars(slope), static_cast<T*>(y.data),
            elements, slope_geometry<U>(x, slope), stream);
    };
    return with_type(x.type, [&](auto tag) {
        return elements < int64_t(1) << 31 ? launch(tag, Tag<uint32_t>{}) : launch(tag, Tag<uint64_t>{});
    });
}

} // namespace surgeon
