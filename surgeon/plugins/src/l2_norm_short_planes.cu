#include "launch.h"

#include <algorithm>
#include <numeric>

namespace surgeon
{

namespace
{

int64_t short_planes_bytes(ShortPlanesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int64_t const vec = vector_elements(type), vectors = ceil_div(plan.images * channels * inner, vec) + 1;
    return vectors * kVectorBytes + channels * int64_t(sizeof(float));
}

// Planes of INNER or more elements and at most kMostPlaneBytes.
template <int INNER, class T>
cudaError_t launch_short_planes(ShortPlanesPlan const& plan, T const* x, Scalars weight, T* y, ShortPlanes g,
    int64_t inner, Norm norm, size_t shared, bool stream, cudaStream_t on)
{
    if constexpr (INNER * sizeof(T) > kMostPlaneBytes)
        return cudaErrorInvalidValue;
    else
    {
        if (inner > INNER)
            return launch_short_planes<INNER + 1>(plan, x, weight, y, g, inner, norm, shared, stream, on);
        using U = PlaneUnits<T, INNER>;
        auto* const kernel = l2norm_short_planes_kernel<T, INNER>;
        int count = 0;
        cudaError_t const status = resident_blocks(kernel, plan.threads, shared, count);
        if (status != cudaSuccess || count == 0)
            return status != cudaSuccess ? status : cudaErrorInvalidConfiguration;
        int const steps_of_lane = std::max(g.channels / U::PLANES / plan.lanes, 1);
        int const groups = std::max(U::BANKS / plan.lanes, 1); // that look at the memory at once
        g.cycle = groups / std::gcd(steps_of_lane, groups);
        int64_t const blocks = ceil_div(g.outer, int64_t(g.images));
        if (blocks > kMostBlocks)
            return cudaErrorInvalidValue;
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
        && short_planes_bytes(plan, type, channels, inner) <= most_shared_of_block();
}

// Some images by 128 threads. A larger one has a block to itself, so that others' come and go meanwhile, of as many
// threads as ask for all weights at once, and of more where adding their sums is still little beside the rest. Weights
// that are nearly as large as an image are for several.
ShortPlanesPlan plan_short_planes(Type type, int64_t outer, int64_t channels, int64_t inner, bool weighted)
{
    constexpr int64_t kMostOfLane = 200, kMostTogether = 6 << 10, kSpan = 24 << 10, kFewest = 64, kHeavy = 8;
    int64_t const plane = inner * size_of(type), bytes = channels * plane, part = inner <= 8 ? 128 : 160;
    ShortPlanesPlan plan{1, 1, 128};
    if (bytes > (weighted && plane < kHeavy ? 2 * kMostTogether : kMostTogether))
    {
        int64_t const at_once = ceil_div(channels, int64_t(kWeightVectorsAtOnce * vector_elements(type)));
        int64_t const fewest = weighted ? std::max(kFewest, at_once) : kFewest;
        plan.threads = kMostShortPlanesThreads;
        while (plan.threads >= 2 * fewest && bytes < plan.threads * part)
            plan.threads /= 2;
        plan.lanes = plan.threads;
    }
    else
    {
        while (plan.lanes < 32 && bytes > plan.lanes * kMostOfLane)
            plan.lanes *= 2;
        int64_t const groups = plan.threads / plan.lanes, fair = outer / (groups * device().multiprocessors);
        plan.images = int(groups * std::max(std::min(kSpan / (groups * bytes), fair), int64_t(1)));
    }
    return short_planes_fit(plan, type, channels, inner) ? plan : ShortPlanesPlan{0, 0, 0};
}

cudaError_t launch_l2norm_short_planes(ShortPlanesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, cudaStream_t on)
{
    if (!short_planes_fit(plan, type, channels, inner))
        return cudaErrorInvalidValue;
    ShortPlanes const g{outer, plan.images, int(channels), plan.lanes, 1};
    bool const stream = streams(2 * outer * channels * inner * size_of(type));
    size_t const shared = short_planes_bytes(plan, type, channels, inner);
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch_short_planes<2>(plan, static_cast<T const*>(x), weight, static_cast<T*>(y), g, inner, norm,
            shared, stream, on);
    });
}

} // namespace surgeon
