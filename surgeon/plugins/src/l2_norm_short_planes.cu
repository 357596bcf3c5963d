#include "launch.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

namespace surgeon
{

namespace
{

size_t short_planes_bytes(ShortPlanesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int64_t const vec = vector_elements(type), vectors = ceil_div(plan.images * channels * inner, vec) + 1;
    return size_t(vectors) * kVectorBytes + size_t(channels) * sizeof(float);
}

// Planes of INNER or more elements and at most kMostPlaneBytes.
template <int INNER, class T>
cudaError_t launch_short_planes(ShortPlanesPlan const& plan, T const* x, Scalars weight, T* y, int64_t outer,
    int64_t channels, int64_t inner, Norm norm, size_t shared, bool stream, cudaStream_t on)
{
    if constexpr (INNER * sizeof(T) > kMostPlaneBytes)
        return cudaErrorInvalidValue;
    else
    {
        if (inner > INNER)
            return launch_short_planes<INNER + 1>(
                plan, x, weight, y, outer, channels, inner, norm, shared, stream, on);
        using U = PlaneUnits<T, INNER>;
        auto* const kernel = l2norm_short_planes_kernel<T, INNER>;
        int count = 0;
        cudaError_t const status = resident_blocks(kernel, plan.threads, shared, count);
        if (status != cudaSuccess)
            return status;
        int64_t const blocks = ceil_div(outer, int64_t(plan.images));
        if (count == 0 || blocks > kMostBlocks)
            return cudaErrorInvalidConfiguration;
        int const steps_of_lane = std::max(int(channels) / U::PLANES / plan.lanes, 1);
        int const groups = std::max(U::BANKS / plan.lanes, 1); // that look at the memory at once
        ShortPlanes const g{outer, plan.images, int(channels), plan.lanes, groups / std::gcd(steps_of_lane, groups)};
        kernel<<<unsigned(blocks), plan.threads, shared, on>>>(x, weight, y, g, norm, stream);
        return cudaGetLastError();
    }
}

} // namespace

bool short_planes_fit(ShortPlanesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    bool const lanes = plan.lanes == plan.threads || (plan.lanes > 0 && 32 % plan.lanes == 0);
    return plan.images > 0 && lanes && plan.threads > 0 && plan.threads % 32 == 0
        && plan.threads <= kMostShortPlanesThreads && inner > 1 && inner * size_of(type) <= kMostPlaneBytes
        && short_planes_bytes(plan, type, channels, inner) <= kSharedOfMultiprocessor - kReservedOfBlock;
}

int knob(char const* name, int usual)
{
    char const* const s = std::getenv(name);
    return s ? std::atoi(s) : usual;
}

ShortPlanesPlan plan_short_planes(Type type, int64_t outer, int64_t channels, int64_t inner)
{
    int const kLane = knob("SP_LANE", 200), kThreads = knob("SP_THREADS", 128);
    int64_t const kSpan = knob("SP_SPAN", 24) << 10, kWide = knob("SP_WIDE", 16) << 10;
    int64_t const bytes = channels * inner * size_of(type);
    ShortPlanesPlan plan{1, 1, kThreads};
    if (bytes > kWide)
        plan.lanes = plan.threads = bytes > 2 * kWide ? 256 : 128;
    else
    {
        while (plan.lanes < 32 && bytes > plan.lanes * kLane)
            plan.lanes *= 2;
        if (bytes > kWide / 2)
            plan.threads = 64;
        int const groups = plan.threads / plan.lanes;
        plan.images = groups * int(std::max(kSpan / (groups * bytes), int64_t(1)));
    }
    return short_planes_fit(plan, type, channels, inner) ? plan : ShortPlanesPlan{0, 0, 0};
}

cudaError_t launch_l2norm_short_planes(ShortPlanesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t on)
{
    if (!short_planes_fit(plan, type, channels, inner))
        return cudaErrorInvalidValue;
    bool const stream = streams(2 * outer * channels * inner * size_of(type));
    size_t const shared = short_planes_bytes(plan, type, channels, inner);
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch_short_planes<2>(plan, static_cast<T const*>(x), weight, static_cast<T*>(y), outer, channels,
            inner, norm, shared, stream, on);
    });
}

} // namespace surgeon
