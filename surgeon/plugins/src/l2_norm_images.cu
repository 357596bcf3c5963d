#include "launch.h"

#include <algorithm>
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

namespace
{

// The groups that keep enough memory and threads of a multiprocessor at work, and few lanes idle, where it holds as
// many blocks as wanted, or one with a whole image.
ImagesPlan best_groups(Type type, int64_t channels, int64_t inner, int blocks, int wanted)
{
    constexpr int kMostThreads = 896, kFewestPacks = 4; // threads that a multiprocessor has the registers for
    constexpr double kEnoughBytes = 110 << 10, kEnoughWorkers = 450, kAlone = 0.3;
    int64_t const shared = device().shared_bytes;
    ImagesPlan best{0, 0};
    double most = 0;
    for (ImagesPlan plan{blocks, 1};; ++plan.groups)
    {
        ImageShares const g = image_shares(plan, type, channels, inner);
        int const threads = image_threads(g), work = g.groups * g.period, packs = ceil_div(g.periods, g.groups);
        if (threads > kMostImageThreads || (g.groups > 1 && packs < kFewestPacks))
            return best;
        if (!images_fit(plan, type, channels, inner))
            continue;
        int64_t const bytes = images_bytes(g, type, blocks) + kReservedOfBlock;
        int const resident = std::min(int(shared / bytes), kMostThreads / threads);
        bool const alone = wanted == 2 && blocks == 1 && bytes > kAlone * shared;
        double const busy = double(g.periods) * g.period / (packs * (threads - kImagesMover));
        double const worth = std::min(resident * double(bytes), kEnoughBytes)
            * std::min(double(resident) * work, kEnoughWorkers) * busy;
        if ((resident >= wanted || alone) && worth > most)
        {
            most = worth;
            best = plan;
        }
    }
}

ImagesPlan new_images_plan(Type type, int64_t channels, int64_t inner)
{
    for (int wanted : {3, 2})
        for (int blocks = 1; blocks <= kMostBlocksInCluster; blocks *= 2)
        {
            ImagesPlan const plan = best_groups(type, channels, inner, blocks, wanted);
            if (plan.blocks > 0)
                return plan;
        }
    return ImagesPlan{0, 0};
}

} // namespace

// The fewest blocks of which a multiprocessor holds three, else two.
ImagesPlan plan_images(Type type, int64_t channels, int64_t inner)
{
    if (!kStAsync || inner < vector_elements(type)
        || channels * inner > kMostBlocksInCluster * device().shared_bytes / size_of(type))
        return ImagesPlan{0, 0};
    return planned_once<new_images_plan>(type, channels, inner);
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
