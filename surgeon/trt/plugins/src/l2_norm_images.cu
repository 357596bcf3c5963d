#include "launch.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace surgeon
{

namespace
{

ImageShares image_shares(ImagesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int64_t const vec = vector_elements(type), common = std::gcd(inner, vec);
    ImageShares g{};
    g.channels = int(channels);
    g.inner = int(inner);
    g.vectors = int(channels * inner / vec);
    g.period = int(inner / common);
    g.period_channels = int(vec / common);
    g.periods = int(ceil_div(ceil_div(int64_t(g.vectors), int64_t(g.period)), int64_t(plan.blocks)));
    g.groups = plan.groups;
    return g;
}

int image_threads(ImageShares const& g)
{
    return ceil_div(g.groups * g.period, 32) * 32 + kImagesMover;
}

int64_t images_bytes(ImageShares const& g, Type type, int blocks)
{
    ImagesMemory const memory(g, vector_elements(type), blocks);
    return int64_t(g.periods) * g.period * kVectorBytes + memory.end * int64_t(sizeof(float));
}

} // namespace

bool images_fit(ImagesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    int64_t const vec = vector_elements(type), most = plan.blocks * most_shared_of_block();
    if (!kStAsync || !device().clusters || inner < vec || channels * inner % vec != 0
        || channels * inner * size_of(type) > most)
        return false;
    ImageShares const g = image_shares(plan, type, channels, inner);
    return image_threads(g) <= kMostImageThreads && ceil_div(g.periods, g.groups) <= kImagesAtOnce * kMostImagePieces
        && images_bytes(g, type, plan.blocks) <= most_shared_of_block();
}

// As of spans; besides, shares that begin or end inside sectors take memory longer, and so do those of floats that
// have a multiprocessor's shared memory to themselves.
double speed_of(ImagesPlan const& plan, Type type, int64_t channels, int64_t inner)
{
    constexpr int kMostFloatThreads = 1024, kMostHalfThreads = 896; // that a multiprocessor has the registers for
    constexpr double kShare = 727, kPiece = 141, kExchange = 375, kColumn = 0.435, kSum = 5.95, kFloats = 6.77,
                     kHalves = 9.08, kMost = 0.975, kCut = 0.9, kBestOfMany = 0.99, kAlone = 0.9;
    if (plan.blocks == 0)
        return 0;
    bool const halves = type != Type::kFloat;
    ImageShares const g = image_shares(plan, type, channels, inner);
    int const threads = image_threads(g), packs = ceil_div(g.periods, g.groups);
    int64_t const block = images_bytes(g, type, plan.blocks) + kReservedOfBlock;
    int64_t const image = channels * inner * size_of(type);
    int64_t const share = int64_t(g.periods) * g.period * kVectorBytes;
    int const resident = int(std::min<int64_t>(
        device().shared_bytes / block, (halves ? kMostHalfThreads : kMostFloatThreads) / threads));
    double const exchange = plan.blocks > 1 ? kExchange * (1 + std::log2(plan.blocks)) : 0;
    double const sums = ceil_div(g.inner, threads - kImagesMover) * g.groups * g.period_channels * kSum;
    double const issued = resident * (kColumn * inner + packs * (threads / 32) * (halves ? kHalves : kFloats));
    bool const cut = image % kSectorBytes != 0 || (plan.blocks > 1 && share % kSectorBytes != 0);
    bool const alone = !halves && 2 * block > device().shared_bytes;
    ShareFlow const flow{double(image) / plan.blocks, resident, 1,
        kShare + kPiece * ceil_div(packs, kImagesAtOnce) + exchange + sums + issued};
    return kBestOfMany * speed_of(flow, kMost * (cut ? kCut : 1)) * (alone ? kAlone : 1);
}

namespace
{

Ranking<ImagesPlan> ranked(Type type, int64_t channels, int64_t inner)
{
    Ranking<ImagesPlan> plans;
    if (!kStAsync || inner < vector_elements(type)
        || channels * inner > kMostBlocksInCluster * device().shared_bytes / size_of(type))
        return plans;
    for (int blocks = 1; blocks <= kMostBlocksInCluster; blocks *= 2)
        for (ImagesPlan plan{blocks, 1}; image_threads(image_shares(plan, type, channels, inner)) <= kMostImageThreads;
             ++plan.groups)
            if (images_fit(plan, type, channels, inner))
                plans.consider(plan, speed_of(plan, type, channels, inner));
    return plans;
}

} // namespace

Ranking<ImagesPlan> const& rank_images(Type type, int64_t channels, int64_t inner)
{
    return planned_once<ranked>(type, channels, inner);
}

cudaError_t launch_l2norm_images(ImagesPlan const& plan, Type type, void const* x, Scalars weight, void* y,
    int64_t outer, int64_t channels, int64_t inner, Norm norm, unsigned* tickets, cudaStream_t on)
{
    if (!images_fit(plan, type, channels, inner) || outer > kMostBlocks)
        return cudaErrorInvalidValue;
    ImageShares g = image_shares(plan, type, channels, inner);
    g.images = unsigned(outer);
    return with_type(type, [&](auto tag) {
        using T = typename decltype(tag)::type;
        return launch_resident(l2norm_images_kernel<T>, plan.blocks, image_threads(g),
            images_bytes(g, type, plan.blocks), outer, on, static_cast<T const*>(x), weight, static_cast<T*>(y), g,
            norm, tickets);
    });
}

} // namespace surgeon
