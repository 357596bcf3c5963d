#include "launch.h"

#include <algorithm>

namespace surgeon
{

namespace
{

int64_t staged_bytes(StagedPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int const elements = int(plan.images * channels * inner);
    int const room = type == Type::kFloat ? stage_room<float>(elements) : stage_room<__half>(elements);
    return int64_t(plan.stages) * room * size_of(type) + channels * int64_t(sizeof(float));
}

} // namespace

bool staged_fits(StagedPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    return kStAsync && device().clusters && plan.images > 0 && plan.stages <= kMostStages
        && plan.images * channels * inner <= device().shared_bytes
        && plan.threads + kStagedMover <= kMostStagedImageThreads
        && staged_bytes(plan, type, channels, inner) <= most_shared_of_block();
}

// That a multiprocessor works on at once.
int staged_columns(StagedPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    constexpr int kMostThreads = 1344; // that a multiprocessor has the registers for
    int64_t const bytes = staged_bytes(plan, type, channels, inner) + kReservedOfBlock;
    int64_t const blocks = std::min<int64_t>(device().shared_bytes / bytes, kMostThreads / (plan.threads + kStagedMover));
    return int(blocks * std::min<int64_t>(plan.images * inner, plan.threads));
}

// Items of some KiB, or an image each. Three of them, or two; so many threads that few have no column, and that there are
// three blocks where these have the memory.
StagedPlan plan_staged(Type type, int64_t channels, int64_t inner)
{
    constexpr int kFew = 16, kStages = 3, kBlocks = 3;
    constexpr int64_t kMostThreads = kMostStagedImageThreads - kStagedMover, kMostOfThree = 512;
    int64_t const size = size_of(type), image = channels * inner, item = ((channels < kFew ? 24 : 16) << 10) / size;
    int64_t const images = std::max(item / image, int64_t(1)), columns = images * inner;
    int64_t const of_block = device().shared_bytes / kBlocks - kReservedOfBlock;
    bool const three = kStages * images * image * size <= of_block;
    int64_t const rounds = ceil_div(columns, three ? kMostOfThree : kMostThreads);
    StagedPlan plan{int(images), kStages, int(ceil_div(ceil_div(columns, rounds), int64_t(32)) * 32)};
    if (!staged_fits(plan, type, channels, inner))
        plan.stages = 2;
    return staged_fits(plan, type, channels, inner) ? plan : StagedPlan{0, 0, 0};
}

namespace
{

template <int FEW, class T>
cudaError_t launch_staged_images(StagedPlan const& plan, StagedImages const& g, T const* x, Scalars weight, T* y,
    size_t shared, Norm norm, unsigned* tickets, cudaStream_t on)
{
    if constexpr (FEW + 1 < kStagedAtOnce)
        if (g.channels < kStagedAtOnce && g.channels > std::max(FEW, 1))
            return launch_staged_images<std::max(FEW + 1, 2), T>(plan, g, x, weight, y, shared, norm, tickets, on);
    auto const go = [&](auto* kernel) {
        return launch_resident(
            kernel, 1, plan.threads + kStagedMover, shared, g.items, on, x, weight, y, g, norm, tickets);
    };
    constexpr int PER = FEW > 0 ? 4 / sizeof(T) : 1; // words, where every row begins with one
    return g.inner % PER == 0 ? go(l2norm_few_channels_kernel<T, FEW, PER>) : go(l2norm_few_channels_kernel<T, FEW, 1>);
}

} // namespace

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
        return launch_staged_images<0, T>(plan, g, static_cast<T const*>(x), weight, static_cast<T*>(y),
            staged_bytes(plan, type, channels, inner), norm, tickets, on);
    });
}

} // namespace surgeon
