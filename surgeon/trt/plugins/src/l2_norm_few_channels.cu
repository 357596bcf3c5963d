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

namespace
{

// Of shared memory for a channel of a warp's columns, `pack` neighbours a thread: that of an item's first warps.
double turns_of_columns(Type type, int64_t channels, int64_t inner, int64_t columns, int pack)
{
    constexpr int kWarp = 32, kSome = 8;
    int turns = 0, warps = 0;
    for (int64_t first = 0; first < columns && warps < kSome; first += kWarp * pack, ++warps)
    {
        std::vector<int> words;
        for (int64_t column = first; column < std::min(first + kWarp * pack, columns); column += pack)
            words.push_back(int((column / inner * (channels - 1) * inner + column) * size_of(type) / 4));
        turns += turns_at_banks(words);
    }
    return double(turns) / warps;
}

} // namespace

// Each round of a block's threads, a channel for each, takes the time in which it comes from shared memory, or in which
// the multiprocessor issues all blocks'. Shared memory limits all of them.
double speed_of(StagedPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    constexpr int kMostThreads = 1344; // that a multiprocessor has the registers for
    constexpr double kItem = 963, kFloatWait = 12, kHalfWait = 15.1, kFloats = 1.64, kHalves = 1.82,
                     kTurn = 1.8;
    constexpr double kMost = 0.975, kSoft = 0.004;
    if (plan.images == 0)
        return 0;
    bool const halves = type != Type::kFloat, pairs = halves && channels < kStagedAtOnce && inner % 2 == 0;
    int const threads = plan.threads + kStagedMover;
    int64_t const block = staged_bytes(plan, type, channels, inner) + kReservedOfBlock, columns = plan.images * inner;
    int const resident = int(std::min<int64_t>(device().shared_bytes / block, kMostThreads / threads));
    double const round
        = std::max(halves ? kHalfWait : kFloatWait, resident * (threads / 32) * (halves ? kHalves : kFloats));
    int const pack = pairs ? 2 : 1;
    int64_t const rounds = ceil_div(columns, int64_t(plan.threads * pack)) * channels,
                  of_warps = ceil_div(columns, int64_t(32 * pack)) * channels;
    double const bytes = double(columns * channels * size_of(type)),
                 memory = double(of_warps) * turns_of_columns(type, channels, inner, columns, pack) * kTurn;
    return least(speed_of(ShareFlow{bytes, resident, plan.stages, kItem + rounds * round}, kMost),
        bytes / memory / kBytesOfNs, kSoft);
}

namespace
{

// Items of some KiB, or an image each, by so many threads that few have no column.
Ranking<StagedPlan> ranked(Type type, int64_t channels, int64_t inner)
{
    Ranking<StagedPlan> plans;
    if (channels * inner > device().shared_bytes / int64_t(size_of(type)))
        return plans;
    constexpr int64_t kItems[] = {16 << 10, 24 << 10, 32 << 10};
    for (int64_t const item : kItems)
        for (int const threads : {288, 512, kMostStagedImageThreads - kStagedMover})
            for (int stages = 2; stages <= kMostStages; ++stages)
            {
                int64_t const images = std::max(item / (channels * inner * int64_t(size_of(type))), int64_t(1));
                int64_t const columns = images * inner, rounds = ceil_div(columns, int64_t(threads));
                StagedPlan const plan{
                    int(images), stages, int(ceil_div(ceil_div(columns, rounds), int64_t(32)) * 32)};
                if (staged_fits(plan, type, channels, inner))
                    plans.consider(plan, speed_of(plan, type, channels, inner));
            }
    return plans;
}

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

Ranking<StagedPlan> const& rank_staged(Type type, int64_t channels, int64_t inner)
{
    return planned_once<ranked>(type, channels, inner);
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
        return launch_staged_images<0, T>(plan, g, static_cast<T const*>(x), weight, static_cast<T*>(y),
            staged_bytes(plan, type, channels, inner), norm, tickets, on);
    });
}

} // namespace surgeon
