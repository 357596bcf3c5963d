#include "launch.h"

#include <algorithm>
#include <numeric>

namespace surgeon
{

namespace
{

int64_t staged_bytes(StagedPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    return plan.stages * plan.images * channels * inner * size_of(type) + channels * int64_t(sizeof(float));
}

} // namespace

bool staged_fits(StagedPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    return kStAsync && device().clusters && plan.images > 0 && plan.stages <= kMostStages
        && plan.images * channels * inner % vector_elements(type) == 0
        && plan.threads + kStagedMover <= kMostStagedImageThreads
        && staged_bytes(plan, type, channels, inner) <= most_shared_of_block();
}

// Items of some KiB, or an image each, which begin on memory sectors if they can: elsewhere 8 channels of halves are at
// 0.86 to 0.90 of a copy rather than 0.95. Three of them, or two; so many threads that few have no column, and that
// there are three blocks where these have the memory.
StagedPlan plan_staged(Type type, int64_t channels, int64_t inner)
{
    constexpr int kFew = 16, kStages = 3, kBlocks = 3;
    constexpr int64_t kMostThreads = kMostStagedImageThreads - kStagedMover, kMostOfThree = 512;
    int64_t const size = size_of(type), image = channels * inner, item = ((channels < kFew ? 24 : 16) << 10) / size;
    auto const together = [&](int64_t elements) { return elements / std::gcd(image, elements); };
    int64_t const by_sectors = together(kSectorBytes / size);
    int64_t const step = by_sectors * image <= item ? by_sectors : together(kVectorBytes / size);
    int64_t const images = std::max(item / image / step, int64_t(1)) * step, columns = images * inner;
    int64_t const of_block = device().shared_bytes / kBlocks - kReservedOfBlock;
    bool const three = kStages * images * image * size <= of_block;
    int64_t const rounds = ceil_div(columns, three ? kMostOfThree : kMostThreads);
    StagedPlan plan{int(images), kStages, int(ceil_div(ceil_div(columns, rounds), int64_t(32)) * 32)};
    if (!staged_fits(plan, type, channels, inner))
        plan.stages = 2;
    return staged_fits(plan, type, channels, inner) ? plan : StagedPlan{0, 0, 0};
}

cudaError_t launch_l2norm_staged(StagedPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    int64_t const items = ceil_div(outer, int64_t(std::max(plan.images, 1)));
    if (!staged_fits(plan, type, channels, inner) || items > kMostBlocks)
        return cudaErrorInvalidValue;
    StagedImages const g{outer * channels * inner, unsigned(items), plan.images, int(channels), int(inner), plan.stages,
        FastDiv<uint32_t>(uint32_t(inner))};
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch_resident(l2norm_few_channels_kernel<T>, 1, plan.threads + kStagedMover,
            staged_bytes(plan, type, channels, inner), items, on, static_cast<T const*>(x), weight, static_cast<T*>(y),
            g, norm, tickets);
    });
}

} // namespace surgeon
